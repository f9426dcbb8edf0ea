/* For tests of whole commands: what they print, and with which code they end. */
#ifndef RONDE_COMMAND_TESTING_H
#define RONDE_COMMAND_TESTING_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define RONDE RONDE_BINARY_DIR "/ronde"

static char said[16384];

/* Runs a shell command; `said` is what it printed on both streams. Returns the exit code. */
static inline int run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline int run(const char *format, ...) {
  char words[4096], command[5000];
  va_list args;
  va_start(args, format);
  vsnprintf(words, sizeof words, format, args);
  va_end(args);
  snprintf(command, sizeof command, "exec 2>&1; %s", words);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  size_t n = fread(said, 1, sizeof said - 1, pipe);
  said[n] = 0;
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline void check_run(int expected, int code) {
  if (code != expected) fail_msg("exit %d instead of %d:\n%s", code, expected, said);
}

static inline void check_says(const char *text) {
  if (!strstr(said, text)) fail_msg("no '%s' in:\n%s", text, said);
}

#endif
