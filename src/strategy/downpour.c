/* Downpour SGD: each worker trains a replica of its own by plain gradient descent, pushes the sum of its gradients to the
 * parameter servers every --n-push steps, and fetches the parameters every --n-fetch steps. Each push is an update by
 * Adagrad, whose sums of squares the servers keep. After a warm start the first worker is joined by the others.
 * Source: Dean et al., "Large scale distributed deep networks", NIPS 2012, section 4.1 and algorithm 7.1. */
#include "strategy/ps_worker.h"

#include <inttypes.h>
#include <string.h>

typedef struct state {
  ronde__ps_worker *ps;
  float *accrued; /* [trained] the sum of the gradients of n_accrued steps, since the last push */
  int64_t n_accrued;
  ronde__row_set *met; /* [parameters] the rows of tables that accrued has; bits NULL: it has all */
  /* [servers] updates of each server's piece: those that are in the replica, fetched or its own, and those that were when
   * the first gradient in accrued was computed. */
  int64_t *known, *base;
  ronde__ps_kind asked; /* what is not answered yet; END: nothing */
  bool stopped;         /* a server has said that the run is to end */
  bool warming;         /* worker 0: the others have not begun */
  bool pushes, fetches; /* the present step */
} state;

/* ---- messages ------------------------------------------------------------------------------------------------------ */

/* Waits for what was asked. The gradients are the worker's again. */
static ronde_status hear(state *s) {
  ronde__ps_worker *ps = s->ps;
  RONDE_TRY(ronde__ps_settle(ps));
  for (int i = 0; i < ps->n_servers && s->asked != RONDE__PS_END; i++) {
    s->known[i] = s->asked == RONDE__PS_PUSH_ALONE ? s->known[i] + 1 : ps->answers[i].version;
    s->stopped |= ps->answers[i].stop != 0;
  }
  s->asked = RONDE__PS_END;
  if (s->n_accrued == 0) memcpy(s->base, s->known, (size_t)ps->n_servers * sizeof *s->base);
  return RONDE_OK;
}

static ronde_status send_head(state *s, ronde__ps_kind kind) {
  ronde__ps_worker *ps = s->ps;
  RONDE_TRY(hear(s));
  ps->own.kind = s->asked = kind;
  for (int i = 0; i < ps->n_servers; i++) {
    ps->head[i] = ps->own;
    ps->head[i].version = s->base[i];
  }
  return ronde__comm_thread_submit(ps->thread, ronde__ps_send_head, ps);
}

/* The rest of the gradients, and what was found. */
static ronde_status end_push(state *s) {
  ronde__ps_worker *ps = s->ps;
  ronde__ps_send_ready(ps);
  RONDE_TRY(ps->status);
  s->n_accrued = 0;
  RONDE_TRY(ronde__comm_thread_submit(ps->thread, ronde__ps_end_own_push, ps));
  return ronde__ps_begin_answers(ps);
}

/* Nobody waits for the parameters. Backward, which writes the gradients, begins behind the last layer's forward. */
static ronde_status push_alone(state *s) {
  ronde__ps_worker *ps = s->ps;
  RONDE_TRY(send_head(s, RONDE__PS_PUSH_ALONE));
  ronde__ps_begin_buckets(ps);
  ronde__buckets_all_final(&ps->cut);
  RONDE_TRY(end_push(s));
  ps->buckets[0].pull_job = ronde__comm_thread_submitted(ps->thread);
  return RONDE_OK;
}

static ronde_status fetch(state *s) {
  RONDE_TRY(send_head(s, RONDE__PS_FETCH));
  RONDE_TRY(ronde__ps_begin_answers(s->ps));
  return ronde__ps_begin_pulls(s->ps);
}

/* ---- rows of tables ------------------------------------------------------------------------------------------------ */

/* The gradient of the parameter has the rows that were accrued, too. */
static void join_rows(state *s, int param) {
  ronde__row_set *rows = ronde__net_rows(s->ps->worker->net, param);
  if (rows && s->n_accrued) ronde__row_set_unite(rows, s->met[param].bits);
}

static void accrue_rows(state *s, int param) {
  const ronde__row_set *rows = ronde__net_rows(s->ps->worker->net, param);
  if (!rows) return;
  if (s->n_accrued == 0) ronde__row_set_clear(&s->met[param]);
  ronde__row_set_unite(&s->met[param], rows->bits);
}

static void take_rows(state *s) {
  int n_params;
  ronde__net_params(s->ps->worker->net, &n_params);
  for (int i = 0; i < n_params; i++) (s->pushes ? join_rows : accrue_rows)(s, i);
}

/* ---- a step -------------------------------------------------------------------------------------------------------- */

/* A step that pushes and fetches: gradients leave while backward runs, as the replica makes no update of its own. */
static void gradient_final(void *user, const ronde__gradient *gradient) {
  state *s = user;
  ronde__worker *worker = s->ps->worker;
  float *sum = ronde__net_gradients(worker->net) + gradient->begin;
  if (!s->ps->begun && s->ps->status == RONDE_OK) {
    ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
    s->ps->status = send_head(s, RONDE__PS_STEP);
    s->ps->begun = true;
    ronde__prof_switch(worker->prof, RONDE__PHASE_BACKWARD);
  }
  join_rows(s, gradient->param);
  if (s->n_accrued)
    worker->kernels->add(sum, s->accrued + gradient->begin, sum, (int64_t)(gradient->end - gradient->begin));
  ronde__ps_gradient_final(s->ps, gradient);
}

/* It follows the schedule, as the servers' rate does. */
static double local_rate(const state *s) {
  const ronde__options *o = s->ps->settings->options;
  return o->lr > 0 ? s->ps->own.lr * (o->local_lr / o->lr) : o->local_lr;
}

/* A thread's part, in whole cache lines: the replica's own update, and the sum, which stays or is about to leave. */
static void take_part(void *arg, int thread, int n_threads) {
  enum { LINE = 16 };
  const state *s = arg;
  const ronde__worker *worker = s->ps->worker;
  int64_t n = (int64_t)ronde__net_n_trained(worker->net), n_lines = ronde__ceil_div(n, LINE);
  int64_t begin = ronde__min(ronde__shard_begin(n_lines, thread, n_threads) * LINE, n);
  int64_t end = ronde__min(ronde__shard_begin(n_lines, thread + 1, n_threads) * LINE, n);
  float *gradient = ronde__net_gradients(worker->net) + begin, *accrued = s->accrued + begin;
  if (!s->fetches)
    worker->kernels->sgd(&(ronde__sgd_args){.lr = (float)local_rate(s)}, ronde__net_values(worker->net) + begin,
                         gradient, NULL, end - begin);
  float *sum = s->pushes ? gradient : accrued;
  if (s->n_accrued) worker->kernels->add(gradient, accrued, sum, end - begin);
  else if (!s->pushes) memcpy(accrued, gradient, (size_t)(end - begin) * sizeof *accrued);
}

/* Behind backward, which reads the parameters to its end. any: there are gradients in this step. */
static ronde_status end_step(state *s, bool any) {
  ronde__worker *worker = s->ps->worker;
  s->pushes &= any || s->n_accrued > 0;
  if (any || s->pushes) {
    ronde__prof_switch(worker->prof, RONDE__PHASE_UPDATE);
    take_rows(s);
    ronde__pool_run(worker->pool, take_part, s);
    ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
    s->n_accrued++;
  }
  if (s->pushes) RONDE_TRY(push_alone(s));
  return s->fetches ? fetch(s) : RONDE_OK;
}

static ronde_status end_early_step(state *s) {
  RONDE_TRY(end_push(s));
  return ronde__ps_begin_pulls(s->ps);
}

/* ---- warm start ---------------------------------------------------------------------------------------------------- */

#define BEGIN RONDE__PS_TAG(RONDE__PS_BEGIN)

/* Of worker 0, when the servers have made all its updates. */
static ronde_status let_others_begin(state *s) {
  ronde__ps_worker *ps = s->ps;
  int64_t step = ps->own.step;
  s->warming = false;
  for (int w = 1; w < ps->worker->transport->size; w++)
    RONDE_TRY(ronde__transport_send(ps->group, w, BEGIN, &step, sizeof step));
  return RONDE_OK;
}

/* Each of worker 0's steps may take as long as a server waits for one. */
static ronde_status wait_to_begin(state *s) {
  ronde__ps_worker *ps = s->ps;
  int64_t step;
  uint64_t limit_ns = (uint64_t)ps->settings->options->warm_start * ps->group->timeout_ns;
  ronde__prof_switch(ps->worker->prof, RONDE__PHASE_WAIT);
  RONDE_TRY(ps->group->ops->irecv(ps->group, 0, BEGIN, &step, sizeof step, ps->ends));
  RONDE_TRY(ps->group->ops->wait(ps->group, ps->ends, 1, limit_ns));
  ronde__prof_switch(ps->worker->prof, RONDE__PHASE_EXCHANGE);
  return fetch(s);
}

/* ---- the strategy -------------------------------------------------------------------------------------------------- */

static ronde_status begin_step(state *s, const ronde__step *step, bool any) {
  const ronde__options *o = s->ps->settings->options;
  bool warms = step->step == 1 && o->warm_start > 0, is_first = s->ps->worker->transport->rank == 0;
  /* Between a push and a fetch behind it the replica has changed rows that the servers know nothing of. */
  s->ps->own = (ronde__ps_head){.lr = step->lr, .step = step->step, .whole = o->n_fetch % o->n_push != 0};
  s->ps->begun = false;
  if (warms && !is_first) RONDE_TRY(wait_to_begin(s));
  s->warming |= warms && is_first;
  s->pushes = step->step % o->n_push == 0 || (s->warming && step->step == o->warm_start);
  s->fetches = step->step % o->n_fetch == 0;
  ronde__ps_begin_buckets(s->ps);
  return any ? RONDE_OK : hear(s); /* the gradients are zeroed, and may be on their way still */
}

static ronde_status step(void *opaque, const ronde__step *step, ronde__step_result *result_out) {
  state *s = opaque;
  ronde__worker *worker = s->ps->worker;
  bool any = step->own_examples > 0;
  ronde__step own = *step;
  ronde__local_result found;
  own.examples = ronde__max(1, step->own_examples);
  RONDE_TRY(begin_step(s, step, any));
  bool early = any && s->pushes && s->fetches;
  RONDE_TRY(
      ronde__worker_gradients(worker, &own, (ronde__gradient_listener){early ? gradient_final : NULL, s}, &found));
  ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
  RONDE_TRY(s->ps->status);
  if (!early) RONDE_TRY(hear(s));
  s->ps->found = found;
  RONDE_TRY(early ? end_early_step(s) : end_step(s, any));
  *result_out = ronde__local_results_join(&found, 1);
  if (found.broken) result_out->broken_rank = worker->transport->rank;
  result_out->cancelled |= s->stopped;
  if (s->warming && step->step == s->ps->settings->options->warm_start) {
    RONDE_TRY(hear(s));
    RONDE_TRY(let_others_begin(s));
  }
  return s->ps->settings->overlap ? RONDE_OK : hear(s);
}

/* Before its time, as all workers meet. */
static ronde_status end_warm_start(state *s) {
  const ronde__options *o = s->ps->settings->options;
  if (!o->dry_run)
    ronde__log(RONDE_LOG_WARNING,
               "--warm-start %" PRId64 ": the workers meet after step %" PRId64 ", from which on all of them train",
               o->warm_start, s->ps->own.step);
  return let_others_begin(s);
}

/* Workers are about to meet: what is left goes to the servers, which have made their updates of it when it is answered. */
static ronde_status settle(void *opaque) {
  state *s = opaque;
  const ronde__net *net = s->ps->worker->net;
  RONDE_TRY(hear(s));
  if (s->n_accrued) {
    s->pushes = true;
    take_rows(s);
    memcpy(ronde__net_gradients(s->ps->worker->net), s->accrued, ronde__net_n_trained(net) * sizeof *s->accrued);
    RONDE_TRY(push_alone(s));
    RONDE_TRY(hear(s));
  }
  return s->warming ? end_warm_start(s) : RONDE_OK;
}

static ronde_status refresh(void *opaque) {
  state *s = opaque;
  RONDE_TRY(hear(s));
  RONDE_TRY(ronde__ps_own_refresh(s->ps));
  s->asked = RONDE__PS_FETCH;
  return hear(s);
}

static void record(const void *opaque, const void *facts, int n_ranks, json_t *communication) {
  ronde__ps_record(((const state *)opaque)->ps, facts, n_ranks, communication);
}

static ronde_status gather_state(void *opaque) { return ronde__ps_gather_state(((state *)opaque)->ps); }
static ronde_status finish(void *opaque) { return ronde__ps_finish(((state *)opaque)->ps); }

static void destroy(void *opaque) {
  state *s = opaque;
  if (!s) return;
  size_t bytes = s->ps ? ronde__net_n_trained(s->ps->worker->net) * sizeof *s->accrued : 0;
  int n_params = 0;
  if (s->met) ronde__net_params(s->ps->worker->net, &n_params);
  for (int i = 0; i < n_params; i++) ronde__free(s->met[i].bits);
  ronde__free(s->met);
  if (s->accrued) ronde__pages_unmap(s->accrued, bytes);
  ronde__ps_destroy(s->ps);
  ronde__free(s->known);
  ronde__free(s->base);
  ronde__free(s);
}

static ronde_status make_row_sets(state *s) {
  int n_params;
  ronde__net_params(s->ps->worker->net, &n_params);
  RONDE__ALLOC(s->met, (size_t)n_params * sizeof *s->met, "downpour");
  for (int i = 0; i < n_params; i++) {
    const ronde__row_set *rows = ronde__net_rows(s->ps->worker->net, i);
    if (rows) RONDE_TRY(ronde__row_set_make(rows->n, rows->elems, &s->met[i]));
  }
  return RONDE_OK;
}

static ronde_status set_up(state *s, ronde__worker *worker, const ronde__strategy_settings *settings) {
  void *ps;
  size_t bytes = ronde__net_n_trained(worker->net) * sizeof *s->accrued;
  RONDE_TRY(ronde__ps_create(worker, settings, false, &ps));
  s->ps = ps;
  RONDE__ALLOC(s->known, (size_t)s->ps->n_servers * sizeof *s->known, "downpour");
  RONDE__ALLOC(s->base, (size_t)s->ps->n_servers * sizeof *s->base, "downpour");
  RONDE_TRY(make_row_sets(s));
  s->accrued = ronde__pages_map(bytes);
  return s->accrued ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "downpour: no memory for %zu bytes of gradients", bytes);
}

static ronde_status create(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out) {
  state *s;
  RONDE__ALLOC(s, sizeof *s, "downpour");
  *s = (state){.asked = RONDE__PS_END};
  ronde_status status = set_up(s, worker, settings);
  if (status != RONDE_OK) destroy(s);
  else *state_out = s;
  return status;
}

static ronde_status create_server(const ronde__service_options *options, void **server_out) {
  return ronde__server_create(options, ronde__server_on_arrival, server_out);
}

static ronde_status place(const ronde__strategy_settings *settings, ronde__roles *roles) {
  static const ronde__role role = RONDE__PS_ROLE(create_server);
  return ronde__ps_place(settings, &role, roles);
}

/* Each worker keeps the sum of its gradients too. */
static int64_t period(const ronde__strategy_settings *settings) {
  const ronde__options *o = settings->options;
  int64_t n = o->n_push;
  while (n % o->n_fetch) n += o->n_push;
  return o->warm_start ? 0 : n;
}

static size_t more_bytes(const ronde__strategy_settings *settings, size_t gradients, size_t optimizer) {
  return ronde__ps_more_bytes(settings, gradients, optimizer) + (size_t)settings->roles->n_workers * gradients;
}

static const char *const options[] = {RONDE__OPTIONS_OF_BUCKETS,
                                      RONDE__OPTIONS_OF_SERVERS,
                                      "sparse-gradients",
                                      "n-push",
                                      "n-fetch",
                                      "local-lr",
                                      "warm-start",
                                      NULL};

const ronde__strategy ronde__strategy_downpour = {
    .name = "downpour",
    .options = options,
    .check = ronde__ps_check,
    .min_workers = 1,
    .asynchronous = true,
    .goes_on = true,
    .optimizer = "adagrad",
    .meets_to_save = "--strategy downpour",
    .keeps_workers = "every worker makes its own updates",
    .keeps_strategy = "every worker makes its own updates",
    .extra_ranks = ronde__ps_extra_ranks,
    .place = place,
    .period = period,
    .more_bytes = more_bytes,
    .create = create,
    .step = step,
    .destroy = destroy,
    .settle = settle,
    .refresh = refresh,
    .gather_state = gather_state,
    .finish = finish,
    .facts_bytes = sizeof(ronde__staleness),
    .facts = ronde__ps_facts,
    .records = ronde__ps_records,
    .record = record,
};
