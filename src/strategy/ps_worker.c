#include "strategy/ps_worker.h"

enum { TAG_WEIGHTS = 1, CREDITS = 4 }; /* CREDITS: buckets on their way to the servers, at most */

typedef ronde__ps_bucket bucket;
typedef ronde__ps_worker state;

static int rank_of(const state *s, int server) { return s->worker->first_server + server; }

static ronde_status wait_for(state *s, ronde__request *requests, int n) {
  return s->group->ops->wait(s->group, requests, n, s->group->timeout_ns);
}

/* ---- jobs of the communication thread ----------------------------------------------------------------------------- */

ronde_status ronde__ps_send_head(void *arg) {
  state *s = arg;
  for (int i = 0; i < s->n_servers; i++)
    RONDE_TRY(s->group->ops->isend(s->group, rank_of(s, i), RONDE__PS_TAG(RONDE__PS_HEAD), &s->head[i],
                                   sizeof s->head[i], &s->heads[i]));
  return wait_for(s, s->heads, s->n_servers);
}

static ronde_status push(void *arg) {
  const bucket *b = arg;
  state *s = b->state;
  ronde__request *requests = s->pushes + b->number % CREDITS * s->n_servers;
  RONDE_TRY(wait_for(s, requests, s->n_servers));
  ronde__bucket_pack(&s->cut.at[b->number], ronde__net_gradients(s->worker->net));
  for (int i = 0; i < s->n_servers; i++) {
    ronde__stretch piece = ronde__bucket_piece(&s->cut.at[b->number], i, s->n_servers);
    if (piece.n)
      RONDE_TRY(s->group->ops->isend(s->group, rank_of(s, i), RONDE__PS_TAG((uint32_t)(RONDE__PS_PUSH + b->number)),
                                     ronde__net_gradients(s->worker->net) + piece.begin, piece.n * sizeof(float),
                                     &requests[i]));
  }
  return RONDE_OK;
}

/* The gradients have left: what is dead is zero again. */
static ronde_status end_own_pushes(state *s) {
  RONDE_TRY(wait_for(s, s->pushes, CREDITS * s->n_servers));
  for (int b = 0; b < s->cut.n; b++) ronde__bucket_clear_dead(&s->cut.at[b], ronde__net_gradients(s->worker->net));
  return RONDE_OK;
}

/* What this rank found goes out behind its gradients; what all have found comes back. */
static ronde_status end_pushes(void *arg) {
  state *s = arg;
  uint32_t tag = RONDE__PS_TAG(RONDE__PS_PARTS);
  RONDE_TRY(s->group->ops->irecv(s->group, rank_of(s, 0), tag, s->parts,
                                 (size_t)s->worker->transport->size * sizeof *s->parts, &s->ends[s->n_servers]));
  for (int i = 0; i < s->n_servers; i++)
    RONDE_TRY(s->group->ops->isend(s->group, rank_of(s, i), RONDE__PS_TAG(RONDE__PS_PART), &s->part, sizeof s->part,
                                   &s->ends[i]));
  RONDE_TRY(end_own_pushes(s));
  return wait_for(s, s->ends, s->n_servers + 1);
}

ronde_status ronde__ps_end_own_push(void *arg) {
  state *s = arg;
  for (int i = 0; i < s->n_servers; i++)
    RONDE_TRY(s->group->ops->isend(s->group, rank_of(s, i), RONDE__PS_TAG(RONDE__PS_PART), &s->part, sizeof s->part,
                                   &s->ends[i]));
  RONDE_TRY(end_own_pushes(s));
  return wait_for(s, s->ends, s->n_servers);
}

static ronde_status end_replies(void *arg) {
  state *s = arg;
  return wait_for(s, s->replies, s->n_servers);
}

static ronde_status end_pull(void *arg) {
  const bucket *b = arg;
  state *s = b->state;
  const ronde__bucket *cut = &s->cut.at[b->number];
  RONDE_TRY(wait_for(s, s->pulls + b->number * s->n_servers, s->n_servers));
  if (cut->n_dead) ronde__bucket_scatter(cut, s->pulled + cut->begin, ronde__net_values(s->worker->net));
  return RONDE_OK;
}

/* ---- a step --------------------------------------------------------------------------------------------------------- */

static void begin_buckets(state *s) {
  ronde__buckets_begin(&s->cut);
  s->n_sent = 0;
}

void ronde__ps_begin_step(state *s, ronde__ps_head head) {
  begin_buckets(s);
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
  if (s->worker->overlap) ronde__ps_send_ready(s);
}

/* The receives lie ready before the job that waits for them has its turn. */
ronde_status ronde__ps_begin_pulls(state *s) {
  for (int b = s->cut.n - 1; b >= 0; b--) {
    float *into = s->cut.at[b].n_dead ? s->pulled : ronde__net_values(s->worker->net);
    for (int i = 0; i < s->n_servers; i++) {
      ronde__stretch piece = ronde__bucket_piece(&s->cut.at[b], i, s->n_servers);
      if (piece.n)
        RONDE_TRY(s->group->ops->irecv(s->group, rank_of(s, i), RONDE__PS_TAG((uint32_t)(RONDE__PS_PULL + b)),
                                       into + piece.begin, piece.n * sizeof(float), &s->pulls[b * s->n_servers + i]));
    }
    RONDE_TRY(ronde__comm_thread_submit(s->thread, end_pull, &s->buckets[b]));
    s->buckets[b].pull_job = ronde__comm_thread_submitted(s->thread);
  }
  return RONDE_OK;
}

static void param_needed(void *user, int param) {
  state *s = user;
  ronde__bucket_span span = s->cut.of_param[param];
  uint64_t job = 0;
  for (int b = span.first; b <= span.last; b++) {
    if (s->buckets[b].pull_job > job) job = s->buckets[b].pull_job;
    s->buckets[b].pull_job = 0;
  }
  if (job == 0 || s->status != RONDE_OK) return;
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_EXCHANGE);
  s->status = ronde__comm_thread_reach(s->thread, job);
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_FORWARD);
}

ronde_status ronde__ps_settle(void *opaque) {
  state *s = opaque;
  RONDE_TRY(s->status);
  for (int b = 0; b < s->cut.n; b++) s->buckets[b].pull_job = 0;
  return ronde__comm_thread_drain(s->thread);
}

static ronde_status step(void *opaque, const ronde__step *step, ronde__step_result *result_out) {
  state *s = opaque;
  ronde__worker *worker = s->worker;
  if (worker->backup > 0) return ronde__ps_step_with_backup(s, step, result_out);
  ronde__ps_begin_step(s, (ronde__ps_head){.kind = RONDE__PS_STEP, .lr = step->lr});
  RONDE_TRY(ronde__comm_thread_submit(s->thread, ronde__ps_send_head, s));
  RONDE_TRY(ronde__worker_gradients(worker, step, (ronde__gradient_listener){ronde__ps_gradient_final, s}, &s->part));
  uint64_t begin = ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
  ronde__ps_send_ready(s);
  RONDE_TRY(s->status);
  RONDE_TRY(ronde__comm_thread_submit(s->thread, end_pushes, s));
  RONDE_TRY(ronde__ps_settle(s));
  uint64_t end = ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
  ronde__worker_met(worker, s->parts, begin, end);
  *result_out = ronde__parts_join(s->parts, worker->transport->size);
  if (result_out->broken_rank >= 0) return RONDE_OK;
  ronde__optim_begin(worker->optim, step->lr);
  ronde__optim_dead(worker->optim, ronde__net_values(worker->net));
  RONDE_TRY(ronde__ps_begin_pulls(s));
  if (!worker->overlap) RONDE_TRY(ronde__ps_settle(s));
  return RONDE_OK;
}

/* ---- a step of this worker alone ------------------------------------------------------------------------------------ */

/* Gradients that are not on their way yet are of parameters that have all been pulled. */
static void own_gradient_final(void *user, const ronde__gradient *gradient) {
  state *s = user;
  if (!s->begun && s->status == RONDE_OK) {
    ronde__prof_switch(s->worker->prof, RONDE__PHASE_EXCHANGE);
    s->status = ronde__ps_settle(s);
    ronde__prof_switch(s->worker->prof, RONDE__PHASE_BACKWARD);
    for (int i = 0; i < s->n_servers; i++) {
      s->head[i] = s->own;
      s->head[i].version = s->answers[i].version;
    }
    if (s->status == RONDE_OK) s->status = ronde__comm_thread_submit(s->thread, ronde__ps_send_head, s);
    s->begun = true;
  }
  ronde__ps_gradient_final(s, gradient);
}

static ronde_status begin_replies(state *s) {
  for (int i = 0; i < s->n_servers; i++)
    RONDE_TRY(s->group->ops->irecv(s->group, rank_of(s, i), RONDE__PS_TAG(RONDE__PS_ANSWER), &s->answers[i],
                                   sizeof s->answers[i], &s->replies[i]));
  RONDE_TRY(ronde__comm_thread_submit(s->thread, end_replies, s));
  return ronde__ps_begin_pulls(s);
}

static ronde_status own_step(void *opaque, const ronde__step *step, ronde__step_result *result_out) {
  state *s = opaque;
  ronde__worker *worker = s->worker;
  bool any = step->own_examples > 0;
  ronde__step own = *step;
  ronde__part part;
  own.examples = ronde__max(1, step->own_examples);
  begin_buckets(s);
  s->begun = false;
  s->own = (ronde__ps_head){.kind = RONDE__PS_STEP, .lr = step->lr, .step = step->step};
  if (!any) RONDE_TRY(ronde__ps_settle(s)); /* the gradients are zeroed, and may be on their way still */
  RONDE_TRY(
      ronde__worker_gradients(worker, &own, (ronde__gradient_listener){any ? own_gradient_final : NULL, s}, &part));
  ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
  RONDE_TRY(s->status);
  *result_out = ronde__parts_join(&part, 1);
  if (part.broken) result_out->broken_rank = worker->transport->rank;
  for (int i = 0; i < s->n_servers; i++) result_out->cancelled |= s->answers[i].stop != 0;
  if (!any) return RONDE_OK;
  s->part = part;
  ronde__ps_send_ready(s);
  RONDE_TRY(s->status);
  RONDE_TRY(ronde__comm_thread_submit(s->thread, ronde__ps_end_own_push, s));
  RONDE_TRY(begin_replies(s));
  return worker->overlap ? RONDE_OK : ronde__ps_settle(s);
}

/* Room for the live elements of any bucket. */
static ronde_status make_packed(const state *s, float **packed_out) {
  size_t longest = 1;
  for (int b = 0; b < s->cut.n; b++)
    if (s->cut.at[b].n_live > longest) longest = s->cut.at[b].n_live;
  RONDE__ALLOC(*packed_out, longest * sizeof **packed_out, "parameter servers");
  return RONDE_OK;
}

/* ---- the optimizer's state, and the end ----------------------------------------------------------------------------- */

static ronde_status tell(state *s, ronde__ps_kind kind) {
  for (int i = 0; i < s->n_servers; i++) s->head[i] = (ronde__ps_head){.kind = kind};
  RONDE_TRY(ronde__comm_thread_submit(s->thread, ronde__ps_send_head, s));
  return ronde__ps_settle(s);
}

/* The servers' pieces of every bucket of a flat array, by way of packed, room for the longest. */
static ronde_status take_array(state *s, float *values, float *packed) {
  for (int b = 0; b < s->cut.n; b++) {
    const ronde__bucket *cut = &s->cut.at[b];
    for (int i = 0; i < s->n_servers; i++) {
      ronde__stretch piece = ronde__bucket_piece(cut, i, s->n_servers);
      if (piece.n)
        RONDE_TRY(ronde__transport_receive(s->group, rank_of(s, i), RONDE__PS_TAG(RONDE__PS_STATES),
                                           packed + (piece.begin - cut->begin), piece.n * sizeof *packed));
    }
    ronde__bucket_scatter(cut, packed, values);
  }
  return RONDE_OK;
}

static ronde_status take_states(state *s, float *packed) {
  ronde__optim *optim = s->worker->optim;
  int64_t n_updates = 0;
  for (int i = 0; i < s->n_servers; i++)
    RONDE_TRY(ronde__transport_receive(s->group, rank_of(s, i), RONDE__PS_TAG(RONDE__PS_UPDATES), &n_updates,
                                       sizeof n_updates));
  for (int i = 0; i < ronde__optim_n_states(optim); i++) {
    const char *name;
    RONDE_TRY(take_array(s, ronde__optim_state(optim, i, &name), packed));
  }
  ronde__optim_set_updates(optim, n_updates);
  return RONDE_OK;
}

static ronde_status fetch_state(void *opaque) {
  state *s = opaque;
  float *packed;
  RONDE_TRY(ronde__ps_settle(s));
  RONDE_TRY(tell(s, RONDE__PS_GIVE_STATE));
  RONDE_TRY(make_packed(s, &packed));
  ronde_status status = take_states(s, packed);
  ronde__free(packed);
  return status;
}

static ronde_status refresh(void *opaque) {
  state *s = opaque;
  RONDE_TRY(ronde__ps_settle(s));
  RONDE_TRY(tell(s, RONDE__PS_FETCH));
  RONDE_TRY(begin_replies(s));
  return ronde__ps_settle(s);
}

static ronde_status finish(void *opaque) {
  RONDE_TRY(ronde__ps_settle(opaque));
  return tell(opaque, RONDE__PS_END);
}

/* ---- set-up --------------------------------------------------------------------------------------------------------- */

static ronde_status send_array(state *s, uint32_t tag, const float *values, float *packed) {
  for (int b = 0; b < s->cut.n; b++) {
    const ronde__bucket *cut = &s->cut.at[b];
    ronde__bucket_gather(cut, values, packed);
    for (int i = 0; i < s->n_servers; i++) {
      ronde__stretch piece = ronde__bucket_piece(cut, i, s->n_servers);
      if (piece.n)
        RONDE_TRY(ronde__transport_send(s->group, rank_of(s, i), RONDE__PS_TAG(tag),
                                        packed + (piece.begin - cut->begin), piece.n * sizeof *packed));
    }
  }
  return RONDE_OK;
}

static ronde_status send_plan(state *s, const ronde__ps_plan *plan) {
  uint64_t *lengths;
  uint32_t tag = RONDE__PS_TAG(RONDE__PS_PLAN);
  ronde_status status = RONDE_OK;
  RONDE__ALLOC(lengths, (size_t)s->cut.n * sizeof *lengths, "parameter servers");
  for (int i = 0; i < s->n_servers && status == RONDE_OK; i++) {
    for (int b = 0; b < s->cut.n; b++) lengths[b] = ronde__bucket_piece(&s->cut.at[b], i, s->n_servers).n;
    status = ronde__transport_send(s->group, rank_of(s, i), tag, plan, sizeof *plan);
    size_t bytes = (size_t)s->cut.n * sizeof *lengths;
    if (status == RONDE_OK) status = ronde__transport_send(s->group, rank_of(s, i), tag, lengths, bytes);
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
  ronde__ps_plan plan = {s->cut.n, ronde__optim_updates(s->worker->optim)};
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
  RONDE_TRY(ronde__buckets_make(worker->net, worker->bucket_bytes, &s->cut));
  if (!s->lockstep && ronde__optim_moves_dead(worker->optim)) ronde__buckets_take_dead(&s->cut);
  for (int b = 0; b < s->cut.n; b++) any_dead |= s->cut.at[b].n_dead > 0;
  if (!any_dead) return RONDE_OK;
  s->pulled = ronde__pages_map(ronde__net_n_trained(worker->net) * sizeof *s->pulled);
  return s->pulled ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "parameter servers: no memory for what is pulled");
}

static ronde_status set_up(state *s) {
  ronde__worker *worker = s->worker;
  ronde__transport *workers = worker->transport;
  RONDE_TRY(make_buckets(s));
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
  RONDE__ALLOC(s->parts, (size_t)workers->size * sizeof *s->parts, "parameter servers");
  RONDE_TRY(ronde__comm_thread_create(workers->rank, false, &s->thread));
  size_t bytes = ronde__net_n_elems(worker->net) * sizeof(float);
  RONDE_TRY(ronde__broadcast_tree(workers, TAG_WEIGHTS, 0, ronde__net_values(worker->net), bytes));
  return workers->rank == 0 ? set_up_servers(s) : RONDE_OK;
}

static void destroy(void *opaque) {
  state *s = opaque;
  if (!s) return;
  ronde__comm_thread_destroy(s->thread);
  if (s->requests) s->group->ops->cancel(s->group, s->requests, s->n_requests);
  ronde__buckets_free(&s->cut);
  ronde__free(s->buckets);
  ronde__free(s->requests);
  ronde__free(s->parts);
  ronde__free(s->head);
  ronde__free(s->answers);
  ronde__free(s->news);
  if (s->pulled) ronde__pages_unmap(s->pulled, ronde__net_n_trained(s->worker->net) * sizeof *s->pulled);
  ronde__free(s);
}

static ronde_status create(ronde__worker *worker, bool lockstep, void **state_out) {
  state *s;
  RONDE__ALLOC(s, sizeof *s, "parameter servers");
  *s = (state){.worker = worker, .group = worker->group, .n_servers = worker->n_servers, .lockstep = lockstep};
  worker->param_needed = param_needed;
  worker->needed_user = s;
  ronde_status status = set_up(s);
  if (status != RONDE_OK) destroy(s);
  else *state_out = s;
  return status;
}

static ronde_status create_synchronous(ronde__worker *worker, void **state_out) {
  return create(worker, worker->backup == 0, state_out);
}

static ronde_status create_asynchronous(ronde__worker *worker, void **state_out) {
  return create(worker, false, state_out);
}

const ronde__strategy ronde__strategy_ps_sync = {.name = "ps-sync",
                                                 .create = create_synchronous,
                                                 .step = step,
                                                 .settle = ronde__ps_settle,
                                                 .fetch_state = fetch_state,
                                                 .finish = finish,
                                                 .destroy = destroy,
                                                 .min_ranks = 1,
                                                 .has_servers = true};

const ronde__strategy ronde__strategy_ps_async = {.name = "ps-async",
                                                  .create = create_asynchronous,
                                                  .step = own_step,
                                                  .settle = ronde__ps_settle,
                                                  .refresh = refresh,
                                                  .finish = finish,
                                                  .destroy = destroy,
                                                  .min_ranks = 1,
                                                  .asynchronous = true,
                                                  .has_servers = true};
