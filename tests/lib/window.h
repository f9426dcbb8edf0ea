/* The window of an op, as the references take it. */
#ifndef RONDE_TESTS_WINDOW_H
#define RONDE_TESTS_WINDOW_H

#include "kernel/ref.h"
#include "ops/op.h"

static inline ronde__ref_conv window_of_attr(const ronde__op_attr *a, int64_t n, int64_t c, int64_t h, int64_t w) {
  return (ronde__ref_conv){.n = n,
                           .c = c,
                           .h = h,
                           .w = w,
                           .o = a->out_channels,
                           .kh = a->kernel[0],
                           .kw = a->kernel[1],
                           .sh = a->stride[0],
                           .sw = a->stride[1],
                           .ph = a->padding[0],
                           .pw = a->padding[1],
                           .dh = a->dilation[0] ? a->dilation[0] : 1,
                           .dw = a->dilation[1] ? a->dilation[1] : 1,
                           .eh = a->padding_more[0],
                           .ew = a->padding_more[1],
                           .round_up = a->ceil_mode};
}

#endif
