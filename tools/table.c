/* Tables for people: rows are JSON objects, a column says which of their fields it shows, and how. Each column is as wide
 * as its longest cell. */
#include "common.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

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

int tool_width(const char *text) {
  int width = 0;
  for (; *text; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
  return width;
}

/* Text begins at the left, numbers end at the right; nothing stands behind the last cell. */
static void print_cell(const tool_column *column, const char *text, int width, bool is_last) {
  int blank = width - tool_width(text);
  if (!tool_cell_is_number(column)) printf("%s%*s", text, is_last ? 0 : blank, "");
  else printf("%*s%s", blank, "", text);
  printf("%*s", is_last ? 0 : TABLE_GAP, "");
}

/* Columns of the terminal that stdout is; no limit where it is none. */
static int room_of_output(void) {
  struct winsize size;
  if (!isatty(STDOUT_FILENO)) return INT_MAX;
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* The columns from `begin` up to `end`, behind the first, which says what a row is. */
static void print_part(const json_t *rows, const tool_column *columns, const int *widths, int begin, int end) {
  char buffer[CELL_BYTES];
  const json_t *row;
  size_t i;
  print_cell(&columns[0], columns[0].title, widths[0], begin == end);
  for (int c = begin; c < end; c++) print_cell(&columns[c], columns[c].title, widths[c], c + 1 == end);
  printf("\n");
  json_array_foreach(rows, i, row) {
    print_cell(&columns[0], tool_cell_text(&columns[0], row, buffer), widths[0], begin == end);
    for (int c = begin; c < end; c++)
      print_cell(&columns[c], tool_cell_text(&columns[c], row, buffer), widths[c], c + 1 == end);
    printf("\n");
  }
}

void tool_table(const json_t *rows, const tool_column *columns, int n) {
  int widths[TOOL_MAX_COLUMNS], room = room_of_output();
  char buffer[CELL_BYTES];
  const json_t *row;
  size_t i;
  if (n > TOOL_MAX_COLUMNS) n = TOOL_MAX_COLUMNS;
  for (int c = 0; c < n; c++) {
    widths[c] = tool_width(columns[c].title);
    json_array_foreach(rows, i, row) {
      int width = tool_width(tool_cell_text(&columns[c], row, buffer));
      if (width > widths[c]) widths[c] = width;
    }
  }
  for (int begin = 1, end; begin == 1 || begin < n; begin = end) {
    int used = widths[0];
    for (end = begin; end < n && (end == begin || used + TABLE_GAP + widths[end] <= room); end++)
      used += TABLE_GAP + widths[end];
    if (begin > 1) printf("\n");
    print_part(rows, columns, widths, begin, end);
    if (end == begin) break; /* there is one column only */
  }
}
