/* Steps of L-BFGS over a strategy that can compute a gradient: src/optim/lbfgs.h on the flat arrays of this rank. */
#include "strategy/lbfgs_steps.h"

#include <inttypes.h>
#include <math.h>

typedef struct state {
  ronde__worker *worker;
  const ronde__strategy *base;
  void *base_state;
  ronde__evaluate evaluate;
  ronde__flat_vectors flat;
  ronde__vectors vectors;
  float *start, *kept; /* [trained] */
  ronde__lbfgs *lbfgs;
  bool has_batches; /* of the present step */
} state;

bool ronde__lbfgs_is_meant(const ronde__strategy_settings *settings) {
  return settings->options && settings->options->optimizer == RONDE__OPTIMIZER_LBFGS;
}

/* The start of a line search, and its best gradient. */
size_t ronde__lbfgs_more_bytes(const ronde__strategy_settings *settings, size_t gradients, size_t optimizer) {
  return (size_t)settings->roles->n_workers * (optimizer + 2 * gradients);
}

void *ronde__lbfgs_steps_base(const void *opaque) { return ((const state *)opaque)->base_state; }

/* ---- a step, whoever evaluates ---- */

static bool is_broken(const ronde__step_result *result) { return result->broken_rank >= 0; }

/* The vectors are the optimizer's: its time is that of updates. */
static ronde_status tell(const ronde__lbfgs_run *run, const ronde__step *step, const ronde__step_result *found,
                         bool *more_out) {
  double loss = is_broken(found) ? NAN : found->loss_sum / (double)step->examples;
  uint64_t begin = ronde__prof_switch(run->prof, RONDE__PHASE_UPDATE);
  ronde_status status = ronde__lbfgs_tell(run->lbfgs, loss, more_out);
  ronde__prof_op_add(run->prof, run->update_slot, begin, ronde__prof_switch(run->prof, RONDE__PHASE_OTHER), 0);
  return status;
}

static ronde_status search(const ronde__lbfgs_run *run, const ronde__step *step, ronde__step_result *result) {
  ronde__step_result found = *result, broken = *result;
  bool more;
  ronde__lbfgs_begin(run->lbfgs, step->lr);
  RONDE_TRY(tell(run, step, &found, &more));
  while (more) {
    RONDE_TRY(run->evaluate(run->user, step, &found));
    result->n_evaluations++;
    result->cancelled |= found.cancelled;
    if (is_broken(&found)) broken = found;
    RONDE_TRY(tell(run, step, &found, &more));
  }
  if (ronde__lbfgs_moved(run->lbfgs)) return RONDE_OK;
  result->broken_rank = broken.broken_rank;
  result->broken_param = broken.broken_param;
  return RONDE_OK;
}

ronde_status ronde__lbfgs_run_step(const ronde__lbfgs_run *run, const ronde__step *step,
                                   ronde__step_result *result_out) {
  RONDE_TRY(run->evaluate(run->user, step, result_out));
  result_out->n_evaluations = 1;
  return is_broken(result_out) ? RONDE_OK : search(run, step, result_out);
}

/* ---- over a strategy ---- */

/* The first one of a step takes its batches, the others have them again. */
static ronde_status evaluate(void *opaque, const ronde__step *step, ronde__step_result *result_out) {
  state *s = opaque;
  if (s->has_batches) ronde__loader_again(s->worker->loader, step->n_batches);
  s->has_batches = true;
  return s->evaluate(s->base_state, step, result_out);
}

ronde_status ronde__lbfgs_steps_step(void *opaque, const ronde__step *step, ronde__step_result *result_out) {
  state *s = opaque;
  ronde__lbfgs_run run = {s->lbfgs, s->worker->prof, s->worker->update_slot, evaluate, s};
  s->has_batches = false;
  RONDE_TRY(ronde__lbfgs_run_step(&run, step, result_out));
  ronde__optim_set_updates(s->worker->optim, ronde__lbfgs_memory_of(s->lbfgs)->n_iterations);
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_OTHER);
  return RONDE_OK;
}

/* ---- the numbers of its state, in a checkpoint's note ---- */

json_t *ronde__lbfgs_note(const ronde__lbfgs_memory *m) {
  json_t *rho = json_array();
  for (int i = 0; i < m->n; i++) json_array_append_new(rho, json_real(m->rho[i]));
  return json_pack("{s:{s:I, s:b, s:f, s:i, s:f, s:o}}", "lbfgs", "n_iter", (json_int_t)m->n_iterations, "any", m->any,
                   "t", m->t, "newest", m->newest, "H_diag", m->scale, "ro", rho);
}

json_t *ronde__lbfgs_steps_note(const void *opaque) {
  return ronde__lbfgs_note(ronde__lbfgs_memory_of(((const state *)opaque)->lbfgs));
}

ronde_status ronde__lbfgs_read_note(const json_t *note, int history, ronde__lbfgs_memory *memory_out) {
  ronde__lbfgs_memory m = {0};
  json_int_t n_iterations = 0;
  int any = 0;
  json_t *rho = NULL;
  bool is_good = json_unpack((json_t *)note, "{s:{s:I, s:b, s:F, s:i, s:F, s:o}}", "lbfgs", "n_iter", &n_iterations,
                             "any", &any, "t", &m.t, "newest", &m.newest, "H_diag", &m.scale, "ro", &rho) == 0;
  size_t n = json_array_size(rho);
  is_good = is_good && n_iterations >= 0 && n <= (size_t)history && m.newest >= 0 && m.newest < history;
  for (size_t i = 0; is_good && i < n; i++) m.rho[i] = json_number_value(json_array_get(rho, i));
  m.n_iterations = n_iterations;
  m.any = any;
  m.n = (int)n;
  *memory_out = m;
  return is_good ? RONDE_OK
                 : ronde__fail(RONDE_E_INPUT, "the checkpoint's note of L-BFGS has no numbers for a history of %d",
                               history);
}

/* ---- creation ---- */

static ronde_status make_vectors(state *s) {
  ronde__worker *worker = s->worker;
  int n_states = ronde__optim_n_states(worker->optim);
  size_t n = ronde__net_n_trained(worker->net);
  const char *name;
  s->flat = (ronde__flat_vectors){.kernels = worker->kernels, .pool = worker->pool, .n = n, .piece = RONDE__FLAT_PIECE};
  RONDE__ALLOC(s->start, n * sizeof *s->start, "L-BFGS");
  RONDE__ALLOC(s->kept, n * sizeof *s->kept, "L-BFGS");
  RONDE__ALLOC(s->flat.part, ronde__flat_pieces(&s->flat) * sizeof *s->flat.part, "L-BFGS");
  RONDE__ALLOC(s->flat.at, (size_t)(RONDE__LBFGS_DIRECTION + n_states) * sizeof *s->flat.at, "L-BFGS");
  s->flat.at[RONDE__LBFGS_WEIGHTS] = ronde__net_values(worker->net);
  s->flat.at[RONDE__LBFGS_GRADIENT] = ronde__net_gradients(worker->net);
  s->flat.at[RONDE__LBFGS_START] = s->start;
  s->flat.at[RONDE__LBFGS_KEPT] = s->kept;
  for (int i = 0; i < n_states; i++)
    s->flat.at[RONDE__LBFGS_DIRECTION + i] = ronde__optim_state(worker->optim, i, &name);
  s->vectors = ronde__flat_vectors_table(&s->flat);
  return RONDE_OK;
}

ronde__lbfgs_options ronde__lbfgs_options_of(const ronde__options *o) {
  return (ronde__lbfgs_options){
      .history = (int)o->lbfgs_history,
      .max_iter = (int)o->lbfgs_iterations,
      .max_eval = (int)(o->lbfgs_evaluations ? o->lbfgs_evaluations : o->lbfgs_iterations * 5 / 4),
      .tolerance_grad = o->lbfgs_tolerance_grad,
      .tolerance_change = o->lbfgs_tolerance_change};
}

static ronde_status make_lbfgs(state *s, const ronde__options *o) {
  ronde__lbfgs_options options = ronde__lbfgs_options_of(o);
  ronde__lbfgs_memory memory = {0};
  if (s->worker->note) RONDE_TRY(ronde__lbfgs_read_note(s->worker->note, options.history, &memory));
  return ronde__lbfgs_create(&options, &s->vectors, &memory, &s->lbfgs);
}

ronde_status ronde__lbfgs_steps_create(const ronde__strategy *base, ronde__evaluate evaluate, ronde__worker *worker,
                                       const ronde__strategy_settings *settings, void **state_out) {
  state *s;
  RONDE__ALLOC(s, sizeof *s, "L-BFGS");
  *s = (state){.worker = worker, .base = base, .evaluate = evaluate};
  ronde_status status = base->create(worker, settings, &s->base_state);
  if (status == RONDE_OK) status = make_vectors(s);
  if (status == RONDE_OK) status = make_lbfgs(s, settings->options);
  if (status != RONDE_OK) ronde__lbfgs_steps_destroy(s);
  else *state_out = s;
  return status;
}

void ronde__lbfgs_steps_destroy(void *opaque) {
  state *s = opaque;
  if (!s) return;
  if (s->base_state) s->base->destroy(s->base_state);
  ronde__lbfgs_destroy(s->lbfgs);
  ronde__free(s->start);
  ronde__free(s->kept);
  ronde__free(s->flat.part);
  ronde__free(s->flat.at);
  ronde__free(s);
}
