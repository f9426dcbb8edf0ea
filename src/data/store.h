/* Decoded examples, in the cache or in memory of their own. */
#ifndef RONDE_STORE_H
#define RONDE_STORE_H

#include "data/lease.h"
#include "data/set.h"

typedef struct ronde__store {
  ronde__facts facts;
  char sha256[2][65]; /* of both splits, see ronde__data; "" where it was not asked for */
  const void *x[2];   /* NULL where the split is empty or was not decoded */
  const int64_t *labels[2];
  const float *targets[2]; /* in place of labels, where the facts have these */
  const char *note;        /* facts.note_bytes of it; NULL: none */
  void *base;
  size_t bytes;
  ronde__lease *lease; /* on the cache file; NULL: the memory is this process's own */
} ronde__store;

/* Both splits: mapped from the cache file, which is made where it is missing or damaged; in anonymous memory, with a
 * warning, where it cannot be written. */
ronde_status ronde__store_open_cached(const ronde__set *set, ronde__store *store_out);
/* The wanted splits of a scanned set, decoded now, in memory of their own; no cache is touched. hash: of
 * them. */
ronde_status ronde__store_decode(const ronde__set *set, const ronde__facts *facts, const bool want[2], bool hash,
                                 ronde__store *store_out);
void ronde__store_close(ronde__store *store);

/* Where the inputs and the labels or targets of each split begin, in bytes from the base of the store. */
typedef struct ronde__store_layout {
  int64_t x[2], answers[2], note;
  int64_t bytes; /* of all, and of what lies in front */
} ronde__store_layout;

/* false: more than can be counted, or no such facts. */
bool ronde__store_layout_make(const ronde__facts *facts, int64_t front_bytes, const bool want[2],
                              ronde__store_layout *layout_out);
/* Decodes the examples; sets facts->largest_label, and sha256 of the wanted splits where hash asks for it. */
ronde_status ronde__store_fill(const ronde__set *set, const ronde__store_layout *layout, const bool want[2], bool hash,
                               char *base, ronde__facts *facts, char sha256[2][65]);
/* Sets the pointers of a store whose base and facts are set. */
void ronde__store_point(ronde__store *store, const ronde__store_layout *layout, const bool want[2]);

/* ---- an open set, for loaders ---------------------------------------------------------------------------------- */

/* Whether each epoch decodes the files anew. */
bool ronde__data_decodes(const ronde__data *data);
/* The train split, decoded now. */
ronde_status ronde__data_decode(const ronde__data *data, ronde__store *store_out);
/* Training examples as an epoch sees them, augmented and masked where the set says so. store: of ronde__data_decode; NULL:
 * the set's own. */
ronde_status ronde__data_read_epoch(const ronde__data *data, const ronde__store *store, int64_t epoch,
                                    const int64_t *ids, int64_t n, float *x, int64_t *labels, float *targets);

#endif
