/* The elements of an example in another shape: a view. Whatever the layout where the first dimension stays or LANES do not
 * tell features apart, else of ROWS. */
#include "ops/elementwise.h"

static ronde_status reshape_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                  const char *const *in_labels, ronde__shape *out) {
  char from[96], to[96];
  int64_t n = 1;
  bool fits = attr->shape.rank > 0;
  for (int d = 0; d < attr->shape.rank; d++)
    fits = fits && attr->shape.dim[d] > 0 && !__builtin_mul_overflow(n, attr->shape.dim[d], &n);
  *out = attr->shape;
  if (fits && n == ronde__shape_elems(&in[0])) return RONDE_OK;
  ronde__shape_text(&in[0], from, sizeof from);
  ronde__shape_text(&attr->shape, to, sizeof to);
  return ronde__fail(RONDE_E_USAGE, "%s: %s gives %s, which cannot become %s", label, in_labels[0], from, to);
}

static void reshape_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  ronde__phys *x = &desc->in[0];
  bool stays = x->layout == RONDE__LANES || (x->layout == RONDE__BLOCKS && x->c == out->dim[0]);
  if (!stays) *x = ronde__phys_of_shape(&in[0], x->n);
  desc->out[0] = ronde__phys_of_shape_in(x->layout, out, x->n);
}

const ronde__op ronde__op_reshape = {
    .name = "reshape", .infer = reshape_infer, .layouts = reshape_layouts, .is_view = true};
