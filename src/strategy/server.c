/* A parameter server, whatever the way in which it serves: set-up, clipping, its state, the end. */
#include "strategy/server_impl.h"
#include "strategy/server_rows.h"

#include <stdlib.h>

ronde_status ronde__server_wait(ronde__server *s, ronde__request *requests, int n) {
  return s->group->ops->wait(s->group, requests, n, s->group->timeout_ns);
}

ronde_status ronde__server_take(ronde__server *s, uint32_t tag, void *data, size_t bytes) {
  ronde__transport *group = s->group;
  RONDE_TRY(group->ops->irecv(group, 0, RONDE__PS_TAG(tag), data, bytes, s->requests));
  return ronde__server_wait(s, s->requests, 1);
}

/* ---- set-up ------------------------------------------------------------------------------------------------------- */

/* Here, on the rank's own thread: later that thread may be changing the group's time limit. */
static ronde_status see_servers(ronde__server *s) {
  const ronde__member *servers = ronde__roles_of(s->o.settings->roles, RONDE__SERVER, &s->n_servers);
  RONDE__ALLOC(s->server_ranks, (size_t)s->n_servers * sizeof *s->server_ranks, "parameter server");
  for (int i = 0; i < s->n_servers; i++) s->server_ranks[i] = servers[i].rank;
  s->servers = ronde__view_make(&s->view, s->group, s->server_ranks, s->n_servers);
  return RONDE_OK;
}

ronde_status ronde__server_create(const ronde__service_options *options, ronde__server_way *serve, void **server_out) {
  ronde__server *s;
  RONDE__ALLOC(s, sizeof *s, "parameter server");
  *s = (ronde__server){.o = *options,
                       .serve = serve,
                       .group = options->settings->group,
                       .n_workers = options->settings->roles->n_workers,
                       .index = options->member->index};
  ronde_status status = ronde__prof_create(options->member->rank, options->settings->group->time, false, &s->prof);
  if (status == RONDE_OK) status = see_servers(s);
  if (status == RONDE_OK) {
    s->update_slot = ronde__prof_op_slot(s->prof, options->optimizer_name, RONDE__PHASE_UPDATE, options->kernels->isa);
    *server_out = s;
  } else {
    ronde__server_destroy(s);
  }
  return status;
}

void ronde__server_destroy(void *server) {
  ronde__server *s = server;
  if (!s) return;
  ronde__server_rows_destroy(s);
  ronde__prof_destroy(s->prof);
  ronde__optim_destroy(s->optim);
  ronde__free(s->begin);
  ronde__free(s->values);
  ronde__free(s->pushed);
  ronde__free(s->heads);
  ronde__free(s->results);
  ronde__free(s->squares);
  ronde__free(s->server_ranks);
  ronde__free(s->requests);
  ronde__free(s->clients);
  ronde__free(s->answers);
  ronde__free(s->done);
  free(s->order);
  ronde__free(s);
}

const ronde__staleness *ronde__server_staleness(const ronde__server *s) { return &s->staleness; }

const ronde__ps_update *ronde__server_order(const ronde__server *s, int64_t *n_out) {
  *n_out = s->n_order;
  return s->order;
}

ronde__prof *ronde__server_prof(const void *server) { return ((const ronde__server *)server)->prof; }

/* What does not depend on the plan. */
static ronde_status server_make_room(ronde__server *s) {
  size_t n_workers = (size_t)s->n_workers, n_servers = (size_t)s->n_servers;
  RONDE__ALLOC(s->heads, n_workers * sizeof *s->heads, "parameter server");
  RONDE__ALLOC(s->results, n_workers * sizeof *s->results, "parameter server");
  RONDE__ALLOC(s->squares, n_servers * sizeof *s->squares, "parameter server");
  RONDE__ALLOC(s->requests, n_workers * sizeof *s->requests, "parameter server");
  s->n_requests = s->n_workers;
  return RONDE_OK;
}

static ronde_status take_plan(ronde__server *s, ronde__ps_plan *plan) {
  uint64_t *lengths;
  RONDE_TRY(ronde__server_take(s, RONDE__PS_PLAN, plan, sizeof *plan));
  s->n_buckets = (int)plan->n_buckets;
  RONDE__ALLOC(s->begin, ((size_t)s->n_buckets + 1) * sizeof *s->begin, "parameter server");
  RONDE__ALLOC(lengths, (size_t)s->n_buckets * sizeof *lengths, "parameter server");
  ronde_status status = ronde__server_take(s, RONDE__PS_PLAN, lengths, (size_t)s->n_buckets * sizeof *lengths);
  for (int b = 0; b < s->n_buckets && status == RONDE_OK; b++) s->begin[b + 1] = s->begin[b] + lengths[b];
  ronde__free(lengths);
  s->n = s->begin[s->n_buckets];
  return status;
}

static ronde_status take_patches(ronde__server *s, const ronde__ps_plan *plan, const ronde__ps_table *tables) {
  ronde__ps_patch *patches;
  size_t bytes = (size_t)plan->n_patches * sizeof *patches;
  RONDE__ALLOC(patches, bytes, "parameter server");
  ronde_status status = bytes ? ronde__server_take(s, RONDE__PS_PLAN, patches, bytes) : RONDE_OK;
  if (status == RONDE_OK) status = ronde__server_rows_create(s, plan, tables, patches);
  ronde__free(patches);
  return status;
}

static ronde_status take_tables(ronde__server *s, const ronde__ps_plan *plan) {
  ronde__ps_table *tables;
  size_t bytes = (size_t)plan->n_tables * sizeof *tables;
  RONDE__ALLOC(tables, bytes, "parameter server");
  ronde_status status = ronde__server_take(s, RONDE__PS_PLAN, tables, bytes);
  if (status == RONDE_OK) status = take_patches(s, plan, tables);
  ronde__free(tables);
  return status;
}

static ronde_status take_array(ronde__server *s, uint32_t tag, float *array) {
  for (int b = 0; b < s->n_buckets; b++)
    if (ronde__server_length(s, b))
      RONDE_TRY(ronde__server_take(s, tag, array + s->begin[b], ronde__server_length(s, b) * sizeof *array));
  return RONDE_OK;
}

static ronde_status set_up(ronde__server *s) {
  ronde__ps_plan plan;
  RONDE_TRY(server_make_room(s));
  RONDE_TRY(take_plan(s, &plan));
  if (plan.n_tables > 0) RONDE_TRY(take_tables(s, &plan));
  size_t n_workers = (size_t)s->n_workers;
  ronde__free(s->requests);
  s->requests = NULL;
  s->n_requests = 0;
  int n_requests = RONDE__CLIENT_REQUESTS(s) * s->n_workers + 1;
  RONDE__ALLOC(s->requests, (size_t)n_requests * sizeof *s->requests, "parameter server");
  s->n_requests = n_requests;
  RONDE__ALLOC_FLOATS(s->values, s->o.kernels, s->n, "parameter server");
  RONDE__ALLOC_FLOATS(s->pushed, s->o.kernels, n_workers * s->n, "parameter server");
  RONDE_TRY(ronde__optim_create(s->o.optim, s->o.kernels, s->n, &s->optim));
  if (s->o.element_ns > 0) ronde__optim_pace(s->optim, s->group->time, s->o.element_ns);
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
  return ronde__transport_send(s->group, 0, RONDE__PS_TAG(tag), data, bytes);
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

ronde_status ronde__server_clip(ronde__server *s, float *gradients) {
  if (s->o.clip <= 0) return RONDE_OK;
  s->squares[s->index] = s->o.kernels->sum_squares(gradients, (int64_t)s->n);
  RONDE_TRY(ronde__allgather(s->servers, RONDE__PS_NORM, s->squares, sizeof *s->squares));
  double sum = 0;
  for (int i = 0; i < s->n_servers; i++) sum += s->squares[i];
  float factor = ronde__clip_factor(sum, s->o.clip);
  if (factor != 1) s->o.kernels->scale(gradients, factor, (int64_t)s->n);
  return RONDE_OK;
}

static ronde_status serve(ronde__server *s) {
  ronde__prof_switch(s->prof, RONDE__PHASE_WAIT);
  RONDE_TRY(set_up(s));
  RONDE_TRY(s->serve(s));
  ronde__prof_switch(s->prof, RONDE__PHASE_OTHER);
  return RONDE_OK;
}

ronde_status ronde__server_run(void *arg) {
  ronde__server *s = arg;
  ronde_status status = serve(s);
  if (status == RONDE_OK) return status;
  s->group->ops->abort(s->group);
  s->group->ops->cancel(s->group, s->requests, s->n_requests);
  return status;
}
