/* What an op must give at a case, by the naive references, with its bound. */
#include "ops_reference.h"

static float *magnitudes_of(const float *x, int64_t n) {
  float *y = malloc((size_t)n * sizeof *y);
  for (int64_t i = 0; i < n; i++) y[i] = fabsf(x[i]);
  return y;
}

static expected expected_make(int64_t n, double length) {
  return (expected){n, calloc((size_t)n, sizeof(float)), calloc((size_t)n, sizeof(float)), length, false};
}

double expected_bound(const expected *e, int64_t i) {
  double bound = ldexp(4 + 2 * sqrt(e->length), -24) * (double)e->magnitude[i];
  return e->rounded ? bound + ldexp((double)e->magnitude[i], -8) : bound;
}

int64_t example_elems(const op_case *c) { return c->c * c->h * c->w; }

int64_t input_channels(const op_case *c, int i) { return c->c + (c->kind == RONDE__OP_CONCAT ? 5 * i : 0); }

static bool is_lstm_state(const op_case *c, int i) { return c->kind == RONDE__OP_LSTM && i > 0; }

ronde__phys phys_of_input(const op_case *c, int i, ronde__layout layout) {
  if (is_lstm_state(c, i)) return ronde__phys_make(layout, c->n, c->attr.out_channels, 1, 1);
  return ronde__phys_make(layout, c->n, input_channels(c, i), c->h, c->w);
}

int64_t elems_of_input(const op_case *c, int i) {
  ronde__phys rows = phys_of_input(c, i, RONDE__ROWS);
  return ronde__phys_elems(&rows);
}

int64_t input_elems(const op_case *c) { return c->n * example_elems(c); }

/* The output of a sliding window over [H, W]. */
static ronde__shape window_shape(const op_case *c, int64_t channels) {
  const ronde__op_attr *a = &c->attr;
  return (ronde__shape){3,
                        {channels, (c->h + 2 * a->padding[0] - a->kernel[0]) / a->stride[0] + 1,
                         (c->w + 2 * a->padding[1] - a->kernel[1]) / a->stride[1] + 1}};
}

static void make_output(const op_case *c, reference *r, ronde__shape shape, double length) {
  r->out_shape[0] = shape;
  r->out[0] = expected_make(c->n * ronde__shape_elems(&shape), length);
  r->n_outputs = 1;
  r->dout[0] = random_floats(r->out[0].n);
}

static void make_params(reference *r, int64_t n_weight, int64_t n_bias, double fan_in, double length) {
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

static void linear_reference(const op_case *c, reference *r) {
  int64_t features = example_elems(c), o = c->attr.out_channels;
  make_output(c, r, (ronde__shape){1, {o}}, (double)(features + 1));
  make_params(r, o * features, c->attr.bias ? o : 0, (double)features, (double)c->n);
  r->din[0] = expected_make(input_elems(c), (double)o);
  float *x = magnitudes_of(r->in[0], input_elems(c)), *w = magnitudes_of(r->param[0], r->n_param[0]);
  float *b = magnitudes_of(r->param[1], r->n_param[1]), *dy = magnitudes_of(r->dout[0], r->out[0].n);
  ronde__ref_linear_forward(c->n, features, o, r->in[0], r->param[0], r->param[1], r->out[0].exact);
  ronde__ref_linear_forward(c->n, features, o, x, w, r->param[1] ? b : NULL, r->out[0].magnitude);
  float *dz = activate(c, r);
  ronde__ref_linear_backward(c->n, features, o, r->in[0], r->param[0], dz, r->din[0].exact, r->dparam[0].exact,
                             r->dparam[1].exact);
  ronde__ref_linear_backward(c->n, features, o, x, w, dy, r->din[0].magnitude, r->dparam[0].magnitude,
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

static ronde__shape shape_of_input(const op_case *c, int i) {
  int64_t channels = input_channels(c, i);
  if (is_lstm_state(c, i)) return (ronde__shape){1, {c->attr.out_channels}};
  if (c->rank == 2) return (ronde__shape){2, {channels, c->w}};
  if (c->rank == 4) return (ronde__shape){4, {channels, c->h, 2, c->w / 2}};
  return c->vector ? (ronde__shape){1, {channels * c->h * c->w}} : (ronde__shape){3, {channels, c->h, c->w}};
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

static void concat_reference(const op_case *c, reference *r) {
  ronde__shape shape = input_shape(c);
  int64_t pixels = c->h * c->w, channels = 0, first = 0;
  for (int j = 0; j < r->n_inputs; j++) channels += input_channels(c, j);
  shape.dim[0] = channels * (c->vector ? pixels : 1);
  make_output(c, r, shape, 0);
  for (int j = 0; j < r->n_inputs; first += input_channels(c, j++)) {
    int64_t elems = input_channels(c, j) * pixels;
    r->din[j] = expected_make(c->n * elems, 0);
    for (int64_t i = 0; i < c->n * elems; i++) {
      int64_t at = i / elems * channels * pixels + first * pixels + i % elems;
      r->out[0].exact[at] = r->in[j][i];
      r->din[j].exact[i] = r->dout[0][at];
    }
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
  int64_t pixels = c->h * c->w, first = 0;
  r->n_outputs = c->attr.n_outputs;
  r->din[0] = expected_make(input_elems(c), 0);
  for (int k = 0; k < r->n_outputs; first += c->attr.sizes[k++]) {
    int64_t elems = c->attr.sizes[k] * pixels;
    r->out_shape[k] = input_shape(c);
    r->out_shape[k].dim[0] = c->attr.sizes[k];
    r->out[k] = expected_make(c->n * elems, 0);
    r->dout[k] = random_floats(r->out[k].n);
    for (int64_t i = 0; i < r->out[k].n; i++) {
      int64_t at = i / elems * example_elems(c) + first * pixels + i % elems;
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

/* What one example of an LSTM holds, in f64, for all steps. gates [T][4H] behind their functions, h and c [T + 1][H] from
 * the first state on. */
typedef struct lstm_example {
  double *gates, *h, *c;
} lstm_example;

static lstm_example lstm_example_forward(const op_case *c, const reference *r, int64_t n) {
  int64_t steps = c->c, f = c->w, h = c->attr.out_channels;
  lstm_example e = {calloc((size_t)(steps * 4 * h), sizeof(double)), calloc((size_t)((steps + 1) * h), sizeof(double)),
                    calloc((size_t)((steps + 1) * h), sizeof(double))};
  for (int64_t k = 0; k < h && r->n_inputs > 1; k++) e.h[k] = r->in[1][n * h + k], e.c[k] = r->in[2][n * h + k];
  for (int64_t t = 0; t < steps; t++) {
    double *gates = e.gates + t * 4 * h;
    for (int64_t k = 0; k < 4 * h; k++) {
      double z = c->attr.bias ? (double)r->param[2][k] + (double)r->param[3][k] : 0;
      for (int64_t i = 0; i < f; i++) z += (double)r->param[0][k * f + i] * (double)r->in[0][(n * steps + t) * f + i];
      for (int64_t i = 0; i < h; i++) z += (double)r->param[1][k * h + i] * e.h[t * h + i];
      gates[k] = k / h == 2 ? tanh(z) : 1 / (1 + exp(-z));
    }
    for (int64_t k = 0; k < h; k++) {
      e.c[(t + 1) * h + k] = gates[h + k] * e.c[t * h + k] + gates[k] * gates[2 * h + k];
      e.h[(t + 1) * h + k] = gates[3 * h + k] * tanh(e.c[(t + 1) * h + k]);
    }
  }
  return e;
}

/* Adds one example's gradients; absolute: of magnitudes, no term of which cancels another. sums: of x, h_0, c_0, then of
 * the parameters, each as it lies in files. */
static void lstm_example_backward(const op_case *c, const reference *r, int64_t n, const lstm_example *e, bool absolute,
                                  double *const *din, double *const *dparam) {
  int64_t steps = c->c, f = c->w, h = c->attr.out_channels;
#define OF(x) (absolute ? fabs((double)(x)) : (double)(x))
  double *dh = calloc((size_t)(6 * h), sizeof *dh), *dc = dh + h, *d = dh + 2 * h;
  for (int64_t k = 0; k < h; k++) dh[k] = OF(r->dout[1][n * h + k]), dc[k] = OF(r->dout[2][n * h + k]);
  for (int64_t t = steps - 1; t >= 0; t--) {
    const double *gates = e->gates + t * 4 * h;
    for (int64_t k = 0; k < h; k++) {
      double i = gates[k], ff = gates[h + k], g = gates[2 * h + k], o = gates[3 * h + k];
      double y = tanh(e->c[(t + 1) * h + k]), of_h = dh[k] + OF(r->dout[0][(n * steps + t) * h + k]);
      double of_c = dc[k] + of_h * o * (absolute ? 1 : 1 - y * y);
      d[k] = of_c * OF(g) * i * (absolute ? 1 : 1 - i);
      d[h + k] = of_c * OF(e->c[t * h + k]) * ff * (absolute ? 1 : 1 - ff);
      d[2 * h + k] = of_c * i * (absolute ? 1 : 1 - g * g);
      d[3 * h + k] = of_h * OF(y) * o * (absolute ? 1 : 1 - o);
      dc[k] = of_c * ff;
      dh[k] = 0;
    }
    for (int64_t k = 0; k < 4 * h; k++) {
      for (int64_t i = 0; i < h; i++) {
        dh[i] += d[k] * OF(r->param[1][k * h + i]);
        dparam[1][k * h + i] += d[k] * OF(e->h[t * h + i]);
      }
      for (int64_t i = 0; i < f; i++) {
        din[0][(n * steps + t) * f + i] += d[k] * OF(r->param[0][k * f + i]);
        dparam[0][k * f + i] += d[k] * OF(r->in[0][(n * steps + t) * f + i]);
      }
      dparam[2][k] += d[k], dparam[3][k] += d[k];
    }
  }
  for (int64_t k = 0; k < h; k++) din[1][n * h + k] = dh[k], din[2][n * h + k] = dc[k];
#undef OF
  free(dh);
}

static void lstm_reference(const op_case *c, reference *r) {
  int64_t steps = c->c, f = c->w, h = c->attr.out_channels, n_out[] = {c->n * steps * h, c->n * h, c->n * h};
  int64_t n_in[] = {c->n * steps * f, c->n * h, c->n * h}, n_param[] = {4 * h * f, 4 * h * h, 4 * h, 4 * h};
  double length = (double)(steps * (f + h) + 16), *din[2][3], *dparam[2][4];
  r->n_outputs = 3, r->n_params = c->attr.bias ? 4 : 2;
  for (int k = 0; k < 3; k++) {
    r->out_shape[k] = k ? (ronde__shape){1, {h}} : (ronde__shape){2, {steps, h}};
    r->out[k] = expected_make(n_out[k], length);
    r->dout[k] = random_floats(n_out[k]);
    if (c->unread >> k & 1) memset(r->dout[k], 0, (size_t)n_out[k] * sizeof(float));
    if (k < r->n_inputs) r->din[k] = expected_make(n_in[k], length);
  }
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
    lstm_example e = lstm_example_forward(c, r, n);
    for (int64_t i = 0; i < steps * h; i++) r->out[0].exact[n * steps * h + i] = (float)e.h[h + i];
    for (int64_t i = 0; i < h; i++) {
      r->out[1].exact[n * h + i] = (float)e.h[steps * h + i];
      r->out[2].exact[n * h + i] = (float)e.c[steps * h + i];
    }
    for (int a = 0; a < 2; a++) lstm_example_backward(c, r, n, &e, a, din[a], dparam[a]);
    free(e.gates), free(e.h), free(e.c);
  }
  for (int k = 0; k < 3; k++)
    for (int64_t i = 0; i < n_out[k]; i++) r->out[k].magnitude[i] = 1 + fabsf(r->out[k].exact[i]);
  for (int k = 0; k < r->n_inputs; k++)
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

static void dropout_reference(const op_case *c, reference *r) {
  float factor = 1 / (1 - c->attr.probability);
  make_output(c, r, input_shape(c), 0);
  r->din[0] = expected_make(r->out[0].n, 0);
  for (int64_t i = 0; i < r->out[0].n; i++) {
    float kept = is_dropped(c->attr.probability, i / example_elems(c), i % example_elems(c)) ? 0 : factor;
    r->out[0].exact[i] = r->in[0][i] * kept;
    r->din[0].exact[i] = r->dout[0][i] * kept;
  }
}

static void flatten_reference(const op_case *c, reference *r) {
  sum_reference(c, r);
  r->out_shape[0] = (ronde__shape){1, {example_elems(c)}};
}

/* (1 - s) times the loss of the label, plus s times the mean of the losses that each class as the label would give. */
static void smooth_cross_entropy(const op_case *c, reference *r) {
  int64_t classes = example_elems(c), n = input_elems(c), *labels = malloc((size_t)c->n * sizeof *labels);
  double s = (double)c->attr.label_smoothing, *gradient = calloc((size_t)n, sizeof *gradient);
  float *part = malloc((size_t)n * sizeof *part);
  for (int64_t i = 0; i < n; i++) gradient[i] = (1 - s) * (double)r->din[0].exact[i];
  r->loss_sum *= 1 - s;
  for (int64_t k = 0; k < classes; k++) {
    for (int64_t i = 0; i < c->n; i++) labels[i] = k;
    r->loss_sum += s / (double)classes * (double)c->n * ronde__ref_cross_entropy(c->n, classes, r->in[0], labels, part);
    for (int64_t i = 0; i < n; i++) gradient[i] += s / (double)classes * (double)part[i];
  }
  for (int64_t i = 0; i < n; i++) r->din[0].exact[i] = (float)gradient[i];
  free(labels), free(gradient), free(part);
}

static void cross_entropy_reference(const op_case *c, reference *r) {
  int64_t classes = example_elems(c);
  r->labels = malloc((size_t)c->n * sizeof *r->labels);
  r->din[0] = expected_make(input_elems(c), 16); /* the exponent's own error */
  for (int64_t i = 0; i < input_elems(c); i++) r->in[0][i] *= 4;
  for (int64_t n = 0; n < c->n; n++) {
    const float *logits = r->in[0] + n * classes;
    int64_t best = 0;
    for (int64_t k = 1; k < classes; k++)
      if (logits[k] > logits[best]) best = k;
    r->labels[n] = n % 3 == 0 ? best : n * 5 % classes;
    r->n_correct += r->labels[n] == best;
  }
  r->loss_sum = (double)c->n * ronde__ref_cross_entropy(c->n, classes, r->in[0], r->labels, r->din[0].exact);
  if (c->attr.label_smoothing > 0) smooth_cross_entropy(c, r);
  r->loss_bound = 1e-6 * (double)c->n;
  for (int64_t i = 0; i < input_elems(c); i++) {
    bool right = i % classes == r->labels[i / classes];
    r->din[0].magnitude[i] =
        fabsf(r->din[0].exact[i]) + (right ? 2 / (float)c->n : c->attr.label_smoothing / (float)c->n);
  }
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

static int n_inputs_of(const op_case *c) {
  switch (c->kind) {
  case RONDE__OP_LSTM:
  case RONDE__OP_CONCAT: return c->attr.n_inputs;
  case RONDE__OP_ADD:
  case RONDE__OP_SUBTRACT:
  case RONDE__OP_MULTIPLY:
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
    [RONDE__OP_LINEAR] = linear_reference,
    [RONDE__OP_MAX_POOL2D] = max_pool_reference,
    [RONDE__OP_AVG_POOL2D] = avg_pool_reference,
    [RONDE__OP_ADAPTIVE_AVG_POOL2D] = adaptive_pool_reference,
    [RONDE__OP_BATCH_NORM2D] = batch_norm_reference,
    [RONDE__OP_DROPOUT] = dropout_reference,
    [RONDE__OP_ACTIVATION] = activation_reference,
    [RONDE__OP_POINTWISE] = pointwise_reference,
    [RONDE__OP_UPSAMPLE2D] = upsample_reference,
    [RONDE__OP_FLATTEN] = flatten_reference,
    [RONDE__OP_ADD] = sum_reference,
    [RONDE__OP_CONCAT] = concat_reference,
    [RONDE__OP_REORDER] = sum_reference,
    [RONDE__OP_SUBTRACT] = subtract_reference,
    [RONDE__OP_MULTIPLY] = multiply_reference,
    [RONDE__OP_SPLIT] = split_reference,
    [RONDE__OP_SOFTMAX] = softmax_reference,
    [RONDE__OP_LAYER_NORM] = layer_norm_reference,
    [RONDE__OP_LSTM] = lstm_reference,
    [RONDE__OP_CROSS_ENTROPY] = cross_entropy_reference,
    [RONDE__OP_MSE_LOSS] = value_loss_reference,
    [RONDE__OP_L1_LOSS] = value_loss_reference,
    [RONDE__OP_HUBER_LOSS] = value_loss_reference,
    [RONDE__OP_BCE_LOSS] = value_loss_reference,
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
