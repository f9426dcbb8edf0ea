/* What a training ends with on the terminal, and the plan of a dry run. */
#include "common.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TOP_OPS 8

static const struct {
  const char *field, *text;
} phases[] = {{"load_s", "load"},         {"forward_s", "forward"},
              {"backward_s", "backward"}, {"communication_s", "communication"},
              {"update_s", "update"},     {"other_s", "other"}};
enum { N_PHASES = sizeof phases / sizeof phases[0] };

double tool_epochs_sum(const json_t *run, const char *field) {
  const json_t *epochs = json_object_get(run, "epochs"), *epoch;
  size_t i;
  double sum = 0;
  json_array_foreach(epochs, i, epoch) { sum += tool_number(epoch, field); }
  return sum;
}

/* "x 1.23" behind a label where it was measured. */
static void append_figure(char *line, size_t bytes, const char *format, const char *label, double value) {
  if (!isfinite(value)) return;
  size_t used = strlen(line);
  snprintf(line + used, bytes - used, "%s%s ", used ? ", " : "", label);
  used = strlen(line);
  snprintf(line + used, bytes - used, format, value);
}

/* What the run's tests were made on. */
static const char *tested_on(const json_t *run) {
  const char *name = tool_string(json_object_get(run, "data"), "tested_on");
  return *name ? name : "test";
}

static void say_best(const json_t *run) {
  const json_t *result = json_object_get(run, "result");
  const json_t *best = json_object_get(result, "best"), *target = json_object_get(result, "target");
  char text[32];
  double accuracy = tool_number(best, "test_accuracy");
  const char *file = tool_string(best, "file");
  if (accuracy > tool_number(result, "test_accuracy"))
    tool_say("  best %s accuracy %.4f, in epoch %.0f%s%s", tested_on(run), accuracy, tool_number(best, "epoch"),
             *file ? ": " : "", file);
  if (json_is_true(json_object_get(target, "reached")))
    tool_say("  accuracy %g reached in epoch %.0f, after %s of training", tool_number(target, "accuracy"),
             tool_number(target, "epoch"), tool_duration(tool_number(target, "train_s"), text));
}

static void say_head(const json_t *run) {
  const json_t *world = json_object_get(run, "world"), *totals = json_object_get(run, "totals");
  const json_t *result = json_object_get(run, "result");
  char steps[32], examples[32], rate[32], wall[32], cpu[32], setup[32], rss[32], figures[200] = "", accuracy[32],
                                                                                 loss[32];
  tool_say("\n%s: %s on %s, %.0f worker%s of %.0f thread%s (%s%s), %s steps, %s examples", tool_string(run, "status"),
           tool_string(json_object_get(run, "model"), "name"), tool_string(json_object_get(run, "data"), "name"),
           tool_number(world, "workers"), tool_number(world, "workers") == 1 ? "" : "s",
           tool_number(world, "threads_per_worker"), tool_number(world, "threads_per_worker") == 1 ? "" : "s",
           tool_string(world, "strategy"), json_is_true(json_object_get(world, "simulated")) ? ", simulated" : "",
           tool_count(tool_number(totals, "steps"), steps), tool_count(tool_number(totals, "examples"), examples));
  snprintf(accuracy, sizeof accuracy, "%s accuracy", tested_on(run));
  snprintf(loss, sizeof loss, "%s loss", tested_on(run));
  append_figure(figures, sizeof figures, "%.4f", accuracy, tool_number(result, "test_accuracy"));
  append_figure(figures, sizeof figures, "%.5g", loss, tool_number(result, "test_loss"));
  append_figure(figures, sizeof figures, "%.5g", "train loss", tool_number(result, "train_loss"));
  if (*figures) tool_say("  %s", figures);
  say_best(run);
  tool_say("  %s examples/s; wall %s (set-up %s), CPU %s; peak memory %s",
           tool_count(tool_number(totals, "examples_per_s"), rate), tool_duration(tool_number(totals, "wall_s"), wall),
           tool_duration(tool_number(run, "setup_s"), setup), tool_duration(tool_number(totals, "cpu_s"), cpu),
           tool_bytes(tool_number(totals, "peak_rss_bytes"), rss));
  if (isfinite(tool_number(totals, "energy_j"))) {
    tool_say("  energy %.0f J (%s)", tool_number(totals, "energy_j"), tool_string(totals, "energy_source"));
  }
}

static void say_phases(const json_t *run) {
  double wall_s = tool_epochs_sum(run, "wall_s");
  if (!(wall_s > 0)) return;
  tool_say("\n  %-14s %10s %7s   (mean of the workers)", "phase", "seconds", "%");
  for (int i = 0; i < N_PHASES; i++) {
    double phase_s = tool_epochs_sum(run, phases[i].field);
    tool_say("  %-14s %10.3f %7.1f", phases[i].text, phase_s, 100 * phase_s / wall_s);
  }
  tool_say("  %-14s %10.3f %7.1f", "training", wall_s, 100.0);
  tool_say("  %-14s %10.3f   (apart; checkpoints %.3f s)", "evaluation", tool_epochs_sum(run, "eval_s"),
           tool_epochs_sum(run, "checkpoint_s"));
}

static void say_workers(const json_t *run) {
  const json_t *workers = json_object_get(run, "workers"), *row;
  size_t i;
  if (json_array_size(workers) == 0) return;
  tool_say("\n  %6s %12s %9s %9s %9s %9s %9s %9s %9s %9s", "worker", "examples", "load", "forward", "backward",
           "exchange", "wait", "update", "other", "wall");
  json_array_foreach(workers, i, row) {
    char examples[32];
    tool_say("  %6.0f %12s %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f", tool_number(row, "rank"),
             tool_count(tool_number(row, "examples"), examples), tool_number(row, "load_s"),
             tool_number(row, "forward_s"), tool_number(row, "backward_s"), tool_number(row, "exchange_s"),
             tool_number(row, "wait_s"), tool_number(row, "update_s"), tool_number(row, "other_s"),
             tool_number(row, "wall_s"));
  }
}

/* Of synchronous workers: asynchronous ones wait for nobody. */
static void say_late(const json_t *run) {
  const json_t *workers = json_object_get(run, "workers"), *row;
  double steps = 0;
  size_t i;
  if (!json_is_object(json_object_get(json_array_get(workers, 0), "late"))) return;
  json_array_foreach(workers, i, row) if (json_is_object(json_object_get(row, "late"))) steps +=
      tool_number(json_object_get(row, "late"), "steps");
  tool_say("\n  %6s %12s %7s %12s %12s  %s", "worker", "last to come", "%", "median", "in all", "mostly by");
  json_array_foreach(workers, i, row) {
    const json_t *late = json_object_get(row, "late");
    char times[32];
    double n = tool_number(late, "steps");
    if (!json_is_object(late)) continue;
    if (n > 0)
      tool_say("  %6.0f %12s %7.1f %9.3f ms %10.3f s  %s", tool_number(row, "rank"), tool_count(n, times),
               100 * n / steps, 1e3 * tool_number(late, "waited_median_s"), tool_number(late, "waited_s"),
               tool_string(late, "cause"));
    else tool_say("  %6.0f %12s", tool_number(row, "rank"), "never");
  }
  tool_say("  (what each of the others waited for it, on average)");
}

/* What backup workers were not waited for with. */
static void say_left_out(const json_t *run) {
  const json_t *workers = json_object_get(run, "workers"), *row;
  double backup = tool_number(json_object_get(run, "config"), "backup");
  size_t i;
  char examples[32];
  if (!(backup > 0)) return;
  tool_say("\n  %.0f backup worker%s: %s examples left out", backup, backup == 1 ? "" : "s",
           tool_count(tool_number(json_object_get(run, "totals"), "left_out_examples"), examples));
  json_array_foreach(workers, i, row) {
    if (strcmp(tool_string(row, "role"), "worker") != 0) continue;
    char dropped[32], missed[32];
    tool_say("  %6.0f %12s parts came too late, %s were not made", tool_number(row, "rank"),
             tool_count(tool_number(row, "dropped_parts"), dropped),
             tool_count(tool_number(row, "missed_parts"), missed));
  }
}

static void say_ops(const json_t *run) {
  const json_t *ops = json_object_get(run, "ops"), *row;
  size_t i, n = json_array_size(ops);
  if (n == 0) return;
  tool_say("\n  %-24s %-9s %10s %10s %9s  %s", "op (all workers)", "phase", "calls", "seconds", "GFLOP/s",
           "implementation");
  json_array_foreach(ops, i, row) {
    if (i == TOP_OPS) break;
    char calls[32], rate[32] = "-";
    double gflops_per_s = tool_number(row, "gflops_per_s");
    if (isfinite(gflops_per_s)) snprintf(rate, sizeof rate, "%.1f", gflops_per_s);
    tool_say("  %-24s %-9s %10s %10.3f %9s  %s", tool_string(row, "op"), tool_string(row, "phase"),
             tool_count(tool_number(row, "calls"), calls), tool_number(row, "seconds"), rate,
             tool_string(row, "implementation"));
  }
  if (n > TOP_OPS) tool_say("  (%zu more in run.json)", n - TOP_OPS);
}

void tool_summary(const json_t *run, const char *folder) {
  const char *status = tool_string(run, "status");
  if (strcmp(status, "failed") == 0) return; /* its error is the last thing that is said, and nearly the only one */
  say_head(run);
  if (strcmp(status, "completed") == 0) {
    say_phases(run);
    say_workers(run);
    say_late(run);
    say_left_out(run);
    say_ops(run);
  }
  if (folder && *folder) tool_say("\n  the record: %s/run.json", folder);
}

void tool_plan(const json_t *plan) {
  const json_t *memory = json_object_get(plan, "memory_bytes");
  char a[32], b[32], c[32], d[32], e[32];
  printf("model          %s\n", tool_string(plan, "model"));
  bool whole = tool_number(plan, "parameters") == tool_number(plan, "trained_parameters");
  printf("parameters     %s", tool_count(tool_number(plan, "parameters"), a));
  printf(whole ? "\n" : ", of which %s train\n", tool_count(tool_number(plan, "trained_parameters"), a));
  printf("forward FLOPs  %s an example\n", tool_count(tool_number(plan, "forward_flops_per_example"), a));
  printf("workers        %.0f, threads of each %.0f\n", tool_number(plan, "workers"),
         tool_number(plan, "threads_per_worker"));
  printf("strategy       %s\n", tool_string(plan, "strategy"));
  printf("batch          %s\n", tool_count(tool_number(plan, "batch"), a));
  printf("steps          %s\n", tool_count(tool_number(plan, "steps"), a));
  printf("memory         %s: parameters %s, gradients %s, optimizer %s, arena %s\n",
         tool_bytes(tool_number(memory, "total"), a), tool_bytes(tool_number(memory, "parameters"), b),
         tool_bytes(tool_number(memory, "gradients"), c), tool_bytes(tool_number(memory, "optimizer"), d),
         tool_bytes(tool_number(memory, "arena"), e));
  printf("time           about %s, from %s steps that were measured\n",
         tool_duration(tool_number(plan, "estimated_s"), a), tool_count(tool_number(plan, "estimated_from_steps"), b));
}
