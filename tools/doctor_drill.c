/* ronde doctor --drill: a small training on these hosts, once undisturbed and once for each fault that --drill of train can
 * plant, and how each of them ended: gone on with, after a restart or by --resume, to the bits of the undisturbed one. */
#include "compare.h"
#include "doctor_drill.h"
#include "reach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a fault should lead to. */
typedef enum drill_way {
  GOES_ON,   /* the run itself comes to its end, after a restart if need be */
  IS_RESUMED /* it ends, names the cause, and goes on by --resume */
} drill_way;

typedef struct drill {
  const char *fault, *more; /* further options, or NULL */
  drill_way way;
  int code; /* with which the run with the fault ends */
} drill;

#define TRAINING                                                                                                 \
  "--model=lenet5", "--data=synthetic:1x28x28:10:600", "--batch=50", "--epochs=2", "--seed=1", "--no-save-best", \
      "--checkpoint-every=5", "--json", "--quiet"

static const drill drills[] = {
    {"kill:1@18", "--on-loss=restart", GOES_ON, 0},
    {"kill:0@18", "--on-loss=restart", GOES_ON, 0},
    {"kill:1@18", NULL, IS_RESUMED, 4},
    {"stop:1@18:0.5", NULL, GOES_ON, 0},
    {"stop:1@18", "--timeout=3", IS_RESUMED, 4},
    {"corrupt:1@18", NULL, IS_RESUMED, 5},
    {"oom:1@18", NULL, IS_RESUMED, 6},
    {"disk-full@18", NULL, IS_RESUMED, 6},
    {"slow-disk:5", NULL, GOES_ON, 0},
};

/* Options of the doctor's that a drill hands on. */
static const char *const handed_on[] = {"hosts", "hostfile", "iface", "workers", "threads", "lost-after"};

typedef struct rehearsal {
  const tool_call *call;
  char folder[256];
  json_t *rows;
  char weights[80]; /* of the undisturbed run */
} rehearsal;

static bool is_handed_on(const char *name) {
  for (size_t i = 0; i < sizeof handed_on / sizeof *handed_on; i++)
    if (!strcmp(name, handed_on[i])) return true;
  return false;
}

static ronde_status check_options(const tool_call *call) {
  ronde_option option;
  if (tool_is_launched())
    return tool_fail(RONDE_E_USAGE, "--drill starts its ranks itself: run it without mpirun or srun");
  for (int i = 0; ronde_config_option("doctor", i, &option); i++)
    if (ronde_config_is_given(call->config, option.name) && !is_handed_on(option.name) &&
        strcmp(option.name, "drill") && strcmp(option.name, "transport"))
      return tool_fail(RONDE_E_USAGE, "--%s can have no effect with --drill, which trains a small network of its own",
                       option.name);
  if (!strcmp(ronde_config_get(call->config, "transport"), "threads"))
    return tool_fail(RONDE_E_USAGE, "--transport threads: drills end single processes, and threads are one process");
  return RONDE_OK;
}

/* ---- runs --------------------------------------------------------------------------------------------------------- */

static json_t *command_of(const rehearsal *r, int number) {
  static const char *const training[] = {TRAINING};
  const ronde_config *config = r->call->config;
  json_t *command = json_pack("[s, s]", "ronde", "train");
  for (size_t i = 0; i < sizeof training / sizeof *training; i++)
    json_array_append_new(command, json_string(training[i]));
  bool hosts = ronde_config_is_given(config, "hosts") || ronde_config_is_given(config, "hostfile");
  for (size_t i = 0; i < sizeof handed_on / sizeof *handed_on; i++)
    if (ronde_config_is_given(config, handed_on[i]))
      json_array_append_new(command, json_sprintf("--%s=%s", handed_on[i], ronde_config_get(config, handed_on[i])));
  if (!ronde_config_is_given(config, "threads")) json_array_append_new(command, json_string("--threads=1"));
  if (!hosts) json_array_append_new(command, json_string("--transport=mpi"));
  if (!hosts && !ronde_config_is_given(config, "workers")) json_array_append_new(command, json_string("--workers=2"));
  json_array_append_new(command, json_sprintf("--out=%s/%d", r->folder, number));
  return command;
}

/* The first error, without the words that all have in front. */
static void read_first_error(FILE *errors, char *text, size_t size) {
  static const char prefix[] = "ronde: error: ";
  char line[2048];
  *text = 0;
  rewind(errors);
  while (!*text && fgets(line, sizeof line, errors)) {
    line[strcspn(line, "\n")] = 0;
    if (!strncmp(line, prefix, sizeof prefix - 1)) snprintf(text, size, "%s", line + sizeof prefix - 1);
  }
}

static ronde_status run_once(const json_t *command, json_t **run_out, char *error, size_t size) {
  FILE *errors = tmpfile();
  if (!errors) return tool_fail(RONDE_E_WRITE, "doctor: cannot make a temporary file");
  *run_out = NULL;
  ronde_status status = tool_case_run(command, errors, run_out);
  read_first_error(errors, error, size);
  fclose(errors);
  return status;
}

static const char *weights_of(const json_t *run) {
  const char *sha256 = json_string_value(json_object_get(json_object_get(run, "result"), "weights_sha256"));
  return sha256 ? sha256 : "";
}

static ronde_status run_undisturbed(rehearsal *r) {
  json_t *command = command_of(r, 0), *run;
  char error[2048];
  ronde_status status = run_once(command, &run, error, sizeof error);
  json_decref(command);
  if (status)
    return tool_fail(status, "the undisturbed training has failed: %s", *error ? error : "no reason was given");
  snprintf(r->weights, sizeof r->weights, "%s", weights_of(run));
  json_int_t workers = json_integer_value(json_object_get(json_object_get(run, "world"), "workers"));
  json_decref(run);
  if (workers < 2) return tool_fail(RONDE_E_USAGE, "--drill needs two workers at least: give more hosts, or --workers");
  return RONDE_OK;
}

/* With its fault, and again by --resume if that is the way; row_out as it is printed. */
static void rehearse(const rehearsal *r, int number, json_t **row_out) {
  const drill *d = &drills[number - 1];
  json_t *command = command_of(r, number), *run = NULL;
  char error[2048], more[2048] = "";
  json_t *plain = json_deep_copy(command);
  json_array_append_new(command, json_sprintf("--drill=%s", d->fault));
  if (d->more) json_array_append_new(command, json_string(d->more));
  double begin_s = tool_now_s();
  ronde_status status = run_once(command, &run, error, sizeof error);
  double wall_s = tool_now_s() - begin_s;
  int code = ronde_status_exit_code(status);
  bool as_meant = code == d->code;
  json_array_append_new(plain, json_string("--resume=auto"));
  if (as_meant && d->way == IS_RESUMED && !tool_signal()) status = run_once(plain, &run, more, sizeof more);
  bool same = run && !strcmp(weights_of(run), r->weights);
  const json_t *restart = json_array_get(json_object_get(run, "restarts"), 0);
  const json_t *lost = restart ? json_object_get(restart, "steps_lost") : NULL;
  bool survived = as_meant && status == RONDE_OK && same;
  const char *how = !survived              ? (run && !same ? "other bits"
                                              : *more      ? more
                                                           : "did not end as it should")
                    : d->way == IS_RESUMED ? "resumed"
                    : restart              ? "restarted"
                                           : "went on";
  *row_out = json_pack("{s:s, s:s, s:b, s:s, s:i, s:f, s:s, s:O}", "fault", d->fault, "options", d->more ? d->more : "",
                       "survived", survived, "how", how, "exit_code", code, "wall_s", wall_s, "error", error,
                       "steps_lost", json_is_integer(lost) ? lost : json_null());
  json_object_set_new(*row_out, "verdict", json_string(survived ? "yes" : "NO"));
  json_decref(command), json_decref(plain), json_decref(run);
}

/* ---- the result --------------------------------------------------------------------------------------------------- */

static void print_drills(const json_t *result) {
  static const tool_column columns[] = {
      {"fault", TOOL_CELL_TEXT, "fault", 0, 1},
      {"options", TOOL_CELL_TEXT, "options", 0, 1},
      {"survived", TOOL_CELL_TEXT, "verdict", 0, 1},
      {"how", TOOL_CELL_TEXT, "how", 0, 1},
      {"exit code", TOOL_CELL_NUMBER, "exit_code", 0, 1},
      {"steps lost", TOOL_CELL_NUMBER, "steps_lost", 0, 1},
      {"s", TOOL_CELL_NUMBER, "wall_s", 1, 1},
  };
  const json_t *rows = json_object_get(result, "drills"), *row;
  size_t i;
  tool_table(rows, columns, sizeof columns / sizeof columns[0]);
  printf("\n");
  json_array_foreach(rows, i, row) if (*tool_string(row, "error"))
      printf("%s: %s\n", tool_string(row, "fault"), tool_string(row, "error"));
}

static ronde_status report(const rehearsal *r) {
  int n_failed = 0;
  size_t i;
  json_t *row;
  json_array_foreach(r->rows, i, row) n_failed += !json_is_true(json_object_get(row, "survived"));
  json_t *result = json_pack("{s:s, s:O}", "schema", "ronde.drills.v1", "drills", r->rows);
  char *text = json_dumps(result, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
  json_decref(result);
  if (!text) return tool_fail(RONDE_E_MEMORY, "no memory for the result");
  ronde_status status = tool_print_result(r->call, text, print_drills);
  if (status == RONDE_OK && n_failed)
    status =
        tool_fail(RONDE_E_DIFFERENCE, "%d of %zu faults were not survived here", n_failed, json_array_size(r->rows));
  return status;
}

/* The runs' folders are on the first host. */
static void remove_folders(const rehearsal *r) {
  char command[300];
  tool_hosts hosts;
  snprintf(command, sizeof command, "rm -rf %s", r->folder);
  if (system(command)) tool_say("%s is left behind", r->folder);
  if (tool_hosts_get(r->call, &hosts) == RONDE_OK && hosts.n) tool_ask_host(hosts.at[0].name, command);
  tool_hosts_free(&hosts);
}

static ronde_status rehearse_all(rehearsal *r) {
  ronde_status status = run_undisturbed(r);
  int n = (int)(sizeof drills / sizeof *drills);
  for (int i = 1; i <= n && status == RONDE_OK; i++) {
    json_t *row;
    tool_say("drill %d of %d: %s %s", i, n, drills[i - 1].fault, drills[i - 1].more ? drills[i - 1].more : "");
    rehearse(r, i, &row);
    json_array_append_new(r->rows, row);
    if (tool_signal()) status = tool_fail(RONDE_E_CANCELLED, "interrupted after %d of %d drills", i, n);
  }
  return status == RONDE_OK ? report(r) : status;
}

ronde_status tool_doctor_drill(const tool_call *call) {
  static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/_.-";
  const char *temporary = getenv("TMPDIR");
  rehearsal r = {.call = call};
  /* A shell reads the name, here and on the first host. */
  bool usable = temporary && *temporary == '/' && strlen(temporary) < 200 && !temporary[strspn(temporary, plain)];
  snprintf(r.folder, sizeof r.folder, "%s/ronde-drills-XXXXXX", usable ? temporary : "/tmp");
  ronde_status status = check_options(call);
  if (status) return status;
  if (!mkdtemp(r.folder)) return tool_fail(RONDE_E_WRITE, "%s: cannot make a folder", r.folder);
  tool_signals_watch();
  r.rows = json_array();
  status = rehearse_all(&r);
  remove_folders(&r);
  json_decref(r.rows);
  return status;
}
