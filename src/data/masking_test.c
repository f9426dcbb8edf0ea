/* Hidden tokens: how many, which, what stands for them; and that neither workers nor the cache change it. */
#include "data/testing.h"

#include "data/data.h"

#include <math.h>

enum { N = 40, MASK = 99, DRAWN = 90 };

static test_log lines;

static const ronde__masking some = {.share = 0.15, .token = MASK, .n_drawn = DRAWN, .seed = 5};

/* Tokens from 10 on; the label of each third place is ignored where asked. */
static void make_example(bool with_gaps, int32_t x[N], int64_t labels[N]) {
  for (int i = 0; i < N; ++i) {
    x[i] = 10 + i;
    labels[i] = with_gaps && i % 3 == 0 ? RONDE_IGNORED : 1;
  }
}

static void test_a_share_is_rounded_but_not_to_none(void **state) {
  const int64_t n[] = {0, 1, 2, 9, 10, 100, 128}, wanted[] = {0, 1, 1, 1, 2, 15, 19};
  for (size_t i = 0; i < RONDE__COUNT(n); ++i) assert_int_equal(ronde__masking_count(&some, n[i]), wanted[i]);
  ronde__masking all = some;
  all.share = 1;
  assert_int_equal(ronde__masking_count(&all, 7), 7);
}

static void test_labels_are_what_was_hidden(void **state) {
  for (int gaps = 0; gaps < 2; ++gaps)
    for (int64_t id = 0; id < 50; ++id) {
      int32_t x[N], old[N];
      int64_t labels[N], old_labels[N], told = 0, eligible = 0;
      make_example(gaps, x, labels);
      memcpy(old, x, sizeof x);
      memcpy(old_labels, labels, sizeof labels);
      ronde__masking_apply(&some, 1, id, N, x, labels);
      for (int i = 0; i < N; ++i) {
        eligible += old_labels[i] >= 0;
        told += labels[i] >= 0;
        if (labels[i] < 0) assert_true(labels[i] == RONDE_IGNORED && x[i] == old[i]);
        else assert_true(labels[i] == old[i] && old_labels[i] >= 0);
      }
      assert_int_equal(told, ronde__masking_count(&some, eligible));
    }
}

/* Standard deviations of these shares are below 0.003 of 1 and 0.012 of each place. */
static void test_eight_in_ten_are_hidden_and_one_is_random(void **state) {
  enum { EXAMPLES = 4000 };
  int64_t told = 0, hidden = 0, kept = 0, at[N] = {0}, drawn[DRAWN] = {0};
  for (int64_t id = 0; id < EXAMPLES; ++id) {
    int32_t x[N];
    int64_t labels[N];
    make_example(false, x, labels);
    ronde__masking_apply(&some, 1, id, N, x, labels);
    for (int i = 0; i < N; ++i) {
      if (labels[i] < 0) continue;
      ++told, ++at[i];
      hidden += x[i] == MASK;
      kept += x[i] == labels[i];
      if (x[i] != MASK && x[i] != labels[i]) ++drawn[x[i]];
    }
  }
  assert_int_equal(told, EXAMPLES * 6);
  assert_true(fabs((double)hidden / (double)told - 0.8) < 0.01);
  assert_true(fabs((double)kept / (double)told - 0.1 * (1 + 1. / DRAWN)) < 0.01);
  for (int i = 0; i < N; ++i) assert_true(fabs((double)at[i] / EXAMPLES - 0.15) < 0.03);
  for (int k = 0; k < DRAWN; ++k) assert_in_range(drawn[k], 1, 80); /* of 27 on average */
}

static bool hides_alike(const ronde__masking *a, int64_t epoch_a, int64_t id_a, const ronde__masking *b,
                        int64_t epoch_b, int64_t id_b) {
  int32_t x[2][N];
  int64_t labels[2][N];
  for (int i = 0; i < 2; ++i) make_example(false, x[i], labels[i]);
  ronde__masking_apply(a, epoch_a, id_a, N, x[0], labels[0]);
  ronde__masking_apply(b, epoch_b, id_b, N, x[1], labels[1]);
  return !memcmp(x[0], x[1], sizeof x[0]) && !memcmp(labels[0], labels[1], sizeof labels[0]);
}

static void test_it_is_a_function_of_seed_epoch_and_example(void **state) {
  ronde__masking other = some;
  other.seed = 6;
  assert_true(hides_alike(&some, 3, 7, &some, 3, 7));
  assert_false(hides_alike(&some, 3, 7, &some, 4, 7));
  assert_false(hides_alike(&some, 3, 7, &some, 3, 8));
  assert_false(hides_alike(&some, 3, 7, &other, 3, 7));
  assert_true(hides_alike(&some, 0, 7, &other, 0, 7)); /* a test hides the same whatever the seed */
}

/* ---- data sets --------------------------------------------------------------------------------------------------- */

enum { WINDOW = 16, BYTES = 400, EXAMPLES = 23 };

static char *folder;

static ronde__data *open_text(bool cache, double share, int64_t token, int64_t classes) {
  char *spec = ronde__format("text:%s/t.txt", folder);
  ronde__data *data;
  ronde__data_options options = {.spec = spec, .window = WINDOW, .cache = cache, .seed = 3};
  assert_int_equal(ronde__data_open(&options, &data), RONDE_OK);
  if (share > 0) assert_int_equal(ronde__data_mask(data, share, token, classes, 3), RONDE_OK);
  free(spec);
  return data;
}

static int make_text(void **state) {
  char text[BYTES];
  folder = test_folder_create();
  setenv("RONDE_CACHE_DIR", folder, 1);
  for (int i = 0; i < BYTES; ++i) text[i] = (char)('a' + i * i % 23);
  test_write(folder, "t.txt", text, BYTES);
  return 0;
}

static int remove_text(void **state) {
  test_folder_destroy(folder);
  return 0;
}

static void test_the_vocabulary_has_room_for_the_mask(void **state) {
  const int64_t tokens[] = {0, 103, 300, 0}, classes[] = {0, 0, 0, 500}, wanted[] = {257, 256, 301, 500},
                masks[] = {256, 103, 300, 256}, drawn[] = {256, 256, 300, 500};
  for (size_t i = 0; i < RONDE__COUNT(tokens); ++i) {
    ronde__data *data = open_text(true, 0.2, tokens[i], classes[i]);
    assert_int_equal(data->source.vocabulary, wanted[i]);
    assert_int_equal(data->source.classes, wanted[i]);
    assert_int_equal(data->masking.token, masks[i]);
    assert_int_equal(data->masking.n_drawn, drawn[i]);
    /* 3 of 16 tokens; of the last example, of which 6 are inside, 1 */
    assert_true(ronde__data_label_weight(data, RONDE_SPLIT_TRAIN, NULL, EXAMPLES) == (float)(23. / (22 * 3 + 1)));
    assert_true(ronde__data_label_weight(data, RONDE_SPLIT_TEST, NULL, 3) == (float)(3. / (2 * 3 + 1)));
    ronde__data_close(data);
  }
}

/* What all ranks of a world read of an epoch, by example. */
static void gather(const ronde__data *data, int world, int64_t epoch, int32_t x[EXAMPLES][WINDOW],
                   int64_t labels[EXAMPLES][WINDOW]) {
  ronde__sampler_options options = {.n_train = EXAMPLES, .repeat = 1, .batch = 7, .shuffle = true, .seed = 3};
  ronde__sampler *sampler;
  int64_t ids[EXAMPLES];
  assert_int_equal(ronde__sampler_create(&options, &sampler), RONDE_OK);
  assert_int_equal(ronde__sampler_epoch(sampler, epoch, ids), RONDE_OK);
  for (int rank = 0; rank < world; ++rank) {
    ronde__loader *loader;
    ronde__loader_options lo = {
        .data = (ronde__data *)data, .sampler = sampler, .rank = rank, .world = world, .first_epoch = epoch};
    assert_int_equal(ronde__loader_create(&lo, &loader), RONDE_OK);
    for (int64_t k = 0; k < 4; ++k) {
      ronde__batch b;
      assert_int_equal(ronde__loader_next(loader, &b), RONDE_OK);
      const int64_t *own = ids + 7 * k + ronde__shard_begin(b.global_n, rank, world);
      for (int64_t i = 0; i < b.n; ++i) {
        memcpy(x[own[i]], b.x + i * WINDOW, sizeof x[0]);
        memcpy(labels[own[i]], b.labels + i * WINDOW, sizeof labels[0]);
      }
    }
    ronde__loader_destroy(loader);
  }
  ronde__sampler_destroy(sampler);
}

static void test_workers_and_cache_change_nothing(void **state) {
  static int32_t x[EXAMPLES][WINDOW], wanted[EXAMPLES][WINDOW];
  static int64_t labels[EXAMPLES][WINDOW], wanted_labels[EXAMPLES][WINDOW];
  int64_t ids[EXAMPLES];
  for (int64_t i = 0; i < EXAMPLES; ++i) ids[i] = i;
  ronde__data *plain = open_text(true, 0, 0, 0);
  ronde__masking masking = {0.2, 256, 256, 3};
  for (int64_t epoch = 0; epoch <= 2; ++epoch) {
    assert_int_equal(
        ronde__data_read(plain, RONDE_SPLIT_TRAIN, ids, EXAMPLES, (float *)(void *)wanted, wanted_labels[0], NULL),
        RONDE_OK);
    for (int i = 0; i < EXAMPLES; ++i) ronde__masking_apply(&masking, epoch, i, WINDOW, wanted[i], wanted_labels[i]);
    for (int cache = 0; cache < 2; ++cache)
      for (int world = 1; world <= 3; ++world) {
        ronde__data *data = open_text(cache, 0.2, 0, 0);
        if (epoch) gather(data, world, epoch, x, labels);
        else /* what an evaluation reads */
          assert_int_equal(
              ronde__data_read(data, RONDE_SPLIT_TRAIN, ids, EXAMPLES, (float *)(void *)x, labels[0], NULL), RONDE_OK);
        assert_memory_equal(x, wanted, sizeof x);
        assert_memory_equal(labels, wanted_labels, sizeof labels);
        ronde__data_close(data);
      }
  }
  ronde__data_close(plain);
}

static void test_images_have_nothing_to_hide(void **state) {
  ronde__data *data;
  ronde__data_options options = {.spec = "synthetic:1x4x9:2:5"};
  assert_int_equal(ronde__data_open(&options, &data), RONDE_OK);
  test_log_start(&lines);
  check_failed(&lines, ronde__data_mask(data, 0.2, 0, 0, 1), RONDE_E_USAGE, "--mask", "no sequences of tokens");
  ronde__data_close(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_share_is_rounded_but_not_to_none),
      cmocka_unit_test(test_labels_are_what_was_hidden),
      cmocka_unit_test(test_eight_in_ten_are_hidden_and_one_is_random),
      cmocka_unit_test(test_it_is_a_function_of_seed_epoch_and_example),
      cmocka_unit_test(test_the_vocabulary_has_room_for_the_mask),
      cmocka_unit_test(test_workers_and_cache_change_nothing),
      cmocka_unit_test(test_images_have_nothing_to_hide),
  };
  return cmocka_run_group_tests(tests, make_text, remove_text);
}
