/* Leases of Linux (fcntl(2), F_SETLEASE) on files that are mapped for reading. */
#include "data/lease.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

struct ronde__lease {
  int fd;
  bool granted;
  off_t bytes;
};

/* The kernel signals the holder when somebody waits for the file. The signal is SIGURG, which is ignored by default,
 * and no process is named to receive it. */
static bool lease_request(int fd) {
  if (fcntl(fd, F_SETSIG, SIGURG) || fcntl(fd, F_SETLEASE, F_RDLCK)) return false;
  fcntl(fd, F_SETOWN, 0);
  return true;
}

ronde__lease *ronde__lease_take(int fd) {
  ronde__lease *lease = ronde__alloc(sizeof *lease);
  struct stat st;
  if (!lease || fstat(fd, &st)) {
    ronde__free(lease);
    close(fd);
    return NULL;
  }
  *lease = (ronde__lease){.fd = fd, .granted = lease_request(fd), .bytes = st.st_size};
  return lease;
}

bool ronde__lease_holds(const ronde__lease *lease) {
  struct stat st;
  if (!lease) return true;
  if (lease->granted && fcntl(lease->fd, F_GETLEASE) != F_RDLCK) return false;
  return fstat(lease->fd, &st) == 0 && st.st_size >= lease->bytes;
}

void ronde__lease_drop(ronde__lease *lease) {
  if (!lease) return;
  if (lease->granted) fcntl(lease->fd, F_SETLEASE, F_UNLCK);
  close(lease->fd);
  ronde__free(lease);
}
