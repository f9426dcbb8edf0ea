/* Checkpoints and going on from them: the same bits as a run that was never stopped, whatever the optimizer, the
 * schedule and the number of workers; every example once an epoch when that number changes; what is refused, and what is
 * passed over with a warning. */
#include "train_testing.h"

#include "train/checkpoint.h"

static char *folder; /* of each test */
static test_log lines;
static uint32_t random_state = 12345;

static int make_folder(void **state) {
  folder = test_folder_create();
  test_log_start(&lines);
  return 0;
}

static int remove_folder(void **state) {
  ronde_log_set(NULL, NULL);
  test_folder_destroy(folder);
  return 0;
}

static int64_t draw(int64_t from, int64_t to) {
  random_state = random_state * 1664525u + 1013904223u;
  return from + (int64_t)(random_state >> 8) % (to - from + 1);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

#define SET "data=synthetic:1x10x10:4:53 "

/* Everything that has a state or chance of its own. */
static ronde_tensor *norm_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  ronde_conv2d_options conv = {.out_channels = 5, .kernel = {3, 3}, .padding = {1, 1}, .no_bias = true};
  x = ronde_relu(ronde_batch_norm2d(ronde_conv2d(x, "conv1", &conv), "bn1", NULL));
  x = ronde_max_pool2d(x, &(ronde_pool2d_options){.kernel = {2, 2}});
  x = ronde_dropout(ronde_tanh(ronde_linear(ronde_flatten(x), "fc1", 9, true)), .3f);
  return ronde_linear(x, "fc2", classes, true);
}

typedef struct stop {
  int64_t n_asked, at; /* at: the step that is the last; 0: none */
} stop;

static bool stop_cancel(void *user) {
  stop *s = user;
  return ++s->n_asked == s->at;
}

/* Trains with norm_model, or the built-in one that the options name; stopped after `at` steps of this process. */
static ronde_status train(const char *options, int64_t at, json_t **run_out) {
  stop s = {.at = at};
  ronde_hooks hooks = {.cancel = stop_cancel, .user = &s};
  if (!strstr(options, "model=")) hooks.model = norm_model;
  ronde_config *config = config_make("train", options);
  char *text = NULL;
  ronde_status status = ronde_train(config, &hooks, &text);
  ronde_config_destroy(config);
  json_t *run = text ? json_of(text) : NULL;
  if (run_out) *run_out = run;
  else json_decref(run);
  return status;
}

static void in(char out[512], const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(out, 512, format, args);
  va_end(args);
}

/* The last line of each step counts. */
static json_t *losses_of(const char *run) {
  char *path = ronde__format("%s/%s", folder, run);
  json_t *steps = steps_file(path), *losses = json_object(), *line;
  size_t i;
  free(path);
  json_array_foreach(steps, i, line) {
    char key[32];
    snprintf(key, sizeof key, "%lld", (long long)json_integer_value(json_object_get(line, "step")));
    json_object_set(losses, key, json_object_get(line, "loss"));
  }
  json_decref(steps);
  return losses;
}

static void check_same_end(json_t *whole, json_t *resumed, const char *what) {
  static const char *const fields[] = {"result.weights_sha256", "result.state_sha256"};
  for (size_t i = 0; i < RONDE__COUNT(fields); ++i)
    if (strcmp(text_at(whole, fields[i]), text_at(resumed, fields[i]))) fail_msg("%s: %s differs", what, fields[i]);
  json_t *a = json_at(whole, "epochs"), *b = json_at(resumed, "epochs");
  size_t skipped = json_array_size(a) - json_array_size(b);
  for (size_t i = 0; i < json_array_size(b); ++i)
    for (const char *const *f = (const char *const[]){"train_loss", "train_accuracy", "test_loss", "lr", NULL}; *f; ++f)
      if (!json_equal(json_object_get(json_array_get(a, i + skipped), *f), json_object_get(json_array_get(b, i), *f)))
        fail_msg("%s: %s of epoch row %zu differs", what, *f, i);
}

/* ---- the same bits ----------------------------------------------------------------------------------------------- */

static const char *const optimizers[] = {"sgd momentum=0.9",
                                         "sgd momentum=0.8 nesterov=on weight-decay=0.01",
                                         "sgd",
                                         "adam clip=1",
                                         "adamw betas=0.8,0.99 freeze=conv1",
                                         "adagrad lr=0.05"};
static const char *const schedules[] = {"constant warmup=5", "step lr-step=1 lr-gamma=0.3", "cosine warmup=2"};

/* Stopped after some steps (once more after some others), and gone on with. */
static void check_bits(int optimizer, int schedule, int workers) {
  char options[400], whole[512], stopped[512], again[512], name[64];
  int accumulate = (int)draw(1, 2);
  int64_t n_steps = accumulate == 1 ? 21 : 12, first = draw(1, n_steps - 2), second = draw(1, n_steps - 1 - first);
  snprintf(options, sizeof options,
           SET "augment=crop,flip batch=8 epochs=3 lr=0.02 threads=1 seed=%d workers=%d accumulate=%d optimizer=%s "
               "lr-schedule=%s",
           (int)draw(1, 99), workers, accumulate, optimizers[optimizer], schedules[schedule]);
  in(whole, "%s out=%s/whole-%d-%d", options, folder, optimizer, schedule);
  in(stopped, "%s out=%s/part-%d-%d", options, folder, optimizer, schedule);
  in(again, "resume=%s/part-%d-%d", folder, optimizer, schedule);
  json_t *a, *b;
  assert_int_equal(train(whole, 0, &a), RONDE_OK);
  assert_int_equal(train(stopped, first, NULL), RONDE_E_CANCELLED);
  assert_int_equal(train(again, second, NULL), RONDE_E_CANCELLED);
  assert_int_equal(train(again, 0, &b), RONDE_OK);
  assert_int_equal((int)real_at(b, "resumed_from.step"), first + second);
  assert_int_equal((int)real_at(b, "totals.steps"), n_steps - first - second);
  check_same_end(a, b, options);
  snprintf(name, sizeof name, "whole-%d-%d", optimizer, schedule);
  json_t *losses_a = losses_of(name);
  snprintf(name, sizeof name, "part-%d-%d", optimizer, schedule);
  json_t *losses_b = losses_of(name);
  assert_int_equal(json_object_size(losses_a), n_steps);
  if (!json_equal(losses_a, losses_b)) fail_msg("%s: losses differ", options);
  json_decref(losses_a);
  json_decref(losses_b);
  json_decref(a);
  json_decref(b);
}

static void test_resumed_runs_end_with_the_same_bits(void **state) {
  for (int optimizer = 0; optimizer < (int)RONDE__COUNT(optimizers); ++optimizer)
    for (int schedule = 0; schedule < (int)RONDE__COUNT(schedules); ++schedule)
      check_bits(optimizer, schedule, 1 + (optimizer + schedule) % 3);
  assert_int_equal(lines.n_errors, 0);
}

/* By checkpoints on the way, at the end of an epoch and at the end of all, from a file by itself and by `auto`. */
static void test_checkpoints_on_the_way(void **state) {
  char options[512], file[512];
  const char *base = SET "batch=8 epochs=2 lr=0.02 optimizer=adam workers=2 threads=1";
  json_t *whole, *run;
  assert_int_equal(train(base, 0, &whole), RONDE_OK);
  in(options, "%s out=%s/run resume=auto checkpoint-every=1 keep=100", base, folder);
  assert_int_equal(train(options, 0, &run), RONDE_OK);
  assert_true(json_is_null(json_at(run, "resumed_from")));
  check_same_end(whole, run, "with checkpoints");
  json_decref(run);
  assert_true(file_exists(folder, "run/checkpoints/step-14.safetensors"));
  int n_tried = 0;
  for (int step = 1; step <= 14; ++step) { /* a save may be left out while one is under way */
    in(file, "run/checkpoints/step-%d.safetensors", step);
    if (!file_exists(folder, file)) continue;
    in(options, "resume=%s/%s", folder, file);
    assert_int_equal(train(options, 0, &run), RONDE_OK);
    check_same_end(whole, run, file);
    json_decref(run);
    ++n_tried;
  }
  assert_true(n_tried >= 2);
  in(options, "%s out=%s/run resume=auto epochs=3", base, folder);
  assert_int_equal(train(options, 0, &run), RONDE_OK);
  assert_int_equal(json_array_size(json_at(run, "epochs")), 1);
  json_decref(run);
  json_decref(whole);
}

static void test_old_checkpoints_go(void **state) {
  char options[512], path[512];
  in(options, SET "batch=4 epochs=2 checkpoint-every=2 keep=2 out=%s/run", folder);
  assert_int_equal(train(options, 0, NULL), RONDE_OK);
  in(path, "%s/run", folder);
  char **paths;
  int n;
  assert_int_equal(ronde__checkpoint_list(path, &paths, &n), RONDE_OK);
  assert_int_equal(n, 2);
  assert_non_null(strstr(paths[0], "step-28."));
  for (int i = 0; i < n; ++i) free(paths[i]);
  ronde__free(paths);
  in(options, SET "batch=4 out=%s/run", folder);
  ronde_status status = train(options, 0, NULL);
  check_failed(&lines, status, RONDE_E_USAGE, "has checkpoints", "--resume");
}

/* ---- other numbers of workers ------------------------------------------------------------------------------------ */

enum { IDS = 45 };

static float value_of(int64_t id) { return 1 + (float)((id * 37) % 64) / 16; }

static ronde_status value_read(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                               float *targets) {
  for (int64_t i = 0; i < n; ++i) {
    x[i] = value_of(ids[i]);
    targets[i] = 0;
  }
  return RONDE_OK;
}

static ronde_tensor *value_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  x = ronde_linear(ronde_flatten(x), "fc1", 1, false);
  ronde_graph_set_loss(graph, ronde_mse_loss(x, ronde_target(graph)));
  return x;
}

/* With a rate of 0 a step's loss tells which examples it was of: the square of its weight times their mean square. */
static void test_other_numbers_of_workers_take_each_example_once(void **state) {
  ronde_source source = {.name = "values", .rank = 3, .dims = {1, 1, 1}, .target_elems = 1, .n_examples = {IDS, 0},
                         .read = value_read};
  static const int workers[] = {3, 2, 4};
  static const int64_t stops[] = {4, 9, 0};
  char options[512];
  for (size_t i = 0; i < RONDE__COUNT(workers); ++i) {
    stop s = {.at = stops[i]};
    ronde_hooks hooks = {.model = value_model, .source = &source, .cancel = stop_cancel, .user = &s};
    in(options, "%s=%s/run workers=%d threads=1 batch=7 epochs=3 lr=0", i ? "resume" : "out", folder, workers[i]);
    ronde_config *config = config_make("train", options);
    assert_int_equal(ronde_train(config, &hooks, NULL), stops[i] ? RONDE_E_CANCELLED : RONDE_OK);
    ronde_config_destroy(config);
  }
  ronde__sampler *sampler;
  ronde__sampler_options order = {.n_train = IDS, .repeat = 1, .batch = 7, .shuffle = true, .seed = 1};
  assert_int_equal(ronde__sampler_create(&order, &sampler), RONDE_OK);
  json_t *losses = losses_of("run");
  assert_int_equal(json_object_size(losses), 21);
  double square = 0;
  for (int step = 0; step < 21; ++step) {
    int64_t ids[IDS], begin = step % 7 * 7, end = begin + 7 < IDS ? begin + 7 : IDS;
    char key[32];
    double sum = 0;
    assert_int_equal(ronde__sampler_epoch(sampler, step / 7 + 1, ids), RONDE_OK);
    for (int64_t i = begin; i < end; ++i) sum += value_of(ids[i]) * value_of(ids[i]);
    snprintf(key, sizeof key, "%d", step + 1);
    double found = json_number_value(json_object_get(losses, key)) / (sum / (double)(end - begin));
    if (step == 0) square = found;
    if (fabs(found - square) > 1e-5 * square) fail_msg("step %d is of other examples", step + 1);
  }
  json_decref(losses);
  ronde__sampler_destroy(sampler);
}

/* ---- damage ------------------------------------------------------------------------------------------------------ */

static void make_run(const char *more) {
  char options[512];
  in(options, SET "batch=8 epochs=2 checkpoint-every=2 keep=100 out=%s/run %s", folder, more);
  assert_int_equal(train(options, 0, NULL), RONDE_OK);
}

/* The i-th newest checkpoint of the run. */
static char *newest(int i_wanted) {
  char path[512];
  in(path, "%s/run", folder);
  char **paths;
  int n;
  assert_int_equal(ronde__checkpoint_list(path, &paths, &n), RONDE_OK);
  assert_true(n >= 2);
  char *first = strdup(paths[i_wanted]);
  for (int i = 0; i < n; ++i) free(paths[i]);
  ronde__free(paths);
  return first;
}

static test_bytes read_all(const char *path) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  test_bytes b = {NULL, (size_t)ftell(file)};
  b.data = malloc(b.n);
  rewind(file);
  assert_int_equal(fread(b.data, 1, b.n, file), b.n);
  fclose(file);
  return b;
}

static void write_all(const char *path, const uint8_t *data, size_t n) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, n, file), n);
  assert_int_equal(fclose(file), 0);
}

static void test_a_flipped_bit_is_found_wherever_it_is(void **state) {
  make_run("");
  char *path = newest(0);
  test_bytes file = read_all(path);
  uint64_t header;
  memcpy(&header, file.data, 8);
  for (int i = 0; i < 200; ++i) { /* every other one in the header, where there is most to misread */
    int64_t at = draw(0, (i % 2 ? (int64_t)header + 8 : (int64_t)file.n) - 1), bit = draw(0, 7);
    file.data[at] ^= (uint8_t)(1 << bit);
    ronde__safetensors *opened;
    bool checked;
    ronde_status status = ronde__safetensors_parse(path, file.data, file.n, &opened);
    if (status == RONDE_OK) {
      status = ronde__safetensors_verify(opened, &checked);
      ronde__safetensors_close(opened);
    }
    if (status == RONDE_OK) fail_msg("bit %d of byte %lld of %zu is not missed", (int)bit, (long long)at, file.n);
    file.data[at] ^= (uint8_t)(1 << bit);
  }
  free(file.data);
  free(path);
}

/* The newest is damaged in some way: the one before it serves, with a warning that names both. */
static void test_an_older_checkpoint_serves_where_the_newest_is_damaged(void **state) {
  make_run("");
  char *path = newest(0), *older = newest(1), options[512];
  test_bytes file = read_all(path);
  for (int way = 0; way < 3; ++way) {
    test_bytes damaged = test_bytes_make(file.data, file.n);
    if (way == 0) damaged.data[file.n - 9] ^= 4;
    write_all(path, damaged.data, way == 1 ? file.n / 2 : way == 2 ? 0 : file.n);
    free(damaged.data);
    test_log_start(&lines);
    ronde__resume *resume;
    in(options, "%s/run", folder);
    assert_int_equal(ronde__resume_open(options, &resume), RONDE_OK);
    assert_int_equal(lines.n_errors, 0);
    assert_int_equal(lines.n_warnings, 2);
    assert_non_null(strstr(lines.warning, older));
    assert_string_equal(resume->path, older);
    ronde__resume_close(resume);
  }
  in(options, "resume=%s", path);
  ronde_status status = train(options, 0, NULL);
  check_failed(&lines, status, RONDE_E_INPUT, "step-14.safetensors", "empty");
  free(file.data);
  free(older);
  free(path);
}

/* ---- refused ----------------------------------------------------------------------------------------------------- */

static void check_refused(const char *options, ronde_status wanted, const char *a, const char *b) {
  char all[512];
  in(all, "resume=%s/run %s", folder, options);
  ronde_status status = train(all, 0, NULL);
  check_failed(&lines, status, wanted, a, b);
}

static void test_what_may_not_change_is_refused_by_name(void **state) {
  make_run("model=mnist-small optimizer=adam");
  static const char *const cases[][3] = {{"model=lenet5", "--model lenet5", "of mnist-small"},
                                         {"batch=9", "--batch is 9 here", "but 8 in"},
                                         {"lr=0.5", "--lr is 0.5 here", "0.01 in"},
                                         {"optimizer=adamw", "--optimizer is \"adamw\"", "\"adam\" in"},
                                         {"seed=2", "--seed is 2 here", "1 in"},
                                         {"augment=flip", "--augment is \"flip\"", "\"off\" in"},
                                         {"shuffle=off", "--shuffle is false", "true in"},
                                         {"padding=valid", "--padding is \"valid\"", "\"same\" in"},
                                         {"steps=3", "14 updates already", "3 are wanted"}};
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i) {
    char options[256];
    snprintf(options, sizeof options, "%s%s", strstr(cases[i][0], "model=") ? "" : "model=mnist-small ", cases[i][0]);
    check_refused(options, RONDE_E_USAGE, cases[i][1], cases[i][2]);
  }
  check_refused("model=mnist-small data=synthetic:1x10x10:4:54", RONDE_E_INPUT, "other data", "54");
  check_refused("model=mnist-small data=synthetic:1x10x10:3:53 classes=4", RONDE_E_INPUT, "other data", "sha256");
  char options[512];
  in(options, "model=mnist-small resume=%s/nothing", folder);
  check_failed(&lines, train(options, 0, NULL), RONDE_E_INPUT, "nothing", "cannot read");
  in(options, "model=mnist-small resume=%s", folder);
  check_failed(&lines, train(options, 0, NULL), RONDE_E_INPUT, folder, "no checkpoints");
  in(options, SET "batch=8 model=mnist-small resume=auto");
  check_failed(&lines, train(options, 0, NULL), RONDE_E_USAGE, "--resume auto", "--out");
  in(options, SET "batch=8 model=mnist-small checkpoint-every=3");
  check_failed(&lines, train(options, 0, NULL), RONDE_E_USAGE, "--checkpoint-every can have no effect", "--out");
  in(options, SET "batch=8 model=mnist-small checkpoint-every=3x out=%s/new", folder);
  check_failed(&lines, train(options, 0, NULL), RONDE_E_USAGE, "3x", "10m");
}

static ronde_status fetch_same(void *user, int i, int64_t first, const void **data_out, int64_t *n_out) {
  const ronde__safetensors *file = user;
  const ronde__file_tensor *tensor = &file->tensors[i];
  *data_out = (const char *)tensor->data + first * (tensor->dtype == RONDE__FILE_I64 ? 8 : 4);
  *n_out = ronde__min(ronde__shape_elems(&tensor->shape) - first, 100);
  return RONDE_OK;
}

/* A whole file, whose note says something else. */
static void rewrite_note(const char *path, const char *from, const char *to) {
  ronde__safetensors *file;
  ronde__file_tensor tensors[64];
  ronde__file_meta meta[16];
  int n = 0, n_meta = 0;
  char note[8192] = "", *at;
  assert_int_equal(ronde__safetensors_open(path, &file), RONDE_OK);
  for (int i = 0; i < file->n_tensors; ++i)
    if (strcmp(file->tensors[i].name, RONDE__CHECKSUMS)) tensors[n++] = file->tensors[i];
  for (int i = 0; i < file->n_meta; ++i) {
    if (!strcmp(file->meta[i].key, RONDE__CHECKSUMS)) continue;
    meta[n_meta++] = file->meta[i];
    if (strcmp(file->meta[i].key, RONDE__CHECKPOINT_NOTE)) continue;
    snprintf(note, sizeof note, "%s", file->meta[i].value);
    assert_non_null(at = strstr(note, from));
    memcpy(at, to, strlen(from));
    meta[n_meta - 1].value = note;
  }
  ronde__safetensors kept = {.tensors = tensors};
  assert_int_equal(ronde__safetensors_write_checked(path, tensors, n, meta, n_meta, fetch_same, &kept), RONDE_OK);
  ronde__safetensors_close(file);
}

static void test_notes_that_cannot_be_followed(void **state) {
  make_run("model=mnist-small");
  char *path = newest(0);
  rewrite_note(path, "checkpoint.v1", "checkpoint.v9");
  check_refused("", RONDE_E_INPUT, "newer version", "ronde.checkpoint.v9");
  rewrite_note(path, "checkpoint.v9", "checkpoint.v1");
  rewrite_note(path, "\"closed\"", "\"clossd\"");
  check_refused("", RONDE_E_INPUT, "place in the training", "step-14");
  free(path);
}

/* Weights are weights: a checkpoint starts another training, is evaluated, and its optimizer's state is passed over. */
static void test_a_checkpoint_is_a_file_of_weights(void **state) {
  make_run("model=mnist-small optimizer=adam");
  char *path = newest(0), options[512];
  in(options, SET "init=%s", path);
  json_t *eval = job_run("eval", options, NULL), *run;
  in(options, SET "init=%s steps=1 lr=0 batch=8 model=mnist-small", path);
  assert_int_equal(train(options, 0, &run), RONDE_OK);
  assert_string_equal(text_at(eval, "weights_sha256"), text_at(run, "result.weights_sha256"));
  json_decref(eval);
  json_decref(run);
  in(options, SET "model=mnist-small batch=8 save=%s/w", folder);
  assert_int_equal(train(options, 0, NULL), RONDE_OK);
  in(options, "resume=%s/w", folder);
  check_failed(&lines, train(options, 0, NULL), RONDE_E_INPUT, "weights alone", "--init");
  free(path);
}

/* ---- looking into files ---------------------------------------------------------------------------------------- */

static json_t *verify(const char *path, ronde_status wanted) {
  char *text = NULL;
  assert_int_equal(ronde_ckpt_verify(path, &text), wanted);
  return json_of(text);
}

static void test_info_and_verify(void **state) {
  make_run("model=mnist-small optimizer=adam workers=2 threads=1");
  char run[512], *path = newest(0), *text;
  in(run, "%s/run", folder);
  assert_int_equal(ronde_ckpt_info(run, &text), RONDE_OK);
  json_t *info = json_of(text);
  assert_string_equal(text_at(info, "kind"), "checkpoint");
  assert_string_equal(text_at(info, "file"), path);
  assert_string_equal(text_at(info, "model"), "mnist-small");
  assert_int_equal((int)real_at(info, "state.place.step"), 14);
  assert_int_equal((int)real_at(info, "state.place.epoch"), 2);
  assert_int_equal((int)real_at(info, "state.world.workers"), 2);
  assert_string_equal(text_at(info, "state.given.optimizer"), "adam");
  json_decref(info);
  json_t *all = verify(run, RONDE_OK);
  assert_true(json_array_size(json_at(all, "files")) >= 2);
  json_decref(all);
  test_bytes file = read_all(path);
  file.data[file.n - 1] ^= 1;
  write_all(path, file.data, file.n);
  all = verify(run, RONDE_E_DIFFERENCE);
  check_failed(&lines, RONDE_E_DIFFERENCE, RONDE_E_DIFFERENCE, path, "damaged");
  assert_true(json_is_false(json_at(all, "whole")) && json_is_false(json_at(all, "files.0.whole")));
  assert_true(json_is_true(json_at(all, "files.1.whole")));
  json_decref(all);
  free(file.data);
  free(path);
}

static void test_diff_names_the_first_tensor(void **state) {
  make_run("model=mnist-small optimizer=adam");
  char *a = newest(0), *b = newest(1), *text;
  assert_int_equal(ronde_ckpt_diff(a, a, &text), RONDE_OK);
  json_t *diff = json_of(text);
  assert_true(json_is_true(json_at(diff, "same")));
  json_decref(diff);
  ronde_status status = ronde_ckpt_diff(a, b, &text);
  diff = json_of(text);
  check_failed(&lines, status, RONDE_E_DIFFERENCE, text_at(diff, "first"), b);
  assert_string_equal(text_at(diff, "first"), "conv1.bias");
  assert_true(real_at(diff, "largest_difference") > 0);
  json_decref(diff);
  free(a);
  free(b);
}

/* What is exported is what --save writes. */
static void test_export_is_the_weights_alone(void **state) {
  char options[512];
  in(options, SET "model=resnet18-cifar resize=8x8 data=synthetic:3x8x8:4:40 batch=10 momentum=0.9 steps=2 "
                  "checkpoint-every=1 out=%s/run save=%s/saved", folder, folder);
  assert_int_equal(train(options, 0, NULL), RONDE_OK);
  in(options, "init=%s/run output=%s/net", folder, folder);
  ronde_config *config = config_make("export", options);
  assert_int_equal(ronde_export(config, NULL), RONDE_OK);
  ronde_config_destroy(config);
  char saved[512], net[512];
  in(saved, "%s/saved", folder);
  in(net, "%s/net", folder);
  test_bytes a = read_all(saved), b = read_all(net);
  assert_int_equal(a.n, b.n);
  assert_memory_equal(a.data, b.data, a.n);
  free(a.data);
  free(b.data);
}

/* ---- numbers that break, replicas that drift ------------------------------------------------------------------ */

static ronde_status nan_read(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                             float *targets) {
  RONDE_TRY(small_read(NULL, split, ids, n, x, labels, targets));
  for (int64_t i = 0; i < n && split == RONDE_SPLIT_TRAIN; ++i)
    if (ids[i] == 13 || ids[i] == 27) x[i * SMALL_PIXELS] = NAN;
  return RONDE_OK;
}

static ronde_status train_nan(const char *options, json_t **run_out) {
  ronde_source source = small_source(40, 8);
  source.read = nan_read;
  ronde_hooks hooks = {.model = norm_model, .source = &source};
  ronde_config *config = config_make("train", options);
  char *text = NULL;
  ronde_status status = ronde_train(config, &hooks, &text);
  ronde_config_destroy(config);
  *run_out = json_of(text);
  return status;
}

/* Of the 5 steps of an epoch the 2nd and the 4th are bad; those left out change nothing, not even what batch
 * normalisation keeps. */
static void test_bad_steps_are_left_out(void **state) {
  for (int workers = 1; workers <= 3; ++workers) {
    char options[512], name[32];
    json_t *run;
    in(options, "batch=8 shuffle=off epochs=2 optimizer=adam skip-bad-steps=4 threads=1 workers=%d out=%s/w%d", workers,
       folder, workers);
    test_log_start(&lines);
    assert_int_equal(train_nan(options, &run), RONDE_OK);
    assert_int_equal(lines.n_errors, 0);
    assert_int_equal(lines.n_warnings, 4);
    assert_non_null(strstr(lines.warning, "step 9: the "));
    assert_non_null(strstr(lines.warning, "left out (4 of at most 4)"));
    assert_int_equal((int)real_at(run, "totals.skipped_steps"), 4);
    assert_int_equal((int)real_at(run, "totals.steps"), 10);
    assert_true(isfinite(real_at(run, "result.test_loss")) && isfinite(real_at(run, "epochs.1.train_loss")));
    json_decref(run);
    snprintf(name, sizeof name, "w%d", workers);
    json_t *losses = losses_of(name);
    double sum = 0;
    for (int step = 6; step <= 10; ++step) {
      snprintf(name, sizeof name, "%d", step);
      assert_int_equal(json_is_null(json_object_get(losses, name)), step == 7 || step == 9);
      sum += json_number_value(json_object_get(losses, name));
    }
    assert_true(sum > 0);
    json_decref(losses);
    in(options, "batch=8 shuffle=off epochs=2 skip-bad-steps=3 threads=1 workers=%d", workers);
    ronde_status status = train_nan(options, &run);
    assert_int_equal(status, RONDE_E_NUMERIC);
    assert_int_equal(lines.n_errors, 1);
    assert_non_null(strstr(lines.error, "step 9: the "));
    json_decref(run);
  }
}

static void check_drift(const char *options, const char *says, const char *who) {
  char all[512];
  snprintf(all, sizeof all, SET "model=mnist-small batch=8 threads=1 epochs=9 %s", options);
  ronde_status status = train(all, 0, NULL);
  check_failed(&lines, status, RONDE_E_DIFFERENCE, says, who);
}

/* 7 steps an epoch, 63 in all; the parameter in the middle of the list drifts. */
static void test_a_drifting_replica_is_named(void **state) {
  check_drift("workers=2 sentinel=5 drill=drift:1:12", "step 15:", "of rank 1 is not that of rank 0");
  check_drift("workers=3 sentinel=5 drill=drift:2:15", "step 15:", "of rank 2 is not that of most");
  check_drift("workers=3 sentinel=10 drill=drift:0:1", "step 10:", "of rank 0 is not that of most");
  check_drift("workers=4 drill=drift:2:3", "step 63:", "fc1.bias of rank 2");
  check_failed(&lines, train(SET "batch=8 workers=2 drill=drift:2:3", 0, NULL), RONDE_E_USAGE, "drift:2:3", "rank 2");
  check_failed(&lines, train(SET "batch=8 sentinel=7", 0, NULL), RONDE_E_USAGE, "--sentinel can have no effect", "one");
  assert_int_equal(train(SET "batch=8 threads=1 workers=3 sentinel=1", 0, NULL), RONDE_OK);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {TEST(test_resumed_runs_end_with_the_same_bits),
                                     TEST(test_checkpoints_on_the_way),
                                     TEST(test_old_checkpoints_go),
                                     TEST(test_other_numbers_of_workers_take_each_example_once),
                                     TEST(test_a_flipped_bit_is_found_wherever_it_is),
                                     TEST(test_an_older_checkpoint_serves_where_the_newest_is_damaged),
                                     TEST(test_what_may_not_change_is_refused_by_name),
                                     TEST(test_notes_that_cannot_be_followed),
                                     TEST(test_a_checkpoint_is_a_file_of_weights),
                                     TEST(test_info_and_verify),
                                     TEST(test_diff_names_the_first_tensor),
                                     TEST(test_export_is_the_weights_alone),
                                     TEST(test_bad_steps_are_left_out),
                                     TEST(test_a_drifting_replica_is_named)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
