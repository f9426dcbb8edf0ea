/* The report: report_read.c reads what folders hold, report_bench.c, report_run.c and report_runs.c make the parts of a page of it,
 * report_html.c and report_markdown.c write the page.
 *
 * A page is JSON, so that whoever writes it needs no knowledge of what was measured:
 *   {title, answer: [text], warnings: [text], parts: [PART]}
 *   PART {title, notes: [text], changes: [text], pictures: [PICTURE], commands: [{name, command}], environment: [[name, value]]}
 *   PICTURE {chart, title, about, values: [row], table: TABLE, raw: TABLE or absent}
 *   TABLE {head: [text], numbers: [bool], rows: [[text]]}
 * chart names one of tools/report/charts.json, or is empty; values are its rows. Texts are as they came: whoever writes
 * them escapes them. */
#ifndef TOOL_REPORT_H
#define TOOL_REPORT_H

#include "common.h"

#include <stdio.h>

/* What a folder holds. */
typedef struct report_source {
  const char *folder;          /* as it was given */
  char name[160];              /* its last part: how pictures call it */
  json_t *bench, *run, *suite; /* of bench.json, run.json, suite.json; NULL: there is none */
} report_source;

/* report_read.c: reads what lies in a folder. Errors: RONDE_E_INPUT, with the file and what is wrong with it. */
ronde_status report_read(const char *folder, report_source *source_out);
void report_source_end(report_source *source);
/* report.c: writes the report of folders [n] to a file, by its ending: .html or .md. */
ronde_status report_write(const char *const *folders, int n, const char *file);

/* ---- report_page.c: putting a page together -------------------------------------------------------------------- */

json_t *report_page(const char *title);
/* A part, owned by the page. */
json_t *report_part(json_t *page, const char *title);
/* Adds a text to one of the lists of a page or part: "answer", "warnings", "notes", "changes". */
void report_say(json_t *of, const char *list, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Adds a picture, and returns it, owned by the part; takes over values. No rows of values: no picture, but the table. */
json_t *report_picture(json_t *part, const char *chart, const char *title, const char *about, json_t *values);
/* Its table: a line for each of rows. */
void report_table(json_t *picture, const json_t *rows, const tool_column *columns, int n);
/* Its samples: each a number of a round of a case, as far as they fit; says how many there are where they do not. */
void report_samples(json_t *picture, const json_t *cases, const char *figure, double scale, const char *unit);
/* A bound ("low", "high") of a figure as pictures draw it: four times the median away at most, so that a wide interval does not
 * squeeze all others; the median where there is no interval. Tables have it whole. */
double report_bound(const json_t *figure, const char *bound);
/* A figure's median; NAN: there is none. Whether any of the cases has one. */
double report_median(const json_t *one, const char *name);
bool report_has(const json_t *cases, const char *name);
void report_command(json_t *part, const char *name, const json_t *command);
void report_environment(json_t *part, const char *name, const char *value);
/* Of a run's or a measurement's record: machine, version, date, clock, load. */
void report_environment_of(json_t *part, const json_t *record);

/* ---- the parts -------------------------------------------------------------------------------------------------- */

/* report_bench.c: of any bench.json; folder: where runs lie beside it. is_alone: its answer is the page's. is_brief: without
 * the pictures of single runs. */
void report_add_bench(json_t *page, const json_t *bench, const char *folder, const char *title, bool is_alone,
                      bool is_brief);
/* The record, without a ranking where the audit finds that the cases did not do the same work. Owned by the caller. */
json_t *report_audited(const json_t *bench);
/* report_answer.c: up to two sentences: what was the fastest, by how much, and how certain that is. Owned by the caller (free). */
char *report_answer(const json_t *bench);
/* report_run.c: a run by itself. */
void report_add_run(json_t *page, const report_source *source, bool is_alone);
/* report_runs.c: several runs beside each other. names and folders [n]; runs [n]. */
void report_add_runs(json_t *page, const char *const *names, const char *const *folders, json_t *const *runs, int n);
/* Pictures within a part: the operators of runs; their loss and accuracy over steps and time. */
void report_operators(json_t *part, const char *const *names, json_t *const *runs, int n);
void report_curves(json_t *part, const char *const *names, const char *const *folders, json_t *const *runs, int n);
/* report_batches.c: steps to a target over batch sizes, where a record has them. */
void report_batches(json_t *part, const json_t *bench);
/* report_suite.c: the groups of a suite, each by its own bench.json. */
void report_add_suite(json_t *page, const report_source *source);

/* report_steps.c: what steps.jsonl holds. */
typedef struct report_steps {
  double *loss, *lr, *wall_s; /* [n] */
  int64_t n;
} report_steps;
/* n is 0 where there is no such file, or none that can be read. */
void report_steps_read(const char *folder, report_steps *steps_out);
void report_steps_end(report_steps *steps);
/* Box and outliers of a case's samples [n] in ms, added to the rows of chart "distribution". Returns the row of the box. */
json_t *report_box(json_t *values, const char *name, const double *seconds, int64_t n);
/* report_timeline.c: the phases of all workers in the median step, from trace.json; empty where there is none. about_out [bytes]:
 * which step it is. */
json_t *report_timeline(const char *folder, char *about_out, size_t bytes);
/* report_confusion.c: from confusion.csv of `ronde eval --csv`; empty where there is none. */
json_t *report_confusion(const char *folder);

/* ---- writers ----------------------------------------------------------------------------------------------------- */

ronde_status report_html(const json_t *page, FILE *out);
ronde_status report_markdown(const json_t *page, FILE *out);

#endif
