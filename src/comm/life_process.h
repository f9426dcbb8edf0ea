/* Other processes of this host, seen from outside: whether one is there, is stopped, or has gone. */
#ifndef RONDE_LIFE_PROCESS_H
#define RONDE_LIFE_PROCESS_H

#include <sys/types.h>

#include "base/base.h"

/* Of a process for all time: numbers are used again, and mean others in other containers. */
typedef struct ronde__process {
  pid_t pid;
  uint64_t started;      /* in the system's ticks; 0: not known */
  uint64_t space, clock; /* where its number and its ticks count: its PID and time namespaces; 0: not known */
} ronde__process;

typedef enum ronde__process_state {
  RONDE__PROCESS_RUNS,
  RONDE__PROCESS_STOPPED,
  RONDE__PROCESS_GONE
} ronde__process_state;

ronde__process ronde__process_own(void);
/* What is to be polled for its end (POLLIN), to be closed; -1: the process is not seen from here, or the system is too
 * old for that. */
int ronde__process_open(ronde__process process);
/* It has gone, and would be seen if it had not: one of another container cannot be seen from here. */
bool ronde__process_ended(ronde__process process);
/* A zombie has gone; one that a debugger has is stopped. */
ronde__process_state ronde__process_look(ronde__process process);

#endif
