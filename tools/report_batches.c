/* The pictures of `bench batches`: steps to a target over batch sizes, and the search for the learning rates. */
#include "report.h"

#include <math.h>

#define COLUMNS(columns) columns, sizeof columns / sizeof columns[0]

static void add_point(json_t *values, const char *series, double batch, double steps, double low, double high) {
  json_array_append_new(values, json_pack("{s:s, s:f, s:f, s:f, s:f}", "series", series, "batch", batch, "steps", steps,
                                          "low", isfinite(low) ? low : steps, "high", isfinite(high) ? high : steps));
}

/* Half the steps for twice the batch, from the smallest one that was measured on. */
static void add_perfect(json_t *values, const json_t *cases) {
  const json_t *one;
  double examples = NAN;
  size_t i;
  json_array_foreach((json_t *)cases, i, one) {
    double batch = tool_number(one, "batch"), steps = tool_number(json_object_get(one, "steps_to_target"), "median");
    if (!isfinite(examples)) examples = batch * steps;
    if (isfinite(examples) && isfinite(batch)) add_point(values, "perfect scaling", batch, examples / batch, NAN, NAN);
  }
}

static json_t *steps_of(const json_t *cases) {
  json_t *values = json_array();
  const json_t *one;
  size_t i;
  json_array_foreach((json_t *)cases, i, one) {
    const json_t *steps = json_object_get(one, "steps_to_target");
    bool is_open = *tool_string(one, "open");
    if (isfinite(tool_number(steps, "median")))
      add_point(values, is_open ? "measured, but open" : "measured", tool_number(one, "batch"),
                tool_number(steps, "median"), tool_number(steps, "low"), tool_number(steps, "high"));
  }
  if (json_array_size(values)) add_perfect(values, cases);
  return values;
}

static void add_steps(json_t *part, const json_t *bench, const json_t *cases) {
  static const tool_column columns[] = {
      {"batch", TOOL_CELL_COUNT, "batch", 0, 1},
      {"best learning rate", TOOL_CELL_NUMBER, "lr", -4, 1},
      {"trainings to find it", TOOL_CELL_COUNT, "tried", 0, 1},
      {"seeds that reached it", TOOL_CELL_TEXT, "reached", 0, 1},
      {"steps", TOOL_CELL_NUMBER, "steps_to_target.median", 1, 1},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "steps_to_target", 1, 1},
      {"of perfect", TOOL_CELL_NUMBER, "of_perfect.median", 2, 1},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "of_perfect", 2, 1},
      {"times fewer steps than the batch in front", TOOL_CELL_NUMBER, "fewer_steps.median", 2, 1},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "fewer_steps", 2, 1},
      {"open, because", TOOL_CELL_TEXT, "open", 0, 1},
  };
  const json_t *regimes = json_object_get(bench, "regimes");
  char about[512];
  snprintf(
      about, sizeof about,
      "Steps to an accuracy of %g, medians over %.0f seeds with 95 %% intervals; dashed: half the steps for twice the "
      "batch. Scaling counts as perfect from %g of that on, and a doubling gains if it makes the steps more than %g "
      "times fewer. A training made at most %.0f steps.",
      tool_number(bench, "target_accuracy"), tool_number(bench, "rounds"), tool_number(regimes, "perfect_is"),
      tool_number(regimes, "no_gain_is"), tool_number(bench, "budget_steps"));
  json_t *picture = report_picture(part, "batches", "Steps to the target over the batch size", about, steps_of(cases));
  report_table(picture, cases, COLUMNS(columns));
  report_samples(picture, cases, "steps_to_target", 1, "steps, by seed");
}

/* A row for each training of the search. */
static json_t *trials_of(const json_t *cases) {
  json_t *rows = json_array(), *one, *trial;
  size_t i, k;
  json_array_foreach((json_t *)cases, i, one) json_array_foreach(json_object_get(one, "search"), k, trial) {
    json_t *row = json_copy(trial);
    json_object_set(row, "batch", json_object_get(one, "batch"));
    json_object_set_new(row, "series", json_sprintf("batch %.0f", tool_number(one, "batch")));
    json_array_append_new(rows, row);
  }
  return rows;
}

static void add_search(json_t *part, const json_t *cases) {
  static const tool_column columns[] = {
      {"batch", TOOL_CELL_COUNT, "batch", 0, 1},
      {"learning rate", TOOL_CELL_NUMBER, "lr", -4, 1},
      {"seed", TOOL_CELL_COUNT, "seed", 0, 1},
      {"steps to the target", TOOL_CELL_NUMBER, "steps", 1, 1},
      {"how it ended", TOOL_CELL_TEXT, "ended", 0, 1},
      {"steps at most", TOOL_CELL_COUNT, "most_steps", 0, 1},
      {"best accuracy", TOOL_CELL_NUMBER, "accuracy", 4, 1},
  };
  json_t *rows = trials_of(cases), *values = json_array(), *row;
  size_t i;
  json_array_foreach(rows, i, row) {
    if (isfinite(tool_number(row, "steps"))) json_array_append(values, row);
  }
  report_table(
      report_picture(part, "rates", "The search for the learning rate",
                     "One seed for each rate, three for those near the best. A training ends where it is no longer "
                     "near the best one so far, so rates that are worse have no steps.",
                     values),
      rows, COLUMNS(columns));
  json_decref(rows);
}

void report_batches(json_t *part, const json_t *bench) {
  const json_t *cases = json_object_get(bench, "cases");
  if (!json_is_object(json_object_get(bench, "regimes"))) return;
  add_steps(part, bench, cases);
  add_search(part, cases);
}
