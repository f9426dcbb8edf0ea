/* What a classifier said of many examples, summed up: class by class, which classes it takes for which, whether its
 * confidence can be trusted, and its most confident mistakes. */
#ifndef RONDE_VERDICTS_H
#define RONDE_VERDICTS_H

#include "job/evaluate.h"
#include <jansson.h>

typedef struct ronde__verdicts {
  const ronde__data *data;
  ronde_split split;
  const int64_t *ids; /* [n] of the split; NULL: 0..n-1 */
  int64_t n;
  ronde__verdict *at; /* [n] */
} ronde__verdicts;

/* Adds to an object: top5_accuracy, macro, calibration, classes, confusion, confused, mistakes; and writes classes.csv,
 * confusion.csv, calibration.csv, measures.csv and predictions.csv into a folder, which is made (NULL: none). RONDE_E_WRITE, RONDE_E_MEMORY. */
ronde_status ronde__verdicts_tell(const ronde__verdicts *verdicts, const char *folder, json_t *result);

#endif
