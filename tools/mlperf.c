/* `ronde train --mlperf-log`: a training as MLPerf's log lines, in its open division. Source: MLCommons, "MLPerf Training
 * Rules" and the package mlperf-logging, whose compliance checker reads them (rule set 4.0.0, the last with image
 * classification). */
#include "common.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct mllog {
  FILE *out;
  double now_ms;
} mllog;

static const char POINT[] = "POINT_IN_TIME", BEGIN[] = "INTERVAL_START", END[] = "INTERVAL_END";

/* Takes over value and metadata; NULL: null, and none. */
static void put(const mllog *log, const char *event, const char *key, json_t *value, json_t *metadata) {
  json_t *line = json_pack("{s:s, s:I, s:s, s:s, s:o, s:o}", "namespace", "", "time_ms", (json_int_t)log->now_ms,
                           "event_type", event, "key", key, "value", value ? value : json_null(), "metadata",
                           metadata ? metadata : json_object());
  char *text = line ? json_dumps(line, JSON_REAL_PRECISION(9)) : NULL;
  fprintf(log->out, ":::MLLOG %s\n", text ? text : "");
  free(text);
  json_decref(line);
}

static json_t *copy_of(const json_t *object, const char *key) {
  json_t *value = json_object_get(object, key);
  return value ? json_incref(value) : json_null();
}

static void put_start(mllog *log, const json_t *run) {
  const json_t *config = json_object_get(run, "config"), *data = json_object_get(run, "data"),
               *machine = json_object_get(run, "machine"), *model = json_object_get(run, "model");
  put(log, POINT, "cache_clear", json_false(), NULL); /* the system's caches are as they were */
  put(log, BEGIN, "init_start", NULL, NULL);
  put(log, POINT, "submission_benchmark", json_string("resnet"),
      json_pack("{s:O}", "model", json_object_get(model, "name")));
  put(log, POINT, "submission_org", json_string("not submitted"), NULL);
  put(log, POINT, "submission_division", json_string("open"), NULL);
  put(log, POINT, "submission_status", json_string("research"), NULL);
  put(log, POINT, "submission_platform",
      json_sprintf("%zu x %s", json_array_size(json_object_get(machine, "hosts")), tool_string(machine, "cpu")), NULL);
  put(log, POINT, "seed", copy_of(config, "seed"), NULL);
  put(log, POINT, "global_batch_size", copy_of(config, "batch"), NULL);
  put(log, POINT, "gradient_accumulation_steps", copy_of(config, "accumulate"), NULL);
  put(log, POINT, "opt_name", copy_of(config, "optimizer"), NULL);
  put(log, POINT, "opt_base_learning_rate", copy_of(config, "lr"), NULL);
  put(log, POINT, "train_samples", copy_of(data, "train_examples"), NULL);
  put(log, POINT, "eval_samples", copy_of(data, "test_examples"), NULL);
  log->now_ms += 1e3 * tool_number(run, "setup_s");
  put(log, END, "init_stop", NULL, NULL);
  put(log, BEGIN, "run_start", NULL, NULL);
}

static json_t *epoch_of(const json_t *epoch) {
  return json_pack("{s:O}", "epoch_num", json_object_get(epoch, "epoch"));
}

static void put_epoch(mllog *log, const json_t *epoch) {
  put(log, BEGIN, "epoch_start", NULL, epoch_of(epoch));
  log->now_ms += 1e3 * tool_number(epoch, "wall_s");
  put(log, END, "epoch_stop", NULL, epoch_of(epoch));
  if (!isfinite(tool_number(epoch, "test_accuracy"))) return;
  put(log, BEGIN, "eval_start", NULL, epoch_of(epoch));
  log->now_ms += 1e3 * tool_number(epoch, "eval_s");
  put(log, POINT, "eval_accuracy", copy_of(epoch, "test_accuracy"), epoch_of(epoch));
  put(log, END, "eval_stop", NULL, epoch_of(epoch));
}

/* A training that was given a target is a success where it came to it. */
static const char *status_of(const json_t *run) {
  const json_t *target = json_object_get(json_object_get(run, "result"), "target");
  if (strcmp(tool_string(run, "status"), "completed") != 0) return "aborted";
  return json_is_object(target) && !json_is_true(json_object_get(target, "reached")) ? "aborted" : "success";
}

ronde_status tool_mlperf_write(const char *path, const json_t *run, double began_ms) {
  mllog log = {fopen(path, "w"), began_ms};
  const json_t *epoch;
  size_t i;
  if (!log.out) return tool_fail(RONDE_E_WRITE, "--mlperf-log %s: cannot write: %s", path, strerror(errno));
  put_start(&log, run);
  json_array_foreach(json_object_get(run, "epochs"), i, epoch) put_epoch(&log, epoch);
  put(&log, END, "run_stop", NULL, json_pack("{s:s}", "status", status_of(run)));
  bool is_whole = !ferror(log.out);
  is_whole &= fclose(log.out) == 0;
  return is_whole ? RONDE_OK : tool_fail(RONDE_E_WRITE, "--mlperf-log %s: cannot write: %s", path, strerror(errno));
}
