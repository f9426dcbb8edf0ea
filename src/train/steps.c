#include "train/record.h"

#include "io/file.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLUSH_NS 1000000000u

struct ronde__steps {
  FILE *file;
  char *path;
  ronde_status status;
  uint64_t flushed_ns;
  locale_t c_locale; /* an embedder may have chosen a locale whose decimal point is a comma */
};

static ronde_status write_failed(ronde__steps *steps) {
  return steps->status = ronde__fail(RONDE_E_WRITE, "%s: cannot write: %s", steps->path, strerror(errno));
}

static ronde_status remove_older(const char *folder, const char *name) {
  char *path = ronde__format("%s/%s", folder, name);
  if (!path) return ronde__fail(RONDE_E_MEMORY, "%s/%s: no memory", folder, name);
  ronde_status status = RONDE_OK;
  if (unlink(path) && errno != ENOENT) {
    status = ronde__fail(RONDE_E_WRITE, "%s: cannot replace: %s", path, strerror(errno));
  }
  free(path);
  return status;
}

/* A process that was killed may have left half a line. */
static ronde_status cut_half_line(const char *path) {
  FILE *file = fopen(path, "r+e");
  if (!file)
    return errno == ENOENT ? RONDE_OK : ronde__fail(RONDE_E_WRITE, "%s: cannot go on: %s", path, strerror(errno));
  long whole = 0;
  int failed = fseek(file, 0, SEEK_END);
  for (long at = failed ? 0 : ftell(file); at > 0 && !whole; at--) {
    failed |= fseek(file, at - 1, SEEK_SET);
    if (failed || getc(file) == '\n') whole = at;
  }
  failed |= failed || ftruncate(fileno(file), whole);
  int error = errno;
  fclose(file);
  return failed ? ronde__fail(RONDE_E_WRITE, "%s: cannot go on: %s", path, strerror(error)) : RONDE_OK;
}

ronde_status ronde__steps_open(const char *folder, bool go_on, ronde__steps **steps_out) {
  RONDE_TRY(ronde__folder_make(folder));
  ronde__steps *steps = calloc(1, sizeof *steps);
  ronde_status status = RONDE_E_MEMORY;
  if (!steps || !(steps->path = ronde__format("%s/steps.jsonl", folder)) ||
      !(steps->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0))) {
    ronde__fail(status, "%s/steps.jsonl: no memory", folder);
    goto close;
  }
  /* The folder itself is tried by the removal and by this new file; run.json will be made beside it. */
  status = remove_older(folder, "run.json");
  if (!status) status = remove_older(folder, "trace.json");
  if (!status) status = go_on ? cut_half_line(steps->path) : remove_older(folder, "steps.jsonl");
  if (status) goto close;
  steps->file = fopen(steps->path, go_on ? "ae" : "we");
  if (!steps->file) {
    status = write_failed(steps);
    goto close;
  }
  setvbuf(steps->file, NULL, _IOFBF, 1 << 16);
  steps->flushed_ns = ronde__now_ns();
  *steps_out = steps;
  return RONDE_OK;
close:
  ronde__steps_close(steps);
  return status;
}

/* JSON knows no NaN: null. */
static const char *number(double value, int digits, char text_out[32]) {
  if (!isfinite(value)) return "null";
  snprintf(text_out, 32, "%.*g", digits, value);
  return text_out;
}

enum { RANKS_BYTES = 16 + 6 * RONDE__SET_RANKS };

/* A field of its own, or nothing. */
static const char *ranks(const ronde__rank_set *set, char text_out[RANKS_BYTES]) {
  size_t used = 0, n = 0;
  text_out[0] = 0;
  if (!set) return text_out;
  used += (size_t)snprintf(text_out, RANKS_BYTES, ",\"left_out\":[");
  for (int i = 0; i < RONDE__SET_RANKS; i++)
    if (ronde__rank_set_has(set, i))
      used += (size_t)snprintf(text_out + used, RANKS_BYTES - used, "%s%d", n++ ? "," : "", i);
  snprintf(text_out + used, RANKS_BYTES - used, "]");
  return text_out;
}

ronde_status ronde__steps_add(ronde__steps *steps, const ronde__steps_line *line) {
  if (steps->status) return steps->status;
  char loss[32], lr[32], wall[32], left_out[RANKS_BYTES];
  locale_t before = uselocale(steps->c_locale);
  int written =
      fprintf(steps->file, "{\"step\":%lld,\"epoch\":%lld,\"loss\":%s,\"lr\":%s,\"examples\":%lld,\"wall_s\":%s%s}\n",
              (long long)line->step, (long long)line->epoch, number(line->loss, 9, loss), number(line->lr, 15, lr),
              (long long)line->examples, number(line->wall_s, 9, wall), ranks(line->left_out, left_out));
  uselocale(before);
  if (written < 0) return write_failed(steps);
  uint64_t now = ronde__now_ns();
  if (now - steps->flushed_ns < FLUSH_NS) return RONDE_OK;
  steps->flushed_ns = now;
  return fflush(steps->file) ? write_failed(steps) : RONDE_OK;
}

ronde_status ronde__steps_flush(ronde__steps *steps) {
  if (steps->status) return steps->status;
  steps->flushed_ns = ronde__now_ns();
  return fflush(steps->file) ? write_failed(steps) : RONDE_OK;
}

ronde_status ronde__steps_close(ronde__steps *steps) {
  if (!steps) return RONDE_OK;
  if (steps->file && fclose(steps->file) && !steps->status) write_failed(steps);
  ronde_status status = steps->status;
  if (steps->c_locale) freelocale(steps->c_locale);
  free(steps->path);
  free(steps);
  return status;
}
