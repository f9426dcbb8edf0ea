/* Synchronous parameter servers that do not wait for the slowest workers. */
#include "ps_testing.h"

enum { BACKUP_EXAMPLES = 30, BACKUP_BATCH = 8, BACKUP_EPOCH = 4, BACKUP_EPOCHS = 3 };
#define BACKUP_LR 0.2f

static int backup_workers, backup_servers, backup_first_server;
static int64_t backup_counted; /* examples */
static double backup_difference, backup_update;

/* All servers have taken the pushes of the same workers into the same steps. */
static int64_t check_orders(ronde__run *run, const ronde__ps_update **order_out) {
  int64_t n_first = 0;
  for (int s = 0; s < backup_servers; ++s) {
    int64_t n;
    const ronde__ps_update *order = ronde__server_order(run->ranks[backup_first_server + s].services[0].state, &n);
    if (s == 0) *order_out = order, n_first = n;
    assert_int_equal(n, n_first);
    for (int64_t i = 0; i < n; ++i) {
      assert_int_equal(order[i].worker, (*order_out)[i].worker);
      assert_int_equal(order[i].step, (*order_out)[i].step);
    }
  }
  return n_first;
}

/* Plain SGD by the mean over the examples of those parts that the servers say have counted. */
static void replay_counted(ronde__run *run) {
  ronde__net *net = run->ranks[0].net;
  size_t n = ronde__net_n_elems(net), bytes = n * sizeof(float);
  float *got = floats(n), *fresh = floats(n), *now = floats(n), *part = floats(n), *sum = floats(n);
  const ronde__ps_update *order = NULL;
  int64_t n_pushes = check_orders(run, &order), next = 0;
  memcpy(got, ronde__net_values(net), bytes);
  assert_int_equal(ronde__net_init(net, 1), RONDE_OK);
  memcpy(now, memcpy(fresh, ronde__net_values(net), bytes), bytes);
  for (int64_t step = 1; step <= BACKUP_EPOCHS * BACKUP_EPOCH; ++step) {
    int64_t first = (step - 1) % BACKUP_EPOCH * BACKUP_BATCH, batch = ronde__min(BACKUP_BATCH, BACKUP_EXAMPLES - first);
    int64_t examples = 0, n_counted = 0;
    memset(sum, 0, bytes);
    for (; next < n_pushes && order[next].step == step; ++next, ++n_counted) {
      int w = (int)order[next].worker;
      int64_t own = ronde__shard_begin(batch, w + 1, backup_workers) - ronde__shard_begin(batch, w, backup_workers);
      gradient_of(net, now, w, backup_workers, first, batch, part);
      for (size_t i = 0; i < n; ++i) sum[i] += (float)own * part[i];
      examples += own;
    }
    assert_int_equal(n_counted, ronde__max(1, ronde__min(backup_workers, batch) - 1));
    backup_counted += examples;
    for (size_t i = 0; i < n; ++i) now[i] -= BACKUP_LR * sum[i] / (float)examples;
  }
  assert_int_equal(next, n_pushes);
  for (size_t i = 0; i < n; ++i) {
    backup_difference = fmax(backup_difference, fabs((double)got[i] - now[i]));
    backup_update = fmax(backup_update, fabs((double)now[i] - fresh[i]));
  }
  memcpy(ronde__net_values(net), got, bytes);
  free(got), free(fresh), free(now), free(part), free(sum);
}

/* One backup worker; the last batch of an epoch is short, and with 7 workers one of them has no example in it. */
static void a_replay_of_what_counted_gives_the_same_weights(void **state) {
  static const int sizes[] = {2, 3, 4, 7};
  for (size_t i = 0; i < RONDE__COUNT(sizes); ++i)
    for (backup_servers = 1; backup_servers <= 3; ++backup_servers)
      for (int dedicated = backup_servers > sizes[i]; dedicated < 2; ++dedicated) {
        backup_workers = sizes[i];
        backup_first_server = dedicated ? backup_workers : 0;
        backup_difference = backup_update = 0;
        backup_counted = 0;
        observe_also = replay_counted;
        observed o = train(BACKUP_EXAMPLES, record_order,
                           "epochs=%d shuffle=off batch=%d lr=%g strategy=ps-sync backup=1 workers=%d servers=%d "
                           "placement=%s bucket-mb=%s",
                           BACKUP_EPOCHS, BACKUP_BATCH, (double)BACKUP_LR, backup_workers, backup_servers,
                           dedicated ? "dedicated" : "colocated", i % 2 ? "4" : "0.001");
        observe_also = NULL;
        assert_true(replicas_equal(&o));
        assert_int_equal(o.examples, backup_counted);
        assert_true(backup_update > 0.01);
        if (backup_difference > UPDATE_TOLERANCE * backup_update)
          fail_msg("%d workers, %d servers: weights differ by %g of updates of %g", backup_workers, backup_servers,
                   backup_difference, backup_update);
        free(o.weights);
      }
}

/* The slow rank is held in its third step until the others have made all of theirs: its push is dropped, the rest it
 * misses, and it has the weights of the others in the end. */
static int64_t slow_parts[2];
static void note_slow_parts(ronde__run *run) {
  slow_parts[0] = run->workers[SLOW_RANK].dropped_parts;
  slow_parts[1] = run->workers[SLOW_RANK].missed_parts;
}

static void steps_do_not_wait_for_a_backup_worker(void **state) {
  static const char *const kinds[] = {"servers=1", "servers=3", "servers=2 placement=dedicated overlap=off",
                                      "servers=2 clip=0.05 optimizer=adam lr=0.001"};
  for (size_t k = 0; k < RONDE__COUNT(kinds); ++k) {
    watched.holds = true;
    observe_also = note_slow_parts;
    observed o = train(6 * SLOW_STEPS, watch, "batch=6 strategy=ps-sync workers=3 backup=1 %s", kinds[k]);
    observe_also = NULL;
    if (watched.in_vain) fail_msg("%s: the others have not made their steps in %d s", kinds[k], SLOW_LIMIT_S);
    assert_int_equal(watched.ahead, SLOW_STEPS - SLOW_FROM + 1);
    assert_true(slow_parts[0] >= 1 && slow_parts[1] >= SLOW_STEPS - SLOW_FROM);
    assert_int_equal(o.n_steps, SLOW_STEPS);
    assert_int_equal(o.examples, 4 * SLOW_STEPS);
    assert_true(replicas_equal(&o));
    free(o.weights);
  }
}

/* What is left out is counted apart, in every place that tells of examples. */
static void what_is_left_out_is_counted_apart(void **state) {
  char folder[] = "/tmp/ronde-ps-XXXXXX", options[512];
  assert_non_null(mkdtemp(folder));
  ronde_source source = small_source(50, 9);
  ronde_hooks hooks = {.model = small_model, .source = &source};
  snprintf(options, sizeof options,
           "threads=1 epochs=2 batch=8 accumulate=2 strategy=ps-sync workers=4 backup=2 servers=2 sentinel=3 "
           "checkpoint-every=2 drill=slow:1:2 out=%s",
           folder);
  json_t *run = job_run("train", options, &hooks), *steps = steps_file(folder), *line;
  size_t i;
  double in_steps = 0, in_workers = 0, n_left_out = 0, n_parts = 0;
  json_array_foreach(steps, i, line) {
    in_steps += real_at(line, "examples");
    n_left_out += (double)json_array_size(json_object_get(line, "left_out"));
  }
  for (int w = 0; w < 4; ++w) {
    line = json_array_get(json_at(run, "workers"), (size_t)w);
    in_workers += real_at(line, "examples");
    n_parts += real_at(line, "dropped_parts") + real_at(line, "missed_parts");
  }
  double counted = real_at(run, "totals.examples");
  assert_int_equal(json_array_size(steps), 8);
  assert_int_equal(counted + real_at(run, "totals.left_out_examples"), 100);
  assert_int_equal(real_at(run, "epochs.1.examples") + real_at(run, "epochs.1.left_out_examples"), 50);
  assert_int_equal(in_steps, counted);
  assert_int_equal(in_workers, counted);
  assert_int_equal(n_left_out, 2 * (3 * 2 + 1));
  assert_int_equal(n_parts, 2 * (3 * 2 + 1));
  assert_true(real_at(run, "checkpoints.written") >= 4);
  assert_int_equal(real_at(run, "checkpoints.last_step"), 8);
  json_decref(run);
  json_decref(steps);
  /* On from the middle of the second epoch, without backup workers. */
  snprintf(options, sizeof options, "threads=1 epochs=2 resume=%s/checkpoints/step-6.safetensors backup=0 workers=2",
           folder);
  run = job_run("train", options, &hooks);
  assert_int_equal(real_at(run, "totals.steps"), 2);
  json_decref(run);
  snprintf(options, sizeof options, "rm -r %s", folder);
  assert_int_equal(system(options), 0);
}

/* ---- broken numbers, and what is refused ------------------------------------------------------------------------- */

/* The hole is in a part of step 4: if that counts, all end there or leave the step out; if it does not, it breaks
 * nothing. */
static void broken_numbers_end_or_are_left_out(void **state) {
  ronde_source source = small_source(36, 0);
  source.read = read_with_a_hole;
  for (int skips = 0; skips < 2; ++skips)
    for (int slow = 0; slow < 3; ++slow) {
      char options[160];
      snprintf(options, sizeof options,
               "threads=1 shuffle=off batch=6 strategy=ps-sync workers=3 servers=2 backup=1 skip-bad-steps=%d "
               "drill=slow:%d:10@4",
               skips, slow);
      observed o = observe(options, &source, small_model, NULL);
      if (o.status == RONDE_E_NUMERIC && !skips) {
        assert_int_equal(o.n_steps, 3);
        continue;
      }
      assert_int_equal(o.status, RONDE_OK);
      assert_true(o.n_steps == 6 && isfinite(o.loss[5]) && replicas_equal(&o));
      free(o.weights);
    }
}

static void what_cannot_work_is_refused(void **state) {
  check_refused("workers=2 backup=1", "--backup");
  check_refused("workers=3 strategy=ps-async backup=1", "--backup");
  check_refused("workers=2 strategy=ps-sync backup=2", "--backup 2: a step needs at least one of the 2 workers");
  check_refused("workers=3 strategy=ps-sync backup=1 sync-bn=on", "--sync-bn");
  check_refused("workers=3 strategy=ps-sync backup=1 checkpoint-every=10m batch=6 out=unused",
                "--checkpoint-every 10m");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_replay_of_what_counted_gives_the_same_weights),
      cmocka_unit_test(steps_do_not_wait_for_a_backup_worker),
      cmocka_unit_test(what_is_left_out_is_counted_apart),
      cmocka_unit_test(broken_numbers_end_or_are_left_out),
      cmocka_unit_test(what_cannot_work_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
