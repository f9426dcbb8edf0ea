/* A file that is mapped must not become shorter: touching what lies behind its end would end the process (SIGBUS). */
#ifndef RONDE_LEASE_H
#define RONDE_LEASE_H

#include "base/base.h"

typedef struct ronde__lease ronde__lease;

/* Takes fd over, of a regular file that is open for reading only. Where the kernel grants a lease on it (a local file
 * system, a file of this user that nobody has open for writing), whoever opens the file for writing or truncates it from
 * now on waits until the lease is dropped, or for /proc/sys/fs/lease-break-time (45 s); no signal is sent. Elsewhere the
 * file's size is all there is to look at. NULL: no memory, fd is closed. */
ronde__lease *ronde__lease_take(int fd);
/* Whether the file is still as it was, and, with a lease, will be for the next seconds. NULL holds. */
bool ronde__lease_holds(const ronde__lease *lease);
/* Lets those go on who wait: what is mapped must not be touched any more. May be NULL. */
void ronde__lease_drop(ronde__lease *lease);

#endif
