/* The ledger of whole runs: planted delays must appear where they were planted, and nothing may be lost. Times are
 * only compared with delays of tens of milliseconds and with each other, by wide margins; and since other processes may
 * take the cores away at any time, one of some attempts is enough: a wrong ledger is wrong in all of them. */
#include "train_testing.h"

#include <stdatomic.h>
#include <time.h>

static char *folder; /* of each test */

static int make_folder(void **state) {
  folder = test_folder_create();
  return 0;
}

static int remove_folder(void **state) {
  test_folder_destroy(folder);
  return 0;
}

static const char *const worker_phases[] = {"load_s", "forward_s", "backward_s", "exchange_s",
                                            "wait_s", "update_s",  "other_s"};

/* run.json of a run of the small network. One thread a rank: two that wait for each other take long where the cores are
 * taken away, and would hide the delays. */
static json_t *train_hooked(const char *options, const ronde_hooks *hooks) {
  char *all = ronde__format("threads=1 %s", options);
  json_t *run = job_run("train", all, hooks);
  free(all);
  return run;
}

static json_t *train_small(const char *options, const ronde_source *source) {
  ronde_hooks hooks = {.model = small_model, .source = source};
  return train_hooked(options, &hooks);
}

static double sum_over(json_t *rows, const char *field) {
  double sum = 0;
  size_t i;
  json_t *row;
  json_array_foreach(rows, i, row) sum += real_at(row, field);
  return sum;
}

enum { ATTEMPTS = 8 };

/* An attempt returns NULL, or what did not hold. */
static void check_once(const char *(*attempt)(const void *arg), const void *arg) {
  const char *wrong = "";
  for (int i = 0; i < ATTEMPTS && wrong; ++i) wrong = attempt(arg);
  if (wrong) fail_msg("never: %s", wrong);
}

#define HOLDS(condition) \
  do {                   \
    if (!(condition)) {  \
      json_decref(run);  \
      return #condition; \
    }                    \
  } while (0)

/* ---- sums -------------------------------------------------------------------------------------------------------- */

static void check_rows_add_up(json_t *run) {
  static const char *const epoch_phases[] = {"load_s",          "forward_s", "backward_s",
                                             "communication_s", "update_s",  "other_s"};
  size_t i;
  json_t *row, *epochs = json_at(run, "epochs"), *workers = json_at(run, "workers");
  json_array_foreach(epochs, i, row) {
    double sum = 0;
    for (size_t p = 0; p < RONDE__COUNT(epoch_phases); ++p) sum += real_at(row, epoch_phases[p]);
    assert_true(fabs(sum / real_at(row, "wall_s") - 1) < 0.01);
    double rate = real_at(row, "examples") / real_at(row, "wall_s");
    assert_true(fabs(real_at(row, "examples_per_s") / rate - 1) < 1e-6);
  }
  double n_workers = (double)json_array_size(workers);
  json_array_foreach(workers, i, row) {
    double sum = 0;
    for (size_t p = 0; p < RONDE__COUNT(worker_phases); ++p) sum += real_at(row, worker_phases[p]);
    assert_true(fabs(sum / real_at(row, "wall_s") - 1) < 0.01);
  }
  /* Phases of an epoch are means over the workers. */
  for (size_t p = 0; p < RONDE__COUNT(epoch_phases); ++p) {
    if (!strcmp(epoch_phases[p], "communication_s")) continue;
    assert_true(fabs(sum_over(epochs, epoch_phases[p]) - sum_over(workers, epoch_phases[p]) / n_workers) < 1e-6);
  }
  double communication = sum_over(workers, "exchange_s") + sum_over(workers, "wait_s");
  assert_true(fabs(sum_over(epochs, "communication_s") - communication / n_workers) < 1e-6);
}

/* The clock beside the ledger: what passes between the first step and the end of the last epoch. */
static double elapsed_s;
static void note_elapsed(void *user, const ronde_progress *progress) { elapsed_s = progress->elapsed_s; }

static const char *phases_sum_to_the_wall(const void *options) {
  ronde_source source = small_source(64, 16);
  ronde_hooks hooks = {.model = small_model, .source = &source, .progress = note_elapsed};
  json_t *run = train_hooked(options, &hooks);
  check_rows_add_up(run);
  double kept = sum_over(json_at(run, "epochs"), "wall_s") + sum_over(json_at(run, "epochs"), "eval_s");
  HOLDS(fabs(kept / elapsed_s - 1) < 0.01);
  json_decref(run);
  return NULL;
}

static void test_phases_sum_to_the_wall(void **state) {
  static const char *const cases[] = {"batch=8 epochs=2 drill=load:15", "batch=8 epochs=2 drill=slow:0:15",
                                      "batch=8 epochs=2 workers=3 overlap=on drill=slow:1:15",
                                      "batch=4 accumulate=2 epochs=2 workers=2 drill=slow:0:8"};
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i) check_once(phases_sum_to_the_wall, cases[i]);
}

/* ---- planted delays ---------------------------------------------------------------------------------------------- */

static const char *slow_source(const void *arg) {
  ronde_source source = small_source(40, 8);
  json_t *run = train_small("batch=4 drill=load:30", &source);
  double load = real_at(run, "epochs.0.load_s"), wall = real_at(run, "epochs.0.wall_s");
  HOLDS(load > 0.5 * 10 * 0.030);
  HOLDS(load > 0.5 * wall);
  json_decref(run);
  return NULL;
}

static void test_a_slow_source_shows_in_load(void **state) { check_once(slow_source, NULL); }

/* Loading takes a sixth of a step, so that the thread that reads ahead has all batches in time. */
static const char *hidden_loading(const void *arg) {
  ronde_source source = small_source(40, 8);
  json_t *run = train_small("batch=4 drill=load:5,slow:0:30", &source);
  double load = real_at(run, "epochs.0.load_s"), forward = real_at(run, "epochs.0.forward_s");
  assert_true(forward > 0.9 * 10 * 0.030);
  HOLDS(load < 0.1 * real_at(run, "epochs.0.wall_s"));
  json_decref(run);
  return NULL;
}

static void test_prefetching_hides_loading(void **state) { check_once(hidden_loading, NULL); }

/* 10 steps of 50 ms: rank 1 computes, the others wait for it, and nobody's data move slowly. */
static const char *slow_rank(const void *options) {
  const double delay = 10 * 0.050;
  ronde_source source = small_source(60, 8);
  json_t *run = train_small(options, &source), *workers = json_at(run, "workers"), *row;
  size_t i;
  json_array_foreach(workers, i, row) {
    if (strcmp(text_at(row, "role"), "worker")) continue;
    assert_true(i < 3);
    double forward = real_at(row, "forward_s"), wait = real_at(row, "wait_s"), exchange = real_at(row, "exchange_s");
    if (i == 1) {
      assert_true(forward > 0.9 * delay);
      HOLDS(wait < 0.4 * delay);
    } else {
      HOLDS(forward < 0.4 * delay);
      HOLDS(wait > 0.6 * delay);
    }
    HOLDS(exchange < 0.4 * delay);
  }
  json_decref(run);
  return NULL;
}

static void test_a_slow_rank_shows_in_its_forward_and_in_the_waiting_of_others(void **state) {
  check_once(slow_rank, "batch=6 workers=3 drill=slow:1:50 overlap=on");
  check_once(slow_rank, "batch=6 workers=3 drill=slow:1:50 overlap=off");
  check_once(slow_rank, "batch=6 workers=3 drill=slow:1:50 overlap=on bucket-mb=0.001");
  check_once(slow_rank, "batch=6 workers=3 drill=slow:1:50 strategy=ps-sync servers=2");
}

/* ---- who was late ------------------------------------------------------------------------------------------------ */

typedef struct culprit {
  const char *options, *cause;
  ronde_model_fn model;
} culprit;

/* 10 steps, in which rank 1 is late by 50 ms each: it is the one that is named, with the right cause. */
static const char *named_culprit(const void *arg) {
  const culprit *c = arg;
  const double delay = 10 * 0.050;
  ronde_source source = small_source(60, 0);
  ronde_hooks hooks = {.model = c->model, .source = &source};
  json_t *run = train_hooked(c->options, &hooks);
  double waited = real_at(run, "workers.1.late.waited_s");
  double steps[] = {real_at(run, "workers.0.late.steps"), real_at(run, "workers.1.late.steps"),
                    real_at(run, "workers.2.late.steps")};
  assert_int_equal((int)(steps[0] + steps[1] + steps[2]), 10);
  HOLDS(steps[1] >= 8);
  HOLDS(waited > 0.6 * delay);
  HOLDS(real_at(run, "workers.1.late.waited_median_s") > 0.6 * 0.050);
  HOLDS(!strcmp(text_at(run, "workers.1.late.cause"), c->cause));
  char *field = ronde__format("workers.1.late.%s_s", c->cause);
  double above = real_at(run, field);
  free(field);
  HOLDS(above > 0.6 * waited);
  HOLDS(real_at(run, "workers.0.late.waited_s") < 0.4 * waited);
  HOLDS(real_at(run, "workers.2.late.waited_s") < 0.4 * waited);
  json_decref(run);
  return NULL;
}

static ronde_tensor *normed_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  x = ronde_conv2d(x, "conv1", &(ronde_conv2d_options){.out_channels = 5, .kernel = {3, 3}});
  x = ronde_relu(ronde_batch_norm2d(x, "bn1", NULL));
  return ronde_linear(ronde_flatten(x), "fc1", classes, true);
}

static void test_the_late_rank_is_named_with_its_cause(void **state) {
  static const culprit culprits[] = {
      {"batch=6 workers=3 drill=slow:1:50 overlap=on", "compute", small_model},
      {"batch=6 workers=3 drill=slow:1:50 overlap=off bucket-mb=0.001", "compute", small_model},
      {"batch=6 workers=3 drill=load:1:50 overlap=on", "load", small_model},
      {"batch=6 workers=3 drill=slow:1:50 sync-bn=on", "compute", normed_model},
      {"batch=6 workers=3 drill=slow:1:50 strategy=ps-sync servers=2", "compute", small_model},
      {"batch=6 workers=3 drill=load:1:50 strategy=ps-sync", "load", small_model},
  };
  for (size_t i = 0; i < RONDE__COUNT(culprits); ++i) check_once(named_culprit, &culprits[i]);
}

static void test_nobody_is_late_where_nobody_waits(void **state) {
  static const char *const cases[] = {"batch=6", "batch=6 workers=2 strategy=ps-async drill=slow:1:5",
                                      "batch=6 workers=3 strategy=ps-sync backup=1 drill=slow:1:5"};
  ronde_source source = small_source(24, 0);
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i) {
    json_t *run = train_small(cases[i], &source), *row;
    size_t rank;
    json_array_foreach(json_at(run, "workers"), rank, row) assert_true(json_is_null(json_at(row, "late")));
    json_decref(run);
  }
}

/* A source whose last test examples take long to read: on the rank whose share they are. */
typedef struct late {
  int64_t from; /* the first id that is late */
  atomic_int n_reads;
} late;

static ronde_status late_read(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                              float *targets) {
  late *l = user;
  if (split == RONDE_SPLIT_TEST && ids[0] >= l->from) {
    atomic_fetch_add(&l->n_reads, 1);
    nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
  }
  return small_read(NULL, split, ids, n, x, labels, targets);
}

static const char *slow_evaluation(const void *options) {
  late last = {.from = 8};
  ronde_source source = small_source(16, 16);
  source.read = late_read;
  source.user = &last;
  json_t *run = train_small(options, &source);
  double delay = 0.060 * last.n_reads;
  assert_true(last.n_reads >= 3);
  assert_true(sum_over(json_at(run, "epochs"), "eval_s") > 0.9 * delay);
  assert_true(real_at(run, "totals.wall_s") > 0.9 * delay);
  HOLDS(sum_over(json_at(run, "epochs"), "wall_s") < 0.3 * delay);
  json_decref(run);
  return NULL;
}

/* Nor is it time of training where a rank that has evaluated its share waits for the slowest. */
static void test_evaluation_stands_apart(void **state) {
  check_once(slow_evaluation, "batch=8 epochs=3");
  check_once(slow_evaluation, "batch=8 epochs=3 workers=2");
}

static ronde_tensor *flat_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  return ronde_linear(ronde_flatten(x), "fc1", classes, true);
}

/* Pixels of four random bits each: slow to unpack. */
static void write_noise(int64_t n) {
  size_t bytes = (size_t)n * 28 * 28;
  uint8_t *x = malloc(bytes), *y = calloc((size_t)n, 1);
  uint32_t bits = 1;
  for (size_t i = 0; i < bytes; ++i) x[i] = (uint8_t)((bits = bits * 1664525u + 1013904223u) >> 28);
  test_bytes images = test_idx(3, (uint32_t[]){(uint32_t)n, 28, 28}, x, bytes);
  test_bytes labels = test_idx(1, (uint32_t[]){(uint32_t)n}, y, (size_t)n);
  test_write_bytes(folder, "train-images-idx3-ubyte.gz", test_gzip(images.data, images.n));
  test_write_bytes(folder, "train-labels-idx1-ubyte.gz", test_gzip(labels.data, labels.n));
  free(images.data);
  free(labels.data);
  free(x);
  free(y);
}

static double load_of_gz(bool cache) {
  char *options = ronde__format("data=mnist:%s batch=100 steps=2 cache=%s", folder, cache ? "on" : "off");
  ronde_hooks hooks = {.model = flat_model};
  json_t *run = train_hooked(options, &hooks);
  double load = sum_over(json_at(run, "epochs"), "load_s");
  json_decref(run);
  free(options);
  return load;
}

/* Without the cache an epoch begins with unpacking the files: here for two small batches of them. */
static const char *decoding(const void *arg) {
  double off = load_of_gz(false), on = load_of_gz(true);
  return off > 3 * on ? NULL : "off > 3 * on";
}

static void test_decoding_shows_without_the_cache(void **state) {
  setenv("RONDE_CACHE_DIR", folder, 1);
  write_noise(10000);
  test_write_idx_pair(folder, "t10k", 10, 28, 28, 10, true);
  check_once(decoding, NULL);
  unsetenv("RONDE_CACHE_DIR");
}

/* ---- ops and spans ----------------------------------------------------------------------------------------------- */

static void test_ops_lie_inside_their_phases(void **state) {
  ronde_source source = small_source(64, 64);
  json_t *run = train_small("batch=8 epochs=2 workers=2 optimizer=adam", &source), *row;
  static const char *const phases[] = {"forward", "backward", "update"};
  for (size_t p = 0; p < RONDE__COUNT(phases); ++p) {
    double ops = 0;
    size_t i;
    json_array_foreach(json_at(run, "ops"), i, row) {
      assert_true(*text_at(row, "op") && *text_at(row, "implementation"));
      if (strcmp(text_at(row, "phase"), phases[p])) continue;
      ops += real_at(row, "seconds");
      /* 16 steps of 2 workers; several tensors may share a row. */
      assert_int_equal((int)real_at(row, "calls") % 32, 0);
    }
    char *field = ronde__format("%s_s", phases[p]);
    double phase = sum_over(json_at(run, "workers"), field);
    free(field);
    assert_true(ops > 0);
    assert_true(ops <= phase * 1.0001);
  }
  json_decref(run);
}

/* Of an op with several forms, a row tells which one; of another, its kernels alone. */
static void test_ops_name_their_forms(void **state) {
  ronde_source source = small_source(64, 64);
  json_t *run = train_small("batch=8 epochs=1", &source), *row;
  int n_convolutions = 0;
  size_t i;
  json_array_foreach(json_at(run, "ops"), i, row) {
    bool is_named = strncmp(text_at(row, "implementation"), "lanes ", 6) == 0;
    bool is_convolution = strncmp(text_at(row, "op"), "convolution", 11) == 0;
    assert_int_equal(is_named, is_convolution);
    n_convolutions += is_convolution;
  }
  assert_true(n_convolutions > 0);
  json_decref(run);
}

/* Microseconds of each phase and rank in the trace. */
static void sum_trace(json_t *trace, double us[3][RONDE__N_PHASES], int n_ops[3]) {
  size_t i;
  json_t *event;
  json_array_foreach(json_at(trace, "traceEvents"), i, event) {
    int rank = (int)real_at(event, "pid");
    assert_in_range(rank, 0, 2);
    if (strcmp(text_at(event, "ph"), "X")) continue;
    assert_true(real_at(event, "ts") >= 0);
    const char *name = text_at(event, "name");
    bool is_phase = false;
    for (int p = 0; p < RONDE__N_PHASES; ++p)
      if (real_at(event, "tid") == 0 && !strcmp(name, ronde__phase_name((ronde__phase)p))) {
        us[rank][p] += real_at(event, "dur");
        is_phase = true;
      }
    n_ops[rank] += !is_phase;
  }
}

static void test_trace_holds_all_ranks(void **state) {
  ronde_source source = small_source(60, 9);
  char *options = ronde__format("batch=6 epochs=2 workers=3 overlap=on trace=on drill=slow:2:5 out=%s/run", folder);
  char *run_folder = ronde__format("%s/run", folder);
  json_decref(train_small(options, &source));
  json_t *run = json_file(run_folder, "run.json"), *trace = json_file(run_folder, "trace.json");
  double us[3][RONDE__N_PHASES] = {{0}};
  int n_ops[3] = {0};
  sum_trace(trace, us, n_ops);
  for (int rank = 0; rank < 3; ++rank) {
    json_t *row = json_array_get(json_at(run, "workers"), (size_t)rank);
    assert_true(n_ops[rank] > 100);
    for (int p = 0; p <= RONDE__PHASE_UPDATE; ++p) {
      char *field = ronde__format("%s_s", ronde__phase_name((ronde__phase)p));
      double difference = fabs(us[rank][p] * 1e-6 - real_at(row, field));
      if (difference > 0.01 * real_at(row, field) + 1e-4)
        fail_msg("rank %d: the trace and run.json differ by %g in %s", rank, difference, field);
      free(field);
    }
  }
  json_decref(run);
  json_decref(trace);
  free(options);
  free(run_folder);
}

/* ---- steps.jsonl ------------------------------------------------------------------------------------------------- */

static char expected_loss[64][32];

static void note_loss(void *user, const ronde_progress *progress) {
  if (!progress->epoch_end) snprintf(expected_loss[progress->step], 32, "%.9g", progress->loss);
}

/* Significant digits of a decimal number. */
static int digits_of(const char *text) {
  int n = 0;
  for (; *text && *text != 'e'; ++text) n += *text >= '0' && *text <= '9' && !(n == 0 && *text == '0');
  return n;
}

static void check_line(const char *line, int step) {
  int n, epoch, examples;
  char loss[32], lr[32], wall[32];
  const char *form = "{\"step\":%d,\"epoch\":%d,\"loss\":%31[^,],\"lr\":%31[^,],\"examples\":%d,\"wall_s\":%31[^}]}\n";
  assert_int_equal(sscanf(line, form, &n, &epoch, loss, lr, &examples, wall), 6);
  assert_int_equal(n, step);
  assert_int_equal(epoch, (step - 1) / 4 + 1);
  assert_int_equal(examples, step % 4 ? 6 : 2);
  assert_string_equal(loss, expected_loss[step]);
  assert_in_range(digits_of(loss), 7, 9);
  assert_true(strtod(lr, NULL) == 0.05);
  assert_true(strtod(wall, NULL) > 0);
}

static void test_a_line_for_each_step(void **state) {
  ronde_source source = small_source(20, 0);
  char *options = ronde__format("batch=6 epochs=3 workers=2 lr=0.05 out=%s/run", folder), *line = NULL;
  char *path = ronde__format("%s/run/steps.jsonl", folder);
  ronde_hooks hooks = {.model = small_model, .source = &source, .progress = note_loss};
  json_t *run = train_hooked(options, &hooks);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  size_t capacity = 0;
  int n = 0;
  double examples = 0;
  while (getline(&line, &capacity, file) > 0) check_line(line, ++n);
  assert_int_equal(n, 12);
  assert_int_equal((int)real_at(run, "totals.steps"), 12);
  examples = real_at(run, "totals.examples");
  assert_int_equal((int)examples, 60);
  assert_true(fabs(sum_over(json_at(run, "workers"), "examples") - examples) < 0.5);
  fclose(file);
  free(line);
  free(path);
  free(options);
  json_decref(run);
}

/* Whether an exchange within one host has a core to itself. */
static void test_overlap_by_rule(void **state) {
  ronde_source source = small_source(20, 0);
  for (int threads = 1; threads <= 2; threads++) {
    char *options = ronde__format("batch=6 workers=2 threads=%d", threads);
    json_t *run = train_small(options, &source);
    assert_string_equal(text_at(run, "config.overlap"), ronde__cores() > 2 * threads ? "on" : "off");
    json_decref(run);
    free(options);
  }
  json_t *run = train_small("batch=6 workers=2 threads=1 strategy=ps-sync", &source);
  assert_string_equal(text_at(run, "config.overlap"), "on");
  json_decref(run);
}

/* The epoch's loss is the mean over its examples of the losses before each update. */
static void test_train_loss_is_weighted_by_examples(void **state) {
  ronde_source source = small_source(20, 0);
  char *options = ronde__format("batch=6 workers=2 lr=0.3 out=%s/run", folder);
  char *run_folder = ronde__format("%s/run", folder);
  json_t *run = train_small(options, &source), *steps = steps_file(run_folder), *step;
  double sum = 0;
  size_t i;
  json_array_foreach(steps, i, step) sum += real_at(step, "loss") * real_at(step, "examples");
  assert_true(fabs(sum / 20 - real_at(run, "epochs.0.train_loss")) < 1e-7);
  json_decref(run);
  json_decref(steps);
  free(options);
  free(run_folder);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(test_phases_sum_to_the_wall),
      TEST(test_a_slow_source_shows_in_load),
      TEST(test_prefetching_hides_loading),
      TEST(test_a_slow_rank_shows_in_its_forward_and_in_the_waiting_of_others),
      TEST(test_the_late_rank_is_named_with_its_cause),
      TEST(test_nobody_is_late_where_nobody_waits),
      TEST(test_evaluation_stands_apart),
      TEST(test_decoding_shows_without_the_cache),
      TEST(test_ops_lie_inside_their_phases),
      TEST(test_ops_name_their_forms),
      TEST(test_trace_holds_all_ranks),
      TEST(test_a_line_for_each_step),
      TEST(test_overlap_by_rule),
      TEST(test_train_loss_is_weighted_by_examples),
  };
#undef TEST
  return cmocka_run_group_tests(tests, NULL, NULL);
}
