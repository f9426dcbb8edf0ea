/* One layer of a long short-term memory over a sequence, PyTorch's definition: for each step t
 *   i, f, o = sigmoid, g = tanh of (W_ih x_t + b_ih + W_hh h_(t-1) + b_hh), c_t = f c_(t-1) + i g, h_t = o tanh(c_t).
 * Source: Hochreiter & Schmidhuber, "Long short-term memory", 1997, with forget gates.
 * Legend: N examples, T steps, F features, H hidden values; a row of gates is [i f g o], 4H; all operands are ROWS, so
 * that x is [N][T][F] and the output [N][T][H]; gates and cells are saved as [T][N][4H] and [T][N][H].
 * Inputs: the sequence, and where there are three, h_0 and c_0; else both are zero. Outputs: all h, the last h, the last
 * c. Examples are shared out among the threads, for the gradients of the weights the gates are. */
#include "ops/elementwise.h"
#include "ops/gemm_list.h"

#include <math.h>
#include <string.h>

enum { GATES = 4 };
enum { WEIGHT_IH, WEIGHT_HH, BIAS_IH, BIAS_HH };

typedef struct lstm_state {
  int64_t n, t, f, h, piece;
  int n_pieces;
  /* By whether it is the last piece of examples. */
  ronde__gemm_pair x_gates[2], h_gates[2], h0_gates[2], dx[2], dh[2];
  ronde__gemm_pair dw_ih, dw_hh, dw_h0;
  ronde__gemm_list ih, hh; /* the steps, as operands of the weights' gradients */
} lstm_state;

static int lstm_outputs(const ronde__op_attr *attr) { return 3; }

static ronde_status lstm_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                               const char *const *in_labels, ronde__shape *out) {
  char text[96];
  if (attr->out_channels < 1) return ronde__fail(RONDE_E_USAGE, "%s: hidden must be positive", label);
  ronde__shape_text(&in[0], text, sizeof text);
  if (in[0].rank != 2)
    return ronde__fail(RONDE_E_USAGE, "%s: an LSTM takes a sequence TxF, but %s gives %s", label, in_labels[0], text);
  ronde__shape hidden = {1, {attr->out_channels}};
  for (int i = 1; i < attr->n_inputs; i++) {
    if (ronde__shape_equal(&in[i], &hidden)) continue;
    ronde__shape_text(&in[i], text, sizeof text);
    return ronde__fail(RONDE_E_USAGE, "%s: its state has %lld values, but %s gives %s", label,
                       (long long)attr->out_channels, in_labels[i], text);
  }
  out[0] = (ronde__shape){2, {in[0].dim[0], attr->out_channels}};
  out[1] = out[2] = hidden;
  return RONDE_OK;
}

static int lstm_params(const ronde__op_attr *attr, const ronde__shape *in,
                       ronde__param_spec specs[RONDE__OP_MAX_PARAMS]) {
  static const char *const suffixes[] = {"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"};
  int64_t h = attr->out_channels, columns[] = {in[0].dim[1], h};
  for (int i = 0; i < 4; i++) {
    specs[i] = (ronde__param_spec){.suffix = suffixes[i], .bound = (float)(1 / sqrt((double)h))};
    specs[i].shape = i < 2 ? (ronde__shape){2, {GATES * h, columns[i]}} : (ronde__shape){1, {GATES * h}};
  }
  return attr->bias ? 4 : 2;
}

static int64_t lstm_flops(const ronde__op_attr *attr, const ronde__shape *in, const ronde__shape *out) {
  return 2 * in[0].dim[0] * GATES * attr->out_channels * (in[0].dim[1] + attr->out_channels);
}

static void lstm_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  int64_t n = desc->in[0].n, h = desc->attr.out_channels;
  for (int i = 0; i < desc->attr.n_inputs; i++) desc->in[i] = ronde__phys_of_shape(&in[i], n);
  for (int i = 0; i < 3; i++) desc->out[i] = ronde__phys_of_shape(&out[i], n);
  for (int i = 0; i < 4; i++)
    desc->param[i] = (ronde__weight_layout){RONDE__PLAIN, GATES * h, i == 0 ? in[0].dim[1] : i == 1 ? h : 1, 1, 1, 1};
}

static void lstm_release(const ronde__op_desc *desc, void *opaque) {
  lstm_state *s = opaque;
  if (!s) return;
  ronde__gemm_list_destroy(&s->ih);
  ronde__gemm_list_destroy(&s->hh);
  ronde__free(s);
}

static void lstm_make_kernels(const ronde__op_desc *desc, lstm_state *s) {
  int f = (int)s->f, h = (int)s->h, gates = GATES * h;
  for (int last = 0; last < 2; last++) {
    int m = (int)(last ? s->n - (s->n_pieces - 1) * s->piece : s->piece);
    s->x_gates[last] =
        ronde__gemm_pair_resolve(desc, (ronde__gemm_shape){m, gates, f, s->t * f, gates, gates, false, false, false});
    s->h_gates[last] =
        ronde__gemm_pair_resolve(desc, (ronde__gemm_shape){m, gates, h, s->t * h, gates, gates, false, false, false});
    s->h0_gates[last] =
        ronde__gemm_pair_resolve(desc, (ronde__gemm_shape){m, gates, h, h, gates, gates, false, false, false});
    s->dx[last] =
        ronde__gemm_pair_resolve(desc, (ronde__gemm_shape){m, f, gates, gates, f, s->t * f, false, false, false});
    s->dh[last] = ronde__gemm_pair_resolve(desc, (ronde__gemm_shape){m, h, gates, gates, h, h, false, false, false});
  }
  int n = (int)s->n;
  s->dw_ih = ronde__gemm_pair_resolve(desc, (ronde__gemm_shape){h, f, n, gates, s->t * f, f, true, false, false});
  s->dw_hh = ronde__gemm_pair_resolve(desc, (ronde__gemm_shape){h, h, n, gates, s->t * h, h, true, false, false});
  s->dw_h0 = ronde__gemm_pair_resolve(desc, (ronde__gemm_shape){h, h, n, gates, h, h, true, false, false});
}

static ronde_status lstm_make_lists(lstm_state *s) {
  int64_t step = s->n * GATES * s->h;
  RONDE_TRY(ronde__gemm_list_create(s->t, &s->ih));
  RONDE_TRY(ronde__gemm_list_create(s->t - 1, &s->hh));
  for (int64_t t = 0; t < s->t; t++) {
    s->ih.a[t] = (uint64_t)(t * step) * sizeof(float);
    s->ih.b[t] = (uint64_t)(t * s->f) * sizeof(float);
    if (t == 0) continue;
    s->hh.a[t - 1] = s->ih.a[t];
    s->hh.b[t - 1] = (uint64_t)((t - 1) * s->h) * sizeof(float);
  }
  return RONDE_OK;
}

static ronde_status lstm_prepare(const ronde__op_desc *desc, void **state_out) {
  const ronde__phys *x = &desc->in[0];
  lstm_state *s;
  RONDE__ALLOC(s, sizeof *s, "LSTM plan");
  s->n = x->n, s->t = x->c, s->f = x->w, s->h = desc->attr.out_channels;
  s->piece = ronde__ceil_div(s->n, desc->threads);
  s->n_pieces = (int)ronde__ceil_div(s->n, s->piece);
  ronde_status status = lstm_make_lists(s);
  if (status != RONDE_OK) {
    lstm_release(desc, s);
    return status;
  }
  lstm_make_kernels(desc, s);
  *state_out = s;
  return RONDE_OK;
}

/* Gates, behind them cells. */
static size_t lstm_saved(const ronde__op_desc *desc, const void *opaque) {
  const lstm_state *s = opaque;
  return (size_t)(s->t * s->n * (GATES + 1) * s->h);
}

/* Forward: both weights transposed. Backward: the gates' gradients; of h, of c, and tanh(c). */
static size_t lstm_work(const ronde__op_desc *desc, const void *opaque, bool backward) {
  const lstm_state *s = opaque;
  int64_t gates = GATES * s->h;
  return (size_t)(backward ? s->t * s->n * gates + 3 * s->n * s->h : (s->f + s->h) * gates);
}

typedef struct lstm_job {
  const ronde__op_desc *desc;
  const lstm_state *s;
  const ronde__op_call *call;
} lstm_job;

static void lstm_multiply(const ronde__gemm *gemm, const float *a, const float *b, float *c) {
  static const uint64_t none = 0;
  ronde__gemm_run(gemm, a, &none, b, &none, 1, c);
}

/* Where step t of some examples from n0 on lies among the gates, the cells (from h_0 on, or c_0) and the outputs. */
static float *lstm_gates_at(const lstm_job *j, int64_t t, int64_t n0) {
  return j->call->saved + (t * j->s->n + n0) * GATES * j->s->h;
}
static float *lstm_cells_at(const lstm_job *j, int64_t t, int64_t n0) {
  const lstm_state *s = j->s;
  return j->call->saved + s->t * s->n * GATES * s->h + (t * s->n + n0) * s->h;
}

/* The cells before step t; NULL: zeros. */
static const float *lstm_cells_before(const lstm_job *j, int64_t t, int64_t n) {
  if (t > 0) return lstm_cells_at(j, t - 1, n);
  return j->call->in[2] ? j->call->in[2] + n * j->s->h : NULL;
}

/* The gates of step t before their functions: bias, then what x and h add. */
static void lstm_sum_gates(const lstm_job *j, int64_t t, int64_t n0, int64_t m, bool last) {
  const lstm_state *s = j->s;
  const ronde__op_call *call = j->call;
  const float *w_ih = call->work, *w_hh = call->work + s->f * GATES * s->h;
  float *gates = lstm_gates_at(j, t, n0);
  for (int64_t r = 0; r < m && j->desc->attr.bias; r++)
    for (int64_t i = 0; i < GATES * s->h; i++)
      gates[r * GATES * s->h + i] = call->param[BIAS_IH][i] + call->param[BIAS_HH][i];
  const ronde__gemm_pair *x = &s->x_gates[last];
  lstm_multiply(j->desc->attr.bias ? &x->add : &x->set, call->in[0] + (n0 * s->t + t) * s->f, w_ih, gates);
  if (t > 0) lstm_multiply(&s->h_gates[last].add, call->out[0] + (n0 * s->t + t - 1) * s->h, w_hh, gates);
  else if (call->in[1]) lstm_multiply(&s->h0_gates[last].add, call->in[1] + n0 * s->h, w_hh, gates);
}

static void lstm_step(const lstm_job *j, int64_t t, int64_t n) {
  const ronde__kernels *kernels = j->desc->compute.kernels;
  int64_t h = j->s->h;
  float *gates = lstm_gates_at(j, t, n), *c = lstm_cells_at(j, t, n), *y = j->call->out[0] + (n * j->s->t + t) * h;
  const float *before = lstm_cells_before(j, t, n);
  kernels->act_forward(gates, gates, 2 * h, RONDE__ACT_SIGMOID);
  kernels->act_forward(gates + 2 * h, gates + 2 * h, h, RONDE__ACT_TANH);
  kernels->act_forward(gates + 3 * h, gates + 3 * h, h, RONDE__ACT_SIGMOID);
  for (int64_t i = 0; i < h; i++) c[i] = (before ? gates[h + i] * before[i] : 0) + gates[i] * gates[2 * h + i];
  kernels->act_forward(c, y, h, RONDE__ACT_TANH);
  for (int64_t i = 0; i < h; i++) y[i] *= gates[3 * h + i];
}

static void lstm_forward_part(void *arg, int thread, int n_threads) {
  const lstm_job *j = arg;
  const lstm_state *s = j->s;
  int64_t begin, end;
  ronde__thread_chunk(s->n_pieces, thread, n_threads, &begin, &end);
  for (int64_t piece = begin; piece < end; piece++) {
    int64_t n0 = piece * s->piece, m = ronde__min(s->piece, s->n - n0);
    for (int64_t t = 0; t < s->t; t++) {
      lstm_sum_gates(j, t, n0, m, piece == s->n_pieces - 1);
      for (int64_t n = n0; n < n0 + m; n++) lstm_step(j, t, n);
    }
    for (int64_t n = n0; n < n0 + m; n++) {
      size_t bytes = (size_t)s->h * sizeof(float);
      memcpy(j->call->out[1] + n * s->h, j->call->out[0] + ((n + 1) * s->t - 1) * s->h, bytes);
      memcpy(j->call->out[2] + n * s->h, lstm_cells_at(j, s->t - 1, n), bytes);
    }
  }
}

static ronde_status lstm_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  lstm_job j = {desc, state, call};
  int64_t f = j.s->f, h = j.s->h, gates = GATES * h;
  desc->compute.kernels->transpose(call->param[WEIGHT_IH], f, gates, f, call->work, gates);
  desc->compute.kernels->transpose(call->param[WEIGHT_HH], h, gates, h, call->work + f * gates, gates);
  ronde__pool_run(call->pool, lstm_forward_part, &j);
  return RONDE_OK;
}

static float *lstm_dgates_at(const lstm_job *j, int64_t t, int64_t n0) {
  return j->call->work + (t * j->s->n + n0) * GATES * j->s->h;
}

/* Of one example at step t: dh and dc, as the steps behind it leave them, become the gradients of its gates, and dc that
 * of the cells before. */
static void lstm_step_back(const lstm_job *j, int64_t t, int64_t n, float *dh, float *dc, float *tanh_c) {
  const lstm_state *s = j->s;
  int64_t h = s->h;
  const float *gates = lstm_gates_at(j, t, n), *before = lstm_cells_before(j, t, n);
  const float *dy = j->call->dout[0] ? j->call->dout[0] + (n * s->t + t) * h : NULL;
  float *d = lstm_dgates_at(j, t, n);
  j->desc->compute.kernels->act_forward(lstm_cells_at(j, t, n), tanh_c, h, RONDE__ACT_TANH);
  for (int64_t k = 0; k < h; k++) {
    float i = gates[k], f = gates[h + k], g = gates[2 * h + k], o = gates[3 * h + k], y = tanh_c[k];
    float of_h = dh[k] + (dy ? dy[k] : 0), of_c = dc[k] + of_h * o * (1 - y * y);
    d[k] = of_c * g * i * (1 - i);
    d[h + k] = before ? of_c * before[k] * f * (1 - f) : 0;
    d[2 * h + k] = of_c * i * (1 - g * g);
    d[3 * h + k] = of_h * y * o * (1 - o);
    dc[k] = of_c * f;
  }
}

static void lstm_start(float *gradient, const float *dout, int64_t n) {
  if (dout) memcpy(gradient, dout, (size_t)n * sizeof *gradient);
  else memset(gradient, 0, (size_t)n * sizeof *gradient);
}

static void lstm_backward_part(void *arg, int thread, int n_threads) {
  const lstm_job *j = arg;
  const lstm_state *s = j->s;
  const ronde__op_call *call = j->call;
  float *all = call->work + s->t * s->n * GATES * s->h;
  int64_t begin, end, h = s->h;
  ronde__thread_chunk(s->n_pieces, thread, n_threads, &begin, &end);
  for (int64_t piece = begin; piece < end; piece++) {
    int64_t n0 = piece * s->piece, m = ronde__min(s->piece, s->n - n0);
    bool last = piece == s->n_pieces - 1;
    float *dh = all + n0 * h, *dc = dh + s->n * h, *tanh_c = dc + s->n * h;
    lstm_start(dh, call->dout[1] ? call->dout[1] + n0 * h : NULL, m * h);
    lstm_start(dc, call->dout[2] ? call->dout[2] + n0 * h : NULL, m * h);
    for (int64_t t = s->t - 1; t >= 0; t--) {
      const float *dgates = lstm_dgates_at(j, t, n0);
      for (int64_t r = 0; r < m; r++) lstm_step_back(j, t, n0 + r, dh + r * h, dc + r * h, tanh_c + r * h);
      lstm_multiply(&s->dh[last].set, dgates, call->param[WEIGHT_HH], dh);
      if (!call->din[0]) continue;
      const ronde__gemm *gemm = call->accumulate_dinput[0] ? &s->dx[last].add : &s->dx[last].set;
      lstm_multiply(gemm, dgates, call->param[WEIGHT_IH], call->din[0] + (n0 * s->t + t) * s->f);
    }
    for (int i = 1; i < 3; i++)
      if (call->din[i])
        ronde__gradient_add(j->desc, i == 1 ? dh : dc, call->din[i] + n0 * h, m * h, call->accumulate_dinput[i]);
  }
}

/* A gate's rows of both weights, and of both biases. */
static void lstm_weights_part(void *arg, int thread, int n_threads) {
  const lstm_job *j = arg;
  const lstm_state *s = j->s;
  const ronde__op_call *call = j->call;
  const bool *adds = call->accumulate_dparam;
  int64_t begin, end, h = s->h;
  ronde__thread_chunk(GATES, thread, n_threads, &begin, &end);
  for (int64_t gate = begin; gate < end; gate++) {
    const float *d = call->work + gate * h;
    float *dw = call->dparam[WEIGHT_IH] ? call->dparam[WEIGHT_IH] + gate * h * s->f : NULL;
    if (dw) ronde__gemm_sum(&s->dw_ih, &s->ih, s->t, d, call->in[0], dw, adds[WEIGHT_IH]);
    dw = call->dparam[WEIGHT_HH] ? call->dparam[WEIGHT_HH] + gate * h * h : NULL;
    if (dw) ronde__gemm_sum(&s->dw_hh, &s->hh, s->t - 1, d, call->out[0], dw, adds[WEIGHT_HH]);
    if (dw && call->in[1]) lstm_multiply(&s->dw_h0.add, d, call->in[1], dw);
    for (int b = BIAS_IH; b <= BIAS_HH; b++) {
      float *db = call->dparam[b] ? call->dparam[b] + gate * h : NULL;
      if (db && !adds[b]) memset(db, 0, (size_t)h * sizeof *db);
      if (db) j->desc->compute.kernels->column_sums(d, GATES * h, s->t * s->n, h, db);
    }
  }
}

static ronde_status lstm_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  lstm_job j = {desc, state, call};
  ronde__pool_run(call->pool, lstm_backward_part, &j);
  ronde__pool_run(call->pool, lstm_weights_part, &j);
  return RONDE_OK;
}

static const char *lstm_implementation(const ronde__op_desc *desc, const void *opaque) {
  const lstm_state *s = opaque;
  return s->x_gates[1].set.implementation;
}

static double lstm_executed_flops(const ronde__op_desc *desc, const void *opaque, bool backward) {
  const lstm_state *s = opaque;
  double of_x = 2 * (double)(s->n * s->t * GATES * s->h * s->f), of_h = of_x / (double)s->f * (double)s->h;
  if (!backward) return of_x + of_h;
  return of_x * (desc->need_dinput[0] + !desc->frozen[WEIGHT_IH]) + of_h * (1 + !desc->frozen[WEIGHT_HH]);
}

static const ronde__form lstm_form = {
    .prepare = lstm_prepare,
    .release = lstm_release,
    .work_elems = lstm_work,
    .saved_elems = lstm_saved,
    .forward = lstm_forward,
    .backward = lstm_backward,
    .implementation = lstm_implementation,
    .executed_flops = lstm_executed_flops,
};

const ronde__op ronde__op_lstm = {
    .name = "lstm",
    .outputs = lstm_outputs,
    .infer = lstm_infer,
    .params = lstm_params,
    .flops = lstm_flops,
    .layouts = lstm_layouts,
    .backward_reads = {.in = 7, .out = 1},
    .forms = (const ronde__form *const[]){&lstm_form, NULL},
};
