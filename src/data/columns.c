/* What columns are: as the user says, as the weights know them, or as a training file shows. A column all of whose values
 * are numbers is one; any other is categories. A target of texts, or of integers where the user does not ask for values,
 * is classes. */
#include "data/columns_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ronde__columns_have_integers(const ronde__columns *c) {
  bool integers = c->are_classes;
  for (int64_t k = 0; k < c->n_classes; ++k) integers = integers && ronde__csv_is_integer(c->class_name[k]);
  return integers;
}

/* ---- options ---- */

static ronde_status columns_no_memory(void) { return ronde__fail(RONDE_E_MEMORY, "csv: no memory for its columns"); }

static ronde_status add_text(char ***texts, int64_t *n, const char *text, size_t length) {
  char **larger = realloc(*texts, (size_t)(*n + 1) * sizeof **texts);
  if (!larger) return columns_no_memory();
  *texts = larger;
  if (!(larger[*n] = strndup(text, length))) return columns_no_memory();
  ++*n;
  return RONDE_OK;
}

/* The names in the place of those that the weights have for the same targets. */
static ronde_status rename_targets(ronde__columns *c) {
  int64_t n = 0;
  const char *at = c->wanted;
  for (const char *p = at; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) ++n;
  if (c->n_targets == 1) n = 1;
  if (n != c->n_targets)
    return ronde__fail(RONDE_E_USAGE, "--target %s: %s tells %lld values, so %lld columns are needed",
                       RONDE__SHOWN(c->wanted), c->source, (long long)c->n_targets, (long long)c->n_targets);
  for (int64_t i = 0; i < n; ++i, ++at) {
    size_t length = c->n_targets == 1 ? strlen(at) : strcspn(at, ",");
    char *name = strndup(at, length);
    if (!name) return columns_no_memory();
    free(c->target[i]);
    c->target[i] = name;
    at += length;
  }
  return RONDE_OK;
}

static ronde_status set_up(ronde__columns *c, const ronde__columns_options *options) {
  c->are_values = options->are_values;
  c->wanted = ronde__strdup(options->target);
  c->ignored = ronde__strdup(options->ignored);
  if ((options->target && !c->wanted) || (options->ignored && !c->ignored)) return columns_no_memory();
  if (!options->known) return RONDE_OK;
  RONDE_TRY(ronde__columns_take(c, options->known, options->source));
  c->source = options->source;
  if (c->wanted && options->renames) return rename_targets(c);
  c->has_targets = !c->wanted;
  return RONDE_OK;
}

ronde_status ronde__columns_create(const ronde__columns_options *options, ronde__columns **columns_out) {
  ronde__columns *c;
  RONDE__ALLOC(c, sizeof *c, "csv");
  ronde_status status = set_up(c, options);
  if (status == RONDE_OK) *columns_out = c;
  else ronde__columns_destroy(c);
  return status;
}

void ronde__columns_destroy(ronde__columns *c) {
  if (!c) return;
  ronde__columns_clear(c);
  free(c->wanted);
  free(c->ignored);
  ronde__free(c);
}

/* ---- finding out what the columns are ---- */

/* What a column holds. */
typedef struct content {
  int64_t n_numbers, n_integers, n_texts;
  int64_t text_line; /* the first text's */
  char text[RONDE__SHOWN_BYTES];
  char **value; /* [n_values], in their order, as long as there are not too many */
  int64_t n_values;
  bool has_too_many;
} content;

static void forget_values(content *c) {
  for (int64_t k = 0; k < c->n_values; ++k) free(c->value[k]);
  free(c->value);
  c->value = NULL;
  c->n_values = 0;
}

static ronde_status keep_value(content *c, const ronde__rows *r, const ronde__csv_field *field, int64_t i,
                               int64_t most) {
  int64_t first = 0, past = c->n_values; /* the first value that is not less */
  while (first < past) {
    int64_t middle = first + (past - first) / 2;
    if (ronde__category_order(&c->value[middle], &field->text) < 0) first = middle + 1;
    else past = middle;
  }
  if (first < c->n_values && !strcmp(c->value[first], field->text)) return RONDE_OK;
  if (c->n_values == most || field->n > RONDE__CATEGORY_BYTES) {
    forget_values(c);
    c->has_too_many = true;
    return RONDE_OK;
  }
  if (!ronde__is_utf8(field->text)) return ronde__rows_fail(r, field, i, "this is not text in UTF-8");
  RONDE_TRY(add_text(&c->value, &c->n_values, field->text, field->n));
  char *added = c->value[c->n_values - 1];
  memmove(c->value + first + 1, c->value + first, (size_t)(c->n_values - 1 - first) * sizeof *c->value);
  c->value[first] = added;
  return RONDE_OK;
}

static ronde_status look_at(content *c, const ronde__rows *r, const ronde__csv_field *field, int64_t i) {
  float value;
  ronde__meaning m = ronde__csv_meaning(field, &value);
  if (m == RONDE__FIELD_MISSING) return ronde__rows_fail_missing(r, field, i);
  if (m == RONDE__FIELD_BEYOND)
    return ronde__rows_fail(r, field, i, "%s is not within the range of float32", RONDE__SHOWN(field->text));
  if (m == RONDE__FIELD_TEXT && c->n_texts++ == 0) {
    c->text_line = field->line;
    ronde__shown(field->text, c->text);
  }
  c->n_numbers += m != RONDE__FIELD_TEXT;
  c->n_integers += m == RONDE__FIELD_INTEGER;
  int64_t most = r->place[i].use == RONDE__PLACE_TARGET ? RONDE__CSV_CLASSES_MAX : RONDE__CATEGORIES_MAX;
  return c->has_too_many ? RONDE_OK : keep_value(c, r, field, i, most);
}

/* Whether the contents of a column decide what it is, or which classes there are. */
static bool is_open(const ronde__columns *c, const ronde__place *p) {
  if (p->use == RONDE__PLACE_INPUT) return !c->has_inputs;
  return p->use == RONDE__PLACE_TARGET && (!c->has_targets || c->are_classes);
}

static ronde_status look_at_all(ronde__rows *r, content *contents, int64_t *n_out) {
  const ronde__csv_field *field;
  for (*n_out = 0;; ++*n_out) {
    int64_t n;
    RONDE_TRY(ronde__rows_record(r, &field, &n));
    if (n == 0) break;
    for (int64_t i = 0; i < n; ++i)
      if (is_open(r->columns, &r->place[i])) RONDE_TRY(look_at(&contents[i], r, &field[i], i));
  }
  return *n_out ? RONDE_OK
                : ronde__fail(RONDE_E_INPUT, "%s: there are no rows under the first line", ronde__rows_file(r));
}

static ronde_status refuse_many(const ronde__rows *r, int64_t i, const content *content, int64_t most) {
  ronde__csv_field at = {.line = content->text_line};
  return ronde__rows_fail(
      r, &at, i,
      "'%s' is not a number, and the column has more than %lld different values, or longer ones than %d "
      "bytes, so it is no category either; --ignore-columns leaves it out",
      content->text, (long long)most, RONDE__CATEGORY_BYTES);
}

static ronde_status settle_input(ronde__columns *c, const ronde__rows *r, int64_t i, content *content) {
  ronde__column *input = &c->input[c->n_inputs++];
  if (!(input->name = ronde__strdup(r->name[i]))) return columns_no_memory();
  if (content->n_texts == 0) {
    c->width++;
    return RONDE_OK;
  }
  if (content->has_too_many) return refuse_many(r, i, content, RONDE__CATEGORIES_MAX);
  if (content->n_numbers)
    ronde__log(RONDE_LOG_WARNING,
               "%s: column %lld (%s) holds numbers and texts, so it is taken as %lld categories: line %lld has '%s'",
               ronde__rows_file(r), (long long)i + 1, RONDE__SHOWN(r->name[i]), (long long)content->n_values,
               (long long)content->text_line, content->text);
  input->category = content->value;
  input->n_categories = content->n_values;
  c->width += content->n_values;
  content->value = NULL;
  content->n_values = 0;
  return RONDE_OK;
}

static ronde_status settle_inputs(ronde__columns *c, const ronde__rows *r, content *contents) {
  if (c->has_inputs) return RONDE_OK;
  if (!(c->input = calloc((size_t)r->n, sizeof *c->input))) return columns_no_memory();
  for (int64_t i = 0; i < r->n; ++i)
    if (r->place[i].use == RONDE__PLACE_INPUT) RONDE_TRY(settle_input(c, r, i, &contents[i]));
  if (c->n_inputs == 0) return ronde__fail(RONDE_E_INPUT, "%s: no column is left as an input", ronde__rows_file(r));
  if (c->width > RONDE__CSV_WIDTH_MAX)
    return ronde__fail(RONDE_E_INPUT,
                       "%s: a row has %lld inputs, its categories counted one by one; at most %d can be read",
                       ronde__rows_file(r), (long long)c->width, RONDE__CSV_WIDTH_MAX);
  c->has_inputs = true;
  return RONDE_OK;
}

static ronde_status refuse_text(const ronde__rows *r, int64_t i, const content *content, int64_t n_targets) {
  ronde__csv_field at = {.line = content->text_line};
  return ronde__rows_fail(r, &at, i, "'%s' is not a number, but %s", content->text,
                          n_targets > 1 ? "several targets are values" : "--loss asks for values");
}

/* What the targets are, where that is open; their contents by their order. */
static ronde_status settle_targets(ronde__columns *c, const ronde__rows *r, content *const *of_target,
                                   const int64_t *column, int64_t n) {
  if (c->has_targets) return RONDE_OK;
  bool are_values =
      c->are_values || n > 1 || (of_target[0]->n_texts == 0 && of_target[0]->n_integers < of_target[0]->n_numbers);
  for (int64_t i = 0; i < n && are_values; ++i)
    if (of_target[i]->n_texts) return refuse_text(r, column[i], of_target[i], n);
  for (int64_t i = 0; i < c->n_targets; ++i) free(c->target[i]); /* of the weights */
  c->n_targets = 0;
  for (int64_t i = 0; i < n; ++i)
    RONDE_TRY(add_text(&c->target, &c->n_targets, r->name[column[i]], strlen(r->name[column[i]])));
  c->are_classes = !are_values;
  c->has_targets = true;
  return RONDE_OK;
}

static ronde_status settle_classes(ronde__columns *c, const ronde__rows *r, int64_t column, content *content) {
  if (!c->are_classes) return RONDE_OK;
  if (content->has_too_many && content->n_texts) return refuse_many(r, column, content, RONDE__CSV_CLASSES_MAX);
  if (content->has_too_many)
    return ronde__fail(RONDE_E_INPUT,
                       "%s: column %lld (%s) has more than %d different integers, too many for classes; --loss mse "
                       "learns them as values",
                       ronde__rows_file(r), (long long)column + 1, RONDE__SHOWN(r->name[column]),
                       RONDE__CSV_CLASSES_MAX);
  c->class_name = content->value;
  c->n_classes = content->n_values;
  content->value = NULL;
  content->n_values = 0;
  return RONDE_OK;
}

static ronde_status settle(ronde__columns *c, const ronde__rows *r, content *contents) {
  content **of_target;
  int64_t *column, n = 0;
  RONDE__ALLOC(of_target, (size_t)r->n * (sizeof *of_target + sizeof *column), ronde__rows_file(r));
  column = (int64_t *)(of_target + r->n);
  for (int64_t i = 0; i < r->n; ++i) {
    if (r->place[i].use != RONDE__PLACE_TARGET) continue;
    column[r->place[i].index] = i;
    of_target[r->place[i].index] = &contents[i];
    ++n;
  }
  ronde_status status = settle_inputs(c, r, contents);
  if (status == RONDE_OK) status = settle_targets(c, r, of_target, column, n);
  if (status == RONDE_OK) status = settle_classes(c, r, column[0], of_target[0]);
  ronde__free(of_target);
  return status;
}

ronde_status ronde__columns_infer(ronde__columns *c, ronde__stream *stream, int64_t *n_out) {
  ronde__rows *r;
  content *contents;
  RONDE_TRY(ronde__rows_open(c, stream, true, c->has_inputs, &r));
  ronde_status status = RONDE_OK;
  if (!(contents = ronde__alloc((size_t)r->n * sizeof *contents))) status = columns_no_memory();
  if (status == RONDE_OK) status = look_at_all(r, contents, n_out);
  if (status == RONDE_OK) status = settle(c, r, contents);
  for (int64_t i = 0; i < r->n && contents; ++i) forget_values(&contents[i]);
  ronde__free(contents);
  ronde__rows_close(r);
  return status;
}
