/* y = x / sqrt(mean of x^2 + eps) * weight over the last dimension, F adjacent elements of ROWS. Source: Zhang & Sennrich,
 * "Root mean square layer normalization", 2019. Legend: r = 1 / sqrt(mean of x^2 + eps), z = x r. */
#include "ops/elementwise.h"
#include "ops/gemm_list.h"

#include <math.h>
#include <string.h>

static int rms_norm_params(const ronde__op_attr *attr, const ronde__shape *in,
                           ronde__param_spec specs[RONDE__OP_MAX_PARAMS]) {
  specs[0] = (ronde__param_spec){
      .suffix = "weight", .shape = {1, {in[0].dim[in[0].rank - 1]}}, .bound = 1, .init = RONDE_INIT_CONSTANT};
  return 1;
}

static void rms_norm_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  desc->in[0] = desc->out[0] = ronde__phys_of_shape(&in[0], desc->in[0].n);
  desc->attr.length = in[0].dim[in[0].rank - 1];
  desc->param[0] = ronde__weight_layout_make(RONDE__PLAIN, desc->attr.length, 1, 1, 1, 1);
}

static int64_t rows_of(const ronde__op_desc *desc) { return ronde__phys_elems(&desc->in[0]) / desc->attr.length; }

/* r of each row. */
static size_t rms_norm_saved(const ronde__op_desc *desc, const void *state) { return (size_t)rows_of(desc); }

typedef struct rms_norm_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
} rms_norm_job;

static void forward_part(void *arg, int thread, int n_threads) {
  const rms_norm_job *j = arg;
  const float *weight = j->call->param[0];
  int64_t f = j->desc->attr.length, begin, end;
  ronde__thread_chunk(rows_of(j->desc), thread, n_threads, &begin, &end);
  for (int64_t row = begin; row < end; row++) {
    const float *x = j->call->in[0] + row * f;
    double squares = j->desc->compute.kernels->sum_squares(x, f);
    float r = (float)(1 / sqrt(squares / (double)f + (double)j->desc->attr.eps)), *y = j->call->out[0] + row * f;
    for (int64_t i = 0; i < f; i++) y[i] = x[i] * r * weight[i];
    j->call->saved[row] = r;
  }
}

static ronde_status rms_norm_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  rms_norm_job j = {desc, call};
  ronde__pool_run(call->pool, forward_part, &j);
  return RONDE_OK;
}

/* With e = dy weight: dx = r (e - z * mean of e z). */
static void data_part(void *arg, int thread, int n_threads) {
  const rms_norm_job *j = arg;
  const float *weight = j->call->param[0];
  int64_t f = j->desc->attr.length, begin, end;
  ronde__thread_chunk(rows_of(j->desc), thread, n_threads, &begin, &end);
  for (int64_t row = begin; row < end; row++) {
    const float *x = j->call->in[0] + row * f, *dy = j->call->dout[0] + row * f;
    float *dx = j->call->din[0] + row * f, r = j->call->saved[row];
    double dot = 0;
    for (int64_t i = 0; i < f; i++) dot += (double)dy[i] * (double)weight[i] * (double)(x[i] * r);
    float mean = (float)(dot / (double)f);
    for (int64_t i = 0; i < f; i++) {
      float gradient = r * (dy[i] * weight[i] - x[i] * r * mean);
      dx[i] = gradient + (j->call->accumulate_dinput[0] ? dx[i] : 0);
    }
  }
}

/* Each thread sums some elements over all rows, in their order and in f64. */
static void params_part(void *arg, int thread, int n_threads) {
  enum { CHUNK = 256 };
  const rms_norm_job *j = arg;
  const ronde__op_call *call = j->call;
  int64_t f = j->desc->attr.length, begin, end;
  ronde__thread_chunk(f, thread, n_threads, &begin, &end);
  for (int64_t at = begin; at < end; at += CHUNK) {
    double sums[CHUNK] = {0};
    int64_t m = ronde__min(CHUNK, end - at);
    for (int64_t row = 0; row < rows_of(j->desc); row++)
      for (int64_t i = 0; i < m; i++)
        sums[i] += (double)call->dout[0][row * f + at + i] * (double)(call->in[0][row * f + at + i] * call->saved[row]);
    for (int64_t i = 0; i < m; i++)
      call->dparam[0][at + i] = (float)(sums[i] + (call->accumulate_dparam[0] ? (double)call->dparam[0][at + i] : 0));
  }
}

static ronde_status rms_norm_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  rms_norm_job j = {desc, call};
  if (call->dparam[0]) ronde__pool_run(call->pool, params_part, &j);
  if (call->din[0]) ronde__pool_run(call->pool, data_part, &j);
  return RONDE_OK;
}

static const ronde__form rms_norm_form = {
    .saved_elems = rms_norm_saved,
    .forward = rms_norm_forward,
    .backward = rms_norm_backward,
    .implementation = ronde__elementwise_implementation,
};

const ronde__op ronde__op_rms_norm = {
    .name = "rms_norm",
    .infer = ronde__elementwise_infer,
    .params = rms_norm_params,
    .layouts = rms_norm_layouts,
    .backward_reads = {.in = 1},
    .dinput_in_dout = 1,
    .forms = (const ronde__form *const[]){&rms_norm_form, NULL},
};
