/* A value that a stage computes and the stage behind it reads: forward sends it, backward receives its gradient. The last
 * step of its stage, and so the first to write that gradient. */
#include "ops/op.h"

static ronde_status send_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  return desc->neighbours->send(desc->neighbours->user, RONDE__BEHIND, desc->message, call->in[0],
                                (size_t)ronde__phys_elems(&desc->in[0]), call->under_way);
}

static ronde_status send_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  return desc->neighbours->receive(desc->neighbours->user, RONDE__BEHIND, desc->message, call->din[0],
                                   (size_t)ronde__phys_elems(&desc->in[0]));
}

static const ronde__form send_form = {.forward = send_forward, .backward = send_backward};

const ronde__op ronde__op_send = {.name = "send", .forms = (const ronde__form *const[]){&send_form, NULL}};
