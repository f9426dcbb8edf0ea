/* bfloat16 against the nearest of the two neighbours, found another way. */
#include "kernel/kernel_testing.h"

static float of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* Of a finite value: the neighbours towards and away from zero; the nearer one, or that with an even last bit. */
static uint16_t nearest(float value) {
  uint32_t low = bits_of(value) >> 16, high = low + 1;
  double below = fabs((double)value - (double)of_bits(low << 16));
  double above = fabs((double)of_bits(high << 16) - (double)value);
  if ((high & 0x7fff) == 0x7f80) above = ldexp(1, 128) - fabs((double)value); /* where the next one would be */
  if (below == above) return (uint16_t)(low & 1 ? high : low);
  return (uint16_t)(below < above ? low : high);
}

static void check_pack(int64_t n, bool has_in) {
  floats x = floats_make(n, 1), residual = floats_make(n, 3), old = floats_copy(&residual, 2), back = floats_make(n, 1);
  uint16_t *in = malloc((size_t)n * 2 + 2), *out = malloc((size_t)n * 2 + 2);
  for (int64_t i = 0; i < n; i++) {
    in[i] = nearest(random_float());
    if (i % 3 == 0) x.at[i] *= 1e-39f; /* denormal */
    old.at[i] = residual.at[i] *= 0x1p-9f;
  }
  kernels->bf16_pack(x.at, has_in ? in : NULL, residual.at, out, n);
  kernels->bf16_unpack(out, back.at, n);
  for (int64_t i = 0; i < n; i++) {
    float value = (has_in ? x.at[i] + of_bits((uint32_t)in[i] << 16) : x.at[i]) + old.at[i];
    assert_int_equal(out[i], nearest(value));
    assert_true(bits_of(back.at[i]) == (uint32_t)out[i] << 16);
    assert_true(back.at[i] + residual.at[i] == value); /* nothing is lost */
  }
  free(in), free(out);
  floats_free(&x), floats_free(&residual), floats_free(&old), floats_free(&back);
}

/* The same, where nobody wants the rest. */
static void check_round(int64_t n, bool has_in) {
  floats x = floats_make(n, 1);
  uint16_t *in = malloc((size_t)n * 2 + 2), *out = malloc((size_t)n * 2 + 2);
  for (int64_t i = 0; i < n; i++) in[i] = nearest(random_float());
  kernels->bf16_pack(x.at, has_in ? in : NULL, NULL, out, n);
  for (int64_t i = 0; i < n; i++)
    assert_int_equal(out[i], nearest(has_in ? x.at[i] + of_bits((uint32_t)in[i] << 16) : x.at[i]));
  free(in), free(out);
  floats_free(&x);
}

static void test_rounds_to_nearest_and_keeps_the_rest(void **state) {
  for (int64_t n = 0; n < 70; n++) {
    check_pack(n, n % 2);
    check_round(n, n % 2);
  }
  for (int has_in = 0; has_in < 2; has_in++) {
    check_pack(10007, has_in);
    check_round(10007, has_in);
  }
}

static void test_special_values(void **state) {
  static const uint32_t values[] = {0x3f808000, 0x3f818000, 0x3f808001, 0xbf818000, 0x7f7fffff, 0x7f800000,
                                    0xff800000, 0x7fc00000, 0x7f800001, 0xffffffff, 0x80000000, 0x00008000};
  static const uint16_t wanted[] = {0x3f80, 0x3f82, 0x3f81, 0xbf82, 0x7f80, 0x7f80,
                                    0xff80, 0x7fc0, 0x7fc0, 0x7fc0, 0x8000, 0x0000};
  enum { N = sizeof values / sizeof *values };
  float x[N], residual[N];
  uint16_t out[N];
  for (int i = 0; i < N; i++) x[i] = of_bits(values[i]), residual[i] = -0.0f;
  uint16_t alone[N];
  kernels->bf16_pack(x, NULL, residual, out, N);
  kernels->bf16_pack(x, NULL, NULL, alone, N);
  for (int i = 0; i < N; i++) {
    assert_int_equal(out[i], wanted[i]);
    assert_int_equal(alone[i], wanted[i]);
    assert_true(isfinite(residual[i])); /* else it would never leave */
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rounds_to_nearest_and_keeps_the_rest),
      cmocka_unit_test(test_special_values),
  };
  return RUN_WITH_EACH_TABLE(tests);
}
