/* Layer normalisation over the last dimensions of an example: y = (x - mean) / sqrt(variance + eps) * weight + bias, by
 * the statistics of each group of `length` elements. Source: Ba, Kiros & Hinton, "Layer normalization",
 * 2016. */
#include "ops/row_norm.h"

static ronde_status layer_norm_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                     const char *const *in_labels, ronde__shape *out) {
  char text[96];
  ronde__shape_text(&in[0], text, sizeof text);
  if (attr->dim < 1 || attr->dim > in[0].rank)
    return ronde__fail(RONDE_E_USAGE, "%s: the last %d dimensions cannot be normalised: %s gives %s", label, attr->dim,
                       in_labels[0], text);
  *out = in[0];
  return RONDE_OK;
}

static ronde__shape layer_norm_shape(const ronde__op_attr *attr, const ronde__shape *in) {
  ronde__shape shape = {attr->dim, {0}};
  for (int d = 0; d < attr->dim; d++) shape.dim[d] = in[0].dim[in[0].rank - attr->dim + d];
  return shape;
}

static int layer_norm_params(const ronde__op_attr *attr, const ronde__shape *in,
                             ronde__param_spec specs[RONDE__OP_MAX_PARAMS]) {
  ronde__shape shape = layer_norm_shape(attr, in);
  specs[0] = (ronde__param_spec){.suffix = "weight", .shape = shape, .bound = 1, .init = RONDE_INIT_CONSTANT};
  specs[1] = (ronde__param_spec){.suffix = "bias", .shape = shape, .bound = 0, .init = RONDE_INIT_CONSTANT};
  return 2;
}

static void layer_norm_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  ronde__shape shape = layer_norm_shape(&desc->attr, in);
  desc->attr.length = ronde__shape_elems(&shape);
  ronde__row_norm_layouts(desc, &in[0]);
  for (int i = 0; i < 2; i++) desc->param[i] = ronde__weight_layout_make(RONDE__PLAIN, desc->attr.length, 1, 1, 1, 1);
}

const ronde__op ronde__op_layer_norm = {
    .name = "layer_norm",
    .infer = layer_norm_infer,
    .params = layer_norm_params,
    .layouts = layer_norm_layouts,
    .backward_reads = {.in = 1},
    .dinput_in_dout = 1,
    .takes_rows = true,
    .forms = (const ronde__form *const[]){&ronde__row_norm_form, NULL},
};
