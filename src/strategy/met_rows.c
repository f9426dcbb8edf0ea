/* Which rows of tables a step exchanges.
 * Legend: V rows of a table, p ranks; a word is 64 rows. */
#include "strategy/met_rows.h"

#include "strategy/row_gaps.h"

#include <math.h>
#include <string.h>

typedef struct table {
  ronde__row_set *rows; /* the net's */
  uint64_t *of_ranks;   /* [p][words] */
  bool is_known;        /* in this step: rows are those of all ranks */
} table;

/* What is left out of a bucket: what is dead in every step, and what no rank has met. */
typedef struct gaps {
  ronde__range *at; /* [n_most]; NULL: no table lies in it */
  const ronde__range *dead;
  int n_dead;
} gaps;

struct ronde__met_rows {
  ronde__transport *transport;
  ronde__buckets *cut;
  table *tables;    /* [n_tables], ascending */
  ronde__table *at; /* [n_tables], in the flat arrays; whole where so many rows are met that all are exchanged */
  gaps *gaps;       /* [buckets] */
  int n_tables;
  double exchanged, rows; /* in all steps so far */
};

static ronde_status find_tables(ronde__met_rows *m, const ronde__worker *worker) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(worker->net, &n_params);
  RONDE__ALLOC(m->tables, (size_t)n_params * sizeof *m->tables, "rows of tables");
  RONDE__ALLOC(m->at, (size_t)n_params * sizeof *m->at, "rows of tables");
  for (int i = 0; i < n_params; i++) {
    ronde__row_set *rows = ronde__net_rows(worker->net, i);
    if (!rows) continue;
    table *t = &m->tables[m->n_tables];
    *t = (table){.rows = rows};
    m->at[m->n_tables++] = (ronde__table){.rows = rows, .begin = (int64_t)params[i].offset};
    size_t words = (size_t)(m->transport->size * ronde__row_set_words(rows->n));
    RONDE__ALLOC(t->of_ranks, words * sizeof *t->of_ranks, "rows of tables");
  }
  return RONDE_OK;
}

static ronde_status make_gaps(ronde__met_rows *m) {
  RONDE__ALLOC(m->gaps, (size_t)m->cut->n * sizeof *m->gaps, "rows of tables");
  for (int b = 0; b < m->cut->n; b++) {
    const ronde__bucket *bucket = &m->cut->at[b];
    gaps *g = &m->gaps[b];
    int64_t most = ronde__row_gaps_most(m->at, m->n_tables, bucket);
    *g = (gaps){.dead = bucket->dead, .n_dead = bucket->n_dead};
    if (most) RONDE__ALLOC(g->at, (size_t)(most + g->n_dead) * sizeof *g->at, "rows of tables");
  }
  return RONDE_OK;
}

ronde_status ronde__met_rows_create(const ronde__worker *worker, ronde__buckets *cut, ronde__met_rows **met_out) {
  ronde__met_rows *m;
  *met_out = NULL;
  RONDE_TRY(ronde__net_track_rows(worker->net));
  RONDE__ALLOC(m, sizeof *m, "rows of tables");
  *m = (ronde__met_rows){.transport = worker->transport, .cut = cut};
  ronde_status status = find_tables(m, worker);
  if (status == RONDE_OK) status = make_gaps(m);
  if (status != RONDE_OK || m->n_tables == 0) ronde__met_rows_destroy(m);
  else *met_out = m;
  return status;
}

void ronde__met_rows_destroy(ronde__met_rows *m) {
  if (!m) return;
  for (int i = 0; i < m->n_tables; i++) ronde__free(m->tables[i].of_ranks);
  for (int b = 0; b < m->cut->n && m->gaps; b++) ronde__free(m->gaps[b].at);
  ronde__free(m->tables);
  ronde__free(m->at);
  ronde__free(m->gaps);
  ronde__free(m);
}

void ronde__met_rows_begin(ronde__met_rows *m) {
  for (int i = 0; i < m->n_tables; i++) m->tables[i].is_known = false;
}

static ronde_status learn(ronde__met_rows *m, uint32_t tag, int i) {
  table *t = &m->tables[i];
  ronde__transport *transport = m->transport;
  int64_t words = ronde__row_set_words(t->rows->n);
  size_t bytes = (size_t)words * sizeof *t->of_ranks;
  memcpy(t->of_ranks + transport->rank * words, t->rows->bits, bytes);
  RONDE_TRY(ronde__allgather(transport, tag, t->of_ranks, bytes));
  for (int r = 0; r < transport->size; r++) ronde__row_set_unite(t->rows, t->of_ranks + r * words);
  int64_t n = ronde__row_set_count(t->rows);
  t->is_known = true;
  m->at[i].is_whole = ronde__row_set_is_most(t->rows, n);
  m->exchanged += (double)(m->at[i].is_whole ? t->rows->n : n);
  m->rows += (double)t->rows->n;
  return RONDE_OK;
}

ronde_status ronde__met_rows_share(ronde__met_rows *m, uint32_t tag, int b) {
  ronde__bucket *bucket = &m->cut->at[b];
  const gaps *g = &m->gaps[b];
  if (!g->at) return RONDE_OK;
  for (int i = 0; i < m->n_tables; i++) {
    int64_t begin, end;
    ronde__table_within(&m->at[i], bucket, &begin, &end);
    if (begin < end && !m->tables[i].is_known) RONDE_TRY(learn(m, tag, i));
  }
  ronde__row_gaps_leave_out(bucket, m->at, m->n_tables, g->dead, g->n_dead, g->at);
  return RONDE_OK;
}

double ronde__met_rows_part(const ronde__met_rows *m) { return m->rows > 0 ? m->exchanged / m->rows : NAN; }
