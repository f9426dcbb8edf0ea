/* Moments of each batch in a row of a table, of which the medians are taken at the end. */
#include "strategy/recorder.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BATCHES = 1000 }; /* those behind are not recorded */

/* The columns of a batch; behind them those of parameters, needed, ready and done. */
enum { LOAD, FORWARD, BACKWARD, UPDATE, N_TIMES };

struct ronde__recorder {
  const ronde__net *net;
  const ronde__prof *prof;
  int64_t examples;
  int n_params, n_columns;
  uint64_t *rows; /* [MOST_BATCHES][n_columns] */
  int n_rows;
  uint64_t *row; /* of the present batch, or NULL: it is not recorded */
  bool warm;
  uint64_t begin_ns[RONDE__N_PHASES]; /* the ledger when the present batch began, */
  uint64_t before_ns;                 /* and its loading when that of the batch before was done */
};

ronde_status ronde__recorder_create(const ronde__net *net, const ronde__prof *prof, int64_t examples,
                                    ronde__recorder **recorder_out) {
  ronde__recorder *r;
  RONDE__ALLOC(r, sizeof *r, "--record-spans");
  *r = (ronde__recorder){.net = net, .prof = prof, .examples = examples};
  ronde__net_params(net, &r->n_params);
  r->n_columns = N_TIMES + 3 * r->n_params;
  r->rows = calloc((size_t)MOST_BATCHES * (size_t)r->n_columns, sizeof *r->rows);
  if (!r->rows) {
    ronde__recorder_destroy(r);
    return ronde__fail(RONDE_E_MEMORY, "--record-spans: no memory for %d batches", MOST_BATCHES);
  }
  *recorder_out = r;
  return RONDE_OK;
}

void ronde__recorder_destroy(ronde__recorder *r) {
  if (!r) return;
  free(r->rows);
  ronde__free(r);
}

static void read_ledger(const ronde__recorder *r, uint64_t ns[RONDE__N_PHASES]) {
  ronde__prof_totals_at(r->prof, ronde__prof_now(r->prof), ns);
}

/* What the present batch took, when all of it is over. */
static void close_row(ronde__recorder *r, const uint64_t ns[RONDE__N_PHASES]) {
  if (!r->row) return;
  r->row[FORWARD] = ns[RONDE__PHASE_FORWARD] - r->begin_ns[RONDE__PHASE_FORWARD];
  r->row[BACKWARD] = ns[RONDE__PHASE_BACKWARD] - r->begin_ns[RONDE__PHASE_BACKWARD];
  r->row[UPDATE] = ns[RONDE__PHASE_UPDATE] - r->begin_ns[RONDE__PHASE_UPDATE];
  r->n_rows++;
  r->row = NULL;
}

void ronde__recorder_begin(ronde__recorder *r, int64_t n) {
  if (!r) return;
  uint64_t ns[RONDE__N_PHASES];
  read_ledger(r, ns);
  close_row(r, ns);
  if (r->warm && n == r->examples && r->n_rows < MOST_BATCHES) {
    r->row = r->rows + (size_t)r->n_rows * (size_t)r->n_columns;
    r->row[LOAD] = ns[RONDE__PHASE_LOAD] - r->before_ns;
  }
  r->before_ns = ns[RONDE__PHASE_LOAD];
  r->warm = true;
  memcpy(r->begin_ns, ns, sizeof ns);
}

static void note(ronde__recorder *r, int column, ronde__phase phase) {
  uint64_t ns[RONDE__N_PHASES];
  read_ledger(r, ns);
  r->row[column] = ns[phase] - r->begin_ns[phase];
}

/* Asked for again in front of backward, where it has been read before. */
void ronde__recorder_needed(ronde__recorder *r, int param) {
  if (r && r->row && !r->row[N_TIMES + param]) note(r, N_TIMES + param, RONDE__PHASE_FORWARD);
}

void ronde__recorder_ready(ronde__recorder *r, int param) {
  if (r && r->row) note(r, N_TIMES + r->n_params + param, RONDE__PHASE_BACKWARD);
}

void ronde__recorder_done(ronde__recorder *r, int param) {
  if (r && r->row) note(r, N_TIMES + 2 * r->n_params + param, RONDE__PHASE_BACKWARD);
}

/* ---- medians ---- */

static int ascending(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static uint64_t median(const ronde__recorder *r, int column, uint64_t *values) {
  for (int i = 0; i < r->n_rows; i++) values[i] = r->rows[(size_t)i * (size_t)r->n_columns + (size_t)column];
  qsort(values, (size_t)r->n_rows, sizeof *values, ascending);
  return values[r->n_rows / 2];
}

/* Updates pass over dead ranges. */
static uint64_t updated_elems(const ronde__net *net) {
  int n_dead;
  const ronde__range *dead = ronde__net_dead(net, &n_dead);
  uint64_t n = ronde__net_n_trained(net);
  for (int i = 0; i < n_dead; i++) n -= dead[i].n;
  return n;
}

static ronde_status fill(const ronde__recorder *r, uint64_t *values, ronde__spans *spans) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(r->net, &n_params);
  *spans = (ronde__spans){.examples = r->examples,
                          .steps = r->n_rows,
                          .load_ns = median(r, LOAD, values),
                          .forward_ns = median(r, FORWARD, values),
                          .backward_ns = median(r, BACKWARD, values),
                          .update_ns = median(r, UPDATE, values),
                          .updated_elems = updated_elems(r->net)};
  RONDE__ALLOC(spans->params, (size_t)n_params * sizeof *spans->params, "--record-spans");
  for (int i = 0; i < n_params; i++, spans->n_params++) {
    spans->params[i] = (ronde__param_span){.name = ronde__strdup(params[i].name),
                                           .elems = (uint64_t)ronde__shape_elems(&params[i].shape),
                                           .needed_ns = median(r, N_TIMES + i, values),
                                           .ready_ns = median(r, N_TIMES + n_params + i, values),
                                           .done_ns = median(r, N_TIMES + 2 * n_params + i, values)};
    if (spans->params[i].done_ns == 0) spans->params[i].done_ns = spans->params[i].ready_ns; /* of eager passes */
    if (!spans->params[i].name) return ronde__fail(RONDE_E_MEMORY, "--record-spans: no memory for names");
  }
  return RONDE_OK;
}

ronde_status ronde__recorder_finish(ronde__recorder *r, ronde__spans **spans_out) {
  uint64_t ns[RONDE__N_PHASES], *values;
  ronde__spans *spans;
  read_ledger(r, ns);
  close_row(r, ns);
  if (r->n_rows == 0)
    return ronde__fail(RONDE_E_USAGE, "--record-spans: there was no whole batch behind the first one: more --steps");
  RONDE__ALLOC(values, (size_t)r->n_rows * sizeof *values, "--record-spans");
  spans = ronde__alloc(sizeof *spans);
  ronde_status status = spans ? fill(r, values, spans) : ronde__fail(RONDE_E_MEMORY, "--record-spans: no memory");
  ronde__free(values);
  if (status != RONDE_OK) ronde__spans_destroy(spans);
  else *spans_out = spans;
  return status;
}
