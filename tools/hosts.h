/* The hosts of a training, as Open MPI's users write them: "a,b:2", or a file of lines "NAME [slots=N]". */
#ifndef TOOL_HOSTS_H
#define TOOL_HOSTS_H

#include "common.h"

enum { TOOL_MAX_HOSTS = 1024, TOOL_HOST_BYTES = 254 };

typedef struct tool_host {
  char name[TOOL_HOST_BYTES];
  int slots; /* ranks it may have; 0: not said */
} tool_host;

typedef struct tool_hosts {
  tool_host *at; /* owned */
  int n, slots;  /* all that were said, a host without any counted as 1; 0: none was said */
} tool_hosts;

/* From --hosts or --hostfile of the call; n is 0 where neither is given. A host that stands twice has the slots of both.
 * RONDE_E_USAGE names what is wrong in --hosts, RONDE_E_INPUT file and line. */
ronde_status tool_hosts_get(const tool_call *call, tool_hosts *hosts_out);
ronde_status tool_hosts_read(const char *path, tool_hosts *hosts_out); /* of a host file; errors as above */
/* What a host file holds; `name` for errors. */
ronde_status tool_hosts_parse(const char *name, const char *text, tool_hosts *hosts_out);
void tool_hosts_count_slots(tool_hosts *hosts); /* of its hosts */
/* How many of n ranks each host has where they go round the hosts, one in turn, a host with all its slots taken left out:
 * counts_out [hosts->n]; and the host of each rank, host_of_out [n], NULL: not wanted. False: there are fewer slots. */
bool tool_hosts_place(const tool_hosts *hosts, int n, int *counts_out, int *host_of_out);
/* Ranks on hosts that have not been told how many: as many as they have slots, or one worker on each and those of servers. */
int tool_hosts_ranks(const tool_hosts *hosts, int n_servers);
void tool_hosts_free(tool_hosts *hosts);

#endif
