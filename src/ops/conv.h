/* The convolution's forms, chosen by the layouts on both sides and by the shape; one file each.
 * Legend: N batch; C input, O output channels; HxW input, OHxOW output; KHxKW taps; Cb, Ob channel blocks of bi, bo
 * channels. */
#ifndef RONDE_CONV_H
#define RONDE_CONV_H

#include "ops/axis.h"
#include "ops/fused.h"
#include "ops/gemm_list.h"

typedef struct ronde__conv_form {
  ronde_status (*prepare)(const ronde__op_desc *desc, void **state_out);
  void (*release)(void *state);
  size_t (*work_elems)(const ronde__op_desc *desc, const void *state, bool backward);
  void (*forward)(const ronde__op_desc *desc, const void *state, const ronde__op_call *call);
  void (*backward)(const ronde__op_desc *desc, const void *state, const ronde__op_call *call);
  const char *(*implementation)(const void *state);
  /* NULL: of the taps that meet the input. */
  double (*executed_flops)(const ronde__op_desc *desc, const void *state, bool backward);
} ronde__conv_form;

extern const ronde__conv_form ronde__conv_blocks;    /* BLOCKS -> BLOCKS */
extern const ronde__conv_form ronde__conv_winograd;  /* the same where ronde__conv_winograd_pays */
extern const ronde__conv_form ronde__conv_toeplitz;  /* the same where ronde__conv_toeplitz_pays */
extern const ronde__conv_form ronde__conv_lanes;     /* LANES -> LANES: few channels on both sides */
extern const ronde__conv_form ronde__conv_first;     /* LANES -> BLOCKS: first layers, without a data gradient */
extern const ronde__conv_form ronde__conv_depthwise; /* BLOCKS -> BLOCKS, groups == channels on both sides */
extern const ronde__conv_form ronde__conv_groups;    /* LANES -> LANES, in other groups */

static inline int64_t ronde__conv_n_groups(const ronde__op_attr *attr) { return attr->groups ? attr->groups : 1; }
static inline ronde__axis ronde__conv_axis_h(const ronde__op_desc *d) {
  return ronde__axis_make(d->in[0].h, d->attr.kernel[0], d->attr.stride[0], d->attr.padding[0]);
}
static inline ronde__axis ronde__conv_axis_w(const ronde__op_desc *d) {
  return ronde__axis_make(d->in[0].w, d->attr.kernel[1], d->attr.stride[1], d->attr.padding[1]);
}

/* What the per-op table calls a form whose products are of the GEMM: static text. names: RONDE__FORM_NAMES("form"). */
#define RONDE__FORM_NAMES(form)                                                                 \
  {                                                                                             \
    {"xsmm", form " xsmm"}, {"tile-sse2", form " tile-sse2"}, {"tile-avx2", form " tile-avx2"}, \
        {"tile-neon", form " tile-neon"}, {"tile-avx512", form " tile-avx512"}, {               \
      NULL, form                                                                                \
    }                                                                                           \
  }
const char *ronde__conv_form_name(const char *const names[][2], const ronde__gemm *gemm);

bool ronde__conv_winograd_pays(const ronde__op_desc *desc);
bool ronde__conv_toeplitz_pays(const ronde__op_desc *desc);
/* One gradient alone, with the state of ronde__conv_blocks. */
void ronde__conv_blocks_weight_gradient(const ronde__op_desc *desc, const void *state, const ronde__op_call *call);
void ronde__conv_blocks_data_gradient(const ronde__op_desc *desc, const void *state, const ronde__op_call *call);
/* Of one direction, or of the weight gradient: taps in the padding left out. */
double ronde__conv_taps_flops(const ronde__op_desc *desc);

#endif
