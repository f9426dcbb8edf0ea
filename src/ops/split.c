/* The pieces of a tensor along one dimension, in the tensor's own layout along the first one: the inverse of a
 * concatenation. */
#include "ops/elementwise.h"
#include "ops/pieces.h"

#include <inttypes.h>

static int split_outputs(const ronde__op_attr *attr) { return attr->n_outputs; }

static ronde_status split_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                const char *const *in_labels, ronde__shape *out) {
  int64_t sum = 0;
  if (attr->dim < 0 || attr->dim >= in[0].rank)
    return ronde__fail(RONDE_E_USAGE, "%s: %s has no dimension %d", label, in_labels[0], attr->dim);
  for (int i = 0; i < attr->n_outputs; i++) {
    out[i] = in[0];
    out[i].dim[attr->dim] = attr->sizes[i];
    if (attr->sizes[i] < 1 || __builtin_add_overflow(sum, attr->sizes[i], &sum))
      return ronde__fail(RONDE_E_USAGE, "%s: a piece of size %" PRId64 " is not possible: sizes are 1 or more", label,
                         attr->sizes[i]);
  }
  if (sum == in[0].dim[attr->dim]) return RONDE_OK;
  char text[96];
  ronde__shape_text(&in[0], text, sizeof text);
  return ronde__fail(RONDE_E_USAGE, "%s: its pieces add up to %" PRId64 " in dimension %d, but %s gives %s", label, sum,
                     attr->dim, in_labels[0], text);
}

static void split_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  ronde__layout layout = desc->in[0].layout;
  int64_t n = desc->in[0].n;
  if (desc->attr.dim > 0) {
    desc->in[0] = ronde__phys_along(&in[0], desc->attr.dim, n);
    for (int i = 0; i < desc->attr.n_outputs; i++) desc->out[i] = ronde__phys_along(&out[i], desc->attr.dim, n);
    return;
  }
  desc->in[0] = ronde__phys_of_shape_in(layout, &in[0], n);
  for (int i = 0; i < desc->attr.n_outputs; i++) desc->out[i] = ronde__phys_of_shape_in(layout, &out[i], n);
}

static ronde_status split_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  for (int64_t i = 0, offset = 0; i < desc->n_outputs; offset += desc->out[i++].c)
    ronde__piece_take(desc, call->pool, &desc->in[0], call->in[0], offset, &desc->out[i], call->out[i], false);
  return RONDE_OK;
}

static ronde_status split_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  for (int64_t i = 0, offset = 0; i < desc->n_outputs && call->din[0]; offset += desc->out[i++].c)
    ronde__piece_put(desc, call->pool, &desc->out[i], call->dout[i], offset, &desc->in[0], call->din[0],
                     call->accumulate_dinput[0]);
  return RONDE_OK;
}

static const ronde__form split_form = {
    .forward = split_forward,
    .backward = split_backward,
    .implementation = ronde__elementwise_implementation,
};

const ronde__op ronde__op_split = {
    .name = "split",
    .outputs = split_outputs,
    .infer = split_infer,
    .layouts = split_layouts,
    .forms = (const ronde__form *const[]){&split_form, NULL},
};
