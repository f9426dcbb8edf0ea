/* Several runs beside each other: their curves, phases and operators. */
#include "audit.h"
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS(columns) columns, sizeof columns / sizeof columns[0]

/* ---- curves ------------------------------------------------------------------------------------------------------ */

/* A line has at most so many points; each is then the mean of so many neighbouring steps. */
enum { MOST_POINTS = 400 };

static void add_loss(json_t *by_step, json_t *by_time, json_t *rates, const char *name, const char *folder) {
  report_steps steps;
  report_steps_read(folder, &steps);
  int64_t width = (steps.n + MOST_POINTS - 1) / MOST_POINTS;
  double seconds = 0;
  for (int64_t begin = 0; begin < steps.n; begin += width) {
    int64_t end = begin + width < steps.n ? begin + width : steps.n, n = 0;
    double sum = 0;
    for (int64_t i = begin; i < end; i++) {
      seconds += isfinite(steps.wall_s[i]) ? steps.wall_s[i] : 0;
      if (isfinite(steps.loss[i])) sum += steps.loss[i], n++;
    }
    if (!n) continue;
    json_array_append_new(by_step,
                          json_pack("{s:s, s:I, s:f}", "run", name, "step", (json_int_t)end, "loss", sum / (double)n));
    json_array_append_new(by_time,
                          json_pack("{s:s, s:f, s:f}", "run", name, "seconds", seconds, "loss", sum / (double)n));
    json_array_append_new(rates, json_pack("{s:s, s:I, s:f}", "run", name, "step", (json_int_t)end, "lr",
                                           isfinite(steps.lr[end - 1]) ? steps.lr[end - 1] : 0));
  }
  report_steps_end(&steps);
}

static void add_accuracy(json_t *by_epoch, json_t *by_time, const char *name, const json_t *run) {
  static const char *const fields[] = {"train_accuracy", "test_accuracy"};
  json_t *row;
  size_t i;
  double seconds = 0;
  const char *tested_on = tool_string(json_object_get(run, "data"), "tested_on");
  json_array_foreach(json_object_get(run, "epochs"), i, row) {
    seconds += fmax(0, tool_number(row, "wall_s"));
    for (int k = 0; k < 2; k++) {
      double accuracy = tool_number(row, fields[k]);
      const char *on = k ? (*tested_on ? tested_on : "test") : "training";
      if (!isfinite(accuracy)) continue;
      json_array_append_new(by_epoch, json_pack("{s:s, s:O, s:f, s:s}", "run", name, "epoch",
                                                json_object_get(row, "epoch"), "accuracy", accuracy, "on", on));
      json_array_append_new(
          by_time, json_pack("{s:s, s:f, s:f, s:s}", "run", name, "seconds", seconds, "accuracy", accuracy, "on", on));
    }
  }
}

/* Whether the learning rate changed. */
static bool is_constant(const json_t *rates) {
  const json_t *row;
  size_t i;
  json_array_foreach((json_t *)rates, i, row) {
    if (tool_number(row, "lr") != tool_number(json_array_get(rates, 0), "lr")) return false;
  }
  return true;
}

static json_t *epochs_of(const char *const *names, json_t *const *runs, int n) {
  json_t *rows = json_array(), *epoch;
  size_t i;
  for (int r = 0; r < n; r++) json_array_foreach(json_object_get(runs[r], "epochs"), i, epoch) {
      json_t *row = json_copy(epoch);
      json_object_set_new(row, "run", json_string(names[r]));
      json_array_append_new(rows, row);
    }
  return rows;
}

void report_curves(json_t *part, const char *const *names, const char *const *folders, json_t *const *runs, int n) {
  static const tool_column columns[] = {
      {"run", TOOL_CELL_TEXT, "run", 0, 1},
      {"epoch", TOOL_CELL_COUNT, "epoch", 0, 1},
      {"training loss", TOOL_CELL_NUMBER, "train_loss", -5, 1},
      {"training accuracy", TOOL_CELL_NUMBER, "train_accuracy", 4, 1},
      {"test loss", TOOL_CELL_NUMBER, "test_loss", -5, 1},
      {"test accuracy", TOOL_CELL_NUMBER, "test_accuracy", 4, 1},
      {"seconds", TOOL_CELL_NUMBER, "wall_s", 3, 1},
      {"examples/s", TOOL_CELL_COUNT, "examples_per_s", 0, 1},
      {"learning rate", TOOL_CELL_NUMBER, "lr", -4, 1},
  };
  json_t *loss[2] = {json_array(), json_array()}, *accuracy[2] = {json_array(), json_array()}, *rates = json_array();
  json_t *epochs = epochs_of(names, runs, n);
  for (int r = 0; r < n; r++) {
    add_loss(loss[0], loss[1], rates, names[r], folders[r]);
    add_accuracy(accuracy[0], accuracy[1], names[r], runs[r]);
  }
  static const char *const about =
      "From steps.jsonl; a line has at most 400 points, each the mean of neighbouring steps.";
  static const char *const of_epochs =
      "From run.json, after each epoch. A dashed line is that of other examples than the solid one.";
  report_table(report_picture(part, "loss_steps", "Loss over steps", about, loss[0]), epochs, COLUMNS(columns));
  report_table(report_picture(part, "loss_time", "Loss over time", about, loss[1]), epochs, COLUMNS(columns));
  report_table(report_picture(part, "accuracy_epochs", "Accuracy over epochs", of_epochs, accuracy[0]), epochs,
               COLUMNS(columns));
  report_table(report_picture(part, "accuracy_time", "Accuracy over time", of_epochs, accuracy[1]), epochs,
               COLUMNS(columns));
  if (is_constant(rates)) json_decref(rates);
  else report_table(report_picture(part, "lr", "Learning rate", about, rates), epochs, COLUMNS(columns));
  json_decref(epochs);
}

/* ---- operators ----------------------------------------------------------------------------------------------------- */

void report_operators(json_t *part, const char *const *names, json_t *const *runs, int n) {
  static const tool_column columns[] = {
      {"case", TOOL_CELL_TEXT, "case", 0, 1},        {"operator", TOOL_CELL_TEXT, "op", 0, 1},
      {"ms a step", TOOL_CELL_NUMBER, "ms", 4, 1},   {"calls", TOOL_CELL_COUNT, "calls", 0, 1},
      {"GFLOP/s", TOOL_CELL_NUMBER, "gflops", 1, 1}, {"implementation", TOOL_CELL_TEXT, "implementation", 0, 1},
  };
  enum { MOST_OPS = 12 };
  json_t *values = json_array(), *rows = json_array(), *row, *shown = json_object();
  size_t i;
  for (int r = 0; r < n; r++) {
    double steps = tool_number(json_object_get(runs[r], "totals"), "steps"),
           workers = tool_number(json_object_get(runs[r], "world"), "workers");
    json_array_foreach(json_object_get(runs[r], "ops"), i, row) {
      double ms = 1e3 * tool_number(row, "seconds") / workers / steps;
      json_t *op = json_sprintf("%s %s", tool_string(row, "op"), tool_string(row, "phase"));
      const char *name = json_string_value(op);
      if (isfinite(ms) && name) {
        json_array_append_new(
            rows, json_pack("{s:s, s:s, s:f, s:O, s:O, s:O}", "case", names[r], "op", name, "ms", ms, "calls",
                            json_object_get(row, "calls"), "gflops", json_object_get(row, "gflops_per_s"),
                            "implementation", json_object_get(row, "implementation")));
        if (json_object_size(shown) < MOST_OPS) json_object_set_new(shown, name, json_true());
        if (json_object_get(shown, name))
          json_array_append_new(values, json_pack("{s:s, s:s, s:f}", "case", names[r], "op", name, "ms", ms));
      }
      json_decref(op);
    }
  }
  json_t *picture = report_picture(part, "operators", "The slowest operators",
                                   "Milliseconds per step and worker, first round; operators that were fused stand "
                                   "under their joint name. The table has all of them.",
                                   values);
  report_table(picture, rows, COLUMNS(columns));
  json_decref(rows);
  json_decref(shown);
}

/* ---- phases -------------------------------------------------------------------------------------------------------- */

static const struct {
  const char *field, *name;
} phases[] = {{"load_s", "load"}, {"forward_s", "forward"}, {"backward_s", "backward"}, {"exchange_s", "exchange"},
              {"wait_s", "wait"}, {"update_s", "update"},   {"other_s", "other"}};
enum { N_PHASES = sizeof phases / sizeof phases[0] };

/* The mean over a run's workers, in ms a step. */
static double phase_of(const json_t *run, const char *field) {
  double sum = 0, n = 0;
  json_t *row;
  size_t i;
  json_array_foreach(json_object_get(run, "workers"), i, row) {
    double seconds = tool_number(row, field);
    if (strcmp(tool_string(row, "role"), "worker") == 0 && isfinite(seconds)) sum += seconds, n++;
  }
  return 1e3 * sum / n / tool_number(json_object_get(run, "totals"), "steps");
}

static json_t *row_of(const char *name, const json_t *run) {
  const json_t *totals = json_object_get(run, "totals"), *world = json_object_get(run, "world");
  json_t *row =
      json_pack("{s:s, s:O, s:O, s:O, s:O, s:O}", "run", name, "result", json_object_get(run, "result"), "totals",
                totals, "world", world, "model", json_object_get(run, "model"), "data", json_object_get(run, "data"));
  for (int p = 0; row && p < N_PHASES; p++) {
    double ms = phase_of(run, phases[p].field);
    json_object_set_new(row, phases[p].field, isfinite(ms) ? json_real(ms) : json_null());
  }
  return row;
}

static void add_phases(json_t *part, const char *const *names, json_t *const *runs, int n) {
  static const tool_column columns[] = {
      {"run", TOOL_CELL_TEXT, "run", 0, 1},
      {"strategy", TOOL_CELL_TEXT, "world.strategy", 0, 1},
      {"workers", TOOL_CELL_COUNT, "world.workers", 0, 1},
      {"steps", TOOL_CELL_COUNT, "totals.steps", 0, 1},
      {"load", TOOL_CELL_NUMBER, "load_s", 3, 1},
      {"forward", TOOL_CELL_NUMBER, "forward_s", 3, 1},
      {"backward", TOOL_CELL_NUMBER, "backward_s", 3, 1},
      {"exchange", TOOL_CELL_NUMBER, "exchange_s", 3, 1},
      {"wait", TOOL_CELL_NUMBER, "wait_s", 3, 1},
      {"update", TOOL_CELL_NUMBER, "update_s", 3, 1},
      {"other", TOOL_CELL_NUMBER, "other_s", 3, 1},
      {"examples/s", TOOL_CELL_COUNT, "totals.examples_per_s", 0, 1},
      {"test accuracy", TOOL_CELL_NUMBER, "result.test_accuracy", 4, 1},
      {"test loss", TOOL_CELL_NUMBER, "result.test_loss", -5, 1},
      {"peak memory", TOOL_CELL_BYTES, "totals.peak_rss_bytes", 0, 1},
  };
  json_t *values = json_array(), *rows = json_array();
  for (int r = 0; r < n; r++) {
    json_t *row = row_of(names[r], runs[r]);
    for (int p = 0; row && p < N_PHASES; p++)
      if (json_is_number(json_object_get(row, phases[p].field)))
        json_array_append_new(values, json_pack("{s:s, s:s, s:f, s:i}", "case", names[r], "phase", phases[p].name, "ms",
                                                tool_number(row, phases[p].field), "order", p));
    if (row) json_array_append_new(rows, row);
  }
  json_t *picture = report_picture(part, "phases", "Where a step's time goes",
                                   "Milliseconds per step, means over the run and its workers.", values);
  report_table(picture, rows, COLUMNS(columns));
  json_decref(rows);
}

/* ---- the part ------------------------------------------------------------------------------------------------------- */

/* Runs by themselves were not alternated, so they are never ranked; but what differs between them is said. */
static void add_differences(json_t *part, const char *const *names, const char *const *folders, json_t *const *runs,
                            int n) {
  static const tool_column columns[] = {{"field", TOOL_CELL_TEXT, "field", 0, 1},
                                        {"difference", TOOL_CELL_TEXT, "text", 0, 1}};
  json_t *cases = json_array();
  for (int r = 0; r < n; r++) {
    report_steps steps;
    report_steps_read(folders[r], &steps);
    json_array_append_new(cases, json_pack("{s:s, s:o}", "name", names[r], "audit",
                                           tool_audit_of_run(runs[r], json_object_get(runs[r], "command"),
                                                             "monotonic wall clock", steps.loss, steps.n)));
    report_steps_end(&steps);
  }
  json_t *differences = tool_audit_differences(cases, NULL);
  report_table(report_picture(part, "", "What differs between the runs",
                              "Options, data and machine of each run beside the first one's. They were not made in "
                              "alternated rounds, so they are not ranked: `ronde compare` does that.",
                              json_array()),
               differences, COLUMNS(columns));
  json_decref(differences);
  json_decref(cases);
}

void report_add_runs(json_t *page, const char *const *names, const char *const *folders, json_t *const *runs, int n) {
  char title[64];
  snprintf(title, sizeof title, "%d runs beside each other", n);
  json_t *part = report_part(page, title);
  add_differences(part, names, folders, runs, n);
  add_phases(part, names, runs, n);
  report_curves(part, names, folders, runs, n);
  report_operators(part, names, runs, n);
  for (int r = 0; r < n; r++) report_command(part, names[r], json_object_get(runs[r], "command"));
  report_environment_of(part, runs[0]);
}
