/* Virtual time: who goes on next, and when. */
#include "comm/virtual.h"

#include <errno.h>
#include <stdlib.h>

/* ---- the heap of those that are due: by time, then by lot ---- */

static bool is_before(const ronde__virtual_task *a, const ronde__virtual_task *b) {
  if (a->due_ns != b->due_ns) return a->due_ns < b->due_ns;
  return a->draw != b->draw ? a->draw < b->draw : a->number < b->number;
}

static void put(ronde__virtual *s, int place, ronde__virtual_task *task) {
  s->heap[place] = task;
  task->place = place;
}

static void rise(ronde__virtual *s, ronde__virtual_task *task) {
  int place = task->place;
  for (; place > 0 && is_before(task, s->heap[(place - 1) / 2]); place = (place - 1) / 2)
    put(s, place, s->heap[(place - 1) / 2]);
  put(s, place, task);
}

static void sink(ronde__virtual *s, ronde__virtual_task *task) {
  int place = task->place;
  for (int child; (child = 2 * place + 1) < s->n_due; place = child) {
    if (child + 1 < s->n_due && is_before(s->heap[child + 1], s->heap[child])) child++;
    if (!is_before(s->heap[child], task)) break;
    put(s, place, s->heap[child]);
  }
  put(s, place, task);
}

static ronde__virtual_task *take_first(ronde__virtual *s) {
  ronde__virtual_task *first = s->heap[0], *last = s->heap[--s->n_due];
  if (last != first) {
    last->place = 0;
    sink(s, last);
  }
  first->place = -1;
  return first;
}

static uint64_t draw(ronde__virtual *s) {
  uint64_t high = ronde__rng_u32(&s->draws);
  return high << 32 | ronde__rng_u32(&s->draws);
}

static bool pauses(const ronde__virtual_rank *rank) { return rank->stops_ns && rank->goes_on_ns < UINT64_MAX; }

void ronde__virtual_wake(ronde__virtual_task *task, uint64_t due_ns) {
  ronde__virtual *s = task->rank->virtual;
  const ronde__virtual_rank *rank = task->rank;
  if (due_ns < s->now_ns) due_ns = s->now_ns;
  if (pauses(rank) && due_ns >= rank->stops_ns && due_ns < rank->goes_on_ns) due_ns = rank->goes_on_ns;
  if (task->place >= 0 && due_ns >= task->due_ns) return;
  task->due_ns = due_ns;
  task->draw = draw(s);
  if (task->place < 0) task->place = s->n_due++;
  rise(s, task);
}

void ronde__virtual_note(ronde__virtual *s, uint64_t what, uint64_t value) {
  uint64_t words[] = {s->now_ns, what, value};
  for (size_t i = 0; i < RONDE__COUNT(words); i++) {
    s->digest = (s->digest ^ words[i]) * 0x9e3779b97f4a7c15u;
    s->digest ^= s->digest >> 29;
  }
  s->n_events++;
}

/* ---- the baton ---- */

/* Makes those due whose limit comes before anything else happens. */
static void look_at_limits(ronde__virtual *s) {
  if (s->n_due == 0 || s->heap[0]->due_ns <= s->soonest_limit_ns) return;
  ronde__virtual_task *soonest = NULL;
  s->soonest_limit_ns = UINT64_MAX;
  for (ronde__virtual_task *t = s->tasks; t; t = t->next) {
    if (!t->waits || !t->limit_ns || t->limit_ns >= s->soonest_limit_ns) continue;
    s->soonest_limit_ns = t->limit_ns;
    soonest = t;
  }
  if (soonest && soonest->limit_ns < s->heap[0]->due_ns) ronde__virtual_wake(soonest, soonest->limit_ns);
}

/* Time goes on to where somebody is due. NULL: it never will, as the owner has said. */
static ronde__virtual_task *choose(ronde__virtual *s) {
  if (s->n_due == 0) s->stuck(s, s->user);
  if (s->n_due == 0) return NULL;
  look_at_limits(s);
  ronde__virtual_task *next = take_first(s);
  s->now_ns = next->due_ns;
  ronde__virtual_note(s, (uint64_t)next->number, 0);
  return next;
}

static void await_turn(ronde__virtual_task *me) {
  for (;;) {
    uint32_t seen = ronde__event_count(&me->baton);
    if (atomic_exchange(&me->turn, false)) return;
    ronde__event_block(&me->baton, seen, 0);
  }
}

static void hand_over(ronde__virtual *s) {
  ronde__virtual_task *next = choose(s);
  if (!next) return;
  s->current = next;
  atomic_store(&next->turn, true);
  ronde__event_signal(&next->baton);
}

static void yield(ronde__virtual *s) {
  ronde__virtual_task *me = s->current;
  me->waits = true;
  hand_over(s);
  await_turn(me);
  me->waits = false;
  me->event = NULL;
  me->joined = NULL;
  me->subject = NULL;
  me->limit_ns = 0;
}

bool ronde__virtual_wait(ronde__virtual *s, const void *subject, uint64_t limit_ns) {
  if (limit_ns && s->now_ns >= limit_ns) return false;
  s->current->subject = subject;
  s->current->limit_ns = limit_ns;
  if (limit_ns && limit_ns < s->soonest_limit_ns) s->soonest_limit_ns = limit_ns;
  yield(s);
  return !limit_ns || s->now_ns < limit_ns;
}

/* ---- the time of a rank ---- */

static ronde__virtual *virtual_of(ronde__time *time) { return ((ronde__virtual_rank *)time)->virtual; }

static uint64_t virtual_now(ronde__time *time) { return virtual_of(time)->now_ns; }

static void virtual_sleep(ronde__time *time, uint64_t ns) {
  ronde__virtual *s = virtual_of(time);
  const ronde__virtual_rank *rank = (ronde__virtual_rank *)time;
  uint64_t due_ns = s->now_ns + ns;
  bool within = pauses(rank) && s->now_ns < rank->stops_ns && due_ns > rank->stops_ns;
  if (within) due_ns += rank->goes_on_ns - rank->stops_ns; /* what is left of it */
  ronde__virtual_wake(s->current, due_ns);
  yield(s);
}

static void virtual_signal(ronde__time *time, ronde__event *event) {
  ronde__virtual *s = virtual_of(time);
  atomic_fetch_add(&event->count, 1);
  if (!atomic_load(&event->n_sleepers)) return;
  for (ronde__virtual_task *t = ((ronde__virtual_rank *)time)->tasks; t; t = t->next_of_rank)
    if (t->event == event) ronde__virtual_wake(t, s->now_ns);
}

static bool virtual_wait(ronde__time *time, ronde__event *event, uint32_t seen, uint64_t deadline_ns) {
  ronde__virtual *s = virtual_of(time);
  if (ronde__event_count(event) != seen) return true;
  if (deadline_ns && deadline_ns <= s->now_ns) return false;
  if (deadline_ns) ronde__virtual_wake(s->current, deadline_ns);
  s->current->event = event;
  atomic_fetch_add(&event->n_sleepers, 1);
  yield(s);
  atomic_fetch_sub(&event->n_sleepers, 1);
  return ronde__event_count(event) != seen;
}

static void *virtual_task_main(void *arg) {
  ronde__virtual_task *me = arg;
  ronde__virtual *s = me->rank->virtual;
  await_turn(me);
  me->waits = false;
  me->task->run(me->task->arg);
  me->ended = true;
  if (me->joiner) ronde__virtual_wake(me->joiner, s->now_ns);
  hand_over(s);
  return NULL;
}

static ronde__virtual_task *add_task(ronde__virtual *s, ronde__virtual_rank *rank, ronde__task *task) {
  if (s->n_tasks == s->capacity) {
    int capacity = 2 * s->capacity + 16;
    ronde__virtual_task **heap = realloc(s->heap, (size_t)capacity * sizeof(ronde__virtual_task *));
    if (!heap) return NULL;
    s->heap = heap;
    s->capacity = capacity;
  }
  ronde__virtual_task *t = ronde__alloc(sizeof *t);
  if (!t) return NULL;
  t->rank = rank;
  t->task = task;
  t->number = s->n_made++;
  t->place = -1;
  t->next = s->tasks;
  s->tasks = t;
  t->next_of_rank = rank->tasks;
  rank->tasks = t;
  s->n_tasks++;
  return t;
}

static void remove_task(ronde__virtual *s, ronde__virtual_task *task) {
  ronde__virtual_task **link = &s->tasks, **of_rank = &task->rank->tasks;
  while (*link != task) link = &(*link)->next;
  *link = task->next;
  while (*of_rank != task) of_rank = &(*of_rank)->next_of_rank;
  *of_rank = task->next_of_rank;
  s->n_tasks--;
  task->next = s->joined;
  s->joined = task;
}

static int virtual_start(ronde__time *time, ronde__task *task) {
  ronde__virtual *s = virtual_of(time);
  ronde__virtual_task *t = add_task(s, (ronde__virtual_rank *)time, task);
  if (!t) return ENOMEM;
  t->waits = true;
  task->impl = t;
  int error = pthread_create(&t->thread, NULL, virtual_task_main, t);
  if (error) remove_task(s, t);
  else ronde__virtual_wake(t, s->now_ns);
  return error;
}

static void virtual_join(ronde__time *time, ronde__task *task) {
  ronde__virtual *s = virtual_of(time);
  ronde__virtual_task *t = task->impl;
  while (!t->ended) {
    t->joiner = s->current;
    s->current->joined = t;
    yield(s);
  }
  pthread_join(t->thread, NULL);
  remove_task(s, t);
}

static const ronde__time_ops virtual_ops = {.now_ns = virtual_now,
                                            .sleep = virtual_sleep,
                                            .signal = virtual_signal,
                                            .wait = virtual_wait,
                                            .start = virtual_start,
                                            .join = virtual_join};

/* ---- life ---- */

ronde_status ronde__virtual_begin(ronde__virtual *s, uint64_t seed, ronde__virtual_rank *ranks, int n) {
  s->now_ns = RONDE__VIRTUAL_BEGIN_NS;
  s->soonest_limit_ns = UINT64_MAX;
  s->draws = ronde__rng_make(seed, RONDE__STREAM_VIRTUAL);
  for (int r = 0; r < n; r++) ranks[r] = (ronde__virtual_rank){.head = {&virtual_ops}, .virtual = s, .rank = r};
  s->current = add_task(s, &ranks[0], NULL);
  return s->current ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "virtual time: no memory for a task");
}

void ronde__virtual_end(ronde__virtual *s) {
  while (s->tasks) remove_task(s, s->tasks);
  for (ronde__virtual_task *t = s->joined, *next; t; t = next) {
    next = t->next;
    ronde__free(t);
  }
  s->joined = NULL;
  free(s->heap);
  s->heap = NULL;
}
