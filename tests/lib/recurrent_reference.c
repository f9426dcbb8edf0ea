/* LSTM and GRU by their definitions, one example and one step after the other, in f64. */
#include "sequence_reference.h"

/* One example: as many steps as it has, in time. gates [steps][4H] behind their functions (GRU: r z n q); h and c
 * [steps + 1][H] from the first state on. */
typedef struct run {
  const op_case *c;
  const reference *r;
  int64_t n, steps, f, h, g;
  double *gates, *hidden, *cells;
} run;

static bool is_gru(const op_case *c) { return c->kind == RONDE__OP_GRU; }
static int states_of(const op_case *c) { return c->attr.n_inputs - 1 - c->attr.lengths; }

/* Where the k-th step in time lies. */
static int64_t step_at(const run *e, int64_t k) { return e->c->attr.reverse ? e->steps - 1 - k : k; }

/* The sum of x, and of h, for row k of the weights. */
static double sum_of(const run *e, int p, int64_t k, int64_t step) {
  const float *w = e->r->param[p];
  double z = e->c->attr.bias ? (double)e->r->param[2 + p][k] : 0;
  for (int64_t i = 0; i < e->f && p == 0; i++)
    z += (double)w[k * e->f + i] * (double)e->r->in[0][(e->n * e->c->c + step_at(e, step)) * e->f + i];
  for (int64_t i = 0; i < e->h && p == 1; i++) z += (double)w[k * e->h + i] * e->hidden[step * e->h + i];
  return z;
}

static double logistic(double x) { return 1 / (1 + exp(-x)); }

static void step_forward(run *e, int64_t s) {
  int64_t h = e->h;
  double *gates = e->gates + s * 4 * h, *y = e->hidden + (s + 1) * h, *before = e->hidden + s * h;
  for (int64_t k = 0; k < h && is_gru(e->c); k++) {
    double r = logistic(sum_of(e, 0, k, s) + sum_of(e, 1, k, s));
    double z = logistic(sum_of(e, 0, h + k, s) + sum_of(e, 1, h + k, s)), q = sum_of(e, 1, 2 * h + k, s);
    double n = tanh(sum_of(e, 0, 2 * h + k, s) + r * q);
    gates[k] = r, gates[h + k] = z, gates[2 * h + k] = n, gates[3 * h + k] = q;
    y[k] = (1 - z) * n + z * before[k];
  }
  if (is_gru(e->c)) return;
  for (int64_t k = 0; k < 4 * h; k++) {
    double z = sum_of(e, 0, k, s) + sum_of(e, 1, k, s);
    gates[k] = k / h == 2 ? tanh(z) : logistic(z);
  }
  for (int64_t k = 0; k < h; k++) {
    e->cells[(s + 1) * h + k] = gates[h + k] * e->cells[s * h + k] + gates[k] * gates[2 * h + k];
    y[k] = gates[3 * h + k] * tanh(e->cells[(s + 1) * h + k]);
  }
}

static run run_make(const op_case *c, const reference *r, int64_t n) {
  run e = {.c = c, .r = r, .n = n, .steps = c->c, .f = c->w, .h = c->attr.out_channels, .g = is_gru(c) ? 3 : 4};
  if (c->attr.lengths) e.steps = (int64_t)fmin((double)c->c, (double)r->in[c->attr.n_inputs - 1][n]);
  e.gates = calloc((size_t)(e.steps * 4 * e.h + 1), sizeof(double));
  e.hidden = calloc((size_t)((e.steps + 1) * e.h), sizeof(double));
  e.cells = calloc((size_t)((e.steps + 1) * e.h), sizeof(double));
  for (int64_t k = 0; k < e.h && states_of(c); k++) {
    e.hidden[k] = (double)r->in[1][n * e.h + k];
    if (!is_gru(c)) e.cells[k] = (double)r->in[2][n * e.h + k];
  }
  for (int64_t s = 0; s < e.steps; s++) step_forward(&e, s);
  return e;
}

#define OF(x) (absolute ? fabs((double)(x)) : (double)(x))

/* Gradients of one step's sums, of x in dx [G H] and of h in dh_sums [G H]; dh and dc become those in front, but for what
 * goes through the sums of h. */
static void step_back(const run *e, int64_t s, bool absolute, double *dh, double *dc, double *dx, double *dh_sums) {
  int64_t h = e->h;
  const double *gates = e->gates + s * 4 * h;
  for (int64_t k = 0; k < h; k++) {
    double of_h = dh[k] + OF(e->r->dout[0][(e->n * e->c->c + step_at(e, s)) * h + k]);
    if (is_gru(e->c)) {
      double r = gates[k], z = gates[h + k], n = gates[2 * h + k], q = gates[3 * h + k], y = e->hidden[s * h + k];
      double of_n = of_h * (1 - z) * (absolute ? 1 : 1 - n * n);
      dx[2 * h + k] = of_n, dh_sums[2 * h + k] = of_n * r;
      dx[k] = dh_sums[k] = of_n * OF(q) * r * (absolute ? 1 : 1 - r);
      dx[h + k] = dh_sums[h + k] = of_h * (absolute ? fabs(y) + fabs(n) : y - n) * z * (absolute ? 1 : 1 - z);
      dh[k] = of_h * z;
      continue;
    }
    double i = gates[k], f = gates[h + k], g = gates[2 * h + k], o = gates[3 * h + k];
    double y = tanh(e->cells[(s + 1) * h + k]), of_c = dc[k] + of_h * o * (absolute ? 1 : 1 - y * y);
    dx[k] = of_c * OF(g) * i * (absolute ? 1 : 1 - i);
    dx[h + k] = of_c * OF(e->cells[s * h + k]) * f * (absolute ? 1 : 1 - f);
    dx[2 * h + k] = of_c * i * (absolute ? 1 : 1 - g * g);
    dx[3 * h + k] = of_h * OF(y) * o * (absolute ? 1 : 1 - o);
    for (int gate = 0; gate < 4; gate++) dh_sums[gate * h + k] = dx[gate * h + k];
    dc[k] = of_c * f;
    dh[k] = 0;
  }
}

/* Adds one example's gradients; absolute: of magnitudes, no term of which cancels another. */
static void run_back(const run *e, bool absolute, double *const *din, double *const *dparam) {
  int64_t h = e->h, f = e->f, all = e->g * h;
  double *dh = calloc((size_t)(2 * h + 2 * all), sizeof *dh), *dc = dh + h, *dx = dc + h, *dh_sums = dx + all;
  for (int64_t k = 0; k < h; k++) {
    dh[k] = OF(e->r->dout[1][e->n * h + k]);
    if (!is_gru(e->c)) dc[k] = OF(e->r->dout[2][e->n * h + k]);
  }
  for (int64_t s = e->steps - 1; s >= 0; s--) {
    int64_t at = (e->n * e->c->c + step_at(e, s)) * f;
    step_back(e, s, absolute, dh, dc, dx, dh_sums);
    for (int64_t k = 0; k < all; k++) {
      for (int64_t i = 0; i < h; i++) {
        dh[i] += dh_sums[k] * OF(e->r->param[1][k * h + i]);
        dparam[1][k * h + i] += dh_sums[k] * OF(e->hidden[s * h + i]);
      }
      for (int64_t i = 0; i < f; i++) {
        din[0][at + i] += dx[k] * OF(e->r->param[0][k * f + i]);
        dparam[0][k * f + i] += dx[k] * OF(e->r->in[0][at + i]);
      }
      dparam[2][k] += dx[k], dparam[3][k] += dh_sums[k];
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
  int64_t steps = c->c, f = c->w, h = c->attr.out_channels, g = is_gru(c) ? 3 : 4;
  int64_t n_out[] = {c->n * steps * h, c->n * h, c->n * h}, n_in[] = {c->n * steps * f, c->n * h, c->n * h};
  int64_t n_param[] = {g * h * f, g * h * h, g * h, g * h};
  double length = (double)(steps * (f + h) + 16), *din[2][3], *dparam[2][4];
  r->n_outputs = is_gru(c) ? 2 : 3, r->n_params = c->attr.bias ? 4 : 2;
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
    for (int64_t i = 0; i < n_param[p]; i++) r->param[p][i] /= (float)sqrt((double)(f + h));
  }
  for (int a = 0; a < 2; a++) {
    for (int k = 0; k < 3; k++) din[a][k] = calloc((size_t)n_in[k], sizeof(double));
    for (int p = 0; p < 4; p++) dparam[a][p] = calloc((size_t)n_param[p], sizeof(double));
  }
  for (int64_t n = 0; n < c->n; n++) {
    run e = run_make(c, r, n);
    for (int64_t s = 0; s < e.steps; s++)
      for (int64_t i = 0; i < h; i++)
        r->out[0].exact[(n * steps + step_at(&e, s)) * h + i] = (float)e.hidden[(s + 1) * h + i];
    for (int64_t i = 0; i < h; i++) {
      r->out[1].exact[n * h + i] = (float)e.hidden[e.steps * h + i];
      if (!is_gru(c)) r->out[2].exact[n * h + i] = (float)e.cells[e.steps * h + i];
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
    for (int p = 0; p < 4; p++) free(dparam[a][p]);
  }
}
