/* For tests of training by several processes, each of whose commands runs in one folder. */
#ifndef RONDE_MPI_TESTING_H
#define RONDE_MPI_TESTING_H

#include "command_testing.h"
#include "lib/suites.h"

#include <jansson.h>
#include <unistd.h>

#define SMALL_DATA "--data synthetic:1x28x28:10:600"
#define SMALL "--model lenet5 " SMALL_DATA " --batch 50 --threads 1 --quiet"
/* A user's own. */
#define MPIRUN "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 mpirun.openmpi --oversubscribe "
/* In front of a command: its monotonic clock is ahead, as on another host. Not everybody has the right. */
#define OTHER_CLOCK "unshare --time --monotonic 5000 --boottime 5000 "

static char folder[] = "/tmp/ronde-mpi-XXXXXX";

static inline int make_folder(void **state) { return mkdtemp(folder) ? chdir(folder) : 1; }
static inline int remove_folder(void **state) { return chdir("/") ? 1 : run("rm -r %s", folder); }

/* Trains (SMALL, but for --quiet with --verbose, and for other --data) on three hosts, ronde1 to ronde3, or those of --hosts or
 * --hostfile in options, which are network namespaces, reached by a script in the place of ssh. prepare: a command when they are
 * there, such as one that goes on in the background; what it leaves behind is gone with them. AWAY is in front of what runs
 * there. */
int run_on_hosts(const char *prepare, const char *options);
/* The shell waits until this command succeeds, for a minute and a half at most. */
#define AWAIT(condition) "n=0; until " condition " || [ $((n+=1)) -gt 900 ]; do sleep 0.1; done; "
/* The beginning of `prepare`: the shell does this as soon as the run OUT has noted a step. */
#define ONCE_IT_TRAINS(out, does) "{ (" AWAIT("[ -s " out "/steps.jsonl ]") does ") >/dev/null 2>&1 & } "

/* run.json, trace.json of a run. */
static inline json_t *left_by(const char *name, const char *file) {
  char path[4200];
  snprintf(path, sizeof path, "%s/%s/%s", folder, name, file);
  json_error_t error;
  json_t *json = json_load_file(path, 0, &error);
  if (!json) fail_msg("%s: %s", path, error.text);
  return json;
}

static inline json_t *record(const char *name) { return left_by(name, "run.json"); }

/* It was started again once, with so many ranks, and without these hosts. */
static inline void check_restart(const char *out, const char *left_out, int n_ranks) {
  json_t *json = left_by(out, "run.json"), *restarts = json_object_get(json, "restarts");
  assert_int_equal(json_array_size(restarts), 1);
  assert_string_equal(json_string_value(json_object_get(json_array_get(restarts, 0), "hosts_left_out")), left_out);
  assert_int_equal(json_integer_value(json_object_get(json_array_get(restarts, 0), "ranks")), n_ranks);
  json_decref(json);
}

static inline const char *string_at(const json_t *json, const char *object, const char *key) {
  const char *text = json_string_value(json_object_get(json_object_get(json, object), key));
  assert_non_null(text);
  return text;
}

static inline void check_same_state(const char *name, const char *other) {
  json_t *one = record(name), *two = record(other);
  assert_string_equal(string_at(one, "result", "state_sha256"), string_at(two, "result", "state_sha256"));
  json_decref(one);
  json_decref(two);
}

#endif
