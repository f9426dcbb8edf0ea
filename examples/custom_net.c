/* Ronde inside another program: an own network on own data, with own log, progress and cancelling.
 *
 *   cc custom_net.c $(pkg-config --cflags --libs ronde) -lm -o custom_net
 *   ./custom_net [classify|regress] [STEPS_BEFORE_CANCEL]
 *
 * classify: which way do the stripes of an image run (cross entropy); regress: how steep and how wide are they (squared
 * error). Exit code: 0 where training brought the loss down, 1 where not, else that of Ronde's status (130: cancelled).
 */
#include <math.h>
#include <ronde/ronde.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 12, CLASSES = 4, TRAIN = 2000, TEST = 200 };

typedef struct app {
  bool regress;
  long cancel_after; /* steps; 0: never */
  long steps;
  double first_loss, last_loss;
} app;

/* ---- data: an example is a function of its number ---------------------------------------------------------------- */

static double hash_unit(int64_t id, uint64_t what) {
  uint64_t h = (uint64_t)id * 0x9e3779b97f4a7c15u + what * 0xbf58476d1ce4e5b9u;
  h = (h ^ h >> 31) * 0x94d049bb133111ebu;
  return (double)(h >> 40) / (1 << 24);
}

/* x [n][1][SIZE][SIZE]; labels [n], or targets [n][2]. Called from several threads at once: it only reads. */
static ronde_status read_stripes(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x,
                                 int64_t *labels, float *targets) {
  const app *a = user;
  for (int64_t i = 0; i < n; i++) {
    int64_t id = ids[i] + (split == RONDE_SPLIT_TEST ? TRAIN : 0);
    int64_t direction = (int64_t)(hash_unit(id, 1) * CLASSES) % CLASSES;
    double angle = (double)direction * 3.14159265 / CLASSES, width = 1 + hash_unit(id, 2),
           phase = 6.2831853 * hash_unit(id, 3);
    for (int h = 0; h < SIZE; h++)
      for (int w = 0; w < SIZE; w++) {
        double wave = sin(width * (cos(angle) * w + sin(angle) * h) + phase);
        *x++ = (float)(wave + 0.5 * (hash_unit(id, 4 + (uint64_t)(h * SIZE + w)) - 0.5));
      }
    if (a->regress) {
      targets[2 * i] = (float)sin(2 * angle);
      targets[2 * i + 1] = (float)(width - 1.5);
    } else {
      labels[i] = direction;
    }
  }
  return RONDE_OK;
}

/* ---- the network: two convolutions with a shortcut around the second --------------------------------------------- */

static ronde_tensor *build(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  const app *a = user;
  ronde_conv2d_options conv = {.out_channels = 12, .kernel = {3, 3}, .padding = {1, 1}};
  ronde_pool2d_options pool = {.kernel = {2, 2}};
  ronde_tensor *h = ronde_max_pool2d(ronde_relu(ronde_conv2d(x, "conv1", &conv)), &pool);
  h = ronde_relu(ronde_add(h, ronde_conv2d(h, "conv2", &conv)));
  h = ronde_flatten(ronde_avg_pool2d(h, &pool));
  h = ronde_tanh(ronde_linear(h, "fc1", 32, true));
  if (!a->regress) return ronde_linear(h, "fc2", classes, true);
  ronde_tensor *y = ronde_linear(h, "fc2", 2, true);
  ronde_graph_set_loss(graph, ronde_mse_loss(y, ronde_target(graph)));
  return y;
}

/* ---- callbacks --------------------------------------------------------------------------------------------------- */

static void on_log(void *user, ronde_log_level level, const char *line) {
  (void)user;
  if (level <= RONDE_LOG_WARNING) fprintf(stderr, "custom_net: %s\n", line);
}

static void on_progress(void *user, const ronde_progress *progress) {
  app *a = user;
  a->steps = (long)progress->step;
  if (progress->step == 1) a->first_loss = progress->loss;
  a->last_loss = progress->loss;
  if (!progress->epoch_end || isnan(progress->test_loss)) return; /* an epoch that was broken off has no test loss */
  printf("epoch %d: loss %.4f, test loss %.4f", (int)progress->epoch, progress->loss, progress->test_loss);
  if (progress->test_accuracy >= 0) printf(", test accuracy %.3f", progress->test_accuracy);
  printf("\n");
}

static bool on_cancel(void *user) {
  const app *a = user;
  return a->cancel_after > 0 && a->steps >= a->cancel_after;
}

static ronde_status train(app *a) {
  ronde_source source = {.name = "stripes",
                         .rank = 3,
                         .dims = {1, SIZE, SIZE},
                         .classes = a->regress ? 0 : CLASSES,
                         .target_elems = a->regress ? 2 : 0,
                         .n_examples = {TRAIN, TEST},
                         .read = read_stripes,
                         .user = a};
  ronde_hooks hooks = {.model = build, .source = &source, .progress = on_progress, .cancel = on_cancel, .user = a};
  static const char *const settings[][2] = {
      {"workers", "2"}, {"batch", "50"}, {"epochs", "3"}, {"optimizer", "adam"}, {"lr", "0.003"}};

  ronde_config *config;
  ronde_status status = ronde_config_create("train", &config);
  if (status != RONDE_OK) return status;
  for (size_t i = 0; i < sizeof settings / sizeof *settings && status == RONDE_OK; i++)
    status = ronde_config_set(config, settings[i][0], settings[i][1]);
  if (status == RONDE_OK) status = ronde_train(config, &hooks, NULL);
  ronde_config_destroy(config);
  return status;
}

int main(int argc, char **argv) {
  app a = {.regress = argc > 1 && !strcmp(argv[1], "regress"), .cancel_after = argc > 2 ? atol(argv[2]) : 0};
  ronde_log_set(on_log, NULL);
  ronde_status status = train(&a);
  if (status != RONDE_OK) {
    printf("%s after %ld steps\n", ronde_status_text(status), a.steps);
    return ronde_status_exit_code(status);
  }
  printf("loss %.4f -> %.4f in %ld steps\n", a.first_loss, a.last_loss, a.steps);
  return a.last_loss < 0.5 * a.first_loss ? 0 : 1;
}
