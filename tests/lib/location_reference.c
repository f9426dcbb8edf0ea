/* Location-sensitive attention within an LSTM by its definition, one example, step and place after the other, in f64. */
#include "sequence_reference.h"

enum { X, MEMORY, KEYS };
enum { IH, HH, BIAS_IH, BIAS_HH, QUERY, FILTERS, DENSE, VECTOR, N_PARAMS };

/* Example i. States, weights, their sums and contexts are those in front of step t and, at t + 1, behind it. */
typedef struct walk {
  const op_case *c;
  const reference *r;
  int64_t i, t, p, s, e, a, h, k, f, there;
  double *gates, *hidden, *cells, *weights, *sums, *contexts; /* [T][4H], [T+1] of [H], [H], [S], [S], [E] */
  double *filtered, *tanhs;                                   /* [T][C][S], [T][S][A] */
} walk;

static double logistic(double x) { return 1 / (1 + exp(-x)); }

static double in_of(const walk *w, int input, int64_t rows, int64_t row, int64_t width, int64_t column) {
  return (double)w->r->in[input][(w->i * rows + row) * width + column];
}

static void cell_forward(walk *w, int64_t t) {
  const float *const *param = (const float *const *)w->r->param;
  int64_t h = w->h, columns = w->p + w->e;
  double *gates = w->gates + t * 4 * h;
  for (int64_t g = 0; g < 4 * h; g++) {
    double z = (double)param[BIAS_IH][g] + (double)param[BIAS_HH][g];
    for (int64_t i = 0; i < columns; i++)
      z += (double)param[IH][g * columns + i] *
           (i < w->p ? in_of(w, X, w->t, t, w->p, i) : w->contexts[t * w->e + i - w->p]);
    for (int64_t i = 0; i < h; i++) z += (double)param[HH][g * h + i] * w->hidden[t * h + i];
    gates[g] = g / h == 2 ? tanh(z) : logistic(z);
  }
  for (int64_t i = 0; i < h; i++) {
    w->cells[(t + 1) * h + i] = gates[h + i] * w->cells[t * h + i] + gates[i] * gates[2 * h + i];
    w->hidden[(t + 1) * h + i] = gates[3 * h + i] * tanh(w->cells[(t + 1) * h + i]);
  }
}

static double filter_of(const walk *w, int64_t t, int64_t filter, int64_t s) {
  double sum = 0;
  for (int channel = 0; channel < 2; channel++)
    for (int64_t k = 0; k < w->k; k++) {
      int64_t at = s + k - w->k / 2;
      if (at < 0 || at >= w->s) continue;
      sum += (double)w->r->param[FILTERS][(filter * 2 + channel) * w->k + k] *
             (channel ? w->sums : w->weights)[t * w->s + at];
    }
  return sum;
}

static double score_of(walk *w, int64_t t, int64_t s) {
  double score = 0;
  for (int64_t f = 0; f < w->f; f++) w->filtered[(t * w->f + f) * w->s + s] = filter_of(w, t, f, s);
  for (int64_t a = 0; a < w->a; a++) {
    double z = in_of(w, KEYS, w->s, s, w->a, a);
    for (int64_t i = 0; i < w->h; i++) z += (double)w->r->param[QUERY][a * w->h + i] * w->hidden[(t + 1) * w->h + i];
    for (int64_t f = 0; f < w->f; f++)
      z += (double)w->r->param[DENSE][a * w->f + f] * w->filtered[(t * w->f + f) * w->s + s];
    w->tanhs[(t * w->s + s) * w->a + a] = tanh(z);
    score += (double)w->r->param[VECTOR][a] * tanh(z);
  }
  return score;
}

static void attend_forward(walk *w, int64_t t) {
  double *now = w->weights + (t + 1) * w->s, sum = 0;
  for (int64_t s = 0; s < w->there; s++) sum += now[s] = exp(score_of(w, t, s));
  for (int64_t s = 0; s < w->s; s++) {
    if (s < w->there) now[s] /= sum;
    w->sums[(t + 1) * w->s + s] = w->sums[t * w->s + s] + now[s];
    for (int64_t i = 0; i < w->e; i++) w->contexts[(t + 1) * w->e + i] += now[s] * in_of(w, MEMORY, w->s, s, w->e, i);
  }
}

static walk walk_make(const op_case *c, const reference *r, int64_t i) {
  walk w = {.c = c, .r = r, .i = i, .t = c->c, .p = c->w, .s = c->second[0], .e = c->second[1]};
  w.a = c->second[2], w.h = c->attr.out_channels, w.k = c->attr.kernel[1], w.f = c->attr.filters;
  w.there = c->attr.lengths ? ronde__min(w.s, (int64_t)r->in[3][i]) : w.s;
  const struct {
    double **at;
    int64_t n;
  } arrays[] = {{&w.gates, w.t * 4 * w.h},      {&w.hidden, (w.t + 1) * w.h}, {&w.cells, (w.t + 1) * w.h},
                {&w.weights, (w.t + 1) * w.s},  {&w.sums, (w.t + 1) * w.s},   {&w.contexts, (w.t + 1) * w.e},
                {&w.filtered, w.t * w.f * w.s}, {&w.tanhs, w.t * w.s * w.a}};
  for (size_t k = 0; k < RONDE__COUNT(arrays); k++) *arrays[k].at = calloc((size_t)arrays[k].n, sizeof(double));
  for (int64_t t = 0; t < w.t; t++) cell_forward(&w, t), attend_forward(&w, t);
  return w;
}

static void walk_free(walk *w) {
  double *arrays[] = {w->gates, w->hidden, w->cells, w->weights, w->sums, w->contexts, w->filtered, w->tanhs};
  for (size_t k = 0; k < RONDE__COUNT(arrays); k++) free(arrays[k]);
}

#define OF(x) (absolute ? fabs((double)(x)) : (double)(x))

/* What goes from a step to the one before it. */
typedef struct carry {
  double *dh, *dc, *dcontext, *dweights, *dsums;
} carry;

/* Of a place, from the gradient of its score; dq [A] is added to. */
static void place_back(const walk *w, int64_t t, int64_t s, double score, bool absolute, const carry *to, double *dq,
                       double *const *din, double *const *dparam) {
  double *dfilter = calloc((size_t)w->f, sizeof *dfilter);
  for (int64_t a = 0; a < w->a; a++) {
    double y = w->tanhs[(t * w->s + s) * w->a + a],
           dz = score * OF(w->r->param[VECTOR][a]) * (absolute ? 1 : 1 - y * y);
    dparam[VECTOR][a] += score * OF(y);
    din[KEYS][(w->i * w->s + s) * w->a + a] += dz;
    dq[a] += dz;
    for (int64_t f = 0; f < w->f; f++) {
      dparam[DENSE][a * w->f + f] += dz * OF(w->filtered[(t * w->f + f) * w->s + s]);
      dfilter[f] += dz * OF(w->r->param[DENSE][a * w->f + f]);
    }
  }
  for (int64_t k = 0; k < w->f * 2 * w->k; k++) {
    int64_t channel = k / w->k % 2, at = s + k % w->k - w->k / 2;
    if (at < 0 || at >= w->s) continue;
    dparam[FILTERS][k] += dfilter[k / w->k / 2] * OF((channel ? w->sums : w->weights)[t * w->s + at]);
    (channel ? to->dsums : to->dweights)[at] += dfilter[k / w->k / 2] * OF(w->r->param[FILTERS][k]);
  }
  free(dfilter);
}

static void attend_back(const walk *w, int64_t t, bool absolute, const carry *to, double *const *din,
                        double *const *dparam) {
  int64_t row = w->i * w->t + t;
  const double *now = w->weights + (t + 1) * w->s;
  double *dw = calloc((size_t)(w->s + w->a + 1), sizeof *dw), *dq = dw + w->s, dot = 0;
  for (int64_t i = 0; i < w->e; i++) to->dcontext[i] += OF(w->r->dout[1][row * w->e + i]);
  for (int64_t s = 0; s < w->s; s++) {
    dw[s] = to->dweights[s] + to->dsums[s] + OF(w->r->dout[2][row * w->s + s]);
    to->dweights[s] = 0;
    for (int64_t i = 0; i < w->e; i++) {
      dw[s] += to->dcontext[i] * OF(in_of(w, MEMORY, w->s, s, w->e, i));
      din[MEMORY][(w->i * w->s + s) * w->e + i] += to->dcontext[i] * now[s];
    }
    dot += dw[s] * now[s];
  }
  for (int64_t s = 0; s < w->there; s++)
    place_back(w, t, s, now[s] * (absolute ? dw[s] + dot : dw[s] - dot), absolute, to, dq, din, dparam);
  for (int64_t a = 0; a < w->a; a++)
    for (int64_t i = 0; i < w->h; i++) {
      to->dh[i] += dq[a] * OF(w->r->param[QUERY][a * w->h + i]);
      dparam[QUERY][a * w->h + i] += dq[a] * OF(w->hidden[(t + 1) * w->h + i]);
    }
  free(dw);
}

static void cell_back(const walk *w, int64_t t, bool absolute, const carry *to, double *const *din,
                      double *const *dparam) {
  int64_t h = w->h, columns = w->p + w->e, row = w->i * w->t + t;
  const double *gates = w->gates + t * 4 * h;
  double *dz = calloc((size_t)(4 * h), sizeof *dz);
  for (int64_t k = 0; k < h; k++) {
    double i = gates[k], f = gates[h + k], g = gates[2 * h + k], o = gates[3 * h + k],
           y = tanh(w->cells[(t + 1) * h + k]);
    double of_h = to->dh[k] + OF(w->r->dout[0][row * h + k]), of_c = to->dc[k] + of_h * o * (absolute ? 1 : 1 - y * y);
    dz[k] = of_c * OF(g) * i * (absolute ? 1 : 1 - i);
    dz[h + k] = of_c * OF(w->cells[t * h + k]) * f * (absolute ? 1 : 1 - f);
    dz[2 * h + k] = of_c * i * (absolute ? 1 : 1 - g * g);
    dz[3 * h + k] = of_h * OF(y) * o * (absolute ? 1 : 1 - o);
    to->dc[k] = of_c * f, to->dh[k] = 0;
  }
  memset(to->dcontext, 0, (size_t)w->e * sizeof *to->dcontext);
  for (int64_t g = 0; g < 4 * h; g++) {
    dparam[BIAS_IH][g] += dz[g], dparam[BIAS_HH][g] += dz[g];
    for (int64_t i = 0; i < columns; i++) {
      double x = i < w->p ? in_of(w, X, w->t, t, w->p, i) : w->contexts[t * w->e + i - w->p];
      double *to_x = i < w->p ? &din[X][row * w->p + i] : &to->dcontext[i - w->p];
      *to_x += dz[g] * OF(w->r->param[IH][g * columns + i]);
      dparam[IH][g * columns + i] += dz[g] * OF(x);
    }
    for (int64_t i = 0; i < h; i++) {
      to->dh[i] += dz[g] * OF(w->r->param[HH][g * h + i]);
      dparam[HH][g * h + i] += dz[g] * OF(w->hidden[t * h + i]);
    }
  }
  free(dz);
}

/* Adds one example's gradients; absolute: of magnitudes, no term of which cancels another. */
static void walk_back(const walk *w, bool absolute, double *const *din, double *const *dparam) {
  double *room = calloc((size_t)(2 * w->h + w->e + 2 * w->s), sizeof *room);
  const carry to = {room, room + w->h, room + 2 * w->h, room + 2 * w->h + w->e, room + 2 * w->h + w->e + w->s};
  for (int64_t t = w->t - 1; t >= 0; t--) {
    attend_back(w, t, absolute, &to, din, dparam);
    cell_back(w, t, absolute, &to, din, dparam);
  }
  free(room);
}

static void tell_outputs(const walk *w, reference *r) {
  const double *of[] = {w->hidden + w->h, w->contexts + w->e, w->weights + w->s};
  for (int k = 0; k < 3; k++) {
    int64_t n = r->out[k].n / w->c->n;
    for (int64_t i = 0; i < n; i++) {
      r->out[k].exact[w->i * n + i] = (float)of[k][i];
      r->out[k].magnitude[w->i * n + i] = (float)(1 + fabs(of[k][i]));
    }
  }
}

static void make_location_operands(const op_case *c, reference *r, double length) {
  int64_t h = c->attr.out_channels, k = c->attr.kernel[1], f = c->attr.filters, s = c->second[0], e = c->second[1],
          a = c->second[2];
  const int64_t n_param[N_PARAMS] = {4 * h * (c->w + e), 4 * h * h, 4 * h, 4 * h, a * h, f * 2 * k, a * f, a};
  const double fan_in[N_PARAMS] = {(double)(c->w + e), (double)h, (double)h, (double)h,
                                   (double)h,          (double)k, (double)f, (double)a};
  const int64_t widths[] = {h, e, s};
  r->n_outputs = 3, r->n_params = N_PARAMS;
  for (int i = 0; i < 3; i++) {
    r->out_shape[i] = (ronde__shape){2, {c->c, widths[i]}};
    r->out[i] = expected_make(c->n * c->c * widths[i], length);
    r->dout[i] = random_floats(c->n * c->c * widths[i]);
    if (c->unread >> i & 1) memset(r->dout[i], 0, (size_t)r->out[i].n * sizeof(float));
  }
  for (int i = 0; i < r->n_inputs; i++) r->din[i] = expected_make(elems_of_input(c, i), length);
  for (int p = 0; p < N_PARAMS; p++) {
    r->n_param[p] = n_param[p];
    r->param[p] = random_floats(n_param[p]);
    r->dparam[p] = expected_make(n_param[p], length * (double)c->n);
    for (int64_t i = 0; i < n_param[p]; i++) r->param[p][i] /= (float)sqrt(fan_in[p]);
  }
  for (int64_t n = 0; n < c->n && c->attr.lengths; n++) /* 1, then others, one of them none, one too many */
    r->in[3][n] = n == 0 ? 1 : (float)(n * 3 % (s + 2));
}

void location_reference(const op_case *c, reference *r) {
  double *din[2][3], *dparam[2][N_PARAMS];
  make_location_operands(c, r, (double)(c->c * (c->w + c->second[0] + c->second[1] + c->attr.out_channels) + 16));
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < 3; i++) din[k][i] = calloc((size_t)r->din[i].n, sizeof(double));
    for (int p = 0; p < N_PARAMS; p++) dparam[k][p] = calloc((size_t)r->n_param[p], sizeof(double));
  }
  for (int64_t n = 0; n < c->n; n++) {
    walk w = walk_make(c, r, n);
    tell_outputs(&w, r);
    for (int k = 0; k < 2; k++) walk_back(&w, k, din[k], dparam[k]);
    walk_free(&w);
  }
  for (int i = 0; i < 3; i++) expect(&r->din[i], din[0][i], din[1][i]);
  for (int p = 0; p < N_PARAMS; p++) expect(&r->dparam[p], dparam[0][p], dparam[1][p]);
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < 3; i++) free(din[k][i]);
    for (int p = 0; p < N_PARAMS; p++) free(dparam[k][p]);
  }
}
