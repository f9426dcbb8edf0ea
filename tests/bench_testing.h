/* For tests of verbs that print a bench.json. Before it stands VERB, the verb's name. */
#ifndef RONDE_BENCH_TESTING_H
#define RONDE_BENCH_TESTING_H

#include <jansson.h>
#include <stdio.h>
#include <sys/wait.h>

/* The exit code; text gets standard output, or as the redirection says ("2>&1 >/dev/null"). */
static int run(const char *options, const char *redirection, char *text, size_t bytes) {
  char command[1024];
  snprintf(command, sizeof command, RONDE_BINARY_DIR "/ronde " VERB " %s %s", options, redirection);
  FILE *file = popen(command, "r");
  assert_non_null(file);
  text[fread(text, 1, bytes - 1, file)] = '\0';
  int state = pclose(file);
  return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

static json_t *bench_of(const char *options, int wanted_code) {
  static char text[1 << 18];
  assert_int_equal(run(options, "2>/dev/null", text, sizeof text), wanted_code);
  json_t *bench = json_loads(text, 0, NULL);
  assert_non_null(bench);
  assert_string_equal(json_string_value(json_object_get(bench, "schema")), "ronde.bench.v1");
  return bench;
}

#endif
