/* Layer normalisation over the last dimensions of an example: y = (x - mean) / sqrt(variance + eps) * weight + bias, by
 * the statistics of each group of `length` adjacent elements of ROWS. Source: Ba, Kiros & Hinton, "Layer normalization",
 * 2016. Legend: r = 1 / sqrt(variance + eps), z = (x - mean) r. */
#include "ops/elementwise.h"

#include "ops/gemm_list.h"

#include <math.h>
#include <string.h>

static ronde_status layer_norm_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                     const char *const *in_labels, ronde__shape *out) {
  char text[96];
  ronde__shape_text(&in[0], text, sizeof text);
  if (attr->dim < 1 || attr->dim > in[0].rank)
    return ronde__fail(RONDE_E_USAGE, "%s: the last %d dimensions cannot be normalised: %s gives %s", label, attr->dim,
                       in_labels[0], text);
  *out = in[0];
  return RONDE_OK;
}

static ronde__shape layer_norm_shape(const ronde__op_attr *attr, const ronde__shape *in) {
  ronde__shape shape = {attr->dim, {0}};
  for (int d = 0; d < attr->dim; d++) shape.dim[d] = in[0].dim[in[0].rank - attr->dim + d];
  return shape;
}

static int layer_norm_params(const ronde__op_attr *attr, const ronde__shape *in,
                             ronde__param_spec specs[RONDE__OP_MAX_PARAMS]) {
  ronde__shape shape = layer_norm_shape(attr, in);
  specs[0] = (ronde__param_spec){.suffix = "weight", .shape = shape, .bound = 1, .init = RONDE_INIT_CONSTANT};
  specs[1] = (ronde__param_spec){.suffix = "bias", .shape = shape, .bound = 0, .init = RONDE_INIT_CONSTANT};
  return 2;
}

static void layer_norm_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  ronde__shape shape = layer_norm_shape(&desc->attr, in);
  desc->in[0] = desc->out[0] = ronde__phys_of_shape(&in[0], desc->in[0].n);
  desc->attr.length = ronde__shape_elems(&shape);
  for (int i = 0; i < 2; i++) desc->param[i] = ronde__weight_layout_make(RONDE__PLAIN, desc->attr.length, 1, 1, 1, 1);
}

static int64_t layer_norm_groups(const ronde__op_desc *desc) {
  return ronde__phys_elems(&desc->in[0]) / desc->attr.length;
}

/* Mean and r of each group. */
static size_t layer_norm_saved(const ronde__op_desc *desc, const void *state) {
  return (size_t)(2 * layer_norm_groups(desc));
}

/* Sums of both parameters' gradients, in f64. */
static size_t layer_norm_work(const ronde__op_desc *desc, const void *state, bool backward) {
  return backward ? (size_t)(2 * desc->attr.length) * sizeof(double) / sizeof(float) : 0;
}

typedef struct layer_norm_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
} layer_norm_job;

static void layer_norm_statistics(const float *x, int64_t n, float eps, float *saved) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)x[i];
  double mean = sum / (double)n;
  for (int64_t i = 0; i < n; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
  saved[0] = (float)mean;
  saved[1] = (float)(1 / sqrt(squares / (double)n + (double)eps));
}

static void layer_norm_forward_part(void *arg, int thread, int n_threads) {
  const layer_norm_job *j = arg;
  const float *weight = j->call->param[0], *bias = j->call->param[1];
  int64_t n = j->desc->attr.length, begin, end;
  ronde__thread_chunk(layer_norm_groups(j->desc), thread, n_threads, &begin, &end);
  for (int64_t g = begin; g < end; g++) {
    const float *x = j->call->in[0] + g * n;
    float *y = j->call->out[0] + g * n, *saved = j->call->saved + 2 * g;
    layer_norm_statistics(x, n, j->desc->attr.eps, saved);
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - saved[0]) * saved[1] * weight[i] + bias[i];
  }
}

static ronde_status layer_norm_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  layer_norm_job j = {desc, call};
  ronde__pool_run(call->pool, layer_norm_forward_part, &j);
  return RONDE_OK;
}

/* With e = dy weight: dx = r (e - mean of e - z * mean of e z). */
static void layer_norm_data_part(void *arg, int thread, int n_threads) {
  const layer_norm_job *j = arg;
  const float *weight = j->call->param[0];
  int64_t n = j->desc->attr.length, begin, end;
  ronde__thread_chunk(layer_norm_groups(j->desc), thread, n_threads, &begin, &end);
  for (int64_t g = begin; g < end; g++) {
    const float *x = j->call->in[0] + g * n, *dy = j->call->dout[0] + g * n;
    float *dx = j->call->din[0] + g * n, mean = j->call->saved[2 * g], r = j->call->saved[2 * g + 1];
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < n; i++) {
      double e = (double)dy[i] * (double)weight[i];
      sum += e;
      dot += e * (double)((x[i] - mean) * r);
    }
    float mean_e = (float)(sum / (double)n), mean_ez = (float)(dot / (double)n);
    for (int64_t i = 0; i < n; i++) {
      float gradient = r * (dy[i] * weight[i] - mean_e - (x[i] - mean) * r * mean_ez);
      dx[i] = gradient + (j->call->accumulate_dinput[0] ? dx[i] : 0);
    }
  }
}

static void layer_norm_write(const ronde__op_call *call, int param, const double *sums, int64_t begin, int64_t end) {
  float *gradient = call->dparam[param];
  for (int64_t i = begin; i < end && gradient; i++)
    gradient[i] = (float)((call->accumulate_dparam[param] ? (double)gradient[i] : 0) + sums[i]);
}

/* Each thread sums some elements over all groups, in their order. */
static void layer_norm_params_part(void *arg, int thread, int n_threads) {
  const layer_norm_job *j = arg;
  const ronde__op_call *call = j->call;
  int64_t n = j->desc->attr.length, begin, end;
  double *sums = (double *)(void *)call->work, *dots = sums + n;
  ronde__thread_chunk(n, thread, n_threads, &begin, &end);
  memset(sums + begin, 0, (size_t)(end - begin) * sizeof *sums);
  memset(dots + begin, 0, (size_t)(end - begin) * sizeof *dots);
  for (int64_t g = 0; g < layer_norm_groups(j->desc); g++) {
    const float *x = call->in[0] + g * n, *dy = call->dout[0] + g * n, *saved = call->saved + 2 * g;
    for (int64_t i = begin; i < end; i++) {
      sums[i] += (double)dy[i];
      dots[i] += (double)dy[i] * (double)((x[i] - saved[0]) * saved[1]);
    }
  }
  layer_norm_write(call, 0, dots, begin, end);
  layer_norm_write(call, 1, sums, begin, end);
}

static ronde_status layer_norm_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  layer_norm_job j = {desc, call};
  if (call->dparam[0] || call->dparam[1]) ronde__pool_run(call->pool, layer_norm_params_part, &j);
  if (call->din[0]) ronde__pool_run(call->pool, layer_norm_data_part, &j);
  return RONDE_OK;
}

static const char *layer_norm_implementation(const ronde__op_desc *desc, const void *state) { return "c"; }

static const ronde__form layer_norm_form = {
    .work_elems = layer_norm_work,
    .saved_elems = layer_norm_saved,
    .forward = layer_norm_forward,
    .backward = layer_norm_backward,
    .implementation = layer_norm_implementation,
};

const ronde__op ronde__op_layer_norm = {
    .name = "layer_norm",
    .infer = layer_norm_infer,
    .params = layer_norm_params,
    .layouts = layer_norm_layouts,
    .backward_reads = {.in = 1},
    .dinput_in_dout = 1,
    .forms = (const ronde__form *const[]){&layer_norm_form, NULL},
};
