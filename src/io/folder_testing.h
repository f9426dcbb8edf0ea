/* What tests of files share: a folder of their own for each test, and the last line of the log. */
#ifndef FOLDER_TESTING_H
#define FOLDER_TESTING_H

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char last_line[2048];
static int n_lines;
static char folder[64];

static inline void keep_line(void *user, ronde_log_level level, const char *line) {
  snprintf(last_line, sizeof last_line, "%s", line);
  ++n_lines;
}

static inline int set_up(void **state) {
  strcpy(folder, "/tmp/ronde-test-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  n_lines = 0;
  last_line[0] = '\0';
  ronde_log_set(keep_line, NULL);
  return 0;
}

static inline int tear_down(void **state) {
  ronde_log_set(NULL, NULL);
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

/* Holds until the fourth call from here. */
static inline const char *in_folder(const char *name) {
  static char path[4][512];
  static int next;
  char *out = path[next++ % 4];
  snprintf(out, sizeof path[0], "%s/%s", folder, name);
  return out;
}

#endif
