/* Synchronous parameter servers: every step is everybody's. A worker pushes its gradients, the servers update once they have
 * all workers', and each worker pulls what they have made of them. Source: Li et al., "Scaling distributed machine
 * learning with the parameter server", OSDI 2014. */
#include "strategy/ps_worker.h"
#include "strategy/server.h"

typedef ronde__ps_worker state;

/* What this rank found goes out behind its gradients; what all have found comes back. */
static ronde_status end_pushes(void *arg) {
  state *s = arg;
  uint32_t tag = RONDE__PS_TAG(RONDE__PS_RESULTS);
  RONDE_TRY(s->group->ops->irecv(s->group, ronde__ps_rank_of(s, 0), tag, s->results,
                                 (size_t)s->worker->transport->size * sizeof *s->results, &s->ends[s->n_servers]));
  RONDE_TRY(ronde__ps_end_own_push(s));
  return ronde__ps_wait(s, s->ends + s->n_servers, 1);
}

static ronde_status ps_sync_step(void *opaque, const ronde__step *step, ronde__step_result *result_out) {
  state *s = opaque;
  ronde__worker *worker = s->worker;
  ronde__ps_begin_step(s, (ronde__ps_head){.kind = RONDE__PS_STEP, .lr = step->lr});
  RONDE_TRY(ronde__comm_thread_submit(s->thread, ronde__ps_send_head, s));
  RONDE_TRY(ronde__worker_gradients(worker, step, (ronde__gradient_listener){ronde__ps_gradient_final, s}, &s->found));
  uint64_t begin = ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
  ronde__ps_send_ready(s);
  RONDE_TRY(s->status);
  RONDE_TRY(ronde__comm_thread_submit(s->thread, end_pushes, s));
  RONDE_TRY(ronde__ps_settle(s));
  uint64_t end = ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
  ronde__worker_met(worker, s->results, begin, end);
  *result_out = ronde__local_results_join(s->results, worker->transport->size);
  if (result_out->broken_rank >= 0) return RONDE_OK;
  ronde__optim_begin(worker->optim, step->lr);
  ronde__optim_dead(worker->optim, ronde__net_values(worker->net));
  RONDE_TRY(ronde__ps_begin_pulls(s));
  if (!s->settings->overlap) RONDE_TRY(ronde__ps_settle(s));
  return RONDE_OK;
}

static ronde_status ps_sync_create(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out) {
  return ronde__ps_create(worker, settings, true, state_out);
}

const char *const ronde__ps_sync_options[] = {
    RONDE__OPTIONS_OF_STEPS, RONDE__OPTIONS_OF_BUCKETS, RONDE__OPTIONS_OF_SERVERS, "backup", "sparse-gradients", NULL};

static ronde_status ps_sync_create_server(const ronde__service_options *options, void **server_out) {
  return ronde__server_create(options, ronde__server_in_step, server_out);
}

static ronde_status ps_sync_place(const ronde__strategy_settings *settings, ronde__roles *roles) {
  static const ronde__role role = RONDE__PS_ROLE(ps_sync_create_server);
  return ronde__ps_place(settings, &role, roles);
}

const ronde__strategy ronde__strategy_ps_sync = {
    .name = "ps-sync",
    .options = ronde__ps_sync_options,
    .check = ronde__ps_check,
    .min_workers = 1,
    .waits_for_all = true,
    .equals_one = true,
    .extra_ranks = ronde__ps_extra_ranks,
    .place = ps_sync_place,
    .more_bytes = ronde__ps_more_bytes,
    .create = ps_sync_create,
    .step = ps_sync_step,
    .destroy = ronde__ps_destroy,
    .settle = ronde__ps_settle,
    .gather_state = ronde__ps_gather_state,
    .finish = ronde__ps_finish,
    .records = ronde__ps_sync_records,
    .record = ronde__ps_sync_record,
};
