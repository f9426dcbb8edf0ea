/* Sums and means: backward reads nothing of forward. */
#include "ops/reduce.h"

const ronde__op ronde__op_reduce_sum = {
    .name = "reduce_sum",
    .infer = ronde__reduce_infer,
    .layouts = ronde__reduce_layouts,
    .forms = (const ronde__form *const[]){&ronde__reduce_form, NULL},
};
