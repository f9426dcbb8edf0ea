/* The trace of ranks that are processes of their own. Rank 0 reads their clocks against its own, before the first step
 * and behind the last, and writes their spans as they come: it holds one block of one rank at a time. */
#include "prof/trace.h"
#include "comm/probe.h"
#include "train/rank.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool traces(const ronde__rank *r) {
  return r->job->options->trace && r->job->options->out && r->transport->process_each && r->transport->size > 1;
}

/* One after the other, so that none is held up by another's messages. */
static ronde_status read_clocks(ronde__rank *r, int which) {
  ronde__transport *transport = r->transport;
  ronde__clock_reading own;
  if (transport->rank != 0) return ronde__probe_clock(transport, 0, false, &own);
  for (int i = 1; i < transport->size; i++)
    RONDE_TRY(ronde__probe_clock(transport, i, true, &r->clocks[2 * i + which]));
  return RONDE_OK;
}

ronde_status ronde__rank_begin_trace(ronde__rank *r) {
  if (!traces(r)) return RONDE_OK;
  if (r->transport->rank == 0) RONDE__ALLOC(r->clocks, 2 * (size_t)r->transport->size * sizeof *r->clocks, "trace");
  return read_clocks(r, 0);
}

/* ---- what travels ------------------------------------------------------------------------------------------------ */

ronde_status ronde__trace_check_head(const ronde__trace_head *head, int rank) {
  bool any = head->n_spans > 0;
  if (head->n_ops >= 0 && head->n_ops <= RONDE__MAX_OPS && head->n_spans >= 0 && head->n_dropped >= 0 &&
      memchr(head->host, 0, sizeof head->host) && any == (head->first_ns != UINT64_MAX))
    return RONDE_OK;
  return ronde__fail(RONDE_E_INTERNAL, "rank %d sent an invalid header of its trace", rank);
}

ronde_status ronde__trace_check_spans(const ronde__trace_head *head, const ronde__span *spans, int n, int rank) {
  for (int i = 0; i < n; i++)
    if (spans[i].what < 0 || spans[i].what >= RONDE__N_PHASES + head->n_ops || spans[i].begin_ns < head->first_ns ||
        spans[i].end_ns < spans[i].begin_ns)
      return ronde__fail(RONDE_E_INTERNAL, "rank %d sent an invalid span of its trace", rank);
  return RONDE_OK;
}

static ronde__trace_head own_head(const ronde__rank *r) {
  ronde__trace_rank own = ronde__trace_rank_of(r->prof);
  ronde__trace_head head = {
      .n_spans = r->prof->n_spans, .n_dropped = own.n_dropped, .n_ops = own.n_ops, .first_ns = own.first_ns};
  memcpy(head.host, r->facts[r->group->rank].host, sizeof head.host);
  return head;
}

static ronde_status send_spans(ronde__rank *r, const ronde__trace_head *head) {
  ronde__gather_row *rows;
  uint32_t tag = RONDE__WIRE_TAG(RONDE__TAG_TRACE, 0);
  RONDE__ALLOC(rows, (size_t)ronde__max(1, head->n_ops) * sizeof *rows, "trace");
  ronde__gather_pack(r->prof, rows);
  ronde_status status = RONDE_OK;
  if (head->n_ops) status = ronde__transport_send(r->transport, 0, tag, rows, (size_t)head->n_ops * sizeof *rows);
  for (const ronde__span_block *block = r->prof->first; block && status == RONDE_OK; block = block->next)
    status = ronde__transport_send(r->transport, 0, tag, block->spans, (size_t)block->n_spans * sizeof *block->spans);
  ronde__free(rows);
  return status;
}

/* ---- rank 0 ------------------------------------------------------------------------------------------------------ */

typedef struct writer {
  ronde__rank *r;
  const ronde__trace_head *heads; /* [ranks] */
  ronde__trace_rank *ranks;       /* [ranks] */
  ronde__trace *trace;
  ronde__span *spans; /* [RONDE__SPANS_PER_BLOCK] */
} writer;

static ronde_status take_blocks(const writer *w, int rank) {
  const ronde__trace_head *head = &w->heads[rank];
  for (int64_t left = head->n_spans, n; left > 0; left -= n) {
    n = ronde__min(left, RONDE__SPANS_PER_BLOCK);
    RONDE_TRY(ronde__transport_receive(w->r->transport, rank, RONDE__WIRE_TAG(RONDE__TAG_TRACE, 0), w->spans,
                                       (size_t)n * sizeof *w->spans));
    RONDE_TRY(ronde__trace_check_spans(head, w->spans, (int)n, rank));
    ronde__trace_add(w->trace, rank, w->spans, (int)n);
  }
  return RONDE_OK;
}

static ronde_status take_rank(writer *w, int rank) {
  size_t n = (size_t)w->heads[rank].n_ops;
  ronde__gather_row *rows;
  ronde__prof_op *ops = NULL;
  RONDE__ALLOC(rows, (n + 1) * sizeof *rows, "trace");
  ronde_status status = RONDE_OK;
  if (n)
    status =
        ronde__transport_receive(w->r->transport, rank, RONDE__WIRE_TAG(RONDE__TAG_TRACE, 0), rows, n * sizeof *rows);
  if (status == RONDE_OK && !(ops = ronde__alloc((n + 1) * sizeof *ops)))
    status = ronde__fail(RONDE_E_MEMORY, "trace: no memory for %zu rows", n);
  if (status == RONDE_OK) status = ronde__gather_read(rows, (int64_t)n, rank, ops);
  w->ranks[rank].ops = ops;
  if (status == RONDE_OK) status = take_blocks(w, rank);
  w->ranks[rank].ops = NULL;
  ronde__free(ops);
  ronde__free(rows);
  return status;
}

static ronde_status write_ranks(writer *w) {
  const ronde__rank *r = w->r;
  w->ranks[0] = ronde__trace_rank_of(r->prof);
  w->ranks[0].host = w->heads[0].host;
  for (int i = 1; i < r->transport->size; i++) {
    const ronde__trace_head *head = &w->heads[i];
    w->ranks[i] = (ronde__trace_rank){.rank = i,
                                      .host = head->host,
                                      .n_ops = (int)head->n_ops,
                                      .first_ns = head->first_ns,
                                      .n_dropped = head->n_dropped,
                                      .clock = {r->clocks[2 * i], r->clocks[2 * i + 1]}};
  }
  char *path = ronde__format("%s/trace.json", r->job->options->out);
  if (!path) return ronde__fail(RONDE_E_MEMORY, "trace: no memory for its name");
  ronde_status status = ronde__trace_open(path, w->ranks, r->transport->size, &w->trace);
  free(path);
  RONDE_TRY(status);
  for (const ronde__span_block *block = r->prof->first; block; block = block->next)
    ronde__trace_add(w->trace, 0, block->spans, block->n_spans);
  for (int i = 1; i < r->transport->size && status == RONDE_OK; i++) status = take_rank(w, i);
  if (status == RONDE_OK) return ronde__trace_close(w->trace);
  ronde__trace_abandon(w->trace);
  return status;
}

static ronde_status write_trace(ronde__rank *r, const ronde__trace_head *heads) {
  writer w = {.r = r, .heads = heads};
  ronde_status status = RONDE_OK;
  w.ranks = ronde__alloc((size_t)r->transport->size * sizeof *w.ranks);
  w.spans = ronde__alloc(RONDE__SPANS_PER_BLOCK * sizeof *w.spans);
  if (!w.ranks || !w.spans) status = ronde__fail(RONDE_E_MEMORY, "trace: no memory for its ranks");
  for (int i = 0; i < r->transport->size && status == RONDE_OK; i++) status = ronde__trace_check_head(&heads[i], i);
  if (status == RONDE_OK) status = write_ranks(&w);
  ronde__free(w.ranks);
  ronde__free(w.spans);
  r->traced = status == RONDE_OK;
  return status;
}

ronde_status ronde__rank_end_trace(ronde__rank *r) {
  ronde__transport *transport = r->transport;
  ronde__trace_head *heads;
  if (!traces(r)) return RONDE_OK;
  if (ronde__rank_has_lost(r)) {
    if (transport->rank == 0) ronde__log(RONDE_LOG_WARNING, "trace.json has rank 0 alone, because a worker was lost");
    return RONDE_OK;
  }
  RONDE__ALLOC(heads, (size_t)transport->size * sizeof *heads, "trace");
  heads[transport->rank] = own_head(r);
  ronde_status status = read_clocks(r, 1);
  if (status == RONDE_OK) status = ronde__allgather(transport, RONDE__TAG_TRACE, heads, sizeof *heads);
  if (status == RONDE_OK)
    status = transport->rank == 0 ? write_trace(r, heads) : send_spans(r, &heads[transport->rank]);
  ronde__free(heads);
  return status;
}
