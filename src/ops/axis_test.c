/* Taps along one axis of a window, against the definition, at every size, stride, padding and dilation up to a bound. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/window.h"

/* Does output o read input i through tap k? */
static bool meets(const ronde__axis *a, int64_t o, int k, int64_t i) {
  return i >= 0 && i < a->in && o >= 0 && o < a->out && k >= 0 && k < a->kernel &&
         o * a->stride + k * a->dilation - a->padding == i;
}

static void check_forward(const ronde__axis *a) {
  for (int64_t o = 0; o < a->out; o++) {
    ronde__taps t = ronde__axis_forward(a, o);
    int n = 0;
    for (int64_t i = 0; i < a->in; i++)
      for (int k = 0; k < a->kernel; k++) n += meets(a, o, k, i);
    assert_int_equal(t.count, n);
    ronde__steps s = ronde__axis_forward_steps(a);
    for (int x = 0; x < t.count; x++) assert_true(meets(a, o, t.first + x * s.tap, t.at + x * s.pitch));
  }
}

static void check_backward(const ronde__axis *a) {
  for (int64_t i = 0; i < a->in; i++) {
    ronde__taps t = ronde__axis_backward(a, i);
    int n = 0;
    for (int64_t o = 0; o < a->out; o++)
      for (int k = 0; k < a->kernel; k++) n += meets(a, o, k, i);
    assert_int_equal(t.count, n);
    ronde__steps s = ronde__axis_backward_steps(a);
    for (int x = 0; x < t.count; x++) assert_true(meets(a, t.at + x * s.pitch, t.first + x * s.tap, i));
  }
}

static void check_taps(const ronde__axis *a) {
  for (int k = 0; k < a->kernel; k++) {
    int64_t begin, end;
    ronde__axis_outputs_of_tap(a, k, &begin, &end);
    assert_true(begin <= end);
    for (int64_t o = 0; o < a->out; o++) {
      int64_t i = o * a->stride + k * a->dilation - a->padding;
      bool inside = i >= 0 && i < a->in;
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

/* Windows counted one by one: each fits into the padded input, but for a last one that is cut off where asked; that one may
 * not begin in the padding behind. */
static void check_outputs(const ronde__axis *a, bool round_up) {
  int64_t n_windows = 0, padded = a->in + a->padding + a->end;
  while (n_windows * a->stride + ronde__axis_extent(a) <= padded) n_windows++;
  bool is_left = (n_windows - 1) * a->stride + ronde__axis_extent(a) < padded;
  if (round_up && is_left) n_windows++;
  if (round_up && (n_windows - 1) * a->stride >= a->in + a->padding) n_windows--;
  assert_int_equal(a->out, n_windows);
  for (int64_t o = 0; o < a->out; o++) {
    int n = 0;
    for (int k = 0; k < a->kernel; k++) n += o * a->stride + (int64_t)k * a->dilation < padded;
    assert_int_equal(ronde__axis_places(a, o), n);
  }
}

static int check_window(ronde__axis window, bool round_up) {
  ronde__axis a = ronde__axis_make(window, round_up);
  if (a.in + a.padding + a.end < ronde__axis_extent(&a)) {
    assert_int_equal(a.out, 0);
    return 0;
  }
  check_outputs(&a, round_up);
  check_forward(&a);
  check_backward(&a);
  check_taps(&a);
  check_runs(&a, ronde__axis_forward, a.out);
  check_runs(&a, ronde__axis_backward, a.in);
  return 1;
}

static void every_tap_is_met_once(void **unused) {
  int n_checked = 0;
  for (int64_t in = 1; in <= 9; in++)
    for (int kernel = 1; kernel <= 7; kernel++)
      for (int stride = 1; stride <= 4; stride++)
        for (int padding = 0; padding <= 8; padding++) {
          ronde__axis window = {
              .in = in, .kernel = kernel, .stride = stride, .dilation = 1, .padding = padding, .end = padding};
          n_checked += check_window(window, false);
        }
  assert_true(n_checked > 2000);
}

static void every_tap_is_met_once_with_dilation_and_uneven_padding(void **unused) {
  int n_checked = 0;
  for (int64_t in = 1; in <= 11; in += 2)
    for (int kernel = 1; kernel <= 4; kernel++)
      for (int stride = 1; stride <= 4; stride++)
        for (int dilation = 1; dilation <= 6; dilation++)
          for (int padding = 0; padding <= 4; padding++)
            for (int end = 0; end <= 5; end++)
              for (int up = 0; up <= 1; up++)
                n_checked += check_window((ronde__axis){.in = in,
                                                        .kernel = kernel,
                                                        .stride = stride,
                                                        .dilation = dilation,
                                                        .padding = padding,
                                                        .end = end},
                                          up);
  assert_true(n_checked > 20000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_tap_is_met_once),
      cmocka_unit_test(every_tap_is_met_once_with_dilation_and_uneven_padding),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
