/* The systems of `ronde bench step`: living processes that make steps on command, by lines of text. */
#ifndef TOOL_BENCH_STEP_H
#define TOOL_BENCH_STEP_H

#include "common.h"

#include <stdio.h>
#include <sys/types.h>

enum { TOOL_MAX_SYSTEMS = 12 };

typedef struct tool_system {
  const char *peer, *variant; /* "pytorch", "channels-last"; peer NULL: Ronde */
  char name[64];
  json_t *command; /* words */
  json_t *about;   /* its first line: what work it does */
  pid_t pid;
  FILE *to, *from;
  double setup_s;        /* from its start to the end of its first step */
  double losses[2];      /* of the first two steps */
  double peak_rss_bytes; /* so far */
} tool_system;

/* bench_system.c */

/* Starts the process and makes its first two steps. absent_out: it said that it cannot run here (told), and is gone. */
ronde_status tool_system_start(tool_system *system, bool *absent_out);
/* Makes n steps. seconds_out [n]: of each of them. */
ronde_status tool_system_go(tool_system *system, int64_t n, double *seconds_out);
void tool_system_end(tool_system *system);

/* bench_step_report.c. Each system is the case of its index. */

/* Adds the systems, and notes where their work differs: from Ronde's in their own format, in_f32 where Ronde is measured in
 * bfloat16 beside systems in f32; else NULL. */
ronde_status tool_step_record(const tool_system *systems, int n, const tool_system *in_f32, ronde_measurement *record);
/* Adds what stands at the end of all rounds, and ranks. */
ronde_status tool_step_rank(const tool_system *systems, int n, ronde_measurement *record);
void tool_step_print(const json_t *bench);

#endif
