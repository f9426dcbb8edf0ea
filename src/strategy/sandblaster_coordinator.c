/* The coordinator of Sandblaster L-BFGS: runs L-BFGS over commands to the servers, and hands out portions of the batch. */
#include "strategy/lbfgs_steps.h"
#include "strategy/sandblaster.h"

typedef ronde__sandblaster_command command;

/* A portion of the present evaluation. */
typedef struct portion {
  bool is_done;
  int n_given, given_to; /* given_to: the first of them; once it is done, whose answer counts */
} portion;

/* A worker. */
typedef struct client {
  bool is_busy; /* with a portion, maybe of an evaluation that is over; a word of it is awaited */
  ronde__sandblaster_word word;
  ronde__sandblaster_order order;
  ronde__sandblaster_outcome outcome;
  int64_t own_examples;
} client;

typedef struct coordinator {
  ronde__service_options o;
  ronde__transport *group;
  const ronde__member *servers;
  int n_workers, n_servers;
  ronde__prof *prof;
  int slot;
  size_t n; /* elements of the vectors */
  ronde__lbfgs *lbfgs;
  ronde__vectors vectors;
  ronde__sandblaster_program program; /* that the servers have not got yet */
  int64_t version, evaluation;
  /* Of the present step and evaluation. */
  int64_t batch, size; /* examples of a batch, and of a portion */
  const ronde__step *step;
  bool begins; /* the next evaluation is the step's first */
  portion *portions;
  ronde__local_result *found; /* [n_portions] of each: room for n_room */
  int64_t n_portions, n_room, n_given, n_answered,
      n_done;                 /* n_answered: portions in front of the first without answer */
  ronde__vector_norms *parts; /* of all servers, one behind the other */
  client *clients;            /* [workers] */
  ronde__request *requests;   /* [n_requests], which is all of the following: */
  ronde__request *words;      /* [workers], */
  ronde__request *orders;     /* [workers][2], */
  ronde__request *asked;      /* [servers] */
  int n_requests;
  ronde__sandblaster_counts counts;
} coordinator;

static uint32_t tag_of(uint32_t tag) { return RONDE__SANDBLASTER_TAG(tag); }

/* Of servers, which work while it waits. */
static ronde_status wait_for_servers(coordinator *s) {
  return s->group->ops->wait(s->group, s->asked, s->n_servers, s->group->timeout_ns);
}

/* ---- L-BFGS by commands -------------------------------------------------------------------------------------------- */

static ronde_status flush(coordinator *s) {
  for (int i = 0; i < s->n_servers; i++)
    RONDE_TRY(s->group->ops->isend(s->group, s->servers[i].rank, tag_of(RONDE__SANDBLASTER_PROGRAM), &s->program,
                                   sizeof s->program, &s->asked[i]));
  RONDE_TRY(wait_for_servers(s));
  s->program.n = 0;
  return RONDE_OK;
}

static ronde_status add_command(coordinator *s, command c) {
  if (s->program.n == RONDE__SANDBLASTER_COMMANDS) RONDE_TRY(flush(s));
  s->program.at[s->program.n++] = c;
  return RONDE_OK;
}

/* Until all servers have answered: their parts. */
static ronde_status ask(coordinator *s, command c) {
  ronde__vector_norms *at = s->parts;
  RONDE_TRY(add_command(s, c));
  RONDE_TRY(flush(s));
  for (int i = 0; i < s->n_servers; i++) {
    size_t n = ronde__sandblaster_parts(s->n, i, s->n_servers);
    RONDE_TRY(s->group->ops->irecv(s->group, s->servers[i].rank, tag_of(RONDE__SANDBLASTER_ANSWER), at, n * sizeof *at,
                                   &s->asked[i]));
    at += n;
  }
  s->counts.questions++;
  return wait_for_servers(s);
}

/* In the order of pieces; a server without any has nothing to say. */
static ronde__vector_norms join_parts(const coordinator *s) {
  ronde__vector_norms all = {0};
  const ronde__vector_norms *part = s->parts;
  for (int i = 0; i < s->n_servers; i++) {
    size_t n = ronde__sandblaster_parts(s->n, i, s->n_servers);
    bool any = ronde__sandblaster_shard(s->n, i, s->n_servers).n > 0;
    for (size_t k = 0; k < n && any; k++) {
      all.sum_abs += part[k].sum_abs;
      if (!(part[k].max_abs <= all.max_abs)) all.max_abs = part[k].max_abs;
    }
    part += n;
  }
  return all;
}

static void note_change(coordinator *s, int vector) { s->version += vector == RONDE__LBFGS_WEIGHTS; }

static ronde_status vector_copy(void *user, int to, int from) {
  note_change(user, to);
  return add_command(user, (command){RONDE__SANDBLASTER_COPY, to, from, 0});
}

static ronde_status vector_scale(void *user, int x, double factor) {
  note_change(user, x);
  return add_command(user, (command){RONDE__SANDBLASTER_SCALE, x, x, factor});
}

static ronde_status vector_add(void *user, int y, double factor, int x) {
  note_change(user, y);
  return add_command(user, (command){RONDE__SANDBLASTER_ADD, y, x, factor});
}

static ronde_status vector_dot(void *user, int x, int y, double *dot_out) {
  RONDE_TRY(ask(user, (command){RONDE__SANDBLASTER_DOT, x, y, 0}));
  *dot_out = join_parts(user).sum_abs;
  return RONDE_OK;
}

static ronde_status vector_norms(void *user, int x, ronde__vector_norms *norms_out) {
  RONDE_TRY(ask(user, (command){RONDE__SANDBLASTER_NORMS, x, x, 0}));
  *norms_out = join_parts(user);
  return RONDE_OK;
}

/* ---- orders -------------------------------------------------------------------------------------------------------- */

/* The last order to a worker has arrived before the next one is written. */
static ronde_status send_order(coordinator *s, int w, ronde__sandblaster_order order) {
  client *c = &s->clients[w];
  ronde__request *requests = s->orders + 2 * w;
  RONDE_TRY(s->group->ops->wait(s->group, requests, 2, s->group->timeout_ns));
  c->order = order;
  RONDE_TRY(s->group->ops->isend(s->group, w, tag_of(RONDE__SANDBLASTER_ORDER), &c->order, sizeof c->order, requests));
  if (order.kind != RONDE__SANDBLASTER_OVER) return RONDE_OK;
  return s->group->ops->isend(s->group, w, tag_of(RONDE__SANDBLASTER_OUTCOME), &c->outcome, sizeof c->outcome,
                              requests + 1);
}

static ronde_status await_word(coordinator *s, int w) {
  client *c = &s->clients[w];
  return s->group->ops->irecv(s->group, w, tag_of(RONDE__SANDBLASTER_WORD), &c->word, sizeof c->word, &s->words[w]);
}

/* The next portion for a worker, or -1: there is none. */
static int64_t choose(coordinator *s, int w) {
  int window = ronde__sandblaster_window(s->n_workers);
  if (s->n_given < s->n_portions && s->n_given < s->n_answered + window) {
    s->portions[s->n_given] = (portion){.n_given = 1, .given_to = w};
    return s->n_given++;
  }
  for (int64_t i = s->n_answered; i < s->n_given; i++) {
    portion *p = &s->portions[i];
    if (p->is_done || p->n_given > 1 || p->given_to == w) continue;
    p->n_given++;
    s->counts.given_twice++;
    return i;
  }
  return -1;
}

/* Whoever is told nothing waits. pushes: what it has answered counts. */
static ronde_status give(coordinator *s, int w, bool pushes) {
  int64_t next = choose(s, w);
  client *c = &s->clients[w];
  c->is_busy = next >= 0;
  if (next < 0 && !pushes) return RONDE_OK;
  RONDE_TRY(send_order(s, w,
                       (ronde__sandblaster_order){next < 0 ? RONDE__SANDBLASTER_WAIT : RONDE__SANDBLASTER_PORTION,
                                                  pushes, s->evaluation, next, s->version}));
  return c->is_busy ? await_word(s, w) : RONDE_OK;
}

/* ---- an evaluation ------------------------------------------------------------------------------------------------- */

static int64_t examples_of(const coordinator *s, int64_t i) {
  return ronde__sandblaster_portion_at(s->batch, s->size, s->step->examples, i).n;
}

/* A worker has done a portion, maybe of an evaluation that is over. */
static ronde_status take_answer(coordinator *s, int w) {
  client *c = &s->clients[w];
  const ronde__sandblaster_word *word = &c->word;
  if (word->kind != RONDE__SANDBLASTER_DONE || word->evaluation != c->order.evaluation ||
      word->portion != c->order.portion)
    return ronde__fail(
        RONDE_E_INTERNAL,
        "worker %d answers portion %lld of evaluation %lld; portion %lld of evaluation %lld is its order", w,
        (long long)word->portion, (long long)word->evaluation, (long long)c->order.portion,
        (long long)c->order.evaluation);
  bool counts = word->evaluation == s->evaluation && !s->portions[word->portion].is_done;
  c->is_busy = false;
  if (counts) {
    portion *p = &s->portions[word->portion];
    p->is_done = true;
    p->given_to = w;
    s->found[word->portion] = word->found;
    s->n_done++;
    while (s->n_answered < s->n_portions && s->portions[s->n_answered].is_done) s->n_answered++;
    if (s->begins) c->own_examples += examples_of(s, word->portion);
  } else {
    s->counts.forgotten++;
  }
  return give(s, w, counts);
}

static ronde_status give_to_idle(coordinator *s) {
  for (int w = 0; w < s->n_workers; w++)
    if (!s->clients[w].is_busy) RONDE_TRY(give(s, w, false));
  return RONDE_OK;
}

/* Until one of the busy workers has said something. */
static ronde_status wait_for_words(coordinator *s) {
  ronde__prof_switch(s->prof, RONDE__PHASE_WAIT);
  RONDE_TRY(s->group->ops->wait_some(s->group, s->words, s->n_workers, s->group->timeout_ns));
  ronde__prof_switch(s->prof, RONDE__PHASE_EXCHANGE);
  return RONDE_OK;
}

static bool has_spoken(const coordinator *s, int w) { return s->clients[w].is_busy && !s->words[w].impl; }

static ronde_status evaluate(void *opaque, const ronde__step *step, ronde__step_result *result_out) {
  coordinator *s = opaque;
  ronde__prof_switch(s->prof, RONDE__PHASE_EXCHANGE);
  RONDE_TRY(ask(s, (command){.verb = RONDE__SANDBLASTER_READY}));
  s->evaluation++;
  s->n_given = s->n_answered = s->n_done = 0;
  RONDE_TRY(give_to_idle(s));
  while (s->n_done < s->n_portions) {
    RONDE_TRY(wait_for_words(s));
    for (int w = 0; w < s->n_workers; w++)
      if (has_spoken(s, w)) RONDE_TRY(take_answer(s, w));
    RONDE_TRY(give_to_idle(s));
  }
  s->begins = false;
  *result_out = ronde__local_results_join(s->found, (int)s->n_portions);
  if (result_out->broken_rank >= 0) result_out->broken_rank = s->portions[result_out->broken_rank].given_to;
  return add_command(s, (command){.verb = RONDE__SANDBLASTER_SUM, .x = (int32_t)s->n_portions});
}

/* ---- a step -------------------------------------------------------------------------------------------------------- */

static ronde_status make_portions(coordinator *s, const ronde__step *step) {
  s->n_portions = ronde__sandblaster_portions(s->batch, s->size, step->examples, step->n_batches);
  if (s->n_portions > INT32_MAX)
    return ronde__fail(RONDE_E_USAGE, "--portion %d: a step has too many portions", (int)s->size);
  if (s->n_portions <= s->n_room) return RONDE_OK;
  ronde__free(s->portions);
  ronde__free(s->found);
  s->portions = NULL;
  s->found = NULL;
  s->n_room = 0;
  RONDE__ALLOC(s->portions, (size_t)s->n_portions * sizeof *s->portions, "L-BFGS coordinator");
  RONDE__ALLOC(s->found, (size_t)s->n_portions * sizeof *s->found, "L-BFGS coordinator");
  s->n_room = s->n_portions;
  return RONDE_OK;
}

/* Until all workers have begun a step, or are leaving. */
static ronde_status await_workers(coordinator *s) {
  ronde__prof_switch(s->prof, RONDE__PHASE_WAIT);
  for (int w = 0; w < s->n_workers; w++) RONDE_TRY(await_word(s, w));
  RONDE_TRY(s->group->ops->wait(s->group, s->words, s->n_workers, s->group->timeout_ns));
  ronde__prof_switch(s->prof, RONDE__PHASE_EXCHANGE);
  return RONDE_OK;
}

static ronde_status end_step(coordinator *s, const ronde__step_result *result) {
  RONDE_TRY(ask(s, (command){.verb = RONDE__SANDBLASTER_READY}));
  for (int w = 0; w < s->n_workers; w++)
    s->clients[w].outcome = (ronde__sandblaster_outcome){.loss_sum = result->loss_sum,
                                                         .n_correct = result->n_correct,
                                                         .cancelled = result->cancelled,
                                                         .broken_rank = result->broken_rank,
                                                         .broken_param = result->broken_param,
                                                         .n_evaluations = result->n_evaluations,
                                                         .own_examples = s->clients[w].own_examples,
                                                         .version = s->version,
                                                         .memory = *ronde__lbfgs_memory_of(s->lbfgs)};
  const ronde__sandblaster_order over = {.kind = RONDE__SANDBLASTER_OVER};
  int n_left = 0;
  for (int w = 0; w < s->n_workers; w++) {
    n_left += s->clients[w].is_busy;
    if (!s->clients[w].is_busy) RONDE_TRY(send_order(s, w, over));
  }
  while (n_left > 0) {
    RONDE_TRY(wait_for_words(s));
    for (int w = 0; w < s->n_workers; w++) {
      if (!has_spoken(s, w)) continue;
      s->clients[w].is_busy = false;
      s->counts.forgotten++;
      n_left--;
      RONDE_TRY(send_order(s, w, over));
    }
  }
  return RONDE_OK;
}

static ronde_status one_step(coordinator *s) {
  const ronde__sandblaster_word *word = &s->clients[0].word;
  ronde__step step = {
      .step = word->step, .examples = word->examples, .n_batches = (int)word->n_batches, .lr = word->lr};
  ronde__step_result result;
  ronde__lbfgs_run run = {s->lbfgs, s->prof, s->slot, evaluate, s};
  bool cancelled = false;
  for (int w = 0; w < s->n_workers; w++) {
    cancelled |= s->clients[w].word.cancel != 0;
    s->clients[w].own_examples = 0;
  }
  s->step = &step;
  s->begins = true;
  RONDE_TRY(make_portions(s, &step));
  RONDE_TRY(ronde__lbfgs_run_step(&run, &step, &result));
  result.cancelled |= cancelled;
  return end_step(s, &result);
}

/* ---- the role ------------------------------------------------------------------------------------------------------ */

static ronde_status set_up(coordinator *s) {
  ronde__sandblaster_plan plan;
  size_t n_parts = 0;
  ronde__lbfgs_options options = ronde__lbfgs_options_of(s->o.settings->options);
  RONDE_TRY(s->group->ops->irecv(s->group, 0, tag_of(RONDE__SANDBLASTER_PLAN), &plan, sizeof plan, s->words));
  RONDE_TRY(s->group->ops->wait(s->group, s->words, 1, s->group->timeout_ns));
  s->n = (size_t)plan.n;
  for (int i = 0; i < s->n_servers; i++) n_parts += ronde__sandblaster_parts(s->n, i, s->n_servers);
  RONDE__ALLOC(s->parts, n_parts * sizeof *s->parts, "L-BFGS coordinator");
  s->vectors = (ronde__vectors){vector_copy, vector_scale, vector_add, vector_dot, vector_norms, s};
  return ronde__lbfgs_create(&options, &s->vectors, &plan.memory, &s->lbfgs);
}

static ronde_status coordinate(coordinator *s) {
  ronde__prof_switch(s->prof, RONDE__PHASE_WAIT);
  RONDE_TRY(set_up(s));
  for (;;) {
    RONDE_TRY(await_workers(s));
    if (s->clients[0].word.kind == RONDE__SANDBLASTER_LEAVING) break;
    RONDE_TRY(one_step(s));
  }
  RONDE_TRY(add_command(s, (command){.verb = RONDE__SANDBLASTER_END}));
  RONDE_TRY(flush(s));
  RONDE_TRY(s->group->ops->wait(s->group, s->orders, 2 * s->n_workers, s->group->timeout_ns));
  ronde__prof_switch(s->prof, RONDE__PHASE_OTHER);
  return RONDE_OK;
}

static ronde_status run(void *opaque) {
  coordinator *s = opaque;
  ronde_status status = coordinate(s);
  if (status == RONDE_OK) return status;
  s->group->ops->abort(s->group);
  s->group->ops->cancel(s->group, s->requests, s->n_requests);
  return status;
}

static void destroy(void *opaque) {
  coordinator *s = opaque;
  if (!s) return;
  ronde__lbfgs_destroy(s->lbfgs);
  ronde__prof_destroy(s->prof);
  ronde__free(s->portions);
  ronde__free(s->found);
  ronde__free(s->parts);
  ronde__free(s->clients);
  ronde__free(s->requests);
  ronde__free(s);
}

static ronde_status make(coordinator *s) {
  const ronde__options *options = s->o.settings->options;
  s->n_workers = s->o.settings->roles->n_workers;
  s->servers = ronde__roles_of(s->o.settings->roles, RONDE__SANDBLASTER_SERVER, &s->n_servers);
  s->batch = options->batch;
  s->size = ronde__sandblaster_portion_size(options, s->batch, s->n_workers);
  RONDE_TRY(ronde__prof_create(s->o.member->rank, s->group->time, false, &s->prof));
  s->slot = ronde__prof_op_slot(s->prof, s->o.optimizer_name, RONDE__PHASE_UPDATE, "commands to servers");
  RONDE__ALLOC(s->clients, (size_t)s->n_workers * sizeof *s->clients, "L-BFGS coordinator");
  s->n_requests = 3 * s->n_workers + s->n_servers;
  RONDE__ALLOC(s->requests, (size_t)s->n_requests * sizeof *s->requests, "L-BFGS coordinator");
  s->words = s->requests;
  s->orders = s->words + s->n_workers;
  s->asked = s->orders + 2 * s->n_workers;
  return RONDE_OK;
}

static ronde_status create(const ronde__service_options *options, void **coordinator_out) {
  coordinator *s;
  RONDE__ALLOC(s, sizeof *s, "L-BFGS coordinator");
  *s = (coordinator){.o = *options, .group = options->settings->group, .version = 1};
  ronde_status status = make(s);
  if (status != RONDE_OK) destroy(s);
  else *coordinator_out = s;
  return status;
}

static ronde__prof *prof(const void *opaque) { return ((const coordinator *)opaque)->prof; }

const ronde__sandblaster_counts *ronde__sandblaster_counts_of(const void *opaque) {
  return &((const coordinator *)opaque)->counts;
}

const ronde__role ronde__sandblaster_coordinator_role = {
    RONDE__SANDBLASTER_COORDINATOR, "coordinator of L-BFGS", create, run, prof, destroy};
