/* Local SGD, step by step: what workers have in front of a synchronisation and behind it, and what its messages round. */
#include "ps_testing.h"

#include "io/checksum.h"
#include "lib/rounded.h"
#include "strategy/buckets.h"

/* ---- after each synchronisation, and between ---------------------------------------------------------------------- */

enum { WATCHED_WORKERS = 4, WATCHED_STEPS = 12 };

static struct {
  ronde__worker *worker;
  void *state;
  const ronde__strategy_settings *settings;
  uint64_t sums[WATCHED_STEPS + 1], messages[WATCHED_STEPS + 1];
  float *w[WATCHED_STEPS + 1];
} seen[WATCHED_WORKERS];
static int
    stands_still; /* every so many steps have a rate of 0: what workers have when they synchronise is then known */

static float *copy_of_weights(ronde__net *net) {
  size_t n = ronde__net_n_elems(net);
  return memcpy(floats(n), ronde__net_values(net), n * sizeof(float));
}

static ronde_status create_seen(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out) {
  RONDE_TRY(real->create(worker, settings, state_out));
  seen[worker->transport->rank].worker = worker;
  seen[worker->transport->rank].state = *state_out;
  seen[worker->transport->rank].settings = settings;
  if (stands_still) seen[worker->transport->rank].w[0] = copy_of_weights(worker->net);
  return RONDE_OK;
}

static ronde_status step_seen(void *state, const ronde__step *step, ronde__step_result *result_out) {
  int rank = 0;
  while (seen[rank].state != state) ++rank;
  ronde__step own = *step;
  if (stands_still && step->step % stands_still == 0) own.lr = 0;
  RONDE_TRY(real->step(state, &own, result_out));
  ronde__net *net = seen[rank].worker->net;
  if (stands_still) seen[rank].w[step->step] = copy_of_weights(net);
  seen[rank].sums[step->step] = ronde__checksum(ronde__net_values(net), ronde__net_n_elems(net) * sizeof(float));
  if (!stands_still) seen[rank].messages[step->step] = seen[rank].worker->transport->messages; /* else under way */
  return RONDE_OK;
}

static void see(ronde__job *job) { plant_strategy(job, create_seen, step_seen); }

/* Replicas are equal then and only then, and only then is anything sent. */
static void test_replicas_are_equal_after_each_synchronisation(void **state) {
  observed o = train(96, see, "batch=8 lr=0.1 momentum=0.5 strategy=localsgd sync-every=3 workers=%d", WATCHED_WORKERS);
  assert_int_equal(o.n_steps, WATCHED_STEPS);
  for (int step = 1; step <= WATCHED_STEPS; ++step)
    for (int r = 1; r < WATCHED_WORKERS; ++r) {
      assert_int_equal(seen[r].sums[step] == seen[0].sums[step], step % 3 == 0);
      if (step > 1) assert_int_equal(seen[r].messages[step] > seen[r].messages[step - 1], step % 3 == 0);
    }
  free(o.weights);
}

/* ---- rounded for the wire ----------------------------------------------------------------------------------------- */

/* Where element i goes last, of a bucket's chunks of pairs, one a rank. */
static int owner_of(const ronde__buckets *cut, size_t i, int p) {
  int b = 0, owner = 0;
  while (i < cut->at[b].begin || i >= cut->at[b].end) ++b;
  while ((int64_t)(i - cut->at[b].begin) >= 2 * ronde__shard_begin((int64_t)cut->at[b].n_live / 2, owner + 1, p))
    ++owner;
  return owner;
}

/* Each rank adds its own to what came and rounds, from the one behind the owner on. */
static float rounded_mean(float *const *sent, size_t i, int owner, int p) {
  float sum = 0;
  for (int k = 1; k <= p; ++k) sum = rounded_to_bf16(sent[(owner + k) % p][i] + sum);
  return sum * (1 / (float)p);
}

static struct {
  int workers;
  bool overlap;
  ronde__sgd_args outer;
} exchanged;

/* To the bit: what the workers had in front of each synchronisation says what they have behind it. */
static void replay_exchanges(ronde__run *run) {
  const ronde__worker *worker = seen[0].worker;
  size_t n = ronde__net_n_trained(worker->net);
  int p = exchanged.workers;
  ronde__buckets cut;
  float *sent[WATCHED_WORKERS], *begun[WATCHED_WORKERS], *x = seen[0].w[0], *mean = floats(n), *momentum = floats(n);
  assert_int_equal(ronde__buckets_make(worker->net, seen[0].settings->bucket_bytes, &cut), RONDE_OK);
  assert_true(cut.n > 2);
  for (int v = 0; v < p; ++v) sent[v] = floats(n), begun[v] = floats(n);
  for (int step = stands_still; step <= WATCHED_STEPS; step += stands_still) {
    bool ends = !exchanged.overlap || step > stands_still;
    for (int v = 0; v < p && !exchanged.overlap; ++v)
      for (size_t i = 0; i < n; ++i) sent[v][i] = rounded_to_bf16(x[i] - (begun[v][i] = seen[v].w[step - 1][i]));
    for (size_t i = 0; i < n; ++i) mean[i] = rounded_mean(sent, i, owner_of(&cut, i, p), p);
    if (ends)
      worker->kernels->sgd(&exchanged.outer, x, mean, exchanged.outer.momentum > 0 ? momentum : NULL, (int64_t)n);
    for (int v = 0; v < p; ++v)
      for (size_t i = 0; i < n; ++i) {
        float w = seen[v].w[step - 1][i];
        if (ends) w = x[i] + (w - begun[v][i]);
        if (exchanged.overlap) begun[v][i] = w = x[i] - (sent[v][i] = rounded_to_bf16(x[i] - w));
        if (w != seen[v].w[step][i])
          fail_msg("%d workers, overlap %d, step %d, worker %d, element %zu: %.9g, not %.9g", p, exchanged.overlap,
                   step, v, i, seen[v].w[step][i], w);
      }
  }
  for (int v = 0; v < p; ++v) free(sent[v]), free(begun[v]);
  free(mean), free(momentum);
  ronde__buckets_free(&cut);
}

static void test_a_rounded_exchange_is_its_replay(void **state) {
  stands_still = 3;
  observe_also = replay_exchanges;
  for (int variant = 0; variant < 8; ++variant) {
    bool outer = variant & 4;
    exchanged.workers = variant & 2 ? WATCHED_WORKERS : 2;
    exchanged.overlap = variant & 1;
    exchanged.outer = outer ? (ronde__sgd_args){0.75f, 0.5f, 0, true} : (ronde__sgd_args){.lr = 1};
    observed o = train(
        96, see, "batch=8 lr=0.1 strategy=localsgd sync-every=3 wire=bf16 bucket-mb=0.001 workers=%d %s %s",
        exchanged.workers, exchanged.overlap ? "sync-overlap=on" : "", outer ? "outer-lr=0.75 outer-momentum=0.5" : "");
    assert_int_equal(o.n_steps, WATCHED_STEPS);
    assert_true(replicas_equal(&o));
    for (int v = 0; v < exchanged.workers; ++v)
      for (int step = 0; step <= WATCHED_STEPS; ++step) free(seen[v].w[step]);
    free(o.weights);
  }
  observe_also = NULL;
  stands_still = 0;
}

static observed run_of(ronde_model_fn model, const char *how) {
  char options[256];
  ronde_source source = small_source(33, 0);
  snprintf(options, sizeof options, "threads=1 lr=0.1 batch=8 strategy=localsgd sync-every=2 workers=3 %s", how);
  observed o = observe(options, &source, model, NULL);
  if (o.status != RONDE_OK) fail_msg("%s: status %d", options, o.status);
  assert_true(replicas_equal(&o));
  return o;
}

/* Where all weights are exchanged, and where some never have a gradient. */
static void test_rounding_changes_little(void **state) {
  static const char *const how[] = {"",
                                    "sync-overlap=on",
                                    "local-after=4",
                                    "outer-lr=0.7 outer-momentum=0.5",
                                    "sync-overlap=on weight-decay=0.01",
                                    "optimizer=adam lr=0.01"};
  for (size_t i = 0; i < 2 * RONDE__COUNT(how); ++i) {
    ronde_model_fn model = i % 2 ? dead_taps_model : small_model;
    char rounded[128];
    snprintf(rounded, sizeof rounded, "%s wire=bf16", how[i / 2]);
    observed fresh = run_of(model, "steps=2 lr=0"), whole = run_of(model, how[i / 2]), other = run_of(model, rounded);
    double difference = update_difference(&other, &whole, &fresh);
    if (difference == 0 || difference > 0.02) fail_msg("%s: %g away from the run in f32", rounded, difference);
    free(fresh.weights), free(whole.weights), free(other.weights);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_replicas_are_equal_after_each_synchronisation),
      cmocka_unit_test(test_a_rounded_exchange_is_its_replay),
      cmocka_unit_test(test_rounding_changes_little),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
