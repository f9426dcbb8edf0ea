/* Products, and whatever else of two tensors with broadcasting reads them again in backward. */
#include "ops/pair.h"

const ronde__op ronde__op_pair = {
    .name = "broadcast",
    .infer = ronde__pair_infer,
    .layouts = ronde__pair_layouts,
    .backward_reads = {.in = 3},
    .takes_rows = true,
    .forms = (const ronde__form *const[]){&ronde__gate_first, &ronde__gate_second, &ronde__pair_form, NULL},
};
