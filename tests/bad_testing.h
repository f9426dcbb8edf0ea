/* Runs the built program where something is wrong, and looks at how it ends: its exit code, one line that says where
 * and why, nothing half-written. */
#ifndef BAD_TESTING_H
#define BAD_TESTING_H

#include "lib/folder.h"
#include "train_testing.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/wait.h>

#define TIME_LIMIT_NS 120000000000u
#define OLD "old.safetensors"
#define OLD_TEXT "precious"

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* In the test's folder; stderr goes to its file "err", stdout to out_path (NULL: nowhere, "": closed). */
pid_t start(const char *words, const char *out_path);

void pause_ms(long ms);

/* The exit code; 256 + N: ended by signal N. */
int finish(pid_t child, const char *words);

char *read_text(const char *name);

/* ---- what a run leaves ------------------------------------------------------------------------------------------- */

void check_nothing_half_written(const char *words);

/* One error line, the last one, that holds both texts. */
void check_error_line(const char *words, const char *a, const char *b);

static inline void check_run(const char *words, int exit_code, const char *a, const char *b) {
  int code = finish(start(words, NULL), words);
  if (code != exit_code) {
    char *err = read_text("err");
    fail_msg("ronde %s: exit code %d, not %d:\n%s", words, code, exit_code, err);
  }
  check_error_line(words, a, b);
  check_nothing_half_written(words);
}

typedef struct bad {
  const char *words;
  int exit_code;
  const char *a, *b; /* in the error line */
} bad;

static inline void check_all(const bad *cases, size_t n) {
  for (size_t i = 0; i < n; ++i) check_run(cases[i].words, cases[i].exit_code, cases[i].a, cases[i].b);
}

/* A folder within the test's, to be freed. */
char *set_folder(const char *name);

/* The test's folder, with a cache of its own in it and a file that no run may change. */
void start_folder(void);

#endif
