/* The inside of a ledger, for those who write it out. */
#ifndef RONDE_SPANS_H
#define RONDE_SPANS_H

#include "prof/prof.h"

/* A phase (what < RONDE__N_PHASES), or the op of slot what - RONDE__N_PHASES. */
typedef struct ronde__span {
  uint64_t begin_ns, end_ns;
  int32_t what;
} ronde__span;

/* Blocks are added as they fill: no span is ever copied, and a short run stays small. */
enum { RONDE__SPANS_PER_BLOCK = 1 << 14 };

typedef struct ronde__span_block {
  struct ronde__span_block *next;
  int n_spans;
  ronde__span spans[RONDE__SPANS_PER_BLOCK];
} ronde__span_block;

struct ronde__prof {
  int rank;
  ronde__time *time;
  bool trace;
  int open; /* phase, or -1 before the first switch */
  uint64_t opened_ns;
  uint64_t totals[RONDE__N_PHASES];
  ronde__prof_op *ops;
  int n_ops, ops_capacity;
  ronde__span_block *first, *last;
  ronde__span *last_phase; /* in the blocks, or NULL */
  int64_t n_spans, n_dropped;
};

#endif
