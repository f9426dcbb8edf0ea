/* The cases of a comparison: compare_cases.c finds out which there are, compare.c runs them in rounds, compare_report.c
 * records what was measured, and prints it; compare_scaling.c draws what --scaling asks for. */
#ifndef TOOL_COMPARE_H
#define TOOL_COMPARE_H

#include "common.h"

#include <stdio.h>

enum { TOOL_MAX_PEERS = 8 };

typedef struct tool_case {
  char name[256];                    /* "exec=graph"; of the axes only those that the case goes by */
  const char *values[TOOL_MAX_AXES]; /* on the call's axes; NULL: the case does not go by that one */
  int index;                         /* among the combinations of the axes' values; of a peer: 0 */
  const char *peer;                  /* its system (compare_peers.c); NULL: Ronde */
  int runs, failures;
  json_t *plan;          /* of its dry run; NULL for a run that is resumed */
  json_t *command, *run; /* of the first round; before it, of the dry run, and NULL */
  json_t *audit;         /* of the first round; before it NULL */
  bool same_weights;     /* in all rounds */
} tool_case;

typedef struct tool_cases {
  tool_case *at;
  int n;
  json_t *left_out; /* [{name, reason}] */
  json_t *axes;     /* {name: values}: what is varied */
  int n_peers;      /* they stand behind the others; with any, `system` is an axis behind the call's */
} tool_cases;

/* A dry run of each combination of the axes' values: what is impossible, or the same run as another, is left out, and
 * said. Refused where that leaves nothing to compare. cases: to be ended, whatever the result. */
ronde_status tool_cases_find(const tool_call *call, tool_cases *cases);
void tool_cases_end(tool_cases *cases);
/* Sets the call's options to those of the case. folder: of its run; NULL: a dry run. */
ronde_status tool_case_command(const tool_call *call, const tool_case *one, const char *folder, json_t **command_out);
/* `ronde train` with all options that the call has now which are not at their defaults. Those of the environment are among
 * them, so the command is the whole of it. folder NULL: a dry run. */
json_t *tool_train_command(const tool_call *call, const char *folder);
/* The same for a peer, of the options that the call has in its first case. folder: of its run. */
json_t *tool_peer_command(const tool_call *call, const tool_case *one, const char *folder);
/* compare_peers.c: the i-th system of a peer of --peers ("mxnet": "mxnet-sync"); NULL past the end. */
const char *tool_peer_system(const char *peer, size_t length, int i);
/* Why there is none of it in --peers-dir; why[0] is 0 where there is. */
void tool_peer_missing(const char *folder, const char *peer, char *why, size_t bytes);
/* Refuses peers that are not known, and what cannot be measured beside them. */
ronde_status tool_peers_check(const tool_call *call);
/* Adds the cases of --peers behind the others. One that is not there, or cannot make two steps of this work, is left out, with
 * the reason. */
ronde_status tool_peers_find(const tool_call *call, tool_cases *cases);
/* Notes where what a peer computed differs from the first case. */
void tool_peers_audit(ronde_measurement *record, const tool_cases *cases);
/* Runs it as a process, and reads the JSON that it prints. errors: where its stderr goes; NULL: to ours. */
ronde_status tool_case_run(const json_t *command, FILE *errors, json_t **said_out);
/* The same, where its failure is no failure of ours. why [bytes]: where it failed, the error that it ended with. */
ronde_status tool_case_try(const json_t *command, json_t **said_out, char *why, size_t bytes);

/* compare.c: whether the folder holds a run of this command that has completed, by this build: then it need not be made
 * again. */
bool tool_case_is_done(const char *folder, const json_t *command, bool is_peer, json_t **run_out);

void tool_case_end(tool_case *one);

/* The record of a comparison: each case by its index, with what the plans say of its work. */
ronde_status tool_comparison_record(const tool_call *call, const tool_cases *cases, ronde_measurement **record_out);
/* A round's run of a case, as it has ended. */
typedef struct tool_case_run_ended {
  json_t *command, *run;          /* the command, and run.json */
  const double *seconds, *losses; /* of its steps [n], the first one among them */
  int64_t n;
  double others; /* cores that others kept busy meanwhile; NAN: not known */
} tool_case_run_ended;
ronde_status tool_comparison_add(ronde_measurement *record, tool_cases *cases, int index, int round,
                                 const tool_case_run_ended *ended);
/* Notes where the work of the cases differs, as far as it is known (audit.h). Whether it does not. */
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
