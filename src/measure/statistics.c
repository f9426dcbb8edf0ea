/* Statistics of measurements. The middle is a median, because other users of the machine disturb a mean. The
 * interval of many independent samples is the percentile bootstrap of the median. For the few rounds of a
 * measurement a bootstrap is far too narrow, so their interval is Student's t on logarithms: disturbances multiply a
 * time.
 * Source: Efron & Tibshirani, "An introduction to the bootstrap", 1993 (bootstrap); Student, "The probable error of
 * a mean", Biometrika 6, 1908 (t). */
#include "base/rng.h"
#include "measure/measurement.h"

#include <math.h>
#include <stdlib.h>

enum { RESAMPLES = 1000, SEED = 1, MOST_FREEDOM = 1000 }; /* beyond those t is the normal distribution */
#define PI 3.14159265358979323846

static int samples_ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The medians of samples drawn from x with replacement. */
static void bootstrap_medians(const double *x, int64_t n, double *drawn, double medians[RESAMPLES]) {
  ronde__rng rng = ronde__rng_make(SEED, 0);
  for (int r = 0; r < RESAMPLES; r++) {
    for (int64_t i = 0; i < n; i++) drawn[i] = x[ronde__rng_below(&rng, (uint64_t)n)];
    medians[r] = ronde__median(drawn, n);
  }
}

ronde_status ronde__median_and_mad(const double *samples, int64_t n, ronde_statistics *s) {
  double *x;
  if (n < 1) return ronde__fail(RONDE_E_USAGE, "statistics: there are no samples");
  for (int64_t i = 0; i < n; i++)
    if (!isfinite(samples[i]))
      return ronde__fail(RONDE_E_NUMERIC, "statistics: sample %lld is NaN or Inf", (long long)i);
  RONDE__ALLOC(x, (size_t)n * sizeof *x, "statistics");
  for (int64_t i = 0; i < n; i++) x[i] = samples[i];
  s->median = ronde__median(x, n);
  for (int64_t i = 0; i < n; i++) x[i] = fabs(samples[i] - s->median);
  s->mad = ronde__median(x, n);
  ronde__free(x);
  return RONDE_OK;
}

ronde_status ronde_statistics_of(const double *samples, int64_t n, ronde_statistics *statistics_out) {
  double *drawn, medians[RESAMPLES];
  ronde_statistics statistics;
  RONDE_TRY(ronde__median_and_mad(samples, n, &statistics));
  RONDE__ALLOC(drawn, (size_t)n * sizeof *drawn, "statistics");
  bootstrap_medians(samples, n, drawn, medians);
  ronde__free(drawn);
  qsort(medians, RESAMPLES, sizeof *medians, samples_ascending);
  statistics.low = medians[RESAMPLES * 25 / 1000];
  statistics.high = medians[RESAMPLES * 975 / 1000 - 1];
  *statistics_out = statistics;
  return RONDE_OK;
}

/* ---- rounds ---- */

/* Of Student's t with `freedom` degrees of freedom, the probability of |t| < tan(angle) sqrt(freedom). Source:
 * Abramowitz & Stegun, "Handbook of mathematical functions", 26.7.3 and 26.7.4. */
static double student_within(double angle, int freedom) {
  bool is_odd = freedom % 2;
  double squared = cos(angle) * cos(angle), term = is_odd ? cos(angle) : 1, sum = freedom > 1 ? term : 0;
  for (int k = is_odd ? 3 : 2; k < freedom; k += 2) {
    term *= squared * (k - 1) / k;
    sum += term;
  }
  return is_odd ? 2 / PI * (angle + sin(angle) * sum) : sin(angle) * sum;
}

/* The bound below which |t| lies with a probability of 95 %. */
static double student_95(int64_t freedom) {
  int n = (int)ronde__min(freedom, MOST_FREEDOM);
  double low = 0, high = PI / 2;
  for (int i = 0; i < 60; i++) {
    double angle = 0.5 * (low + high);
    if (student_within(angle, n) < 0.95) low = angle;
    else high = angle;
  }
  return tan(low) * sqrt(n);
}

/* Uses the values themselves where one of them has no logarithm. */
static void student_interval(const double *rounds, int64_t n, ronde_statistics *s) {
  bool is_log = true;
  double mean = 0, squares = 0;
  for (int64_t i = 0; i < n; i++) is_log &= rounds[i] > 0;
  for (int64_t i = 0; i < n; i++) mean += (is_log ? log(rounds[i]) : rounds[i]) / (double)n;
  for (int64_t i = 0; i < n; i++) {
    double off = (is_log ? log(rounds[i]) : rounds[i]) - mean;
    squares += off * off;
  }
  double half = student_95(n - 1) * sqrt(squares / (double)(n - 1) / (double)n);
  s->low = is_log ? exp(mean - half) : mean - half;
  s->high = is_log ? exp(mean + half) : mean + half;
  /* The median can lie outside of it where rounds fall into two groups, or by rounding. */
  s->low = fmin(s->low, s->median);
  s->high = fmax(s->high, s->median);
}

ronde_status ronde_statistics_of_rounds(const double *rounds, int64_t n, ronde_statistics *statistics_out) {
  ronde_statistics statistics = {.low = NAN, .high = NAN};
  RONDE_TRY(ronde__median_and_mad(rounds, n, &statistics));
  if (n > 1) student_interval(rounds, n, &statistics);
  *statistics_out = statistics;
  return RONDE_OK;
}
