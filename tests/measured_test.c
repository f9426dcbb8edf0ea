/* `ronde train --strategy measured`: a strategy is chosen by short runs, and the training is that of the named strategy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mpi_testing.h"
#include "sanitized.h"
#include "strategy/strategy.h"

/* Short runs are no longer than the training. */
#define TRAIN "timeout 100 " RONDE " train " SMALL " --steps 3 "
/* Of a step, ms. Between processes it must be more than what a busy machine adds. */
enum { SLOW = SANITIZED ? 120 : 30 };
/* In virtual time a planted delay is all that tells strategies apart, however busy the machine is. */
#define SIM " --transport sim --sim-net hosts.txt "

static json_t *choice_of(json_t *run) {
  json_t *row;
  size_t i;
  json_array_foreach(json_object_get(run, "choices"), i, row) {
    if (!strcmp(json_string_value(json_object_get(row, "choice")), "strategy")) return row;
  }
  return NULL;
}

static const char *text_of(json_t *json, const char *name) {
  const char *text = json_string_value(json_object_get(json, name));
  assert_non_null(text);
  return text;
}

static const char *hash_of(json_t *run) { return text_of(json_object_get(run, "result"), "weights_sha256"); }
static const char *strategy_of(json_t *run) { return text_of(json_object_get(run, "world"), "strategy"); }

/* Of the table that was measured; its first row of that name. */
static json_t *row_of(json_t *run, const char *strategy) {
  json_t *row;
  size_t i;
  json_array_foreach(json_object_get(choice_of(run), "candidates"), i, row) {
    if (!strcmp(text_of(row, "strategy"), strategy)) return row;
  }
  fail_msg("%s has no row", strategy);
  return NULL;
}

static const char *left_out(json_t *run, const char *strategy) {
  return json_string_value(json_object_get(row_of(run, strategy), "left_out"));
}

static void check_left_out(json_t *run, const char *strategy, const char *why) {
  const char *text = left_out(run, strategy);
  assert_non_null(text);
  if (!strstr(text, why)) fail_msg("%s: '%s' has no '%s'", strategy, text, why);
}

/* A plan that makes every strategy slow but one. */
static void slow_but(const char *name, char *plan, size_t bytes) {
  const ronde__strategy *s;
  const char *last = "";
  size_t used = 0;
  check_run(0, run("echo hosts 1 ranks 8 >hosts.txt"));
  for (int i = 0; (s = ronde__strategy_at(i)); i++) {
    if (!strcmp(s->name, name) || !strcmp(s->name, last)) continue;
    last = s->name;
    used += (size_t)snprintf(plan + used, bytes - used, "%sslow:%s:%d", used ? "," : "", last, SLOW);
    assert_true(used < bytes);
  }
}

/* Trains with all slow but one, which is chosen, and by its name: to the same bits. */
static void check_chosen(const char *name, const char *options) {
  char plan[512];
  slow_but(name, plan, sizeof plan);
  check_run(0, run(TRAIN "%s --strategy measured --drill %s --overwrite --out measured", options, plan));
  check_run(0, run(TRAIN "%s --strategy %s --overwrite --out named", options, name));
  json_t *measured = left_by("measured", "run.json"), *named = left_by("named", "run.json");
  assert_string_equal(strategy_of(measured), name);
  assert_string_equal(text_of(choice_of(measured), "value"), name);
  assert_string_equal(text_of(choice_of(measured), "reason"), "measured");
  assert_string_equal(hash_of(measured), hash_of(named));
  assert_null(choice_of(named));
  json_t *own = row_of(measured, name), *other;
  size_t i;
  assert_true(json_real_value(json_object_get(own, "step_s")) >= 0);
  size_t n_rounds = json_array_size(json_object_get(own, "rounds_s"));
  bool went_on = false;
  assert_true(json_is_real(json_object_get(own, "compute_s")));
  assert_true(json_integer_value(json_object_get(own, "memory_bytes")) > 0);
  json_array_foreach(json_object_get(choice_of(measured), "candidates"), i, other) {
    bool measured_too = other != own && !json_object_get(other, "left_out");
    if (!measured_too) continue;
    assert_true(json_real_value(json_object_get(other, "step_s")) >= SLOW * 1e-3);
    went_on |= json_array_size(json_object_get(other, "rounds_s")) > 5;
  }
  assert_int_equal(n_rounds, went_on ? 15 : 5); /* further ones where a busy machine made another one come close */
  json_decref(measured);
  json_decref(named);
}

static void what_is_slow_is_not_chosen(void **state) {
  check_chosen("allreduce", SIM "--workers 2");
  check_chosen("sharded", SIM "--workers 3 --momentum 0.9");
  check_chosen("single", SIM "--workers 1");
}

static void processes_come_to_one_choice(void **state) {
  need_mpi();
  check_chosen("sharded", "--workers 2 --transport mpi");
}

static void what_does_not_equal_one_worker_is_allowed_for(void **state) {
  char plan[512];
  const ronde__strategy *s;
  check_run(0, run(TRAIN "--workers 2 --strategy measured --out equal"));
  json_t *equal = left_by("equal", "run.json");
  for (int i = 0; (s = ronde__strategy_at(i)); i++)
    if (!s->equals_one && !s->is_meant) check_left_out(equal, s->name, "--allow-stale");
  slow_but("ps-async", plan, sizeof plan);
  check_run(0, run(TRAIN "--workers 2 --strategy measured --allow-stale --drill %s --out stale" SIM, plan));
  json_t *stale = left_by("stale", "run.json");
  assert_string_equal(strategy_of(stale), "ps-async");
  assert_null(left_out(stale, "localsgd"));
  check_left_out(stale, "single", "runs with 1 worker, not 2");
  check_left_out(stale, "downpour", "optimizer");
  json_decref(equal);
  json_decref(stale);
  check_run(2, run(TRAIN "--workers 2 --allow-stale"));
  check_says("--allow-stale can have no effect: it applies to --strategy measured");
}

/* What the user asks for holds of the strategy that is chosen. */
static void options_decide_who_is_measured(void **state) {
  check_run(0, run(TRAIN "--workers 2 --strategy measured --servers 2 --out servers"));
  json_t *servers = left_by("servers", "run.json");
  assert_string_equal(strategy_of(servers), "ps-sync");
  check_left_out(servers, "allreduce", "--servers can have no effect");
  json_decref(servers);
  check_run(2, run(TRAIN "--workers 2 --strategy measured --sync-every 4"));
  check_says(
      "--strategy measured: no strategy fits: single: --strategy single runs with 1 worker, not 2; allreduce: "
      "--sync-every");
  check_run(2, run(TRAIN "--workers 2 --strategy measured --placement dedicated"));
  check_says("ps-sync: its servers have ranks of their own");
  check_run(2, run(TRAIN "--workers 2 --strategy measured --allow-stale --sync-every 4 --local-after 5"));
  check_says("localsgd: its first steps differ from those behind");
  check_run(2, run(TRAIN "--workers 2 --strategy measured --allow-stale --sync-every 1000"));
  check_says("localsgd: its exchanges are too far apart to be measured");
  check_run(2, run(TRAIN "--workers 2 --strategy measured --lr 1 --momentum 0 --nesterov"));
  check_says("; allreduce, hybrid, dataparallel, sharded, ps-sync: --nesterov needs a --momentum above 0");
  check_run(3, run("timeout 100 " RONDE " train --model lenet5 --data npy:nowhere --strategy measured --workers 2"));
  check_says("nowhere");
  check_run(2, run(TRAIN "--workers 2 --drill slow:nobody:5"));
  check_says("--drill slow:nobody: there is no such strategy");
}

/* Of two stages there is one replica, which would train half as many examples a step. */
static void one_batch_is_measured(void **state) {
  check_run(0, run("timeout 100 " RONDE
                   " train --model mlp:8,8,8 --data synthetic:1x4x4:3:64 --steps 3 --threads 1 --workers 2 --batch 16 "
                   "--strategy measured --out global"));
  json_t *global = left_by("global", "run.json");
  assert_null(left_out(global, "pipeline"));
  check_run(
      0, run("timeout 100 " RONDE
             " train --model mlp:8,8,8 --data synthetic:1x4x4:3:64 --steps 3 --threads 1 --workers 2 --local-batch 8 "
             "--strategy measured --out local"));
  json_t *local = left_by("local", "run.json");
  assert_null(left_out(local, "allreduce"));
  check_left_out(local, "pipeline", "global batch would be 8, not 16");
  json_decref(global);
  json_decref(local);
}

static void the_choice_is_repeated(void **state) {
  char plan[512];
  slow_but("sharded", plan, sizeof plan);
  check_run(0, run(TRAIN "--workers 2 --strategy measured --drill %s --out first" SIM, plan));
  check_run(0, run(TRAIN "--workers 2 --choices first/run.json --out again"));
  check_run(0, run(TRAIN "--workers 2 --strategy measured --allow-stale --choices first/run.json --out asked"));
  json_t *first = left_by("first", "run.json"), *again = left_by("again", "run.json"),
         *asked = left_by("asked", "run.json");
  assert_string_equal(strategy_of(again), "sharded");
  assert_string_equal(text_of(choice_of(again), "reason"), "named by --choices");
  assert_string_equal(hash_of(again), hash_of(first));
  assert_string_equal(hash_of(asked), hash_of(first));
  json_decref(first);
  json_decref(again);
  json_decref(asked);
  check_run(2, run(TRAIN "--workers 2 --strategy allreduce --choices first/run.json"));
  check_says("--strategy allreduce, but --choices first/run.json has sharded: give one of them");
  check_run(0, run("echo '{\"strategy\": \"star\"}' >star.json"));
  check_run(3, run(TRAIN "--workers 2 --choices star.json"));
  check_says("--choices star.json: there is no strategy 'star'");
}

/* The same command goes on with what it had begun, and the short runs leave nothing in its folder. */
static void a_run_that_goes_on_keeps_it(void **state) {
  char plan[512];
  slow_but("sharded", plan, sizeof plan);
  check_run(0, run(TRAIN "--workers 2 --strategy measured --out whole --drill %s" SIM, plan));
  check_run(
      0, run(TRAIN
             "--workers 2 --strategy measured --steps 2 --checkpoint-every 1 --resume auto --out kept --drill %s" SIM,
             plan));
  check_run(0, run("test $(wc -l <kept/steps.jsonl) = 2"));
  slow_but("allreduce", plan, sizeof plan);
  check_run(0, run(TRAIN "--workers 2 --strategy measured --resume auto --out kept --drill %s" SIM, plan));
  json_t *whole = left_by("whole", "run.json"), *kept = left_by("kept", "run.json");
  assert_string_equal(strategy_of(kept), "sharded");
  assert_string_equal(text_of(choice_of(kept), "reason"), "measured when the run began");
  assert_true(json_real_value(json_object_get(row_of(kept, "sharded"), "step_s")) > 0);
  assert_string_equal(hash_of(kept), hash_of(whole));
  json_decref(whole);
  json_decref(kept);
}

static void a_plan_has_it_too(void **state) {
  char plan[512];
  slow_but("sharded", plan, sizeof plan);
  check_run(0, run(TRAIN "--workers 2 --strategy measured --dry-run --drill %s" SIM, plan));
  check_says("strategy       sharded");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_slow_is_not_chosen),
      cmocka_unit_test(processes_come_to_one_choice),
      cmocka_unit_test(what_does_not_equal_one_worker_is_allowed_for),
      cmocka_unit_test(options_decide_who_is_measured),
      cmocka_unit_test(one_batch_is_measured),
      cmocka_unit_test(the_choice_is_repeated),
      cmocka_unit_test(a_run_that_goes_on_keeps_it),
      cmocka_unit_test(a_plan_has_it_too),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
