/* A run that is started again after a loss (--on-loss restart; continue, where it was rank 0): who is left, what they are told, and what is noted of it. */
#ifndef TOOL_RESTART_H
#define TOOL_RESTART_H

#include "launch.h"

typedef struct tool_restarts {
  int n;        /* so far, after losses */
  int n_noted;  /* those with hosts that join too */
  json_t *list; /* run.json's `restarts`: the newest of them, */
  char *text;   /* and as the ranks get it. Both are to be freed by tool_restarts_free */
} tool_restarts;

/* Whether a loss that ends the run is to be followed by another start. */
bool tool_restart_is_wanted(const tool_call *call);
/* RONDE_E_USAGE where a restart could not go on from the state in --out: it is an older one that was named. */
ronde_status tool_restart_check(const tool_call *call);
/* After a loss: whether the run is to be started again; then its hosts are those that are left, n_ranks as many ranks as there
 * were on them, and the restart is said and noted. Else why not is said, if it was wanted. */
bool tool_restart_prepare(tool_launched *launched, int *n_ranks);
/* When a loss has just become known: takes hosts that are lost out of these, the run's; the number of ranks of the restart that is
 * likely, 0: there will be none. */
int tool_restart_guess(const tool_launched *launched, tool_hosts *hosts);
/* After a run that has ended because hosts join it: says and notes it; */
void tool_restart_join(const tool_launched *launched, const tool_launched *next);
/* With hosts that have joined, whether it ended with an error before a step was made: then they are taken out, and who was there
 * before is to be started again; */
bool tool_restart_without_joiners(tool_launched *launched, ronde_status ended, int *n_ranks);
/* or, where the start with them has failed meanwhile, that those are started again which were there. */
void tool_restart_stay(const tool_launched *launched);
/* The ranks' command then: what is given, without what is of one start (--drill, --overwrite), resuming. NULL-terminated,
 * to be freed by tool_rank_words_free. RONDE_E_MEMORY. */
ronde_status tool_restart_words(const tool_call *call, int n_workers, char ***words_out);
void tool_restarts_free(tool_restarts *restarts);

#endif
