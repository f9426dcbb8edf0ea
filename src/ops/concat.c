/* Concatenation along one dimension. Along the first one, of channels of images or features of vectors, all inputs come in the
 * layout of the output; along another one in ROWS, which are then pieces of more and shorter examples. */
#include "ops/elementwise.h"
#include "ops/pieces.h"

static ronde_status concat_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                 const char *const *in_labels, ronde__shape *out) {
  *out = in[0];
  if (attr->dim < 0 || attr->dim >= in[0].rank)
    return ronde__fail(RONDE_E_USAGE, "%s: %s has no dimension %d", label, in_labels[0], attr->dim);
  for (int i = 1; i < attr->n_inputs; i++) {
    bool fits = in[i].rank == in[0].rank;
    for (int d = 0; fits && d < in[0].rank; d++) fits = d == attr->dim || in[i].dim[d] == in[0].dim[d];
    if (!fits) {
      char a[96], b[96];
      ronde__shape_text(&in[0], a, sizeof a);
      ronde__shape_text(&in[i], b, sizeof b);
      return ronde__fail(RONDE_E_USAGE, "%s: %s gives %s and %s gives %s: they may differ only in dimension %d", label,
                         in_labels[0], a, in_labels[i], b, attr->dim);
    }
    out->dim[attr->dim] += in[i].dim[attr->dim];
  }
  return RONDE_OK;
}

/* A flattened image becomes a vector. */
static void concat_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  ronde__layout layout = ronde__pieces_layout(desc->in, desc->attr.n_inputs);
  int64_t n = desc->in[0].n;
  if (desc->attr.dim > 0) {
    for (int i = 0; i < desc->attr.n_inputs; i++) desc->in[i] = ronde__phys_along(&in[i], desc->attr.dim, n);
    desc->out[0] = ronde__phys_along(out, desc->attr.dim, n);
    return;
  }
  for (int i = 0; i < desc->attr.n_inputs; i++) desc->in[i] = ronde__phys_of_shape_in(layout, &in[i], n);
  desc->out[0] = ronde__phys_of_shape_in(layout, out, n);
}

static ronde_status concat_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  for (int64_t i = 0, offset = 0; i < desc->n_inputs; offset += desc->in[i++].c)
    ronde__piece_put(desc, call->pool, &desc->in[i], call->in[i], offset, &desc->out[0], call->out[0], false);
  return RONDE_OK;
}

/* One input after the other: two may be the same tensor, whose gradient is then added to. */
static ronde_status concat_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  for (int64_t i = 0, offset = 0; i < desc->n_inputs; offset += desc->in[i++].c)
    if (call->din[i])
      ronde__piece_take(desc, call->pool, &desc->out[0], call->dout[0], offset, &desc->in[i], call->din[i],
                        call->accumulate_dinput[i]);
  return RONDE_OK;
}

static const ronde__form concat_form = {
    .bf16 = {.in = ~0u, .out = 1},
    .one_format = true,
    .forward = concat_forward,
    .backward = concat_backward,
    .implementation = ronde__elementwise_implementation,
};

const ronde__op ronde__op_concat = {
    .name = "concat",
    .infer = concat_infer,
    .layouts = concat_layouts,
    .forms = (const ronde__form *const[]){&concat_form, NULL},
};
