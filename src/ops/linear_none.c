/* Fully connected layer without an output: what a rank has of a layer that is split over more ranks than it has blocks of
 * outputs. Its part of the data gradient is zero. */
#include "ops/linear.h"

#include <string.h>

static bool linear_none_takes(const ronde__op_desc *desc) { return desc->out[0].c == 0; }

static ronde_status linear_none_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  return RONDE_OK;
}

static ronde_status linear_none_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  if (call->din[0] && !call->accumulate_dinput[0])
    memset(call->din[0], 0, (size_t)ronde__phys_elems(&desc->in[0]) * sizeof(float));
  return RONDE_OK;
}

static const char *linear_none_implementation(const ronde__op_desc *desc, const void *state) { return "nothing"; }

const ronde__form ronde__linear_none = {
    .name = "empty",
    .takes = linear_none_takes,
    .forward = linear_none_forward,
    .backward = linear_none_backward,
    .implementation = linear_none_implementation,
};
