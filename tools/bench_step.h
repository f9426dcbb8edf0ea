/* The systems of `ronde bench step`: living processes that make steps on command, by lines of text. */
#ifndef TOOL_BENCH_STEP_H
#define TOOL_BENCH_STEP_H

#include "common.h"

#include <sys/types.h>

enum { TOOL_MAX_SYSTEMS = 8 };

typedef struct tool_system {
  const char *peer, *variant; /* "pytorch", "channels-last"; peer NULL: Ronde */
  char name[64];
  json_t *command; /* words */
  json_t *about;   /* its first line: what work it does */
  pid_t pid;
  FILE *to, *from;
  double setup_s;              /* from its start to the end of its first step */
  double losses[2];            /* of the first two steps */
  double peak_rss_bytes;       /* so far */
  tool_samples steps, medians; /* seconds: of all steps, and of each round's */
} tool_system;

/* Starts the process and makes its first two steps. absent_out: it said that it cannot run here (told), and is gone. */
ronde_status tool_system_start(tool_system *system, bool *absent_out);
/* n steps; where it is a round, they are kept. */
ronde_status tool_system_go(tool_system *system, int64_t n, bool is_round);
void tool_system_end(tool_system *system);

/* bench_step_report.c */

/* Where the work of two systems differs: [{field, text}]. */
json_t *tool_step_differences(const tool_system *systems, int n);
ronde_status tool_step_json(const tool_system *systems, int n, const json_t *differences, json_t **bench_out);
void tool_step_print(const json_t *bench);

#endif
