/* What measurements say: medians, as a machine that others use disturbs a mean. The interval is the percentile bootstrap
 * of the median. Source: Efron & Tibshirani, "An introduction to the bootstrap", 1993. */
#include "base/base.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>

enum { RESAMPLES = 1000, SEED = 1 };

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The k-th smallest; x [n] is reordered. Source: Hoare, "Algorithm 65: find", 1961. */
static double smallest(double *x, int64_t n, int64_t k) {
  int64_t begin = 0, end = n - 1;
  while (begin < end) {
    double pivot = x[k];
    int64_t i = begin, j = end;
    do {
      while (x[i] < pivot) i++;
      while (pivot < x[j]) j--;
      if (i > j) break;
      double swapped = x[i];
      x[i++] = x[j];
      x[j--] = swapped;
    } while (i <= j);
    if (j < k) begin = i;
    if (k < i) end = j;
  }
  return x[k];
}

double ronde__median(double *x, int64_t n) {
  double upper = smallest(x, n, n / 2);
  return n % 2 ? upper : 0.5 * (upper + smallest(x, n, n / 2 - 1));
}

/* The medians of samples drawn from x with replacement. */
static void resample(const double *x, int64_t n, double *drawn, double medians[RESAMPLES]) {
  ronde__rng rng = ronde__rng_make(SEED, 0);
  for (int r = 0; r < RESAMPLES; r++) {
    for (int64_t i = 0; i < n; i++) drawn[i] = x[ronde__rng_below(&rng, (uint64_t)n)];
    medians[r] = ronde__median(drawn, n);
  }
}

ronde_status ronde_statistics_of(const double *samples, int64_t n, ronde_statistics *statistics_out) {
  double *x, medians[RESAMPLES];
  if (n < 1) return ronde__fail(RONDE_E_USAGE, "statistics: there are no samples");
  for (int64_t i = 0; i < n; i++)
    if (!isfinite(samples[i]))
      return ronde__fail(RONDE_E_NUMERIC, "statistics: sample %lld is NaN or Inf", (long long)i);
  RONDE__ALLOC(x, (size_t)n * sizeof *x, "statistics");
  for (int64_t i = 0; i < n; i++) x[i] = samples[i];
  ronde_statistics statistics = {.median = ronde__median(x, n)};
  for (int64_t i = 0; i < n; i++) x[i] = fabs(samples[i] - statistics.median);
  statistics.mad = ronde__median(x, n);
  resample(samples, n, x, medians);
  qsort(medians, RESAMPLES, sizeof *medians, ascending);
  statistics.low = medians[RESAMPLES * 25 / 1000];
  statistics.high = medians[RESAMPLES * 975 / 1000 - 1];
  ronde__free(x);
  *statistics_out = statistics;
  return RONDE_OK;
}
