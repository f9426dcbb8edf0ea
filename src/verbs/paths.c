/* Lists of files, from what a user names. */
#include "verbs/paths.h"

#include "io/file.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

bool ronde__path_has_end(const char *name, const char *end) {
  size_t n = strlen(name), n_end = strlen(end);
  return n >= n_end && strcasecmp(name + n - n_end, end) == 0;
}

/* Takes over path. */
static ronde_status paths_add(ronde__paths *paths, char *path) {
  if (path && paths->n == paths->room) {
    int64_t room = paths->room ? 2 * paths->room : 64;
    char **at = realloc(paths->at, (size_t)room * sizeof *at);
    if (at) paths->at = at, paths->room = room;
  }
  if (!path || paths->n == paths->room) {
    free(path);
    return ronde__fail(RONDE_E_MEMORY, "prediction: no memory for the names of the inputs");
  }
  paths->at[paths->n++] = path;
  return RONDE_OK;
}

static ronde_status add_folder(const ronde__paths_wanted *wanted, const char *folder, ronde__paths *paths) {
  struct dirent **entries;
  int n = scandir(folder, &entries, NULL, NULL);
  ronde_status status = RONDE_OK;
  if (n < 0) return ronde__fail(RONDE_E_INPUT, "%s: cannot open: %s", folder, strerror(errno));
  for (int i = 0; i < n; i++) {
    const char *name = entries[i]->d_name;
    char *path = status == RONDE_OK && name[0] != '.' ? ronde__format("%s/%s", folder, name) : NULL;
    if (path && ronde__is_folder(path)) status = add_folder(wanted, path, paths);
    else if (path && wanted->is(wanted->user, name)) {
      status = paths_add(paths, path);
      path = NULL;
    }
    free(path);
    free(entries[i]);
  }
  free(entries);
  return status;
}

static int paths_by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static ronde_status add_pattern(const char *pattern, ronde__paths *paths) {
  glob_t found;
  int error = glob(pattern, 0, NULL, &found);
  if (error == GLOB_NOSPACE)
    return ronde__fail(RONDE_E_MEMORY, "%s: no memory for the list of matching files", RONDE__SHOWN(pattern));
  if (error) return ronde__fail(RONDE_E_INPUT, "%s: no file matches this pattern", RONDE__SHOWN(pattern));
  ronde_status status = RONDE_OK;
  for (size_t i = 0; i < found.gl_pathc && status == RONDE_OK; i++)
    status = paths_add(paths, ronde__strdup(found.gl_pathv[i]));
  globfree(&found);
  return status;
}

static ronde_status add_word(const ronde__paths_wanted *wanted, const char *word, ronde__paths *paths) {
  bool is_pattern = strpbrk(word, "*?[") && access(word, F_OK) != 0;
  if (is_pattern) return add_pattern(word, paths);
  if (!ronde__is_folder(word)) return paths_add(paths, ronde__strdup(word));
  int64_t first = paths->n;
  RONDE_TRY(add_folder(wanted, word, paths));
  if (paths->n == first)
    return ronde__fail(RONDE_E_INPUT, "%s: no %s in this folder", RONDE__SHOWN(word), wanted->ends);
  qsort(paths->at + first, (size_t)(paths->n - first), sizeof *paths->at, paths_by_bytes);
  return RONDE_OK;
}

ronde_status ronde__paths_find(const char *spec, const ronde__paths_wanted *wanted, ronde__paths *paths_out) {
  ronde__paths paths = {0};
  ronde_status status = RONDE_OK;
  while (*spec && status == RONDE_OK) {
    size_t n = strcspn(spec, "\n");
    char *word = n ? strndup(spec, n) : NULL;
    if (n && !word) status = ronde__fail(RONDE_E_MEMORY, "prediction: no memory for the names of the inputs");
    if (word) status = add_word(wanted, word, &paths);
    free(word);
    spec += n + (spec[n] == '\n');
  }
  if (status == RONDE_OK) *paths_out = paths;
  else ronde__paths_release(&paths);
  return status;
}

void ronde__paths_release(ronde__paths *paths) {
  for (int64_t i = 0; i < paths->n; i++) free(paths->at[i]);
  free(paths->at);
  *paths = (ronde__paths){0};
}
