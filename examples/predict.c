/* Train a network, then ask it again and again, by several threads, without a file between: y = sin(a) b, learnt.
 *
 *   cc predict.c $(pkg-config --cflags --libs ronde) -lm -lpthread -o predict
 *   ./predict
 *
 * Exit code: 0 where every answer is near, 1 where one is not, else that of Ronde's status.
 */
#include <math.h>
#include <pthread.h>
#include <ronde/ronde.h>
#include <stdio.h>
#include <stdlib.h>

enum { INPUTS = 2, EXAMPLES = 4000, CALLERS = 4, CALLS = 500 };

/* A row of a table, a function of its number. */
static void make_row(int64_t id, float row[INPUTS]) {
  row[0] = (float)fmod((double)id * 0.7548776662, 1) * 3;
  row[1] = (float)fmod((double)id * 0.5698402910, 1) * 2 - 1;
}

static float truth(const float row[INPUTS]) { return sinf(row[0]) * row[1]; }

/* x [n][2], targets [n][1]. Called from several threads at once: it only reads. */
static ronde_status read_rows(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                              float *targets) {
  (void)user, (void)split, (void)labels;
  for (int64_t i = 0; i < n; i++) {
    make_row(ids[i], x + i * INPUTS);
    targets[i] = truth(x + i * INPUTS);
  }
  return RONDE_OK;
}

static ronde_tensor *build(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  (void)classes, (void)user;
  x = ronde_tanh(ronde_linear(x, "fc1", 32, true));
  x = ronde_tanh(ronde_linear(x, "fc2", 32, true));
  x = ronde_linear(x, "fc3", 1, true);
  ronde_graph_set_loss(graph, ronde_mse_loss(x, ronde_target(graph)));
  return x;
}

static ronde_status train(ronde_predictor **predictor_out) {
  static const char *const options[][2] = {
      {"batch", "64"}, {"epochs", "60"}, {"optimizer", "adam"}, {"lr", "0.003"}, {"lr-schedule", "cosine"}};
  const ronde_source source = {
      .name = "sines", .rank = 1, .dims = {INPUTS}, .target_elems = 1, .n_examples = {EXAMPLES, 0}, .read = read_rows};
  const ronde_hooks hooks = {.model = build, .source = &source};
  ronde_config *config;
  ronde_status status = ronde_config_create("train", &config);
  if (status != RONDE_OK) return status;
  for (size_t i = 0; i < sizeof options / sizeof *options && status == RONDE_OK; i++)
    status = ronde_config_set(config, options[i][0], options[i][1]);
  if (status == RONDE_OK) status = ronde_train_predictor(config, &hooks, predictor_out, NULL);
  ronde_config_destroy(config);
  return status;
}

typedef struct caller {
  ronde_predictor *predictor;
  int number;
  double worst;
} caller;

static void *ask(void *arg) {
  caller *c = arg;
  for (int i = 0; i < CALLS; i++) {
    float row[INPUTS], answer;
    make_row(EXAMPLES + c->number * CALLS + i, row);
    if (ronde_predictor_run(c->predictor, 1, row, &answer) != RONDE_OK) c->worst = INFINITY;
    c->worst = fmax(c->worst, fabs((double)(answer - truth(row))));
  }
  return NULL;
}

static void log_line(void *user, ronde_log_level level, const char *line) {
  (void)user;
  if (level != RONDE_LOG_INFO) fprintf(stderr, "%s\n", line);
}

int main(void) {
  ronde_predictor *predictor;
  caller callers[CALLERS];
  pthread_t threads[CALLERS];
  double worst = 0;
  ronde_log_set(log_line, NULL);
  ronde_status status = train(&predictor);
  if (status != RONDE_OK) return ronde_status_exit_code(status);
  for (int i = 0; i < CALLERS; i++) {
    callers[i] = (caller){predictor, i, 0};
    if (pthread_create(&threads[i], NULL, ask, &callers[i])) abort();
  }
  for (int i = 0; i < CALLERS; i++) {
    pthread_join(threads[i], NULL);
    worst = fmax(worst, callers[i].worst);
  }
  printf("%d answers by %d threads, the worst off by %.3f\n", CALLERS * CALLS, CALLERS, worst);
  ronde_predictor_destroy(predictor);
  return worst < 0.1 ? 0 : 1;
}
