/* What the strategies with parameter servers share on a worker's side: the messages of a step, the optimizer's state, set-up
 * and end. */
#include "strategy/ps_worker.h"

enum { TAG_WEIGHTS = RONDE__TAG_STRATEGY, CREDITS = RONDE__PS_CREDITS };

typedef ronde__ps_bucket bucket;
typedef ronde__ps_worker state;

ronde_status ronde__ps_wait(ronde__ps_worker *s, ronde__request *requests, int n) {
  return s->group->ops->wait(s->group, requests, n, s->group->timeout_ns);
}

/* ---- jobs of the communication thread ----------------------------------------------------------------------------- */

ronde_status ronde__ps_send_head(void *arg) {
  state *s = arg;
  for (int i = 0; i < s->n_servers; i++)
    RONDE_TRY(s->group->ops->isend(s->group, ronde__ps_rank_of(s, i), RONDE__PS_TAG(RONDE__PS_HEAD), &s->head[i],
                                   sizeof s->head[i], &s->heads[i]));
  return ronde__ps_wait(s, s->heads, s->n_servers);
}

/* A bucket with rows of tables is exchanged by ps_rows.c. */
static bool has_rows(const state *s, int b) { return s->rows && ronde__ps_rows_in(s->rows, b); }

static ronde_status push(void *arg) {
  const bucket *b = arg;
  state *s = b->state;
  ronde__request *requests = s->pushes + b->number % CREDITS * s->n_servers;
  RONDE_TRY(ronde__ps_wait(s, requests, s->n_servers));
  if (has_rows(s, b->number)) return ronde__ps_rows_push(s->rows, b->number, requests);
  ronde__bucket_pack(&s->cut.at[b->number], ronde__net_gradients(s->worker->net));
  for (int i = 0; i < s->n_servers; i++) {
    ronde__range piece = ronde__bucket_piece(&s->cut.at[b->number], i, s->n_servers);
    if (piece.n)
      RONDE_TRY(s->group->ops->isend(
          s->group, ronde__ps_rank_of(s, i), RONDE__PS_TAG((uint32_t)(RONDE__PS_PUSH + b->number)),
          ronde__net_gradients(s->worker->net) + piece.begin, piece.n * sizeof(float), &requests[i]));
  }
  return RONDE_OK;
}

/* The gradients have left: what is dead is zero again. */
ronde_status ronde__ps_end_pushes(ronde__ps_worker *s) {
  RONDE_TRY(ronde__ps_wait(s, s->pushes, CREDITS * s->n_servers));
  for (int b = 0; b < s->cut.n; b++)
    if (!has_rows(s, b)) ronde__bucket_clear_dead(&s->cut.at[b], ronde__net_gradients(s->worker->net));
  return s->rows ? ronde__ps_rows_end_pushes(s->rows) : RONDE_OK;
}

ronde_status ronde__ps_end_own_push(void *arg) {
  state *s = arg;
  for (int i = 0; i < s->n_servers; i++)
    RONDE_TRY(s->group->ops->isend(s->group, ronde__ps_rank_of(s, i), RONDE__PS_TAG(RONDE__PS_RESULT), &s->found,
                                   sizeof s->found, &s->ends[i]));
  RONDE_TRY(ronde__ps_end_pushes(s));
  return ronde__ps_wait(s, s->ends, s->n_servers);
}

static ronde_status end_pull(void *arg) {
  const bucket *b = arg;
  state *s = b->state;
  const ronde__bucket *cut = &s->cut.at[b->number];
  ronde__request *requests = s->pulls + b->number * s->n_servers;
  if (has_rows(s, b->number)) return ronde__ps_rows_pull(s->rows, b->number, requests);
  RONDE_TRY(ronde__ps_wait(s, requests, s->n_servers));
  if (cut->n_dead) ronde__bucket_scatter(cut, s->pulled + cut->begin, ronde__net_values(s->worker->net));
  return RONDE_OK;
}

/* ---- a step --------------------------------------------------------------------------------------------------------- */

void ronde__ps_begin_buckets(ronde__ps_worker *s) {
  ronde__buckets_begin(&s->cut);
  s->n_sent = 0;
}

void ronde__ps_begin_step(state *s, ronde__ps_head head) {
  ronde__ps_begin_buckets(s);
  for (int i = 0; i < s->n_servers; i++) s->head[i] = head;
}

void ronde__ps_send_ready(state *s) {
  while (s->n_sent < s->cut.n && ronde__bucket_is_ready(&s->cut.at[s->n_sent]) && s->status == RONDE_OK) {
    s->status = ronde__comm_thread_submit(s->thread, push, &s->buckets[s->n_sent]);
    s->n_sent++;
  }
}

void ronde__ps_gradient_final(void *user, const ronde__gradient *gradient) {
  state *s = user;
  ronde__buckets_final(&s->cut, gradient);
  if (s->settings->overlap) ronde__ps_send_ready(s);
}

/* The receives lie ready before the job that waits for them has its turn. */
ronde_status ronde__ps_begin_pulls(state *s) {
  if (s->rows) RONDE_TRY(ronde__ps_rows_begin_pulls(s->rows));
  for (int b = s->cut.n - 1; b >= 0; b--) {
    float *into = s->cut.at[b].n_dead ? s->pulled : ronde__net_values(s->worker->net);
    for (int i = 0; i < s->n_servers && !has_rows(s, b); i++) {
      ronde__range piece = ronde__bucket_piece(&s->cut.at[b], i, s->n_servers);
      if (piece.n)
        RONDE_TRY(s->group->ops->irecv(s->group, ronde__ps_rank_of(s, i), RONDE__PS_TAG((uint32_t)(RONDE__PS_PULL + b)),
                                       into + piece.begin, piece.n * sizeof(float), &s->pulls[b * s->n_servers + i]));
    }
    RONDE_TRY(ronde__comm_thread_submit(s->thread, end_pull, &s->buckets[b]));
    s->buckets[b].pull_job = ronde__comm_thread_submitted(s->thread);
  }
  return RONDE_OK;
}

static ronde_status ps_param_needed(void *user, int param) {
  state *s = user;
  ronde__bucket_span span = s->cut.of_param[param];
  uint64_t job = 0;
  for (int b = span.first; b <= span.last; b++) {
    if (s->buckets[b].pull_job > job) job = s->buckets[b].pull_job;
    s->buckets[b].pull_job = 0;
  }
  if (job == 0 || s->status != RONDE_OK) return s->status;
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_EXCHANGE);
  s->status = ronde__comm_thread_reach(s->thread, job);
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_FORWARD);
  return s->status;
}

ronde_status ronde__ps_settle(void *opaque) {
  state *s = opaque;
  RONDE_TRY(s->status);
  for (int b = 0; b < s->cut.n; b++) s->buckets[b].pull_job = 0;
  return ronde__comm_thread_drain(s->thread);
}

/* Room for the live elements of any bucket. */
static ronde_status make_packed(const state *s, float **packed_out) {
  RONDE__ALLOC_FLOATS(*packed_out, s->worker->kernels, ronde__buckets_longest(&s->cut), "parameter servers");
  return RONDE_OK;
}

/* ---- the optimizer's state, and the end ----------------------------------------------------------------------------- */

ronde_status ronde__ps_tell(ronde__ps_worker *s, ronde__ps_kind kind) {
  for (int i = 0; i < s->n_servers; i++) s->head[i] = (ronde__ps_head){.kind = kind};
  RONDE_TRY(ronde__comm_thread_submit(s->thread, ronde__ps_send_head, s));
  return ronde__ps_settle(s);
}

/* The servers' pieces of every bucket of a flat array, by way of packed, room for the longest. */
static ronde_status take_array(state *s, float *values, float *packed) {
  for (int b = 0; b < s->cut.n; b++) {
    const ronde__bucket *cut = &s->cut.at[b];
    for (int i = 0; i < s->n_servers; i++) {
      ronde__range piece = ronde__bucket_piece(cut, i, s->n_servers);
      if (piece.n)
        RONDE_TRY(ronde__transport_receive(s->group, ronde__ps_rank_of(s, i), RONDE__PS_TAG(RONDE__PS_STATES),
                                           packed + (piece.begin - cut->begin), piece.n * sizeof *packed));
    }
    ronde__bucket_scatter(cut, packed, values);
  }
  return RONDE_OK;
}

/* A push of a worker that was lost may have reached some servers only: of their numbers of updates the largest. */
static ronde_status take_states(state *s, float *packed) {
  ronde__optim *optim = s->worker->optim;
  int64_t n_updates = 0;
  for (int i = 0; i < s->n_servers; i++) {
    int64_t n;
    RONDE_TRY(
        ronde__transport_receive(s->group, ronde__ps_rank_of(s, i), RONDE__PS_TAG(RONDE__PS_UPDATES), &n, sizeof n));
    n_updates = ronde__max(n_updates, n);
  }
  for (int i = 0; i < ronde__optim_n_states(optim); i++) {
    const char *name;
    RONDE_TRY(take_array(s, ronde__optim_state(optim, i, &name), packed));
  }
  ronde__optim_set_updates(optim, n_updates);
  return RONDE_OK;
}

/* Rank 0 asks, wherever the others are. */
ronde_status ronde__ps_gather_state(void *opaque) {
  state *s = opaque;
  if (s->worker->transport->rank != 0) return RONDE_OK;
  float *packed;
  RONDE_TRY(ronde__ps_settle(s));
  RONDE_TRY(ronde__ps_tell(s, RONDE__PS_GIVE_STATE));
  RONDE_TRY(make_packed(s, &packed));
  ronde_status status = take_states(s, packed);
  ronde__free(packed);
  return status;
}

ronde_status ronde__ps_finish(void *opaque) {
  RONDE_TRY(ronde__ps_settle(opaque));
  return ronde__ps_tell(opaque, RONDE__PS_END);
}

/* ---- set-up --------------------------------------------------------------------------------------------------------- */

static ronde_status send_array(state *s, uint32_t tag, const float *values, float *packed) {
  for (int b = 0; b < s->cut.n; b++) {
    const ronde__bucket *cut = &s->cut.at[b];
    ronde__bucket_gather(cut, values, packed);
    for (int i = 0; i < s->n_servers; i++) {
      ronde__range piece = ronde__bucket_piece(cut, i, s->n_servers);
      if (piece.n)
        RONDE_TRY(ronde__transport_send(s->group, ronde__ps_rank_of(s, i), RONDE__PS_TAG(tag),
                                        packed + (piece.begin - cut->begin), piece.n * sizeof *packed));
    }
  }
  return RONDE_OK;
}

static ronde_status send_plan(state *s, ronde__ps_plan *plan) {
  uint64_t *lengths;
  uint32_t tag = RONDE__PS_TAG(RONDE__PS_PLAN);
  ronde_status status = RONDE_OK;
  RONDE__ALLOC(lengths, (size_t)s->cut.n * sizeof *lengths, "parameter servers");
  for (int i = 0; i < s->n_servers && status == RONDE_OK; i++) {
    for (int b = 0; b < s->cut.n; b++) lengths[b] = ronde__bucket_piece(&s->cut.at[b], i, s->n_servers).n;
    if (s->rows) ronde__ps_rows_count(s->rows, i, plan);
    status = ronde__transport_send(s->group, ronde__ps_rank_of(s, i), tag, plan, sizeof *plan);
    size_t bytes = (size_t)s->cut.n * sizeof *lengths;
    if (status == RONDE_OK) status = ronde__transport_send(s->group, ronde__ps_rank_of(s, i), tag, lengths, bytes);
    if (status == RONDE_OK && s->rows) status = ronde__ps_rows_send_plan(s->rows, i, plan);
  }
  ronde__free(lengths);
  return status;
}

static ronde_status send_state(state *s, bool with_optimizer, float *packed) {
  ronde__optim *optim = s->worker->optim;
  RONDE_TRY(send_array(s, RONDE__PS_VALUES, ronde__net_values(s->worker->net), packed));
  for (int i = 0; i < ronde__optim_n_states(optim) && with_optimizer; i++) {
    const char *name;
    RONDE_TRY(send_array(s, RONDE__PS_STATES, ronde__optim_state(optim, i, &name), packed));
  }
  return RONDE_OK;
}

static ronde_status set_up_servers(state *s) {
  ronde__ps_plan plan = {.n_buckets = s->cut.n, .n_updates = ronde__optim_updates(s->worker->optim)};
  float *packed;
  RONDE_TRY(send_plan(s, &plan));
  RONDE_TRY(make_packed(s, &packed));
  ronde_status status = send_state(s, plan.n_updates > 0, packed);
  ronde__free(packed);
  return status;
}

/* Servers know nothing of dead taps. In lockstep each worker itself makes the updates that decay and old state make
 * there; else workers would not all make the same, and where there are any the servers have all. */
static ronde_status make_buckets(state *s) {
  ronde__worker *worker = s->worker;
  bool any_dead = false;
  RONDE_TRY(ronde__buckets_make(worker->net, s->settings->bucket_bytes, &s->cut));
  if (!s->lockstep && ronde__optim_moves_dead(worker->optim)) ronde__buckets_take_dead(&s->cut);
  for (int b = 0; b < s->cut.n; b++) any_dead |= s->cut.at[b].n_dead > 0;
  if (!any_dead) return RONDE_OK;
  s->pulled = ronde__pages_map(ronde__net_n_trained(worker->net) * sizeof *s->pulled);
  return s->pulled ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "parameter servers: no memory for pulled parameters");
}

static ronde_status set_up(state *s) {
  ronde__worker *worker = s->worker;
  ronde__transport *workers = worker->transport;
  RONDE_TRY(make_buckets(s));
  if (s->settings->options->sparse_gradients)
    RONDE_TRY(ronde__ps_rows_create(worker, s->group, s->servers, s->n_servers, &s->cut, &s->rows));
  RONDE__ALLOC(s->buckets, (size_t)s->cut.n * sizeof *s->buckets, "parameter servers");
  for (int b = 0; b < s->cut.n; b++) s->buckets[b] = (bucket){.state = s, .number = b};
  int n = (CREDITS + s->cut.n + 3) * s->n_servers + 1;
  RONDE__ALLOC(s->requests, (size_t)n * sizeof *s->requests, "parameter servers");
  s->n_requests = n;
  s->heads = s->requests;
  s->pushes = s->heads + s->n_servers;
  s->pulls = s->pushes + CREDITS * s->n_servers;
  s->replies = s->pulls + s->cut.n * s->n_servers;
  s->ends = s->replies + s->n_servers;
  RONDE__ALLOC(s->head, (size_t)s->n_servers * sizeof *s->head, "parameter servers");
  RONDE__ALLOC(s->answers, (size_t)s->n_servers * sizeof *s->answers, "parameter servers");
  RONDE__ALLOC(s->results, (size_t)workers->size * sizeof *s->results, "parameter servers");
  RONDE_TRY(ronde__comm_thread_create(workers->time, workers->rank, false, &s->thread));
  size_t bytes = ronde__net_n_elems(worker->net) * sizeof(float);
  RONDE_TRY(ronde__broadcast_tree(workers, TAG_WEIGHTS, 0, ronde__net_values(worker->net), bytes));
  return workers->rank == 0 ? set_up_servers(s) : RONDE_OK;
}

void ronde__ps_destroy(void *opaque) {
  state *s = opaque;
  if (!s) return;
  ronde__comm_thread_destroy(s->thread);
  if (s->requests) s->group->ops->cancel(s->group, s->requests, s->n_requests);
  ronde__ps_rows_destroy(s->rows);
  ronde__buckets_free(&s->cut);
  ronde__free(s->buckets);
  ronde__free(s->requests);
  ronde__free(s->results);
  ronde__free(s->head);
  ronde__free(s->answers);
  ronde__free(s->news);
  if (s->pulled) ronde__pages_unmap(s->pulled, ronde__net_n_trained(s->worker->net) * sizeof *s->pulled);
  ronde__free(s);
}

ronde_status ronde__ps_create(ronde__worker *worker, const ronde__strategy_settings *settings, bool lockstep,
                              void **state_out) {
  state *s;
  RONDE__ALLOC(s, sizeof *s, "parameter servers");
  *s = (state){.worker = worker, .settings = settings, .group = settings->group, .lockstep = lockstep};
  s->servers = ronde__roles_of(settings->roles, RONDE__SERVER, &s->n_servers);
  worker->param_needed = ps_param_needed;
  worker->needed_user = s;
  ronde_status status = set_up(s);
  if (status != RONDE_OK) ronde__ps_destroy(s);
  else *state_out = s;
  return status;
}
