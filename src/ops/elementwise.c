/* Ops whose output lies as their inputs do: shape rule, layouts, and flat arrays split over the threads. */
#include "ops/elementwise.h"

#include "ops/gemm_list.h"
#include "ops/widen.h"

#include <math.h>
#include <string.h>

typedef struct elementwise_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
  int64_t n;
  ronde__range_fn fn;
} elementwise_job;

static void elementwise_part(void *arg, int thread, int n_threads) {
  const elementwise_job *j = arg;
  int64_t begin, end;
  ronde__thread_chunk(ronde__ceil_div(j->n, RONDE__QUANTUM), thread, n_threads, &begin, &end);
  begin *= RONDE__QUANTUM;
  end = ronde__min(end * RONDE__QUANTUM, j->n);
  if (begin < end) j->fn(j->desc, j->call, begin, end - begin);
}

void ronde__elementwise_run(const ronde__op_desc *desc, const ronde__op_call *call, int64_t n, ronde__range_fn fn) {
  elementwise_job j = {desc, call, n, fn};
  ronde__pool_run(call->pool, elementwise_part, &j);
}

void ronde__gradient_add(const ronde__op_desc *desc, const float *src, float *dst, int64_t n, bool accumulate) {
  if (accumulate) desc->compute.kernels->add(dst, src, dst, n);
  else memcpy(dst, src, (size_t)n * sizeof *dst);
}

void ronde__value_add(const ronde__op_desc *desc, const ronde__phys *phys, const float *src, int64_t from, float *dst,
                      int64_t to, int64_t n, bool accumulate) {
  const void *a = ronde__operand_at(phys, src, from);
  void *y = ronde__operand_at(phys, dst, to);
  if (!phys->bf16) ronde__gradient_add(desc, a, y, n, accumulate);
  else if (accumulate) desc->compute.bf16->add(y, a, n, y);
  else memcpy(y, a, (size_t)n * sizeof(uint16_t));
}

int64_t ronde__rows_there(const ronde__op_desc *desc, const ronde__op_call *call, int64_t n, int64_t most) {
  if (!desc->attr.lengths) return most;
  return llrintf(fmaxf(0, fminf(call->in[desc->attr.n_inputs - 1][n], (float)most)));
}

void ronde__softmax(float *x, int64_t n) {
  float most = -INFINITY;
  double sum = 0;
  for (int64_t i = 0; i < n; i++) most = x[i] > most ? x[i] : most;
  for (int64_t i = 0; i < n; i++) sum += (double)(x[i] = expf(x[i] - most));
  float factor = (float)(1 / sum);
  for (int64_t i = 0; i < n; i++) x[i] *= factor;
}

void ronde__lengths_backward(const ronde__op_desc *desc, const ronde__op_call *call) {
  int last = desc->attr.n_inputs - 1;
  if (desc->attr.lengths && call->din[last] && !call->accumulate_dinput[last])
    memset(call->din[last], 0, (size_t)desc->in[last].n * sizeof(float));
}

ronde_status ronde__elementwise_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                      const char *const *in_labels, ronde__shape *out) {
  *out = in[0];
  return RONDE_OK;
}

void ronde__elementwise_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  desc->out[0] = desc->in[0];
}

ronde_status ronde__elementwise_infer_pair(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                           const char *const *in_labels, ronde__shape *out) {
  if (!ronde__shape_equal(&in[0], &in[1])) {
    char a[96], b[96];
    ronde__shape_text(&in[0], a, sizeof a);
    ronde__shape_text(&in[1], b, sizeof b);
    return ronde__fail(RONDE_E_USAGE, "%s: %s gives %s, but %s gives %s", label, in_labels[0], a, in_labels[1], b);
  }
  *out = in[0];
  return RONDE_OK;
}

void ronde__elementwise_layouts_pair(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  desc->in[1] = desc->in[0];
  desc->out[0] = desc->in[0];
}

void ronde__elementwise_clear_padding(const ronde__phys *phys, float *x) {
  int64_t tail = phys->layout == RONDE__BLOCKS ? phys->c % phys->block : 0;
  if (tail == 0) return;
  int64_t rows = phys->h * phys->w * phys->n;
  x += (ronde__phys_blocks(phys) - 1) * rows * phys->block;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = tail; c < phys->block; c++) x[r * phys->block + c] = 0;
}

const char *ronde__elementwise_implementation(const ronde__op_desc *desc, const void *state) {
  return desc->compute.kernels->isa;
}
