/* The state of a network whose stages lie on several ranks: those of the first replica have a part each. Rank 0 reads it
 * tensor by tensor, slice by slice, so that files and hashes are of the whole, and no rank ever holds it. Either way it
 * is a conversation: who reads asks, and who has it answers until it hears that nobody asks any more. */
#ifndef RONDE_PARTS_H
#define RONDE_PARTS_H

#include "io/safetensors.h"
#include "strategy/strategy.h"

typedef struct ronde__parts ronde__parts;

/* A tensor of the graph, or what else is kept of one. */
typedef enum ronde__part_kind {
  RONDE__PART_PARAM,
  RONDE__PART_BUFFER,
  RONDE__PART_COUNTER, /* an i64, all others are f32 */
  RONDE__PART_ARRAY    /* one of the state's, of a parameter that trains */
} ronde__part_kind;
typedef struct ronde__part {
  ronde__part_kind kind;
  int index; /* of the parameter, or buffer, in the graph */
  int array;
} ronde__part;

typedef struct ronde__parts_options {
  ronde__transport *transport; /* of the workers, */
  int n;                       /* of which ranks 0 to n - 1 are the first replica */
  ronde__net *net;             /* the rank's */
  const ronde__state_array *arrays;
  int n_arrays;
} ronde__parts_options;

/* All ranks together. What the options point at must outlive it. */
ronde_status ronde__parts_create(const ronde__parts_options *options, ronde__parts **parts_out);
void ronde__parts_destroy(ronde__parts *parts); /* NULL is taken */

/* Rank 0, while the others serve: the next values in logical order, from element `first` on (0, or where the values
 * before have ended), valid until the next call. */
ronde_status ronde__parts_fetch(ronde__parts *parts, ronde__part part, int64_t first, const void **data_out,
                                int64_t *n_out);
/* Rank 0, then: the others go on. */
ronde_status ronde__parts_end(ronde__parts *parts);
/* The others, of whatever replica. */
ronde_status ronde__parts_serve(ronde__parts *parts);

/* All ranks together: each other one takes its part from a file that was checked against the graph and that rank 0 has;
 * of arrays those that are there. The others' file may be NULL. */
ronde_status ronde__parts_spread(ronde__parts *parts, const ronde__safetensors *file);

#endif
