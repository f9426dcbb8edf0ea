/* The gradients of every op against central differences of its own forward pass; no reference's backward is involved.
 * J = sum over the outputs of dout * out, or the loss; dJ/dx is (J(x + h) - J(x - h)) / 2h. */
#include "ops_testing.h"

/* The terms of J at one point, in f64. */
static double *evaluate(op_run *run) {
  const reference *ref = run->ref;
  int64_t n = run->v->op->is_loss, at = 0;
  for (int k = 0; k < ref->n_outputs; k++) n += ref->out[k].n;
  double *terms = malloc((size_t)n * sizeof *terms);
  op_run_forward(run);
  if (run->v->op->is_loss) *terms = run->loss_sum / (double)run->c->n;
  for (int k = 0; k < ref->n_outputs; k++)
    for (int64_t i = 0; i < ref->out[k].n; i++)
      terms[at++] = (double)ref->dout[k][i] * (double)run->out[k].at[place_of(&run->desc.out[k], i)];
  return terms;
}

/* J at `to` less J at `from`; to *noise_out, what the rounding of the outputs that differ may add to it. */
static double difference(const op_run *run, const double *from, const double *to, double *noise_out) {
  const reference *ref = run->ref;
  double sum = 0, magnitude = 0;
  int64_t at = 0;
  if (run->v->op->is_loss) {
    *noise_out = ldexp(16, -24) * (1 + fabs(*to)) / (double)run->c->n;
    return *to - *from;
  }
  for (int k = 0; k < ref->n_outputs; k++)
    for (int64_t i = 0; i < ref->out[k].n; i++, at++) {
      const expected *out = &ref->out[k];
      sum += to[at] - from[at];
      if (to[at] != from[at])
        magnitude += fabs((double)ref->dout[k][i]) * ((double)out->magnitude[i] + fabs((double)out->exact[i]));
    }
  *noise_out = ldexp(4 + 2 * sqrt(ref->out[0].length), -24) * magnitude;
  return sum;
}

enum { SAMPLES = 24 };

typedef struct tally {
  int checked, kinks;
} tally;

static bool is_curved(ronde__op_kind kind) {
  return kind == RONDE__OP_BATCH_NORM2D || kind == RONDE__OP_SOFTMAX || kind == RONDE__OP_LAYER_NORM ||
         kind == RONDE__OP_GROUP_NORM || kind == RONDE__OP_LSTM || kind == RONDE__OP_GRU || kind == RONDE__OP_RNN ||
         kind == RONDE__OP_POINTWISE || kind == RONDE__OP_PAIR || kind == RONDE__OP_FUNCTION ||
         kind == RONDE__OP_REDUCE || kind == RONDE__OP_ATTENTION || kind == RONDE__OP_ADDITIVE_ATTENTION ||
         kind == RONDE__OP_LOCATION_ATTENTION || kind == RONDE__OP_SQUARED_ERROR || kind == RONDE__OP_BCE_ERROR ||
         kind == RONDE__OP_RMS_NORM;
}

static bool has_corners(const op_case *c) {
  ronde__function_kind f = c->attr.function.kind;
  return (c->kind == RONDE__OP_PAIR && (c->attr.pair == RONDE__PAIR_MINIMUM || c->attr.pair == RONDE__PAIR_MAXIMUM)) ||
         (c->kind == RONDE__OP_REDUCE && c->attr.reduce != RONDE__REDUCE_PRODUCT) ||
         (c->kind == RONDE__OP_FUNCTION && (f == RONDE__FUNCTION_ABS || f >= RONDE__FUNCTION_SELU));
}

/* Where the slopes on both sides differ by more than curvature explains, there is a kink of ReLU, max or a bound: no derivative
 * to compare. */
static bool slope_holds(op_run *run, const char *name, int64_t i, float *x, double gradient, tally *t) {
  const float h = 1.0f / 128, at = *x;
  double *middle = evaluate(run);
  *x = at + h;
  double *above = evaluate(run), up = (double)*x - (double)at;
  *x = at - h;
  double *below = evaluate(run), down = (double)at - (double)*x;
  *x = at;
  double noise, slope_up = difference(run, middle, above, &noise) / up;
  double slope_down = difference(run, below, middle, &noise) / down;
  double slope = difference(run, below, above, &noise) / (up + down);
  free(middle), free(above), free(below);
  bool has_kinks = run->c->attr.act == RONDE__ACT_RELU || run->c->attr.clip > 0 ||
                   run->c->kind == RONDE__OP_MAX_POOL2D || run->c->kind == RONDE__OP_L1_LOSS ||
                   run->c->attr.cell == RONDE__CELL_RELU || has_corners(run->c) ||
                   (run->c->kind == RONDE__OP_POINTWISE && run->c->attr.pointwise.kind >= RONDE__POINTWISE_HARD_SWISH);
  if (has_kinks && fabs(slope_up - slope_down) > 1e-3 + noise / (double)h) return ++t->kinks;
  t->checked++;
  double curvature =
      run->c->attr.act || run->v->op->is_loss || is_curved(run->c->kind) ? 2e-3 * (fabs(gradient) + 0.25) : 0;
  if (fabs(slope - gradient) <= noise / (double)h + curvature + 1e-5 * fabs(gradient)) return true;
  return found(run, "%s [%lld]: %.6g, but the slope is %.6g", name, (long long)i, gradient, slope);
}

/* The analytic gradients first, as forward and backward of one step; then the slopes at a spread of elements. */
static bool slopes_hold(const op_case *c, const reference *ref, const variant *v, const ronde__phys *out, tally *t) {
  op_run run;
  bool held = op_run_open(&run, c, ref, v, out);
  if (held) {
    op_run_forward(&run);
    op_run_backward(&run);
    for (int i = 0; i < ref->n_inputs; i++) put_padded(&run.desc.in[i], ref->in[i], run.in[i].at);
  }
  for (int j = 0; j < ref->n_inputs && held; j++)
    for (int64_t s = 0, n = elems_of_input(c, j); run.din[j].at && s < ronde__min(SAMPLES, n) && held; s++) {
      int64_t i = n <= SAMPLES ? s : (s * (n / SAMPLES) + s * 7) % n, place = place_of(&run.desc.in[j], i);
      held = slope_holds(&run, "input gradient", i, run.in[j].at + place, (double)run.din[j].at[place], t);
    }
  for (int j = 0; j < ref->n_params && held; j++)
    for (int64_t s = 0, n = ref->n_param[j]; s < ronde__min(SAMPLES, n) && held; s++) {
      int64_t i = n <= SAMPLES ? s : (s * (n / SAMPLES) + s * 7) % n, place = weight_place(&run.desc.param[j], i);
      held = slope_holds(&run, gradient_names[j], i, run.param[j].at + place, (double)run.dparam[j].at[place], t);
    }
  op_run_close(&run);
  return held;
}

/* Slopes of long sums drown in rounding, and of large cases take long. */
static bool is_small(const op_case *c, const reference *ref) {
  double work = (double)ref->out[0].n * ref->out[0].length;
  return work < 3e5 && input_elems(c) < 20000;
}

static bool check_case(const op_case *c, const reference *ref, const ronde__op *op, tally *t) {
  variant v = {.op = op, .kernels = ronde__kernels_available(0)};
  v.need = op->is_loss ? 1 : ((1u << ref->n_inputs) - 1) & ~op->tokens;
  bool held = true;
  for (v.offered = RONDE__ROWS; v.offered <= RONDE__BLOCKS && held; v.offered++) {
    if (is_offered_in_vain(c, ref, &v)) continue;
    ronde__phys other = ronde__phys_make((v.offered + 1) % 3, c->n, c->c, c->h, c->w);
    held = slopes_hold(c, ref, &v, c->kind == RONDE__OP_REORDER ? &other : NULL, t);
  }
  return held;
}

static void gradients_are_slopes(void **unused) {
  int n_cases[RONDE__N_OPS] = {0};
  tally of_all = {0};
  for (size_t i = 0; i < RONDE__COUNT(op_cases); i++) {
    const op_case *c = &op_cases[i];
    reference ref = reference_make(c);
    *finding = 0;
    if (is_small(c, &ref)) {
      tally t = {0};
      check_case(c, &ref, ronde__ops[c->kind], &t);
      if (t.checked > t.kinks) n_cases[c->kind]++;
      of_all.checked += t.checked, of_all.kinks += t.kinks;
    }
    reference_free(&ref);
    assert_string_equal(finding, "");
  }
  for (int kind = 0; kind < RONDE__N_OPS; kind++)
    if (n_cases[kind] < 2 && kind != RONDE__OP_LENGTHS) /* which has no gradient */
      fail_msg("%d cases for %s", n_cases[kind], ronde__ops[kind]->name);
  assert_true(of_all.kinks * 10 < of_all.checked);
}

/* ---- planted bugs ---- */

static ronde_status shift_a_gradient(const ronde__op_desc *d, const void *state, const ronde__op_call *call) {
  ronde_status status = sound_form(d)->backward(d, state, call);
  call->din[0][0] += 0.01f;
  return status;
}

static ronde_status drop_a_tap(const ronde__op_desc *d, const void *state, const ronde__op_call *call) {
  ronde_status status = sound_form(d)->backward(d, state, call);
  call->dparam[0][0] = 0;
  return status;
}

static void planted_bugs_are_found(void **unused) {
  static const op_case conv = CONV(7, 3, 5, 4, 4, 3, 3, 1, 1, 1, 1, .bias = true),
                       tanh_op = PLAIN_OP(ACTIVATION, 7, 10, 1, 1, true, .act = TANH);
  static const struct {
    const op_case *c;
    ronde_status (*backward)(const ronde__op_desc *d, const void *state, const ronde__op_call *call);
    const char *finding;
  } bugs[] = {
      {&conv, shift_a_gradient, "input gradient [0]"},
      {&conv, drop_a_tap, "weight gradient [0]"},
      {&tanh_op, shift_a_gradient, "input gradient [0]"},
  };
  for (size_t i = 0; i < RONDE__COUNT(bugs); i++) {
    reference ref = reference_make(bugs[i].c);
    tally t = {0};
    plant(ronde__ops[bugs[i].c->kind]);
    for (int f = 0; planted.list[f]; f++) planted.forms[f].backward = bugs[i].backward;
    *finding = 0;
    assert_false(check_case(bugs[i].c, &ref, &planted.op, &t));
    if (!strstr(finding, bugs[i].finding)) fail_msg("\"%s\" is not in \"%s\"", bugs[i].finding, finding);
    reference_free(&ref);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gradients_are_slopes),
      cmocka_unit_test(planted_bugs_are_found),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
