/* `ronde bench kernels`: each layer's kernels beside the peaks of the machine, as a table. */
#include "common.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_time(const void *a, const void *b) {
  double x = tool_number(*(json_t *const *)a, "median_s"), y = tool_number(*(json_t *const *)b, "median_s");
  return (x < y) - (x > y);
}

static void print_row(const json_t *row, double step_s) {
  char limit[32] = "-";
  double of_limit = tool_number(row, "of_limit"), seconds = tool_number(row, "median_s");
  if (isfinite(of_limit)) snprintf(limit, sizeof limit, "%.0f %% of %s", 1e2 * of_limit, tool_string(row, "bound"));
  printf("%-44s %-9s %-26s %9.1f %5.1f %% %9.1f %8.1f  %s\n", tool_string(row, "op"), tool_string(row, "phase"),
         tool_string(row, "implementation"), 1e6 * seconds, 1e2 * seconds / step_s, tool_number(row, "gflops_per_s"),
         tool_number(row, "gbytes_per_s"), limit);
}

static void print(const json_t *bench) {
  const json_t *rows = json_object_get(bench, "kernels"), *peak = json_object_get(bench, "peak");
  size_t n = json_array_size(rows);
  double step_s = tool_number(json_object_get(bench, "step_s"), "median");
  json_t **sorted = calloc(n ? n : 1, sizeof *sorted);
  if (!sorted) return;
  for (size_t i = 0; i < n; i++) sorted[i] = json_array_get(rows, i);
  qsort(sorted, n, sizeof *sorted, by_time);
  printf("%s, batch %.0f, %.0f thread%s: %.3f ms a step; peaks: %.1f GFLOP/s, %.1f GB/s\n", tool_string(bench, "model"),
         tool_number(bench, "batch"), tool_number(bench, "threads"), tool_number(bench, "threads") > 1 ? "s" : "",
         1e3 * step_s, tool_number(peak, "gflops_per_s"), tool_number(peak, "gbytes_per_s"));
  printf("%-44s %-9s %-26s %9s %7s %9s %8s  %s\n", "kernel", "phase", "implementation", "us a step", "of it", "GFLOP/s",
         "GB/s", "reached");
  for (size_t i = 0; i < n; i++) print_row(sorted[i], step_s);
  free(sorted);
}

static ronde_status report(const tool_call *call, json_t *bench) {
  json_t *row;
  size_t i;
  json_array_foreach(json_object_get(bench, "kernels"), i, row) {
    json_object_set_new(row, "seconds", tool_statistics_json(json_object_get(row, "seconds")));
  }
  json_object_set_new(bench, "step_s", tool_statistics_json(json_object_get(bench, "step_s")));
  const char *out = ronde_config_get(call->config, "out");
  ronde_status status = *out ? tool_folder_make(out) : RONDE_OK;
  if (!status && *out) status = tool_bench_write(out, bench);
  char *text = status ? NULL : json_dumps(bench, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
  if (!status && !text) status = tool_fail(RONDE_E_MEMORY, "bench kernels: no memory for the result");
  return status ? status : tool_print_result(call, text, print);
}

ronde_status tool_bench_kernels(const tool_call *call) {
  tool_signals_start(0);
  ronde_hooks hooks = tool_hooks(false, 0);
  char *text = NULL;
  ronde_status status = ronde_bench_kernels(call->config, &hooks, &text);
  json_t *bench = text ? tool_json(text) : NULL;
  if (bench) status = report(call, bench);
  json_decref(bench);
  free(text);
  if (status == RONDE_E_CANCELLED) tool_fail(status, "interrupted: the measurement was broken off");
  return status;
}
