/* `ronde bench kernels`: each layer's kernels beside the peaks of the machine, as a table. */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>

static double kernel_seconds(const json_t *kernel) { return tool_number(json_object_get(kernel, "seconds"), "median"); }

/* The longest first. */
static int compare_kernels(const void *a, const void *b) {
  double x = kernel_seconds(*(json_t *const *)a), y = kernel_seconds(*(json_t *const *)b);
  return (x < y) - (x > y);
}

static json_t *sort_kernels(json_t *kernels) {
  size_t n = json_array_size(kernels);
  json_t **at = calloc(n ? n : 1, sizeof *at), *sorted = json_array();
  for (size_t i = 0; at && i < n; i++) at[i] = json_array_get(kernels, i);
  if (at) qsort(at, n, sizeof *at, compare_kernels);
  for (size_t i = 0; at && i < n; i++) json_array_append(sorted, at[i]);
  free(at);
  return sorted;
}

static void print_kernels(const json_t *bench) {
  static const tool_column columns[] = {
      {"kernel", TOOL_CELL_TEXT, "op", 0, 1},
      {"phase", TOOL_CELL_TEXT, "phase", 0, 1},
      {"implementation", TOOL_CELL_TEXT, "implementation", 0, 1},
      {"us a step", TOOL_CELL_NUMBER, "seconds.median", 1, 1e6},
      {"% of it", TOOL_CELL_NUMBER, "of_step", 1, 1e2},
      {"GFLOP/s", TOOL_CELL_NUMBER, "gflops_per_s", 1, 1},
      {"GB/s", TOOL_CELL_NUMBER, "gbytes_per_s", 1, 1},
      {"% reached", TOOL_CELL_NUMBER, "of_limit", 0, 1e2},
      {"of", TOOL_CELL_TEXT, "bound", 0, 1},
  };
  const json_t *peak = json_object_get(bench, "peak");
  json_t *sorted = sort_kernels(json_object_get(bench, "cases"));
  char bf16[48] = "";
  double bf16_gflops = tool_number(peak, "bf16_gflops_per_s"); /* NaN: null */
  if (bf16_gflops > 0) snprintf(bf16, sizeof bf16, " (bfloat16 %.1f)", bf16_gflops);
  printf("%s, batch %.0f, %.0f thread%s: %.3f ms a step; peaks: %.1f GFLOP/s%s, %.1f GB/s\n",
         tool_string(bench, "model"), tool_number(bench, "batch"), tool_number(bench, "threads"),
         tool_number(bench, "threads") > 1 ? "s" : "", 1e3 * tool_number(json_object_get(bench, "step_s"), "median"),
         tool_number(peak, "gflops_per_s"), bf16, tool_number(peak, "gbytes_per_s"));
  tool_table(sorted, columns, sizeof columns / sizeof columns[0]);
  json_decref(sorted);
}

ronde_status tool_bench_kernels(const tool_call *call) {
  return tool_bench_run(call, ronde_bench_kernels, print_kernels);
}
