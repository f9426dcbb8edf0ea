/* run.json as a text, from what a run has filled in. */
#include "record/record.h"

#include "io/file.h"
#include "base/machine.h"
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- gathering ------------------------------------------------------------------------------------------------- */

void ronde__record_begin(ronde__record *record) {
  *record = (ronde__record){.setup_s = NAN, .wall_s = NAN, .cpu_s = NAN, .peak_rss_bytes = -1};
  record->model.executed_flops_per_example = -1;
  time_t now = time(NULL);
  struct tm utc;
  strftime(record->started_at, sizeof record->started_at, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  ronde__energy_begin(&record->energy, NULL);
}

void ronde__record_end(ronde__record *record) {
  json_decref(record->config);
  json_decref(record->communication.of_strategy);
  free(record->epochs);
  free(record->ops);
  *record = (ronde__record){0};
}

/* Makes room for one more of n elements; the capacity is the next power of two. */
static void *grown(void *array, int n, size_t elem_bytes) {
  if ((n & (n - 1)) != 0) return array;
  void *larger = realloc(array, (size_t)(n ? 2 * n : 1) * elem_bytes);
  if (!larger) ronde__fail(RONDE_E_MEMORY, "run.json: no memory for %d rows", n + 1);
  return larger;
}

ronde_status ronde__record_add_epoch(ronde__record *record, const ronde__record_epoch *epoch) {
  ronde__record_epoch *epochs = grown(record->epochs, record->n_epochs, sizeof *epochs);
  if (!epochs) return RONDE_E_MEMORY;
  record->epochs = epochs;
  epochs[record->n_epochs++] = *epoch;
  return RONDE_OK;
}

static bool same_row(const ronde__prof_op *a, const ronde__prof_op *b) {
  return a->phase == b->phase && strcmp(a->op, b->op) == 0 && strcmp(a->implementation, b->implementation) == 0;
}

ronde_status ronde__record_add_ops(ronde__record *record, const ronde__prof_op *ops, int n_ops) {
  for (int i = 0; i < n_ops; i++) {
    int at = 0;
    while (at < record->n_ops && !same_row(&record->ops[at], &ops[i])) at++;
    if (at < record->n_ops) {
      record->ops[at].calls += ops[i].calls;
      record->ops[at].ns += ops[i].ns;
      record->ops[at].flops += ops[i].flops;
      continue;
    }
    ronde__prof_op *rows = grown(record->ops, record->n_ops, sizeof *rows);
    if (!rows) return RONDE_E_MEMORY;
    record->ops = rows;
    rows[record->n_ops++] = ops[i];
  }
  return RONDE_OK;
}

/* ---- run.json -------------------------------------------------------------------------------------------------- */

static json_t *real(double value) { return isfinite(value) ? json_real(value) : json_null(); }
static json_t *count(int64_t value) { return value >= 0 ? json_integer(value) : json_null(); }
static json_t *text(const char *value) { return ronde__json_text(value); }

/* Takes over value. Where memory runs out the field is missing: better than to lose the run. */
static void put(json_t *object, const char *key, json_t *value) { json_object_set_new(object, key, value); }

static const char *status_name(ronde_status status) {
  if (status == RONDE_OK) return "completed";
  return status == RONDE_E_CANCELLED ? "interrupted" : "failed";
}

static json_t *model_json(const ronde__record_model *model) {
  json_t *json = json_object();
  put(json, "name", text(model->name));
  put(json, "parameters", count(model->parameters));
  put(json, "trained_parameters", count(model->trained_parameters));
  put(json, "forward_flops_per_example", count(model->forward_flops_per_example));
  put(json, "train_flops_per_example", count(model->train_flops_per_example));
  put(json, "executed_flops_per_example", count(model->executed_flops_per_example));
  put(json, "padding", text(model->padding));
  put(json, "init_file", text(model->init_file));
  put(json, "new_head", text(model->new_head));
  return json;
}

static json_t *data_json(const ronde__record_data *data) {
  json_t *shape = json_array();
  for (int i = 0; i < data->rank; i++) json_array_append_new(shape, json_integer(data->dims[i]));
  json_t *json = json_object();
  put(json, "name", text(data->name));
  put(json, "train_examples", count(data->train_examples));
  put(json, "test_examples", count(data->test_examples));
  put(json, "validation_examples", count(data->validation_examples));
  put(json, "tested_on", text(data->tested_on));
  put(json, "shape", shape);
  put(json, "classes", count(data->classes ? data->classes : -1));
  put(json, "sha256", text(data->sha256));
  put(json, "skipped_images", count(data->skipped_images));
  return json;
}

static json_t *choices_json(const ronde__record *record) {
  json_t *choices = json_array();
  for (int i = 0; i < record->n_choices; i++) {
    const ronde__record_choice *row = &record->choices[i];
    json_array_append_new(choices, json_pack("{s:o, s:o, s:o}", "choice", text(row->choice), "value", text(row->value),
                                             "reason", text(row->reason)));
  }
  return choices;
}

static json_t *world_json(const ronde__record_world *world) {
  json_t *json = json_object();
  put(json, "workers", json_integer(world->workers));
  put(json, "servers", json_integer(world->servers));
  put(json, "threads_per_worker", json_integer(world->threads_per_worker));
  put(json, "transport", text(world->transport));
  put(json, "strategy", text(world->strategy));
  return json;
}

static json_t *epoch_json(const ronde__record_epoch *row) {
  const double *s = row->phase_s;
  json_t *json = json_object();
  put(json, "epoch", count(row->epoch));
  put(json, "steps", count(row->steps));
  put(json, "examples", count(row->examples));
  put(json, "left_out_examples", count(row->left_out_examples));
  put(json, "wall_s", real(row->wall_s));
  put(json, "cpu_s", real(row->cpu_s));
  put(json, "load_s", real(s[RONDE__PHASE_LOAD]));
  put(json, "forward_s", real(s[RONDE__PHASE_FORWARD]));
  put(json, "backward_s", real(s[RONDE__PHASE_BACKWARD]));
  put(json, "communication_s", real(s[RONDE__PHASE_EXCHANGE] + s[RONDE__PHASE_WAIT]));
  put(json, "update_s", real(s[RONDE__PHASE_UPDATE]));
  put(json, "other_s", real(s[RONDE__PHASE_OTHER]));
  put(json, "eval_s", real(s[RONDE__PHASE_EVAL]));
  put(json, "checkpoint_s", real(s[RONDE__PHASE_CHECKPOINT]));
  put(json, "examples_per_s", real((double)row->examples / row->wall_s));
  put(json, "train_loss", real(row->train_loss));
  put(json, "train_accuracy", real(row->train_accuracy));
  put(json, "test_loss", real(row->test_loss));
  put(json, "test_accuracy", real(row->test_accuracy));
  put(json, "lr", real(row->lr));
  return json;
}

static json_t *epochs_json(const ronde__record *record) {
  json_t *epochs = json_array();
  for (int i = 0; i < record->n_epochs; i++) json_array_append_new(epochs, epoch_json(&record->epochs[i]));
  return epochs;
}

static json_t *late_json(const ronde__late_row *row) {
  if (!row) return json_null();
  json_t *json = json_object();
  put(json, "steps", count(row->steps));
  put(json, "waited_s", real(row->waited_s));
  put(json, "waited_median_s", real(row->steps ? row->waited_median_s : NAN));
  put(json, "cause", text(row->steps ? ronde__late_name(ronde__late_row_cause(row)) : NULL));
#define RONDE_X(name, text) put(json, text "_s", real(row->above_s[RONDE__LATE_##name]));
  RONDE__LATE_LIST(RONDE_X)
#undef RONDE_X
  return json;
}

static json_t *workers_json(const ronde__record *record) {
  json_t *workers = json_array();
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  for (int i = 0; i < record->n_workers; i++) {
    const ronde__record_worker *row = &record->workers[i];
    const double *s = row->phase_s;
    json_t *fields = json_object();
    put(fields, "rank", json_integer(row->rank));
    put(fields, "host", text(row->host ? row->host : host));
    put(fields, "role", text(row->role));
    put(fields, "examples", count(row->examples));
    put(fields, "dropped_parts", count(row->dropped_parts));
    put(fields, "missed_parts", count(row->missed_parts));
    put(fields, "load_s", real(s[RONDE__PHASE_LOAD]));
    put(fields, "forward_s", real(s[RONDE__PHASE_FORWARD]));
    put(fields, "backward_s", real(s[RONDE__PHASE_BACKWARD]));
    put(fields, "exchange_s", real(s[RONDE__PHASE_EXCHANGE]));
    put(fields, "wait_s", real(s[RONDE__PHASE_WAIT]));
    put(fields, "update_s", real(s[RONDE__PHASE_UPDATE]));
    put(fields, "other_s", real(s[RONDE__PHASE_OTHER]));
    put(fields, "wall_s", real(row->wall_s));
    put(fields, "peak_rss_bytes", count(row->peak_rss_bytes));
    put(fields, "late", late_json(row->late));
    json_array_append_new(workers, fields);
  }
  return workers;
}

static int longer_first(const void *a, const void *b) {
  uint64_t x = ((const ronde__prof_op *)a)->ns, y = ((const ronde__prof_op *)b)->ns;
  return (x < y) - (x > y);
}

static json_t *ops_json(const ronde__record *record) {
  json_t *json = json_array();
  if (record->n_ops == 0) return json;
  size_t bytes = (size_t)record->n_ops * sizeof *record->ops;
  ronde__prof_op *ops = malloc(bytes);
  if (!ops) {
    json_decref(json);
    return NULL;
  }
  memcpy(ops, record->ops, bytes);
  qsort(ops, (size_t)record->n_ops, sizeof *ops, longer_first);
  for (int i = 0; i < record->n_ops; i++) {
    double gflops_per_s = ops[i].flops > 0 && ops[i].ns > 0 ? ops[i].flops / (double)ops[i].ns : NAN;
    json_t *fields = json_object();
    put(fields, "op", text(ops[i].op));
    put(fields, "phase", json_string(ronde__phase_name(ops[i].phase)));
    put(fields, "calls", count(ops[i].calls));
    put(fields, "seconds", real((double)ops[i].ns * 1e-9));
    put(fields, "gflops_per_s", real(gflops_per_s));
    put(fields, "implementation", text(ops[i].implementation));
    json_array_append_new(json, fields);
  }
  free(ops);
  return json;
}

static json_t *communication_json(const ronde__record_communication *communication) {
  json_t *json = json_object();
  put(json, "bytes_sent", count(communication->bytes_sent));
  put(json, "bytes_received", count(communication->bytes_received));
  put(json, "messages", count(communication->messages));
  put(json, "collective", json_null());
  put(json, "busbw_bytes_per_s", json_null());
  put(json, "staleness", json_null());
  if (communication->of_strategy) json_object_update(json, communication->of_strategy);
  return json;
}

static json_t *resumed_json(const ronde__record_resumed *resumed) {
  if (!resumed->file) return json_null();
  json_t *json = json_object();
  put(json, "file", text(resumed->file));
  put(json, "step", count(resumed->step));
  return json;
}

static json_t *checkpoints_json(const ronde__record_checkpoints *checkpoints) {
  json_t *json = json_object();
  put(json, "written", count(checkpoints->written));
  put(json, "last_step", count(checkpoints->written ? checkpoints->last_step : -1));
  put(json, "state_bytes", count(checkpoints->written ? checkpoints->bytes : -1));
  put(json, "copy_s", real(checkpoints->copy_s));
  put(json, "write_s", real(checkpoints->write_s));
  return json;
}

static json_t *totals_json(const ronde__record *record) {
  int64_t steps = 0, examples = 0, left_out = 0;
  double training_s = 0;
  for (int i = 0; i < record->n_epochs; i++) {
    steps += record->epochs[i].steps;
    examples += record->epochs[i].examples;
    left_out += record->epochs[i].left_out_examples;
    training_s += record->epochs[i].wall_s;
  }
  const char *energy_source;
  double energy_j = ronde__energy_joules(&record->energy, &energy_source);
  json_t *json = json_object();
  put(json, "wall_s", real(record->wall_s));
  put(json, "cpu_s", real(record->cpu_s));
  put(json, "steps", count(steps));
  put(json, "skipped_steps", count(record->skipped_steps));
  put(json, "examples", count(examples));
  put(json, "left_out_examples", count(left_out));
  put(json, "examples_per_s", real((double)examples / training_s));
  put(json, "peak_rss_bytes", count(record->peak_rss_bytes));
  put(json, "energy_j", real(energy_j));
  put(json, "energy_source", json_string(energy_source));
  return json;
}

static json_t *best_json(const ronde__record_best *best) {
  if (best->epoch == 0) return json_null();
  json_t *json = json_object();
  put(json, "epoch", count(best->epoch));
  put(json, "step", count(best->step));
  put(json, "test_loss", real(best->test_loss));
  put(json, "test_accuracy", real(best->test_accuracy));
  put(json, "file", text(best->file));
  return json;
}

static json_t *target_json(const ronde__record_target *target) {
  if (target->accuracy == 0) return json_null();
  json_t *json = json_object();
  put(json, "accuracy", real(target->accuracy));
  put(json, "reached", json_boolean(target->reached));
  put(json, "epoch", count(target->reached ? target->epoch : -1));
  put(json, "step", count(target->reached ? target->step : -1));
  put(json, "train_s", real(target->reached ? target->train_s : NAN));
  put(json, "wall_s", real(target->reached ? target->wall_s : NAN));
  return json;
}

static json_t *result_json(const ronde__record *record) {
  ronde__record_epoch none = {.train_loss = NAN, .test_loss = NAN, .test_accuracy = NAN};
  const ronde__record_epoch *last = record->n_epochs ? &record->epochs[record->n_epochs - 1] : &none;
  json_t *json = json_object();
  put(json, "train_loss", real(last->train_loss));
  put(json, "test_loss", real(last->test_loss));
  put(json, "test_accuracy", real(last->test_accuracy));
  put(json, "weights_sha256", text(record->weights_sha256));
  put(json, "state_sha256", text(record->state_sha256));
  put(json, "best", best_json(&record->best));
  put(json, "target", target_json(&record->target));
  return json;
}

ronde_status ronde__record_json(const ronde__record *record, char **json_out) {
  json_t *config = record->config ? json_incref(record->config) : json_null();
  json_t *json = json_object(), *version = json_object();
  put(version, "ronde", json_string(ronde_version()));
  put(version, "git", text(ronde__git()));
  put(json, "schema", json_string("ronde.run.v1"));
  put(json, "status", json_string(status_name(record->status)));
  put(json, "command", ronde__command_json());
  put(json, "version", version);
  put(json, "started_at", json_string(record->started_at));
  put(json, "machine", ronde__machine_json(record->isa));
  put(json, "model", model_json(&record->model));
  put(json, "data", data_json(&record->data));
  put(json, "config", config);
  put(json, "choices", choices_json(record));
  put(json, "world", world_json(&record->world));
  put(json, "setup_s", real(record->setup_s));
  put(json, "epochs", epochs_json(record));
  put(json, "workers", workers_json(record));
  put(json, "ops", ops_json(record));
  put(json, "communication", communication_json(&record->communication));
  put(json, "resumed_from", resumed_json(&record->resumed));
  put(json, "checkpoints", checkpoints_json(&record->checkpoints));
  put(json, "totals", totals_json(record));
  put(json, "result", result_json(record));
  char *out = json ? json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
  json_decref(json);
  if (!out) return ronde__fail(RONDE_E_MEMORY, "run.json: no memory");
  *json_out = out;
  return RONDE_OK;
}

ronde_status ronde__record_write(const char *folder, const char *json) {
  char *path = ronde__format("%s/run.json", folder);
  if (!path) return ronde__fail(RONDE_E_MEMORY, "%s/run.json: no memory", folder);
  ronde_status status = ronde__file_replace(path, json, strlen(json));
  free(path);
  return status;
}
