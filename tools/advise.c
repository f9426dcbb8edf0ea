/* ronde advise: which strategy, how many workers and threads, and which batch, by measuring. One question is answered after
 * another, each by a `ronde compare` whose other settings are the best ones so far; the strategy by `--strategy measured`, and
 * what limits the kernels by `ronde bench kernels`. What the user gives is not asked about. */
#include "advice.h"
#include "compare.h"
#include "hosts.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROUNDS = 3, LEAST_STEPS = 3, MOST_STEPS = 200, PLANNED_STEPS = 8, LEAST_BATCH = 16, MAX_LIST = 8 };
#define RUN_S 2.0     /* that a measured run lasts at most, but for LEAST_STEPS */
#define MEASURED_N 30 /* short runs that --strategy measured makes: rounds x strategies */
#define MEASURED_RUN_S 0.1
#define OVERTIME 1.25 /* of the budget: what would end behind it is left out */

typedef struct advise {
  const tool_call *call;
  char folder[4000];
  bool is_temporary;
  double begin_s, budget_s;
  double start_s, step_s; /* of one run beside its steps; of a step of one worker at `batch` */
  int64_t batch, examples;
  int cores, n_hosts;
  json_t *rows, *left_out, *texts; /* advice.h; [{stage, reason}]; [sentence] */
  json_t *best;                    /* a row: what to take so far */
  json_t *kernels, *data;          /* of `bench kernels`; of a run: what it trained on */
} advise;

/* ---- commands ------------------------------------------------------------------------------------------------------- */

static bool is_given(const advise *a, const char *option) { return ronde_config_is_given(a->call->config, option); }

/* What a question, its length and its folder set themselves. */
static bool is_ours(const char *option) {
  static const char *const ours[] = {"batch", "local-batch", "workers", "threads",  "strategy", "steps",
                                     "out",   "overwrite",   "hosts",   "hostfile", "iface"};
  for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
    if (strcmp(option, ours[i]) == 0) return true;
  return false;
}

static void add_option(json_t *command, const char *name, const char *value) {
  json_array_append_new(command, json_sprintf("--%s=%s", name, value));
}

/* `ronde VERB` with the user's options, but for those of a question. */
static json_t *command_of(const advise *a, const char *verb, bool on_hosts) {
  static const char *const of_hosts[] = {"hosts", "hostfile", "iface"};
  json_t *command = json_pack("[s, s]", "ronde", verb);
  ronde_option option;
  for (int i = 0; ronde_config_option("train", i, &option); i++)
    if (is_given(a, option.name) && !is_ours(option.name))
      add_option(command, option.name, ronde_config_get(a->call->config, option.name));
  for (size_t i = 0; i < sizeof of_hosts / sizeof of_hosts[0] && on_hosts; i++)
    if (is_given(a, of_hosts[i])) add_option(command, of_hosts[i], ronde_config_get(a->call->config, of_hosts[i]));
  json_array_append_new(command, json_string("--json"));
  json_array_append_new(command, json_string("--quiet"));
  return command;
}

static void add_number(json_t *command, const char *name, double value) {
  json_array_append_new(command, json_sprintf("--%s=%.0f", name, value));
}

/* Settings of the best row; a list replaces the one of its name. */
static void add_best(const advise *a, json_t *command, const char *listed, const char *list) {
  static const char *const numbers[] = {"workers", "threads", "batch"};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    if (strcmp(numbers[i], listed) != 0) add_number(command, numbers[i], tool_number(a->best, numbers[i]));
  if (strcmp(listed, "strategy") != 0) add_option(command, "strategy", tool_string(a->best, "strategy"));
  add_option(command, listed, list);
}

/* A process of ours; takes over the command. What it says as an error is the reason. */
static ronde_status run(json_t *command, json_t **said_out, char *why, size_t bytes) {
  ronde_status status = tool_case_try(command, said_out, why, bytes);
  json_decref(command);
  return status;
}

/* ---- time ----------------------------------------------------------------------------------------------------------- */

static double spent_s(const advise *a) { return tool_now_s() - a->begin_s; }

/* A comparison of n cases: a dry run of each, then the rounds. steps_s: of a step. */
static double comparison_s(const advise *a, int n, double steps, double step_s) {
  return n * (a->start_s + PLANNED_STEPS * step_s) + n * ROUNDS * (a->start_s + steps * step_s);
}

static double strategies_s(const advise *a) { return a->start_s + MEASURED_N * fmax(MEASURED_RUN_S, 5 * a->step_s); }

/* All questions, with so many cases of comparisons. */
static double whole_s(const advise *a, int n_cases, double steps) {
  return comparison_s(a, n_cases, steps, a->step_s) + (is_given(a, "strategy") ? 0 : strategies_s(a)) + 2 * a->start_s +
         5 * a->step_s;
}

/* Steps of a run, so that all fits into what is left. */
static double steps_of(const advise *a, int n_cases, double step_s) {
  double most = fmin(MOST_STEPS, RUN_S / step_s), steps = MOST_STEPS;
  double left = (a->budget_s - spent_s(a) - n_cases * (1 + ROUNDS) * a->start_s) / n_cases;
  steps = fmin(steps, (left / step_s - PLANNED_STEPS) / ROUNDS);
  return fmax(LEAST_STEPS, floor(fmin(steps, most)));
}

static bool has_time(advise *a, const char *stage, double seconds) {
  if (spent_s(a) + seconds <= OVERTIME * a->budget_s) return true;
  json_array_append_new(a->left_out,
                        json_pack("{s:s, s:o}", "stage", stage, "reason",
                                  json_sprintf("no time was left: it takes about %.0f s more (--minutes)", seconds)));
  return false;
}

static void leave_out(advise *a, const char *stage, const char *reason) {
  json_array_append_new(a->left_out, json_pack("{s:s, s:s}", "stage", stage, "reason", reason));
}

/* ---- lists ---------------------------------------------------------------------------------------------------------- */

typedef struct list {
  int64_t at[MAX_LIST];
  int n;
} list;

static void append(list *l, int64_t value) {
  for (int i = 0; i < l->n; i++)
    if (l->at[i] == value) return;
  if (l->n < MAX_LIST) l->at[l->n++] = value;
}

/* 1, 2, 4, ... and the most itself, each times `unit`. */
static list doublings(int64_t most, int64_t unit) {
  list l = {0};
  for (int64_t k = 1; k < most && l.n < MAX_LIST - 1; k *= 2) append(&l, k * unit);
  append(&l, most * unit);
  return l;
}

static const char *text_of(const list *l, char buffer[160]) {
  int used = 0;
  buffer[0] = '\0';
  for (int i = 0; i < l->n; i++)
    used += snprintf(buffer + used, 160 - (size_t)used, "%s%lld", i ? "," : "", (long long)l->at[i]);
  return buffer;
}

static list worker_list(const advise *a) {
  int64_t most = a->cores < a->batch ? a->cores : a->batch;
  if (is_given(a, "workers")) {
    list one = {{strtoll(ronde_config_get(a->call->config, "workers"), NULL, 10)}, 1};
    return one;
  }
  if (is_given(a, "threads")) {
    int64_t threads = strtoll(ronde_config_get(a->call->config, "threads"), NULL, 10);
    if (threads > 0) most = a->cores / threads;
  }
  return doublings(most > 1 ? most : 1, 1);
}

static list thread_list(const advise *a) {
  int64_t most = (int64_t)tool_number(a->best, "threads");
  list l = doublings(most > 1 ? most : 1, 1);
  return l;
}

static list batch_list(const advise *a) {
  list l = {0};
  int64_t now = (int64_t)tool_number(a->best, "batch"), workers = (int64_t)tool_number(a->best, "workers");
  for (int64_t b = now / 4; b <= now * 4; b *= 2)
    if (b >= workers && b > 0 && b <= a->examples) append(&l, b);
  return l;
}

/* ---- questions ------------------------------------------------------------------------------------------------------- */

static void take(advise *a, const json_t *row) {
  json_t *best = row ? json_copy((json_t *)row) : NULL;
  if (!best) return;
  json_decref(a->best);
  a->best = best;
}

/* Keeps what the first run of a comparison says of its data. */
static void keep_data(advise *a, const char *stage, const json_t *bench) {
  char path[4700];
  const char *name = tool_string(json_array_get(json_object_get(bench, "cases"), 0), "name");
  snprintf(path, sizeof path, "%s/%s/%s-1/run.json", a->folder, stage, name);
  json_t *run = a->data ? NULL : json_load_file(path, 0, NULL);
  if (run) a->data = json_incref(json_object_get(run, "data"));
  json_decref(run);
}

/* Adds the cases of a comparison as rows [n], owned by the caller. */
static json_t *rows_of(advise *a, const char *stage, const json_t *bench) {
  json_t *rows = json_array(), *one;
  size_t i;
  json_array_foreach(json_object_get(bench, "cases"), i, one) json_array_append_new(rows, tool_advice_row(stage, one));
  json_array_extend(a->rows, rows);
  keep_data(a, stage, bench);
  return rows;
}

/* Runs a comparison of a question and returns its rows; NULL where it was left out. Takes over the command. */
static ronde_status compare(advise *a, const char *stage, json_t *command, int n, double step_s, json_t **rows_out) {
  char why[2048], text[32];
  json_t *bench = NULL;
  double steps = steps_of(a, n, step_s);
  *rows_out = NULL;
  if (!has_time(a, stage, comparison_s(a, n, steps, step_s))) {
    json_decref(command);
    return RONDE_OK;
  }
  tool_say("measuring %s: %d cases, about %s", stage, n, tool_duration(comparison_s(a, n, steps, step_s), text));
  add_number(command, "steps", steps);
  add_number(command, "rounds", ROUNDS);
  json_array_append_new(command, json_sprintf("--out=%s/%s", a->folder, stage));
  ronde_status status = run(command, &bench, why, sizeof why);
  if (status == RONDE_E_CANCELLED) return status;
  if (status) leave_out(a, stage, why);
  else *rows_out = rows_of(a, stage, bench);
  json_decref(bench);
  return RONDE_OK;
}

/* The first of a question's rows that something is compared with, and the best: "A trains ..., B ...". */
static void tell(advise *a, const char *about, const json_t *rows, const json_t *best) {
  const json_t *other = NULL, *row;
  char name[160], rate[128], other_name[160], other_rate[128];
  size_t i;
  json_array_foreach((json_t *)rows, i, row) {
    double is = tool_number(json_object_get(row, "examples_per_s"), "median"),
           most = tool_number(json_object_get(other, "examples_per_s"), "median");
    if (row != best && (!other || is > most)) other = row;
  }
  if (!other) return;
  json_array_append_new(a->texts,
                        json_sprintf("%s: %s trains %s; the fastest of the others, %s, %s.", about,
                                     tool_advice_name(best, name), tool_advice_rate(best, rate),
                                     tool_advice_name(other, other_name), tool_advice_rate(other, other_rate)));
}

/* One question about one option; the rest is as in the best row. */
static ronde_status ask(advise *a, const char *stage, const char *option, const list *values, double step_s) {
  char text[160], about[64];
  json_t *rows, *command;
  if (values->n < 2 || !a->best) return RONDE_OK;
  command = command_of(a, "compare", tool_number(a->best, "hosts") > 0);
  add_best(a, command, option, text_of(values, text));
  ronde_status status = compare(a, stage, command, values->n, step_s, &rows);
  if (status || !rows) return status;
  const json_t *best = tool_advice_pick(rows);
  bool on_hosts = tool_number(a->best, "hosts") > 0;
  if (best) snprintf(about, sizeof about, "%c%s", stage[0] - 'a' + 'A', stage + 1), tell(a, about, rows, best);
  take(a, best);
  if (on_hosts) json_object_set_new(a->best, "hosts", json_integer(a->n_hosts));
  json_decref(rows);
  return RONDE_OK;
}

/* The row of the most examples a second among those of several workers. */
static const json_t *best_of_several(const json_t *rows) {
  json_t *several = json_array(), *row;
  size_t i;
  json_array_foreach((json_t *)rows, i, row) {
    if (tool_number(row, "workers") > 1) json_array_append(several, row);
  }
  const json_t *best = tool_advice_pick(several); /* which `rows` keeps */
  json_decref(several);
  return best;
}

static double rate_of(const json_t *row) { return tool_number(json_object_get(row, "examples_per_s"), "median"); }

/* At so many workers: by short runs of every strategy that equals one worker, in one process. The best of several workers may
 * overtake one worker by it. */
static ronde_status ask_strategy(advise *a, const json_t *several, bool on_hosts) {
  char why[2048], text[32];
  json_t *said = NULL, *rows = json_array(), *one;
  const json_t *candidates = NULL, *best;
  size_t i;
  if (!has_time(a, "strategy", strategies_s(a))) {
    json_decref(rows);
    return RONDE_OK;
  }
  tool_say("measuring strategy: every one that equals one worker, about %s", tool_duration(strategies_s(a), text));
  json_t *command = command_of(a, "train", on_hosts);
  add_number(command, "workers", tool_number(several, "workers"));
  add_number(command, "threads", tool_number(several, "threads"));
  add_number(command, "batch", tool_number(several, "batch"));
  add_number(command, "steps", 1);
  add_option(command, "strategy", "measured");
  ronde_status status = run(command, &said, why, sizeof why);
  if (status && status != RONDE_E_CANCELLED) leave_out(a, "strategy", why), status = RONDE_OK;
  json_array_foreach(json_object_get(said, "choices"), i, one) {
    if (strcmp(tool_string(one, "choice"), "strategy") == 0) candidates = json_object_get(one, "candidates");
  }
  double by_default = NAN;
  json_array_foreach((json_t *)candidates, i, one) {
    json_t *row = tool_advice_candidate("strategy", several, one);
    if (row && strcmp(tool_string(one, "strategy"), tool_string(several, "strategy")) == 0) by_default = rate_of(row);
    if (row) json_array_append_new(rows, row);
  }
  json_array_extend(a->rows, rows);
  best = tool_advice_pick(rows);
  double gained = best ? rate_of(best) / by_default : NAN;
  if (best) tell(a, "Strategy", rows, best);
  if (best && tool_number(a->best, "workers") == 1 && !(ADVICE_ALIKE * rate_of(several) * gained > rate_of(a->best)))
    best = NULL; /* one worker is as fast */
  take(a, best);
  json_decref(rows);
  json_decref(said);
  return status;
}

/* How many workers, each with its share of the cores; then by which strategy. */
static ronde_status ask_workers(advise *a, bool on_hosts) {
  char text[160];
  list values = on_hosts ? doublings(a->cores, a->n_hosts) : worker_list(a);
  json_t *rows = NULL, *command = command_of(a, "compare", on_hosts);
  const char *strategy = is_given(a, "strategy") ? ronde_config_get(a->call->config, "strategy") : "auto",
             *stage = on_hosts ? "hosts" : "workers";
  if (on_hosts && is_given(a, "workers")) values = worker_list(a);
  add_option(command, "strategy", strategy);
  add_option(command, "workers", text_of(&values, text));
  add_number(command, "batch", (double)a->batch);
  if (is_given(a, "threads")) add_option(command, "threads", ronde_config_get(a->call->config, "threads"));
  if (values.n == 1) { /* a comparison needs two: with the cache and without it, of which the first counts */
    add_option(command, "exec", "graph,eager");
  }
  ronde_status status = compare(a, stage, command, values.n == 1 ? 2 : values.n, a->step_s, &rows);
  if (status || !rows) return status;
  while (values.n == 1 && json_array_size(rows) > 1) json_array_remove(rows, json_array_size(rows) - 1);
  const json_t *best = tool_advice_pick(rows), *several = best_of_several(rows);
  if (best && values.n > 1) tell(a, on_hosts ? "Workers on the hosts" : "Workers on this host", rows, best);
  if (best && (!a->best || rate_of(best) * ADVICE_ALIKE > rate_of(a->best))) {
    take(a, best);
    if (on_hosts) json_object_set_new(a->best, "hosts", json_integer(a->n_hosts));
  }
  const double HOPELESS = 0.75; /* so far behind one worker, no strategy makes up for it */
  if (several && !is_given(a, "strategy") && rate_of(several) > HOPELESS * rate_of(a->best))
    status = ask_strategy(a, several, on_hosts);
  json_decref(rows);
  return status;
}

/* ---- before: how long a step takes ------------------------------------------------------------------------------------- */

static ronde_status plan(advise *a) {
  char why[2048];
  json_t *said = NULL, *command = command_of(a, "train", false);
  double begin = tool_now_s();
  add_number(command, "batch", (double)a->batch);
  add_number(command, "steps", 100);
  json_array_append_new(command, json_string("--dry-run"));
  ronde_status status = run(command, &said, why, sizeof why);
  if (status) return status == RONDE_E_CANCELLED ? status : tool_fail(status, "%s", why);
  a->step_s = tool_number(said, "estimated_s") / tool_number(said, "steps");
  a->start_s = fmax(0.05, tool_now_s() - begin - a->step_s * tool_number(said, "estimated_from_steps"));
  a->examples = (int64_t)tool_number(said, "data_examples");
  json_decref(said);
  return isfinite(a->step_s) && a->step_s > 0 ? RONDE_OK
                                              : tool_fail(RONDE_E_INTERNAL, "advise: the dry run tells no time");
}

/* The cases that the comparisons will have, at most. */
static int count_cases(const advise *a) {
  list workers = worker_list(a);
  int n = workers.n > 1 ? workers.n : 2;
  if (a->n_hosts) n += doublings(a->cores, a->n_hosts).n;
  if (!is_given(a, "threads")) n += doublings(a->cores, 1).n;
  return is_given(a, "batch") ? n : n + 5;
}

/* A batch whose steps fit into the time: half of it takes half as long, as far as it is ours to choose. */
static ronde_status find_length(advise *a) {
  char text[32];
  ronde_status status = plan(a);
  if (status) return status;
  while (!is_given(a, "batch") && a->batch > LEAST_BATCH &&
         spent_s(a) + whole_s(a, count_cases(a), LEAST_STEPS) > a->budget_s)
    a->batch /= 2, a->step_s /= 2;
  double seconds = spent_s(a) + whole_s(a, count_cases(a), LEAST_STEPS);
  if (seconds <= OVERTIME * a->budget_s) return RONDE_OK;
  return tool_fail(RONDE_E_USAGE,
                   "--minutes %s is too short: at batch %lld a step takes about %.3g s, and all questions %s. More "
                   "--minutes, a smaller --batch, or fewer questions (--workers, --threads, --strategy) would do",
                   ronde_config_get(a->call->config, "minutes"), (long long)a->batch, a->step_s,
                   tool_duration(seconds, text));
}

/* ---- the answer ------------------------------------------------------------------------------------------------------- */

static ronde_status measure_kernels(advise *a) {
  static const char *const alike[] = {"model", "padding", "activation", "optimizer", "momentum", "dtype"};
  char why[2048], shape[64];
  ronde_option option;
  json_t *command = json_pack("[s, s, s, s, s]", "ronde", "bench", "kernels", "--json", "--quiet");
  double batch = ceil(tool_number(a->best, "batch") / tool_number(a->best, "workers"));
  for (int i = 0; ronde_config_option("bench kernels", i, &option); i++)
    for (size_t k = 0; k < sizeof alike / sizeof alike[0]; k++)
      if (strcmp(option.name, alike[k]) == 0 && is_given(a, alike[k]))
        add_option(command, alike[k], ronde_config_get(a->call->config, alike[k]));
  add_option(command, "shape", tool_shape(json_object_get(a->data, "shape"), shape));
  if (json_object_get(a->data, "classes")) add_number(command, "classes", fmax(0, tool_number(a->data, "classes")));
  add_number(command, "batch", batch);
  add_number(command, "threads", tool_number(a->best, "threads"));
  ronde_status status = run(command, &a->kernels, why, sizeof why);
  if (status && status != RONDE_E_CANCELLED) leave_out(a, "kernels", why), status = RONDE_OK;
  return status;
}

static json_t *options_of(const advise *a) {
  json_t *options = json_array();
  bool on_hosts = tool_number(a->best, "hosts") > 0;
  if (on_hosts && is_given(a, "hosts")) add_option(options, "hosts", ronde_config_get(a->call->config, "hosts"));
  add_number(options, "workers", tool_number(a->best, "workers"));
  add_number(options, "threads", tool_number(a->best, "threads"));
  add_option(options, "strategy", tool_string(a->best, "strategy"));
  add_number(options, "batch", tool_number(a->best, "batch"));
  return options;
}

/* The answer first: the sentences of the questions stand behind it. */
static json_t *answer(advise *a) {
  char name[160], rate[128];
  json_t *limit = tool_advice_limit(a->best, a->kernels), *texts = json_array();
  json_array_append_new(
      texts, json_sprintf("Take %s: it trains %s.", tool_advice_name(a->best, name), tool_advice_rate(a->best, rate)));
  json_array_append_new(texts, json_string(tool_string(limit, "text")));
  json_array_extend(texts, a->texts);
  if (!is_given(a, "batch"))
    json_array_append_new(texts,
                          json_string("The batch is the smallest that is as fast as the fastest, to 5 %: a larger "
                                      "one makes fewer updates of an epoch, and may need more epochs."));
  json_t *command = tool_words_json(a->call->argv);
  return json_pack("{s:s, s:o, s:o, s:o, s:o, s:O, s:O, s:f, s:o}", "schema", "ronde.advice.v1", "advice", texts,
                   "take", json_deep_copy(a->best), "options", options_of(a), "limit", limit, "measured", a->rows,
                   "left_out", a->left_out, "seconds", spent_s(a), "command", command);
}

static void print_advice(const json_t *advice) {
  static const tool_column columns[] = {
      {"question", TOOL_CELL_TEXT, "stage", 0, 1},
      {"strategy", TOOL_CELL_TEXT, "strategy", 0, 1},
      {"workers", TOOL_CELL_COUNT, "workers", 0, 1},
      {"threads", TOOL_CELL_COUNT, "threads", 0, 1},
      {"batch", TOOL_CELL_COUNT, "batch", 0, 1},
      {"examples/s", TOOL_CELL_COUNT, "examples_per_s.median", 0, 1},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "examples_per_s", 0, 1},
      {"ms a step", TOOL_CELL_NUMBER, "step_s", 3, 1e3},
      {"load", TOOL_CELL_NUMBER, "load_s", 3, 1e3},
      {"compute", TOOL_CELL_NUMBER, "compute_s", 3, 1e3},
      {"exchange", TOOL_CELL_NUMBER, "exchange_s", 3, 1e3},
      {"waiting", TOOL_CELL_NUMBER, "wait_s", 3, 1e3},
  };
  const json_t *one;
  size_t i;
  json_array_foreach(json_object_get(advice, "advice"), i, one) printf("%s\n", json_string_value(one));
  printf("\n  ");
  json_array_foreach(json_object_get(advice, "options"), i, one) printf("%s%s", i ? " " : "", json_string_value(one));
  printf("\n\n");
  tool_table(json_object_get(advice, "measured"), columns, sizeof columns / sizeof columns[0]);
  json_array_foreach(json_object_get(advice, "left_out"), i, one)
      printf("left out: %s: %s\n", tool_string(one, "stage"), tool_string(one, "reason"));
}

static ronde_status show(advise *a) {
  char path[4100];
  json_t *advice = answer(a);
  char *text = advice ? json_dumps(advice, JSON_INDENT(2)) : NULL;
  ronde_status status = text ? RONDE_OK : tool_fail(RONDE_E_MEMORY, "advise: no memory for the advice");
  snprintf(path, sizeof path, "%s/advice.json", a->folder);
  if (!status && !a->is_temporary && json_dump_file(advice, path, JSON_INDENT(2)))
    status = tool_fail(RONDE_E_WRITE, "%s: cannot write: %s", path, strerror(errno));
  json_decref(advice);
  if (!status) return tool_print_result(a->call, text, print_advice);
  free(text);
  return status;
}

/* ---- the verb ---------------------------------------------------------------------------------------------------------- */

static ronde_status check_options(const tool_call *call) {
  static const char *const none[] = {
      "steps",    "epochs",           "save",       "resume",  "dry-run",    "trace", "record-spans", "target-accuracy",
      "patience", "checkpoint-every", "mlperf-log", "on-loss", "local-batch"};
  static const char *const asked[] = {"workers", "threads", "strategy", "batch"};
  bool is_open = false;
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
    if (ronde_config_is_given(call->config, none[i]))
      return tool_fail(RONDE_E_USAGE, "--%s can have no effect: advise measures short runs of its own%s", none[i],
                       strcmp(none[i], "local-batch") == 0 ? "; --batch fixes the batch" : "");
  for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) is_open |= !ronde_config_is_given(call->config, asked[i]);
  if (!is_open)
    return tool_fail(RONDE_E_USAGE,
                     "nothing is left to advise on: --workers, --threads, --strategy and --batch are all given");
  if (strcmp(ronde_config_get(call->config, "strategy"), "measured") == 0)
    return tool_fail(RONDE_E_USAGE, "--strategy measured can have no effect: without --strategy, advise measures them");
  return RONDE_OK;
}

static ronde_status make_folder(advise *a) {
  const char *out = ronde_config_get(a->call->config, "out"), *temporary = getenv("TMPDIR");
  bool overwrites = strcmp(ronde_config_get(a->call->config, "overwrite"), "on") == 0;
  char path[4100], shown[TOOL_SHOWN];
  a->is_temporary = !out || !*out;
  if (a->is_temporary) {
    snprintf(a->folder, sizeof a->folder, "%s/ronde-advise-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    return mkdtemp(a->folder) ? RONDE_OK
                              : tool_fail(RONDE_E_WRITE, "%s: cannot make a folder: %s", a->folder, strerror(errno));
  }
  snprintf(a->folder, sizeof a->folder, "%s", out);
  if (mkdir(out, 0777) && errno != EEXIST)
    return tool_fail(RONDE_E_WRITE, "%s: cannot make the folder: %s", out, strerror(errno));
  snprintf(path, sizeof path, "%s/advice.json", out);
  if (access(path, F_OK) || overwrites) return RONDE_OK;
  return tool_fail(RONDE_E_USAGE, "--out %s holds another advice: --overwrite replaces it", tool_shown(out, shown));
}

static ronde_status ask_all(advise *a) {
  ronde_status status = find_length(a);
  if (!status) status = ask_workers(a, false);
  if (!status && a->n_hosts) status = ask_workers(a, true);
  if (!status && !a->best) {
    const json_t *first = json_array_get(a->left_out, 0);
    return tool_fail(RONDE_E_INPUT, "advise: nothing could be measured: %s", tool_string(first, "reason"));
  }
  list threads = !status ? thread_list(a) : (list){0};
  if (!status && !is_given(a, "threads")) status = ask(a, "threads", "threads", &threads, a->step_s);
  list batches = !status ? batch_list(a) : (list){0};
  if (!status && !is_given(a, "batch")) status = ask(a, "batch", "batch", &batches, 1.5 * a->step_s);
  return status ? status : measure_kernels(a);
}

ronde_status tool_advise(const tool_call *call) {
  advise a = {.call = call,
              .begin_s = tool_now_s(),
              .budget_s = 60 * strtod(ronde_config_get(call->config, "minutes"), NULL),
              .batch = strtoll(ronde_config_get(call->config, "batch"), NULL, 10),
              .cores = ronde_host_load_since(NULL).cores};
  tool_hosts hosts = {0};
  ronde_status status = check_options(call);
  if (!status) status = tool_hosts_get(call, &hosts);
  a.n_hosts = hosts.n > 1 ? hosts.n : 0;
  if (!status) status = make_folder(&a);
  if (status) {
    tool_hosts_free(&hosts);
    return status;
  }
  a.rows = json_array(), a.left_out = json_array(), a.texts = json_array();
  tool_environment_forget();
  tool_signals_watch();
  tool_warn_of_load();
  status = ask_all(&a);
  if (!status) status = show(&a);
  if (status == RONDE_E_CANCELLED) tool_fail(status, "interrupted: there is no advice yet");
  if (a.is_temporary) tool_folder_remove(a.folder);
  tool_hosts_free(&hosts);
  json_decref(a.rows);
  json_decref(a.left_out);
  json_decref(a.texts);
  json_decref(a.best);
  json_decref(a.kernels);
  json_decref(a.data);
  return status;
}
