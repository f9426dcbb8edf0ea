/* The convolution's forms, in the order in which they are asked whether they take one; one file each. DESIGN.md has a
 * table of which is taken when.
 * Legend: N batch; C input, O output channels; HxW input, OHxOW output; KHxKW taps; Cb, Ob channel blocks of bi, bo
 * channels. */
#ifndef RONDE_CONV_H
#define RONDE_CONV_H

#include "ops/fused.h"
#include "ops/gemm_list.h"
#include "ops/window.h"

extern const ronde__form ronde__conv_depthwise;  /* BLOCKS -> BLOCKS, groups == channels on both sides */
extern const ronde__form ronde__conv_grouped;    /* BLOCKS -> BLOCKS, several groups a block, as wide on both sides */
extern const ronde__form ronde__conv_groups;     /* other groups: one after the other, by the forms below */
extern const ronde__form ronde__conv_bf16;       /* BLOCKS -> BLOCKS, operands of bfloat16 */
extern const ronde__form ronde__conv_toeplitz;   /* BLOCKS -> BLOCKS: 3x3 on maps of 2x2 pixels */
extern const ronde__form ronde__conv_winograd;   /* BLOCKS -> BLOCKS: 3x3 at stride 1 where it saves multiplications */
extern const ronde__form ronde__conv_blocks;     /* BLOCKS -> BLOCKS */
extern const ronde__form ronde__conv_lanes;      /* LANES -> LANES: few channels on both sides */
extern const ronde__form ronde__conv_first_bf16; /* LANES -> BLOCKS: the same for tiles, without a pooling */
extern const ronde__form ronde__conv_first;      /* LANES -> BLOCKS: first layers, without a data gradient */

extern const ronde__op ronde__op_conv2d;

/* Between the same layouts on both sides, in this order. */
#define RONDE__CONV_FORMS_OF_ONE_GROUP \
  &ronde__conv_bf16, &ronde__conv_toeplitz, &ronde__conv_winograd, &ronde__conv_blocks, &ronde__conv_lanes

static inline int64_t ronde__conv_n_groups(const ronde__op_attr *attr) { return attr->groups ? attr->groups : 1; }
static inline ronde__axis ronde__conv_axis_h(const ronde__op_desc *d) {
  return ronde__window_axis(&d->attr, 0, d->in[0].h);
}
static inline ronde__axis ronde__conv_axis_w(const ronde__op_desc *d) {
  return ronde__window_axis(&d->attr, 1, d->in[0].w);
}

/* Whether it is one group between these layouts. */
static inline bool ronde__conv_is_between(const ronde__op_desc *d, ronde__layout in, ronde__layout out) {
  return ronde__conv_n_groups(&d->attr) == 1 && d->in[0].layout == in && d->out[0].layout == out;
}

/* One gradient alone, with the state of ronde__conv_blocks. */
void ronde__conv_blocks_weight_gradient(const ronde__op_desc *desc, const void *state, const ronde__op_call *call);
void ronde__conv_blocks_data_gradient(const ronde__op_desc *desc, const void *state, const ronde__op_call *call);
/* Of one direction, or of the weight gradient: taps in the padding left out. */
double ronde__conv_taps_flops(const ronde__op_desc *desc);
/* Of a call of a form that multiplies taps (op.h). */
double ronde__conv_executed_flops(const ronde__op_desc *desc, const void *state, bool backward);

#endif
