/* The formats of what recurrent layers multiply: f32, rows where they lie; and bfloat16 (kernel/bf16.h). */
#include "kernel/bf16.h"
#include "ops/recurrent_plan.h"

#include <string.h>

/* ---- f32 ---- */

static void turn_f32(const ronde__op_desc *desc, const float *w, int64_t ld, int64_t width, int64_t k, void *to) {
  desc->compute.kernels->transpose(w, ld, width, k, to, width);
}

static void columns_f32(const ronde__op_desc *desc, const float *w, int64_t ld, int64_t rows, int64_t width, void *to) {
  for (int64_t r = 0; r < rows; r++) memcpy((float *)to + r * width, w + r * ld, (size_t)width * sizeof *w);
}

const ronde__recurrent_operands ronde__recurrent_f32 = {
    .bytes = sizeof(float),
    .form = RONDE__OF_F32,
    .most_rows = 128,
    .feature = 1,
    .chunks = 8,
    .turn = turn_f32,
    .columns = columns_f32,
};

/* ---- bfloat16 ---- */

static void turn_bf16(const ronde__op_desc *desc, const float *w, int64_t ld, int64_t width, int64_t k, void *to) {
  desc->compute.bf16->pack_transposed_panels(w, ld, width, k, to);
}

static void columns_bf16(const ronde__op_desc *desc, const float *w, int64_t ld, int64_t rows, int64_t width,
                         void *to) {
  desc->compute.bf16->pack_panels(w, ld, rows, width, rows, to, rows);
}

static void rows_bf16(const ronde__op_desc *desc, const float *x, int64_t n, void *to) {
  desc->compute.bf16->pack(x, n, to);
}

static void left_bf16(const ronde__op_desc *desc, const float *d, int64_t ld, int64_t rows, int64_t width,
                      int64_t padded, void *to) {
  desc->compute.bf16->pack_transposed(d, ld, rows, width, to, padded);
}

static void right_bf16(const ronde__op_desc *desc, const float *x, int64_t rows, int64_t width, int64_t padded,
                       void *to) {
  desc->compute.bf16->pack_panels(x, width, rows, width, padded, to, padded);
}

const ronde__recurrent_operands ronde__recurrent_bf16 = {
    .bytes = sizeof(uint16_t),
    .form = RONDE__OF_BF16,
    .has_copies = true,
    .most_rows = 128,
    .feature = RONDE__BF16_STEP,
    .chunks = INT64_MAX / 2,
    .turn = turn_bf16,
    .columns = columns_bf16,
    .rows = rows_bf16,
    .left = left_bf16,
    .right = right_bf16,
};
