/* What a training ends with on the terminal, and the plan of a dry run. */
#include "common.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TOP_OPS 8

static const struct {
  const char *field, *text;
} phases[] = {{"load_s", "load"},         {"forward_s", "forward"},
              {"backward_s", "backward"}, {"communication_s", "exchange"},
              {"update_s", "update"},     {"other_s", "other"}};
enum { N_PHASES = sizeof phases / sizeof phases[0] };

double tool_epochs_sum(const json_t *run, const char *field) {
  const json_t *epochs = json_object_get(run, "epochs"), *epoch;
  size_t i;
  double sum = 0;
  json_array_foreach(epochs, i, epoch) { sum += tool_number(epoch, field); }
  return sum;
}

/* What the run's tests were made on. */
static const char *tested_on(const json_t *run) {
  const char *name = tool_string(json_object_get(run, "data"), "tested_on");
  return *name ? name : "test";
}

/* "accuracy 0.8884, loss 0.3047", as far as it was measured. */
static void say_figures(const char *label, double accuracy, double loss, const char *where) {
  char text[160] = "";
  if (isfinite(accuracy)) snprintf(text, sizeof text, "accuracy %.4f%s", accuracy, isfinite(loss) ? ", " : "");
  size_t used = strlen(text);
  if (isfinite(loss)) snprintf(text + used, sizeof text - used, "loss %.4f", loss);
  if (*text) tool_say("  %-10s  %s%s", label, text, where);
}

static void say_results(const json_t *run) {
  const json_t *result = json_object_get(run, "result"), *best = json_object_get(result, "best");
  const json_t *target = json_object_get(result, "target"), *epochs = json_object_get(run, "epochs");
  const json_t *last = json_array_get(epochs, json_array_size(epochs) - 1);
  char where[96] = "", text[32];
  const char *file = tool_string(best, "file");
  say_figures(tested_on(run), tool_number(result, "test_accuracy"), tool_number(result, "test_loss"), "");
  say_figures("training", tool_number(last, "train_accuracy"), tool_number(result, "train_loss"), "");
  snprintf(where, sizeof where, " in epoch %.0f%s%s%s", tool_number(best, "epoch"), *file ? " (" : "", file,
           *file ? ")" : "");
  if (tool_number(best, "epoch") < tool_number(last, "epoch"))
    say_figures("best", tool_number(best, "test_accuracy"), tool_number(best, "test_loss"), where);
  if (json_is_true(json_object_get(target, "reached")))
    tool_say("  %-10s  accuracy %g reached in epoch %.0f, after %s of training", "target",
             tool_number(target, "accuracy"), tool_number(target, "epoch"),
             tool_duration(tool_number(target, "train_s"), text));
}

static void say_losses(const json_t *run) {
  const json_t *lost = json_object_get(run, "lost_workers"), *one;
  char names[64] = "";
  size_t i;
  json_array_foreach(lost, i, one) {
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%.0f", i ? ", " : "", tool_number(one, "rank"));
  }
  if (i)
    tool_say("  %-10s  rank%s %s: the others have gone on without %s", "lost", i > 1 ? "s" : "", names,
             i > 1 ? "them" : "it");
}

static void say_speed(const json_t *run) {
  const json_t *world = json_object_get(run, "world"), *totals = json_object_get(run, "totals");
  double workers = tool_number(world, "workers"), threads = tool_number(world, "threads_per_worker");
  char rate[32], cpu[32], setup[32], rss[32];
  tool_say("  %-10s  %s examples/s by %.0f worker%s of %.0f thread%s (%s%s)", "speed",
           tool_count(tool_number(totals, "examples_per_s"), rate), workers, workers == 1 ? "" : "s", threads,
           threads == 1 ? "" : "s", tool_string(world, "strategy"),
           json_is_true(json_object_get(world, "simulated")) ? ", simulated" : "");
  tool_say("  %-10s  memory %s at its peak, CPU %s, set-up %s", "resources",
           tool_bytes(tool_number(totals, "peak_rss_bytes"), rss), tool_duration(tool_number(totals, "cpu_s"), cpu),
           tool_duration(tool_number(run, "setup_s"), setup));
  if (isfinite(tool_number(totals, "energy_j")))
    tool_say("  %-10s  %.0f J (%s)", "energy", tool_number(totals, "energy_j"), tool_string(totals, "energy_source"));
}

/* Where the time of training went, in one line. */
static void say_shares(const json_t *run) {
  double wall_s = tool_epochs_sum(run, "wall_s");
  char text[200] = "";
  for (int i = 0; i < N_PHASES && wall_s > 0; i++) {
    double percent = 100 * tool_epochs_sum(run, phases[i].field) / wall_s;
    size_t used = strlen(text);
    if (percent >= 0.5)
      snprintf(text + used, sizeof text - used, "%s%s %.0f", used ? ", " : "", phases[i].text, percent);
  }
  if (*text) tool_say("  %-10s  %s", "time, %", text);
}

static void say_head(const json_t *run) {
  const json_t *totals = json_object_get(run, "totals");
  char steps[32], examples[32], wall[32];
  tool_say("\n%s: %s on %s, %s steps, %s examples in %s", tool_string(run, "status"),
           tool_string(json_object_get(run, "model"), "name"), tool_string(json_object_get(run, "data"), "name"),
           tool_count(tool_number(totals, "steps"), steps), tool_count(tool_number(totals, "examples"), examples),
           tool_duration(tool_number(totals, "wall_s"), wall));
  say_results(run);
  say_shares(run);
  say_speed(run);
  say_losses(run);
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

/* Seconds in seven columns. */
static const char *seconds_cell(double value, char text[32]) {
  snprintf(text, 32, value < 1000 ? "%.3f" : value < 1e5 ? "%.1f" : "%.0f", value);
  return text;
}

static void say_workers(const json_t *run) {
  static const char *const fields[] = {"load_s", "forward_s", "backward_s", "exchange_s",
                                       "wait_s", "update_s",  "other_s",    "wall_s"};
  enum { N = sizeof fields / sizeof fields[0] };
  const json_t *workers = json_object_get(run, "workers"), *row;
  size_t i;
  if (json_array_size(workers) == 0) return;
  tool_say("\n  %4s %9s %7s %7s %7s %7s %7s %7s %7s %7s", "rank", "examples", "load", "forward", "backwd", "exchng",
           "wait", "update", "other", "wall s");
  json_array_foreach(workers, i, row) {
    char examples[32], cells[N][32], line[160];
    int used = snprintf(line, sizeof line, "  %4.0f %9s", tool_number(row, "rank"),
                        tool_count(tool_number(row, "examples"), examples));
    for (int f = 0; f < N; f++)
      used += snprintf(line + used, sizeof line - (size_t)used, " %7s",
                       seconds_cell(tool_number(row, fields[f]), cells[f]));
    tool_say("%s", line);
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
    tool_say("  %6.0f %12s gradients came too late, %s were not computed", tool_number(row, "rank"),
             tool_count(tool_number(row, "dropped_parts"), dropped),
             tool_count(tool_number(row, "missed_parts"), missed));
  }
}

/* Whether a strategy tells in this field what it has moved, each with its seconds and bytes. */
static bool are_moves(const json_t *field) {
  const json_t *move;
  const char *name;
  json_object_foreach((json_t *)field, name, move) {
    if (json_object_get(move, "seconds") && json_object_get(move, "bytes")) return true;
  }
  return false;
}

static void say_moves(const json_t *run, const json_t *moves) {
  const json_t *move;
  const char *name;
  double wall_s = tool_epochs_sum(run, "wall_s");
  char bytes[32];
  tool_say("\n  %-18s %9s %7s %12s   (of the master, without waiting)", "exchange", "seconds", "%", "moved");
  json_object_foreach((json_t *)moves, name, move) {
    double s = tool_number(move, "seconds");
    if (isfinite(s))
      tool_say("  %-18s %9.3f %7.1f %12s", name, s, 100 * s / wall_s, tool_bytes(tool_number(move, "bytes"), bytes));
  }
}

static void say_communication(const json_t *run) {
  const json_t *field;
  const char *name;
  json_object_foreach(json_object_get(run, "communication"), name, field) {
    if (are_moves(field)) say_moves(run, field);
  }
}

static void say_ops(const json_t *run) {
  const json_t *ops = json_object_get(run, "ops"), *row;
  size_t i, n = json_array_size(ops);
  if (n == 0) return;
  tool_say("\n  %-22s %-8s %8s %8s %8s  %s", "op (all workers)", "phase", "calls", "seconds", "GFLOP/s",
           "implementation");
  json_array_foreach(ops, i, row) {
    if (i == TOP_OPS) break;
    char calls[32], rate[32] = "-";
    double gflops_per_s = tool_number(row, "gflops_per_s");
    if (isfinite(gflops_per_s)) snprintf(rate, sizeof rate, "%.1f", gflops_per_s);
    tool_say("  %-22s %-8s %8s %8.3f %8s  %s", tool_string(row, "op"), tool_string(row, "phase"),
             tool_count(tool_number(row, "calls"), calls), tool_number(row, "seconds"), rate,
             tool_string(row, "implementation"));
  }
  if (n > TOP_OPS) tool_say("  (%zu more in run.json)", n - TOP_OPS);
}

void tool_summary(const json_t *run, const char *folder, bool verbose) {
  const char *status = tool_string(run, "status");
  if (strcmp(status, "completed") != 0) return; /* why is the last thing that is said, and nearly the only one */
  say_head(run);
  if (verbose) {
    say_phases(run);
    say_workers(run);
    say_late(run);
    say_left_out(run);
    say_communication(run);
    say_ops(run);
  }
  if (folder && *folder)
    tool_say("%s  %-10s  %s/run.json%s", verbose ? "\n" : "", "record", folder,
             verbose ? "" : " (-v prints its tables)");
}

/* Of a pipeline: a line for each stage. */
static void show_stages(const json_t *stages) {
  const json_t *stage;
  size_t i;
  char a[32], b[32], c[32], d[32];
  json_array_foreach(stages, i, stage) {
    const json_t *memory = json_object_get(stage, "memory_bytes");
    double state =
        tool_number(memory, "parameters") + tool_number(memory, "gradients") + tool_number(memory, "optimizer");
    printf("stage %-8.0f %s to %s: %s parameters\n", tool_number(stage, "stage"), tool_string(stage, "first"),
           tool_string(stage, "last"), tool_count(tool_number(stage, "parameters"), a));
    printf("               %s: state %s, activations of %.0f micro-batches %s\n",
           tool_bytes(tool_number(memory, "total"), a), tool_bytes(state, b),
           tool_number(stage, "micro_batches_under_way"), tool_bytes(tool_number(memory, "arena"), c));
    printf("               %.3g s of a step, %.0f %% of what all compute; an example: %s FLOPs executed, %s sent\n",
           tool_number(stage, "predicted_s"), 100 * tool_number(stage, "share"),
           tool_count(tool_number(stage, "executed_flops_per_example"), c),
           tool_bytes(tool_number(stage, "sent_bytes_per_example"), d));
  }
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
  show_stages(json_object_get(plan, "stages"));
  if (json_object_get(plan, "stages"))
    printf("predicted      %.3g s a step, of which a stage waits %.3g s (by %s)\n",
           tool_number(plan, "predicted_step_s"), tool_number(plan, "predicted_bubble_s"),
           strcmp(tool_string(plan, "predicted_from"), "spans") ? "a model of a core" : "recorded spans");
  printf("batch          %s\n", tool_count(tool_number(plan, "batch"), a));
  printf("steps          %s\n", tool_count(tool_number(plan, "steps"), a));
  printf("memory         %s: parameters %s, gradients %s, optimizer %s, arena %s\n",
         tool_bytes(tool_number(memory, "total"), a), tool_bytes(tool_number(memory, "parameters"), b),
         tool_bytes(tool_number(memory, "gradients"), c), tool_bytes(tool_number(memory, "optimizer"), d),
         tool_bytes(tool_number(memory, "arena"), e));
  printf("time           about %s, from %s steps that were measured\n",
         tool_duration(tool_number(plan, "estimated_s"), a), tool_count(tool_number(plan, "estimated_from_steps"), b));
}
