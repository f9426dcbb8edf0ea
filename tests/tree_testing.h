/* For tests of jobs on folders of images: classes of small pictures that a network tells apart, and the files of weights
 * that come of them. */
#ifndef TREE_TESTING_H
#define TREE_TESTING_H

#include "lib/folder.h"
#include "train_testing.h"

#include "io/safetensors.h"

#include <sys/stat.h>

enum { TREE_CLASSES = 4, TREE_SIDE = 8 };

static const char *const tree_names[TREE_CLASSES] = {"ant", "bee", "cat", "dog"};

extern char told[1024]; /* the last line that is neither an error nor a warning */

void start_log(void);

/* The folder is the cache too. */
static inline int make_folder(void **state) {
  folder = test_folder_create();
  setenv("RONDE_CACHE_DIR", folder, 1);
  start_log();
  return 0;
}

/* ---- trees ------------------------------------------------------------------------------------------------------- */

/* Images first to first + n - 1 of class k: brighter in its part of the rows, by a little. */
void put_class(const char *split, int k, int n, int first);

void rename_class(const char *split, const char *from, const char *to);

/* ---- jobs, whose options hold the test's folder at every %s ------------------------------------------------------ */

json_t *run_job(const char *verb, const char *options);

void refused(const char *verb, const char *options, ronde_status wanted, const char *a, const char *b);

/* ---- files of weights -------------------------------------------------------------------------------------------- */

ronde__safetensors *open_weights(const char *name);

void write_weights(const char *name, const ronde__file_tensor *tensors, int n_tensors, const ronde__file_meta *meta,
                   int n_meta);

#endif
