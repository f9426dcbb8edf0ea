/* Runs of several processes that go on: complete ones, with a disk for each rank, and what the launcher started. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include "mpi_testing.h"
#include "sanitized.h"

static void a_run_that_is_complete_is_left_as_it_is(void **state) {
  need_mpi();
  check_run(0, run("timeout 100 " RONDE " train " SMALL " --workers 3 --transport mpi --out c && cp -r c c0"));
  check_run(2, run("timeout 100 " RONDE " train " SMALL " --workers 3 --transport mpi --out c"));
  check_says("ronde: error: --out c holds another run (run.json): --resume c continues it");
  check_run(0, run(MPIRUN "-np 3 " RONDE " train --resume c"));
  check_says("complete at step 12 (c/checkpoints/step-12.safetensors)");
  assert_null(strstr(strstr(said, "complete at step 12") + 1, "complete at step 12"));
  check_run(0, run("diff -r c c0"));
  check_run(0, run(MPIRUN "-np 3 " RONDE " train --resume c --epochs 2 && wc -l <c/steps.jsonl"));
  check_says("resuming from step 12 (c/checkpoints/step-12.safetensors)");
  check_says("\n24\n");
}

/* ---- resuming, where each rank has a disk of its own ---- */

#define DISK " --keep 100 --checkpoint-every 1000 --out run --resume auto "

/* A run's state after so many steps in the folder `to`, on one disk. */
static void make_state(const char *to, const char *from, const char *options, int n_ranks, int steps) {
  if (from) check_run(0, run("cp -r %s %s", from, to));
  else check_run(0, run("mkdir %s", to));
  check_run(0, run(MPIRUN "-np %d -wdir %s " RONDE " train %s" DISK "--steps %d", n_ranks, to, options, steps));
}

static json_t *run_on_disks(const char *disk, const char *others, const char *options, int n_ranks) {
  check_run(0, run("rm -rf disk disks && mkdir disk disks"));
  if (*disk) check_run(0, run("cp -r %s/. disk", disk));
  if (*others) check_run(0, run("cp -r %s/. disks", others));
  check_run(0, run(MPIRUN "-np 1 -wdir disk " RONDE " train %s" DISK "--steps 12 : -np %d -wdir disks " RONDE
                          " train %s" DISK "--steps 12",
                   options, n_ranks - 1, options));
  return record("disk/run");
}

static void rank_0s_checkpoint_is_the_one(void **state) {
  need_mpi();
  static const struct {
    const char *options;
    int n_ranks;
  } cases[] = {
      {SMALL " --optimizer adam", 3},
      {"--model resnet18 --data synthetic:3x16x16:10:64 --batch 16 --momentum 0.9 --threads 1 --quiet", 2},
      {SMALL " --momentum 0.9 --strategy ps-sync --servers 2", 2},
      {SMALL " --momentum 0.9 --strategy ps-sync --servers 1 --placement dedicated", 3},
  };
  static const char *const disks[][2] = {{"eight", ""}, {"eight", "four"}, {"eight", "twelve"}, {"", "eight"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i += IN_PART ? 2 : 1) {
    const char *options = cases[i].options;
    int n = cases[i].n_ranks;
    check_run(0, run("rm -rf four eight twelve"));
    make_state("four", NULL, options, n, 4);
    make_state("eight", "four", options, n, 8);
    make_state("twelve", "eight", options, n, 12);
    json_t *whole = record("twelve/run");
    for (size_t d = IN_PART; d < sizeof disks / sizeof *disks; d += 1 + IN_PART) {
      json_t *json = run_on_disks(disks[d][0], disks[d][1], options, n);
      json_t *from = json_object_get(json_object_get(json, "resumed_from"), "step");
      assert_int_equal(json_integer_value(from), *disks[d][0] ? 8 : 0);
      assert_string_equal(string_at(json, "result", "state_sha256"), string_at(whole, "result", "state_sha256"));
      json_decref(json);
    }
    json_decref(whole);
  }
  /* What is wrong with rank 0's is said by it, and ends all. */
  check_run(0, run("rm -rf disk/run/checkpoints/* && echo none > disk/run/checkpoints/step-4.safetensors"));
  check_run(
      3, run(MPIRUN "-np 1 -wdir disk " RONDE " train " SMALL DISK ": -np 1 -wdir eight " RONDE " train " SMALL DISK));
  check_says("ronde: error: run: all of its 1 checkpoints are damaged");
}

/* ---- resuming what the launcher started ---- */

static void check_world(const char *name, int workers, const char *transport, const char *strategy, int servers) {
  json_t *json = record(name), *world = json_object_get(json, "world");
  assert_int_equal(json_integer_value(json_object_get(world, "workers")), workers);
  assert_int_equal(json_integer_value(json_object_get(world, "servers")), servers);
  assert_string_equal(string_at(json, "world", "transport"), transport);
  assert_string_equal(string_at(json, "world", "strategy"), strategy);
  json_decref(json);
}

static void resume_alone_starts_what_was_started_before(void **state) {
  need_mpi();
  const char *ps = SMALL " --momentum 0.9 --strategy ps-sync --servers 3 --bucket-mb 0.1 --checkpoint-every 1000";
  check_run(0, run("timeout 60 " RONDE " train %s --workers 3 --transport mpi --steps 12 --out whole", ps));
  check_run(0, run("timeout 60 " RONDE " train %s --workers 3 --transport mpi --steps 4 --out part", ps));
  static const char *const words[] = {"--resume go", "--resume auto --out go",
                                      "--resume go --workers 3 --strategy ps-sync"};
  for (int i = 0; i < (IN_PART ? 1 : 3); i++) {
    check_run(0, run("rm -rf go && cp -r part go && timeout 60 " RONDE " train --quiet %s --steps 12", words[i]));
    check_world("go", 3, "mpi", "ps-sync", 3);
    check_same_state("go", "whole");
  }
  /* Servers cannot be more than the workers that they live beside. */
  check_run(0, run("timeout 60 " RONDE " train --quiet --resume part --workers 2 --steps 8"));
  check_world("part", 2, "mpi", "ps-sync", 2);
  /* A user's own mpirun says how many there are. */
  check_run(0, run(MPIRUN "-np 3 " RONDE " train --quiet --resume part --steps 12"));
  check_world("part", 3, "mpi", "ps-sync", 2);
  check_run(0, run("timeout 60 " RONDE " train --quiet --resume part --transport threads --steps 16"));
  check_world("part", 3, "threads", "ps-sync", 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_that_is_complete_is_left_as_it_is),
      cmocka_unit_test(rank_0s_checkpoint_is_the_one),
      cmocka_unit_test(resume_alone_starts_what_was_started_before),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
