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

/* A thread's elements of n, in whole quanta. */
static void chunk_of(int64_t n, int thread, int n_threads, int64_t *begin, int64_t *end) {
  ronde__thread_chunk(ronde__ceil_div(n, RONDE__QUANTUM), thread, n_threads, begin, end);
  *begin *= RONDE__QUANTUM;
  *end = ronde__min(*end * RONDE__QUANTUM, n);
}

static void elementwise_part(void *arg, int thread, int n_threads) {
  const elementwise_job *j = arg;
  int64_t begin, end;
  chunk_of(j->n, thread, n_threads, &begin, &end);
  if (begin < end) j->fn(j->desc, j->call, begin, end - begin);
}

void ronde__elementwise_run(const ronde__op_desc *desc, const ronde__op_call *call, int64_t n, ronde__range_fn fn) {
  elementwise_job j = {desc, call, n, fn};
  ronde__pool_run(call->pool, elementwise_part, &j);
}

typedef struct unary_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
  ronde__unary_fn forward;
  ronde__unary_back_fn backward;
  const ronde__phys *of_phys;
  const float *of;
} unary_job;

static void forward_stretch(const unary_job *j, int64_t at, int64_t n) {
  const ronde__phys *in = &j->desc->in[0], *out = &j->desc->out[0];
  float x_room[RONDE__STRETCH], y_room[RONDE__STRETCH];
  float *y = ronde__operand_room(out, j->call->out[0], at, y_room);
  j->forward(j->desc, ronde__widen(j->desc, in, j->call->in[0], at, n, x_room), y, n);
  ronde__narrow(j->desc, out, y, n, j->call->out[0], at);
}

static void backward_stretch(const unary_job *j, int64_t at, int64_t n) {
  const ronde__phys *in = &j->desc->in[0], *out = &j->desc->out[0];
  bool accumulate = j->call->accumulate_dinput[0];
  float dy_room[RONDE__STRETCH], of_room[RONDE__STRETCH], dx_room[RONDE__STRETCH];
  const float *dy = ronde__widen(j->desc, out, j->call->dout[0], at, n, dy_room);
  const float *of = ronde__widen(j->desc, j->of_phys, j->of, at, n, of_room);
  float *dx = ronde__operand_room(in, j->call->din[0], at, dx_room);
  if (accumulate) ronde__widen(j->desc, in, j->call->din[0], at, n, dx_room);
  j->backward(j->desc, dy, of, dx, n, accumulate);
  ronde__narrow(j->desc, in, dx, n, j->call->din[0], at);
}

static void unary_part(void *arg, int thread, int n_threads) {
  const unary_job *j = arg;
  int64_t begin, end;
  bool narrow = ronde__is_narrow(j->desc);
  chunk_of(ronde__phys_elems(&j->desc->out[0]), thread, n_threads, &begin, &end);
  for (int64_t at = begin, n; at < end; at += n) {
    n = narrow ? ronde__min(RONDE__STRETCH, end - at) : end - at;
    if (j->forward) forward_stretch(j, at, n);
    else backward_stretch(j, at, n);
  }
}

void ronde__unary_forward(const ronde__op_desc *desc, const ronde__op_call *call, ronde__unary_fn fn) {
  unary_job j = {.desc = desc, .call = call, .forward = fn};
  ronde__pool_run(call->pool, unary_part, &j);
}

void ronde__unary_backward(const ronde__op_desc *desc, const ronde__op_call *call, const ronde__phys *phys,
                           const float *of, ronde__unary_back_fn fn) {
  unary_job j = {.desc = desc, .call = call, .backward = fn, .of_phys = phys, .of = of};
  if (call->din[0]) ronde__pool_run(call->pool, unary_part, &j);
}

void ronde__gradient_add(const ronde__op_desc *desc, const float *src, float *dst, int64_t n, bool accumulate) {
  if (accumulate) desc->compute.kernels->add(dst, src, dst, n);
  else memcpy(dst, src, (size_t)n * sizeof *dst);
}

void ronde__operand_add(const ronde__op_desc *desc, const ronde__phys *phys, const float *src, float *dst, int64_t at,
                        int64_t n, bool accumulate) {
  float sums[RONDE__STRETCH];
  if (!phys->bf16) {
    ronde__gradient_add(desc, src, dst + at, n, accumulate);
    return;
  }
  if (accumulate) {
    desc->compute.kernels->add(ronde__widen(desc, phys, dst, at, n, sums), src, sums, n);
    src = sums;
  }
  ronde__narrow(desc, phys, src, n, dst, at);
}

void ronde__value_add(const ronde__op_desc *desc, const ronde__phys *phys, const float *src, int64_t from, float *dst,
                      int64_t to, int64_t n, bool accumulate) {
  const void *a = ronde__operand_at(phys, src, from);
  void *y = ronde__operand_at(phys, dst, to);
  if (!accumulate) memcpy(y, a, ronde__operand_bytes(phys, n));
  else if (phys->bf16) desc->compute.bf16->add(y, a, n, y);
  else desc->compute.kernels->add(y, a, y, n);
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
  if (desc->in[0].layout == RONDE__ROWS && desc->in[1].layout == RONDE__BLOCKS) desc->in[0] = desc->in[1];
  desc->in[1] = desc->in[0];
  desc->out[0] = desc->in[0];
}

void ronde__clear_padding_of_rows(const ronde__phys *phys, float *x, int64_t begin, int64_t end) {
  int64_t tail = phys->layout == RONDE__BLOCKS ? phys->c % phys->block : 0;
  if (tail == 0) return;
  int64_t last = (ronde__phys_blocks(phys) - 1) * phys->h * phys->w * phys->n * phys->block;
  for (int64_t r = begin; r < end; r++)
    memset(ronde__operand_at(phys, x, last + r * phys->block + tail), 0,
           ronde__operand_bytes(phys, phys->block - tail));
}

void ronde__elementwise_clear_padding(const ronde__phys *phys, float *x) {
  ronde__clear_padding_of_rows(phys, x, 0, phys->h * phys->w * phys->n);
}

const char *ronde__elementwise_implementation(const ronde__op_desc *desc, const void *state) {
  return desc->compute.kernels->isa;
}
