/* A value that the stage in front computes: forward receives it, or waits for it where it was expected
 * before; backward sends its gradient. */
#include "ops/op.h"

static ronde_status receive_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  if (call->expected) return desc->neighbours->wait(desc->neighbours->user, call->coming);
  return desc->neighbours->receive(desc->neighbours->user, RONDE__IN_FRONT, desc->message, call->out[0],
                                   ronde__phys_floats(&desc->out[0]));
}

static ronde_status receive_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  return desc->neighbours->send(desc->neighbours->user, RONDE__IN_FRONT, desc->message, call->dout[0],
                                ronde__phys_floats(&desc->out[0]), call->under_way);
}

static const ronde__form receive_form = {.forward = receive_forward, .backward = receive_backward};

const ronde__op ronde__op_receive = {.name = "receive", .forms = (const ronde__form *const[]){&receive_form, NULL}};
