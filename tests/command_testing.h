/* For tests of whole commands: what they print, and with which code they end. */
#ifndef RONDE_COMMAND_TESTING_H
#define RONDE_COMMAND_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define RONDE RONDE_BINARY_DIR "/ronde"

extern char said[65536];

/* Runs a shell command; `said` is what it printed on both streams. Returns the exit code. */
int run(const char *format, ...) __attribute__((format(printf, 1, 2)));

void check_run(int expected, int code);

void check_says(const char *text);

#endif
