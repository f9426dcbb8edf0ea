/* Gathers what is measured: cases, facts about them, samples round by round; compares their work, and ranks them. */
#include "base/json.h"
#include "base/machine.h"
#include "measure/measurement_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_LOOK_S 0.2

static ronde_status fail_memory(void) { return ronde__fail(RONDE_E_MEMORY, "no memory for the measurement"); }

/* The array with room for one more element behind n of them: arrays grow in powers of two. NULL: no memory. */
static void *grown(void *array, int64_t n, size_t bytes) {
  return n & (n - 1) ? array : realloc(array, (size_t)(n ? 2 * n : 1) * bytes);
}

#define GROW(array, n)                                    \
  do {                                                    \
    void *larger_ = grown((array), (n), sizeof *(array)); \
    if (!larger_) return fail_memory();                   \
    (array) = larger_;                                    \
  } while (0)

ronde_status ronde_measurement_create(const char *verb, ronde_measurement **measurement_out) {
  ronde_measurement *m;
  RONDE__ALLOC(m, sizeof *m, "a measurement");
  m->whole.facts = json_object();
  m->axes = json_object();
  m->differences = json_array();
  bool is_whole = m->whole.facts && m->axes && m->differences;
  ronde_status status = is_whole ? RONDE_OK : fail_memory();
  if (!status) status = ronde__measurement_put(m, RONDE_WHOLE, "schema", json_string("ronde.bench.v1"));
  if (!status) status = ronde__measurement_put(m, RONDE_WHOLE, "verb", ronde__json_text(verb));
  if (!status) status = ronde__measurement_put(m, RONDE_WHOLE, "command", ronde__command_json());
  if (status) ronde_measurement_destroy(m);
  else *measurement_out = m;
  return status;
}

static void end_measured(ronde__measured *measured) {
  for (int64_t i = 0; i < measured->n_figures; i++) {
    ronde__figure *figure = &measured->figures[i];
    free(figure->name);
    free(figure->samples);
    free(figure->medians);
    free(figure->rounds);
  }
  free(measured->figures);
  json_decref(measured->facts);
}

void ronde_measurement_destroy(ronde_measurement *m) {
  if (!m) return;
  for (int64_t i = 0; i < m->n_cases; i++) end_measured(&m->cases[i]);
  end_measured(&m->whole);
  free(m->cases);
  json_decref(m->axes);
  json_decref(m->differences);
  free(m->ranked_by);
  free(m->reason);
  ronde__free(m);
}

/* ---- the host ---- */

void ronde_measurement_begin(ronde_measurement *m) {
  ronde_host_look_now(&m->begin);
  m->has_begun = true;
}

/* The system counts the time of its cores in hundredths of a second: a short look would mostly see rounding. */
void ronde_measurement_end(ronde_measurement *m) {
  m->has_load = m->has_begun && 1e-9 * (double)ronde__now_ns() - m->begin.at_s >= LEAST_LOOK_S;
  if (m->has_load) m->load = ronde_host_load_since(&m->begin);
}

/* ---- cases and facts ---- */

ronde__measured *ronde__measured_of(const ronde_measurement *m, int of) {
  if (of == RONDE_WHOLE) return (ronde__measured *)&m->whole;
  return of >= 0 && of < m->n_cases ? &m->cases[of] : NULL;
}

static ronde_status find_measured(const ronde_measurement *m, int of, ronde__measured **measured_out) {
  *measured_out = ronde__measured_of(m, of);
  return *measured_out ? RONDE_OK : ronde__fail(RONDE_E_USAGE, "a measurement has no case %d", of);
}

ronde_status ronde__measurement_put(ronde_measurement *m, int of, const char *name, json_t *value) {
  ronde__measured *measured;
  ronde_status status = find_measured(m, of, &measured);
  if (status) json_decref(value);
  else if (json_object_set_new(measured->facts, name, value)) status = fail_memory();
  return status;
}

ronde_status ronde_measurement_set(ronde_measurement *m, int of, const char *name, const char *json) {
  json_error_t error;
  json_t *value = json_loads(json, JSON_DECODE_ANY, &error);
  if (!value) return ronde__fail(RONDE_E_USAGE, "a measurement's %s is not valid JSON: %s", name, error.text);
  return ronde__measurement_put(m, of, name, value);
}

static json_t *real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

ronde_status ronde_measurement_set_work(ronde_measurement *m, int of, const ronde_work *work) {
  return ronde__measurement_put(m, of, "work",
                                json_pack("{s:s, s:o, s:o, s:o}", "unit", work->unit, "examples", real(work->examples),
                                          "bytes", real(work->bytes), "flops", real(work->flops)));
}

ronde_status ronde_measurement_add_axis(ronde_measurement *m, const char *name, const char *const *values, int n) {
  json_t *list = json_array();
  if (m->n_cases) {
    json_decref(list);
    return ronde__fail(RONDE_E_USAGE, "a measurement's axes must be added before its cases: %s", name);
  }
  for (int i = 0; i < n; i++) json_array_append_new(list, ronde__json_text(values[i]));
  return json_object_set_new(m->axes, name, list) ? fail_memory() : RONDE_OK;
}

static json_t *values_json(const ronde_measurement *m, const char *const *values) {
  json_t *object = json_object(), *list;
  const char *axis;
  json_object_foreach(m->axes, axis, list) {
    if (values && *values) json_object_set_new(object, axis, ronde__json_text(*values));
    values += values != NULL;
  }
  return object;
}

ronde_status ronde_measurement_add_case(ronde_measurement *m, const char *name, const char *system,
                                        const char *const *values, int *case_out) {
  GROW(m->cases, m->n_cases);
  json_t *facts =
      json_pack("{s:o, s:s, s:o}", "name", ronde__json_text(name), "system", system, "values", values_json(m, values));
  if (!facts) return fail_memory();
  m->cases[m->n_cases] = (ronde__measured){.facts = facts};
  *case_out = (int)m->n_cases++;
  return RONDE_OK;
}

/* ---- samples ---- */

ronde__figure *ronde__figure_of(const ronde__measured *measured, const char *name) {
  for (int64_t i = 0; i < measured->n_figures; i++)
    if (!strcmp(measured->figures[i].name, name)) return &measured->figures[i];
  return NULL;
}

static ronde_status make_figure(ronde__measured *measured, const char *name, ronde__figure **figure_out) {
  *figure_out = ronde__figure_of(measured, name);
  if (*figure_out) return RONDE_OK;
  GROW(measured->figures, measured->n_figures);
  char *copy = ronde__strdup(name);
  if (!copy) return fail_memory();
  *figure_out = &measured->figures[measured->n_figures++];
  **figure_out = (ronde__figure){.name = copy};
  return RONDE_OK;
}

/* NAN where one of them was not measured. */
static ronde_status median_of(const double *samples, int64_t n, double *median_out) {
  ronde_statistics statistics = {.median = NAN};
  for (int64_t i = 0; i < n; i++)
    if (!isfinite(samples[i])) n = 0;
  if (n) RONDE_TRY(ronde__median_and_mad(samples, n, &statistics));
  *median_out = statistics.median;
  return RONDE_OK;
}

ronde_status ronde_measurement_add_samples(ronde_measurement *m, int of, const char *figure, int round,
                                           const double *samples, int64_t n) {
  ronde__measured *measured;
  ronde__figure *f;
  double median;
  RONDE_TRY(find_measured(m, of, &measured));
  RONDE_TRY(make_figure(measured, figure, &f));
  if (n < 1 || (f->n_rounds && f->rounds[f->n_rounds - 1] >= round))
    return ronde__fail(RONDE_E_USAGE,
                       "%s: the samples of a round are added once, in the order of rounds: got %lld of round %d",
                       figure, (long long)n, round);
  RONDE_TRY(median_of(samples, n, &median));
  for (int64_t i = 0; i < n; i++) {
    GROW(f->samples, f->n_samples);
    f->samples[f->n_samples++] = samples[i];
  }
  GROW(f->medians, f->n_rounds);
  GROW(f->rounds, f->n_rounds);
  f->medians[f->n_rounds] = median;
  f->rounds[f->n_rounds++] = round;
  return RONDE_OK;
}

double ronde_measurement_last(const ronde_measurement *m, int of, const char *figure) {
  const ronde__measured *measured = ronde__measured_of(m, of);
  const ronde__figure *f = measured ? ronde__figure_of(measured, figure) : NULL;
  return f && f->n_rounds ? f->medians[f->n_rounds - 1] : NAN;
}

static const ronde__figure *measured_figure(const ronde_measurement *m, int of, const char *figure) {
  const ronde__measured *measured = ronde__measured_of(m, of);
  return measured ? ronde__figure_of(measured, figure) : NULL;
}

/* Those of the rounds that both have. */
ronde_status ronde_measurement_add_ratio(ronde_measurement *m, int of, const char *name, const char *figure,
                                         int numerator, int denominator) {
  const ronde__figure *a = measured_figure(m, numerator, figure), *b = measured_figure(m, denominator, figure);
  for (int64_t i = 0, j = 0; a && b && i < a->n_rounds && j < b->n_rounds;) {
    int ahead = a->rounds[i] - b->rounds[j];
    double ratio = a->medians[i] / b->medians[j];
    if (!ahead) RONDE_TRY(ronde_measurement_add_samples(m, of, name, a->rounds[i], &ratio, 1));
    /* The figures of a case move where another one joins them. */
    a = measured_figure(m, numerator, figure);
    b = measured_figure(m, denominator, figure);
    i += ahead <= 0;
    j += ahead >= 0;
  }
  return RONDE_OK;
}

ronde_status ronde_measurement_add_rate(ronde_measurement *m, int of, const char *name, const char *figure,
                                        double amount) {
  const ronde__figure *f = measured_figure(m, of, figure);
  for (int64_t i = 0; f && i < f->n_rounds; i++) {
    double rate = amount / f->medians[i];
    RONDE_TRY(ronde_measurement_add_samples(m, of, name, f->rounds[i], &rate, 1));
    f = measured_figure(m, of, figure); /* it moves where another one joins it */
  }
  return RONDE_OK;
}

ronde_statistics ronde_measurement_statistics(const ronde_measurement *m, int of, const char *figure) {
  const ronde_statistics none = {NAN, NAN, NAN, NAN};
  ronde_statistics rounds, all;
  const ronde__figure *f = measured_figure(m, of, figure);
  for (int64_t i = 0; f && i < f->n_rounds; i++)
    if (!isfinite(f->medians[i])) return none;
  if (!f || !f->n_rounds || ronde_statistics_of_rounds(f->medians, f->n_rounds, &rounds) ||
      ronde__median_and_mad(f->samples, f->n_samples, &all))
    return none;
  rounds.mad = all.mad;
  return rounds;
}

/* ---- the same work ---- */

ronde_status ronde_measurement_differ(ronde_measurement *m, const char *field, const char *text) {
  json_t *difference = json_pack("{s:s, s:o}", "field", field, "text", ronde__json_text(text));
  return json_array_append_new(m->differences, difference) ? fail_memory() : RONDE_OK;
}

/* Numbers by value: 1 and 1.0 are one. */
static bool is_equal(const json_t *a, const json_t *b) {
  if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
  return (!a && !b) || json_equal(a, b);
}

static const char *name_of(const ronde_measurement *m, int of) {
  const char *name = json_string_value(json_object_get(m->cases[of].facts, "name"));
  return name ? name : "";
}

bool ronde_measurement_differs(ronde_measurement *m, const char *field, int reference, int other) {
  const ronde__measured *one = ronde__measured_of(m, reference), *two = ronde__measured_of(m, other);
  const json_t *a = one ? json_object_get(one->facts, field) : NULL,
               *b = two ? json_object_get(two->facts, field) : NULL;
  if (!one || !two || reference < 0 || other < 0 || is_equal(a, b)) return false;
  char *x = a ? json_dumps(a, JSON_ENCODE_ANY) : NULL, *y = b ? json_dumps(b, JSON_ENCODE_ANY) : NULL;
  char *text = ronde__format("%s is %s with %s, %s with %s", field, x ? x : "missing", name_of(m, reference),
                             y ? y : "missing", name_of(m, other));
  ronde_measurement_differ(m, field, text);
  free(x);
  free(y);
  free(text);
  return true;
}

const char *ronde_measurement_difference(const ronde_measurement *m) {
  const json_t *first = json_array_get(m->differences, 0);
  const char *text = json_string_value(json_object_get(first, "text"));
  return first && !text ? "" : text;
}

void ronde_measurement_forget_differences(ronde_measurement *m) { json_array_clear(m->differences); }

/* ---- ranking ---- */

ronde_status ronde_measurement_rank(ronde_measurement *m, const char *figure, bool is_rate) {
  if (json_array_size(m->differences)) return RONDE_OK;
  for (int i = 0; i < m->n_cases; i++)
    RONDE_TRY(ronde_measurement_add_ratio(m, i, "times_as_fast", figure, is_rate ? i : 0, is_rate ? 0 : i));
  free(m->ranked_by);
  m->ranked_by = ronde__strdup(figure);
  return m->ranked_by ? RONDE_OK : fail_memory();
}

ronde_status ronde_measurement_leave_unranked(ronde_measurement *m, const char *reason) {
  free(m->reason);
  m->reason = ronde__strdup(reason);
  return m->reason ? RONDE_OK : fail_memory();
}
