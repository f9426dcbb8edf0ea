/* Folders of small images by class, jobs on them, and files of weights. */
#include "tree_testing.h"

char told[1024]; /* the last line that is neither an error nor a warning */

static void keep_told(void *user, ronde_log_level level, const char *line) {
  if (level == RONDE_LOG_INFO) snprintf(told, sizeof told, "%s", line);
  else test_log_line(user, level, line);
}

void start_log(void) {
  lines = (test_log){.n_errors = 0};
  told[0] = '\0';
  ronde_log_set(keep_told, &lines);
}

/* With all folders above it, below the test's own; to be freed. */
static char *make_below(const char *name) {
  char *path = ronde__format("%s/%s", folder, name);
  for (char *slash = path + strlen(folder); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(path, 0700);
    *slash = '/';
  }
  mkdir(path, 0700);
  return path;
}

void put_class(const char *split, int k, int n, int first) {
  char *below = ronde__format("%s/%s", split, tree_names[k]), *path = make_below(below);
  uint8_t pixels[TREE_SIDE * TREE_SIDE];
  for (int i = first; i < first + n; ++i) {
    for (int p = 0; p < TREE_SIDE * TREE_SIDE; ++p) {
      float noise = small_noise(100 * k + i, p) * 160;
      pixels[p] = (uint8_t)((p / TREE_SIDE * TREE_CLASSES / TREE_SIDE == k ? 160 : 90) + (int)noise);
    }
    char name[16];
    snprintf(name, sizeof name, "%03d.png", i);
    test_write_bytes(path, name, test_png(TREE_SIDE, TREE_SIDE, 1, 8, pixels));
  }
  free(below);
  free(path);
}

void rename_class(const char *split, const char *from, const char *to) {
  char *a = ronde__format("%s/%s/%s", folder, split, from), *b = ronde__format("%s/%s/%s", folder, split, to);
  assert_int_equal(rename(a, b), 0);
  free(a);
  free(b);
}

json_t *run_job(const char *verb, const char *options) {
  char *text = ronde__format(options, folder, folder, folder);
  json_t *json = job_run(verb, text, NULL);
  free(text);
  return json;
}

void refused(const char *verb, const char *options, ronde_status wanted, const char *a, const char *b) {
  char *text = ronde__format(options, folder, folder, folder);
  ronde_config *config = config_make(verb, text);
  start_log();
  ronde_status status = strcmp(verb, "train") ? ronde_eval(config, NULL, NULL) : ronde_train(config, NULL, NULL);
  check_failed(&lines, status, wanted, a, b);
  start_log();
  ronde_config_destroy(config);
  free(text);
}

ronde__safetensors *open_weights(const char *name) {
  char *path = ronde__format("%s/%s", folder, name);
  ronde__safetensors *file;
  assert_int_equal(ronde__safetensors_open(path, &file), RONDE_OK);
  free(path);
  return file;
}

void write_weights(const char *name, const ronde__file_tensor *tensors, int n_tensors, const ronde__file_meta *meta,
                   int n_meta) {
  char *path = ronde__format("%s/%s", folder, name);
  assert_int_equal(ronde__safetensors_write(path, tensors, n_tensors, meta, n_meta), RONDE_OK);
  free(path);
}
