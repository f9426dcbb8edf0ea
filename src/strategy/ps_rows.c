/* The worker's side of rows of tables on parameter servers.
 * Legend: V rows of a table, k servers. */
#include "strategy/ps_rows.h"

#include "strategy/row_gaps.h"

#include <math.h>
#include <string.h>

typedef struct table {
  const ronde__row_set *met; /* the net's */
  ronde__row_set pushed;     /* in this step, where is_told */
  ronde__row_set *moved;     /* [servers] what each sends */
  bool is_told, is_known;    /* moved is, of this pull */
} table;

/* What a server has of a bucket, in the flat arrays. */
typedef struct piece {
  ronde__bucket at;
  const ronde__range *dead; /* [n_dead] in every step */
  int n_dead;
  ronde__range *gaps; /* room for them, and for rows */
} piece;

struct ronde__ps_rows {
  ronde__worker *worker;
  ronde__transport *group;
  const ronde__member *servers; /* [n_servers] */
  const ronde__buckets *cut;
  table *tables;                /* [n_tables], ascending */
  ronde__table *at;             /* [n_tables], in the flat arrays; its rows are what is just at hand */
  piece *pieces;                /* [buckets][servers]; without gaps where no table lies in the bucket */
  float *packed;                /* room for the longest of these buckets */
  ronde__request *told, *moved; /* [tables][servers] */
  int n_tables, n_servers;
  double exchanged, rows; /* pushed and pulled so far */
};

/* ---- set-up -------------------------------------------------------------------------------------------------------- */

static ronde_status find_tables(ronde__ps_rows *p) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(p->worker->net, &n_params);
  RONDE__ALLOC(p->tables, (size_t)n_params * sizeof *p->tables, "rows of tables");
  RONDE__ALLOC(p->at, (size_t)n_params * sizeof *p->at, "rows of tables");
  for (int i = 0; i < n_params; i++) {
    const ronde__row_set *met = ronde__net_rows(p->worker->net, i);
    if (!met || params[i].frozen) continue;
    table *t = &p->tables[p->n_tables];
    p->at[p->n_tables++] = (ronde__table){.rows = met, .begin = (int64_t)params[i].offset};
    t->met = met;
    RONDE_TRY(ronde__row_set_make(met->n, met->elems, &t->pushed));
    RONDE__ALLOC(t->moved, (size_t)p->n_servers * sizeof *t->moved, "rows of tables");
    for (int k = 0; k < p->n_servers; k++) RONDE_TRY(ronde__row_set_make(met->n, met->elems, &t->moved[k]));
  }
  return RONDE_OK;
}

/* The place in the flat arrays of what is live and stands at `at` of the packed bucket. */
static size_t flat_place(const ronde__bucket *bucket, size_t at) {
  size_t place = bucket->begin + at;
  for (int k = 0; k < bucket->n_dead && bucket->dead[k].begin <= place; k++) place += bucket->dead[k].n;
  return place;
}

static ronde_status make_piece(const ronde__ps_rows *p, int b, int server, piece *piece_out) {
  const ronde__bucket *bucket = &p->cut->at[b];
  ronde__range packed = ronde__bucket_piece(bucket, server, p->n_servers);
  size_t first = packed.begin - bucket->begin;
  piece x = {.dead = bucket->dead};
  if (packed.n == 0) return RONDE_OK;
  x.at.begin = flat_place(bucket, first);
  x.at.end = first + packed.n == bucket->n_live ? bucket->end : flat_place(bucket, first + packed.n);
  int before = 0;
  while (before < bucket->n_dead && bucket->dead[before].begin < x.at.begin) before++;
  x.dead += before;
  while (before + x.n_dead < bucket->n_dead && x.dead[x.n_dead].begin < x.at.end) x.n_dead++;
  int64_t most = ronde__row_gaps_most(p->at, p->n_tables, bucket) + x.n_dead;
  RONDE__ALLOC(x.gaps, (size_t)most * sizeof *x.gaps, "rows of tables");
  *piece_out = x;
  return RONDE_OK;
}

static ronde_status make_pieces(ronde__ps_rows *p) {
  size_t longest = 0;
  RONDE__ALLOC(p->pieces, (size_t)(p->cut->n * p->n_servers) * sizeof *p->pieces, "rows of tables");
  for (int b = 0; b < p->cut->n; b++) {
    const ronde__bucket *bucket = &p->cut->at[b];
    if (ronde__row_gaps_most(p->at, p->n_tables, bucket) == 0) continue;
    if (bucket->n_live > longest) longest = bucket->n_live;
    for (int k = 0; k < p->n_servers; k++) RONDE_TRY(make_piece(p, b, k, &p->pieces[b * p->n_servers + k]));
  }
  RONDE__ALLOC_FLOATS(p->packed, p->worker->kernels, longest, "rows of tables");
  return RONDE_OK;
}

static ronde_status set_up(ronde__ps_rows *p) {
  RONDE_TRY(find_tables(p));
  if (p->n_tables == 0) return RONDE_OK;
  size_t n_requests = (size_t)(p->n_tables * p->n_servers);
  RONDE__ALLOC(p->told, n_requests * sizeof *p->told, "rows of tables");
  RONDE__ALLOC(p->moved, n_requests * sizeof *p->moved, "rows of tables");
  return make_pieces(p);
}

ronde_status ronde__ps_rows_create(ronde__worker *worker, ronde__transport *group, const ronde__member *servers,
                                   int n_servers, const ronde__buckets *cut, ronde__ps_rows **rows_out) {
  ronde__ps_rows *p;
  *rows_out = NULL;
  RONDE_TRY(ronde__net_track_rows(worker->net));
  RONDE__ALLOC(p, sizeof *p, "rows of tables");
  *p = (ronde__ps_rows){.worker = worker, .group = group, .servers = servers, .n_servers = n_servers, .cut = cut};
  ronde_status status = set_up(p);
  if (status != RONDE_OK || p->n_tables == 0) ronde__ps_rows_destroy(p);
  else *rows_out = p;
  return status;
}

void ronde__ps_rows_destroy(ronde__ps_rows *p) {
  if (!p) return;
  int n_requests = p->n_tables * p->n_servers;
  if (p->told) p->group->ops->cancel(p->group, p->told, n_requests);
  if (p->moved) p->group->ops->cancel(p->group, p->moved, n_requests);
  for (int t = 0; t < p->n_tables; t++) {
    for (int k = 0; k < p->n_servers && p->tables[t].moved; k++) ronde__free(p->tables[t].moved[k].bits);
    ronde__free(p->tables[t].moved);
    ronde__free(p->tables[t].pushed.bits);
  }
  for (int i = 0; i < p->cut->n * p->n_servers && p->pieces; i++) ronde__free(p->pieces[i].gaps);
  ronde__free(p->tables);
  ronde__free(p->at);
  ronde__free(p->pieces);
  ronde__free(p->packed);
  ronde__free(p->told);
  ronde__free(p->moved);
  ronde__free(p);
}

/* ---- the plan of a server ------------------------------------------------------------------------------------------ */

static bool lies_in(const ronde__ps_rows *p, int t, const ronde__bucket *bucket) {
  int64_t begin, end;
  ronde__table_within(&p->at[t], bucket, &begin, &end);
  return begin < end;
}

/* Of the table's parts in the server's pieces; patches_out: NULL is taken. */
static int64_t find_patches(const ronde__ps_rows *p, int server, ronde__ps_patch *patches_out) {
  int64_t n = 0;
  for (int b = 0; b < p->cut->n; b++) {
    const piece *x = &p->pieces[b * p->n_servers + server];
    for (int t = 0; t < p->n_tables && x->gaps; t++) {
      if (!lies_in(p, t, &x->at)) continue;
      int64_t begin = p->at[t].begin - (int64_t)x->at.begin; /* what is dead in front of it is not exchanged */
      for (int k = 0; k < x->n_dead && (int64_t)x->dead[k].begin < p->at[t].begin; k++) begin -= (int64_t)x->dead[k].n;
      if (patches_out) patches_out[n] = (ronde__ps_patch){b, t, begin};
      n++;
    }
  }
  return n;
}

void ronde__ps_rows_count(const ronde__ps_rows *p, int i, ronde__ps_plan *plan) {
  plan->n_tables = p->n_tables;
  plan->n_patches = find_patches(p, i, NULL);
}

ronde_status ronde__ps_rows_send_plan(const ronde__ps_rows *p, int i, const ronde__ps_plan *plan) {
  uint32_t tag = RONDE__PS_TAG(RONDE__PS_PLAN);
  ronde__ps_table *tables;
  ronde__ps_patch *patches;
  RONDE__ALLOC(tables, (size_t)p->n_tables * sizeof *tables, "rows of tables");
  for (int t = 0; t < p->n_tables; t++) tables[t] = (ronde__ps_table){p->at[t].rows->n, p->at[t].rows->elems};
  ronde_status status =
      ronde__transport_send(p->group, p->servers[i].rank, tag, tables, (size_t)p->n_tables * sizeof *tables);
  ronde__free(tables);
  RONDE_TRY(status);
  if (plan->n_patches == 0) return RONDE_OK;
  RONDE__ALLOC(patches, (size_t)plan->n_patches * sizeof *patches, "rows of tables");
  find_patches(p, i, patches);
  status = ronde__transport_send(p->group, p->servers[i].rank, tag, patches, (size_t)plan->n_patches * sizeof *patches);
  ronde__free(patches);
  return status;
}

/* ---- a step -------------------------------------------------------------------------------------------------------- */

bool ronde__ps_rows_in(const ronde__ps_rows *p, int b) {
  for (int k = 0; k < p->n_servers; k++)
    if (p->pieces[b * p->n_servers + k].gaps) return true;
  return false;
}

static ronde_status tell(ronde__ps_rows *p, int i) {
  table *t = &p->tables[i];
  memcpy(t->pushed.bits, t->met->bits, ronde__row_set_bytes(t->met));
  int64_t n = ronde__row_set_add_most(&t->pushed);
  p->exchanged += (double)n;
  p->rows += (double)t->met->n;
  t->is_told = true;
  for (int k = 0; k < p->n_servers; k++)
    RONDE_TRY(p->group->ops->isend(p->group, p->servers[k].rank, RONDE__PS_TAG((uint32_t)(RONDE__PS_MET + i)),
                                   t->pushed.bits, ronde__row_set_bytes(&t->pushed), &p->told[i * p->n_servers + k]));
  return RONDE_OK;
}

ronde_status ronde__ps_rows_push(ronde__ps_rows *p, int b, ronde__request *requests) {
  float *gradients = ronde__net_gradients(p->worker->net);
  for (int t = 0; t < p->n_tables; t++) {
    if (!p->tables[t].is_told && lies_in(p, t, &p->cut->at[b])) RONDE_TRY(tell(p, t));
    p->at[t].rows = &p->tables[t].pushed;
  }
  for (int k = 0; k < p->n_servers; k++) {
    piece *x = &p->pieces[b * p->n_servers + k];
    if (!x->gaps) continue;
    ronde__row_gaps_leave_out(&x->at, p->at, p->n_tables, x->dead, x->n_dead, x->gaps);
    ronde__bucket_pack(&x->at, gradients);
    if (x->at.n_live)
      RONDE_TRY(p->group->ops->isend(p->group, p->servers[k].rank, RONDE__PS_TAG((uint32_t)(RONDE__PS_PUSH + b)),
                                     gradients + x->at.begin, x->at.n_live * sizeof *gradients, &requests[k]));
  }
  return RONDE_OK;
}

ronde_status ronde__ps_rows_end_pushes(ronde__ps_rows *p) {
  RONDE_TRY(p->group->ops->wait(p->group, p->told, p->n_tables * p->n_servers, p->group->timeout_ns));
  for (int i = 0; i < p->cut->n * p->n_servers; i++)
    if (p->pieces[i].gaps) ronde__bucket_clear_dead(&p->pieces[i].at, ronde__net_gradients(p->worker->net));
  for (int t = 0; t < p->n_tables; t++) p->tables[t].is_told = false;
  return RONDE_OK;
}

ronde_status ronde__ps_rows_begin_pulls(ronde__ps_rows *p) {
  for (int t = 0; t < p->n_tables; t++) {
    p->tables[t].is_known = false;
    for (int k = 0; k < p->n_servers; k++) {
      ronde__row_set *moved = &p->tables[t].moved[k];
      RONDE_TRY(p->group->ops->irecv(p->group, p->servers[k].rank, RONDE__PS_TAG((uint32_t)(RONDE__PS_MOVED + t)),
                                     moved->bits, ronde__row_set_bytes(moved), &p->moved[t * p->n_servers + k]));
    }
  }
  return RONDE_OK;
}

/* Waits for the bits of those in the bucket. */
static ronde_status learn(ronde__ps_rows *p, int b) {
  for (int t = 0; t < p->n_tables; t++) {
    ronde__request *requests = &p->moved[t * p->n_servers];
    if (!lies_in(p, t, &p->cut->at[b]) || p->tables[t].is_known) continue;
    RONDE_TRY(p->group->ops->wait(p->group, requests, p->n_servers, p->group->timeout_ns));
    p->tables[t].is_known = true;
    for (int k = 0; k < p->n_servers; k++) {
      p->exchanged += (double)ronde__row_set_count(&p->tables[t].moved[k]) / p->n_servers;
      p->rows += (double)p->tables[t].met->n / p->n_servers;
    }
  }
  return RONDE_OK;
}

ronde_status ronde__ps_rows_pull(ronde__ps_rows *p, int b, ronde__request *requests) {
  float *values = ronde__net_values(p->worker->net);
  size_t at = 0;
  RONDE_TRY(learn(p, b));
  for (int k = 0; k < p->n_servers; k++) {
    piece *x = &p->pieces[b * p->n_servers + k];
    if (!x->gaps) continue;
    for (int t = 0; t < p->n_tables; t++) p->at[t].rows = &p->tables[t].moved[k];
    ronde__row_gaps_leave_out(&x->at, p->at, p->n_tables, x->dead, x->n_dead, x->gaps);
    float *into = x->at.n_dead ? p->packed + at : values + x->at.begin;
    at += x->at.n_live;
    if (x->at.n_live)
      RONDE_TRY(p->group->ops->irecv(p->group, p->servers[k].rank, RONDE__PS_TAG((uint32_t)(RONDE__PS_PULL + b)), into,
                                     x->at.n_live * sizeof *into, &requests[k]));
  }
  RONDE_TRY(p->group->ops->wait(p->group, requests, p->n_servers, p->group->timeout_ns));
  at = 0;
  for (int k = 0; k < p->n_servers; k++) {
    const piece *x = &p->pieces[b * p->n_servers + k];
    if (!x->gaps) continue;
    if (x->at.n_dead) ronde__bucket_scatter(&x->at, p->packed + at, values);
    at += x->at.n_live;
  }
  return RONDE_OK;
}

double ronde__ps_rows_part(const ronde__ps_rows *p) { return p->rows > 0 ? p->exchanged / p->rows : NAN; }
