/* Pooling windows against plain loops. */
#include "kernel/kernel_testing.h"

enum { WINDOWS = 5, STRIDE = 70 };
/* Out of order, and two of them overlap. */
static const int64_t offsets[WINDOWS] = {3 * STRIDE, 0, STRIDE, STRIDE + 9, 2 * STRIDE};

/* Few different values: ties in most windows; now and then NaN and infinities. */
static floats tied_values(void) {
  const float rare[] = {NAN, INFINITY, -INFINITY};
  floats x = floats_make(4 * STRIDE, 1);
  for (int64_t i = 0; i < x.n; i++) x.at[i] = i % 19 == 18 ? rare[i % 3] : floorf(x.at[i] * 2);
  return x;
}

static int first_largest(const float *x, const int64_t *at, int count, int64_t j) {
  int best = 0;
  for (int i = 1; i < count; i++) {
    float next = x[at[i] + j], present = x[at[best] + j];
    if (next > present || (isnan(next) && !isnan(present))) best = i;
  }
  return best;
}

static void test_max(void **state) {
  floats x = tied_values();
  for (int count = 1; count <= WINDOWS; count++)
    for (int64_t k = 0; k < 2 * 62; k++) {
      int64_t n = k / 2;
      bool relu = k % 2;
      floats y = floats_make(n, 3);
      uint8_t *which = malloc((size_t)n + 1);
      which[n] = 77;
      kernels->max_window(x.at, offsets, count, n, NULL, 0, relu, y.at, which);
      for (int64_t j = 0; j < n; j++) {
        int want = first_largest(x.at, offsets, count, j);
        float largest = x.at[offsets[want] + j], zero = 0;
        assert_int_equal(which[j], relu && largest <= 0 ? RONDE__NO_PLACE : want);
        assert_true(same_bits(&y.at[j], relu && largest < 0 ? &zero : &largest, 1));
      }
      assert_int_equal(which[n], 77);
      free(which);
      floats_free(&y);
    }
  floats_free(&x);
}

/* Added to what is compared, and to what comes out. */
static void test_max_behind_a_bias(void **state) {
  floats x = tied_values(), moved = floats_copy(&x, 0), bias = floats_make(32, 2), y = floats_make(64, 0);
  uint8_t which[64];
  for (int count = 1; count <= WINDOWS; count++) {
    const int64_t apart[WINDOWS] = {0, 64, 128, 192, 64};
    for (int64_t i = 0; i < x.n; i++) moved.at[i] = x.at[i] + bias.at[i % 64 % 32];
    kernels->max_window(x.at, apart, count, 64, bias.at, 32, false, y.at, which);
    for (int64_t j = 0; j < 64; j++) {
      int want = first_largest(moved.at, apart, count, j);
      assert_int_equal(which[j], want);
      assert_true(same_bits(&y.at[j], &moved.at[apart[want] + j], 1));
    }
  }
  floats_free(&x), floats_free(&moved), floats_free(&bias), floats_free(&y);
}

/* As many windows as a byte counts. */
static void test_max_of_many(void **state) {
  int64_t many[256];
  for (int i = 0; i < 256; i++) many[i] = i;
  floats x = floats_make(256 + 32, 0);
  float y[32];
  uint8_t which[32];
  for (int64_t i = 0; i < x.n; i++) x.at[i] = (float)i;
  kernels->max_window(x.at, many, 256, 32, NULL, 0, false, y, which);
  for (int j = 0; j < 32; j++) assert_true(which[j] == 255 && y[j] == (float)(255 + j));
  floats_free(&x);
}

/* Out of order, and two of them overlap. */
static const ronde__window_of windows_of[WINDOWS] = {{3 * STRIDE, 2, 0.25f},
                                                     {0, 0, 1},
                                                     {STRIDE, RONDE__NO_PLACE - 1, 0.5f},
                                                     {STRIDE + 9, 1, 3},
                                                     {2 * STRIDE, 0, 0.125f}};

static void test_max_gradient(void **state) {
  floats dy = floats_make(4 * STRIDE, 1);
  uint8_t which[4 * STRIDE];
  const uint8_t places[] = {0, 1, 2, RONDE__NO_PLACE - 1, RONDE__NO_PLACE};
  for (int i = 0; i < 4 * STRIDE; i++) which[i] = places[i * 7 % 5];
  for (int count = 0; count <= WINDOWS; count++)
    for (int64_t k = 0; k < 2 * 62; k++) {
      int64_t n = k / 2;
      bool add = k % 2;
      floats dx = floats_make(n + 1, 2), got = floats_copy(&dx, 0);
      kernels->max_gradient(dy.at, which, windows_of, count, n, got.at, add);
      for (int64_t j = 0; j < n; j++) {
        float sum = add ? dx.at[j] : 0;
        for (int i = 0; i < count; i++)
          if (which[windows_of[i].at + j] == windows_of[i].place) sum += dy.at[windows_of[i].at + j];
        assert_true(got.at[j] == sum);
      }
      assert_true(same_bits(&got.at[n], &dx.at[n], 1));
      floats_free(&dx), floats_free(&got);
    }
  floats_free(&dy);
}

static void test_max_backward_of_one_place(void **state) {
  for (int64_t n = 0; n <= 61; n++) {
    floats dy = floats_make(n, 2), dx = floats_make(n + 1, 1);
    uint8_t *which = malloc((size_t)n + 1);
    for (int64_t j = 0; j < n; j++) which[j] = j % 5 ? (uint8_t)(j * 7 % 4) : RONDE__NO_PLACE;
    for (int place = 0; place < 4; place++) {
      float beyond = dx.at[n];
      kernels->max_place_backward(dy.at, which, place, n, dx.at);
      for (int64_t j = 0; j < n; j++) assert_true(dx.at[j] == (which[j] == place ? dy.at[j] : 0));
      assert_true(dx.at[n] == beyond);
    }
    free(which);
    floats_free(&dy), floats_free(&dx);
  }
}

/* A NaN goes where it belongs and nowhere else. */
static void test_max_gradient_keeps_nan_apart(void **state) {
  float dy[4] = {NAN, 1, INFINITY, 2}, dx[4] = {5, 5, 5, 5};
  const uint8_t which[4] = {0, 1, 1, 0};
  kernels->max_gradient(dy, which, &(ronde__window_of){0, 0, 1}, 1, 4, dx, false);
  assert_true(isnan(dx[0]) && dx[1] == 0 && dx[2] == 0 && dx[3] == 2);
  kernels->max_gradient(dy, which, &(ronde__window_of){0, 1, 1}, 1, 4, dx, true);
  assert_true(isnan(dx[0]) && dx[1] == 1 && isinf(dx[2]) && dx[3] == 2);
}

static void test_average_gradient(void **state) {
  floats dy = floats_make(4 * STRIDE, 1);
  for (int count = 0; count <= WINDOWS; count++)
    for (int64_t k = 0; k < 2 * 62; k++) {
      int64_t n = k / 2;
      bool add = k % 2;
      floats dx = floats_make(n + 1, 2), got = floats_copy(&dx, 0);
      kernels->avg_gradient(dy.at, windows_of, count, n, got.at, add);
      for (int64_t j = 0; j < n; j++) {
        double sum = add ? (double)dx.at[j] : 0;
        for (int i = 0; i < count; i++) sum += (double)windows_of[i].factor * (double)dy.at[windows_of[i].at + j];
        assert_true(fabs((double)got.at[j] - sum) < 1e-6);
      }
      assert_true(same_bits(&got.at[n], &dx.at[n], 1));
      floats_free(&dx), floats_free(&got);
    }
  floats_free(&dy);
}

static void test_average_and_its_backward(void **state) {
  for (int count = 1; count <= WINDOWS; count++)
    for (int64_t k = 0; k < 2 * 62; k++) {
      int64_t n = k / 2;
      bool add = k % 2 || count > 3;
      floats x = floats_make(4 * STRIDE, 1), y = floats_make(n, 2), dx = floats_make(4 * STRIDE, 3),
             got = floats_copy(&dx, 3);
      float factor = 1.0f / (float)count;
      floats before = floats_copy(&y, 0);
      kernels->avg_window(x.at, offsets, count, n, factor, y.at, add);
      for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int i = 0; i < count; i++) sum += x.at[offsets[i] + j];
        assert_true(fabs((double)y.at[j] - sum / count - (add ? (double)before.at[j] : 0)) < 3e-7);
      }
      kernels->avg_window_backward(y.at, offsets, count, n, factor, got.at, add);
      for (int i = 0; i < count; i++)
        for (int64_t j = 0; j < n; j++) dx.at[offsets[i] + j] = (add ? dx.at[offsets[i] + j] : 0) + y.at[j] * factor;
      for (int64_t i = 0; i < dx.n; i++) assert_true(fabsf(got.at[i] - dx.at[i]) <= 3e-7f);
      floats_free(&x), floats_free(&y), floats_free(&dx), floats_free(&got), floats_free(&before);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_max),
      cmocka_unit_test(test_max_behind_a_bias),
      cmocka_unit_test(test_max_of_many),
      cmocka_unit_test(test_max_gradient),
      cmocka_unit_test(test_max_backward_of_one_place),
      cmocka_unit_test(test_max_gradient_keeps_nan_apart),
      cmocka_unit_test(test_average_and_its_backward),
      cmocka_unit_test(test_average_gradient),
  };
  return RUN_WITH_EACH_TABLE(tests);
}
