/* What runs in the epilogue of a layer, and its backward: bias and activation, while the rows are in cache. */
#include "ops/fused.h"

#include "ops/gemm_list.h"
#include "ops/widen.h"

#include <string.h>

enum { STRETCH = 1024 }; /* elements, of which a few lie in the first cache as f32 */

void ronde__fused_bias_act(const ronde__op_desc *desc, const ronde__op_call *call, int64_t ob, float *y, int64_t rows) {
  if (!desc->attr.bias && !desc->attr.act) return;
  int64_t block = desc->out[0].block, valid = ronde__min(block, desc->out[0].c - ob * block);
  const float *bias = desc->attr.bias ? call->param[1] + ob * block : NULL;
  desc->compute.kernels->bias_act_rows(y, block, rows, block, valid, bias, desc->attr.act);
}

void ronde__fused_act(const ronde__op_desc *desc, const ronde__op_call *call, int64_t ob, int64_t at, int64_t rows) {
  const ronde__phys *out = &desc->out[0];
  int64_t block = out->block, valid = ronde__min(block, out->c - ob * block);
  float room[STRETCH];
  if (!desc->attr.act) return;
  for (int64_t few; rows > 0; rows -= few, at += few * block) {
    few = out->bf16 ? ronde__min(STRETCH / block, rows) : rows;
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

static void act_part(void *arg, int thread, int n_threads) {
  const fused_job *j = arg;
  const ronde__phys *out = &j->desc->out[0];
  float y_room[STRETCH], d_room[STRETCH];
  int64_t begin, end, quanta = ronde__ceil_div(ronde__phys_elems(out), RONDE__QUANTUM);
  ronde__thread_chunk(quanta, thread, n_threads, &begin, &end);
  begin *= RONDE__QUANTUM;
  end = ronde__min(end * RONDE__QUANTUM, ronde__phys_elems(out));
  for (int64_t at = begin, n; at < end; at += n) {
    n = out->bf16 ? ronde__min(STRETCH, end - at) : end - at;
    const float *y = ronde__widen(j->desc, out, j->call->out[0], at, n, y_room);
    float *d = ronde__operand_room(out, j->call->dout[0], at, d_room);
    ronde__widen(j->desc, out, j->call->dout[0], at, n, d_room);
    j->desc->compute.kernels->act_backward(d, y, d, n, j->desc->attr.act, false);
    ronde__narrow(j->desc, out, d, n, j->call->dout[0], at);
  }
}

void ronde__fused_act_backward(const ronde__op_desc *desc, const ronde__op_call *call) {
  if (desc->attr.act == RONDE__ACT_NONE) return;
  fused_job j = {desc, call};
  ronde__pool_run(call->pool, act_part, &j);
}

/* Rows of bfloat16 are widened a few at a time, which adds them in the same order as all at once. */
void ronde__bias_gradient_of_block(const ronde__op_desc *desc, const ronde__op_call *call, int64_t ob) {
  const ronde__phys *out = &desc->out[0];
  int64_t block = out->block, rows = out->h * out->w * out->n, few = out->bf16 ? STRETCH / block : rows;
  float *db = call->dparam[1] + ob * block, room[STRETCH];
  if (!call->accumulate_dparam[1]) memset(db, 0, (size_t)block * sizeof *db);
  for (int64_t r = 0; r < rows; r += few) {
    int64_t n = ronde__min(few, rows - r);
    const float *dy = ronde__widen(desc, out, call->dout[0], (ob * rows + r) * block, n * block, room);
    desc->compute.kernels->column_sums(dy, block, n, block, db);
  }
}

static void bias_part(void *arg, int thread, int n_threads) {
  const fused_job *j = arg;
  const ronde__phys *out = &j->desc->out[0];
  bool lanes = out->layout == RONDE__LANES;
  int64_t begin, end, plane = out->h * out->w * out->block;
  ronde__thread_chunk(lanes ? out->c : ronde__phys_blocks(out), thread, n_threads, &begin, &end);
  for (int64_t i = begin; i < end; i++) {
    if (!lanes) {
      ronde__bias_gradient_of_block(j->desc, j->call, i);
      continue;
    }
    float sum = j->desc->compute.kernels->sum(j->call->dout[0] + i * plane, plane);
    j->call->dparam[1][i] = j->call->accumulate_dparam[1] ? j->call->dparam[1][i] + sum : sum;
  }
}

void ronde__bias_gradient(const ronde__op_desc *desc, const ronde__op_call *call) {
  fused_job j = {desc, call};
  if (call->dparam[1]) ronde__pool_run(call->pool, bias_part, &j);
}
