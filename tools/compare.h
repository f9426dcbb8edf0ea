/* What was measured of the cases of a comparison: compare.c runs them, compare_report.c keeps, joins and prints. */
#ifndef TOOL_COMPARE_H
#define TOOL_COMPARE_H

#include "common.h"

enum { TOOL_N_PHASES = 6 };

typedef struct tool_case {
  char name[256]; /* "exec=graph" */
  int failures;
  tool_samples steps;                  /* seconds, of all rounds */
  tool_samples rounds;                 /* those that succeeded, from 0; of each the values below */
  tool_samples medians;                /* of each round's steps */
  tool_samples kernel, overhead;       /* seconds a step, of each round */
  tool_samples phases[TOOL_N_PHASES];  /* seconds a step, of each round: tool_phases */
  tool_samples train;                  /* seconds of training, of each round */
  tool_samples wall, cpu, peak, setup; /* of each round's run */
  json_t *command, *run;               /* of the first round */
  bool same_weights;                   /* in all rounds */
} tool_case;

/* The record of a round's run, whose steps are the samples from first_step on. */
ronde_status tool_case_add(tool_case *one, int round, json_t *command, json_t *run, int64_t first_step);
void tool_case_end(tool_case *one);
double tool_case_round_ms(const tool_case *one); /* of the last round */
/* What makes the cases' work differ: [{field, text}], empty where nothing does. */
json_t *tool_differences(const tool_case *cases, int n);
/* bench.json; host: what else ran there meanwhile. */
ronde_status tool_bench_json(const tool_call *call, const tool_case *cases, int n, const json_t *differences,
                             const ronde_host_load *host, json_t **bench_out);
void tool_bench_print(const json_t *bench);

#endif
