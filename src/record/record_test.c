/* run.json and steps.jsonl: every field, and whole or absent. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "record/record.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], last_error[2048];
static int n_errors;

static void catch_error(void *user, ronde_log_level level, const char *line) {
  if (level != RONDE_LOG_ERROR) return;
  snprintf(last_error, sizeof last_error, "%s", line);
  n_errors++;
}

static int setup(void **state) {
  n_errors = 0;
  strcpy(folder, "/tmp/ronde-record-XXXXXX");
  return mkdtemp(folder) ? 0 : 1;
}

static int teardown(void **state) {
  DIR *dir = opendir(folder);
  if (!dir) return 1;
  char path[400];
  for (struct dirent *entry; (entry = readdir(dir));) {
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (entry->d_name[0] != '.') remove(path);
  }
  closedir(dir);
  return rmdir(folder);
}

static const char *in_folder(const char *name) {
  static char path[160];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static json_t *parsed(const ronde__record *record) {
  char *text;
  assert_int_equal(ronde__record_json(record, &text), RONDE_OK);
  json_t *json = json_loads(text, 0, NULL);
  assert_non_null(json);
  free(text);
  return json;
}

/* The value at "a.b.2.c"; fails where there is none. */
static json_t *at(json_t *json, const char *path) {
  char part[64];
  while (*path) {
    size_t n = strcspn(path, ".");
    snprintf(part, sizeof part, "%.*s", (int)n, path);
    json = json_is_array(json) ? json_array_get(json, (size_t)atoi(part)) : json_object_get(json, part);
    if (!json) fail_msg("no field %s", part);
    path += n + (path[n] == '.');
  }
  return json;
}

#define assert_real(json, path, value) assert_float_equal(json_number_value(at(json, path)), value, 1e-12)
#define assert_count(json, path, value) assert_int_equal(json_integer_value(at(json, path)), value)
#define assert_text(json, path, value) assert_string_equal(json_string_value(at(json, path)), value)
#define assert_null_at(json, path) assert_true(json_is_null(at(json, path)))

static void fill_result(ronde__record *record) {
  static const ronde__record_choice choices[] = {{"gemm", "xsmm", NULL, NULL},
                                                 {"collective", "ring", "modelled", NULL}};
  static const ronde__straggler_row late = {7, 1.5, 0.125, {-.25, 2, .5, .75}};
  static const ronde__record_worker workers[] = {
      {0, "worker", 30, 2.5, {.1, .2, .3, .4, .5, .6, .4, 9, 8}, -1, -1, -1, NULL, NULL, 0, 0},
      {1, "worker", 20, 2.5, {.2, .2, .3, .4, .5, .6, .3, 9, 8}, 4096, 3000, 512, "other", &late, 3, 1},
  };
  record->isa = "avx2";
  record->model = (ronde__record_model){"lenet5", "same", NULL, 61706, 850, 100, 300, -1, "w", "5e"};
  record->data = (ronde__record_data){"mnist", "ab", 60000, 10000, 3, {1, 28, 27}, 10, 3, "validation", 6000};
  record->config = json_pack("{s:i}", "batch", 42);
  record->choices = choices;
  record->n_choices = 2;
  record->world =
      (ronde__record_world){.workers = 2, .threads_per_worker = 1, .transport = "threads", .strategy = "allreduce"};
  record->setup_s = 0.5;
  record->workers = workers;
  record->n_workers = 2;
  record->communication = (ronde__record_communication){
      100, 90, 7, json_pack("{s:s, s:f}", "collective", "ring", "busbw_bytes_per_s", 1e9)};
  record->wall_s = 6;
  record->cpu_s = 11;
  record->peak_rss_bytes = 1 << 20;
  record->weights_sha256 = "cd";
  for (int i = 1; i <= 3; i++) {
    ronde__record_epoch epoch = {i, 2, 50, 2.5, 4, {.1, .2, .3, .4, .5, .6, .4, .7, .8}, 1.0 / i, .5, .25, .75, .01, 5};
    assert_int_equal(ronde__record_add_epoch(record, &epoch), RONDE_OK);
  }
}

static void test_run_has_every_field(void **state) {
  ronde__record record;
  ronde__record_begin(&record);
  fill_result(&record);
  json_t *json = parsed(&record);
  assert_text(json, "schema", "ronde.run.v1");
  assert_text(json, "status", "completed");
  assert_non_null(strstr(json_string_value(at(json, "command.0")), "record_test"));
  assert_text(json, "version.ronde", ronde_version());
  assert_non_null(at(json, "version.git"));
  int year, month, day, hour, minute, second, end = 0;
  sscanf(json_string_value(at(json, "started_at")), "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &year, &month, &day, &hour, &minute,
         &second, &end);
  assert_int_equal(end, 20);
  assert_true(strlen(json_string_value(at(json, "machine.hosts.0"))) > 0);
  assert_true(json_integer_value(at(json, "machine.cores")) >= 1);
  assert_true(json_integer_value(at(json, "machine.memory_bytes")) > 1 << 20);
  assert_non_null(strstr(json_string_value(at(json, "machine.os")), "Linux"));
  assert_non_null(at(json, "machine.cpu"));
  assert_text(json, "machine.isa", "avx2");
  assert_text(json, "model.name", "lenet5");
  assert_text(json, "model.padding", "same");
  assert_count(json, "model.parameters", 61706);
  assert_null_at(json, "model.new_head");
  assert_text(json, "model.init_file", "w");
  assert_text(json, "model.sha256", "5e");
  assert_count(json, "model.trained_parameters", 850);
  assert_count(json, "model.forward_flops_per_example", 100);
  assert_count(json, "model.train_flops_per_example", 300);
  assert_null_at(json, "model.executed_flops_per_example");
  assert_text(json, "data.name", "mnist");
  assert_count(json, "data.train_examples", 60000);
  assert_count(json, "data.test_examples", 10000);
  assert_count(json, "data.validation_examples", 6000);
  assert_text(json, "data.tested_on", "validation");
  assert_int_equal(json_array_size(at(json, "data.shape")), 3);
  assert_count(json, "data.shape.2", 27);
  assert_count(json, "data.classes", 10);
  assert_text(json, "data.sha256", "ab");
  assert_count(json, "data.skipped_images", 3);
  assert_count(json, "config.batch", 42);
  assert_text(json, "choices.0.choice", "gemm");
  assert_text(json, "choices.0.value", "xsmm");
  assert_text(json, "choices.1.value", "ring");
  assert_text(json, "choices.1.reason", "modelled");
  assert_count(json, "world.workers", 2);
  assert_count(json, "world.servers", 0);
  assert_count(json, "world.threads_per_worker", 1);
  assert_text(json, "world.transport", "threads");
  assert_text(json, "world.strategy", "allreduce");
  assert_real(json, "setup_s", 0.5);
  assert_count(json, "communication.bytes_sent", 100);
  assert_count(json, "communication.bytes_received", 90);
  assert_count(json, "communication.messages", 7);
  assert_text(json, "communication.collective", "ring");
  assert_real(json, "communication.busbw_bytes_per_s", 1e9);
  assert_null_at(json, "communication.staleness");
  assert_real(json, "totals.wall_s", 6);
  assert_real(json, "totals.cpu_s", 11);
  assert_count(json, "totals.steps", 6);
  assert_count(json, "totals.examples", 150);
  assert_real(json, "totals.examples_per_s", 20);
  assert_count(json, "totals.peak_rss_bytes", 1 << 20);
  assert_non_null(at(json, "totals.energy_j"));
  assert_non_null(at(json, "totals.energy_source"));
  assert_real(json, "result.train_loss", 1.0 / 3);
  assert_real(json, "result.test_loss", .25);
  assert_real(json, "result.test_accuracy", .75);
  assert_text(json, "result.weights_sha256", "cd");
  assert_null_at(json, "result.state_sha256");
  json_decref(json);
  ronde__record_end(&record);
}

static void test_rows_hold_phases_that_add_up(void **state) {
  ronde__record record;
  ronde__record_begin(&record);
  fill_result(&record);
  json_t *json = parsed(&record);
  assert_int_equal(json_array_size(at(json, "epochs")), 3);
  assert_count(json, "epochs.1.epoch", 2);
  assert_count(json, "epochs.1.steps", 2);
  assert_count(json, "epochs.1.examples", 50);
  assert_real(json, "epochs.1.cpu_s", 4);
  assert_real(json, "epochs.1.communication_s", .9);
  assert_real(json, "epochs.1.eval_s", .7);
  assert_real(json, "epochs.1.checkpoint_s", .8);
  assert_real(json, "epochs.1.examples_per_s", 20);
  assert_real(json, "epochs.1.train_loss", .5);
  assert_real(json, "epochs.1.train_accuracy", .5);
  assert_real(json, "epochs.1.test_loss", .25);
  assert_real(json, "epochs.1.test_accuracy", .75);
  assert_real(json, "epochs.1.lr", .01);
  static const char *const epoch_phases[] = {"load_s",          "forward_s", "backward_s",
                                             "communication_s", "update_s",  "other_s"};
  double sum = 0;
  for (size_t i = 0; i < RONDE__COUNT(epoch_phases); i++) {
    sum += json_number_value(at(at(json, "epochs.1"), epoch_phases[i]));
  }
  assert_float_equal(sum, json_number_value(at(json, "epochs.1.wall_s")), 1e-9);
  static const char *const worker_phases[] = {"load_s", "forward_s", "backward_s", "exchange_s",
                                              "wait_s", "update_s",  "other_s"};
  sum = 0;
  for (size_t i = 0; i < RONDE__COUNT(worker_phases); i++) {
    sum += json_number_value(at(at(json, "workers.1"), worker_phases[i]));
  }
  assert_float_equal(sum, json_number_value(at(json, "workers.1.wall_s")), 1e-9);
  assert_count(json, "workers.1.rank", 1);
  assert_text(json, "workers.1.role", "worker");
  assert_count(json, "workers.1.examples", 20);
  assert_true(strlen(json_string_value(at(json, "workers.0.host"))) > 0);
  assert_text(json, "workers.1.host", "other");
  assert_null_at(json, "workers.0.peak_rss_bytes");
  assert_count(json, "workers.1.peak_rss_bytes", 4096);
  assert_null_at(json, "workers.0.optimizer_bytes");
  assert_count(json, "workers.1.optimizer_bytes", 512);
  assert_null_at(json, "workers.0.late");
  assert_count(json, "workers.1.late.steps", 7);
  assert_real(json, "workers.1.late.waited_s", 1.5);
  assert_real(json, "workers.1.late.waited_median_s", 0.125);
  assert_real(json, "workers.1.late.load_s", -0.25);
  assert_real(json, "workers.1.late.compute_s", 2);
  assert_real(json, "workers.1.late.other_s", 0.75);
  assert_text(json, "workers.1.late.cause", "compute");
  json_decref(json);
  ronde__record_end(&record);
}

static void test_ops_are_summed_over_the_workers(void **state) {
  static const ronde__prof_op first[] = {{"linear", "xsmm", RONDE__PHASE_FORWARD, 2, 1000000000, 3e9, 0},
                                         {"linear", "xsmm", RONDE__PHASE_BACKWARD, 2, 3000000000u, 6e9, 0}};
  static const ronde__prof_op second[] = {{"linear", "tile", RONDE__PHASE_FORWARD, 1, 500000000, 1e9, 0},
                                          {"linear", "xsmm", RONDE__PHASE_FORWARD, 3, 1000000000, 3e9, 0},
                                          {"sgd", "avx2", RONDE__PHASE_UPDATE, 4, 100, 0, 0}};
  ronde__record record;
  ronde__record_begin(&record);
  assert_int_equal(ronde__record_add_ops(&record, first, 2), RONDE_OK);
  assert_int_equal(ronde__record_add_ops(&record, second, 3), RONDE_OK);
  json_t *json = parsed(&record);
  assert_int_equal(json_array_size(at(json, "ops")), 4);
  assert_text(json, "ops.0.phase", "backward"); /* the longest first */
  assert_text(json, "ops.1.op", "linear");
  assert_text(json, "ops.1.phase", "forward");
  assert_text(json, "ops.1.implementation", "xsmm");
  assert_count(json, "ops.1.calls", 5);
  assert_real(json, "ops.1.seconds", 2);
  assert_real(json, "ops.1.gflops_per_s", 3);
  assert_text(json, "ops.3.op", "sgd");
  assert_null_at(json, "ops.3.gflops_per_s");
  json_decref(json);
  ronde__record_end(&record);
}

static void test_what_was_not_measured_is_null(void **state) {
  ronde__record record;
  ronde__record_begin(&record);
  record.status = RONDE_E_CANCELLED;
  record.model.name = "caf\xe9";
  record.communication.of_strategy = json_pack("{s:{s:f, s:[i, i]}}", "staleness", "mean", .25, "histogram", 3, 1);
  json_t *json = parsed(&record);
  assert_text(json, "status", "interrupted");
  assert_text(json, "model.name", "caf?");
  assert_null_at(json, "machine.isa");
  assert_null_at(json, "data.sha256");
  assert_null_at(json, "data.classes");
  assert_null_at(json, "config");
  assert_null_at(json, "setup_s");
  assert_null_at(json, "totals.wall_s");
  assert_null_at(json, "totals.peak_rss_bytes");
  assert_null_at(json, "totals.examples_per_s");
  assert_null_at(json, "result.test_accuracy");
  assert_null_at(json, "communication.busbw_bytes_per_s");
  assert_real(json, "communication.staleness.mean", .25);
  assert_count(json, "communication.staleness.histogram.0", 3);
  json_decref(json);
  record.status = RONDE_E_NUMERIC;
  json = parsed(&record);
  assert_text(json, "status", "failed");
  json_decref(json);
  ronde__record_end(&record);
}

static void test_run_is_written_whole(void **state) {
  assert_int_equal(ronde__record_write(folder, "{}"), RONDE_OK);
  json_t *json = json_load_file(in_folder("run.json"), 0, NULL);
  assert_true(json_is_object(json));
  json_decref(json);
  assert_int_equal(ronde__record_write("/nonexistent/folder", "{}"), RONDE_E_WRITE);
  assert_non_null(strstr(last_error, "/nonexistent/folder"));
}

/* ---- steps.jsonl ----------------------------------------------------------------------------------------------- */

static void test_steps_are_lines(void **state) {
  ronde__steps *steps;
  char text[400] = "";
  assert_int_equal(ronde__record_write(folder, "{}"), RONDE_OK); /* of an older run */
  assert_int_equal(ronde__steps_open(folder, 0, &steps), RONDE_OK);
  assert_int_equal(access(in_folder("run.json"), F_OK), -1);
  ronde__steps_line line = {.step = 1, .epoch = 1, .examples = 42, .loss = 2.0 / 3, .lr = 0.01, .wall_s = 0.125};
  assert_int_equal(ronde__steps_add(steps, &line), RONDE_OK);
  line = (ronde__steps_line){.step = 2, .epoch = 1, .examples = 7, .loss = NAN, .lr = 1e-5, .wall_s = 1};
  assert_int_equal(ronde__steps_add(steps, &line), RONDE_OK);
  assert_int_equal(ronde__steps_close(steps), RONDE_OK);
  FILE *file = fopen(in_folder("steps.jsonl"), "r");
  size_t n = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[n] = '\0';
  assert_string_equal(text,
                      "{\"step\":1,\"epoch\":1,\"loss\":0.666666667,\"lr\":0.01,\"examples\":42,\"wall_s\":0.125}\n"
                      "{\"step\":2,\"epoch\":1,\"loss\":null,\"lr\":1e-05,\"examples\":7,\"wall_s\":1}\n");
  assert_int_equal(ronde__steps_close(NULL), RONDE_OK);
}

static void check_steps(int64_t kept, const char *before, const char *after) {
  ronde__steps *steps;
  char text[400] = "";
  FILE *file = fopen(in_folder("steps.jsonl"), "w");
  fputs(before, file);
  fclose(file);
  assert_int_equal(ronde__steps_open(folder, kept, &steps), RONDE_OK);
  assert_int_equal(ronde__steps_close(steps), RONDE_OK);
  file = fopen(in_folder("steps.jsonl"), "r");
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  assert_string_equal(text, after);
}

#define LINE(step, loss) "{\"step\":" #step ",\"loss\":" #loss "}\n"

static void test_what_will_be_repeated_is_cut_first(void **state) {
  const char *three = LINE(1, 1) LINE(2, 1) LINE(3, 1);
  check_steps(3, three, three);
  check_steps(9, three, three);
  check_steps(2, three, LINE(1, 1) LINE(2, 1));
  check_steps(3, LINE(1, 1) LINE(2, 1) "{\"step\":3,\"lo", LINE(1, 1) LINE(2, 1));
  check_steps(3, LINE(1, 1) "{\"step\":2", LINE(1, 1));
  check_steps(3, LINE(1, 1) LINE(2, 1) LINE(3, 1) LINE(4, 1) LINE(2, 2) LINE(3, 2), LINE(1, 1) LINE(2, 2) LINE(3, 2));
  check_steps(3, LINE(1, 1) "no line of ours\n" LINE(2, 1), LINE(1, 1) LINE(2, 1));
  check_steps(3, "", "");
  check_steps(0, three, "");
}

static void test_a_folder_that_cannot_be_written_is_refused_early(void **state) {
  ronde__steps *steps = NULL;
  fclose(fopen(in_folder("file"), "w"));
  char path[160];
  snprintf(path, sizeof path, "%s", in_folder("file/below"));
  assert_int_equal(ronde__steps_open(path, 0, &steps), RONDE_E_WRITE);
  assert_non_null(strstr(last_error, path));
  assert_int_equal(mkdir(in_folder("run.json"), 0777), 0);
  assert_int_equal(ronde__steps_open(folder, 0, &steps), RONDE_E_WRITE);
  assert_non_null(strstr(last_error, "run.json"));
  assert_null(steps);
  assert_int_equal(n_errors, 2);
}

/* Files of this process may not grow beyond a page: as on a full disk. */
static void test_a_full_disk_is_reported_once(void **state) {
  struct rlimit before, small;
  ronde__steps *steps;
  ronde__steps_line line = {.step = 1, .epoch = 1, .examples = 42, .loss = 1, .lr = 0.01, .wall_s = 0.125};
  assert_int_equal(ronde__steps_open(folder, 0, &steps), RONDE_OK);
  signal(SIGXFSZ, SIG_IGN);
  getrlimit(RLIMIT_FSIZE, &before);
  small = (struct rlimit){4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  ronde_status added = RONDE_OK, again, closed;
  for (int i = 0; i < 10000 && !added; i++) added = ronde__steps_add(steps, &line);
  again = ronde__steps_add(steps, &line);
  closed = ronde__steps_close(steps);
  setrlimit(RLIMIT_FSIZE, &before);
  assert_int_equal(added, RONDE_E_WRITE);
  assert_int_equal(again, RONDE_E_WRITE);
  assert_int_equal(closed, RONDE_E_WRITE);
  assert_int_equal(n_errors, 1);
  assert_non_null(strstr(last_error, in_folder("steps.jsonl")));
}

int main(void) {
  ronde_log_set(catch_error, NULL);
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(test_run_has_every_field),
      CASE(test_rows_hold_phases_that_add_up),
      CASE(test_ops_are_summed_over_the_workers),
      CASE(test_what_was_not_measured_is_null),
      CASE(test_run_is_written_whole),
      CASE(test_steps_are_lines),
      CASE(test_what_will_be_repeated_is_cut_first),
      CASE(test_a_folder_that_cannot_be_written_is_refused_early),
      CASE(test_a_full_disk_is_reported_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
