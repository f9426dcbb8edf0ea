/* Asynchronous parameter servers: each push of a worker is an update of its own, made as it arrives, and the pull is of what
 * the servers hold behind it. Source: Dean et al., "Large scale distributed deep networks", NIPS 2012. */
#include "strategy/ps_worker.h"
#include "strategy/server.h"

typedef ronde__ps_worker state;

static ronde_status end_replies(void *arg) {
  state *s = arg;
  return ronde__ps_wait(s, s->replies, s->n_servers);
}

/* Gradients that are not on their way yet are of parameters that have all been pulled. */
static void ps_async_gradient_final(void *user, const ronde__gradient *gradient) {
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

ronde_status ronde__ps_begin_answers(state *s) {
  for (int i = 0; i < s->n_servers; i++)
    RONDE_TRY(s->group->ops->irecv(s->group, ronde__ps_rank_of(s, i), RONDE__PS_TAG(RONDE__PS_ANSWER), &s->answers[i],
                                   sizeof s->answers[i], &s->replies[i]));
  return ronde__comm_thread_submit(s->thread, end_replies, s);
}

static ronde_status begin_replies(state *s) {
  RONDE_TRY(ronde__ps_begin_answers(s));
  return ronde__ps_begin_pulls(s);
}

ronde_status ronde__ps_own_step(void *opaque, const ronde__step *step, ronde__step_result *result_out) {
  state *s = opaque;
  ronde__worker *worker = s->worker;
  bool any = step->own_examples > 0;
  ronde__step own = *step;
  ronde__local_result found;
  own.examples = ronde__max(1, step->own_examples);
  ronde__ps_begin_buckets(s);
  s->begun = false;
  s->own = (ronde__ps_head){.kind = RONDE__PS_STEP, .lr = step->lr, .step = step->step};
  if (!any) RONDE_TRY(ronde__ps_settle(s)); /* the gradients are zeroed, and may be on their way still */
  RONDE_TRY(ronde__worker_gradients(worker, &own, (ronde__gradient_listener){any ? ps_async_gradient_final : NULL, s},
                                    &found));
  ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
  RONDE_TRY(s->status);
  *result_out = ronde__local_results_join(&found, 1);
  if (found.broken) result_out->broken_rank = worker->transport->rank;
  for (int i = 0; i < s->n_servers; i++) result_out->cancelled |= s->answers[i].stop != 0;
  if (!any) return RONDE_OK;
  s->found = found;
  ronde__ps_send_ready(s);
  RONDE_TRY(s->status);
  RONDE_TRY(ronde__comm_thread_submit(s->thread, ronde__ps_end_own_push, s));
  RONDE_TRY(begin_replies(s));
  return s->settings->overlap ? RONDE_OK : ronde__ps_settle(s);
}

ronde_status ronde__ps_own_refresh(void *opaque) {
  state *s = opaque;
  RONDE_TRY(ronde__ps_settle(s));
  RONDE_TRY(ronde__ps_tell(s, RONDE__PS_FETCH));
  RONDE_TRY(begin_replies(s));
  return ronde__ps_settle(s);
}

static ronde_status ps_async_create(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out) {
  return ronde__ps_create(worker, settings, false, state_out);
}

static const char *const options[] = {RONDE__OPTIONS_OF_BUCKETS, RONDE__OPTIONS_OF_SERVERS, "sparse-gradients",
                                      "lr-divide-workers", NULL};

static ronde_status ps_async_create_server(const ronde__service_options *options, void **server_out) {
  return ronde__server_create(options, ronde__server_on_arrival, server_out);
}

static ronde_status ps_async_place(const ronde__strategy_settings *settings, ronde__roles *roles) {
  static const ronde__role role = RONDE__PS_ROLE(ps_async_create_server);
  return ronde__ps_place(settings, &role, roles);
}

const ronde__strategy ronde__strategy_ps_async = {
    .name = "ps-async",
    .options = options,
    .check = ronde__ps_check,
    .min_workers = 1,
    .meets_to_save = "--strategy ps-async",
    .asynchronous = true,
    .goes_on = true,
    .keeps_workers = RONDE__PS_OWN_UPDATES,
    .keeps_strategy = RONDE__PS_OWN_UPDATES,
    .extra_ranks = ronde__ps_extra_ranks,
    .place = ps_async_place,
    .more_bytes = ronde__ps_more_bytes,
    .facts_bytes = sizeof(ronde__staleness),
    .facts = ronde__ps_facts,
    .records = ronde__ps_records,
    .record = ronde__ps_record,
    .create = ps_async_create,
    .step = ronde__ps_own_step,
    .destroy = ronde__ps_destroy,
    .settle = ronde__ps_settle,
    .refresh = ronde__ps_own_refresh,
    .gather_state = ronde__ps_gather_state,
    .finish = ronde__ps_finish,
};
