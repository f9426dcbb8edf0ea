/* From a path that a user gave to the file of weights that is meant: a run's folder stands for its best weights. */
#include "state/checkpoint.h"

#include "io/file.h"

#include <stdlib.h>
#include <unistd.h>

/* The first of the files that the end of a run leaves; NULL: there is none. */
static ronde_status find_end(const char *folder, char **file_out) {
  static const char *const names[] = {"best.safetensors", "last.safetensors"};
  char *path = NULL;
  for (size_t i = 0; i < RONDE__COUNT(names) && !path; i++) {
    path = ronde__format("%s/%s", folder, names[i]);
    if (!path) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for a name", folder);
    if (access(path, F_OK) == 0) break;
    free(path);
    path = NULL;
  }
  *file_out = path;
  return RONDE_OK;
}

static ronde_status find_checkpoint(const char *folder, char **file_out) {
  ronde__resume *newest;
  bool any;
  RONDE_TRY(ronde__checkpoint_any(folder, &any));
  if (!any)
    return ronde__fail(
        RONDE_E_INPUT,
        "%s: no weights in this folder: it has neither best.safetensors nor last.safetensors, nor a checkpoint",
        folder);
  RONDE_TRY(ronde__checkpoint_open(folder, &newest));
  *file_out = ronde__strdup(newest->path);
  ronde__resume_close(newest);
  return RONDE_OK;
}

ronde_status ronde__weights_find(const char *path, char **file_out) {
  char *file = NULL;
  bool folder = ronde__is_folder(path);
  if (folder) RONDE_TRY(find_end(path, &file));
  else file = ronde__strdup(path);
  if (folder && !file) RONDE_TRY(find_checkpoint(path, &file));
  if (!file) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for a name", path);
  if (folder) ronde__log(RONDE_LOG_INFO, "%s: its weights are taken from %s", path, file);
  *file_out = file;
  return RONDE_OK;
}
