/* Columns as JSON, in files of weights and in the cache: {"inputs": [{"name", "categories"?}], "targets": [names],
 * "classes": whether the target is, "class_names"?}. */
#include "data/columns.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

bool ronde__is_utf8(const char *text) {
  json_t *json = json_string(text);
  json_decref(json);
  return json != NULL;
}

/* ---- to text ---- */

static json_t *names_json(char *const *name, int64_t n) {
  json_t *list = json_array();
  for (int64_t i = 0; i < n; ++i) json_array_append_new(list, json_string(name[i]));
  return list;
}

char *ronde__columns_text(const ronde__columns *columns, bool with_classes) {
  json_t *inputs = json_array();
  for (int64_t i = 0; i < columns->n_inputs; ++i) {
    const ronde__column *c = &columns->input[i];
    json_t *input = json_pack("{s:s}", "name", c->name);
    if (c->n_categories) json_object_set_new(input, "categories", names_json(c->category, c->n_categories));
    json_array_append_new(inputs, input);
  }
  json_t *json = json_pack("{s:o, s:o, s:b}", "inputs", inputs, "targets",
                           names_json(columns->target, columns->n_targets), "classes", columns->are_classes);
  if (with_classes) json_object_set_new(json, "class_names", names_json(columns->class_name, columns->n_classes));
  char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
  json_decref(json);
  return text;
}

/* ---- from text ---- */

void ronde__columns_clear(ronde__columns *c) {
  for (int64_t i = 0; i < c->n_inputs; ++i) {
    for (int64_t k = 0; k < c->input[i].n_categories; ++k) free(c->input[i].category[k]);
    free(c->input[i].category);
    free(c->input[i].name);
  }
  for (int64_t i = 0; i < c->n_targets; ++i) free(c->target[i]);
  for (int64_t i = 0; i < c->n_classes; ++i) free(c->class_name[i]);
  free(c->input);
  free(c->target);
  free(c->class_name);
  c->input = NULL;
  c->target = c->class_name = NULL;
  c->n_inputs = c->n_targets = c->n_classes = c->width = 0;
  c->has_inputs = c->has_targets = c->are_classes = false;
}

/* Copies a list of at most `most` texts, none empty. false: it is none. */
static bool take_names(const json_t *list, size_t most, char ***name_out, int64_t *n_out) {
  size_t n = json_array_size(list);
  if (!json_is_array(list) || n > most) return false;
  char **name = calloc(n + 1, sizeof *name);
  *name_out = name;
  for (*n_out = 0; name && *n_out < (int64_t)n; ++*n_out) {
    const char *text = json_string_value(json_array_get(list, (size_t)*n_out));
    if (ronde__is_empty(text) || !(name[*n_out] = ronde__strdup(text))) return false;
  }
  return name;
}

static bool are_ordered(char *const *name, int64_t n) {
  for (int64_t i = 1; i < n; ++i)
    if (ronde__category_order(&name[i - 1], &name[i]) >= 0) return false;
  return true;
}

static bool take_input(const json_t *json, ronde__column *column, int64_t *width) {
  const char *name = json_string_value(json_object_get(json, "name"));
  const json_t *categories = json_object_get(json, "categories");
  if (ronde__is_empty(name) || !(column->name = ronde__strdup(name))) return false;
  *width += categories ? (int64_t)json_array_size(categories) : 1;
  if (!categories) return true;
  return take_names(categories, RONDE__CATEGORIES_MAX, &column->category, &column->n_categories) &&
         column->n_categories > 0 && are_ordered(column->category, column->n_categories);
}

static int input_by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Whether no two of the inputs have one name. */
static bool are_unique(const ronde__columns *c) {
  const char **name = calloc((size_t)c->n_inputs, sizeof *name);
  bool unique = name;
  for (int64_t i = 0; name && i < c->n_inputs; ++i) name[i] = c->input[i].name;
  if (name) qsort(name, (size_t)c->n_inputs, sizeof *name, input_by_name);
  for (int64_t i = 1; name && i < c->n_inputs; ++i) unique = unique && strcmp(name[i - 1], name[i]) != 0;
  free(name);
  return unique;
}

static bool take_inputs(ronde__columns *c, const json_t *inputs) {
  size_t n = json_array_size(inputs);
  if (n == 0 || n > RONDE__CSV_FIELDS_MAX || !(c->input = calloc(n, sizeof *c->input))) return false;
  for (; c->n_inputs < (int64_t)n; ++c->n_inputs)
    if (!take_input(json_array_get(inputs, (size_t)c->n_inputs), &c->input[c->n_inputs], &c->width)) {
      ++c->n_inputs; /* what it has is released with the others */
      return false;
    }
  return c->width <= RONDE__CSV_WIDTH_MAX && are_unique(c);
}

static bool take_all(ronde__columns *c, const json_t *json) {
  const json_t *classes = json_object_get(json, "classes"), *names = json_object_get(json, "class_names");
  if (!take_inputs(c, json_object_get(json, "inputs"))) return false;
  if (!take_names(json_object_get(json, "targets"), RONDE__CSV_FIELDS_MAX, &c->target, &c->n_targets)) return false;
  c->are_classes = json_is_true(classes);
  if (!json_is_boolean(classes) || c->n_targets == 0 || (c->are_classes && c->n_targets > 1)) return false;
  if (names && (!take_names(names, RONDE__CSV_CLASSES_MAX, &c->class_name, &c->n_classes) ||
                !are_ordered(c->class_name, c->n_classes)))
    return false;
  c->has_inputs = c->has_targets = true;
  return true;
}

ronde_status ronde__columns_take(ronde__columns *c, const char *text, const char *source) {
  json_t *json = json_loads(text, 0, NULL);
  ronde__columns_clear(c);
  bool good = json && take_all(c, json);
  json_decref(json);
  if (good) return RONDE_OK;
  ronde__columns_clear(c);
  return ronde__fail(RONDE_E_INPUT, "%s: what it says of the columns of its table is invalid", source);
}
