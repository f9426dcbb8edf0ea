/* Which rows of tables a step exchanges.
 * Legend: V rows of a table, p ranks; a word is 64 rows. */
#include "strategy/met_rows.h"

#include <math.h>
#include <string.h>

typedef struct table {
  ronde__row_set *rows; /* the net's */
  size_t begin;         /* in the flat arrays */
  uint64_t *of_ranks;   /* [p][words] */
  bool is_known;        /* in this step: rows are those of all ranks, */
  bool is_whole;        /* and so many that all are exchanged */
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
  table *tables; /* [n_tables], ascending */
  gaps *gaps;    /* [buckets] */
  int n_tables;
  double exchanged, rows; /* in all steps so far */
};

/* Rows of the table that lie in the bucket, or in part; none: end <= begin. */
static void rows_within(const table *t, const ronde__bucket *bucket, int64_t *begin_out, int64_t *end_out) {
  int64_t first = (int64_t)bucket->begin - (int64_t)t->begin, past = (int64_t)bucket->end - (int64_t)t->begin;
  *begin_out = ronde__max(0, first) / t->rows->elems;
  *end_out = past <= 0 ? 0 : ronde__min(t->rows->n, ronde__ceil_div(past, t->rows->elems));
}

static ronde_status find_tables(ronde__met_rows *m, const ronde__worker *worker) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(worker->net, &n_params);
  RONDE__ALLOC(m->tables, (size_t)n_params * sizeof *m->tables, "rows of tables");
  for (int i = 0; i < n_params; i++) {
    ronde__row_set *rows = ronde__net_rows(worker->net, i);
    if (!rows) continue;
    table *t = &m->tables[m->n_tables++];
    *t = (table){.rows = rows, .begin = params[i].offset};
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
    int64_t most = 0, begin, end;
    for (int i = 0; i < m->n_tables; i++) {
      rows_within(&m->tables[i], bucket, &begin, &end);
      if (begin < end) most += (end - begin) / 2 + 1; /* every second one */
    }
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
  ronde__free(m->gaps);
  ronde__free(m);
}

void ronde__met_rows_begin(ronde__met_rows *m) {
  for (int i = 0; i < m->n_tables; i++) m->tables[i].is_known = false;
}

static ronde_status learn(ronde__met_rows *m, uint32_t tag, table *t) {
  ronde__transport *transport = m->transport;
  int64_t words = ronde__row_set_words(t->rows->n);
  size_t bytes = (size_t)words * sizeof *t->of_ranks;
  memcpy(t->of_ranks + transport->rank * words, t->rows->bits, bytes);
  RONDE_TRY(ronde__allgather(transport, tag, t->of_ranks, bytes));
  for (int r = 0; r < transport->size; r++) ronde__row_set_unite(t->rows, t->of_ranks + r * words);
  int64_t n = ronde__row_set_count(t->rows);
  t->is_known = true;
  t->is_whole = 2 * n > t->rows->n;
  m->exchanged += (double)(t->is_whole ? t->rows->n : n);
  m->rows += (double)t->rows->n;
  return RONDE_OK;
}

static void leave_out(ronde__bucket *bucket, ronde__range *gaps, size_t begin, size_t end) {
  gaps[bucket->n_dead++] = (ronde__range){begin, end - begin};
  bucket->n_live -= end - begin;
}

/* Rows of the table within the bucket that nobody has met. */
static void leave_rows_out(const table *t, ronde__bucket *bucket, ronde__range *gaps) {
  int64_t row, end, next;
  for (rows_within(t, bucket, &row, &end); row < end; row = next) {
    next = ronde__row_set_run(t->rows, row, end);
    size_t first = t->begin + (size_t)(row * t->rows->elems), past = t->begin + (size_t)(next * t->rows->elems);
    if (ronde__row_set_has(t->rows, row)) continue;
    leave_out(bucket, gaps, first > bucket->begin ? first : bucket->begin, past < bucket->end ? past : bucket->end);
  }
}

ronde_status ronde__met_rows_share(ronde__met_rows *m, uint32_t tag, int b) {
  ronde__bucket *bucket = &m->cut->at[b];
  const gaps *g = &m->gaps[b];
  int dead = 0;
  if (!g->at) return RONDE_OK;
  bucket->dead = g->at;
  bucket->n_dead = 0;
  bucket->n_live = bucket->end - bucket->begin;
  for (int i = 0; i < m->n_tables; i++) {
    table *t = &m->tables[i];
    int64_t begin, end;
    rows_within(t, bucket, &begin, &end);
    if (begin >= end) continue;
    if (!t->is_known) RONDE_TRY(learn(m, tag, t));
    for (; dead < g->n_dead && g->dead[dead].begin < t->begin; dead++)
      leave_out(bucket, g->at, g->dead[dead].begin, g->dead[dead].begin + g->dead[dead].n);
    if (!t->is_whole) leave_rows_out(t, bucket, g->at);
  }
  for (; dead < g->n_dead; dead++) leave_out(bucket, g->at, g->dead[dead].begin, g->dead[dead].begin + g->dead[dead].n);
  return RONDE_OK;
}

double ronde__met_rows_part(const ronde__met_rows *m) { return m->rows > 0 ? m->exchanged / m->rows : NAN; }
