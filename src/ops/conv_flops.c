/* The operations that the forms of a convolution execute: taps that meet padding are not among them. */
#include "ops/conv.h"

double ronde__conv_taps_flops(const ronde__op_desc *desc) {
  ronde__axis h = ronde__conv_axis_h(desc), w = ronde__conv_axis_w(desc);
  double taps_h = 0, taps_w = 0;
  for (int64_t i = 0; i < h.out; i++) taps_h += ronde__axis_forward(&h, i).count;
  for (int64_t i = 0; i < w.out; i++) taps_w += ronde__axis_forward(&w, i).count;
  return 2 * taps_h * taps_w *
         (double)(desc->in[0].n * desc->out[0].c * (desc->in[0].c / ronde__conv_n_groups(&desc->attr)));
}

double ronde__conv_executed_flops(const ronde__op_desc *desc, const void *state, bool backward) {
  return ronde__conv_taps_flops(desc) * (backward ? desc->need_dinput[0] + !desc->frozen[0] : 1);
}
