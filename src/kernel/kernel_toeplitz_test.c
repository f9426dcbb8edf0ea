/* The transforms of 3x3 convolutions on maps of 2x2 pixels: together they are the convolution, also mirrored; the weight
 * gradient's map is the transpose of the weight's. */
#include "kernel/kernel_testing.h"

enum { N = 48, PIXELS = 2, TAPS = 3 };

/* N floats at every place, rows and columns a little apart. */
static ronde__grid whole(float *at, int size) { return (ronde__grid){at, size * N + 1, N}; }

static int64_t elems(int size) { return size * (size * N + 1); }

static float *tile_place(const ronde__grid *g, int r, int c) { return g->at + r * g->row + c * g->column; }

static ronde__grid mirrored_tap(ronde__grid g, int size) {
  return (ronde__grid){tile_place(&g, size - 1, size - 1), -g.row, -g.column};
}

static double convolved(const ronde__grid *x, const ronde__grid *w, int r, int c, int j) {
  double sum = 0;
  for (int kr = 0; kr < TAPS; kr++)
    for (int kc = 0; kc < TAPS; kc++) {
      int h = r + kr - 1, v = c + kc - 1;
      if (h < 0 || h >= PIXELS || v < 0 || v >= PIXELS) continue;
      sum += (double)tile_place(x, h, v)[j] * (double)tile_place(w, kr, kc)[j];
    }
  return sum;
}

static void check_convolution(bool mirror, bool accumulate) {
  floats x = floats_make(elems(PIXELS), 1), w = floats_make(elems(TAPS), 3), y = floats_make(elems(PIXELS), 5);
  floats u = floats_make(elems(TAPS), 1), v = floats_make(elems(TAPS), 1), before = floats_copy(&y, 1);
  ronde__grid input = whole(x.at, PIXELS), weight = whole(w.at, TAPS), output = whole(y.at, PIXELS);
  ronde__grid old = whole(before.at, PIXELS);
  if (mirror) {
    input = mirrored_tap(input, PIXELS), weight = mirrored_tap(weight, TAPS);
    output = mirrored_tap(output, PIXELS), old = mirrored_tap(old, PIXELS);
  }
  kernels->toeplitz(RONDE__TOEPLITZ_OPERAND, input, whole(u.at, TAPS), N, false);
  kernels->toeplitz(RONDE__TOEPLITZ_WEIGHT, weight, whole(v.at, TAPS), N, false);
  for (int64_t i = 0; i < v.n; i++) v.at[i] *= u.at[i];
  kernels->toeplitz(RONDE__TOEPLITZ_OUTPUT, whole(v.at, TAPS), output, N, accumulate);
  for (int r = 0; r < PIXELS; r++)
    for (int c = 0; c < PIXELS; c++)
      for (int j = 0; j < N; j++) {
        double want = convolved(&input, &weight, r, c, j) + (accumulate ? (double)tile_place(&old, r, c)[j] : 0);
        assert_true(fabs((double)tile_place(&output, r, c)[j] - want) < 1e-5);
      }
  floats_free(&x), floats_free(&w), floats_free(&y), floats_free(&u), floats_free(&v), floats_free(&before);
}

static void test_products_give_the_convolution(void **state) {
  for (int i = 0; i < 4; i++) check_convolution(i & 1, i & 2);
}

static double dot(floats *a, floats *b) {
  ronde__grid at = whole(a->at, TAPS), bt = whole(b->at, TAPS);
  double sum = 0;
  for (int r = 0; r < TAPS; r++)
    for (int c = 0; c < TAPS; c++)
      for (int j = 0; j < N; j++) sum += (double)tile_place(&at, r, c)[j] * (double)tile_place(&bt, r, c)[j];
  return sum;
}

/* <L x, d> = <x, L^T d> */
static void test_weight_gradient_is_the_transpose(void **state) {
  floats x = floats_make(elems(TAPS), 1), d = floats_make(elems(TAPS), 3);
  floats y = floats_make(elems(TAPS), 1), dx = floats_make(elems(TAPS), 1);
  kernels->toeplitz(RONDE__TOEPLITZ_WEIGHT, whole(x.at, TAPS), whole(y.at, TAPS), N, false);
  kernels->toeplitz(RONDE__TOEPLITZ_WEIGHT_GRADIENT, whole(d.at, TAPS), whole(dx.at, TAPS), N, false);
  assert_true(fabs(dot(&y, &d) - dot(&x, &dx)) < 1e-3);
  floats_free(&x), floats_free(&d), floats_free(&y), floats_free(&dx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_products_give_the_convolution),
      cmocka_unit_test(test_weight_gradient_is_the_transpose),
  };
  return RUN_WITH_EACH_TABLE(tests);
}
