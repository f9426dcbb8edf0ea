/* y = x / sqrt(mean of x^2 + eps) * weight over the last dimension. Source: Zhang & Sennrich, "Root mean square layer
 * normalization", 2019. */
#include "ops/elementwise.h"
#include "ops/row_norm.h"

static int rms_norm_params(const ronde__op_attr *attr, const ronde__shape *in,
                           ronde__param_spec specs[RONDE__OP_MAX_PARAMS]) {
  specs[0] = (ronde__param_spec){
      .suffix = "weight", .shape = {1, {in[0].dim[in[0].rank - 1]}}, .bound = 1, .init = RONDE_INIT_CONSTANT};
  return 1;
}

static void rms_norm_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  desc->attr.length = in[0].dim[in[0].rank - 1];
  ronde__row_norm_layouts(desc, &in[0]);
  desc->param[0] = ronde__weight_layout_make(RONDE__PLAIN, desc->attr.length, 1, 1, 1, 1);
}

const ronde__op ronde__op_rms_norm = {
    .name = "rms_norm",
    .infer = ronde__elementwise_infer,
    .params = rms_norm_params,
    .layouts = rms_norm_layouts,
    .backward_reads = {.in = 1},
    .dinput_in_dout = 1,
    .takes_rows = true,
    .forms = (const ronde__form *const[]){&ronde__row_norm_form, NULL},
};
