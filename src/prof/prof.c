/* The ledger: phase totals, rows of ops, spans for the trace. */
#include "prof/prof.h"

#include <stdlib.h>
#include <string.h>

#include "prof/spans.h"

/* 96 MB a rank: some ten minutes of small steps. */
#define MAX_SPANS ((int64_t)4 << 20)

static const char *const phase_names[] = {
#define RONDE_X(name, text) text,
    RONDE__PHASE_LIST(RONDE_X)
#undef RONDE_X
};

const char *ronde__phase_name(ronde__phase phase) { return phase_names[phase]; }

ronde_status ronde__prof_create(int rank, ronde__time *time, bool trace, ronde__prof **prof_out) {
  ronde__prof *prof;
  RONDE__ALLOC(prof, sizeof *prof, "ledger");
  prof->rank = rank;
  prof->time = time;
  prof->trace = trace;
  prof->open = -1;
  *prof_out = prof;
  return RONDE_OK;
}

void ronde__prof_destroy(ronde__prof *prof) {
  if (!prof) return;
  for (ronde__span_block *block = prof->first, *next; block; block = next) {
    next = block->next;
    free(block);
  }
  for (int i = 0; i < prof->n_ops; i++) {
    free((char *)prof->ops[i].op);
    free((char *)prof->ops[i].implementation);
  }
  free(prof->ops);
  ronde__free(prof);
}

/* Where no memory is left the run matters more than its trace: the span is counted as dropped. */
static ronde__span *span_add(ronde__prof *prof, uint64_t begin_ns, uint64_t end_ns, int what) {
  ronde__span_block *block = prof->last;
  if (!block || block->n_spans == RONDE__SPANS_PER_BLOCK) {
    block = prof->n_spans < MAX_SPANS ? malloc(sizeof *block) : NULL;
    if (!block) {
      prof->n_dropped++;
      return NULL;
    }
    block->next = NULL;
    block->n_spans = 0;
    if (prof->last) prof->last->next = block;
    else prof->first = block;
    prof->last = block;
  }
  prof->n_spans++;
  ronde__span *span = &block->spans[block->n_spans++];
  *span = (ronde__span){begin_ns, end_ns, what};
  return span;
}

uint64_t ronde__prof_now(const ronde__prof *prof) { return ronde__time_now(prof ? prof->time : NULL); }

uint64_t ronde__prof_switch(ronde__prof *prof, ronde__phase phase) {
  uint64_t now = ronde__prof_now(prof);
  if (!prof) return now;
  if (prof->open >= 0) {
    prof->totals[prof->open] += now - prof->opened_ns;
    if (prof->trace) prof->last_phase = span_add(prof, prof->opened_ns, now, prof->open);
  }
  prof->open = (int)phase;
  prof->opened_ns = now;
  return now;
}

ronde__phase ronde__prof_phase(const ronde__prof *prof) {
  return prof && prof->open >= 0 ? (ronde__phase)prof->open : RONDE__PHASE_OTHER;
}

void ronde__prof_move(ronde__prof *prof, ronde__phase from, ronde__phase to, uint64_t ns) {
  if (!prof) return;
  if (ns > prof->totals[from]) ns = prof->totals[from];
  prof->totals[from] -= ns;
  prof->totals[to] += ns;
  ronde__span *span = prof->last_phase;
  if (!span || from == to || ns == 0 || span->what != (int32_t)from || span->end_ns - span->begin_ns < ns) return;
  uint64_t end_ns = span->end_ns;
  span->what = (int32_t)to;
  span->end_ns = span->begin_ns + ns;
  if (span->end_ns < end_ns) prof->last_phase = span_add(prof, span->end_ns, end_ns, (int)from);
}

void ronde__prof_totals(const ronde__prof *prof, uint64_t ns_out[RONDE__N_PHASES]) {
  if (prof) memcpy(ns_out, prof->totals, sizeof prof->totals);
  else memset(ns_out, 0, RONDE__N_PHASES * sizeof *ns_out);
}

void ronde__prof_totals_at(const ronde__prof *prof, uint64_t now_ns, uint64_t ns_out[RONDE__N_PHASES]) {
  ronde__prof_totals(prof, ns_out);
  if (prof && prof->open >= 0) ns_out[prof->open] += now_ns - prof->opened_ns;
}

int ronde__prof_op_slot(ronde__prof *prof, const char *op, ronde__phase phase, const char *implementation) {
  if (!prof) return -1;
  for (int i = 0; i < prof->n_ops; i++) {
    const ronde__prof_op *row = &prof->ops[i];
    if (row->phase == phase && !strcmp(row->op, op) && !strcmp(row->implementation, implementation)) return i;
  }
  if (prof->n_ops == prof->ops_capacity) {
    int capacity = prof->ops_capacity ? 2 * prof->ops_capacity : 32;
    ronde__prof_op *ops = realloc(prof->ops, sizeof *ops * (size_t)capacity);
    if (!ops) {
      ronde__fail(RONDE_E_MEMORY, "ledger: no memory for %d rows of ops", capacity);
      return -1;
    }
    prof->ops = ops;
    prof->ops_capacity = capacity;
  }
  char *name = ronde__strdup(op), *text = ronde__strdup(implementation);
  if (!name || !text) {
    free(name), free(text);
    ronde__fail(RONDE_E_MEMORY, "ledger: no memory for the row of %s", op);
    return -1;
  }
  prof->ops[prof->n_ops] = (ronde__prof_op){.op = name, .implementation = text, .phase = phase};
  return prof->n_ops++;
}

void ronde__prof_op_bytes(ronde__prof *prof, int slot, double bytes) {
  if (prof && slot >= 0) prof->ops[slot].bytes = bytes;
}

void ronde__prof_op_add(ronde__prof *prof, int slot, uint64_t begin_ns, uint64_t end_ns, double flops) {
  if (!prof || slot < 0 || prof->open == RONDE__PHASE_EVAL) return;
  ronde__prof_op *row = &prof->ops[slot];
  row->calls++;
  row->ns += end_ns - begin_ns;
  row->flops += flops;
  if (prof->trace) span_add(prof, begin_ns, end_ns, RONDE__N_PHASES + slot);
}

const ronde__prof_op *ronde__prof_ops(const ronde__prof *prof, int *n_out) {
  *n_out = prof ? prof->n_ops : 0;
  return prof ? prof->ops : NULL;
}
