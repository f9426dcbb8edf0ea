/* The kernels of flat arrays without content: they do nothing, and find everything finite. */
#include "base/ghost.h"
#include "kernel/kernel.h"

static void add(const float *a, const float *b, float *y, int64_t n) {}
static void scale(float *x, float factor, int64_t n) {}
static double sum_squares(const float *x, int64_t n) { return 0; }
static bool all_finite(const float *x, int64_t n) { return true; }
static void bf16_pack(const float *x, const uint16_t *in, float *residual, uint16_t *out, int64_t n) {}
static void bf16_unpack(const uint16_t *in, float *x, int64_t n) {}
static void sgd(const ronde__sgd_args *args, float *w, const float *g, float *velocity, int64_t n) {}
static void adam(const ronde__adam_args *args, float *w, const float *g, float *m, float *v, int64_t n) {}
static void adagrad(const ronde__adagrad_args *args, float *w, const float *g, float *sum, int64_t n) {}
static void rmsprop(const ronde__rmsprop_args *args, float *w, const float *g, float *square, float *velocity,
                    int64_t n) {}

const ronde__kernels ronde__kernels_none = {.isa = "none",
                                            .vector = 1,
                                            .add = add,
                                            .scale = scale,
                                            .sum_squares = sum_squares,
                                            .all_finite = all_finite,
                                            .bf16_pack = bf16_pack,
                                            .bf16_unpack = bf16_unpack,
                                            .sgd = sgd,
                                            .adam = adam,
                                            .adagrad = adagrad,
                                            .rmsprop = rmsprop};

float *ronde__floats_alloc(const ronde__kernels *kernels, size_t n) {
  return kernels == &ronde__kernels_none ? ronde__ghost_map(n * sizeof(float)) : ronde__alloc(n * sizeof(float));
}

float *ronde__floats_map(const ronde__kernels *kernels, size_t n) {
  return kernels == &ronde__kernels_none ? ronde__ghost_map(n * sizeof(float)) : ronde__pages_map(n * sizeof(float));
}
