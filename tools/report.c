/* ronde report: a page of pictures, or Markdown, of what folders hold: comparisons and benchmarks (bench.json), runs
 * (run.json), suites (suite.json). */
#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the page --------------------------------------------------------------------------------------------------------- */

static void add_source(json_t *page, const report_source *source, bool is_alone) {
  if (source->suite) report_add_suite(page, source);
  if (source->bench) {
    char title[256];
    snprintf(title, sizeof title, "%s: ronde %s", source->name, tool_string(source->bench, "verb"));
    report_add_bench(page, source->bench, source->folder, title, is_alone, false);
  }
  if (source->run) report_add_run(page, source, is_alone && !source->bench);
}

/* The runs among sources, beside each other. */
static void add_runs(json_t *page, const report_source *sources, int n) {
  const char **names = calloc((size_t)n, sizeof *names), **folders = calloc((size_t)n, sizeof *folders);
  json_t **runs = calloc((size_t)n, sizeof *runs);
  int n_runs = 0;
  for (int i = 0; names && folders && runs && i < n; i++) {
    if (!sources[i].run) continue;
    names[n_runs] = sources[i].name;
    folders[n_runs] = sources[i].folder;
    runs[n_runs++] = sources[i].run;
  }
  if (n_runs > 1) report_add_runs(page, names, folders, runs, n_runs);
  free(names);
  free(folders);
  free(runs);
}

static json_t *page_of(const report_source *sources, int n) {
  char title[256];
  if (n == 1) snprintf(title, sizeof title, "Ronde: %s", sources[0].name);
  else snprintf(title, sizeof title, "Ronde: %d results", n);
  json_t *page = report_page(title);
  if (n > 1)
    report_say(page, "answer",
               "%d results stand below, each with its own answer. They were measured at different times, so they are "
               "not ranked among each other.",
               n);
  add_runs(page, sources, n);
  for (int i = 0; i < n; i++) add_source(page, &sources[i], n == 1);
  return page;
}

/* ---- the file ----------------------------------------------------------------------------------------------------------- */

static bool has_ending(const char *file, const char *ending) {
  size_t length = strlen(file), n = strlen(ending);
  return length > n && strcmp(file + length - n, ending) == 0;
}

/* The file is there whole, or as it was; a device or a pipe is written to. */
static ronde_status write_file(const char *file, const char *text, size_t bytes) {
  char new[4500];
  struct stat info;
  bool is_plain = stat(file, &info) != 0 || S_ISREG(info.st_mode);
  snprintf(new, sizeof new, is_plain ? "%s.new" : "%s", file);
  FILE *out = fopen(new, "w");
  if (!out) return tool_fail(RONDE_E_WRITE, "%s: cannot write: %s", new, strerror(errno));
  bool is_whole = fwrite(text, 1, bytes, out) == bytes && fflush(out) == 0 && (!is_plain || fsync(fileno(out)) == 0);
  is_whole &= fclose(out) == 0;
  if (is_whole && (!is_plain || rename(new, file) == 0)) return RONDE_OK;
  ronde_status status = tool_fail(RONDE_E_WRITE, "%s: cannot write: %s", file, strerror(errno));
  if (is_plain) unlink(new);
  return status;
}

static ronde_status write_page(const json_t *page, const char *file) {
  const double MOST_MB = 5;
  char *text = NULL;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  if (!out) return tool_fail(RONDE_E_MEMORY, "report: no memory for the page");
  ronde_status status = has_ending(file, ".md") ? report_markdown(page, out) : report_html(page, out);
  if (fclose(out) && !status) status = tool_fail(RONDE_E_MEMORY, "report: no memory for the page");
  if (!status) status = write_file(file, text, bytes);
  if (!status) tool_say("%s: %.1f MB", file, 1e-6 * (double)bytes);
  if (!status && 1e-6 * (double)bytes > MOST_MB)
    tool_say("warning: that is large for a page: report fewer folders at once");
  free(text);
  return status;
}

ronde_status report_write(const char *const *folders, int n, const char *file) {
  report_source *sources = calloc((size_t)n, sizeof *sources);
  if (!sources) return tool_fail(RONDE_E_MEMORY, "report: no memory for %d folders", n);
  ronde_status status = RONDE_OK;
  for (int i = 0; i < n && !status; i++) status = report_read(folders[i], &sources[i]);
  if (!status) {
    json_t *page = page_of(sources, n);
    status = page ? write_page(page, file) : tool_fail(RONDE_E_MEMORY, "report: no memory for the page");
    json_decref(page);
  }
  for (int i = 0; i < n; i++) report_source_end(&sources[i]);
  free(sources);
  return status;
}

/* ---- the verb ------------------------------------------------------------------------------------------------------------- */

/* One folder a line. */
static int split_lines(char *list, const char **lines, int most) {
  int n = 0;
  for (char *line; (line = strsep(&list, "\n")) && n < most;)
    if (*line) lines[n++] = line;
  return n;
}

ronde_status tool_report(const tool_call *call) {
  enum { MOST_FOLDERS = 256 };
  const char *folders[MOST_FOLDERS + 1], *file = ronde_config_get(call->config, "output");
  char beside[4500], *list = strdup(ronde_config_get(call->config, "folders"));
  if (!list) return tool_fail(RONDE_E_MEMORY, "report: no memory");
  int n = split_lines(list, folders, MOST_FOLDERS + 1);
  ronde_status status = RONDE_OK;
  snprintf(beside, sizeof beside, "%s/report.html", n ? folders[0] : "");
  if (n > MOST_FOLDERS) status = tool_fail(RONDE_E_USAGE, "report: more than %d folders", MOST_FOLDERS);
  else if (!*file && n != 1)
    status = tool_fail(RONDE_E_USAGE, "of several folders the report needs a file: -o report.html");
  else if (*file && !has_ending(file, ".html") && !has_ending(file, ".md"))
    status = tool_fail(RONDE_E_USAGE, "-o %s: the report is a page (.html) or Markdown (.md)", file);
  if (!status) status = report_write(folders, n, *file ? file : beside);
  free(list);
  return status;
}
