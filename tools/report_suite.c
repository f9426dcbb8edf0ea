/* The page of a suite: one line for each case of each of its comparisons, then the comparisons themselves. */
#include "advice.h"
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS(columns) columns, sizeof columns / sizeof columns[0]

/* Beyond so many comparisons each has only its main pictures. */
enum { MOST_WHOLE = 6 };

/* ---- the answer ------------------------------------------------------------------------------------------------------ */

/* Of the cases of one name in all comparisons: how often it was faster than the first case, slower, or neither. */
static json_t *tally_of(json_t *tallies, const char *name) {
  json_t *tally = json_object_get(tallies, name);
  if (tally) return tally;
  json_object_set_new(tallies, name,
                      json_pack("{s:i, s:i, s:i, s:f, s:s, s:s, s:s}", "faster", 0, "slower", 0, "open", 0, "distance",
                                -1.0, "where", "", "figure", "", "than", ""));
  return json_object_get(tallies, name);
}

/* Keeps of a tally where the ratio lies the furthest from 1. */
static void keep_clearest(json_t *tally, const json_t *group, const json_t *ratio) {
  double median = tool_number(ratio, "median"), low = tool_number(ratio, "low"), high = tool_number(ratio, "high");
  double distance = isfinite(low) ? (low > 1 ? log(low) : high < 1 ? -log(high) : 0) : 0;
  if (!(distance > tool_number(tally, "distance"))) return;
  json_object_set_new(tally, "distance", json_real(distance));
  json_object_set_new(tally, "where", json_string(tool_string(group, "title")));
  json_object_set_new(tally, "figure",
                      isfinite(low) ? json_sprintf("%.2f [%.2f, %.2f]", median, low, high)
                                    : json_sprintf("%.2f (one round, no interval)", median));
}

static void count_case(json_t *tallies, const json_t *group, const json_t *first, const json_t *one) {
  const json_t *ratio = json_object_get(one, "times_as_fast");
  const char *verdict = tool_string(one, "verdict");
  if (!isfinite(tool_number(ratio, "median"))) return;
  json_t *tally = tally_of(tallies, tool_string(one, "name"));
  const char *field = strcmp(verdict, "faster") == 0 ? "faster" : strcmp(verdict, "slower") == 0 ? "slower" : "open";
  json_object_set_new(tally, field, json_integer(json_integer_value(json_object_get(tally, field)) + 1));
  json_object_set_new(tally, "than", json_string(tool_string(first, "name")));
  keep_clearest(tally, group, ratio);
}

static double count_of(const json_t *tally) {
  return tool_number(tally, "faster") + tool_number(tally, "slower") + tool_number(tally, "open");
}

/* What of two tallies says more: more comparisons that are decided, then more of them at all. */
static bool says_more(const json_t *tally, const json_t *than) {
  double open = count_of(tally) - tool_number(tally, "open"), than_open = count_of(than) - tool_number(than, "open");
  return open != than_open ? open > than_open : count_of(tally) > count_of(than);
}

/* The two cases that were told apart the most often. */
static void say_answer(json_t *page, json_t *tallies, int n_groups) {
  for (int k = 0; k < 2; k++) {
    const char *name, *most = NULL;
    json_t *tally, *best = NULL;
    json_object_foreach(tallies, name, tally) {
      if (!best || says_more(tally, best)) most = name, best = tally;
    }
    if (!best) break;
    report_say(
        page, "answer",
        "%s is faster than %s in %.0f of %.0f comparisons, slower in %.0f, and cannot be told apart in %.0f; the "
        "clearest is %s: %s times as fast.",
        most, tool_string(best, "than"), tool_number(best, "faster"), count_of(best), tool_number(best, "slower"),
        tool_number(best, "open"), tool_string(best, "where"), tool_string(best, "figure"));
    char *key = strdup(most);
    json_object_del(tallies, key);
    free(key);
  }
  if (!json_array_size(json_object_get(page, "answer")))
    report_say(page, "answer", "%d comparisons were asked for; none of them has a ranking yet, the table says why.",
               n_groups);
}

/* What counts of steps over batch sizes say: they are no race, and have an answer of their own. */
static void say_regimes(json_t *page, const json_t *groups, const report_source *of) {
  const json_t *group;
  size_t i;
  json_array_foreach((json_t *)groups, i, group) {
    const char *text = tool_string(json_object_get(of[i].bench, "regimes"), "text");
    if (*text) report_say(page, "answer", "%s: %s", tool_string(group, "title"), text);
  }
}

/* ---- the table -------------------------------------------------------------------------------------------------------- */

static json_t *row_of(const json_t *group, const json_t *bench, const json_t *one) {
  json_t *row = json_copy((json_t *)one);
  json_object_set_new(row, "group", json_string(tool_string(group, "title")));
  json_object_set_new(
      row, "state",
      json_string(json_is_true(json_object_get(bench, "ranked")) ? "ranked" : tool_string(bench, "not_ranked")));
  return row;
}

static void add_group(json_t *rows, json_t *tallies, const json_t *group, const json_t *bench) {
  const json_t *cases = json_object_get(bench, "cases"), *one;
  size_t i;
  if (!bench) {
    json_array_append_new(
        rows, json_pack("{s:s, s:s, s:o}", "group", tool_string(group, "title"), "name", "-", "state",
                        json_sprintf("%s%s%s", tool_string(group, "status"), *tool_string(group, "reason") ? ": " : "",
                                     tool_string(group, "reason"))));
    return;
  }
  const json_t *regimes = json_object_get(bench, "regimes");
  if (regimes) { /* its batches are no race, and have a table of their own */
    json_array_append_new(rows, json_pack("{s:s, s:s, s:s}", "group", tool_string(group, "title"), "name",
                                          "steps to a target", "state", tool_string(regimes, "text")));
    return;
  }
  json_array_foreach((json_t *)cases, i, one) {
    json_t *row = row_of(group, bench, one);
    json_object_set_new(row, "is_first", json_boolean(i == 0));
    json_array_append_new(rows, row);
    if (i > 0) count_case(tallies, group, json_array_get(cases, 0), one);
  }
}

static void add_summary(json_t *part, const json_t *rows) {
  static const tool_column columns[] = {
      {"comparison", TOOL_CELL_TEXT, "group", 0, 1},
      {"case", TOOL_CELL_TEXT, "name", 0, 1},
      {"times as fast", TOOL_CELL_NUMBER, "times_as_fast.median", 3, 1},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "times_as_fast", 3, 1},
      {"verdict", TOOL_CELL_TEXT, "verdict", 0, 1},
      {"efficiency", TOOL_CELL_NUMBER, "efficiency.median", 3, 1},
      {"ms a step", TOOL_CELL_NUMBER, "step_s.median", 3, 1e3},
      {"total s", TOOL_CELL_NUMBER, "wall_s.median", 2, 1},
      {"epoch 1 s", TOOL_CELL_NUMBER, "first_epoch_s.median", 3, 1},
      {"epoch 2 s", TOOL_CELL_NUMBER, "second_epoch_s.median", 3, 1},
      {"load", TOOL_CELL_NUMBER, "load_s.median", 3, 1e3},
      {"forward", TOOL_CELL_NUMBER, "forward_s.median", 3, 1e3},
      {"backward", TOOL_CELL_NUMBER, "backward_s.median", 3, 1e3},
      {"exchange", TOOL_CELL_NUMBER, "exchange_s.median", 3, 1e3},
      {"wait", TOOL_CELL_NUMBER, "wait_s.median", 3, 1e3},
      {"update", TOOL_CELL_NUMBER, "update_s.median", 3, 1e3},
      {"kernels", TOOL_CELL_NUMBER, "kernel_s.median", 3, 1e3},
      {"outside", TOOL_CELL_NUMBER, "overhead_s.median", 3, 1e3},
      {"memory", TOOL_CELL_BYTES, "peak_rss_bytes.median", 0, 1},
      {"energy J", TOOL_CELL_NUMBER, "energy_j.median", 1, 1},
      {"accuracy", TOOL_CELL_NUMBER, "result.test_accuracy", 4, 1},
      {"ranking", TOOL_CELL_TEXT, "state", 0, 1},
  };
  json_t *values = json_array();
  const json_t *row;
  size_t i;
  json_array_foreach((json_t *)rows, i, row) {
    const json_t *ratio = json_object_get(row, "times_as_fast");
    double median = tool_number(ratio, "median");
    if (!isfinite(median) || json_is_true(json_object_get(row, "is_first"))) continue;
    json_array_append_new(
        values, json_pack("{s:o, s:f, s:f, s:f}", "case",
                          json_sprintf("%s\n%s", tool_string(row, "group"), tool_string(row, "name")), "ratio", median,
                          "low", report_bound(ratio, "low"), "high", report_bound(ratio, "high")));
  }
  report_table(
      report_picture(
          part, "speeds", "All comparisons of the suite",
          "Each case beside the first one of its comparison, with 95 % intervals (cut at four times); times of "
          "phases in ms a step.",
          values),
      rows, COLUMNS(columns));
}

/* How many comparisons were made on a host where others worked. */
static void warn_of_load(json_t *page, const report_source *of, size_t n) {
  int n_busy = 0;
  for (size_t i = 0; i < n; i++)
    n_busy += json_is_true(json_object_get(json_object_get(of[i].bench, "host_load"), "is_busy"));
  if (n_busy)
    report_say(page, "warnings", "Others kept the host busy during %d of %zu comparisons: repeat them on an idle host.",
               n_busy, n);
}

static void add_texts(json_t *page, json_t *part, const json_t *suite) {
  const json_t *text;
  size_t i;
  json_array_foreach(json_object_get(suite, "notes"), i, text) {
    if (json_is_string(text)) report_say(part, "notes", "%s", json_string_value(text));
  }
  json_array_foreach(json_object_get(suite, "missing"), i, text) {
    if (json_is_string(text)) report_say(page, "warnings", "Missing: %s", json_string_value(text));
  }
  if (json_is_true(json_object_get(suite, "quick")))
    report_say(page, "warnings", "%s",
               "This was a quick run: few rounds, small sizes. It shows that all works, and no more.");
}

/* ---- advice from the grid ---------------------------------------------------------------------------------------------- */

/* The network and data that a comparison is about: "lenet5 on mnist". */
static json_t *subject_of(const json_t *bench) {
  const json_t *first = json_array_get(json_object_get(bench, "cases"), 0);
  return json_sprintf("%s on %s", tool_string(first, "model"), tool_string(first, "data"));
}

/* Rates of other comparisons were not measured in the same rounds; those of cases that were not ranked do not count. */
static void add_rows(json_t *subjects, const json_t *group, const json_t *bench) {
  json_t *subject = subject_of(bench), *rows = json_object_get(subjects, json_string_value(subject)), *one;
  size_t i;
  if (!rows) json_object_set_new(subjects, json_string_value(subject), rows = json_array());
  json_array_foreach(json_object_get(bench, "cases"), i, one)
      json_array_append_new(rows, tool_advice_row(tool_string(group, "title"), one));
  json_decref(subject);
}

/* The fastest of those that do not equal one worker, where it is faster than the best that does. */
static void say_apart(json_t *part, const char *subject, const json_t *rows, const json_t *best) {
  const json_t *row, *apart = NULL;
  char name[160], rate[128];
  double most = tool_number(json_object_get(best, "examples_per_s"), "median");
  size_t i;
  json_array_foreach((json_t *)rows, i, row) {
    double is = tool_number(json_object_get(row, "examples_per_s"), "median");
    if (!json_is_true(json_object_get(row, "equals_one")) && is > most) apart = row, most = is;
  }
  if (apart)
    report_say(part, "changes",
               "%s: %s trains more, %s, but its weights are not those of one worker: look at its accuracy first.",
               subject, tool_advice_name(apart, name), tool_advice_rate(apart, rate));
}

static void say_advice(json_t *part, const char *subject, const json_t *rows) {
  const json_t *best = tool_advice_pick(rows);
  char name[160], rate[128];
  if (!best) return;
  json_t *limit = tool_advice_limit(best, NULL);
  report_say(part, "changes", "%s: take %s, which trains %s (%s). %s", subject, tool_advice_name(best, name),
             tool_advice_rate(best, rate), tool_string(best, "stage"), tool_string(limit, "text"));
  say_apart(part, subject, rows, best);
  json_decref(limit);
}

/* What `ronde advise` would say, of what was measured here. */
static void add_advice(json_t *page, const json_t *groups, const report_source *of) {
  static const tool_column columns[] = {
      {"comparison", TOOL_CELL_TEXT, "stage", 0, 1},
      {"strategy", TOOL_CELL_TEXT, "strategy", 0, 1},
      {"workers", TOOL_CELL_COUNT, "workers", 0, 1},
      {"threads each", TOOL_CELL_COUNT, "threads", 0, 1},
      {"batch", TOOL_CELL_COUNT, "batch", 0, 1},
      {"examples/s", TOOL_CELL_COUNT, "examples_per_s.median", 0, 1},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "examples_per_s", 0, 1},
      {"load", TOOL_CELL_NUMBER, "load_s", 3, 1e3},
      {"compute", TOOL_CELL_NUMBER, "compute_s", 3, 1e3},
      {"exchange", TOOL_CELL_NUMBER, "exchange_s", 3, 1e3},
      {"waiting", TOOL_CELL_NUMBER, "wait_s", 3, 1e3},
  };
  json_t *subjects = json_object(), *group, *rows, *part = NULL;
  const char *subject;
  size_t i;
  json_array_foreach((json_t *)groups, i, group) {
    json_t *bench = of[i].bench ? report_audited(of[i].bench) : NULL;
    if (bench && json_is_true(json_object_get(bench, "ranked")) && strcmp(tool_string(bench, "verb"), "compare") == 0)
      add_rows(subjects, group, bench);
    json_decref(bench);
  }
  json_object_foreach(subjects, subject, rows) {
    if (!part) part = report_part(page, "What to take here, by this grid");
    say_advice(part, subject, rows);
    report_table(report_picture(part, "", subject, "All cases that were ranked; phases in ms a step.", json_array()),
                 rows, COLUMNS(columns));
  }
  json_decref(subjects);
}

void report_add_suite(json_t *page, const report_source *source) {
  const json_t *groups = json_object_get(source->suite, "groups"), *group;
  json_t *part = report_part(page, tool_string(source->suite, "title")), *rows = json_array(), *tallies = json_object();
  size_t i, n = json_array_size(groups);
  report_source *of = calloc(n + 1, sizeof *of);
  char(*folders)[4500] = calloc(n + 1, sizeof *folders);
  json_array_foreach((json_t *)groups, i, group) {
    const char *folder = tool_string(group, "folder");
    if (!of || !folders) break;
    bool is_inside = *folder && !strchr(folder, '/') && folder[0] != '.';
    snprintf(folders[i], sizeof folders[i], "%s/%s", source->folder, folder);
    if (is_inside && strcmp(tool_string(group, "status"), "done") == 0 && report_read(folders[i], &of[i]) != RONDE_OK)
      report_say(page, "warnings", "%s: its record cannot be read", folders[i]);
    json_t *bench = of[i].bench ? report_audited(of[i].bench) : NULL;
    add_group(rows, tallies, group, bench);
    json_decref(bench);
  }
  say_answer(page, tallies, (int)n);
  if (of) say_regimes(page, groups, of);
  if (of) warn_of_load(page, of, n);
  add_texts(page, part, source->suite);
  add_summary(part, rows);
  report_command(part, "the suite", json_object_get(source->suite, "command"));
  report_environment_of(part, source->suite);
  json_array_foreach((json_t *)groups, i, group) {
    if (of && of[i].bench)
      report_add_bench(page, of[i].bench, folders[i], tool_string(group, "title"), false, n > MOST_WHOLE);
  }
  if (of && strcmp(tool_string(source->suite, "suite"), "techniques") == 0) add_advice(page, groups, of);
  for (i = 0; of && i < n; i++) report_source_end(&of[i]);
  json_decref(rows);
  json_decref(tallies);
  free(of);
  free(folders);
}
