/* What runs in the epilogue of a layer, and its backward: bias and activation, while the rows are in cache. */
#include "ops/fused.h"

#include "ops/elementwise.h"
#include "ops/gemm_list.h"
#include "ops/widen.h"

#include <string.h>

void ronde__fused_bias_act(const ronde__op_desc *desc, const ronde__op_call *call, int64_t ob, float *y, int64_t rows) {
  if (!desc->attr.bias && !desc->attr.act) return;
  int64_t block = desc->out[0].block, valid = ronde__min(block, desc->out[0].c - ob * block);
  const float *bias = desc->attr.bias ? call->param[1] + ob * block : NULL;
  desc->compute.kernels->bias_act_rows(y, block, rows, block, valid, bias, desc->attr.act);
}

void ronde__fused_act(const ronde__op_desc *desc, const ronde__op_call *call, int64_t ob, int64_t at, int64_t rows) {
  const ronde__phys *out = &desc->out[0];
  int64_t block = out->block, valid = ronde__min(block, out->c - ob * block);
  float room[RONDE__STRETCH];
  if (!desc->attr.act) return;
  for (int64_t few; rows > 0; rows -= few, at += few * block) {
    few = out->bf16 ? ronde__min(RONDE__STRETCH / block, rows) : rows;
    float *y = ronde__operand_room(out, call->out[0], at, room);
    ronde__widen(desc, out, call->out[0], at, few * block, room);
    desc->compute.kernels->bias_act_rows(y, block, few, block, valid, NULL, desc->attr.act);
    ronde__narrow(desc, out, y, few * block, call->out[0], at);
  }
}

typedef struct fused_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
} fused_job;

/* Elements [at, at + n) of the gradient behind the activation become those in front of it. */
static void act_backward(const ronde__op_desc *desc, const ronde__op_call *call, int64_t at, int64_t n) {
  const ronde__phys *out = &desc->out[0];
  float y_room[RONDE__STRETCH], d_room[RONDE__STRETCH];
  for (int64_t end = at + n; at < end; at += n) {
    n = out->bf16 ? ronde__min(RONDE__STRETCH, end - at) : end - at;
    const float *y = ronde__widen(desc, out, call->out[0], at, n, y_room);
    float *d = ronde__operand_room(out, call->dout[0], at, d_room);
    ronde__widen(desc, out, call->dout[0], at, n, d_room);
    desc->compute.kernels->act_backward(d, y, d, n, desc->attr.act, false);
    ronde__narrow(desc, out, d, n, call->dout[0], at);
  }
}

/* Adds rows of block ob, from element `at` on. Those of bfloat16 are widened a few at a time, which adds them in the same
 * order as all at once. */
static void add_rows(const ronde__op_desc *desc, const ronde__op_call *call, int64_t ob, int64_t at, int64_t rows) {
  const ronde__phys *out = &desc->out[0];
  int64_t block = out->block, few = out->bf16 ? RONDE__STRETCH / block : rows;
  float room[RONDE__STRETCH];
  for (int64_t n; rows > 0; rows -= n, at += n * block) {
    n = ronde__min(few, rows);
    const float *dy = ronde__widen(desc, out, call->dout[0], at, n * block, room);
    desc->compute.kernels->column_sums(dy, block, n, block, call->dparam[1] + ob * block);
  }
}

/* Where it is told, with what the activation does to these gradients, while they are in cache. */
static void bias_gradient_of_block(const ronde__op_desc *desc, const ronde__op_call *call, int64_t ob, bool act) {
  enum { ROWS = 256 };
  const ronde__phys *out = &desc->out[0];
  int64_t block = out->block, rows = out->h * out->w * out->n;
  if (!call->accumulate_dparam[1]) memset(call->dparam[1] + ob * block, 0, (size_t)block * sizeof(float));
  for (int64_t r = 0; r < rows; r += ROWS) {
    int64_t n = ronde__min(ROWS, rows - r), at = (ob * rows + r) * block;
    if (act) act_backward(desc, call, at, n * block);
    add_rows(desc, call, ob, at, n);
  }
}

void ronde__bias_gradient_of_block(const ronde__op_desc *desc, const ronde__op_call *call, int64_t ob) {
  bias_gradient_of_block(desc, call, ob, false);
}

static void bias_gradient_of_lanes(const ronde__op_desc *desc, const ronde__op_call *call, int64_t channel, bool act) {
  int64_t plane = desc->out[0].h * desc->out[0].w * desc->out[0].block;
  if (act) act_backward(desc, call, channel * plane, plane);
  float sum = desc->compute.kernels->sum(call->dout[0] + channel * plane, plane), *db = call->dparam[1] + channel;
  *db = call->accumulate_dparam[1] ? *db + sum : sum;
}

static int64_t parts_of(const ronde__phys *out) {
  return out->layout == RONDE__LANES ? out->c : ronde__phys_blocks(out);
}

static void bias_gradients(const fused_job *j, int thread, int n_threads, bool act) {
  const ronde__phys *out = &j->desc->out[0];
  int64_t begin, end;
  ronde__thread_chunk(parts_of(out), thread, n_threads, &begin, &end);
  for (int64_t i = begin; i < end; i++)
    if (out->layout == RONDE__LANES) bias_gradient_of_lanes(j->desc, j->call, i, act);
    else bias_gradient_of_block(j->desc, j->call, i, act);
}

static void bias_part(void *arg, int thread, int n_threads) { bias_gradients(arg, thread, n_threads, false); }

static void both_part(void *arg, int thread, int n_threads) { bias_gradients(arg, thread, n_threads, true); }

void ronde__fused_act_backward(const ronde__op_desc *desc, const ronde__op_call *call) {
  if (desc->attr.act) ronde__elementwise_run(desc, call, ronde__phys_elems(&desc->out[0]), act_backward);
}

void ronde__bias_gradient(const ronde__op_desc *desc, const ronde__op_call *call) {
  fused_job j = {desc, call};
  if (call->dparam[1]) ronde__pool_run(call->pool, bias_part, &j);
}

void ronde__fused_backward(const ronde__op_desc *desc, const ronde__op_call *call) {
  fused_job j = {desc, call};
  bool has_bias = desc->attr.bias && call->dparam[1];
  if (desc->attr.act && has_bias && parts_of(&desc->out[0]) % desc->threads == 0) {
    ronde__pool_run(call->pool, both_part, &j);
    return;
  }
  ronde__fused_act_backward(desc, call);
  if (has_bias) ronde__bias_gradient(desc, call);
}
