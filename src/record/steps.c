/* steps.jsonl: one line a step, and which lines stay when a run is resumed. */
#include "record/record.h"

#include "base/disk.h"
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FLUSH_NS 1000000000u

struct ronde__steps {
  FILE *file;
  char *path;
  ronde_status status;
  uint64_t flushed_ns;
};

static ronde_status steps_write_failed(ronde__steps *steps) {
  return steps->status = ronde__fail(RONDE_E_WRITE, "%s: cannot write: %s", steps->path, strerror(errno));
}

static ronde_status steps_remove_older(const char *folder, const char *name) {
  char *path = ronde__format("%s/%s", folder, name);
  if (!path) return ronde__fail(RONDE_E_MEMORY, "%s/%s: no memory", folder, name);
  ronde_status status = RONDE_OK;
  if (unlink(path) && errno != ENOENT) {
    status = ronde__fail(RONDE_E_WRITE, "%s: cannot replace: %s", path, strerror(errno));
  }
  free(path);
  return status;
}

/* ---- what stays of an older file ---- */

typedef struct steps_line {
  int64_t step;
  size_t begin, end;
} steps_line;

typedef struct steps_lines {
  steps_line *list; /* steps ascending */
  size_t n, capacity;
} steps_lines;

/* The step of a complete line, else -1: a killed process may have left half of one. */
static int64_t line_step(const char *text, size_t bytes) {
  static const char begin[] = "{\"step\":";
  char digits[24] = "", *end;
  size_t skip = sizeof begin - 1;
  if (bytes < skip + 2 || memcmp(text, begin, skip) || text[bytes - 1] != '\n') return -1;
  memcpy(digits, text + skip, (size_t)ronde__min((int64_t)(bytes - skip), (int64_t)sizeof digits - 1));
  long long step = strtoll(digits, &end, 10);
  return end > digits && *end == ',' ? step : -1;
}

/* Finds the lines of steps up to `kept`. Where a step was repeated its later line counts, and lines between the two
 * are dropped. */
static ronde_status steps_find_kept(const char *text, size_t bytes, int64_t kept, steps_lines *found) {
  for (size_t begin = 0, end; begin < bytes; begin = end) {
    const char *newline = memchr(text + begin, '\n', bytes - begin);
    end = newline ? (size_t)(newline - text) + 1 : bytes;
    int64_t step = line_step(text + begin, end - begin);
    if (step < 1 || step > kept) continue;
    while (found->n > 0 && found->list[found->n - 1].step >= step) found->n--;
    if (found->n == found->capacity) {
      steps_line *larger = realloc(found->list, (found->capacity = 2 * found->capacity + 64) * sizeof *larger);
      if (!larger) return ronde__fail(RONDE_E_MEMORY, "steps.jsonl: no memory for %zu lines", found->capacity);
      found->list = larger;
    }
    found->list[found->n++] = (steps_line){step, begin, end};
  }
  return RONDE_OK;
}

/* Neighbouring lines are written at once. */
static ronde_status steps_write_lines(const char *path, const char *text, const steps_lines *kept) {
  ronde__file_out out;
  RONDE_TRY(ronde__file_begin(path, &out));
  for (size_t i = 0, j; i < kept->n; i = j) {
    for (j = i + 1; j < kept->n && kept->list[j].begin == kept->list[j - 1].end;) j++;
    size_t begin = kept->list[i].begin;
    RONDE_TRY(ronde__file_append(&out, text + begin, kept->list[j - 1].end - begin));
  }
  return ronde__file_commit(&out);
}

static ronde_status steps_cut_text(const char *path, const char *text, size_t bytes, int64_t kept) {
  steps_lines found = {.n = 0};
  ronde_status status = steps_find_kept(text, bytes, kept, &found);
  size_t left = 0;
  for (size_t i = 0; i < found.n; i++) left += found.list[i].end - found.list[i].begin;
  if (status == RONDE_OK && left < bytes) status = steps_write_lines(path, text, &found);
  free(found.list);
  return status;
}

/* Steps that will be repeated are removed first, so that each step stands in the file once, whenever the process
 * ends. */
static ronde_status steps_cut_behind(const char *path, int64_t kept) {
  struct stat info;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) return RONDE_OK;
  bool readable = file >= 0 && fstat(file, &info) == 0;
  size_t bytes = readable ? (size_t)info.st_size : 0;
  void *text = bytes ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0) : NULL;
  int error = errno;
  if (file >= 0) close(file);
  if (!readable || text == MAP_FAILED)
    return ronde__fail(RONDE_E_WRITE, "%s: cannot continue it: %s", path, strerror(error));
  ronde_status status = bytes ? steps_cut_text(path, text, bytes, kept) : RONDE_OK;
  if (bytes) munmap(text, bytes);
  return status;
}

/* ---- writing ---- */

ronde_status ronde__steps_open(const char *folder, int64_t kept, ronde__steps **steps_out) {
  RONDE_TRY(ronde__folder_make(folder));
  ronde__steps *steps = calloc(1, sizeof *steps);
  ronde_status status = RONDE_E_MEMORY;
  if (!steps || !(steps->path = ronde__format("%s/steps.jsonl", folder))) {
    ronde__fail(status, "%s/steps.jsonl: no memory", folder);
    goto close;
  }
  /* The removal and this new file show that the folder can be written; run.json will be made beside it. */
  status = steps_remove_older(folder, "run.json");
  if (!status) status = steps_remove_older(folder, "trace.json");
  if (!status) status = kept > 0 ? steps_cut_behind(steps->path, kept) : steps_remove_older(folder, "steps.jsonl");
  if (status) goto close;
  steps->file = fopen(steps->path, kept > 0 ? "ae" : "we");
  if (!steps->file) {
    status = steps_write_failed(steps);
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
static const char *line_number(double value, int digits, char text_out[32]) {
  if (!isfinite(value)) return "null";
  snprintf(text_out, 32, "%.*g", digits, value);
  return text_out;
}

enum { RANKS_BYTES = 16 + 6 * RONDE__SET_RANKS };

/* Optional fields. */
static const char *steps_ranks(const ronde__rank_set *set, char text_out[RANKS_BYTES]) {
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
  char loss[32], lr[32], wall[32], left_out[RANKS_BYTES], evaluations[32] = "";
  if (line->n_evaluations) snprintf(evaluations, sizeof evaluations, ",\"evaluations\":%d", line->n_evaluations);
  locale_t before = uselocale(ronde__c_locale());
  int written =
      fprintf(steps->file, "{\"step\":%lld,\"epoch\":%lld,\"loss\":%s,\"lr\":%s,\"examples\":%lld,\"wall_s\":%s%s%s}\n",
              (long long)line->step, (long long)line->epoch, line_number(line->loss, 9, loss),
              line_number(line->lr, 15, lr), (long long)line->examples, line_number(line->wall_s, 9, wall),
              steps_ranks(line->left_out, left_out), evaluations);
  uselocale(before);
  if (written < 0) return steps_write_failed(steps);
  uint64_t now = ronde__now_ns();
  if (now - steps->flushed_ns < FLUSH_NS) return RONDE_OK;
  steps->flushed_ns = now;
  return ronde__disk_fails() || fflush(steps->file) ? steps_write_failed(steps) : RONDE_OK;
}

ronde_status ronde__steps_flush(ronde__steps *steps) {
  if (steps->status) return steps->status;
  steps->flushed_ns = ronde__now_ns();
  return ronde__disk_fails() || fflush(steps->file) ? steps_write_failed(steps) : RONDE_OK;
}

ronde_status ronde__steps_close(ronde__steps *steps) {
  if (!steps) return RONDE_OK;
  if (steps->file && ronde__disk_fails()) {
    if (!steps->status) steps_write_failed(steps);
    __fpurge(steps->file);
  }
  if (steps->file && fclose(steps->file) && !steps->status) steps_write_failed(steps);
  ronde_status status = steps->status;
  free(steps->path);
  free(steps);
  return status;
}
