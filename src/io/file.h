/* Files that are whole or absent: written under another name in the same folder, then renamed. */
#ifndef RONDE_FILE_H
#define RONDE_FILE_H

#include "base/base.h"

/* Replaces path by data: temporary file beside it, fsync, rename, fsync of the folder. RONDE_E_WRITE names the file and
 * the reason. */
ronde_status ronde__file_replace(const char *path, const void *data, size_t bytes);
bool ronde__is_folder(const char *path);
/* The folder that a file is in, to be freed; NULL: no memory. */
char *ronde__folder_of(const char *path);
/* Makes a folder and its parents where they are missing. */
ronde_status ronde__folder_make(const char *path);

/* Sends the folder of path to the disk, after path was renamed by other means than these. A failure does no harm and is
 * not reported. */
void ronde__file_sync_folder(const char *path);

/* The same in pieces, for what should not be assembled in memory: begin, any number of appends and patches, then commit.
 * Where one of them fails, and after abandon, the temporary file is gone and path is as it was. path must stay valid. */
typedef struct ronde__file_out {
  const char *path;
  const char *base;        /* path without its folder */
  int folder, file;        /* descriptors; -1: closed */
  uint64_t bytes, started; /* appended, and of these on their way to the disk */
  char temporary[64];
} ronde__file_out;

ronde_status ronde__file_begin(const char *path, ronde__file_out *out);
ronde_status ronde__file_append(ronde__file_out *out, const void *data, size_t bytes);
/* Overwrites what was appended before. */
ronde_status ronde__file_patch(ronde__file_out *out, uint64_t offset, const void *data, size_t bytes);
ronde_status ronde__file_commit(ronde__file_out *out);
void ronde__file_abandon(ronde__file_out *out);
/* Removes the temporary files that killed processes left in a folder. Those of living processes stay, where the file
 * system has locks. */
void ronde__file_sweep(const char *folder);

#endif
