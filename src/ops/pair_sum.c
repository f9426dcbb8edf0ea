/* Sums and differences of two tensors with broadcasting: backward reads neither. */
#include "ops/pair.h"

const ronde__op ronde__op_pair_sum = {
    .name = "broadcast_sum",
    .infer = ronde__pair_infer,
    .layouts = ronde__pair_layouts,
    .takes_rows = true,
    .dinput_in_dout = 3,
    .forms = (const ronde__form *const[]){&ronde__pair_form, NULL},
};
