/* From options to a job: automatic values resolved, everything checked that can be checked before a rank starts. */
#include "train/checkpoint.h"

#include "comm/mpi.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- model and data ---- */

static ronde_status parse_shape(const char *text, ronde__shape *shape_out) {
  long long c, h, w;
  int used = 0;
  if (sscanf(text, "%lldx%lldx%lld%n", &c, &h, &w, &used) != 3 || text[used] || c < 1 || h < 1 || w < 1 || c > 65536 ||
      h > 65536 || w > 65536)
    return ronde__fail(RONDE_E_USAGE, "--shape %s: not CxHxW, such as 1x28x28", text);
  *shape_out = (ronde__shape){3, {c, h, w}};
  return RONDE_OK;
}

/* --resize, or what the weights' file says of it. */
static ronde_status parse_resize(ronde__job *job) {
  const char *text = job->options->resize;
  long long h, w;
  int used = 0;
  if (!text) return RONDE_OK;
  if (sscanf(text, "%lldx%lld%n", &h, &w, &used) != 2 || text[used] || h < 1 || w < 1 || h > 16384 || w > 16384)
    return ronde__fail(RONDE_E_USAGE, "--resize %s: not HxW, such as 32x32, of at most 16384 each", text);
  job->resize[0] = h;
  job->resize[1] = w;
  return RONDE_OK;
}

static ronde_status set_text(char **field, const char *value) {
  free(*field);
  return (*field = ronde__strdup(value)) ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "options: no memory");
}

/* What the user left open, from what the weights' file says of itself. */
static ronde_status options_from_file(ronde__job *job) {
  ronde__options *o = &job->config->options;
  const ronde__safetensors *file = job->resume ? job->resume->file : job->init;
  const char *model = ronde__safetensors_meta(file, "model"), *shape = ronde__safetensors_meta(file, "shape");
  const char *classes = ronde__safetensors_meta(file, "classes"), *padding = ronde__safetensors_meta(file, "padding");
  const char *resize = ronde__safetensors_meta(file, "resize");
  bool same_model = !o->model || (model && !strcmp(o->model, model));
  if (!o->model && model && ronde__model_find(model)) RONDE_TRY(set_text(&o->model, model));
  if (!same_model) return RONDE_OK;
  /* Training asks the data: another number is either meant (--classes) or a mistake. */
  if (!o->classes && classes && job->config->verb != RONDE__VERB_TRAIN) o->classes = strtoll(classes, NULL, 10);
  if (o->classes < 0 || o->classes > 1000000) o->classes = 0;
  if (!ronde__config_is_set(job->config, "padding") && padding)
    o->padding = strcmp(padding, "valid") == 0 ? RONDE__PADDING_VALID : RONDE__PADDING_SAME;
  bool looks = job->config->verb == RONDE__VERB_PREDICT || job->config->verb == RONDE__VERB_EVAL;
  if (looks && !o->resize && resize && !job->hooks.source) RONDE_TRY(set_text(&o->resize, resize));
  if (job->config->verb == RONDE__VERB_PREDICT && !o->shape && shape) RONDE_TRY(set_text(&o->shape, shape));
  return RONDE_OK;
}

static ronde_status set_up_model(ronde__job *job) {
  const ronde__options *o = job->options;
  if (job->hooks.model) {
    job->model_name = o->model ? o->model : "custom";
    RONDE_TRY(ronde__config_no_effect(job->config, "padding", "the network is the caller's"));
    if (o->dropout > 0) RONDE_TRY(ronde__config_no_effect(job->config, "dropout", "the network is the caller's"));
    job->config->options.dropout = 0;
    return RONDE_OK;
  }
  if (!o->model) return ronde__fail(RONDE_E_USAGE, "--model NAME is needed: `ronde models` lists them");
  if (!(job->model = ronde__model_find(o->model)))
    return ronde__fail(RONDE_E_USAGE, "--model %s: no such network; `ronde models` lists them", o->model);
  job->model_name = job->model->name;
  if (!job->model->has_padding)
    RONDE_TRY(ronde__config_no_effect(job->config, "padding", "only mnist-small and mnist-large have it"));
  char why[64];
  snprintf(why, sizeof why, "%s has no dropout", job->model_name);
  if (o->dropout > 0 && job->model->dropout == 0) RONDE_TRY(ronde__config_no_effect(job->config, "dropout", why));
  if (o->dropout < 0) job->config->options.dropout = job->model->dropout;
  return RONDE_OK;
}

static ronde_status open_data(ronde__job *job) {
  const ronde__options *o = job->options;
  if (job->hooks.source) {
    if (o->data) return ronde__fail(RONDE_E_USAGE, "--data %s: the caller gives a source of its own", o->data);
    RONDE_TRY(ronde__config_no_effect(job->config, "cache", "the data are the caller's"));
    RONDE_TRY(ronde__config_no_effect(job->config, "normalize", "the data are the caller's"));
    RONDE_TRY(ronde__config_no_effect(job->config, "resize", "the data are the caller's"));
    RONDE_TRY(ronde__config_no_effect(job->config, "augment", "the data are the caller's"));
    RONDE_TRY(ronde__config_no_effect(job->config, "skip-bad-images", "the data are the caller's"));
    return ronde__data_wrap(job->hooks.source, &job->data);
  }
  if (!o->data) return ronde__fail(RONDE_E_USAGE, "--data NAME is needed, such as fashion-mnist");
  if (!strncmp(o->data, "synthetic", 9))
    RONDE_TRY(ronde__config_no_effect(job->config, "cache", "synthetic data are not decoded"));
  if (strncmp(o->data, "folder", 6))
    RONDE_TRY(ronde__config_no_effect(job->config, "skip-bad-images", "only folder:DIR has images to skip"));
  ronde__data_options options = {.spec = o->data,
                                 .cache = o->cache,
                                 .normalize = o->normalize,
                                 .seed = (uint64_t)o->seed,
                                 .classes = o->classes,
                                 .resize = {job->resize[0], job->resize[1]},
                                 .skip_bad_images = o->skip_bad_images};
  options.crop = o->augment == RONDE__AUGMENT_CROP || o->augment == RONDE__AUGMENT_CROP_FLIP;
  options.flip = o->augment == RONDE__AUGMENT_FLIP || o->augment == RONDE__AUGMENT_CROP_FLIP;
  if (job->config->verb == RONDE__VERB_INIT) options.cache = options.normalize = true;
  if (job->config->verb == RONDE__VERB_EVAL) options.seed = 1;
  RONDE_TRY(ronde__data_open(&options, &job->data));
  if (job->data->normalization.channels == 0)
    job->config->options.normalize = false; /* nothing is applied: the record says so */
  return RONDE_OK;
}

static void shape_from_data(ronde__job *job) {
  const ronde_source *source = &job->data->source;
  job->shape.rank = source->rank;
  memcpy(job->shape.dim, source->dims, sizeof job->shape.dim);
  job->classes = job->options->classes ? job->options->classes : source->classes;
  job->config->options.classes = job->classes;
}

/* Without data, the model's usual input and classes are the default. */
static ronde_status shape_from_options(ronde__job *job) {
  const ronde__options *o = job->options;
  if (!job->model) return ronde__fail(RONDE_E_USAGE, "--data is needed for a network of the caller's");
  job->shape = (ronde__shape){3, {job->model->shape[0], job->model->shape[1], job->model->shape[2]}};
  job->classes = o->classes ? o->classes : job->model->classes;
  job->config->options.classes = job->classes;
  return o->shape ? parse_shape(o->shape, &job->shape) : RONDE_OK;
}

/* --resume: what the user left open is as it was in that run. */
static ronde_status open_resume(ronde__job *job) {
  ronde__options *o = &job->config->options;
  if (!o->resume) return RONDE_OK;
  if (o->dry_run)
    RONDE_TRY(ronde__config_no_effect(job->config, "resume", "--dry-run saves nothing and goes on with nothing"));
  bool automatic = strcmp(o->resume, "auto") == 0;
  if (automatic && !o->out)
    return ronde__fail(RONDE_E_USAGE, "--resume auto: there is no --out to look for checkpoints in");
  if (automatic) {
    bool any;
    RONDE_TRY(ronde__checkpoint_any(o->out, &any));
    if (!any) return RONDE_OK;
  }
  RONDE_TRY(ronde__resume_open(automatic ? o->out : o->resume, &job->resume));
  RONDE_TRY(ronde__resume_options(job->resume, job->config));
  if (!o->out && job->resume->folder) RONDE_TRY(set_text(&o->out, job->resume->folder));
  return RONDE_OK;
}

static ronde_status open_init(ronde__job *job) {
  const char *path = job->options->init;
  if (job->resume) return options_from_file(job);
  if (!path) return RONDE_OK;
  RONDE_TRY(ronde__safetensors_open(path, &job->init));
  RONDE_TRY(ronde__safetensors_check_finite(job->init));
  return options_from_file(job);
}

/* ---- training ---- */

static ronde_status resolve_optimizer(ronde__job *job) {
  ronde__options *o = &job->config->options;
  bool sgd = o->optimizer == RONDE__OPTIMIZER_SGD, adagrad = o->optimizer == RONDE__OPTIMIZER_ADAGRAD;
  if (!sgd) RONDE_TRY(ronde__config_no_effect(job->config, "momentum", "only --optimizer sgd has it"));
  if (!sgd) RONDE_TRY(ronde__config_no_effect(job->config, "nesterov", "only --optimizer sgd has it"));
  if (o->nesterov && o->momentum == 0) return ronde__fail(RONDE_E_USAGE, "--nesterov needs a --momentum above 0");
  if (sgd || adagrad)
    RONDE_TRY(ronde__config_no_effect(job->config, "betas", "only --optimizer adam and adamw have them"));
  if (sgd) RONDE_TRY(ronde__config_no_effect(job->config, "eps", "--optimizer sgd has none"));
  if (o->eps < 0) o->eps = sgd ? 0 : adagrad ? 1e-10 : 1e-8;
  if (o->weight_decay < 0) o->weight_decay = o->optimizer == RONDE__OPTIMIZER_ADAMW ? 0.01 : 0;
  if (o->lr_scale_workers) o->lr *= job->world;
  static const ronde__optim_kind kinds[] = {RONDE__OPTIM_SGD, RONDE__OPTIM_ADAM, RONDE__OPTIM_ADAMW,
                                            RONDE__OPTIM_ADAGRAD};
  job->optim = (ronde__optim_options){kinds[o->optimizer], o->lr,       o->momentum, o->weight_decay,
                                      o->nesterov,         o->betas[0], o->betas[1], o->eps};
  return RONDE_OK;
}

static ronde_status resolve_schedule(ronde__job *job) {
  const ronde__options *o = job->options;
  static const ronde__schedule_kind kinds[] = {RONDE__SCHEDULE_CONSTANT, RONDE__SCHEDULE_STEP, RONDE__SCHEDULE_COSINE};
  if (kinds[o->lr_schedule] != RONDE__SCHEDULE_STEP) {
    RONDE_TRY(ronde__config_no_effect(job->config, "lr-step", "only --lr-schedule step has it"));
    RONDE_TRY(ronde__config_no_effect(job->config, "lr-gamma", "only --lr-schedule step has it"));
  }
  job->schedule = (ronde__schedule){kinds[o->lr_schedule], o->lr,      o->lr_gamma, o->lr_step,
                                    job->steps_per_epoch,  job->steps, o->warmup};
  return RONDE_OK;
}

/* Under MPI the launcher has said how many there are. */
static ronde_status join_mpi(ronde__job *job) {
  ronde__options *o = &job->config->options;
  bool wanted =
      o->transport == RONDE__TRANSPORT_MPI || (o->transport == RONDE__TRANSPORT_AUTO && ronde__mpi_launched());
  if (job->config->verb != RONDE__VERB_TRAIN) return RONDE_OK;
  if (!wanted && o->hosts) return ronde__fail(RONDE_E_USAGE, "--hosts: this process was not started by mpirun or srun");
  if (!wanted) return ronde__config_no_effect(job->config, "iface", "only --transport mpi uses it");
  if (o->trace) return ronde__fail(RONDE_E_USAGE, "--trace: only ranks of one process can write one trace");
  RONDE_TRY(ronde__transport_mpi(&job->mpi));
  int n_workers = job->mpi->size - (job->dedicated ? job->n_servers : 0);
  /* All ranks see it; one says it. */
  if (n_workers < 1 || (ronde__config_is_set(job->config, "workers") && o->workers != n_workers))
    return job->mpi->rank != 0 ? RONDE_E_USAGE
                               : ronde__fail(RONDE_E_USAGE, "--workers %" PRId64 "%s, but MPI has started %d processes",
                                             o->workers, job->dedicated ? " and their servers" : "", job->mpi->size);
  o->transport = RONDE__TRANSPORT_MPI;
  o->workers = n_workers;
  return RONDE_OK;
}

/* Of the workers of this host. */
static int default_threads(const ronde__job *job) {
  int n = job->mpi ? ronde__transport_local(job->mpi) : ronde__job_ranks(job);
  return (int)ronde__max(1, ronde__cores() / n);
}

/* Before the workers are counted: under MPI the others are servers. */
static ronde_status resolve_servers(ronde__job *job) {
  const ronde__options *o = job->options;
  if (job->config->verb != RONDE__VERB_TRAIN) return RONDE_OK;
  const ronde__strategy *strategy = ronde__strategy_find(ronde_config_get(job->config, "strategy"));
  if (strategy && strategy->has_servers) {
    job->n_servers = (int)o->servers;
    job->dedicated = o->placement == RONDE__PLACEMENT_DEDICATED;
    RONDE_TRY(ronde__config_no_effect(job->config, "wire", "parameter servers are sent f32"));
    return ronde__config_no_effect(job->config, "collective", "parameter servers sum the gradients");
  }
  RONDE_TRY(ronde__config_no_effect(job->config, "servers", "the strategy has no parameter servers"));
  return ronde__config_no_effect(job->config, "placement", "the strategy has no parameter servers");
}

/* What needs all workers in one step, or one state of all of them. */
static ronde_status check_asynchronous(ronde__job *job) {
  static const char *const options[] = {"sync-bn",          "skip-bad-steps", "clip",    "resume",
                                        "checkpoint-every", "keep",           "sentinel"};
  if (!job->strategy->asynchronous) return RONDE_OK;
  for (size_t i = 0; i < RONDE__COUNT(options); i++)
    RONDE_TRY(ronde__config_no_effect(job->config, options[i], "the steps of asynchronous workers are each its own"));
  job->config->options.sentinel = 0;
  return RONDE_OK;
}

static ronde_status check_servers(ronde__job *job) {
  if (job->options->transport == RONDE__TRANSPORT_SELF && job->n_servers)
    return ronde__fail(RONDE_E_USAGE, "--transport self: a parameter server is somebody to talk to");
  if (!job->dedicated && job->n_servers > job->world)
    return ronde__fail(RONDE_E_USAGE, "--servers %d: only %d of them can live beside %d workers (--placement dedicated "
                       "has ranks of their own)", job->n_servers, job->world, job->world);
  RONDE__ALLOC(job->worker_ranks, (size_t)job->world * sizeof *job->worker_ranks, "options");
  for (int i = 0; i < job->world; i++) job->worker_ranks[i] = i;
  return RONDE_OK;
}

static ronde_status resolve_world(ronde__job *job) {
  ronde__options *o = &job->config->options;
  RONDE_TRY(resolve_servers(job));
  RONDE_TRY(join_mpi(job));
  job->world = (int)o->workers;
  job->threads = o->threads ? (int)o->threads : default_threads(job);
  o->threads = job->threads;
  if (job->config->verb != RONDE__VERB_TRAIN) return RONDE_OK;
  if (o->transport == RONDE__TRANSPORT_SELF && job->world > 1)
    return ronde__fail(RONDE_E_USAGE, "--transport self has one worker, not %d", job->world);
  const char *wanted = ronde_config_get(job->config, "strategy");
  job->strategy =
      ronde__strategy_find(o->strategy == RONDE__STRATEGY_AUTO ? (job->world > 1 ? "allreduce" : "single") : wanted);
  if (!job->strategy) return ronde__fail(RONDE_E_INTERNAL, "--strategy %s: no such strategy is built in", wanted);
  if (job->world < job->strategy->min_ranks || (job->strategy->max_ranks && job->world > job->strategy->max_ranks))
    return ronde__fail(RONDE_E_USAGE, "--strategy %s has %d worker, not %d", job->strategy->name,
                       job->strategy->max_ranks, job->world);
  RONDE_TRY(check_servers(job));
  RONDE_TRY(check_asynchronous(job));
  if (!strcmp(job->strategy->name, "single")) {
    RONDE_TRY(ronde__config_no_effect(job->config, "collective", "one worker exchanges nothing"));
    RONDE_TRY(ronde__config_no_effect(job->config, "wire", "one worker exchanges nothing"));
    RONDE_TRY(ronde__config_no_effect(job->config, "bucket-mb", "one worker exchanges nothing"));
    RONDE_TRY(ronde__config_no_effect(job->config, "overlap", "one worker exchanges nothing"));
  }
  if (o->collective != RONDE__COLLECTIVE_AUTO)
    job->collective = ronde__allreduce_find(ronde_config_get(job->config, "collective"));
  if (o->collective == RONDE__COLLECTIVE_MPI && !job->mpi)
    return ronde__fail(RONDE_E_USAGE, "--collective mpi: only transport mpi has it");
  if (o->wire == RONDE__WIRE_BF16 && job->collective && o->collective != RONDE__COLLECTIVE_RING)
    return ronde__fail(RONDE_E_USAGE, "--wire bf16 goes round a ring: --collective %s cannot do it",
                       job->collective->name);
  if (o->wire == RONDE__WIRE_BF16) job->collective = ronde__allreduce_find("ring");
  if (job->world == 1 && o->sync_bn)
    RONDE_TRY(ronde__config_no_effect(job->config, "sync-bn", "one worker has the whole batch"));
  if (o->sync_bn && o->exec == RONDE__EXEC_EAGER)
    return ronde__fail(RONDE_E_USAGE,
                       "--sync-bn needs --exec graph: eager workers may not all meet the same normalisations");
  if (job->world == 1)
    RONDE_TRY(ronde__config_no_effect(job->config, "sentinel", "one worker has nobody to compare with"));
  if (job->world == 1) RONDE_TRY(ronde__config_no_effect(job->config, "shard", "one worker reads everything anyway"));
  return RONDE_OK;
}

static ronde_status resolve_drill(ronde__job *job) {
  const char *text = job->options->drill;
  job->drill_slow_rank = -1;
  while (text && *text) {
    double ms;
    int rank, used = 0;
    long long step;
    if (sscanf(text, "load:%lf%n", &ms, &used) == 1 && used && ms >= 0 && ms <= 60000) {
      job->drill_load_ns = (uint64_t)(ms * 1e6);
    } else if (sscanf(text, "slow:%d:%lf%n", &rank, &ms, &used) == 2 && used && ms >= 0 && ms <= 60000) {
      if (rank < 0 || rank >= job->world)
        return ronde__fail(RONDE_E_USAGE, "--drill %s: there is no rank %d among %d", text, rank, job->world);
      job->drill_slow_rank = rank;
      job->drill_slow_ns = (uint64_t)(ms * 1e6);
      int more = 0;
      if (sscanf(text + used, "@%lld%n", &step, &more) == 1 && more && step > 0) job->drill_slow_step = step;
      used += more;
    } else if (sscanf(text, "drift:%d:%lld%n", &rank, &step, &used) == 2 && used && step > 0) {
      if (rank < 0 || rank >= job->world)
        return ronde__fail(RONDE_E_USAGE, "--drill %s: there is no rank %d among %d", text, rank, job->world);
      job->drill_drift_rank = rank;
      job->drill_drift_step = step;
    } else {
      return ronde__fail(RONDE_E_USAGE, "--drill %s: not load:MS, slow:RANK:MS[@STEP] or drift:RANK:STEP", text);
    }
    text += used;
    if (*text && *text++ != ',')
      return ronde__fail(RONDE_E_USAGE, "--drill %s: parts are separated by commas", job->options->drill);
  }
  return RONDE_OK;
}

static ronde_status resolve_steps(ronde__job *job) {
  ronde__options *o = &job->config->options;
  const ronde_source *source = &job->data->source;
  if (o->local_batch && ronde__config_is_set(job->config, "batch"))
    return ronde__fail(RONDE_E_USAGE, "--batch and --local-batch both give the size of a step: one of them is enough");
  if (o->local_batch) o->batch = o->local_batch * job->world;
  job->batch = o->batch;
  job->local_batch = ronde__ceil_div(job->batch, job->world);
  ronde__sampler_options sampler = {source->n_examples[RONDE_SPLIT_TRAIN],
                                    o->repeat,
                                    o->val_split,
                                    o->batch,
                                    o->shuffle,
                                    o->drop_last,
                                    (uint64_t)o->seed};
  RONDE_TRY(ronde__sampler_create(&sampler, &job->sampler));
  int64_t n_validation;
  ronde__sampler_validation(job->sampler, &n_validation);
  if (o->val_split > 0 && n_validation == 0)
    return ronde__fail(RONDE_E_USAGE, "--val-split %g keeps none of %" PRId64 " examples", o->val_split,
                       sampler.n_train);
  job->batches_per_epoch = ronde__sampler_epoch_batches(job->sampler);
  job->steps_per_epoch = ronde__ceil_div(job->batches_per_epoch, o->accumulate);
  if (o->epochs > INT64_MAX / 2 / job->steps_per_epoch)
    return ronde__fail(RONDE_E_USAGE, "--epochs %" PRId64 ": too many", o->epochs);
  job->steps = o->steps ? o->steps : o->epochs * job->steps_per_epoch;
  return RONDE_OK;
}

/* What is done with tests, where there are any. */
static ronde_status resolve_tests(ronde__job *job) {
  const ronde__options *o = job->options;
  int64_t n_tests;
  ronde__sampler_validation(job->sampler, &n_tests);
  if (n_tests == 0) n_tests = job->data->source.n_examples[RONDE_SPLIT_TEST];
  if (n_tests == 0) {
    RONDE_TRY(ronde__config_no_effect(job->config, "eval-every", "the data have no test examples"));
    RONDE_TRY(ronde__config_no_effect(job->config, "target-accuracy", "the data have no test examples"));
  }
  if (job->data->source.classes == 0)
    RONDE_TRY(ronde__config_no_effect(job->config, "target-accuracy", "the targets are values, not classes"));
  if (o->out && o->save_best && n_tests > 0 && !(job->best_path = ronde__format("%s/best.safetensors", o->out)))
    return ronde__fail(RONDE_E_MEMORY, "%s/best.safetensors: no memory", o->out);
  return RONDE_OK;
}

/* What must see all gradients of a step before the first parameter changes. */
static bool needs_whole_gradients(const ronde__job *job) {
  return job->options->clip > 0 || job->options->accumulate > 1 || job->options->skip_bad_steps > 0;
}

static ronde_status set_up_training(ronde__job *job) {
  const ronde__options *o = job->options;
  if (!o->out) RONDE_TRY(ronde__config_no_effect(job->config, "trace", "there is no --out to write it to"));
  if (o->dry_run && (o->out || o->save))
    return ronde__fail(RONDE_E_USAGE, "--dry-run writes nothing: --out and --save can have no effect");
  RONDE_TRY(resolve_steps(job));
  RONDE_TRY(resolve_tests(job));
  RONDE_TRY(resolve_optimizer(job));
  RONDE_TRY(resolve_schedule(job));
  job->fused_update = job->world == 1 && job->strategy->fuses_alone && !needs_whole_gradients(job) &&
                      o->exec != RONDE__EXEC_EAGER;
  return resolve_drill(job);
}

/* Statistics of one value are none: to be refused before training, not in a short last batch. */
static ronde_status check_batch_norm(const ronde__job *job, const ronde_graph *graph) {
  int64_t last = ronde__sampler_epoch_examples(job->sampler) - (job->batches_per_epoch - 1) * job->batch;
  int64_t sizes[] = {job->batch, last};
  for (int i = 0; i < graph->n_nodes; i++) {
    const ronde__node *node = &graph->nodes[i];
    const ronde__shape *shape = &graph->tensors[node->out]->shape;
    if (node->kind != RONDE__OP_BATCH_NORM2D || shape->dim[1] * shape->dim[2] > 1) continue;
    for (int s = 0; s < 2; s++) {
      int64_t parts = job->options->sync_bn ? 1 : job->world; /* whose examples are normalised by themselves */
      if (sizes[s] / parts == 1 || ronde__ceil_div(sizes[s], parts) == 1)
        return ronde__fail(RONDE_E_USAGE,
                           "%s: batch normalisation over a single value: %s 1 example of a batch of %" PRId64 "%s",
                           node->label, parts == 1 ? "there is" : "a worker has", sizes[s],
                           s ? " (the short last one: --drop-last leaves it out)" : "");
    }
  }
  return RONDE_OK;
}

/* Weights of another number of classes: a new output layer, where --classes says that it is meant. */
static ronde_status check_weights(ronde__job *job, const ronde_graph *graph) {
  const ronde__options *o = job->options;
  int64_t in_file = 0;
  bool trains = job->config->verb == RONDE__VERB_TRAIN;
  RONDE_TRY(ronde__weights_check(graph, job->init, o->init, trains ? &in_file : NULL));
  if (in_file == 0) return RONDE_OK;
  const char *head = ronde__graph_head(graph);
  if (!ronde__config_is_set(job->config, "classes"))
    return ronde__fail(RONDE_E_INPUT,
                       "%s: its output layer %s has %" PRId64 " classes, but the data %s have %" PRId64
                       ": --classes %" PRId64 " starts a new output layer, --classes %" PRId64 " keeps the file's",
                       o->init, head, in_file, job->data->source.name, job->classes, job->classes, in_file);
  if (!(job->new_head = ronde__strdup(head))) return ronde__fail(RONDE_E_MEMORY, "%s: no memory", o->init);
  ronde__log(RONDE_LOG_INFO,
             "%s is new: %" PRId64 " classes instead of the %" PRId64 " in %s, drawn by --seed %" PRId64, head,
             job->classes, in_file, o->init, o->seed);
  return RONDE_OK;
}

static ronde_status check_synchronised(const ronde__job *job, ronde_graph *graph) {
  if (!job->options->sync_bn || ronde__graph_synchronise(graph)) return RONDE_OK;
  return ronde__config_no_effect(job->config, "sync-bn", "the network has no batch normalisation");
}

/* Shape errors, and data and weights that do not fit the network, are found here, before any rank starts. */
static ronde_status check_network(ronde__job *job) {
  ronde_graph *graph;
  RONDE_TRY(ronde__job_graph(job, &graph));
  ronde_status status = job->init ? check_weights(job, graph) : RONDE_OK;
  if (job->resume) status = ronde__weights_check(graph, job->resume->file, job->resume->path, NULL);
  if (status == RONDE_OK && job->sampler) status = check_synchronised(job, graph);
  if (status == RONDE_OK && job->sampler) status = check_batch_norm(job, graph);
  ronde_graph_destroy(graph);
  return status;
}

/* "500": steps; "30s", "10m", "2h": time. */
static ronde_status resolve_checkpoints(ronde__job *job) {
  const char *text = job->options->checkpoint_every;
  if (!job->options->out) {
    RONDE_TRY(ronde__config_no_effect(job->config, "checkpoint-every", "there is no --out to write them to"));
    RONDE_TRY(ronde__config_no_effect(job->config, "keep", "there is no --out to write them to"));
  }
  if (!text) return RONDE_OK;
  long long n;
  char unit = 0;
  int used = 0, n_read = sscanf(text, "%18lld%c%n", &n, &unit, &used);
  uint64_t unit_s = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 0;
  bool digits = text[0] >= '0' && text[0] <= '9';
  if (digits && n_read == 1) {
    job->checkpoint_steps = n;
    return RONDE_OK;
  }
  if (!digits || n_read != 2 || !unit_s || text[used] || n < 1 || n > 1000000)
    return ronde__fail(RONDE_E_USAGE, "--checkpoint-every %s: not a number of steps, nor a time such as 30s, 10m or 2h",
                       text);
  job->checkpoint_ns = (uint64_t)n * unit_s * 1000000000u;
  return RONDE_OK;
}

/* A run that starts anew does not write among the checkpoints of another. */
static ronde_status check_out(const ronde__job *job) {
  bool any = false;
  if (job->options->out && !job->resume) RONDE_TRY(ronde__checkpoint_any(job->options->out, &any));
  if (!any) return RONDE_OK;
  return ronde__fail(RONDE_E_USAGE, "--out %s has checkpoints of an earlier run: --resume auto goes on from there; "
                     "remove them, or name another folder, to start anew", job->options->out);
}

/* One batch, again and again: a small rate keeps the numbers of many steps finite, and without dropout every system
 * computes the same. */
static ronde_status set_up_stepper(ronde__job *job) {
  ronde__options *o = &job->config->options;
  o->lr = 0.001;
  o->dropout = 0;
  job->batch = job->local_batch = o->batch;
  job->fused_update = true;
  return resolve_optimizer(job);
}

static ronde_status set_up_checkpoints(ronde__job *job) {
  RONDE_TRY(resolve_checkpoints(job));
  RONDE_TRY(check_out(job));
  return job->resume ? ronde__resume_check(job->resume, job) : RONDE_OK;
}

static ronde_status resolve(ronde__job *job) {
  int verb = job->config->verb;
  RONDE_TRY(ronde__kernels_get(&job->kernels));
  RONDE_TRY(ronde__gemm_default(job->kernels, &job->gemm));
  RONDE_TRY(open_resume(job));
  if (verb == RONDE__VERB_TRAIN) RONDE_TRY(ronde__config_copy(job->config, &job->given));
  RONDE_TRY(open_init(job));
  RONDE_TRY(parse_resize(job));
  RONDE_TRY(set_up_model(job));
  if (verb != RONDE__VERB_INIT) RONDE_TRY(resolve_world(job));
  bool has_data = verb == RONDE__VERB_TRAIN || verb == RONDE__VERB_EVAL || job->options->data || job->hooks.source;
  if (has_data) {
    RONDE_TRY(open_data(job));
    shape_from_data(job);
  } else {
    if (verb == RONDE__VERB_INIT) RONDE_TRY(ronde__config_no_effect(job->config, "resize", "there is no --data"));
    if (verb == RONDE__VERB_INIT)
      RONDE_TRY(ronde__config_no_effect(job->config, "skip-bad-images", "there is no --data"));
    RONDE_TRY(shape_from_options(job));
  }
  if (verb == RONDE__VERB_TRAIN) RONDE_TRY(set_up_training(job));
  if (verb == RONDE__VERB_BENCH_STEP || verb == RONDE__VERB_BENCH_KERNELS) RONDE_TRY(set_up_stepper(job));
  if (verb == RONDE__VERB_TRAIN) RONDE_TRY(set_up_checkpoints(job));
  return verb == RONDE__VERB_PREDICT
             ? RONDE_OK
             : check_network(job); /* predict knows the input's shape only when it has read it */
}

ronde_status ronde__job_create(const ronde_config *config, const ronde_hooks *hooks, ronde__job **job_out) {
  ronde__job *job;
  RONDE__ALLOC(job, sizeof *job, "job");
  *job = (ronde__job){.drill_slow_rank = -1};
  if (hooks) job->hooks = *hooks;
  ronde_status status = ronde__config_copy(config, &job->config);
  if (status == RONDE_OK) {
    job->options = ronde__config_options(job->config);
    status = resolve(job);
  }
  if (status == RONDE_OK && job->mpi) status = ronde__job_agree(job);
  if (status != RONDE_OK && job->mpi) job->mpi->ops->abort(job->mpi);
  if (status != RONDE_OK) ronde__job_destroy(job);
  else *job_out = job;
  return status;
}

void ronde__job_destroy(ronde__job *job) {
  if (!job) return;
  ronde__transport_destroy(job->mpi);
  ronde__sampler_destroy(job->sampler);
  ronde__data_close(job->data);
  ronde__safetensors_close(job->init);
  free(job->best_path);
  ronde__free(job->worker_ranks);
  free(job->new_head);
  ronde__resume_close(job->resume);
  ronde_config_destroy(job->config);
  ronde_config_destroy(job->given);
  ronde__free(job);
}
