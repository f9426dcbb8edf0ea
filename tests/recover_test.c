/* What a worker can save after a loss: a collective fails at each of its calls in turn, and the state that the strategy
 * recovers is that behind a whole step of an undisturbed run, to the last bit, and as new as can be. */
#include "train_testing.h"
#include "sanitized.h"

#include "io/checksum.h"

enum { WORKERS = 3, STEPS = 6, EXAMPLES = 48 };

static struct {
  ronde__worker *worker;
  void *state;
  int calls, failing_call; /* of the collective; that which fails, from 1, 0: none */
  bool recovered;
  int64_t step; /* to which it has recovered */
  uint64_t sum; /* of what it then has */
} seen[WORKERS];
static uint64_t behind[STEPS + 1]; /* each step */
static bool has_sum[STEPS + 1];
static bool disturbed;

/* Parameters, the optimizer's state, a strategy's arrays. */
static uint64_t sum_of(const ronde__worker *worker, int n_arrays) {
  size_t bytes = ronde__net_n_trained(worker->net) * sizeof(float);
  uint64_t sums[8] = {ronde__checksum(ronde__net_values(worker->net), bytes),
                      (uint64_t)ronde__optim_updates(worker->optim)};
  int n = 2;
  const char *name;
  for (int i = 0; i < ronde__optim_n_states(worker->optim); ++i)
    sums[n++] = ronde__checksum(ronde__optim_state(worker->optim, i, &name), bytes);
  for (int i = 0; i < n_arrays; ++i) sums[n++] = ronde__checksum(worker->arrays[i].values, bytes);
  return ronde__checksum(sums, (size_t)n * sizeof *sums);
}

static int n_arrays(void) {
  int n = 0;
  while (real->arrays && real->arrays[n]) ++n;
  return n;
}

static int rank_of(const void *state) {
  int rank = 0;
  while (seen[rank].state != state) ++rank;
  return rank;
}

static ronde_status create_seen(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out) {
  RONDE_TRY(real->create(worker, settings, state_out));
  seen[worker->transport->rank].worker = worker;
  seen[worker->transport->rank].state = *state_out;
  return RONDE_OK;
}

static ronde_status step_seen(void *state, const ronde__step *step, ronde__step_result *result_out) {
  RONDE_TRY(real->step(state, step, result_out));
  if (disturbed || result_out->passing) return RONDE_OK;
  if (real->settle) RONDE_TRY(real->settle(state));
  if (rank_of(state) != 0) return RONDE_OK;
  behind[step->step] = sum_of(seen[0].worker, n_arrays());
  has_sum[step->step] = true;
  return RONDE_OK;
}

static int64_t recover_seen(void *state) {
  int rank = rank_of(state);
  seen[rank].recovered = true;
  seen[rank].step = real->recover(state);
  seen[rank].sum = sum_of(seen[rank].worker, n_arrays());
  return seen[rank].step;
}

/* A ring in which a rank may be lost, also in the middle of a step; the others hear of it. */
static const ronde__allreduce *ring;
static ronde_status run_or_fail(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag, float *x,
                                size_t n, float *scratch) {
  int rank = transport->rank;
  if (seen[rank].failing_call == seen[rank].calls + 1) {
    transport->ops->abort(transport);
    return RONDE_E_LOST;
  }
  RONDE_TRY(ring->run(transport, kernels, tag, x, n, scratch));
  seen[rank].calls++;
  return RONDE_OK;
}

static void plant(ronde__job *job) {
  static ronde__allreduce failing;
  static ronde__options options;
  options = *job->options;
  options.on_loss = RONDE__ON_LOSS_RESTART;
  job->options = &options;
  plant_strategy(job, create_seen, step_seen)->recover = recover_seen;
  ring = ronde__allreduce_find("ring");
  failing = *ring;
  failing.run = run_or_fail;
  job->collective = &failing;
  memset(seen, 0, sizeof seen);
}

static int failing_rank, failing_at;
static void plant_failing(ronde__job *job) {
  plant(job);
  seen[failing_rank].failing_call = failing_at;
}

/* A table of which each step meets the even rows alone: half of each of its buckets is exchanged. */
enum { TOKENS = 16, WIDTH = 32, LENGTH = 4 };
static bool with_table;

static ronde_status read_tokens(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                                float *targets) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t t = 0; t < LENGTH; ++t) {
      int32_t token = (int32_t)(2 * (ids[i] + 3 * t) % TOKENS);
      memcpy(x + i * LENGTH + t, &token, sizeof token);
    }
    labels[i] = ids[i] % SMALL_CLASSES;
  }
  return RONDE_OK;
}

static ronde_tensor *table_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  return ronde_linear(ronde_flatten(ronde_embedding(x, "table", WIDTH, 1)), "fc", classes, true);
}

static const ronde_source token_source = {.name = "tokens",
                                          .rank = 1,
                                          .dims = {LENGTH},
                                          .classes = SMALL_CLASSES,
                                          .vocabulary = TOKENS,
                                          .n_examples = {EXAMPLES, 0},
                                          .read = read_tokens};

static ronde_status train(const char *options, void (*tamper)(ronde__job *)) {
  char all[400];
  snprintf(all, sizeof all, "steps=%d batch=8 threads=1 workers=%d bucket-mb=0.001 %s", STEPS, WORKERS, options);
  ronde_source source = with_table ? token_source : small_source(EXAMPLES, 0);
  observed o = observe(all, &source, with_table ? table_model : small_model, tamper);
  free(o.weights);
  return o.status;
}

/* every: of how many steps one leaves a state to recover to. */
static void check_all_losses(const char *options, int every) {
  disturbed = false;
  memset(has_sum, 0, sizeof has_sum);
  assert_int_equal(train(options, plant), RONDE_OK);
  int n_calls = seen[0].calls, of_state = n_calls / (STEPS / every);
  assert_int_equal(n_calls % (STEPS / every), 0);
  assert_true(of_state > 2);
  disturbed = true;
  for (failing_at = 1; failing_at <= n_calls; failing_at += IN_PART ? 4 : 1) {
    failing_rank = failing_at % WORKERS;
    assert_int_equal(train(options, plant_failing), RONDE_E_LOST);
    for (int r = 0; r < WORKERS; ++r) {
      int64_t expected = seen[r].calls / of_state * every;
      assert_true(seen[r].recovered);
      if (expected == 0) continue;
      if (seen[r].step != expected || !has_sum[expected] || seen[r].sum != behind[expected])
        fail_msg("%s: call %d of rank %d fails: rank %d has %s step %lld, and not %lld", options, failing_at,
                 failing_rank, r, seen[r].sum == behind[expected] ? "recovered" : "other bits at",
                 (long long)seen[r].step, (long long)expected);
    }
  }
}

static void the_state_is_one_whole_step(void **state) {
  static const char *const optimizers[] = {"lr=0.1", "lr=0.1 momentum=0.9", "optimizer=adam lr=0.01",
                                           "lr=0.1 clip=0.5"};
  for (size_t i = 0; i < RONDE__COUNT(optimizers); ++i)
    for (int overlap = 0; overlap < 2; ++overlap) {
      char options[100];
      snprintf(options, sizeof options, "strategy=allreduce overlap=%s %s", overlap ? "on" : "off", optimizers[i]);
      check_all_losses(options, 1);
    }
}

static void rows_that_were_met_are_one_whole_step_too(void **state) {
  with_table = true;
  check_all_losses("strategy=allreduce overlap=on lr=0.1", 1);
  check_all_losses("strategy=allreduce overlap=off lr=0.1", 1);
  check_all_losses("strategy=allreduce overlap=on optimizer=adam lr=0.01", 1);
  with_table = false;
}

static void a_synchronised_state_is_returned_to(void **state) {
  check_all_losses("strategy=localsgd sync-every=3 lr=0.1", 3);
  check_all_losses("strategy=localsgd sync-every=2 lr=0.1 outer-lr=0.7 outer-momentum=0.9", 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_state_is_one_whole_step),
      cmocka_unit_test(rows_that_were_met_are_one_whole_step_too),
      cmocka_unit_test(a_synchronised_state_is_returned_to),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
