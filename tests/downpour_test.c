/* Downpour: a replay of the recorded order comes to the same weights; what a warm start, a meeting and an end do. */
#include "ps_testing.h"
#include "comm/sim.h"
#include "strategy/buckets.h"
#include "strategy/ps.h"

enum { BATCH = 12, EPOCH = 7, EPOCHS = 2, EXAMPLES = 74, WARMUP = 4, MAX_WORKERS = 4, MAX_SERVERS = 2 };
#define LR 0.05f
#define LOCAL_LR 0.2f
#define EPS 0.001f

/* ---- an independent replay ------------------------------------------------------------------------------------------ */

static struct {
  int workers, servers, first, n_push, n_fetch, warm;
  double difference, update; /* of the weights: between run and replay, and of the run's */
} played;

/* A worker, as algorithm 7.1 has it; pending: what it waits for, a ronde__ps_kind, END: nothing. */
typedef struct replica {
  float *held, *accrued, *gradient;
  int64_t step, n_accrued, pending, pending_step, at_meeting;
  bool fetches_then, done[MAX_SERVERS];
  int64_t made[MAX_SERVERS]; /* updates */
  int64_t seen[MAX_SERVERS],
      base[MAX_SERVERS]; /* others' updates in held, and when the first of accrued was computed */
} replica;

static replica replicas[MAX_WORKERS];
static int64_t n_updates[MAX_SERVERS];
static ronde__staleness staleness[MAX_SERVERS];

/* By the schedule, of which servers and replicas have each their own rate. */
static float rate_at(float rate, const replica *r) { return rate * fminf(1, (float)r->step / WARMUP); }

static void wait_for(replica *r, int64_t kind) {
  r->pending = kind;
  r->pending_step = r->step;
  memset(r->done, 0, sizeof r->done);
}

/* A step up to the message in it. The last batch of an epoch is short: some workers have no example there. */
static void play_step(ronde__net *net, size_t n, int w) {
  replica *r = &replicas[w];
  int64_t first = r->step++ % EPOCH * BATCH, batch = ronde__min(BATCH, EXAMPLES - first);
  bool any = ronde__shard_begin(batch, w + 1, played.workers) > ronde__shard_begin(batch, w, played.workers);
  bool fetches = r->step % played.n_fetch == 0;
  if (any) {
    if (r->n_accrued == 0) memcpy(r->base, r->seen, sizeof r->base);
    gradient_of(net, r->held, w, played.workers, first, batch, r->gradient);
    for (size_t i = 0; i < n; ++i) r->accrued[i] += r->gradient[i];
    for (size_t i = 0; i < n && !fetches; ++i) r->held[i] -= rate_at(LOCAL_LR, r) * r->gradient[i];
    r->n_accrued++;
  }
  bool pushes = (r->step % played.n_push == 0 || (w == 0 && r->step == played.warm)) && r->n_accrued > 0;
  if (pushes) wait_for(r, fetches && any ? RONDE__PS_STEP : RONDE__PS_PUSH_ALONE);
  else if (fetches) wait_for(r, RONDE__PS_FETCH);
  r->fetches_then = pushes && fetches && !any;
}

/* As far as it gets without a server. */
static void play(ronde__net *net, size_t n, int w) {
  replica *r = &replicas[w];
  for (;;) {
    bool waits = false;
    for (int s = 0; s < played.servers; ++s) waits |= r->pending != RONDE__PS_END && !r->done[s];
    if (waits || r->at_meeting) return;
    if (r->pending == RONDE__PS_STEP || r->pending == RONDE__PS_PUSH_ALONE) {
      memset(r->accrued, 0, n * sizeof *r->accrued);
      r->n_accrued = 0;
    }
    bool meets = r->step > 0 && r->step % EPOCH == 0 && r->pending_step >= 0;
    r->pending = RONDE__PS_END;
    if (r->fetches_then) wait_for(r, RONDE__PS_FETCH), r->fetches_then = false;
    else if (meets && r->n_accrued) wait_for(r, RONDE__PS_PUSH_ALONE);
    else if (meets) r->at_meeting = true;
    else play_step(net, n, w), r->pending_step = ronde__max(r->pending_step, 0);
  }
}

/* Adagrad on a server's piece; what the worker has then. */
static void serve(const ronde__buckets *cut, int s, replica *r, float *now, float *sum) {
  for (int b = 0; b < cut->n; ++b) {
    ronde__range piece = ronde__bucket_piece(&cut->at[b], s, played.servers);
    for (size_t i = piece.begin; i < piece.begin + piece.n; ++i) {
      float g = r->accrued[i];
      if (r->pending != RONDE__PS_FETCH) {
        sum[i] += g * g;
        now[i] -= rate_at(LR, r) * g / (sqrtf(sum[i]) + EPS);
      }
      if (r->pending != RONDE__PS_PUSH_ALONE) r->held[i] = now[i];
    }
  }
  if (r->pending != RONDE__PS_FETCH) {
    int64_t late = n_updates[s]++ - r->made[s]++ - r->base[s];
    staleness[s].n++;
    staleness[s].sum += late;
    staleness[s].max = ronde__max(staleness[s].max, late);
    staleness[s].histogram[late]++;
  }
  if (r->pending != RONDE__PS_PUSH_ALONE) r->seen[s] = n_updates[s] - r->made[s];
  r->done[s] = true;
}

/* All are there: they take the newest, and go on. */
static void meet(const float *now, size_t n) {
  for (int w = 0; w < played.workers; ++w)
    if (!replicas[w].at_meeting) return;
  for (int w = 0; w < played.workers; ++w) {
    memcpy(replicas[w].held, now, n * sizeof *now);
    replicas[w].at_meeting = replicas[w].step == EPOCHS * EPOCH;
    replicas[w].pending_step = -1;
    for (int s = 0; s < played.servers; ++s) replicas[w].seen[s] = n_updates[s] - replicas[w].made[s];
  }
}

static void make_replica(int w, const float *fresh, size_t n) {
  replicas[w] = (replica){.held = floats(n), .accrued = floats(n), .gradient = floats(n), .pending = RONDE__PS_END};
  memcpy(replicas[w].held, fresh, n * sizeof *fresh);
  if (!played.warm || w == 0) return;
  wait_for(&replicas[w], RONDE__PS_FETCH);
  replicas[w].pending_step = 1;
}

/* Each server's list in its order, as far as workers are ready for what comes next. */
static void replay_lists(ronde__run *run, ronde__net *net, const ronde__buckets *cut, float *now, float *sum,
                         size_t n) {
  int64_t at[MAX_SERVERS] = {0}, n_events[MAX_SERVERS];
  const ronde__ps_update *order[MAX_SERVERS];
  bool moved = true;
  for (int s = 0; s < played.servers; ++s)
    order[s] = ronde__server_order(run->ranks[played.first + s].services[0].state, &n_events[s]);
  while (moved) {
    moved = false;
    for (int w = 0; w < played.workers; ++w) play(net, n, w);
    for (int s = 0; s < played.servers; ++s) {
      replica *r = at[s] < n_events[s] ? &replicas[order[s][at[s]].worker] : NULL;
      if (!r || r->pending == RONDE__PS_END || r->done[s]) continue;
      assert_int_equal(order[s][at[s]].kind, r->pending);
      assert_int_equal(order[s][at[s]].step, r->pending_step);
      serve(cut, s, r, now, sum);
      at[s]++;
      moved = true;
    }
    bool all = true;
    for (int w = 0; w < played.workers; ++w) all &= replicas[w].at_meeting && replicas[w].step < EPOCHS * EPOCH;
    if (all) meet(now, n);
    moved |= all;
  }
  for (int s = 0; s < played.servers; ++s) {
    assert_int_equal(at[s], n_events[s]);
    assert_memory_equal(&staleness[s], ronde__server_staleness(run->ranks[played.first + s].services[0].state),
                        sizeof staleness[s]);
  }
  for (int w = 0; w < played.workers; ++w) assert_true(replicas[w].at_meeting && replicas[w].step == EPOCHS * EPOCH);
}

static void replay(ronde__run *run) {
  ronde__net *net = run->ranks[0].net;
  size_t n = ronde__net_n_elems(net), bytes = n * sizeof(float);
  float *got = floats(n), *now = floats(n), *fresh = floats(n), *sum = floats(n);
  ronde__buckets cut;
  assert_int_equal(ronde__buckets_make(net, run->ranks[0].settings.bucket_bytes, &cut), RONDE_OK);
  memcpy(got, ronde__net_values(net), bytes);
  assert_int_equal(ronde__net_init(net, 1), RONDE_OK);
  memcpy(fresh, ronde__net_values(net), bytes);
  memcpy(now, fresh, bytes);
  for (int w = 0; w < played.workers; ++w) make_replica(w, fresh, n);
  memset(n_updates, 0, sizeof n_updates);
  memset(staleness, 0, sizeof staleness);
  replay_lists(run, net, &cut, now, sum, n);
  played.difference = played.update = 0;
  for (size_t i = 0; i < n; ++i) {
    played.difference = fmax(played.difference, fabs((double)got[i] - now[i]));
    played.update = fmax(played.update, fabs((double)now[i] - fresh[i]));
  }
  memcpy(ronde__net_values(net), got, bytes);
  for (int w = 0; w < played.workers; ++w)
    free(replicas[w].held), free(replicas[w].accrued), free(replicas[w].gradient);
  free(got), free(now), free(fresh), free(sum);
  ronde__buckets_free(&cut);
}

static observed train_played(int workers, int servers, bool dedicated, int n_push, int n_fetch, int warm,
                             void (*tamper)(ronde__job *)) {
  played.workers = workers, played.servers = servers, played.first = dedicated ? workers : 0;
  played.n_push = n_push, played.n_fetch = n_fetch, played.warm = warm;
  observe_also = replay;
  observed o =
      train(EXAMPLES, tamper,
            "epochs=%d shuffle=off batch=%d lr=%g local-lr=%g warmup=%d eps=%g strategy=downpour workers=%d servers=%d "
            "placement=%s n-push=%d n-fetch=%d warm-start=%d bucket-mb=0.001",
            EPOCHS, BATCH, (double)LR, (double)LOCAL_LR, WARMUP, (double)EPS, workers, servers,
            dedicated ? "dedicated" : "colocated", n_push, n_fetch, warm);
  observe_also = NULL;
  assert_true(replicas_equal(&o));
  return o;
}

static bool replay_fits(void) {
  assert_true(played.update > 0.01);
  return played.difference <= UPDATE_TOLERANCE * played.update;
}

static const int schedules[][2] = {{1, 1}, {2, 3}, {5, 5}, {3, 2}, {1, 4}, {4, 1}};

static void a_replay_of_the_order_gives_the_same_weights(void **state) {
  for (size_t i = 0; i < RONDE__COUNT(schedules); ++i)
    for (int workers = 1; workers <= MAX_WORKERS; ++workers)
      for (int servers = 1; servers <= MAX_SERVERS; ++servers) {
        observed o = train_played(workers, servers, servers > workers || i % 2, schedules[i][0], schedules[i][1], 0,
                                  record_order);
        if (!replay_fits())
          fail_msg("--n-push %d --n-fetch %d, %d workers, %d servers: weights differ by %g of updates of %g",
                   schedules[i][0], schedules[i][1], workers, servers, played.difference, played.update);
        free(o.weights);
      }
}

/* Each link takes another time, so that a seed draws who is late. */
static void a_replay_fits_in_any_order(void **state) {
  observe_on = make_virtual;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    virtual_links = (ronde__sim_options){.link = links_by_lot, .user = &seed, .seed = seed};
    const int *schedule = schedules[seed % RONDE__COUNT(schedules)];
    observed o = train_played(MAX_WORKERS, 2, seed % 2, schedule[0], schedule[1], seed % 3 ? 0 : 2, record_order);
    if (!replay_fits()) fail_msg("seed %d: weights differ by %g", (int)seed, played.difference);
    free(o.weights);
  }
  observe_on = ronde__transport_threads;
}

/* ---- a planted bug -------------------------------------------------------------------------------------------------- */

static void *bad_state;

static ronde_status create_with_a_bad_rank(ronde__worker *worker, const ronde__strategy_settings *settings,
                                           void **state_out) {
  RONDE_TRY(real->create(worker, settings, state_out));
  if (worker->transport->rank == 1) bad_state = *state_out;
  return RONDE_OK;
}

/* One worker's, and by no more than this. */
static ronde_status step_at_another_rate(void *state, const ronde__step *step, ronde__step_result *result_out) {
  ronde__step other = *step;
  if (step->step == 5 && state == bad_state) other.lr *= 1.01;
  return real->step(state, &other, result_out);
}

static void plant_rate(ronde__job *job) {
  plant_strategy(job, create_with_a_bad_rank, step_at_another_rate);
  job->records_order = true;
}

static void a_planted_bug_is_seen(void **state) {
  observed o = train_played(2, 2, false, 2, 3, 0, plant_rate);
  assert_false(replay_fits());
  free(o.weights);
}

/* ---- one worker ----------------------------------------------------------------------------------------------------- */

static void one_worker_that_pushes_each_step_is_adagrad(void **state) {
  static const char *const kinds[] = {"", "weight-decay=0.1", "accumulate=2 overlap=off"};
  static const ronde_model_fn models[] = {small_model, dead_taps_model};
  ronde_source source = small_source(33, 0);
  for (size_t k = 0; k < RONDE__COUNT(kinds); ++k)
    for (int m = 0; m < 2; ++m) {
      char options[256], *common = "threads=1 epochs=2 batch=13 lr=0.05";
      snprintf(options, sizeof options, "%s %s optimizer=adagrad", common, kinds[k]);
      observed one = observe(options, &source, models[m], NULL);
      snprintf(options, sizeof options, "%s %s strategy=downpour servers=2 placement=dedicated", common, kinds[k]);
      observed alone = observe(options, &source, models[m], NULL);
      assert_int_equal(alone.status, RONDE_OK);
      if (!bits_equal(&alone, &one)) fail_msg("'%s', model %d: other bits than Adagrad's", kinds[k], m);
      free(one.weights);
      free(alone.weights);
    }
}

static void how_work_is_done_changes_no_bit(void **state) {
  static const char *const ways[] = {"threads=2", "overlap=off", "servers=2 placement=dedicated", "bucket-mb=0.001"};
  ronde_source source = small_source(33, 0);
  char *common = "epochs=2 batch=5 lr=0.05 strategy=downpour n-push=2 n-fetch=3";
  observed plain = train(33, NULL, "%s", common);
  for (size_t i = 0; i < RONDE__COUNT(ways); ++i) {
    char options[256];
    snprintf(options, sizeof options, "%s %s", common, ways[i]);
    observed other = observe(options, &source, smooth_model, NULL);
    if (!bits_equal(&other, &plain)) fail_msg("%s: other bits", ways[i]);
    free(other.weights);
  }
  free(plain.weights);
}

/* ---- warm start ----------------------------------------------------------------------------------------------------- */

static int64_t n_alone; /* updates of worker 0 before any event of another */

static void count_alone(ronde__run *run) {
  int64_t n;
  replay(run);
  n_alone = INT64_MAX;
  for (int s = 0; s < played.servers; ++s) {
    const ronde__ps_update *order = ronde__server_order(run->ranks[played.first + s].services[0].state, &n);
    int64_t own = 0, i = 0;
    for (; i < n && order[i].worker == 0; ++i) own += order[i].kind != RONDE__PS_FETCH;
    n_alone = ronde__min(n_alone, own);
  }
}

static void check_warm(int warm, int n_push, int64_t expected) {
  played.workers = 3, played.servers = 2, played.first = 0;
  played.n_push = n_push, played.n_fetch = 2, played.warm = warm;
  observe_also = count_alone;
  observed o = train(EXAMPLES, record_order,
                     "epochs=%d shuffle=off batch=%d lr=%g local-lr=%g warmup=%d eps=%g strategy=downpour workers=3 "
                     "servers=2 n-push=%d "
                     "n-fetch=2 warm-start=%d bucket-mb=0.001",
                     EPOCHS, BATCH, (double)LR, (double)LOCAL_LR, WARMUP, (double)EPS, n_push, warm);
  observe_also = NULL;
  assert_true(replay_fits() && replicas_equal(&o));
  assert_int_equal(o.examples, EPOCHS * EXAMPLES);
  if (n_alone < expected) fail_msg("--warm-start %d: worker 0 was alone for %d updates", warm, (int)n_alone);
  free(o.weights);
}

/* What is left of the sum is pushed too; and where the workers meet before the end of it, they all begin. */
static void worker_0_trains_alone_at_first(void **state) {
  check_warm(4, 1, 4);
  check_warm(4, 3, 2);
  ronde_log_set(keep_line, NULL);
  last_line[0] = 0;
  check_warm(100, 1, EPOCH - 1);
  ronde_log_set(NULL, NULL);
  assert_non_null(strstr(last_line, "--warm-start 100: the workers meet after step 7"));
}

/* ---- the record ----------------------------------------------------------------------------------------------------- */

static void the_record_tells_how_stale_pushes_were(void **state) {
  ronde_source source = small_source(72, 9);
  ronde_hooks hooks = {.model = small_model, .source = &source};
  for (int workers = 1; workers <= 3; ++workers) {
    char options[256];
    snprintf(options, sizeof options, "threads=1 batch=%d strategy=downpour n-push=2 n-fetch=3 workers=%d", BATCH,
             workers);
    json_t *run = job_run("train", options, &hooks), *staleness = json_at(run, "communication.staleness"), *bin;
    size_t b;
    int64_t n = 0;
    json_array_foreach(json_object_get(staleness, "histogram"), b, bin) n += json_integer_value(bin);
    assert_int_equal(n, workers * 3);
    double p50 = real_at(staleness, "p50"), p90 = real_at(staleness, "p90"), p99 = real_at(staleness, "p99");
    assert_true(0 <= p50 && p50 <= p90 && p90 <= p99 && p99 <= real_at(staleness, "max"));
    if (workers == 1) assert_int_equal(real_at(staleness, "max"), 0);
    assert_string_equal(text_at(run, "config.optimizer"), "adagrad");
    assert_true(real_at(run, "config.lr") == 0.01 && real_at(run, "config.local-lr") == 0.01);
    json_decref(run);
  }
}

/* ---- ends ----------------------------------------------------------------------------------------------------------- */

/* Also in a step that pushes nothing. */
static void broken_numbers_end_every_rank(void **state) {
  ronde_source source = small_source(36, 0);
  source.read = read_with_a_hole;
  static const char *const pushes[] = {"n-push=1", "n-push=3 n-fetch=2", "n-push=100 n-fetch=100"};
  for (size_t i = 0; i < RONDE__COUNT(pushes); ++i) {
    char options[256];
    snprintf(options, sizeof options, "threads=1 shuffle=off batch=6 strategy=downpour workers=3 servers=2 %s",
             pushes[i]);
    observed o = observe(options, &source, small_model, NULL);
    assert_int_equal(o.status, RONDE_E_NUMERIC);
  }
}

static void what_has_no_effect_is_refused(void **state) {
  check_refused("workers=2 strategy=ps-async n-push=2", "--n-push");
  check_refused("workers=2 strategy=ps-ssp n-fetch=2", "--n-fetch");
  check_refused("workers=2 strategy=ps-async local-lr=0.1", "--local-lr");
  check_refused("workers=2 warm-start=2", "--warm-start");
  check_refused("workers=1 strategy=downpour warm-start=2", "--warm-start");
  check_refused("workers=2 strategy=downpour staleness=2", "--staleness");
  check_refused("workers=2 strategy=downpour clip=1", "--clip");
  check_refused("workers=2 strategy=downpour momentum=0.9", "this is adagrad");
  check_refused("workers=2 strategy=downpour optimizer=sgd", "the servers of --strategy downpour update by adagrad");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_replay_of_the_order_gives_the_same_weights),
                                     cmocka_unit_test(a_replay_fits_in_any_order),
                                     cmocka_unit_test(a_planted_bug_is_seen),
                                     cmocka_unit_test(one_worker_that_pushes_each_step_is_adagrad),
                                     cmocka_unit_test(how_work_is_done_changes_no_bit),
                                     cmocka_unit_test(worker_0_trains_alone_at_first),
                                     cmocka_unit_test(the_record_tells_how_stale_pushes_were),
                                     cmocka_unit_test(broken_numbers_end_every_rank),
                                     cmocka_unit_test(what_has_no_effect_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
