/* The Chrome trace of all ranks, written event by event. */
#include "prof/trace.h"

#include "base/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROW_PHASES, ROW_OPS };

struct ronde__trace {
  FILE *file; /* of the temporary name */
  char *path, *temporary;
  const ronde__trace_rank *ranks;
  int n_ranks;
  uint64_t zero_ns; /* on the trace's clock */
  const char *separator;
  int error; /* the first errno of writing; 0: none */
};

static void write_string(FILE *file, const char *text) {
  fputc('"', file);
  for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
    if (*p == '"' || *p == '\\') fputc('\\', file);
    if (*p < 0x20) fprintf(file, "\\u%04x", *p);
    else fputc(*p, file);
  }
  fputc('"', file);
}

static void write_name(ronde__trace *trace, int rank, int row, const char *kind, const char *name) {
  fprintf(trace->file, "%s{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,", trace->separator, rank, row);
  fprintf(trace->file, "\"name\":\"%s\",\"args\":{\"name\":", kind);
  write_string(trace->file, name);
  fputs("}}", trace->file);
  trace->separator = ",\n";
}

static void write_names(ronde__trace *trace, const ronde__trace_rank *rank) {
  char name[128];
  snprintf(name, sizeof name, "rank %d%s%.64s", rank->rank, rank->host ? " on " : "", rank->host ? rank->host : "");
  write_name(trace, rank->rank, ROW_PHASES, "process_name", name);
  write_name(trace, rank->rank, ROW_PHASES, "thread_name", "phases");
  write_name(trace, rank->rank, ROW_OPS, "thread_name", "ops");
}

/* On the trace's clock. Keeps the order of times, as no clock drifts by half. */
static uint64_t on_trace(const ronde__clock_reading clock[2], uint64_t ns) {
  double length = (double)(int64_t)(clock[1].at_ns - clock[0].at_ns), at = (double)(int64_t)(ns - clock[0].at_ns);
  double part = length > 0 ? fmin(fmax(at / length, 0), 1) : 0;
  double drift = (double)(clock[1].ahead_ns - clock[0].ahead_ns);
  return ns - (uint64_t)(clock[0].ahead_ns + llround(part * drift));
}

static void note_error(ronde__trace *trace) {
  if (!trace->error && ferror(trace->file)) trace->error = errno ? errno : EIO;
}

void ronde__trace_add(ronde__trace *trace, int i, const ronde__span *spans, int n_spans) {
  const ronde__trace_rank *rank = &trace->ranks[i];
  FILE *file = trace->file;
  errno = 0;
  for (const ronde__span *span = spans; span < spans + n_spans && !trace->error; span++) {
    bool phase = span->what < RONDE__N_PHASES;
    const ronde__prof_op *op = phase ? NULL : &rank->ops[span->what - RONDE__N_PHASES];
    uint64_t begin = on_trace(rank->clock, span->begin_ns), at = begin - trace->zero_ns;
    uint64_t ns = on_trace(rank->clock, span->end_ns) - begin;
    fprintf(file, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%" PRIu64 ".%03d,\"dur\":%" PRIu64 ".%03d,\"name\":",
            rank->rank, phase ? ROW_PHASES : ROW_OPS, at / 1000, (int)(at % 1000), ns / 1000, (int)(ns % 1000));
    write_string(file, phase ? ronde__phase_name((ronde__phase)span->what) : op->op);
    if (op) {
      fprintf(file, ",\"args\":{\"phase\":\"%s\",\"implementation\":", ronde__phase_name(op->phase));
      write_string(file, op->implementation);
      fputc('}', file);
    }
    fputc('}', file);
    note_error(trace);
  }
}

static void write_other_data(ronde__trace *trace) {
  FILE *file = trace->file;
  fputs("\n],\"otherData\":{\"dropped_spans\":{", file);
  for (int i = 0; i < trace->n_ranks; i++)
    fprintf(file, "%s\"rank %d\":%" PRId64, i ? "," : "", trace->ranks[i].rank, trace->ranks[i].n_dropped);
  fputs("},\"clocks\":{", file);
  for (int i = 0; i < trace->n_ranks; i++) {
    const ronde__clock_reading *clock = trace->ranks[i].clock;
    uint64_t error_ns = clock[0].error_ns > clock[1].error_ns ? clock[0].error_ns : clock[1].error_ns;
    fprintf(file, "%s\"rank %d\":{\"ahead_us\":%.3f,\"drift_us\":%.3f,\"error_us\":%.3f}", i ? "," : "",
            trace->ranks[i].rank, 1e-3 * (double)clock[0].ahead_ns,
            1e-3 * (double)(clock[1].ahead_ns - clock[0].ahead_ns), 1e-3 * (double)error_ns);
  }
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

static void release(ronde__trace *trace) {
  free(trace->temporary);
  free(trace->path);
  ronde__free(trace);
}

static ronde_status cannot_write(const char *path, int error) {
  return ronde__fail(RONDE_E_WRITE, "%s: cannot write the trace: %s", path, strerror(error));
}

static ronde_status begin_file(ronde__trace *trace, const char *path) {
  trace->path = ronde__strdup(path);
  trace->temporary = ronde__format("%s.%ld.part", path, (long)getpid());
  if (!trace->path || !trace->temporary) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for its name", path);
  struct stat info; /* a rename onto a device or a pipe would put a plain file in its place */
  if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
    return ronde__fail(RONDE_E_WRITE, "%s: cannot replace it: not a regular file", path);
  trace->file = fopen(trace->temporary, "we");
  return trace->file ? RONDE_OK : cannot_write(path, errno);
}

ronde_status ronde__trace_open(const char *path, const ronde__trace_rank *ranks, int n_ranks,
                               ronde__trace **trace_out) {
  ronde__trace *trace;
  RONDE__ALLOC(trace, sizeof *trace, path);
  *trace = (ronde__trace){.ranks = ranks, .n_ranks = n_ranks, .zero_ns = UINT64_MAX, .separator = ""};
  ronde_status status = begin_file(trace, path);
  if (status != RONDE_OK) {
    release(trace);
    return status;
  }
  for (int i = 0; i < n_ranks; i++) {
    uint64_t first = on_trace(ranks[i].clock, ranks[i].first_ns);
    if (ranks[i].first_ns != UINT64_MAX && first < trace->zero_ns) trace->zero_ns = first;
  }
  errno = 0;
  fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", trace->file);
  for (int i = 0; i < n_ranks; i++) write_names(trace, &ranks[i]);
  note_error(trace);
  *trace_out = trace;
  return RONDE_OK;
}

ronde_status ronde__trace_close(ronde__trace *trace) {
  errno = 0;
  write_other_data(trace);
  note_error(trace);
  int error = trace->error;
  if (!error && (ronde__disk_fails() || fflush(trace->file) != 0 || fsync(fileno(trace->file)) != 0)) error = errno;
  if (fclose(trace->file) != 0 && !error) error = errno;
  if (!error && rename(trace->temporary, trace->path) != 0) error = errno;
  if (error) unlink(trace->temporary);
  else if (sync_folder_of(trace->path) != 0) error = errno;
  ronde_status status = error ? cannot_write(trace->path, error) : RONDE_OK;
  release(trace);
  return status;
}

void ronde__trace_abandon(ronde__trace *trace) {
  if (!trace) return;
  fclose(trace->file);
  unlink(trace->temporary);
  release(trace);
}

/* Spans are kept in the order of their ends: the first to begin may be any. */
ronde__trace_rank ronde__trace_rank_of(const ronde__prof *prof) {
  ronde__trace_rank rank = {.rank = prof->rank, .first_ns = UINT64_MAX, .n_dropped = prof->n_dropped};
  rank.ops = ronde__prof_ops(prof, &rank.n_ops);
  for (const ronde__span_block *block = prof->first; block; block = block->next)
    for (int i = 0; i < block->n_spans; i++)
      if (block->spans[i].begin_ns < rank.first_ns) rank.first_ns = block->spans[i].begin_ns;
  return rank;
}

ronde_status ronde__prof_write_trace(ronde__prof *const *profs, int n_profs, const char *path) {
  ronde__trace_rank *ranks;
  ronde__trace *trace;
  RONDE__ALLOC(ranks, (size_t)n_profs * sizeof *ranks, path);
  for (int i = 0; i < n_profs; i++) ranks[i] = ronde__trace_rank_of(profs[i]);
  ronde_status status = ronde__trace_open(path, ranks, n_profs, &trace);
  if (status == RONDE_OK) {
    for (int i = 0; i < n_profs; i++)
      for (const ronde__span_block *block = profs[i]->first; block; block = block->next)
        ronde__trace_add(trace, i, block->spans, block->n_spans);
    status = ronde__trace_close(trace);
  }
  ronde__free(ranks);
  return status;
}
