/* A page of the report is put together here: parts, pictures, their tables and samples, commands, environment. */
#include "report.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

json_t *report_page(const char *title) {
  return json_pack("{s:s, s:[], s:[], s:[]}", "title", title, "answer", "warnings", "parts");
}

json_t *report_part(json_t *page, const char *title) {
  json_t *part = json_pack("{s:s, s:[], s:[], s:[], s:[], s:[]}", "title", title, "notes", "changes", "pictures",
                           "commands", "environment");
  json_array_append_new(json_object_get(page, "parts"), part);
  return part;
}

void report_say(json_t *of, const char *list, const char *format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  json_t *value = json_string(text);
  if (!value) value = json_string("(a text that is not UTF-8)"); /* cut within a character */
  json_array_append_new(json_object_get(of, list), value);
}

json_t *report_picture(json_t *part, const char *chart, const char *title, const char *about, json_t *values) {
  bool is_empty = json_array_size(values) == 0;
  json_t *picture = json_pack("{s:s, s:s, s:s, s:o}", "chart", is_empty ? "" : chart, "title", title, "about", about,
                              "values", values);
  json_array_append_new(json_object_get(part, "pictures"), picture);
  return picture;
}

void report_table(json_t *picture, const json_t *rows, const tool_column *columns, int n) {
  json_t *head = json_array(), *numbers = json_array(), *lines = json_array(), *row;
  char buffer[TOOL_CELL_SIZE];
  size_t i;
  for (int c = 0; c < n; c++) {
    json_array_append_new(head, json_string(columns[c].title));
    json_array_append_new(numbers, json_boolean(tool_cell_is_number(&columns[c])));
  }
  json_array_foreach((json_t *)rows, i, row) {
    json_t *line = json_array();
    for (int c = 0; c < n; c++) {
      const char *text = tool_cell_text(&columns[c], row, buffer);
      json_t *cell = json_string(text);
      json_array_append_new(line, cell ? cell : json_string("?"));
    }
    json_array_append_new(lines, line);
  }
  json_object_set_new(picture, "table", json_pack("{s:o, s:o, s:o}", "head", head, "numbers", numbers, "rows", lines));
}

/* Of a case at most so many samples stand on the page: equally spaced ones, the first and the last among them. */
enum { MOST_SAMPLES = 250 };

static json_t *sample_row(const json_t *one, const json_t *samples, double scale) {
  size_t n = json_array_size(samples), shown = n > MOST_SAMPLES ? MOST_SAMPLES : n;
  char *text = NULL;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  for (size_t i = 0; out && i < shown; i++) {
    const json_t *sample = json_array_get(samples, shown > 1 ? i * (n - 1) / (shown - 1) : 0);
    if (json_is_number(sample)) fprintf(out, "%s%.6g", i ? " " : "", scale * json_number_value(sample));
    else fprintf(out, "%s-", i ? " " : "");
  }
  if (out) fclose(out);
  json_t *row =
      json_pack("[s, s, o, s]", tool_string(one, "name"), "", json_sprintf("%zu of %zu", shown, n), text ? text : "");
  free(text);
  return row;
}

void report_samples(json_t *picture, const json_t *cases, const char *figure, double scale, const char *unit) {
  json_t *rows = json_array(), *one;
  size_t i;
  json_array_foreach((json_t *)cases, i, one) {
    const json_t *samples = json_object_get(json_object_get(one, figure), "samples");
    if (!json_array_size(samples)) continue;
    json_t *row = sample_row(one, samples, scale);
    json_array_set_new(row, 1, json_sprintf("%s, %s", figure, unit));
    json_array_append_new(rows, row);
  }
  if (!json_array_size(rows)) {
    json_decref(rows);
    return;
  }
  json_object_set_new(picture, "raw",
                      json_pack("{s:[s, s, s, s], s:[b, b, b, b], s:o}", "head", "case", "figure", "shown", "samples",
                                "numbers", 0, 0, 0, 0, "rows", rows));
}

double report_bound(const json_t *figure, const char *bound) {
  const double MOST = 4;
  double median = tool_number(figure, "median"), value = tool_number(figure, bound);
  return isfinite(value) ? fmin(fmax(value, median / MOST), MOST * median) : median;
}

double report_median(const json_t *one, const char *name) { return tool_number(json_object_get(one, name), "median"); }

bool report_has(const json_t *cases, const char *name) {
  const json_t *one;
  size_t i;
  json_array_foreach((json_t *)cases, i, one) {
    if (isfinite(report_median(one, name))) return true;
  }
  return false;
}

/* As a shell would read it. */
static void put_word(FILE *out, const char *word) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./:,@%";
  if (*word && !word[strspn(word, plain)]) {
    fputs(word, out);
    return;
  }
  fputc('\'', out);
  for (; *word; word++)
    if (*word == '\'') fputs("'\\''", out);
    else fputc(*word, out);
  fputc('\'', out);
}

void report_command(json_t *part, const char *name, const json_t *command) {
  char *text = NULL;
  size_t bytes, n = json_array_size(command);
  FILE *out = n ? open_memstream(&text, &bytes) : NULL;
  if (!out) return;
  for (size_t i = 0; i < n; i++) {
    const char *word = json_string_value(json_array_get(command, i));
    if (i) fputc(' ', out);
    put_word(out, word ? word : "?");
  }
  fclose(out);
  json_array_append_new(json_object_get(part, "commands"), json_pack("{s:s, s:s}", "name", name, "command", text));
  free(text);
}

void report_environment(json_t *part, const char *name, const char *value) {
  if (value && *value) json_array_append_new(json_object_get(part, "environment"), json_pack("[s, s]", name, value));
}

static void join_hosts(const json_t *hosts, char *text, size_t bytes) {
  text[0] = '\0';
  for (size_t i = 0; i < json_array_size(hosts); i++) {
    size_t used = strlen(text);
    const char *host = json_string_value(json_array_get(hosts, i));
    snprintf(text + used, bytes - used, "%s%s", i ? ", " : "", host ? host : "?");
  }
}

static void add_machine(json_t *part, const json_t *machine) {
  char text[512], bytes[32];
  join_hosts(json_object_get(machine, "hosts"), text, sizeof text);
  report_environment(part, "hosts", text);
  report_environment(part, "processor", tool_string(machine, "cpu"));
  if (isfinite(tool_number(machine, "cores"))) {
    snprintf(text, sizeof text, "%.0f", tool_number(machine, "cores"));
    report_environment(part, "cores", text);
  }
  report_environment(part, "instruction set", tool_string(machine, "isa"));
  if (isfinite(tool_number(machine, "memory_bytes")))
    report_environment(part, "memory", tool_bytes(tool_number(machine, "memory_bytes"), bytes));
  report_environment(part, "system", tool_string(machine, "os"));
}

static void add_load(json_t *part, const json_t *load) {
  char text[128];
  if (!load) return;
  if (json_is_null(load)) snprintf(text, sizeof text, "not measured");
  else
    snprintf(text, sizeof text, "%.2f of %.0f cores on average%s", tool_number(load, "busy_with_others"),
             tool_number(load, "cores"), json_is_true(json_object_get(load, "is_busy")) ? " (busy)" : "");
  report_environment(part, "kept busy by others", text);
}

void report_environment_of(json_t *part, const json_t *record) {
  const json_t *version = json_object_get(record, "version"), *world = json_object_get(record, "world");
  char text[128];
  add_machine(part, json_object_get(record, "machine"));
  if (json_is_object(version)) {
    snprintf(text, sizeof text, "%.60s (%.60s)", tool_string(version, "ronde"), tool_string(version, "git"));
    report_environment(part, "Ronde", text);
  }
  report_environment(part, "started", tool_string(record, "started_at"));
  report_environment(part, "clock", tool_string(record, "clock"));
  add_load(part, json_object_get(record, "host_load"));
  if (json_is_true(json_object_get(world, "simulated")))
    report_environment(part, "times", "of a simulated cluster, not of this machine");
  if (isfinite(tool_number(record, "rounds"))) {
    snprintf(text, sizeof text, "%.0f, alternated", tool_number(record, "rounds"));
    report_environment(part, "rounds", text);
  }
}
