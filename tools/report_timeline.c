/* One step of all workers, from trace.json (docs/record.md): the one whose time is the median. Steps of rank 0 begin with its
 * `load`. */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A trace of more than this is not read: the page would be long in coming. */
enum { MOST_TRACE_MB = 512, MOST_BARS = 4000 };

static double begin_of(const json_t *event) { return tool_number(event, "ts"); }
static double end_of(const json_t *event) { return tool_number(event, "ts") + tool_number(event, "dur"); }
static bool is_span(const json_t *event) {
  return strcmp(tool_string(event, "ph"), "X") == 0 && isfinite(begin_of(event)) && isfinite(end_of(event));
}
static bool is_phase(const json_t *event) { return tool_number(event, "tid") == 0; }

/* The begin of each step of rank 0, in us; owned by the caller. */
static double *find_steps(const json_t *events, int64_t *n_out) {
  double *begins = malloc((json_array_size(events) + 1) * sizeof *begins);
  json_t *event;
  size_t i;
  *n_out = 0;
  json_array_foreach((json_t *)events, i, event) {
    if (begins && is_span(event) && is_phase(event) && tool_number(event, "pid") == 0 &&
        strcmp(tool_string(event, "name"), "load") == 0)
      begins[(*n_out)++] = begin_of(event);
  }
  return begins;
}

typedef struct span {
  double us;
  int64_t step;
} span;

static int by_time(const void *a, const void *b) {
  const span *x = a, *y = b;
  return x->us != y->us ? (x->us > y->us) - (x->us < y->us) : (x->step > y->step) - (x->step < y->step);
}

/* The step of the median time, from 0; not the first, which meets cold caches, nor the last, whose end is not known. */
static int64_t median_step(const double *begins, int64_t n) {
  span *spans = malloc((size_t)n * sizeof *spans);
  if (!spans) return -1;
  for (int64_t i = 1; i + 1 < n; i++) spans[i - 1] = (span){begins[i + 1] - begins[i], i};
  qsort(spans, (size_t)n - 2, sizeof *spans, by_time);
  int64_t step = spans[(n - 2) / 2].step;
  free(spans);
  return step;
}

static void add_bar(json_t *values, const json_t *event, double begin, double end) {
  double from = fmax(begin_of(event), begin) - begin, to = fmin(end_of(event), end) - begin;
  const char *name = tool_string(event, "name");
  int rank = (int)tool_number(event, "pid");
  if (!(to > from) || json_array_size(values) >= MOST_BARS) return;
  json_t *lane = json_sprintf("rank %d%s", rank, is_phase(event) ? "" : ", operators");
  json_array_append_new(
      values, json_pack("{s:o, s:s, s:s, s:f, s:f, s:f}", "lane", lane, "phase", is_phase(event) ? name : "operator",
                        "name", name, "from", 1e-3 * from, "to", 1e-3 * to, "ms", 1e-3 * (to - from)));
}

/* Lanes in their order: rank 0 with its operators, rank 1, ... */
static void add_bars(json_t *values, const json_t *events, double begin, double end) {
  json_t *event;
  size_t i;
  double last = 0;
  json_array_foreach((json_t *)events, i, event) {
    if (is_span(event)) last = fmax(last, tool_number(event, "pid"));
  }
  for (int rank = 0; rank <= last; rank++)
    for (int lane = 0; lane < 2; lane++) json_array_foreach((json_t *)events, i, event) {
        if (is_span(event) && (int)tool_number(event, "pid") == rank && is_phase(event) == (lane == 0))
          add_bar(values, event, begin, end);
      }
}

static json_t *read_trace(const char *folder) {
  char path[4500];
  snprintf(path, sizeof path, "%s/trace.json", folder);
  FILE *file = fopen(path, "r");
  if (!file) return NULL;
  bool fits = fseek(file, 0, SEEK_END) == 0 && ftell(file) < (long)MOST_TRACE_MB << 20;
  rewind(file);
  json_t *trace = fits ? json_loadf(file, 0, NULL) : NULL;
  fclose(file);
  return trace;
}

json_t *report_timeline(const char *folder, char *about_out, size_t bytes) {
  json_t *values = json_array(), *trace = read_trace(folder), *events = json_object_get(trace, "traceEvents");
  int64_t n = 0, step = -1;
  double *begins = find_steps(events, &n);
  about_out[0] = '\0';
  if (n > 2) step = median_step(begins, n);
  if (step > 0) {
    add_bars(values, events, begins[step], begins[step + 1]);
    snprintf(
        about_out, bytes,
        "Step %lld of this process: of all %lld in trace.json but the first and the last the one of median length. "
        "Ranks by the clock of rank 0.",
        (long long)step + 1, (long long)n);
  }
  free(begins);
  json_decref(trace);
  return values;
}
