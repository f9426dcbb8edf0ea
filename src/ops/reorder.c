/* Between two layouts of the same values; inserted by the plan. */
#include "ops/elementwise.h"

static void forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__reorder(&desc->in[0], call->in[0], &desc->out, call->out, false);
}

static void backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  if (call->din[0]) ronde__reorder(&desc->out, call->dout, &desc->in[0], call->din[0], call->accumulate_dinput[0]);
}

const ronde__op ronde__op_reorder = {
    .name = "reorder", .infer = ronde__elementwise_infer, .forward = forward, .backward = backward,
    .implementation = ronde__elementwise_implementation,
};
