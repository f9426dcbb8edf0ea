/* Arithmetic, reductions and moves, an element at a time by its indices. */
#include "tensor_reference.h"

typedef struct place {
  int64_t n, at[RONDE_MAX_RANK];
} place;

static place place_of_elem(const ronde__shape *shape, int64_t i) {
  place p = {0};
  for (int d = shape->rank - 1; d >= 0; i /= shape->dim[d--]) p.at[d] = i % shape->dim[d];
  p.n = i;
  return p;
}

static int64_t elem_of_place(const ronde__shape *shape, const place *p) {
  int64_t i = p->n;
  for (int d = 0; d < shape->rank; d++) i = i * shape->dim[d] + p->at[d];
  return i;
}

/* Where an operand is read for an element of the output. */
static int64_t broadcast(const ronde__shape *own, place p) {
  for (int d = 0; d < own->rank; d++)
    if (own->dim[d] == 1) p.at[d] = 0;
  return elem_of_place(own, &p);
}

/* ---- arithmetic ---- */

typedef struct pair_value {
  double y, slope[2];
} pair_value;

static pair_value pair_of(ronde__pair_kind kind, double a, double b) {
  double less = a == b ? 0.5 : a < b;
  switch (kind) {
  case RONDE__PAIR_ADD: return (pair_value){a + b, {1, 1}};
  case RONDE__PAIR_SUBTRACT: return (pair_value){a - b, {1, -1}};
  case RONDE__PAIR_MULTIPLY: return (pair_value){a * b, {b, a}};
  case RONDE__PAIR_DIVIDE: return (pair_value){a / b, {1 / b, -a / b / b}};
  case RONDE__PAIR_MINIMUM: return (pair_value){fmin(a, b), {less, 1 - less}};
  case RONDE__PAIR_MAXIMUM: return (pair_value){fmax(a, b), {1 - less, less}};
  default: return (pair_value){pow(a, b), {b * pow(a, b - 1), pow(a, b) * log(a)}};
  }
}

/* Of powers the base is above 0, and divisors are not near 0. */
static void make_pair_inputs(const op_case *c, reference *r) {
  for (int64_t i = 0; i < elems_of_input(c, 0) && c->attr.pair == RONDE__PAIR_POWER; i++)
    r->in[0][i] = 0.25f + fabsf(r->in[0][i]);
  for (int64_t i = 0; i < elems_of_input(c, 1) && c->attr.pair == RONDE__PAIR_DIVIDE; i++)
    r->in[1][i] = copysignf(0.5f + fabsf(r->in[1][i]), r->in[1][i]);
  for (int j = 0; j < 2; j++) /* some are equal */
    for (int64_t i = 0; i < elems_of_input(c, j) && c->attr.pair == RONDE__PAIR_MAXIMUM; i++)
      r->in[j][i] = roundf(r->in[j][i] * 4) / 4;
}

void pair_reference(const op_case *c, reference *r) {
  ronde__shape in[2] = {shape_of_input(c, 0), shape_of_input(c, 1)}, out = in[0];
  double *sums[2];
  for (int d = 0; d < out.rank; d++) out.dim[d] = in[0].dim[d] > in[1].dim[d] ? in[0].dim[d] : in[1].dim[d];
  make_output(c, r, out, 16); /* the power's own error */
  make_pair_inputs(c, r);
  for (int j = 0; j < 2; j++) {
    int64_t n = elems_of_input(c, j);
    r->din[j] = expected_make(n, 16 + (double)(r->out[0].n / n));
    sums[j] = calloc((size_t)n, sizeof *sums[j]);
  }
  for (int64_t i = 0; i < r->out[0].n; i++) {
    place p = place_of_elem(&out, i);
    int64_t at[2] = {broadcast(&in[0], p), broadcast(&in[1], p)};
    double a = (double)r->in[0][at[0]], b = (double)r->in[1][at[1]], dy = (double)r->dout[0][i];
    pair_value v = pair_of(c->attr.pair, a, b);
    bool sum = c->attr.pair <= RONDE__PAIR_SUBTRACT;
    r->out[0].exact[i] = (float)v.y;
    r->out[0].magnitude[i] = (float)(sum ? fabs(a) + fabs(b) : fabs(v.y));
    for (int j = 0; j < 2; j++) {
      sums[j][at[j]] += dy * v.slope[j];
      r->din[j].magnitude[at[j]] += (float)fabs(dy * v.slope[j]);
    }
  }
  for (int j = 0; j < 2; j++) {
    for (int64_t i = 0; i < r->din[j].n; i++) r->din[j].exact[i] = (float)sums[j][i];
    free(sums[j]);
  }
}

/* ---- functions ---- */

/* Value and slope, and where it is looked at: x from a number of -1 to 1. */
typedef struct function_value {
  double y, slope;
} function_value;

static function_value function_of(const ronde__function *f, double x) {
  double a = (double)f->a, b = (double)f->b;
  switch (f->kind) {
  case RONDE__FUNCTION_AFFINE: return (function_value){a * x + b, a};
  case RONDE__FUNCTION_RECIPROCAL: return (function_value){a / x, -a / x / x};
  case RONDE__FUNCTION_POWER: return (function_value){pow(x, a), a * pow(x, a - 1)};
  case RONDE__FUNCTION_SQUARE: return (function_value){x * x, 2 * x};
  case RONDE__FUNCTION_SQRT: return (function_value){sqrt(x), 1 / (2 * sqrt(x))};
  case RONDE__FUNCTION_EXP: return (function_value){exp(x), exp(x)};
  case RONDE__FUNCTION_LOG: return (function_value){log(x), 1 / x};
  case RONDE__FUNCTION_ABS: return (function_value){fabs(x), x < 0 ? -1 : 1};
  case RONDE__FUNCTION_ERF: return (function_value){erf(x), 2 / sqrt(acos(-1)) * exp(-x * x)};
  case RONDE__FUNCTION_SIN: return (function_value){sin(x), cos(x)};
  case RONDE__FUNCTION_COS: return (function_value){cos(x), -sin(x)};
  case RONDE__FUNCTION_TAN: return (function_value){tan(x), 1 / cos(x) / cos(x)};
  case RONDE__FUNCTION_ASIN: return (function_value){asin(x), 1 / sqrt(1 - x * x)};
  case RONDE__FUNCTION_ACOS: return (function_value){acos(x), -1 / sqrt(1 - x * x)};
  case RONDE__FUNCTION_ATAN: return (function_value){atan(x), 1 / (1 + x * x)};
  case RONDE__FUNCTION_SINH: return (function_value){sinh(x), cosh(x)};
  case RONDE__FUNCTION_COSH: return (function_value){cosh(x), sinh(x)};
  case RONDE__FUNCTION_ASINH: return (function_value){asinh(x), 1 / sqrt(1 + x * x)};
  case RONDE__FUNCTION_ACOSH: return (function_value){acosh(x), 1 / sqrt(x * x - 1)};
  case RONDE__FUNCTION_ATANH: return (function_value){atanh(x), 1 / (1 - x * x)};
  case RONDE__FUNCTION_SOFTPLUS: return (function_value){log(1 + exp(x)), 1 / (1 + exp(-x))};
  case RONDE__FUNCTION_SOFTSIGN: return (function_value){x / (1 + fabs(x)), pow(1 + fabs(x), -2)};
  case RONDE__FUNCTION_SELU: return (function_value){b * (x > 0 ? x : a * expm1(x)), b * (x > 0 ? 1 : a * exp(x))};
  case RONDE__FUNCTION_CELU: return (function_value){x > 0 ? x : a * expm1(x / a), x > 0 ? 1 : exp(x / a)};
  default: return (function_value){x > a ? x : 0, x > a};
  }
}

static float argument_of(ronde__function_kind kind, float x) {
  switch (kind) {
  case RONDE__FUNCTION_RECIPROCAL: return copysignf(0.5f + fabsf(x), x);
  case RONDE__FUNCTION_POWER:
  case RONDE__FUNCTION_SQRT:
  case RONDE__FUNCTION_LOG: return 0.25f + fabsf(x);
  case RONDE__FUNCTION_ASIN:
  case RONDE__FUNCTION_ACOS:
  case RONDE__FUNCTION_ATANH: return x * 0.75f;
  case RONDE__FUNCTION_ACOSH: return 1.25f + fabsf(x);
  default: return x;
  }
}

void function_reference(const op_case *c, reference *r) {
  const ronde__function *f = &c->attr.function;
  make_output(c, r, shape_of_input(c, 0), 16); /* the C library's own error */
  r->din[0] = expected_make(r->out[0].n, 64);  /* of slopes that are made of several values */
  for (int64_t i = 0; i < r->out[0].n; i++) {
    r->in[0][i] = argument_of(f->kind, r->in[0][i]);
    function_value v = function_of(f, (double)r->in[0][i]);
    r->out[0].exact[i] = (float)v.y;
    r->out[0].magnitude[i] = (float)fabs(v.y) + (f->kind == RONDE__FUNCTION_AFFINE ? 4 : 0);
    r->din[0].exact[i] = (float)((double)r->dout[0][i] * v.slope);
    r->din[0].magnitude[i] = fabsf(r->din[0].exact[i]);
  }
}

/* ---- reductions ---- */

void reduce_reference(const op_case *c, reference *r) {
  ronde__shape in = shape_of_input(c, 0), kept = in, out = {0};
  int64_t group = 1, n = c->n * ronde__shape_elems(&in);
  for (int d = 0; d < in.rank; d++) {
    bool goes = c->attr.dims >> d & 1;
    if (goes) group *= in.dim[d], kept.dim[d] = 1;
    if (!goes || c->attr.keep) out.dim[out.rank++] = kept.dim[d];
  }
  if (out.rank == 0) out = (ronde__shape){1, {1}};
  make_output(c, r, out, (double)group);
  r->din[0] = expected_make(n, (double)group);
  ronde__reduce_kind kind = c->attr.reduce;
  bool extreme = kind == RONDE__REDUCE_MAXIMUM || kind == RONDE__REDUCE_MINIMUM;
  for (int64_t i = 0; i < n && extreme; i++) r->in[0][i] = roundf(r->in[0][i] * 8) / 8; /* ties */
  for (int64_t y = 0; y < r->out[0].n; y++) {
    double value = kind == RONDE__REDUCE_PRODUCT ? 1 : extreme ? (kind == RONDE__REDUCE_MAXIMUM ? -9 : 9) : 0;
    double magnitude = 0, ties = 0;
    for (int64_t i = 0; i < n; i++) {
      double x = (double)r->in[0][i];
      if (broadcast(&kept, place_of_elem(&in, i)) != y) continue;
      if (kind == RONDE__REDUCE_PRODUCT) value *= x;
      else if (kind == RONDE__REDUCE_MAXIMUM) value = fmax(value, x);
      else if (kind == RONDE__REDUCE_MINIMUM) value = fmin(value, x);
      else value += kind == RONDE__REDUCE_MEAN ? x / (double)group : x;
      magnitude += kind == RONDE__REDUCE_MEAN ? fabs(x) / (double)group : fabs(x);
    }
    r->out[0].exact[y] = (float)value;
    r->out[0].magnitude[y] = (float)(extreme ? 0 : kind == RONDE__REDUCE_PRODUCT ? fabs(value) : magnitude);
    for (int64_t i = 0; i < n; i++)
      ties += broadcast(&kept, place_of_elem(&in, i)) == y && (double)r->in[0][i] == value;
    for (int64_t i = 0; i < n; i++) {
      double dy = (double)r->dout[0][y], x = (double)r->in[0][i], slope = 1;
      if (broadcast(&kept, place_of_elem(&in, i)) != y) continue;
      if (kind == RONDE__REDUCE_MEAN) slope = 1 / (double)group;
      if (extreme) slope = x == value ? 1 / ties : 0;
      if (kind == RONDE__REDUCE_PRODUCT) slope = value / x;
      r->din[0].exact[i] = (float)(dy * slope);
      r->din[0].magnitude[i] = fabsf(r->din[0].exact[i]);
    }
  }
}

/* ---- moves ---- */

void transpose_reference(const op_case *c, reference *r) {
  ronde__shape in = shape_of_input(c, 0), out = in;
  for (int d = 0; d < in.rank; d++) out.dim[d] = in.dim[c->attr.order[d]];
  make_output(c, r, out, 0);
  r->din[0] = expected_make(r->out[0].n, 0);
  for (int64_t i = 0; i < r->out[0].n; i++) {
    place p = place_of_elem(&out, i), q = p;
    for (int d = 0; d < in.rank; d++) q.at[c->attr.order[d]] = p.at[d];
    int64_t at = elem_of_place(&in, &q);
    r->out[0].exact[i] = r->in[0][at];
    r->din[0].exact[at] = r->dout[0][i];
  }
}

/* As three moves: to groups, the first two dimensions exchanged, and back. */
void channel_shuffle_reference(const op_case *c, reference *r) {
  int64_t groups = c->attr.groups, own = c->c / groups, pixels = example_elems(c) / c->c;
  ronde__shape in = {3, {groups, own, pixels}}, out = {3, {own, groups, pixels}};
  make_output(c, r, shape_of_input(c, 0), 0);
  r->din[0] = expected_make(r->out[0].n, 0);
  for (int64_t i = 0; i < r->out[0].n; i++) {
    place p = place_of_elem(&out, i), q = p;
    q.at[0] = p.at[1], q.at[1] = p.at[0];
    int64_t at = elem_of_place(&in, &q);
    r->out[0].exact[i] = r->in[0][at];
    r->din[0].exact[at] = r->dout[0][i];
  }
}

void slice_reference(const op_case *c, reference *r) {
  ronde__shape in = shape_of_input(c, 0), out = c->attr.shape;
  make_output(c, r, out, 0);
  r->din[0] = expected_make(input_elems(c), 16);
  double *dx = calloc((size_t)input_elems(c), sizeof *dx);
  for (int64_t i = 0; i < r->out[0].n; i++) {
    place p = place_of_elem(&out, i);
    bool inside = true;
    for (int d = 0; d < in.rank; d++) {
      int64_t at = c->attr.begin[d] + p.at[d] * c->attr.by[d], n = in.dim[d];
      if (c->attr.outside == RONDE__OUTSIDE_EDGE) at = at < 0 ? 0 : at >= n ? n - 1 : at;
      if (c->attr.outside == RONDE__OUTSIDE_WRAP) at = (at + n) % n;
      if (c->attr.outside == RONDE__OUTSIDE_REFLECT) at = at < 0 ? -at : at >= n ? n - 1 - (at - (n - 1)) : at;
      inside = inside && at >= 0 && at < n;
      p.at[d] = at;
    }
    r->out[0].exact[i] = inside ? r->in[0][elem_of_place(&in, &p)] : c->attr.value;
    if (!inside) continue;
    dx[elem_of_place(&in, &p)] += (double)r->dout[0][i];
    r->din[0].magnitude[elem_of_place(&in, &p)] += fabsf(r->dout[0][i]);
  }
  for (int64_t i = 0; i < input_elems(c); i++) r->din[0].exact[i] = (float)dx[i];
  free(dx);
}

void parameter_reference(const op_case *c, reference *r) {
  int64_t elems = ronde__shape_elems(&c->attr.shape);
  make_output(c, r, c->attr.shape, 0);
  make_params(r, elems, 0, 4, (double)c->n);
  r->din[0] = expected_make(input_elems(c), 0);
  for (int64_t e = 0; e < elems; e++) {
    double sum = 0;
    for (int64_t n = 0; n < c->n; n++) {
      r->out[0].exact[n * elems + e] = r->param[0][e];
      sum += (double)r->dout[0][n * elems + e];
      r->dparam[0].magnitude[e] += fabsf(r->dout[0][n * elems + e]);
    }
    r->dparam[0].exact[e] = (float)sum;
  }
}

/* ---- products ---- */

/* Element (row, column) of the matrix that an operand has for an element of the output. */
static int64_t matrix_at(const ronde__shape *own, place p, int64_t row, int64_t column, bool turned) {
  p.at[own->rank - 2] = turned ? column : row;
  p.at[own->rank - 1] = turned ? row : column;
  for (int d = 0; d < own->rank - 2; d++)
    if (own->dim[d] == 1) p.at[d] = 0;
  return elem_of_place(own, &p);
}

void matmul_reference(const op_case *c, reference *r) {
  ronde__shape in[2] = {shape_of_input(c, 0), shape_of_input(c, 1)}, out = in[0];
  int rank = out.rank;
  const bool *turned = c->attr.turned;
  int64_t length = in[0].dim[rank - (turned[0] ? 2 : 1)];
  for (int d = 0; d < rank - 2; d++) out.dim[d] = in[0].dim[d] > in[1].dim[d] ? in[0].dim[d] : in[1].dim[d];
  out.dim[rank - 2] = in[0].dim[rank - (turned[0] ? 1 : 2)];
  out.dim[rank - 1] = in[1].dim[rank - (turned[1] ? 2 : 1)];
  make_output(c, r, out, (double)length);
  double *sums[2];
  for (int j = 0; j < 2; j++) {
    int64_t n = elems_of_input(c, j);
    r->din[j] = expected_make(n, (double)(r->out[0].n * length / n));
    sums[j] = calloc((size_t)n, sizeof *sums[j]);
  }
  for (int64_t i = 0; i < r->out[0].n; i++) {
    place p = place_of_elem(&out, i);
    double y = 0, magnitude = 0, dy = (double)r->dout[0][i];
    for (int64_t k = 0; k < length; k++) {
      int64_t at[2] = {matrix_at(&in[0], p, p.at[rank - 2], k, turned[0]),
                       matrix_at(&in[1], p, k, p.at[rank - 1], turned[1])};
      double a = (double)r->in[0][at[0]], b = (double)r->in[1][at[1]];
      y += a * b, magnitude += fabs(a * b);
      sums[0][at[0]] += dy * b, sums[1][at[1]] += dy * a;
      r->din[0].magnitude[at[0]] += (float)fabs(dy * b), r->din[1].magnitude[at[1]] += (float)fabs(dy * a);
    }
    r->out[0].exact[i] = (float)y;
    r->out[0].magnitude[i] = (float)magnitude;
  }
  for (int j = 0; j < 2; j++) {
    for (int64_t i = 0; i < r->din[j].n; i++) r->din[j].exact[i] = (float)sums[j][i];
    free(sums[j]);
  }
}
