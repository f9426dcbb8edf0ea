/* What mpirun would leave in the folder for temporary files when it is killed is kept in a folder of the launch. A lock
 * on it tells whether its launch still lives: it goes with the last process that has it, however that ends. */
#include "session.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ATTEMPTS = 10, MOST_OPEN = 16 };

static const char *temporary(void) {
  const char *folder = getenv("TMPDIR");
  return folder && *folder ? folder : "/tmp";
}

static void prefix(char *text, size_t size) { snprintf(text, size, "ronde-mpi-%u-", (unsigned)geteuid()); }

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place) {
  remove(path);
  return 0;
}

static void remove_folder(const char *path) { nftw(path, remove_one, MOST_OPEN, FTW_DEPTH | FTW_PHYS | FTW_MOUNT); }

/* Whether the path still is what is open. */
static bool is_there(const char *path, int file) {
  struct stat named, opened;
  return !lstat(path, &named) && !fstat(file, &opened) && named.st_ino == opened.st_ino &&
         named.st_dev == opened.st_dev && opened.st_uid == geteuid();
}

static void sweep_one(const char *path) {
  int file = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return;
  if (is_there(path, file) && !flock(file, LOCK_EX | LOCK_NB)) remove_folder(path);
  close(file);
}

static void sweep(const char *start) {
  DIR *folder = opendir(temporary());
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    char path[512];
    int n = snprintf(path, sizeof path, "%s/%s", temporary(), entry->d_name);
    if (!strncmp(entry->d_name, start, strlen(start)) && n < (int)sizeof path) sweep_one(path);
  }
  if (folder) closedir(folder);
}

/* Another launch may sweep it away before it is locked. mpirun inherits the lock, and hands it to nobody. */
static bool make(tool_session *session, const char *start) {
  int n = snprintf(session->path, sizeof session->path, "%s/%sXXXXXX", temporary(), start);
  if (n >= (int)sizeof session->path || !mkdtemp(session->path)) return false;
  session->lock = open(session->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (session->lock >= 0 && !flock(session->lock, LOCK_EX) && is_there(session->path, session->lock)) return true;
  if (session->lock >= 0) close(session->lock);
  rmdir(session->path);
  return false;
}

void tool_session_begin(tool_session *session) {
  char start[64];
  bool made = false;
  prefix(start, sizeof start);
  sweep(start);
  for (int i = 0; i < ATTEMPTS && !made; i++) made = make(session, start);
  if (!made) *session = (tool_session){.lock = -1};
}

void tool_session_enter(const tool_session *session) {
  if (*session->path) setenv("TMPDIR", session->path, 1);
}

void tool_session_end(tool_session *session) {
  if (!*session->path) return;
  remove_folder(session->path);
  close(session->lock);
}
