/* The cases of a comparison: compare_cases.c finds out which there are, compare.c runs them in rounds, compare_report.c
 * records what was measured, and prints it; compare_scaling.c draws what --scaling asks for. */
#ifndef TOOL_COMPARE_H
#define TOOL_COMPARE_H

#include "common.h"

#include <stdio.h>

typedef struct tool_case {
  char name[256];                    /* "exec=graph"; of the axes only those that the case goes by */
  const char *values[TOOL_MAX_AXES]; /* on the call's axes; NULL: the case does not go by that one */
  int index;                         /* among the combinations of the axes' values */
  int runs, failures;
  json_t *plan;          /* of its dry run; NULL for a run that is resumed */
  json_t *command, *run; /* of the first round; before it, of the dry run, and NULL */
  bool same_weights;     /* in all rounds */
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

void tool_case_end(tool_case *one);

/* The record of a comparison: each case by its index, with what the plans say of its work. */
ronde_status tool_comparison_record(const tool_call *call, const tool_cases *cases, ronde_measurement **record_out);
/* Adds a round's run of a case. seconds [n]: of its steps. */
ronde_status tool_comparison_add(ronde_measurement *record, tool_cases *cases, int index, int round, json_t *command,
                                 json_t *run, const double *seconds, int64_t n);
/* Notes where the work of the cases differs, as far as it is known. Whether it does not. */
bool tool_comparison_is_same_work(ronde_measurement *record, const tool_cases *cases);
/* Adds what stands at the end of all rounds, and ranks. */
ronde_status tool_comparison_rank(ronde_measurement *record, const tool_cases *cases);
void tool_comparison_print(const json_t *bench);

/* compare_scaling.c: says before it is measured where workers share cores; adds efficiency and advice to what is ranked;
 * prints them. */
void tool_scaling_warn(const tool_cases *cases);
ronde_status tool_scaling_rank(const tool_call *call, const tool_cases *cases, ronde_measurement *record);
void tool_scaling_print(const json_t *bench);

#endif
