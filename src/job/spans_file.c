/* Recorded spans, to JSON and back. */
#include "job/spans_file.h"

#include "base/json.h"
#include "io/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMA "ronde.spans.v1"

enum { MOST_PARAMS = 1 << 20 };
#define MOST_NS ((json_int_t)1000000 * 1000000000) /* of one span */

ronde_status ronde__spans_write(const ronde__spans *spans, const char *path) {
  json_t *params = json_array();
  for (int i = 0; i < spans->n_params; i++) {
    const ronde__param_span *p = &spans->params[i];
    json_array_append_new(params, json_pack("{s:s, s:I, s:I, s:I, s:I}", "name", p->name, "elems", (json_int_t)p->elems,
                                            "needed_ns", (json_int_t)p->needed_ns, "ready_ns", (json_int_t)p->ready_ns,
                                            "done_ns", (json_int_t)p->done_ns));
  }
  json_t *json =
      json_pack("{s:s, s:s, s:I, s:I, s:i, s:I, s:I, s:I, s:I, s:I, s:o}", "schema", SCHEMA, "model", spans->model,
                "examples", (json_int_t)spans->examples, "steps", (json_int_t)spans->steps, "threads", spans->threads,
                "load_ns", (json_int_t)spans->load_ns, "forward_ns", (json_int_t)spans->forward_ns, "backward_ns",
                (json_int_t)spans->backward_ns, "update_ns", (json_int_t)spans->update_ns, "updated_elems",
                (json_int_t)spans->updated_elems, "parameters", params);
  char *text = json ? json_dumps(json, JSON_INDENT(1)) : NULL;
  json_decref(json);
  ronde_status status =
      text ? ronde__file_replace(path, text, strlen(text)) : ronde__fail(RONDE_E_MEMORY, "%s: no memory for it", path);
  free(text);
  return status;
}

/* A whole number from min to max of an object. */
static ronde_status take(const char *file, const json_t *from, const char *key, json_int_t min, json_int_t max,
                         json_int_t *value_out) {
  const json_t *value = json_object_get(from, key);
  *value_out = json_integer_value(value);
  if (json_is_integer(value) && *value_out >= min && *value_out <= max) return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT, "%s: \"%s\" is not a whole number from %" PRId64 " to %" PRId64, file, key,
                     (int64_t)min, (int64_t)max);
}

static ronde_status take_ns(const char *file, const json_t *from, const char *key, uint64_t *ns_out) {
  json_int_t value;
  RONDE_TRY(take(file, from, key, 0, MOST_NS, &value));
  *ns_out = (uint64_t)value;
  return RONDE_OK;
}

static ronde_status take_text(const char *file, const json_t *from, const char *key, char **text_out) {
  const char *text = json_string_value(json_object_get(from, key));
  if (!text) return ronde__fail(RONDE_E_INPUT, "%s: \"%s\" is no text", file, key);
  *text_out = ronde__strdup(text);
  return *text_out ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "%s: no memory for it", file);
}

static ronde_status take_params(const char *file, const json_t *params, ronde__spans *spans) {
  size_t n = json_array_size(params);
  json_int_t elems;
  if (n < 1 || n > MOST_PARAMS) return ronde__fail(RONDE_E_INPUT, "%s: \"parameters\" has no rows", file);
  RONDE__ALLOC(spans->params, n * sizeof *spans->params, file);
  for (size_t i = 0; i < n; i++) {
    const json_t *row = json_array_get(params, i);
    ronde__param_span *p = &spans->params[spans->n_params++];
    RONDE_TRY(take_text(file, row, "name", &p->name));
    RONDE_TRY(take(file, row, "elems", 1, INT64_MAX, &elems));
    p->elems = (uint64_t)elems;
    RONDE_TRY(take_ns(file, row, "needed_ns", &p->needed_ns));
    RONDE_TRY(take_ns(file, row, "ready_ns", &p->ready_ns));
    p->done_ns = p->ready_ns; /* files of before have no other */
    if (json_object_get(row, "done_ns")) RONDE_TRY(take_ns(file, row, "done_ns", &p->done_ns));
  }
  return RONDE_OK;
}

static ronde_status take_all(const char *file, const json_t *json, ronde__spans *spans) {
  json_int_t threads, elems, steps, examples;
  const char *schema = json_string_value(json_object_get(json, "schema"));
  if (!schema || strcmp(schema, SCHEMA))
    return ronde__fail(RONDE_E_INPUT, "%s: it is no file of --record-spans (\"schema\" is not " SCHEMA ")", file);
  RONDE_TRY(take_text(file, json, "model", &spans->model));
  RONDE_TRY(take(file, json, "examples", 1, INT32_MAX, &examples));
  RONDE_TRY(take(file, json, "steps", 1, INT64_MAX, &steps));
  RONDE_TRY(take(file, json, "threads", 1, 65536, &threads));
  RONDE_TRY(take(file, json, "updated_elems", 0, INT64_MAX, &elems));
  spans->examples = examples;
  spans->steps = steps;
  spans->threads = (int)threads;
  spans->updated_elems = (uint64_t)elems;
  RONDE_TRY(take_ns(file, json, "load_ns", &spans->load_ns));
  RONDE_TRY(take_ns(file, json, "forward_ns", &spans->forward_ns));
  RONDE_TRY(take_ns(file, json, "backward_ns", &spans->backward_ns));
  RONDE_TRY(take_ns(file, json, "update_ns", &spans->update_ns));
  return take_params(file, json_object_get(json, "parameters"), spans);
}

static ronde_status take_json(const char *name, json_t *json, const json_error_t *error, ronde__spans **spans_out) {
  if (!json) return ronde__fail(RONDE_E_INPUT, "%s, line %d: %s", name, error->line, error->text);
  ronde__spans *spans = ronde__alloc(sizeof *spans);
  ronde_status status = spans ? take_all(name, json, spans) : ronde__fail(RONDE_E_MEMORY, "%s: no memory for it", name);
  json_decref(json);
  if (status != RONDE_OK) ronde__spans_destroy(spans);
  else *spans_out = spans;
  return status;
}

ronde_status ronde__spans_parse(const char *name, const char *text, size_t bytes, ronde__spans **spans_out) {
  json_error_t error;
  json_t *json = json_loadb(text, bytes, 0, &error);
  return take_json(name, json, &error, spans_out);
}

ronde_status ronde__spans_read(const char *path, ronde__spans **spans_out) {
  json_error_t error;
  json_t *json = json_load_file(path, 0, &error);
  return take_json(path, json, &error, spans_out);
}
