/* Buckets: how gradients are cut into them, when one is ready, and what dead taps leave out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "strategy/buckets.h"

/* Lengths in floats: below a line, of lines, in between. */
static void pieces_cover_a_bucket_evenly(void **state) {
  static const size_t lengths[] = {1, 15, 16, 17, 64, 1000, 65536 + 16};
  for (size_t l = 0; l < RONDE__COUNT(lengths); l++)
    for (int n_servers = 1; n_servers <= 7; n_servers++) {
      ronde__bucket bucket = {.begin = 4096, .end = 4096 + lengths[l], .n_live = lengths[l]};
      size_t at = bucket.begin, least = SIZE_MAX, most = 0;
      for (int s = 0; s < n_servers; s++) {
        ronde__range piece = ronde__bucket_piece(&bucket, s, n_servers);
        if (piece.n) assert_int_equal(piece.begin, at);
        if (piece.n) assert_int_equal((piece.begin - bucket.begin) % 16, 0);
        at += piece.n;
        least = piece.n < least ? piece.n : least;
        most = piece.n > most ? piece.n : most;
      }
      assert_int_equal(at, bucket.end);
      assert_true(most - least < 32); /* a line, and what the last line lacks */
    }
}

static ronde__net *make_net(const ronde_graph *graph) {
  const ronde__kernels *kernels;
  ronde__net *net;
  assert_int_equal(ronde__kernels_get(&kernels), RONDE_OK);
  ronde__net_options options = {.compute = {.kernels = kernels, .gemm = RONDE__GEMM_TILE}, .training = true};
  assert_int_equal(ronde__net_create(graph, &options, &net), RONDE_OK);
  return net;
}

static void buckets_hold_what_trains_from_the_end(void **state) {
  ronde_graph *graph;
  int64_t dims[] = {5};
  assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
  ronde_tensor *x = ronde_input(graph, "x", 1, dims);
  x = ronde_tanh(ronde_linear(x, "fc1", 70, true));
  x = ronde_tanh(ronde_linear(x, "fc2", 30, true));
  ronde_graph_set_output(graph, ronde_linear(x, "fc3", 4, true));
  graph->params[0].frozen = true;
  assert_int_equal(ronde__graph_finish(graph), RONDE_OK);
  ronde__net *net = make_net(graph);
  int n_params;
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  static const int64_t sizes[] = {1, 100, 1000, 5000, 1 << 20};
  for (size_t i = 0; i < RONDE__COUNT(sizes); i++) {
    ronde__buckets buckets;
    assert_int_equal(ronde__buckets_make(net, sizes[i], &buckets), RONDE_OK);
    size_t end = ronde__net_n_trained(net);
    for (int b = 0; b < buckets.n; b++) {
      int n_within = 0;
      assert_true(buckets.at[b].end == end && buckets.at[b].begin < end);
      end = buckets.at[b].begin;
      for (int p = 0; p < n_params; p++) {
        ronde__bucket_span span = buckets.of_param[p];
        bool within = params[p].offset < buckets.at[b].end && params[p].offset + params[p].n_elems > end;
        assert_int_equal(within, span.first <= b && b <= span.last);
        n_within += within;
      }
      assert_true(buckets.at[b].n_packed > 0 && buckets.at[b].n_packed <= buckets.at[b].end - end);
      size_t bytes = (buckets.at[b].end - end) * sizeof(float);
      if (n_within == 1) assert_true((int64_t)bytes < 3 * ronde__max(sizes[i], 64));
    }
    assert_int_equal(end, 0);
    for (int p = 0; p < n_params; p++)
      assert_int_equal(buckets.of_param[p].last < buckets.of_param[p].first, params[p].frozen);
    assert_true(i > 0 || buckets.n == (int)(ronde__net_n_trained(net) / 16));
    assert_true(i < RONDE__COUNT(sizes) - 1 || buckets.n == 1);
    ronde__buckets_free(&buckets);
  }
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
}

static int n_ready(const ronde__buckets *buckets) {
  int n = 0;
  while (n < buckets->n && ronde__bucket_is_ready(&buckets->at[n])) n++;
  for (int b = n; b < buckets->n; b++) assert_false(ronde__bucket_is_ready(&buckets->at[b]));
  return n;
}

/* Elements [begin, end) of a parameter, which may lie in any number of buckets. */
static void tell(ronde__buckets *buckets, int param, size_t begin, size_t end) {
  ronde__buckets_final(buckets, &(ronde__gradient){.param = param, .begin = begin, .end = end});
}

/* One parameter after the other, and of the large one first some of its last elements, then more. */
static void buckets_are_ready_with_their_elements(void **state) {
  ronde_graph *graph;
  int64_t dims[] = {64};
  assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
  ronde_tensor *x = ronde_tanh(ronde_linear(ronde_input(graph, "x", 1, dims), "fc1", 64, true));
  ronde_graph_set_output(graph, ronde_linear(x, "fc2", 4, true));
  assert_int_equal(ronde__graph_finish(graph), RONDE_OK);
  ronde__net *net = make_net(graph);
  int n_params;
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  ronde__buckets buckets;
  assert_int_equal(ronde__buckets_make(net, 4096, &buckets), RONDE_OK);
  ronde__bucket_span span = buckets.of_param[0];
  assert_true(span.last - span.first == 3 && span.last == buckets.n - 1);
  for (int step = 0; step < 2; step++) {
    ronde__buckets_begin(&buckets);
    assert_int_equal(n_ready(&buckets), 0);
    for (int p = n_params - 1; p > 0; p--) tell(&buckets, p, params[p].offset, params[p].offset + params[p].n_packed);
    assert_int_equal(n_ready(&buckets), span.first);
    size_t cuts[] = {params[0].offset + params[0].n_packed, buckets.at[span.first].begin + 1,
                     buckets.at[span.first + 1].begin, params[0].offset + 1, params[0].offset};
    int ready[] = {span.first, span.first + 2, span.last, buckets.n};
    for (int i = 0; i < 4; i++) {
      tell(&buckets, 0, cuts[i + 1], cuts[i]);
      assert_int_equal(n_ready(&buckets), ready[i]);
    }
    assert_int_equal(n_ready(&buckets), buckets.n);
  }
  ronde__buckets_free(&buckets);
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
}

/* Numbered places, of which those that are live are packed, and come back to where they were. */
static void check_halves(const ronde__bucket *bucket, const float *filled, size_t n) {
  uint16_t *flat = malloc(n * sizeof *flat), *packed = malloc(n * sizeof *packed), *back = calloc(n, sizeof *back);
  size_t at = 0;
  for (size_t j = 0; j < n; j++) flat[j] = (uint16_t)(1 + j % 65535);
  ronde__bucket_gather_halves(bucket, flat, packed);
  ronde__bucket_scatter_halves(bucket, packed, back);
  for (size_t j = bucket->begin; j < bucket->end; j++) {
    bool live = filled[j] != 0;
    if (live) assert_int_equal(packed[at++], flat[j]);
    assert_int_equal(back[j], live ? flat[j] : 0);
  }
  assert_int_equal(at, bucket->n_live);
  free(flat), free(packed), free(back);
}

/* Of a net with taps that meet only padding, in buckets of several sizes: what is packed is what is not dead. */
static void what_is_dead_is_left_out(void **state) {
  ronde_graph *graph;
  int64_t dims[] = {3, 4, 4};
  assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
  ronde_tensor *x = ronde_input(graph, "x", 3, dims);
  ronde_conv2d_options conv = {.out_channels = 40, .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  for (int i = 0; i < 4; i++) x = ronde_conv2d(x, (const char *[]){"conv1", "conv2", "conv3", "conv4"}[i], &conv);
  ronde_graph_set_output(graph, ronde_linear(ronde_flatten(x), "fc1", 4, true));
  assert_int_equal(ronde__graph_finish(graph), RONDE_OK);
  ronde__net *net = make_net(graph);
  static const int64_t sizes[] = {1, 1000, 20000, 70000, 1 << 20};
  size_t n = ronde__net_n_trained(net);
  float *gradients = ronde__net_gradients(net), *filled = malloc(n * sizeof *filled);
  float *packed = malloc(n * sizeof *packed), *scattered = malloc(n * sizeof *scattered);
  int n_dead;
  const ronde__range *dead = ronde__net_dead(net, &n_dead);
  for (size_t j = 0; j < n; j++) filled[j] = 1 + (float)j;
  for (int d = 0; d < n_dead; d++) memset(filled + dead[d].begin, 0, dead[d].n * sizeof *filled);
  for (size_t i = 0; i < RONDE__COUNT(sizes); i++) {
    ronde__buckets buckets;
    size_t n_live = 0;
    assert_int_equal(ronde__buckets_make(net, sizes[i], &buckets), RONDE_OK);
    memcpy(gradients, filled, n * sizeof *filled);
    for (size_t j = 0; j < n; j++) scattered[j] = -1;
    for (int b = 0; b < buckets.n; b++) {
      const ronde__bucket *bucket = &buckets.at[b];
      size_t at = bucket->begin;
      ronde__bucket_pack(bucket, gradients);
      for (size_t j = bucket->begin; j < bucket->end; j++)
        if (filled[j] != 0) assert_true(gradients[at++] == filled[j]);
      assert_int_equal(at, bucket->begin + bucket->n_live);
      memcpy(packed, gradients + bucket->begin, bucket->n_live * sizeof *packed);
      ronde__bucket_unpack(bucket, gradients);
      ronde__bucket_scatter(bucket, packed, scattered);
      memset(packed, 0, bucket->n_live * sizeof *packed);
      ronde__bucket_gather(bucket, gradients, packed);
      ronde__bucket_pack(bucket, gradients);
      assert_memory_equal(packed, gradients + bucket->begin, bucket->n_live * sizeof *packed);
      ronde__bucket_clear_dead(bucket, gradients);
      for (size_t j = bucket->begin; j < bucket->end; j++)
        if (filled[j] == 0) assert_true(gradients[j] == 0 && scattered[j] == -1);
        else assert_true(scattered[j] == filled[j]);
      memcpy(gradients + bucket->begin, filled + bucket->begin, (bucket->end - bucket->begin) * sizeof *gradients);
      if (b % 100 == 0) check_halves(bucket, filled, n);
      assert_true(bucket->n_live > 0);
      n_live += bucket->n_live;
    }
    assert_memory_equal(gradients, filled, n * sizeof *filled);
    assert_true(n_live < n / 2);
    ronde__buckets_free(&buckets);
  }
  free(filled), free(packed), free(scattered);
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
}

static void too_many_are_refused(void **state) {
  ronde_graph *graph;
  int64_t dims[] = {4100};
  ronde__buckets buckets = {0};
  assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
  ronde_graph_set_output(graph, ronde_linear(ronde_input(graph, "x", 1, dims), "fc1", 4100, false));
  assert_int_equal(ronde__graph_finish(graph), RONDE_OK);
  ronde__net *net = make_net(graph);
  assert_int_equal(ronde__buckets_make(net, 1, &buckets), RONDE_E_USAGE);
  assert_null(buckets.at);
  assert_int_equal(ronde__buckets_make(net, 1000, &buckets), RONDE_OK);
  ronde__buckets_free(&buckets);
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pieces_cover_a_bucket_evenly),
      cmocka_unit_test(buckets_hold_what_trains_from_the_end),
      cmocka_unit_test(buckets_are_ready_with_their_elements),
      cmocka_unit_test(what_is_dead_is_left_out),
      cmocka_unit_test(too_many_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
