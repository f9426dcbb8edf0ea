/* Conclusions from cases that were measured (advice.h). The roofline of the kernels tells compute from memory: Williams,
 * Waterman & Patterson, "Roofline", 2009. */
#include "advice.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

static double median_of(const json_t *one, const char *figure) {
  return tool_number(json_object_get(one, figure), "median");
}

static json_t *real_or_null(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *rate_of(double median, double low, double high) {
  return json_pack("{s:o, s:o, s:o}", "median", real_or_null(median), "low", real_or_null(low), "high",
                   real_or_null(high));
}

json_t *tool_advice_row(const char *stage, const json_t *one) {
  const json_t *rate = json_object_get(one, "examples_per_s"), *communication = json_object_get(one, "communication");
  bool is_apart = json_is_object(json_object_get(communication, "staleness")) ||
                  json_is_object(json_object_get(communication, "synchronisations"));
  double compute = median_of(one, "forward_s") + median_of(one, "backward_s") + median_of(one, "update_s");
  return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "stage", stage, "strategy",
                   tool_string(one, "strategy"), "workers", real_or_null(tool_number(one, "workers")), "threads",
                   real_or_null(tool_number(one, "threads")), "batch", real_or_null(tool_number(one, "batch")),
                   "examples_per_s",
                   rate_of(tool_number(rate, "median"), tool_number(rate, "low"), tool_number(rate, "high")), "step_s",
                   real_or_null(median_of(one, "step_s")), "load_s", real_or_null(median_of(one, "load_s")),
                   "compute_s", real_or_null(compute), "exchange_s", real_or_null(median_of(one, "exchange_s")),
                   "wait_s", real_or_null(median_of(one, "wait_s")), "equals_one", !is_apart);
}

json_t *tool_advice_candidate(const char *stage, const json_t *like, const json_t *candidate) {
  double batch = tool_number(like, "batch"), step_s = tool_number(candidate, "step_s");
  json_t *row = json_copy((json_t *)like);
  static const char *const same[] = {"step_s", "compute_s", "exchange_s", "wait_s"};
  if (!row || json_object_get(candidate, "left_out") || !(step_s > 0)) {
    json_decref(row);
    return NULL;
  }
  json_object_set_new(row, "stage", json_string(stage));
  json_object_set_new(row, "strategy", json_string(tool_string(candidate, "strategy")));
  json_object_set_new(
      row, "examples_per_s",
      rate_of(batch / step_s, batch / tool_number(candidate, "high_s"), batch / tool_number(candidate, "low_s")));
  for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
    json_object_set_new(row, same[i], real_or_null(tool_number(candidate, same[i])));
  return row;
}

/* ---- the choice ---------------------------------------------------------------------------------------------------- */

static double rate(const json_t *row) { return median_of(row, "examples_per_s"); }

static bool is_simpler(const json_t *row, const json_t *than) {
  double workers = tool_number(row, "workers"), than_workers = tool_number(than, "workers");
  double threads = workers * tool_number(row, "threads"), than_threads = than_workers * tool_number(than, "threads");
  if (threads != than_threads) return threads < than_threads;
  if (workers != than_workers) return workers < than_workers;
  return tool_number(row, "batch") < tool_number(than, "batch");
}

const json_t *tool_advice_pick(const json_t *rows) {
  const json_t *row, *fastest = NULL, *best = NULL;
  size_t i;
  json_array_foreach((json_t *)rows, i, row) {
    if (!json_is_true(json_object_get(row, "equals_one")) || !(rate(row) > 0)) continue;
    if (!fastest || rate(row) > rate(fastest)) fastest = row;
  }
  json_array_foreach((json_t *)rows, i, row) {
    if (!json_is_true(json_object_get(row, "equals_one")) || !(rate(row) >= ADVICE_ALIKE * rate(fastest))) continue;
    if (!best || is_simpler(row, best)) best = row;
  }
  return best;
}

/* ---- what limits it ------------------------------------------------------------------------------------------------ */

/* Of the kernels' time: the part that arithmetic bounds, and which share of the bound each part reaches. */
typedef struct roofline {
  double arithmetic, arithmetic_reached, memory_reached;
} roofline;

static bool read_roofline(const json_t *kernels, roofline *roofline_out) {
  double seconds[2] = {0}, limits[2] = {0};
  const json_t *one;
  size_t i;
  json_array_foreach(json_object_get(kernels, "cases"), i, one) {
    bool is_arithmetic = strcmp(tool_string(one, "bound"), "arithmetic") == 0;
    double s = median_of(one, "seconds"), reached = tool_number(one, "of_limit");
    if (!isfinite(s)) continue;
    seconds[is_arithmetic] += s;
    limits[is_arithmetic] += isfinite(reached) ? s * reached : 0;
  }
  if (!(seconds[0] + seconds[1] > 0)) return false;
  *roofline_out = (roofline){seconds[1] / (seconds[0] + seconds[1]), seconds[1] > 0 ? limits[1] / seconds[1] : 0,
                             seconds[0] > 0 ? limits[0] / seconds[0] : 0};
  return true;
}

static const struct {
  const char *figure, *what, *about, *help;
} parts[] = {
    {"compute_s", "compute", "forward, backward and update",
     "More cores or hosts would help, or --dtype bf16 where the processor has it."},
    {"exchange_s", "exchange", "moving gradients and weights between the workers",
     "A larger --batch exchanges less often, and --wire bf16 sends half the bytes; fewer workers exchange less."},
    {"wait_s", "waiting", "waiting for other workers",
     "The run's own page (ronde train --out, ronde report) says who is late; ronde doctor compares the hosts."},
    {"load_s", "loading", "waiting for batches",
     "--cache on decodes the data only once; a --resize made once before training, or less --augment, loads less."},
};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

static json_t *compute_text(json_t *limit, const char *head, const json_t *kernels, int part) {
  const json_t *peak = json_object_get(kernels, "peak");
  roofline r;
  if (part != 0 || !read_roofline(kernels, &r)) return json_sprintf("%s %s", head, parts[part].help);
  bool is_memory = r.arithmetic < 0.5;
  json_object_set_new(limit, "what", json_string(is_memory ? "memory" : "compute"));
  json_object_set_new(limit, "kernels",
                      json_pack("{s:f, s:f, s:f, s:O}", "arithmetic_share", r.arithmetic, "arithmetic_reached",
                                r.arithmetic_reached, "memory_reached", r.memory_reached, "peak", peak));
  return json_sprintf(
      "%s Of the kernels' time %.0f %% is bounded by arithmetic (they reach %.0f %% of %.0f GFLOP/s) and %.0f %% by "
      "memory "
      "(%.0f %% of %.1f GB/s), so %s. %s",
      head, 100 * r.arithmetic, 100 * r.arithmetic_reached, tool_number(peak, "gflops_per_s"), 100 * (1 - r.arithmetic),
      100 * r.memory_reached, tool_number(peak, "gbytes_per_s"),
      is_memory ? "it is memory bandwidth that limits" : "it is arithmetic that limits",
      is_memory
          ? "--dtype bf16 moves half the bytes where the processor has it; more threads on the same memory do not help."
          : parts[0].help);
}

json_t *tool_advice_limit(const json_t *row, const json_t *kernels) {
  double seconds[N_PARTS], all = 0;
  json_t *limit = json_object(), *shares = json_object();
  char head[512];
  int most = 0, next = -1;
  for (int i = 0; i < N_PARTS; i++) {
    seconds[i] = tool_number(row, parts[i].figure);
    if (!isfinite(seconds[i])) seconds[i] = 0;
    all += seconds[i];
    if (seconds[i] > seconds[most]) most = i;
  }
  for (int i = 0; i < N_PARTS; i++) {
    json_object_set_new(shares, parts[i].what, json_real(all > 0 ? seconds[i] / all : 0));
    if (i != most && (next < 0 || seconds[i] > seconds[next])) next = i;
  }
  json_object_set_new(limit, "what", json_string(parts[most].what));
  json_object_set_new(limit, "shares", shares);
  snprintf(head, sizeof head, "%s limits it: %.0f %% of a step goes into %s, %.0f %% into %s.",
           most == 0   ? "Computing"
           : most == 1 ? "Exchange"
           : most == 2 ? "Waiting"
                       : "Loading",
           all > 0 ? 100 * seconds[most] / all : 0, parts[most].about, all > 0 ? 100 * seconds[next] / all : 0,
           parts[next].about);
  json_object_set_new(limit, "text", compute_text(limit, head, kernels, most));
  return limit;
}

/* ---- words --------------------------------------------------------------------------------------------------------- */

const char *tool_advice_name(const json_t *row, char buffer[160]) {
  double workers = tool_number(row, "workers"), threads = tool_number(row, "threads");
  char by[64] = "";
  if (workers > 1) snprintf(by, sizeof by, " by %s", tool_string(row, "strategy"));
  snprintf(buffer, 160, "%.0f worker%s with %.0f thread%s%s%s, batch %.0f", workers, workers == 1 ? "" : "s", threads,
           threads == 1 ? "" : "s", workers == 1 ? "" : " each", by, tool_number(row, "batch"));
  return buffer;
}

const char *tool_advice_rate(const json_t *row, char buffer[128]) {
  const json_t *figure = json_object_get(row, "examples_per_s");
  char median[32], low[32], high[32];
  tool_count(round(tool_number(figure, "median")), median);
  if (!isfinite(tool_number(figure, "low"))) snprintf(buffer, 128, "%s examples/s", median);
  else
    snprintf(buffer, 128, "%s examples/s [%s, %s]", median, tool_count(round(tool_number(figure, "low")), low),
             tool_count(round(tool_number(figure, "high")), high));
  return buffer;
}
