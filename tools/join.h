/* Hosts that join a run (--elastic): those that stand in --hostfile, without a rank, once they answer. */
#ifndef TOOL_JOIN_H
#define TOOL_JOIN_H

#include "hosts.h"

#include <sys/types.h>
#include <time.h>

struct tool_rank;
typedef struct tool_joins {
  const char *path;
  const tool_hosts *present; /* the run's, now */
  const struct tool_rank
      *ranks; /* [n_ranks] on them, of which some may be lost while the others go on; NULL: they do not */
  int n_ranks;
  struct timespec changed; /* the file, when it was read; */
  off_t bytes;             /* and its size, as times may be of whole seconds */
  tool_hosts listed;       /* what it held, the last time that it made sense */
  pid_t *asking;           /* [listed.n] processes that ask a host; 0: none, or it has been seen how it ended, */
  bool *answers;           /* [listed.n] and it answered, */
  bool *refused;           /* [listed.n] or the run has ended with it: it is not asked */
  int n_asking;
  double next_s;
} tool_joins;

/* RONDE_E_USAGE where no host could join a run of this call. */
ronde_status tool_join_check(const tool_call *call);
void tool_join_begin(tool_joins *joins, const char *path);
/* The hosts of the run, and its ranks, from now on: those fields of the joins. Who is away is asked 2 s later. */
void tool_join_follow(tool_joins *joins, const tool_hosts *present, const struct tool_rank *ranks, int n_ranks);
/* Nobody is asked for some time, unless the file changes. */
void tool_join_put_off(tool_joins *joins);
/* To be called often; never waits. True: a host that has no rank, or has lost one, answers. */
bool tool_join_look(tool_joins *joins);
/* The same where the run is not under way: waits until then, or until a signal comes. */
bool tool_join_await(tool_joins *joins, double until_s);
/* Adds those that answered to hosts, in the order of the file, and takes out those that have lost their ranks and do not
 * answer; the names of the first go to names_out. RONDE_E_MEMORY. */
ronde_status tool_join_take(tool_joins *joins, tool_hosts *hosts, char names_out[512]);
/* Takes those out that tool_join_take has named: they are not asked again before the file has changed. */
void tool_join_refuse(tool_joins *joins, tool_hosts *hosts, const char *names);
void tool_join_end(tool_joins *joins);

#endif
