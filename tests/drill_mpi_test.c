/* Faults planted by --drill that strike whole processes, and what the launcher says of them; then the way on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mpi_testing.h"
#include "sanitized.h"

#define TRAIN "timeout 100 " RONDE " train " SMALL " --epochs 3 --checkpoint-every 10 --no-save-best "

static char undisturbed[80], undisturbed_sharded[80];

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
  check_run(137,
            run("sed 's/--quiet//' <<'END' | sh\n" TRAIN "--workers 3 --out kt --drill slow:0:100,kill:1@25\nEND"));
  check_says("step 25: rank 1 (process ");
  check_says(") is killed, and with it all ranks, which are its threads (--drill)");
  check_kept("kt");
  check_goes_on("kt");
}

static void a_kill_ends_one_process_and_is_named(void **state) {
  need_mpi();
  check_run(4, run(TRAIN "--workers 3 --transport mpi --out km --drill slow:0:100,kill:1@25"));
  check_says("ronde: error: rank 1 on host ");
  check_says("was lost: killed by ");
  check_run(0, run("grep -q '\"failed\"' km/run.json && rm km/run.json")); /* the survivors' word */
  check_kept("km");
  check_goes_on("km");
  check_run(4, run(TRAIN "--workers 3 --transport mpi --strategy ps-async --on-loss stop --out ka --drill kill:2@15"));
  check_says("ronde: error: rank 2 on host ");
  check_run(4, run(TRAIN "--workers 3 --transport mpi --strategy hybrid --hybrid-layers fc1,fc2 --hybrid-scheme c "
                         "--out kh --drill kill:2@9"));
  check_says("ronde: error: rank 2 on host ");
  check_run(4, run(TRAIN "--workers 3 --transport mpi --strategy sandblaster --out ks --drill kill:2@2"));
  check_says("ronde: error: rank 2 on host ");
}

#define RESTARTS "--workers 3 --transport mpi --on-loss restart "

/* The step from which a run went on after its one loss; steps_lost: those that it made twice. */
static int64_t resumed_at(const char *name, int64_t steps_lost) {
  json_t *json = left_by(name, "run.json"), *restarts = json_object_get(json, "restarts");
  int64_t step = json_integer_value(json_object_get(json_object_get(json, "resumed_from"), "step"));
  json_int_t ranks = 0, resumed = 0, lost = 0;
  bool whole =
      json_unpack(restarts, "[{s:I, s:I, s:I}!]", "ranks", &ranks, "resumed_step", &resumed, "steps_lost", &lost) == 0;
  if (!whole || ranks != 3 || resumed != step || lost != steps_lost)
    fail_msg("%s went on from step %d, with %d steps lost expected; restarts: %s", name, (int)step, (int)steps_lost,
             json_dumps(restarts, 0));
  json_decref(json);
  return step;
}

/* The survivors have the newest state, whoever it is that dies: no step is made twice, and no bit changes. */
static void a_run_starts_again_where_it_was(void **state) {
  need_mpi();
  for (int rank = SANITIZED; rank < 3 - SANITIZED; rank++) {
    char name[16], sha256[80];
    snprintf(name, sizeof name, "r%d", rank);
    check_run(0, run(TRAIN RESTARTS "--out %s --drill slow:0:40,kill:%d@25", name, rank));
    weights_of(name, sha256);
    assert_string_equal(sha256, undisturbed);
    assert_int_equal(resumed_at(name, 0), 24);
    check_run(0, run("grep -F '(last seen ' %s/run.json", name));
    check_run(0, run("cut -d, -f1 %s/steps.jsonl | sort | uniq -d | wc -l && test -f %s/last.safetensors", name, name));
    assert_int_equal(strtol(said, NULL, 10), 0);
  }
}

/* Not also that of the survivors. */
static void a_run_that_started_again_prints_one_record(void **state) {
  need_mpi();
  check_run(0, run(TRAIN RESTARTS "--json --out j --drill kill:1@25 2>/dev/null"));
  json_error_t error;
  json_t *json = json_loads(said, 0, &error);
  if (!json) fail_msg("%s in:\n%s", error.text, said);
  assert_string_equal(json_string_value(json_object_get(json, "status")), "completed");
  json_decref(json);
}

static void state_of(const char *name, char sha256_out[80]) {
  json_t *json = left_by(name, "run.json");
  const char *sha256 = json_string_value(json_object_get(json_object_get(json, "result"), "state_sha256"));
  snprintf(sha256_out, 80, "%s", sha256 ? sha256 : "none");
  json_decref(json);
}

/* Running statistics are those in front of the step that is given up; and where an exchange was under way, so that the
 * parameters are of two steps, the update is ended or undone. */
static void what_a_step_has_changed_is_not_kept(void **state) {
  need_mpi();
#define NORM                                                                                                     \
  "timeout 200 " RONDE                                                                                           \
  " train --model resnet18-cifar --data synthetic:3x32x32:10:48 --batch 12 --threads 1 --quiet --epochs 2 --lr " \
  "0.01 --no-save-best " RESTARTS
  char sha256[80], expected[80];
  check_run(0, run(NORM "--out nu"));
  check_run(0, run(NORM "--out nk --drill kill:1@4"));
  state_of("nu", expected);
  state_of("nk", sha256);
  assert_string_equal(sha256, expected);
  assert_int_equal(resumed_at("nk", 0), 3);
#define OVERLAPPED TRAIN RESTARTS "--optimizer adam --lr 0.001 --overlap on --bucket-mb 0.01 "
  check_run(0, run(OVERLAPPED "--out vu")); /* buckets decide in which order ranks are summed */
  weights_of("vu", expected);
  for (int i = 0; i < (SANITIZED ? 1 : 3); i++) {
    check_run(0, run(OVERLAPPED "--overwrite --out vk --drill kill:1@%d", 21 + i));
    weights_of("vk", sha256);
    assert_string_equal(sha256, expected);
    int64_t step = resumed_at("vk", 0);
    assert_true(step == 19 + i || step == 20 + i);
  }
}

/* The master has all; without it there is the last checkpoint. */
static void a_master_saves_what_it_has(void **state) {
  need_mpi();
#define MASTER TRAIN RESTARTS "--strategy dataparallel --momentum 0.9 "
  char sha256[80], expected[80];
  check_run(0, run(MASTER "--out du"));
  weights_of("du", expected);
  check_run(0, run(MASTER "--out dk --drill slow:0:40,kill:1@25"));
  weights_of("dk", sha256);
  assert_string_equal(sha256, expected);
  assert_int_equal(resumed_at("dk", 0), 24);
  check_run(0, run(MASTER "--out d0 --drill slow:0:300,kill:0@29")); /* time to write the checkpoint of step 20 */
  weights_of("d0", sha256);
  assert_string_equal(sha256, expected);
  assert_int_equal(resumed_at("d0", 8), 20);
}

/* The steps behind the last synchronisation were each worker's own. By hand from the same state the bits are the same. */
static void a_synchronised_state_is_gone_on_from(void **state) {
  need_mpi();
#define LOCAL "timeout 100 " RONDE " train " SMALL " --epochs 3 --no-save-best --keep 100 "
#define LOCAL_SGD RESTARTS "--strategy localsgd --sync-every 5 --out l"
  char sha256[80], expected[80];
  check_run(0, run(LOCAL LOCAL_SGD " --drill slow:2:40,kill:1@23"));
  weights_of("l", sha256);
  int64_t step = resumed_at("l", 2); /* the others come to their meeting behind step 24 */
  assert_int_equal(step, 22);
  check_run(0, run("mkdir -p h/checkpoints && cp l/checkpoints/step-%lld.safetensors h/checkpoints/", (long long)step));
  check_run(0, run("timeout 100 " RONDE " train --quiet --resume h"));
  weights_of("h", expected);
  assert_string_equal(sha256, expected);
}

/* Where the workers have parts of the state: from the last checkpoint. */
static void a_run_starts_again_from_its_checkpoint(void **state) {
  need_mpi();
  char sha256[80];
  check_run(0, run(TRAIN RESTARTS "--strategy sharded --out rs --drill slow:0:40,kill:1@25"));
  assert_int_equal(resumed_at("rs", 4), 20);
  weights_of("rs", sha256);
  check_run(0, run(TRAIN "--workers 3 --transport mpi --strategy sharded --out us"));
  weights_of("us", undisturbed_sharded);
  assert_string_equal(sha256, undisturbed_sharded);
}

static void restarts_that_cannot_be_are_refused(void **state) {
  need_mpi();
  check_run(2, run(TRAIN "--workers 3 --out n1 --on-loss restart"));
  check_says("threads of one process are not lost one by one");
  check_run(2, run(TRAIN "--workers 3 --transport mpi --on-loss restart"));
  check_says("there is no --out DIR");
  check_run(2, run(TRAIN "--workers 3 --transport mpi --on-loss restart --out n2 --resume u"));
  check_says("--on-loss restart: a restart would begin anew");
  check_run(2, run("OMPI_COMM_WORLD_SIZE=1 " TRAIN "--transport mpi --workers 3 --on-loss restart --out n3"));
  check_says("only `ronde train` itself can start its ranks again");
}

static void check_lost(const char *name, int rank) {
  json_t *json = left_by(name, "run.json"), *epochs = json_object_get(json, "epochs");
  const json_t *lost = json_object_get(json, "lost_workers"), *one = json_array_get(lost, 0);
  if (json_array_size(lost) != 1 || json_integer_value(json_object_get(one, "rank")) != rank)
    fail_msg("%s has lost others than rank %d: %s", name, rank, json_dumps(lost, 0));
  assert_true(*json_string_value(json_object_get(one, "host")) && *json_string_value(json_object_get(one, "at")));
  assert_string_equal(json_string_value(json_object_get(json, "status")), "completed");
  assert_int_equal(json_array_size(epochs), 3);
  int64_t n[3];
  for (size_t i = 0; i < 3; i++) n[i] = json_integer_value(json_object_get(json_array_get(epochs, i), "examples"));
  assert_true(n[1] < n[0] && n[2] == n[0]); /* of the epoch of its loss its examples are missing, and no others */
  json_decref(json);
}

/* Whoever has what nobody else has ends the run as ever. */
static void asynchronous_workers_go_on_without_a_lost_one(void **state) {
  need_mpi();
  static const char *const strategies[] = {"ps-async", "ps-ssp", "downpour"};
#define ASYNC TRAIN "--workers 3 --transport mpi --strategy %s "
  for (int i = 0; i < 3; i++) {
    char name[16];
    snprintf(name, sizeof name, "g%d", i);
    check_run(0, run("sed 's/--quiet//' <<'END' | sh\n" ASYNC "--out %s --drill kill:%d@15\nEND", strategies[i], name,
                     1 + i % 2));
    check_says("the process has gone; the others go on without it");
    check_says("the others have gone on without it");
    check_lost(name, 1 + i % 2);
  }
  check_run(0, run(ASYNC "--timeout 5 --out gs --drill stop:2@15", "ps-ssp"));
  check_lost("gs", 2);
  check_run(4, run(ASYNC "--out gz --drill kill:0@15", "ps-async"));
  check_says("ronde: error: rank 0 on host ");
  check_run(4, run(ASYNC "--servers 2 --out g3 --drill kill:1@15", "ps-async"));
  check_says("ronde: error: rank 1 on host ");
  check_run(2, run(ASYNC "--out g4 --on-loss continue", "ps-sync"));
  check_says("with this strategy no step can be made without all ranks");
  check_run(2, run(ASYNC "--servers 3 --out g4 --on-loss continue", "ps-async"));
  check_says("every rank has a server");
}

/* The lost one's shard of the optimizer's state was with its neighbour; replicas are compared on the way. */
static void sharded_workers_go_on_with_a_mirror(void **state) {
  need_mpi();
  check_run(0, run("sed 's/--quiet//' <<'END' | sh\n" TRAIN "--workers 3 --transport mpi --strategy sharded "
                   "--optimizer adam --sentinel 3 --on-loss continue --out gm --drill kill:1@15\nEND"));
  check_says("2 of 3 workers are left: they go on behind step 1");
  json_t *json = left_by("gm", "run.json");
  int64_t behind =
      json_integer_value(json_object_get(json_array_get(json_object_get(json, "lost_workers"), 0), "behind_step"));
  assert_true(behind == 13 || behind == 14);
  assert_string_equal(json_string_value(json_object_get(json, "status")), "completed");
  json_decref(json);
}

/* Nobody can take rank 0's place, so its host's next rank saves, and all start again: no step is lost either. */
static void a_lost_rank_0_is_a_restart(void **state) {
  char sha256[80];
  need_mpi();
  check_run(0, run(TRAIN "--workers 3 --transport mpi --on-loss continue --out c0 --drill slow:1:20,kill:0@15"));
  json_t *json = left_by("c0", "run.json");
  assert_int_equal(json_array_size(json_object_get(json, "restarts")), 1);
  assert_string_equal(json_string_value(json_object_get(json, "status")), "completed");
  json_decref(json);
  weights_of("c0", sha256);
  assert_string_equal(sha256, undisturbed);
  check_run(4, run("timeout 100 " RONDE " train " SMALL " --epochs 3 --workers 3 --transport mpi --on-loss continue "
                   "--drill slow:1:20,kill:0@15"));
  check_says("ronde: error: rank 0 on host ");
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
      cmocka_unit_test(a_run_starts_again_where_it_was),
      cmocka_unit_test(a_run_that_started_again_prints_one_record),
      cmocka_unit_test(what_a_step_has_changed_is_not_kept),
      cmocka_unit_test(a_master_saves_what_it_has),
      cmocka_unit_test(a_synchronised_state_is_gone_on_from),
      cmocka_unit_test(a_run_starts_again_from_its_checkpoint),
      cmocka_unit_test(restarts_that_cannot_be_are_refused),
      cmocka_unit_test(asynchronous_workers_go_on_without_a_lost_one),
      cmocka_unit_test(sharded_workers_go_on_with_a_mirror),
      cmocka_unit_test(a_lost_rank_0_is_a_restart),
      cmocka_unit_test(a_short_stop_is_waited_for),
      cmocka_unit_test(a_long_stop_is_a_loss),
      cmocka_unit_test(broken_numbers_are_named_between_processes),
      cmocka_unit_test(no_memory_is_named_between_processes),
      cmocka_unit_test(a_full_disk_ends_all_processes),
      cmocka_unit_test(help_lists_every_kind),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
