/* Parameter servers as parts of whole runs: N workers and k servers do what one worker does, to a stated tolerance. */
#include "ps_testing.h"

#include "strategy/buckets.h"

#define LOSS_TOLERANCE 2e-6

static const int worlds[] = {1, 2, 3, 4, 7};

static void check_close(const char *what, const observed *a, const observed *b, const observed *fresh, double factor) {
  double update = update_difference(a, b, fresh), loss = 0;
  assert_int_equal(a->n_steps, b->n_steps);
  for (int64_t i = 0; i < a->n_steps; ++i) loss = fmax(loss, fabs(a->loss[i] - b->loss[i]) / fabs(b->loss[i]));
  if (update > factor * UPDATE_TOLERANCE || loss > factor * LOSS_TOLERANCE)
    fail_msg("%s: updates differ by %g, losses by %g", what, update, loss);
  if (!replicas_equal(a)) fail_msg("%s: replicas differ", what);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Every number of workers with every number of servers that fits, beside them and apart; batches that the workers do not
 * divide, and that leave some of them without an example; buckets of one parameter and one bucket. */
static void a_step_of_many_is_a_step_of_one(void **state) {
  static const int batches[] = {14, 5, 1};
  static const char *const buckets[] = {"4", "0.001"};
  for (size_t b = 0; b < RONDE__COUNT(batches); ++b) {
    observed fresh = train(14, NULL, "steps=1 lr=0 batch=%d", batches[b]);
    observed one = train(14, NULL, "steps=3 lr=0.5 momentum=0.5 batch=%d", batches[b]);
    for (size_t w = 0; w < RONDE__COUNT(worlds); ++w)
      for (int servers = 1; servers <= 3; ++servers)
        for (int dedicated = servers > worlds[w]; dedicated < 2; ++dedicated) {
          char what[160];
          snprintf(
              what, sizeof what,
              "steps=3 lr=0.5 momentum=0.5 batch=%d strategy=ps-sync workers=%d servers=%d placement=%s bucket-mb=%s",
              batches[b], worlds[w], servers, dedicated ? "dedicated" : "colocated", buckets[(size_t)servers % 2]);
          observed many = train(14, NULL, "%s", what);
          check_close(what, &many, &one, &fresh, 3);
          assert_int_equal(many.examples, one.examples);
          free(many.weights);
        }
    free(fresh.weights);
    free(one.weights);
  }
}

static void short_last_batches_and_accumulation(void **state) {
  static const char *const kinds[] = {"batch=7", "batch=3 accumulate=2"};
  for (size_t k = 0; k < RONDE__COUNT(kinds); ++k) {
    observed fresh = train(17, NULL, "steps=1 lr=0 %s", kinds[k]);
    observed one = train(17, NULL, "epochs=2 lr=0.1 %s", kinds[k]);
    observed many = train(17, NULL, "epochs=2 lr=0.1 %s strategy=ps-sync workers=4 servers=2", kinds[k]);
    assert_int_equal(many.examples, 34);
    check_close(kinds[k], &many, &one, &fresh, 3);
    free(fresh.weights);
    free(one.weights);
    free(many.weights);
  }
}

/* The state of each lives on the servers, a piece on each; clipping needs what all of them hold. */
static void every_optimizer_and_clipping(void **state) {
  static const char *const kinds[] = {"optimizer=sgd momentum=0.9 nesterov=on weight-decay=0.01",
                                      "optimizer=adam eps=0.001",
                                      "optimizer=adamw eps=0.001",
                                      "optimizer=adagrad eps=0.001",
                                      "optimizer=rmsprop eps=0.01 momentum=0.5",
                                      "optimizer=sgd clip=0.05"};
  observed fresh = train(21, NULL, "steps=1 lr=0 batch=7");
  for (size_t k = 0; k < RONDE__COUNT(kinds); ++k)
    for (int dedicated = 0; dedicated < 2; ++dedicated) {
      observed one = train(21, NULL, "epochs=2 lr=0.02 batch=7 %s", kinds[k]);
      observed many = train(21, NULL, "epochs=2 lr=0.02 batch=7 %s strategy=ps-sync workers=3 servers=3 placement=%s",
                            kinds[k], dedicated ? "dedicated" : "colocated");
      check_close(kinds[k], &many, &one, &fresh, 3);
      free(one.weights);
      free(many.weights);
    }
  free(fresh.weights);
}

static void a_network_that_ships(void **state) {
  observed fresh = train(0, NULL, "model=lenet5 data=synthetic:1x28x28:10:60 steps=1 lr=0 batch=13");
  observed one = train(0, NULL, "model=lenet5 data=synthetic:1x28x28:10:60 steps=3 lr=0.1 batch=13");
  observed many = train(0, NULL,
                        "model=lenet5 data=synthetic:1x28x28:10:60 steps=3 lr=0.1 batch=13 "
                        "strategy=ps-sync workers=3 servers=3 bucket-mb=0.05");
  check_close("lenet5", &many, &one, &fresh, 3);
  free(fresh.weights);
  free(one.weights);
  free(many.weights);
}

/* ---- bits -------------------------------------------------------------------------------------------------------- */

static void how_work_is_done_changes_no_bit(void **state) {
  static const char *const pairs[][2] = {
      {"workers=4 servers=2", "workers=4 servers=2"},
      {"workers=7 servers=3", "workers=7 servers=1 placement=dedicated"},
      {"workers=4 bucket-mb=0.001", "workers=4 bucket-mb=0.001 overlap=off"},
      {"workers=4 servers=3 bucket-mb=0.001", "workers=4 servers=3"},
      {"workers=3 shard=static", "workers=3 shard=whole"},
      {"workers=3", "workers=3 drill=slow:1:2@2"},
  };
  for (size_t i = 0; i < RONDE__COUNT(pairs); ++i) {
    observed a = train(33, NULL, "steps=5 lr=0.1 momentum=0.5 batch=13 strategy=ps-sync %s", pairs[i][0]);
    observed b = train(33, NULL, "steps=5 lr=0.1 momentum=0.5 batch=13 strategy=ps-sync %s", pairs[i][1]);
    assert_true(replicas_equal(&a) && replicas_equal(&b));
    if (!bits_equal(&a, &b)) fail_msg("%s | %s: not the same bits", pairs[i][0], pairs[i][1]);
    free(a.weights);
    free(b.weights);
  }
}

/* ---- asynchronous ------------------------------------------------------------------------------------------------ */

enum { REPLAY_EXAMPLES = 30, REPLAY_BATCH = 12, REPLAY_EPOCH = 3, REPLAY_WORKERS = 3, REPLAY_SERVERS = 2 };
#define REPLAY_LR 0.2f

static void gradient_at(ronde__net *net, const float *w, int worker, int64_t step, float *gradient_out) {
  int64_t first = (step - 1) % REPLAY_EPOCH * REPLAY_BATCH;
  gradient_of(net, w, worker, REPLAY_WORKERS, first, ronde__min(REPLAY_BATCH, REPLAY_EXAMPLES - first), gradient_out);
}

static double replay_difference, replay_update;

/* A worker's rate is that of --lr, divided by their number. Each server's updates in the order that it wrote down: plain SGD on its pieces, by the gradient of the worker's step at
 * the weights that this worker had then, which are those behind its last push. */
static void replay(ronde__run *run) {
  ronde__net *net = run->ranks[0].net;
  size_t n = ronde__net_n_elems(net), bytes = n * sizeof(float);
  float *got = floats(n), *fresh = floats(n), *now = floats(n), *held[REPLAY_WORKERS], *gradient[REPLAY_WORKERS];
  ronde__buckets cut;
  assert_int_equal(ronde__buckets_make(net, run->ranks[0].settings.bucket_bytes, &cut), RONDE_OK);
  memcpy(got, ronde__net_values(net), bytes);
  assert_int_equal(ronde__net_init(net, 1), RONDE_OK);
  memcpy(fresh, ronde__net_values(net), bytes);
  memcpy(now, fresh, bytes);
  int64_t done[REPLAY_WORKERS][REPLAY_SERVERS] = {{0}}, at[REPLAY_SERVERS] = {0}, left = 0;
  for (int w = 0; w < REPLAY_WORKERS; ++w) {
    gradient[w] = floats(n);
    held[w] = memcpy(floats(n), fresh, bytes);
    gradient_at(net, held[w], w, 1, gradient[w]);
  }
  const ronde__ps_update *order[REPLAY_SERVERS];
  for (int s = 0; s < REPLAY_SERVERS; ++s) {
    int64_t n_updates;
    order[s] = ronde__server_order(run->ranks[REPLAY_WORKERS + s].services[0].state, &n_updates);
    assert_int_equal(n_updates, 2 * REPLAY_EPOCH * REPLAY_WORKERS);
    left += n_updates;
  }
  for (int s = 0, stuck = 0; left > 0; s = (s + 1) % REPLAY_SERVERS) {
    ronde__ps_update next = order[s][ronde__min(at[s], 2 * REPLAY_EPOCH * REPLAY_WORKERS - 1)];
    int w = (int)next.worker;
    bool ready = at[s] < 2 * REPLAY_EPOCH * REPLAY_WORKERS && done[w][s] == next.step - 1;
    for (int other = 0; other < REPLAY_SERVERS; ++other) ready = ready && done[w][other] >= next.step - 1;
    assert_true((stuck = ready ? 0 : stuck + 1) <= REPLAY_SERVERS);
    if (!ready) continue;
    for (int b = 0; b < cut.n; ++b) {
      ronde__range piece = ronde__bucket_piece(&cut.at[b], s, REPLAY_SERVERS);
      for (size_t i = piece.begin; i < piece.begin + piece.n; ++i) held[w][i] = now[i] -= REPLAY_LR * gradient[w][i];
    }
    at[s]++, left--;
    done[w][s] = next.step;
    bool whole = true;
    for (int other = 0; other < REPLAY_SERVERS; ++other) whole = whole && done[w][other] == next.step;
    /* At the end of an epoch all have met, and have the newest weights. */
    bool met = next.step % REPLAY_EPOCH == 0;
    if (whole && !met) gradient_at(net, held[w], w, next.step + 1, gradient[w]);
    for (int v = 0; v < REPLAY_WORKERS; ++v)
      for (int other = 0; other < REPLAY_SERVERS; ++other) met = met && done[v][other] == next.step;
    for (int v = 0; v < REPLAY_WORKERS && met; ++v)
      gradient_at(net, memcpy(held[v], now, bytes), v, next.step + 1, gradient[v]);
  }
  for (size_t i = 0; i < n; ++i) {
    replay_difference = fmax(replay_difference, fabs((double)got[i] - now[i]));
    replay_update = fmax(replay_update, fabs((double)now[i] - fresh[i]));
  }
  memcpy(ronde__net_values(net), got, bytes);
  for (int w = 0; w < REPLAY_WORKERS; ++w) free(held[w]), free(gradient[w]);
  free(got), free(fresh), free(now);
  ronde__buckets_free(&cut);
}

static void a_replay_of_the_pushes_gives_the_same_weights(void **state) {
  replay_difference = replay_update = 0;
  observe_also = replay;
  observed o = train(REPLAY_EXAMPLES, record_order,
                     "epochs=2 shuffle=off batch=%d lr=%g strategy=ps-async workers=%d servers=%d "
                     "placement=dedicated bucket-mb=0.001",
                     REPLAY_BATCH, (double)REPLAY_LR * REPLAY_WORKERS, REPLAY_WORKERS, REPLAY_SERVERS);
  observe_also = NULL;
  assert_true(replicas_equal(&o));
  assert_true(replay_update > 0.01);
  if (replay_difference > UPDATE_TOLERANCE * replay_update)
    fail_msg("weights differ by %g of updates of %g", replay_difference, replay_update);
  free(o.weights);
}

static void one_asynchronous_worker_is_alone(void **state) {
  observed one = train(33, NULL, "epochs=2 lr=0.1 momentum=0.5 batch=13");
  observed alone = train(33, NULL, "epochs=2 lr=0.1 momentum=0.5 batch=13 strategy=ps-async");
  assert_true(bits_equal(&alone, &one));
  free(one.weights);
  free(alone.weights);
}

/* Every push is one update, whatever the workers do; all end with the same weights. */
static void asynchronous_workers_do_their_share(void **state) {
  ronde_source source = small_source(17, 9);
  ronde_hooks hooks = {.model = small_model, .source = &source};
  for (size_t i = 0; i < RONDE__COUNT(worlds); ++i)
    for (int servers = 1; servers <= 3; ++servers) {
      char options[256];
      snprintf(options, sizeof options,
               "threads=1 epochs=2 batch=7 strategy=ps-async workers=%d servers=%d placement=dedicated", worlds[i],
               servers);
      json_t *run = job_run("train", options, &hooks), *staleness = json_at(run, "communication.staleness"), *bin;
      size_t b;
      int64_t n = 0, sum = 0, expected = 0;
      json_array_foreach(json_object_get(staleness, "histogram"), b, bin) {
        n += json_integer_value(bin);
        sum += (int64_t)b * json_integer_value(bin);
      }
      for (int left = 17; left > 0; left -= 7) expected += 2 * servers * ronde__min(worlds[i], ronde__min(left, 7));
      assert_int_equal(n, expected);
      assert_true(fabs(real_at(staleness, "mean") - (double)sum / (double)n) < 1e-9);
      assert_int_equal(real_at(run, "totals.examples"), 34);
      assert_int_equal(real_at(run, "epochs.1.examples"), 17);
      assert_true(isfinite(real_at(run, "result.test_accuracy")));
      json_decref(run);
    }
}

/* ---- who waits for whom ------------------------------------------------------------------------------------------ */

static void note_slowness(ronde__run *run) { watched.slow_s = run->workers[SLOW_RANK].phase_s[RONDE__PHASE_FORWARD]; }

static void train_watched(const char *strategy, bool holds) {
  watched.holds = holds;
  observe_also = note_slowness;
  observed o = train(6 * SLOW_STEPS, watch, "batch=6 strategy=%s workers=3 servers=2 drill=slow:%d:%d@%d", strategy,
                     SLOW_RANK, SLOW_MS, SLOW_FROM);
  observe_also = NULL;
  assert_int_equal(o.n_steps, SLOW_STEPS);
  assert_true(watched.slow_s > 0.99e-3 * SLOW_MS * (SLOW_STEPS - SLOW_FROM + 1));
  free(o.weights);
}

/* When the slow rank begins a synchronous step, nobody has ended it; asynchronous ones are all made without it. */
static void only_synchronous_steps_wait_for_a_slow_worker(void **state) {
  train_watched("ps-sync", false);
  assert_int_equal(watched.ahead, 0);
  train_watched("ps-async", true);
  if (watched.in_vain) fail_msg("the others have not made their steps in %d s", SLOW_LIMIT_S);
  assert_int_equal(watched.ahead, SLOW_STEPS - SLOW_FROM + 1);
}

/* ---- planted bugs ------------------------------------------------------------------------------------------------ */

static void *bad_state;

static ronde_status create_with_a_bad_rank(ronde__worker *worker, const ronde__strategy_settings *settings,
                                           void **state_out) {
  RONDE_TRY(ronde__strategy_find("ps-sync", &(ronde__strategy_settings){0})->create(worker, settings, state_out));
  if (worker->transport->rank == 1) bad_state = *state_out;
  return RONDE_OK;
}

/* Its gradient is half of what it should be: the loss is scaled by 1 / examples. */
static ronde_status step_with_a_weak_rank(void *state, const ronde__step *step, ronde__step_result *result_out) {
  ronde__step own = *step;
  if (state == bad_state) own.examples *= 2;
  return ronde__strategy_find("ps-sync", &(ronde__strategy_settings){0})->step(state, &own, result_out);
}

static void plant_weak(ronde__job *job) {
  static ronde__strategy planted;
  planted = *ronde__strategy_find("ps-sync", &(ronde__strategy_settings){0});
  planted.create = create_with_a_bad_rank;
  planted.step = step_with_a_weak_rank;
  job->strategy = &planted;
}

static void a_planted_bug_is_seen(void **state) {
  observed fresh = train(14, NULL, "steps=1 lr=0 batch=14");
  observed one = train(14, NULL, "steps=1 lr=0.5 batch=14");
  observed weak = train(14, plant_weak, "steps=1 lr=0.5 batch=14 strategy=ps-sync workers=7 servers=2");
  assert_true(update_difference(&weak, &one, &fresh) > 100 * UPDATE_TOLERANCE);
  free(fresh.weights);
  free(one.weights);
  free(weak.weights);
}

/* ---- the record, and what is refused ------------------------------------------------------------------------------ */

static void the_record_has_the_servers(void **state) {
  ronde_source source = small_source(30, 9);
  ronde_hooks hooks = {.model = small_model, .source = &source};
  json_t *run = job_run("train", "threads=1 batch=6 strategy=ps-sync workers=3 servers=2 placement=dedicated", &hooks);
  assert_int_equal(real_at(run, "world.servers"), 2);
  assert_int_equal(real_at(run, "world.workers"), 3);
  assert_int_equal(json_array_size(json_at(run, "workers")), 5);
  assert_string_equal(text_at(run, "workers.2.role"), "worker");
  assert_string_equal(text_at(run, "workers.4.role"), "server");
  assert_int_equal(real_at(run, "workers.4.rank"), 4);
  assert_true(real_at(run, "workers.4.update_s") > 0);
  assert_true(real_at(run, "workers.4.wait_s") > 0);
  assert_true(json_is_null(json_at(run, "communication.collective")));
  assert_int_equal(real_at(run, "communication.bytes_sent"), real_at(run, "communication.bytes_received"));
  json_decref(run);
}

/* Nobody updates by it, and every rank ends: without --skip-bad-steps at once, with it after the step is left out. */
static void broken_numbers_end_or_are_left_out(void **state) {
  ronde_source source = small_source(36, 0);
  source.read = read_with_a_hole;
  observed o =
      observe("threads=1 shuffle=off batch=6 strategy=ps-sync workers=3 servers=2", &source, small_model, NULL);
  assert_int_equal(o.status, RONDE_E_NUMERIC);
  assert_int_equal(o.n_steps, 3);
  o = observe("threads=1 shuffle=off batch=6 strategy=ps-sync workers=3 servers=2 skip-bad-steps=1", &source,
              small_model, NULL);
  assert_int_equal(o.status, RONDE_OK);
  assert_int_equal(o.n_steps, 6);
  assert_true(isnan(o.loss[3]) && isfinite(o.loss[5]) && replicas_equal(&o));
  free(o.weights);
  o = observe("threads=1 shuffle=off batch=6 strategy=ps-async workers=3 servers=2", &source, small_model, NULL);
  assert_int_equal(o.status, RONDE_E_NUMERIC);
}

static void what_has_no_effect_is_refused(void **state) {
  check_refused("workers=2 servers=2", "--servers");
  check_refused("workers=2 placement=dedicated", "--placement");
  check_refused("workers=2 strategy=ps-sync collective=ring", "--collective");
  check_refused("workers=2 strategy=ps-sync servers=3", "--placement dedicated");
  check_refused("workers=1 strategy=ps-sync transport=self", "--transport self");
  check_refused("workers=2 strategy=ps-async clip=1", "--clip");
  check_refused("workers=2 strategy=ps-async sentinel=10", "--sentinel");
  check_refused("workers=2 strategy=ps-async batch=6 lr-scale-workers=on", "--lr-scale-workers");
}

/* ---- taps that meet nothing but padding ------------------------------------------------------------------------------ */

static observed train_dead_taps(const char *options, const char *strategy) {
  char all[512];
  ronde_source source = small_source(24, 0);
  snprintf(all, sizeof all, "threads=1 epochs=2 batch=6 lr=0.05 %s %s", options, strategy);
  observed o = observe(all, &source, dead_taps_model, NULL);
  if (o.status != RONDE_OK) fail_msg("%s: status %d", all, o.status);
  return o;
}

/* Their weights are decayed all the same, by each worker for itself where all make the same updates. */
static void dead_taps_change_no_bit(void **state) {
  static const char *const kinds[] = {"", "weight-decay=0.1 momentum=0.9", "optimizer=adam weight-decay=0.1",
                                      "optimizer=adamw overlap=off", "weight-decay=0.1 accumulate=2"};
  for (size_t k = 0; k < RONDE__COUNT(kinds); ++k) {
    observed ring = train_dead_taps(kinds[k], "workers=2 bucket-mb=0.02 collective=ring");
    observed one = train_dead_taps(kinds[k], "workers=1");
    observed beside = train_dead_taps(kinds[k], "workers=2 bucket-mb=0.02 strategy=ps-sync servers=2");
    observed apart = train_dead_taps(kinds[k], "workers=2 strategy=ps-sync servers=3 placement=dedicated");
    observed alone = train_dead_taps(kinds[k], "workers=1 bucket-mb=0.02 strategy=ps-async");
    if (!bits_equal(&beside, &ring) || !bits_equal(&apart, &ring) || !bits_equal(&alone, &one))
      fail_msg("'%s': a run with parameter servers has other bits", kinds[k]);
    assert_true(replicas_equal(&beside) && replicas_equal(&apart));
    free(ring.weights), free(one.weights), free(beside.weights), free(apart.weights), free(alone.weights);
  }
}

static double bytes_sent(const char *options) {
  char all[256];
  ronde_source source = small_source(24, 0);
  ronde_hooks hooks = {.model = dead_taps_model, .source = &source};
  snprintf(all, sizeof all, "threads=1 steps=20 batch=6 workers=2 %s", options);
  json_t *run = job_run("train", all, &hooks);
  double bytes = real_at(run, "communication.bytes_sent");
  json_decref(run);
  return bytes;
}

/* Of the model's weights 0.3 are live. Who makes updates of its own must be sent what decay has made of the others. */
static void dead_taps_are_not_sent(void **state) {
  double lean = bytes_sent("strategy=ps-sync servers=2");
  assert_true(bytes_sent("strategy=ps-sync servers=2 weight-decay=0.1") == lean);
  double whole = bytes_sent("strategy=ps-async servers=2 weight-decay=0.1");
  assert_true(bytes_sent("strategy=ps-async servers=2") < 0.5 * whole && lean < 0.5 * whole);
}

/* ---- checkpoints --------------------------------------------------------------------------------------------------- */

/* The optimizer's state is gathered from the servers, and handed out again, also to another number of them. */
static void check_resumed(ronde_model_fn model, const char *optimizer) {
  char folder[] = "/tmp/ronde-ps-XXXXXX", options[512];
  assert_non_null(mkdtemp(folder));
  ronde_source source = small_source(40, 0);
  ronde_hooks hooks = {.model = model, .source = &source};
  char common[256];
  snprintf(common, sizeof common, "threads=1 batch=8 strategy=ps-sync workers=3 %s", optimizer);
  snprintf(options, sizeof options, "%s steps=15 servers=2", common);
  json_t *whole = job_run("train", options, &hooks);
  snprintf(options, sizeof options, "%s steps=7 servers=2 checkpoint-every=7 out=%s", common, folder);
  json_t *half = job_run("train", options, &hooks);
  snprintf(options, sizeof options, "%s steps=15 servers=3 placement=dedicated resume=%s", common, folder);
  json_t *rest = job_run("train", options, &hooks);
  assert_string_equal(text_at(rest, "result.weights_sha256"), text_at(whole, "result.weights_sha256"));
  assert_string_not_equal(text_at(half, "result.weights_sha256"), text_at(whole, "result.weights_sha256"));
  json_decref(whole);
  json_decref(half);
  json_decref(rest);
  snprintf(options, sizeof options, "rm -r %s", folder);
  assert_int_equal(system(options), 0);
}

static void a_resumed_run_has_the_bits_of_a_whole_one(void **state) {
  check_resumed(small_model, "optimizer=adam");
  check_resumed(dead_taps_model, "optimizer=adam weight-decay=0.1");
  check_resumed(dead_taps_model, "momentum=0.9");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_step_of_many_is_a_step_of_one),
      cmocka_unit_test(short_last_batches_and_accumulation),
      cmocka_unit_test(every_optimizer_and_clipping),
      cmocka_unit_test(a_network_that_ships),
      cmocka_unit_test(how_work_is_done_changes_no_bit),
      cmocka_unit_test(a_replay_of_the_pushes_gives_the_same_weights),
      cmocka_unit_test(one_asynchronous_worker_is_alone),
      cmocka_unit_test(asynchronous_workers_do_their_share),
      cmocka_unit_test(only_synchronous_steps_wait_for_a_slow_worker),
      cmocka_unit_test(a_planted_bug_is_seen),
      cmocka_unit_test(the_record_has_the_servers),
      cmocka_unit_test(broken_numbers_end_or_are_left_out),
      cmocka_unit_test(what_has_no_effect_is_refused),
      cmocka_unit_test(dead_taps_change_no_bit),
      cmocka_unit_test(dead_taps_are_not_sent),
      cmocka_unit_test(a_resumed_run_has_the_bits_of_a_whole_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
