/* The threads of one rank. The calling thread is thread 0; the others sleep between calls (they spin briefly first). */
#ifndef RONDE_POOL_H
#define RONDE_POOL_H

#include "base/base.h"

typedef struct ronde__pool ronde__pool;
typedef void (*ronde__pool_fn)(void *arg, int thread, int n_threads);

ronde_status ronde__pool_create(int n_threads, ronde__pool **pool_out);
void ronde__pool_destroy(ronde__pool *pool);
int ronde__pool_threads(const ronde__pool *pool); /* 1 for NULL */
/* Runs fn on every thread of the pool and returns when all have returned. pool NULL: on the calling thread alone. */
void ronde__pool_run(ronde__pool *pool, ronde__pool_fn fn, void *arg);

#endif
