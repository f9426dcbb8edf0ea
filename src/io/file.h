/* Files that are whole or absent, and JSON out. */
#ifndef RONDE_FILE_H
#define RONDE_FILE_H

#include "base/base.h"

/* Replaces path by data: temporary file beside it, fsync, rename, fsync of the folder. RONDE_E_WRITE names the file and the reason. */
ronde_status ronde__file_replace(const char *path, const void *data, size_t bytes);
/* Makes a folder and its parents where they are missing. */
ronde_status ronde__folder_make(const char *path);

#endif
