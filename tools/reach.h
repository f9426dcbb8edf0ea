/* Commands on hosts, as mpirun would start them there. */
#ifndef TOOL_REACH_H
#define TOOL_REACH_H

#include "hosts.h"

/* Runs a command of the shell on a host, and waits for it, at most TOOL_REACH_S; says it where it fails. */
void tool_ask_host(const char *host, const char *command);
bool tool_host_answers(const char *host); /* whether this program can be run there; says nothing */
/* Whether this program can be run on all of them: RONDE_E_LOST, and each that cannot is named. */
ronde_status tool_reach_hosts(const tool_hosts *hosts);

#endif
