/* What an earlier run left in --out: found, refused, removed or gone on with. */
#include "train/outputs.h"

#include "io/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a run writes, beside its checkpoints. The record goes last, so that a removal that is broken off is seen. */
static const char *const names[] = {"trace.json", RONDE__BEST_NAME, RONDE__LAST_NAME,
                                    "epochs.csv", "steps.jsonl",    "run.json"};

static ronde_status fail_memory(const char *folder) {
  return ronde__fail(RONDE_E_MEMORY, "%s: no memory for a name", folder);
}

static void free_paths(char **paths, int n) {
  for (int i = 0; i < n; i++) free(paths[i]);
  ronde__free(paths);
}

/* ---- whose it is ---- */

static bool is_same(const char *a, const char *b) {
  struct stat one, other;
  return !stat(a, &one) && !stat(b, &other) && one.st_ino == other.st_ino && one.st_dev == other.st_dev;
}

bool ronde__outputs_go_on(const ronde__job *job) {
  if (!job->resume || !job->options->out) return false;
  char *parent = ronde__folder_of(job->resume->path);
  char *inner = ronde__format("%s/" RONDE__CHECKPOINT_FOLDER, job->options->out);
  bool same = parent && inner && is_same(parent, inner);
  free(parent);
  free(inner);
  return same;
}

char *ronde__outputs_record(const ronde__job *job) {
  char *path = ronde__format("%s/run.json", job->options->out);
  json_t *record = path ? json_load_file(path, 0, NULL) : NULL;
  const char *status = json_string_value(json_object_get(record, "status"));
  bool completed = status && strcmp(status, "completed") == 0;
  char *text = completed ? json_dumps(record, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
  json_decref(record);
  free(path);
  return text;
}

/* ---- what is there ---- */

/* Something that another run has left, to be freed; NULL: nothing. has_state: a checkpoint. */
static ronde_status find_other(const char *folder, char **name_out, bool *has_state_out) {
  struct stat info;
  *name_out = NULL;
  RONDE_TRY(ronde__checkpoint_any(folder, has_state_out));
  for (size_t i = RONDE__COUNT(names); i-- > 0 && !*name_out;) {
    char *path = ronde__format("%s/%s", folder, names[i]);
    if (!path) return fail_memory(folder);
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) *name_out = ronde__strdup(names[i]);
    free(path);
  }
  if (*has_state_out && !*name_out) *name_out = ronde__strdup(RONDE__CHECKPOINT_FOLDER);
  return RONDE_OK;
}

static ronde_status remove_one(const char *path) {
  if (unlink(path) == 0 || errno == ENOENT || errno == EISDIR) return RONDE_OK;
  return ronde__fail(RONDE_E_WRITE, "%s: cannot remove: %s", path, strerror(errno));
}

static int64_t step_of(const char *path) { return strtoll(strrchr(path, '-') + 1, NULL, 10); }

/* Checkpoints of steps behind `step`; -1: all. */
static ronde_status remove_checkpoints(const char *folder, int64_t step) {
  char **paths;
  int n;
  RONDE_TRY(ronde__checkpoint_list(folder, &paths, &n));
  ronde_status status = RONDE_OK;
  for (int i = 0; i < n && status == RONDE_OK && step_of(paths[i]) > step; i++) status = remove_one(paths[i]);
  free_paths(paths, n);
  return status;
}

static ronde_status remove_other(const char *folder) {
  RONDE_TRY(remove_checkpoints(folder, -1));
  for (size_t i = 0; i < RONDE__COUNT(names); i++) {
    char *path = ronde__format("%s/%s", folder, names[i]);
    ronde_status status = path ? remove_one(path) : fail_memory(folder);
    free(path);
    RONDE_TRY(status);
  }
  return RONDE_OK;
}

/* ---- what may stay, go, or must be asked for ---- */

/* --resume auto found nothing to go on from: a run that was killed before its first checkpoint is begun again. */
static bool is_begun_again(const ronde__job *job, bool has_state) {
  const char *resume = job->options->resume;
  if (!resume || strcmp(resume, "auto") || job->resume || has_state) return false;
  char *record = ronde__outputs_record(job);
  bool completed = record != NULL;
  free(record);
  return !completed;
}

static ronde_status refuse(const ronde__job *job, const char *name, bool has_state) {
  const char *out = job->options->out;
  if (has_state)
    return ronde__fail(RONDE_E_USAGE,
                       "--out %s holds another run (%s): --resume %s continues it, --overwrite removes it", out, name,
                       out);
  return ronde__fail(RONDE_E_USAGE,
                     "--out %s holds another run (%s), and no checkpoint to --resume from: --overwrite removes it", out,
                     name);
}

static ronde_status outputs_make_room(const ronde__job *job) {
  const ronde__options *o = job->options;
  char *name;
  bool has_state;
  RONDE_TRY(find_other(o->out, &name, &has_state));
  if (!name) return RONDE_OK;
  bool again = is_begun_again(job, has_state);
  ronde_status status = o->overwrite || again ? RONDE_OK : refuse(job, name, has_state);
  free(name);
  RONDE_TRY(status);
  if (again) ronde__log(RONDE_LOG_INFO, "%s: the run in it left no checkpoint, so it is started again", o->out);
  return remove_other(o->out);
}

/* The newest checkpoint behind the one that is gone on from, if it is whole: a damaged one was passed over. */
static bool find_later(const ronde__resume *r, char **paths, int n, const char **path_out) {
  ronde__log_demote(true);
  *path_out = NULL;
  for (int i = 0; i < n && !*path_out && step_of(paths[i]) > r->progress.step; i++) {
    ronde__resume *later;
    if (ronde__checkpoint_open(paths[i], &later) != RONDE_OK) continue;
    *path_out = paths[i];
    ronde__resume_close(later);
  }
  ronde__log_demote(false);
  return *path_out != NULL;
}

/* What lies behind the checkpoint will be made again; left there, it would be taken for newer. */
static ronde_status cut_behind(const ronde__job *job) {
  const ronde__options *o = job->options;
  const ronde__resume *r = job->resume;
  const char *later;
  char **paths;
  int n;
  if (r->folder) RONDE_TRY(ronde__config_settle(job->config, RONDE__NEED_NEW_OUT, false));
  RONDE_TRY(ronde__checkpoint_list(o->out, &paths, &n));
  ronde_status status = RONDE_OK;
  if (!o->overwrite && find_later(r, paths, n, &later))
    status = ronde__fail(RONDE_E_USAGE,
                         "%s: %s is a later checkpoint: --resume %s continues from there, --overwrite removes "
                         "everything after step %" PRId64,
                         r->path, later, o->out, r->progress.step);
  free_paths(paths, n);
  return status == RONDE_OK ? remove_checkpoints(o->out, r->progress.step) : status;
}

static ronde_status prepare(const ronde__job *job) {
  const char *out = job->options->out;
  RONDE_TRY(ronde__outputs_go_on(job) ? cut_behind(job) : outputs_make_room(job));
  char *inner = ronde__format("%s/" RONDE__CHECKPOINT_FOLDER, out);
  if (!inner) return fail_memory(out);
  ronde__file_sweep(out);
  ronde__file_sweep(inner);
  free(inner);
  return RONDE_OK;
}

ronde_status ronde__outputs_claim(const ronde__job *job, ronde__lock **lock_out) {
  const char *out = job->options->out;
  ronde__lock *lock;
  RONDE_TRY(ronde__folder_make(out));
  char *what = ronde__format("--out %s", out);
  if (!what) return fail_memory(out);
  ronde_status status = ronde__lock_take(out, what, &lock);
  free(what);
  RONDE_TRY(status);
  status = prepare(job);
  if (status == RONDE_OK) *lock_out = lock;
  else ronde__lock_give(lock);
  return status;
}

/* ---- a run that is complete ---- */

ronde_status ronde__outputs_from_checkpoint(const ronde__job *job) {
  const ronde__options *o = job->options;
  ronde_status status = RONDE_OK;
  char *last = ronde__format("%s/" RONDE__LAST_NAME, o->out);
  if (!last) return fail_memory(o->out);
  if (o->save_last && access(last, F_OK)) status = ronde__weights_export(job->resume->file, last, NULL, NULL);
  free(last);
  if (status == RONDE_OK && o->save) status = ronde__weights_export(job->resume->file, o->save, NULL, NULL);
  return status;
}
