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

/* ISO 8601, UTC. */
static void tell_time(time_t at, char text[32]) {
  struct tm utc;
  strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&at, &utc));
}

void ronde__record_begin(ronde__record *record) {
  *record = (ronde__record){.setup_s = NAN, .wall_s = NAN, .cpu_s = NAN, .peak_rss_bytes = -1};
  record->model.executed_flops_per_example = -1;
  tell_time(time(NULL), record->started_at);
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
static void *array_grow(void *array, int n, size_t elem_bytes) {
  if ((n & (n - 1)) != 0) return array;
  void *larger = realloc(array, (size_t)(n ? 2 * n : 1) * elem_bytes);
  if (!larger) ronde__fail(RONDE_E_MEMORY, "run.json: no memory for %d rows", n + 1);
  return larger;
}

ronde_status ronde__record_add_epoch(ronde__record *record, const ronde__record_epoch *epoch) {
  ronde__record_epoch *epochs = array_grow(record->epochs, record->n_epochs, sizeof *epochs);
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
    ronde__prof_op *rows = array_grow(record->ops, record->n_ops, sizeof *rows);
    if (!rows) return RONDE_E_MEMORY;
    record->ops = rows;
    rows[record->n_ops++] = ops[i];
  }
  return RONDE_OK;
}

/* ---- run.json -------------------------------------------------------------------------------------------------- */

static json_t *record_real(double value) { return isfinite(value) ? json_real(value) : json_null(); }
static json_t *record_count(int64_t value) { return value >= 0 ? json_integer(value) : json_null(); }
static json_t *record_text(const char *value) { return ronde__json_text(value); }

/* Takes over value. Where memory runs out the field is missing, which is better than losing the run. */
static void record_put(json_t *object, const char *key, json_t *value) { json_object_set_new(object, key, value); }

static const char *status_name(ronde_status status) {
  if (status == RONDE_OK) return "completed";
  return status == RONDE_E_CANCELLED ? "interrupted" : "failed";
}

static json_t *model_json(const ronde__record_model *model) {
  json_t *json = json_object();
  record_put(json, "name", record_text(model->name));
  record_put(json, "parameters", record_count(model->parameters));
  record_put(json, "trained_parameters", record_count(model->trained_parameters));
  record_put(json, "forward_flops_per_example", record_count(model->forward_flops_per_example));
  record_put(json, "train_flops_per_example", record_count(model->train_flops_per_example));
  record_put(json, "executed_flops_per_example", record_count(model->executed_flops_per_example));
  record_put(json, "padding", record_text(model->padding));
  record_put(json, "init_file", record_text(model->init_file));
  record_put(json, "sha256", record_text(model->sha256));
  record_put(json, "new_head", record_text(model->new_head));
  return json;
}

static json_t *data_json(const ronde__record_data *data) {
  json_t *shape = json_array();
  for (int i = 0; i < data->rank; i++) json_array_append_new(shape, json_integer(data->dims[i]));
  json_t *json = json_object();
  record_put(json, "name", record_text(data->name));
  record_put(json, "train_examples", record_count(data->train_examples));
  record_put(json, "test_examples", record_count(data->test_examples));
  record_put(json, "validation_examples", record_count(data->validation_examples));
  record_put(json, "tested_on", record_text(data->tested_on));
  record_put(json, "shape", shape);
  record_put(json, "classes", record_count(data->classes ? data->classes : -1));
  record_put(json, "sha256", record_text(data->sha256));
  record_put(json, "skipped_images", record_count(data->skipped_images));
  return json;
}

static json_t *choices_json(const ronde__record *record) {
  json_t *choices = json_array();
  for (int i = 0; i < record->n_choices; i++) {
    const ronde__record_choice *row = &record->choices[i];
    json_array_append_new(choices, json_pack("{s:o, s:o, s:o}", "choice", record_text(row->choice), "value",
                                             record_text(row->value), "reason", record_text(row->reason)));
    if (row->candidates) json_object_set(json_array_get(choices, (size_t)i), "candidates", row->candidates);
  }
  return choices;
}

static json_t *world_json(const ronde__record_world *world) {
  json_t *json = json_object();
  record_put(json, "workers", json_integer(world->workers));
  record_put(json, "servers", json_integer(world->servers));
  record_put(json, "threads_per_worker", json_integer(world->threads_per_worker));
  record_put(json, "transport", record_text(world->transport));
  record_put(json, "strategy", record_text(world->strategy));
  record_put(json, "simulated", json_boolean(world->simulated));
  record_put(json, "replayed", json_boolean(world->replayed));
  return json;
}

static json_t *epoch_json(const ronde__record_epoch *row) {
  const double *s = row->phase_s;
  json_t *json = json_object();
  record_put(json, "epoch", record_count(row->epoch));
  record_put(json, "steps", record_count(row->steps));
  record_put(json, "examples", record_count(row->examples));
  record_put(json, "left_out_examples", record_count(row->left_out_examples));
  record_put(json, "wall_s", record_real(row->wall_s));
  record_put(json, "cpu_s", record_real(row->cpu_s));
  record_put(json, "load_s", record_real(s[RONDE__PHASE_LOAD]));
  record_put(json, "forward_s", record_real(s[RONDE__PHASE_FORWARD]));
  record_put(json, "backward_s", record_real(s[RONDE__PHASE_BACKWARD]));
  record_put(json, "communication_s", record_real(s[RONDE__PHASE_EXCHANGE] + s[RONDE__PHASE_WAIT]));
  record_put(json, "update_s", record_real(s[RONDE__PHASE_UPDATE]));
  record_put(json, "other_s", record_real(s[RONDE__PHASE_OTHER]));
  record_put(json, "eval_s", record_real(s[RONDE__PHASE_EVAL]));
  record_put(json, "checkpoint_s", record_real(s[RONDE__PHASE_CHECKPOINT]));
  record_put(json, "examples_per_s", record_real((double)row->examples / row->wall_s));
  record_put(json, "train_loss", record_real(row->train_loss));
  record_put(json, "train_accuracy", record_real(row->train_accuracy));
  record_put(json, "test_loss", record_real(row->test_loss));
  record_put(json, "test_accuracy", record_real(row->test_accuracy));
  record_put(json, "lr", record_real(row->lr));
  return json;
}

static json_t *epochs_json(const ronde__record *record) {
  json_t *epochs = json_array();
  for (int i = 0; i < record->n_epochs; i++) json_array_append_new(epochs, epoch_json(&record->epochs[i]));
  return epochs;
}

static json_t *late_json(const ronde__straggler_row *row) {
  if (!row) return json_null();
  json_t *json = json_object();
  record_put(json, "steps", record_count(row->steps));
  record_put(json, "waited_s", record_real(row->waited_s));
  record_put(json, "waited_median_s", record_real(row->steps ? row->waited_median_s : NAN));
  record_put(json, "cause", record_text(row->steps ? ronde__straggler_name(ronde__straggler_row_cause(row)) : NULL));
#define RONDE_X(name, record_text) \
  record_put(json, record_text "_s", record_real(row->above_s[RONDE__STRAGGLER_##name]));
  RONDE__STRAGGLER_LIST(RONDE_X)
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
    record_put(fields, "rank", json_integer(row->rank));
    record_put(fields, "host", record_text(row->host ? row->host : host));
    record_put(fields, "role", record_text(row->role));
    record_put(fields, "examples", record_count(row->examples));
    record_put(fields, "dropped_parts", record_count(row->dropped_parts));
    record_put(fields, "missed_parts", record_count(row->missed_parts));
    record_put(fields, "load_s", record_real(s[RONDE__PHASE_LOAD]));
    record_put(fields, "forward_s", record_real(s[RONDE__PHASE_FORWARD]));
    record_put(fields, "backward_s", record_real(s[RONDE__PHASE_BACKWARD]));
    record_put(fields, "exchange_s", record_real(s[RONDE__PHASE_EXCHANGE]));
    record_put(fields, "wait_s", record_real(s[RONDE__PHASE_WAIT]));
    record_put(fields, "update_s", record_real(s[RONDE__PHASE_UPDATE]));
    record_put(fields, "other_s", record_real(s[RONDE__PHASE_OTHER]));
    record_put(fields, "wall_s", record_real(row->wall_s));
    record_put(fields, "peak_rss_bytes", record_count(row->peak_rss_bytes));
    record_put(fields, "needed_bytes", record_count(row->needed_bytes));
    record_put(fields, "optimizer_bytes", record_count(row->optimizer_bytes));
    record_put(fields, "late", late_json(row->late));
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
    record_put(fields, "op", record_text(ops[i].op));
    record_put(fields, "phase", json_string(ronde__phase_name(ops[i].phase)));
    record_put(fields, "calls", record_count(ops[i].calls));
    record_put(fields, "seconds", record_real((double)ops[i].ns * 1e-9));
    record_put(fields, "gflops_per_s", record_real(gflops_per_s));
    record_put(fields, "implementation", record_text(ops[i].implementation));
    json_array_append_new(json, fields);
  }
  free(ops);
  return json;
}

static json_t *communication_json(const ronde__record_communication *communication) {
  json_t *json = json_object();
  record_put(json, "bytes_sent", record_count(communication->bytes_sent));
  record_put(json, "bytes_received", record_count(communication->bytes_received));
  record_put(json, "messages", record_count(communication->messages));
  for (int i = 0; ronde__strategy_at(i); i++)
    for (const char *const *name = ronde__strategy_at(i)->records; name && *name; name++)
      record_put(json, *name, json_null());
  if (communication->of_strategy) json_object_update(json, communication->of_strategy);
  return json;
}

/* The launcher knows how far each start had come, and where those began that have told; behind: the entry of the next loss, NULL:
 * this is the last, and the present start has gone on from resumed_step. A start that has not trained was lost with the state from
 * which the next one went on. */
static void put_steps_lost(json_t *loss, json_t *behind, int64_t resumed_step) {
  bool in_vain = behind && json_is_false(json_object_get(behind, "trained"));
  if (!behind) json_object_set_new(loss, "resumed_step", json_integer(resumed_step));
  else if (in_vain) json_object_set(loss, "resumed_step", json_object_get(behind, "resumed_step"));
  const json_t *resumed = json_object_get(loss, "resumed_step");
  /* For a host that joined all had saved their last step. */
  if (resumed && (json_is_string(json_object_get(loss, "joined")) || json_is_false(json_object_get(loss, "trained"))))
    json_object_set(loss, "step", json_object_get(loss, "resumed_step"));
  const json_t *step = json_object_get(loss, "step");
  bool known = json_is_integer(step) && json_is_integer(resumed);
  json_int_t lost = json_integer_value(step) - json_integer_value(resumed);
  if (!step) json_object_set_new(loss, "step", json_null());
  if (!resumed) json_object_set_new(loss, "resumed_step", json_null());
  json_object_set_new(loss, "steps_lost", known ? json_integer(lost > 0 ? lost : 0) : json_null());
}

static json_t *restarts_json(const char *text, int64_t resumed_step) {
  json_t *json = text ? json_loads(text, 0, NULL) : NULL;
  if (!json_is_array(json)) {
    json_decref(json);
    return json_array();
  }
  json_t *behind = NULL;
  for (size_t i = json_array_size(json); i-- > 0; behind = json_array_get(json, i))
    put_steps_lost(json_array_get(json, i), behind, resumed_step);
  return json;
}

static json_t *losses_json(const ronde__record *record) {
  json_t *list = json_array();
  for (int i = 0; i < record->n_losses; i++) {
    const ronde__record_loss *loss = &record->losses[i];
    json_t *json = json_object();
    char at[32];
    record_put(json, "rank", record_count(loss->rank));
    record_put(json, "host", record_text(loss->host));
    record_put(json, "step", record_count(loss->step));
    record_put(json, "behind_step", loss->behind_step < 0 ? json_null() : record_count(loss->behind_step));
    record_put(json, "after_s", record_real(loss->after_s));
    if (isfinite(loss->ago_s)) tell_time(time(NULL) - llround(loss->ago_s), at);
    record_put(json, "at", isfinite(loss->ago_s) ? json_string(at) : json_null());
    json_array_append_new(list, json);
  }
  return list;
}

static json_t *resumed_json(const ronde__record_resumed *resumed) {
  if (!resumed->file) return json_null();
  json_t *json = json_object();
  record_put(json, "file", record_text(resumed->file));
  record_put(json, "step", record_count(resumed->step));
  return json;
}

static json_t *checkpoints_json(const ronde__record_checkpoints *checkpoints) {
  json_t *json = json_object();
  record_put(json, "written", record_count(checkpoints->written));
  record_put(json, "last_step", record_count(checkpoints->written ? checkpoints->last_step : -1));
  record_put(json, "state_bytes", record_count(checkpoints->written ? checkpoints->bytes : -1));
  record_put(json, "copy_s", record_real(checkpoints->copy_s));
  record_put(json, "write_s", record_real(checkpoints->write_s));
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
  if (record->world.simulated) energy_j = NAN, energy_source = "simulated";
  json_t *json = json_object();
  record_put(json, "wall_s", record_real(record->wall_s));
  record_put(json, "cpu_s", record_real(record->cpu_s));
  record_put(json, "steps", record_count(steps));
  record_put(json, "skipped_steps", record_count(record->skipped_steps));
  record_put(json, "examples", record_count(examples));
  record_put(json, "left_out_examples", record_count(left_out));
  record_put(json, "examples_per_s", record_real((double)examples / training_s));
  record_put(json, "peak_rss_bytes", record_count(record->peak_rss_bytes));
  record_put(json, "energy_j", record_real(energy_j));
  record_put(json, "energy_source", json_string(energy_source));
  return json;
}

static json_t *record_best_json(const ronde__record_best *best) {
  if (best->epoch == 0) return json_null();
  json_t *json = json_object();
  record_put(json, "epoch", record_count(best->epoch));
  record_put(json, "step", record_count(best->step));
  record_put(json, "test_loss", record_real(best->test_loss));
  record_put(json, "test_accuracy", record_real(best->test_accuracy));
  record_put(json, "file", record_text(best->file));
  return json;
}

static json_t *target_json(const ronde__record_target *target) {
  if (target->accuracy == 0) return json_null();
  json_t *json = json_object();
  record_put(json, "accuracy", record_real(target->accuracy));
  record_put(json, "reached", json_boolean(target->reached));
  record_put(json, "epoch", record_count(target->reached ? target->epoch : -1));
  record_put(json, "step", record_count(target->reached ? target->step : -1));
  record_put(json, "train_s", record_real(target->reached ? target->train_s : NAN));
  record_put(json, "wall_s", record_real(target->reached ? target->wall_s : NAN));
  return json;
}

static json_t *early_stop_json(const ronde__record_early_stop *stop) {
  if (stop->patience == 0) return json_null();
  json_t *json = json_object();
  record_put(json, "patience", record_count(stop->patience));
  record_put(json, "stopped", json_boolean(stop->stopped));
  record_put(json, "epoch", record_count(stop->stopped ? stop->epoch : -1));
  record_put(json, "step", record_count(stop->stopped ? stop->step : -1));
  return json;
}

static json_t *record_result_json(const ronde__record *record) {
  ronde__record_epoch none = {.train_loss = NAN, .test_loss = NAN, .test_accuracy = NAN};
  const ronde__record_epoch *last = record->n_epochs ? &record->epochs[record->n_epochs - 1] : &none;
  json_t *json = json_object();
  record_put(json, "train_loss", record_real(last->train_loss));
  record_put(json, "test_loss", record_real(last->test_loss));
  record_put(json, "test_accuracy", record_real(last->test_accuracy));
  record_put(json, "weights_sha256", record_text(record->weights_sha256));
  record_put(json, "state_sha256", record_text(record->state_sha256));
  record_put(json, "best", record_best_json(&record->best));
  record_put(json, "target", target_json(&record->target));
  record_put(json, "early_stop", early_stop_json(&record->early_stop));
  return json;
}

ronde_status ronde__record_json(const ronde__record *record, char **json_out) {
  json_t *config = record->config ? json_incref(record->config) : json_null();
  json_t *json = json_object(), *version = json_object();
  record_put(version, "ronde", json_string(ronde_version()));
  record_put(version, "git", record_text(ronde__git()));
  record_put(json, "schema", json_string("ronde.run.v1"));
  record_put(json, "status", json_string(status_name(record->status)));
  record_put(json, "command", ronde__command_json());
  record_put(json, "version", version);
  record_put(json, "started_at", json_string(record->started_at));
  record_put(json, "machine", ronde__machine_json(record->isa));
  record_put(json, "model", model_json(&record->model));
  record_put(json, "data", data_json(&record->data));
  record_put(json, "config", config);
  record_put(json, "choices", choices_json(record));
  record_put(json, "world", world_json(&record->world));
  record_put(json, "setup_s", record_real(record->setup_s));
  record_put(json, "epochs", epochs_json(record));
  record_put(json, "workers", workers_json(record));
  record_put(json, "ops", ops_json(record));
  record_put(json, "communication", communication_json(&record->communication));
  record_put(json, "resumed_from", resumed_json(&record->resumed));
  record_put(json, "restarts", restarts_json(record->restarts, record->resumed.file ? record->resumed.step : 0));
  record_put(json, "lost_workers", losses_json(record));
  record_put(json, "checkpoints", checkpoints_json(&record->checkpoints));
  record_put(json, "totals", totals_json(record));
  record_put(json, "result", record_result_json(record));
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
