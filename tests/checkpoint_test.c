/* Checkpoints as files: damage, and what is passed over for it; notes that cannot be followed; what can be asked of one.
 */
#include "resume_testing.h"
#include "state/checkpoint.h"

/* ---- damage ------------------------------------------------------------------------------------------------------ */

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

static void check_refused(const char *a, const char *b) {
  char options[512];
  in(options, "resume=%s/run", folder);
  check_failed(&lines, train(options, 0, NULL), RONDE_E_INPUT, a, b);
}

static void test_notes_that_cannot_be_followed(void **state) {
  make_run("model=mnist-small");
  char *path = newest(0);
  rewrite_note(path, "checkpoint.v1", "checkpoint.v9");
  check_refused("newer version", "ronde.checkpoint.v9");
  rewrite_note(path, "checkpoint.v9", "checkpoint.v1");
  rewrite_note(path, "\"closed\"", "\"clossd\"");
  check_refused("position in the training", "step-14");
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
  check_failed(&lines, train(options, 0, NULL), RONDE_E_INPUT, "weights but no training state", "--init");
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
  in(options,
     SET
     "model=resnet18-cifar resize=8x8 data=synthetic:3x8x8:4:40 batch=10 momentum=0.9 steps=2 "
     "checkpoint-every=1 out=%s/run save=%s/saved",
     folder, folder);
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

/* ---- a run's folder ---------------------------------------------------------------------------------------------- */

static char told[1024];

static void keep_told(void *user, ronde_log_level level, const char *line) {
  if (level == RONDE_LOG_INFO) snprintf(told, sizeof told, "%s", line);
  else test_log_line(user, level, line);
}

static void put_weights(const char *name, const char *seed) {
  char options[512];
  in(options, "model=mnist-small shape=1x10x10 classes=4 seed=%s output=%s/run/%s", seed, folder, name);
  json_decref(job_run("init", options, NULL));
}

static void remove_below(const char *name) {
  char path[512];
  in(path, "%s/run/%s", folder, name);
  assert_int_equal(unlink(path), 0);
}

/* eval, export and --init of the folder all take that file, and say so. */
static void check_taken(const char *path) {
  char options[512];
  ronde__safetensors *wanted, *got;
  ronde_log_set(keep_told, &lines);
  for (int verb = 0; verb < 3; ++verb) {
    told[0] = '\0';
    char *text = NULL;
    in(options,
       verb == 0   ? SET "init=%s/run"
       : verb == 1 ? "init=%s/run output=%s/net"
                   : "init=%s/run save=%s/net " SET "model=mnist-small batch=8 steps=1 lr=0",
       folder, folder);
    ronde_config *config = config_make(verb == 0 ? "eval" : verb == 1 ? "export" : "train", options);
    ronde_status status = verb == 0   ? ronde_eval(config, NULL, &text)
                          : verb == 1 ? ronde_export(config, &text)
                                      : ronde_train(config, NULL, &text);
    assert_int_equal(status, RONDE_OK);
    ronde_config_destroy(config);
    json_t *json = json_of(text);
    assert_string_equal(text_at(json, verb == 2 ? "model.init_file" : "input"), path);
    assert_non_null(strstr(told, path));
    json_decref(json);
    if (verb == 0) continue;
    in(options, "%s/net", folder);
    assert_int_equal(ronde__safetensors_open(path, &wanted), RONDE_OK);
    assert_int_equal(ronde__safetensors_open(options, &got), RONDE_OK);
    for (int i = 0; i < got->n_tensors; ++i) {
      const ronde__file_tensor *a = &got->tensors[i], *b = ronde__safetensors_find(wanted, a->name);
      assert_memory_equal(a->data, b->data, (size_t)ronde__shape_elems(&a->shape) * sizeof(float));
    }
    ronde__safetensors_close(wanted);
    ronde__safetensors_close(got);
  }
}

static void test_a_folder_stands_for_its_best_weights(void **state) {
  make_run("model=mnist-small save-best=off");
  char *checkpoint = newest(0), *older = newest(1), path[512];
  put_weights("last.safetensors", "2");
  put_weights("best.safetensors", "3");
  in(path, "%s/run/best.safetensors", folder);
  check_taken(path);
  remove_below("best.safetensors");
  in(path, "%s/run/last.safetensors", folder);
  check_taken(path);
  remove_below("last.safetensors");
  check_taken(checkpoint);
  write_all(checkpoint, (const uint8_t *)"x", 1);
  check_taken(older);
  in(path, "init=%s " SET, folder);
  ronde_config *config = config_make("eval", path);
  check_failed(&lines, ronde_eval(config, NULL, NULL), RONDE_E_INPUT, folder, "neither best.safetensors nor last");
  ronde_config_destroy(config);
  free(checkpoint);
  free(older);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder_with_log, remove_folder)
  const struct CMUnitTest tests[] = {TEST(test_a_flipped_bit_is_found_wherever_it_is),
                                     TEST(test_an_older_checkpoint_serves_where_the_newest_is_damaged),
                                     TEST(test_notes_that_cannot_be_followed),
                                     TEST(test_a_checkpoint_is_a_file_of_weights),
                                     TEST(test_info_and_verify),
                                     TEST(test_diff_names_the_first_tensor),
                                     TEST(test_export_is_the_weights_alone),
                                     TEST(test_a_folder_stands_for_its_best_weights)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
