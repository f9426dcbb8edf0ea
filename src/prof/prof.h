/* The ledger of one rank: where each nanosecond went. One phase is open at any time, so phases add up to the wall
 * time exactly; per-op spans lie inside forward, backward and update. One rank's thread writes, without locks; read
 * when it rests.
 * prof NULL is a ledger that keeps nothing, by the machine's clock. */
#ifndef RONDE_PROF_H
#define RONDE_PROF_H

#include "base/time.h"

#define RONDE__PHASE_LIST(X) \
  X(LOAD, "load")            \
  X(FORWARD, "forward")      \
  X(BACKWARD, "backward")    \
  X(EXCHANGE, "exchange")    \
  X(WAIT, "wait") X(UPDATE, "update") X(OTHER, "other") X(EVAL, "eval") X(CHECKPOINT, "checkpoint")

typedef enum ronde__phase {
#define RONDE_X(name, text) RONDE__PHASE_##name,
  RONDE__PHASE_LIST(RONDE_X)
#undef RONDE_X
      RONDE__N_PHASES
} ronde__phase;

const char *ronde__phase_name(ronde__phase phase);

typedef struct ronde__prof ronde__prof;

/* One row of the per-op table: equal (op, phase, implementation) share a row. */
typedef struct ronde__prof_op {
  const char *op, *implementation; /* the ledger's own copies */
  ronde__phase phase;
  int64_t calls;
  uint64_t ns;
  double flops; /* executed, over all calls */
  double bytes; /* that one call must move; 0: not told */
} ronde__prof_op;

/* By the rank's clock. trace: also keep every span for the Chrome trace (bounded; what no longer fits is counted). */
ronde_status ronde__prof_create(int rank, ronde__time *time, bool trace, ronde__prof **prof_out);
void ronde__prof_destroy(ronde__prof *prof);

uint64_t ronde__prof_now(const ronde__prof *prof);
/* Closes the open phase now and opens `phase`; returns the time of the switch. The first call opens the ledger. */
uint64_t ronde__prof_switch(ronde__prof *prof, ronde__phase phase);
/* The open phase; other where there is none. */
ronde__phase ronde__prof_phase(const ronde__prof *prof);
/* Moves ns from a closed phase to another after the fact (what of an exchange was waiting); at most what `from`
 * holds. In the trace the moved part becomes the beginning of the last closed span, where that is of phase `from` and
 * long enough. */
void ronde__prof_move(ronde__prof *prof, ronde__phase from, ronde__phase to, uint64_t ns);
/* Phase totals since the ledger was opened, up to the last switch. */
void ronde__prof_totals(const ronde__prof *prof, uint64_t ns_out[RONDE__N_PHASES]);
/* The same with the open phase, up to a time since the last switch. */
void ronde__prof_totals_at(const ronde__prof *prof, uint64_t now_ns, uint64_t ns_out[RONDE__N_PHASES]);

/* The row of an op, made where it is new; to be looked up once, when a plan is made. -1: no memory (logged), or prof
 * NULL. */
int ronde__prof_op_slot(ronde__prof *prof, const char *op, ronde__phase phase, const char *implementation);
/* Tells what a call of the row must move at least: operands and results, each once. */
void ronde__prof_op_bytes(ronde__prof *prof, int slot, double bytes);
/* Adds one call of `flops` executed operations between two times (both from ronde__prof_now). Slot -1: nothing; nor in
 * phase eval, which stands apart: the table explains the phases of training. */
void ronde__prof_op_add(ronde__prof *prof, int slot, uint64_t begin_ns, uint64_t end_ns, double flops);
/* Owned by prof, valid until the next new row. */
const ronde__prof_op *ronde__prof_ops(const ronde__prof *prof, int *n_out);

/* Writes the spans of ranks of one process as a Chrome trace (trace.h). RONDE_E_WRITE. */
ronde_status ronde__prof_write_trace(ronde__prof *const *profs, int n_profs, const char *path);

#endif
