/* `ronde predict`: the likeliest classes, or the values, of images or rows, printed as they are known. */
#include "common.h"

#include <stdio.h>
#include <string.h>

/* Who prints. */
typedef struct printer {
  ronde_hooks of_tool; /* cancelling is theirs */
  tool_format format;
  int64_t n; /* printed */
} printer;

static void print_text(printer *p, const ronde_prediction *told) {
  char file[256];
  tool_printable(told->file, file, sizeof file);
  printf("%s", file);
  if (told->index) printf(" [%lld]", (long long)told->index);
  printf("\n");
  for (int i = 0; i < told->n; i++) {
    char name[128] = "";
    if (told->names[i]) tool_printable(told->names[i], name, sizeof name);
    printf("  class %4lld  %6.2f %%%s%s\n", (long long)told->classes[i], 100 * told->probabilities[i],
           *name ? "  " : "", name);
  }
  for (int i = 0; i < told->n_values; i++) printf("  value %4d  %.7g\n", i, (double)told->values[i]);
}

static void print_json_line(const ronde_prediction *told) {
  json_t *classes = json_array();
  for (int i = 0; i < told->n; i++) {
    json_t *row = json_pack("{s:I, s:f}", "class", (json_int_t)told->classes[i], "probability", told->probabilities[i]);
    if (told->names[i]) json_object_set_new(row, "name", json_string(told->names[i]));
    json_array_append_new(classes, row);
  }
  json_t *values = json_array();
  for (int i = 0; i < told->n_values; i++) json_array_append_new(values, json_real((double)told->values[i]));
  json_t *file = json_string(told->file); /* NULL: its name is no UTF-8 */
  json_t *line = json_pack("{s:o, s:I, s:o}", "file", file ? file : json_null(), "index", (json_int_t)told->index,
                           told->n_values ? "values" : "classes", told->n_values ? values : classes);
  json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
  json_decref(line);
  json_decref(told->n_values ? classes : values);
  printf("\n");
}

/* RFC 4180: in quotes where the text needs them. */
static void print_field(const char *text) {
  bool quoted = text[strcspn(text, ",\"\r\n")];
  if (quoted) putchar('"');
  for (; *text; text++) {
    if (*text == '"') putchar('"');
    putchar(*text);
  }
  if (quoted) putchar('"');
}

static void print_csv(const printer *p, const ronde_prediction *told) {
  if (p->n == 0) {
    printf("file,index");
    for (int i = 0; i < told->n; i++) printf(",class_%d,name_%d,probability_%d", i + 1, i + 1, i + 1);
    for (int i = 0; i < told->n_values; i++) printf(",value_%d", i + 1);
    printf("\r\n");
  }
  print_field(told->file);
  printf(",%lld", (long long)told->index);
  for (int i = 0; i < told->n; i++) {
    printf(",%lld,", (long long)told->classes[i]);
    print_field(told->names[i] ? told->names[i] : "");
    printf(",%.6g", told->probabilities[i]);
  }
  for (int i = 0; i < told->n_values; i++) printf(",%.9g", (double)told->values[i]);
  printf("\r\n");
}

static void print_prediction(void *user, const ronde_prediction *told) {
  printer *p = user;
  if (p->format == TOOL_TEXT) print_text(p, told);
  else if (p->format == TOOL_JSONL) print_json_line(told);
  else if (p->format == TOOL_CSV) print_csv(p, told);
  p->n++;
}

static bool is_cancelled(void *user) {
  const printer *p = user;
  return p->of_tool.cancel(p->of_tool.user);
}

ronde_status tool_predict(const tool_call *call) {
  tool_signals_start(0);
  printer p = {.of_tool = tool_hooks(false, 0), .format = call->format};
  ronde_hooks hooks = {.prediction = print_prediction, .cancel = is_cancelled, .user = &p};
  if (call->format != TOOL_JSON) return ronde_predict(call->config, &hooks, NULL);
  char *text;
  ronde_status status = ronde_predict(call->config, &hooks, &text);
  return status ? status : tool_print_result(call, text, NULL);
}
