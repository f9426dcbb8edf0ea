/* What the tests of parameter servers share. */
#ifndef PS_TESTING_H
#define PS_TESTING_H

#include "train_testing.h"
#include "strategy/server.h"

/* As in strategy_test: of sums of f32 in another order, against the largest element of the update. */
#define UPDATE_TOLERANCE 1e-5

/* Without ReLU and max: at their kinks a last bit of a weight decides about the gradient, and a replay that adds in
 * another order would drift away from the run. */
static inline ronde_tensor *smooth_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  x = ronde_conv2d(x, "conv1", &(ronde_conv2d_options){.out_channels = 5, .kernel = {3, 3}, .padding = {1, 1}});
  x = ronde_avg_pool2d(ronde_tanh(x), &(ronde_pool2d_options){.kernel = {2, 2}});
  x = ronde_tanh(ronde_linear(ronde_flatten(x), "fc1", 11, true));
  return ronde_linear(x, "fc2", classes, true);
}

static inline observed train(int64_t n_train, void (*tamper)(ronde__job *), const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline observed train(int64_t n_train, void (*tamper)(ronde__job *), const char *format, ...) {
  char options[512] = "threads=1 ";
  va_list args;
  va_start(args, format);
  vsnprintf(options + strlen(options), sizeof options - strlen(options), format, args);
  va_end(args);
  ronde_source source = small_source(n_train, 0);
  bool own = !strstr(options, "model=");
  observed o = observe(options, own ? &source : NULL, own ? smooth_model : NULL, tamper);
  if (o.status != RONDE_OK) fail_msg("%s: status %d", options, o.status);
  return o;
}

/* ---- replays ------------------------------------------------------------------------------------------------------ */

enum { MAX_PART = 12 }; /* examples */

/* The mean gradient over a worker's part of a batch, which begins at example `first`, at weights w, by the network
 * alone. */
static inline void gradient_of(ronde__net *net, const float *w, int worker, int n_workers, int64_t first, int64_t batch,
                               float *gradient_out) {
  float x[MAX_PART * SMALL_PIXELS];
  int64_t labels[MAX_PART], ids[MAX_PART], begin = ronde__shard_begin(batch, worker, n_workers);
  int64_t n = ronde__shard_begin(batch, worker + 1, n_workers) - begin;
  assert_true(n <= MAX_PART);
  for (int64_t i = 0; i < n; ++i) ids[i] = first + begin + i;
  small_read(NULL, RONDE_SPLIT_TRAIN, ids, n, x, labels, NULL);
  memcpy(ronde__net_values(net), w, ronde__net_n_elems(net) * sizeof *w);
  ronde__net_batch given = {.n = n, .x = x, .labels = labels, .training = true};
  ronde__net_result result = {0};
  assert_int_equal(ronde__net_forward(net, &given, 1 / (float)n, NULL, &result), RONDE_OK);
  assert_int_equal(ronde__net_backward(net, false, NULL), RONDE_OK);
  memcpy(gradient_out, ronde__net_gradients(net), ronde__net_n_trained(net) * sizeof *gradient_out);
}

static inline float *floats(size_t n) { return calloc(n, sizeof(float)); }
static inline void record_order(ronde__job *job) { job->records_order = true; }

/* ---- a slow rank ------------------------------------------------------------------------------------------------- */

/* By what has happened before what, not by times: a machine may stop any rank for as long as it likes. */
enum { SLOW_RANK = 2, SLOW_FROM = 3, SLOW_STEPS = 6, SLOW_MS = 30, SLOW_LIMIT_S = 100 };

static struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  void *states[3];
  int64_t done[3]; /* steps of each rank */
  int64_t ahead;   /* steps that another had made, at most, when the slow rank had yet to begin the first of them */
  bool holds;      /* the slow rank goes on from SLOW_FROM when the others have made all steps; they must be able to */
  bool in_vain;
  double slow_s; /* what the ledger has of the delays */
} watched = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static inline ronde_status create_watched(ronde__worker *worker, const ronde__strategy_settings *settings,
                                          void **state_out) {
  RONDE_TRY(real->create(worker, settings, state_out));
  watched.states[worker->transport->rank] = *state_out;
  return RONDE_OK;
}

static inline void before_slow_step(int64_t step) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += SLOW_LIMIT_S;
  pthread_mutex_lock(&watched.mutex);
  while (watched.holds && !watched.in_vain && ronde__min(watched.done[0], watched.done[1]) < SLOW_STEPS)
    watched.in_vain = pthread_cond_timedwait(&watched.changed, &watched.mutex, &until) != 0;
  watched.ahead = ronde__max(watched.ahead, ronde__max(watched.done[0], watched.done[1]) - (step - 1));
  pthread_mutex_unlock(&watched.mutex);
}

static inline ronde_status watched_step(void *state, const ronde__step *step, ronde__step_result *result_out) {
  int rank = 0;
  while (watched.states[rank] != state) ++rank;
  if (rank == SLOW_RANK && step->step >= SLOW_FROM) before_slow_step(step->step);
  RONDE_TRY(real->step(state, step, result_out));
  pthread_mutex_lock(&watched.mutex);
  watched.done[rank] = step->step;
  pthread_cond_broadcast(&watched.changed);
  pthread_mutex_unlock(&watched.mutex);
  return RONDE_OK;
}

static inline void watch(ronde__job *job) {
  plant_strategy(job, create_watched, watched_step);
  memset(watched.done, 0, sizeof watched.done);
  watched.ahead = 0;
  watched.in_vain = false;
}

/* ---- broken numbers, and what is refused ---------------------------------------------------------------------------------------------- */

/* In step 4 of batches of 6, in the part of the second of three workers. */
static inline ronde_status read_with_a_hole(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x,
                                            int64_t *labels, float *targets) {
  RONDE_TRY(small_read(user, split, ids, n, x, labels, targets));
  for (int64_t i = 0; i < n; ++i)
    if (ids[i] == 20) x[i * SMALL_PIXELS] = NAN;
  return RONDE_OK;
}

static char last_line[512];
static inline void keep_line(void *user, ronde_log_level level, const char *line) {
  snprintf(last_line, sizeof last_line, "%s", line);
}

static inline void check_refused(const char *options, const char *why) {
  ronde_source source = small_source(30, 0);
  ronde_hooks hooks = {.model = small_model, .source = &source};
  ronde_config *config = config_make("train", options);
  ronde_log_set(keep_line, NULL);
  ronde_status status = ronde_train(config, &hooks, NULL);
  ronde_log_set(NULL, NULL);
  ronde_config_destroy(config);
  assert_int_equal(status, RONDE_E_USAGE);
  if (!strstr(last_line, why)) fail_msg("%s: '%s' is not in: %s", options, why, last_line);
}

#endif
