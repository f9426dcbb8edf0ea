/* What a suite may know of how it was started, and of the machine. */
#ifndef RONDE_SUITES_H
#define RONDE_SUITES_H

/* The word behind the suite's name on the command line; NULL: none. */
extern const char *suite_argument;
/* Why this build cannot train by processes here; NULL: it can. */
const char *why_no_mpi(void);
/* Skips the test where processes cannot train; and in a build with the address sanitizer, nobody looks for leaks from then on. */
void need_mpi(void);

#endif
