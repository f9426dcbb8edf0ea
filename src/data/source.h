/* What a source says of its examples, checked. */
#ifndef RONDE_SOURCE_H
#define RONDE_SOURCE_H

#include "data/data.h"

/* NULL, or what is wrong with it. */
const char *ronde__source_wrong(const ronde_source *source);
/* Of an example's row: that its tokens are in their vocabulary. */
ronde_status ronde__source_check_row(const ronde_source *source, int64_t id, const float *x);

#endif
