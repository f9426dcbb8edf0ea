/* A Chrome trace of the spans of several ranks: a process for each, with a row of phases and one of ops. The file is
 * whole or absent. */
#ifndef RONDE_TRACE_H
#define RONDE_TRACE_H

#include "prof/spans.h"

/* At at_ns by a rank's clock it was ahead_ns ahead of the clock that the trace counts by, error_ns more or less. */
typedef struct ronde__clock_reading {
  uint64_t at_ns;
  int64_t ahead_ns;
  uint64_t error_ns;
} ronde__clock_reading;

typedef struct ronde__trace_rank {
  int rank;
  const char *host; /* NULL: not told */
  const ronde__prof_op *ops;
  int n_ops;
  uint64_t first_ns; /* when its first span begins, by its clock; UINT64_MAX: it has none */
  int64_t n_dropped;
  /* Two, the second later: in between drift is taken as linear, outside as none. Zeros: it is the trace's clock. */
  ronde__clock_reading clock[2];
} ronde__trace_rank;

/* A ledger's; its spans are in the ledger. */
ronde__trace_rank ronde__trace_rank_of(const ronde__prof *prof);

typedef struct ronde__trace ronde__trace;

/* ranks [n_ranks] are borrowed until the end; their ops may come later, in front of the first of their spans. Times
 * count from the first span of any rank. RONDE_E_WRITE. */
ronde_status ronde__trace_open(const char *path, const ronde__trace_rank *ranks, int n_ranks, ronde__trace **trace_out);
/* Spans of rank i of them, as its clock has them. What cannot be written shows at the end. */
void ronde__trace_add(ronde__trace *trace, int i, const ronde__span *spans, int n_spans);
/* Frees in any case. Under otherData the file has the dropped spans of each rank, what its clock was ahead and drifted,
 * and the error of that. RONDE_E_WRITE. */
ronde_status ronde__trace_close(ronde__trace *trace);
/* Leaves no file. NULL is taken. */
void ronde__trace_abandon(ronde__trace *trace);

#endif
