/* The form that layer norm and RMS norm share: rows by threads forward and for the input, columns for the parameters. */
#include "ops/row_norm.h"

#include "ops/elementwise.h"
#include "ops/gemm_list.h"

#include <string.h>

static int64_t rows_of(const ronde__op_desc *desc) { return ronde__phys_elems(&desc->in[0]) / desc->attr.length; }

/* Mean and r of each row. */
static size_t row_norm_saved(const ronde__op_desc *desc, const void *state) { return (size_t)(2 * rows_of(desc)); }

typedef struct row_norm_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
} row_norm_job;

static ronde__row_norm norm_of(const row_norm_job *j) {
  bool centred = j->desc->n_params > 1;
  return (ronde__row_norm){j->call->param[0], centred ? j->call->param[1] : NULL, j->desc->attr.eps, centred};
}

static void forward_part(void *arg, int thread, int n_threads) {
  const row_norm_job *j = arg;
  ronde__row_norm norm = norm_of(j);
  int64_t n = j->desc->attr.length, begin, end;
  ronde__thread_chunk(rows_of(j->desc), thread, n_threads, &begin, &end);
  j->desc->compute.kernels->row_norm(&norm, j->call->in[0] + begin * n, end - begin, n, j->call->saved + 2 * begin,
                                     j->call->out[0] + begin * n);
}

static ronde_status row_norm_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  row_norm_job j = {desc, call};
  ronde__pool_run(call->pool, forward_part, &j);
  return RONDE_OK;
}

static void data_part(void *arg, int thread, int n_threads) {
  const row_norm_job *j = arg;
  ronde__row_norm norm = norm_of(j);
  int64_t n = j->desc->attr.length, begin, end;
  ronde__thread_chunk(rows_of(j->desc), thread, n_threads, &begin, &end);
  j->desc->compute.kernels->row_norm_backward(&norm, j->call->in[0] + begin * n, j->call->dout[0] + begin * n,
                                              j->call->saved + 2 * begin, end - begin, n, j->call->din[0] + begin * n,
                                              j->call->accumulate_dinput[0]);
}

/* Each thread sums some elements over all rows, in their order. */
static void params_part(void *arg, int thread, int n_threads) {
  const row_norm_job *j = arg;
  const ronde__op_call *call = j->call;
  int64_t n = j->desc->attr.length, begin, end;
  float *to[2] = {NULL, NULL};
  ronde__thread_chunk(n, thread, n_threads, &begin, &end);
  for (int param = 0; param < j->desc->n_params; param++) {
    if (!call->dparam[param]) continue;
    to[param] = call->dparam[param] + begin;
    if (!call->accumulate_dparam[param]) memset(to[param], 0, (size_t)(end - begin) * sizeof(float));
  }
  j->desc->compute.kernels->row_norm_sums(call->in[0] + begin, call->dout[0] + begin, call->saved, n, rows_of(j->desc),
                                          end - begin, to[0], to[1]);
}

static ronde_status row_norm_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  row_norm_job j = {desc, call};
  if (call->dparam[0] || call->dparam[1]) ronde__pool_run(call->pool, params_part, &j);
  if (call->din[0]) ronde__pool_run(call->pool, data_part, &j);
  return RONDE_OK;
}

const ronde__form ronde__row_norm_form = {
    .saved_elems = row_norm_saved,
    .forward = row_norm_forward,
    .backward = row_norm_backward,
    .implementation = ronde__elementwise_implementation,
};
