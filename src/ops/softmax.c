/* y = exp(x) / sum of exp(x) over one dimension. In ROWS, where the elements of a sum lie `step` apart; dx = y (dy - the
 * sum of dy y). */
#include "ops/elementwise.h"

#include "ops/gemm_list.h"

#include <math.h>
#include <string.h>

static ronde_status softmax_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                  const char *const *in_labels, ronde__shape *out) {
  char text[96];
  ronde__shape_text(&in[0], text, sizeof text);
  if (attr->dim < 0 || attr->dim >= in[0].rank)
    return ronde__fail(RONDE_E_USAGE, "%s: there is no dimension %d: %s gives %s", label, attr->dim, in_labels[0],
                       text);
  *out = in[0];
  return RONDE_OK;
}

static void softmax_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  desc->in[0] = desc->out[0] = ronde__phys_of_shape(&in[0], desc->in[0].n);
  desc->attr.length = in[0].dim[desc->attr.dim];
  desc->attr.step = 1;
  for (int d = desc->attr.dim + 1; d < in[0].rank; d++) desc->attr.step *= in[0].dim[d];
}

typedef struct softmax_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
} softmax_job;

/* Where the group's first element lies. */
static int64_t softmax_group(const ronde__op_attr *attr, int64_t group) {
  return group / attr->step * attr->step * attr->length + group % attr->step;
}

static void softmax_row(const ronde__kernels *kernels, const float *x, float *y, int64_t n) {
  if (y != x) memcpy(y, x, (size_t)n * sizeof *y);
  kernels->scale(y, (float)(1 / kernels->exp_sum(y, kernels->largest(y, n), n)), n);
}

static void softmax_column(const float *x, float *y, int64_t n, int64_t step) {
  float largest = x[0];
  double sum = 0;
  for (int64_t i = 1; i < n; i++) largest = x[i * step] > largest ? x[i * step] : largest;
  for (int64_t i = 0; i < n; i++) sum += (double)(y[i * step] = expf(x[i * step] - largest));
  float factor = (float)(1 / sum);
  for (int64_t i = 0; i < n; i++) y[i * step] *= factor;
}

static void softmax_forward_part(void *arg, int thread, int n_threads) {
  const softmax_job *j = arg;
  const ronde__op_attr *a = &j->desc->attr;
  int64_t begin, end;
  ronde__thread_chunk(ronde__phys_elems(&j->desc->out[0]) / a->length, thread, n_threads, &begin, &end);
  for (int64_t group = begin; group < end; group++) {
    const float *x = j->call->in[0] + softmax_group(a, group);
    float *y = j->call->out[0] + softmax_group(a, group);
    if (a->step == 1) softmax_row(j->desc->compute.kernels, x, y, a->length);
    else softmax_column(x, y, a->length, a->step);
  }
}

static ronde_status softmax_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  softmax_job j = {desc, call};
  ronde__pool_run(call->pool, softmax_forward_part, &j);
  return RONDE_OK;
}

static double softmax_dot(const ronde__kernels *kernels, const float *y, const float *dy, int64_t n, int64_t step) {
  double sum = 0;
  if (step == 1) return kernels->dot(y, dy, n);
  for (int64_t i = 0; i < n; i++) sum += (double)y[i * step] * (double)dy[i * step];
  return sum;
}

static void softmax_backward_part(void *arg, int thread, int n_threads) {
  const softmax_job *j = arg;
  const ronde__op_attr *a = &j->desc->attr;
  int64_t begin, end;
  ronde__thread_chunk(ronde__phys_elems(&j->desc->out[0]) / a->length, thread, n_threads, &begin, &end);
  for (int64_t group = begin; group < end; group++) {
    int64_t at = softmax_group(a, group);
    const float *y = j->call->out[0] + at, *dy = j->call->dout[0] + at;
    float *dx = j->call->din[0] + at;
    double sum = softmax_dot(j->desc->compute.kernels, y, dy, a->length, a->step);
    for (int64_t i = 0; i < a->length; i++) {
      float gradient = y[i * a->step] * (dy[i * a->step] - (float)sum);
      dx[i * a->step] = gradient + (j->call->accumulate_dinput[0] ? dx[i * a->step] : 0);
    }
  }
}

static ronde_status softmax_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  softmax_job j = {desc, call};
  if (call->din[0]) ronde__pool_run(call->pool, softmax_backward_part, &j);
  return RONDE_OK;
}

static const char *softmax_implementation(const ronde__op_desc *desc, const void *state) {
  return desc->attr.step == 1 ? desc->compute.kernels->isa : "c";
}

static const ronde__form softmax_form = {
    .forward = softmax_forward,
    .backward = softmax_backward,
    .implementation = softmax_implementation,
};

const ronde__op ronde__op_softmax = {
    .name = "softmax",
    .infer = softmax_infer,
    .layouts = softmax_layouts,
    .backward_reads = {.out = 1},
    .dinput_in_dout = 1,
    .forms = (const ronde__form *const[]){&softmax_form, NULL},
};
