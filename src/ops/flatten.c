/* [C,H,W] -> [C*H*W]: a view. The plan gives both sides the same memory and layout; who reads the vector knows how it
 * lies. */
#include "ops/elementwise.h"

static ronde_status flatten_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                  const char *const *in_labels, ronde__shape *out) {
  *out = (ronde__shape){1, {ronde__shape_elems(&in[0])}};
  return RONDE_OK;
}

const ronde__op ronde__op_flatten = {
    .name = "flatten", .infer = flatten_infer, .layouts = ronde__elementwise_layouts, .is_view = true};
