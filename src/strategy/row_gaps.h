/* What a stretch of flat arrays leaves out because rows of tables in it are not exchanged. */
#ifndef RONDE_ROW_GAPS_H
#define RONDE_ROW_GAPS_H

#include "base/rows.h"
#include "strategy/buckets.h"

/* A table in the arrays in which a bucket lies. Where these are a piece of others it may begin before them. */
typedef struct ronde__table {
  const ronde__row_set *rows; /* those that are exchanged */
  int64_t begin;
  bool is_whole; /* all are, whatever rows says */
} ronde__table;

/* Rows of the table that lie in the bucket, or in part; none: end <= begin. */
void ronde__table_within(const ronde__table *table, const ronde__bucket *bucket, int64_t *begin_out, int64_t *end_out);
/* The most gaps that these tables leave in the bucket: every second row. */
int64_t ronde__row_gaps_most(const ronde__table *tables, int n_tables, const ronde__bucket *bucket);
/* What is dead in the bucket becomes `dead`, ascending as the tables are, and the rows of tables that are not
 * exchanged. room: [ronde__row_gaps_most + n_dead], the bucket's from now on. */
void ronde__row_gaps_leave_out(ronde__bucket *bucket, const ronde__table *tables, int n_tables,
                               const ronde__range *dead, int n_dead, ronde__range *room);

#endif
