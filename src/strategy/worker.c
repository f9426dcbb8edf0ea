/* What every strategy does for itself on a rank: load, forward, backward, look at each gradient, update. */
#include "strategy/strategy.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

typedef struct watch {
  ronde__worker *worker;
  ronde__gradient_listener listener;
  ronde__local_result *own;
  _Atomic int32_t broken; /* of the part: concurrent gradients come from several threads */
  bool last;              /* the gradients of this batch are the step's */
  ronde__phase phase;     /* the present one */
} watch;

/* Where the rank's time went since the last step's meeting; its waiting is in no cause. */
static void note_spent(const ronde__worker *worker, uint64_t now_ns, uint64_t spent_ns[RONDE__N_STRAGGLER_CAUSES]) {
  uint64_t ns[RONDE__N_PHASES];
  ronde__prof_totals_at(worker->prof, now_ns, ns);
  for (int p = 0; p < RONDE__N_PHASES; p++) ns[p] -= worker->met_phases_ns[p];
  spent_ns[RONDE__STRAGGLER_LOAD] = ns[RONDE__PHASE_LOAD];
  spent_ns[RONDE__STRAGGLER_COMPUTE] = ns[RONDE__PHASE_FORWARD] + ns[RONDE__PHASE_BACKWARD];
  spent_ns[RONDE__STRAGGLER_EXCHANGE] = ns[RONDE__PHASE_EXCHANGE];
  spent_ns[RONDE__STRAGGLER_OTHER] =
      ns[RONDE__PHASE_UPDATE] + ns[RONDE__PHASE_OTHER] + ns[RONDE__PHASE_EVAL] + ns[RONDE__PHASE_CHECKPOINT];
}

static void update_one(ronde__worker *worker, const ronde__gradient *g) {
  uint64_t begin = ronde__prof_switch(worker->prof, RONDE__PHASE_UPDATE);
  float *w = ronde__net_values(worker->net) + g->begin;
  size_t n = g->end - g->begin;
  if (g->rows) ronde__optim_rows_on(worker->optim, worker->pool, w, g->data, g->begin, g->rows, (ronde__range){0, n});
  else ronde__optim_range_on(worker->optim, worker->pool, w, g->data, g->begin, n);
  ronde__prof_op_add(worker->prof, worker->update_slot, begin, ronde__prof_switch(worker->prof, RONDE__PHASE_BACKWARD),
                     0);
}

/* Within the op that has just made it. */
static void update_concurrently(const ronde__worker *worker, const ronde__gradient *g) {
  size_t n = g->end - g->begin;
  if (!g->fetched) ronde__optim_fetch(worker->optim, g->end, n); /* the next ones mostly follow */
  ronde__optim_range(worker->optim, ronde__net_values(worker->net) + g->begin, g->data, g->begin, n);
}

static ronde_status worker_param_needed(void *user, int param) {
  const watch *w = user;
  ronde__worker *worker = w->worker;
  if (worker->param_needed) RONDE_TRY(worker->param_needed(worker->needed_user, param));
  ronde__recorder_needed(worker->recorder, param);
  return RONDE_OK;
}

static bool rows_are_finite(const ronde__worker *worker, const ronde__gradient *g) {
  const ronde__row_set *rows = g->rows;
  for (int64_t row = 0, next; row < rows->n; row = next) {
    next = ronde__row_set_run(rows, row, rows->n);
    if (!ronde__row_set_has(rows, row)) continue;
    if (!worker->kernels->all_finite(g->data + row * rows->elems, (next - row) * rows->elems)) return false;
  }
  return true;
}

/* Of what has a gradient. */
static bool is_finite(const ronde__worker *worker, const ronde__gradient *g) {
  int n_dead;
  if (g->rows) return rows_are_finite(worker, g);
  const ronde__range *dead = ronde__net_dead(worker->net, &n_dead);
  ronde__gaps live = ronde__gaps_of(dead, n_dead, g->begin, g->end);
  for (ronde__range s; ronde__gaps_next(&live, &s);)
    if (!worker->kernels->all_finite(g->data + (s.begin - g->begin), (int64_t)s.n)) return false;
  return true;
}

/* Its first element; of a table that of the first row that was met, if any. */
static void corrupt(const ronde__worker *worker, const ronde__gradient *g) {
  int64_t row = 0;
  if (g->rows && !ronde__row_set_has(g->rows, 0)) row = ronde__row_set_run(g->rows, 0, g->rows->n);
  if (g->rows && row == g->rows->n) return;
  ronde__net_gradients(worker->net)[g->begin + (size_t)(g->rows ? row * g->rows->elems : 0)] = NAN;
}

void ronde__worker_look(ronde__worker *worker, const ronde__gradient *g, ronde__local_result *own) {
  if (own->broken) return;
  if (worker->corrupts) corrupt(worker, g);
  if (!is_finite(worker, g)) own->broken = 2 + g->param;
}

void ronde__worker_ready(const ronde__worker *worker, ronde__local_result *own) {
  uint64_t now = ronde__time_now(worker->transport->time);
  own->ready_ns = now - worker->met_ns;
  note_spent(worker, now, own->spent_ns);
}

/* Whether a gradient is used up as soon as it is there. */
static bool is_fused(const ronde__worker *worker, int param) {
  int n_params;
  if (!worker->fuses_split) return worker->fused_update;
  return ronde__net_params(worker->net, &n_params)[param].split;
}

/* Each gradient is looked at while it is still in cache, before it is mixed with those of other ranks: so a NaN has a
 * name. A fused update stops at the first broken number; what was updated before it stays so (see ronde__step_result). */
static void worker_gradient_final(void *user, const ronde__gradient *g) {
  watch *w = user;
  ronde__worker *worker = w->worker;
  if (!w->last) return;
  ronde__recorder_ready(worker->recorder, g->param);
  bool broken = atomic_load_explicit(&w->broken, memory_order_relaxed) != 0;
  if (worker->corrupts && !broken) corrupt(worker, g);
  if (!broken && !is_finite(worker, g)) {
    atomic_store(&w->broken, 2 + g->param);
    broken = true;
  }
  if (g->concurrent) {
    if (!broken) update_concurrently(worker, g);
    return;
  }
  if (!broken && is_fused(worker, g->param)) update_one(worker, g);
  w->own->broken = w->broken;
  ronde__worker_ready(worker, w->own);
  if (w->listener.final) w->listener.final(w->listener.user, g);
}

/* What an update within the op goes through. */
static int worker_gradient_touches(void *user, size_t begin, const void **at_out) {
  const watch *w = user;
  if (!w->last) return 0;
  at_out[0] = ronde__net_values(w->worker->net) + begin;
  return 1 + ronde__optim_touches(w->worker->optim, begin, at_out + 1);
}

static void worker_layer_done(void *user, int param) {
  const watch *w = user;
  if (w->last) ronde__recorder_done(w->worker->recorder, param);
}

/* What of an exchange was before the last rank was ready. */
static void move_waiting(ronde__prof *prof, uint64_t latest_ns, uint64_t begin_ns, uint64_t end_ns) {
  if (latest_ns > end_ns) latest_ns = end_ns;
  if (latest_ns > begin_ns) ronde__prof_move(prof, RONDE__PHASE_EXCHANGE, RONDE__PHASE_WAIT, latest_ns - begin_ns);
}

/* An all-gather on the rank's own thread, while its communication thread may be exchanging gradients: forward cannot go
 * on without it. Parts travel behind what the rank took to be ready, which tells waiting from exchanging. */
static ronde_status gather_partials(void *user, const double *partial, size_t n, ronde__partials *partials_out) {
  const watch *w = user;
  ronde__worker *worker = w->worker;
  ronde__transport *transport = worker->transport;
  size_t stride = n + 1;
  double *own = worker->partials + (size_t)transport->rank * stride;
  uint64_t begin = ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE), met = worker->met_ns;
  uint64_t ready = ronde__time_now(transport->time) - met, latest = ready;
  memcpy(own, &ready, sizeof ready);
  memcpy(own + 1, partial, n * sizeof *partial);
  RONDE_TRY(ronde__allgather(transport, RONDE__TAG_SHARED, worker->partials, stride * sizeof *own));
  uint64_t end = ronde__prof_switch(worker->prof, w->phase);
  for (int r = 0; r < transport->size; r++) {
    memcpy(&ready, worker->partials + (size_t)r * stride, sizeof ready);
    if (ready > latest) latest = ready;
  }
  move_waiting(worker->prof, met + latest, begin, end);
  worker->met_ns = end;
  *partials_out = (ronde__partials){worker->partials + 1, (int64_t)stride, transport->size};
  return RONDE_OK;
}

static void enter(watch *w, ronde__phase phase) {
  w->phase = phase;
  ronde__prof_switch(w->worker->prof, phase);
}

static ronde_status ask_master(void *user, int64_t n, ronde__net_result *result_out) {
  watch *w = user;
  RONDE_TRY(w->worker->master->loss(w->worker->master->user, n, result_out));
  enter(w, RONDE__PHASE_FORWARD);
  return RONDE_OK;
}

static ronde_status next_batch(const ronde__worker *worker, ronde__batch *batch_out) {
  const ronde__master *master = worker->master;
  return master ? master->next_batch(master->user, batch_out) : ronde__loader_next(worker->loader, batch_out);
}

/* The rank has no example in its last batch: what earlier batches gave, or zeros, is final. */
static void all_final(watch *w, bool any) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(w->worker->net, &n_params);
  float *gradients = ronde__net_gradients(w->worker->net);
  if (!any) ronde__net_clear_gradients(w->worker->net);
  for (int i = n_params - 1; i >= 0; i--) {
    size_t begin = params[i].offset, end = begin + params[i].n_packed;
    ronde__gradient all = {i, begin, end, gradients + begin, false, false, ronde__net_rows(w->worker->net, i)};
    if (!params[i].frozen) worker_gradient_final(w, &all);
  }
}

/* Forward and backward of one batch, or the part that a rank without an example takes in it. */
static ronde_status pass(watch *w, const ronde__net_batch *batch, const ronde__step *step, bool accumulate) {
  ronde__worker *worker = w->worker;
  ronde__net_hooks hooks = {.param_needed = worker->param_needed || worker->recorder ? worker_param_needed : NULL,
                            .gradient = worker_gradient_final,
                            .gradient_touches = worker_gradient_touches,
                            .layer_done = worker->recorder ? worker_layer_done : NULL,
                            .gather_partials = worker->partials ? gather_partials : NULL,
                            .loss = worker->master ? ask_master : NULL,
                            .outputs = worker->master ? worker->master->outputs : NULL,
                            .user = w};
  ronde__net_result result = {0};
  int n_params;
  ronde__net_params(worker->net, &n_params);
  float loss_scale = (float)((double)ronde__max(1, step->n_averaged) / (double)step->examples);
  bool takes_part = batch->n > 0 || batch->n_all > 0;
  if (takes_part) RONDE_TRY(ronde__net_forward(worker->net, batch, loss_scale, &hooks, &result));
  else RONDE_TRY(ronde__net_pass_empty(worker->net, false, &hooks));
  w->own->loss_sum += result.loss_sum;
  w->own->n_correct += result.n_correct;
  if (!isfinite(result.loss_sum) && !w->broken) w->broken = w->own->broken = 1;
  if ((worker->fused_update || worker->fuses_split) && !w->broken) ronde__optim_begin(worker->optim, step->lr);
  /* Backward writes all gradients; an exchange of the last ones may still be under way where a pass had no need of
   * them. */
  for (int i = 0; i < n_params && worker->param_needed; i++) RONDE_TRY(worker_param_needed(w, i));
  enter(w, RONDE__PHASE_BACKWARD);
  RONDE_TRY(takes_part ? ronde__net_backward(worker->net, accumulate, &hooks)
                       : ronde__net_pass_empty(worker->net, true, &hooks));
  w->own->broken = w->broken; /* also of a gradient that was told concurrently */
  return RONDE_OK;
}

ronde_status ronde__worker_gradients(ronde__worker *worker, const ronde__step *step, ronde__gradient_listener listener,
                                     ronde__local_result *own_out) {
  *own_out = (ronde__local_result){.cancel = step->cancel, .save = step->save};
  watch w = {.worker = worker, .listener = listener, .own = own_out};
  bool any = false;
  for (int i = 0; i < step->n_batches; i++) {
    w.last = i == step->n_batches - 1;
    ronde__batch batch;
    enter(&w, RONDE__PHASE_LOAD);
    RONDE_TRY(next_batch(worker, &batch));
    enter(&w, RONDE__PHASE_FORWARD);
    ronde__recorder_begin(worker->recorder, batch.n);
    if (worker->before_forward) RONDE_TRY(worker->before_forward(worker->before_forward_arg));
    int64_t first = i * worker->batch + ronde__shard_begin(batch.global_n, worker->share, worker->n_shares);
    ronde__net_batch net_batch = {.n = batch.n,
                                  .n_all = worker->peers ? batch.global_n : 0,
                                  .x = batch.x,
                                  .labels = batch.labels,
                                  .label_weight = step->label_weight,
                                  .targets = batch.targets,
                                  .training = true,
                                  .seed = worker->seed,
                                  .step = (uint64_t)step->step,
                                  .first_example = first};
    RONDE_TRY(pass(&w, &net_batch, step, any));
    any |= batch.n > 0 || net_batch.n_all > 0;
    if (w.last && batch.n == 0 && net_batch.n_all == 0) all_final(&w, any);
  }
  return RONDE_OK;
}

ronde_status ronde__worker_gradients_on(ronde__worker *worker, const ronde__step *step, const ronde__net_batch *batch,
                                        ronde__local_result *own_out) {
  *own_out = (ronde__local_result){.cancel = step->cancel, .save = step->save};
  watch w = {.worker = worker, .own = own_out, .last = true};
  enter(&w, RONDE__PHASE_FORWARD);
  ronde__recorder_begin(worker->recorder, batch->n);
  if (worker->before_forward) RONDE_TRY(worker->before_forward(worker->before_forward_arg));
  return pass(&w, batch, step, false);
}

ronde__step_result ronde__local_results_join(const ronde__local_result *results, int n) {
  ronde__step_result result = {.broken_rank = -1, .broken_param = -1};
  for (int r = 0; r < n; r++) {
    result.loss_sum += results[r].loss_sum;
    result.n_correct += results[r].n_correct;
    result.cancelled |= results[r].cancel != 0;
    result.saves |= results[r].save != 0;
    if (results[r].broken && result.broken_rank < 0) {
      result.broken_rank = r;
      result.broken_param = results[r].broken - 2;
    }
  }
  return result;
}

void ronde__local_results_waited(const ronde__local_result *results, int n, ronde__prof *prof, uint64_t met_ns,
                                 uint64_t begin_ns, uint64_t end_ns) {
  uint64_t latest = 0;
  for (int r = 0; r < n; r++)
    if (results[r].ready_ns > latest) latest = results[r].ready_ns;
  move_waiting(prof, met_ns + latest, begin_ns, end_ns);
}

void ronde__worker_start(ronde__worker *worker) {
  worker->met_ns = ronde__time_now(worker->transport->time);
  ronde__prof_totals_at(worker->prof, worker->met_ns, worker->met_phases_ns);
}

void ronde__worker_met(ronde__worker *worker, const ronde__local_result *results, uint64_t begin_ns, uint64_t met_ns) {
  ronde__local_results_waited(results, worker->transport->size, worker->prof, worker->met_ns, begin_ns, met_ns);
  if (worker->straggler) ronde__straggler_note(worker->straggler, results);
  worker->met_ns = met_ns;
  ronde__prof_totals(worker->prof, worker->met_phases_ns);
}

static double sum_squares_of(const ronde__worker *worker) {
  if (worker->clip == 0) return 0;
  return worker->kernels->sum_squares(ronde__net_gradients(worker->net), (int64_t)ronde__net_n_trained(worker->net));
}

/* Of kept gradients: of tables, where rows are tracked, no more is read than those that were met. */
static void update_stretch(const ronde__worker *worker, ronde__range stretch) {
  float *w = ronde__net_values(worker->net), *g = ronde__net_gradients(worker->net);
  size_t at = stretch.begin, end = stretch.begin + stretch.n;
  int n_params;
  const ronde__net_param *params = ronde__net_params(worker->net, &n_params);
  for (int i = 0; i < n_params; i++) {
    const ronde__row_set *rows = ronde__net_rows(worker->net, i);
    size_t first = params[i].offset, begin = first > at ? first : at, past = first + params[i].n_packed;
    if (past > end) past = end;
    if (!rows || begin >= past) continue;
    if (begin > at) ronde__optim_range_on(worker->optim, worker->pool, w + at, g + at, at, begin - at);
    ronde__optim_rows_on(worker->optim, worker->pool, w + first, g + first, first, rows,
                         (ronde__range){begin - first, past - begin});
    at = past;
  }
  if (at < end) ronde__optim_range_on(worker->optim, worker->pool, w + at, g + at, at, end - at);
}

static void update_all(ronde__worker *worker, uint64_t begin, double lr, double sum_squares) {
  float *gradients = ronde__net_gradients(worker->net);
  float factor = worker->clip > 0 ? ronde__clip_factor(sum_squares, worker->clip) : 1;
  if (factor != 1) worker->kernels->scale(gradients, factor, (int64_t)ronde__net_n_trained(worker->net));
  ronde__optim_begin(worker->optim, lr);
  update_stretch(worker, (ronde__range){0, ronde__net_n_trained(worker->net)});
  ronde__prof_op_add(worker->prof, worker->update_slot, begin, ronde__prof_switch(worker->prof, RONDE__PHASE_OTHER), 0);
}

void ronde__worker_update_range(ronde__worker *worker, ronde__range stretch) {
  uint64_t begin = ronde__prof_switch(worker->prof, RONDE__PHASE_UPDATE);
  update_stretch(worker, stretch);
  ronde__prof_op_add(worker->prof, worker->update_slot, begin, ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE),
                     0);
}

void ronde__worker_update(ronde__worker *worker, double lr) {
  uint64_t begin = ronde__prof_switch(worker->prof, RONDE__PHASE_UPDATE);
  update_all(worker, begin, lr, sum_squares_of(worker));
}

void ronde__worker_update_part(ronde__worker *worker, double lr, double sum_squares) {
  update_all(worker, ronde__prof_switch(worker->prof, RONDE__PHASE_UPDATE), lr, sum_squares);
}

static void finish_alone(ronde__worker *worker, double lr, const ronde__local_result *found,
                         ronde__step_result *result_out) {
  *result_out = ronde__local_results_join(found, 1);
  if (result_out->broken_rank < 0 && !worker->fused_update) ronde__worker_update(worker, lr);
  ronde__prof_switch(worker->prof, RONDE__PHASE_OTHER);
}

ronde_status ronde__worker_evaluate(ronde__worker *worker, const ronde__step *step, ronde__step_result *result_out) {
  ronde__local_result found;
  RONDE_TRY(ronde__worker_gradients(worker, step, (ronde__gradient_listener){0}, &found));
  *result_out = ronde__local_results_join(&found, 1);
  return RONDE_OK;
}

ronde_status ronde__worker_step(ronde__worker *worker, const ronde__step *step, ronde__step_result *result_out) {
  ronde__local_result found;
  RONDE_TRY(ronde__worker_gradients(worker, step, (ronde__gradient_listener){0}, &found));
  finish_alone(worker, step->lr, &found, result_out);
  return RONDE_OK;
}

ronde_status ronde__worker_step_on(ronde__worker *worker, const ronde__net_batch *batch, double lr,
                                   ronde__step_result *result_out) {
  ronde__step step = {.step = (int64_t)batch->step, .examples = batch->n, .n_batches = 1, .lr = lr};
  ronde__local_result found = {0};
  watch w = {.worker = worker, .own = &found, .last = true};
  enter(&w, RONDE__PHASE_FORWARD);
  RONDE_TRY(pass(&w, batch, &step, false));
  finish_alone(worker, lr, &found, result_out);
  return RONDE_OK;
}
