/* Rows of comma-separated text whose columns are found by their names in the first line. */
#include "data/columns_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ronde_status no_names(const ronde__rows *r) {
  return ronde__fail(RONDE_E_MEMORY, "%s: no memory for the names of its columns", ronde__rows_file(r));
}

/* ---- the first line ---- */

ronde_status ronde__rows_fail(const ronde__rows *r, const ronde__csv_field *field, int64_t i, const char *format, ...) {
  char reason[512];
  va_list args;
  va_start(args, format);
  vsnprintf(reason, sizeof reason, format, args);
  va_end(args);
  return ronde__fail(RONDE_E_INPUT, "%s: line %lld, column %lld (%s): %s", ronde__rows_file(r), (long long)field->line,
                     (long long)i + 1, RONDE__SHOWN(r->name[i]), reason);
}

void ronde__rows_close(ronde__rows *r) {
  if (!r) return;
  for (int64_t i = 0; i < r->n; ++i) free(r->name[i]);
  free(r->name);
  ronde__free(r->place);
  ronde__csv_close(r->csv);
  ronde__free(r);
}

/* The place of a name [length] in the first line; -1: there is none. */
static int64_t find_name(const ronde__rows *r, const char *name, size_t length) {
  for (int64_t i = 0; i < r->n; ++i)
    if (strlen(r->name[i]) == length && !memcmp(r->name[i], name, length)) return i;
  return -1;
}

static ronde_status check_name(ronde__rows *r, const ronde__csv_field *field, int64_t i) {
  const char *name = r->name[i];
  if (!*name)
    return ronde__fail(RONDE_E_INPUT,
                       "%s: line %lld, column %lld: the first line names the columns, but this one has no name%s",
                       ronde__rows_file(r), (long long)field->line, (long long)i + 1,
                       i == 0 ? " (pandas: to_csv(index=False) leaves out the row numbers)" : "");
  if (!ronde__is_utf8(name)) return ronde__rows_fail(r, field, i, "the name is not text in UTF-8");
  return RONDE_OK;
}

/* A name and the column that has it. */
typedef struct named {
  const char *name;
  int64_t column;
} named;

static int named_order(const void *a, const void *b) {
  const named *x = a, *y = b;
  int order = strcmp(x->name, y->name);
  return order ? order : (x->column > y->column) - (x->column < y->column);
}

/* The columns by name, to be freed; two of one name are refused. */
static ronde_status sort_columns(const ronde__rows *r, named **sorted_out) {
  named *sorted;
  RONDE__ALLOC(sorted, (size_t)r->n * sizeof *sorted, ronde__rows_file(r));
  for (int64_t i = 0; i < r->n; ++i) sorted[i] = (named){r->name[i], i};
  qsort(sorted, (size_t)r->n, sizeof *sorted, named_order);
  for (int64_t i = 1; i < r->n; ++i) {
    if (strcmp(sorted[i - 1].name, sorted[i].name) != 0) continue;
    ronde_status status =
        ronde__fail(RONDE_E_INPUT, "%s: line 1: columns %lld and %lld are both called %s", ronde__rows_file(r),
                    (long long)sorted[i - 1].column + 1, (long long)sorted[i].column + 1, RONDE__SHOWN(sorted[i].name));
    ronde__free(sorted);
    return status;
  }
  *sorted_out = sorted;
  return RONDE_OK;
}

static ronde_status read_names(ronde__rows *r) {
  const ronde__csv_field *field;
  int64_t n;
  RONDE_TRY(ronde__csv_next(r->csv, &field, &n));
  if (n == 0)
    return ronde__fail(RONDE_E_INPUT, "%s: the file is empty: a first line with column names is needed",
                       ronde__rows_file(r));
  const char *other = n > 1                       ? NULL
                      : strchr(field->text, ';')  ? "semicolons"
                      : strchr(field->text, '\t') ? "tabs"
                                                  : NULL;
  if (other)
    return ronde__fail(RONDE_E_INPUT, "%s: line 1: the columns seem to be separated by %s; commas are needed",
                       ronde__rows_file(r), other);
  RONDE__ALLOC(r->place, (size_t)n * sizeof *r->place, ronde__rows_file(r));
  if (!(r->name = calloc((size_t)n, sizeof *r->name))) return no_names(r);
  for (; r->n < n; ++r->n)
    if (!(r->name[r->n] = ronde__strdup(field[r->n].text))) return no_names(r);
  for (int64_t i = 0; i < n; ++i) RONDE_TRY(check_name(r, &field[i], i));
  return RONDE_OK;
}

/* The names of all columns, as far as there is room. */
static const char *list_names(const ronde__rows *r, char *text, size_t bytes) {
  size_t used = 0;
  text[0] = '\0';
  for (int64_t i = 0; i < r->n; ++i) {
    char shown[RONDE__SHOWN_BYTES];
    ronde__shown(r->name[i], shown);
    if (used + strlen(shown) + 24 > bytes) {
      snprintf(text + used, bytes - used, ", ... and %lld more", (long long)(r->n - i));
      break;
    }
    used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", shown);
  }
  return text;
}

static ronde_status no_column(const ronde__rows *r, const char *option, const char *name, size_t length) {
  char given[RONDE__SHOWN_BYTES], copy[80], list[400];
  const char *near = NULL;
  int least = 0;
  snprintf(copy, sizeof copy, "%.*s", (int)ronde__min((int64_t)length, 79), name);
  for (int64_t i = 0; i < r->n; ++i) {
    int distance = ronde__edit_distance(copy, r->name[i]);
    if (!ronde__is_near(r->name[i], distance) || (near && distance >= least)) continue;
    near = r->name[i];
    least = distance;
  }
  ronde__shown(copy, given);
  if (near)
    return ronde__fail(RONDE_E_USAGE, "%s %s: %s has no column of this name; the nearest is %s", option, given,
                       ronde__rows_file(r), RONDE__SHOWN(near));
  return ronde__fail(RONDE_E_USAGE, "%s %s: %s has no column of this name; it has %s", option, given,
                     ronde__rows_file(r), list_names(r, list, sizeof list));
}

/* ---- which column is what ---- */

typedef ronde_status (*take_fn)(ronde__rows *r, int64_t column, int64_t index);

/* Each name of a list, which may itself be the name of a column. */
static ronde_status take_list(ronde__rows *r, const char *option, const char *list, take_fn take) {
  int64_t index = 0, whole = list ? find_name(r, list, strlen(list)) : -1;
  if (whole >= 0) return take(r, whole, 0);
  for (const char *at = list; at; ++index) {
    size_t length = strcspn(at, ",");
    int64_t column = find_name(r, at, length);
    if (column < 0) return no_column(r, option, at, length);
    RONDE_TRY(take(r, column, index));
    at = at[length] ? at + length + 1 : NULL;
  }
  return RONDE_OK;
}

static ronde_status take_ignored(ronde__rows *r, int64_t column, int64_t index) {
  r->place[column].use = RONDE__PLACE_IGNORED;
  return RONDE_OK;
}

static ronde_status take_target(ronde__rows *r, int64_t column, int64_t index) {
  if (r->place[column].use != RONDE__PLACE_UNUSED)
    return ronde__fail(RONDE_E_USAGE, "--target %s: the column has another use already", RONDE__SHOWN(r->name[column]));
  r->place[column] = (ronde__place){.use = RONDE__PLACE_TARGET, .index = index};
  return RONDE_OK;
}

static ronde_status take_known_targets(ronde__rows *r) {
  const ronde__columns *c = r->columns;
  for (int64_t i = 0; i < c->n_targets; ++i) {
    const char *name = c->target[i];
    int64_t column = find_name(r, name, strlen(name));
    if (column < 0 && c->wanted) return no_column(r, "--target", name, strlen(name));
    if (column < 0)
      return ronde__fail(RONDE_E_INPUT,
                         "%s: line 1: there is no column %s, the target of %s; --target says what it is called here",
                         ronde__rows_file(r), RONDE__SHOWN(name), c->source ? c->source : "the training data");
    RONDE_TRY(take_target(r, column, i));
  }
  return RONDE_OK;
}

static ronde_status take_targets(ronde__rows *r) {
  char list[400];
  const ronde__columns *c = r->columns;
  if (c->has_targets) return take_known_targets(r);
  if (c->wanted) return take_list(r, "--target", c->wanted, take_target);
  return ronde__fail(RONDE_E_USAGE, "%s: which column is to be predicted? Give --target COLUMN; there are %s",
                     ronde__rows_file(r), list_names(r, list, sizeof list));
}

static ronde_status take_known_inputs(ronde__rows *r, const named *sorted) {
  const ronde__columns *c = r->columns;
  int64_t at = 0;
  for (int64_t i = 0; i < c->n_inputs; ++i) {
    const ronde__column *input = &c->input[i];
    named wanted = {input->name, -1};
    int64_t first = 0, past = r->n; /* the first name that is not less */
    while (first < past) {
      int64_t middle = first + (past - first) / 2;
      if (named_order(&sorted[middle], &wanted) < 0) first = middle + 1;
      else past = middle;
    }
    if (first == r->n || strcmp(sorted[first].name, input->name) != 0)
      return ronde__fail(RONDE_E_INPUT, "%s: line 1: there is no column %s, which %s was trained on",
                         ronde__rows_file(r), RONDE__SHOWN(input->name), c->source ? c->source : "the network");
    int64_t column = sorted[first].column;
    if (r->place[column].use != RONDE__PLACE_UNUSED)
      return ronde__fail(RONDE_E_USAGE, "%s: column %s is an input of %s: it cannot be left out or be the target",
                         ronde__rows_file(r), RONDE__SHOWN(input->name), c->source ? c->source : "the network");
    r->place[column] = (ronde__place){.use = RONDE__PLACE_INPUT, .index = i, .at = at};
    at += input->n_categories ? input->n_categories : 1;
  }
  return RONDE_OK;
}

/* All columns that have no other use, in the order of the file. */
static void take_rest(ronde__rows *r) {
  for (int64_t i = 0, n = 0; i < r->n; ++i)
    if (r->place[i].use == RONDE__PLACE_UNUSED) r->place[i] = (ronde__place){.use = RONDE__PLACE_INPUT, .index = n++};
}

static ronde_status take_places(ronde__rows *r, const named *sorted) {
  const ronde__columns *c = r->columns;
  RONDE_TRY(take_list(r, "--ignore-columns", c->ignored, take_ignored));
  if (r->with_target) RONDE_TRY(take_targets(r));
  if (c->has_inputs) return take_known_inputs(r, sorted);
  take_rest(r);
  return RONDE_OK;
}

static bool is_known_target(const ronde__columns *c, const char *name) {
  for (int64_t i = 0; i < c->n_targets; ++i)
    if (!strcmp(c->target[i], name)) return true;
  return false;
}

static void tell_unused(const ronde__rows *r) {
  char list[300] = "";
  size_t used = 0;
  for (int64_t i = 0; i < r->n && used + RONDE__SHOWN_BYTES + 8 < sizeof list; ++i)
    if (r->place[i].use == RONDE__PLACE_UNUSED && !is_known_target(r->columns, r->name[i]))
      used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", RONDE__SHOWN(r->name[i]));
  if (used) ronde__log(RONDE_LOG_INFO, "%s: columns that are not used: %s", ronde__rows_file(r), list);
}

ronde_status ronde__rows_open(const ronde__columns *columns, ronde__stream *stream, bool with_target, bool tells,
                              ronde__rows **rows_out) {
  ronde__rows *r;
  named *sorted = NULL;
  RONDE__ALLOC(r, sizeof *r, ronde__stream_name(stream));
  *r = (ronde__rows){.columns = columns, .stream = stream, .with_target = with_target};
  ronde_status status = ronde__csv_open(stream, &r->csv);
  if (status == RONDE_OK) status = read_names(r);
  if (status == RONDE_OK) status = sort_columns(r, &sorted);
  if (status == RONDE_OK) status = take_places(r, sorted);
  ronde__free(sorted);
  if (status == RONDE_OK && tells) tell_unused(r);
  if (status == RONDE_OK) *rows_out = r;
  else ronde__rows_close(r);
  return status;
}

/* ---- rows ---- */

ronde_status ronde__rows_record(ronde__rows *r, const ronde__csv_field **fields_out, int64_t *n_out) {
  RONDE_TRY(ronde__csv_next(r->csv, fields_out, n_out));
  if (*n_out == 0 || *n_out == r->n) return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT, "%s: line %lld: %lld columns, but the first line has %lld", ronde__rows_file(r),
                     (long long)(*fields_out)->line, (long long)*n_out, (long long)r->n);
}

ronde_status ronde__rows_fail_missing(const ronde__rows *r, const ronde__csv_field *field, int64_t i) {
  if (field->n == 0) return ronde__rows_fail(r, field, i, "the value is missing");
  return ronde__rows_fail(r, field, i, "the value is missing: %s (in quotes it would be a text)", field->text);
}

static ronde_status read_number(const ronde__rows *r, const ronde__csv_field *field, int64_t i, float *value_out) {
  switch (ronde__csv_meaning(field, value_out)) {
  case RONDE__FIELD_MISSING: return ronde__rows_fail_missing(r, field, i);
  case RONDE__FIELD_BEYOND:
    return ronde__rows_fail(r, field, i, "%s is not within the range of float32", RONDE__SHOWN(field->text));
  case RONDE__FIELD_TEXT: return ronde__rows_fail(r, field, i, "'%s' is not a number", RONDE__SHOWN(field->text));
  default: return RONDE_OK;
  }
}

/* One of n ordered names; -1: none. */
static int64_t find_category(char *const *names, int64_t n, const char *text) {
  char *const *found = n ? bsearch(&text, names, (size_t)n, sizeof *names, ronde__category_order) : NULL;
  return found ? found - names : -1;
}

static ronde_status read_category(const ronde__rows *r, const ronde__csv_field *field, int64_t i, char *const *names,
                                  int64_t n, int64_t *k_out) {
  float ignored;
  char list[300] = "";
  size_t used = 0;
  if (ronde__csv_meaning(field, &ignored) == RONDE__FIELD_MISSING) return ronde__rows_fail_missing(r, field, i);
  if ((*k_out = find_category(names, n, field->text)) >= 0) return RONDE_OK;
  for (int64_t k = 0; k < n && used + RONDE__SHOWN_BYTES + 8 < sizeof list; ++k)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", k ? ", " : "", RONDE__SHOWN(names[k]));
  return ronde__rows_fail(r, field, i, "'%s' is not one of the %lld that training had: %s", RONDE__SHOWN(field->text),
                          (long long)n, list);
}

static ronde_status read_input(const ronde__rows *r, const ronde__csv_field *field, int64_t i, float *x) {
  const ronde__column *input = &r->columns->input[r->place[i].index];
  int64_t k;
  if (!input->n_categories) return read_number(r, field, i, x);
  RONDE_TRY(read_category(r, field, i, input->category, input->n_categories, &k));
  memset(x, 0, (size_t)input->n_categories * sizeof *x);
  x[k] = 1;
  return RONDE_OK;
}

ronde_status ronde__rows_next(ronde__rows *r, float *x, int64_t *label, float *targets, bool *any_out) {
  const ronde__csv_field *field;
  const ronde__columns *c = r->columns;
  int64_t n;
  RONDE_TRY(ronde__rows_record(r, &field, &n));
  *any_out = n > 0;
  for (int64_t i = 0; i < n && x; ++i) {
    const ronde__place *p = &r->place[i];
    if (p->use == RONDE__PLACE_INPUT) RONDE_TRY(read_input(r, &field[i], i, x + p->at));
    if (p->use == RONDE__PLACE_TARGET && label)
      RONDE_TRY(read_category(r, &field[i], i, c->class_name, c->n_classes, label));
    if (p->use == RONDE__PLACE_TARGET && targets) RONDE_TRY(read_number(r, &field[i], i, targets + p->index));
  }
  return RONDE_OK;
}
