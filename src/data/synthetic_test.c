/* The synthetic data set: the same bytes on every machine, and a task that can be learned. */
#include "data/testing.h"

#include "data/catalog.h"
#include "data/store.h"

static const bool both[2] = {true, true};

static ronde__store make(const char *spec, uint64_t seed) {
  ronde__set set;
  ronde__facts facts;
  ronde__store store;
  assert_int_equal(ronde__set_find(spec, seed, &set), RONDE_OK);
  assert_int_equal(set.kind->scan(&set, &facts), RONDE_OK);
  assert_int_equal(ronde__store_decode(&set, &facts, both, true, &store), RONDE_OK);
  ronde__set_release(&set);
  return store;
}

static void test_shape_and_counts(void **state) {
  ronde__store store = make("synthetic:3x7x5:4:11", 1);
  assert_int_equal(store.facts.n[0], 11);
  assert_int_equal(store.facts.n[1], 2);
  assert_true(store.facts.dims[0] == 3 && store.facts.dims[1] == 7 && store.facts.dims[2] == 5 && !store.facts.f32);
  for (int split = 0; split < 2; ++split)
    for (int64_t i = 0; i < store.facts.n[split]; ++i) assert_in_range(store.labels[split][i], 0, 3);
  ronde__store_close(&store);
  store = make("synthetic:1x1x1:1:1", 1);
  assert_int_equal(store.facts.n[1], 1);
  ronde__store_close(&store);
}

static void test_an_example_depends_on_seed_and_id_only(void **state) {
  enum { ELEMS = 2 * 6 * 6 };
  ronde__store small = make("synthetic:2x6x6:5:20", 7), large = make("synthetic:2x6x6:5:50", 7);
  ronde__store other = make("synthetic:2x6x6:5:20", 8);
  const int n[2] = {20, 4};
  for (int split = 0; split < 2; ++split) {
    assert_memory_equal(small.x[split], large.x[split], n[split] * ELEMS);
    assert_memory_equal(small.labels[split], large.labels[split], n[split] * 8);
  }
  assert_memory_not_equal(small.x[0], other.x[0], ELEMS);
  assert_memory_not_equal(small.x[0], small.x[1], ELEMS);
  assert_string_not_equal(small.sha256[0], other.sha256[0]);
  ronde__store_close(&small);
  ronde__store_close(&large);
  ronde__store_close(&other);
}

static void test_bytes_are_the_same_on_every_machine(void **state) {
  ronde__store store = make("synthetic:3x32x32:10:100", 1);
  assert_string_equal(store.sha256[0], "9c62f664ca4ab006d487660d81181c31e65a0ea730adc105ffc09538e68ba3dc");
  ronde__store_close(&store);
}

/* The nearest mean of the training images classifies most test images, but not all: the task is neither noise nor
 * trivial. */
static void test_it_can_be_learned(void **state) {
  enum { ELEMS = 28 * 28, CLASSES = 10, N = 2000, N_TEST = N / 5 };
  ronde__store store = make("synthetic:1x28x28:10:2000", 3);
  double *means = calloc(CLASSES * ELEMS, sizeof *means), counts[CLASSES] = {0};
  const uint8_t *train = store.x[0], *test = store.x[1];
  for (int i = 0; i < N; ++i) {
    counts[store.labels[0][i]] += 1;
    for (int p = 0; p < ELEMS; ++p) means[store.labels[0][i] * ELEMS + p] += train[i * ELEMS + p];
  }
  int right = 0;
  for (int i = 0; i < N_TEST; ++i) {
    int best = 0;
    double best_distance = 1e300;
    for (int k = 0; k < CLASSES; ++k) {
      double distance = 0;
      for (int p = 0; p < ELEMS; ++p) {
        double d = test[i * ELEMS + p] - means[k * ELEMS + p] / counts[k];
        distance += d * d;
      }
      if (distance < best_distance) best = k, best_distance = distance;
    }
    right += best == store.labels[1][i];
  }
  print_message("nearest mean: %d of %d\n", right, N_TEST);
  assert_in_range(right, N_TEST / 2, N_TEST - 1);
  free(means);
  ronde__store_close(&store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shape_and_counts),
      cmocka_unit_test(test_an_example_depends_on_seed_and_id_only),
      cmocka_unit_test(test_bytes_are_the_same_on_every_machine),
      cmocka_unit_test(test_it_can_be_learned),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
