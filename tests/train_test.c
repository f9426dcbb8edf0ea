/* Whole jobs through the public API: train, eval, predict and init with own networks, own data and callbacks, how they
 * end, and what they hand to each other. */
#include "lib/folder.h"
#include "train_testing.h"

#include <stdatomic.h>

#include "io/safetensors.h"
#include "io/sha256.h"

/* Options with the test's folder for each %s; valid until the next call but three. */
static const char *in_folder(const char *options) {
  static char texts[4][1024];
  static int next;
  char *text = texts[next = (next + 1) % 4];
  size_t used = 0;
  for (const char *p = options; *p && used < 900; ++p) {
    if (p[0] == '%' && p[1] == 's') {
      used += (size_t)snprintf(text + used, 1024 - used, "%s", folder);
      ++p;
    } else {
      text[used++] = *p;
    }
  }
  text[used] = '\0';
  return text;
}

static ronde_status train_status(const char *options, const ronde_hooks *hooks, json_t **json_out) {
  ronde_config *config = config_make("train", options);
  char *text = NULL;
  ronde_status status = ronde_train(config, hooks, &text);
  ronde_config_destroy(config);
  *json_out = text ? json_of(text) : NULL;
  return status;
}

/* ---- callbacks --------------------------------------------------------------------------------------------------- */

typedef struct heard {
  int n_steps, n_epochs, n_cancel_calls, cancel_at;
  double last_accuracy, last_test_loss, first_loss, last_loss;
} heard;

static void hear_progress(void *user, const ronde_progress *p) {
  heard *h = user;
  assert_true(p->steps == 12 && p->elapsed_s >= 0 && p->left_s >= 0 && p->examples_per_s > 0 && p->lr == 0.1);
  if (p->epoch_end) {
    ++h->n_epochs;
    assert_int_equal(p->epoch, h->n_epochs);
    assert_int_equal(p->step, 4 * h->n_epochs);
    h->last_accuracy = p->test_accuracy;
    h->last_test_loss = p->test_loss;
    return;
  }
  assert_int_equal(p->step, ++h->n_steps);
  assert_int_equal(p->epoch, (p->step - 1) / 4 + 1);
  if (h->n_steps == 1) h->first_loss = p->loss;
  h->last_loss = p->loss;
}

static bool hear_cancel(void *user) {
  heard *h = user;
  return ++h->n_cancel_calls == h->cancel_at;
}

static void check_callbacks(int workers, bool values) {
  heard h = {0};
  ronde_source source = values ? small_values(30, 12) : small_source(30, 12);
  ronde_hooks hooks = {.model = values ? small_regression : small_model,
                       .source = &source,
                       .progress = hear_progress,
                       .cancel = hear_cancel,
                       .user = &h};
  char options[128];
  snprintf(options, sizeof options, "batch=8 epochs=3 lr=0.1 workers=%d", workers);
  json_t *run = job_run("train", options, &hooks);
  assert_int_equal(h.n_steps, 12);
  assert_int_equal(h.n_epochs, 3);
  assert_int_equal(h.n_cancel_calls, 12);
  assert_int_equal(lines.n_errors, 0);
  assert_string_equal(text_at(run, "schema"), "ronde.run.v1");
  assert_string_equal(text_at(run, "status"), "completed");
  assert_string_equal(text_at(run, "model.name"), "custom");
  assert_string_equal(text_at(run, "data.name"), "small");
  assert_int_equal((int)real_at(run, "data.train_examples"), 30);
  assert_int_equal((int)real_at(run, "world.workers"), workers);
  assert_int_equal(json_array_size(json_at(run, "workers")), workers);
  assert_int_equal((int)real_at(run, "totals.steps"), 12);
  assert_true(fabs(real_at(run, "result.test_loss") - h.last_test_loss) < 1e-12);
  assert_true(json_is_null(json_at(run, "result.test_accuracy")) == values);
  if (values) {
    assert_true(h.last_accuracy < 0);
    assert_true(h.last_loss < 0.7 * h.first_loss);
    assert_true(json_is_null(json_at(run, "data.classes")));
  } else {
    assert_true(h.last_accuracy >= 0 && h.last_accuracy <= 1);
    assert_true(fabs(real_at(run, "result.test_accuracy") - h.last_accuracy) < 1e-12);
  }
  json_decref(run);
}

static void test_callbacks_of_a_run(void **state) {
  for (int workers = 1; workers <= 3; ++workers) {
    check_callbacks(workers, false);
    check_callbacks(workers, true);
  }
}

static void test_no_callbacks_no_json(void **state) {
  ronde_source source = small_source(10, 0);
  ronde_hooks hooks = {.model = small_model, .source = &source};
  ronde_config *config = config_make("train", "batch=5 workers=2");
  assert_int_equal(ronde_train(config, &hooks, NULL), RONDE_OK);
  ronde_config_destroy(config);
}

/* The step under way is finished, and what there is is written. */
static void check_cancelled(int workers) {
  heard h = {.cancel_at = 6};
  ronde_source source = small_source(30, 12);
  ronde_hooks hooks = {.model = small_model, .source = &source, .cancel = hear_cancel, .user = &h};
  char options[64];
  snprintf(options, sizeof options, "batch=8 epochs=100 workers=%d", workers);
  char *all = ronde__format("%s overwrite=on out=%s/run save=%s/w.safetensors", options, folder, folder);
  json_t *run, *eval;
  assert_int_equal(train_status(all, &hooks, &run), RONDE_E_CANCELLED);
  free(all);
  assert_non_null(run);
  assert_string_equal(text_at(run, "status"), "interrupted");
  assert_int_equal((int)real_at(run, "totals.steps"), 6);
  assert_int_equal(json_array_size(json_at(run, "epochs")), 2);
  assert_true(json_is_null(json_at(run, "epochs.1.test_loss")));
  json_t *kept = json_file(in_folder("%s/run"), "run.json"), *steps = steps_file(in_folder("%s/run"));
  assert_true(json_equal(kept, run));
  assert_int_equal(json_array_size(steps), 6);
  assert_int_equal((int)real_at(run, "checkpoints.last_step"), 6);
  assert_int_equal(unlink(in_folder("%s/run/checkpoints/step-6.safetensors")), 0);
  eval = job_run("eval", in_folder("init=%s/w.safetensors"), &hooks);
  assert_string_equal(text_at(eval, "weights_sha256"), text_at(run, "result.weights_sha256"));
  json_decref(eval);
  json_decref(kept);
  json_decref(steps);
  json_decref(run);
}

static void test_cancelling(void **state) {
  check_cancelled(1);
  check_cancelled(3);
}

static void check_eval_cancelled(int workers) {
  heard h = {.cancel_at = 2};
  ronde_source source = small_source(30, 12);
  ronde_hooks hooks = {.model = small_model, .source = &source, .cancel = hear_cancel, .user = &h};
  char *options = ronde__format("init=%s/w batch=3 workers=%d", folder, workers), *text = NULL;
  ronde_config *config = config_make("eval", options);
  assert_int_equal(ronde_eval(config, &hooks, &text), RONDE_E_CANCELLED);
  assert_null(text);
  ronde_config_destroy(config);
  free(options);
}

static void test_cancelling_evaluation(void **state) {
  ronde_source source = small_source(30, 12);
  ronde_hooks hooks = {.model = small_model, .source = &source};
  json_decref(job_run("train", in_folder("batch=10 save=%s/w"), &hooks));
  check_eval_cancelled(1);
  check_eval_cancelled(3);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

typedef struct broken_source {
  ronde_status status;
  ronde_split split;
  int64_t id;    /* whose reading fails */
  int64_t label; /* instead of failing, where status is RONDE_OK */
} broken_source;

static ronde_status broken_read(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                                float *targets) {
  const broken_source *b = user;
  RONDE_TRY(small_read(NULL, split, ids, n, x, labels, targets));
  for (int64_t i = 0; i < n; ++i) {
    if (split != b->split || ids[i] != b->id) continue;
    if (b->status != RONDE_OK) return b->status;
    labels[i] = b->label;
  }
  return RONDE_OK;
}

/* All ranks end, long before a wait for a lost one would. */
static void check_broken(const broken_source *b, ronde_status wanted, int workers) {
  ronde_source source = small_source(64, 16);
  source.read = broken_read;
  source.user = (void *)b;
  ronde_hooks hooks = {.model = small_model, .source = &source};
  char *options = ronde__format("batch=8 epochs=2 shuffle=off workers=%d overwrite=on out=%s/run", workers, folder);
  json_t *run;
  uint64_t begin = ronde__now_ns();
  assert_int_equal(train_status(options, &hooks, &run), wanted);
  assert_true(ronde__now_ns() - begin < 30000000000u);
  if (lines.n_errors != 1) fail_msg("%d lines, the last: %s", lines.n_errors, lines.error);
  assert_non_null(strstr(lines.error, "small"));
  json_t *kept = json_file(in_folder("%s/run"), "run.json");
  assert_string_equal(text_at(kept, "status"), wanted == RONDE_E_CANCELLED ? "interrupted" : "failed");
  json_decref(kept);
  json_decref(run);
  free(options);
  test_log_start(&lines);
}

static void test_a_read_error_ends_all_ranks_with_its_status(void **state) {
  static const ronde_status statuses[] = {RONDE_E_INPUT, RONDE_E_NUMERIC, RONDE_E_CANCELLED, RONDE_E_MEMORY,
                                          RONDE_E_LOST};
  for (size_t i = 0; i < RONDE__COUNT(statuses); ++i)
    for (int workers = 1; workers <= 3; ++workers) {
      check_broken(&(broken_source){statuses[i], RONDE_SPLIT_TRAIN, 39, 0}, statuses[i], workers);
      check_broken(&(broken_source){statuses[i], RONDE_SPLIT_TRAIN, 0, 0}, statuses[i], workers);
      check_broken(&(broken_source){statuses[i], RONDE_SPLIT_TEST, 15, 0}, statuses[i], workers);
    }
}

static void test_labels_beyond_the_classes(void **state) {
  static const int64_t labels[] = {SMALL_CLASSES, -1, INT64_MAX};
  for (size_t i = 0; i < RONDE__COUNT(labels); ++i)
    for (int workers = 1; workers <= 2; ++workers) {
      check_broken(&(broken_source){RONDE_OK, RONDE_SPLIT_TRAIN, 20, labels[i]}, RONDE_E_INPUT, workers);
      check_broken(&(broken_source){RONDE_OK, RONDE_SPLIT_TEST, 9, labels[i]}, RONDE_E_INPUT, workers);
    }
}

/* Good when the job is checked, bad when its ranks are set up. */
static ronde_tensor *spoilt_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  atomic_int *calls = user;
  int kernel = atomic_fetch_add(calls, 1) > 0 ? 99 : 3;
  x = ronde_conv2d(x, "conv1", &(ronde_conv2d_options){.out_channels = 5, .kernel = {kernel, kernel}});
  return ronde_linear(ronde_flatten(x), "fc", classes, true);
}

/* Each rank meets it by itself; one line says it. In the next run it is said again. */
static void test_an_error_of_all_ranks_is_said_once(void **state) {
  ronde_source source = small_source(30, 12);
  for (int workers = 1; workers <= 4; ++workers) {
    atomic_int calls = 0;
    ronde_hooks hooks = {.model = spoilt_model, .source = &source, .user = &calls};
    char options[64];
    json_t *run;
    snprintf(options, sizeof options, "batch=8 workers=%d", workers);
    check_failed(&lines, train_status(options, &hooks, &run), RONDE_E_USAGE, "conv1: the 99x99 kernel", "6x6");
    assert_int_equal(atomic_load(&calls), 1 + workers);
    json_decref(run);
  }
}

/* A loss that grows beyond all reason, and stays finite: one warning. */
static void test_a_loss_that_diverges_is_said_once(void **state) {
  ronde_source source = small_source(40, 12);
  ronde_hooks hooks = {.model = small_model, .source = &source};
  json_decref(job_run("train", "batch=8 epochs=4 lr=60 workers=2", &hooks));
  assert_int_equal(lines.n_warnings, 1);
  assert_non_null(strstr(lines.warning, "training diverges"));
  test_log_start(&lines);
  json_decref(job_run("train", "batch=8 epochs=4 lr=0.5", &hooks));
  assert_int_equal(lines.n_warnings, 0);
}

/* A rate that is far too high breaks the numbers within some steps; whatever step comes last, a run that is completed
 * has finite weights and a finite test loss. */
static void test_broken_numbers_end_the_run(void **state) {
  int n_completed = 0, n_broken = 0;
  for (int steps = 1; steps <= 5; ++steps)
    for (int workers = 1; workers <= 3; workers += 2) {
      const char *form =
          "model=mnist-small data=synthetic:1x12x12:10:60 batch=20 lr=1e9 steps=%d workers=%d "
          "overwrite=on out=%s/run save=%s/w-%d-%d.safetensors";
      char *options = ronde__format(form, steps, workers, folder, folder, steps, workers);
      char saved[64];
      snprintf(saved, sizeof saved, "w-%d-%d.safetensors", steps, workers);
      json_t *run;
      test_log_start(&lines);
      ronde_status status = train_status(options, NULL, &run);
      free(options);
      if (status == RONDE_OK) {
        ++n_completed;
        assert_true(isfinite(real_at(run, "result.test_loss")));
        assert_true(file_exists(folder, saved));
      } else {
        ++n_broken;
        assert_int_equal(status, RONDE_E_NUMERIC);
        assert_int_equal(lines.n_errors, 1);
        assert_non_null(strstr(lines.error, "step "));
        assert_non_null(strstr(lines.error, "rank"));
        assert_true(strstr(lines.error, "loss") || strstr(lines.error, ".weight") || strstr(lines.error, ".bias"));
        assert_false(file_exists(folder, saved));
        json_t *kept = json_file(in_folder("%s/run"), "run.json");
        assert_string_equal(text_at(kept, "status"), "failed");
        assert_int_equal(json_is_null(json_at(kept, "result.weights_sha256")), workers == 1); /* of no step */
        json_decref(kept);
      }
      json_decref(run);
    }
  assert_true(n_completed >= 2 && n_broken >= 4);
}

static ronde_status nan_read(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                             float *targets) {
  RONDE_TRY(small_read(NULL, split, ids, n, x, labels, targets));
  for (int64_t i = 0; i < n; ++i)
    if (ids[i] == 13) x[i * SMALL_PIXELS] = NAN;
  return RONDE_OK;
}

/* Example 13 of batches of 8 is in step 2, on rank 1 of 3: 8..10, 11..13, 14..15. */
static void test_broken_numbers_name_step_and_rank(void **state) {
  ronde_source source = small_source(32, 0);
  source.read = nan_read;
  ronde_hooks hooks = {.model = small_model, .source = &source};
  json_t *run;
  assert_int_equal(train_status("batch=8 shuffle=off workers=3", &hooks, &run), RONDE_E_NUMERIC);
  json_decref(run);
  assert_int_equal(lines.n_errors, 1);
  assert_non_null(strstr(lines.error, "step 2:"));
  assert_non_null(strstr(lines.error, "rank 1"));
}

static ronde_tensor *no_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) { return NULL; }

static ronde_tensor *wrong_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  return ronde_linear(x, "fc1", classes, true); /* of an image */
}

static ronde_tensor *narrow_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  return ronde_linear(ronde_flatten(x), "fc1", classes - 1, true);
}

static ronde_tensor *classifier(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  return ronde_linear(ronde_flatten(x), "fc1", 4, true);
}

static void test_networks_that_cannot_be(void **state) {
  ronde_source source = small_source(16, 0), values = small_values(16, 0);
  const struct {
    ronde_model_fn model;
    const ronde_source *source;
    const char *says;
  } cases[] = {{no_model, &source, "model"},
               {wrong_model, &source, "fc1"},
               {narrow_model, &source, "2 logits"},
               {classifier, &values, "values"},
               {small_regression, &source, "class labels"}};
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i) {
    ronde_hooks hooks = {.model = cases[i].model, .source = cases[i].source};
    json_t *run;
    ronde_status status = train_status("batch=4", &hooks, &run);
    check_failed(&lines, status, RONDE_E_USAGE, cases[i].says, "");
    assert_null(run);
  }
}

static void test_exit_codes(void **state) {
  static const struct {
    ronde_status status;
    int code;
  } codes[] = {{RONDE_OK, 0},           {RONDE_E_INTERNAL, 1},   {RONDE_E_USAGE, 2}, {RONDE_E_INPUT, 3},
               {RONDE_E_LOST, 4},       {RONDE_E_NUMERIC, 5},    {RONDE_E_WRITE, 6}, {RONDE_E_MEMORY, 6},
               {RONDE_E_DIFFERENCE, 7}, {RONDE_E_CANCELLED, 130}};
  for (size_t i = 0; i < RONDE__COUNT(codes); ++i) {
    assert_int_equal(ronde_status_exit_code(codes[i].status), codes[i].code);
    assert_true(*ronde_status_text(codes[i].status));
  }
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static void test_dry_run(void **state) {
  ronde_source source = small_source(40, 10);
  ronde_hooks hooks = {.model = small_model, .source = &source};
  for (int workers = 1; workers <= 2; ++workers) {
    char options[128];
    snprintf(options, sizeof options, "dry-run=on batch=8 epochs=7 optimizer=adam threads=1 workers=%d", workers);
    json_t *plan = job_run("train", options, &hooks);
    const int parameters = 5 * 9 + 5 + 11 * 45 + 11 + 3 * 11 + 3;
    assert_int_equal((int)real_at(plan, "parameters"), parameters);
    assert_int_equal((int)real_at(plan, "forward_flops_per_example"), 2 * (36 * 5 * 9 + 45 * 11 + 11 * 3));
    assert_int_equal((int)real_at(plan, "workers"), workers);
    assert_int_equal((int)real_at(plan, "steps"), 35);
    assert_string_equal(text_at(plan, "strategy"), workers == 1 ? "single" : "allreduce");
    assert_true(real_at(plan, "memory_bytes.parameters") >= 4 * parameters);
    assert_true(real_at(plan, "memory_bytes.optimizer") >= 8 * parameters);
    assert_true(real_at(plan, "memory_bytes.total") >= workers * 16 * parameters);
    assert_true(real_at(plan, "estimated_s") > 0);
    json_decref(plan);
  }
  static const struct {
    const char *options;
    int examples;
  } planned[] = {{"batch=16 epochs=3", 120},
                 {"batch=16 epochs=3 drop-last=on", 96},
                 {"batch=16 steps=5", 40 + 32},
                 {"batch=8 accumulate=2 steps=4", 40 + 16},
                 {"batch=8 workers=2 strategy=ps-sync backup=1 epochs=2", 40}};
  for (size_t i = 0; i < sizeof planned / sizeof planned[0]; i++) {
    char options[128];
    snprintf(options, sizeof options, "dry-run=on threads=1 %s", planned[i].options);
    json_t *plan = job_run("train", options, &hooks);
    assert_int_equal((int)real_at(plan, "examples"), planned[i].examples);
    assert_int_equal((int)real_at(plan, "data_examples"), 40);
    assert_int_equal((int)real_at(plan, "config.batch"), (int)real_at(plan, "batch"));
    assert_string_equal(text_at(plan, "dtype"), "f32");
    json_decref(plan);
  }
  json_t *run;
  ronde_status status = train_status(in_folder("dry-run=on batch=8 out=%s/run"), &hooks, &run);
  check_failed(&lines, status, RONDE_E_USAGE, "--dry-run", "--out");
  assert_false(file_exists(folder, "run"));
}

/* ---- from job to job --------------------------------------------------------------------------------------------- */

#define SET "data=synthetic:1x28x28:10:40"

static void take_sha256(json_t *json, const char *path, char hex_out[RONDE__SHA256_HEX]) {
  snprintf(hex_out, RONDE__SHA256_HEX, "%s", text_at(json, path));
  assert_int_equal(strlen(hex_out), 64);
  json_decref(json);
}

/* Fresh weights depend on the seed alone: not on the verb, the workers, or what gave the shape. */
static void test_fresh_weights_are_the_same_everywhere(void **state) {
  char first[RONDE__SHA256_HEX], other[RONDE__SHA256_HEX];
  take_sha256(job_run("init", in_folder("model=lenet5 shape=1x28x28 classes=10 seed=7 output=%s/a"), NULL),
              "weights_sha256", first);
  take_sha256(job_run("init", in_folder("model=lenet5 " SET " seed=7 output=%s/b"), NULL), "weights_sha256", other);
  assert_string_equal(first, other);
  take_sha256(job_run("eval", in_folder(SET " init=%s/a"), NULL), "weights_sha256", other);
  assert_string_equal(first, other);
  for (int workers = 1; workers <= 3; ++workers) {
    char options[128];
    snprintf(options, sizeof options, "model=lenet5 " SET " seed=7 steps=2 lr=0 batch=10 workers=%d", workers);
    take_sha256(job_run("train", options, NULL), "result.weights_sha256", other);
    assert_string_equal(first, other);
  }
  take_sha256(job_run("train", in_folder("init=%s/a " SET " steps=1 lr=0 batch=10"), NULL), "result.weights_sha256",
              other);
  assert_string_equal(first, other);
  take_sha256(job_run("init", in_folder("model=lenet5 " SET " seed=8 output=%s/c"), NULL), "weights_sha256", other);
  assert_string_not_equal(first, other);
}

/* Two epochs in one run, and in two of which the second starts from what the first wrote. */
static void test_training_goes_on_from_saved_weights(void **state) {
  static const char common[] = SET " batch=10 shuffle=off lr=0.05";
  char whole[RONDE__SHA256_HEX], parts[RONDE__SHA256_HEX], *options;
  options = ronde__format("model=lenet5 %s epochs=2", common);
  take_sha256(job_run("train", options, NULL), "result.weights_sha256", whole);
  free(options);
  options = ronde__format("model=lenet5 %s save=%s/w", common, folder);
  json_decref(job_run("train", options, NULL));
  free(options);
  options = ronde__format("%s init=%s/w", common, folder); /* the file says what network it is of */
  take_sha256(job_run("train", options, NULL), "result.weights_sha256", parts);
  free(options);
  assert_string_equal(whole, parts);
}

static void test_saved_weights_are_a_plain_file(void **state) {
  json_decref(job_run("train", in_folder("model=mnist-small padding=valid " SET " batch=10 save=%s/w"), NULL));
  ronde__safetensors *file;
  assert_int_equal(ronde__safetensors_open(in_folder("%s/w"), &file), RONDE_OK);
  static const char *const names[] = {"conv1.bias", "conv1.weight", "fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"};
  assert_int_equal(file->n_tensors, RONDE__COUNT(names));
  for (int i = 0; i < file->n_tensors; ++i) {
    assert_string_equal(file->tensors[i].name, names[i]);
    assert_int_equal(file->tensors[i].dtype, RONDE__FILE_F32);
  }
  assert_int_equal(ronde__shape_elems(&ronde__safetensors_find(file, "fc1.weight")->shape), 64 * 32 * 13 * 13);
  assert_string_equal(ronde__safetensors_meta(file, "model"), "mnist-small");
  assert_string_equal(ronde__safetensors_meta(file, "padding"), "valid");
  assert_string_equal(ronde__safetensors_meta(file, "shape"), "1x28x28");
  assert_string_equal(ronde__safetensors_meta(file, "classes"), "10");
  ronde__safetensors_close(file);
}

/* eval measures what the end of training measured, with any number of workers; --classes may be more than the data. */
static void test_eval_repeats_what_training_measured(void **state) {
  static const char train[] = "model=lenet5 classes=12 " SET " batch=10 lr=0.05 epochs=2 save=%s/w";
  json_t *run = job_run("train", in_folder(train), NULL);
  for (int workers = 1; workers <= 3; ++workers) {
    char *options = ronde__format("init=%s/w " SET " workers=%d batch=5", folder, workers);
    json_t *eval = job_run("eval", options, NULL);
    assert_int_equal((int)real_at(eval, "examples"), 8);
    assert_true(fabs(real_at(eval, "loss") - real_at(run, "result.test_loss")) < 1e-5);
    assert_true(real_at(eval, "accuracy") == real_at(run, "result.test_accuracy"));
    json_decref(eval);
    free(options);
  }
  json_decref(run);
}

/* ---- predict ----------------------------------------------------------------------------------------------------- */

enum { SIDE = 28, PIXELS = SIDE * SIDE, N_TEST = 20 };

static uint8_t test_set_pixel(int64_t image, int64_t p) { return test_pixel(image, p); }

static test_bytes npy_images(int64_t n) {
  uint8_t *x = malloc((size_t)(n * PIXELS));
  for (int64_t i = 0; i < n * PIXELS; ++i) x[i] = test_set_pixel(i / PIXELS, i % PIXELS);
  char dict[128];
  snprintf(dict, sizeof dict, "{'descr': '|u1', 'fortran_order': False, 'shape': (%lld, 1, 28, 28), }", (long long)n);
  test_bytes file = test_npy(dict, x, (size_t)(n * PIXELS));
  free(x);
  return file;
}

static void put_be(uint8_t *at, uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = (uint8_t)(value >> (24 - 8 * i));
}

static test_bytes png_chunk(test_bytes file, const char *type, const void *data, size_t n) {
  uint8_t *chunk = calloc(n + 12, 1);
  put_be(chunk, (uint32_t)n);
  memcpy(chunk + 4, type, 4);
  if (n) memcpy(chunk + 8, data, n);
  put_be(chunk + 8 + n, (uint32_t)crc32(0, chunk + 4, (uInt)n + 4));
  test_bytes joined = test_bytes_join(file, test_bytes_make(chunk, n + 12));
  free(chunk);
  return joined;
}

/* Test image `image` in grey. */
static test_bytes png_image(int64_t image) {
  uint8_t header[13] = {0, 0, 0, SIDE, 0, 0, 0, SIDE, 8}, rows[SIDE * (SIDE + 1)] = {0}, packed[2 * sizeof rows];
  uLongf packed_bytes = sizeof packed;
  for (int p = 0; p < PIXELS; ++p) rows[p / SIDE * (SIDE + 1) + 1 + p % SIDE] = test_set_pixel(image, p);
  assert_int_equal(compress(packed, &packed_bytes, rows, sizeof rows), Z_OK);
  test_bytes file = png_chunk(test_bytes_make("\x89PNG\r\n\x1a\n", 8), "IHDR", header, sizeof header);
  return png_chunk(png_chunk(file, "IDAT", packed, packed_bytes), "IEND", NULL, 0);
}

/* Probabilities descend and add up to 1 where all classes are asked for. Returns the likeliest class. */
static int check_example(json_t *example, int index, size_t top) {
  json_t *classes = json_at(example, "classes"), *row;
  size_t i;
  double sum = 0, last = 1;
  assert_int_equal((int)real_at(example, "index"), index);
  assert_int_equal(json_array_size(classes), top);
  json_array_foreach(classes, i, row) {
    double p = real_at(row, "probability");
    assert_true(p >= 0 && p <= last);
    sum += last = p;
  }
  if (top == 10) assert_true(fabs(sum - 1) < 1e-4);
  return (int)real_at(example, "classes.0.class");
}

static void check_equal_prediction(json_t *a, json_t *b) {
  for (int k = 0; k < 10; ++k) {
    char path[64];
    snprintf(path, sizeof path, "classes.%d.class", k);
    assert_int_equal((int)real_at(a, path), (int)real_at(b, path));
    snprintf(path, sizeof path, "classes.%d.probability", k);
    assert_true(fabs(real_at(a, path) - real_at(b, path)) < 1e-5);
  }
}

/* Trained on normalised IDX files; the weights' file makes predict treat its input alike: as many images are right as
 * eval says. */
static void test_predict_sees_what_eval_sees(void **state) {
  test_write_idx_pair(folder, "train", 30, SIDE, SIDE, 10, false);
  test_write_idx_pair(folder, "t10k", N_TEST, SIDE, SIDE, 10, true);
  test_write_bytes(folder, "images.npy", npy_images(N_TEST));
  test_write_bytes(folder, "image.png", png_image(3));
  setenv("RONDE_CACHE_DIR", folder, 1);
  static const char train[] = "model=lenet5 data=mnist:%s batch=10 epochs=30 optimizer=adam lr=0.003 save=%s/w";
  json_decref(job_run("train", in_folder(train), NULL));
  json_t *eval = job_run("eval", in_folder("init=%s/w data=mnist:%s"), NULL);
  json_t *predicted = job_run("predict", in_folder("init=%s/w input=%s/images.npy top=10"), NULL);
  json_t *examples = json_at(predicted, "examples"), *example;
  int n_right = 0;
  size_t i;
  assert_int_equal(json_array_size(examples), N_TEST);
  json_array_foreach(examples, i, example) n_right += check_example(example, (int)i, 10) == (int)i % 10;
  assert_int_equal(n_right, (int)lround(real_at(eval, "accuracy") * N_TEST));
  assert_true(n_right > N_TEST / 2);
  if (ronde__image_supported()) {
    json_t *picture = job_run("predict", in_folder("init=%s/w input=%s/image.png top=10"), NULL);
    assert_int_equal(json_array_size(json_at(picture, "examples")), 1);
    check_equal_prediction(json_at(picture, "examples.0"), json_at(predicted, "examples.3"));
    json_decref(picture);
  }
  json_t *raw = job_run("predict", in_folder("init=%s/w input=%s/images.npy normalize=off top=2"), NULL);
  check_example(json_at(raw, "examples.0"), 0, 2);
  static const char best[] = "examples.0.classes.0.probability";
  assert_true(fabs(real_at(raw, best) - real_at(predicted, best)) > 1e-6);
  json_decref(raw);
  json_decref(eval);
  json_decref(predicted);
  unsetenv("RONDE_CACHE_DIR");
}

/* ---- runs beside runs -------------------------------------------------------------------------------------------- */

static void *train_beside(void *arg) {
  ronde_source source = small_source(60, 10);
  ronde_hooks hooks = {.model = small_model, .source = &source};
  take_sha256(job_run("train", "batch=10 epochs=4 workers=2 threads=1", &hooks), "result.weights_sha256", arg);
  return NULL;
}

static void test_two_jobs_at_once(void **state) {
  char alone[RONDE__SHA256_HEX], beside[2][RONDE__SHA256_HEX];
  pthread_t threads[2];
  train_beside(alone);
  for (int i = 0; i < 2; ++i) assert_int_equal(pthread_create(&threads[i], NULL, train_beside, beside[i]), 0);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  assert_string_equal(beside[0], alone);
  assert_string_equal(beside[1], alone);
}

/* A folder that is used again holds nothing of the older run. */
static void test_a_folder_is_used_again(void **state) {
  ronde_source source = small_source(16, 4);
  ronde_hooks hooks = {.model = small_model, .source = &source};
  json_decref(job_run("train", in_folder("batch=4 epochs=3 trace=on out=%s/run"), &hooks));
  assert_true(file_exists(in_folder("%s/run"), "trace.json"));
  json_t *run = job_run("train", in_folder("batch=8 overwrite=on out=%s/run"), &hooks);
  json_t *kept = json_file(in_folder("%s/run"), "run.json"), *steps = steps_file(in_folder("%s/run"));
  assert_true(json_equal(run, kept));
  assert_int_equal(json_array_size(steps), 2);
  assert_false(file_exists(in_folder("%s/run"), "trace.json"));
  json_decref(run);
  json_decref(kept);
  json_decref(steps);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder_with_log, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(test_callbacks_of_a_run),
      TEST(test_no_callbacks_no_json),
      TEST(test_cancelling),
      TEST(test_cancelling_evaluation),
      TEST(test_a_read_error_ends_all_ranks_with_its_status),
      TEST(test_labels_beyond_the_classes),
      TEST(test_an_error_of_all_ranks_is_said_once),
      TEST(test_a_loss_that_diverges_is_said_once),
      TEST(test_broken_numbers_end_the_run),
      TEST(test_broken_numbers_name_step_and_rank),
      TEST(test_networks_that_cannot_be),
      TEST(test_exit_codes),
      TEST(test_dry_run),
      TEST(test_fresh_weights_are_the_same_everywhere),
      TEST(test_training_goes_on_from_saved_weights),
      TEST(test_saved_weights_are_a_plain_file),
      TEST(test_eval_repeats_what_training_measured),
      TEST(test_predict_sees_what_eval_sees),
      TEST(test_two_jobs_at_once),
      TEST(test_a_folder_is_used_again),
  };
#undef TEST
  return cmocka_run_group_tests(tests, NULL, NULL);
}
