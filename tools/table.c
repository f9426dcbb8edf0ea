/* Tables for people: rows are JSON objects, a column says which of their fields it shows, and how. Each column is as wide
 * as its longest cell. */
#include "common.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL_BYTES = TOOL_CELL_SIZE, TABLE_GAP = 2 };

/* "step_s.median": a field of an object in the row. */
static const json_t *find_field(const json_t *row, const char *path) {
  char key[64];
  for (size_t n; row && *path; path += n + (path[n] == '.')) {
    n = strcspn(path, ".");
    snprintf(key, sizeof key, "%.*s", (int)n, path);
    row = json_object_get(row, key);
  }
  return row;
}

static const char *format_number(const tool_column *column, double value, char buffer[CELL_BYTES]) {
  if (!isfinite(value)) return "-";
  value *= column->scale;
  if (column->digits < 0) snprintf(buffer, CELL_BYTES, "%.*g", -column->digits, value);
  else snprintf(buffer, CELL_BYTES, "%.*f", column->digits, value);
  return buffer;
}

static const char *format_interval(const tool_column *column, const json_t *figure, char buffer[CELL_BYTES]) {
  double low = tool_number(figure, "low"), high = tool_number(figure, "high");
  if (!isfinite(low) || !isfinite(high)) return "-";
  snprintf(buffer, CELL_BYTES, "[%.*f, %.*f]", column->digits, column->scale * low, column->digits,
           column->scale * high);
  return buffer;
}

static const char *format_text(const tool_column *column, const json_t *value, char buffer[CELL_BYTES]) {
  const char *text = json_string_value(value);
  if (!text || !*text) return "-";
  snprintf(buffer, CELL_BYTES, "%.*s", column->digits ? column->digits : CELL_BYTES - 1, text);
  return buffer;
}

const char *tool_cell_text(const tool_column *column, const json_t *row, char buffer[TOOL_CELL_SIZE]) {
  const json_t *value = find_field(row, column->field);
  double number = json_is_number(value) ? json_number_value(value) : NAN;
  switch (column->cell) {
  case TOOL_CELL_TEXT: return format_text(column, value, buffer);
  case TOOL_CELL_NUMBER: return format_number(column, number, buffer);
  case TOOL_CELL_COUNT: return tool_count(number, buffer);
  case TOOL_CELL_BYTES: return isfinite(number) ? tool_bytes(number, buffer) : "-";
  case TOOL_CELL_SHAPE: return tool_shape(value, buffer);
  case TOOL_CELL_INTERVAL: return format_interval(column, value, buffer);
  }
  return "-";
}

bool tool_cell_is_number(const tool_column *column) {
  return column->cell != TOOL_CELL_TEXT && column->cell != TOOL_CELL_SHAPE;
}

/* Characters of a text in UTF-8. */
static int width_of(const char *text) {
  int width = 0;
  for (; *text; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
  return width;
}

/* Text begins at the left, numbers end at the right; nothing stands behind the last cell. */
static void print_cell(const tool_column *column, const char *text, int width, bool is_last) {
  int blank = width - width_of(text);
  if (!tool_cell_is_number(column)) printf("%s%*s", text, is_last ? 0 : blank, "");
  else printf("%*s%s", blank, "", text);
  printf("%*s", is_last ? 0 : TABLE_GAP, "");
}

void tool_table(const json_t *rows, const tool_column *columns, int n) {
  int widths[TOOL_MAX_COLUMNS];
  char buffer[CELL_BYTES];
  const json_t *row;
  size_t i;
  if (n > TOOL_MAX_COLUMNS) n = TOOL_MAX_COLUMNS;
  for (int c = 0; c < n; c++) {
    widths[c] = width_of(columns[c].title);
    json_array_foreach(rows, i, row) {
      int width = width_of(tool_cell_text(&columns[c], row, buffer));
      if (width > widths[c]) widths[c] = width;
    }
  }
  for (int c = 0; c < n; c++) print_cell(&columns[c], columns[c].title, widths[c], c + 1 == n);
  printf("\n");
  json_array_foreach(rows, i, row) {
    for (int c = 0; c < n; c++)
      print_cell(&columns[c], tool_cell_text(&columns[c], row, buffer), widths[c], c + 1 == n);
    printf("\n");
  }
}
