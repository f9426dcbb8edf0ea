/* The lock on a run's folder. flock belongs to an open file, not to a process: it also keeps threads apart, and
 * closing another descriptor of the file does not release it. */
#include "io/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct ronde__lock {
  char *path;
  int file;
};

static ronde_status lock_fail_errno(const char *path) {
  return ronde__fail(RONDE_E_WRITE, "%s: cannot write: %s", path, strerror(errno));
}

/* The holder may not have written its name yet, and any text may stand there. */
static ronde_status lock_fail_held(int file, const char *what) {
  char text[320] = "", host[256];
  long pid;
  ssize_t n = pread(file, text, sizeof text - 1, 0);
  text[n > 0 ? n : 0] = 0;
  if (sscanf(text, "%ld %255[A-Za-z0-9._-]", &pid, host) != 2)
    return ronde__fail(RONDE_E_USAGE,
                       "%s: another run is writing to this folder: wait until it ends, or choose another folder", what);
  return ronde__fail(RONDE_E_USAGE,
                     "%s: another run is writing to this folder (process %ld on host %s): wait until it ends, or "
                     "choose another folder",
                     what, pid, host);
}

/* Whether the opened file is still the one in the folder: its last holder may have removed it. */
static bool lock_is_gone(const char *path, int file) {
  struct stat own, there;
  return fstat(file, &own) || stat(path, &there) || own.st_ino != there.st_ino || own.st_dev != there.st_dev;
}

static ronde_status lock_open(ronde__lock *lock, const char *what) {
  for (;;) {
    lock->file = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock->file < 0) return lock_fail_errno(lock->path);
    int failed;
    while ((failed = flock(lock->file, LOCK_EX | LOCK_NB)) && errno == EINTR) {
    }
    if (failed && errno == EWOULDBLOCK) return lock_fail_held(lock->file, what);
    if (failed) {
      ronde__log(RONDE_LOG_WARNING,
                 "%s: this folder cannot be locked (%s): nothing keeps another run from writing to it", lock->path,
                 strerror(errno));
      return RONDE_OK;
    }
    if (!lock_is_gone(lock->path, lock->file)) return RONDE_OK;
    close(lock->file);
  }
}

static ronde_status lock_write_name(const ronde__lock *lock) {
  char host[256] = "", text[320];
  gethostname(host, sizeof host - 1);
  int n = snprintf(text, sizeof text, "%ld %s\n", (long)getpid(), host);
  if (ftruncate(lock->file, 0) || pwrite(lock->file, text, (size_t)n, 0) != n) return lock_fail_errno(lock->path);
  return RONDE_OK;
}

/* Only the holder removes the file. */
static void lock_free(ronde__lock *lock) {
  if (lock->file >= 0) close(lock->file);
  free(lock->path);
  ronde__free(lock);
}

ronde_status ronde__lock_take(const char *folder, const char *what, ronde__lock **lock_out) {
  ronde__lock *lock;
  RONDE__ALLOC(lock, sizeof *lock, "lock");
  *lock = (ronde__lock){ronde__format("%s/.lock", folder), -1};
  ronde_status status =
      lock->path ? lock_open(lock, what) : ronde__fail(RONDE_E_MEMORY, "%s: no memory for a name", folder);
  if (status != RONDE_OK) {
    lock_free(lock);
    return status;
  }
  status = lock_write_name(lock);
  if (status == RONDE_OK) *lock_out = lock;
  else ronde__lock_give(lock);
  return status;
}

void ronde__lock_give(ronde__lock *lock) {
  if (!lock) return;
  unlink(lock->path);
  lock_free(lock);
}
