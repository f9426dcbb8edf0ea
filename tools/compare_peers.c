/* The peers of a comparison (`compare --peers`): trainings of other systems by several workers, each started by bench/peers/cluster.py,
 * which leaves what it measured as `ronde train` does. */
#include "compare.h"

#include "audit.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
  const char *peer, *system;
} systems[] = {
    {"pytorch", "pytorch-ddp"},      {"tensorflow", "tensorflow-mirrored"},
    {"tensorflow", "tensorflow-ps"}, {"mxnet", "mxnet-sync"},
    {"mxnet", "mxnet-async"},        {"tensorflow-replicas", "tensorflow-replicas"},
};
enum { N_SYSTEMS = sizeof systems / sizeof systems[0] };
_Static_assert((int)N_SYSTEMS <= (int)TOOL_MAX_PEERS, "each may be a case");

const char *tool_peer_system(const char *peer, size_t length, int i) {
  for (int s = 0; s < N_SYSTEMS; s++)
    if (strlen(systems[s].peer) == length && strncmp(systems[s].peer, peer, length) == 0 && i-- == 0)
      return systems[s].system;
  return NULL;
}

void tool_peer_missing(const char *folder, const char *peer, char *why, size_t bytes) {
  char path[4500], line[512] = "";
  why[0] = '\0';
  int name = (int)strcspn(peer, "-");
  snprintf(path, sizeof path, "%s/%.*s/missing", folder, name, peer); /* scripts/peers.sh leaves it */
  FILE *file = fopen(path, "r");
  if (file && fgets(line, sizeof line, file)) snprintf(why, bytes, "%.*s", (int)strcspn(line, "\n"), line);
  if (file) fclose(file);
  snprintf(path, sizeof path, "%s/%.*s/bin/python", folder, name, peer);
  if (!*why && access(path, X_OK)) snprintf(why, bytes, "there is no %s (make peers)", path);
}

ronde_status tool_peers_check(const tool_call *call) {
  const char *list = ronde_config_get(call->config, "peers");
  if (!*list && ronde_config_is_given(call->config, "peers-dir"))
    return tool_fail(RONDE_E_USAGE, "--peers-dir can have no effect without --peers");
  for (size_t n; *list; list += n + (list[n] == ',')) {
    n = strcspn(list, ",");
    if (!tool_peer_system(list, n, 0))
      return tool_fail(RONDE_E_USAGE, "--peers: '%.*s' is not pytorch, tensorflow, tensorflow-replicas or mxnet",
                       (int)n, list);
  }
  if (!*ronde_config_get(call->config, "peers")) return RONDE_OK;
  if (call->scaling.batch)
    return tool_fail(RONDE_E_USAGE, "--peers and --scaling contradict each other: take one of them");
  if (call->n_axes == TOOL_MAX_AXES)
    return tool_fail(RONDE_E_USAGE, "--peers: the systems are one more list, and at most %d are possible",
                     TOOL_MAX_AXES);
  if (*ronde_config_get(call->config, "resume"))
    return tool_fail(RONDE_E_USAGE, "--peers and --resume contradict each other: peers begin with fresh weights");
  return RONDE_OK;
}

static void leave_out(tool_cases *cases, const char *name, const char *reason) {
  json_array_append_new(cases->left_out, json_pack("{s:s, s:s}", "name", name, "reason", reason));
  tool_say("left out: %s: %s", name, reason);
}

/* Two steps, so that what a peer cannot do is known before anything is measured. */
static ronde_status try_peer(const tool_call *call, tool_case *one, char *why, size_t bytes) {
  const char *temporary = getenv("TMPDIR");
  char folder[4200];
  json_t *command, *run = NULL;
  snprintf(folder, sizeof folder, "%s/ronde-peer-XXXXXX", temporary && *temporary ? temporary : "/tmp");
  if (!mkdtemp(folder)) return tool_fail(RONDE_E_WRITE, "%s: cannot make a folder: %s", folder, strerror(errno));
  ronde_status status = tool_case_command(call, one, folder, &command);
  if (!status) {
    json_array_append_new(command, json_string("--steps=2"));
    status = tool_case_try(command, &run, why, bytes);
    json_decref(command);
  }
  tool_folder_remove(folder);
  json_decref(run);
  return status;
}

static ronde_status add_peer(const tool_call *call, tool_cases *cases, const char *system) {
  const tool_case *first = &cases->at[0];
  tool_case *one = &cases->at[cases->n];
  char why[2048];
  *one = (tool_case){.peer = system, .plan = json_incref(first->plan)};
  snprintf(one->name, sizeof one->name, "system=%s", system);
  one->values[call->n_axes] = system;
  tool_say("trying %s", system);
  ronde_status status = try_peer(call, one, why, sizeof why);
  if (status == RONDE_E_CANCELLED) {
    tool_case_end(one);
    return status;
  }
  if (status) {
    leave_out(cases, one->name, why);
    tool_case_end(one);
    return RONDE_OK;
  }
  one->command = tool_peer_command(call, one, "FOLDER");
  cases->n++;
  cases->n_peers++;
  return RONDE_OK;
}

ronde_status tool_peers_find(const tool_call *call, tool_cases *cases) {
  const char *list = ronde_config_get(call->config, "peers"), *folder = ronde_config_get(call->config, "peers-dir"),
             *system;
  ronde_status status = RONDE_OK;
  json_object_set_new(cases->axes, "system", json_true());
  for (int i = 0; i < cases->n; i++) cases->at[i].values[call->n_axes] = "ronde";
  if (!*cases->at[0].name)
    snprintf(cases->at[0].name, sizeof cases->at[0].name, "system=ronde"); /* there is no other list */
  for (size_t n; *list && !status; list += n + (list[n] == ',')) {
    char peer[64], why[1024];
    n = strcspn(list, ",");
    snprintf(peer, sizeof peer, "%.*s", (int)n, list);
    tool_peer_missing(folder, peer, why, sizeof why);
    for (int i = 0; (system = tool_peer_system(list, n, i)) && !status; i++) {
      if (*why) leave_out(cases, system, why);
      else status = add_peer(call, cases, system);
    }
  }
  if (!status && cases->n == 1)
    return tool_fail(RONDE_E_USAGE, "nothing is left to compare %s with: no peer can do this work here",
                     cases->at[0].name);
  return status;
}

/* What strategies may vary among Ronde's cases, but no peer may. */
static bool is_same_audit(ronde_measurement *record, const tool_case *first, const tool_case *one) {
  static const char *const fields[] = {"batch", "steps",        "examples",   "optimizer",         "lr",
                                       "eps",   "weight-decay", "batch_norm", "threads_per_worker"};
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
    const json_t *a = json_object_get(first->audit, fields[i]), *b = json_object_get(one->audit, fields[i]);
    if (!a || !b || json_equal(a, b)) continue;
    char *x = json_dumps(a, JSON_ENCODE_ANY), *y = json_dumps(b, JSON_ENCODE_ANY), text[1024];
    snprintf(text, sizeof text, "%s is %.100s with %s, %.100s with %s", fields[i], x ? x : "?", first->name,
             y ? y : "?", one->name);
    free(x);
    free(y);
    ronde_measurement_differ(record, fields[i], text);
    return false;
  }
  return true;
}

/* The first loss is that of the same weights on the same examples, whatever the strategy; the second shows that gradients and
 * optimizer are the same, where a step is one of all workers. */
static bool is_same_loss(ronde_measurement *record, const tool_case *first, const tool_case *one) {
  const double FIRST = 1e-4, SECOND = 1e-3; /* sums of f32 in another order, then magnified by an update */
  bool steps_alike = !json_is_object(json_object_get(json_object_get(one->run, "communication"), "staleness")) &&
                     !json_is_object(json_object_get(json_object_get(first->run, "communication"), "staleness"));
  for (int k = 0; k < (steps_alike ? 2 : 1); k++) {
    const char *field = k ? "second_loss" : "first_loss";
    double a = tool_number(first->audit, field), b = tool_number(one->audit, field);
    char text[768];
    if (!isfinite(a) || !isfinite(b) || fabs(a - b) <= (k ? SECOND : FIRST) * fmax(1, fabs(a))) continue;
    snprintf(text, sizeof text, "%s is %.9g with %s, %.9g with %s", field, a, first->name, b, one->name);
    ronde_measurement_differ(record, field, text);
    return false;
  }
  return true;
}

void tool_peers_audit(ronde_measurement *record, const tool_cases *cases) {
  const tool_case *first = &cases->at[0];
  for (int i = cases->n - cases->n_peers; i < cases->n && i > 0; i++) {
    const tool_case *one = &cases->at[i];
    if (!is_same_audit(record, first, one) || !is_same_loss(record, first, one)) return;
  }
}
