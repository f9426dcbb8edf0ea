/* Networks that are larger than the memory of a worker: what ranks need is known beforehand, and is what they take; what
 * does not fit is refused with the bytes that are missing, and with a plan that does. */
#include "mpi_testing.h"

#include "sanitized.h"

#include <math.h>

/* Of 115 MB of weights, gradients and Adam's state. */
#define LARGE                                                                                                          \
  "--model mlp:1500,1500,1500,1500 --data synthetic:1x16x16:10:256 --batch 32 --steps 3 --optimizer adam --threads 1 " \
  "--quiet "
#define TRAIN "timeout 100 " RONDE " train " LARGE

static double number_at(const json_t *json, const char *name) {
  const json_t *value = json_object_get(json, name);
  assert_true(json_is_number(value));
  return json_number_value(value);
}

/* Peak memory is of a process: of all ranks where these are its threads. Sanitizers take more. */
static void check_peaks(const char *name, const char *options) {
  check_run(0, run(TRAIN "%s --overwrite --out %s", options, name));
  json_t *run = left_by(name, "run.json"), *row;
  size_t i;
  double needed = 0;
  json_array_foreach(json_object_get(run, "workers"), i, row) {
    if (json_is_null(json_object_get(row, "needed_bytes"))) continue; /* a server beside a worker, who has both */
    double own = number_at(row, "needed_bytes");
    const json_t *peak = json_object_get(row, "peak_rss_bytes");
    needed += own;
    if (json_is_number(peak) && fabs(own / json_number_value(peak) - 1) > 0.1)
      fail_msg("%s: rank %zu needed %.0f bytes, and %.0f were foreseen", options, i, json_number_value(peak), own);
  }
  double peak = number_at(json_object_get(run, "totals"), "peak_rss_bytes");
  if (fabs(needed / peak - 1) > 0.1) fail_msg("%s: %.0f bytes were needed, and %.0f foreseen", options, peak, needed);
  json_decref(run);
}

static void what_ranks_need_is_what_they_take(void **state) {
  if (SANITIZED) return;
  check_peaks("one", "--workers 1");
  check_peaks("summed", "--workers 2 --strategy allreduce --clip 1");
  check_peaks("shards", "--workers 3 --strategy sharded");
  check_peaks("served", "--workers 2 --strategy ps-sync --servers 2");
  check_peaks("stages", "--strategy pipeline --stages 4");
  check_peaks("activations",
              "--strategy pipeline --stages 2 --model resnet18-cifar --data synthetic:3x32x32:10:256 "
              "--micro-batches 2 --batch 64");
}

static void what_processes_need_is_what_they_take(void **state) {
  need_mpi();
  if (SANITIZED) return;
  check_peaks("mpi", "--strategy pipeline --stages 4 --workers 4 --transport mpi");
  check_peaks("mpi2", "--strategy pipeline --stages 2 --workers 4 --transport mpi");
}

/* The options of the plan that was proposed, and what it needs. */
static long long proposed(char options[128]) {
  int stages, micro_batches;
  long long bytes;
  const char *at = strstr(said, "--strategy pipeline --stages ");
  assert_non_null(at);
  assert_int_equal(sscanf(at, "--strategy pipeline --stages %d --micro-batches %d fits: at most %lld bytes a worker",
                          &stages, &micro_batches, &bytes),
                   3);
  snprintf(options, 128, "--strategy pipeline --stages %d --workers %d --micro-batches %d", stages, stages,
           micro_batches);
  return bytes;
}

static long long missing(void) {
  const char *at = strstr(said, " bytes are missing");
  assert_non_null(at);
  while (at > said && at[-1] >= '0' && at[-1] <= '9') at--;
  return strtoll(at, NULL, 10);
}

/* With that much more it is not refused, and with a byte less it is. What the program takes varies by some pages. */
static void one_worker_is_refused_with_what_it_lacks(void **state) {
  enum { LIMIT = 80 << 20, PAGES = 1 << 20 };
  char options[128];
  if (SANITIZED) return;
  check_run(6, run(TRAIN "--memory-limit 80M"));
  check_says("the training needs ");
  check_says("but --memory-limit is 83886080: ");
  long long lacks = missing();
  check_run(6, run(TRAIN "--memory-limit %lld", LIMIT + lacks - PAGES));
  check_run(0, run(TRAIN "--memory-limit %lld", LIMIT + lacks + PAGES));
  check_run(6, run(TRAIN "--memory-limit 80M --dry-run"));
  assert_true(proposed(options) <= LIMIT);
  check_run(0, run(TRAIN "--memory-limit 80M %s --out fits", options));
  check_run(0, run(TRAIN "--batch 8 --accumulate 4 --out large"));
  json_t *stages = left_by("fits", "run.json"), *one = left_by("large", "run.json");
  json_t *losses[] = {json_object_get(stages, "result"), json_object_get(one, "result")};
  double a = number_at(losses[0], "train_loss"), b = number_at(losses[1], "train_loss");
  assert_true(fabs(a - b) < 1e-4 * b);
  json_decref(stages), json_decref(one);
}

/* Of each process, by the system, which would not give what is refused here. Of this network one worker has 233 MB, and a
 * process that has joined MPI some 70 MB beside its stage, most of them stacks that are never used. */
static void processes_keep_the_limits_of_the_system(void **state) {
  need_mpi();
  if (SANITIZED) return;
  char options[128];
#define LARGER TRAIN "--model mlp:2500,2500,2500,2500 "
  check_run(6, run("ulimit -v 250000; " LARGER));
  check_says("RLIMIT_AS");
  check_run(6, run("ulimit -d 200000; " LARGER));
  check_says("RLIMIT_DATA");
  check_says("each a process (--transport mpi)");
  assert_true(proposed(options) <= 200000 * 1024);
  check_run(0, run("ulimit -d 200000; " LARGER "--transport mpi %s", options));
  check_run(6, run("ulimit -d 200000; " LARGER "--transport mpi --strategy pipeline --workers 2"));
  check_says(" needs ");
}

static void a_layer_that_no_stage_can_have_is_named(void **state) {
  if (SANITIZED) return;
  check_run(6, run(TRAIN "--memory-limit 50M"));
  check_says("the parameters of fc2 alone need 37773312 bytes");
  check_says(
      "more than a stage of any pipeline may have (--strategy hybrid splits what such a layer computes, but leaves "
      "each worker all of its parameters)");
}

/* A network whose first stage has three micro-batches of large activations: cut by time alone it would not fit. */
#define DEEP                                                                                      \
  "timeout 100 " RONDE                                                                            \
  " train --model resnet18-cifar --data synthetic:3x16x16:4:144 --batch 144 --threads 1 --quiet " \
  "--steps 2 --strategy pipeline --stages 3 --micro-batches 3 "

static double largest_stage(const char *file, char first[64]) {
  char path[64];
  size_t i;
  double largest = 0;
  snprintf(path, sizeof path, "%s/%s", folder, file);
  json_t *plan = json_load_file(path, 0, NULL), *stage;
  assert_non_null(plan);
  json_array_foreach(json_object_get(plan, "stages"), i, stage) {
    if (i == 1) snprintf(first, 64, "%s", json_string_value(json_object_get(stage, "first")));
    largest = fmax(largest, number_at(json_object_get(stage, "memory_bytes"), "total"));
  }
  json_decref(plan);
  return largest;
}

static void stages_are_cut_so_that_they_fit(void **state) {
  char first[2][64], *hash[2];
  if (SANITIZED) return;
  check_run(0, run(DEEP "--dry-run --json >any && " DEEP "--out any0"));
  double any = largest_stage("any", first[0]);
  check_run(0, run(DEEP "--memory-limit 125M --dry-run --json >limited && " DEEP "--memory-limit 125M --out limited0"));
  assert_true(largest_stage("limited", first[1]) < 0.95 * any);
  assert_string_not_equal(first[0], first[1]);
  for (int i = 0; i < 2; i++) {
    json_t *run = left_by(i ? "limited0" : "any0", "run.json");
    hash[i] = strdup(json_string_value(json_object_get(json_object_get(run, "result"), "weights_sha256")));
    json_decref(run);
  }
  assert_string_equal(hash[0], hash[1]);
  free(hash[0]), free(hash[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_ranks_need_is_what_they_take),
                                     cmocka_unit_test(what_processes_need_is_what_they_take),
                                     cmocka_unit_test(one_worker_is_refused_with_what_it_lacks),
                                     cmocka_unit_test(processes_keep_the_limits_of_the_system),
                                     cmocka_unit_test(a_layer_that_no_stage_can_have_is_named),
                                     cmocka_unit_test(stages_are_cut_so_that_they_fit)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
