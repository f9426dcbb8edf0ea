/* What a call of ronde_predictor_run takes, in microseconds: of a network in a file, and of one so small that only the
 * call itself is left.
 *
 *   cc -O2 bench/predictor.c $(pkg-config --cflags --libs ronde) -o predictor_bench
 *   ./predictor_bench WEIGHTS
 */
#include <ronde/ronde.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 200, CALLS = 200 };

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void measure(const char *name, ronde_predictor *predictor, int64_t n) {
  int64_t dims[RONDE_MAX_RANK], inputs = n;
  for (int d = 0, rank = ronde_predictor_shape(predictor, dims); d < rank; d++) inputs *= dims[d];
  float *x = calloc((size_t)inputs, sizeof *x);
  float *y = calloc((size_t)(n * ronde_predictor_outputs(predictor)), sizeof *y);
  double us[ROUNDS];
  if (!x || !y) abort();
  for (int i = 0; i < CALLS; i++) ronde_predictor_run(predictor, n, x, y);
  for (int r = 0; r < ROUNDS; r++) {
    double begin = now_us();
    for (int i = 0; i < CALLS; i++) ronde_predictor_run(predictor, n, x, y);
    us[r] = (now_us() - begin) / CALLS;
  }
  qsort(us, ROUNDS, sizeof *us, ascending);
  printf("%-12s %4lld examples  %9.3f us a call\n", name, (long long)n, us[ROUNDS / 2]);
  free(x);
  free(y);
}

static ronde_predictor *load(const char *weights) {
  ronde_config *config;
  ronde_predictor *predictor = NULL;
  if (ronde_config_create("predict", &config) || ronde_config_set(config, "init", weights) ||
      ronde_config_set(config, "threads", "1") || ronde_predictor_create(config, NULL, &predictor))
    exit(1);
  ronde_config_destroy(config);
  return predictor;
}

/* ---- one weight ---- */

static ronde_tensor *build_tiny(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  (void)graph, (void)user;
  return ronde_linear(x, "fc", classes, true);
}

static ronde_status read_tiny(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                              float *targets) {
  (void)user, (void)split, (void)targets;
  for (int64_t i = 0; i < n; i++) {
    x[i] = (float)(ids[i] % 7);
    labels[i] = ids[i] % 2;
  }
  return RONDE_OK;
}

static ronde_predictor *train_tiny(void) {
  const ronde_source source = {
      .name = "tiny", .rank = 1, .dims = {1}, .classes = 2, .n_examples = {64, 0}, .read = read_tiny};
  const ronde_hooks hooks = {.model = build_tiny, .source = &source};
  ronde_config *config;
  ronde_predictor *predictor = NULL;
  if (ronde_config_create("train", &config) || ronde_config_set(config, "steps", "2") ||
      ronde_config_set(config, "batch", "8") || ronde_config_set(config, "threads", "1") ||
      ronde_train_predictor(config, &hooks, &predictor, NULL))
    exit(1);
  ronde_config_destroy(config);
  return predictor;
}

static void log_line(void *user, ronde_log_level level, const char *line) {
  (void)user;
  if (level != RONDE_LOG_INFO) fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv) {
  if (argc != 2) return fprintf(stderr, "usage: predictor_bench WEIGHTS\n"), 2;
  ronde_log_set(log_line, NULL);
  ronde_predictor *file = load(argv[1]), *tiny = train_tiny();
  measure(argv[1], file, 1);
  measure(argv[1], file, 16);
  measure("one weight", tiny, 1);
  ronde_predictor_destroy(file);
  ronde_predictor_destroy(tiny);
  return 0;
}
