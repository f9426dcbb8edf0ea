/* `ronde bench collectives`: all-reduce and its relatives timed by size, as a table. */
#include "common.h"

#include <stdio.h>

static void print_collectives(const json_t *bench) {
  static const tool_column columns[] = {
      {"bytes", TOOL_CELL_COUNT, "bytes", 0, 1},
      {"collective", TOOL_CELL_TEXT, "name", 0, 1},
      {"us", TOOL_CELL_NUMBER, "time_s.median", 2, 1e6},
      {"MAD", TOOL_CELL_NUMBER, "time_s.mad", 2, 1e6},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "time_s", 2, 1e6},
      {"algbw GB/s", TOOL_CELL_NUMBER, "algbw_bytes_per_s", 3, 1e-9},
      {"busbw GB/s", TOOL_CELL_NUMBER, "busbw_bytes_per_s", 3, 1e-9},
      {"of copying", TOOL_CELL_NUMBER, "of_copying", 2, 1},
  };
  printf("%.0f workers on %.0f host%s over %s; medians of %.0f rounds\n", tool_number(bench, "workers"),
         tool_number(bench, "hosts"), tool_number(bench, "hosts") > 1 ? "s" : "", tool_string(bench, "transport"),
         tool_number(bench, "rounds"));
  tool_table(json_object_get(bench, "cases"), columns, sizeof columns / sizeof columns[0]);
}

ronde_status tool_bench_collectives(const tool_call *call) {
  if (tool_must_launch(call)) return tool_launch(call);
  return tool_bench_run(call, ronde_bench_collectives, print_collectives);
}
