/* Which examples an evaluation takes: test, validation, what was trained on, or all of a labelled folder. */
#include "tree_testing.h"
#include "state/checkpoint.h"
#include "setup/setup.h"

enum { N_TRAIN = 30 }; /* of each class but the last, which has a third of it */

#define TRAIN "model=mnist-small batch=8 epochs=4 optimizer=adam lr=0.01 threads=1 seed=5 "
#define SPLIT TRAIN "val-split=0.2 "

static void put_train(const char *split) {
  for (int k = 0; k < TREE_CLASSES; ++k) put_class(split, k, k == TREE_CLASSES - 1 ? N_TRAIN / 3 : N_TRAIN, 0);
}

/* The evaluation is of so many examples of that part; whether it says what the run's last test did. */
static bool evaluates(const char *options, const char *split, int n, json_t *run) {
  json_t *eval = run_job("eval", options);
  assert_string_equal(text_at(eval, "split"), split);
  assert_int_equal((int)real_at(eval, "examples"), n);
  double loss = real_at(run, "result.test_loss"), accuracy = real_at(run, "result.test_accuracy");
  bool same = fabs(real_at(eval, "loss") - loss) < 1e-5 && fabs(real_at(eval, "accuracy") - accuracy) < 1e-9;
  json_decref(eval);
  return same;
}

/* --split val is what the run validated on, and train what is left. */
static void test_the_part_that_a_run_kept_out(void **state) {
  put_train("tree");
  enum { ALL = 3 * N_TRAIN + N_TRAIN / 3, OUT = ALL / 5 };
  json_t *run = run_job("train", SPLIT "data=folder:%s/tree save=%s/w out=%s/run");
  assert_int_equal(lines.n_warnings, 0); /* there is no test/, but validation */
  assert_int_equal((int)real_at(run, "data.train_examples"), ALL);
  assert_int_equal((int)real_at(run, "data.validation_examples"), OUT);
  assert_int_equal((int)real_at(run, "data.test_examples"), 0);
  assert_string_equal(text_at(run, "data.tested_on"), "validation");
  assert_true(evaluates("init=%s/w data=folder:%s/tree split=val", "val", OUT, run));
  assert_true(evaluates("init=%s/w data=folder:%s/tree", "val", OUT, run));
  assert_true(evaluates("init=%s/w data=folder:%s/tree split=val cache=off workers=3", "val", OUT, run));
  assert_true(evaluates("init=%s/run/best.safetensors data=folder:%s/tree split=val", "val", OUT, run) ||
              real_at(run, "result.best.epoch") < 4);
  assert_false(evaluates("init=%s/w data=folder:%s/tree split=train", "train", ALL - OUT, run));
  refused("eval", "init=%s/w data=folder:%s/tree split=test", RONDE_E_INPUT, "/tree: ", "no test examples");
  json_decref(run);
}

/* Sums over both parts are those over all. */
static void test_the_parts_are_all(void **state) {
  put_train("tree");
  json_decref(run_job("train", SPLIT "data=folder:%s/tree save=%s/w"));
  json_decref(run_job("train", TRAIN "data=folder:%s/tree init=%s/w lr=0 steps=1 save=%s/plain"));
  double sum = 0, n = 0;
  static const char *const parts[] = {"init=%s/w data=folder:%s/tree split=val",
                                      "init=%s/w data=folder:%s/tree split=train"};
  for (int i = 0; i < 2; ++i) {
    json_t *part = run_job("eval", parts[i]);
    n += real_at(part, "examples");
    sum += real_at(part, "examples") * real_at(part, "loss");
    json_decref(part);
  }
  json_t *all = run_job("eval", "init=%s/plain data=folder:%s/tree");
  assert_string_equal(text_at(all, "split"), "all");
  assert_non_null(strstr(told, "has neither test nor validation examples: all 100 examples are evaluated"));
  assert_float_equal(real_at(all, "examples"), n, 0);
  assert_float_equal(real_at(all, "examples") * real_at(all, "loss"), sum, 1e-3);
  json_decref(all);
  refused("eval", "init=%s/plain data=folder:%s/tree split=val", RONDE_E_INPUT, "no validation examples",
          "/plain held out none");
}

/* Other data, or the same in another size, are not those of the run. */
static void test_the_split_belongs_to_its_data(void **state) {
  put_train("tree");
  put_train("other");
  json_decref(run_job("train", SPLIT "data=folder:%s/tree save=%s/w"));
  put_class("other", 0, 1, 90);
  refused("eval", "init=%s/w data=folder:%s/other split=val", RONDE_E_INPUT,
          "/other: these are not the data and options", "/w held out examples");
  refused("eval", "init=%s/w data=folder:%s/tree split=val resize=9x8", RONDE_E_INPUT,
          "these are not the data and options", "/w");
  json_t *eval = run_job("eval", "init=%s/w data=folder:%s/other");
  assert_string_equal(text_at(eval, "split"), "all");
  assert_int_equal((int)real_at(eval, "examples"), 101);
  json_decref(eval);
}

/* A labelled folder, whole; and folders that have only some of train/, val/ and test/. */
static void test_folders_with_some_parts(void **state) {
  put_train("tree/train");
  for (int k = 0; k < TREE_CLASSES; ++k) put_class("tree/val", k, 3 + k, 50);
  json_t *run = run_job("train", TRAIN "data=folder:%s/tree save=%s/w");
  assert_int_equal((int)real_at(run, "data.validation_examples"), 18);
  assert_int_equal((int)real_at(run, "data.test_examples"), 18);
  assert_string_equal(text_at(run, "data.tested_on"), "validation");
  assert_true(evaluates("init=%s/w data=folder:%s/tree/val", "all", 18, run));
  assert_true(evaluates("init=%s/w data=folder:%s/tree", "val", 18, run));
  assert_true(evaluates("init=%s/w data=folder:%s/tree split=val", "val", 18, run));
  assert_false(evaluates("init=%s/w data=folder:%s/tree split=train", "train", 100, run));
  assert_int_equal(lines.n_warnings, 0);
  refused("eval", "init=%s/w data=folder:%s/tree split=test", RONDE_E_INPUT, "it has val/ but no test/", "--split val");
  put_class("tree/test", 1, 5, 70);
  json_t *with_both = run_job("train", TRAIN "data=folder:%s/tree"); /* the test is not for choosing epochs */
  assert_string_equal(text_at(with_both, "data.tested_on"), "validation");
  assert_true(real_at(with_both, "result.test_loss") == real_at(run, "result.test_loss"));
  json_decref(with_both);
  assert_false(evaluates("init=%s/w data=folder:%s/tree", "test", 5, run));
  assert_true(evaluates("init=%s/w data=folder:%s/tree split=val", "val", 18, run));
  rename_class(".", "tree/train", "train");
  assert_true(evaluates("init=%s/w data=folder:%s/tree split=val", "val", 18, run));
  refused("eval", "init=%s/w data=folder:%s/tree split=train", RONDE_E_INPUT, "/tree: ", "no training examples");
  refused("train", TRAIN "data=folder:%s/tree", RONDE_E_INPUT, "there are validation examples, but none to train on",
          "");
  rename_class(".", "tree/test", "test");
  assert_true(evaluates("init=%s/w data=folder:%s/tree", "val", 18, run));
  refused("train", TRAIN "data=folder:%s/tree", RONDE_E_INPUT, "there are validation examples, but none to train on",
          "");
  json_decref(run);
}

/* Data that --seed draws, and a caller's: found again as well. */
static void test_other_sources(void **state) {
  json_t *run = run_job("train", SPLIT "data=synthetic:1x8x8:4:60 save=%s/w");
  assert_true(evaluates("init=%s/w data=synthetic:1x8x8:4:60 split=val", "val", 12, run));
  assert_string_equal(text_at(run, "data.tested_on"), "validation");
  json_t *eval = run_job("eval", "init=%s/w data=synthetic:1x8x8:4:60");
  assert_string_equal(text_at(eval, "split"), "test");
  json_decref(eval);
  json_decref(run);
  ronde_source source = small_source(50, 7);
  ronde_hooks hooks = {.model = small_model, .source = &source};
  char *train = ronde__format("batch=8 val-split=0.3 seed=9 save=%s/v", folder);
  char *options = ronde__format("init=%s/v split=val", folder);
  run = job_run("train", train, &hooks);
  eval = job_run("eval", options, &hooks);
  assert_int_equal((int)real_at(eval, "examples"), 15);
  assert_float_equal(real_at(eval, "loss"), real_at(run, "result.test_loss"), 1e-5);
  json_decref(run);
  json_decref(eval);
  free(train);
  free(options);
}

/* How many of each class a job with these options keeps out. */
static void count_kept_out(const char *options, const ronde_hooks *hooks, int counts[TREE_CLASSES]) {
  char *text = ronde__format(options, folder, folder);
  ronde_config *config = config_make("train", text);
  ronde__job *job;
  assert_int_equal(ronde__job_create(config, hooks, &job), RONDE_OK);
  int64_t n;
  const int64_t *ids = ronde__sampler_validation(job->sampler, &n);
  memset(counts, 0, TREE_CLASSES * sizeof *counts);
  for (int64_t i = 0; i < n; ++i) ++counts[hooks ? ids[i] % SMALL_CLASSES : ids[i] / N_TRAIN];
  ronde__job_destroy(job);
  ronde_config_destroy(config);
  free(text);
}

static void test_each_class_keeps_its_share(void **state) {
  put_train("tree");
  static const char *const options[] = {SPLIT "data=folder:%s/tree", SPLIT "data=folder:%s/tree cache=off"};
  int of[TREE_CLASSES];
  for (int i = 0; i < 2; ++i) {
    count_kept_out(options[i], NULL, of);
    assert_true(of[0] == 6 && of[1] == 6 && of[2] == 6 && of[3] == 2);
  }
  ronde_source source = small_source(150, 7);
  count_kept_out("batch=8 val-split=0.3 seed=9", &(ronde_hooks){.model = small_model, .source = &source}, of);
  assert_true(of[0] == 15 && of[1] == 15 && of[2] == 15);
}

/* The newest checkpoint of the run, as a version wrote it that split without a look at classes. */
static void write_older(const char *name) {
  char *path = ronde__format("%s/run", folder);
  ronde__resume *newest;
  assert_int_equal(ronde__checkpoint_open(path, &newest), RONDE_OK);
  ronde__file_tensor tensors[32];
  ronde__file_meta meta[16];
  int n_tensors = 0, n_meta = 0;
  for (int i = 0; i < newest->file->n_tensors; ++i)
    if (strcmp(newest->file->tensors[i].name, RONDE__CHECKSUMS)) tensors[n_tensors++] = newest->file->tensors[i];
  for (int i = 0; i < newest->file->n_meta; ++i) {
    const char *key = newest->file->meta[i].key;
    if (strcmp(key, RONDE__CHECKSUMS) && strcmp(key, "ronde.split")) meta[n_meta++] = newest->file->meta[i];
  }
  assert_int_equal(n_meta, newest->file->n_meta - 2);
  write_weights(name, tensors, n_tensors, meta, n_meta);
  ronde__resume_close(newest);
  free(path);
}

static void test_an_older_run_keeps_its_split(void **state) {
  put_train("tree");
  json_decref(run_job("train", SPLIT "data=folder:%s/tree out=%s/run checkpoint-every=1"));
  write_older("older");
  int of[TREE_CLASSES], again[TREE_CLASSES];
  count_kept_out("epochs=5 resume=%s/older", NULL, of);
  ronde__sampler *sampler;
  const ronde__sampler_options options = {.n_train = 100, .repeat = 1, .val_split = .2, .batch = 1, .seed = 5};
  assert_int_equal(ronde__sampler_create(&options, &sampler), RONDE_OK);
  int64_t n;
  const int64_t *ids = ronde__sampler_validation(sampler, &n);
  memset(again, 0, sizeof again);
  for (int64_t i = 0; i < n; ++i) ++again[ids[i] / N_TRAIN];
  assert_memory_equal(of, again, sizeof of);
  assert_false(of[0] == 6 && of[1] == 6 && of[2] == 6);
  ronde__sampler_destroy(sampler);
}

/* A run that goes on keeps the same examples out. */
static void test_a_resumed_run_keeps_its_split(void **state) {
  put_train("tree");
  json_decref(run_job("train", SPLIT "data=folder:%s/tree out=%s/run checkpoint-every=1"));
  json_t *run = run_job("train", "epochs=5 resume=%s/run save=%s/w");
  assert_int_equal((int)real_at(run, "data.validation_examples"), 20);
  assert_true(evaluates("init=%s/w data=folder:%s/tree split=val", "val", 20, run));
  json_decref(run);
}

static void test_notes_that_make_no_sense(void **state) {
  static const char *const notes[] = {
      "{",
      "[]",
      "{\"val_split\":0.2}",
      "{\"val_split\":1.5,\"seed\":1,\"by_class\":true,\"train_examples\":9,\"validation_examples\":3,\"data_sha256\":"
      "\"\"}",
      "{\"val_split\":0.2,\"seed\":-1,\"by_class\":true,\"train_examples\":9,\"validation_examples\":3,\"data_sha256\":"
      "\"\"}",
      "{\"val_split\":0.2,\"seed\":1,\"by_class\":true,\"train_examples\":3,\"validation_examples\":3,\"data_sha256\":"
      "\"\"}",
      "{\"val_split\":0.2,\"seed\":1,\"by_class\":2,\"train_examples\":9,\"validation_examples\":3,\"data_sha256\":"
      "\"\"}",
      "{\"val_split\":0.2,\"seed\":1,\"by_class\":true,\"train_examples\":9,\"validation_examples\":3,\"data_sha256\":"
      "\"00000000000000000000000000000000000000000000000000000000000000000\"}"};
  json_decref(run_job("train", SPLIT "data=synthetic:1x8x8:4:60 save=%s/w"));
  ronde__safetensors *file = open_weights("w");
  for (size_t i = 0; i < RONDE__COUNT(notes); ++i) {
    bool any = false;
    for (int m = 0; m < file->n_meta; ++m)
      if (!strcmp(file->meta[m].key, "ronde.split")) file->meta[m].value = notes[i], any = true;
    assert_true(any);
    write_weights("bad", file->tensors, file->n_tensors, file->meta, file->n_meta);
    refused("eval", "init=%s/bad data=synthetic:1x8x8:4:60", RONDE_E_INPUT, "/bad: ", "ronde.split is invalid");
  }
  ronde__safetensors_close(file);
}

int main(void) {
  if (!ronde__image_supported()) return 0;
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(test_the_part_that_a_run_kept_out),
      TEST(test_the_parts_are_all),
      TEST(test_the_split_belongs_to_its_data),
      TEST(test_folders_with_some_parts),
      TEST(test_other_sources),
      TEST(test_each_class_keeps_its_share),
      TEST(test_a_resumed_run_keeps_its_split),
      TEST(test_an_older_run_keeps_its_split),
      TEST(test_notes_that_make_no_sense),
  };
#undef TEST
  return cmocka_run_group_tests(tests, NULL, NULL);
}
