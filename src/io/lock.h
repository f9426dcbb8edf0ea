/* A lock on a folder, for one writer at a time. The kernel releases it when its holder dies. It is advisory, and
 * works between hosts where the file system supports it (NFS does). */
#ifndef RONDE_LOCK_H
#define RONDE_LOCK_H

#include "base/base.h"

typedef struct ronde__lock ronde__lock;

/* Takes FOLDER/.lock, which names its holder by process and host. RONDE_E_USAGE where somebody else holds it, even
 * another thread of this process; the line begins with `what` and names the holder. RONDE_E_WRITE where the folder
 * cannot be written. */
ronde_status ronde__lock_take(const char *folder, const char *what, ronde__lock **lock_out);
/* Also removes the file. NULL: nothing. */
void ronde__lock_give(ronde__lock *lock);

#endif
