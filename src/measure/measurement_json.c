/* Writes a measurement as bench.json ("ronde.bench.v1"): the one writer of `ronde compare` and of every `ronde bench`.
 * docs/record.md describes the file. */
#include "base/json.h"
#include "io/file.h"
#include "measure/measurement_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TIMES_AS_FAST "times_as_fast"

static json_t *real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static json_t *figure_json(const ronde_measurement *m, int of, const ronde__figure *figure) {
  ronde_statistics s = ronde_measurement_statistics(m, of, figure->name);
  json_t *samples = json_array();
  for (int64_t i = 0; i < figure->n_samples; i++) json_array_append_new(samples, real(figure->samples[i]));
  return json_pack("{s:o, s:o, s:o, s:o, s:o}", "median", real(s.median), "mad", real(s.mad), "low", real(s.low),
                   "high", real(s.high), "samples", samples);
}

/* The facts, then the figures. */
static json_t *measured_json(const ronde_measurement *m, int of) {
  const ronde__measured *measured = ronde__measured_of(m, of);
  json_t *json = json_copy(measured->facts);
  for (int64_t i = 0; i < measured->n_figures; i++)
    json_object_set_new(json, measured->figures[i].name, figure_json(m, of, &measured->figures[i]));
  return json;
}

/* What the interval of the ratio to case 0 says; null where there is none. */
static json_t *verdict_json(const ronde_measurement *m, int of) {
  ronde_statistics s = ronde_measurement_statistics(m, of, TIMES_AS_FAST);
  if (of == 0 || !isfinite(s.low)) return json_null();
  return json_string(s.low > 1 ? "faster" : s.high < 1 ? "slower" : "cannot be told apart");
}

static json_t *case_json(const ronde_measurement *m, int of) {
  json_t *json = measured_json(m, of);
  if (!json_object_get(json, TIMES_AS_FAST)) json_object_set_new(json, TIMES_AS_FAST, json_null());
  json_object_set_new(json, "verdict", verdict_json(m, of));
  return json;
}

static json_t *load_json(const ronde_measurement *m) {
  if (!m->has_load) return json_null();
  return json_pack("{s:i, s:f, s:b}", "cores", m->load.cores, "busy_with_others", m->load.others, "is_busy",
                   m->load.is_busy);
}

/* Why there is no ranking; null where there is one. */
static json_t *reason_json(const ronde_measurement *m) {
  const char *difference = ronde_measurement_difference(m);
  if (difference) return json_sprintf("not the same work: %s", difference);
  return m->ranked_by ? json_null() : ronde__json_text(m->reason);
}

static json_t *bench_json(const ronde_measurement *m) {
  bool is_ranked = m->ranked_by && !json_array_size(m->differences);
  json_t *json = measured_json(m, RONDE_WHOLE), *cases = json_array();
  for (int i = 0; i < m->n_cases; i++) json_array_append_new(cases, case_json(m, i));
  json_t *rest = json_pack("{s:o, s:O, s:b, s:s?, s:o, s:O, s:o}", "host_load", load_json(m), "axes", m->axes, "ranked",
                           is_ranked, "ranked_by", is_ranked ? m->ranked_by : NULL, "not_ranked", reason_json(m),
                           "differences", m->differences, "cases", cases);
  if (!rest || json_object_update(json, rest)) {
    json_decref(json);
    json = NULL;
  }
  json_decref(rest);
  return json;
}

ronde_status ronde_measurement_json(const ronde_measurement *m, char **json_out) {
  return ronde__json_give(bench_json(m), "measurement", json_out);
}

ronde_status ronde_measurement_write(const ronde_measurement *m, const char *folder) {
  char *text, *path = ronde__format("%s/bench.json", folder);
  if (!path) return ronde__fail(RONDE_E_MEMORY, "no memory for the measurement");
  ronde_status status = ronde__folder_make(folder);
  if (!status) status = ronde_measurement_json(m, &text);
  if (!status) {
    status = ronde__file_replace(path, text, strlen(text));
    free(text);
  }
  free(path);
  return status;
}
