/* The form that layer norm and RMS norm share: rows by threads forward and for the input, columns for the parameters. */
#include "ops/row_norm.h"

#include "ops/elementwise.h"
#include "ops/gemm_list.h"
#include "ops/widen.h"

#include <string.h>

void ronde__row_norm_layouts(ronde__op_desc *desc, const ronde__shape *shape) {
  ronde__phys *x = &desc->in[0];
  bool by_blocks = x->layout == RONDE__BLOCKS && x->h * x->w == 1 && x->c == desc->attr.length;
  if (!by_blocks) *x = ronde__phys_of_shape(shape, x->n / ronde__phys_rows(x, shape));
  desc->out[0] = *x;
}

static int64_t rows_of(const ronde__op_desc *desc) {
  const ronde__phys *x = &desc->in[0];
  return x->n * x->c * x->h * x->w / desc->attr.length;
}

/* Mean and r of each row. */
static size_t row_norm_saved(const ronde__op_desc *desc, const void *state) { return (size_t)(2 * rows_of(desc)); }

typedef struct row_norm_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
} row_norm_job;

static const ronde__row_norm_kernels *kernels_of(const row_norm_job *j) {
  const ronde__compute *compute = &j->desc->compute;
  return j->desc->out[0].bf16 ? compute->bf16->row_norm : compute->kernels->row_norm;
}

static ronde__row_norm norm_of(const row_norm_job *j) {
  const ronde__phys *x = &j->desc->in[0];
  bool centred = j->desc->n_params > 1, by_blocks = x->layout == RONDE__BLOCKS;
  int64_t n = j->desc->attr.length;
  return (ronde__row_norm){.weight = j->call->param[0],
                           .bias = centred ? j->call->param[1] : NULL,
                           .eps = j->desc->attr.eps,
                           .centred = centred,
                           .n = n,
                           .piece = by_blocks ? x->block : n,
                           .apart = by_blocks ? x->n * x->block : n,
                           .ld = by_blocks ? x->block : n};
}

static void forward_part(void *arg, int thread, int n_threads) {
  const row_norm_job *j = arg;
  const ronde__phys *y = &j->desc->out[0];
  ronde__row_norm norm = norm_of(j);
  int64_t begin, end;
  ronde__thread_chunk(rows_of(j->desc), thread, n_threads, &begin, &end);
  kernels_of(j)->forward(&norm, j->call->in[0] + begin * norm.ld, end - begin, j->call->saved + 2 * begin,
                         ronde__operand_at(y, j->call->out[0], begin * norm.ld));
  ronde__clear_padding_of_rows(y, j->call->out[0], begin, end);
}

static ronde_status row_norm_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  row_norm_job j = {desc, call};
  ronde__pool_run(call->pool, forward_part, &j);
  return RONDE_OK;
}

static void data_part(void *arg, int thread, int n_threads) {
  const row_norm_job *j = arg;
  const ronde__op_call *call = j->call;
  ronde__row_norm norm = norm_of(j);
  int64_t begin, end;
  ronde__thread_chunk(rows_of(j->desc), thread, n_threads, &begin, &end);
  const int64_t at = begin * norm.ld;
  kernels_of(j)->backward(&norm, call->in[0] + at, ronde__operand_at(&j->desc->out[0], call->dout[0], at),
                          call->saved + 2 * begin, end - begin, call->din[0] + at, call->accumulate_dinput[0]);
  if (!call->accumulate_dinput[0]) ronde__clear_padding_of_rows(&j->desc->in[0], call->din[0], begin, end);
}

/* Each thread sums some elements over all rows, in their order. */
static void params_part(void *arg, int thread, int n_threads) {
  const row_norm_job *j = arg;
  const ronde__op_call *call = j->call;
  ronde__row_norm norm = norm_of(j);
  int64_t begin, end;
  float *to[2] = {NULL, NULL};
  ronde__thread_chunk(norm.n, thread, n_threads, &begin, &end);
  for (int param = 0; param < j->desc->n_params; param++) {
    if (!call->dparam[param]) continue;
    to[param] = call->dparam[param] + begin;
    if (!call->accumulate_dparam[param]) memset(to[param], 0, (size_t)(end - begin) * sizeof(float));
  }
  kernels_of(j)->sums(&norm, call->in[0], call->dout[0], call->saved, rows_of(j->desc), begin, end, to[0], to[1]);
}

static ronde_status row_norm_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  row_norm_job j = {desc, call};
  if (call->dparam[0] || call->dparam[1]) ronde__pool_run(call->pool, params_part, &j);
  if (call->din[0]) ronde__pool_run(call->pool, data_part, &j);
  return RONDE_OK;
}

const ronde__form ronde__row_norm_form = {
    .bf16 = {.out = 1},
    .for_products = true,
    .saved_elems = row_norm_saved,
    .forward = row_norm_forward,
    .backward = row_norm_backward,
    .implementation = ronde__elementwise_implementation,
};
