/* Stale synchronous parallel: asynchronous parameter servers, but a worker may lead the slowest by at most --staleness
 * steps. Source: Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server", NIPS 2013. */
#include "strategy/ps_worker.h"

typedef ronde__ps_worker state;

/* The others must not wait for a push that this step does not have. */
static ronde_status pass(state *s, int64_t step) {
  for (int i = 0; i < s->n_servers; i++) s->head[i] = (ronde__ps_head){.kind = RONDE__PS_PASS, .step = step};
  RONDE_TRY(ronde__comm_thread_submit(s->thread, ronde__ps_send_head, s));
  return ronde__ps_settle(s);
}

static ronde_status ps_ssp_step(void *opaque, const ronde__step *step, ronde__step_result *result_out) {
  RONDE_TRY(ronde__ps_own_step(opaque, step, result_out));
  return step->own_examples ? RONDE_OK : pass(opaque, step->step);
}

static ronde_status ps_ssp_create(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out) {
  return ronde__ps_create(worker, settings, false, state_out);
}

static ronde_status ps_ssp_create_server(const ronde__service_options *options, void **server_out) {
  return ronde__server_create(options, ronde__server_within_bound, server_out);
}

static ronde_status ps_ssp_place(const ronde__strategy_settings *settings, ronde__roles *roles) {
  static const ronde__role role = RONDE__PS_ROLE(ps_ssp_create_server);
  return ronde__ps_place(settings, &role, roles);
}

static const char *const options[] = {
    RONDE__OPTIONS_OF_BUCKETS, RONDE__OPTIONS_OF_SERVERS, "sparse-gradients", "lr-divide-workers", "staleness", NULL};

const ronde__strategy ronde__strategy_ps_ssp = {
    .name = "ps-ssp",
    .options = options,
    .check = ronde__ps_check,
    .min_workers = 1,
    .asynchronous = true,
    .goes_on = true,
    .meets_to_save = "--strategy ps-ssp",
    .keeps_workers = RONDE__PS_OWN_UPDATES,
    .keeps_strategy = RONDE__PS_OWN_UPDATES,
    .extra_ranks = ronde__ps_extra_ranks,
    .place = ps_ssp_place,
    .more_bytes = ronde__ps_more_bytes,
    .create = ps_ssp_create,
    .step = ps_ssp_step,
    .destroy = ronde__ps_destroy,
    .settle = ronde__ps_settle,
    .refresh = ronde__ps_own_refresh,
    .gather_state = ronde__ps_gather_state,
    .finish = ronde__ps_finish,
    .facts_bytes = sizeof(ronde__staleness),
    .facts = ronde__ps_facts,
    .records = ronde__ps_records,
    .record = ronde__ps_record,
};
