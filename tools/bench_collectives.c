/* `ronde bench collectives`: all-reduce and its relatives timed by size, as a table. */
#include "common.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double median(const json_t *one) { return tool_number(json_object_get(one, "time_s"), "median"); }

/* Samples become statistics; bandwidths from the median. */
static void complete(json_t *one) {
  json_object_set_new(one, "time_s", tool_statistics_json(json_object_get(one, "time_s")));
  double algbw = tool_number(one, "bytes") / median(one);
  json_object_set_new(one, "algbw_bytes_per_s", json_real(algbw));
  json_object_set_new(one, "busbw_bytes_per_s", json_real(algbw * tool_number(one, "bus_factor")));
}

/* The time in which all ranks copy a vector of that size once, or NAN. */
static double copy_s(const json_t *cases, const json_t *bytes) {
  const json_t *one;
  size_t i;
  json_array_foreach(cases, i, one) {
    if (!strcmp(tool_string(one, "collective"), "copy") && json_equal(json_object_get(one, "bytes"), bytes))
      return median(one);
  }
  return NAN;
}

static void print(const json_t *bench) {
  const json_t *cases = json_object_get(bench, "cases"), *one;
  size_t i;
  printf("%.0f workers on %.0f host%s over %s; medians of %.0f rounds\n", tool_number(bench, "workers"),
         tool_number(bench, "hosts"), tool_number(bench, "hosts") > 1 ? "s" : "", tool_string(bench, "transport"),
         tool_number(bench, "rounds"));
  printf("%13s  %-18s %12s %10s %11s %11s %10s\n", "bytes", "collective", "us", "MAD", "algbw GB/s", "busbw GB/s",
         "of copying");
  json_array_foreach(cases, i, one) {
    const json_t *bytes = json_object_get(one, "bytes");
    char count[32], ratio[32] = "-";
    double copied = strcmp(tool_string(one, "collective"), "all-reduce") ? NAN : copy_s(cases, bytes);
    if (isfinite(copied)) snprintf(ratio, sizeof ratio, "%.2f", copied / median(one));
    printf("%13s  %-18s %12.2f %10.2f %11.3f %11.3f %10s\n", tool_count(json_number_value(bytes), count),
           tool_string(one, "name"), 1e6 * median(one), 1e6 * tool_number(json_object_get(one, "time_s"), "mad"),
           1e-9 * tool_number(one, "algbw_bytes_per_s"), 1e-9 * tool_number(one, "busbw_bytes_per_s"), ratio);
  }
}

static ronde_status report(const tool_call *call, json_t *bench) {
  json_t *one;
  size_t i;
  json_array_foreach(json_object_get(bench, "cases"), i, one) { complete(one); }
  const char *out = ronde_config_get(call->config, "out");
  ronde_status status = *out ? tool_folder_make(out) : RONDE_OK;
  if (!status && *out) status = tool_bench_write(out, bench);
  char *text = json_dumps(bench, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
  if (!status && !text) status = tool_fail(RONDE_E_MEMORY, "bench: no memory for the result");
  if (status) {
    free(text);
    return status;
  }
  return tool_print_result(call, text, print);
}

ronde_status tool_bench_collectives(const tool_call *call) {
  if (tool_must_launch(call)) return tool_launch(call);
  tool_signals_start(0);
  ronde_hooks hooks = tool_hooks(false, 0);
  char *text = NULL;
  ronde_status status = ronde_bench_collectives(call->config, &hooks, &text);
  json_t *bench = text ? tool_json(text) : NULL;
  if (bench) status = report(call, bench);
  json_decref(bench);
  free(text);
  if (status == RONDE_E_CANCELLED && !tool_is_follower())
    tool_fail(status, "interrupted: the measurement was broken off");
  return status;
}
