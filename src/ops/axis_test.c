/* Taps along one axis of a window, against the definition, at every size, stride and padding up to a bound. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/axis.h"

/* Does output o read input i through tap k? */
static bool meets(const ronde__axis *a, int64_t o, int k, int64_t i) {
  return i >= 0 && i < a->in && o >= 0 && o < a->out && k >= 0 && k < a->kernel && o * a->stride + k - a->padding == i;
}

static void check_forward(const ronde__axis *a) {
  for (int64_t o = 0; o < a->out; o++) {
    ronde__taps t = ronde__axis_forward(a, o);
    int n = 0;
    for (int64_t i = 0; i < a->in; i++)
      for (int k = 0; k < a->kernel; k++) n += meets(a, o, k, i);
    assert_int_equal(t.count, n);
    for (int x = 0; x < t.count; x++) assert_true(meets(a, o, t.first + x, t.at + x));
  }
}

static void check_backward(const ronde__axis *a) {
  for (int64_t i = 0; i < a->in; i++) {
    ronde__taps t = ronde__axis_backward(a, i);
    int n = 0;
    for (int64_t o = 0; o < a->out; o++)
      for (int k = 0; k < a->kernel; k++) n += meets(a, o, k, i);
    assert_int_equal(t.count, n);
    for (int x = 0; x < t.count; x++) assert_true(meets(a, t.at + x, t.first - x * a->stride, i));
  }
}

static void check_taps(const ronde__axis *a) {
  for (int k = 0; k < a->kernel; k++) {
    int64_t begin, end;
    ronde__axis_outputs_of_tap(a, k, &begin, &end);
    assert_true(begin <= end);
    for (int64_t o = 0; o < a->out; o++) {
      bool inside = o * a->stride + k - a->padding >= 0 && o * a->stride + k - a->padding < a->in;
      assert_int_equal(inside, o >= begin && o < end);
    }
  }
}

static void check_runs(const ronde__axis *a, ronde__axis_fn taps, int64_t end) {
  for (int64_t at = 0, length; at < end; at += length) {
    length = ronde__axis_run(a, taps, at, end);
    assert_in_range(length, 1, end - at);
    for (int64_t i = at; i < at + length; i++) {
      assert_int_equal(taps(a, i).first, taps(a, at).first);
      assert_int_equal(taps(a, i).count, taps(a, at).count);
      if (a->stride == 1 && taps(a, at).count) assert_int_equal(taps(a, i).at, taps(a, at).at + i - at);
    }
  }
}

static void every_tap_is_met_once(void **unused) {
  int n_checked = 0;
  for (int64_t in = 1; in <= 9; in++)
    for (int kernel = 1; kernel <= 7; kernel++)
      for (int stride = 1; stride <= 4; stride++)
        for (int padding = 0; padding <= 8; padding++) {
          if (in + 2 * padding < kernel) continue;
          ronde__axis a = ronde__axis_make(in, kernel, stride, padding);
          assert_true((a.out - 1) * stride + kernel <= in + 2 * padding);
          assert_true(a.out * stride + kernel > in + 2 * padding);
          check_forward(&a);
          check_backward(&a);
          check_taps(&a);
          check_runs(&a, ronde__axis_forward, a.out);
          check_runs(&a, ronde__axis_backward, a.in);
          n_checked++;
        }
  assert_true(n_checked > 2000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_tap_is_met_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
