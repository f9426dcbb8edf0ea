/* Going on from checkpoints: the same bits as a run that was never stopped, whatever the optimizer, the schedule and
 * the number of workers; every example once an epoch when that number changes; what is refused. */
#include "resume_testing.h"
#include "state/checkpoint.h"

#include <sys/stat.h>

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
                                         "adagrad lr=0.05",
                                         "rmsprop momentum=0.5 lr=0.005 alpha=0.9"};
static const char *const schedules[] = {"constant warmup=5", "step lr-step=1 lr-gamma=0.3", "cosine warmup=2",
                                        "one-cycle lr-rise=0.4",
                                        "plateau lr-patience=1 min-delta=0.9 lr-gamma=0.5 warmup=3"};

/* Stopped after some steps (once more after some others), and gone on with. */
static void check_bits(int optimizer, int schedule, int workers) {
  char options[400], whole[512], stopped[512], again[512], name[64];
  int accumulate = (int)draw(1, 2);
  int64_t n_steps = accumulate == 1 ? 21 : 12, first = draw(1, n_steps - 2), second = draw(1, n_steps - 1 - first);
  snprintf(options, sizeof options,
           SET
           "augment=crop,flip batch=8 epochs=3 lr=0.02 threads=1 seed=%d workers=%d accumulate=%d optimizer=%s "
           "lr-schedule=%s%s",
           (int)draw(1, 99), workers, accumulate, optimizers[optimizer], schedules[schedule],
           workers > 1 ? " overlap=on" : "");
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
  const char *base = SET "batch=8 epochs=2 lr=0.02 optimizer=adam workers=2 overlap=on threads=1";
  json_t *whole, *run;
  assert_int_equal(train(base, 0, &whole), RONDE_OK);
  in(options, "%s out=%s/run resume=auto checkpoint-every=1 keep=100", base, folder);
  assert_int_equal(train(options, 9, &run), RONDE_E_CANCELLED);
  assert_true(json_is_null(json_at(run, "resumed_from")));
  json_decref(run);
  assert_int_equal(train(options, 0, &run), RONDE_OK);
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
  in(options, SET "batch=4 epochs=2 checkpoint-every=2 keep=2 resume=auto out=%s/run", folder);
  for (int stop = 0; stop < 3; ++stop) assert_int_equal(train(options, 4, NULL), RONDE_E_CANCELLED);
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
  check_failed(&lines, status, RONDE_E_USAGE, "holds another run", "--resume");
}

/* All scores are equal: only the first is better than what was before. */
static void test_the_best_score_is_gone_on_with(void **state) {
  char options[512], best[512];
  struct stat before, after;
  json_t *run;
  in(best, "%s/run/best.safetensors", folder);
  in(options, SET "batch=8 epochs=2 lr=0 checkpoint-every=100 out=%s/run model=mnist-small", folder);
  assert_int_equal(train(options, 0, &run), RONDE_OK);
  assert_int_equal((int)real_at(run, "result.best.epoch"), 1);
  json_decref(run);
  assert_int_equal(stat(best, &before), 0);
  in(options, "resume=%s/run epochs=4 model=mnist-small", folder);
  assert_int_equal(train(options, 0, &run), RONDE_OK);
  assert_int_equal(json_array_size(json_at(run, "epochs")), 2);
  assert_int_equal((int)real_at(run, "result.best.epoch"), 1);
  json_decref(run);
  assert_int_equal(stat(best, &after), 0);
  assert_true(before.st_ino == after.st_ino && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
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
  ronde_source source = {
      .name = "values", .rank = 3, .dims = {1, 1, 1}, .target_elems = 1, .n_examples = {IDS, 0}, .read = value_read};
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

/* ---- what is taken over ------------------------------------------------------------------------------------------ */

/* A checkpoint without tensors, of 3 workers; config: what came of given. */
static ronde__resume *make_note(const char *given, const char *config, const char *strategy) {
  char note[1024], *text = NULL;
  ronde__resume *r;
  snprintf(note, sizeof note,
           "{\"schema\": \"" RONDE__CHECKPOINT_SCHEMA
           "\", \"place\": {\"step\": 0, \"skipped\": 0, \"optimizer_updates\": 0, "
           "\"closed\": false, \"best\": null, \"epoch_sums\": {\"steps\": 0, \"examples\": 0, \"correct\": 0, "
           "\"loss\": 0.0}}, \"given\": {%s}, \"config\": {%s}, \"world\": {\"workers\": 3, \"strategy\": \"%s\"}}",
           given, config, strategy);
  json_t *header = json_pack("{s:{s:s}}", "__metadata__", RONDE__CHECKPOINT_NOTE, note);
  text = json_dumps(header, JSON_COMPACT);
  json_decref(header);
  uint64_t n = strlen(text);
  static char bytes[4096]; /* borrowed */
  memcpy(bytes, &n, sizeof n);
  memcpy(bytes + sizeof n, text, n);
  free(text);
  assert_int_equal(ronde__resume_parse("note", bytes, sizeof n + n, &r), RONDE_OK);
  return r;
}

/* wanted: "name=value", or "name" for one that must not be given. */
static void check_taken(const ronde__resume *r, const char *user, int n_ranks, const char *wanted) {
  ronde_config *config = config_make("train", user);
  assert_int_equal(ronde__resume_options(r, config, n_ranks), RONDE_OK);
  char *copy = strdup(wanted), *rest = copy, *word;
  while ((word = strsep(&rest, " "))) {
    char *value = strchr(word, '=');
    if (value) *value++ = 0;
    const char *found = ronde_config_is_given(config, word) ? ronde_config_get(config, word) : NULL;
    if (!value ? found != NULL : !found || strcmp(found, value))
      fail_msg("'%s': %s is %s, not %s", user, word, found ? found : "open", value ? value : "open");
  }
  free(copy);
  ronde_config_destroy(config);
}

#define GIVEN(name, value) "\"" name "\": \"" value "\""
static void test_only_what_depends_on_the_workers_is_left_out(void **state) {
  ronde__resume *r = make_note(GIVEN("strategy", "ps-sync") ", " GIVEN("servers", "3") ", " GIVEN(
                                   "bucket-mb", "2") ", " GIVEN("transport", "mpi"),
                               GIVEN("transport", "mpi"), "ps-sync");
  check_taken(r, "", 0, "strategy=ps-sync servers=3 bucket-mb=2 transport=mpi workers=3");
  check_taken(r, "workers=3", 0, "strategy=ps-sync servers=3 bucket-mb=2 transport=mpi");
  check_taken(r, "strategy=ps-sync", 0, "servers=3 bucket-mb=2 transport=mpi workers=3");
  check_taken(r, "workers=2", 0, "strategy=ps-sync servers=2 bucket-mb=2 transport=mpi");
  check_taken(r, "workers=2 placement=dedicated", 0, "strategy=ps-sync servers=3 bucket-mb=2");
  check_taken(r, "strategy=allreduce", 0, "servers bucket-mb=2 workers=3");
  check_taken(r, "workers=1 strategy=single", 0, "servers bucket-mb");
  check_taken(r, "transport=threads", 0, "strategy=ps-sync servers=3 workers=3");
  check_taken(r, "", 2, "strategy=ps-sync servers=2 workers transport");
  ronde__resume_close(r);
  r = make_note(GIVEN("strategy", "single") ", " GIVEN("transport", "self"), GIVEN("transport", "self"), "single");
  check_taken(r, "workers=2", 0, "strategy transport");
  check_taken(r, "workers=1", 0, "strategy=single transport=self");
  ronde__resume_close(r);
  r = make_note(GIVEN("wire", "bf16") ", " GIVEN("sentinel", "7") ", " GIVEN("shard", "whole"), "", "allreduce");
  check_taken(r, "workers=2", 0, "wire=bf16 sentinel=7 shard=whole");
  check_taken(r, "workers=1", 0, "wire sentinel shard");
  check_taken(r, "strategy=ps-sync", 0, "wire sentinel=7");
  ronde__resume_close(r);
  r = make_note(GIVEN("sparse-gradients", "off"), "", "allreduce");
  check_taken(r, "workers=2", 0, "sparse-gradients=off");
  check_taken(r, "workers=1", 0, "sparse-gradients");
  check_taken(r, "workers=1 strategy=ps-sync", 0, "sparse-gradients=off");
  ronde__resume_close(r);
}

static void test_hosts_are_those_of_the_run(void **state) {
  ronde__resume *r =
      make_note(GIVEN("hosts", "a,b,c") ", " GIVEN("iface", "eth1"), GIVEN("transport", "mpi"), "allreduce");
  check_taken(r, "", 0, "hosts=a,b,c iface=eth1 workers=3 transport");
  check_taken(r, "hosts=d,e", 0, "hosts=d,e iface workers");
  check_taken(r, "hostfile=other", 0, "hosts iface workers");
  check_taken(r, "transport=threads", 0, "hosts iface workers=3");
  check_taken(r, "workers=2", 0, "hosts=a,b,c");
  ronde__resume_close(r);
  /* Of somebody's own mpirun: as many processes, wherever this is. */
  r = make_note("", GIVEN("transport", "mpi"), "allreduce");
  check_taken(r, "", 0, "workers=3 transport=mpi");
  check_taken(r, "", 4, "workers transport");
  ronde__resume_close(r);
}

/* The same checkpoint with another note, without checksums. */
static void rewrite(const char *path, const char *to, const char *object, const char *name, const char *value) {
  ronde__resume *r;
  ronde__file_tensor tensors[64];
  ronde__file_meta meta[16];
  int n_tensors = 0, n_meta = 0;
  assert_int_equal(ronde__resume_open(path, &r), RONDE_OK);
  json_object_set_new(json_object_get(r->json, object), name, json_string(value));
  char *note = json_dumps(r->json, 0);
  for (int i = 0; i < r->file->n_tensors; ++i)
    if (strcmp(r->file->tensors[i].name, RONDE__CHECKSUMS)) tensors[n_tensors++] = r->file->tensors[i];
  for (int i = 0; i < r->file->n_meta; ++i) {
    ronde__file_meta one = r->file->meta[i];
    if (!strcmp(one.key, RONDE__CHECKPOINT_NOTE)) one.value = note;
    if (strcmp(one.key, RONDE__CHECKSUMS)) meta[n_meta++] = one;
  }
  assert_int_equal(ronde__safetensors_write(to, tensors, n_tensors, meta, n_meta), RONDE_OK);
  free(note);
  ronde__resume_close(r);
}

static const char *chosen(json_t *run) {
  json_t *choices = json_at(run, "choices"), *row;
  size_t i;
  json_array_foreach(choices, i, row) if (!strcmp(text_at(row, "choice"), "collective")) return text_at(row, "value");
  return "";
}

/* Another one would be another order of sums. */
static void test_a_chosen_collective_is_chosen_again(void **state) {
  make_run("workers=3 threads=1 collective=halving-doubling");
  char options[512], file[512], from[512];
  json_t *run;
  in(from, "%s/run/checkpoints/step-5.safetensors", folder);
  in(file, "%s/chosen.safetensors", folder);
  rewrite(from, file, "config", "collective", "auto");
  static const struct {
    const char *more, *wanted;
  } cases[] = {
      {"", "halving-doubling"}, {"workers=3", "halving-doubling"}, {"workers=2", "ring"}, {"collective=tree", "tree"}};
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i) {
    in(options, "resume=%s %s", file, cases[i].more);
    assert_int_equal(train(options, 0, &run), RONDE_OK);
    assert_string_equal(chosen(run), cases[i].wanted);
    json_decref(run);
  }
  /* And in the run after that. */
  in(options, "resume=%s out=%s/next checkpoint-every=1", file, folder);
  assert_int_equal(train(options, 2, NULL), RONDE_E_CANCELLED);
  in(options, "resume=%s/next", folder);
  assert_int_equal(train(options, 0, &run), RONDE_OK);
  assert_string_equal(chosen(run), "halving-doubling");
  assert_string_equal(text_at(run, "config.collective"), "auto");
  json_decref(run);
}

/* That other arithmetic goes on is told, and how each multiplies. */
static void test_another_dtype_is_told(void **state) {
  char options[512], file[512], from[512];
  make_run("threads=1");
  in(from, "%s/run/checkpoints/step-5.safetensors", folder);
  in(file, "%s/other.safetensors", folder);
  static const char *const cases[][2] = {{"amx", "multiplied in bfloat16 (amx), and this run multiplies in f32"},
                                         {"none", NULL}};
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i) {
    rewrite(from, file, "choices", "bf16", cases[i][0]);
    in(options, "resume=%s dtype=f32", file);
    test_log_start(&lines);
    assert_int_equal(train(options, 0, NULL), RONDE_OK);
    if (cases[i][1]) assert_non_null(strstr(lines.warning, cases[i][1]));
    else assert_int_equal(lines.n_warnings, 0);
  }
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
                                         {"steps=3", "14 updates already", "ask for only 3"}};
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

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder_with_log, remove_folder)
  const struct CMUnitTest tests[] = {TEST(test_resumed_runs_end_with_the_same_bits),
                                     TEST(test_checkpoints_on_the_way),
                                     TEST(test_old_checkpoints_go),
                                     TEST(test_the_best_score_is_gone_on_with),
                                     TEST(test_other_numbers_of_workers_take_each_example_once),
                                     TEST(test_only_what_depends_on_the_workers_is_left_out),
                                     TEST(test_hosts_are_those_of_the_run),
                                     TEST(test_a_chosen_collective_is_chosen_again),
                                     TEST(test_another_dtype_is_told),
                                     TEST(test_what_may_not_change_is_refused_by_name)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
