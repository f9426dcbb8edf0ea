/* Runs that stop and go on, and their checkpoints. */
#include "resume_testing.h"

static uint32_t random_state = 12345;

int64_t draw(int64_t from, int64_t to) {
  random_state = random_state * 1664525u + 1013904223u;
  return from + (int64_t)(random_state >> 8) % (to - from + 1);
}

ronde_tensor *norm_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  ronde_conv2d_options conv = {.out_channels = 5, .kernel = {3, 3}, .padding = {1, 1}, .no_bias = true};
  x = ronde_relu(ronde_batch_norm2d(ronde_conv2d(x, "conv1", &conv), "bn1", NULL));
  x = ronde_max_pool2d(x, &(ronde_pool2d_options){.kernel = {2, 2}});
  x = ronde_dropout(ronde_tanh(ronde_linear(ronde_flatten(x), "fc1", 9, true)), .3f);
  return ronde_linear(x, "fc2", classes, true);
}

bool stop_cancel(void *user) {
  stop *s = user;
  return ++s->n_asked == s->at;
}

ronde_status train(const char *options, int64_t at, json_t **run_out) {
  stop s = {.at = at};
  ronde_hooks hooks = {.cancel = stop_cancel, .user = &s};
  if (!strstr(options, "model=")) hooks.model = norm_model;
  ronde_config *config = config_make("train", options);
  char *text = NULL;
  ronde_status status = ronde_train(config, &hooks, &text);
  ronde_config_destroy(config);
  json_t *run = text ? json_of(text) : NULL;
  if (run_out) *run_out = run;
  else json_decref(run);
  return status;
}

void in(char out[512], const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(out, 512, format, args);
  va_end(args);
}

json_t *losses_of(const char *run) {
  char *path = ronde__format("%s/%s", folder, run);
  json_t *steps = steps_file(path), *losses = json_object(), *line;
  size_t i;
  free(path);
  json_array_foreach(steps, i, line) {
    char key[32];
    snprintf(key, sizeof key, "%lld", (long long)json_integer_value(json_object_get(line, "step")));
    json_object_set(losses, key, json_object_get(line, "loss"));
  }
  json_decref(steps);
  return losses;
}

void make_run(const char *more) {
  char options[512];
  in(options, SET "batch=8 epochs=2 checkpoint-every=2 keep=100 resume=auto out=%s/run %s", folder, more);
  assert_int_equal(train(options, 5, NULL), RONDE_E_CANCELLED);
  assert_int_equal(train(options, 0, NULL), RONDE_OK);
}

char *newest(int i_wanted) {
  char path[512];
  in(path, "%s/run", folder);
  char **paths;
  int n;
  assert_int_equal(ronde__checkpoint_list(path, &paths, &n), RONDE_OK);
  assert_true(n >= 2);
  char *first = strdup(paths[i_wanted]);
  for (int i = 0; i < n; ++i) free(paths[i]);
  ronde__free(paths);
  return first;
}

test_bytes read_all(const char *path) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  test_bytes b = {NULL, (size_t)ftell(file)};
  b.data = malloc(b.n);
  rewind(file);
  assert_int_equal(fread(b.data, 1, b.n, file), b.n);
  fclose(file);
  return b;
}

void write_all(const char *path, const uint8_t *data, size_t n) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, n, file), n);
  assert_int_equal(fclose(file), 0);
}
