/* `ronde bench step` and `bench kernels`, as a user meets them; a peer is a script here that plays one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define VERB "bench"
#include "bench_testing.h"

#define STEPS "--model lenet5 --threads 1 --rounds 2 --steps 2 "
#define SMALL STEPS "--batch 3 "
#define IN_BF16 STEPS "--batch 24 --dtype bf16 " /* fewer rows may stay f32 */

static char folder[64];

/* A "pytorch" that is Ronde, its first line changed by a sed program: where Python should be, a shell. */
static void make_peer(const char *change) {
  char path[256], command[1024];
  snprintf(command, sizeof command, "mkdir -p %s/pytorch/bin %s/scripts && ln -sf /bin/sh %s/pytorch/bin/python",
           folder, folder, folder);
  assert_int_equal(system(command), 0);
  snprintf(path, sizeof path, "%s/scripts/pytorch_step.py", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file,
          "for word; do case $word in --file=*) ;;"
          " --channels-last|--bf16) echo '{\"absent\": \"only one plays\"}'; exit;;"
          " *) set -- \"$@\" \"$word\";; esac; shift; done\n"
          "exec " RONDE_BINARY_DIR "/ronde bench step --serve \"$@\" | sed -u '%s'\n",
          change);
  assert_int_equal(fclose(file), 0);
}

static json_t *field(const json_t *bench, size_t index, const char *key) {
  return json_object_get(json_array_get(json_object_get(bench, "cases"), index), key);
}

static void alone(void **unused) {
  json_t *bench = bench_of("step " SMALL "--json", 0);
  assert_int_equal(json_array_size(json_object_get(bench, "cases")), 1);
  assert_true(json_is_null(json_object_get(bench, "fastest_peer")));
  assert_int_equal(json_array_size(json_object_get(field(bench, 0, "step_s"), "samples")), 2 * 2);
  assert_int_equal(json_array_size(json_object_get(field(bench, 0, "round_s"), "samples")), 2);
  assert_int_equal(json_integer_value(field(bench, 0, "parameters")), 62006);
  assert_int_equal(json_integer_value(field(bench, 0, "batch")), 3);
  assert_true(json_number_value(field(bench, 0, "setup_s")) > 0);
  assert_true(json_number_value(field(bench, 0, "peak_rss_bytes")) > 1e6);
  assert_string_equal(json_string_value(json_object_get(field(bench, 0, "values"), "system")), "ronde");
  assert_string_equal(json_string_value(json_object_get(field(bench, 0, "work"), "unit")), "step");
  assert_true(json_number_value(json_object_get(field(bench, 0, "work"), "examples")) == 3);
  /* The loss of ten classes before anything was learned, and less of it after an update. */
  double first = json_number_value(field(bench, 0, "first_loss"));
  assert_true(fabs(first - log(10)) < 0.3);
  assert_true(json_number_value(field(bench, 0, "second_loss")) < first);
  json_decref(bench);
}

/* The loss is the mean over all tokens of both examples, whatever their length. */
static void networks_of_tokens(void **unused) {
  static const char *const options[] = {
      "step --model gnmt-tiny --shape 5 --batch 2 --threads 1 --rounds 1 --steps 1 --json",
      "step --model gpt-tiny --shape 9 --batch 2 --threads 1 --rounds 1 --steps 1 --json"};
  for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
    json_t *bench = bench_of(options[i], 0);
    double first = json_number_value(field(bench, 0, "first_loss"));
    assert_true(fabs(first - log(256)) < 0.5);
    assert_true(json_number_value(field(bench, 0, "second_loss")) < first);
    json_decref(bench);
  }
}

/* Features of mean 0 and deviation 1, so the first loss is about 2 and that of a coin. */
static void networks_that_speak(void **unused) {
  json_t *bench = bench_of(
      "step --model tacotron2-tiny --shape 1x6x9 --batch 3 --threads 1 --rounds 1 --steps 1 --json --lr 0.01", 0);
  double first = json_number_value(field(bench, 0, "first_loss"));
  if (!(first > 2 && first < 4.5)) fail_msg("%g", first);
  assert_true(json_number_value(field(bench, 0, "second_loss")) < first);
  json_decref(bench);
}

static double second_loss(const char *options) {
  json_t *bench = bench_of(options, 0);
  double loss = json_number_value(field(bench, 0, "second_loss"));
  json_decref(bench);
  return loss;
}

static void the_rate_is_the_caller_s(void **unused) {
  double none = second_loss("step " SMALL "--json --lr 0"), some = second_loss("step " SMALL "--json");
  assert_true(some < none);
  assert_true(second_loss("step " SMALL "--json --lr 0.01") < some);
  assert_true(second_loss("step " SMALL "--json --lr 0.001") == some);
}

static void peer_of_the_same_work_is_ranked(void **unused) {
  char options[256];
  make_peer("s/ronde/other/");
  snprintf(options, sizeof options, "step " SMALL "--json --lr 0.01 --peers pytorch --peers-dir %s --out %s/out",
           folder, folder);
  json_t *bench = bench_of(options, 0);
  assert_true(json_is_true(json_object_get(bench, "ranked")));
  assert_int_equal(json_array_size(json_object_get(bench, "cases")), 2); /* the other variant was absent */
  assert_string_equal(json_string_value(json_object_get(bench, "fastest_peer")), "pytorch");
  assert_true(json_equal(field(bench, 0, "first_loss"), field(bench, 1, "first_loss")));
  const json_t *ratios = json_object_get(field(bench, 1, "ronde_is_faster_by"), "samples");
  for (size_t i = 0; i < 2; i++) {
    double own = json_number_value(json_array_get(json_object_get(field(bench, 0, "round_s"), "samples"), i));
    double theirs = json_number_value(json_array_get(json_object_get(field(bench, 1, "round_s"), "samples"), i));
    const json_t *speeds = json_object_get(field(bench, 1, "times_as_fast"), "samples");
    assert_true(fabs(json_number_value(json_array_get(ratios, i)) - theirs / own) < 1e-9);
    assert_true(fabs(json_number_value(json_array_get(speeds, i)) - own / theirs) < 1e-9);
  }
  char path[128];
  snprintf(path, sizeof path, "%s/out/bench.json", folder);
  json_t *kept = json_load_file(path, 0, NULL);
  assert_true(json_equal(json_object_get(kept, "cases"), json_object_get(bench, "cases")));
  json_decref(kept);
  json_decref(bench);
}

/* A peer in f32 beside a Ronde in bfloat16 is compared with a Ronde in f32. */
static void each_is_compared_in_its_own_format(void **unused) {
  char options[256], text[4096];
  make_peer("s/ronde/other/");
  snprintf(options, sizeof options, "step " IN_BF16 "--json --lr 0.01 --peers pytorch --peers-dir %s", folder);
  json_t *bench = bench_of(options, 0), *losses = json_object_get(bench, "f32_losses");
  assert_true(json_is_true(json_object_get(bench, "ranked")));
  int bf16 = !strcmp(json_string_value(field(bench, 0, "dtype")), "bf16");
  if (bf16) {
    assert_true(json_equal(json_array_get(losses, 0), field(bench, 1, "first_loss")));
    assert_true(json_equal(json_array_get(losses, 1), field(bench, 1, "second_loss")));
    assert_false(json_equal(field(bench, 0, "second_loss"), field(bench, 1, "second_loss")));
  } else {
    assert_null(losses);
  }
  json_decref(bench);
  make_peer("3s/\"loss\": 2/\"loss\": 1/");
  snprintf(options, sizeof options, "step " IN_BF16 "--peers pytorch --peers-dir %s", folder);
  assert_int_equal(run(options, "2>&1 >/dev/null", text, sizeof text), 7);
  assert_non_null(strstr(text, bf16 ? "with ronde in f32, 1." : "with ronde, 1."));
}

static void tables_are_for_people(void **unused) {
  static char text[1 << 16];
  char options[256];
  make_peer("s/ronde/other/");
  snprintf(options, sizeof options, "step " SMALL "--lr 0.01 --peers pytorch --peers-dir %s", folder);
  assert_int_equal(run(options, "2>/dev/null", text, sizeof text), 0);
  assert_non_null(strstr(text, "lenet5 (62,006 parameters), batch 3, sgd, 1 thread; milliseconds a step\nsystem "));
  assert_non_null(strstr(text, "Ronde is faster by"));
  assert_non_null(strstr(text, "\nronde  ")); /* as wide as "pytorch" */
  assert_non_null(strstr(text, "\nthe fastest peer: pytorch\n"));
  assert_int_equal(run("kernels " SMALL, "2>/dev/null", text, sizeof text), 0);
  assert_non_null(strstr(text, "ms a step; peaks: "));
  assert_non_null(strstr(text, "\nfc2 linear+tanh+sgd "));
}

static void other_work_is_refused(void **unused) {
  static const char *const cases[][2] = {
      {"s/\"parameters\": 62006/\"parameters\": 62007/", "parameters is 62006 with ronde, 62007 with pytorch"},
      {"s/\"padding\": \"same\"/\"padding\": \"valid\"/", "padding is \"same\" with ronde, \"valid\" with pytorch"},
      {"s/\"loss\": 2/\"loss\": 3/", "first_loss is 2."},
      {"3s/\"loss\": 2/\"loss\": 1/", "second_loss is 2."},
  };
  char options[256], text[4096];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    make_peer(cases[i][0]);
    snprintf(options, sizeof options, "step " SMALL "--peers pytorch --peers-dir %s", folder);
    assert_int_equal(run(options, "2>&1 >/dev/null", text, sizeof text), 7);
    if (!strstr(text, cases[i][1])) fail_msg("%s is not in: %s", cases[i][1], text);
  }
}

static void what_cannot_be_measured_is_refused(void **unused) {
  static const struct {
    const char *options, *line;
    int code;
  } cases[] = {
      {"step --model lenet5 --peers caffe",
       "--peers: 'caffe' is not pytorch, pytorch-compiled, tensorflow, tensorflow-eager or mxnet", 2},
      {"step --model lenet5 --peers-dir x", "--peers-dir can have no effect without --peers", 2},
      {"step --model lenet5 --peers pytorch --optimizer adamw", "measured with sgd or adam", 2},
      {"step --model lenet5 --peers mxnet --peers-dir /nowhere --rounds 1", "install the peers by `make peers`", 3},
      {"step --model lenet5 --optimizer adam --momentum 0.9", "--momentum", 2},
      {"kernels --model lenet5 --padding valid", "--padding", 2},
  };
  char text[4096];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_int_equal(run(cases[i].options, "2>&1 >/dev/null", text, sizeof text), cases[i].code);
    if (!strstr(text, cases[i].line)) fail_msg("%s is not in: %s", cases[i].line, text);
  }
}

static const json_t *kernel(const json_t *bench, const char *op, const char *phase) {
  const json_t *row;
  size_t i;
  json_array_foreach(json_object_get(bench, "cases"), i, row) {
    if (strcmp(json_string_value(json_object_get(row, "op")), op) == 0 &&
        strcmp(json_string_value(json_object_get(row, "phase")), phase) == 0)
      return row;
  }
  fail_msg("no row of %s %s", op, phase);
  return NULL;
}

/* Against figures made by hand: 2 multiply-adds of 3 examples, 120 x 84 weights and their padding to blocks. */
static void kernels_by_layer(void **unused) {
  json_t *bench = bench_of("kernels " SMALL "--json", 0);
  assert_true(json_number_value(json_object_get(json_object_get(bench, "peak"), "gflops_per_s")) > 0.1);
  assert_true(json_number_value(json_object_get(json_object_get(bench, "peak"), "gbytes_per_s")) > 0.01);
  const json_t *row = kernel(bench, "fc2 linear+tanh", "forward");
  double flops = json_number_value(json_object_get(row, "flops"));
  double bytes = json_number_value(json_object_get(row, "bytes"));
  assert_true(flops >= 2.0 * 3 * 120 * 84 && flops < 2.0 * 3 * 128 * 128);
  assert_true(bytes >= 4.0 * (120 * 84 + 84 + 3 * (120 + 84)) && bytes < 4.0 * (128 * 128 + 128 + 3 * 256) + 1);
  assert_true(json_number_value(json_object_get(row, "calls_per_step")) == 1);
  const json_t *back = kernel(bench, "fc2 linear+tanh+sgd", "backward");
  /* The weights are read and written by the update: at least 3 times what forward reads of them. */
  assert_true(json_number_value(json_object_get(back, "bytes")) > 4.0 * 3 * 120 * 84);
  kernel(bench, "conv1 convolution+tanh", "backward");
  kernel(bench, "fc3 linear", "forward");
  assert_int_equal(json_array_size(json_object_get(json_object_get(row, "seconds"), "samples")), 2);
  assert_true(json_number_value(json_object_get(json_object_get(row, "work"), "flops")) == flops);
  assert_string_equal(json_string_value(json_object_get(json_object_get(row, "values"), "op")), "fc2 linear+tanh");
  assert_false(json_is_true(json_object_get(bench, "ranked")));
  assert_string_equal(json_string_value(json_object_get(bench, "not_ranked")), "each kernel does different work");
  json_decref(bench);
}

static int make_folder(void **unused) {
  snprintf(folder, sizeof folder, "/tmp/ronde-bench-test-XXXXXX");
  return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **unused) {
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(alone),
      cmocka_unit_test(networks_of_tokens),
      cmocka_unit_test(networks_that_speak),
      cmocka_unit_test(the_rate_is_the_caller_s),
      cmocka_unit_test(peer_of_the_same_work_is_ranked),
      cmocka_unit_test(each_is_compared_in_its_own_format),
      cmocka_unit_test(tables_are_for_people),
      cmocka_unit_test(other_work_is_refused),
      cmocka_unit_test(what_cannot_be_measured_is_refused),
      cmocka_unit_test(kernels_by_layer),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
