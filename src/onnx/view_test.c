/* Which elements of an earlier tensor a tensor is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

#ifdef RONDE_HAVE_ONNX

#include "onnx/import.h"

static const ronde_tensor *input_of(ronde_graph **graph_out, int64_t time, int64_t features) {
  assert_int_equal(ronde_graph_create(graph_out), RONDE_OK);
  return ronde_input(*graph_out, "input", 2, (int64_t[]){time, features});
}

/* Walks as far back as it can. */
static ronde__onnx_view origin_of(const ronde_tensor *x) {
  ronde__onnx_view view = ronde__onnx_view_of(x);
  while (ronde__onnx_view_back(&view)) {
  }
  return view;
}

static void check_view(const ronde__onnx_view *view, const ronde_tensor *x, int64_t offset, const int64_t step[3]) {
  assert_ptr_equal(view->x, x);
  assert_int_equal(view->offset, offset);
  for (int d = 0; d < 3; d++) assert_int_equal(view->step[d], step[d]);
}

/* [5,3 x 2 x 4], queries, keys and values of two heads: by way of [5,3,8], as nn.MultiheadAttention; of [5,3,2,4], as
 * timm; and by pieces of 8 features. */
static void heads_are_found_where_they_lie(void **unused) {
  static const int64_t step[] = {4, 24, 1}, by_head[] = {5, 2, 4};
  ronde_tensor *pieces[3];
  ronde_graph *graph;
  const ronde_tensor *x = input_of(&graph, 5, 24);

  const ronde_tensor *threes = ronde_transpose(ronde_reshape(x, 3, (int64_t[]){5, 3, 8}), (int[]){1, 0, 2});
  ronde_cut(threes, 3, (int64_t[]){1, 1, 1}, pieces);
  for (int i = 0; i < 3; i++) {
    const ronde_tensor *rows = ronde_reshape(pieces[i], 2, (int64_t[]){5, 8});
    ronde__onnx_view view = origin_of(ronde_transpose(ronde_reshape(rows, 3, by_head), (int[]){1, 0, 2}));
    check_view(&view, x, 8 * i, step);
  }

  const ronde_tensor *heads = ronde_transpose(ronde_reshape(x, 4, (int64_t[]){5, 3, 2, 4}), (int[]){1, 2, 0, 3});
  ronde_cut(heads, 3, (int64_t[]){1, 1, 1}, pieces);
  for (int i = 0; i < 3; i++) {
    ronde__onnx_view view = origin_of(ronde_reshape(pieces[i], 3, (int64_t[]){2, 5, 4}));
    check_view(&view, x, 8 * i, step);
  }

  ronde_cut_along(x, 1, 3, (int64_t[]){8, 8, 8}, pieces);
  ronde__onnx_view view = origin_of(
      ronde_function(ronde_transpose(ronde_reshape(pieces[1], 3, by_head), (int[]){1, 0, 2}), RONDE_AFFINE, 0.5f, 0));
  check_view(&view, x, 8, step);
  assert_float_equal(view.scale, 0.5, 0);
  ronde_graph_destroy(graph);
}

/* What is computed, and dimensions that run over several of an earlier tensor, end the walk. */
static void walks_end(void **unused) {
  ronde_graph *graph;
  const ronde_tensor *x = input_of(&graph, 5, 8);
  const ronde_tensor *sum = ronde_function(x, RONDE_AFFINE, 1, 2), *tanh = ronde_tanh(x);
  assert_ptr_equal(origin_of(ronde_reshape(sum, 3, (int64_t[]){5, 2, 4})).x, sum);
  assert_ptr_equal(origin_of(tanh).x, tanh);
  const ronde_tensor *turned = ronde_transpose(x, (int[]){1, 0});
  assert_ptr_equal(origin_of(ronde_reshape(turned, 1, (int64_t[]){40})).x, turned);
  assert_ptr_equal(origin_of(ronde_reshape(turned, 2, (int64_t[]){4, 10})).x, turned);
  assert_ptr_equal(origin_of(ronde_reshape(turned, 3, (int64_t[]){8, 5, 1})).x, x);
  assert_int_equal(ronde_graph_status(graph), RONDE_OK);
  ronde_graph_destroy(graph);
}

static void transposes_in_one(void **unused) {
  ronde_graph *graph;
  const ronde_tensor *x = input_of(&graph, 6, 4), *y = ronde_reshape(x, 3, (int64_t[]){3, 2, 4});
  const ronde_tensor *once = ronde__onnx_transposed(y, (int[]){1, 2, 0});
  assert_ptr_equal(ronde__onnx_transposed(once, (int[]){2, 0, 1}), y);
  const ronde_tensor *twice = ronde__onnx_transposed(once, (int[]){1, 0, 2});
  const ronde__node *node = &graph->nodes[twice->producer];
  assert_int_equal(node->in[0], y->id);
  for (int d = 0; d < 3; d++) assert_int_equal(node->attr.order[d], ((int[]){2, 1, 0})[d]);
  ronde_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(heads_are_found_where_they_lie),
      cmocka_unit_test(walks_end),
      cmocka_unit_test(transposes_in_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
  printf("SKIP: this build has no ONNX (no libprotobuf-c)\n");
  return 0;
}

#endif
