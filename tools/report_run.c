/* The page of a run: what a trainer opens. Curves, phases, the slowest operators, who was late, the confusion matrix, and
 * what to change, each by what run.json, steps.jsonl and trace.json hold. */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS(columns) columns, sizeof columns / sizeof columns[0]

/* ---- the answer ---------------------------------------------------------------------------------------------------- */

static void answer_result(json_t *of, const char *list, const json_t *run) {
  const json_t *result = json_object_get(run, "result"), *totals = json_object_get(run, "totals"),
               *data = json_object_get(run, "data");
  double accuracy = tool_number(result, "test_accuracy"), loss = tool_number(result, "test_loss");
  char duration[32], outcome[128] = "";
  if (isfinite(accuracy))
    snprintf(outcome, sizeof outcome, " with accuracy %.4f on its %s examples", accuracy,
             tool_string(data, "tested_on"));
  else if (isfinite(loss)) snprintf(outcome, sizeof outcome, " with a test loss of %.5g", loss);
  else if (isfinite(tool_number(result, "train_loss")))
    snprintf(outcome, sizeof outcome, " with a training loss of %.5g", tool_number(result, "train_loss"));
  report_say(of, list, "%s on %s %s after %.0f steps and %s%s.", tool_string(json_object_get(run, "model"), "name"),
             tool_string(data, "name"),
             strcmp(tool_string(run, "status"), "completed") == 0 ? "ended" : tool_string(run, "status"),
             tool_number(totals, "steps"), tool_duration(tool_number(totals, "wall_s"), duration), outcome);
}

/* The share of training that a phase took, over all workers. */
static double share_of(const json_t *run, const char *phase) {
  return tool_epochs_sum(run, phase) / tool_epochs_sum(run, "wall_s");
}

static void answer_speed(json_t *of, const char *list, const json_t *run, const report_steps *steps) {
  static const char *const phases[] = {"load_s", "forward_s", "backward_s", "communication_s", "update_s"};
  static const char *const words[] = {"loading", "forward passes", "backward passes", "exchange and waiting",
                                      "updates"};
  int largest = 0;
  ronde_statistics s;
  for (int p = 1; p < 5; p++)
    if (share_of(run, phases[p]) > share_of(run, phases[largest])) largest = p;
  if (steps->n < 3 || ronde_statistics_of(steps->wall_s + 1, steps->n - 1, &s) != RONDE_OK) return;
  report_say(of, list,
             "A step took %.3f ms in the median [%.3f, %.3f]; the most of the training's time, %.0f %%, went into %s.",
             1e3 * s.median, 1e3 * s.low, 1e3 * s.high, 100 * share_of(run, phases[largest]), words[largest]);
}

/* ---- what to change -------------------------------------------------------------------------------------------------- */

static void change_exchange(json_t *part, const json_t *run) {
  double workers = tool_number(json_object_get(run, "world"), "workers"), share = share_of(run, "communication_s");
  const json_t *config = json_object_get(run, "config");
  if (workers < 2 || share < 0.25) return;
  report_say(
      part, "changes",
      "Exchange and waiting took %.0f %% of the time. Fewer workers or a larger --batch than %.0f exchange less "
      "often%s. "
      "`ronde compare --scaling` measures how many workers pay here, `ronde compare --strategies` by which strategy.",
      100 * share, tool_number(config, "batch"),
      strcmp(tool_string(config, "wire"), "f32") == 0 ? "; --wire bf16 halves the bytes of an exchange" : "");
}

static void change_loading(json_t *part, const json_t *run) {
  double share = share_of(run, "load_s");
  if (share < 0.1) return;
  bool has_cache = json_is_true(json_object_get(json_object_get(run, "config"), "cache"));
  report_say(part, "changes", "Waiting for batches took %.0f %% of the time: the network is faster than loading. %s",
             100 * share,
             has_cache ? "The cache is on already; a --resize that was made once before training, or less --augment, "
                         "would load less."
                       : "--cache on decodes the data only once.");
}

static void change_late(json_t *part, const json_t *run) {
  const json_t *worker;
  size_t i;
  double steps = tool_number(json_object_get(run, "totals"), "steps"),
         n = (double)json_array_size(json_object_get(run, "workers"));
  json_array_foreach(json_object_get(run, "workers"), i, worker) {
    const json_t *late = json_object_get(worker, "late");
    double times = tool_number(late, "steps"), waited = tool_number(late, "waited_s");
    if (!(times > 1.5 * steps / n) || !(waited > 0.05 * tool_epochs_sum(run, "wall_s"))) continue;
    report_say(part, "changes",
               "Rank %.0f (%s) was the last in %.0f of %.0f steps, mostly by %s, and the others waited %.3g s for it: "
               "look at that host first.",
               tool_number(worker, "rank"), tool_string(worker, "host"), times, steps, tool_string(late, "cause"),
               waited);
  }
}

static void change_epochs(json_t *part, const json_t *run) {
  const json_t *epochs = json_object_get(run, "epochs"),
               *best = json_object_get(json_object_get(run, "result"), "best");
  size_t n = json_array_size(epochs);
  const json_t *last = n ? json_array_get(epochs, n - 1) : NULL;
  double at = tool_number(best, "epoch"), train = tool_number(last, "train_accuracy"),
         test = tool_number(last, "test_accuracy");
  if (n >= 4 && at <= 0.6 * (double)n)
    report_say(part, "changes",
               "The best test was in epoch %.0f of %zu: --patience would have ended there, and its weights are in %s.",
               at, n, *tool_string(best, "file") ? tool_string(best, "file") : "no file (--save-best on)");
  if (isfinite(train) && isfinite(test) && train - test > 0.1)
    report_say(part, "changes",
               "Accuracy is %.3f on the training examples and %.3f on others: --augment, --weight-decay or --dropout "
               "work against that.",
               train, test);
  if (n >= 2 && tool_number(last, "train_loss") > tool_number(json_array_get(epochs, 0), "train_loss"))
    report_say(part, "changes", "The training loss rose from %.4g to %.4g: a lower --lr than %.4g, or --clip.",
               tool_number(json_array_get(epochs, 0), "train_loss"), tool_number(last, "train_loss"),
               tool_number(last, "lr"));
}

static void change_cores(json_t *part, const json_t *run) {
  const json_t *world = json_object_get(run, "world"), *machine = json_object_get(run, "machine");
  double threads = tool_number(world, "workers") * tool_number(world, "threads_per_worker"),
         cores = tool_number(machine, "cores");
  if (json_array_size(json_object_get(machine, "hosts")) != 1 || json_is_true(json_object_get(world, "simulated")) ||
      threads == cores)
    return;
  if (threads > cores)
    report_say(part, "changes", "%.0f threads shared %.0f cores: --workers times --threads should not be more.",
               threads, cores);
  if (threads < cores)
    report_say(part, "changes", "%.0f of %.0f cores were used: --threads, or more --workers, would use the others.",
               threads, cores);
}

static void add_changes(json_t *part, const json_t *run) {
  change_exchange(part, run);
  change_loading(part, run);
  change_late(part, run);
  change_cores(part, run);
  change_epochs(part, run);
}

/* ---- pictures --------------------------------------------------------------------------------------------------------- */

static void add_workers(json_t *part, const json_t *run) {
  static const struct {
    const char *field, *name;
  } phases[] = {{"load_s", "load"}, {"forward_s", "forward"}, {"backward_s", "backward"}, {"exchange_s", "exchange"},
                {"wait_s", "wait"}, {"update_s", "update"},   {"other_s", "other"}};
  static const tool_column columns[] = {
      {"rank", TOOL_CELL_COUNT, "rank", 0, 1},
      {"role", TOOL_CELL_TEXT, "role", 0, 1},
      {"host", TOOL_CELL_TEXT, "host", 0, 1},
      {"load s", TOOL_CELL_NUMBER, "load_s", 3, 1},
      {"forward s", TOOL_CELL_NUMBER, "forward_s", 3, 1},
      {"backward s", TOOL_CELL_NUMBER, "backward_s", 3, 1},
      {"exchange s", TOOL_CELL_NUMBER, "exchange_s", 3, 1},
      {"wait s", TOOL_CELL_NUMBER, "wait_s", 3, 1},
      {"update s", TOOL_CELL_NUMBER, "update_s", 3, 1},
      {"other s", TOOL_CELL_NUMBER, "other_s", 3, 1},
      {"all s", TOOL_CELL_NUMBER, "wall_s", 3, 1},
      {"peak memory", TOOL_CELL_BYTES, "peak_rss_bytes", 0, 1},
  };
  const json_t *workers = json_object_get(run, "workers"), *row;
  json_t *values = json_array();
  double steps = tool_number(json_object_get(run, "totals"), "steps");
  size_t i;
  json_array_foreach((json_t *)workers, i, row) {
    for (int p = 0; p < (int)(sizeof phases / sizeof phases[0]); p++) {
      double ms = 1e3 * tool_number(row, phases[p].field) / steps;
      if (isfinite(ms))
        json_array_append_new(
            values, json_pack("{s:o, s:s, s:f, s:i}", "case",
                              json_sprintf("rank %.0f, %s", tool_number(row, "rank"), tool_string(row, "role")),
                              "phase", phases[p].name, "ms", ms, "order", p));
    }
  }
  json_t *picture =
      report_picture(part, "phases", "Where each worker's time went",
                     "Milliseconds per step, means over the run. The table has the seconds of the whole run.", values);
  report_table(picture, workers, COLUMNS(columns));
}

static void add_late(json_t *part, const json_t *run) {
  static const tool_column columns[] = {
      {"worker", TOOL_CELL_TEXT, "worker", 0, 1},
      {"last in steps", TOOL_CELL_COUNT, "steps", 0, 1},
      {"others waited s", TOOL_CELL_NUMBER, "waited_s", 4, 1},
      {"in the median step, ms", TOOL_CELL_NUMBER, "waited_median_s", 4, 1e3},
      {"mostly by", TOOL_CELL_TEXT, "cause", 0, 1},
      {"by loading s", TOOL_CELL_NUMBER, "load_s", 4, 1},
      {"by computing s", TOOL_CELL_NUMBER, "compute_s", 4, 1},
      {"by exchange s", TOOL_CELL_NUMBER, "exchange_s", 4, 1},
      {"by the rest s", TOOL_CELL_NUMBER, "other_s", 4, 1},
  };
  const json_t *row;
  json_t *values = json_array();
  size_t i;
  json_array_foreach(json_object_get(run, "workers"), i, row) {
    const json_t *late = json_object_get(row, "late");
    if (!json_is_object(late)) continue;
    json_t *one = json_copy((json_t *)late);
    json_object_set_new(one, "worker",
                        json_sprintf("rank %.0f, %s", tool_number(row, "rank"), tool_string(row, "host")));
    json_array_append_new(values, one);
  }
  if (json_array_size(values))
    report_table(report_picture(part, "late", "Who was late",
                                "The last one of a step is the one for which the others waited.", json_incref(values)),
                 values, COLUMNS(columns));
  json_decref(values);
}

static void add_timeline(json_t *part, const char *folder) {
  static const tool_column columns[] = {
      {"lane", TOOL_CELL_TEXT, "lane", 0, 1},      {"what", TOOL_CELL_TEXT, "name", 0, 1},
      {"from ms", TOOL_CELL_NUMBER, "from", 3, 1}, {"to ms", TOOL_CELL_NUMBER, "to", 3, 1},
      {"ms", TOOL_CELL_NUMBER, "ms", 3, 1},
  };
  char about[256];
  json_t *values = report_timeline(folder, about, sizeof about);
  if (json_array_size(values))
    report_table(report_picture(part, "timeline", "A step, over all workers", about, json_incref(values)), values,
                 COLUMNS(columns));
  else report_say(part, "notes", "There is no timeline of a step: `ronde train --trace` records one.");
  json_decref(values);
}

static void add_distribution(json_t *part, const report_steps *steps) {
  static const tool_column columns[] = {
      {"steps", TOOL_CELL_COUNT, "n", 0, 1},           {"quarter", TOOL_CELL_NUMBER, "q1", 3, 1},
      {"median", TOOL_CELL_NUMBER, "median", 3, 1},    {"three quarters", TOOL_CELL_NUMBER, "q3", 3, 1},
      {"99 %", TOOL_CELL_NUMBER, "p99", 3, 1},         {"longest", TOOL_CELL_NUMBER, "max", 3, 1},
      {"outliers", TOOL_CELL_COUNT, "outliers", 0, 1},
  };
  json_t *values = json_array();
  json_t *box = steps->n > 1 ? report_box(values, "steps", steps->wall_s + 1, steps->n - 1) : NULL;
  if (!box) {
    json_decref(values);
    return;
  }
  json_t *rows = json_pack("[O]", box), *samples = json_array();
  json_t *picture = report_picture(part, "distribution", "How much steps differ",
                                   "All steps but the first. The box holds the middle half; beyond 1.5 times its width "
                                   "a step is an outlier (at most 200 are drawn).",
                                   values);
  report_table(picture, rows, COLUMNS(columns));
  for (int64_t i = 0; i < steps->n; i++)
    json_array_append_new(samples, isfinite(steps->wall_s[i]) ? json_real(steps->wall_s[i]) : json_null());
  json_t *cases = json_pack("[{s:s, s:{s:o}}]", "name", "steps.jsonl", "wall_s", "samples", samples);
  report_samples(picture, cases, "wall_s", 1e3, "ms");
  json_decref(cases);
  json_decref(rows);
}

static void add_confusion(json_t *part, const char *folder) {
  static const tool_column columns[] = {
      {"label", TOOL_CELL_TEXT, "label", 0, 1},
      {"predicted", TOOL_CELL_TEXT, "predicted", 0, 1},
      {"examples", TOOL_CELL_COUNT, "examples", 0, 1},
      {"share of the label %", TOOL_CELL_NUMBER, "share", 1, 100},
  };
  json_t *values = report_confusion(folder);
  if (json_array_size(values))
    report_table(report_picture(part, "confusion", "Which classes are taken for which",
                                "From confusion.csv in the run's folder.", json_incref(values)),
                 values, COLUMNS(columns));
  else
    report_say(part, "notes",
               "There is no confusion matrix: `ronde eval RUN --data ... --csv RUN` writes one into the run's folder.");
  json_decref(values);
}

static void add_staleness(json_t *part, const char *name, const json_t *run) {
  static const tool_column columns[] = {
      {"mean", TOOL_CELL_NUMBER, "mean", 2, 1},  {"median", TOOL_CELL_COUNT, "p50", 0, 1},
      {"90 %", TOOL_CELL_COUNT, "p90", 0, 1},    {"99 %", TOOL_CELL_COUNT, "p99", 0, 1},
      {"at most", TOOL_CELL_COUNT, "max", 0, 1},
  };
  json_t *staleness = json_object_get(json_object_get(run, "communication"), "staleness"), *values = json_array(),
         *rows;
  const json_t *histogram = json_object_get(staleness, "histogram");
  for (size_t k = 0; k < json_array_size(histogram); k++)
    json_array_append_new(values, json_pack("{s:s, s:I, s:O}", "case", name, "updates", (json_int_t)k, "count",
                                            json_array_get(histogram, k)));
  if (!json_array_size(values)) {
    json_decref(values);
    return;
  }
  rows = json_pack("[O]", staleness);
  report_table(
      report_picture(part, "staleness", "Staleness of asynchronous updates",
                     "By how many updates of others the weights had moved on when a gradient arrived.", values),
      rows, COLUMNS(columns));
  json_decref(rows);
}

/* ---- the part ------------------------------------------------------------------------------------------------------------ */

static void add_numbers(json_t *part, const json_t *run) {
  static const tool_column columns[] = {
      {"parameters", TOOL_CELL_COUNT, "model.parameters", 0, 1},
      {"strategy", TOOL_CELL_TEXT, "world.strategy", 0, 1},
      {"workers", TOOL_CELL_COUNT, "world.workers", 0, 1},
      {"threads each", TOOL_CELL_COUNT, "world.threads_per_worker", 0, 1},
      {"batch", TOOL_CELL_COUNT, "config.batch", 0, 1},
      {"optimizer", TOOL_CELL_TEXT, "config.optimizer", 0, 1},
      {"steps", TOOL_CELL_COUNT, "totals.steps", 0, 1},
      {"examples", TOOL_CELL_COUNT, "totals.examples", 0, 1},
      {"examples/s", TOOL_CELL_COUNT, "totals.examples_per_s", 0, 1},
      {"peak memory", TOOL_CELL_BYTES, "totals.peak_rss_bytes", 0, 1},
      {"CPU s", TOOL_CELL_NUMBER, "totals.cpu_s", 2, 1},
      {"energy J", TOOL_CELL_NUMBER, "totals.energy_j", 1, 1},
      {"set-up s", TOOL_CELL_NUMBER, "setup_s", 3, 1},
      {"bytes sent", TOOL_CELL_BYTES, "communication.bytes_sent", 0, 1},
      {"weights", TOOL_CELL_TEXT, "result.weights_sha256", 12, 1},
  };
  json_t *rows = json_pack("[O]", run);
  report_table(report_picture(part, "", "The run in numbers", "From run.json. '-' was not measured.", json_array()),
               rows, COLUMNS(columns));
  json_decref(rows);
}

void report_add_run(json_t *page, const report_source *source, bool is_alone) {
  json_t *part = report_part(page, source->name);
  const char *names[] = {source->name}, *folders[] = {source->folder};
  report_steps steps;
  report_steps_read(source->folder, &steps);
  answer_result(is_alone ? page : part, is_alone ? "answer" : "notes", source->run);
  answer_speed(is_alone ? page : part, is_alone ? "answer" : "notes", source->run, &steps);
  if (strcmp(tool_string(source->run, "status"), "completed") != 0)
    report_say(page, "warnings", "%s: this run did not complete (%s); what follows is of the part that ran.",
               source->name, tool_string(source->run, "status"));
  add_changes(part, source->run);
  add_numbers(part, source->run);
  report_curves(part, names, folders, &source->run, 1);
  add_workers(part, source->run);
  report_operators(part, names, &source->run, 1);
  add_timeline(part, source->folder);
  add_late(part, source->run);
  add_distribution(part, &steps);
  add_staleness(part, source->name, source->run);
  add_confusion(part, source->folder);
  report_command(part, source->name, json_object_get(source->run, "command"));
  report_environment(part, "folder", source->folder);
  report_environment_of(part, source->run);
  report_steps_end(&steps);
}
