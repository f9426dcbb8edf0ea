/* Additive attention by its definition, a query after the other, in f64. */
#include "sequence_reference.h"

enum { VECTOR, SCALE, BIAS };

/* What all queries share. */
typedef struct additive {
  const op_case *c;
  reference *r;
  int64_t t, s, u;
  double *vector;               /* [U], as it is multiplied with */
  double *dvector, *dvector_of; /* [U], and its magnitude */
  double *din[2], *din_of[2], *dbias, *dbias_of;
} additive;

static double argument_of(const additive *a, int64_t n, int64_t t, int64_t s, int64_t i, bool absolute) {
  double q = (double)a->r->in[0][(n * a->t + t) * a->u + i], k = (double)a->r->in[1][(n * a->s + s) * a->u + i];
  double b = a->c->attr.normalised ? (double)a->r->param[BIAS][i] : 0;
  return absolute ? fabs(q) + fabs(k) + fabs(b) : q + k + b;
}

/* The weights p [keys] of a query; how large an error of a score is, relative to that of one rounding. */
static double weigh(const additive *a, int64_t n, int64_t t, int64_t keys, double *p) {
  double most = -INFINITY, sum = 0, large = 0;
  for (int64_t s = 0; s < keys; s++) {
    double magnitude = 0;
    p[s] = 0;
    for (int64_t i = 0; i < a->u; i++) {
      p[s] += a->vector[i] * tanh(argument_of(a, n, t, s, i, false));
      magnitude += fabs(a->vector[i]) * (1 + argument_of(a, n, t, s, i, true));
    }
    most = fmax(most, p[s]), large = fmax(large, magnitude);
  }
  for (int64_t s = 0; s < keys; s++) sum += p[s] = exp(p[s] - most);
  for (int64_t s = 0; s < keys; s++) p[s] /= sum;
  return 1 + 2 * large;
}

static void query_reference(additive *a, int64_t n, int64_t t, int64_t keys) {
  reference *r = a->r;
  double *p = calloc((size_t)keys + 1, sizeof *p), large = weigh(a, n, t, keys, p), dot = 0, dot_of = 0;
  int64_t row = n * a->t + t;
  for (int64_t s = 0; s < keys; s++) {
    double dp = (double)r->dout[0][row * a->s + s];
    r->out[0].exact[row * a->s + s] = (float)p[s];
    r->out[0].magnitude[row * a->s + s] = (float)(p[s] * large);
    dot += p[s] * dp, dot_of += p[s] * fabs(dp);
  }
  for (int64_t s = 0; s < keys; s++) {
    double dp = (double)r->dout[0][row * a->s + s], ds = p[s] * (dp - dot), size = p[s] * (fabs(dp) + dot_of) * large;
    for (int64_t i = 0; i < a->u; i++) {
      double y = tanh(argument_of(a, n, t, s, i, false)), dx = ds * a->vector[i] * (1 - y * y);
      double dx_of = size * fabs(a->vector[i]) * (1 + argument_of(a, n, t, s, i, true));
      a->din[0][row * a->u + i] += dx, a->din_of[0][row * a->u + i] += dx_of;
      a->din[1][(n * a->s + s) * a->u + i] += dx, a->din_of[1][(n * a->s + s) * a->u + i] += dx_of;
      a->dbias[i] += dx, a->dbias_of[i] += dx_of;
      a->dvector[i] += ds * y, a->dvector_of[i] += size * (1 + argument_of(a, n, t, s, i, true));
    }
  }
  free(p);
}

void expect(expected *e, const double *exact, const double *magnitude) {
  for (int64_t i = 0; i < e->n; i++) e->exact[i] = (float)exact[i], e->magnitude[i] = (float)magnitude[i];
}

/* Through g v / |v|. */
static void expect_params(additive *a) {
  reference *r = a->r;
  if (a->c->attr.normalised) {
    double squares = 0, along = 0, along_of = 0, g = (double)r->param[SCALE][0];
    for (int64_t i = 0; i < a->u; i++) {
      double v = (double)r->param[VECTOR][i];
      squares += v * v, along += v * a->dvector[i], along_of += fabs(v) * a->dvector_of[i];
    }
    r->dparam[SCALE].exact[0] = (float)(along / sqrt(squares));
    r->dparam[SCALE].magnitude[0] = (float)(along_of / sqrt(squares));
    for (int64_t i = 0; i < a->u; i++) {
      double v = (double)r->param[VECTOR][i];
      a->dvector[i] = g / sqrt(squares) * (a->dvector[i] - v * along / squares);
      a->dvector_of[i] = fabs(g) / sqrt(squares) * (a->dvector_of[i] + fabs(v) * along_of / squares);
    }
    expect(&r->dparam[BIAS], a->dbias, a->dbias_of);
  }
  expect(&r->dparam[VECTOR], a->dvector, a->dvector_of);
}

static void make_vector(additive *a) {
  double squares = 0, factor = 1;
  for (int64_t i = 0; i < a->u; i++) squares += (double)a->r->param[VECTOR][i] * (double)a->r->param[VECTOR][i];
  if (a->c->attr.normalised) factor = (double)a->r->param[SCALE][0] / sqrt(squares);
  for (int64_t i = 0; i < a->u; i++) a->vector[i] = factor * (double)a->r->param[VECTOR][i];
}

static void make_operands(const additive *a, double terms) {
  const op_case *c = a->c;
  reference *r = a->r;
  int64_t n_param[] = {a->u, 1, a->u};
  make_output(c, r, (ronde__shape){2, {a->t, a->s}}, terms);
  for (int i = 0; i < c->attr.n_inputs; i++) r->din[i] = expected_make(elems_of_input(c, i), terms);
  r->n_params = c->attr.normalised ? 3 : 1;
  for (int p = 0; p < r->n_params; p++) {
    r->n_param[p] = n_param[p];
    r->param[p] = random_floats(n_param[p]);
    r->dparam[p] = expected_make(n_param[p], terms * (double)c->n);
  }
  for (int64_t n = 0; n < c->n && c->attr.lengths; n++) /* 1, then others, one of them none, one too many */
    r->in[2][n] = n == 0 ? 1 : (float)(n * 2 % (a->s + 2));
}

void additive_reference(const op_case *c, reference *r) {
  additive a = {.c = c, .r = r, .t = c->c, .s = c->second[0], .u = c->w};
  make_operands(&a, (double)(a.t + a.s + a.u) + 16);
  double **sums[] = {&a.vector, &a.dvector, &a.dvector_of, &a.dbias, &a.dbias_of};
  for (size_t i = 0; i < RONDE__COUNT(sums); i++) *sums[i] = calloc((size_t)a.u, sizeof(double));
  for (int i = 0; i < 2; i++) {
    a.din[i] = calloc((size_t)r->din[i].n, sizeof(double));
    a.din_of[i] = calloc((size_t)r->din[i].n, sizeof(double));
  }
  make_vector(&a);
  for (int64_t n = 0; n < c->n; n++)
    for (int64_t t = 0; t < a.t; t++)
      query_reference(&a, n, t, c->attr.lengths ? ronde__min(a.s, (int64_t)r->in[2][n]) : a.s);
  for (int i = 0; i < 2; i++) expect(&r->din[i], a.din[i], a.din_of[i]);
  expect_params(&a);
  for (size_t i = 0; i < RONDE__COUNT(sums); i++) free(*sums[i]);
  for (int i = 0; i < 2; i++) free(a.din[i]), free(a.din_of[i]);
}
