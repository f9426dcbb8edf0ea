/* Labels of examples that have several; below 0: one that does not count. */
#ifndef RONDE_LABELS_H
#define RONDE_LABELS_H

#include "data/data.h"

/* How many of each example's labels count, [n]; NULL where all do. name: of the data, in errors. */
ronde_status ronde__labels_count(const char *name, int64_t n, int64_t n_labels, const int64_t *labels,
                                 int32_t **counted_out);

#endif
