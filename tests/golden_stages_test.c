/* The golden files of golden_test, through stages: ten steps of two optimizers by `train`, cut into 2 to 4 stages of 1 to 7
 * micro-batches, hold PyTorch's losses and weights with the same bound. */
#include "golden_testing.h"

#include "io/safetensors.h"
#include "state/weights.h"
#include "train_testing.h"

#include <unistd.h>

#define STEPS 10

static char own_folder[] = "/tmp/ronde-golden-XXXXXX";

static int make_folder(void **state) { return mkdtemp(own_folder) ? chdir(own_folder) : 1; }

static int remove_folder(void **state) {
  remove("begin.safetensors");
  remove("end.safetensors");
  return chdir("/") ? 1 : rmdir(own_folder);
}

typedef struct steps {
  const golden *g;
  double losses[STEPS];
  int n;
} steps;

static ronde_status read_golden(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                                float *targets) {
  const golden *g = ((const steps *)user)->g;
  for (int64_t i = 0; i < n; i++) {
    memcpy(x + i * g->example_elems, g->x + ids[i] * g->example_elems, (size_t)g->example_elems * sizeof *x);
    labels[i] = g->labels[ids[i]];
  }
  return RONDE_OK;
}

static void note_loss(void *user, const ronde_progress *progress) {
  steps *s = user;
  if (!progress->epoch_end && s->n < STEPS) s->losses[s->n++] = progress->loss;
}

static void write_weights(const subject *s, const char *path) {
  int n;
  const ronde__net_param *params = ronde__net_params(s->net, &n);
  ronde__file_tensor *tensors = calloc((size_t)n, sizeof *tensors);
  float **values = calloc((size_t)n, sizeof *values);
  for (int i = 0; i < n; i++) {
    values[i] = malloc((size_t)ronde__shape_elems(&params[i].shape) * sizeof **values);
    ronde__net_get(s->net, i, values[i]);
    tensors[i] = (ronde__file_tensor){params[i].name, RONDE__FILE_F32, params[i].shape, values[i]};
  }
  assert_int_equal(ronde__safetensors_write(path, tensors, n, NULL, 0), RONDE_OK);
  for (int i = 0; i < n; i++) free(values[i]);
  free(values);
  free(tensors);
}

/* Leaves the weights behind the last step in the subject. */
static void train(const golden *g, const char *how, subject *s, steps *losses) {
  char options[1024];
  ronde__safetensors *file;
  const char *padding = strstr(g->name, "mnist") ? json_string_value(field(g->json, "padding")) : NULL;
  write_weights(s, "begin.safetensors");
  snprintf(options, sizeof options,
           "model=%s %s%s batch=%d steps=%d shuffle=off threads=1 strategy=pipeline init=begin.safetensors "
           "save=end.safetensors %s",
           json_string_value(field(g->json, "model")), padding ? "padding=" : "", padding ? padding : "", (int)g->batch,
           STEPS, how);
  *losses = (steps){.g = g};
  ronde_source source = {.name = "golden",
                         .rank = 3,
                         .dims = {g->shape[0], g->shape[1], g->shape[2]},
                         .classes = g->classes,
                         .n_examples = {g->examples, 0},
                         .read = read_golden,
                         .user = losses};
  ronde_hooks hooks = {.source = &source, .progress = note_loss, .user = losses};
  ronde_config *config = config_make("train", options);
  assert_int_equal(ronde_train(config, &hooks, NULL), RONDE_OK);
  ronde_config_destroy(config);
  assert_int_equal(losses->n, STEPS);
  assert_int_equal(ronde__safetensors_open("end.safetensors", &file), RONDE_OK);
  ronde__weights_load(s->net, file, false);
  ronde__safetensors_close(file);
}

static int failures_of(const golden *g, const char *optimizer, const char *how, bool quiet) {
  machine m = {ronde__kernels_available(0), RONDE__GEMM_XSMM, 1, NULL};
  const json_t *stage = field(g->json, optimizer);
  steps losses;
  subject s = subject_create(g, &m);
  train(g, how, &s, &losses);
  snprintf(s.text, sizeof s.text, "%s, %s, %s", g->name, optimizer, how);
  int failures = loss_failures(stage, s.text, losses.losses, STEPS, quiet) + net_failures(stage, &s, false, quiet);
  subject_destroy(&s);
  return failures;
}

#define SGD "optimizer=sgd lr=0.05 momentum=0.9 "
#define ADAM "optimizer=adam lr=0.001 "

static void golden_files_hold_through_stages(void **state) {
  static const char *const cuts[] = {"workers=2 micro-batches=3", "workers=3 micro-batches=7",
                                     "workers=2 stages=2 micro-batches=1", "workers=4 stages=2 micro-batches=2"};
  golden g = {.name = *state};
  golden_open(&g);
  int failures = 0;
  for (size_t i = 0; i < RONDE__COUNT(cuts); i++) {
    char how[256];
    snprintf(how, sizeof how, SGD "%s", cuts[i]);
    failures += failures_of(&g, "sgd", how, false);
    snprintf(how, sizeof how, ADAM "%s", cuts[i]);
    failures += failures_of(&g, "adam", how, false);
  }
  golden_close(&g);
  assert_int_equal(failures, 0);
}

/* Another rate, by one part in a thousand, must be seen. */
static void another_step_is_seen(void **state) {
  golden g = {.name = *state};
  golden_open(&g);
  assert_true(failures_of(&g, "sgd", "optimizer=sgd lr=0.05005 momentum=0.9 workers=2 micro-batches=3", true) > 0);
  golden_close(&g);
}

int main(void) {
  static const char *const cases[] = {"lenet5-3x32x32-b7", "lenet5-1x28x28-b7", "mnist-small-valid-b7",
                                      "mnist-large-same-b7"};
  struct CMUnitTest tests[RONDE__COUNT(cases) + 1];
  size_t n = 0;
  for (; n < RONDE__COUNT(cases); n++)
    tests[n] = (struct CMUnitTest){cases[n], golden_files_hold_through_stages, NULL, NULL, (void *)(uintptr_t)cases[n]};
  tests[n] = (struct CMUnitTest){"another step is seen", another_step_is_seen, NULL, NULL, (void *)(uintptr_t)cases[0]};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
