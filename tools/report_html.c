/* A page as one HTML file: its texts and tables as they are, its charts as data that the library draws, which lies in the
 * file too. Nothing is loaded: the page forbids it to itself (Content-Security-Policy), and only scripts that bear this
 * file's own number may run in it, so that no text of a record can become one. */
#include "embed.h"
#include "report.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static void put_text(FILE *out, const char *text) {
  for (; *text; text++) switch (*text) {
    case '&': fputs("&amp;", out); break;
    case '<': fputs("&lt;", out); break;
    case '>': fputs("&gt;", out); break;
    case '"': fputs("&quot;", out); break;
    case '\'': fputs("&#39;", out); break;
    default: fputc(*text, out);
    }
}

/* A case's name ("strategy=allreduce,workers=2") may break behind a comma. */
static void put_prose(FILE *out, const char *text) {
  for (const char *end; (end = strchr(text, ',')); text = end + 1) {
    char *piece = strndup(text, (size_t)(end - text) + 1);
    if (piece) put_text(out, piece);
    if (end[1] != ' ') fputs("<wbr>", out);
    free(piece);
  }
  put_text(out, text);
}

static void put_element(FILE *out, const char *tag, const char *attributes, const char *text) {
  fprintf(out, "<%s%s>", tag, attributes);
  put_text(out, text);
  fprintf(out, "</%s>\n", tag);
}

static void put_list(FILE *out, const json_t *texts, const char *tag, const char *attributes) {
  for (size_t i = 0; i < json_array_size(texts); i++) {
    fprintf(out, "<%s%s>", tag, attributes);
    put_prose(out, json_string_value(json_array_get(texts, i)));
    fprintf(out, "</%s>\n", tag);
  }
}

/* JSON within a script element: a '<' in a string could end it. */
static void put_json(FILE *out, const json_t *json) {
  char *text = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(8));
  for (const char *at = text; at && *at; at++)
    if (*at == '<') fputs("\\u003c", out);
    else fputc(*at, out);
  free(text);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static void put_row(FILE *out, const json_t *cells, const json_t *numbers, const char *tag) {
  fputs("<tr>", out);
  for (size_t i = 0; i < json_array_size(cells); i++) {
    bool is_number = json_is_true(json_array_get(numbers, i));
    fprintf(out, "<%s%s%s>", tag, *tag == 't' && tag[1] == 'h' ? " scope=\"col\"" : "",
            is_number ? " class=\"n\"" : "");
    put_text(out, json_string_value(json_array_get(cells, i)));
    fprintf(out, "</%s>", tag);
  }
  fputs("</tr>\n", out);
}

/* kind: "table" or "raw". */
static void put_table(FILE *out, const json_t *table, const char *kind, const char *id, const char *title,
                      bool is_open) {
  const json_t *numbers = json_object_get(table, "numbers"), *rows = json_object_get(table, "rows");
  if (!table) return;
  fprintf(
      out,
      "<details class=\"%s\" id=\"%s-%s\"%s><summary>%s</summary><div class=\"wide\" tabindex=\"0\"><table><caption>",
      kind, id, kind, is_open ? " open" : "", strcmp(kind, "raw") == 0 ? "Raw samples" : "Table");
  put_text(out, title);
  fputs("</caption><thead>", out);
  put_row(out, json_object_get(table, "head"), numbers, "th");
  fputs("</thead><tbody>\n", out);
  for (size_t i = 0; i < json_array_size(rows); i++) put_row(out, json_array_get(rows, i), numbers, "td");
  fputs("</tbody></table></div></details>\n", out);
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static void put_leads(FILE *out, const json_t *picture, const char *id, const char *part) {
  fputs("<ul class=\"leads\">", out);
  if (json_object_get(picture, "table")) fprintf(out, "<li><a href=\"#%s-table\">Table</a></li>", id);
  if (json_object_get(picture, "raw")) fprintf(out, "<li><a href=\"#%s-raw\">Raw samples</a></li>", id);
  fprintf(out,
          "<li><a href=\"#%s-commands\">Commands</a></li><li><a href=\"#%s-environment\">Environment</a></li></ul>\n",
          part, part);
}

static void put_picture(FILE *out, const json_t *picture, const char *id, const char *part) {
  const char *chart = tool_string(picture, "chart"), *title = tool_string(picture, "title");
  char attributes[128];
  snprintf(attributes, sizeof attributes, " id=\"%s\"", id);
  put_element(out, "h3", attributes, title);
  if (*chart) {
    fprintf(out, "<figure><div class=\"chart\" role=\"img\" data-chart=\"%s\" data-rows=\"%s-rows\" aria-label=\"",
            chart, id);
    put_text(out, title);
    fputs("; the numbers are in the table below\" data-says=\"", out);
    put_text(out, title);
    fputs("\"></div><figcaption>", out);
    put_text(out, tool_string(picture, "about"));
    fprintf(out, "</figcaption></figure>\n<script type=\"application/json\" id=\"%s-rows\">", id);
    put_json(out, json_object_get(picture, "values"));
    fputs("</script>\n", out);
  } else {
    put_element(out, "p", " class=\"about\"", tool_string(picture, "about"));
  }
  put_leads(out, picture, id, part);
  put_table(out, json_object_get(picture, "table"), "table", id, title, !*chart);
  put_table(out, json_object_get(picture, "raw"), "raw", id, title, false);
}

static void put_commands(FILE *out, const json_t *part, const char *id) {
  const json_t *commands = json_object_get(part, "commands"), *environment = json_object_get(part, "environment");
  fprintf(out, "<details id=\"%s-commands\"><summary>Commands</summary>\n", id);
  for (size_t i = 0; i < json_array_size(commands); i++) {
    put_element(out, "p", "", tool_string(json_array_get(commands, i), "name"));
    put_element(out, "pre", "", tool_string(json_array_get(commands, i), "command"));
  }
  fprintf(out, "</details>\n<details id=\"%s-environment\"><summary>Environment</summary><table><tbody>\n", id);
  for (size_t i = 0; i < json_array_size(environment); i++) {
    const json_t *row = json_array_get(environment, i);
    fputs("<tr><th scope=\"row\">", out);
    put_text(out, json_string_value(json_array_get(row, 0)));
    fputs("</th><td>", out);
    put_text(out, json_string_value(json_array_get(row, 1)));
    fputs("</td></tr>\n", out);
  }
  fputs("</tbody></table></details>\n", out);
}

static void put_part(FILE *out, const json_t *part, size_t index) {
  const json_t *pictures = json_object_get(part, "pictures"), *changes = json_object_get(part, "changes");
  char id[32], picture[64], attributes[64];
  snprintf(id, sizeof id, "p%zu", index + 1);
  snprintf(attributes, sizeof attributes, " id=\"%s\"", id);
  fprintf(out, "<section aria-labelledby=\"%s\">\n", id);
  put_element(out, "h2", attributes, tool_string(part, "title"));
  put_list(out, json_object_get(part, "notes"), "p", "");
  if (json_array_size(changes)) fputs("<h3>What to change</h3>\n<ul>\n", out);
  put_list(out, changes, "li", "");
  if (json_array_size(changes)) fputs("</ul>\n", out);
  for (size_t i = 0; i < json_array_size(pictures); i++) {
    snprintf(picture, sizeof picture, "%s-%zu", id, i + 1);
    put_picture(out, json_array_get(pictures, i), picture, id);
  }
  put_commands(out, part, id);
  fputs("</section>\n", out);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* An embedded file, without the line that names its source map, which a browser's tools would load. */
static ronde_status put_file(FILE *out, const char *path) {
  static const char mark[] = "//# sourceMappingURL=";
  const char *text, *end;
  size_t bytes;
  if (!tool_embedded(path, &text, &bytes)) return tool_fail(RONDE_E_INTERNAL, "%s is not in this program", path);
  end = memmem(text, bytes, mark, sizeof mark - 1);
  fwrite(text, 1, end ? (size_t)(end - text) : bytes, out);
  return RONDE_OK;
}

static ronde_status put_script(FILE *out, const char *path, const char *number) {
  fprintf(out, "<script nonce=\"%s\">\n", number);
  ronde_status status = put_file(out, path);
  fputs("\n</script>\n", out);
  return status;
}

static ronde_status put_scripts(FILE *out, const char *number) {
  static const char *const files[] = {"third_party/vega/vega.min.js", "third_party/vega/vega-lite.min.js",
                                      "third_party/vega/vega-embed.min.js", "tools/report/page.js"};
  fputs("<script type=\"application/json\" id=\"charts\">", out);
  ronde_status status = put_file(out, "tools/report/charts.json");
  fputs("</script>\n", out);
  for (size_t i = 0; i < sizeof files / sizeof files[0] && !status; i++) status = put_script(out, files[i], number);
  return status;
}

static void put_contents(FILE *out, const json_t *parts) {
  fputs("<nav aria-label=\"Contents\"><ul>\n", out);
  for (size_t i = 0; i < json_array_size(parts); i++) {
    fprintf(out, "<li><a href=\"#p%zu\">", i + 1);
    put_text(out, tool_string(json_array_get(parts, i), "title"));
    fputs("</a></li>\n", out);
  }
  fputs("</ul></nav>\n", out);
}

static ronde_status put_head(FILE *out, const char *title, const char *number) {
  fprintf(
      out,
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'nonce-%s'; "
      "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n",
      number);
  put_element(out, "title", "", title);
  fputs("<style>\n", out);
  ronde_status status = put_file(out, "tools/report/page.css");
  fputs("</style>\n</head>\n", out);
  return status;
}

ronde_status report_html(const json_t *page, FILE *out) {
  const json_t *parts = json_object_get(page, "parts");
  unsigned char random[16];
  char number[2 * sizeof random + 1];
  if (getrandom(random, sizeof random, 0) != sizeof random)
    return tool_fail(RONDE_E_INTERNAL, "report: the system has no random numbers");
  for (size_t i = 0; i < sizeof random; i++) snprintf(number + 2 * i, 3, "%02x", random[i]);
  ronde_status status = put_head(out, tool_string(page, "title"), number);
  if (status) return status;
  fputs("<body>\n<a class=\"skip\" href=\"#main\">To the pictures</a>\n<header>\n", out);
  put_element(out, "h1", "", tool_string(page, "title"));
  fputs("<div class=\"answer\" role=\"note\" aria-label=\"The answer\">\n", out);
  put_list(out, json_object_get(page, "answer"), "p", "");
  fputs("</div>\n", out);
  put_list(out, json_object_get(page, "warnings"), "p", " class=\"warning\" role=\"alert\"");
  if (json_array_size(parts) > 1) put_contents(out, parts);
  fputs("</header>\n<main id=\"main\">\n", out);
  for (size_t i = 0; i < json_array_size(parts); i++) put_part(out, json_array_get(parts, i), i);
  fprintf(out,
          "</main>\n<footer>Written by Ronde %s. Figures are medians over rounds, intervals hold the truth 95 times in "
          "100. "
          "Charts: Vega and Vega-Lite (BSD licence).</footer>\n",
          ronde_version());
  fputs("<noscript><p class=\"warning\">Without scripts there are no charts; all tables are here.</p></noscript>\n",
        out);
  status = put_scripts(out, number);
  fputs("</body>\n</html>\n", out);
  return status;
}
