/* Forms of weights: there and back gives the same values. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "tensor/tensor.h"

#include <stdlib.h>

static ronde__weight_layout layout_of(ronde__weight_form form, int64_t o, int64_t i, int64_t t) {
  return ronde__weight_layout_make(form, o, i, t, ronde__channel_block(o), ronde__channel_block(i));
}

/* As the header words it. */
static int64_t weight_place(const ronde__weight_layout *l, int64_t o, int64_t i, int64_t t) {
  int64_t bo = l->block_o, bi = l->block_i, n_i = ronde__ceil_div(l->i, bi);
  if (l->form == RONDE__PLAIN) return (o * l->i + i) * l->t + t;
  if (l->form == RONDE__PANELS) return o / bo * (l->i * l->t * bo) + i * (l->t * bo) + t * bo + o % bo;
  return o / bo * (l->t * n_i * bi * bo) + t * (n_i * bi * bo) + i / bi * (bi * bo) + i % bi * bo + o % bo;
}

static void check_weight(const ronde__weight_layout *l) {
  int64_t n = l->o * l->i * l->t, n_packed = ronde__weight_elems(l);
  float *logical = malloc((size_t)n * sizeof *logical), *back = calloc((size_t)n, sizeof *back);
  float *packed = malloc((size_t)(n_packed + 1) * sizeof *packed);
  assert_true(n_packed >= n);
  if (l->form == RONDE__PLAIN) assert_int_equal(n_packed, n);
  for (int64_t i = 0; i < n; i++) logical[i] = (float)(i + 1);
  for (int64_t i = 0; i <= n_packed; i++) packed[i] = -5;
  ronde__weight_pack(l, logical, packed);
  assert_true(packed[n_packed] == -5);
  ronde__weight_unpack(l, packed, back);
  float *again = malloc((size_t)(n_packed + 1) * sizeof *again); /* packed slice by slice */
  for (int64_t i = 0; i <= n_packed; i++) again[i] = -5;
  float *slice = malloc((size_t)ronde__weight_slice_elems(l) * sizeof *slice);
  for (int64_t at = 0; at < n;) {
    int64_t n_slice = ronde__weight_unpack_slice(l, packed, at, slice);
    assert_in_range(n_slice, 1, ronde__weight_slice_elems(l));
    assert_true(at + n_slice <= n);
    assert_memory_equal(slice, logical + at, (size_t)n_slice * sizeof *slice);
    assert_int_equal(ronde__weight_pack_slice(l, at, slice, again), n_slice);
    at += n_slice;
  }
  assert_memory_equal(again, packed, (size_t)(n_packed + 1) * sizeof *packed);
  free(slice), free(again);
  for (int64_t o = 0, row = 0; o < l->o; o++)
    for (int64_t i = 0; i < l->i; i++)
      for (int64_t t = 0; t < l->t; t++, row++) {
        int64_t where = ronde__weight_index(l, o, i, t), at = l->inputs_first ? (i * l->t + t) * l->o + o : row;
        assert_int_equal(where, weight_place(l, o, i, t));
        assert_in_range(where, 0, n_packed - 1);
        assert_true(packed[where] == (float)(at + 1) && back[at] == (float)(at + 1));
        packed[where] = 0;
      }
  for (int64_t i = 0; i < n_packed; i++) assert_true(packed[i] == 0); /* each element once, the rest padding */
  free(logical), free(back), free(packed);
}

static void round_trips(void **unused) {
  static const int64_t shapes[][3] = {
      {1, 1, 1},    {6, 1, 25},  {16, 6, 25}, {67, 3, 9},  {3, 67, 9},    {10, 400, 1},  {128, 128, 1},
      {130, 67, 4}, {1, 513, 1}, {513, 1, 1}, {64, 64, 9}, {200, 900, 1}, {70, 2100, 1}, /* in several slices */
  };
  for (size_t s = 0; s < RONDE__COUNT(shapes); s++)
    for (ronde__weight_form form = RONDE__PLAIN; form <= RONDE__PANELS; form++) {
      ronde__weight_layout l = layout_of(form, shapes[s][0], shapes[s][1], shapes[s][2]);
      check_weight(&l);
      l.inputs_first = true;
      check_weight(&l);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trips),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
