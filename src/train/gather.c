/* What the ranks tell rank 0 at the end of a run: they may be processes on other hosts. */
#include "train/rank.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_CALLS ((int64_t)1 << 48) /* the sum over all ranks and ops fits too */

typedef ronde__gather_row row;

/* ---- what other ranks sent, before it is used ---- */

static bool is_text(const char *text, size_t bytes) { return memchr(text, 0, bytes) != NULL; }

ronde_status ronde__gather_check_facts(const ronde__rank_facts *facts, int n_ranks) {
  for (int i = 0; i < n_ranks; i++)
    if (facts[i].n_ops < 0 || facts[i].n_ops > RONDE__MAX_OPS || !is_text(facts[i].host, sizeof facts[i].host))
      return ronde__fail(RONDE_E_INTERNAL, "rank %d sent an invalid description of itself", i);
  return RONDE_OK;
}

ronde_status ronde__gather_read(const ronde__gather_row *rows, int64_t n, int rank, ronde__prof_op *ops_out) {
  for (int64_t i = 0; i < n; i++) {
    const row *r = &rows[i];
    if (!is_text(r->op, sizeof r->op) || !is_text(r->implementation, sizeof r->implementation) || r->phase < 0 ||
        r->phase >= RONDE__N_PHASES || r->calls < 0 || r->calls > MAX_CALLS || !isfinite(r->flops))
      return ronde__fail(RONDE_E_INTERNAL, "rank %d sent an invalid row %" PRId64 " of its per-op table", rank, i);
    ops_out[i] = (ronde__prof_op){r->op, r->implementation, (ronde__phase)r->phase, r->calls, r->ns, r->flops, 0};
  }
  return RONDE_OK;
}

/* ---- messages ---- */

/* The worker's, and those of what the rank does besides; NULL: there is none. */
enum { N_LEDGERS = 1 + RONDE__MAX_BESIDE };
static ronde__prof *ledger(const ronde__rank *r, int i) {
  if (i == 0) return r->prof;
  const ronde__service *service = &r->services[i - 1];
  return service->state ? service->member->role->prof(service->state) : NULL;
}

static int64_t optimizer_bytes(const ronde__rank *r) {
  if (!r->optim || r->job->strategy->place) return -1;
  return (int64_t)((size_t)ronde__optim_n_states(r->optim) * ronde__optim_elems(r->optim) * sizeof(float));
}

static ronde__rank_facts own_facts(const ronde__rank *r) {
  const ronde__transport *transport = r->group;
  ronde__rank_facts facts = {.peak_rss_bytes = transport->process_each ? ronde__peak_rss_bytes() : -1,
                             .optimizer_bytes = optimizer_bytes(r),
                             .bytes_sent = transport->bytes_sent,
                             .bytes_received = transport->bytes_received,
                             .messages = transport->messages,
                             .cpu_ns = transport->process_each || transport->rank == 0 ? ronde__cpu_ns() : 0};
  for (int i = 0; i < N_LEDGERS; i++) {
    int n_ops;
    ronde__prof_ops(ledger(r, i), &n_ops);
    facts.n_ops += n_ops;
  }
  for (int i = 0; i < RONDE__MAX_BESIDE; i++) ronde__prof_totals(ledger(r, 1 + i), facts.service_ns[i]);
  gethostname(facts.host, sizeof facts.host - 1);
  return facts;
}

void ronde__gather_pack(const ronde__prof *prof, row *rows) {
  int n;
  const ronde__prof_op *ops = ronde__prof_ops(prof, &n);
  for (int i = 0; i < n; i++) {
    rows[i] = (row){.phase = ops[i].phase, .calls = ops[i].calls, .ns = ops[i].ns, .flops = ops[i].flops};
    snprintf(rows[i].op, sizeof rows[i].op, "%s", ops[i].op);
    snprintf(rows[i].implementation, sizeof rows[i].implementation, "%s", ops[i].implementation);
  }
}

static ronde_status pack_rows(const ronde__rank *r, row **rows_out) {
  row *rows;
  int at = 0, n;
  RONDE__ALLOC(rows, (size_t)ronde__max(1, r->facts[r->group->rank].n_ops) * sizeof *rows, "report");
  for (int l = 0; l < N_LEDGERS; l++, at += n) {
    ronde__gather_pack(ledger(r, l), rows + at);
    ronde__prof_ops(ledger(r, l), &n);
  }
  *rows_out = rows;
  return RONDE_OK;
}

/* Rank 0's own rows, then those of everybody who is left as they come: memory of the rank, as the texts are. */
static ronde_status receive_rows(ronde__rank *r, const row *own) {
  int64_t n = 0, at = 0;
  int n_ranks = r->job->roles.n_ranks;
  uint32_t tag = RONDE__WIRE_TAG(RONDE__TAG_ROWS, 0);
  for (int i = 0; i < n_ranks; i++) n += r->facts[i].n_ops;
  row *rows;
  RONDE__ALLOC(rows, (size_t)ronde__max(1, n) * sizeof *rows, "report");
  r->op_rows = rows;
  RONDE__ALLOC(r->ops, (size_t)ronde__max(1, n) * sizeof *r->ops, "report");
  memcpy(rows, own, (size_t)r->facts[0].n_ops * sizeof *rows);
  for (int i = 0; i < n_ranks; i++) {
    size_t bytes = (size_t)r->facts[i].n_ops * sizeof *rows;
    if (i > 0) RONDE_TRY(ronde__transport_receive(r->group, i, tag, rows + at, bytes));
    if (ronde__transport_lost(r->group, i)) continue;
    RONDE_TRY(ronde__gather_read(rows + at, r->facts[i].n_ops, i, r->ops + at));
    at += r->facts[i].n_ops;
  }
  r->n_ops = (int)at;
  return RONDE_OK;
}

/* An item of each rank, to rank 0 at least; zeros of those that are lost. */
static ronde_status gather(const ronde__rank *r, void *data, size_t bytes) {
  return r->job->may_lose ? ronde__rank_hear_all(r->group, RONDE__TAG_FACTS, data, bytes)
                          : ronde__allgather(r->group, RONDE__TAG_FACTS, data, bytes);
}

static ronde_status gather_strategy_facts(ronde__rank *r) {
  const ronde__strategy *strategy = r->job->strategy;
  size_t bytes = strategy->facts_bytes;
  if (!bytes) return RONDE_OK;
  RONDE__ALLOC(r->strategy_facts, (size_t)r->group->size * bytes, "report");
  strategy->facts(r->strategy_state, r->services, (char *)r->strategy_facts + (size_t)r->group->rank * bytes);
  return gather(r, r->strategy_facts, bytes);
}

ronde_status ronde__rank_gather(ronde__rank *r) {
  int rank = r->group->rank;
  row *rows = NULL;
  RONDE__ALLOC(r->facts, (size_t)r->job->roles.n_ranks * sizeof *r->facts, "report");
  r->facts[rank] = own_facts(r);
  RONDE_TRY(gather(r, r->facts, sizeof *r->facts));
  RONDE_TRY(ronde__gather_check_facts(r->facts, r->job->roles.n_ranks));
  RONDE_TRY(gather_strategy_facts(r));
  RONDE_TRY(pack_rows(r, &rows));
  size_t bytes = (size_t)r->facts[rank].n_ops * sizeof *rows;
  ronde_status status = rank == 0
                            ? receive_rows(r, rows)
                            : ronde__transport_send(r->group, 0, RONDE__WIRE_TAG(RONDE__TAG_ROWS, 0), rows, bytes);
  ronde__free(rows);
  return status;
}
