/* The server's side of rows of tables.
 * Legend: W workers, T tables, B buckets. */
#include "strategy/server_rows.h"

#include "strategy/row_gaps.h"

#include <string.h>

/* A part of a table among the server's parameters. */
typedef struct patch {
  int table;
  int64_t table_begin; /* where its row 0 would lie; may be negative */
  size_t begin, end;
} patch;

struct ronde__server_rows {
  int n_patches;
  patch *patches; /* ascending */
  int *first;     /* [B + 1]: of each bucket */
  /* pushed: what is not zero in the worker's place; missed: what it has not been sent; told: what it is sent. */
  ronde__row_set *pushed, *missed, *told; /* [W][T] */
  ronde__row_set *joined;                 /* [T] of the present update */
  ronde__row_set *moved;                  /* [T] changed by the last update */
  uint64_t *bits;                         /* of all sets */
  bool *known;                            /* [W][T]: pushed is here */
  size_t *gathered;     /* [W][B]: elements at the beginning of a piece that are a copy of parameters */
  ronde__table *tables; /* [T] at hand */
  ronde__range *room;   /* for the gaps of any bucket */
};

/* ---- set-up -------------------------------------------------------------------------------------------------------- */

static ronde_status make_sets(ronde__server *s, const ronde__ps_table *tables) {
  ronde__server_rows *r = s->rows;
  size_t n = (size_t)(s->n_workers * s->n_tables), n_tables = (size_t)s->n_tables;
  ronde__row_set **const sets[] = {&r->pushed, &r->missed, &r->told, &r->joined, &r->moved};
  int64_t words = 0;
  for (int t = 0; t < s->n_tables; t++) words += ronde__row_set_words(tables[t].rows);
  RONDE__ALLOC(r->bits, (size_t)words * (3 * (size_t)s->n_workers + 2) * sizeof *r->bits, "rows of tables");
  uint64_t *bits = r->bits;
  for (size_t k = 0; k < RONDE__COUNT(sets); k++) {
    size_t n_sets = k < 3 ? n : n_tables;
    RONDE__ALLOC(*sets[k], n_sets * sizeof **sets[k], "rows of tables");
    for (size_t i = 0; i < n_sets; i++) {
      const ronde__ps_table *t = &tables[i % n_tables];
      (*sets[k])[i] = (ronde__row_set){.bits = bits, .n = t->rows, .elems = t->elems};
      bits += ronde__row_set_words(t->rows);
    }
  }
  return RONDE_OK;
}

static ronde_status make_patches(ronde__server *s, const ronde__ps_table *tables, const ronde__ps_patch *plan) {
  ronde__server_rows *r = s->rows;
  int64_t most = 0;
  RONDE__ALLOC(r->patches, (size_t)r->n_patches * sizeof *r->patches, "rows of tables");
  RONDE__ALLOC(r->first, ((size_t)s->n_buckets + 1) * sizeof *r->first, "rows of tables");
  for (int i = 0, b = 0; i <= r->n_patches; i++) {
    int bucket = i < r->n_patches ? (int)plan[i].bucket : s->n_buckets;
    while (b < bucket) r->first[++b] = i;
    if (i == r->n_patches) break;
    const ronde__ps_table *table = &tables[plan[i].table];
    int64_t begin = (int64_t)s->begin[bucket] + plan[i].begin, end = begin + table->rows * table->elems;
    r->patches[i] = (patch){.table = (int)plan[i].table,
                            .table_begin = begin,
                            .begin = (size_t)ronde__max(begin, (int64_t)s->begin[bucket]),
                            .end = (size_t)ronde__min(end, (int64_t)s->begin[bucket + 1])};
    most += (int64_t)(r->patches[i].end - r->patches[i].begin) / table->elems / 2 + 2;
  }
  RONDE__ALLOC(r->room, (size_t)most * sizeof *r->room, "rows of tables");
  return RONDE_OK;
}

ronde_status ronde__server_rows_create(ronde__server *s, const ronde__ps_plan *plan, const ronde__ps_table *tables,
                                       const ronde__ps_patch *patches) {
  ronde__server_rows *r;
  size_t n_workers = (size_t)s->n_workers;
  RONDE__ALLOC(r, sizeof *r, "rows of tables");
  s->rows = r;
  s->n_tables = (int)plan->n_tables;
  r->n_patches = (int)plan->n_patches;
  RONDE__ALLOC(r->known, n_workers * (size_t)s->n_tables * sizeof *r->known, "rows of tables");
  RONDE__ALLOC(r->gathered, n_workers * (size_t)s->n_buckets * sizeof *r->gathered, "rows of tables");
  RONDE__ALLOC(r->tables, (size_t)s->n_tables * sizeof *r->tables, "rows of tables");
  RONDE_TRY(make_sets(s, tables));
  RONDE_TRY(make_patches(s, tables, patches));
  for (int t = 0; t < s->n_tables && plan->n_updates > 0; t++) /* who knows which rows have state */
    ronde__row_set_add_all(&r->moved[t]);
  return RONDE_OK;
}

void ronde__server_rows_destroy(ronde__server *s) {
  ronde__server_rows *r = s->rows;
  if (!r) return;
  ronde__free(r->patches);
  ronde__free(r->first);
  ronde__free(r->pushed);
  ronde__free(r->missed);
  ronde__free(r->told);
  ronde__free(r->joined);
  ronde__free(r->moved);
  ronde__free(r->bits);
  ronde__free(r->known);
  ronde__free(r->gathered);
  ronde__free(r->tables);
  ronde__free(r->room);
  ronde__free(r);
}

/* ---- a worker's push ----------------------------------------------------------------------------------------------- */

static ronde__row_set *sets_of(const ronde__server *s, ronde__row_set *sets, int w) { return sets + w * s->n_tables; }

static float *place_of(const ronde__server *s, int w) { return s->pushed + (size_t)w * s->n; }

bool ronde__server_rows_in(const ronde__server *s, int b) {
  return s->rows && s->rows->first[b] < s->rows->first[b + 1];
}

bool ronde__server_rows_has(const ronde__server *s, int b, int t) {
  for (int i = s->rows->first[b]; i < s->rows->first[b + 1]; i++)
    if (s->rows->patches[i].table == t) return true;
  return false;
}

/* The server's piece of bucket b without the rows that are not in `sets` [T]. */
static ronde__bucket bucket_of(const ronde__server *s, const ronde__row_set *sets, int b) {
  const ronde__server_rows *r = s->rows;
  ronde__bucket bucket = {.begin = s->begin[b], .end = s->begin[b + 1]};
  int n = 0;
  for (int i = r->first[b]; i < r->first[b + 1]; i++)
    r->tables[n++] = (ronde__table){.rows = &sets[r->patches[i].table], .begin = r->patches[i].table_begin};
  ronde__row_gaps_leave_out(&bucket, r->tables, n, NULL, 0, r->room);
  return bucket;
}

/* The next stretch of rows of a patch that are in the set. From *at on, the patch's beginning at first. */
static bool next_stretch(const patch *p, const ronde__row_set *set, size_t *at, ronde__range *stretch_out) {
  while (*at < p->end) {
    int64_t row = ((int64_t)*at - p->table_begin) / set->elems;
    int64_t past = ronde__row_set_run(set, row, set->n);
    size_t begin = *at;
    *at = (size_t)ronde__min((int64_t)p->end, p->table_begin + past * set->elems);
    *stretch_out = (ronde__range){begin, *at - begin};
    if (ronde__row_set_has(set, row)) return true;
  }
  return false;
}

static void clear_place(ronde__server *s, int w) {
  ronde__server_rows *r = s->rows;
  float *place = place_of(s, w);
  for (int b = 0; b < s->n_buckets; b++) {
    size_t *gathered = &r->gathered[w * s->n_buckets + b];
    memset(place + s->begin[b], 0, *gathered * sizeof *place);
    *gathered = 0;
  }
  for (int i = 0; i < r->n_patches; i++) {
    const patch *p = &r->patches[i];
    size_t at = p->begin;
    for (ronde__range x; next_stretch(p, &sets_of(s, r->pushed, w)[p->table], &at, &x);)
      memset(place + x.begin, 0, x.n * sizeof *place);
  }
}

ronde_status ronde__server_rows_receive(ronde__server *s, int w, ronde__request *requests) {
  if (!s->rows) return RONDE_OK;
  clear_place(s, w);
  for (int t = 0; t < s->n_tables; t++) {
    ronde__row_set *set = &sets_of(s, s->rows->pushed, w)[t];
    s->rows->known[w * s->n_tables + t] = false;
    RONDE_TRY(s->group->ops->irecv(s->group, w, RONDE__PS_TAG((uint32_t)(RONDE__PS_MET + t)), set->bits,
                                   ronde__row_set_bytes(set), &requests[t]));
  }
  return RONDE_OK;
}

void ronde__server_rows_learn(ronde__server *s, int w, int t) { s->rows->known[w * s->n_tables + t] = true; }

bool ronde__server_rows_ready(const ronde__server *s, int w, int b) {
  for (int i = s->rows->first[b]; i < s->rows->first[b + 1]; i++)
    if (!s->rows->known[w * s->n_tables + s->rows->patches[i].table]) return false;
  return true;
}

bool ronde__server_rows_is_known(const ronde__server *s, int w, int t) { return s->rows->known[w * s->n_tables + t]; }

size_t ronde__server_pushed_length(const ronde__server *s, int w, int b) {
  return ronde__server_rows_in(s, b) ? bucket_of(s, sets_of(s, s->rows->pushed, w), b).n_live
                                     : ronde__server_length(s, b);
}

void ronde__server_rows_spread(ronde__server *s, int w, int b) {
  if (!ronde__server_rows_in(s, b)) return;
  ronde__bucket bucket = bucket_of(s, sets_of(s, s->rows->pushed, w), b);
  ronde__bucket_unpack(&bucket, place_of(s, w));
}

/* ---- an update ----------------------------------------------------------------------------------------------------- */

void ronde__server_rows_begin(ronde__server *s) {
  for (int t = 0; t < s->n_tables; t++) ronde__row_set_clear(&s->rows->joined[t]);
}

void ronde__server_rows_join(ronde__server *s, int w, int t) {
  for (int i = 0; i < s->n_tables; i++)
    if (t < 0 || t == i) ronde__row_set_unite(&s->rows->joined[i], sets_of(s, s->rows->pushed, w)[i].bits);
}

/* Of [begin, end) what lies in front of patch *i, or else in it. False: there is no more. */
static bool next_part(const ronde__server *s, int *i, size_t *begin, size_t end, ronde__range *part_out,
                      const patch **patch_out) {
  const ronde__server_rows *r = s->rows;
  while (r && *i < r->n_patches && r->patches[*i].end <= *begin) ++*i;
  if (*begin >= end) return false;
  const patch *p = r && *i < r->n_patches ? &r->patches[*i] : NULL;
  size_t past = !p ? end : p->begin > *begin ? p->begin : p->end;
  if (past > end) past = end;
  *patch_out = p && p->begin <= *begin ? p : NULL;
  *part_out = (ronde__range){*begin, past - *begin};
  *begin = past;
  return true;
}

void ronde__server_add(ronde__server *s, int w, int sum, size_t begin, size_t n) {
  float *to = place_of(s, sum);
  const float *from = place_of(s, w);
  const patch *p;
  size_t end = begin + n;
  int i = 0;
  for (ronde__range x; next_part(s, &i, &begin, end, &x, &p);) {
    size_t at = x.begin;
    if (!p) s->o.kernels->add(to + at, from + at, to + at, (int64_t)x.n);
    for (ronde__range rows; p && next_stretch(p, &s->rows->joined[p->table], &at, &rows);)
      s->o.kernels->add(to + rows.begin, from + rows.begin, to + rows.begin, (int64_t)rows.n);
  }
}

void ronde__server_update(ronde__server *s, int w, size_t begin, size_t n) {
  const float *gradients = place_of(s, w);
  const patch *p;
  size_t end = begin + n;
  int i = 0;
  for (ronde__range x; next_part(s, &i, &begin, end, &x, &p);) {
    if (!p) {
      ronde__optim_range_on(s->optim, s->o.pool, s->values + x.begin, gradients + x.begin, x.begin, x.n);
      continue;
    }
    ronde__range part = {(size_t)((int64_t)x.begin - p->table_begin), x.n};
    ronde__optim_rows_on(s->optim, s->o.pool, s->values + p->table_begin, gradients + p->table_begin,
                         (size_t)p->table_begin, &s->rows->joined[p->table], part);
  }
}

void ronde__server_rows_summed(ronde__server *s, int w) {
  for (int t = 0; t < s->n_tables; t++) {
    const ronde__row_set *joined = &s->rows->joined[t];
    memcpy(sets_of(s, s->rows->pushed, w)[t].bits, joined->bits, ronde__row_set_bytes(joined));
  }
}

void ronde__server_rows_moved(ronde__server *s) {
  ronde__server_rows *r = s->rows;
  ronde__zero_moves zero = ronde__optim_zero_moves(s->optim);
  for (int t = 0; t < s->n_tables; t++) {
    if (zero == RONDE__ZERO_MOVES_ALL) ronde__row_set_add_all(&r->moved[t]);
    else if (zero == RONDE__ZERO_MOVES_NONE) ronde__row_set_clear(&r->moved[t]);
    ronde__row_set_unite(&r->moved[t], r->joined[t].bits);
    for (int v = 0; v < s->n_workers; v++) ronde__row_set_unite(&sets_of(s, r->missed, v)[t], r->moved[t].bits);
  }
}

/* ---- what a worker is sent ----------------------------------------------------------------------------------------- */

void ronde__server_rows_all_moved(ronde__server *s, int w) {
  for (int t = 0; t < s->n_tables; t++) ronde__row_set_add_all(&sets_of(s, s->rows->missed, w)[t]);
}

ronde_status ronde__server_rows_tell(ronde__server *s, int w, ronde__request *requests) {
  for (int t = 0; t < s->n_tables; t++) {
    ronde__row_set *missed = &sets_of(s, s->rows->missed, w)[t], *told = &sets_of(s, s->rows->told, w)[t];
    memcpy(told->bits, missed->bits, ronde__row_set_bytes(told));
    ronde__row_set_add_most(told);
    ronde__row_set_clear(missed);
    RONDE_TRY(s->group->ops->isend(s->group, w, RONDE__PS_TAG((uint32_t)(RONDE__PS_MOVED + t)), told->bits,
                                   ronde__row_set_bytes(told), &requests[t]));
  }
  return RONDE_OK;
}

size_t ronde__server_rows_gather(ronde__server *s, int w, int place, int b) {
  size_t *gathered = &s->rows->gathered[place * s->n_buckets + b];
  ronde__bucket bucket = bucket_of(s, sets_of(s, s->rows->told, w), b);
  ronde__bucket_gather(&bucket, s->values, place_of(s, place) + s->begin[b]);
  if (bucket.n_live > *gathered) *gathered = bucket.n_live;
  return bucket.n_live;
}
