/* The part of a page that a bench.json makes: the answer (report_answer.c), and the pictures that its figures allow. */
#include "audit.h"
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS(columns) columns, sizeof columns / sizeof columns[0]

static double bound_of(const json_t *one, const char *bound) {
  return report_bound(json_object_get(one, "times_as_fast"), bound);
}

/* ---- pictures of cases that train ------------------------------------------------------------------------------------ */

static void add_speed(json_t *part, const json_t *bench, const json_t *cases) {
  static const tool_column columns[] = {
      {"case", TOOL_CELL_TEXT, "name", 0, 1},
      {"times as fast", TOOL_CELL_NUMBER, "times_as_fast.median", 3, 1},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "times_as_fast", 3, 1},
      {"verdict", TOOL_CELL_TEXT, "verdict", 0, 1},
      {"ms a step", TOOL_CELL_NUMBER, "step_s.median", 3, 1e3},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "step_s", 3, 1e3},
      {"examples/s", TOOL_CELL_COUNT, "examples_per_s.median", 0, 1},
      {"training s", TOOL_CELL_NUMBER, "train_s.median", 3, 1},
      {"accuracy", TOOL_CELL_NUMBER, "result.test_accuracy", 4, 1},
      {"runs", TOOL_CELL_COUNT, "runs", 0, 1},
      {"failed", TOOL_CELL_COUNT, "failures", 0, 1},
  };
  json_t *values = json_array();
  const json_t *one;
  size_t i;
  bool is_ranked = json_is_true(json_object_get(bench, "ranked"));
  json_array_foreach((json_t *)cases, i, one) {
    double ratio = report_median(one, "times_as_fast");
    if (!is_ranked || !isfinite(ratio)) continue;
    json_array_append_new(values,
                          json_pack("{s:s, s:f, s:o, s:o}", "case", tool_string(one, "name"), "ratio", ratio, "low",
                                    json_real(bound_of(one, "low")), "high", json_real(bound_of(one, "high"))));
  }
  char about[512];
  if (is_ranked)
    snprintf(
        about, sizeof about,
        "Compared with %s by %s; lines are 95 %% intervals (cut at four times), right of the dashed line is faster.",
        tool_string(json_array_get(cases, 0), "name"), tool_string(bench, "ranked_by"));
  else snprintf(about, sizeof about, "Not ranked: %.400s", tool_string(bench, "not_ranked"));
  json_t *picture = report_picture(part, "speed", "Which case is the fastest", about, values);
  report_table(picture, cases, COLUMNS(columns));
  report_samples(picture, cases, "times_as_fast", 1, "by round");
  if (!json_object_get(picture, "raw")) report_samples(picture, cases, "round_s", 1e3, "ms");
}

static const struct {
  const char *field, *name;
} phases[] = {{"load_s", "load"},         {"forward_s", "forward"}, {"backward_s", "backward"},
              {"exchange_s", "exchange"}, {"wait_s", "wait"},       {"communication_s", "exchange"},
              {"update_s", "update"},     {"other_s", "other"}};
enum { N_PHASES = sizeof phases / sizeof phases[0] };

/* Measurements before exchange and wait were told apart have their sum alone. */
static bool is_counted_twice(const json_t *one, int phase) {
  return strcmp(phases[phase].field, "communication_s") == 0 && isfinite(report_median(one, "exchange_s"));
}

static void add_phases(json_t *part, const json_t *cases) {
  static const tool_column columns[] = {
      {"case", TOOL_CELL_TEXT, "name", 0, 1},
      {"load", TOOL_CELL_NUMBER, "load_s.median", 3, 1e3},
      {"forward", TOOL_CELL_NUMBER, "forward_s.median", 3, 1e3},
      {"backward", TOOL_CELL_NUMBER, "backward_s.median", 3, 1e3},
      {"exchange + wait", TOOL_CELL_NUMBER, "communication_s.median", 3, 1e3},
      {"exchange", TOOL_CELL_NUMBER, "exchange_s.median", 3, 1e3},
      {"wait", TOOL_CELL_NUMBER, "wait_s.median", 3, 1e3},
      {"update", TOOL_CELL_NUMBER, "update_s.median", 3, 1e3},
      {"other", TOOL_CELL_NUMBER, "other_s.median", 3, 1e3},
      {"kernels", TOOL_CELL_NUMBER, "kernel_s.median", 3, 1e3},
      {"outside kernels", TOOL_CELL_NUMBER, "overhead_s.median", 3, 1e3},
  };
  if (!report_has(cases, "forward_s")) return;
  json_t *values = json_array();
  const json_t *one;
  size_t i;
  json_array_foreach((json_t *)cases, i, one) {
    for (int p = 0; p < N_PHASES; p++) {
      double seconds = report_median(one, phases[p].field);
      if (!isfinite(seconds) || is_counted_twice(one, p)) continue;
      json_array_append_new(values, json_pack("{s:s, s:s, s:f, s:i}", "case", tool_string(one, "name"), "phase",
                                              phases[p].name, "ms", 1e3 * seconds, "order", p));
    }
  }
  json_t *picture = report_picture(part, "phases", "Where a step's time goes",
                                   "Milliseconds per step, means over the run and over the workers, medians over the "
                                   "rounds. Loading and exchange as far as they were not hidden behind computation.",
                                   values);
  report_table(picture, cases, COLUMNS(columns));
  report_samples(picture, cases, "communication_s", 1e3, "ms");
}

static void add_scaling(json_t *part, const json_t *cases) {
  static const tool_column columns[] = {
      {"case", TOOL_CELL_TEXT, "name", 0, 1},
      {"workers", TOOL_CELL_COUNT, "workers", 0, 1},
      {"batch", TOOL_CELL_COUNT, "batch", 0, 1},
      {"times as fast", TOOL_CELL_NUMBER, "times_as_fast.median", 3, 1},
      {"efficiency t1/(n tn)", TOOL_CELL_NUMBER, "efficiency.median", 3, 1},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "efficiency", 3, 1},
  };
  if (!report_has(cases, "efficiency")) return;
  json_t *values = json_array();
  const json_t *one;
  size_t i;
  double most = 1;
  json_array_foreach((json_t *)cases, i, one) {
    const json_t *axes = json_object_get(one, "values");
    char series[128];
    most = fmax(most, tool_number(one, "workers"));
    if (i == 0 || !isfinite(report_median(one, "times_as_fast"))) continue;
    snprintf(series, sizeof series, "%.60s%s%.40s", tool_string(one, "strategy"),
             *tool_string(axes, "scaling") ? ", " : "", tool_string(axes, "scaling"));
    json_array_append_new(
        values, json_pack("{s:s, s:f, s:f, s:o, s:o, s:b}", "series", series, "workers", tool_number(one, "workers"),
                          "ratio", report_median(one, "times_as_fast"), "low", json_real(bound_of(one, "low")), "high",
                          json_real(bound_of(one, "high")), "ideal", 0));
  }
  for (size_t k = 0, n = json_array_size(values); k < n; k++) { /* every line begins with the one worker */
    const char *series = tool_string(json_array_get(values, k), "series");
    json_array_append_new(values, json_pack("{s:s, s:i, s:i, s:i, s:i, s:b}", "series", series, "workers", 1, "ratio",
                                            1, "low", 1, "high", 1, "ideal", 0));
  }
  json_array_append_new(values, json_pack("{s:s, s:i, s:i, s:i, s:i, s:b}", "series", "ideal", "workers", 1, "ratio", 1,
                                          "low", 1, "high", 1, "ideal", 1));
  json_array_append_new(values, json_pack("{s:s, s:f, s:f, s:f, s:f, s:b}", "series", "ideal", "workers", most, "ratio",
                                          most, "low", most, "high", most, "ideal", 1));
  json_t *picture = report_picture(part, "scaling", "Scaling beside the ideal",
                                   "Strong: the same batch, divided among the workers. Weak: the same batch of each "
                                   "worker. Lines are 95 % intervals (cut at four times).",
                                   values);
  report_table(picture, cases, COLUMNS(columns));
  report_samples(picture, cases, "efficiency", 1, "by round");
}

static void add_distribution(json_t *part, const json_t *cases, const char *name) {
  static const tool_column columns[] = {
      {"case", TOOL_CELL_TEXT, "case", 0, 1},           {"steps", TOOL_CELL_COUNT, "n", 0, 1},
      {"quarter", TOOL_CELL_NUMBER, "q1", 3, 1},        {"median", TOOL_CELL_NUMBER, "median", 3, 1},
      {"three quarters", TOOL_CELL_NUMBER, "q3", 3, 1}, {"99 %", TOOL_CELL_NUMBER, "p99", 3, 1},
      {"longest", TOOL_CELL_NUMBER, "max", 3, 1},       {"outliers", TOOL_CELL_COUNT, "outliers", 0, 1},
  };
  json_t *values = json_array(), *boxes = json_array();
  const json_t *one;
  size_t i;
  json_array_foreach((json_t *)cases, i, one) {
    const json_t *samples = json_object_get(json_object_get(one, name), "samples");
    size_t n = json_array_size(samples);
    double *seconds = malloc((n + 1) * sizeof *seconds);
    for (size_t k = 0; seconds && k < n; k++) {
      const json_t *sample = json_array_get(samples, k);
      seconds[k] = json_is_number(sample) ? json_number_value(sample) : NAN;
    }
    json_t *box = seconds ? report_box(values, tool_string(one, "name"), seconds, (int64_t)n) : NULL;
    if (box) json_array_append(boxes, box);
    free(seconds);
  }
  if (json_array_size(boxes)) {
    json_t *picture = report_picture(
        part, "distribution", "How much steps differ",
        "All steps of all rounds but the first of each run. Boxes hold the middle half; beyond 1.5 times their width a "
        "step is an outlier, which counts like all others (at most 200 a case are drawn).",
        json_incref(values));
    report_table(picture, boxes, COLUMNS(columns));
    report_samples(picture, cases, name, 1e3, "ms");
  }
  json_decref(values);
  json_decref(boxes);
}

static void add_memory(json_t *part, const json_t *cases) {
  static const tool_column columns[] = {
      {"case", TOOL_CELL_TEXT, "name", 0, 1},
      {"peak memory", TOOL_CELL_BYTES, "peak_rss_bytes.median", 0, 1},
      {"peak memory", TOOL_CELL_BYTES, "peak_rss_bytes", 0, 1},
      {"CPU s", TOOL_CELL_NUMBER, "cpu_s.median", 3, 1},
      {"wall s", TOOL_CELL_NUMBER, "wall_s.median", 3, 1},
      {"set-up s", TOOL_CELL_NUMBER, "setup_s.median", 3, 1},
      {"energy J", TOOL_CELL_NUMBER, "energy_j.median", 1, 1},
  };
  json_t *values = json_array();
  const json_t *one;
  size_t i;
  json_array_foreach((json_t *)cases, i, one) {
    double bytes = report_median(one, "peak_rss_bytes");
    if (!isfinite(bytes)) bytes = tool_number(one, "peak_rss_bytes");
    if (isfinite(bytes))
      json_array_append_new(values, json_pack("{s:s, s:f}", "case", tool_string(one, "name"), "mib", bytes / 1048576));
  }
  if (!json_array_size(values)) {
    json_decref(values);
    return;
  }
  json_t *picture = report_picture(
      part, "memory", "Memory, processor time and energy",
      "Peak memory of the process, or of all ranks of a host. '-' for energy: this machine does not tell it.", values);
  report_table(picture, cases, COLUMNS(columns));
  report_samples(picture, cases, "peak_rss_bytes", 1, "bytes");
}

static void add_staleness(json_t *part, const json_t *cases) {
  static const tool_column columns[] = {
      {"case", TOOL_CELL_TEXT, "name", 0, 1},
      {"mean", TOOL_CELL_NUMBER, "communication.staleness.mean", 2, 1},
      {"median", TOOL_CELL_COUNT, "communication.staleness.p50", 0, 1},
      {"99 %", TOOL_CELL_COUNT, "communication.staleness.p99", 0, 1},
      {"at most", TOOL_CELL_COUNT, "communication.staleness.max", 0, 1},
  };
  json_t *values = json_array(), *rows = json_array(), *one;
  size_t i;
  json_array_foreach((json_t *)cases, i, one) {
    const json_t *histogram =
        json_object_get(json_object_get(json_object_get(one, "communication"), "staleness"), "histogram");
    if (json_array_size(histogram)) json_array_append(rows, one);
    for (size_t k = 0; k < json_array_size(histogram); k++)
      json_array_append_new(values, json_pack("{s:s, s:I, s:O}", "case", tool_string(one, "name"), "updates",
                                              (json_int_t)k, "count", json_array_get(histogram, k)));
  }
  if (json_array_size(rows)) {
    json_t *picture =
        report_picture(part, "staleness", "Staleness of asynchronous updates",
                       "By how many updates of others the weights had moved on when a gradient arrived; first round.",
                       json_incref(values));
    report_table(picture, rows, COLUMNS(columns));
  }
  json_decref(values);
  json_decref(rows);
}

static void add_epochs(json_t *part, const json_t *cases) {
  static const tool_column columns[] = {
      {"case", TOOL_CELL_TEXT, "name", 0, 1},
      {"first epoch s", TOOL_CELL_NUMBER, "first_epoch_s.median", 3, 1},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "first_epoch_s", 3, 1},
      {"second epoch s", TOOL_CELL_NUMBER, "second_epoch_s.median", 3, 1},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "second_epoch_s", 3, 1},
      {"first, CPU s", TOOL_CELL_NUMBER, "first_epoch_cpu_s.median", 3, 1},
      {"second, CPU s", TOOL_CELL_NUMBER, "second_epoch_cpu_s.median", 3, 1},
  };
  static const char *const figures[] = {"first_epoch_s", "second_epoch_s"};
  if (!report_has(cases, "second_epoch_s")) return;
  json_t *values = json_array();
  const json_t *one;
  size_t i;
  json_array_foreach((json_t *)cases, i, one) {
    for (int k = 0; k < 2; k++)
      if (isfinite(report_median(one, figures[k])))
        json_array_append_new(values,
                              json_pack("{s:s, s:s, s:f}", "case", tool_string(one, "name"), "epoch",
                                        k ? "second epoch" : "first epoch", "seconds", report_median(one, figures[k])));
  }
  json_t *picture = report_picture(part, "epochs", "First and second epoch apart",
                                   "Wall time of training without tests; the set-up of the run lies in front of the "
                                   "first epoch, in 'set-up s' of the table of memory.",
                                   values);
  report_table(picture, cases, COLUMNS(columns));
  report_samples(picture, cases, "second_epoch_s", 1, "s");
}

/* ---- runs that lie beside the file ------------------------------------------------------------------------------------- */

enum { MOST_RUNS = 24 };

/* A name may have a '/' or dots, but a run of ours lies in the folder itself. */
static json_t *run_of_case(const char *folder, const char *name, char *path, size_t bytes) {
  char file[4600];
  if (strchr(name, '/')) return NULL;
  snprintf(path, bytes, "%s/%s-1", folder, name);
  snprintf(file, sizeof file, "%s/run.json", path);
  json_t *run = json_load_file(file, 0, NULL);
  if (strcmp(tool_string(run, "schema"), "ronde.run.v1") == 0) return run;
  json_decref(run);
  return NULL;
}

static void add_runs(json_t *part, const json_t *cases, const char *folder) {
  const char *names[MOST_RUNS], *folders[MOST_RUNS];
  json_t *runs[MOST_RUNS], *one;
  static char paths[MOST_RUNS][4500];
  size_t i;
  int n = 0;
  json_array_foreach((json_t *)cases, i, one) {
    if (n == MOST_RUNS) break;
    runs[n] = run_of_case(folder, tool_string(one, "name"), paths[n], sizeof paths[n]);
    if (!runs[n]) continue;
    names[n] = tool_string(one, "name");
    folders[n] = paths[n];
    n++;
  }
  if (n) {
    report_operators(part, names, runs, n);
    report_curves(part, names, folders, runs, n);
  }
  while (n) json_decref(runs[--n]);
}

/* ---- kernels and collectives --------------------------------------------------------------------------------------------- */

static void add_roofline(json_t *part, const json_t *bench, const json_t *cases) {
  static const tool_column columns[] = {
      {"kernel", TOOL_CELL_TEXT, "name", 0, 1},
      {"share of the step %", TOOL_CELL_NUMBER, "of_step", 1, 100},
      {"ms a step", TOOL_CELL_NUMBER, "seconds.median", 4, 1e3},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "seconds", 4, 1e3},
      {"GFLOP/s", TOOL_CELL_NUMBER, "gflops_per_s", 1, 1},
      {"GB/s", TOOL_CELL_NUMBER, "gbytes_per_s", 1, 1},
      {"bound by", TOOL_CELL_TEXT, "bound", 0, 1},
      {"reached %", TOOL_CELL_NUMBER, "of_limit", 0, 100},
      {"implementation", TOOL_CELL_TEXT, "implementation", 0, 1},
  };
  const json_t *peak = json_object_get(bench, "peak"), *one;
  double flops = tool_number(peak, "gflops_per_s"), bytes = tool_number(peak, "gbytes_per_s"), ridge = flops / bytes;
  if (!isfinite(ridge)) return;
  json_t *values = json_array();
  size_t i;
  double least = ridge / 8, most = ridge * 8;
  json_array_foreach((json_t *)cases, i, one) {
    double intensity = tool_number(one, "flops") / tool_number(one, "bytes"), gflops = tool_number(one, "gflops_per_s");
    if (!isfinite(intensity) || !(intensity > 0) || !(gflops > 0)) continue;
    least = fmin(least, intensity);
    most = fmax(most, intensity);
    json_array_append_new(values, json_pack("{s:s, s:s, s:s, s:f, s:f, s:f}", "kind", "kernel", "op",
                                            tool_string(one, "op"), "phase", tool_string(one, "phase"), "intensity",
                                            intensity, "gflops", gflops, "share", tool_number(one, "of_step")));
  }
  const double at[] = {least, ridge, most};
  for (int k = 0; k < 3; k++)
    json_array_append_new(
        values, json_pack("{s:s, s:f, s:f}", "kind", "roof", "intensity", at[k], "gflops", fmin(flops, bytes * at[k])));
  json_t *picture = report_picture(
      part, "roofline", "The roofline of the kernels",
      "What each kernel reaches, below what this machine's arithmetic (level) and memory (slope) allow, both measured "
      "beside it. Kernels without arithmetic are in the table alone. Source: Williams, Waterman and Patterson, 2009.",
      values);
  report_table(picture, cases, COLUMNS(columns));
  report_samples(picture, cases, "seconds", 1e3, "ms");
}

static void add_bandwidth(json_t *part, const json_t *cases) {
  static const tool_column columns[] = {
      {"case", TOOL_CELL_TEXT, "name", 0, 1},
      {"bytes", TOOL_CELL_COUNT, "bytes", 0, 1},
      {"us", TOOL_CELL_NUMBER, "time_s.median", 1, 1e6},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "time_s", 1, 1e6},
      {"bus bandwidth MB/s", TOOL_CELL_NUMBER, "busbw_bytes_per_s", 0, 1e-6},
  };
  if (!report_has(cases, "time_s")) return;
  json_t *values = json_array();
  const json_t *one;
  size_t i;
  json_array_foreach((json_t *)cases, i, one) {
    const char *series = tool_string(json_object_get(one, "values"), "algorithm");
    if (isfinite(tool_number(one, "busbw_bytes_per_s")))
      json_array_append_new(values, json_pack("{s:s, s:f, s:f}", "series", series, "bytes", tool_number(one, "bytes"),
                                              "mb_per_s", 1e-6 * tool_number(one, "busbw_bytes_per_s")));
  }
  json_t *picture = report_picture(part, "bandwidth", "Bandwidth by size", "Medians over the rounds.", values);
  report_table(picture, cases, COLUMNS(columns));
  report_samples(picture, cases, "time_s", 1e6, "us");
}

/* ---- the audit ------------------------------------------------------------------------------------------------------------ */

json_t *report_audited(const json_t *bench) {
  json_t *copy = json_deep_copy(bench), *differences = json_object_get(copy, "differences"), *one;
  json_t *found = json_is_true(json_object_get(bench, "ranked"))
                      ? tool_audit_differences(json_object_get(bench, "cases"), json_object_get(bench, "axes"))
                      : json_array();
  size_t i;
  if (!json_is_array(differences)) {
    differences = json_array();
    json_object_set_new(copy, "differences", differences);
  }
  json_array_extend(differences, found);
  if (json_array_size(differences)) {
    json_object_set_new(copy, "ranked", json_false());
    json_object_set_new(copy, "not_ranked",
                        json_sprintf("not the same work: %s", tool_string(json_array_get(differences, 0), "text")));
    json_array_foreach(json_object_get(copy, "cases"), i, one) {
      json_object_set_new(one, "times_as_fast", json_null());
      json_object_set_new(one, "verdict", json_null());
      json_object_set_new(one, "efficiency", json_null());
    }
  }
  json_decref(found);
  return copy;
}

static void add_audit(json_t *part, const json_t *bench, const json_t *cases) {
  static const tool_column differing[] = {{"field", TOOL_CELL_TEXT, "field", 0, 1},
                                          {"difference", TOOL_CELL_TEXT, "text", 0, 1}};
  static const tool_column agreed[] = {{"field", TOOL_CELL_TEXT, "field", 0, 1},
                                       {"value", TOOL_CELL_TEXT, "value", 0, 1}};
  const json_t *differences = json_object_get(bench, "differences");
  json_t *rows = tool_audit_table(cases);
  if (json_array_size(differences))
    report_table(report_picture(part, "", "Why the cases are not ranked",
                                "What differs between them, and was not varied on purpose.", json_array()),
                 differences, COLUMNS(differing));
  if (json_array_size(rows))
    report_table(
        report_picture(
            part, "", "What every case did",
            "All fields of the audit. Those that differ were varied on purpose, or stand in the list of differences.",
            json_array()),
        rows, COLUMNS(agreed));
  json_decref(rows);
}

static void add_left_out(json_t *part, const json_t *bench) {
  static const tool_column columns[] = {{"case", TOOL_CELL_TEXT, "name", 0, 1},
                                        {"reason", TOOL_CELL_TEXT, "reason", 0, 1}};
  const json_t *rows = json_object_get(bench, "left_out");
  if (json_array_size(rows))
    report_table(report_picture(part, "", "What was left out",
                                "Cases that cannot be run, or are the same run as another.", json_array()),
                 rows, COLUMNS(columns));
}

/* ---- the part --------------------------------------------------------------------------------------------------------------- */

static void add_words(json_t *page, json_t *part, const json_t *bench, bool is_alone, const char *title) {
  const json_t *load = json_object_get(bench, "host_load");
  char *answer = report_answer(bench);
  const char *advice = tool_string(bench, "advice");
  if (answer) report_say(is_alone ? page : part, is_alone ? "answer" : "notes", "%s", answer);
  if (*advice) report_say(part, "changes", "%s", advice);
  if (json_is_true(json_object_get(load, "is_busy")))
    report_say(is_alone ? page : part, is_alone ? "warnings" : "notes",
               "%s: others kept %.1f of %.0f cores busy while this was measured; repeat it on an idle host.", title,
               tool_number(load, "busy_with_others"), tool_number(load, "cores"));
  free(answer);
}

void report_add_bench(json_t *page, const json_t *record, const char *folder, const char *title, bool is_alone,
                      bool is_brief) {
  json_t *bench = report_audited(record), *part = report_part(page, title), *one;
  const json_t *cases = json_object_get(bench, "cases");
  size_t i;
  bool trains = report_has(cases, "step_s");
  add_words(page, part, bench, is_alone, title);
  if (trains) {
    add_speed(part, bench, cases);
    add_phases(part, cases);
    add_epochs(part, cases);
    add_scaling(part, cases);
    if (!is_brief) {
      add_distribution(part, cases, "step_s");
      add_memory(part, cases);
      add_staleness(part, cases);
      add_runs(part, cases, folder);
    }
  }
  report_batches(part, bench);
  add_roofline(part, bench, cases);
  add_bandwidth(part, cases);
  add_left_out(part, bench);
  if (trains || json_object_get(bench, "regimes")) add_audit(part, bench, cases);
  report_command(part, "all of it", json_object_get(bench, "command"));
  json_array_foreach((json_t *)cases, i, one)
      report_command(part, tool_string(one, "name"), json_object_get(one, "command"));
  report_environment(part, "record", folder);
  report_environment_of(part, bench);
  if (!json_object_get(bench, "version")) {
    json_t *version = json_object_get(json_array_get(cases, 0), "version");
    json_t *of_case = json_pack("{s:O*}", "version", version);
    report_environment_of(part, of_case);
    json_decref(of_case);
  }
  json_decref(bench);
}
