/* `ronde predict`: the likeliest classes, or the values, of images or rows, or a text that goes on, printed as they are
 * known. */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JSON_NAMES = 64 };

/* A text and what JSON writes for it; of nothing: NULL, NULL. */
typedef struct json_text {
  char *text, *json;
} json_text;

/* Who prints. names: what was last met of the classes with a number's remainder. */
typedef struct printer {
  ronde_hooks of_tool; /* cancelling is theirs */
  tool_format format;
  const char *prompt; /* of a text */
  int64_t n;          /* printed */
  bool told_tokens;
  json_text file, names[JSON_NAMES];
} printer;

/* Whether a file may hold several examples: an array or a table. */
static bool holds_rows(const char *file) {
  static const char *const ends[] = {".npy", ".csv", ".csv.gz"};
  size_t length = strlen(file);
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (length >= strlen(ends[i]) && !strcmp(file + length - strlen(ends[i]), ends[i])) return true;
  return false;
}

static void print_text_value(const ronde_prediction *told, int i) {
  char name[128] = "";
  if (told->value_names) tool_printable(told->value_names[i], name, sizeof name);
  printf("  value %4d  %#14.7g%s%s\n", i, (double)told->values[i], *name ? "  " : "", name);
}

static void print_text(const ronde_prediction *told) {
  char file[256];
  tool_printable(told->file, file, sizeof file);
  printf("%s", file);
  if (holds_rows(told->file)) printf(" [%lld]", (long long)told->index);
  printf("\n");
  for (int i = 0; i < told->n; i++) {
    char name[128] = "";
    if (told->names[i]) tool_printable(told->names[i], name, sizeof name);
    printf("  class %4lld  %6.2f %%%s%s\n", (long long)told->classes[i], 100 * told->probabilities[i],
           *name ? "  " : "", name);
  }
  for (int i = 0; i < told->n_values; i++) print_text_value(told, i);
}

static void json_forget(json_text *known) {
  free(known->text);
  free(known->json);
}

/* As a JSON string, kept until the text is another one; null where it is no UTF-8. */
static const char *json_of(json_text *known, const char *text) {
  if (!known->text || strcmp(known->text, text) != 0) {
    json_t *string = json_string(text);
    json_forget(known);
    known->text = strdup(text);
    known->json = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    json_decref(string);
  }
  return known->json ? known->json : "null";
}

/* JSON tells 1.0, a number, from 1, an integer. */
static void print_json_real(const char *before, int digits, double value) {
  char text[40];
  snprintf(text, sizeof text, "%.*g", digits, value);
  printf("%s%s%s", before, text, strpbrk(text, ".e") ? "" : ".0");
}

static void print_json_class(printer *p, const ronde_prediction *told, int i) {
  json_text *name = &p->names[(size_t)told->classes[i] % JSON_NAMES];
  printf("%s{\"class\":%lld", i ? "," : "", (long long)told->classes[i]);
  print_json_real(",\"probability\":", 6, told->probabilities[i]);
  if (told->names[i]) printf(",\"name\":%s", json_of(name, told->names[i]));
  putchar('}');
}

/* Text by text, because a tree of the line costs more than the network does on small images. */
static void print_json_line(printer *p, const ronde_prediction *told) {
  printf("{\"file\":%s,\"index\":%lld,\"%s\":[", json_of(&p->file, told->file), (long long)told->index,
         told->n_values ? "values" : "classes");
  for (int i = 0; i < told->n; i++) print_json_class(p, told, i);
  for (int i = 0; i < told->n_values; i++) print_json_real(i ? "," : "", 9, (double)told->values[i]);
  puts("]}");
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

static void print_value_title(const ronde_prediction *told, int i) {
  putchar(',');
  if (told->value_names) print_field(told->value_names[i]);
  else printf("value_%d", i + 1);
}

static void print_csv(const printer *p, const ronde_prediction *told) {
  if (p->n == 0) {
    printf("file,index");
    for (int i = 0; i < told->n; i++) printf(",class_%d,name_%d,probability_%d", i + 1, i + 1, i + 1);
    for (int i = 0; i < told->n_values; i++) print_value_title(told, i);
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
  if (p->format == TOOL_TEXT) print_text(told);
  else if (p->format == TOOL_JSONL) print_json_line(p, told);
  else if (p->format == TOOL_CSV) print_csv(p, told);
  p->n++;
}

/* The tokens of a text as it grows. */
static void print_token(void *user, int64_t token) {
  printer *p = user;
  if (p->format == TOOL_JSONL) printf("{\"token\":%lld}\n", (long long)token);
  else if (p->format == TOOL_CSV) printf("%s%lld\r\n", p->told_tokens ? "" : "token\r\n", (long long)token);
  if (p->format == TOOL_TEXT && !p->told_tokens) printf("%s", p->prompt);
  else if (p->format != TOOL_TEXT) fflush(stdout);
  p->told_tokens = true;
}

/* Their bytes, behind the prompt. */
static void print_bytes(void *user, const char *bytes, int64_t n) {
  const printer *p = user;
  if (p->format != TOOL_TEXT) return;
  fwrite(bytes, 1, (size_t)n, stdout);
  fflush(stdout);
}

static bool is_cancelled(void *user) {
  const printer *p = user;
  return p->of_tool.cancel(p->of_tool.user);
}

ronde_status tool_predict(const tool_call *call) {
  tool_signals_start(0);
  printer p = {
      .of_tool = tool_hooks(false, 0), .format = call->format, .prompt = ronde_config_get(call->config, "prompt")};
  ronde_hooks hooks = {
      .prediction = print_prediction, .token = print_token, .text = print_bytes, .cancel = is_cancelled, .user = &p};
  char *text = NULL;
  ronde_status status = ronde_predict(call->config, &hooks, call->format == TOOL_JSON ? &text : NULL);
  if (p.told_tokens && p.format == TOOL_TEXT) putchar('\n');
  json_forget(&p.file);
  for (int i = 0; i < JSON_NAMES; i++) json_forget(&p.names[i]);
  if (call->format != TOOL_JSON) return status;
  return status ? status : tool_print_result(call, text, NULL);
}
