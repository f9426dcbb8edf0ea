/* What tests leave out under a sanitizer or an emulator, where arithmetic takes ten times as long. */
#ifndef RONDE_TESTS_SANITIZED_H
#define RONDE_TESTS_SANITIZED_H

#include <stdbool.h>

/* Under the thread sanitizer: what one thread computes, another build has checked. */
#ifdef __SANITIZE_THREAD__
#define THREADS_ONLY true
#else
#define THREADS_ONLY false
#endif

/* Cases of much arithmetic would take minutes. */
#ifdef RONDE_EMULATED
#define SMALL_CASES_ONLY true
#else
#define SMALL_CASES_ONLY THREADS_ONLY
#endif

/* Sanitizers take memory of their own, and cannot run within limits. */
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
#define SANITIZED true
#else
#define SANITIZED false
#endif

/* Of cases that are the same code with other numbers a sanitizer sees one: tests/left_out.txt says of which suites, and
 * check.sh --full has all, and lets what lasts as long as one likes last longer. */
#ifdef RONDE_EVERY_CASE
#define IN_FULL true
#else
#define IN_FULL false
#endif
#define IN_PART (SANITIZED && !IN_FULL)

/* Ends the test where it is left out, which check.sh lists. */
#define leave_out_if(condition, why)    \
  do {                                  \
    if (condition) {                    \
      print_message("SKIP: %s\n", why); \
      skip();                           \
    }                                   \
  } while (0)

#endif
