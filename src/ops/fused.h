/* Backward of what is fused behind a layer: its activation and its bias. */
#ifndef RONDE_FUSED_H
#define RONDE_FUSED_H

#include "ops/op.h"

/* Bias and activation of rows of a BLOCKS output's channel block ob: y [rows][block], while they are in cache. */
void ronde__fused_bias_act(const ronde__op_desc *desc, const ronde__op_call *call, int64_t ob, float *y, int64_t rows);
/* The activation alone of rows of that output, in either format, from element `at` on. */
void ronde__fused_act(const ronde__op_desc *desc, const ronde__op_call *call, int64_t ob, int64_t at, int64_t rows);
/* Both of backward: the activation's, then the bias's gradient, in one pass where the threads have equal parts of that. */
void ronde__fused_backward(const ronde__op_desc *desc, const ronde__op_call *call);
/* Turns the gradient behind the fused activation into the one before it, in place. */
void ronde__fused_act_backward(const ronde__op_desc *desc, const ronde__op_call *call);
/* Bias gradient of a BLOCKS or LANES output; dout is the gradient before the activation. */
void ronde__bias_gradient(const ronde__op_desc *desc, const ronde__op_call *call);
/* The same of channel block ob of BLOCKS, for who reads its gradients anyway, by the calling thread alone. */
void ronde__bias_gradient_of_block(const ronde__op_desc *desc, const ronde__op_call *call, int64_t ob);

#endif
