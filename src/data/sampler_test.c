/* The order of examples, and what is kept out of it. */
#include "data/testing.h"

#include "base/rng.h"
#include "data/data.h"

#include <math.h>

static test_log lines;

static ronde__sampler *make(ronde__sampler_options options) {
  if (!options.repeat) options.repeat = 1;
  ronde__sampler *sampler;
  assert_int_equal(ronde__sampler_create(&options, &sampler), RONDE_OK);
  return sampler;
}

static int64_t *epoch_ids(const ronde__sampler *sampler, int64_t epoch) {
  int64_t *ids = malloc((size_t)ronde__sampler_epoch_examples(sampler) * sizeof *ids);
  assert_int_equal(ronde__sampler_epoch(sampler, epoch, ids), RONDE_OK);
  return ids;
}

static void test_file_order_without_shuffle(void **state) {
  ronde__sampler *sampler = make((ronde__sampler_options){.n_train = 10, .repeat = 2, .batch = 7, .seed = 3});
  assert_int_equal(ronde__sampler_epoch_examples(sampler), 20);
  assert_int_equal(ronde__sampler_epoch_batches(sampler), 3);
  assert_int_equal(ronde__sampler_batch(sampler), 7);
  for (int64_t epoch = 1; epoch <= 2; ++epoch) {
    int64_t *ids = epoch_ids(sampler, epoch);
    for (int i = 0; i < 20; ++i) assert_int_equal(ids[i], i % 10);
    free(ids);
  }
  ronde__sampler_destroy(sampler);
}

static void test_each_id_as_often_as_repeated_in_any_order(void **state) {
  enum { N = 101, REPEAT = 3 };
  ronde__sampler *sampler =
      make((ronde__sampler_options){.n_train = N, .repeat = REPEAT, .batch = 10, .shuffle = true});
  int64_t *first = NULL;
  for (int64_t epoch = 1; epoch <= 3; ++epoch) {
    int64_t *ids = epoch_ids(sampler, epoch), *again = epoch_ids(sampler, epoch), counts[N] = {0};
    assert_memory_equal(ids, again, N * REPEAT * sizeof *ids);
    for (int i = 0; i < N * REPEAT; ++i) ++counts[ids[i]];
    for (int i = 0; i < N; ++i) assert_int_equal(counts[i], REPEAT);
    if (first) assert_memory_not_equal(ids, first, N * REPEAT * sizeof *ids);
    free(again);
    free(first);
    first = ids;
  }
  free(first);
  ronde__sampler_destroy(sampler);
}

static void test_the_seed_decides(void **state) {
  ronde__sampler_options options = {.n_train = 50, .repeat = 1, .batch = 5, .shuffle = true, .seed = 1};
  ronde__sampler *a = make(options), *same = make(options);
  options.seed = 2;
  ronde__sampler *other = make(options);
  int64_t *ids = epoch_ids(a, 4), *same_ids = epoch_ids(same, 4), *other_ids = epoch_ids(other, 4);
  assert_memory_equal(ids, same_ids, 50 * sizeof *ids);
  assert_memory_not_equal(ids, other_ids, 50 * sizeof *ids);
  free(ids);
  free(same_ids);
  free(other_ids);
  ronde__sampler_destroy(a);
  ronde__sampler_destroy(same);
  ronde__sampler_destroy(other);
}

static void test_drop_last_drops_the_end_of_the_same_order(void **state) {
  ronde__sampler_options options = {.n_train = 23, .repeat = 1, .batch = 5, .shuffle = true, .seed = 9};
  ronde__sampler *whole = make(options);
  options.drop_last = true;
  ronde__sampler *dropped = make(options);
  assert_int_equal(ronde__sampler_epoch_examples(whole), 23);
  assert_int_equal(ronde__sampler_epoch_batches(whole), 5);
  assert_int_equal(ronde__sampler_epoch_examples(dropped), 20);
  assert_int_equal(ronde__sampler_epoch_batches(dropped), 4);
  int64_t *a = epoch_ids(whole, 2), *b = epoch_ids(dropped, 2);
  assert_memory_equal(a, b, 20 * sizeof *a);
  free(a);
  free(b);
  ronde__sampler_destroy(whole);
  ronde__sampler_destroy(dropped);
}

static void test_validation_examples_are_kept_out(void **state) {
  static const struct {
    double fraction;
    int64_t n, n_validation;
  } cases[] = {{0, 100, 0}, {.29, 100, 29}, {.1, 60000, 6000}, {.5, 7, 3}, {.99, 1, 0}, {.25, 4, 1}};
  for (size_t c = 0; c < RONDE__COUNT(cases); ++c)
    for (int shuffle = 0; shuffle < 2; ++shuffle) {
      int64_t n = cases[c].n, n_validation, n_kept = n - cases[c].n_validation;
      ronde__sampler *sampler = make((ronde__sampler_options){
          .n_train = n, .val_split = cases[c].fraction, .batch = 1, .repeat = 2, .shuffle = shuffle, .seed = 5});
      const int64_t *validation = ronde__sampler_validation(sampler, &n_validation);
      assert_int_equal(n_validation, cases[c].n_validation);
      assert_int_equal(ronde__sampler_epoch_examples(sampler), 2 * n_kept);
      int64_t *ids = epoch_ids(sampler, 1);
      char *seen = calloc((size_t)n, 1);
      for (int64_t i = 0; i < n_validation; ++i) {
        if (i) assert_true(validation[i] > validation[i - 1]);
        seen[validation[i]] = 2;
      }
      for (int64_t i = 0; i < 2 * n_kept; ++i) ++seen[ids[i]];
      for (int64_t i = 0; i < n; ++i) assert_int_equal(seen[i], 2);
      for (int64_t i = 1; i < n_kept && !shuffle; ++i) assert_true(ids[i] > ids[i - 1]);
      free(seen);
      free(ids);
      ronde__sampler_destroy(sampler);
    }
}

/* A part of each class, drawn by the seed; nothing is left over to validate on. */
static void test_some_examples_are_drawn(void **state) {
  enum { N = 90, N_DRAWN = 30, N_CLASSES = 3 };
  int64_t labels[N], n_validation;
  for (int64_t i = 0; i < N; ++i) labels[i] = i / (N / N_CLASSES);
  ronde__sampler_options options = {
      .n_train = N, .n_drawn = N_DRAWN, .repeat = 1, .batch = 7, .shuffle = true, .seed = 5, .labels = labels};
  ronde__sampler *sampler = make(options);
  ronde__sampler_validation(sampler, &n_validation);
  assert_int_equal(n_validation, 0);
  assert_int_equal(ronde__sampler_epoch_examples(sampler), N_DRAWN);
  int64_t *first = epoch_ids(sampler, 1), *second = epoch_ids(sampler, 2), of_class[N_CLASSES] = {0};
  bool seen[N] = {false};
  for (int i = 0; i < N_DRAWN; ++i) seen[first[i]] = true, ++of_class[labels[first[i]]];
  for (int k = 0; k < N_CLASSES; ++k) assert_int_equal(of_class[k], N_DRAWN / N_CLASSES);
  for (int i = 0; i < N_DRAWN; ++i) assert_true(seen[second[i]]); /* every epoch has the same ones */
  options.seed = 6;
  ronde__sampler *other = make(options);
  int64_t *others = epoch_ids(other, 1);
  int n_common = 0;
  for (int i = 0; i < N_DRAWN; ++i) n_common += seen[others[i]];
  assert_true(n_common < N_DRAWN);
  options.n_drawn = N + 1;
  ronde__sampler *none;
  assert_int_equal(ronde__sampler_create(&options, &none), RONDE_E_USAGE);
  free(first);
  free(second);
  free(others);
  ronde__sampler_destroy(sampler);
  ronde__sampler_destroy(other);
}

static void test_validation_is_drawn_by_the_seed(void **state) {
  ronde__sampler_options options = {.n_train = 1000, .batch = 1, .val_split = .1, .seed = 1};
  ronde__sampler *a = make(options);
  options.seed = 2;
  ronde__sampler *b = make(options);
  int64_t n;
  const int64_t *of_a = ronde__sampler_validation(a, &n), *of_b = ronde__sampler_validation(b, &n);
  assert_int_equal(n, 100);
  assert_memory_not_equal(of_a, of_b, 100 * sizeof *of_a);
  assert_true(of_a[99] > 500); /* from all over the set, not its front */
  ronde__sampler_destroy(a);
  ronde__sampler_destroy(b);
}

/* Each class keeps its share, to less than one example; one that has a single example trains on it. */
static void test_each_class_keeps_its_share(void **state) {
  enum { N = 503, CLASSES = 5 };
  static const int64_t sizes[CLASSES] = {7, 1, 0, 300, 195};
  static const double fractions[] = {.01, .1, .2, .25, .5, .9};
  int64_t labels[N], at = 0, left[CLASSES];
  memcpy(left, sizes, sizeof left);
  for (int64_t i = 0; at < N; ++i) /* in no order */
    if (left[i * 7 % CLASSES] > 0) --left[labels[at++] = i * 7 % CLASSES];
  for (size_t f = 0; f < RONDE__COUNT(fractions); ++f)
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      ronde__sampler_options options = {.n_train = N, .batch = 1, .val_split = fractions[f], .seed = seed};
      ronde__sampler *plain = make(options);
      options.labels = labels;
      ronde__sampler *a = make(options), *again = make(options);
      int64_t n, n_again, n_plain, of[CLASSES] = {0};
      const int64_t *ids = ronde__sampler_validation(a, &n), *same = ronde__sampler_validation(again, &n_again);
      ronde__sampler_validation(plain, &n_plain);
      assert_true(n == n_plain && n == n_again);
      assert_memory_equal(ids, same, (size_t)n * sizeof *ids);
      for (int64_t i = 0; i < n; ++i) ++of[labels[ids[i]]];
      for (int k = 0; k < CLASSES; ++k) {
        double exact = (double)sizes[k] * (double)n / N;
        if (k != 1 && !((double)of[k] > exact - 1 && (double)of[k] < exact + 1))
          fail_msg("%g: class %d keeps out %d, not %g", fractions[f], k, (int)of[k], exact);
      }
      assert_int_equal(of[1], 0);
      ronde__sampler_destroy(plain);
      ronde__sampler_destroy(a);
      ronde__sampler_destroy(again);
    }
  for (int i = 0; i < 4; ++i) labels[i] = i;
  ronde__sampler *single = make((ronde__sampler_options){.n_train = 4, .batch = 1, .val_split = .5, .labels = labels});
  int64_t n;
  ronde__sampler_validation(single, &n);
  assert_int_equal(n, 2); /* as many as asked for, though these classes have nothing to train on */
  ronde__sampler_destroy(single);
}

static void test_impossible_options_are_named(void **state) {
  test_log_start(&lines);
  ronde__sampler *sampler;
  static const struct {
    ronde__sampler_options options;
    ronde_status status;
    const char *a, *b;
  } cases[] = {
      {{.n_train = 0, .repeat = 1, .batch = 1}, RONDE_E_INPUT, "no training examples", ""},
      {{.n_train = 5, .repeat = 1, .batch = 0}, RONDE_E_USAGE, "batch 0", ""},
      {{.n_train = 5, .repeat = 0, .batch = 1}, RONDE_E_USAGE, "repeat 0", ""},
      {{.n_train = 5, .repeat = 1, .batch = 6}, RONDE_E_USAGE, "batch 6", "5 training examples"},
      {{.n_train = 5, .repeat = 2, .batch = 11}, RONDE_E_USAGE, "batch 11", "10 training examples"},
      {{.n_train = 5, .repeat = 1, .batch = 5, .val_split = .2}, RONDE_E_USAGE, "batch 5", "4 training examples"},
      {{.n_train = 5, .repeat = 1, .batch = 1, .val_split = 1}, RONDE_E_USAGE, "val-split 1", ""},
      {{.n_train = 5, .repeat = INT64_MAX, .batch = 1}, RONDE_E_USAGE, "repeat 9223372036854775807", "counted"},
  };
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i)
    check_failed(&lines, ronde__sampler_create(&cases[i].options, &sampler), cases[i].status, cases[i].a, cases[i].b);
}

/* ---- by length ---- */

static int32_t lengths[1000];

static ronde__sampler *make_by_length(int64_t n, int64_t batch, bool drop_last) {
  ronde__rng rng = ronde__rng_make(8, 0);
  for (int i = 0; i < 1000; ++i) lengths[i] = 1 + (int32_t)ronde__rng_below(&rng, 60);
  return make((ronde__sampler_options){
      .n_train = n, .batch = batch, .shuffle = true, .drop_last = drop_last, .seed = 5, .lengths = lengths});
}

/* Of padding, where each batch is cut to its longest. */
static int64_t padding_of(const int64_t *ids, int64_t n, int64_t batch) {
  int64_t padding = 0;
  for (int64_t at = 0; at < n; at += batch) {
    int64_t some = ronde__min(batch, n - at), most = 0;
    for (int64_t i = 0; i < some; ++i) most = ronde__max(most, lengths[ids[at + i]]);
    for (int64_t i = 0; i < some; ++i) padding += most - lengths[ids[at + i]];
  }
  return padding;
}

static void check_batches(int64_t n, int64_t batch, bool drop_last) {
  ronde__sampler *by_length = make_by_length(n, batch, drop_last);
  ronde__sampler *drawn =
      make((ronde__sampler_options){.n_train = n, .batch = batch, .shuffle = true, .drop_last = drop_last, .seed = 5});
  int64_t n_epoch = ronde__sampler_epoch_examples(by_length), *before = NULL;
  for (int64_t epoch = 1; epoch <= 3; ++epoch) {
    int64_t *ids = epoch_ids(by_length, epoch), *again = epoch_ids(by_length, epoch), *plain = epoch_ids(drawn, epoch);
    int counts[1000] = {0};
    assert_memory_equal(ids, again, (size_t)n_epoch * sizeof *ids);
    for (int64_t i = 0; i < n_epoch; ++i) ++counts[ids[i]], --counts[plain[i]];
    for (int64_t i = 0; i < n; ++i) assert_int_equal(counts[i], 0); /* the examples of the epoch, each as often */
    if (batch > 1 && n > 4 * batch)
      assert_true(padding_of(ids, n_epoch, batch) < padding_of(plain, n_epoch, batch) / 3);
    if (before && n > batch) assert_memory_not_equal(ids, before, (size_t)n_epoch * sizeof *ids);
    free(before), free(again), free(plain);
    before = ids;
  }
  free(before);
  ronde__sampler_destroy(by_length), ronde__sampler_destroy(drawn);
}

static void test_batches_are_of_similar_length(void **state) {
  check_batches(1000, 10, false);
  check_batches(1000, 7, true);
  check_batches(997, 8, false);
  check_batches(30, 8, false);
  check_batches(5, 5, false);
  check_batches(40, 1, false);
}

/* The mean length of the worker that has the longest examples of a batch, above that of the one with the shortest. */
static double unevenness(const int64_t *ids, int64_t batch, int workers) {
  double least = INFINITY, most = 0;
  for (int w = 0; w < workers; ++w) {
    int64_t begin = ronde__shard_begin(batch, w, workers), end = ronde__shard_begin(batch, w + 1, workers), sum = 0;
    for (int64_t i = begin; i < end; ++i) sum += lengths[ids[i]];
    least = fmin(least, (double)sum / (double)(end - begin)), most = fmax(most, (double)sum / (double)(end - begin));
  }
  return most - least;
}

static int by_length(const void *a, const void *b) {
  return lengths[*(const int64_t *)a] - lengths[*(const int64_t *)b];
}

/* Of any batch, although it was sorted. */
static void test_workers_have_equal_work(void **state) {
  enum { N = 960, BATCH = 48 };
  ronde__sampler *sampler = make_by_length(N, BATCH, false);
  int64_t *ids = epoch_ids(sampler, 1);
  for (int workers = 2; workers <= 6; ++workers)
    for (int64_t at = 0; at < N; at += BATCH) {
      int64_t sorted[BATCH];
      memcpy(sorted, ids + at, sizeof sorted);
      qsort(sorted, BATCH, sizeof *sorted, by_length);
      double of_sorted = unevenness(sorted, BATCH, workers), own = unevenness(ids + at, BATCH, workers);
      if (!(own < of_sorted / 2)) fail_msg("%d workers: %g, sorted %g", workers, own, of_sorted);
    }
  free(ids);
  ronde__sampler_destroy(sampler);
}

/* Not all short examples come first, or last. */
static void test_batches_come_in_any_order(void **state) {
  ronde__sampler *sampler = make_by_length(1000, 10, false);
  int64_t *ids = epoch_ids(sampler, 1), n_rising = 0;
  for (int b = 1; b < 100; ++b) n_rising += lengths[ids[10 * b]] > lengths[ids[10 * b - 10]];
  assert_true(n_rising > 30 && n_rising < 70);
  free(ids);
  ronde__sampler_destroy(sampler);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_file_order_without_shuffle),
      cmocka_unit_test(test_each_id_as_often_as_repeated_in_any_order),
      cmocka_unit_test(test_the_seed_decides),
      cmocka_unit_test(test_drop_last_drops_the_end_of_the_same_order),
      cmocka_unit_test(test_validation_examples_are_kept_out),
      cmocka_unit_test(test_some_examples_are_drawn),
      cmocka_unit_test(test_validation_is_drawn_by_the_seed),
      cmocka_unit_test(test_each_class_keeps_its_share),
      cmocka_unit_test(test_impossible_options_are_named),
      cmocka_unit_test(test_batches_are_of_similar_length),
      cmocka_unit_test(test_workers_have_equal_work),
      cmocka_unit_test(test_batches_come_in_any_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
