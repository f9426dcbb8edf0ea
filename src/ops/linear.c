/* Fully connected layer over the last dimension: y = x W^T + bias. What stands in front of it, the steps of a sequence, is
 * more examples to it (ronde__phys_rows). x may lie in any layout, a flattened image too: its weights are packed in
 * the order in which the input lies, so that nothing is moved. The output is BLOCKS. */
#include "ops/linear.h"

#include <inttypes.h>
#include <math.h>

static ronde_status linear_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                 const char *const *in_labels, ronde__shape *out) {
  char text[96];
  ronde__shape_text(&in[0], text, sizeof text);
  if (in[0].rank < 1)
    return ronde__fail(RONDE_E_USAGE, "%s: a linear layer takes a tensor, but %s gives %s", label, in_labels[0], text);
  if (attr->out_channels < 1) return ronde__fail(RONDE_E_USAGE, "%s: out_features must be positive", label);
  *out = in[0];
  out->dim[out->rank - 1] = attr->out_channels;
  return RONDE_OK;
}

static int64_t features_of(const ronde__shape *in) { return in->dim[in->rank - 1]; }

static int linear_params(const ronde__op_attr *attr, const ronde__shape *in,
                         ronde__param_spec specs[RONDE__OP_MAX_PARAMS]) {
  float bound = (float)(1 / sqrt((double)features_of(&in[0])));
  specs[0] =
      (ronde__param_spec){.suffix = "weight", .shape = {2, {attr->out_channels, features_of(&in[0])}}, .bound = bound};
  if (attr->inputs_first) specs[0].shape = (ronde__shape){2, {features_of(&in[0]), attr->out_channels}};
  specs[1] = (ronde__param_spec){.suffix = "bias", .shape = {1, {attr->out_channels}}, .bound = bound};
  return attr->bias ? 2 : 1;
}

static int64_t linear_flops(const ronde__op_attr *attr, const ronde__shape *in, const ronde__shape *out) {
  return 2 * ronde__shape_elems(&in[0]) * attr->out_channels;
}

static void linear_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  ronde__phys *x = &desc->in[0];
  int64_t examples = x->n * x->c * x->h * x->w / features_of(&in[0]);
  if (in[0].rank > 1) *x = ronde__phys_make(x->layout, examples, features_of(&in[0]), 1, 1);
  bool by_blocks = desc->need_dinput[0] || (in[0].rank > 1 && desc->compute.bf16);
  if (x->layout == RONDE__ROWS && by_blocks) *x = ronde__phys_make(RONDE__BLOCKS, x->n, x->c, x->h, x->w);
  desc->out[0] = ronde__phys_make(RONDE__BLOCKS, x->n, features_of(out), 1, 1);
  desc->param[0] = ronde__weight_layout_make(x->layout == RONDE__BLOCKS ? RONDE__BLOCKED : RONDE__PANELS,
                                             features_of(out), x->c, x->h * x->w, desc->out[0].block, x->block);
  desc->param[0].inputs_first = desc->attr.inputs_first;
  desc->param[1] = ronde__weight_layout_make(RONDE__PANELS, features_of(out), 1, 1, desc->out[0].block, 1);
}

const ronde__op ronde__op_linear = {
    .name = "linear",
    .infer = linear_infer,
    .params = linear_params,
    .flops = linear_flops,
    .layouts = linear_layouts,
    .takes_rows = true,
    .backward_reads = {.in = 1},
    .forms = (const ronde__form *const[]){&ronde__linear_none, &ronde__linear_bf16, &ronde__linear_rows,
                                          &ronde__linear_f32, NULL},
};
