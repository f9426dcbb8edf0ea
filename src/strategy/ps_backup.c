/* ps-sync with backup workers: the slowest of a step are not waited for. Source: Chen et al., "Revisiting distributed
 * synchronous SGD", 2016. What comes back with the parameters says how each step ended, up
 * to the one that they are behind; those that the worker comes to afterwards, it only hears of. */
#include "strategy/ps_worker.h"
#include "strategy/server.h"

#include <inttypes.h>

enum { MAX_NEWS = 1 << 24 }; /* more than steps in an epoch, at whose end all meet */

static ronde_status receive(ronde__ps_worker *s, void *data, size_t bytes) {
  return ronde__transport_receive(s->group, ronde__ps_rank_of(s, 0), RONDE__PS_TAG(RONDE__PS_NEWS), data, bytes);
}

static ronde_status take_news(void *arg) {
  ronde__ps_worker *s = arg;
  ronde__ps_news head;
  RONDE_TRY(receive(s, &head, sizeof head));
  int64_t n = head.n_outcomes;
  if (n < 1 || n > MAX_NEWS)
    return ronde__fail(RONDE_E_INTERNAL, "server 0 reported on an impossible number of steps: %" PRId64, n);
  if (n > s->news_capacity) {
    ronde__free(s->news);
    s->news = NULL;
    s->news_capacity = 0;
    RONDE__ALLOC(s->news, (size_t)n * sizeof *s->news, "news of steps");
    s->news_capacity = n;
  }
  s->n_news = n;
  s->waited_ns = head.waited_ns;
  return receive(s, s->news, (size_t)n * sizeof *s->news);
}

static const ronde__ps_outcome *find(const ronde__ps_worker *s, int64_t step) {
  int64_t i = s->n_news ? step - s->news[0].step : -1;
  return i >= 0 && i < s->n_news ? &s->news[i] : NULL;
}

static ronde__step_result result_of(const ronde__ps_outcome *outcome, const ronde__step *step, bool missed) {
  return (ronde__step_result){.loss_sum = outcome->loss_sum,
                              .n_correct = outcome->n_correct,
                              .cancelled = outcome->cancelled,
                              .broken_rank = (int)outcome->broken_rank,
                              .broken_param = (int)outcome->broken_param,
                              .left_out = &outcome->left_out,
                              .n_left_out = step->examples - outcome->examples,
                              .missed = missed};
}

static ronde_status pass_over(ronde__ps_worker *s, const ronde__step *step) {
  for (int i = 0; i < step->n_batches; i++) RONDE_TRY(ronde__loader_skip(s->worker->loader));
  return RONDE_OK;
}

static ronde__ps_head head_of(const ronde__worker *worker, const ronde__step *step) {
  int64_t largest = ronde__min(step->examples, worker->batch); /* of its batches; its first examples are rank 0's */
  return (ronde__ps_head){.kind = RONDE__PS_STEP,
                          .lr = step->lr,
                          .step = step->step,
                          .examples = step->own_examples,
                          .step_examples = step->examples,
                          .n_contributors = ronde__min(largest, worker->transport->size)};
}

static ronde_status step_with_backup(void *opaque, const ronde__step *step, ronde__step_result *result_out) {
  ronde__ps_worker *s = opaque;
  ronde__worker *worker = s->worker;
  bool any = step->own_examples > 0;
  const ronde__ps_outcome *outcome = find(s, step->step);
  if (outcome) {
    RONDE_TRY(pass_over(s, step));
    *result_out = result_of(outcome, step, any);
    return RONDE_OK;
  }
  ronde__ps_begin_step(s, head_of(worker, step));
  RONDE_TRY(ronde__comm_thread_submit(s->thread, ronde__ps_send_head, s));
  if (!any) RONDE_TRY(ronde__ps_settle(s)); /* the gradients are zeroed, and may be on their way still */
  RONDE_TRY(ronde__worker_gradients(worker, step, (ronde__gradient_listener){any ? ronde__ps_gradient_final : NULL, s},
                                    &s->found));
  uint64_t begin = ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
  if (any) ronde__ps_send_ready(s);
  RONDE_TRY(s->status);
  if (any) RONDE_TRY(ronde__comm_thread_submit(s->thread, ronde__ps_end_own_push, s));
  RONDE_TRY(ronde__comm_thread_submit(s->thread, take_news, s));
  RONDE_TRY(ronde__ps_settle(s));
  uint64_t end = ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
  if (!(outcome = find(s, step->step)))
    return ronde__fail(RONDE_E_INTERNAL, "server 0 did not report the outcome of step %" PRId64, step->step);
  ronde__prof_move(worker->prof, RONDE__PHASE_EXCHANGE, RONDE__PHASE_WAIT, ronde__min(s->waited_ns, end - begin));
  *result_out = result_of(outcome, step, false);
  RONDE_TRY(ronde__ps_begin_pulls(s));
  return s->settings->overlap ? RONDE_OK : ronde__ps_settle(s);
}

static bool is_meant(const ronde__strategy_settings *settings) {
  return settings->options && settings->options->backup > 0;
}

static int n_counted(const ronde__strategy_settings *settings, int n_workers) {
  return n_workers - (int)settings->options->backup;
}

static ronde_status ps_backup_create(ronde__worker *worker, const ronde__strategy_settings *settings,
                                     void **state_out) {
  return ronde__ps_create(worker, settings, false, state_out);
}

static ronde_status check(const ronde__strategy_settings *settings, int n_workers) {
  const ronde__options *o = settings->options;
  if (o->backup >= n_workers)
    return ronde__fail(RONDE_E_USAGE,
                       "--backup %d: a step needs at least one of the %d workers, so give a smaller number",
                       (int)o->backup, n_workers);
  if (n_workers > RONDE__SET_RANKS)
    return ronde__fail(RONDE_E_USAGE, "--backup works with at most %d workers, not %d", RONDE__SET_RANKS, n_workers);
  return o->sync_bn ? ronde__fail(RONDE_E_USAGE,
                                  "--backup and --sync-bn exclude each other: synchronised normalisation makes every "
                                  "worker wait for all others")
                    : ronde__ps_check(settings, n_workers);
}

static ronde_status ps_backup_create_server(const ronde__service_options *options, void **server_out) {
  return ronde__server_create(options, ronde__server_with_backup, server_out);
}

static ronde_status ps_backup_place(const ronde__strategy_settings *settings, ronde__roles *roles) {
  static const ronde__role role = RONDE__PS_ROLE(ps_backup_create_server);
  return ronde__ps_place(settings, &role, roles);
}

const ronde__strategy ronde__strategy_ps_backup = {
    .name = "ps-sync",
    .is_meant = is_meant,
    .options = ronde__ps_sync_options,
    .check = check,
    .min_workers = 1,
    .meets_to_save = "--backup",
    .extra_ranks = ronde__ps_extra_ranks,
    .place = ps_backup_place,
    .more_bytes = ronde__ps_more_bytes,
    .n_counted = n_counted,
    .create = ps_backup_create,
    .step = step_with_backup,
    .destroy = ronde__ps_destroy,
    .settle = ronde__ps_settle,
    .gather_state = ronde__ps_gather_state,
    .finish = ronde__ps_finish,
    .records = ronde__ps_sync_records,
    .record = ronde__ps_sync_record,
};
