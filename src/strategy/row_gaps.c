/* Gaps of buckets where rows of tables are left out. */
#include "strategy/row_gaps.h"

void ronde__table_within(const ronde__table *t, const ronde__bucket *bucket, int64_t *begin_out, int64_t *end_out) {
  int64_t first = (int64_t)bucket->begin - t->begin, past = (int64_t)bucket->end - t->begin;
  *begin_out = ronde__max(0, first) / t->rows->elems;
  *end_out = past <= 0 ? 0 : ronde__min(t->rows->n, ronde__ceil_div(past, t->rows->elems));
}

int64_t ronde__row_gaps_most(const ronde__table *tables, int n_tables, const ronde__bucket *bucket) {
  int64_t most = 0, begin, end;
  for (int i = 0; i < n_tables; i++) {
    ronde__table_within(&tables[i], bucket, &begin, &end);
    if (begin < end) most += (end - begin) / 2 + 1;
  }
  return most;
}

static void leave_out(ronde__bucket *bucket, ronde__range *gaps, ronde__range gap) {
  gaps[bucket->n_dead++] = gap;
  bucket->n_live -= gap.n;
}

static void leave_rows_out(const ronde__table *t, ronde__bucket *bucket, ronde__range *gaps) {
  int64_t row, end, next;
  for (ronde__table_within(t, bucket, &row, &end); row < end; row = next) {
    next = ronde__row_set_run(t->rows, row, end);
    if (ronde__row_set_has(t->rows, row)) continue;
    int64_t first = ronde__max(t->begin + row * t->rows->elems, (int64_t)bucket->begin);
    int64_t past = ronde__min(t->begin + next * t->rows->elems, (int64_t)bucket->end);
    leave_out(bucket, gaps, (ronde__range){(size_t)first, (size_t)(past - first)});
  }
}

void ronde__row_gaps_leave_out(ronde__bucket *bucket, const ronde__table *tables, int n_tables,
                               const ronde__range *dead, int n_dead, ronde__range *room) {
  int k = 0;
  bucket->dead = room;
  bucket->n_dead = 0;
  bucket->n_live = bucket->end - bucket->begin;
  for (int i = 0; i < n_tables; i++) {
    for (; k < n_dead && (int64_t)dead[k].begin < tables[i].begin; k++) leave_out(bucket, room, dead[k]);
    if (!tables[i].is_whole) leave_rows_out(&tables[i], bucket, room);
  }
  for (; k < n_dead; k++) leave_out(bucket, room, dead[k]);
}
