/* Recorded spans as a structure. */
#include "graph/spans.h"

#include "base/base.h"

#include <math.h>
#include <stdlib.h>

void ronde__spans_destroy(ronde__spans *spans) {
  if (!spans) return;
  for (int i = 0; spans->params && i < spans->n_params; i++) free(spans->params[i].name);
  ronde__free(spans->params);
  free(spans->model);
  ronde__free(spans);
}

uint64_t ronde__spans_scale(const ronde__spans *spans, uint64_t ns, int64_t n, double slowness) {
  double part = spans->examples ? (double)n / (double)spans->examples : 1;
  return (uint64_t)llround((double)ns * part * slowness);
}
