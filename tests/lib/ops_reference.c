/* What an op must give at a case, by the naive references, with its bound. */
#include "ops_reference.h"
#include "sequence_reference.h"
#include "tensor_reference.h"

float *magnitudes_of(const float *x, int64_t n) {
  float *y = malloc((size_t)n * sizeof *y);
  for (int64_t i = 0; i < n; i++) y[i] = fabsf(x[i]);
  return y;
}

expected expected_make(int64_t n, double length) {
  return (expected){n, calloc((size_t)n, sizeof(float)), calloc((size_t)n, sizeof(float)), length, 0};
}

double expected_bound(const expected *e, int64_t i) {
  double bound = (4 + 2 * sqrt(e->length)) * 0x1p-24 * (double)e->magnitude[i];
  return bound + e->rounded * 0x1p-8 * (double)e->magnitude[i];
}

int64_t example_elems(const op_case *c) { return c->c * c->h * c->w; }

int64_t input_channels(const op_case *c, int i) {
  return c->c + (c->kind == RONDE__OP_CONCAT && c->attr.dim == 0 ? 5 * i : 0);
}

static bool are_lengths(const op_case *c, int i) { return c->attr.lengths && i == c->attr.n_inputs - 1; }

static bool is_state(const op_case *c, int i) {
  return (c->kind == RONDE__OP_LSTM || c->kind == RONDE__OP_GRU || c->kind == RONDE__OP_RNN) && i > 0 &&
         !are_lengths(c, i);
}

/* One number an example; of CTC also in place of the target, which is labels. */
static bool is_number(const op_case *c, int i) {
  return are_lengths(c, i) || (c->kind == RONDE__OP_CTC_LOSS && i == 1);
}

ronde__shape shape_of_input(const op_case *c, int i) {
  int64_t channels = input_channels(c, i);
  if (is_number(c, i)) return (ronde__shape){1, {1}};
  if (c->kind == RONDE__OP_LOCATION_ATTENTION && i == 2) return (ronde__shape){2, {c->second[0], c->second[2]}};
  bool is_value = c->kind == RONDE__OP_ATTENTION && i == 2;
  if ((i == 1 || is_value) && c->second[0]) {
    ronde__shape shape = {c->rank ? c->rank : c->vector ? 1 : 3, {0}};
    memcpy(shape.dim, c->second, sizeof shape.dim);
    return shape;
  }
  if (is_state(c, i)) return (ronde__shape){1, {c->attr.out_channels}};
  if (c->rank == 2) return (ronde__shape){2, {channels, c->w}};
  if (c->rank == 4) return (ronde__shape){4, {channels, c->h, 2, c->w / 2}};
  return c->vector ? (ronde__shape){1, {channels * c->h * c->w}} : (ronde__shape){3, {channels, c->h, c->w}};
}

ronde__phys phys_of_input(const op_case *c, int i, ronde__layout layout) {
  if (is_state(c, i)) return ronde__phys_make(layout, c->n, c->attr.out_channels, 1, 1);
  bool has_own = i == 1 || c->kind == RONDE__OP_ATTENTION || (c->kind == RONDE__OP_LOCATION_ATTENTION && i == 2);
  if ((has_own && c->second[0]) || c->rank == 4 || is_number(c, i)) {
    ronde__shape shape = shape_of_input(c, i);
    return ronde__phys_of_shape_in(layout, &shape, c->n);
  }
  return ronde__phys_make(layout, c->n, input_channels(c, i), c->h, c->w);
}

int64_t elems_of_input(const op_case *c, int i) {
  ronde__phys rows = phys_of_input(c, i, RONDE__ROWS);
  return ronde__phys_elems(&rows);
}

int64_t input_elems(const op_case *c) { return c->n * example_elems(c); }

/* The output of a sliding window over [H, W]. */
static ronde__shape window_shape(const op_case *c, int64_t channels) {
  ronde__ref_conv p = window_of(c);
  int64_t h, w;
  ronde__ref_window(&p, &h, &w);
  return (ronde__shape){3, {channels, h, w}};
}

void make_output(const op_case *c, reference *r, ronde__shape shape, double length) {
  r->out_shape[0] = shape;
  r->out[0] = expected_make(c->n * ronde__shape_elems(&shape), length);
  r->n_outputs = 1;
  r->dout[0] = random_floats(r->out[0].n);
}

void make_params(reference *r, int64_t n_weight, int64_t n_bias, double fan_in, double length) {
  r->n_params = n_bias ? 2 : 1;
  r->n_param[0] = n_weight, r->n_param[1] = n_bias;
  for (int i = 0; i < r->n_params; i++) {
    r->param[i] = random_floats(r->n_param[i]);
    r->dparam[i] = expected_make(r->n_param[i], length);
  }
  float factor = (float)exp2(round(1 - log2(fan_in) / 2)); /* a power of two: as many bits as before */
  for (int64_t i = 0; i < n_weight; i++) r->param[0][i] *= factor;
}

/* The fused activation: turns r->out into the output behind it; returns the gradient before it. Magnitudes stay those
 * of the sums: no activation has a slope above 1. */
static float *activate(const op_case *c, reference *r) {
  float *dz = malloc((size_t)r->out[0].n * sizeof *dz);
  ronde__ref_act_forward(c->attr.act, r->out[0].n, r->out[0].exact, r->out[0].exact);
  ronde__ref_act_backward(c->attr.act, r->out[0].n, r->out[0].exact, r->dout[0], dz);
  for (int64_t i = 0; i < r->out[0].n; i++) r->out[0].magnitude[i] += fabsf(r->out[0].exact[i]);
  return dz;
}

/* Where element i of a weight [O][C / groups][taps] lies in that of one group, [O][C][taps], which is 0 elsewhere. */
static int64_t ungrouped(const op_case *c, int64_t i) {
  int64_t groups = c->attr.groups ? c->attr.groups : 1, taps = (int64_t)c->attr.kernel[0] * c->attr.kernel[1];
  int64_t channels = c->c / groups, o = i / taps / channels, group = o / (c->attr.out_channels / groups);
  return (o * c->c + group * channels + i / taps % channels) * taps + i % taps;
}

static float *ungroup(const op_case *c, const float *w, int64_t n) {
  float *dense = calloc((size_t)(c->attr.out_channels * c->c * c->attr.kernel[0] * c->attr.kernel[1]), sizeof *dense);
  for (int64_t i = 0; i < n && w; i++) dense[ungrouped(c, i)] = w[i];
  return dense;
}

static void conv_reference(const op_case *c, reference *r) {
  ronde__ref_conv p = window_of(c);
  int64_t taps = (int64_t)p.kh * p.kw, groups = c->attr.groups ? c->attr.groups : 1, channels = c->c / groups;
  make_output(c, r, window_shape(c, p.o), (double)(channels * taps + 1));
  make_params(r, p.o * channels * taps, c->attr.bias ? p.o : 0, (double)(channels * taps), (double)(r->out[0].n / p.o));
  r->din[0] = expected_make(input_elems(c), (double)(p.o / groups * taps));
  float *w = ungroup(c, r->param[0], r->n_param[0]), *dw = ungroup(c, NULL, 0), *dw_magnitude = ungroup(c, NULL, 0);
  float *x = magnitudes_of(r->in[0], input_elems(c)), *w_magnitude = magnitudes_of(w, p.o * p.c * taps);
  float *b = magnitudes_of(r->param[1], r->n_param[1]), *dy = magnitudes_of(r->dout[0], r->out[0].n);
  ronde__ref_conv_forward(&p, r->in[0], w, r->param[1], r->out[0].exact);
  ronde__ref_conv_forward(&p, x, w_magnitude, r->param[1] ? b : NULL, r->out[0].magnitude);
  float *dz = activate(c, r);
  ronde__ref_conv_backward(&p, r->in[0], w, dz, r->din[0].exact, dw, r->dparam[1].exact);
  ronde__ref_conv_backward(&p, x, w_magnitude, dy, r->din[0].magnitude, dw_magnitude, r->dparam[1].magnitude);
  for (int64_t i = 0; i < r->n_param[0]; i++) {
    r->dparam[0].exact[i] = dw[ungrouped(c, i)];
    r->dparam[0].magnitude[i] = dw_magnitude[ungrouped(c, i)];
  }
  free(x), free(w), free(w_magnitude), free(dw), free(dw_magnitude), free(b), free(dy), free(dz);
}

/* One pixel of one input channel of an example, through all taps, into sums of y, dx and dw; absolute: of magnitudes. */
static void conv_transpose_pixel(const op_case *c, const reference *r, int64_t at, bool absolute, double *y, double *dx,
                                 double *dw) {
  const ronde__op_attr *a = &c->attr;
  int64_t groups = a->groups ? a->groups : 1, own = a->out_channels / groups, h = r->out_shape[0].dim[1],
          w = r->out_shape[0].dim[2], channel = at / (c->h * c->w) % c->c, n = at / (c->c * c->h * c->w);
  int dh = a->dilation[0] ? a->dilation[0] : 1, dw_ = a->dilation[1] ? a->dilation[1] : 1;
#define OF(x) (absolute ? fabs((double)(x)) : (double)(x))
  for (int64_t t = 0; t < own * a->kernel[0] * a->kernel[1]; t++) {
    int64_t o = channel / (c->c / groups) * own + t / (a->kernel[0] * a->kernel[1]);
    int64_t row = at / c->w % c->h * a->stride[0] + t / a->kernel[1] % a->kernel[0] * dh - a->padding[0];
    int64_t column = at % c->w * a->stride[1] + t % a->kernel[1] * dw_ - a->padding[1];
    if (row < 0 || row >= h || column < 0 || column >= w) continue;
    int64_t to = ((n * a->out_channels + o) * h + row) * w + column;
    int64_t weight = channel * own * a->kernel[0] * a->kernel[1] + t;
    y[to] += OF(r->in[0][at]) * OF(r->param[0][weight]);
    dx[at] += OF(r->dout[0][to]) * OF(r->param[0][weight]);
    dw[weight] += OF(r->dout[0][to]) * OF(r->in[0][at]);
  }
#undef OF
}

static int64_t transposed_outputs(const op_case *c, int d, int64_t in) {
  const ronde__op_attr *a = &c->attr;
  int dilation = a->dilation[d] ? a->dilation[d] : 1;
  return (in - 1) * a->stride[d] + dilation * (a->kernel[d] - 1) + 1 - 2 * a->padding[d] - a->padding_more[d] +
         a->output_padding[d];
}

static void conv_transpose_reference(const op_case *c, reference *r) {
  int64_t o = c->attr.out_channels, taps = (int64_t)c->attr.kernel[0] * c->attr.kernel[1];
  int64_t groups = c->attr.groups ? c->attr.groups : 1, terms = c->c / groups * taps;
  ronde__shape shape = {3, {o, transposed_outputs(c, 0, c->h), transposed_outputs(c, 1, c->w)}};
  int64_t pixels = shape.dim[1] * shape.dim[2];
  make_output(c, r, shape, (double)(terms + 1));
  make_params(r, c->c * o / groups * taps, c->attr.bias ? o : 0, (double)terms, (double)(c->n * pixels));
  r->din[0] = expected_make(input_elems(c), (double)(o / groups * taps));
  for (int absolute = 0; absolute < 2; absolute++) {
    double *y = calloc((size_t)r->out[0].n, sizeof *y), *dx = calloc((size_t)r->din[0].n, sizeof *dx);
    double *dw = calloc((size_t)r->n_param[0], sizeof *dw);
    for (int64_t i = 0; i < input_elems(c); i++) conv_transpose_pixel(c, r, i, absolute, y, dx, dw);
    for (int64_t i = 0; i < r->out[0].n; i++) {
      double bias = r->n_params > 1 ? (double)r->param[1][i / pixels % o] : 0, dy = (double)r->dout[0][i];
      (absolute ? r->out[0].magnitude : r->out[0].exact)[i] = (float)(y[i] + (absolute ? fabs(bias) : bias));
      if (r->n_params > 1)
        (absolute ? r->dparam[1].magnitude : r->dparam[1].exact)[i / pixels % o] += (float)(absolute ? fabs(dy) : dy);
    }
    for (int64_t i = 0; i < r->din[0].n; i++) (absolute ? r->din[0].magnitude : r->din[0].exact)[i] = (float)dx[i];
    for (int64_t i = 0; i < r->n_param[0]; i++)
      (absolute ? r->dparam[0].magnitude : r->dparam[0].exact)[i] = (float)dw[i];
    free(y), free(dx), free(dw);
  }
}

/* Of a tensor that is no vector, over its last dimension. */
static void linear_reference(const op_case *c, reference *r) {
  ronde__shape shape = shape_of_input(c, 0);
  int64_t features = shape.dim[shape.rank - 1], o = c->attr.out_channels, rows = input_elems(c) / features;
  shape.dim[shape.rank - 1] = o;
  make_output(c, r, shape, (double)(features + 1));
  make_params(r, o * features, c->attr.bias ? o : 0, (double)features, (double)rows);
  r->din[0] = expected_make(input_elems(c), (double)o);
  float *x = magnitudes_of(r->in[0], input_elems(c)), *w = magnitudes_of(r->param[0], r->n_param[0]);
  float *b = magnitudes_of(r->param[1], r->n_param[1]), *dy = magnitudes_of(r->dout[0], r->out[0].n);
  ronde__ref_linear_forward(rows, features, o, r->in[0], r->param[0], r->param[1], r->out[0].exact);
  ronde__ref_linear_forward(rows, features, o, x, w, r->param[1] ? b : NULL, r->out[0].magnitude);
  float *dz = activate(c, r);
  ronde__ref_linear_backward(rows, features, o, r->in[0], r->param[0], dz, r->din[0].exact, r->dparam[0].exact,
                             r->dparam[1].exact);
  ronde__ref_linear_backward(rows, features, o, x, w, dy, r->din[0].magnitude, r->dparam[0].magnitude,
                             r->dparam[1].magnitude);
  free(x), free(w), free(b), free(dy), free(dz);
}

static void max_pool_reference(const op_case *c, reference *r) {
  ronde__ref_conv p = window_of(c);
  make_output(c, r, window_shape(c, c->c), 0);
  r->din[0] = expected_make(input_elems(c), (double)p.kh * p.kw);
  for (int64_t i = 0; i < input_elems(c); i++) r->in[0][i] = roundf(r->in[0][i] * 8) / 8; /* ties */
  ronde__ref_max_pool_forward(&p, r->in[0], r->out[0].exact);
  float *dy = magnitudes_of(r->dout[0], r->out[0].n), *dz = activate(c, r);
  memset(r->out[0].magnitude, 0, (size_t)r->out[0].n * sizeof(float)); /* values are copied, exactly */
  ronde__ref_max_pool_backward(&p, r->in[0], dz, r->din[0].exact);
  ronde__ref_max_pool_backward(&p, r->in[0], dy, r->din[0].magnitude);
  free(dy), free(dz);
}

static void avg_pool_reference(const op_case *c, reference *r) {
  ronde__ref_conv p = window_of(c);
  bool exclude = c->attr.exclude_padding;
  make_output(c, r, window_shape(c, c->c), (double)p.kh * p.kw);
  r->din[0] = expected_make(input_elems(c), (double)p.kh * p.kw);
  float *x = magnitudes_of(r->in[0], input_elems(c)), *dy = magnitudes_of(r->dout[0], r->out[0].n);
  ronde__ref_avg_pool_forward(&p, exclude, r->in[0], r->out[0].exact);
  ronde__ref_avg_pool_forward(&p, exclude, x, r->out[0].magnitude);
  ronde__ref_avg_pool_backward(&p, exclude, r->dout[0], r->din[0].exact);
  ronde__ref_avg_pool_backward(&p, exclude, dy, r->din[0].magnitude);
  free(x), free(dy);
}

/* Each output's window by the definition: from floor(i in / out) to ceil((i + 1) in / out). */
static void adaptive_pool_reference(const op_case *c, reference *r) {
  int64_t oh = c->attr.kernel[0], ow = c->attr.kernel[1];
  make_output(c, r, (ronde__shape){3, {c->c, oh, ow}}, (double)c->h * (double)c->w);
  r->din[0] = expected_make(input_elems(c), (double)oh * (double)ow);
  double *dx = calloc((size_t)input_elems(c), sizeof *dx);
  for (int64_t i = 0; i < r->out[0].n; i++) {
    int64_t plane = i / (oh * ow), y = i / ow % oh, x = i % ow;
    int64_t y0 = y * c->h / oh, y1 = ((y + 1) * c->h + oh - 1) / oh, x0 = x * c->w / ow,
            x1 = ((x + 1) * c->w + ow - 1) / ow;
    double sum = 0, places = (double)((y1 - y0) * (x1 - x0));
    for (int64_t p = 0; p < (y1 - y0) * (x1 - x0); p++) {
      int64_t at = (plane * c->h + y0 + p / (x1 - x0)) * c->w + x0 + p % (x1 - x0);
      sum += r->in[0][at];
      r->out[0].magnitude[i] += (float)(fabs((double)r->in[0][at]) / places);
      dx[at] += (double)r->dout[0][i] / places;
      r->din[0].magnitude[at] += (float)(fabs((double)r->dout[0][i]) / places);
    }
    r->out[0].exact[i] = (float)(sum / places);
  }
  for (int64_t i = 0; i < input_elems(c); i++) r->din[0].exact[i] = (float)dx[i];
  free(dx);
}

/* Magnitudes: of y the terms x a, mean a and bias, with a = weight / deviation; of dx the three terms of its sum, each at its largest. */
static void batch_norm_magnitudes(const op_case *c, reference *r, const double *mean, const double *var,
                                  const float *dz) {
  int64_t pixels = c->h * c->w, m = c->n * pixels;
  for (int64_t k = 0; k < c->c; k++) {
    double deviation = sqrt(var[k] + (double)c->attr.eps), a = fabs((double)r->param[0][k]) / deviation, dy = 0,
           dyx = 0;
    for (int64_t i = 0; i < m; i++) {
      int64_t at = (i / pixels * c->c + k) * pixels + i % pixels;
      dy += fabs((double)dz[at]);
      dyx += fabs((double)dz[at]) * (fabs((double)r->in[0][at]) + fabs(mean[k])) / deviation;
    }
    for (int64_t i = 0; i < m; i++) {
      int64_t at = (i / pixels * c->c + k) * pixels + i % pixels;
      double x = fabs((double)r->in[0][at]) + fabs(mean[k]);
      r->out[0].magnitude[at] = (float)((x + 1) * a + fabs((double)r->param[1][k]));
      r->din[0].magnitude[at] = (float)(a * (fabs((double)dz[at]) + dy / (double)m + x / deviation * dyx / (double)m));
    }
    r->dparam[0].magnitude[k] = (float)dyx;
    r->dparam[1].magnitude[k] = (float)dy;
  }
}

static void batch_norm_reference(const op_case *c, reference *r) {
  int64_t pixels = c->h * c->w;
  double *mean = malloc((size_t)c->c * 2 * sizeof *mean), *var = mean + c->c;
  make_output(c, r, (ronde__shape){3, {c->c, c->h, c->w}}, (double)(c->n * pixels));
  make_params(r, c->c, c->c, 4, (double)(c->n * pixels));
  r->din[0] = expected_make(input_elems(c), (double)(c->n * pixels));
  ronde__ref_batch_norm_forward(c->n, c->c, pixels, (double)c->attr.eps, r->in[0], r->param[0], r->param[1],
                                r->out[0].exact, mean, var);
  for (int64_t i = 0; c->residual && i < r->out[0].n; i++) r->out[0].exact[i] += r->in[1][i];
  float *dz = activate(c, r);
  ronde__ref_batch_norm_backward(c->n, c->c, pixels, (double)c->attr.eps, r->in[0], r->param[0], dz, r->din[0].exact,
                                 r->dparam[0].exact, r->dparam[1].exact);
  batch_norm_magnitudes(c, r, mean, var, dz);
  if (c->residual) r->din[1] = expected_make(r->out[0].n, 0);
  for (int64_t i = 0; c->residual && i < r->out[0].n; i++) {
    r->out[0].magnitude[i] += fabsf(r->in[1][i]);
    r->din[1].exact[i] = dz[i];
  }
  free(dz), free(mean);
}

static bool is_dropped(float probability, int64_t example, int64_t element) {
  uint64_t stream = RONDE__STREAM_DROPOUT | CALL_LAYER;
  uint32_t r[4];
  ronde__philox(CALL_SEED, stream, CALL_STEP, r);
  ronde__philox((uint64_t)r[0] << 32 | r[1], stream,
                (uint64_t)(CALL_FIRST_EXAMPLE + example) << 32 | (uint64_t)(element / 4), r);
  return (double)r[element % 4] < (double)probability * 4294967296.0;
}

static ronde__shape input_shape(const op_case *c) { return shape_of_input(c, 0); }

void shapes_of_inputs(const op_case *c, ronde__shape shapes_out[RONDE__OP_MAX_INPUTS]) {
  for (int i = 0; i < RONDE__OP_MAX_INPUTS; i++) shapes_out[i] = shape_of_input(c, i);
}

static void activation_reference(const op_case *c, reference *r) {
  make_output(c, r, input_shape(c), 0);
  r->din[0] = expected_make(r->out[0].n, 0);
  for (int64_t i = 0; i < r->out[0].n; i++) r->in[0][i] *= 4;
  memcpy(r->out[0].exact, r->in[0], (size_t)r->out[0].n * sizeof(float));
  float *dz = activate(c, r);
  memcpy(r->din[0].exact, dz, (size_t)r->out[0].n * sizeof(float));
  for (int64_t i = 0; i < r->out[0].n; i++) r->din[0].magnitude[i] = fabsf(r->dout[0][i]);
  free(dz);
}

/* Slopes are within 5e-7, as kernel_pointwise_test says. */
static void pointwise_reference(const op_case *c, reference *r) {
  const ronde__pointwise *f = &c->attr.pointwise;
  make_output(c, r, input_shape(c), 4);
  r->din[0] = expected_make(r->out[0].n, 4);
  for (int64_t i = 0; i < r->out[0].n; i++) {
    double x = (double)(r->in[0][i] *= 4), dy = (double)r->dout[0][i];
    r->out[0].exact[i] = (float)ronde__ref_pointwise(f, x);
    r->out[0].magnitude[i] = 1 + fabsf(r->out[0].exact[i]);
    r->din[0].exact[i] = (float)(dy * ronde__ref_pointwise_slope(f, x));
    r->din[0].magnitude[i] = (float)fabs(dy) * 2;
  }
}

static void upsample_reference(const op_case *c, reference *r) {
  int64_t fh = c->attr.kernel[0], fw = c->attr.kernel[1];
  make_output(c, r, (ronde__shape){3, {c->c, c->h * fh, c->w * fw}}, 0);
  r->din[0] = expected_make(input_elems(c), (double)(fh * fw));
  double *dx = calloc((size_t)input_elems(c), sizeof *dx);
  for (int64_t i = 0; i < r->out[0].n; i++) {
    int64_t w = c->w * fw, h = c->h * fh;
    int64_t from = (i / (h * w) * c->h + i / w % h / fh) * c->w + i % w / fw;
    r->out[0].exact[i] = r->in[0][from];
    dx[from] += (double)r->dout[0][i];
    r->din[0].magnitude[from] += fabsf(r->dout[0][i]);
  }
  for (int64_t i = 0; i < input_elems(c); i++) r->din[0].exact[i] = (float)dx[i];
  free(dx);
}

/* How much of input i is in output o along axis d: linear interpolation is a tent of width 1 around the place, which is
 * moved into the input where it lies outside. */
static double resize_weight(const op_case *c, int d, int64_t o, int64_t i) {
  const ronde__resize *r = &c->attr.resize;
  int64_t in = d ? c->w : c->h, out = c->attr.kernel[d];
  double scale = r->scale[d] ? (double)r->scale[d] : (double)out / (double)in, at = ((double)o + 0.5) / scale - 0.5;
  if (r->coordinates == RONDE__RESIZE_ASYMMETRIC) at = (double)o / scale;
  if (r->coordinates == RONDE__RESIZE_ALIGN_CORNERS) at = out == 1 ? 0 : (double)(o * (in - 1)) / (double)(out - 1);
  if (r->coordinates == RONDE__RESIZE_PYTORCH_HALF_PIXEL && out == 1) at = 0;
  if (!r->linear) {
    double up = at - floor(at); /* from the lower neighbour */
    bool higher = r->rounding == RONDE__RESIZE_CEIL                 ? up > 0
                  : r->rounding == RONDE__RESIZE_ROUND_PREFER_CEIL  ? up >= 0.5
                  : r->rounding == RONDE__RESIZE_ROUND_PREFER_FLOOR ? up > 0.5
                                                                    : false;
    at = floor(at) + higher;
  }
  return fmax(0, 1 - fabs(fmin(fmax(at, 0), (double)(in - 1)) - (double)i));
}

static void resize_reference(const op_case *c, reference *r) {
  int64_t oh = c->attr.kernel[0], ow = c->attr.kernel[1];
  make_output(c, r, (ronde__shape){3, {c->c, oh, ow}}, 4);
  r->din[0] = expected_make(input_elems(c), (double)(4 * oh * ow));
  double *dx = calloc((size_t)input_elems(c), sizeof *dx);
  for (int64_t i = 0; i < r->out[0].n; i++) {
    double y = 0, magnitude = 0;
    for (int64_t p = 0; p < c->h * c->w; p++) {
      int64_t from = i / (oh * ow) * c->h * c->w + p;
      double weight = resize_weight(c, 0, i / ow % oh, p / c->w) * resize_weight(c, 1, i % ow, p % c->w);
      if (weight == 0) continue;
      y += weight * (double)r->in[0][from], magnitude += fabs((double)r->in[0][from]);
      dx[from] += weight * (double)r->dout[0][i];
      r->din[0].magnitude[from] += fabsf(r->dout[0][i]);
    }
    r->out[0].exact[i] = (float)y, r->out[0].magnitude[i] = (float)magnitude;
  }
  for (int64_t i = 0; i < input_elems(c); i++) r->din[0].exact[i] = (float)dx[i];
  free(dx);
}

/* Sums of the inputs; of one input, a copy. */
static void sum_reference(const op_case *c, reference *r) {
  make_output(c, r, input_shape(c), 0);
  for (int j = 0; j < r->n_inputs; j++) {
    r->din[j] = expected_make(r->out[0].n, 0);
    memcpy(r->din[j].exact, r->dout[0], (size_t)r->out[0].n * sizeof(float));
    for (int64_t i = 0; i < r->out[0].n; i++) {
      if (r->n_inputs > 1) r->out[0].magnitude[i] += fabsf(r->in[j][i]);
      r->out[0].exact[i] += r->in[j][i];
    }
  }
}

/* Pieces along a dimension: [front][sizes of the pieces][behind]. */
static int64_t behind(const ronde__shape *shape, int dim) {
  int64_t n = 1;
  for (int d = dim + 1; d < shape->rank; d++) n *= shape->dim[d];
  return n;
}

static void concat_reference(const op_case *c, reference *r) {
  ronde__shape shape = input_shape(c);
  int64_t run = behind(&shape, c->attr.dim), whole = 0, first = 0;
  for (int j = 0; j < r->n_inputs; j++) whole += shape_of_input(c, j).dim[c->attr.dim];
  shape.dim[c->attr.dim] = whole;
  make_output(c, r, shape, 0);
  for (int j = 0; j < r->n_inputs; j++) {
    int64_t n = shape_of_input(c, j).dim[c->attr.dim];
    r->din[j] = expected_make(elems_of_input(c, j), 0);
    for (int64_t i = 0; i < r->din[j].n; i++) {
      int64_t at = (i / (n * run) * whole + first) * run + i % (n * run);
      r->out[0].exact[at] = r->in[j][i];
      r->din[j].exact[i] = r->dout[0][at];
    }
    first += n;
  }
}

static void subtract_reference(const op_case *c, reference *r) {
  make_output(c, r, input_shape(c), 0);
  for (int j = 0; j < 2; j++) r->din[j] = expected_make(r->out[0].n, 0);
  for (int64_t i = 0; i < r->out[0].n; i++) {
    r->out[0].exact[i] = r->in[0][i] - r->in[1][i];
    r->out[0].magnitude[i] = fabsf(r->in[0][i]) + fabsf(r->in[1][i]);
    r->din[0].exact[i] = r->dout[0][i];
    r->din[1].exact[i] = -r->dout[0][i];
  }
}

static void multiply_reference(const op_case *c, reference *r) {
  make_output(c, r, input_shape(c), 0);
  for (int j = 0; j < 2; j++) r->din[j] = expected_make(r->out[0].n, 0);
  for (int64_t i = 0; i < r->out[0].n; i++) {
    r->out[0].exact[i] = r->in[0][i] * r->in[1][i];
    r->out[0].magnitude[i] = fabsf(r->out[0].exact[i]);
    for (int j = 0; j < 2; j++) {
      r->din[j].exact[i] = r->dout[0][i] * r->in[1 - j][i];
      r->din[j].magnitude[i] = fabsf(r->din[j].exact[i]);
    }
  }
}

static void split_reference(const op_case *c, reference *r) {
  ronde__shape shape = input_shape(c);
  int64_t run = behind(&shape, c->attr.dim), whole = shape.dim[c->attr.dim], first = 0;
  r->n_outputs = c->attr.n_outputs;
  r->din[0] = expected_make(input_elems(c), 0);
  for (int k = 0; k < r->n_outputs; first += c->attr.sizes[k++]) {
    int64_t n = c->attr.sizes[k];
    r->out_shape[k] = shape;
    r->out_shape[k].dim[c->attr.dim] = n;
    r->out[k] = expected_make(c->n * ronde__shape_elems(&r->out_shape[k]), 0);
    r->dout[k] = random_floats(r->out[k].n);
    for (int64_t i = 0; i < r->out[k].n; i++) {
      int64_t at = (i / (n * run) * whole + first) * run + i % (n * run);
      if (c->unread >> k & 1) r->dout[k][i] = 0;
      r->out[k].exact[i] = r->in[0][at];
      r->din[0].exact[at] = r->dout[k][i];
    }
  }
}

static void softmax_reference(const op_case *c, reference *r) {
  ronde__shape shape = input_shape(c);
  int64_t length = shape.dim[c->attr.dim], step = 1;
  for (int d = c->attr.dim + 1; d < shape.rank; d++) step *= shape.dim[d];
  make_output(c, r, shape, 16); /* the exponent's own error */
  r->din[0] = expected_make(r->out[0].n, (double)length + 16);
  for (int64_t i = 0; i < r->out[0].n; i++) r->in[0][i] *= 4;
  for (int64_t g = 0; g < r->out[0].n / length; g++) {
    int64_t at = g / step * step * length + g % step;
    double sum = 0, dot = 0, magnitude = 0;
    for (int64_t i = 0; i < length; i++) sum += exp((double)r->in[0][at + i * step]);
    for (int64_t i = 0; i < length; i++) {
      double y = exp((double)r->in[0][at + i * step]) / sum, dy = (double)r->dout[0][at + i * step];
      r->out[0].exact[at + i * step] = (float)y;
      r->out[0].magnitude[at + i * step] = (float)y;
      dot += y * dy, magnitude += y * fabs(dy);
    }
    for (int64_t i = 0; i < length; i++) {
      double y = exp((double)r->in[0][at + i * step]) / sum, dy = (double)r->dout[0][at + i * step];
      r->din[0].exact[at + i * step] = (float)(y * (dy - dot));
      r->din[0].magnitude[at + i * step] = (float)(y * (fabs(dy) + magnitude));
    }
  }
}

static void layer_norm_reference(const op_case *c, reference *r) {
  ronde__shape shape = input_shape(c);
  int64_t n = 1;
  for (int d = shape.rank - c->attr.dim; d < shape.rank; d++) n *= shape.dim[d];
  make_output(c, r, shape, (double)n);
  int64_t groups = r->out[0].n / n;
  make_params(r, n, n, 4, (double)groups);
  r->din[0] = expected_make(r->out[0].n, (double)n);
  double *sums = calloc((size_t)(4 * n), sizeof *sums);
  for (int64_t g = 0; g < groups; g++) {
    const float *x = r->in[0] + g * n, *dy = r->dout[0] + g * n, *w = r->param[0];
    double mean = 0, variance = 0, mean_e = 0, mean_ez = 0, large_e = 0, large_ez = 0;
    for (int64_t i = 0; i < n; i++) mean += (double)x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) variance += pow((double)x[i] - mean, 2) / (double)n;
    double rest = 1 / sqrt(variance + (double)c->attr.eps);
    for (int64_t i = 0; i < n; i++) {
      double z = ((double)x[i] - mean) * rest, e = (double)dy[i] * (double)w[i];
      double large = (fabs((double)x[i]) + fabs(mean)) * rest;
      mean_e += e / (double)n, mean_ez += e * z / (double)n;
      large_e += fabs(e) / (double)n, large_ez += fabs(e) * large / (double)n;
      sums[i] += (double)dy[i] * z, sums[n + i] += (double)dy[i];
      sums[2 * n + i] += fabs((double)dy[i]) * large, sums[3 * n + i] += fabs((double)dy[i]);
      r->out[0].exact[g * n + i] = (float)(z * (double)w[i] + (double)r->param[1][i]);
      r->out[0].magnitude[g * n + i] = (float)(large * fabs((double)w[i]) + fabs((double)r->param[1][i]));
    }
    for (int64_t i = 0; i < n; i++) {
      double z = ((double)x[i] - mean) * rest, e = (double)dy[i] * (double)w[i];
      double large = (fabs((double)x[i]) + fabs(mean)) * rest;
      r->din[0].exact[g * n + i] = (float)(rest * (e - mean_e - z * mean_ez));
      r->din[0].magnitude[g * n + i] = (float)(rest * (fabs(e) + large_e + large * large_ez));
    }
  }
  for (int p = 0; p < 2; p++)
    for (int64_t i = 0; i < n; i++) {
      r->dparam[p].exact[i] = (float)sums[p * n + i];
      r->dparam[p].magnitude[i] = (float)sums[(2 + p) * n + i];
    }
  free(sums);
}

/* A group, counted over all examples, is a stretch of n values. */
static void group_norm_reference(const op_case *c, reference *r) {
  ronde__shape shape = input_shape(c);
  int64_t channels = shape.dim[0], pixels = ronde__shape_elems(&shape) / channels;
  int64_t n = channels / c->attr.groups * pixels;
  make_output(c, r, shape, (double)n);
  if (c->attr.affine) make_params(r, channels, channels, 4, (double)(c->n * pixels));
  r->din[0] = expected_make(r->out[0].n, (double)n);
  double *sums = calloc((size_t)(4 * channels), sizeof *sums);
  for (int64_t g = 0; g < r->out[0].n / n; g++) {
    const float *x = r->in[0] + g * n, *dy = r->dout[0] + g * n;
    double mean = 0, variance = 0, mean_e = 0, mean_ez = 0, large_e = 0, large_ez = 0;
    for (int64_t i = 0; i < n; i++) mean += (double)x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) variance += pow((double)x[i] - mean, 2) / (double)n;
    double rest = 1 / sqrt(variance + (double)c->attr.eps);
    for (int again = 0; again < 2; again++)
      for (int64_t i = 0; i < n; i++) {
        int64_t at = g * n + i, k = at / pixels % channels;
        double weight = c->attr.affine ? (double)r->param[0][k] : 1, bias = c->attr.affine ? (double)r->param[1][k] : 0;
        double z = ((double)x[i] - mean) * rest, e = (double)dy[i] * weight;
        double large = (fabs((double)x[i]) + fabs(mean)) * rest;
        if (again) {
          r->din[0].exact[at] = (float)(rest * (e - mean_e - z * mean_ez));
          r->din[0].magnitude[at] = (float)(rest * (fabs(e) + large_e + large * large_ez));
          continue;
        }
        mean_e += e / (double)n, mean_ez += e * z / (double)n;
        large_e += fabs(e) / (double)n, large_ez += fabs(e) * large / (double)n;
        sums[k] += (double)dy[i] * z, sums[channels + k] += (double)dy[i];
        sums[2 * channels + k] += fabs((double)dy[i]) * large, sums[3 * channels + k] += fabs((double)dy[i]);
        r->out[0].exact[at] = (float)(z * weight + bias);
        r->out[0].magnitude[at] = (float)(large * fabs(weight) + fabs(bias));
      }
  }
  for (int p = 0; p < r->n_params; p++)
    for (int64_t k = 0; k < channels; k++) {
      r->dparam[p].exact[k] = (float)sums[p * channels + k];
      r->dparam[p].magnitude[k] = (float)sums[(2 + p) * channels + k];
    }
  free(sums);
}

static void dropout_reference(const op_case *c, reference *r) {
  float factor = 1 / (1 - c->attr.probability);
  make_output(c, r, input_shape(c), 0);
  r->din[0] = expected_make(r->out[0].n, 0);
  for (int64_t i = 0; i < r->out[0].n; i++) {
    int64_t stretch = i % example_elems(c) / (c->attr.length ? c->attr.length : 1);
    float kept = is_dropped(c->attr.probability, i / example_elems(c), stretch) ? 0 : factor;
    r->out[0].exact[i] = r->in[0][i] * kept;
    r->din[0].exact[i] = r->dout[0][i] * kept;
  }
}

static void reshape_reference(const op_case *c, reference *r) {
  sum_reference(c, r);
  r->out_shape[0] = c->attr.shape;
}

static void flatten_reference(const op_case *c, reference *r) {
  sum_reference(c, r);
  r->out_shape[0] = (ronde__shape){1, {example_elems(c)}};
}

/* The sum over the rows that have a label, each with the harness' weight, and its gradient by the mean over the examples. */
static double judge_rows(const op_case *c, const reference *r, const int64_t *labels, float *gradient) {
  int64_t k = r->n_classes, rows = input_elems(c) / k;
  double sum = 0, weight = rows > c->n ? CALL_LABEL_WEIGHT : 1;
  for (int64_t i = 0; i < rows; i++) {
    memset(gradient + i * k, 0, (size_t)k * sizeof *gradient);
    if (labels[i] < 0) continue;
    sum += weight * ronde__ref_cross_entropy(1, k, r->in[0] + i * k, labels + i, gradient + i * k);
    for (int64_t j = 0; j < k; j++) gradient[i * k + j] *= (float)(weight / (double)c->n);
  }
  return sum;
}

/* (1 - s) times the loss of the label, plus s times the mean of the losses that each class as the label would give. */
static void smooth_cross_entropy(const op_case *c, reference *r) {
  int64_t classes = r->n_classes, n = input_elems(c), rows = n / classes,
          *labels = malloc((size_t)rows * sizeof *labels);
  double s = (double)c->attr.label_smoothing, *gradient = calloc((size_t)n, sizeof *gradient);
  float *part = malloc((size_t)n * sizeof *part);
  for (int64_t i = 0; i < n; i++) gradient[i] = (1 - s) * (double)r->din[0].exact[i];
  r->loss_sum *= 1 - s;
  for (int64_t k = 0; k < classes; k++) {
    for (int64_t i = 0; i < rows; i++) labels[i] = r->labels[i] < 0 ? RONDE_IGNORED : k;
    r->loss_sum += s / (double)classes * judge_rows(c, r, labels, part);
    for (int64_t i = 0; i < n; i++) gradient[i] += s / (double)classes * (double)part[i];
  }
  for (int64_t i = 0; i < n; i++) r->din[0].exact[i] = (float)gradient[i];
  free(labels), free(gradient), free(part);
}

static void cross_entropy_reference(const op_case *c, reference *r) {
  int64_t classes = c->rank == 2 ? c->w : example_elems(c), rows = input_elems(c) / classes;
  r->n_classes = classes;
  r->labels = malloc((size_t)rows * sizeof *r->labels);
  r->din[0] = expected_make(input_elems(c), 16); /* the exponent's own error */
  for (int64_t i = 0; i < input_elems(c); i++) r->in[0][i] *= 4;
  for (int64_t n = 0; n < rows; n++) {
    const float *logits = r->in[0] + n * classes;
    int64_t best = 0;
    for (int64_t k = 1; k < classes; k++)
      if (logits[k] > logits[best]) best = k;
    r->labels[n] = n % 3 == 0 ? best : n * 5 % classes;
    if (rows > c->n && n % 4 == 1) r->labels[n] = RONDE_IGNORED;
    r->n_correct += r->labels[n] == best;
  }
  r->loss_sum = judge_rows(c, r, r->labels, r->din[0].exact);
  if (c->attr.label_smoothing > 0) smooth_cross_entropy(c, r);
  r->loss_bound = 1e-6 * (double)rows;
  for (int64_t i = 0; i < input_elems(c); i++) {
    if (r->labels[i / classes] < 0) continue;
    bool right = i % classes == r->labels[i / classes];
    r->din[0].magnitude[i] =
        fabsf(r->din[0].exact[i]) + (right ? 2 / (float)c->n : c->attr.label_smoothing / (float)c->n);
  }
}

static void lengths_reference(const op_case *c, reference *r) {
  int64_t t = example_elems(c);
  make_output(c, r, (ronde__shape){1, {1}}, 0);
  r->din[0] = expected_make(input_elems(c), 0);
  for (int64_t i = 0; i < input_elems(c); i++) {
    int64_t padded = i / t % (t + 1); /* of the example, from none to all; padding in front counts */
    int32_t token = i % t >= t - padded || i % t == 0 ? (int32_t)c->attr.begin[0] : (int32_t)(i % 5 + 3);
    memcpy(&r->in[0][i], &token, sizeof token);
    if (token != c->attr.begin[0]) r->out[0].exact[i / t] = (float)(i % t + 1);
  }
}

/* Where feature e of row t of operand i (query, key, value) lies in its input. */
static int64_t attention_place(const op_case *c, int i, int64_t n, int64_t t, int64_t e) {
  bool packed = c->attr.n_inputs - c->attr.lengths == 1;
  int64_t rows = i > 0 && !packed ? c->second[0] : c->c;
  return (n * rows + t) * c->w + e + (packed ? i * (c->w / 3) : 0);
}

/* One head of one query by the definition, in f64. */
static void attention_query(const op_case *c, reference *r, int64_t n, int64_t h, int64_t t, double *const sums[6]) {
  bool packed = c->attr.n_inputs - c->attr.lengths == 1;
  int64_t f = packed ? c->w / 3 : c->w, d = f / c->attr.heads, keys = packed ? c->c : c->second[0], e0 = h * d;
  const float *x[3] = {r->in[0], r->in[packed ? 0 : 1], r->in[packed ? 0 : 2]};
  double scale = 1 / sqrt((double)d), most = -INFINITY, sum = 0, dot = 0, large = 0, large_dot = 0;
  if (c->attr.lengths) keys = ronde__min(keys, (int64_t)r->in[c->attr.n_inputs - 1][n]);
  if (c->attr.causal) keys = ronde__min(keys, t + 1);
  double *p = calloc((size_t)keys + 1, 2 * sizeof *p), *dp = p + keys + 1;
#define AT(i, row, e) attention_place(c, i, n, row, e0 + (e))
  for (int64_t s = 0; s < keys; s++) {
    double magnitude = 0;
    for (int64_t e = 0; e < d; e++) {
      p[s] += scale * (double)x[0][AT(0, t, e)] * (double)x[1][AT(1, s, e)];
      magnitude += scale * fabs((double)x[0][AT(0, t, e)] * (double)x[1][AT(1, s, e)]);
    }
    most = fmax(most, p[s]), large = fmax(large, magnitude);
  }
  for (int64_t s = 0; s < keys; s++) sum += p[s] = exp(p[s] - most);
  large = 1 + 2 * large; /* the error of a score is one of the softmax, relative */
  const float *dy = r->dout[0] + (n * c->c + t) * f + e0;
  for (int64_t s = 0; s < keys; s++) {
    p[s] /= sum;
    double magnitude = 0;
    for (int64_t e = 0; e < d; e++) {
      double v = (double)x[2][AT(2, s, e)];
      r->out[0].magnitude[(n * c->c + t) * f + e0 + e] += (float)(p[s] * fabs(v) * large);
      sums[5][(n * c->c + t) * f + e0 + e] += p[s] * v;
      dp[s] += (double)dy[e] * v, magnitude += fabs((double)dy[e] * v);
    }
    dot += p[s] * dp[s], large_dot += p[s] * magnitude;
  }
  for (int64_t s = 0; s < keys; s++) {
    double ds = scale * p[s] * (dp[s] - dot), size = 0;
    for (int64_t e = 0; e < d; e++) size += fabs((double)dy[e] * (double)x[2][AT(2, s, e)]);
    size = scale * p[s] * (size + large_dot) * large;
    for (int64_t e = 0; e < d; e++) {
      int in_key = packed ? 0 : 1, in_value = packed ? 0 : 2;
      sums[0][AT(0, t, e)] += ds * (double)x[1][AT(1, s, e)];
      sums[in_key][AT(1, s, e)] += ds * (double)x[0][AT(0, t, e)];
      sums[in_value][AT(2, s, e)] += p[s] * (double)dy[e];
      r->din[0].magnitude[AT(0, t, e)] += (float)(size * fabs((double)x[1][AT(1, s, e)]));
      r->din[in_key].magnitude[AT(1, s, e)] += (float)(size * fabs((double)x[0][AT(0, t, e)]));
      r->din[in_value].magnitude[AT(2, s, e)] += (float)(p[s] * fabs((double)dy[e]) * large);
    }
  }
#undef AT
  free(p);
}

static void attention_reference(const op_case *c, reference *r) {
  bool packed = c->attr.n_inputs - c->attr.lengths == 1;
  int64_t f = packed ? c->w / 3 : c->w, keys = packed ? c->c : c->second[0];
  double *sums[6] = {0};
  make_output(c, r, (ronde__shape){2, {c->c, f}}, (double)(keys + f) + 16);
  for (int i = 0; i < c->attr.n_inputs; i++) {
    r->din[i] = expected_make(elems_of_input(c, i), (double)(keys + f + c->c) + 16);
    sums[i] = calloc((size_t)elems_of_input(c, i), sizeof **sums);
  }
  sums[5] = calloc((size_t)r->out[0].n, sizeof **sums);
  for (int64_t n = 0; n < c->n && c->attr.lengths; n++) /* 1, then others, one of them none, one too many */
    r->in[c->attr.n_inputs - 1][n] = n == 0 ? 1 : (float)(n * 2 % (keys + 2));
  for (int64_t i = 0; i < c->n * c->attr.heads * c->c; i++)
    attention_query(c, r, i / c->c / c->attr.heads, i / c->c % c->attr.heads, i % c->c, sums);
  for (int i = 0; i < c->attr.n_inputs; i++)
    for (int64_t e = 0; e < r->din[i].n; e++) r->din[i].exact[e] = (float)sums[i][e];
  for (int64_t e = 0; e < r->out[0].n; e++) r->out[0].exact[e] = (float)sums[5][e];
  for (int i = 0; i < 6; i++) free(sums[i]);
}

static void rms_norm_reference(const op_case *c, reference *r) {
  ronde__shape shape = input_shape(c);
  int64_t n = shape.dim[shape.rank - 1];
  make_output(c, r, shape, (double)n);
  int64_t rows = r->out[0].n / n;
  make_params(r, n, 0, 4, (double)rows);
  r->din[0] = expected_make(r->out[0].n, (double)n);
  double *sums = calloc((size_t)(2 * n), sizeof *sums);
  for (int64_t g = 0; g < rows; g++) {
    const float *x = r->in[0] + g * n, *dy = r->dout[0] + g * n, *w = r->param[0];
    double squares = 0, mean = 0, large = 0;
    for (int64_t i = 0; i < n; i++) squares += (double)x[i] * (double)x[i] / (double)n;
    double rest = 1 / sqrt(squares + (double)c->attr.eps);
    for (int64_t i = 0; i < n; i++) {
      double z = (double)x[i] * rest, e = (double)dy[i] * (double)w[i];
      mean += e * z / (double)n, large += fabs(e * z) / (double)n;
      sums[i] += (double)dy[i] * z, sums[n + i] += fabs((double)dy[i] * z);
      r->out[0].exact[g * n + i] = (float)(z * (double)w[i]);
      r->out[0].magnitude[g * n + i] = (float)fabs(z * (double)w[i]);
    }
    for (int64_t i = 0; i < n; i++) {
      double z = (double)x[i] * rest, e = (double)dy[i] * (double)w[i];
      r->din[0].exact[g * n + i] = (float)(rest * (e - z * mean));
      r->din[0].magnitude[g * n + i] = (float)(rest * (fabs(e) + fabs(z) * large));
    }
  }
  for (int64_t i = 0; i < n; i++)
    r->dparam[0].exact[i] = (float)sums[i], r->dparam[0].magnitude[i] = (float)sums[n + i];
  free(sums);
}

static void embedding_reference(const op_case *c, reference *r) {
  ronde__shape shape = shape_of_input(c, 0);
  int64_t f = c->attr.out_channels, rows = c->attr.vocabulary, places = input_elems(c);
  double *sums = calloc((size_t)(2 * rows * f), sizeof *sums);
  shape.dim[shape.rank++] = f;
  make_output(c, r, shape, 0);
  make_params(r, rows * f, 0, 4, 1);
  r->din[0] = expected_make(places, 0);
  for (int64_t p = 0; p < places; p++) {
    int32_t token = (int32_t)(p * p * 7 % rows);
    memcpy(&r->in[0][p], &token, sizeof token);
    for (int64_t i = 0; i < f; i++) {
      double dy = (double)r->dout[0][p * f + i];
      r->out[0].exact[p * f + i] = r->param[0][token * f + i];
      sums[token * f + i] += dy, sums[(rows + token) * f + i] += fabs(dy);
    }
  }
  for (int64_t i = 0; i < rows * f; i++)
    r->dparam[0].exact[i] = (float)sums[i], r->dparam[0].magnitude[i] = (float)sums[rows * f + i];
  free(sums);
}

static double value_loss(const op_case *c, const float *x, const float *t, float *dx) {
  int64_t n = input_elems(c);
  switch (c->kind) {
  case RONDE__OP_L1_LOSS: return ronde__ref_l1(n, x, t, dx);
  case RONDE__OP_HUBER_LOSS: return ronde__ref_huber(n, (double)c->attr.delta, x, t, dx);
  case RONDE__OP_BCE_LOSS: return ronde__ref_bce(n, x, t, dx);
  default: return ronde__ref_mse(n, x, t, dx);
  }
}

static void value_loss_reference(const op_case *c, reference *r) {
  r->din[0] = expected_make(input_elems(c), 0);
  r->loss_sum = (double)c->n * value_loss(c, r->in[0], r->in[1], r->din[0].exact);
  r->loss_bound = 1e-12 * (double)c->n;
  float unit = 1 / (float)input_elems(c); /* of a difference of a sigmoid and its target */
  for (int64_t i = 0; i < input_elems(c); i++)
    r->din[0].magnitude[i] = fabsf(r->din[0].exact[i]) + (c->kind == RONDE__OP_BCE_LOSS ? unit : 0);
}

static void mean_loss_reference(const op_case *c, reference *r) {
  r->din[0] = expected_make(c->n, 0);
  for (int64_t n = 0; n < c->n; n++) {
    r->loss_sum += (double)r->in[0][n];
    r->din[0].exact[n] = r->din[0].magnitude[n] = 1 / (float)c->n;
  }
}

/* Of each example: the terms of the rows that are there, by the number of all. */
static void value_error_reference(const op_case *c, reference *r) {
  int64_t all = example_elems(c);
  bool is_bce = c->kind == RONDE__OP_BCE_ERROR;
  make_output(c, r, (ronde__shape){1, {1}}, (double)all);
  for (int i = 0; i < c->attr.n_inputs; i++) r->din[i] = expected_make(elems_of_input(c, i), 4);
  for (int64_t n = 0; n < c->n; n++) {
    if (c->attr.lengths) r->in[2][n] = n == 0 ? 1 : (float)(n * 3 % (c->c + 2)); /* one of them none, one too many */
    int64_t rows = c->attr.lengths ? ronde__min(c->c, (int64_t)r->in[2][n]) : c->c;
    double sum = 0, dy = (double)r->dout[0][n] / (double)all;
    for (int64_t i = n * all; i < n * all + rows * (all / c->c); i++) {
      double x = (double)r->in[0][i], t = (double)r->in[1][i], s = 1 / (1 + exp(-x));
      sum += is_bce ? -t * log(s) - (1 - t) * log(1 - s) : (x - t) * (x - t);
      r->din[0].exact[i] = (float)(dy * (is_bce ? s - t : 2 * (x - t)));
      r->din[1].exact[i] = (float)(dy * (is_bce ? -x : 2 * (t - x)));
      for (int k = 0; k < 2; k++) r->din[k].magnitude[i] = (float)(fabs(dy) * (2 * fabs(x) + 2 * fabs(t) + 1));
    }
    r->out[0].exact[n] = (float)(sum / (double)all);
    r->out[0].magnitude[n] = fabsf(r->out[0].exact[n]) + 1e-6f;
  }
}

static int n_inputs_of(const op_case *c) {
  switch (c->kind) {
  case RONDE__OP_LSTM:
  case RONDE__OP_GRU:
  case RONDE__OP_RNN:
  case RONDE__OP_ATTENTION:
  case RONDE__OP_ADDITIVE_ATTENTION:
  case RONDE__OP_LOCATION_ATTENTION:
  case RONDE__OP_SQUARED_ERROR:
  case RONDE__OP_BCE_ERROR:
  case RONDE__OP_CONCAT: return c->attr.n_inputs;
  case RONDE__OP_CTC_LOSS: return c->attr.lengths ? 3 : 1;
  case RONDE__OP_ADD:
  case RONDE__OP_SUBTRACT:
  case RONDE__OP_MULTIPLY:
  case RONDE__OP_PAIR:
  case RONDE__OP_PAIR_SUM:
  case RONDE__OP_MATMUL:
  case RONDE__OP_MSE_LOSS:
  case RONDE__OP_L1_LOSS:
  case RONDE__OP_HUBER_LOSS:
  case RONDE__OP_BCE_LOSS: return 2;
  default: return c->residual ? 2 : 1;
  }
}

/* An op without a row here fails the test. */
static void (*const references[RONDE__N_OPS])(const op_case *c, reference *r) = {
    [RONDE__OP_CONV2D] = conv_reference,
    [RONDE__OP_CONV_TRANSPOSE2D] = conv_transpose_reference,
    [RONDE__OP_LINEAR] = linear_reference,
    [RONDE__OP_MAX_POOL2D] = max_pool_reference,
    [RONDE__OP_AVG_POOL2D] = avg_pool_reference,
    [RONDE__OP_ADAPTIVE_AVG_POOL2D] = adaptive_pool_reference,
    [RONDE__OP_BATCH_NORM2D] = batch_norm_reference,
    [RONDE__OP_DROPOUT] = dropout_reference,
    [RONDE__OP_ACTIVATION] = activation_reference,
    [RONDE__OP_POINTWISE] = pointwise_reference,
    [RONDE__OP_UPSAMPLE2D] = upsample_reference,
    [RONDE__OP_RESIZE2D] = resize_reference,
    [RONDE__OP_FLATTEN] = flatten_reference,
    [RONDE__OP_ADD] = sum_reference,
    [RONDE__OP_CONCAT] = concat_reference,
    [RONDE__OP_REORDER] = sum_reference,
    [RONDE__OP_SUBTRACT] = subtract_reference,
    [RONDE__OP_MULTIPLY] = multiply_reference,
    [RONDE__OP_SPLIT] = split_reference,
    [RONDE__OP_SOFTMAX] = softmax_reference,
    [RONDE__OP_LAYER_NORM] = layer_norm_reference,
    [RONDE__OP_GROUP_NORM] = group_norm_reference,
    [RONDE__OP_LSTM] = recurrent_reference,
    [RONDE__OP_GRU] = recurrent_reference,
    [RONDE__OP_RNN] = recurrent_reference,
    [RONDE__OP_PAIR] = pair_reference,
    [RONDE__OP_PAIR_SUM] = pair_reference,
    [RONDE__OP_FUNCTION] = function_reference,
    [RONDE__OP_REDUCE] = reduce_reference,
    [RONDE__OP_REDUCE_SUM] = reduce_reference,
    [RONDE__OP_RESHAPE] = reshape_reference,
    [RONDE__OP_TRANSPOSE] = transpose_reference,
    [RONDE__OP_CHANNEL_SHUFFLE] = channel_shuffle_reference,
    [RONDE__OP_SLICE] = slice_reference,
    [RONDE__OP_PARAMETER] = parameter_reference,
    [RONDE__OP_MATMUL] = matmul_reference,
    [RONDE__OP_LENGTHS] = lengths_reference,
    [RONDE__OP_ATTENTION] = attention_reference,
    [RONDE__OP_ADDITIVE_ATTENTION] = additive_reference,
    [RONDE__OP_LOCATION_ATTENTION] = location_reference,
    [RONDE__OP_RMS_NORM] = rms_norm_reference,
    [RONDE__OP_EMBEDDING] = embedding_reference,
    [RONDE__OP_CROSS_ENTROPY] = cross_entropy_reference,
    [RONDE__OP_CTC_LOSS] = ctc_reference,
    [RONDE__OP_MSE_LOSS] = value_loss_reference,
    [RONDE__OP_L1_LOSS] = value_loss_reference,
    [RONDE__OP_HUBER_LOSS] = value_loss_reference,
    [RONDE__OP_BCE_LOSS] = value_loss_reference,
    [RONDE__OP_MEAN_LOSS] = mean_loss_reference,
    [RONDE__OP_SQUARED_ERROR] = value_error_reference,
    [RONDE__OP_BCE_ERROR] = value_error_reference,
};

reference reference_make(const op_case *c) {
  reference r = {.n_inputs = n_inputs_of(c)};
  random_state = (uint32_t)(c->n * 7919 + c->c * 104729 + c->h * 31 + c->w + c->attr.out_channels);
  for (int i = 0; i < r.n_inputs; i++) r.in[i] = random_floats(elems_of_input(c, i));
  references[c->kind](c, &r);
  return r;
}

static void expected_free(expected *e) { free(e->exact), free(e->magnitude); }

void reference_free(reference *r) {
  for (int i = 0; i < RONDE__OP_MAX_INPUTS; i++) free(r->in[i]), expected_free(&r->din[i]);
  for (int i = 0; i < RONDE__OP_MAX_PARAMS; i++) free(r->param[i]), expected_free(&r->dparam[i]);
  for (int i = 0; i < RONDE__OP_MAX_OUTPUTS; i++) free(r->dout[i]), expected_free(&r->out[i]);
  free(r->labels);
}
