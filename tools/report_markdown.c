/* A page as Markdown: answer, notes and tables, without pictures. */
#include "report.h"

#include <string.h>

/* What Markdown or HTML within it would take for more than text is written as text. */
static void put_text(FILE *out, const char *text) {
  for (; *text; text++)
    if (*text == '<') fputs("&lt;", out);
    else if (*text == '&') fputs("&amp;", out);
    else if (*text == '\n' || *text == '\r') fputc(' ', out);
    else if (strchr("\\`*_[]|#~", *text)) fprintf(out, "\\%c", *text);
    else fputc(*text, out);
}

static void put_list(FILE *out, const json_t *texts, const char *mark) {
  for (size_t i = 0; i < json_array_size(texts); i++) {
    fputs(mark, out);
    put_text(out, json_string_value(json_array_get(texts, i)));
    fputs(*mark == '-' ? "\n" : "\n\n", out);
  }
  if (*mark == '-' && json_array_size(texts)) fputc('\n', out);
}

static void put_row(FILE *out, const json_t *cells) {
  fputc('|', out);
  for (size_t i = 0; i < json_array_size(cells); i++) {
    fputc(' ', out);
    put_text(out, json_string_value(json_array_get(cells, i)));
    fputs(" |", out);
  }
  fputc('\n', out);
}

static void put_table(FILE *out, const json_t *table) {
  const json_t *head = json_object_get(table, "head"), *rows = json_object_get(table, "rows");
  if (!json_array_size(rows)) return;
  put_row(out, head);
  fputc('|', out);
  for (size_t i = 0; i < json_array_size(head); i++)
    fputs(json_is_true(json_array_get(json_object_get(table, "numbers"), i)) ? "---:|" : "---|", out);
  fputc('\n', out);
  for (size_t i = 0; i < json_array_size(rows); i++) put_row(out, json_array_get(rows, i));
  fputc('\n', out);
}

static void put_part(FILE *out, const json_t *part) {
  const json_t *pictures = json_object_get(part, "pictures"), *commands = json_object_get(part, "commands");
  fputs("## ", out);
  put_text(out, tool_string(part, "title"));
  fputs("\n\n", out);
  put_list(out, json_object_get(part, "notes"), "");
  if (json_array_size(json_object_get(part, "changes"))) fputs("### What to change\n\n", out);
  put_list(out, json_object_get(part, "changes"), "- ");
  for (size_t i = 0; i < json_array_size(pictures); i++) {
    const json_t *picture = json_array_get(pictures, i);
    fputs("### ", out);
    put_text(out, tool_string(picture, "title"));
    fputs("\n\n", out);
    put_text(out, tool_string(picture, "about"));
    fputs("\n\n", out);
    put_table(out, json_object_get(picture, "table"));
  }
  if (json_array_size(commands)) fputs("### Commands\n\n", out);
  for (size_t i = 0; i < json_array_size(commands); i++) {
    fputs("- ", out);
    put_text(out, tool_string(json_array_get(commands, i), "name"));
    fputs(": ", out);
    put_text(out, tool_string(json_array_get(commands, i), "command"));
    fputc('\n', out);
  }
  if (json_array_size(commands)) fputc('\n', out);
}

ronde_status report_markdown(const json_t *page, FILE *out) {
  const json_t *parts = json_object_get(page, "parts");
  fputs("# ", out);
  put_text(out, tool_string(page, "title"));
  fputs("\n\n", out);
  put_list(out, json_object_get(page, "answer"), "");
  put_list(out, json_object_get(page, "warnings"), "Warning: ");
  for (size_t i = 0; i < json_array_size(parts); i++) put_part(out, json_array_get(parts, i));
  return RONDE_OK;
}
