/* Going on from a checkpoint: which one, what of its options holds for the run that goes on, its state. */
#include "state/checkpoint.h"
#include "config/option.h"
#include "io/file.h"

#include <ronde/measure.h>

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the files of a folder ---- */

typedef struct found {
  char *path;
  int64_t step;
} found;

static int newest_first(const void *a, const void *b) {
  int64_t x = ((const found *)a)->step, y = ((const found *)b)->step;
  return (x < y) - (x > y);
}

/* The step of "step-N.safetensors", else -1. */
static int64_t step_of(const char *name) {
  long long step;
  int used = 0;
  if (sscanf(name, "step-%lld.safetensors%n", &step, &used) != 1 || !used || name[used]) return -1;
  return step < 0 ? -1 : step;
}

static ronde_status list_folder(DIR *dir, const char *folder, found **files_out, int *n_out) {
  int n = 0, capacity = 0;
  found *files = NULL;
  for (struct dirent *entry; (entry = readdir(dir));) {
    int64_t step = step_of(entry->d_name);
    if (step < 0) continue;
    if (n == capacity) {
      found *larger = realloc(files, (size_t)(capacity = 2 * capacity + 8) * sizeof *files);
      if (larger) files = larger;
      else goto free_files;
    }
    files[n] = (found){ronde__format("%s/" RONDE__CHECKPOINT_FOLDER "/%s", folder, entry->d_name), step};
    if (!files[n++].path) goto free_files;
  }
  *files_out = files;
  *n_out = n;
  return RONDE_OK;
free_files:
  while (n > 0) free(files[--n].path);
  free(files);
  return ronde__fail(RONDE_E_MEMORY, "%s: no memory for a list of checkpoints", folder);
}

ronde_status ronde__checkpoint_list(const char *folder, char ***paths_out, int *n_out) {
  found *files = NULL;
  int n = 0;
  char *inner = ronde__format("%s/" RONDE__CHECKPOINT_FOLDER, folder), **paths;
  if (!inner) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for a name", folder);
  DIR *dir = opendir(inner);
  free(inner);
  ronde_status status = dir ? list_folder(dir, folder, &files, &n) : RONDE_OK;
  if (dir) closedir(dir);
  RONDE_TRY(status);
  if (n) qsort(files, (size_t)n, sizeof *files, newest_first);
  paths = ronde__alloc((size_t)n * sizeof *paths);
  for (int i = 0; i < n && paths; i++) paths[i] = files[i].path;
  for (int i = 0; i < n && !paths; i++) free(files[i].path);
  free(files);
  if (!paths) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for a list of checkpoints", folder);
  *paths_out = paths;
  *n_out = n;
  return RONDE_OK;
}

ronde_status ronde__checkpoint_any(const char *folder, bool *any_out) {
  char **paths;
  int n;
  RONDE_TRY(ronde__checkpoint_list(folder, &paths, &n));
  for (int i = 0; i < n; i++) free(paths[i]);
  ronde__free(paths);
  *any_out = n > 0;
  return RONDE_OK;
}

/* ---- opening one ---- */

/* Of sequences `correct` counts labels, of which an example has many. */
static ronde_status read_best(ronde__resume *r, json_t *best) {
  json_int_t epoch, step, correct, examples;
  double value, loss;
  if (json_is_null(best)) return RONDE_OK;
  if (json_unpack(best, "{s:F, s:I, s:I, s:F, s:I, s:I}", "value", &value, "epoch", &epoch, "step", &step, "loss",
                  &loss, "correct", &correct, "examples", &examples) ||
      epoch < 1 || step < 1 || examples < 1 || correct < 0)
    return ronde__fail(RONDE_E_INPUT, "%s: the record of its best test is missing or invalid", r->path);
  r->progress.best = (ronde__best){value, epoch, step, {loss, correct, examples}};
  return RONDE_OK;
}

/* Checkpoints of older versions have none. */
static ronde_status read_plateau(ronde__resume *r, json_t *plateau) {
  json_int_t tests, drops, waits;
  json_t *best;
  if (!plateau) return RONDE_OK;
  if (json_unpack(plateau, "{s:o, s:I, s:I, s:I}", "best", &best, "tests", &tests, "drops", &drops, "waits", &waits) ||
      (!json_is_number(best) && !json_is_null(best)) || tests < 0 || drops < 0 || waits < 0 || waits > tests)
    return ronde__fail(RONDE_E_INPUT, "%s: its count of tests without a better one is damaged", r->path);
  r->progress.plateau = (ronde__plateau){json_is_null(best) ? -INFINITY : json_number_value(best), tests, drops, waits};
  return RONDE_OK;
}

static ronde_status read_place(ronde__resume *r) {
  json_t *place = json_object_get(r->json, "place");
  json_int_t step, skipped, updates, steps, examples, correct;
  int closed;
  double loss;
  if (json_unpack(place, "{s:I, s:I, s:I, s:b, s:{s:I, s:I, s:I, s:F}}", "step", &step, "skipped", &skipped,
                  "optimizer_updates", &updates, "closed", &closed, "epoch_sums", "steps", &steps, "examples",
                  &examples, "correct", &correct, "loss", &loss) ||
      step < 0 || skipped < 0 || updates < 0 || steps < 0 || steps > step || examples < steps || correct < 0)
    return ronde__fail(RONDE_E_INPUT, "%s: its position in the training is missing or invalid", r->path);
  r->progress = ronde__progress_none();
  r->progress.step = step;
  r->progress.skipped = skipped;
  r->progress.closed = closed;
  r->progress.sums = (ronde__sums){steps, examples, correct, loss};
  RONDE_TRY(read_best(r, json_object_get(place, "best")));
  r->progress.plateau.best = r->progress.best.value;
  return read_plateau(r, json_object_get(place, "plateau"));
}

static ronde_status read_note(ronde__resume *r) {
  const char *text = ronde__safetensors_meta(r->file, RONDE__CHECKPOINT_NOTE);
  if (!text)
    return ronde__fail(RONDE_E_INPUT, "%s: this file holds weights but no training state: start from it with --init",
                       r->path);
  r->json = json_loads(text, 0, NULL);
  const char *schema = json_string_value(json_object_get(r->json, "schema"));
  if (!schema) return ronde__fail(RONDE_E_INPUT, "%s: its metadata is not that of a checkpoint", r->path);
  if (strcmp(schema, RONDE__CHECKPOINT_SCHEMA))
    return ronde__fail(RONDE_E_INPUT, "%s: written by a newer version of Ronde (%.40s; this one reads %s)", r->path,
                       schema, RONDE__CHECKPOINT_SCHEMA);
  return read_place(r);
}

/* Only what a file says is checked here, so that damage can be told from what must not be passed over. */
static ronde_status open_file(const char *path, ronde__safetensors **file_out) {
  ronde__safetensors *file;
  bool checked;
  RONDE_TRY(ronde__safetensors_open(path, &file));
  ronde_status status = ronde__safetensors_verify(file, &checked);
  if (status == RONDE_E_DIFFERENCE) status = RONDE_E_INPUT;
  if (status == RONDE_OK) *file_out = file;
  else ronde__safetensors_close(file);
  return status;
}

/* The newest that verifies. */
static ronde_status open_newest(ronde__resume *r) {
  char **paths;
  int n, at = 0;
  RONDE_TRY(ronde__checkpoint_list(r->folder, &paths, &n));
  ronde__log_demote(true);
  while (at < n && open_file(paths[at], &r->file) != RONDE_OK) at++;
  ronde__log_demote(false);
  if (at < n) r->path = ronde__strdup(paths[at]);
  for (int i = 0; i < n; i++) free(paths[i]);
  ronde__free(paths);
  if (n == 0) return ronde__fail(RONDE_E_INPUT, "%s: there are no checkpoints to resume from", r->folder);
  if (at == n) return ronde__fail(RONDE_E_INPUT, "%s: all of its %d checkpoints are damaged", r->folder, n);
  if (!r->path) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for a name", r->folder);
  if (at > 0) ronde__log(RONDE_LOG_WARNING, "%s: newer checkpoints are damaged; resuming from this one", r->path);
  return RONDE_OK;
}

static ronde_status open_any(const char *path, ronde__resume *r) {
  bool is_folder = ronde__is_folder(path);
  char **name = is_folder ? &r->folder : &r->path;
  *name = ronde__strdup(path);
  if (!*name) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for its name", path);
  return is_folder ? open_newest(r) : open_file(path, &r->file);
}

ronde_status ronde__checkpoint_open(const char *path, ronde__resume **resume_out) {
  ronde__resume *r;
  RONDE__ALLOC(r, sizeof *r, "checkpoint");
  ronde_status status = open_any(path, r);
  if (status == RONDE_OK) *resume_out = r;
  else ronde__resume_close(r);
  return status;
}

static ronde_status finish(ronde__resume *r, ronde__resume **resume_out) {
  ronde_status status = read_note(r);
  if (status == RONDE_OK) *resume_out = r;
  else ronde__resume_close(r);
  return status;
}

ronde_status ronde__resume_open(const char *path, ronde__resume **resume_out) {
  ronde__resume *r;
  RONDE_TRY(ronde__checkpoint_open(path, &r));
  return finish(r, resume_out);
}

ronde_status ronde__resume_parse(const char *name, const void *data, size_t bytes, ronde__resume **resume_out) {
  ronde__resume *r;
  RONDE__ALLOC(r, sizeof *r, name);
  r->path = ronde__strdup(name);
  ronde_status status = r->path ? ronde__safetensors_parse(name, data, bytes, &r->file)
                                : ronde__fail(RONDE_E_MEMORY, "%s: no memory for its name", name);
  if (status == RONDE_OK) return finish(r, resume_out);
  ronde__resume_close(r);
  return status;
}

ronde_status ronde__resume_follow(const char *path, const char *folder, void *header, size_t header_bytes,
                                  uint64_t file_bytes, ronde__resume **resume_out) {
  ronde__resume *r = ronde__alloc(sizeof *r);
  if (!r) {
    ronde__free(header);
    return ronde__fail(RONDE_E_MEMORY, "%s: no memory", path);
  }
  *r = (ronde__resume){.path = ronde__strdup(path), .folder = *folder ? ronde__strdup(folder) : NULL, .header = header};
  ronde_status status = r->path && (r->folder || !*folder)
                            ? ronde__safetensors_parse_header(path, header, header_bytes, file_bytes, &r->file)
                            : ronde__fail(RONDE_E_MEMORY, "%s: no memory for its name", path);
  if (status == RONDE_OK) return finish(r, resume_out);
  ronde__resume_close(r);
  return status;
}

ronde_status ronde__resume_find(const ronde_config *config, ronde__resume **resume_out) {
  const ronde__options *o = ronde__config_options(config);
  *resume_out = NULL;
  if (!o->resume) return RONDE_OK;
  bool automatic = strcmp(o->resume, "auto") == 0, any = true;
  if (automatic && !o->out)
    return ronde__fail(RONDE_E_USAGE, "--resume auto needs --out, the folder to look for checkpoints in");
  if (automatic) RONDE_TRY(ronde__checkpoint_any(o->out, &any));
  return any ? ronde__resume_open(automatic ? o->out : o->resume, resume_out) : RONDE_OK;
}

void ronde__resume_close(ronde__resume *r) {
  if (!r) return;
  json_decref(r->json);
  ronde__safetensors_close(r->file);
  ronde__free(r->header);
  free(r->path);
  free(r->folder);
  ronde__free(r);
}

/* ---- options ---- */

/* The run that goes on, as far as it decides what can be taken over. */
typedef struct heir {
  const ronde__strategy *strategy;
  int64_t workers;                    /* 0: its launcher counts them */
  int64_t servers;                    /* more cannot live beside these workers; 0: as many as before can */
  bool counted;                       /* MPI has started its ranks already */
  bool has_hosts;                     /* the user names them, */
  bool one_host;                      /* or wants none */
  bool new_strategy, other_transport; /* the old one does not go with so many workers, */
  bool other_stages;                  /* nor do the old stages */
  bool alone;                         /* no two workers have the same part of the network */
  bool chose_collective;              /* not the user, but the run before, or the user gives choices */
  bool no_output;                     /* there is no folder for it */
  bool new_length;                    /* the user gave --epochs, which --steps would overrule */
} heir;

/* Whether an option of the run before can have no effect in this one. */
static bool is_without_effect(const heir *h, const ronde__option *o) {
  if (h->strategy && !ronde__strategy_understands(h->strategy, o->name)) return true;
  return (ronde__option_needs(o, RONDE__NEED_OUT) && h->no_output) ||
         (ronde__option_needs(o, RONDE__NEED_WORKERS) && h->alone) ||
         (ronde__option_needs(o, RONDE__NEED_EXCHANGE) && h->alone && !(h->strategy && h->strategy->place)) ||
         (ronde__option_needs(o, RONDE__NEED_PARTS) && h->strategy && ronde__strategy_reads_whole(h->strategy)) ||
         (ronde__option_needs(o, RONDE__NEED_MPI) && (h->has_hosts || h->one_host)) ||
         (ronde__option_needs(o, RONDE__NEED_LAUNCHED) && (h->has_hosts || h->one_host));
}

/* What the user gave, or what counts otherwise here, goes before what the run before was given. */
static bool is_replaced(const heir *h, const char *name) {
  if (!strcmp(name, "steps")) return h->new_length;
  if (!strcmp(name, "transport")) return h->counted || h->has_hosts || h->other_transport;
  if (!strcmp(name, "workers")) return h->counted;
  if (!strcmp(name, "strategy")) return h->new_strategy;
  if (!strcmp(name, "servers")) return h->servers > 0;
  if (!strcmp(name, "stages")) return h->other_stages;
  return !strcmp(name, "collective") && h->chose_collective;
}

static bool leave(void *user, const ronde__option *o) {
  if (o->resumed != RONDE__RESUMED_KEPT) return o->resumed == RONDE__RESUMED_ONCE;
  return is_replaced(user, o->name) || is_without_effect(user, o);
}

static const char *noted(const ronde__resume *r, const char *object, const char *name) {
  const char *text = json_string_value(json_object_get(json_object_get(r->json, object), name));
  return text ? text : "";
}

/* What the user gave, else what the run before was given, else the default. */
static const char *wanted(const ronde__resume *r, const ronde_config *config, const char *name) {
  const char *then = noted(r, "given", name);
  return *then && !ronde_config_is_given(config, name) ? then : ronde_config_get(config, name);
}

static heir heir_of(const ronde__resume *r, const ronde_config *config, int n_ranks) {
  const char *transport = ronde_config_get(config, "transport");
  heir h = {
      .counted = n_ranks > 0,
      .has_hosts = ronde_config_is_given(config, "hosts") || ronde_config_is_given(config, "hostfile"),
      .one_host = !strcmp(transport, "self") || !strcmp(transport, "threads"),
      .chose_collective = !strcmp(noted(r, "config", "collective"), "auto") || ronde_config_is_given(config, "choices"),
      .no_output = !r->folder && !ronde__config_options(config)->out,
      .new_length = ronde_config_is_given(config, "epochs")};
  ronde__options options = *ronde__config_options(config);
  ronde__strategy_settings settings = {.options = &options};
  options.backup = strtoll(wanted(r, config, "backup"), NULL, 10);
  h.strategy = ronde__strategy_find(wanted(r, config, "strategy"), &settings);
  bool serves = h.strategy && h.strategy->place;
  bool apart = serves && !strcmp(wanted(r, config, "placement"), "dedicated");
  int64_t servers = strtoll(wanted(r, config, "servers"), NULL, 10);
  if (ronde_config_is_given(config, "workers")) h.workers = ronde__config_options(config)->workers;
  else if (n_ranks) h.workers = n_ranks - (apart ? servers : 0);
  else if (*noted(r, "given", "workers")) h.workers = strtoll(noted(r, "given", "workers"), NULL, 10);
  else if (!h.has_hosts) h.workers = json_integer_value(json_object_get(json_object_get(r->json, "world"), "workers"));
  bool fits = !h.strategy || !h.strategy->max_workers || h.workers <= h.strategy->max_workers;
  h.new_strategy = !fits && !ronde_config_is_given(config, "strategy");
  if (!h.strategy || h.new_strategy) h.strategy = ronde__strategy_default((int)h.workers, &settings);
  int64_t stages = strtoll(wanted(r, config, "stages"), NULL, 10);
  h.other_stages = stages > 0 && h.workers % stages != 0;
  if (stages == 0 || h.other_stages) stages = h.workers;
  h.alone = h.workers == 1 || (h.workers > 0 && h.strategy->n_stages && h.workers == stages);
  if (serves && !apart && h.workers > 0 && servers > h.workers) h.servers = h.workers;
  h.other_transport = h.workers > 1 && !strcmp(noted(r, "given", "transport"), "self");
  return h;
}

static ronde_status set_number(ronde_config *config, const char *name, int64_t value) {
  char text[24];
  snprintf(text, sizeof text, "%" PRId64, value);
  return ronde_config_set(config, name, text);
}

/* What was resolved then, and would be resolved otherwise here. */
static ronde_status take_world(const ronde__resume *r, ronde_config *config, const heir *h) {
  if (h->servers && !ronde_config_is_given(config, "servers")) RONDE_TRY(set_number(config, "servers", h->servers));
  if (h->counted) return RONDE_OK;
  if (h->workers > 0 && !ronde_config_is_given(config, "workers")) RONDE_TRY(set_number(config, "workers", h->workers));
  bool has_hosts = ronde_config_is_given(config, "hosts") || ronde_config_is_given(config, "hostfile");
  bool was_mpi = !strcmp(noted(r, "config", "transport"), "mpi");
  if (!was_mpi || has_hosts || ronde_config_is_given(config, "transport")) return RONDE_OK;
  return ronde_config_set(config, "transport", "mpi");
}

ronde_status ronde__resume_options(const ronde__resume *r, ronde_config *config, int n_ranks) {
  const char *model = ronde__safetensors_meta(r->file, "model"), *asked = config->options.model;
  if (asked && model && strcmp(asked, model))
    return ronde__fail(RONDE_E_USAGE, "--model %s: %s is a checkpoint of %s", RONDE__SHOWN(asked), r->path, model);
  /* What was measured when the run began, or was named, is not measured again. */
  if (config->options.strategy == RONDE__STRATEGY_MEASURED) RONDE_TRY(ronde__config_name_strategy(config, NULL));
  heir h = heir_of(r, config, n_ranks);
  RONDE_TRY(ronde__config_take(config, json_object_get(r->json, "given"), leave, &h));
  RONDE_TRY(take_world(r, config, &h));
  return r->folder && !config->options.out ? ronde_config_set(config, "out", r->folder) : RONDE_OK;
}

const char *ronde__resume_collective(const ronde__resume *r, int n_workers, const char *strategy) {
  json_t *then = json_object_get(r->json, "world");
  bool same = json_integer_value(json_object_get(then, "workers")) == n_workers &&
              !strcmp(noted(r, "world", "strategy"), strategy);
  const char *name = noted(r, "given", "collective");
  return same && *name && !strcmp(noted(r, "config", "collective"), "auto") ? name : NULL;
}

/* What cannot be read here may be at hand where rank 0 is: a training says what is wrong with it. */
ronde_status ronde_config_resume(ronde_config *config) {
  ronde__resume *r = NULL;
  if (config->verb != RONDE__VERB_TRAIN) return RONDE_OK;
  ronde__log_mute(true);
  ronde_status found = ronde__resume_find(config, &r);
  ronde__log_mute(false);
  if (found != RONDE_OK || !r) return RONDE_OK;
  ronde_status status = ronde__resume_options(r, config, 0);
  ronde__resume_close(r);
  return status;
}

static ronde_status check_data(const ronde__resume *r, const ronde__job *job) {
  const ronde_source *source = &job->data->source;
  json_t *data = json_object_get(r->json, "data");
  const char *name = json_string_value(json_object_get(data, "name"));
  const char *sha256 = json_string_value(json_object_get(data, "sha256"));
  int64_t n = json_integer_value(json_object_get(data, "train_examples"));
  if (n != source->n_examples[RONDE_SPLIT_TRAIN])
    return ronde__fail(RONDE_E_INPUT, "%s was trained on other data: %s of %" PRId64 " examples, not %s of %" PRId64,
                       r->path, name, n, source->name, source->n_examples[RONDE_SPLIT_TRAIN]);
  if (sha256 && *sha256 && *job->data->sha256 && strcmp(sha256, job->data->sha256))
    return ronde__fail(RONDE_E_INPUT, "%s was trained on other data: %s with sha256 %.12s..., not %s with %.12s...",
                       r->path, name, sha256, source->name, job->data->sha256);
  return RONDE_OK;
}

/* A flag of an older version may take more words by now. */
static bool is_same_value(const json_t *then, const json_t *now) {
  if (!json_is_boolean(then) || !json_is_string(now)) return json_equal(then, now);
  return json_is_true(then) == (strcmp(json_string_value(now), "off") != 0);
}

static ronde_status check_option(const ronde__resume *r, const char *name, const json_t *then, const json_t *now) {
  if (is_same_value(then, now)) return RONDE_OK;
  char *was = json_dumps(then, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
  char *is = json_dumps(now, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
  ronde_status status =
      ronde__fail(RONDE_E_USAGE, "--%s is %s here, but %s in %s: it cannot change when a run is resumed", name,
                  is ? is : "?", was ? was : "?", r->path);
  free(was);
  free(is);
  return status;
}

static ronde_status check_config(const ronde__resume *r, const ronde__job *job, const json_t *now) {
  json_t *config = json_object_get(r->json, "config"), *then;
  const char *name;
  /* The seed draws synthetic data, and the data set the classes: what differs is named by its cause. */
  if ((then = json_object_get(config, "seed"))) RONDE_TRY(check_option(r, "seed", then, json_object_get(now, "seed")));
  RONDE_TRY(check_data(r, job));
  json_object_foreach(config, name, then) {
    const json_t *value = json_object_get(now, name);
    const ronde__option *o = ronde__option_find(job->config->verb, name);
    if (value && o && o->resumed == RONDE__RESUMED_FIXED) RONDE_TRY(check_option(r, name, then, value));
  }
  return RONDE_OK;
}

/* Whose run it was, and whose it is: either may say that only it can go on with its runs. */
static ronde_status check_strategy(const ronde__resume *r, const ronde__job *job) {
  const ronde__strategy *now = job->strategy;
  const char *name = noted(r, "world", "strategy");
  ronde__strategy_settings settings = {.options = job->options};
  const ronde__strategy *then = ronde__strategy_find(name, &settings);
  if (!then) return RONDE_OK;
  const char *why = strcmp(then->name, now->name) == 0 ? NULL
                    : then->keeps_strategy             ? then->keeps_strategy
                                                       : now->keeps_strategy;
  if (why)
    return ronde__fail(RONDE_E_USAGE, "--strategy %s cannot resume %s, a run of %s: %s", now->name, r->path, name, why);
  int64_t workers = json_integer_value(json_object_get(json_object_get(r->json, "world"), "workers"));
  why = workers == job->roles.n_workers ? NULL : now->keeps_workers;
  return why ? ronde__fail(RONDE_E_USAGE, "--workers %d cannot resume %s, a run of %" PRId64 " workers: %s",
                           job->roles.n_workers, r->path, workers, why)
             : RONDE_OK;
}

/* A model's file of the same name may have become another one. */
static ronde_status check_model(const ronde__resume *r, const ronde__job *job) {
  const char *then = ronde__safetensors_meta(r->file, RONDE__META_MODEL_SHA256);
  const char *now = job->file ? ronde__onnx_sha256(job->file) : NULL;
  if ((!then && !now) || (then && now && !strcmp(then, now))) return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT, "%s was trained from another file: --model %s had sha256 %.12s, not %.12s", r->path,
                     job->model_name, then ? then : "none", now ? now : "none");
}

const json_t *ronde__resume_note(const ronde__resume *r) { return json_object_get(r->json, "strategy"); }

/* "in f32", or "in bfloat16 (amx)". */
static const char *dtype_text(const char *bf16, char *text, size_t size) {
  if (!strcmp(bf16, ronde__bf16_name(NULL))) return "in f32";
  snprintf(text, size, "in bfloat16 (%s)", bf16);
  return text;
}

ronde_status ronde__resume_check(const ronde__resume *r, const ronde__job *job) {
  RONDE_TRY(check_strategy(r, job));
  RONDE_TRY(check_model(r, job));
  json_t *now = ronde__config_json(job->config);
  if (!now) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for its options", r->path);
  ronde_status status = check_config(r, job, now);
  json_decref(now);
  RONDE_TRY(status);
  if (job->steps < r->progress.step)
    return ronde__fail(RONDE_E_USAGE,
                       "%s has made %" PRId64 " updates already, but --epochs or --steps ask for only %" PRId64,
                       r->path, r->progress.step, job->steps);
  const char *isa = json_string_value(json_object_get(json_object_get(r->json, "choices"), "isa"));
  if (isa && strcmp(isa, job->compute.kernels->isa))
    ronde__log(RONDE_LOG_WARNING,
               "%s was computed with kernels for %s, and this run uses %s: results will differ by rounding", r->path,
               isa, job->compute.kernels->isa);
  const char *bf16 = json_string_value(json_object_get(json_object_get(r->json, "choices"), "bf16"));
  if (bf16 && strcmp(bf16, ronde__bf16_name(job->compute.bf16))) {
    char then[48], here[48];
    ronde__log(RONDE_LOG_WARNING, "%s multiplied %s, and this run multiplies %s: results will differ by rounding",
               r->path, dtype_text(bf16, then, sizeof then),
               dtype_text(ronde__bf16_name(job->compute.bf16), here, sizeof here));
  }
  return RONDE_OK;
}

/* ---- state ---- */

static ronde_status load_array(const ronde__resume *r, const ronde__net *net, const ronde__state_array *array) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  for (int i = 0; i < n_params; i++) {
    if (params[i].frozen) continue;
    char *name = ronde__format(RONDE__RESERVED "%s.%s", array->name, params[i].name);
    const ronde__file_tensor *tensor = name ? ronde__safetensors_find(r->file, name) : NULL;
    free(name);
    if (!tensor || tensor->dtype != RONDE__FILE_F32 || !ronde__shape_equal(&tensor->shape, &params[i].shape))
      return ronde__fail(RONDE_E_INPUT, "%s: the state's %s of %s is missing or has another shape", r->path,
                         array->name, params[i].name);
    ronde__weight_pack(&params[i].layout, tensor->data, array->values + params[i].offset);
  }
  return RONDE_OK;
}

/* A strategy that the run did not have begins with zeros. */
static bool is_new(const ronde__resume *r, const ronde__state *state, int i) {
  char *prefix = ronde__format(RONDE__RESERVED "%s.", state->arrays[i].name);
  bool any = i < ronde__optim_n_states(state->optim) || !prefix;
  for (int t = 0; t < r->file->n_tensors && !any; t++) any = !strncmp(r->file->tensors[t].name, prefix, strlen(prefix));
  free(prefix);
  return !any;
}

ronde_status ronde__resume_load(const ronde__resume *r, const ronde__state *state) {
  if (!r->header) ronde__weights_load(state->net, r->file, false);
  for (int i = 0; i < state->n_arrays && !r->header; i++)
    if (!is_new(r, state, i)) RONDE_TRY(load_array(r, state->net, &state->arrays[i]));
  json_t *updates = json_object_get(json_object_get(r->json, "place"), "optimizer_updates");
  ronde__optim_set_updates(state->optim, json_integer_value(updates));
  return RONDE_OK;
}
