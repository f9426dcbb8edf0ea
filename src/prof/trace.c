#include "prof/prof.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "prof/spans.h"

enum { ROW_PHASES, ROW_OPS };

static void write_string(FILE *file, const char *text) {
  fputc('"', file);
  for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
    if (*p == '"' || *p == '\\') fputc('\\', file);
    if (*p < 0x20) fprintf(file, "\\u%04x", *p);
    else fputc(*p, file);
  }
  fputc('"', file);
}

static void write_name(FILE *file, const char **separator, int rank, int row, const char *kind, const char *name) {
  fprintf(file, "%s{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,", *separator, rank, row);
  fprintf(file, "\"name\":\"%s\",\"args\":{\"name\":\"%s\"}}", kind, name);
  *separator = ",\n";
}

static void write_rank(FILE *file, const ronde__prof *prof, uint64_t zero_ns, const char **separator) {
  char name[32];
  snprintf(name, sizeof name, "rank %d", prof->rank);
  write_name(file, separator, prof->rank, ROW_PHASES, "process_name", name);
  write_name(file, separator, prof->rank, ROW_PHASES, "thread_name", "phases");
  write_name(file, separator, prof->rank, ROW_OPS, "thread_name", "ops");
  for (const ronde__span_block *block = prof->first; block && !ferror(file); block = block->next)
    for (int i = 0; i < block->n_spans; i++) {
      const ronde__span *span = &block->spans[i];
      bool phase = span->what < RONDE__N_PHASES;
      const ronde__prof_op *op = phase ? NULL : &prof->ops[span->what - RONDE__N_PHASES];
      uint64_t at = span->begin_ns - zero_ns, ns = span->end_ns - span->begin_ns;
      fprintf(file, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%" PRIu64 ".%03d,\"dur\":%" PRIu64 ".%03d,\"name\":",
              prof->rank, phase ? ROW_PHASES : ROW_OPS, at / 1000, (int)(at % 1000), ns / 1000, (int)(ns % 1000));
      write_string(file, phase ? ronde__phase_name((ronde__phase)span->what) : op->op);
      if (op) {
        fprintf(file, ",\"args\":{\"phase\":\"%s\",\"implementation\":", ronde__phase_name(op->phase));
        write_string(file, op->implementation);
        fputc('}', file);
      }
      fputc('}', file);
    }
}

static void write_all(FILE *file, ronde__prof *const *profs, int n_profs) {
  /* Spans are kept in the order of their ends: the first to begin may be any. */
  uint64_t zero_ns = UINT64_MAX;
  for (int r = 0; r < n_profs; r++)
    for (const ronde__span_block *block = profs[r]->first; block; block = block->next)
      for (int i = 0; i < block->n_spans; i++)
        if (block->spans[i].begin_ns < zero_ns) zero_ns = block->spans[i].begin_ns;
  const char *separator = "";
  fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", file);
  for (int r = 0; r < n_profs; r++) write_rank(file, profs[r], zero_ns, &separator);
  fputs("\n],\"otherData\":{\"dropped_spans\":{", file);
  for (int r = 0; r < n_profs; r++)
    fprintf(file, "%s\"rank %d\":%" PRId64, r ? "," : "", profs[r]->rank, profs[r]->n_dropped);
  fputs("}}}\n", file);
}

/* The rename lasts through a crash only when the folder is on the disk too. */
static int sync_folder_of(const char *path) {
  const char *slash = strrchr(path, '/');
  char *folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
  if (!folder) return -1;
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  free(folder);
  if (fd < 0) return -1;
  int result = fsync(fd);
  close(fd);
  return result;
}

static int write_file(const char *path, const char *temporary, ronde__prof *const *profs, int n_profs) {
  FILE *file = fopen(temporary, "we");
  if (!file) return errno;
  errno = 0;
  write_all(file, profs, n_profs);
  int error = 0;
  if (ferror(file) || fflush(file) != 0 || fsync(fileno(file)) != 0) error = errno ? errno : EIO;
  if (fclose(file) != 0 && !error) error = errno;
  if (!error && rename(temporary, path) != 0) error = errno;
  if (error) unlink(temporary);
  else if (sync_folder_of(path) != 0) error = errno;
  return error;
}

ronde_status ronde__prof_write_trace(ronde__prof *const *profs, int n_profs, const char *path) {
  char *temporary = ronde__format("%s.%ld.part", path, (long)getpid());
  if (!temporary) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for its name", path);
  int error = write_file(path, temporary, profs, n_profs);
  free(temporary);
  if (error) return ronde__fail(RONDE_E_WRITE, "%s: cannot write the trace: %s", path, strerror(error));
  return RONDE_OK;
}
