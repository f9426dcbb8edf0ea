/* What the ranks tell rank 0 at the end of a run: they may be processes on other hosts. */
#include "train/rank.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TAG_FACTS = 1, TAG_ROWS = 2 };

/* A row of the per-op table on its way. */
typedef struct row {
  char op[64], implementation[64];
  int64_t phase, calls;
  uint64_t ns;
  double flops;
} row;

static ronde__rank_facts own_facts(const ronde__rank *r) {
  const ronde__transport *transport = r->transport;
  ronde__rank_facts facts = {.peak_rss_bytes = transport->process_each ? ronde__peak_rss_bytes() : -1,
                             .bytes_sent = transport->bytes_sent,
                             .bytes_received = transport->bytes_received,
                             .messages = transport->messages,
                             .cpu_ns = transport->process_each || transport->rank == 0 ? ronde__cpu_ns() : 0,
                             .bus_ns = r->worker.bus_ns,
                             .bus_bytes = r->worker.bus_bytes};
  int n_ops;
  ronde__prof_ops(r->prof, &n_ops);
  facts.n_ops = n_ops;
  gethostname(facts.host, sizeof facts.host - 1);
  return facts;
}

static ronde_status pack_rows(const ronde__rank *r, row **rows_out) {
  int n;
  const ronde__prof_op *ops = ronde__prof_ops(r->prof, &n);
  row *rows;
  RONDE__ALLOC(rows, (size_t)ronde__max(1, n) * sizeof *rows, "report");
  for (int i = 0; i < n; i++) {
    rows[i] = (row){.phase = ops[i].phase, .calls = ops[i].calls, .ns = ops[i].ns, .flops = ops[i].flops};
    snprintf(rows[i].op, sizeof rows[i].op, "%s", ops[i].op);
    snprintf(rows[i].implementation, sizeof rows[i].implementation, "%s", ops[i].implementation);
  }
  *rows_out = rows;
  return RONDE_OK;
}

/* Rank 0's own rows, then everybody's as they come: memory of the rank, as the texts are. */
static ronde_status receive_rows(ronde__rank *r, const row *own) {
  int n = 0, at = 0, world = r->job->world;
  uint32_t tag = RONDE__WIRE_TAG(TAG_ROWS, 0);
  for (int i = 0; i < world; i++) n += r->facts[i].n_ops;
  row *rows;
  RONDE__ALLOC(rows, (size_t)ronde__max(1, n) * sizeof *rows, "report");
  r->op_rows = rows;
  RONDE__ALLOC(r->ops, (size_t)ronde__max(1, n) * sizeof *r->ops, "report");
  memcpy(rows, own, (size_t)r->facts[0].n_ops * sizeof *rows);
  for (int i = 0; i < world; at += r->facts[i++].n_ops)
    if (i > 0) RONDE_TRY(ronde__transport_receive(r->transport, i, tag, rows + at, (size_t)r->facts[i].n_ops * sizeof *rows));
  for (int i = 0; i < n; i++)
    r->ops[i] = (ronde__prof_op){rows[i].op,    rows[i].implementation, (ronde__phase)rows[i].phase,
                                 rows[i].calls, rows[i].ns,             rows[i].flops};
  r->n_ops = n;
  return RONDE_OK;
}

ronde_status ronde__rank_gather(ronde__rank *r) {
  int rank = r->transport->rank;
  row *rows = NULL;
  RONDE__ALLOC(r->facts, (size_t)r->job->world * sizeof *r->facts, "report");
  r->facts[rank] = own_facts(r);
  RONDE_TRY(ronde__allgather_ring(r->transport, TAG_FACTS, r->facts, sizeof *r->facts));
  RONDE_TRY(pack_rows(r, &rows));
  ronde_status status = rank == 0 ? receive_rows(r, rows) : ronde__transport_send(r->transport, 0, RONDE__WIRE_TAG(TAG_ROWS, 0), rows,
                                                                     (size_t)r->facts[rank].n_ops * sizeof *rows);
  ronde__free(rows);
  return status;
}
