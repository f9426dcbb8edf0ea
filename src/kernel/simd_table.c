/* The table of kernels of one instruction set (RONDE_SIMD). */
#include "kernel/simd.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const ronde__kernels JOIN(ronde__, kernels, RONDE_SIMD) = {
    .isa = TEXT(RONDE_SIMD),
    .vector = LANES,
    .gemm_tile = NAME(gemm_tile),
    .dot_tile = NAME(dot_tile),
    .bias_act_rows = NAME(bias_act_rows),
    .bias_act_lanes = NAME(bias_act_lanes),
    .act_forward = NAME(act_forward),
    .act_backward = NAME(act_backward),
    .column_sums = NAME(column_sums),
    .sum = NAME(sum),
    .multiply_adds = NAME(multiply_adds),
    .add = NAME(add),
    .scale = NAME(scale),
    .dot = NAME(dot),
    .sum_squares = NAME(sum_squares),
    .all_finite = NAME(all_finite),
    .bf16_pack = NAME(bf16_pack),
    .bf16_unpack = NAME(bf16_unpack),
    .column_moments = NAME(column_moments),
    .affine_rows = NAME(affine_rows),
    .norm_sums = NAME(norm_sums),
    .norm_backward = NAME(norm_backward),
    .depthwise_rows = NAME(depthwise_rows),
    .column_dots = NAME(column_dots),
    .max_window = NAME(max_window),
    .max_window_backward = NAME(max_window_backward),
    .max_place_backward = NAME(max_place_backward),
    .avg_window = NAME(avg_window),
    .avg_window_backward = NAME(avg_window_backward),
    .winograd = NAME(winograd),
    .toeplitz = NAME(toeplitz),
    .transpose = NAME(transpose),
    .from_u8 = NAME(from_u8),
    .sgd = NAME(sgd),
    .adam = NAME(adam),
    .adagrad = NAME(adagrad),
};
