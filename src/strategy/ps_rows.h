/* Rows of tables (embeddings) between a worker and the parameter servers: a push carries those alone that the worker has
 * met since the last, behind one bit a row that says which; a pull those that the server has changed since the worker's
 * last one, in the same way. The buckets in which tables lie are exchanged here, all others by ps_worker.c.
 * Of a table of V rows of F elements, of which the worker has met U and the server changed C: V/8 bytes to and from each
 * server, and then U F 4 beta and C F 4 beta for all servers together; where U or C is more than half of V, V F 4 beta,
 * because packing costs copies. server_rows.c says which rows a server knows to be unchanged. Source: Li et al., "Scaling
 * distributed machine learning with the parameter server", OSDI 2014 (keys and values of what is not zero). */
#ifndef RONDE_PS_ROWS_H
#define RONDE_PS_ROWS_H

#include "strategy/buckets.h"
#include "strategy/ps.h"
#include "strategy/strategy.h"

typedef struct ronde__ps_rows ronde__ps_rows;

/* Begins to track the rows of the worker's net. NULL: it has no table. All of it must outlive it. */
ronde_status ronde__ps_rows_create(ronde__worker *worker, ronde__transport *group, const ronde__member *servers,
                                   int n_servers, const ronde__buckets *cut, ronde__ps_rows **rows_out);
void ronde__ps_rows_destroy(ronde__ps_rows *rows); /* NULL is taken */

/* For the plan of server i: its tables and patches. The latter are sent where there are tables. */
void ronde__ps_rows_count(const ronde__ps_rows *rows, int i, ronde__ps_plan *plan);
ronde_status ronde__ps_rows_send_plan(const ronde__ps_rows *rows, int i, const ronde__ps_plan *plan);

/* Whether bucket b has a part of a table. */
bool ronde__ps_rows_in(const ronde__ps_rows *rows, int b);
/* Of such a bucket, with requests [n_servers]; buckets in their order. */
ronde_status ronde__ps_rows_push(ronde__ps_rows *rows, int b, ronde__request *requests);
/* Behind the last push, when it has left: gradients are zero again where they were not met. Blocks. */
ronde_status ronde__ps_rows_end_pushes(ronde__ps_rows *rows);
/* In front of the pulls: what says which rows come. */
ronde_status ronde__ps_rows_begin_pulls(ronde__ps_rows *rows);
/* Of bucket b, with requests [n_servers]; buckets from the last to the first. Blocks. */
ronde_status ronde__ps_rows_pull(ronde__ps_rows *rows, int b, ronde__request *requests);
/* Which part of the tables' rows was pushed and pulled so far; NAN: nothing was. */
double ronde__ps_rows_part(const ronde__ps_rows *rows);

#endif
