/* What a run keeps: its weights and state at its end, each step once, and what another run has left. */
#include "resume_testing.h"

#include "io/file.h"
#include "io/lock.h"

#include <sys/stat.h>

#define RUN SET "batch=8 lr=0.02 threads=1 "

static char said[8192]; /* all lines of the log, whatever their level */

static void say(void *user, ronde_log_level level, const char *line) {
  size_t used = strlen(said);
  snprintf(said + used, sizeof said - used, "%s\n", line);
  test_log_line(&lines, level, line);
}

static int listen_in_folder(void **state) {
  make_folder_with_log(state);
  said[0] = '\0';
  ronde_log_set(say, NULL);
  return 0;
}

static void check_said(const char *text) {
  if (!strstr(said, text)) fail_msg("no '%s' in:\n%s", text, said);
  said[0] = '\0';
}

static ronde_status train_in(int64_t stop_at, json_t **run_out, const char *format, ...) {
  char options[512];
  va_list args;
  va_start(args, format);
  vsnprintf(options, sizeof options, format, args);
  va_end(args);
  return train(options, stop_at, run_out);
}

static void check_refused(ronde_status status, const char *a, const char *b) {
  check_failed(&lines, status, RONDE_E_USAGE, a, b);
  ronde_log_set(say, NULL);
}

static char *path_of(const char *name) { return ronde__format("%s/%s", folder, name); }

static test_bytes bytes_of(const char *name) {
  char *path = path_of(name);
  test_bytes bytes = read_all(path);
  free(path);
  return bytes;
}

static int64_t inode_of(const char *name) {
  struct stat info;
  char *path = path_of(name);
  assert_int_equal(stat(path, &info), 0);
  free(path);
  return (int64_t)info.st_ino;
}

/* Each step from the first to the last, once. */
static void check_steps(const char *run, int64_t n) {
  char *path = path_of(run);
  json_t *steps = steps_file(path);
  free(path);
  if ((int64_t)json_array_size(steps) != n) fail_msg("%zu lines for %d steps", json_array_size(steps), (int)n);
  for (int64_t i = 0; i < n; ++i)
    assert_int_equal(json_integer_value(json_object_get(json_array_get(steps, (size_t)i), "step")), i + 1);
  json_decref(steps);
}

static void check_kept_weights(json_t *run, const char *name) {
  char *path = path_of(name);
  char options[512];
  in(options, SET "threads=1 init=%s", path);
  json_t *eval = job_run("eval", options, &(ronde_hooks){.model = norm_model});
  assert_string_equal(text_at(eval, "weights_sha256"), text_at(run, "result.weights_sha256"));
  json_decref(eval);
  free(path);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void test_a_run_ends_with_its_weights_and_its_state(void **state) {
  static const char *const options[] = {
      "", "workers=2", "checkpoint-every=14", "strategy=ps-sync workers=2", "clip=1", "checkpoint-every=0"};
  for (size_t i = 0; i < RONDE__COUNT(options); ++i) {
    json_t *run;
    assert_int_equal(train_in(0, &run, RUN "epochs=2 overwrite=on out=%s/run %s", folder, options[i]), RONDE_OK);
    check_kept_weights(run, "run/last.safetensors");
    assert_true(file_exists(folder, "run/best.safetensors"));
    assert_true(file_exists(folder, "run/checkpoints/step-14.safetensors"));
    assert_int_equal((int)real_at(run, "checkpoints.written"), 1);
    assert_int_equal((int)real_at(run, "checkpoints.last_step"), 14);
    json_decref(run);
  }
  assert_int_equal(train_in(0, NULL, RUN "save-last=off save-best=off overwrite=on out=%s/run", folder), RONDE_OK);
  assert_false(file_exists(folder, "run/last.safetensors"));
  assert_false(file_exists(folder, "run/best.safetensors"));
  assert_false(file_exists(folder, "run/checkpoints/step-7.safetensors"));
}

static void test_without_tests_too(void **state) {
  ronde_source source = small_source(24, 0);
  char options[512];
  in(options, "batch=8 out=%s/run", folder);
  json_decref(job_run("train", options, &(ronde_hooks){.model = small_model, .source = &source}));
  assert_true(file_exists(folder, "run/last.safetensors"));
  assert_true(file_exists(folder, "run/checkpoints/step-3.safetensors"));
  assert_false(file_exists(folder, "run/best.safetensors"));
}

static void test_an_interrupted_run_keeps_its_weights(void **state) {
  json_t *run;
  assert_int_equal(train_in(5, &run, RUN "out=%s/run workers=2", folder), RONDE_E_CANCELLED);
  check_kept_weights(run, "run/last.safetensors");
  assert_true(file_exists(folder, "run/checkpoints/step-5.safetensors"));
  json_decref(run);
}

static void test_asynchronous_workers_keep_what_they_met_at(void **state) {
  json_t *run;
  assert_int_equal(train_in(0, &run, RUN "out=%s/run workers=2 strategy=ps-async", folder), RONDE_OK);
  check_kept_weights(run, "run/last.safetensors");
  assert_true(file_exists(folder, "run/checkpoints"));
  check_said("--strategy ps-async: checkpoints are written when the workers meet, at the end of each epoch");
  json_decref(run);
  assert_int_equal(train_in(5, &run, RUN "epochs=9 overwrite=on out=%s/run workers=2 strategy=ps-async", folder),
                   RONDE_E_CANCELLED);
  check_kept_weights(run, "run/last.safetensors");
  json_decref(run);
}

static void test_a_run_that_keeps_nothing_says_so(void **state) {
  assert_int_equal(train_in(0, NULL, RUN "steps=1"), RONDE_OK);
  check_said("nothing from this training will be kept: --out DIR keeps");
  assert_int_equal(train_in(0, NULL, RUN "steps=1 save=%s/w", folder), RONDE_OK);
  assert_int_equal(train_in(0, NULL, RUN "steps=1 out=%s/run", folder), RONDE_OK);
  assert_int_equal(train_in(0, NULL, RUN "dry-run=on"), RONDE_OK);
  assert_null(strstr(said, "nothing from this training"));
}

/* From the end, by more epochs or steps, in the middle of an epoch too: the bits of a run that was never stopped. */
static void check_longer(const char *options, const char *first, const char *second, int64_t n_steps) {
  json_t *whole, *longer;
  assert_int_equal(train_in(0, &whole, RUN "%s %s overwrite=on out=%s/whole", options, second, folder), RONDE_OK);
  assert_int_equal(train_in(0, NULL, RUN "%s %s overwrite=on out=%s/run", options, first, folder), RONDE_OK);
  assert_int_equal(train_in(0, &longer, "resume=%s/run %s", folder, second), RONDE_OK);
  check_said("resuming from step ");
  assert_string_equal(text_at(longer, "result.state_sha256"), text_at(whole, "result.state_sha256"));
  check_kept_weights(longer, "run/last.safetensors");
  check_steps("run", n_steps);
  json_t *a = losses_of("whole"), *b = losses_of("run");
  assert_true(json_equal(a, b));
  json_decref(a);
  json_decref(b);
  json_decref(whole);
  json_decref(longer);
}

static void test_a_run_can_be_made_longer(void **state) {
  check_longer("optimizer=adam", "epochs=2", "epochs=4", 28);
  check_longer("optimizer=sgd momentum=0.9 workers=2", "epochs=1", "epochs=3", 21);
  check_longer("optimizer=adam workers=2", "steps=10", "steps=20", 20);
  check_longer("optimizer=adam", "steps=10", "epochs=2", 14);
  check_longer("optimizer=adam workers=3 strategy=ps-sync", "epochs=1", "epochs=2", 14);
}

/* ---- complete ---------------------------------------------------------------------------------------------------- */

static void test_a_run_that_is_complete_is_left_as_it_is(void **state) {
  static const char *const forms[] = {RUN "epochs=2 resume=auto out=%s/run", "resume=%s/run"};
  json_t *run, *again;
  assert_int_equal(train_in(0, &run, RUN "epochs=2 out=%s/run", folder), RONDE_OK);
  test_bytes before = bytes_of("run/steps.jsonl");
  int64_t record = inode_of("run/run.json"), state_file = inode_of("run/checkpoints/step-14.safetensors");
  for (size_t i = 0; i < RONDE__COUNT(forms); ++i) {
    assert_int_equal(train_in(0, &again, forms[i], folder), RONDE_OK);
    check_said("complete at step 14 (");
    assert_true(json_equal(run, again));
    json_decref(again);
    test_bytes after = bytes_of("run/steps.jsonl");
    assert_int_equal(after.n, before.n);
    assert_memory_equal(after.data, before.data, before.n);
    free(after.data);
    assert_int_equal(inode_of("run/run.json"), record);
    assert_int_equal(inode_of("run/checkpoints/step-14.safetensors"), state_file);
  }
  free(before.data);
  json_decref(run);
}

/* What is asked for and missing is written, as the run would have. */
static void test_a_run_that_is_complete_still_gives_its_weights(void **state) {
  assert_int_equal(train_in(0, NULL, RUN "out=%s/run save=%s/w", folder, folder), RONDE_OK);
  test_bytes wanted = bytes_of("w");
  char *last = path_of("run/last.safetensors");
  assert_int_equal(remove(last), 0);
  free(last);
  assert_int_equal(train_in(0, NULL, "resume=%s/run save=%s/again", folder, folder), RONDE_OK);
  static const char *const names[] = {"again", "run/last.safetensors"};
  for (size_t i = 0; i < RONDE__COUNT(names); ++i) {
    test_bytes got = bytes_of(names[i]);
    assert_int_equal(got.n, wanted.n);
    assert_memory_equal(got.data, wanted.data, wanted.n);
    free(got.data);
  }
  free(wanted.data);
}

/* Killed behind its last state, but in front of its record: the record is made. */
static void test_a_record_that_is_missing_is_made(void **state) {
  json_t *run, *again;
  assert_int_equal(train_in(0, &run, RUN "epochs=2 out=%s/run", folder), RONDE_OK);
  char *record = path_of("run/run.json");
  assert_int_equal(remove(record), 0);
  free(record);
  assert_int_equal(train_in(0, &again, "resume=%s/run", folder), RONDE_OK);
  check_said("complete at step 14 (");
  assert_true(file_exists(folder, "run/run.json"));
  assert_int_equal((int)real_at(again, "totals.steps"), 0);
  assert_string_equal(text_at(again, "result.weights_sha256"), text_at(run, "result.weights_sha256"));
  check_steps("run", 14);
  json_decref(run);
  json_decref(again);
}

static void test_a_reached_target_is_an_end(void **state) {
  ronde_source source = small_source(40, 12);
  ronde_hooks hooks = {.model = small_model, .source = &source};
  char options[512];
  in(options, "batch=8 lr=0.1 epochs=50 target-accuracy=0.4 out=%s/run", folder);
  json_t *run = job_run("train", options, &hooks);
  assert_true(json_is_true(json_at(run, "result.target.reached")));
  int64_t n_steps = (int64_t)real_at(run, "totals.steps");
  assert_true(n_steps < 250);
  json_decref(run);
  said[0] = '\0';
  in(options, "resume=%s/run", folder);
  json_decref(job_run("train", options, &hooks));
  check_said("complete at step ");
  check_steps("run", n_steps);
}

/* ---- each step once ---------------------------------------------------------------------------------------------- */

static void remove_newest(void) {
  char *path = newest(0);
  assert_int_equal(remove(path), 0);
  free(path);
}

static void test_steps_that_are_made_again_are_cut_first(void **state) {
  assert_int_equal(train_in(4, NULL, RUN "epochs=2 out=%s/run", folder), RONDE_E_CANCELLED);
  assert_int_equal(train_in(5, NULL, "resume=%s/run", folder), RONDE_E_CANCELLED);
  check_steps("run", 9);
  remove_newest(); /* as a kill before it was written */
  assert_int_equal(train_in(1, NULL, "resume=%s/run", folder), RONDE_E_CANCELLED);
  check_said("resuming from step 4 (");
  check_steps("run", 5);
  assert_int_equal(train_in(0, NULL, "resume=%s/run", folder), RONDE_OK);
  check_steps("run", 14);
}

/* Back to an earlier checkpoint of the folder: only where what is behind it may go. */
static void test_going_back_must_be_asked_for(void **state) {
  char early[512];
  assert_int_equal(train_in(4, NULL, RUN "epochs=2 out=%s/run", folder), RONDE_E_CANCELLED);
  assert_int_equal(train_in(0, NULL, "resume=%s/run", folder), RONDE_OK);
  in(early, "%s/run/checkpoints/step-4.safetensors", folder);
  check_refused(train_in(0, NULL, "resume=%s out=%s/run", early, folder), "step-14.safetensors is a later checkpoint",
                "--overwrite");
  assert_true(file_exists(folder, "run/checkpoints/step-14.safetensors"));
  check_steps("run", 14);
  assert_int_equal(train_in(2, NULL, "resume=%s out=%s/run overwrite=on", early, folder), RONDE_E_CANCELLED);
  assert_false(file_exists(folder, "run/checkpoints/step-14.safetensors"));
  check_steps("run", 6);
}

/* A damaged checkpoint counts for nothing: with --keep 1 it must not push out the next one. */
static void test_a_damaged_checkpoint_goes(void **state) {
  assert_int_equal(train_in(4, NULL, RUN "epochs=2 keep=9 out=%s/run", folder), RONDE_E_CANCELLED);
  assert_int_equal(train_in(5, NULL, "resume=%s/run", folder), RONDE_E_CANCELLED);
  char *path = newest(0);
  write_all(path, (const uint8_t *)"x", 1);
  free(path);
  assert_int_equal(train_in(1, NULL, "resume=%s/run keep=1", folder), RONDE_E_CANCELLED);
  assert_true(file_exists(folder, "run/checkpoints/step-5.safetensors"));
  assert_false(file_exists(folder, "run/checkpoints/step-9.safetensors"));
}

/* ---- another run's folder ---------------------------------------------------------------------------------------- */

static void make_other(const char *name) {
  char *run = path_of("run"), *inner = path_of("run/checkpoints");
  mkdir(run, 0777);
  if (strchr(name, '/')) mkdir(inner, 0777);
  test_write(run, name, "{}", 2);
  free(run);
  free(inner);
}

static void test_what_another_run_has_left_is_not_overwritten(void **state) {
  static const char *const left[] = {"run.json",   "steps.jsonl",      "checkpoints/step-3.safetensors",
                                     "trace.json", "best.safetensors", "last.safetensors"};
  static const char *const foreign[] = {"notes.txt", "net.safetensors", "checkpoints/notes.txt",
                                        "checkpoints/step-x.safetensors"};
  for (size_t i = 0; i < RONDE__COUNT(foreign); ++i) make_other(foreign[i]);
  for (size_t i = 0; i < RONDE__COUNT(left); ++i) {
    make_other(left[i]);
    check_refused(train_in(0, NULL, RUN "save-last=off out=%s/run", folder), "--resume", "--overwrite");
    char *path = ronde__format("%s/run/%s", folder, left[i]);
    test_bytes bytes = read_all(path);
    assert_int_equal(bytes.n, 2);
    free(bytes.data);
    assert_false(file_exists(folder, "run/.lock"));
    assert_int_equal(train_in(0, NULL, RUN "save-last=off save-best=off overwrite=on out=%s/run", folder), RONDE_OK);
    if (strcmp(left[i], "run.json") && strcmp(left[i], "steps.jsonl")) assert_int_not_equal(access(path, F_OK), 0);
    free(path);
    static const char *const own[] = {"run/run.json", "run/steps.jsonl"};
    for (size_t j = 0; j < RONDE__COUNT(own); ++j) {
      assert_int_equal(remove(path = path_of(own[j])), 0);
      free(path);
    }
    for (size_t j = 0; j < RONDE__COUNT(foreign); ++j) {
      path = ronde__format("%s/run/%s", folder, foreign[j]);
      assert_int_equal(access(path, F_OK), 0);
      free(path);
    }
  }
}

static void test_another_runs_checkpoints_are_not_mixed_with(void **state) {
  assert_int_equal(train_in(4, NULL, RUN "out=%s/a", folder), RONDE_E_CANCELLED);
  assert_int_equal(train_in(4, NULL, RUN "out=%s/b", folder), RONDE_E_CANCELLED);
  check_refused(train_in(0, NULL, "resume=%s/a out=%s/b", folder, folder), "/b holds another run", "--overwrite");
  assert_int_equal(train_in(0, NULL, "resume=%s/a out=%s/b overwrite=on", folder, folder), RONDE_OK);
  assert_false(file_exists(folder, "b/checkpoints/step-4.safetensors"));
  assert_true(file_exists(folder, "a/checkpoints/step-4.safetensors"));
}

static void test_an_overwrite_without_effect_is_refused(void **state) {
  check_refused(train_in(0, NULL, RUN "overwrite=on"), "--overwrite can have no effect", "--out");
  check_refused(train_in(0, NULL, RUN "overwrite=on resume=auto out=%s/run", folder), "--overwrite can have no effect",
                "--resume auto");
  assert_int_equal(train_in(4, NULL, RUN "out=%s/run", folder), RONDE_E_CANCELLED);
  check_refused(train_in(0, NULL, "overwrite=on resume=%s/run", folder), "--overwrite can have no effect", "--resume");
}

/* Restarted by the same command: a run that was killed before its first checkpoint begins again; one that ended does
 * not. */
static void test_resume_auto_without_a_checkpoint(void **state) {
  make_other("steps.jsonl");
  make_other("best.safetensors");
  assert_int_equal(train_in(0, NULL, RUN "save-last=off save-best=off resume=auto out=%s/run", folder), RONDE_OK);
  check_said("left no checkpoint, so it is started again");
  check_steps("run", 7);
  assert_false(file_exists(folder, "run/best.safetensors"));
  check_refused(train_in(0, NULL, RUN "resume=auto out=%s/run", folder), "holds another run", "--overwrite");
}

/* ---- one at a time ----------------------------------------------------------------------------------------------- */

static void test_two_runs_do_not_share_a_folder(void **state) {
  ronde__lock *lock;
  char *run = path_of("run"), holder[300], host[256] = "";
  gethostname(host, sizeof host - 1);
  snprintf(holder, sizeof holder, "process %ld on host %s", (long)getpid(), host);
  assert_int_equal(train_in(4, NULL, RUN "out=%s/run", folder), RONDE_E_CANCELLED);
  test_bytes before = bytes_of("run/steps.jsonl");
  assert_int_equal(ronde__lock_take(run, "x", &lock), RONDE_OK);
  static const char *const forms[] = {"resume=%s/run workers=2", RUN "overwrite=on out=%s/run",
                                      RUN "resume=auto out=%s/run"};
  for (size_t i = 0; i < RONDE__COUNT(forms); ++i)
    check_refused(train_in(0, NULL, forms[i], folder), "another run is writing to this folder", holder);
  test_bytes after = bytes_of("run/steps.jsonl");
  assert_int_equal(after.n, before.n);
  assert_true(file_exists(folder, "run/run.json"));
  ronde__lock_give(lock);
  assert_int_equal(train_in(0, NULL, "resume=%s/run", folder), RONDE_OK);
  assert_false(file_exists(folder, "run/.lock"));
  free(before.data);
  free(after.data);
  free(run);
}

static void test_what_a_killed_run_was_writing_is_removed(void **state) {
  ronde__file_out alive;
  assert_int_equal(train_in(4, NULL, RUN "out=%s/run", folder), RONDE_E_CANCELLED);
  make_other(".ronde-1-0.tmp");
  make_other("checkpoints/.ronde-1-1.tmp");
  make_other(".lock");
  char *run = path_of("run"), *exported = path_of("run/net.safetensors");
  ronde__lock *lock;
  assert_int_equal(ronde__lock_take(run, "x", &lock), RONDE_OK);
  check_refused(train_in(0, NULL, "resume=%s/run", folder), "another run", "");
  assert_true(file_exists(folder, "run/.ronde-1-0.tmp")); /* of the one that holds the lock, for all that is known */
  ronde__lock_give(lock);
  assert_int_equal(ronde__file_begin(exported, &alive), RONDE_OK); /* by another verb, which takes no lock */
  assert_int_equal(train_in(0, NULL, "resume=%s/run", folder), RONDE_OK);
  assert_false(file_exists(folder, "run/.ronde-1-0.tmp"));
  assert_false(file_exists(folder, "run/checkpoints/.ronde-1-1.tmp"));
  assert_int_equal(ronde__file_commit(&alive), RONDE_OK);
  assert_true(file_exists(folder, "run/net.safetensors"));
  free(run);
  free(exported);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, listen_in_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(test_a_run_ends_with_its_weights_and_its_state),
      TEST(test_without_tests_too),
      TEST(test_an_interrupted_run_keeps_its_weights),
      TEST(test_asynchronous_workers_keep_what_they_met_at),
      TEST(test_a_run_that_keeps_nothing_says_so),
      TEST(test_a_run_can_be_made_longer),
      TEST(test_a_run_that_is_complete_is_left_as_it_is),
      TEST(test_a_run_that_is_complete_still_gives_its_weights),
      TEST(test_a_record_that_is_missing_is_made),
      TEST(test_a_reached_target_is_an_end),
      TEST(test_steps_that_are_made_again_are_cut_first),
      TEST(test_going_back_must_be_asked_for),
      TEST(test_a_damaged_checkpoint_goes),
      TEST(test_what_another_run_has_left_is_not_overwritten),
      TEST(test_another_runs_checkpoints_are_not_mixed_with),
      TEST(test_an_overwrite_without_effect_is_refused),
      TEST(test_resume_auto_without_a_checkpoint),
      TEST(test_two_runs_do_not_share_a_folder),
      TEST(test_what_a_killed_run_was_writing_is_removed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
