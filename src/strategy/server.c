#include "strategy/server_impl.h"

#include <stdlib.h>

static ronde_status wait_for(ronde__server *s, ronde__request *requests, int n) {
  return s->o.group->ops->wait(s->o.group, requests, n, RONDE__PS_IDLE_NS);
}

static ronde_status take(ronde__server *s, uint32_t tag, void *data, size_t bytes) {
  ronde__transport *group = s->o.group;
  RONDE_TRY(group->ops->irecv(group, 0, RONDE__PS_TAG(tag), data, bytes, s->requests));
  return wait_for(s, s->requests, 1);
}

/* ---- set-up ------------------------------------------------------------------------------------------------------- */

/* Here, on the rank's own thread: later that thread may be changing the group's time limit. */
static ronde_status see_servers(ronde__server *s) {
  RONDE__ALLOC(s->server_ranks, (size_t)s->o.n_servers * sizeof *s->server_ranks, "parameter server");
  for (int i = 0; i < s->o.n_servers; i++) s->server_ranks[i] = s->o.first_server + i;
  s->servers = ronde__view_make(&s->view, s->o.group, s->server_ranks, s->o.n_servers);
  return RONDE_OK;
}

ronde_status ronde__server_create(const ronde__server_options *options, ronde__server **server_out) {
  ronde__server *s;
  RONDE__ALLOC(s, sizeof *s, "parameter server");
  *s = (ronde__server){.o = *options, .index = options->group->rank - options->first_server};
  ronde_status status = ronde__prof_create(options->group->rank, false, &s->prof);
  if (status == RONDE_OK) status = see_servers(s);
  if (status == RONDE_OK) {
    s->update_slot = ronde__prof_op_slot(s->prof, options->optimizer_name, RONDE__PHASE_UPDATE, options->kernels->isa);
    *server_out = s;
  } else {
    ronde__server_destroy(s);
  }
  return status;
}

void ronde__server_destroy(ronde__server *s) {
  if (!s) return;
  ronde__prof_destroy(s->prof);
  ronde__optim_destroy(s->optim);
  ronde__free(s->begin);
  ronde__free(s->values);
  ronde__free(s->pushed);
  ronde__free(s->heads);
  ronde__free(s->parts);
  ronde__free(s->squares);
  ronde__free(s->server_ranks);
  ronde__free(s->requests);
  ronde__free(s->clients);
  ronde__free(s->answers);
  free(s->order);
  ronde__free(s);
}

const ronde__staleness *ronde__server_staleness(const ronde__server *s) { return &s->staleness; }

const ronde__ps_update *ronde__server_order(const ronde__server *s, int64_t *n_out) {
  *n_out = s->n_order;
  return s->order;
}

ronde__prof *ronde__server_prof(const ronde__server *s) { return s->prof; }

/* What does not depend on the plan. */
static ronde_status make_room(ronde__server *s) {
  size_t n_workers = (size_t)s->o.n_workers, n_servers = (size_t)s->o.n_servers;
  RONDE__ALLOC(s->heads, n_workers * sizeof *s->heads, "parameter server");
  RONDE__ALLOC(s->parts, n_workers * sizeof *s->parts, "parameter server");
  RONDE__ALLOC(s->squares, n_servers * sizeof *s->squares, "parameter server");
  RONDE__ALLOC(s->requests, n_workers * sizeof *s->requests, "parameter server");
  s->n_requests = s->o.n_workers;
  return RONDE_OK;
}

static ronde_status take_plan(ronde__server *s, ronde__ps_plan *plan) {
  uint64_t *lengths;
  RONDE_TRY(take(s, RONDE__PS_PLAN, plan, sizeof *plan));
  s->n_buckets = (int)plan->n_buckets;
  RONDE__ALLOC(s->begin, ((size_t)s->n_buckets + 1) * sizeof *s->begin, "parameter server");
  RONDE__ALLOC(lengths, (size_t)s->n_buckets * sizeof *lengths, "parameter server");
  ronde_status status = take(s, RONDE__PS_PLAN, lengths, (size_t)s->n_buckets * sizeof *lengths);
  for (int b = 0; b < s->n_buckets && status == RONDE_OK; b++) s->begin[b + 1] = s->begin[b] + lengths[b];
  ronde__free(lengths);
  s->n = s->begin[s->n_buckets];
  return status;
}

static ronde_status take_array(ronde__server *s, uint32_t tag, float *array) {
  for (int b = 0; b < s->n_buckets; b++)
    if (ronde__server_length(s, b))
      RONDE_TRY(take(s, tag, array + s->begin[b], ronde__server_length(s, b) * sizeof *array));
  return RONDE_OK;
}

static ronde_status set_up(ronde__server *s) {
  ronde__ps_plan plan;
  RONDE_TRY(make_room(s));
  RONDE_TRY(take_plan(s, &plan));
  size_t n_workers = (size_t)s->o.n_workers;
  ronde__free(s->requests);
  s->requests = NULL;
  s->n_requests = 0;
  int n_requests = RONDE__CLIENT_REQUESTS(s) * s->o.n_workers + 1;
  RONDE__ALLOC(s->requests, (size_t)n_requests * sizeof *s->requests, "parameter server");
  s->n_requests = n_requests;
  RONDE__ALLOC(s->values, s->n * sizeof *s->values, "parameter server");
  RONDE__ALLOC(s->pushed, n_workers * s->n * sizeof *s->pushed, "parameter server");
  RONDE_TRY(ronde__optim_create(s->o.optim, s->o.kernels, s->n, &s->optim));
  RONDE_TRY(take_array(s, RONDE__PS_VALUES, s->values));
  if (plan.n_updates == 0) return RONDE_OK;
  ronde__optim_set_updates(s->optim, plan.n_updates);
  const char *name;
  for (int i = 0; i < ronde__optim_n_states(s->optim); i++)
    RONDE_TRY(take_array(s, RONDE__PS_STATES, ronde__optim_state(s->optim, i, &name)));
  return RONDE_OK;
}

/* ---- a step ------------------------------------------------------------------------------------------------------- */

static ronde_status give(ronde__server *s, uint32_t tag, const void *data, size_t bytes) {
  return ronde__transport_send(s->o.group, 0, RONDE__PS_TAG(tag), data, bytes);
}

ronde_status ronde__server_give_state(ronde__server *s) {
  int64_t n_updates = ronde__optim_updates(s->optim);
  RONDE_TRY(give(s, RONDE__PS_UPDATES, &n_updates, sizeof n_updates));
  for (int i = 0; i < ronde__optim_n_states(s->optim); i++) {
    const char *name;
    const float *state = ronde__optim_state(s->optim, i, &name);
    for (int b = 0; b < s->n_buckets; b++)
      if (ronde__server_length(s, b))
        RONDE_TRY(give(s, RONDE__PS_STATES, state + s->begin[b], ronde__server_length(s, b) * sizeof *state));
  }
  return RONDE_OK;
}

static ronde_status receive(ronde__server *s, int worker, uint32_t tag, void *data, size_t bytes,
                            ronde__request *request) {
  return s->o.group->ops->irecv(s->o.group, worker, RONDE__PS_TAG(tag), data, bytes, request);
}

/* Until every worker begins a step, or is done. The scheduler's comes first: while it asks for the state, others may
 * wait for the scheduler. */
static ronde_status take_heads(ronde__server *s) {
  ronde__prof_switch(s->prof, RONDE__PHASE_WAIT);
  for (int w = 0; w < s->o.n_workers; w++)
    RONDE_TRY(receive(s, w, RONDE__PS_HEAD, &s->heads[w], sizeof s->heads[w], &s->requests[w]));
  RONDE_TRY(wait_for(s, s->requests, 1));
  while (s->heads[0].kind == RONDE__PS_GIVE_STATE) {
    RONDE_TRY(ronde__server_give_state(s));
    RONDE_TRY(take(s, RONDE__PS_HEAD, &s->heads[0], sizeof s->heads[0]));
  }
  RONDE_TRY(wait_for(s, s->requests, s->o.n_workers));
  if (s->met_ns == 0) s->met_ns = s->o.group->ops->now_ns(s->o.group); /* they begin the first step together */
  return RONDE_OK;
}

/* Sums in the order of ranks, whatever came first. */
static ronde_status take_pushes(ronde__server *s) {
  int n_workers = s->o.n_workers;
  ronde__request *parts = s->requests + s->n_buckets * n_workers;
  uint64_t begin = ronde__prof_switch(s->prof, RONDE__PHASE_EXCHANGE);
  for (int b = 0; b < s->n_buckets; b++)
    for (int w = 0; w < n_workers && ronde__server_length(s, b); w++)
      RONDE_TRY(receive(s, w, (uint32_t)(RONDE__PS_PUSH + b), s->pushed + (size_t)w * s->n + s->begin[b],
                        ronde__server_length(s, b) * sizeof(float), &s->requests[b * n_workers + w]));
  for (int w = 0; w < n_workers; w++)
    RONDE_TRY(receive(s, w, RONDE__PS_PART, &s->parts[w], sizeof s->parts[w], &parts[w]));
  for (int b = 0; b < s->n_buckets; b++) {
    RONDE_TRY(wait_for(s, s->requests + b * n_workers, n_workers));
    float *sum = s->pushed + s->begin[b];
    for (int w = 1; w < n_workers; w++)
      s->o.kernels->add(sum, sum + (size_t)w * s->n, sum, (int64_t)ronde__server_length(s, b));
  }
  RONDE_TRY(wait_for(s, parts, n_workers));
  uint64_t end = ronde__prof_switch(s->prof, RONDE__PHASE_EXCHANGE);
  ronde__parts_waited(s->parts, n_workers, s->prof, s->met_ns, begin, end);
  s->met_ns = end;
  return RONDE_OK;
}

ronde_status ronde__server_clip(ronde__server *s, float *gradients) {
  if (s->o.clip <= 0) return RONDE_OK;
  s->squares[s->index] = s->o.kernels->sum_squares(gradients, (int64_t)s->n);
  RONDE_TRY(ronde__allgather_ring(s->servers, RONDE__PS_NORM, s->squares, sizeof *s->squares));
  double sum = 0;
  for (int i = 0; i < s->o.n_servers; i++) sum += s->squares[i];
  float factor = ronde__clip_factor(sum, s->o.clip);
  if (factor != 1) s->o.kernels->scale(gradients, factor, (int64_t)s->n);
  return RONDE_OK;
}

/* First layers first: the next forward pass needs them first. */
static ronde_status update_and_send(ronde__server *s) {
  int n_workers = s->o.n_workers;
  ronde__transport *group = s->o.group;
  RONDE_TRY(ronde__server_clip(s, s->pushed));
  ronde__optim_begin(s->optim, s->heads[0].lr);
  for (int b = s->n_buckets - 1; b >= 0; b--) {
    size_t begin = s->begin[b], n = ronde__server_length(s, b);
    if (n == 0) continue;
    uint64_t begin_ns = ronde__prof_switch(s->prof, RONDE__PHASE_UPDATE);
    ronde__optim_range_on(s->optim, s->o.pool, s->values + begin, s->pushed + begin, begin, n);
    ronde__prof_op_add(s->prof, s->update_slot, begin_ns, ronde__prof_switch(s->prof, RONDE__PHASE_EXCHANGE), 0);
    for (int w = 0; w < n_workers; w++)
      RONDE_TRY(group->ops->isend(group, w, RONDE__PS_TAG(RONDE__PS_PULL + (uint32_t)b), s->values + begin,
                                  n * sizeof *s->values, &s->requests[b * n_workers + w]));
  }
  return RONDE_OK;
}

static ronde_status one_step(ronde__server *s) {
  int n_workers = s->o.n_workers;
  ronde__transport *group = s->o.group;
  ronde__request *told = s->requests + s->n_buckets * n_workers;
  RONDE_TRY(take_pushes(s));
  for (int w = 0; w < n_workers && s->index == 0; w++)
    RONDE_TRY(group->ops->isend(group, w, RONDE__PS_TAG(RONDE__PS_PARTS), s->parts,
                                (size_t)n_workers * sizeof *s->parts, &told[w]));
  if (ronde__parts_join(s->parts, n_workers).broken_rank < 0) RONDE_TRY(update_and_send(s));
  return group->ops->wait(group, s->requests, s->n_requests, group->timeout_ns);
}

static ronde_status in_step(ronde__server *s) {
  for (;;) {
    RONDE_TRY(take_heads(s));
    if (s->heads[0].kind == RONDE__PS_END) return RONDE_OK;
    RONDE_TRY(one_step(s));
  }
}

static ronde_status serve(ronde__server *s) {
  ronde__prof_switch(s->prof, RONDE__PHASE_WAIT);
  RONDE_TRY(set_up(s));
  if (s->o.asynchronous) RONDE_TRY(ronde__server_on_arrival(s));
  else if (s->o.backup) RONDE_TRY(ronde__server_with_backup(s));
  else RONDE_TRY(in_step(s));
  ronde__prof_switch(s->prof, RONDE__PHASE_OTHER);
  return RONDE_OK;
}

ronde_status ronde__server_run(void *arg) {
  ronde__server *s = arg;
  ronde_status status = serve(s);
  if (status == RONDE_OK) return status;
  s->o.group->ops->abort(s->o.group);
  s->o.group->ops->cancel(s->o.group, s->requests, s->n_requests);
  return status;
}
