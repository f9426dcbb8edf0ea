/* `ronde compare`, as a user meets it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define VERB "compare"
#include "bench_testing.h"

#define SMALL "--data synthetic:1x28x28:10:40 --batch 10 --threads 1 "

static json_t *field(const json_t *bench, size_t index, const char *object, const char *key) {
  json_t *one = json_array_get(json_object_get(bench, "cases"), index);
  return json_object_get(object ? json_object_get(one, object) : one, key);
}

static void eager_beside_graph(void **unused) {
  json_t *bench = bench_of("--model lenet5 " SMALL "--exec graph,eager --rounds 2 --json", 0);
  assert_true(json_is_true(json_object_get(bench, "ranked")));
  assert_int_equal(json_array_size(json_object_get(bench, "cases")), 2);
  assert_string_equal(json_string_value(field(bench, 0, NULL, "name")), "exec=graph");
  assert_string_equal(json_string_value(field(bench, 1, NULL, "name")), "exec=eager");
  assert_true(json_equal(field(bench, 0, "result", "weights_sha256"), field(bench, 1, "result", "weights_sha256")));
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(json_array_size(field(bench, i, "step_s", "samples")), 2 * (4 - 1));
    assert_int_equal(json_array_size(field(bench, i, "peak_rss_bytes", "samples")), 2);
    assert_true(json_number_value(field(bench, i, "step_s", "median")) > 0);
    assert_true(json_number_value(field(bench, i, "kernel_s", "median")) > 0);
    assert_int_equal(json_integer_value(field(bench, i, NULL, "failures")), 0);
    assert_true(json_is_true(field(bench, i, NULL, "same_weights_in_all_runs")));
  }
  assert_true(json_number_value(field(bench, 0, "times_as_fast", "median")) == 1);
  json_decref(bench);
}

/* Two lists make the cases of their product. */
static void two_axes(void **unused) {
  json_t *bench = bench_of("--model lenet5 " SMALL "--exec graph,eager --shuffle on,off --rounds 1 --json", 0);
  static const char *const names[] = {"exec=graph,shuffle=on", "exec=graph,shuffle=off", "exec=eager,shuffle=on",
                                      "exec=eager,shuffle=off"};
  assert_int_equal(json_array_size(json_object_get(bench, "cases")), 4);
  for (size_t i = 0; i < 4; i++) {
    assert_string_equal(json_string_value(field(bench, i, NULL, "name")), names[i]);
    assert_string_equal(json_string_value(field(bench, i, "values", "exec")), i < 2 ? "graph" : "eager");
    assert_string_equal(json_string_value(field(bench, i, "values", "shuffle")), i % 2 ? "off" : "on");
    assert_true(json_number_value(field(bench, i, "work", "examples")) == 10);
  }
  assert_int_equal(json_array_size(json_object_get(json_object_get(bench, "axes"), "exec")), 2);
  for (size_t i = 0; i < 4; i++)
    assert_int_equal(
        json_equal(field(bench, 0, "result", "weights_sha256"), field(bench, i, "result", "weights_sha256")),
        i % 2 == 0);
  json_decref(bench);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_of(const json_t *samples) {
  double x[16];
  size_t n = json_array_size(samples);
  for (size_t i = 0; i < n; i++) x[i] = json_number_value(json_array_get(samples, i));
  qsort(x, n, sizeof *x, ascending);
  return 0.5 * (x[n / 2] + x[(n - 1) / 2]);
}

/* Figure and interval are those of the rounds: the median round lies in the interval, and a ratio is taken in each. */
static void figures_are_of_rounds(void **unused) {
  json_t *bench = bench_of("--model lenet5 " SMALL "--exec graph,eager --rounds 3 --json", 0);
  for (size_t i = 0; i < 2; i++) {
    static const char *const all[] = {"step_s", "train_s", "times_as_fast", "forward_s"};
    const json_t *rounds = field(bench, i, "round_s", "samples"), *ratios = field(bench, i, "times_as_fast", "samples");
    assert_int_equal(json_array_size(rounds), 3);
    assert_float_equal(json_number_value(field(bench, i, "step_s", "median")), median_of(rounds), 1e-15);
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
      double median = json_number_value(field(bench, i, all[k], "median"));
      assert_true(json_number_value(field(bench, i, all[k], "low")) <= median);
      assert_true(json_number_value(field(bench, i, all[k], "high")) >= median);
    }
    for (size_t r = 0; r < 3; r++) {
      const json_t *first = json_array_get(field(bench, 0, "round_s", "samples"), r);
      double ratio = json_number_value(first) / json_number_value(json_array_get(rounds, r));
      assert_float_equal(json_number_value(json_array_get(ratios, r)), ratio, 1e-9);
    }
  }
  double low = json_number_value(field(bench, 1, "times_as_fast", "low"));
  double high = json_number_value(field(bench, 1, "times_as_fast", "high"));
  assert_true(json_is_null(field(bench, 0, NULL, "verdict")));
  assert_string_equal(json_string_value(field(bench, 1, NULL, "verdict")), low > 1    ? "faster"
                                                                           : high < 1 ? "slower"
                                                                                      : "cannot be told apart");
  json_decref(bench);
  /* One round says nothing of how rounds differ. */
  bench = bench_of("--model lenet5 " SMALL "--exec graph,eager --rounds 1 --json", 0);
  assert_true(json_is_number(field(bench, 1, "step_s", "median")));
  assert_true(json_is_null(field(bench, 1, "step_s", "low")) && json_is_null(field(bench, 1, "times_as_fast", "high")));
  assert_true(json_is_null(field(bench, 1, NULL, "verdict")));
  json_decref(bench);
}

/* For people: each column is as wide as its cells, and the ratios have their verdicts. */
static void tables_are_for_people(void **unused) {
  static char text[1 << 16];
  assert_int_equal(run("--model lenet5 " SMALL "--exec graph,eager --rounds 2", "2>/dev/null", text, sizeof text), 0);
  assert_non_null(strstr(text, "lenet5 (61,706 parameters) on synthetic:1x28x28:10:40, 2 runs a case"));
  assert_non_null(strstr(text, "\ncase        median "));
  assert_non_null(strstr(text, "\nexec=eager "));
  const char *ratios = strstr(text, "\nspeed: how many times as fast as exec=graph, with the 95 % interval");
  assert_non_null(ratios);
  assert_null(strstr(ratios, "\nexec=graph ")); /* it is not compared with itself */
  const char *row = strstr(ratios, "\nexec=eager ");
  assert_non_null(row);
  assert_true(strchr(row, '[') && (strstr(row, "faster") || strstr(row, "slower") || strstr(row, "cannot be told")));
  assert_null(strstr(text, " \n"));
}

/* As many others as there are cores. */
static void a_busy_host_is_said(void **unused) {
  static char text[1 << 16];
  char command[2048];
  snprintf(command, sizeof command,
           "for i in $(seq $(nproc)); do (while :; do :; done) & all=\"$all $!\"; done; %s compare --model lenet5 %s "
           "--exec graph,eager --rounds 2 --steps 300 --json; code=$?; kill $all; exit $code",
           RONDE_BINARY_DIR "/ronde", SMALL);
  FILE *file = popen(command, "r");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  int state = pclose(file);
  assert_true(WIFEXITED(state) && WEXITSTATUS(state) == 0);
  json_t *bench = json_loads(text, 0, NULL), *load = json_object_get(bench, "host_load");
  assert_true(json_is_true(json_object_get(load, "is_busy")));
  assert_true(json_number_value(json_object_get(load, "busy_with_others")) > 0.1);
  json_decref(bench);
}

/* Found out by the plans: nothing is measured. */
static void other_work_is_not_ranked(void **unused) {
  static char text[1 << 16];
  json_t *bench = bench_of("--model mnist-small " SMALL "--padding same,valid --json", 7);
  assert_true(json_is_false(json_object_get(bench, "ranked")));
  assert_true(json_is_null(field(bench, 1, NULL, "times_as_fast")));
  assert_string_equal(json_string_value(field(bench, 1, NULL, "padding")), "valid");
  assert_int_equal(json_integer_value(field(bench, 0, NULL, "runs")), 0);
  assert_true(json_array_size(json_object_get(bench, "differences")) > 0);
  assert_true(strstr(json_string_value(json_object_get(bench, "not_ranked")), "not the same work: ") != NULL);
  json_decref(bench);
  assert_int_equal(run("--model lenet5 " SMALL "--steps 4,8 --rounds 2", "2>&1 >/dev/null", text, sizeof text), 7);
  assert_non_null(
      strstr(text, "not ranked, as the cases are not the same work: steps is 4 with steps=4, 8 with steps=8"));
  assert_null(strstr(text, "round 1/2"));
}

/* ---- which cases there are ---- */

static void check_names(const json_t *bench, const char *const *names, size_t n) {
  assert_int_equal(json_array_size(json_object_get(bench, "cases")), n);
  for (size_t i = 0; i < n; i++) assert_string_equal(json_string_value(field(bench, i, NULL, "name")), names[i]);
}

static void check_left_out(const json_t *bench, size_t index, const char *name, const char *reason) {
  const json_t *one = json_array_get(json_object_get(bench, "left_out"), index);
  assert_non_null(one);
  assert_string_equal(json_string_value(json_object_get(one, "name")), name);
  if (!strstr(json_string_value(json_object_get(one, "reason")), reason))
    fail_msg("%s: %s", name, json_string_value(json_object_get(one, "reason")));
}

/* single is a run of one worker, whatever others have; a name says nothing that is not so. */
static void the_same_run_is_made_once(void **unused) {
  static char text[1 << 16];
  static const char *const grown[] = {"workers=1,strategy=single", "workers=1,strategy=allreduce",
                                      "workers=2,strategy=allreduce"};
  const char *options = "--model lenet5 " SMALL "--workers 1,2 --strategy single,allreduce --rounds 1";
  char json[512];
  snprintf(json, sizeof json, "%s --json", options);
  json_t *bench = bench_of(json, 0);
  check_names(bench, grown, 3);
  assert_int_equal(json_integer_value(field(bench, 0, NULL, "workers")), 1);
  check_left_out(bench, 0, "workers=2,strategy=single", "the same run as workers=1,strategy=single");
  json_decref(bench);
  assert_int_equal(run(options, "2>&1 >/dev/null", text, sizeof text), 0);
  const char *said = strstr(text, "left out: workers=2,strategy=single: "), *measured = strstr(text, "round 1/1");
  assert_true(said && measured && said < measured);

  static const char *const short_names[] = {"strategy=single", "workers=2,strategy=allreduce",
                                            "workers=3,strategy=allreduce"};
  bench = bench_of("--model lenet5 " SMALL "--workers 2,3 --strategy single,allreduce --rounds 1 --json", 0);
  check_names(bench, short_names, 3);
  check_left_out(bench, 0, "workers=3,strategy=single", "the same run as strategy=single");
  json_decref(bench);

  /* What is automatic is what another case says. */
  static const char *const resolved[] = {"strategy=auto", "strategy=ps-sync"};
  bench = bench_of("--model lenet5 " SMALL "--workers 2 --strategy auto,allreduce,ps-sync --rounds 1 --json", 0);
  check_names(bench, resolved, 2);
  check_left_out(bench, 0, "strategy=allreduce", "the same run as strategy=auto");
  json_decref(bench);
}

static void what_is_impossible_is_left_out(void **unused) {
  json_t *bench =
      bench_of("--model lenet5 " SMALL "--workers 1,2,3 --strategy ps-sync --servers 2 --rounds 1 --json", 0);
  static const char *const names[] = {"workers=2", "workers=3"};
  check_names(bench, names, 2);
  check_left_out(bench, 0, "workers=1", "--servers 2: only 1 of them");
  json_decref(bench);
}

/* Batches that differ because an axis says so are compared by the examples of a second. */
static void weak_scaling_is_ranked_by_examples(void **unused) {
  static const char *const options[] = {"--workers 1,2 --local-batch 5", "--batch 5,10", "--batch 5,10 --steps 6",
                                        "--workers 1,2 --local-batch 5 --strategies allreduce,ps-async"};
  for (size_t o = 0; o < sizeof options / sizeof options[0]; o++) {
    char words[512];
    snprintf(words, sizeof words, "--model lenet5 --data synthetic:1x28x28:10:40 --threads 1 --rounds 2 --json %s",
             options[o]);
    json_t *bench = bench_of(words, 0);
    assert_true(json_is_true(json_object_get(bench, "ranked")));
    assert_string_equal(json_string_value(json_object_get(bench, "ranked_by")), "examples_per_s");
    size_t n = json_array_size(json_object_get(bench, "cases"));
    assert_int_equal(n, o == 3 ? 4 : 2);
    for (size_t i = 0; i < n; i++)
      for (size_t r = 0; r < 2; r++) {
        double rate = json_number_value(json_array_get(field(bench, i, "examples_per_s", "samples"), r));
        double first = json_number_value(json_array_get(field(bench, 0, "examples_per_s", "samples"), r));
        double times = json_number_value(json_array_get(field(bench, i, "times_as_fast", "samples"), r));
        double step = json_number_value(json_array_get(field(bench, i, "round_s", "samples"), r));
        double batch = json_number_value(field(bench, i, NULL, "batch"));
        assert_float_equal(times, rate / first, 1e-9 * times);
        if (o < 3) assert_float_equal(rate, batch / step, 1e-9 * rate);
      }
    json_decref(bench);
  }
}

static double number(const json_t *bench, size_t index, const char *object, const char *key) {
  return json_number_value(field(bench, index, object, key));
}

/* Asynchronous workers make other steps, of the same examples. */
static void strategies_are_ranked_by_the_time_for_the_same_examples(void **unused) {
  json_t *bench = bench_of("--model lenet5 " SMALL
                           "--strategies single,allreduce,ps-sync,ps-async,localsgd --workers 2 --servers 2 "
                           "--rounds 1 --json",
                           0);
  assert_true(json_is_true(json_object_get(bench, "ranked")));
  assert_string_equal(json_string_value(json_object_get(bench, "ranked_by")), "train_s");
  assert_int_equal(json_array_size(json_object_get(bench, "cases")), 5);
  static const char *const names[] = {"single", "allreduce", "ps-sync", "ps-async", "localsgd"};
  for (size_t i = 0; i < 5; i++) {
    const double workers = i == 0 ? 1 : 2;
    double phases = 0, train = number(bench, i, "train_s", "median");
    assert_string_equal(json_string_value(field(bench, i, NULL, "strategy")), names[i]);
    assert_true(number(bench, i, NULL, "workers") == workers);
    assert_true(number(bench, i, NULL, "examples") == 40);
    assert_true(number(bench, i, "result", "train_loss") > 0);
    assert_int_equal(json_is_object(field(bench, i, "communication", "staleness")), i == 3);
    assert_int_equal(json_is_object(field(bench, i, "communication", "synchronisations")), i == 4);
    static const char *const all[] = {"load_s", "forward_s", "backward_s", "communication_s", "update_s", "other_s"};
    for (size_t p = 0; p < 6; p++) phases += 4 * number(bench, i, all[p], "median");
    assert_true(phases > 0.99 * train && phases < 1.01 * train);
    double times = number(bench, 0, "train_s", "median") / train;
    assert_true(fabs(number(bench, i, "times_as_fast", "median") / times - 1) < 1e-9);
  }
  json_decref(bench);
}

static void what_strategies_leave_out_is_not_ranked(void **unused) {
  static char text[1 << 16];
  const char *options = "--model lenet5 " SMALL "--strategies allreduce,ps-sync --workers 2 --backup 1 --rounds 1";
  assert_int_equal(run(options, "2>&1 >/dev/null", text, sizeof text), 7);
  assert_non_null(strstr(text, "examples is 40 with strategy=allreduce, 20 with strategy=ps-sync"));
  assert_null(strstr(text, "round 1/1"));
  assert_int_equal(run(options, "2>/dev/null", text, sizeof text), 7);
  assert_string_equal(text, "");
}

static void nothing_is_left_behind(void **unused) {
  char folder[] = "/tmp/ronde-compare-test-XXXXXX", options[512], text[1 << 14];
  assert_non_null(mkdtemp(folder));
  setenv("TMPDIR", folder, 1);
  snprintf(options, sizeof options, "--model lenet5 " SMALL "--exec graph,eager --rounds 1");
  assert_int_equal(run(options, "2>/dev/null", text, sizeof text), 0);
  unsetenv("TMPDIR");
  assert_int_equal(rmdir(folder), 0);
}

static void an_earlier_comparison_is_not_overwritten(void **unused) {
  char folder[] = "/tmp/ronde-compare-test-XXXXXX", options[512], text[1 << 14], command[512];
  assert_non_null(mkdtemp(folder));
  snprintf(options, sizeof options, "--model lenet5 " SMALL "--exec graph,eager --rounds 1 --quiet --out %s", folder);
  assert_int_equal(run(options, "2>/dev/null", text, sizeof text), 0);
  snprintf(command, sizeof command,
           "test ! -e %s/exec=graph-1/checkpoints/step-4.safetensors && test ! -e %s/exec=graph-1/last.safetensors",
           folder, folder);
  int kept = system(command);
  assert_int_equal(run(options, "2>&1 >/dev/null", text, sizeof text), 2);
  assert_non_null(strstr(text, "holds another comparison (bench.json): --overwrite"));
  strcat(options, " --overwrite");
  assert_int_equal(run(options, "2>/dev/null", text, sizeof text), 0);
  snprintf(command, sizeof command, "rm -r %s", folder);
  assert_int_equal(system(command), 0);
  assert_int_equal(kept, 0);
}

static void wrong_usage(void **unused) {
  static const char *const cases[][2] = {
      {"--model lenet5 " SMALL, "what to compare is missing"},
      {"--model lenet5 " SMALL "--exec graph,eagre", "--exec: 'eagre' is not graph or eager"},
      {"--model lenet5 " SMALL "--exec graph,eager --exec graph,eager", "--exec has a list of values already"},
      {"--model lenet5 " SMALL "--strategies allreduce,ps-sync --strategy single,allreduce",
       "--strategy has a list of values already"},
      {"--model lenet5 " SMALL "--strategies allreduce,ps-sink", "--strategy: 'ps-sink' is not"},
      {"--model lenet5 " SMALL "--strategies allreduce,ps-sync --workers 2 --lr-scale-workers --backup 2",
       "nothing is left to compare strategy=allreduce with: strategy=ps-sync: --backup 2: a step needs at least one of "
       "the 2 workers"},
      {"--model lenet5 " SMALL "--exec graph,eager --save x.safetensors", "--save can have no effect"},
      {"--model lenet6 " SMALL "--exec graph,eager", "exec=graph: its training is refused: --model lenet6: no such"},
      {"--model lenet5 " SMALL "--transport threads,sim --sim-net /dev/null --workers 2",
       "nothing is left to compare transport=sim with: transport=threads: --sim-net can have no effect"},
      {"--model lenet5 " SMALL "--exec graph,graph", "exec=graph: the same run as exec=graph"},
      {"--model lenet5 " SMALL "--exec graph,eager --steps 1", "a run of one step cannot be compared"},
      {"--model lenet5 " SMALL "--exec graph,eager --overwrite", "--overwrite can have no effect"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[4096];
    assert_int_equal(run(cases[i][0], "2>&1 >/dev/null", text, sizeof text), 2);
    if (!strstr(text, cases[i][1])) fail_msg("%s: %s", cases[i][0], text);
  }
}

/* Starts a comparison of long trainings in a folder, by --out or as that of temporary files, until the first training has
 * made steps. What it says goes into the file `said` there. */
static pid_t start_long(const char *folder, bool is_kept) {
  char command[300];
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    snprintf(command, sizeof command, "%s/said", folder);
    if (!freopen("/dev/null", "w", stdout) || !freopen(command, "w", stderr)) _exit(126);
    setenv("TMPDIR", folder, 1);
    execl(RONDE_BINARY_DIR "/ronde", "ronde", "compare", "--model", "lenet5", "--data", "synthetic:1x28x28:10:40",
          "--batch", "10", "--threads", "1", "--epochs", "1000000", "--exec", "graph,eager", is_kept ? "--out" : NULL,
          folder, NULL);
    _exit(127);
  }
  snprintf(command, sizeof command, "ls %s/%sexec=graph-1/steps.jsonl >/dev/null 2>&1", folder,
           is_kept ? "" : "ronde-compare-*/");
  for (int i = 0; i < 600 && system(command); i++) usleep(100000);
  return child;
}

static int ended(pid_t child) {
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Whether a training of that comparison still runs; the brackets keep the shell that asks out of it. */
static bool still_trains(const char *folder) {
  char command[300];
  snprintf(command, sizeof command, "pgrep -f -- '[-]-out=%s/(ronde-compare-[^/]*/)?exec' >/dev/null", folder);
  return system(command) == 0;
}

/* However it ends, its training ends too, and well. */
static void signals_go_on_to_the_training(void **unused) {
  static const int signals[] = {SIGTERM, SIGINT, SIGKILL};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    char folder[] = "/tmp/ronde-compare-test-XXXXXX", command[200];
    assert_non_null(mkdtemp(folder));
    pid_t child = start_long(folder, true);
    assert_true(still_trains(folder));
    kill(child, signals[i]);
    assert_int_equal(ended(child), 128 + signals[i]);
    for (int j = 0; j < 100 && still_trains(folder); j++) usleep(100000);
    assert_false(still_trains(folder));
    snprintf(command, sizeof command, "grep -q '\"status\": \"interrupted\"' %s/exec=graph-1/run.json", folder);
    for (int j = 0; j < 100 && system(command); j++) usleep(100000);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
  }
}

/* The trainings' folders are the comparison's, so it alone says how to go on. */
static void how_an_interrupted_comparison_goes_on_is_said_once(void **unused) {
  static const char *const wanted[] = {"--out DIR keeps what there is", "--continue goes on with it"};
  for (int is_kept = 0; is_kept < 2; is_kept++) {
    char folder[] = "/tmp/ronde-compare-test-XXXXXX", command[200], text[4096];
    assert_non_null(mkdtemp(folder));
    pid_t child = start_long(folder, is_kept);
    assert_true(still_trains(folder));
    kill(child, SIGINT);
    assert_int_equal(ended(child), 128 + SIGINT);
    snprintf(command, sizeof command, "%s/said", folder);
    FILE *said = fopen(command, "r");
    assert_non_null(said);
    text[fread(text, 1, sizeof text - 1, said)] = '\0';
    fclose(said);
    const char *line = strstr(text, "ronde: error: ");
    assert_non_null(line);
    if (!strstr(line, wanted[is_kept]) || strstr(line + 1, "ronde: error: ")) fail_msg("%s", text);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
  }
}

/* One worker once; each other number at the same batch, and at the same batch of each. */
static void scaling(void **unused) {
  json_t *bench = bench_of(
      "--model lenet5 --data synthetic:1x28x28:10:80 --batch 10 --scaling 1,2,4 --threads 1 --rounds 2 --json", 0);
  static const struct {
    const char *name, *strategy;
    int workers, batch, steps;
  } wanted[] = {{"workers=1,scaling=strong", "single", 1, 10, 8},
                {"workers=2,scaling=strong", "allreduce", 2, 10, 8},
                {"workers=2,scaling=weak", "allreduce", 2, 20, 4},
                {"workers=4,scaling=strong", "allreduce", 4, 10, 8},
                {"workers=4,scaling=weak", "allreduce", 4, 40, 2}};
  assert_int_equal(json_array_size(json_object_get(bench, "cases")), 5);
  for (size_t i = 0; i < 5; i++) {
    assert_string_equal(json_string_value(field(bench, i, NULL, "name")), wanted[i].name);
    assert_string_equal(json_string_value(field(bench, i, NULL, "strategy")), wanted[i].strategy);
    assert_int_equal(json_integer_value(field(bench, i, NULL, "workers")), wanted[i].workers);
    assert_int_equal(json_integer_value(field(bench, i, NULL, "batch")), wanted[i].batch);
    assert_int_equal(json_integer_value(field(bench, i, NULL, "steps")), wanted[i].steps);
    assert_int_equal(json_integer_value(field(bench, i, NULL, "threads")), 1);
    double of_one = json_number_value(json_array_get(field(bench, 0, "examples_per_s", "samples"), 1));
    double of_all = json_number_value(json_array_get(field(bench, i, "examples_per_s", "samples"), 1));
    double efficiency = json_number_value(json_array_get(field(bench, i, "efficiency", "samples"), 1));
    assert_true(fabs(efficiency * wanted[i].workers * of_one / of_all - 1) < 1e-9);
  }
  assert_non_null(strstr(json_string_value(json_object_get(bench, "advice")), "worker"));
  json_decref(bench);
}

static void scaling_is_checked(void **unused) {
  static const char *const refused[][2] = {
      {"--scaling 2,4", "begin with 1"},
      {"--scaling 1,4,2", "ascending"},
      {"--scaling 1,x", "ascending"},
      {"--scaling 1", "nothing to be compared"},
      {"--scaling 1,2 --workers 2", "beside it"},
      {"--scaling 1,2 --local-batch 5", "beside it"},
  };
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    char options[200], text[4096];
    snprintf(options, sizeof options, "--model lenet5 " SMALL "%s", refused[i][0]);
    assert_int_equal(run(options, "2>&1", text, sizeof text), 2);
    if (!strstr(text, refused[i][1])) fail_msg("%s: %s", refused[i][0], text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(eager_beside_graph),
      cmocka_unit_test(two_axes),
      cmocka_unit_test(figures_are_of_rounds),
      cmocka_unit_test(tables_are_for_people),
      cmocka_unit_test(a_busy_host_is_said),
      cmocka_unit_test(other_work_is_not_ranked),
      cmocka_unit_test(the_same_run_is_made_once),
      cmocka_unit_test(what_is_impossible_is_left_out),
      cmocka_unit_test(weak_scaling_is_ranked_by_examples),
      cmocka_unit_test(strategies_are_ranked_by_the_time_for_the_same_examples),
      cmocka_unit_test(what_strategies_leave_out_is_not_ranked),
      cmocka_unit_test(nothing_is_left_behind),
      cmocka_unit_test(an_earlier_comparison_is_not_overwritten),
      cmocka_unit_test(signals_go_on_to_the_training),
      cmocka_unit_test(how_an_interrupted_comparison_goes_on_is_said_once),
      cmocka_unit_test(scaling),
      cmocka_unit_test(scaling_is_checked),
      cmocka_unit_test(wrong_usage),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
