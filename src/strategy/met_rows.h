/* An exchange of gradients that leaves out the rows of tables (embeddings) that no rank has met in the step: the ranks
 * tell each other which they have met, one bit a row, and then a bucket has only the others' rows to exchange. To the
 * collective it is a shorter vector.
 * Of a table of V rows of F elements, of which the ranks have met U between them: ceil(log2 p) alpha + (p-1) V/8 beta
 * for the bits, once a step, and all that U/V of the all-reduce takes; where U is more than half of V, all of the table
 * is exchanged, because packing costs two copies of what is left.
 * Sources: Renggli et al., "SparCML: high-performance sparse communication for machine learning", SC 2019 (the sum of
 * sparse vectors, and when it is dense); Kim et al., "Parallax: sparsity-aware data parallel training of deep neural
 * networks", EuroSys 2019 (sparse embeddings beside dense layers). */
#ifndef RONDE_MET_ROWS_H
#define RONDE_MET_ROWS_H

#include "strategy/buckets.h"
#include "strategy/strategy.h"

typedef struct ronde__met_rows ronde__met_rows;

/* Begins to track the rows of the worker's net. NULL: it has no table. Both must outlive it. */
ronde_status ronde__met_rows_create(const ronde__worker *worker, ronde__buckets *cut, ronde__met_rows **met_out);
void ronde__met_rows_destroy(ronde__met_rows *met); /* NULL is taken */
/* A step begins: nobody knows of the others' rows. */
void ronde__met_rows_begin(ronde__met_rows *met);
/* In front of packing bucket b, whose gradients are final on this rank: what is dead in it is now what this step does
 * not exchange, and the net's rows are those that some rank has met. Blocks. Every rank calls it for the same buckets in the
 * same order; tag: of the bucket. */
ronde_status ronde__met_rows_share(ronde__met_rows *met, uint32_t tag, int b);
/* Which part of the tables' rows was exchanged in the steps so far; NAN: in none. */
double ronde__met_rows_part(const ronde__met_rows *met);

#endif
