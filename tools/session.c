/* What mpirun would leave in the folder for temporary files when it is killed is kept in a folder of the launch. A lock
 * on it tells whether its launch still lives: it goes with the last process that has it, however that ends. */
#include "session.h"

#include "common.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ATTEMPTS = 10 };

static const char *temporary_folder(void) {
  const char *folder = getenv("TMPDIR");
  return folder && *folder ? folder : "/tmp";
}

static void name_sessions(char *text, size_t size) { snprintf(text, size, "ronde-mpi-%u-", (unsigned)geteuid()); }

/* Whether the path still is what is open. */
static bool is_there(const char *path, int file) {
  struct stat named, opened;
  return !lstat(path, &named) && !fstat(file, &opened) && named.st_ino == opened.st_ino &&
         named.st_dev == opened.st_dev && opened.st_uid == geteuid();
}

static void sweep_session(const char *path) {
  int file = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return;
  if (is_there(path, file) && !flock(file, LOCK_EX | LOCK_NB)) tool_folder_remove(path);
  close(file);
}

void tool_session_sweep(void) {
  char start[64];
  name_sessions(start, sizeof start);
  DIR *folder = opendir(temporary_folder());
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    char path[512];
    int n = snprintf(path, sizeof path, "%s/%s", temporary_folder(), entry->d_name);
    if (!strncmp(entry->d_name, start, strlen(start)) && n < (int)sizeof path) sweep_session(path);
  }
  if (folder) closedir(folder);
}

/* Another launch may sweep it away before it is locked. mpirun inherits the lock, and hands it to nobody. */
static bool make_session(tool_session *session, const char *start) {
  int n = snprintf(session->path, sizeof session->path, "%s/%sXXXXXX", temporary_folder(), start);
  if (n >= (int)sizeof session->path || !mkdtemp(session->path)) return false;
  session->lock = open(session->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (session->lock >= 0 && !flock(session->lock, LOCK_EX) && is_there(session->path, session->lock)) return true;
  if (session->lock >= 0) close(session->lock);
  rmdir(session->path);
  return false;
}

void tool_session_begin(tool_session *session) {
  char start[64];
  bool made = false;
  name_sessions(start, sizeof start);
  for (int i = 0; i < ATTEMPTS && !made; i++) made = make_session(session, start);
  if (!made) *session = (tool_session){.lock = -1};
}

void tool_session_note_joined(const tool_session *session) {
  char path[sizeof session->path + sizeof TOOL_JOINED_NAME + 1];
  if (!*session->path) return;
  snprintf(path, sizeof path, "%s/" TOOL_JOINED_NAME, session->path);
  close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

void tool_session_enter(const tool_session *session) {
  if (!*session->path) return;
  setenv("TMPDIR", session->path, 1);
  fcntl(session->lock, F_SETFD, 0);
}

void tool_session_end(tool_session *session) {
  if (!*session->path) return;
  tool_folder_remove(session->path);
  close(session->lock);
}
