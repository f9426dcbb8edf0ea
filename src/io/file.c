/* Files that are whole or absent. While one is being written its temporary file is locked, which tells it from one
 * that a killed process left. */
#include "io/file.h"

#include "base/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* One write call moves at most 2 GiB on Linux; smaller pieces also bound the time until a signal is noticed. */
#define PIECE ((size_t)64 << 20)
/* What was appended is sent to the disk in chunks of this size, so that the disk writes while more is made. */
#define PART ((uint64_t)8 << 20)

static ronde_status file_fail_errno(const char *path, const char *what, int error) {
  return ronde__fail(RONDE_E_WRITE, "%s: %s: %s", path, what, strerror(error));
}

static ronde_status folder_open(const char *path, const char *base, int *folder_out) {
  char *name = base == path ? ronde__strdup(".") : strndup(path, (size_t)(base - path));
  if (!name) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for its folder's name", path);
  int folder = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int error = errno;
  free(name);
  if (folder < 0) return file_fail_errno(path, "cannot open the folder to write in", error);
  *folder_out = folder;
  return RONDE_OK;
}

/* A rename onto a device or a pipe would put a plain file in its place. */
static ronde_status target_check(const char *path) {
  struct stat info;
  if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
    return ronde__fail(RONDE_E_WRITE, "%s: cannot replace it: %s", path,
                       S_ISDIR(info.st_mode) ? "it is a folder" : "not a regular file");
  return RONDE_OK;
}

/* Returns false where a sweep removed the file before it was locked. */
static bool file_lock_new(int file) {
  struct stat info;
  flock(file, LOCK_EX);
  if (fstat(file, &info) || info.st_nlink > 0) return true;
  close(file);
  return false;
}

ronde_status ronde__file_begin(const char *path, ronde__file_out *out) {
  static atomic_uint n_made;
  const char *slash = strrchr(path, '/');
  ronde__file_out made = {.path = path, .base = slash ? slash + 1 : path, .folder = -1, .file = -1};
  if (!*made.base) return ronde__fail(RONDE_E_WRITE, "%s: cannot write: the file's name is empty", path);
  if (strlen(made.base) > NAME_MAX) return file_fail_errno(path, "cannot write", ENAMETOOLONG);
  RONDE_TRY(target_check(path));
  RONDE_TRY(folder_open(path, made.base, &made.folder));
  do {
    /* A process on another host, or one that died, can have used the same name: take the next. */
    snprintf(made.temporary, sizeof made.temporary, ".ronde-%ld-%u.tmp", (long)getpid(), atomic_fetch_add(&n_made, 1));
    made.file = openat(made.folder, made.temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (made.file < 0 ? errno == EEXIST : !file_lock_new(made.file));
  if (made.file < 0) {
    int error = errno;
    close(made.folder);
    return file_fail_errno(path, "cannot make a file in its folder", error);
  }
  *out = made;
  return RONDE_OK;
}

void ronde__file_abandon(ronde__file_out *out) {
  if (out->file >= 0) close(out->file);
  if (out->folder >= 0) {
    unlinkat(out->folder, out->temporary, 0);
    close(out->folder);
  }
  out->file = out->folder = -1;
}

static ronde_status file_abandon_errno(ronde__file_out *out, const char *what) {
  int error = errno;
  ronde__file_abandon(out);
  return file_fail_errno(out->path, what, error);
}

ronde_status ronde__file_patch(ronde__file_out *out, uint64_t offset, const void *data, size_t bytes) {
  const char *next = data;
  while (bytes > 0) {
    ssize_t n = ronde__disk_fails() ? -1 : pwrite(out->file, next, bytes < PIECE ? bytes : PIECE, (off_t)offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_abandon_errno(out, "cannot write");
    next += n;
    offset += (uint64_t)n;
    bytes -= (size_t)n;
  }
  return RONDE_OK;
}

ronde_status ronde__file_append(ronde__file_out *out, const void *data, size_t bytes) {
  const char *next = data;
  while (bytes > 0) {
    ssize_t n = ronde__disk_fails() ? -1 : write(out->file, next, bytes < PIECE ? bytes : PIECE);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_abandon_errno(out, "cannot write");
    next += n;
    bytes -= (size_t)n;
    out->bytes += (uint64_t)n;
  }
  if (out->bytes - out->started >= PART) { /* a hint: commit sees what failed */
    sync_file_range(out->file, (off_t)out->started, (off_t)(out->bytes - out->started), SYNC_FILE_RANGE_WRITE);
    out->started = out->bytes;
  }
  return RONDE_OK;
}

ronde_status ronde__file_commit(ronde__file_out *out) {
  if (ronde__disk_fails() || fsync(out->file)) return file_abandon_errno(out, "cannot write to the disk");
  int file = out->file;
  out->file = -1;
  if (close(file)) return file_abandon_errno(out, "cannot close");
  if (renameat(out->folder, out->temporary, out->folder, out->base))
    return file_abandon_errno(out, "cannot rename the finished file to it");
  /* Some file systems cannot sync a folder and say EINVAL: their renames are as safe as they get. */
  int synced = fsync(out->folder) == 0 || errno == EINVAL;
  int error = errno;
  close(out->folder);
  out->folder = -1;
  return synced ? RONDE_OK : file_fail_errno(out->path, "cannot write its folder to the disk", error);
}

char *ronde__folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? strndup(path, slash > path ? (size_t)(slash - path) : 1) : ronde__strdup(".");
}

void ronde__file_sync_folder(const char *path) {
  char *folder = ronde__folder_of(path);
  int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  free(folder);
}

ronde_status ronde__file_replace(const char *path, const void *data, size_t bytes) {
  ronde__file_out out;
  RONDE_TRY(ronde__file_begin(path, &out));
  RONDE_TRY(ronde__file_append(&out, data, bytes));
  return ronde__file_commit(&out);
}

/* A living writer holds its lock. */
static void remove_abandoned(int folder, const char *name) {
  int file = openat(folder, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return;
  if (flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) unlinkat(folder, name, 0);
  close(file);
}

void ronde__file_sweep(const char *folder) {
  DIR *dir = opendir(folder);
  if (!dir) return;
  for (struct dirent *entry; (entry = readdir(dir));) {
    size_t n = strlen(entry->d_name);
    bool temporary = !strncmp(entry->d_name, ".ronde-", 7) && n > 11 && !strcmp(entry->d_name + n - 4, ".tmp");
    if (temporary) remove_abandoned(dirfd(dir), entry->d_name);
  }
  closedir(dir);
}

static ronde_status folder_make_one(const char *path, const char *part) {
  if (mkdir(part, 0777) == 0) return RONDE_OK;
  int error = errno;
  struct stat info;
  if (stat(part, &info) == 0) {
    if (S_ISDIR(info.st_mode)) return RONDE_OK;
    error = ENOTDIR;
  }
  return ronde__fail(RONDE_E_WRITE, "%s: cannot make the folder %s: %s", path, part, strerror(error));
}

bool ronde__is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

ronde_status ronde__folder_make(const char *path) {
  char *part = ronde__strdup(path);
  if (!part) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for the folder's name", path);
  ronde_status status = RONDE_OK;
  for (char *slash = part + strspn(part, "/"); status == RONDE_OK && (slash = strchr(slash, '/')); ++slash) {
    *slash = '\0';
    status = folder_make_one(path, part);
    *slash = '/';
  }
  if (status == RONDE_OK) status = folder_make_one(path, part);
  free(part);
  return status;
}
