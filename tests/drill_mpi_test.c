/* Faults planted by --drill that strike whole processes, and what the launcher says of them; then the way on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mpi_testing.h"

#define TRAIN "timeout 100 " RONDE " train " SMALL " --epochs 3 --checkpoint-every 10 --no-save-best "

static char undisturbed[80];

static void weights_of(const char *name, char sha256_out[80]) {
  json_t *json = left_by(name, "run.json");
  const char *sha256 = json_string_value(json_object_get(json_object_get(json, "result"), "weights_sha256"));
  snprintf(sha256_out, 80, "%s", sha256 ? sha256 : "none");
  json_decref(json);
}

/* The run of the folder goes on and ends with the bits of one that nothing has happened to. */
static void check_goes_on(const char *name) {
  char sha256[80];
  check_run(0, run("timeout 100 " RONDE " train --quiet --resume %s", name));
  weights_of(name, sha256);
  assert_string_equal(sha256, undisturbed);
}

static void check_kept(const char *name) {
  check_run(0, run("ls %s/checkpoints/step-?0.safetensors && test ! -e %s/run.json", name, name));
}

static void make_undisturbed(void **state) {
  check_run(0, run(TRAIN "--workers 3 --out u"));
  weights_of("u", undisturbed);
}

/* Threads go with their process, and that is said. */
static void a_kill_takes_all_threads(void **state) {
  check_run(137, run("sed 's/--quiet//' <<'END' | sh\n" TRAIN "--workers 3 --out kt --drill slow:0:40,kill:1@25\nEND"));
  check_says("step 25: rank 1 (process ");
  check_says(") is killed, and with it all ranks, which are its threads (--drill)");
  check_kept("kt");
  check_goes_on("kt");
}

static void a_kill_ends_one_process_and_is_named(void **state) {
  need_mpi();
  check_run(4, run(TRAIN "--workers 3 --transport mpi --out km --drill slow:0:40,kill:1@25"));
  check_says("ronde: error: rank 1 on host ");
  check_says("was lost: killed by signal 9");
  check_kept("km");
  check_goes_on("km");
  check_run(4, run(TRAIN "--workers 3 --transport mpi --strategy ps-async --out ka --drill kill:2@15"));
  check_says("ronde: error: rank 2 on host ");
  check_run(4, run(TRAIN "--workers 3 --transport mpi --strategy sandblaster --out ks --drill kill:2@2"));
  check_says("ronde: error: rank 2 on host ");
}

static void check_waited_for(const char *name, const char *transport) {
  char sha256[80];
  check_run(0, run(TRAIN "--workers 3 --transport %s --out %s --drill stop:1@25:0.5", transport, name));
  weights_of(name, sha256);
  assert_string_equal(sha256, undisturbed);
  json_t *json = left_by(name, "run.json");
  assert_true(json_real_value(json_object_get(json_object_get(json, "totals"), "wall_s")) > 0.4);
  json_decref(json);
}

static void a_short_stop_is_waited_for(void **state) {
  check_waited_for("st", "threads");
  need_mpi();
  check_waited_for("sm", "mpi");
}

static void a_long_stop_is_a_loss(void **state) {
  need_mpi();
  check_run(4, run(TRAIN "--workers 3 --transport mpi --timeout 2 --out sl --drill stop:1@25:60"));
  check_says("nothing heard from rank 1 on host ");
}

static void broken_numbers_are_named_between_processes(void **state) {
  need_mpi();
  check_run(5, run(TRAIN "--workers 3 --transport mpi --out cm --drill corrupt:2@25"));
  check_says("step 25: the gradient of ");
  check_says("on rank 2 has NaN or Inf");
}

static void no_memory_is_named_between_processes(void **state) {
  need_mpi();
  check_run(6, run(TRAIN "--workers 3 --transport mpi --out om --drill slow:0:40,oom:1@25"));
  check_says("ronde: error: rank 1: step 25: no memory for ");
  check_run(0, run("rm om/run.json")); /* it tells how far the run came */
  check_kept("om");
  check_goes_on("om");
}

static void a_full_disk_ends_all_processes(void **state) {
  need_mpi();
  check_run(6, run(TRAIN "--workers 3 --transport mpi --out dm --drill slow:0:40,disk-full@25"));
  check_says("No space left on device");
  check_run(1, run("find dm | grep -F .tmp"));
  check_kept("dm");
  check_goes_on("dm");
}

static void help_lists_every_kind(void **state) {
  static const char *const syntaxes[] = {"load:[RANK:]MS",    "slow:RANK:MS[@STEP]", "drift:RANK:STEP",
                                         "corrupt:RANK@STEP", "oom:RANK@STEP",       "kill:RANK@STEP",
                                         "slow-disk:MS",      "disk-full@STEP",      "stop:RANK@STEP[:SECONDS]"};
  check_run(0, run(RONDE " train --help"));
  for (size_t i = 0; i < sizeof syntaxes / sizeof *syntaxes; i++) check_says(syntaxes[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(make_undisturbed),
      cmocka_unit_test(a_kill_takes_all_threads),
      cmocka_unit_test(a_kill_ends_one_process_and_is_named),
      cmocka_unit_test(a_short_stop_is_waited_for),
      cmocka_unit_test(a_long_stop_is_a_loss),
      cmocka_unit_test(broken_numbers_are_named_between_processes),
      cmocka_unit_test(no_memory_is_named_between_processes),
      cmocka_unit_test(a_full_disk_ends_all_processes),
      cmocka_unit_test(help_lists_every_kind),
  };
  setenv("LSAN_OPTIONS", "detect_leaks=0", 1); /* Open MPI keeps what it has to the end */
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
