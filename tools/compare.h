/* The cases of a comparison: compare_cases.c finds out which there are, compare.c runs them in rounds, compare_report.c
 * keeps, joins and prints what was measured. */
#ifndef TOOL_COMPARE_H
#define TOOL_COMPARE_H

#include "common.h"

#include <stdio.h>

enum { TOOL_N_PHASES = 6 };

typedef struct tool_case {
  char name[256]; /* "exec=graph"; of the axes only those that the case goes by */
  int index;      /* among the combinations of the axes' values */
  int failures;
  json_t *plan;                        /* of its dry run; NULL for a run that is resumed */
  tool_samples steps;                  /* seconds, of all rounds */
  tool_samples rounds;                 /* those that succeeded, from 0; of each the values below */
  tool_samples medians;                /* of each round's steps */
  tool_samples kernel, overhead;       /* seconds a step, of each round */
  tool_samples phases[TOOL_N_PHASES];  /* seconds a step, of each round: tool_phases */
  tool_samples train;                  /* seconds of training, of each round */
  tool_samples wall, cpu, peak, setup; /* of each round's run */
  json_t *command, *run;               /* of the first round; before it, of the dry run, and NULL */
  bool same_weights;                   /* in all rounds */
} tool_case;

typedef struct tool_cases {
  tool_case *at;
  int n;
  json_t *left_out; /* [{name, reason}] */
} tool_cases;

/* A dry run of each combination of the axes' values: what is impossible, or the same run as another, is left out, and
 * said. Refused where that leaves nothing to compare. cases: to be ended, whatever the result. */
ronde_status tool_cases_find(const tool_call *call, tool_cases *cases);
void tool_cases_end(tool_cases *cases);
/* Sets the call's options to those of the case. folder: of its run; NULL: a dry run. */
ronde_status tool_case_command(const tool_call *call, const tool_case *one, const char *folder, json_t **command_out);
/* Runs it as a process, and reads the JSON that it prints. errors: where its stderr goes; NULL: to ours. */
ronde_status tool_case_run(const json_t *command, FILE *errors, json_t **said_out);

/* The record of a round's run, whose steps are the samples from first_step on. */
ronde_status tool_case_add(tool_case *one, int round, json_t *command, json_t *run, int64_t first_step);
void tool_case_end(tool_case *one);
double tool_case_round_ms(const tool_case *one); /* of the last round */
/* What makes the cases' work differ, as far as it is known: [{field, text}], empty where nothing does. */
json_t *tool_differences(const tool_cases *cases);
/* bench.json; host: what else ran there meanwhile, NULL where nothing was measured. */
ronde_status tool_bench_json(const tool_call *call, const tool_cases *cases, const json_t *differences,
                             const ronde_host_load *host, json_t **bench_out);
void tool_bench_print(const json_t *bench);

#endif
