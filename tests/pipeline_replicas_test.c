/* Replicas of stages, in virtual time: what they exchange travels while the last micro-batch is in backward, and the bits are
 * the same wherever and whenever it travels. */
#include "comm/sim.h"
#include "train_testing.h"

/* A layer is 256 KB of weights: 2 ms of a link, and 2 ms of backward. */
#define LINK_BETA_S 8e-9
enum { LAYERS = 6, LAYER_BYTES = 256 * 256 * 4, GRADIENT_NS = 1000000 /* weight and bias: two of them */ };
#define OPTIONS "model=mlp:256,256,256,256,256 data=synthetic:1x16x16:10:64 threads=1 lr=0.05 steps=3 batch=32 "
#define REPLICAS OPTIONS "strategy=pipeline stages=2 micro-batches=4 workers=4 bucket-mb=0.25 sentinel=1 "

static ronde__kernels slow;
static bool takes_time;
static _Thread_local ronde__time *own_time; /* of the rank in whose step the thread is */
static uint64_t longest_step_ns;

/* Whoever looks at a gradient that is final has computed it for so long. */
static bool look_slowly(const float *x, int64_t n) {
  if (own_time && takes_time) ronde__time_sleep(own_time, GRADIENT_NS);
  for (int64_t i = 0; i < n; ++i)
    if (!isfinite(x[i])) return false;
  return true;
}

static ronde_status create_slow(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out) {
  slow = *worker->kernels;
  slow.all_finite = look_slowly;
  worker->kernels = &slow;
  own_time = worker->transport->time;
  return real->create(worker, settings, state_out);
}

static ronde_status step_timed(void *state, const ronde__step *step, ronde__step_result *result_out) {
  uint64_t begin = ronde__time_now(own_time);
  ronde_status status = real->step(state, step, result_out);
  uint64_t took = ronde__time_now(own_time) - begin;
  if (took > longest_step_ns) longest_step_ns = took;
  return status;
}

static void plant(ronde__job *job) { plant_strategy(job, create_slow, step_timed); }

/* The longest step of any rank, in ms. */
static double step_of(const char *options, bool computes, observed *o_out) {
  longest_step_ns = 0;
  takes_time = computes;
  *o_out = observe(options, NULL, NULL, plant);
  own_time = NULL;
  assert_int_equal(o_out->status, RONDE_OK);
  return (double)longest_step_ns * 1e-6;
}

static int slow_links(void **state) {
  observe_on = make_virtual;
  virtual_links.within.beta_s = LINK_BETA_S;
  return 0;
}

/* The first stage is the last to compute, and has the layers whose exchange is left: with overlap, all but the first one's
 * travels while it computes, and the second stage's is over before. */
static void the_exchange_begins_before_the_last_backward_ends(void **state) {
  observed on, off, neither;
  double computing = step_of(REPLICAS "overlap=on", true, &on), behind = step_of(REPLICAS "overlap=off", true, &off),
         idle = step_of(REPLICAS "overlap=off", false, &neither);
  double layer_ms = LAYER_BYTES * LINK_BETA_S * 1e3;
  print_message("a step of %d layers: %.1f ms, %.1f ms where sums wait for backward, %.1f ms without computing\n",
                LAYERS, computing, behind, idle);
  assert_true(computing < behind - layer_ms);
  assert_true(bits_equal(&on, &off) && bits_equal(&on, &neither));
  free(on.weights), free(off.weights), free(neither.weights);
}

/* The norm is of the whole, so no bucket is updated before all have come. */
static void clipped_bits_are_the_same_too(void **state) {
  observed plain, on, off;
  step_of(REPLICAS "overlap=on", true, &plain);
  step_of(REPLICAS "overlap=on clip=0.05", true, &on);
  step_of(REPLICAS "overlap=off clip=0.05", false, &off);
  assert_true(bits_equal(&on, &off) && !bits_equal(&on, &plain));
  free(plain.weights), free(on.weights), free(off.weights);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(the_exchange_begins_before_the_last_backward_ends, slow_links),
      cmocka_unit_test_setup(clipped_bits_are_the_same_too, slow_links),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
