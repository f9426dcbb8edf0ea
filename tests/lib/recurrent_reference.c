/* LSTM, GRU and RNN by their definitions, one example and one step after the other, in f64. */
#include "sequence_reference.h"

/* One example: as many steps as it has, in time. gates [steps][4H] behind their functions (GRU: r z n q,
 * where q is r h if it resets h first); h and c
 * [steps + 1][H] from the first state on. */
typedef struct run {
  const op_case *c;
  const reference *r;
  int64_t n, steps, f, h, g;
  double *gates, *hidden, *cells;
} run;

static bool is_gru(const op_case *c) { return c->kind == RONDE__OP_GRU; }
static bool resets_first(const op_case *c) { return c->attr.cell == RONDE__CELL_GRU_RESET_FIRST; }
static int gates_of(const op_case *c) { return is_gru(c) ? 3 : c->kind == RONDE__OP_RNN ? 1 : 4; }
static bool has_cells(const op_case *c) { return c->kind == RONDE__OP_LSTM; }
static int peepholes_at(const op_case *c) { return c->attr.bias ? 4 : 2; }
static int states_of(const op_case *c) { return c->attr.n_inputs - 1 - c->attr.lengths; }

/* Where the k-th step in time lies. */
static int64_t step_at(const run *e, int64_t k) { return e->c->attr.reverse ? e->steps - 1 - k : k; }

/* The sum of x, and of h, for row k of the weights. Of the last gate of a GRU that resets first, it is of r h. */
static double sum_of(const run *e, int p, int64_t k, int64_t step) {
  const double *now = e->hidden + step * e->h;
  if (resets_first(e->c) && k >= 2 * e->h) now = e->gates + step * 4 * e->h + 3 * e->h;
  const float *w = e->r->param[p];
  double z = e->c->attr.bias ? (double)e->r->param[2 + p][k] : 0;
  for (int64_t i = 0; i < e->f && p == 0; i++)
    z += (double)w[k * e->f + i] * (double)e->r->in[0][(e->n * e->c->c + step_at(e, step)) * e->f + i];
  for (int64_t i = 0; i < e->h && p == 1; i++) z += (double)w[k * e->h + i] * now[i];
  return z;
}

static double logistic(double x) { return 1 / (1 + exp(-x)); }

/* Of what goes into a function: bounded where the case has a clip. */
static double bounded(const run *e, double x) {
  const double clip = (double)e->c->attr.clip;
  return clip > 0 ? fmax(-clip, fmin(clip, x)) : x;
}

/* The slope at a bound is 0, and y is what a function f made of its input. */
static double inside(const run *e, double y, double (*f)(double)) {
  const double clip = (double)e->c->attr.clip;
  return clip > 0 && (y >= f(clip) || y <= f(-clip)) ? 0 : 1;
}

static double rectified(double x) { return x; }

static void gru_forward(run *e, int64_t s) {
  int64_t h = e->h;
  double *gates = e->gates + s * 4 * h, *y = e->hidden + (s + 1) * h, *before = e->hidden + s * h;
  for (int64_t k = 0; k < h; k++) {
    gates[k] = logistic(bounded(e, sum_of(e, 0, k, s) + sum_of(e, 1, k, s)));
    gates[h + k] = logistic(bounded(e, sum_of(e, 0, h + k, s) + sum_of(e, 1, h + k, s)));
    gates[3 * h + k] = resets_first(e->c) ? gates[k] * before[k] : sum_of(e, 1, 2 * h + k, s);
  }
  for (int64_t k = 0; k < h; k++) {
    double z = gates[h + k], q = gates[3 * h + k];
    double n = sum_of(e, 0, 2 * h + k, s) + (resets_first(e->c) ? sum_of(e, 1, 2 * h + k, s) : gates[k] * q);
    n = tanh(bounded(e, n));
    gates[2 * h + k] = n;
    y[k] = (1 - z) * n + z * before[k];
  }
}

static void lstm_forward(run *e, int64_t s) {
  int64_t h = e->h;
  double *gates = e->gates + s * 4 * h, *y = e->hidden + (s + 1) * h, *c = e->cells + (s + 1) * h, *before = c - h;
  const float *peepholes = e->c->attr.peepholes ? e->r->param[peepholes_at(e->c)] : NULL;
  for (int64_t k = 0; k < h; k++) {
    double sum[4];
    for (int g = 0; g < 4; g++) sum[g] = sum_of(e, 0, g * h + k, s) + sum_of(e, 1, g * h + k, s);
    for (int g = 0; g < 2 && peepholes; g++) sum[g] += (double)peepholes[g * h + k] * before[k];
    for (int g = 0; g < 3; g++) gates[g * h + k] = (g < 2 ? logistic : tanh)(bounded(e, sum[g]));
    c[k] = gates[h + k] * before[k] + gates[k] * gates[2 * h + k];
    gates[3 * h + k] = logistic(bounded(e, sum[3] + (peepholes ? (double)peepholes[2 * h + k] * c[k] : 0)));
    y[k] = gates[3 * h + k] * tanh(bounded(e, c[k]));
  }
}

static void rnn_forward(run *e, int64_t s) {
  double *y = e->hidden + (s + 1) * e->h;
  for (int64_t k = 0; k < e->h; k++) {
    double sum = bounded(e, sum_of(e, 0, k, s) + sum_of(e, 1, k, s));
    y[k] = e->c->attr.cell == RONDE__CELL_RELU ? fmax(0, sum) : tanh(sum);
  }
}

static void step_forward(run *e, int64_t s) {
  if (is_gru(e->c)) gru_forward(e, s);
  else if (has_cells(e->c)) lstm_forward(e, s);
  else rnn_forward(e, s);
}

static run run_make(const op_case *c, const reference *r, int64_t n) {
  run e = {.c = c, .r = r, .n = n, .steps = c->c, .f = c->w, .h = c->attr.out_channels, .g = gates_of(c)};
  if (c->attr.lengths) e.steps = (int64_t)fmin((double)c->c, (double)r->in[c->attr.n_inputs - 1][n]);
  e.gates = calloc((size_t)(e.steps * 4 * e.h + 1), sizeof(double));
  e.hidden = calloc((size_t)((e.steps + 1) * e.h), sizeof(double));
  e.cells = calloc((size_t)((e.steps + 1) * e.h), sizeof(double));
  for (int64_t k = 0; k < e.h && states_of(c); k++) {
    e.hidden[k] = (double)r->in[1][n * e.h + k];
    if (has_cells(c)) e.cells[k] = (double)r->in[2][n * e.h + k];
  }
  for (int64_t s = 0; s < e.steps; s++) step_forward(&e, s);
  return e;
}

#define OF(x) (absolute ? fabs((double)(x)) : (double)(x))

/* The gradients under way: dh and dc become those in front of a step, but for what goes through the sums of h, of which the
 * gradients are dh_sums [G H], as dx [G H] are those of the sums of x. */
typedef struct gradients {
  bool absolute; /* of magnitudes: no term cancels another */
  double *dh, *dc, *dx, *dh_sums;
  double *const *din, *const *dparam;
} gradients;

static double less(bool absolute, double x) { return absolute ? 1 : 1 - x; }

static void gru_back(const run *e, int64_t s, const double *of_y, gradients *d) {
  const bool absolute = d->absolute;
  int64_t h = e->h;
  const double *gates = e->gates + s * 4 * h, *before = e->hidden + s * h;
  for (int64_t k = 0; k < h; k++) {
    double z = gates[h + k], n = gates[2 * h + k];
    d->dx[2 * h + k] = d->dh_sums[2 * h + k] = of_y[k] * (1 - z) * less(absolute, n * n) * inside(e, n, tanh);
    d->dx[h + k] = d->dh_sums[h + k] = of_y[k] * (absolute ? fabs(before[k]) + fabs(n) : before[k] - n) * z *
                                       less(absolute, z) * inside(e, z, logistic);
    d->dh[k] = of_y[k] * z;
  }
  for (int64_t k = 0; k < h; k++) {
    double r = gates[k], of_reset = 0, of_n = d->dx[2 * h + k];
    for (int64_t i = 0; i < h && resets_first(e->c); i++)
      of_reset += d->dx[2 * h + i] * OF(e->r->param[1][(2 * h + i) * h + k]);
    double of_r = resets_first(e->c) ? of_reset * OF(before[k]) : of_n * OF(gates[3 * h + k]);
    d->dx[k] = d->dh_sums[k] = of_r * r * less(absolute, r) * inside(e, r, logistic);
    d->dh[k] += of_reset * r;
    if (!resets_first(e->c)) d->dh_sums[2 * h + k] = of_n * r;
  }
}

static void lstm_back(const run *e, int64_t s, const double *of_y, gradients *d) {
  const bool absolute = d->absolute;
  const int at = peepholes_at(e->c);
  const float *peepholes = e->c->attr.peepholes ? e->r->param[at] : NULL;
  int64_t h = e->h;
  const double *gates = e->gates + s * 4 * h, *cells = e->cells + (s + 1) * h, *before = e->cells + s * h;
  for (int64_t k = 0; k < h; k++) {
    double i = gates[k], f = gates[h + k], g = gates[2 * h + k], o = gates[3 * h + k];
    double y = tanh(bounded(e, cells[k])), of_o = of_y[k] * OF(y) * o * less(absolute, o) * inside(e, o, logistic);
    double of_c = d->dc[k] + of_y[k] * o * less(absolute, y * y) * inside(e, y, tanh);
    if (peepholes) of_c += of_o * OF(peepholes[2 * h + k]);
    double of_i = of_c * OF(g) * i * less(absolute, i) * inside(e, i, logistic);
    double of_f = of_c * OF(before[k]) * f * less(absolute, f) * inside(e, f, logistic);
    double of[] = {of_i, of_f, of_c * i * less(absolute, g * g) * inside(e, g, tanh), of_o};
    for (int gate = 0; gate < 4; gate++) d->dx[gate * h + k] = d->dh_sums[gate * h + k] = of[gate];
    d->dc[k] = of_c * f;
    d->dh[k] = 0;
    if (!peepholes) continue;
    d->dc[k] += of_i * OF(peepholes[k]) + of_f * OF(peepholes[h + k]);
    d->dparam[at][k] += of_i * OF(before[k]), d->dparam[at][h + k] += of_f * OF(before[k]);
    d->dparam[at][2 * h + k] += of_o * OF(cells[k]);
  }
}

static void rnn_back(const run *e, int64_t s, const double *of_y, gradients *d) {
  for (int64_t k = 0; k < e->h; k++) {
    double y = e->hidden[(s + 1) * e->h + k];
    double slope = e->c->attr.cell == RONDE__CELL_RELU ? y > 0 : less(d->absolute, y * y);
    slope *= inside(e, y, e->c->attr.cell == RONDE__CELL_RELU ? rectified : tanh);
    d->dx[k] = d->dh_sums[k] = of_y[k] * slope;
    d->dh[k] = 0;
  }
}

static void step_back(const run *e, int64_t s, gradients *d) {
  const bool absolute = d->absolute;
  double *of_y = calloc((size_t)e->h, sizeof *of_y);
  for (int64_t k = 0; k < e->h; k++)
    of_y[k] = d->dh[k] + OF(e->r->dout[0][(e->n * e->c->c + step_at(e, s)) * e->h + k]);
  if (is_gru(e->c)) gru_back(e, s, of_y, d);
  else if (has_cells(e->c)) lstm_back(e, s, of_y, d);
  else rnn_back(e, s, of_y, d);
  free(of_y);
}

/* Adds one example's gradients. */
static void run_back(const run *e, bool absolute, double *const *din, double *const *dparam) {
  int64_t h = e->h, f = e->f, all = e->g * h;
  double *dh = calloc((size_t)(2 * h + 2 * all), sizeof *dh), *dc = dh + h, *dx = dc + h;
  gradients d = {absolute, dh, dc, dx, dx + all, din, dparam};
  for (int64_t k = 0; k < h; k++) {
    dh[k] = OF(e->r->dout[1][e->n * h + k]);
    if (has_cells(e->c)) dc[k] = OF(e->r->dout[2][e->n * h + k]);
  }
  for (int64_t s = e->steps - 1; s >= 0; s--) {
    int64_t at = (e->n * e->c->c + step_at(e, s)) * f;
    step_back(e, s, &d);
    for (int64_t k = 0; k < all; k++) {
      bool of_reset = resets_first(e->c) && k >= 2 * h;
      const double *now = of_reset ? e->gates + s * 4 * h + 3 * h : e->hidden + s * h;
      for (int64_t i = 0; i < h; i++) {
        if (!of_reset) dh[i] += d.dh_sums[k] * OF(e->r->param[1][k * h + i]);
        dparam[1][k * h + i] += d.dh_sums[k] * OF(now[i]);
      }
      for (int64_t i = 0; i < f; i++) {
        din[0][at + i] += dx[k] * OF(e->r->param[0][k * f + i]);
        dparam[0][k * f + i] += dx[k] * OF(e->r->in[0][at + i]);
      }
      if (e->c->attr.bias) dparam[2][k] += dx[k], dparam[3][k] += d.dh_sums[k];
    }
  }
  for (int64_t k = 0; k < h; k++) {
    din[1][e->n * h + k] = dh[k];
    din[2][e->n * h + k] = dc[k];
  }
  free(dh);
}

static void set_lengths(const op_case *c, reference *r) {
  for (int64_t n = 0; n < c->n && c->attr.lengths; n++) /* 1, then others, one of them none, one too many */
    r->in[c->attr.n_inputs - 1][n] = n == 0 ? 1 : (float)(n * 3 % (c->c + 2));
}

void recurrent_reference(const op_case *c, reference *r) {
  int64_t steps = c->c, f = c->w, h = c->attr.out_channels, g = gates_of(c);
  int64_t n_out[] = {c->n * steps * h, c->n * h, c->n * h}, n_in[] = {c->n * steps * f, c->n * h, c->n * h};
  int64_t n_param[] = {g * h * f, g * h * h, c->attr.bias ? g * h : 3 * h, g * h, 3 * h};
  double length = (double)(steps * (f + h) + 16), *din[2][3], *dparam[2][5];
  r->n_outputs = has_cells(c) ? 3 : 2, r->n_params = (c->attr.bias ? 4 : 2) + c->attr.peepholes;
  set_lengths(c, r);
  for (int k = 0; k < r->n_outputs; k++) {
    r->out_shape[k] = k ? (ronde__shape){1, {h}} : (ronde__shape){2, {steps, h}};
    r->out[k] = expected_make(n_out[k], length);
    r->dout[k] = random_floats(n_out[k]);
    if (c->unread >> k & 1) memset(r->dout[k], 0, (size_t)n_out[k] * sizeof(float));
  }
  for (int k = 0; k < r->n_inputs; k++) r->din[k] = expected_make(elems_of_input(c, k), length);
  for (int p = 0; p < r->n_params; p++) {
    r->n_param[p] = n_param[p];
    r->param[p] = random_floats(n_param[p]);
    r->dparam[p] = expected_make(n_param[p], length * (double)c->n);
    double scale = sqrt((double)(f + h));
    if (random_bits < 24) scale = exp2(round(log2(scale))); /* what is bfloat16 stays so */
    for (int64_t i = 0; i < n_param[p]; i++) r->param[p][i] /= (float)scale;
  }
  for (int a = 0; a < 2; a++) {
    for (int k = 0; k < 3; k++) din[a][k] = calloc((size_t)n_in[k], sizeof(double));
    for (int p = 0; p < 5; p++) dparam[a][p] = calloc((size_t)n_param[p], sizeof(double));
  }
  for (int64_t n = 0; n < c->n; n++) {
    run e = run_make(c, r, n);
    for (int64_t s = 0; s < e.steps; s++)
      for (int64_t i = 0; i < h; i++)
        r->out[0].exact[(n * steps + step_at(&e, s)) * h + i] = (float)e.hidden[(s + 1) * h + i];
    for (int64_t i = 0; i < h; i++) {
      r->out[1].exact[n * h + i] = (float)e.hidden[e.steps * h + i];
      if (has_cells(c)) r->out[2].exact[n * h + i] = (float)e.cells[e.steps * h + i];
    }
    for (int a = 0; a < 2; a++) run_back(&e, a, din[a], dparam[a]);
    free(e.gates), free(e.hidden), free(e.cells);
  }
  for (int k = 0; k < r->n_outputs; k++)
    for (int64_t i = 0; i < n_out[k]; i++) r->out[k].magnitude[i] = 1 + fabsf(r->out[k].exact[i]);
  for (int k = 0; k < 1 + states_of(c); k++)
    for (int64_t i = 0; i < n_in[k]; i++)
      r->din[k].exact[i] = (float)din[0][k][i], r->din[k].magnitude[i] = (float)din[1][k][i];
  for (int p = 0; p < r->n_params; p++)
    for (int64_t i = 0; i < n_param[p]; i++)
      r->dparam[p].exact[i] = (float)dparam[0][p][i], r->dparam[p].magnitude[i] = (float)dparam[1][p][i];
  for (int a = 0; a < 2; a++) {
    for (int k = 0; k < 3; k++) free(din[a][k]);
    for (int p = 0; p < 5; p++) free(dparam[a][p]);
  }
}
