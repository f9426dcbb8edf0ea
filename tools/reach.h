/* Commands on hosts, as mpirun would start them there. */
#ifndef TOOL_REACH_H
#define TOOL_REACH_H

#include "hosts.h"

#include <sys/types.h>

/* Of a host, and a path or what the shell there said of it. */
#define TOOL_NO_PROGRAM "host %s was reached, but ronde cannot be run there by the path used here: %.512s"

/* The words that stand between what starts commands on hosts and a host's name. */
const char *tool_agent_words(void);
/* Runs a command of the shell on a host, and waits for it, at most TOOL_REACH_S; says it where it fails. */
void tool_ask_host(const char *host, const char *command);
/* A process that finds out whether this program can be run there, and says nothing; 0: none can be started. */
pid_t tool_host_ask(const char *host);
/* False: it is still at it. The code is 0, or what the shell there or ssh ended with, 255 too where no answer came within
 * TOOL_REACH_S. */
bool tool_host_asked(pid_t asking, int *code_out);
void tool_host_ask_end(pid_t asking);
/* Whether this program can be run on all of them: RONDE_E_LOST, and each that cannot is named. */
ronde_status tool_reach_hosts(const tool_hosts *hosts);

#endif
