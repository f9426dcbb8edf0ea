/* A value that a stage computes and the stage behind it reads: forward sends it, backward receives its gradient, which it
 * has expected since then. The last step of its stage, and so the first to write that gradient. */
#include "ops/op.h"

static ronde_status send_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const ronde__neighbours *to = desc->neighbours;
  size_t n = ronde__phys_floats(&desc->in[0]);
  RONDE_TRY(to->send(to->user, RONDE__BEHIND, desc->message, call->in[0], n, call->under_way));
  return call->din[0] ? to->expect(to->user, RONDE__BEHIND, desc->message, call->din[0], n, call->coming) : RONDE_OK;
}

static ronde_status send_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  return desc->neighbours->wait(desc->neighbours->user, call->coming);
}

static const ronde__form send_form = {.forward = send_forward, .backward = send_backward};

const ronde__op ronde__op_send = {.name = "send", .forms = (const ronde__form *const[]){&send_form, NULL}};
