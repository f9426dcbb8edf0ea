/* Backward of what is fused behind a layer: its activation and its bias. */
#ifndef RONDE_FUSED_H
#define RONDE_FUSED_H

#include "ops/op.h"

/* Bias gradient of a BLOCKS or LANES output; dout is the gradient before the activation. */
void ronde__bias_gradient(const ronde__op_desc *desc, const ronde__op_call *call);
/* Turns the gradient behind the fused activation into the one before it, in place. */
void ronde__fused_act_backward(const ronde__op_desc *desc, const ronde__op_call *call);

#endif
