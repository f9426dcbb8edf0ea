/* The confusion matrix that `ronde eval RUN --csv RUN` has left beside a run. */
#include "report.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_CELLS = 10000 };

/* The next field of a line (RFC 4180), unquoted in place; NULL past the end. */
static char *next_field(char **rest) {
  char *begin = *rest, *to;
  if (!begin) return NULL;
  if (*begin != '"') {
    char *end = strpbrk(begin, ",\r\n");
    *rest = end && *end == ',' ? end + 1 : NULL;
    if (end) *end = '\0';
    return begin;
  }
  char *from = begin + 1;
  for (to = begin; *from && (*from != '"' || from[1] == '"'); from++) {
    if (*from == '"') from++;
    *to++ = *from;
  }
  if (*from == '"') from++;
  *rest = *from == ',' ? from + 1 : NULL;
  *to = '\0';
  return begin;
}

/* "class,predicted,name,predicted_name,examples" */
static void read_pair(json_t *values, char *line) {
  char *fields[5] = {NULL}, *rest = line;
  for (int i = 0; i < 5; i++) fields[i] = next_field(&rest);
  if (!fields[4]) return;
  json_t *row = json_pack("{s:s, s:s, s:I, s:I}", "label", *fields[2] ? fields[2] : fields[0], "predicted",
                          *fields[3] ? fields[3] : fields[1], "class", (json_int_t)strtoll(fields[0], NULL, 10),
                          "examples", (json_int_t)strtoll(fields[4], NULL, 10));
  if (row) json_array_append_new(values, row);
}

/* The share of its label that each pair is. */
static void add_shares(json_t *values) {
  json_t *row, *other;
  size_t i, k;
  json_array_foreach(values, i, row) {
    double all = 0;
    json_array_foreach(values, k, other) {
      if (tool_number(other, "class") == tool_number(row, "class")) all += tool_number(other, "examples");
    }
    json_object_set_new(row, "share", json_real(tool_number(row, "examples") / all));
  }
}

json_t *report_confusion(const char *folder) {
  json_t *values = json_array();
  char path[4500], *line = NULL;
  size_t capacity = 0;
  snprintf(path, sizeof path, "%s/confusion.csv", folder);
  FILE *file = fopen(path, "r");
  for (int64_t i = 0; file && getline(&line, &capacity, file) > 0 && i <= MOST_CELLS; i++)
    if (i > 0) read_pair(values, line); /* behind the titles */
  free(line);
  if (file) fclose(file);
  if (json_array_size(values) >= MOST_CELLS) json_array_clear(values); /* no eye would find a class in it */
  add_shares(values);
  return values;
}
