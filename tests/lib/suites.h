/* What a suite may know of how it was started. */
#ifndef RONDE_SUITES_H
#define RONDE_SUITES_H

/* The word behind the suite's name on the command line; NULL: none. */
extern const char *suite_argument;

#endif
