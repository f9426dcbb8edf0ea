/* ronde bench step: one training step of Ronde beside the same step of other systems, as living processes that are
 * alternated in rounds. Systems whose work differs are not ranked. */
#include "bench_step.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What was fastest somewhere: the fastest here counts. A script leaves itself out where the machine lacks what it
 * needs. */
static const struct {
  const char *peer, *variant, *script, *options[2];
  bool bf16; /* beside a Ronde that multiplies in bfloat16; the others are f32 */
} variants[] = {
    {"pytorch", "", "pytorch_step.py", {NULL}, false},
    {"pytorch", "channels-last", "pytorch_step.py", {"--channels-last"}, false},
    {"pytorch", "bf16", "pytorch_step.py", {"--bf16"}, true},
    {"pytorch", "channels-last bf16", "pytorch_step.py", {"--channels-last", "--bf16"}, true},
    {"tensorflow", "", "tensorflow_step.py", {NULL}, false},
    {"tensorflow", "tcmalloc", "tensorflow_step.py", {"--tcmalloc"}, false},
    {"tensorflow", "bf16", "tensorflow_step.py", {"--bf16"}, true},
    {"tensorflow", "tcmalloc bf16", "tensorflow_step.py", {"--tcmalloc", "--bf16"}, true},
    {"mxnet", "", "mxnet_step.py", {NULL}, false},
    /* The other way of executing it, where the peer's name asks for that: it was never the fastest here. */
    {"pytorch-compiled", "", "pytorch_step.py", {"--compile"}, false},
    {"tensorflow-eager", "", "tensorflow_step.py", {"--eager"}, false},
};
enum { N_VARIANTS = sizeof variants / sizeof variants[0] };
_Static_assert(N_VARIANTS + 1 <= TOOL_MAX_SYSTEMS, "each variant is a system, beside Ronde");

typedef struct bench {
  const tool_call *call;
  tool_system systems[TOOL_MAX_SYSTEMS];
  tool_system in_f32; /* the losses of Ronde's own work in f32, where it is measured in bfloat16; else without a name */
  int n, rounds;
  ronde_measurement *record;
  char file[4200]; /* weights and the batch, for the peers; "": none yet */
} bench;

static const char *step_option(const bench *b, const char *name) { return ronde_config_get(b->call->config, name); }

/* ---- being one of them ---- */

static ronde_status answer_go(ronde_stepper *stepper, int64_t n) {
  double loss, *seconds = calloc((size_t)n, sizeof *seconds);
  if (!seconds) return tool_fail(RONDE_E_MEMORY, "bench step: no memory for %lld times", (long long)n);
  ronde_status status = ronde_stepper_run(stepper, n, seconds, &loss);
  if (!status) {
    printf("{\"seconds\": [");
    for (int64_t i = 0; i < n; i++) printf("%s%.9f", i ? ", " : "", seconds[i]);
    printf("], \"loss\": %.9g, \"peak_rss_bytes\": %lld}\n", loss, (long long)ronde_peak_rss_bytes());
    status = tool_flush();
  }
  free(seconds);
  return status;
}

static ronde_status serve_steps(const tool_call *call) {
  ronde_stepper *stepper;
  char *about = NULL, line[64];
  ronde_status status = ronde_stepper_create(call->config, &stepper);
  if (status) return status;
  status = ronde_stepper_describe(stepper, &about);
  if (!status) printf("%s\n", about);
  free(about);
  if (!status) status = tool_flush();
  while (!status && fgets(line, sizeof line, stdin)) {
    char *end;
    long long n = strncmp(line, "go ", 3) == 0 ? strtoll(line + 3, &end, 10) : 0;
    if (n < 1 || n > 1000000 || *end != '\n')
      status = tool_fail(RONDE_E_INPUT, "standard input: expected 'go N' with N from 1 to 1000000, not %s", line);
    else status = answer_go(stepper, n);
  }
  ronde_stepper_destroy(stepper);
  return status;
}

/* ---- the systems ---- */

/* What Ronde and the peers are told alike. */
static void add_work_options(const bench *b, json_t *command, bool is_peer) {
  static const char *const names[] = {"model", "classes", "shape", "padding", "batch", "optimizer", "momentum", "seed"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *value = step_option(b, names[i]);
    bool is_ours = strcmp(names[i], "seed") == 0 || strcmp(names[i], "classes") == 0 || strcmp(names[i], "shape") == 0;
    bool open = !*value || strcmp(value, "0") == 0 || strcmp(value, "same") == 0;
    if ((is_peer && is_ours) || open) continue;
    json_array_append_new(command, json_sprintf("--%s=%s", names[i], value));
  }
}

static void set_ronde(const bench *b, const char *dtype, tool_system *system) {
  *system = (tool_system){.name = "ronde",
                          .command = json_pack("[s, s, s, s]", "/proc/self/exe", "bench", "step", "--serve")};
  add_work_options(b, system->command, false);
  json_array_append_new(system->command, json_sprintf("--threads=%s", step_option(b, "threads")));
  json_array_append_new(system->command, json_sprintf("--lr=%s", step_option(b, "lr")));
  json_array_append_new(system->command, json_sprintf("--dtype=%s", dtype));
}

/* The threads of Ronde, resolved, are the peers'. */
static ronde_status add_peer(bench *b, int variant, double lr, int threads) {
  tool_system *system = &b->systems[b->n];
  const char *folder = step_option(b, "peers-dir"), *peer = variants[variant].peer, *kind = variants[variant].variant;
  char python[4300];
  snprintf(python, sizeof python, "%s/%.*s/bin/python", folder, (int)strcspn(peer, "-"), peer);
  if (access(python, X_OK))
    return tool_fail(RONDE_E_INPUT, "%s: %s: install the peers by `make peers`, and name their folder by --peers-dir",
                     python, strerror(errno));
  *system = (tool_system){.peer = peer, .variant = kind};
  snprintf(system->name, sizeof system->name, "%s%s%s", peer, *kind ? " " : "", kind);
  system->command =
      json_pack("[s, o, o, o, o]", python, json_sprintf("%s/scripts/%s", folder, variants[variant].script),
                json_sprintf("--file=%s", b->file), json_sprintf("--threads=%d", threads), json_sprintf("--lr=%g", lr));
  add_work_options(b, system->command, true);
  for (int i = 0; i < 2 && variants[variant].options[i]; i++)
    json_array_append_new(system->command, json_string(variants[variant].options[i]));
  bool absent;
  ronde_status status = tool_system_start(system, &absent);
  b->n += !status && !absent;
  return status;
}

static ronde_status check_peers(const char *list) {
  for (size_t n; *list; list += n + (list[n] == ',')) {
    n = strcspn(list, ",");
    bool known = false;
    for (int i = 0; i < N_VARIANTS; i++)
      known |= strlen(variants[i].peer) == n && strncmp(variants[i].peer, list, n) == 0;
    if (!known)
      return tool_fail(RONDE_E_USAGE,
                       "--peers: '%.*s' is not pytorch, pytorch-compiled, tensorflow, tensorflow-eager or mxnet",
                       (int)n, list);
  }
  return RONDE_OK;
}

static ronde_status check_step_options(const bench *b) {
  const char *optimizer = step_option(b, "optimizer");
  if (!*step_option(b, "peers")) {
    if (strcmp(step_option(b, "peers-dir"), "peers") == 0 || !*step_option(b, "peers-dir")) return RONDE_OK;
    return tool_fail(RONDE_E_USAGE, "--peers-dir can have no effect without --peers");
  }
  if (strcmp(optimizer, "sgd") != 0 && strcmp(optimizer, "adam") != 0)
    return tool_fail(RONDE_E_USAGE, "--optimizer %s: the peers are measured with sgd or adam", optimizer);
  return check_peers(step_option(b, "peers"));
}

/* The peers start from Ronde's weights on Ronde's batch. */
static ronde_status save_work(bench *b) {
  const char *temporary = getenv("TMPDIR");
  ronde_stepper *stepper;
  ronde_status status = ronde_stepper_create(b->call->config, &stepper);
  if (status) return status;
  snprintf(b->file, sizeof b->file, "%s/ronde-bench-XXXXXX", temporary && *temporary ? temporary : "/tmp");
  int fd = mkstemp(b->file);
  if (fd < 0) {
    status = tool_fail(RONDE_E_WRITE, "%s: cannot make a file: %s", b->file, strerror(errno));
    b->file[0] = '\0';
  } else {
    close(fd);
    status = ronde_stepper_save(stepper, b->file);
  }
  ronde_stepper_destroy(stepper);
  return status;
}

static ronde_status make_in_f32(bench *b) {
  tool_system made;
  bool absent;
  set_ronde(b, "f32", &made);
  ronde_status status = tool_system_start(&made, &absent);
  b->in_f32 = (tool_system){.name = "ronde in f32", .losses = {made.losses[0], made.losses[1]}};
  tool_system_end(&made);
  return status;
}

static ronde_status start_systems(bench *b) {
  const char *peers = step_option(b, "peers");
  bool absent;
  set_ronde(b, step_option(b, "dtype"), &b->systems[b->n++]);
  ronde_status status = tool_system_start(&b->systems[0], &absent);
  if (status || !*peers) return status;
  double lr = tool_number(b->systems[0].about, "lr");
  int threads = (int)tool_number(b->systems[0].about, "threads");
  bool bf16 = strcmp(tool_string(b->systems[0].about, "dtype"), "bf16") == 0;
  if (bf16) status = make_in_f32(b);
  if (!status) status = save_work(b);
  for (int i = 0; i < N_VARIANTS && !status; i++)
    if (tool_is_listed(peers, variants[i].peer) && (bf16 || !variants[i].bf16))
      status = tool_signal() ? RONDE_E_CANCELLED : add_peer(b, i, lr, threads);
  return status;
}

/* ---- rounds ---- */

/* Steps that take half a second, at least three; then they are made once, unmeasured. */
static ronde_status warm_up_system(tool_system *system, int64_t wanted, int64_t *n_out) {
  enum { WARM_UP = 3 };
  double seconds[WARM_UP];
  ronde_statistics statistics;
  ronde_status status = tool_system_go(system, WARM_UP, seconds);
  if (!status) status = ronde_statistics_of_rounds(seconds, WARM_UP, &statistics);
  if (status) return status;
  double fits = 0.5 / statistics.median;
  *n_out = wanted ? wanted : fits < WARM_UP ? WARM_UP : fits > 10000 ? 10000 : (int64_t)fits;
  return tool_system_go(system, *n_out, NULL);
}

static void say_round(const bench *b, int round) {
  char line[512];
  size_t used = (size_t)snprintf(line, sizeof line, "round %d/%d", round + 1, b->rounds);
  for (int i = 0; i < b->n && used < sizeof line; i++)
    used += (size_t)snprintf(line + used, sizeof line - used, "  %s %.3f ms", b->systems[i].name,
                             1e3 * ronde_measurement_last(b->record, i, "round_s"));
  tool_say("%s", line);
}

static ronde_status run_steps(bench *b, int at, int64_t n, int round) {
  double *seconds = calloc((size_t)n, sizeof *seconds), median;
  if (!seconds) return tool_fail(RONDE_E_MEMORY, "bench step: no memory for %lld times", (long long)n);
  ronde_status status = tool_system_go(&b->systems[at], n, seconds);
  if (!status) status = ronde_measurement_add_samples(b->record, at, "step_s", round, seconds, n);
  median = ronde_measurement_last(b->record, at, "step_s");
  if (!status) status = ronde_measurement_add_samples(b->record, at, "round_s", round, &median, 1);
  free(seconds);
  return status;
}

/* Each round begins with another system, so that none is always the first. */
static ronde_status run_step_rounds(bench *b) {
  int64_t wanted = atoll(step_option(b, "steps")), n[TOOL_MAX_SYSTEMS];
  ronde_status status = RONDE_OK;
  for (int i = 0; i < b->n && !status; i++) status = warm_up_system(&b->systems[i], wanted, &n[i]);
  for (int round = 0; round < b->rounds && !status; round++) {
    for (int i = 0; i < b->n && !status; i++) {
      int at = (round + i) % b->n;
      status = tool_signal() ? RONDE_E_CANCELLED : run_steps(b, at, n[at], round);
    }
    if (!status) say_round(b, round);
  }
  return status ? status : tool_step_rank(b->systems, b->n, b->record);
}

/* Work that differs is not worth being timed. */
static ronde_status measure_systems(bench *b) {
  ronde_measurement_begin(b->record);
  ronde_status status = start_systems(b);
  if (!status) status = tool_bench_set(b->record, RONDE_WHOLE, "rounds", json_integer(b->rounds));
  if (!status) status = tool_step_record(b->systems, b->n, *b->in_f32.name ? &b->in_f32 : NULL, b->record);
  bool is_same = !status && !ronde_measurement_difference(b->record);
  if (is_same) status = run_step_rounds(b);
  for (int i = 0; i < b->n; i++) tool_system_end(&b->systems[i]);
  if (is_same) ronde_measurement_end(b->record);
  return status;
}

static ronde_status report_systems(const bench *b) {
  const char *out = step_option(b, "out"), *difference = ronde_measurement_difference(b->record);
  ronde_status status = *out ? ronde_measurement_write(b->record, out) : RONDE_OK;
  if (!status) status = tool_bench_show(b->call, b->record, tool_step_print);
  if (!status && difference)
    status = tool_fail(RONDE_E_DIFFERENCE, "not ranked, as the systems do not do the same work: %s", difference);
  return status;
}

ronde_status tool_bench_step(const tool_call *call) {
  bench b = {.call = call, .rounds = atoi(ronde_config_get(call->config, "rounds"))};
  if (strcmp(step_option(&b, "serve"), "on") == 0) return serve_steps(call);
  ronde_status status = check_step_options(&b);
  if (!status) status = ronde_measurement_create("bench step", &b.record);
  if (status) return status;
  tool_signals_start(0);
  status = measure_systems(&b);
  if (!status) status = report_systems(&b);
  ronde_measurement_destroy(b.record);
  if (b.file[0]) unlink(b.file);
  if (status == RONDE_E_CANCELLED) tool_fail(status, "interrupted: the measurement is incomplete");
  return status;
}
