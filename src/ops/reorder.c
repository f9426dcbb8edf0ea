/* Between two layouts of the same values; inserted by the plan. */
#include "ops/elementwise.h"

#include "ops/gemm_list.h"

typedef struct reorder_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
} reorder_job;

/* ROWS [N][F] -> LANES [F][N] is a transpose: the way of a network's input. */
static void rows_to_lanes(void *arg, int thread, int n_threads) {
  const ronde__op_desc *desc = ((const reorder_job *)arg)->desc;
  const ronde__op_call *call = ((const reorder_job *)arg)->call;
  const ronde__phys *in = &desc->in[0];
  int64_t features = in->c * in->h * in->w, begin, end;
  ronde__thread_chunk(features, thread, n_threads, &begin, &end);
  desc->compute.kernels->transpose(call->in[0] + begin, features, in->n, end - begin, call->out[0] + begin * in->n,
                                   in->n);
}

static ronde_status reorder_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  reorder_job j = {desc, call};
  if (desc->in[0].layout == RONDE__ROWS && desc->out[0].layout == RONDE__LANES)
    ronde__pool_run(call->pool, rows_to_lanes, &j);
  else ronde__reorder(&desc->in[0], call->in[0], &desc->out[0], call->out[0], false);
  return RONDE_OK;
}

static ronde_status reorder_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  if (call->din[0])
    ronde__reorder(&desc->out[0], call->dout[0], &desc->in[0], call->din[0], call->accumulate_dinput[0]);
  return RONDE_OK;
}

static const ronde__form reorder_form = {
    .forward = reorder_forward,
    .backward = reorder_backward,
    .implementation = ronde__elementwise_implementation,
};

const ronde__op ronde__op_reorder = {
    .name = "reorder",
    .infer = ronde__elementwise_infer,
    .forms = (const ronde__form *const[]){&reorder_form, NULL},
};
