/* The table of all ops, and the choice among an op's forms. */
#include "ops/op.h"

#define RONDE_OP(NAME, name) extern const ronde__op ronde__op_##name;
#include "ops/ops.inc"
#undef RONDE_OP

const ronde__op *const ronde__ops[RONDE__N_OPS] = {
#define RONDE_OP(NAME, name) [RONDE__OP_##NAME] = &ronde__op_##name,
#include "ops/ops.inc"
#undef RONDE_OP
};

ronde_status ronde__form_choose(const ronde__op *op, ronde__op_desc *desc) {
  for (const ronde__form *const *form = op->forms; form && *form; form++)
    if (!(*form)->takes || (*form)->takes(desc)) return desc->form = *form, RONDE_OK;
  if (op->is_view) return RONDE_OK;
  return ronde__fail(RONDE_E_INTERNAL, "%s: none of its forms supports these layouts and this shape", op->name);
}
