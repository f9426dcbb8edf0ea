/* Measurements as JSON and text, and the file they are kept in. */
#include "common.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

ronde_status tool_sample(tool_samples *samples, double value) {
  int64_t n = samples->n;
  if ((n & (n - 1)) == 0) {
    double *at = realloc(samples->at, (size_t)(n ? 2 * n : 1) * sizeof *at);
    if (!at) return tool_fail(RONDE_E_MEMORY, "no memory for %lld samples", (long long)n + 1);
    samples->at = at;
  }
  samples->at[samples->n++] = value;
  return RONDE_OK;
}

static json_t *real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *statistics_json(const tool_samples *samples, ronde_statistics s) {
  json_t *json = json_object(), *all = json_array();
  for (int64_t i = 0; i < samples->n; i++) json_array_append_new(all, real(samples->at[i]));
  json_object_set_new(json, "median", real(s.median));
  json_object_set_new(json, "mad", real(s.mad));
  json_object_set_new(json, "low", real(s.low));
  json_object_set_new(json, "high", real(s.high));
  json_object_set_new(json, "samples", all);
  return json;
}

json_t *tool_samples_json(const tool_samples *rounds) {
  ronde_statistics s = {NAN, NAN, NAN, NAN};
  if (rounds->n > 0) ronde_statistics_of_rounds(rounds->at, rounds->n, &s);
  return statistics_json(rounds, s);
}

json_t *tool_steps_json(const tool_samples *steps, const tool_samples *medians) {
  ronde_statistics within = {NAN, NAN, NAN, NAN}, s = within;
  if (medians->n > 0) ronde_statistics_of_rounds(medians->at, medians->n, &s);
  if (steps->n > 0) ronde_statistics_of(steps->at, steps->n, &within);
  s.mad = within.mad;
  return statistics_json(steps, s);
}

const char *tool_interval(const json_t *statistics, double scale, int digits, char buffer[64]) {
  double low = tool_number(statistics, "low"), high = tool_number(statistics, "high");
  if (isfinite(low) && isfinite(high)) snprintf(buffer, 64, "[%.*f, %.*f]", digits, scale * low, digits, scale * high);
  else snprintf(buffer, 64, "-");
  return buffer;
}

json_t *tool_statistics_json(const json_t *list) {
  tool_samples samples = {0};
  for (size_t i = 0; i < json_array_size(list); i++)
    if (tool_sample(&samples, json_number_value(json_array_get(list, i)))) break;
  json_t *json = tool_samples_json(&samples);
  free(samples.at);
  return json;
}

ronde_status tool_folder_make(const char *folder) {
  if (mkdir(folder, 0777) == 0 || errno == EEXIST) return RONDE_OK;
  return tool_fail(RONDE_E_WRITE, "%s: cannot make the folder: %s", folder, strerror(errno));
}

ronde_status tool_bench_write(const char *folder, const json_t *bench) {
  char path[4100], part[4110];
  snprintf(path, sizeof path, "%s/bench.json", folder);
  snprintf(part, sizeof part, "%s.part", path);
  if (json_dump_file(bench, part, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) || rename(part, path)) {
    unlink(part);
    return tool_fail(RONDE_E_WRITE, "%s: cannot write: %s", path, strerror(errno));
  }
  return RONDE_OK;
}
