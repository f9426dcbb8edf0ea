/* Rows of tables on a parameter server: which each worker's push has, which an update changes, and which of them a worker
 * has not been sent yet. A place where a push lands is zero in the rows that it does not have, so a sum of several, a
 * norm and an update are those of whole tables, bit by bit.
 * A gradient of zero moves no row under plain SGD, Adagrad and RMSprop; with momentum and Adam it moves the rows that have
 * had a gradient; with weight decay all rows move, and all are sent. */
#ifndef RONDE_SERVER_ROWS_H
#define RONDE_SERVER_ROWS_H

#include "strategy/server_impl.h"

typedef struct ronde__server_rows ronde__server_rows;

/* By the plan, which has tables and where they lie in the server's pieces. Without them `rows` stays NULL, and these calls
 * do what is done to any array, or nothing. */
ronde_status ronde__server_rows_create(ronde__server *server, const ronde__ps_plan *plan, const ronde__ps_table *tables,
                                       const ronde__ps_patch *patches);
void ronde__server_rows_destroy(ronde__server *server);

/* Whether bucket b has a part of a table. */
bool ronde__server_rows_in(const ronde__server *server, int b);
/* A push of worker w begins: its place is zero, requests [n_tables] are for what says which rows it has. */
ronde_status ronde__server_rows_receive(ronde__server *server, int w, ronde__request *requests);
/* What said it of table t is here. */
void ronde__server_rows_learn(ronde__server *server, int w, int t);
/* Whether that is so, and of all tables in bucket b. */
bool ronde__server_rows_is_known(const ronde__server *server, int w, int t);
bool ronde__server_rows_ready(const ronde__server *server, int w, int b);
bool ronde__server_rows_has(const ronde__server *server, int b, int t);
/* How many elements of bucket b worker w pushes. */
size_t ronde__server_pushed_length(const ronde__server *server, int w, int b);
/* They have landed, one behind the other: each goes to its own place. */
void ronde__server_rows_spread(ronde__server *server, int w, int b);

/* An update begins, without rows; */
void ronde__server_rows_begin(ronde__server *server);
/* worker w's are in it, of table t or (-1) of all; */
void ronde__server_rows_join(ronde__server *server, int w, int t);
/* adds worker w's gradients in [begin, begin + n), whole buckets, to those in another's place, once all have joined; */
void ronde__server_add(ronde__server *server, int w, int sum, size_t begin, size_t n);
/* that place has the rows of all; */
void ronde__server_rows_summed(ronde__server *server, int sum);
/* updates that range by what is in worker w's place. */
void ronde__server_update(ronde__server *server, int w, size_t begin, size_t n);
/* What such an update moves is still to be sent to all workers; before anything of it is. */
void ronde__server_rows_moved(ronde__server *server);

/* The worker is sent all rows next time. */
void ronde__server_rows_all_moved(ronde__server *server, int w);
/* Sends worker w which rows are sent, in requests [n_tables], and counts them as sent. */
ronde_status ronde__server_rows_tell(ronde__server *server, int w, ronde__request *requests);
/* Those of bucket b, to worker w's place or another's, `place`, from where they are sent. Returns how many elements. */
size_t ronde__server_rows_gather(ronde__server *server, int w, int place, int b);

#endif
