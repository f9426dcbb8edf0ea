/* Simulated runs as users start them: what is replayed takes what was recorded, what is executed has the results of real
 * ranks, records say that they are simulated, and who stops is named. */
#include "train_testing.h"
#include "io/folder_testing.h"
#include "job/spans_file.h"

enum { STEPS = 5 };

static char lines[2048];
static void keep_lines(void *user, ronde_log_level level, const char *line) {
  size_t used = strlen(lines);
  if (level == RONDE_LOG_ERROR) snprintf(lines + used, sizeof lines - used, "%s\n", line);
}

static void write_lan(const char *text) {
  char path[256];
  snprintf(path, sizeof path, "%s/lan", folder);
  FILE *file = fopen(path, "w");
  fprintf(file, "between latency 100us rate 1Gbit/s\n%s", text);
  fclose(file);
}

/* FOLDER in options stands for the test's folder. */
static void expand(const char *options, char *text, size_t bytes) {
  size_t used = (size_t)snprintf(text, bytes, "threads=1 steps=%d ", STEPS);
  if (strstr(options, "sim-spans=") || strstr(options, "threads="))
    used = (size_t)snprintf(text, bytes, "steps=%d ", STEPS);
  for (const char *at = options; *at && used < bytes - 1; at++) {
    bool here = strncmp(at, "FOLDER", 6) == 0;
    used += here ? (size_t)snprintf(text + used, bytes - used, "%s", folder) : 0;
    if (here) at += 5;
    else text[used++] = *at;
    text[used] = 0;
  }
}

static ronde_status train(const char *options, json_t **run_out) {
  char all[512], *text = NULL;
  ronde_source source = small_source(60, 0);
  ronde_hooks hooks = {.model = small_model, .source = &source};
  expand(options, all, sizeof all);
  ronde_config *config = config_make("train", all);
  lines[0] = 0;
  ronde_log_set(keep_lines, NULL);
  ronde_status status = ronde_train(config, &hooks, &text);
  ronde_log_set(NULL, NULL);
  ronde_config_destroy(config);
  if (run_out) *run_out = text ? json_of(text) : NULL;
  else free(text);
  return status;
}

static json_t *train_well(const char *options) {
  json_t *run;
  ronde_status status = train(options, &run);
  if (status != RONDE_OK) fail_msg("%s: status %d: %s", options, status, lines);
  return run;
}

#define SIM "transport=sim sim-net=FOLDER/lan "
#define REPLAY SIM "sim-spans=FOLDER/spans.json "

static ronde__spans *record(void) {
  char path[256];
  ronde__spans *spans;
  json_decref(train_well("batch=12 record-spans=FOLDER/spans.json"));
  snprintf(path, sizeof path, "%s/spans.json", folder);
  assert_int_equal(ronde__spans_read(path, &spans), RONDE_OK);
  return spans;
}

static void check_close(const char *what, double value, double expected) {
  if (fabs(value - expected) > 1e-9 * STEPS) fail_msg("%s: %.9g instead of %.9g", what, value, expected);
}

static void check_phases(json_t *row, const ronde__spans *spans, double slowness) {
  double n = STEPS * slowness * 1e-9;
  check_close("load_s", json_number_value(json_object_get(row, "load_s")), (double)spans->load_ns * n);
  check_close("forward_s", json_number_value(json_object_get(row, "forward_s")), (double)spans->forward_ns * n);
  check_close("backward_s", json_number_value(json_object_get(row, "backward_s")), (double)spans->backward_ns * n);
}

static void test_what_is_recorded(void **state) {
  write_lan("");
  ronde__spans *spans = record();
  assert_string_equal(spans->model, "custom");
  assert_true(spans->examples == 12 && spans->steps == STEPS - 1 && spans->threads == 1);
  assert_true(spans->forward_ns > 0 && spans->backward_ns > 0 && spans->update_ns > 0 && spans->n_params == 6);
  assert_string_equal(spans->params[0].name, "conv1.weight");
  assert_true(spans->params[0].elems == 5 * 9);
  for (int i = 0; i < spans->n_params; i++) {
    assert_true(spans->params[i].needed_ns <= spans->forward_ns && spans->params[i].ready_ns > 0);
    assert_true(spans->params[i].ready_ns <= spans->params[i].done_ns &&
                spans->params[i].done_ns <= spans->backward_ns);
    if (i > 1) assert_true(spans->params[i].done_ns <= spans->params[0].ready_ns); /* the first layer's come last */
  }
  ronde__spans_destroy(spans);
}

static void test_a_replay_takes_what_was_recorded(void **state) {
  write_lan("");
  ronde__spans *spans = record();
  json_t *run = train_well(REPLAY "batch=12");
  check_phases(json_at(run, "epochs.0"), spans, 1);
  check_close("update_s", real_at(run, "epochs.0.update_s"), (double)spans->update_ns * STEPS * 1e-9);
  check_close("wall_s", real_at(run, "epochs.0.wall_s"),
              (double)(spans->load_ns + spans->forward_ns + spans->backward_ns + spans->update_ns) * STEPS * 1e-9);
  assert_true(json_is_true(json_at(run, "world.simulated")) && json_is_true(json_at(run, "world.replayed")));
  static const char *const not_measured[] = {"result.train_loss", "result.weights_sha256", "totals.cpu_s",
                                             "totals.peak_rss_bytes", "totals.energy_j"};
  for (size_t i = 0; i < RONDE__COUNT(not_measured); i++) assert_true(json_is_null(json_at(run, not_measured[i])));
  json_decref(run);
  ronde__spans_destroy(spans);
}

/* 36 and 24 examples: the second are two thirds of the recorded batch. */
static void test_short_batches_take_their_part(void **state) {
  write_lan("");
  ronde__spans *spans = record();
  json_t *run = train_well(REPLAY "workers=3 local-batch=12 steps=4");
  check_close("forward_s", real_at(run, "workers.1.forward_s"), (double)spans->forward_ns * (2 + 2 * 8. / 12) * 1e-9);
  json_decref(run);
  ronde__spans_destroy(spans);
}

static void test_slow_ranks_and_stragglers(void **state) {
  write_lan("");
  ronde__spans *spans = record();
  write_lan("slow rank 1 factor 2.5\nstraggler chance 1 time 7ms\n");
  json_t *run = train_well(REPLAY "workers=5 local-batch=12");
  for (int r = 0; r < 5; r++) {
    json_t *row = json_array_get(json_object_get(run, "workers"), (size_t)r);
    double forward_s = json_number_value(json_object_get(row, "forward_s")), slowness = r == 1 ? 2.5 : 1;
    check_close("forward_s", forward_s, STEPS * ((double)spans->forward_ns * slowness * 1e-9 + .007));
  }
  json_decref(run);
  ronde__spans_destroy(spans);
}

/* Only what decides time is compared: not when it was started. */
static void check_same_times(json_t *a, json_t *b) {
  static const char *const parts[] = {"epochs", "workers", "communication", "setup_s"};
  for (size_t i = 0; i < RONDE__COUNT(parts); i++)
    if (!json_equal(json_object_get(a, parts[i]), json_object_get(b, parts[i]))) fail_msg("%s differ", parts[i]);
}

static void test_runs_repeat(void **state) {
  static const char *const cases[] = {SIM "sim-spans=none workers=4 local-batch=12",
                                      SIM "sim-spans=none workers=4 local-batch=12 strategy=ps-async servers=2",
                                      SIM "workers=3 batch=12"};
  write_lan("jitter 0.5\ndelay chance 0.1 time 3ms\nhosts 2 ranks 2\n");
  for (size_t i = 0; i < RONDE__COUNT(cases); i++) {
    char other[256];
    snprintf(other, sizeof other, "%s sim-seed=2", cases[i]);
    json_t *a = train_well(cases[i]), *b = train_well(cases[i]), *c = train_well(other);
    check_same_times(a, b);
    assert_false(json_equal(json_object_get(a, "epochs"), json_object_get(c, "epochs")));
    json_decref(a);
    json_decref(b);
    json_decref(c);
  }
}

static void test_what_is_executed_has_real_results(void **state) {
  write_lan("");
  json_t *real = train_well("transport=threads workers=3 batch=12 overlap=on collective=ring"),
         *sim = train_well(SIM "workers=3 batch=12 overlap=on collective=ring");
  assert_string_equal(text_at(real, "result.weights_sha256"), text_at(sim, "result.weights_sha256"));
  assert_true(json_is_false(json_at(real, "world.simulated")) && json_is_false(json_at(sim, "world.replayed")));
  assert_true(real_at(real, "result.train_loss") == real_at(sim, "result.train_loss"));
  json_decref(real);
  json_decref(sim);
}

static void test_who_stops_is_named(void **state) {
  write_lan("die rank 1 at 5ms\n");
  assert_int_equal(train(SIM "sim-spans=none workers=3 local-batch=12 steps=500", NULL), RONDE_E_LOST);
  assert_non_null(strstr(lines, "rank 1 has left"));
  assert_null(strchr(strchr(lines, '\n') + 1, '\n'));
  write_lan("pause rank 2 at 5ms time 3s\n");
  assert_int_equal(train(SIM "sim-spans=none workers=3 local-batch=12 steps=500 timeout=2", NULL), RONDE_E_LOST);
  assert_non_null(strstr(lines, "nothing heard from rank 2 for 2 s"));
  json_t *waited = train_well(SIM "sim-spans=none workers=3 local-batch=12 steps=500 timeout=4");
  assert_true(real_at(waited, "epochs.0.wall_s") > 0 && real_at(waited, "totals.wall_s") > 3);
  json_decref(waited);
}

static void test_who_goes_on_records_who_is_lost(void **state) {
  write_lan("die rank 1 at 5ms\n");
  json_t *run = train_well(SIM "workers=3 local-batch=4 steps=50 strategy=ps-async");
  const json_t *lost = json_at(run, "lost_workers");
  assert_int_equal(json_array_size(lost), 1);
  assert_true(real_at(run, "lost_workers.0.rank") == 1 && json_is_null(json_at(run, "lost_workers.0.at")));
  assert_true(fabs(real_at(run, "lost_workers.0.after_s") + real_at(run, "setup_s") - 0.005) < 1e-4);
  assert_string_equal(text_at(run, "lost_workers.0.host"), "1");
  assert_string_equal(text_at(run, "config.on-loss"), "continue");
  assert_string_equal(text_at(run, "status"), "completed");
  json_decref(run);
  run = train_well(SIM "sim-spans=none workers=3 local-batch=4 steps=500 strategy=ps-async");
  assert_int_equal(json_array_size(json_at(run, "lost_workers")), 1);
  json_decref(run);
  assert_int_equal(train(SIM "workers=3 local-batch=4 steps=500 strategy=ps-async on-loss=stop", NULL), RONDE_E_LOST);
  write_lan("");
  run = train_well(SIM "workers=3 local-batch=4 strategy=ps-async");
  assert_int_equal(json_array_size(json_at(run, "lost_workers")), 0);
  json_decref(run);
}

static const struct {
  const char *options, *said;
} refused[] = {
    {SIM "workers=3 batch=12 strategy=ps-sync on-loss=continue",
     "with this strategy no step can be made without all ranks"},
    {SIM "workers=3 batch=12 on-loss=restart out=FOLDER/r", "only ranks that are processes can be started again"},
    {"transport=threads workers=3 batch=12 strategy=ps-async on-loss=continue", "are not lost one by one"},
    {SIM "workers=3 batch=12 strategy=ps-async servers=3 on-loss=continue", "every rank has a server"},
    {"transport=sim workers=2 batch=12", "--transport sim: --sim-net FILE is needed"},
    {"transport=threads workers=2 batch=12 sim-net=FOLDER/lan", "--sim-net"},
    {"batch=12 sim-spans=none", "--sim-spans"},
    {REPLAY "workers=2 batch=12", "it is of 12 examples a worker, and here a worker has 6"},
    {REPLAY "batch=12 save=FOLDER/w", "--save"},
    {REPLAY "batch=12 threads=2", "--threads"},
    {SIM "batch=12 record-spans=FOLDER/s", "--record-spans"},
    {"batch=12 accumulate=2 record-spans=FOLDER/s", "--record-spans"},
};

static void test_what_has_no_effect_is_refused(void **state) {
  write_lan("");
  ronde__spans_destroy(record());
  for (size_t i = 0; i < RONDE__COUNT(refused); i++) {
    assert_int_equal(train(refused[i].options, NULL), RONDE_E_USAGE);
    if (!strstr(lines, refused[i].said)) fail_msg("%s: %s", refused[i].options, lines);
  }
  write_lan("slow rank 0 factor 2\n");
  assert_int_equal(train(SIM "batch=12", NULL), RONDE_E_INPUT);
  assert_non_null(strstr(lines, "lan, line 2: `slow` is of replayed computation"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_what_is_recorded, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_a_replay_takes_what_was_recorded, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_short_batches_take_their_part, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_slow_ranks_and_stragglers, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_runs_repeat, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_what_is_executed_has_real_results, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_who_stops_is_named, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_who_goes_on_records_who_is_lost, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_what_has_no_effect_is_refused, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
