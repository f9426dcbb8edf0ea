/* Ranks in virtual time: what exchanges take is what alpha and beta say, runs repeat to the last event, and who waits for
 * whom is told when nobody can go on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ghost.h"
#include "base/limits.h"
#include "comm/sim.h"
#include "comm/virtual.h"

enum { MOST_RANKS = 1024 };

static char lines[4096];
static void keep_lines(void *user, ronde_log_level level, const char *line) {
  size_t used = strlen(lines);
  snprintf(lines + used, sizeof lines - used, "%s\n", line);
}

typedef struct player player;
struct player {
  ronde__transport *transport;
  void (*play)(player *self);
  const void *what;
  ronde__task task;
  uint64_t end_ns;
  ronde_status status;
};

static void play(void *arg) {
  player *p = arg;
  p->play(p);
  p->end_ns = ronde__time_now(p->transport->time);
}

typedef struct game {
  uint64_t last_ns; /* from the beginning until the last rank had ended */
  ronde__sim_events events;
  ronde_status status; /* the first that is none */
} game;

static game run(const ronde__sim_options *options, void (*each)(player *self), const void *what) {
  static player players[MOST_RANKS];
  ronde__transport *transports[MOST_RANKS];
  game g = {.status = RONDE_OK};
  assert_true(options->n <= MOST_RANKS);
  assert_int_equal(ronde__transport_sim(options, transports), RONDE_OK);
  for (int r = 0; r < options->n; r++) {
    players[r] = (player){.transport = transports[r], .play = each, .what = what};
    players[r].task = (ronde__task){.name = "", .run = play, .arg = &players[r]};
    if (r > 0) assert_int_equal(ronde__task_start(transports[r]->time, &players[r].task), 0);
  }
  play(&players[0]);
  for (int r = 1; r < options->n; r++) ronde__task_join(transports[r]->time, &players[r].task);
  for (int r = 0; r < options->n; r++) {
    g.last_ns = (uint64_t)ronde__max((int64_t)g.last_ns, (int64_t)players[r].end_ns);
    if (g.status == RONDE_OK) g.status = players[r].status;
  }
  g.last_ns -= RONDE__VIRTUAL_BEGIN_NS;
  g.events = ronde__sim_events_of(transports[0]);
  for (int r = 0; r < options->n; r++) ronde__transport_destroy(transports[r]);
  return g;
}

/* ---- all-reduce ---- */

typedef struct vector {
  const char *algorithm;
  size_t n;
} vector;

static void allreduce(player *self) {
  const vector *v = self->what;
  ronde__transport *t = self->transport;
  const ronde__allreduce *algorithm = ronde__allreduce_find(v->algorithm);
  float *x = malloc((v->n + 1) * sizeof *x), *scratch = malloc((algorithm->scratch(t, v->n) + 1) * sizeof *scratch);
  for (size_t i = 0; i < v->n; i++) x[i] = (float)(t->rank + 1);
  const ronde__kernels *kernels;
  assert_int_equal(ronde__kernels_get(&kernels), RONDE_OK);
  self->status = algorithm->run(t, kernels, 1, x, v->n, scratch);
  float sum = (float)(t->size * (t->size + 1) / 2);
  for (size_t i = 0; i < v->n; i++)
    if (self->status == RONDE_OK && x[i] != sum) fail_msg("rank %d: %g instead of %g", t->rank, x[i], sum);
  free(x);
  free(scratch);
}

static const ronde__link_class simple = {1e-6, 1e-9}; /* 1,000 ns + 1 ns a byte */

static void check_takes(const ronde__sim_options *options, const char *algorithm, size_t n, uint64_t ns) {
  vector v = {algorithm, n};
  game g = run(options, allreduce, &v);
  assert_int_equal(g.status, RONDE_OK);
  if (g.last_ns != ns)
    fail_msg("%s of %zu over %d ranks takes %llu ns, not %llu", algorithm, n, options->n, (unsigned long long)g.last_ns,
             (unsigned long long)ns);
}

static uint64_t log2_up(int p) {
  uint64_t log = 0;
  while (1 << log < p) log++;
  return log;
}

static void test_what_it_takes_is_what_alpha_and_beta_say(void **state) {
  static const int worlds[] = {2, 3, 4, 5, 8, 16, 31, 64};
  for (size_t w = 0; w < RONDE__COUNT(worlds); w++) {
    int p = worlds[w];
    ronde__sim_options options = {.n = p, .within = simple, .seed = w};
    size_t n = (size_t)p * 3000;
    uint64_t bytes = 4 * n, share = bytes / (uint64_t)p, alpha = 1000, steps = (uint64_t)p - 1;
    check_takes(&options, "ring", n, 2 * steps * (alpha + share));
    if (p & (p - 1)) continue;
    check_takes(&options, "tree", n, 2 * log2_up(p) * (alpha + bytes));
    check_takes(&options, "halving-doubling", n, 2 * (log2_up(p) * alpha + steps * share));
    check_takes(&options, "halving-doubling", 100, log2_up(p) * (alpha + 400)); /* by doubling */
  }
}

static void test_a_thousand_ranks(void **state) {
  ronde__sim_options options = {.n = MOST_RANKS, .within = simple};
  check_takes(&options, "tree", 1000, 2 * 10 * (1000 + 4000));
  check_takes(&options, "halving-doubling", MOST_RANKS * 10, 2 * (10 * 1000 + 1023 * 40));
}

/* h hosts with k ranks each. Inside, rings of k; between, each of a host's k ranks sends its share round a ring of h, by
 * the port that they share: one after the other, and while one's is under way another's leaves. */
static void test_between_hosts(void **state) {
  static const int cases[][2] = {{2, 2}, {4, 2}, {3, 4}, {8, 8}, {16, 4}, {16, 64}};
  for (size_t i = 0; i < RONDE__COUNT(cases); i++) {
    int h = cases[i][0], k = cases[i][1], host_of[MOST_RANKS];
    for (int r = 0; r < h * k; r++) host_of[r] = r / k;
    ronde__sim_options options = {
        .n = h * k, .host_of = host_of, .within = simple, .between = {20e-6, 8e-9}, .seed = i};
    size_t n = (size_t)(h * k) * 300;
    uint64_t bytes = 4 * n, share = bytes / (uint64_t)k, part = share / (uint64_t)h;
    uint64_t inside = 2 * (uint64_t)(k - 1) * (1000 + share);
    uint64_t rounds = 2 * (uint64_t)(h - 1), lasts = part * 8, together = (uint64_t)k * lasts;
    bool is_idle = 20000 + lasts >= together; /* the port, between two rounds */
    uint64_t between = is_idle ? rounds * (20000 + lasts) + together - lasts : rounds * together + 20000;
    check_takes(&options, "hierarchical", n, inside + between);
  }
}

/* The model by which a collective is chosen says the same of the links that it knows. */
static void test_the_model_agrees(void **state) {
  static const int worlds[] = {2, 3, 4, 7, 8, 32};
  static const char *const names[] = {"ring", "tree", "halving-doubling"};
  for (size_t w = 0; w < RONDE__COUNT(worlds); w++)
    for (size_t a = 0; a < RONDE__COUNT(names); a++) {
      int p = worlds[w];
      if (a == 2 && p & (p - 1)) continue; /* its pairs of unequal stretches are modelled as equal */
      ronde__ranks ranks = {.n = p};
      size_t n = (size_t)p * 2000;
      ronde__sim_options options = {.n = p, .within = ronde__within_host};
      check_takes(&options, names[a], n, (uint64_t)(ronde__allreduce_find(names[a])->seconds(&ranks, n) * 1e9 + 0.5));
    }
}

static ronde__link_class slow_last(const void *user, int from, int to) {
  int last = *(const int *)user - 1;
  return from == last || to == last ? (ronde__link_class){1e-6, 3e-9} : simple;
}

static void test_each_link_may_be_another(void **state) {
  int p = 4;
  ronde__sim_options options = {.n = p, .link = slow_last, .user = &p};
  /* The second last one's port is never idle, and what it sends goes on by another slow link. */
  check_takes(&options, "ring", 4000, 6 * 3 * 4000 + 2 * 1000);
}

/* ---- order ---- */

typedef struct late_senders {
  int order[MOST_RANKS], n;
} late_senders;

/* All send to rank 0 at the same time. */
static void crowd(player *self) {
  late_senders *seen = (late_senders *)self->what;
  ronde__transport *t = self->transport;
  int number = t->rank;
  if (t->rank > 0) {
    seen->order[seen->n++] = number;
    self->status = ronde__transport_send(t, 0, 7, &number, sizeof number);
    return;
  }
  for (int r = 1; r < t->size; r++) {
    ronde_status status = ronde__transport_receive(t, r, 7, &number, sizeof number);
    if (status != RONDE_OK) self->status = status;
    assert_int_equal(number, r);
  }
}

static void test_two_runs_have_the_same_events_and_seeds_differ(void **state) {
  vector v = {"halving-doubling", 5000};
  ronde__sim_options options = {.n = 13, .within = simple, .seed = 5};
  game a = run(&options, allreduce, &v), b = run(&options, allreduce, &v);
  assert_true(a.events.n > 100);
  assert_true(a.events.n == b.events.n && a.events.digest == b.events.digest && a.last_ns == b.last_ns);
  bool any = false;
  late_senders first = {.n = 0};
  run(&options, crowd, &first);
  assert_int_equal(first.n, 12);
  for (options.seed = 6; options.seed < 12; options.seed++) {
    late_senders other = {.n = 0};
    run(&options, crowd, &other);
    any |= memcmp(first.order, other.order, sizeof first.order) != 0;
  }
  assert_true(any);
}

/* ---- sleep, tasks, limits ---- */

typedef struct notes {
  ronde__guard guard;
  ronde__event changed;
  int n;
  uint64_t at_ns[8];
} notes;

typedef struct clerk {
  ronde__time *time;
  notes *notes;
} clerk;

static void write_notes(void *arg) {
  clerk *c = arg;
  for (int i = 0; i < 3; i++) {
    ronde__time_sleep(c->time, 100);
    ronde__guard_enter(&c->notes->guard);
    c->notes->at_ns[c->notes->n++] = ronde__time_now(c->time);
    ronde__guard_leave(&c->notes->guard);
    ronde__time_signal(c->time, &c->notes->changed);
  }
}

static void with_a_clerk(player *self) {
  ronde__time *time = self->transport->time;
  notes notes = {.n = 0};
  clerk clerk = {time, &notes};
  ronde__task task = {.name = "clerk", .run = write_notes, .arg = &clerk};
  uint64_t begin = ronde__time_now(time);
  ronde__guard_init(&notes.guard);
  assert_int_equal(ronde__task_start(time, &task), 0);
  ronde__guard_enter(&notes.guard);
  while (notes.n < 2) assert_true(ronde__guard_wait(&notes.guard, time, &notes.changed, RONDE__WAIT_BRIEF, 0));
  assert_true(ronde__time_now(time) == begin + 200);
  assert_false(ronde__guard_wait(&notes.guard, time, &notes.changed, RONDE__WAIT_LONG, begin + 250));
  assert_true(ronde__time_now(time) == begin + 250);
  ronde__guard_leave(&notes.guard);
  ronde__task_join(time, &task);
  assert_true(ronde__time_now(time) == begin + 300);
  for (int i = 0; i < 3; i++) assert_true(notes.at_ns[i] == begin + 100 * (uint64_t)(i + 1));
  ronde__guard_destroy(&notes.guard);
}

static void test_tasks_and_events(void **state) {
  ronde__sim_options options = {.n = 3, .within = simple};
  assert_true(run(&options, with_a_clerk, NULL).last_ns == 300);
}

/* Rank 1 sends late, rank 0 waits for so long and no longer. */
static void be_late(player *self) {
  ronde__transport *t = self->transport;
  ronde__request request;
  int word = 3;
  if (t->rank == 1) {
    ronde__time_sleep(t->time, 5000000);
    self->status = ronde__transport_send(t, 0, 1, &word, sizeof word);
    return;
  }
  assert_int_equal(t->ops->irecv(t, 1, 1, &word, sizeof word, &request), RONDE_OK);
  self->status = t->ops->wait(t, &request, 1, *(const uint64_t *)self->what);
  if (self->status != RONDE_OK) t->ops->abort(t);
}

static void test_limits_are_of_virtual_time(void **state) {
  ronde__sim_options options = {.n = 2, .within = simple};
  uint64_t limit_ns = 6000000;
  game g = run(&options, be_late, &limit_ns);
  assert_int_equal(g.status, RONDE_OK);
  assert_true(g.last_ns == 5000000 + 1000 + 4);
  limit_ns = 4000000;
  lines[0] = 0;
  ronde_log_set(keep_lines, NULL);
  g = run(&options, be_late, &limit_ns);
  ronde_log_set(NULL, NULL);
  assert_int_equal(g.status, RONDE_E_LOST);
  assert_string_equal(lines, "no message has arrived for 0.004 s of virtual time\n");
}

/* ---- nobody can go on ---- */

static void wait_in_a_circle(player *self) {
  ronde__transport *t = self->transport;
  int word;
  ronde__time_sleep(t->time, 2500);
  self->status = ronde__transport_receive(t, (t->rank + 1) % t->size, 9, &word, sizeof word);
}

static void wait_for_who_has_ended(player *self) {
  int word;
  if (self->transport->rank == 0) self->status = ronde__transport_receive(self->transport, 1, 9, &word, sizeof word);
}

static bool has(const char *what) { return strstr(lines, what) != NULL; }

static void test_a_deadlock_is_named_at_once(void **state) {
  ronde__sim_options options = {.n = 3, .within = simple};
  lines[0] = 0;
  ronde_log_set(keep_lines, NULL);
  game g = run(&options, wait_in_a_circle, NULL);
  ronde_log_set(NULL, NULL);
  assert_int_equal(g.status, RONDE_E_LOST);
  assert_true(g.last_ns == 2500); /* no limit had to pass */
  assert_true(has("deadlock at 0.000002500 s of virtual time: ") && has("rank 0 waits for rank 1 (tag 0x9)") &&
              has("rank 1 waits for rank 2 (tag 0x9)") && has("rank 2 waits for rank 0 (tag 0x9)"));
  options.n = 2;
  lines[0] = 0;
  ronde_log_set(keep_lines, NULL);
  g = run(&options, wait_for_who_has_ended, NULL);
  ronde_log_set(NULL, NULL);
  assert_int_equal(g.status, RONDE_E_LOST);
  assert_string_equal(lines, "deadlock at 0.000000000 s of virtual time: rank 0 waits for rank 1 (tag 0x9)\n");
}

/* ---- messages ---- */

/* Sent before they are awaited, of another length, from who has gone. */
static void exchange_oddly(player *self) {
  ronde__transport *t = self->transport;
  ronde__request requests[3];
  int words[3] = {1, 2, 3};
  if (t->rank == 0) {
    for (uint32_t i = 0; i < 3; i++)
      assert_int_equal(t->ops->isend(t, 1, i, &words[i], sizeof words[i], &requests[i]), RONDE_OK);
    self->status = t->ops->wait(t, requests, 3, t->timeout_ns);
    assert_true(t->bytes_sent == 12 && t->messages == 3);
    memset(words, 0, sizeof words); /* they have left */
    return;
  }
  ronde__time_sleep(t->time, 10000);
  for (uint32_t i = 3; i-- > 0;) {
    words[i] = 0;
    assert_int_equal(ronde__transport_receive(t, 0, i, &words[i], sizeof words[i]), RONDE_OK);
    assert_int_equal(words[i], i + 1);
  }
  assert_int_equal(t->ops->irecv(t, 0, 5, words, sizeof words, &requests[0]), RONDE_OK);
  t->ops->cancel(t, requests, 1);
  assert_null(requests[0].impl);
  self->status = t->ops->isend(t, 2, 0, words, 4, &requests[0]) == RONDE_E_INTERNAL ? RONDE_OK : RONDE_E_INTERNAL;
}

static void test_messages_outlive_their_sends(void **state) {
  ronde__sim_options options = {.n = 2, .within = simple};
  assert_int_equal(run(&options, exchange_oddly, NULL).status, RONDE_OK);
}

/* ---- who stops ---- */

/* A ring of short messages, each behind 100 us of work, until something fails. */
static void circulate(player *self) {
  ronde__transport *t = self->transport;
  for (int i = 0; i < 100 && self->status == RONDE_OK; i++) {
    int word = i;
    ronde__request requests[2] = {{NULL}, {NULL}};
    ronde__time_sleep(t->time, 100000);
    self->status = t->ops->irecv(t, (t->rank + t->size - 1) % t->size, 1, &word, sizeof word, &requests[0]);
    if (self->status == RONDE_OK)
      self->status = t->ops->isend(t, (t->rank + 1) % t->size, 1, &i, sizeof i, &requests[1]);
    if (self->status == RONDE_OK) self->status = t->ops->wait(t, requests, 2, t->timeout_ns);
    else t->ops->cancel(t, requests, 2);
  }
  if (self->status != RONDE_OK) t->ops->abort(t);
}

static game circulate_with(ronde__sim_fault fault) {
  ronde__sim_options options = {.n = 4, .within = simple, .faults = &fault, .n_faults = 1};
  lines[0] = 0;
  ronde_log_set(keep_lines, NULL);
  game g = run(&options, circulate, NULL);
  ronde_log_set(NULL, NULL);
  return g;
}

/* 101,004 ns a round: in the 20th round rank 2 dies, and its neighbour hears of it 1,000 ns later. */
static void test_who_dies_is_named_by_who_waits_for_it(void **state) {
  game g = circulate_with((ronde__sim_fault){2, 2000000, UINT64_MAX});
  assert_int_equal(g.status, RONDE_E_LOST);
  assert_string_equal(lines, "rank 2 has left while a message was under way (tag 0x1)\n");
  assert_true(g.last_ns >= 2001000 && g.last_ns < 2000000 + 2 * 101004); /* the others end with the step they are in */
}

static void test_who_pauses_is_waited_for_until_it_is_lost(void **state) {
  game without = circulate_with((ronde__sim_fault){2, 3600000000000, 1}), g;
  assert_int_equal(without.status, RONDE_OK);
  g = circulate_with((ronde__sim_fault){2, 2000000, 5000000});
  assert_int_equal(g.status, RONDE_OK);
  assert_true(g.last_ns == without.last_ns + 5000000);
  g = circulate_with((ronde__sim_fault){2, 2000000, (RONDE__LOST_AFTER_S + 1) * 1000000000ull});
  assert_int_equal(g.status, RONDE_E_LOST);
  assert_string_equal(lines, "nothing heard from rank 2 for 60 s\n");
}

/* ---- lengths alone ---- */

static void send_a_ghost(player *self) {
  ronde__transport *t = self->transport;
  enum { N = 1000 };
  float *ghost = ronde__ghost_map(N * sizeof *ghost), real[N] = {0};
  assert_true(ronde__is_ghost(ghost) && !ronde__is_ghost(real));
  real[7] = 3;
  if (t->rank == 0) self->status = ronde__transport_send(t, 1, 1, ghost, sizeof real);
  else self->status = ronde__transport_receive(t, 0, 1, real, sizeof real);
  assert_true(real[7] == 3);
}

static void test_what_has_no_content_takes_its_time(void **state) {
  ronde__sim_options options = {.n = 2, .within = simple};
  game g = run(&options, send_a_ghost, NULL);
  assert_int_equal(g.status, RONDE_OK);
  assert_true(g.last_ns == 1000 + 4000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_it_takes_is_what_alpha_and_beta_say),
      cmocka_unit_test(test_a_thousand_ranks),
      cmocka_unit_test(test_between_hosts),
      cmocka_unit_test(test_the_model_agrees),
      cmocka_unit_test(test_each_link_may_be_another),
      cmocka_unit_test(test_two_runs_have_the_same_events_and_seeds_differ),
      cmocka_unit_test(test_tasks_and_events),
      cmocka_unit_test(test_limits_are_of_virtual_time),
      cmocka_unit_test(test_a_deadlock_is_named_at_once),
      cmocka_unit_test(test_messages_outlive_their_sends),
      cmocka_unit_test(test_who_dies_is_named_by_who_waits_for_it),
      cmocka_unit_test(test_who_pauses_is_waited_for_until_it_is_lost),
      cmocka_unit_test(test_what_has_no_content_takes_its_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
