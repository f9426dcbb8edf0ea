/* For tests of jobs on folders of images: classes of small pictures that a network tells apart, and the files of weights
 * that come of them. */
#ifndef TREE_TESTING_H
#define TREE_TESTING_H

#include "train_testing.h"

#include "io/safetensors.h"

#include <sys/stat.h>

enum { TREE_CLASSES = 4, TREE_SIDE = 8 };

static const char *const tree_names[TREE_CLASSES] = {"ant", "bee", "cat", "dog"};

static char *folder; /* of each test; also where its cache lies */
static test_log lines;
static char told[1024]; /* the last line that is neither an error nor a warning */

static inline void keep_told(void *user, ronde_log_level level, const char *line) {
  if (level == RONDE_LOG_INFO) snprintf(told, sizeof told, "%s", line);
  else test_log_line(user, level, line);
}

static inline void start_log(void) {
  lines = (test_log){.n_errors = 0};
  told[0] = '\0';
  ronde_log_set(keep_told, &lines);
}

static inline int make_folder(void **state) {
  folder = test_folder_create();
  setenv("RONDE_CACHE_DIR", folder, 1);
  start_log();
  return 0;
}

static inline int remove_folder(void **state) {
  ronde_log_set(NULL, NULL);
  test_folder_destroy(folder);
  return 0;
}

/* ---- trees ------------------------------------------------------------------------------------------------------- */

/* With all folders above it, below the test's own; to be freed. */
static inline char *make_below(const char *name) {
  char *path = ronde__format("%s/%s", folder, name);
  for (char *slash = path + strlen(folder); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(path, 0700);
    *slash = '/';
  }
  mkdir(path, 0700);
  return path;
}

/* Images first to first + n - 1 of class k: brighter in its part of the rows, by a little. */
static inline void put_class(const char *split, int k, int n, int first) {
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

static inline void rename_class(const char *split, const char *from, const char *to) {
  char *a = ronde__format("%s/%s/%s", folder, split, from), *b = ronde__format("%s/%s/%s", folder, split, to);
  assert_int_equal(rename(a, b), 0);
  free(a);
  free(b);
}

/* ---- jobs, whose options hold the test's folder at every %s ------------------------------------------------------ */

static inline json_t *run_job(const char *verb, const char *options) {
  char *text = ronde__format(options, folder, folder, folder);
  json_t *json = job_run(verb, text, NULL);
  free(text);
  return json;
}

static inline void refused(const char *verb, const char *options, ronde_status wanted, const char *a, const char *b) {
  char *text = ronde__format(options, folder, folder, folder);
  ronde_config *config = config_make(verb, text);
  start_log();
  ronde_status status = strcmp(verb, "train") ? ronde_eval(config, NULL, NULL) : ronde_train(config, NULL, NULL);
  check_failed(&lines, status, wanted, a, b);
  start_log();
  ronde_config_destroy(config);
  free(text);
}

/* ---- files of weights -------------------------------------------------------------------------------------------- */

static inline ronde__safetensors *open_weights(const char *name) {
  char *path = ronde__format("%s/%s", folder, name);
  ronde__safetensors *file;
  assert_int_equal(ronde__safetensors_open(path, &file), RONDE_OK);
  free(path);
  return file;
}

static inline void write_weights(const char *name, const ronde__file_tensor *tensors, int n_tensors,
                                 const ronde__file_meta *meta, int n_meta) {
  char *path = ronde__format("%s/%s", folder, name);
  assert_int_equal(ronde__safetensors_write(path, tensors, n_tensors, meta, n_meta), RONDE_OK);
  free(path);
}

#endif
