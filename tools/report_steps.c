/* steps.jsonl as the report reads it, and what a picture needs of many samples. */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool keep_step(report_steps *steps, const json_t *step) {
  enum { PIECE = 4096 };
  if (steps->n % PIECE == 0) {
    size_t bytes = (size_t)(steps->n + PIECE) * sizeof(double);
    double **arrays[] = {&steps->loss, &steps->lr, &steps->wall_s};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
      double *larger = realloc(*arrays[i], bytes);
      if (!larger) return false;
      *arrays[i] = larger;
    }
  }
  steps->loss[steps->n] = tool_number(step, "loss");
  steps->lr[steps->n] = tool_number(step, "lr");
  steps->wall_s[steps->n++] = tool_number(step, "wall_s");
  return true;
}

void report_steps_read(const char *folder, report_steps *steps_out) {
  report_steps steps = {0};
  char path[4500], *line = NULL;
  size_t capacity = 0;
  snprintf(path, sizeof path, "%s/steps.jsonl", folder);
  FILE *file = fopen(path, "r");
  bool goes_on = file;
  while (goes_on && getline(&line, &capacity, file) > 0) {
    json_t *step = json_loads(line, 0, NULL);
    goes_on = json_is_object(step) && keep_step(&steps, step); /* the last line may have been cut off */
    json_decref(step);
  }
  free(line);
  if (file) fclose(file);
  *steps_out = steps;
}

void report_steps_end(report_steps *steps) {
  free(steps->loss);
  free(steps->lr);
  free(steps->wall_s);
  *steps = (report_steps){0};
}

/* ---- box plots: Tukey, "Exploratory Data Analysis", 1977 --------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double quantile(const double *sorted, int64_t n, double q) {
  double at = q * (double)(n - 1);
  int64_t i = (int64_t)at;
  return i + 1 < n ? sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]) : sorted[n - 1];
}

json_t *report_box(json_t *values, const char *name, const double *seconds, int64_t n) {
  enum { MOST_OUTLIERS = 200 };
  double *x = malloc((size_t)(n > 0 ? n : 1) * sizeof *x);
  int64_t m = 0, n_outliers = 0;
  for (int64_t i = 0; x && i < n; i++)
    if (isfinite(seconds[i])) x[m++] = 1e3 * seconds[i];
  if (!m) {
    free(x);
    return NULL;
  }
  qsort(x, (size_t)m, sizeof *x, ascending);
  double q1 = quantile(x, m, 0.25), q3 = quantile(x, m, 0.75), reach = 1.5 * (q3 - q1), low = x[m - 1], high = x[0];
  for (int64_t i = 0; i < m; i++) {
    if (x[i] >= q1 - reach && x[i] < low) low = x[i];
    if (x[i] <= q3 + reach && x[i] > high) high = x[i];
  }
  for (int64_t i = m - 1; i >= 0; i--) {
    if (x[i] >= low && x[i] <= high) continue;
    if (++n_outliers <= MOST_OUTLIERS) /* the largest first */
      json_array_append_new(values, json_pack("{s:s, s:s, s:f}", "kind", "outlier", "case", name, "ms", x[i]));
  }
  json_t *box =
      json_pack("{s:s, s:f, s:s, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:f, s:f}", "kind", "box", "ms", high, "case", name,
                "low", low, "q1", q1, "median", quantile(x, m, 0.5), "q3", q3, "high", high, "n", (json_int_t)m,
                "outliers", (json_int_t)n_outliers, "p99", quantile(x, m, 0.99), "max", x[m - 1]);
  json_array_append_new(values, box);
  free(x);
  return box;
}
