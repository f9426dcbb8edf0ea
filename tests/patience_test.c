/* Runs that end, or slow down, because tests bring nothing any more; and the table of their epochs. */
#include "lib/folder.h"
#include "train_testing.h"

/* 8 steps an epoch. */
static json_t *train(const char *format, ...) {
  ronde_source source = small_source(63, 24);
  char options[512];
  va_list args;
  va_start(args, format);
  vsnprintf(options, sizeof options, format, args);
  va_end(args);
  char *all = ronde__format("batch=8 threads=1 %s", options);
  json_t *run = job_run("train", all, &(ronde_hooks){.model = small_model, .source = &source});
  free(all);
  return run;
}

static int n_epochs(json_t *run) { return (int)json_array_size(json_at(run, "epochs")); }

static double of_epoch(json_t *run, int epoch, const char *field) {
  char path[64];
  snprintf(path, sizeof path, "epochs.%d.%s", epoch - 1, field);
  return real_at(run, path);
}

static void check_stop(json_t *run, int epoch) {
  assert_string_equal(text_at(run, "status"), "completed");
  assert_int_equal(n_epochs(run), epoch);
  assert_true(json_is_true(json_at(run, "result.early_stop.stopped")));
  assert_int_equal((int)real_at(run, "result.early_stop.epoch"), epoch);
  assert_int_equal((int)real_at(run, "result.early_stop.step"), 8 * epoch);
}

/* All tests are equal: only the first is better than what was before. */
static void tests_that_bring_nothing_end_a_run(void **state) {
  static const char *const how[] = {"workers=1", "workers=3", "workers=2 strategy=ps-sync",
                                    "workers=2 strategy=ps-async"};
  for (size_t i = 0; i < RONDE__COUNT(how); ++i) {
    json_t *run = train("lr=0 epochs=9 patience=2 %s", how[i]);
    check_stop(run, 3);
    assert_int_equal((int)real_at(run, "result.early_stop.patience"), 2);
    assert_int_equal((int)real_at(run, "result.best.epoch"), 1);
    json_decref(run);
  }
  json_t *rarely = train("lr=0 epochs=9 patience=2 eval-every=2");
  check_stop(rarely, 6);
  json_t *patient = train("lr=0 epochs=3 patience=3"), *open = train("epochs=1");
  assert_true(json_is_false(json_at(patient, "result.early_stop.stopped")));
  assert_true(json_is_null(json_at(patient, "result.early_stop.epoch")));
  assert_true(json_is_null(json_at(open, "result.early_stop")));
  assert_int_equal(lines.n_errors + lines.n_warnings, 0);
  json_decref(rarely);
  json_decref(patient);
  json_decref(open);
}

/* What is too little better is nothing: the first test alone counts where no accuracy can be so much higher. */
static void little_is_nothing(void **state) {
  json_t *any = train("lr=0.05 epochs=4 patience=3"), *much = train("lr=0.05 epochs=9 patience=3 min-delta=1");
  assert_true(of_epoch(any, 4, "test_accuracy") > of_epoch(any, 1, "test_accuracy"));
  assert_int_equal(n_epochs(any), 4);
  assert_true(json_is_false(json_at(any, "result.early_stop.stopped")));
  check_stop(much, 4);
  json_decref(any);
  json_decref(much);
}

/* Stopped early is complete; with more patience it goes on, and ends as if it had had it from the start. */
static void more_patience_goes_on(void **state) {
  const char *set = "lr=0.02 epochs=12 min-delta=1 workers=2";
  json_t *whole = train("%s patience=5", set), *first = train("%s patience=2 out=%s/run", set, folder);
  check_stop(whole, 6);
  check_stop(first, 3);
  json_t *again = train("%s patience=2 out=%s/run resume=auto", set, folder);
  assert_true(json_equal(again, first)); /* its record as it was */
  json_t *on = train("%s patience=5 out=%s/run resume=auto", set, folder);
  assert_int_equal(n_epochs(on), 3);
  assert_int_equal((int)real_at(on, "result.early_stop.epoch"), 6);
  assert_string_equal(text_at(on, "result.weights_sha256"), text_at(whole, "result.weights_sha256"));
  json_decref(whole);
  json_decref(first);
  json_decref(again);
  json_decref(on);
}

/* The rate of each epoch follows from the tests before it. */
static void the_rate_drops_on_a_plateau(void **state) {
  for (int workers = 1; workers <= 2; ++workers) {
    json_t *run =
        train("lr=0.1 epochs=10 lr-schedule=plateau lr-patience=2 lr-gamma=0.5 min-delta=0.05 workers=%d", workers);
    double lr = 0.1, best = -1;
    int waits = 0, drops = 0;
    for (int e = 1; e <= 10; ++e) {
      double accuracy = of_epoch(run, e, "test_accuracy");
      if (fabs(of_epoch(run, e, "lr") - lr) > 1e-15) fail_msg("epoch %d: %.17g", e, of_epoch(run, e, "lr"));
      waits++;
      if (accuracy > best + 0.05) best = accuracy, waits = 0;
      if (waits == 2) lr *= 0.5, waits = 0, drops++;
    }
    assert_true(drops >= 2);
    json_decref(run);
  }
}

/* ---- epochs.csv ---- */

static char *read_epochs(void) {
  char *path = ronde__format("%s/run/epochs.csv", folder), *text = NULL;
  size_t bytes = 0;
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  assert_true(getdelim(&text, &bytes, 0, file) > 0);
  fclose(file);
  free(path);
  return text;
}

/* The column of that name in row `row` (0: the head), as text. */
static void cell(const char *csv, int row, const char *name, char out[64]) {
  const char *line = csv, *head = csv;
  int column = 0;
  for (; strncmp(head, name, strlen(name)) || (head[strlen(name)] != ',' && head[strlen(name)] != '\r'); column++) {
    head += strcspn(head, ",\r");
    if (*head++ != ',') fail_msg("no column %s", name);
  }
  for (int i = 0; i < row; ++i) line = strchr(line, '\n') + 1;
  for (int i = 0; i < column; ++i) line += strcspn(line, ",") + 1;
  snprintf(out, 64, "%.*s", (int)strcspn(line, ",\r"), line);
}

static int count_rows(const char *csv) {
  int n = 0;
  for (; (csv = strstr(csv, "\r\n")); csv += 2) n++;
  return n - 1;
}

static void each_epoch_has_a_row(void **state) {
  json_t *run = train("epochs=3 lr=0.05 eval-every=2 workers=2 out=%s/run", folder);
  static const char *const fields[] = {"epoch",         "examples", "lr",        "train_loss", "train_accuracy",
                                       "test_accuracy", "wall_s",   "test_loss", "update_s"};
  char *csv = read_epochs(), text[64];
  assert_int_equal(count_rows(csv), 3);
  for (int e = 1; e <= 3; ++e) {
    for (size_t f = 0; f < RONDE__COUNT(fields); ++f) {
      char path[64];
      snprintf(path, sizeof path, "epochs.%d.%s", e - 1, fields[f]);
      const json_t *value = json_at(run, path);
      cell(csv, e, fields[f], text);
      if (json_is_null(value)) assert_string_equal(text, "");
      else assert_true(fabs(atof(text) - json_number_value(value)) <= 1e-8 * fabs(json_number_value(value)));
    }
    cell(csv, e, "last_step", text);
    assert_int_equal(atoi(text), 8 * e);
  }
  free(csv);
  json_decref(run);
}

/* A run that is gone on with: each epoch once, half a row of a killed process gone. */
static void each_epoch_stands_there_once(void **state) {
  json_t *part = train("epochs=9 steps=20 out=%s/run", folder);
  char *csv = read_epochs(), text[64];
  assert_int_equal(count_rows(csv), 3);
  char *torn = ronde__format("%s4,2", csv);
  test_write(folder, "run/epochs.csv", torn, strlen(torn));
  json_t *rest = train("epochs=9 steps=36 out=%s/run resume=auto", folder);
  free(csv);
  csv = read_epochs();
  assert_int_equal(count_rows(csv), 5);
  for (int e = 1; e <= 5; ++e) {
    cell(csv, e, "epoch", text);
    assert_int_equal(atoi(text), e);
    cell(csv, e, "last_step", text);
    assert_int_equal(atoi(text), e < 5 ? 8 * e : 36);
  }
  json_decref(train("epochs=2 overwrite=on out=%s/run", folder));
  free(csv);
  csv = read_epochs();
  assert_int_equal(count_rows(csv), 2);
  free(csv), free(torn);
  json_decref(part);
  json_decref(rest);
}

static void what_cannot_work_is_refused(void **state) {
  static const char *const refused[][2] = {
      {"patience=2 eval-every=0", "--patience can have no effect: with --eval-every 0"},
      {"lr-schedule=plateau eval-every=0", "--lr-schedule plateau can have no effect: with --eval-every 0"},
      {"min-delta=0.1", "--min-delta can have no effect"},
      {"lr-schedule=one-cycle warmup=3", "--warmup can have no effect"},
      {"lr-rise=0.2", "--lr-rise can have no effect"},
      {"alpha=0.9", "--alpha can have no effect"},
      {"optimizer=adam momentum=0.9", "--momentum can have no effect"},
  };
  ronde_source source = small_source(63, 24);
  for (size_t i = 0; i < RONDE__COUNT(refused); ++i) {
    char *options = ronde__format("batch=8 epochs=2 %s", refused[i][0]), *text = NULL;
    ronde_config *config = config_make("train", options);
    ronde_status status = ronde_train(config, &(ronde_hooks){.model = small_model, .source = &source}, &text);
    if (status != RONDE_E_USAGE || !strstr(lines.error, refused[i][1])) fail_msg("%s: %s", refused[i][0], lines.error);
    ronde_config_destroy(config);
    free(options);
    free(text);
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder_with_log, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(tests_that_bring_nothing_end_a_run), TEST(little_is_nothing),    TEST(more_patience_goes_on),
      TEST(the_rate_drops_on_a_plateau),        TEST(each_epoch_has_a_row), TEST(each_epoch_stands_there_once),
      TEST(what_cannot_work_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
