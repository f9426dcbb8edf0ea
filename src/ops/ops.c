#include "ops/op.h"

#define RONDE_OP(NAME, name) extern const ronde__op ronde__op_##name;
#include "ops/ops.inc"
#undef RONDE_OP

const ronde__op *const ronde__ops[RONDE__N_OPS] = {
#define RONDE_OP(NAME, name) [RONDE__OP_##NAME] = &ronde__op_##name,
#include "ops/ops.inc"
#undef RONDE_OP
};
