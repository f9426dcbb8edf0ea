/* The transforms of Winograd's F(4x4, 3x3): together they are the convolution; the gradients' maps are the transposes
 * of the others; tiles of which a part is missing. */
#include "kernel/kernel_testing.h"

enum { N = 48, IN = 6, OUT = 4, TAPS = 3 };

typedef struct map_case {
  ronde__winograd_map map;
  int from, to;
} map_case;

static const map_case maps[] = {{RONDE__WINOGRAD_INPUT, IN, IN},
                                {RONDE__WINOGRAD_OUTPUT, IN, OUT},
                                {RONDE__WINOGRAD_WEIGHT, TAPS, IN},
                                {RONDE__WINOGRAD_OUTPUT_GRADIENT, OUT, IN},
                                {RONDE__WINOGRAD_WEIGHT_GRADIENT, IN, TAPS}};

/* Every place there, N floats each, rows and columns a little apart. */
static ronde__winograd_tile whole(float *at, int size) {
  return (ronde__winograd_tile){at, size * N + 1, N, 0, size, 0, size};
}

static int64_t elems(int size) { return size * (size * N + 1); }

static float *tile_place(const ronde__winograd_tile *t, int r, int c) {
  return t->at + (r - t->row0) * t->row + (c - t->column0) * t->column;
}

static floats mapped(ronde__winograd_map map, floats *x) {
  floats y = floats_make(elems(maps[map].to), 1);
  ronde__winograd_tile from = whole(x->at, maps[map].from), to = whole(y.at, maps[map].to);
  kernels->winograd(map, &from, &to, N, false);
  return y;
}

static double convolved(const ronde__winograd_tile *x, const ronde__winograd_tile *w, int r, int c, int j) {
  double sum = 0;
  for (int kr = 0; kr < TAPS; kr++)
    for (int kc = 0; kc < TAPS; kc++)
      sum += (double)tile_place(x, r + kr, c + kc)[j] * (double)tile_place(w, kr, kc)[j];
  return sum;
}

static void test_products_give_the_convolution(void **state) {
  floats x = floats_make(elems(IN), 1), w = floats_make(elems(TAPS), 3);
  floats v = mapped(RONDE__WINOGRAD_INPUT, &x), u = mapped(RONDE__WINOGRAD_WEIGHT, &w);
  for (int64_t i = 0; i < v.n; i++) v.at[i] *= u.at[i];
  floats y = mapped(RONDE__WINOGRAD_OUTPUT, &v);
  ronde__winograd_tile input = whole(x.at, IN), weight = whole(w.at, TAPS), output = whole(y.at, OUT);
  for (int r = 0; r < OUT; r++)
    for (int c = 0; c < OUT; c++)
      for (int j = 0; j < N; j++)
        assert_true(fabs((double)tile_place(&output, r, c)[j] - convolved(&input, &weight, r, c, j)) < 2e-5);
  floats_free(&x), floats_free(&w), floats_free(&v), floats_free(&u), floats_free(&y);
}

static double dot(floats *a, floats *b, int size) {
  ronde__winograd_tile at = whole(a->at, size), bt = whole(b->at, size);
  double sum = 0;
  for (int r = 0; r < size; r++)
    for (int c = 0; c < size; c++)
      for (int j = 0; j < N; j++) sum += (double)tile_place(&at, r, c)[j] * (double)tile_place(&bt, r, c)[j];
  return sum;
}

/* <L x, d> = <x, L^T d> */
static void test_gradients_are_transposes(void **state) {
  static const ronde__winograd_map pairs[][2] = {{RONDE__WINOGRAD_OUTPUT, RONDE__WINOGRAD_OUTPUT_GRADIENT},
                                                 {RONDE__WINOGRAD_WEIGHT, RONDE__WINOGRAD_WEIGHT_GRADIENT}};
  for (size_t i = 0; i < RONDE__COUNT(pairs); i++) {
    const map_case *m = &maps[pairs[i][0]];
    floats x = floats_make(elems(m->from), 1), d = floats_make(elems(m->to), 1);
    floats y = mapped(pairs[i][0], &x), dx = mapped(pairs[i][1], &d);
    assert_true(fabs(dot(&y, &d, m->to) - dot(&x, &dx, m->from)) < 1e-3);
    floats_free(&x), floats_free(&d), floats_free(&y), floats_free(&dx);
  }
}

static bool is_inside(const ronde__winograd_tile *t, int r, int c) {
  return r >= t->row0 && r < t->row1 && c >= t->column0 && c < t->column1;
}

/* The tile without its border: `at` is its first place. */
static ronde__winograd_tile map_part(float *at, int size, int row0, int row1, int column0, int column1) {
  ronde__winograd_tile t = whole(at, size);
  t.at = tile_place(&t, row0, column0);
  t.row0 = row0, t.row1 = row1, t.column0 = column0, t.column1 = column1;
  return t;
}

/* Against the whole tile with zeros in the missing places. */
static void check_part(const map_case *m, bool accumulate) {
  floats x = floats_make(elems(m->from), 1), zeroed = floats_copy(&x, 1), start = floats_make(elems(m->to), 1);
  floats y = floats_copy(&start, 1);
  ronde__winograd_tile from = map_part(x.at, m->from, 1, m->from - 1, 0, m->from - 1);
  ronde__winograd_tile to = map_part(y.at, m->to, 0, m->to - 1, 1, m->to), all = whole(zeroed.at, m->from);
  for (int r = 0; r < m->from; r++)
    for (int c = 0; c < m->from; c++)
      if (!is_inside(&from, r, c)) memset(tile_place(&all, r, c), 0, N * sizeof(float));
  floats want = mapped(m->map, &zeroed);
  kernels->winograd(m->map, &from, &to, N, accumulate);
  ronde__winograd_tile got = whole(y.at, m->to), wanted = whole(want.at, m->to), old = whole(start.at, m->to);
  for (int r = 0; r < m->to; r++)
    for (int c = 0; c < m->to; c++)
      for (int j = 0; j < N; j++) {
        float before = tile_place(&old, r, c)[j], now = tile_place(&got, r, c)[j];
        float added = tile_place(&wanted, r, c)[j] + (accumulate ? before : 0);
        assert_true(is_inside(&to, r, c) ? fabsf(now - added) <= 1e-5f * (1 + fabsf(added)) : now == before);
      }
  floats_free(&x), floats_free(&zeroed), floats_free(&start), floats_free(&y), floats_free(&want);
}

static void test_missing_places(void **state) {
  for (size_t i = 0; i < RONDE__COUNT(maps); i++) {
    check_part(&maps[i], false);
    check_part(&maps[i], true);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_products_give_the_convolution),
      cmocka_unit_test(test_gradients_are_transposes),
      cmocka_unit_test(test_missing_places),
  };
  return RUN_WITH_EACH_TABLE(tests);
}
