/* The program of all suites: runs the one that it is called by (a link to it has a suite's name), or that its first argument
 * names. One argument more names a single test of the suite.
 *     build/ops_test          build/suites ops_test          build/suites mpi_losses_test a_late_rank_is_waited_for
 * Each suite's main() has been given the suite's name by the build. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "lib/suites.h"

#define SUITE(name) int name(void);
#include "suites.inc"
#undef SUITE

static const struct suite {
  const char *name;
  int (*run)(void);
} suites[] = {
#define SUITE(name) {#name, name},
#include "suites.inc"
#undef SUITE
};
enum { N_SUITES = sizeof suites / sizeof *suites };

const char *suite_argument;

static const struct suite *suite_named(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  for (int i = 0; i < N_SUITES; i++)
    if (!strcmp(suites[i].name, name)) return &suites[i];
  return NULL;
}

int main(int argc, char **argv) {
  int next = 1;
  const struct suite *suite = suite_named(argv[0]);
  if (!suite && argc > next) suite = suite_named(argv[next++]);
  if (!suite) {
    fprintf(stderr, "usage: %s SUITE [TEST]; the suites:\n", argv[0]);
    for (int i = 0; i < N_SUITES; i++) fprintf(stderr, "  %s\n", suites[i].name);
    return 2;
  }
  suite_argument = argc > next ? argv[next] : NULL;
  if (suite_argument) cmocka_set_test_filter(suite_argument);
  return suite->run();
}
