/* From options to a job: automatic values resolved, everything checked that can be checked before a rank starts. */
#include "config/option.h"
#include "kernel/bf16.h"
#include "data/columns.h"
#include "job/normalize.h"
#include "setup/setup.h"
#include "state/weights.h"
#include "job/split.h"

#include <ronde/measure.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- model and data ---- */

/* Of a network of the caller's, or one that takes any: of any rank, "20" or "3x32x32". */
static ronde_status parse_any_shape(const char *text, ronde__shape *shape_out) {
  ronde__shape shape = {0};
  const char *at = text;
  for (bool more = true; more; at += more) {
    char *end;
    long long dim = strtoll(at, &end, 10);
    if (end == at || dim < 1 || dim > 65536 || shape.rank == RONDE_MAX_RANK || (*end && *end != 'x'))
      return ronde__fail(RONDE_E_USAGE, "--shape %s: expected dimensions such as 20 or 3x32x32", RONDE__SHOWN(text));
    shape.dim[shape.rank++] = dim;
    more = *(at = end) == 'x';
  }
  *shape_out = shape;
  return RONDE_OK;
}

static ronde_status parse_shape(const char *text, ronde__shape *shape_out) {
  long long c, h, w;
  int used = 0;
  if (sscanf(text, "%lldx%lldx%lld%n", &c, &h, &w, &used) != 3 || text[used] || c < 1 || h < 1 || w < 1 || c > 65536 ||
      h > 65536 || w > 65536)
    return ronde__fail(RONDE_E_USAGE, "--shape %s: expected CxHxW, such as 1x28x28", RONDE__SHOWN(text));
  *shape_out = (ronde__shape){3, {c, h, w}};
  return RONDE_OK;
}

static ronde_status set_text(char **field, const char *value) {
  free(*field);
  return (*field = ronde__strdup(value)) ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "options: no memory");
}

/* An option of train as the file names it, where it does. */
static ronde_status option_from_file(ronde__job *job, const char *name) {
  const char *value = ronde__safetensors_meta(job->weights, name);
  const ronde__option *option = ronde__option_find(RONDE__VERB_TRAIN, name);
  return value ? ronde__option_set(option, &job->config->options, value, job->weights_path) : RONDE_OK;
}

/* What it was trained to tell, where that is values. */
static ronde_status targets_from_file(ronde__job *job) {
  const char *targets = ronde__safetensors_meta(job->weights, "targets");
  char *end;
  if (!targets) return RONDE_OK;
  job->targets = strtoll(targets, &end, 10);
  if (*end || job->targets < 1)
    return ronde__fail(RONDE_E_INPUT, "%s: metadata targets makes no sense: %s", job->weights_path,
                       RONDE__SHOWN(targets));
  RONDE_TRY(option_from_file(job, "loss"));
  return option_from_file(job, "huber-delta");
}

/* What it was trained to read, where that is tokens; a text is cut, and tokens are hidden, as they were. */
static ronde_status tokens_from_file(ronde__job *job, const char *shape) {
  const char *vocabulary = ronde__safetensors_meta(job->weights, "vocabulary");
  char *end;
  if (!vocabulary) return RONDE_OK;
  job->vocabulary = strtoll(vocabulary, &end, 10);
  if (*end || job->vocabulary < 1 || job->vocabulary > INT32_MAX)
    return ronde__fail(RONDE_E_INPUT, "%s: metadata vocabulary makes no sense: %s", job->weights_path,
                       RONDE__SHOWN(vocabulary));
  bool evaluates = job->config->verb == RONDE__VERB_EVAL;
  if (evaluates && !ronde_config_is_given(job->config, "mask")) RONDE_TRY(option_from_file(job, "mask"));
  if (!ronde_config_is_given(job->config, "mask-token")) RONDE_TRY(option_from_file(job, "mask-token"));
  bool cuts = evaluates && !ronde_config_is_given(job->config, "window");
  if (cuts && shape && ronde__data_has_window(job->options->data)) {
    const ronde__option *option = ronde__option_find(RONDE__VERB_TRAIN, "window");
    return ronde__option_set(option, &job->config->options, shape, job->weights_path);
  }
  return RONDE_OK;
}

/* Recordings are filled up as they were, which fixes the size of the network's tensors. A resumed run has its own option. */
static void frames_from_file(ronde__job *job, const char *shape) {
  int64_t bands, frames;
  bool open =
      !job->resume && ronde__data_is_of_recordings(job->options->data) && !ronde_config_is_given(job->config, "frames");
  if (open && shape && sscanf(shape, "1x%" SCNd64 "x%" SCNd64, &bands, &frames) == 2 && frames >= 0 && frames <= 65536)
    job->config->options.frames = frames;
}

static ronde_status more_inputs_from_file(ronde__job *job) {
  const char *more = ronde__safetensors_meta(job->weights, RONDE__META_MORE_INPUTS);
  if (!more || ronde__more_inputs_parse(more, &job->more)) return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT, "%s: metadata %s makes no sense: %s", job->weights_path, RONDE__META_MORE_INPUTS,
                     RONDE__SHOWN(more));
}

/* What the user left open, from what the weights' file says of itself. */
static ronde_status options_from_file(ronde__job *job) {
  ronde__options *o = &job->config->options;
  const ronde__safetensors *file = job->weights;
  const char *model = ronde__safetensors_meta(file, "model"), *shape = ronde__safetensors_meta(file, "shape");
  const char *classes = ronde__safetensors_meta(file, "classes"), *padding = ronde__safetensors_meta(file, "padding");
  const char *resize = ronde__safetensors_meta(file, "resize");
  bool same_model = !o->model || (model && !strcmp(o->model, model));
  if (!o->model && model && (ronde__model_find(model) || ronde__onnx_named(model)))
    RONDE_TRY(set_text(&o->model, model));
  if (!same_model) return RONDE_OK;
  /* Training asks the data: another number is either meant (--classes) or a mistake. */
  if (!o->classes && classes && job->config->verb != RONDE__VERB_TRAIN) o->classes = strtoll(classes, NULL, 10);
  if (o->classes < 0 || o->classes > 1000000) o->classes = 0;
  if (!ronde_config_is_given(job->config, "padding") && padding)
    o->padding = strcmp(padding, "valid") == 0 ? RONDE__PADDING_VALID : RONDE__PADDING_SAME;
  if (!ronde_config_is_given(job->config, "activation")) RONDE_TRY(option_from_file(job, "activation"));
  if (job->config->verb != RONDE__VERB_TRAIN) RONDE_TRY(targets_from_file(job));
  RONDE_TRY(tokens_from_file(job, shape));
  RONDE_TRY(more_inputs_from_file(job));
  frames_from_file(job, shape);
  bool looks = job->config->verb == RONDE__VERB_PREDICT || job->config->verb == RONDE__VERB_EVAL;
  bool asks = job->config->verb == RONDE__VERB_PREDICT || job->config->verb == RONDE__VERB_EXPORT;
  if (looks && !o->resize && resize && !job->hooks.source) RONDE_TRY(set_text(&o->resize, resize));
  if (asks && !o->shape && shape) RONDE_TRY(set_text(&o->shape, shape));
  return RONDE_OK;
}

static ronde_status refuse_model(const char *name) {
  enum { MOST = 64 };
  const char *names[MOST];
  int n = 0;
  for (const ronde__model *model; n < MOST && (model = ronde__model_at(n)); n++) names[n] = model->name;
  int nearest = ronde_nearest_word(name, names, n);
  return ronde__fail(RONDE_E_USAGE, "--model %s: no such network%s%s; `ronde models` lists them", RONDE__SHOWN(name),
                     nearest < 0 ? "" : "; the nearest is ", nearest < 0 ? "" : names[nearest]);
}

static ronde_status find_model(ronde__job *job) {
  const ronde__options *o = job->options;
  if (job->hooks.model) {
    job->model_name = o->model ? o->model : "custom";
    return RONDE_OK;
  }
  if (!o->model)
    return ronde__fail(RONDE_E_USAGE, "--model NAME or FILE.onnx is needed: `ronde models` lists the built-in ones");
  if (ronde__onnx_named(o->model)) return ronde__take_file(job);
  if (!(job->model = ronde__model_find(o->model))) return refuse_model(o->model);
  job->model_name = o->model;
  return RONDE_OK;
}

/* Of a csv file: as the weights know them, by name. */
static ronde__columns_options choose_columns(const ronde__job *job) {
  const ronde__options *o = job->options;
  const char *known = job->weights ? ronde__safetensors_meta(job->weights, RONDE__META_COLUMNS) : NULL;
  if (job->weights && !known && ronde__data_is_of_columns(o->data))
    ronde__log(RONDE_LOG_INFO, "%s does not name its inputs: the columns of %s are taken in their order",
               job->weights_path, o->data);
  return (ronde__columns_options){.target = o->target,
                                  .ignored = o->ignore_columns,
                                  .are_values = o->loss != RONDE__LOSS_AUTO || job->targets > 0,
                                  .known = known,
                                  .source = job->weights_path,
                                  .renames = job->config->verb == RONDE__VERB_EVAL};
}

/* Before data and network: probabilities that are the network's own. */
static void settle_own(ronde__job *job) {
  ronde__options *o = &job->config->options;
  if (!job->model) o->dropout = 0;
  else if (o->dropout < 0) o->dropout = job->model->dropout;
  if (o->mask < 0) o->mask = job->model ? (double)job->model->mask : 0;
}

static ronde_status mask_data(ronde__job *job) {
  ronde__options *o = &job->config->options;
  if (o->mask == 0) return RONDE_OK;
  RONDE_TRY(ronde__data_mask(job->data, o->mask, o->mask_token, o->classes, (uint64_t)o->seed));
  o->mask_token = job->data->masking.token;
  return RONDE_OK;
}

static ronde_status open_data(ronde__job *job) {
  const ronde__options *o = job->options;
  if (job->hooks.source) {
    if (o->data)
      return ronde__fail(RONDE_E_USAGE, "--data %s: the calling program already supplies the data",
                         RONDE__SHOWN(o->data));
    RONDE_TRY(ronde__normalize_settle(job, &(ronde__normalization){0}));
    return ronde__data_wrap(job->hooks.source, &job->data);
  }
  if (!o->data) return ronde__fail(RONDE_E_USAGE, "--data NAME is needed, such as fashion-mnist");
  bool usual;
  ronde__normalization normalization;
  RONDE_TRY(ronde__normalize_choose(job, &usual, &normalization));
  ronde__columns_options columns = choose_columns(job);
  bool knows = job->weights && ronde__data_is_of_text(o->data) && (job->resume || !o->tokenizer);
  const char *merges = knows ? ronde__safetensors_meta(job->weights, RONDE__META_MERGES) : NULL;
  ronde__data_options options = {.spec = o->data,
                                 .window = o->window,
                                 .stride = o->stride,
                                 .tokenizer = merges ? NULL : o->tokenizer,
                                 .merges = merges,
                                 .frames = o->frames,
                                 .columns = &columns,
                                 .cache = o->cache,
                                 .normalize = usual,
                                 .standardize = job->config->verb == RONDE__VERB_TRAIN,
                                 .normalization = usual ? NULL : &normalization,
                                 .seed = (uint64_t)o->seed,
                                 .classes = o->classes,
                                 .resize = {job->resize[0], job->resize[1]},
                                 .layout = (ronde__image_layout)o->layout,
                                 .skip_bad_images = o->skip_bad_images};
  options.crop = o->augment == RONDE__AUGMENT_CROP || o->augment == RONDE__AUGMENT_CROP_FLIP;
  options.flip = o->augment == RONDE__AUGMENT_FLIP || o->augment == RONDE__AUGMENT_CROP_FLIP;
  if (job->config->verb == RONDE__VERB_INIT) options.cache = true;
  if (job->config->verb == RONDE__VERB_EVAL) {
    bool of_run = o->split == RONDE__EVAL_VAL || o->split == RONDE__EVAL_TRAIN;
    options.seed = of_run && job->kept_out.n_validation ? job->kept_out.seed : 1;
  }
  options.prefers_val = job->config->verb == RONDE__VERB_TRAIN || o->split == RONDE__EVAL_VAL;
  options.any_split = job->config->verb == RONDE__VERB_EVAL || o->val_split > 0;
  RONDE_TRY(ronde__data_open(&options, &job->data));
  return ronde__normalize_settle(job, &job->data->normalization);
}

_Static_assert((int)RONDE__LAYOUT_AUTO == RONDE__IMAGE_AUTO && (int)RONDE__LAYOUT_NCHW == RONDE__IMAGE_NCHW &&
                   (int)RONDE__LAYOUT_NHWC == RONDE__IMAGE_NHWC,
               "--layout is handed on to the data as it is");

/* As the file of a network has it. */
static ronde__shape shape_of_source(const ronde__job *job, const ronde_source *source) {
  ronde__shape shape = {.rank = source->rank};
  memcpy(shape.dim, source->dims, sizeof shape.dim);
  if (job->file) ronde__onnx_fit(job->file, &shape);
  return shape;
}

static void shape_from_data(ronde__job *job) {
  const ronde_source *source = &job->data->source;
  if (job->config->verb == RONDE__VERB_TRAIN && ronde__data_has_integer_classes(job->data))
    ronde__log(RONDE_LOG_INFO, "%s: the target is integers, taken as %" PRId64 " classes; --loss mse learns values",
               job->options->data, source->classes);
  job->shape = shape_of_source(job, source);
  job->vocabulary = ronde__max(job->vocabulary, source->vocabulary);
  ronde__more_inputs_of_data(source, &job->more);
  if (job->file) ronde__tokens_of_file(job);
  job->classes = job->options->classes ? job->options->classes : source->classes;
  job->config->options.classes = job->classes;
  job->targets = job->model && source->classes == 0 ? source->target_elems : 0;
  if (job->targets == 0 || job->options->loss != RONDE__LOSS_AUTO) return;
  job->config->options.loss = RONDE__LOSS_MSE;
  if (job->config->verb == RONDE__VERB_TRAIN && !job->data->is_one_hot) /* which is refused (check_targets) */
    ronde__log(RONDE_LOG_INFO, "%s: the targets are floats: %" PRId64 " value%s an example, learnt with --loss mse",
               source->name, job->targets, job->targets > 1 ? "s" : "");
}

ronde_status ronde__check_input(const ronde__job *job) {
  const char *trained = job->weights ? ronde__safetensors_meta(job->weights, "shape") : NULL;
  char own[96];
  ronde__shape_text(&job->shape, own, sizeof own);
  if (!trained || job->vocabulary > 0 || !strcmp(trained, own)) return RONDE_OK;
  const char *sides = strchr(trained, 'x');
  bool same_channels =
      job->shape.rank == 3 && job->more.n == 0 && sides && !strncmp(trained, own, (size_t)(sides + 1 - trained));
  if (!same_channels)
    return ronde__fail(RONDE_E_INPUT, "%s was trained on inputs of %s, but these are %s", job->weights_path,
                       RONDE__SHOWN(trained), own);
  ronde__log(RONDE_LOG_WARNING,
             "%s was trained on images of %s, but these are %s: --resize %s brings them to that size",
             job->weights_path, RONDE__SHOWN(trained), own, RONDE__SHOWN(sides + 1));
  return RONDE_OK;
}

/* Without data, the model's usual input and classes are the default. */
static ronde_status shape_from_options(ronde__job *job) {
  const ronde__options *o = job->options;
  if (!job->model) {
    job->classes = o->classes;
    if (o->shape) return parse_any_shape(o->shape, &job->shape);
    return ronde__fail(RONDE_E_USAGE, "a network that the calling program defines needs --data or --shape");
  }
  if (job->file) job->shape = *ronde__onnx_shape(job->file);
  else job->shape = ronde__model_shape(job->model);
  if (job->vocabulary == 0 || job->file) job->vocabulary = job->model->vocabulary;
  if (job->more.n == 0) job->more = ronde__model_more(job->model);
  if (job->file) job->more = ronde__file_more(job->file);
  job->classes = o->classes ? o->classes : job->targets ? 0 : job->model->classes;
  job->config->options.classes = job->classes;
  if (job->model->text) job->more.at[job->more.n - 1].vocabulary = job->classes;
  if (!o->shape) return RONDE_OK;
  RONDE_TRY(job->model->any_shape ? parse_any_shape(o->shape, &job->shape) : parse_shape(o->shape, &job->shape));
  if (job->model->decoder_input) job->more.at[0].shape = job->shape;
  return RONDE_OK;
}

/* --resume: what the user left open is as it was in that run. */
static ronde_status open_resume(ronde__job *job) {
  RONDE_TRY(ronde__find_start(job));
  int n_ranks = job->mpi ? job->mpi->size : 0;
  return job->resume ? ronde__resume_options(job->resume, job->config, n_ranks) : RONDE_OK;
}

static ronde_status open_weights(ronde__job *job) {
  RONDE_TRY(ronde__weights_find(job->options->init, &job->init_path));
  return ronde__safetensors_open(job->init_path, &job->init);
}

static ronde_status open_init(ronde__job *job) {
  if (job->resume) {
    job->weights = job->resume->file;
    job->weights_path = job->resume->path;
    RONDE_TRY(ronde__split_read(job->weights, job->weights_path, &job->kept_out));
    return options_from_file(job);
  }
  if (!job->options->init && !ronde__begins_with_file(job)) return RONDE_OK;
  if (job->options->init && !strcmp(job->options->init, "fresh")) return RONDE_OK;
  RONDE_TRY(job->options->init ? open_weights(job) : ronde__open_file_weights(job));
  if (!job->init) return RONDE_OK;
  RONDE_TRY(ronde__safetensors_check_finite(job->init));
  job->weights = job->init;
  job->weights_path = job->init_path;
  RONDE_TRY(ronde__split_read(job->weights, job->weights_path, &job->kept_out));
  return options_from_file(job);
}

/* With the shape of the inputs known: what the file of a network leaves open. Its own weights are there then. */
static ronde_status bind_file(ronde__job *job, const ronde__shape *shape, const ronde__more_inputs *more) {
  if (!job->file || !ronde__onnx_is_open(job->file)) return RONDE_OK;
  RONDE_TRY(ronde__bind_file(job, shape, more));
  return job->weights ? RONDE_OK : open_init(job);
}

static ronde_status bind_to_data(ronde__job *job) {
  const ronde_source *source = &job->data->source;
  const ronde__shape shape = shape_of_source(job, source);
  ronde__more_inputs more;
  ronde__more_inputs_of_data(source, &more);
  return bind_file(job, &shape, &more);
}

static ronde_status bind_to_options(ronde__job *job) {
  ronde__shape shape = {0};
  if (job->options->shape && job->file) RONDE_TRY(parse_any_shape(job->options->shape, &shape));
  return bind_file(job, &shape, &job->more);
}

/* ---- network ---- */

/* Statistics of one value are none: to be refused before training, not in a short last batch. */
static ronde_status check_batch_norm(const ronde__job *job, const ronde_graph *graph) {
  const char *why_not = job->strategy->no_batch_norm;
  int64_t last = ronde__sampler_epoch_examples(job->sampler) - (job->batches_per_epoch - 1) * job->batch;
  int64_t sizes[] = {job->batch, last};
  for (int i = 0; i < graph->n_nodes; i++) {
    const ronde__node *node = &graph->nodes[i];
    const ronde__shape *shape = &graph->tensors[node->out[0]]->shape;
    if (node->kind == RONDE__OP_BATCH_NORM2D && why_not)
      return ronde__fail(RONDE_E_USAGE, "--strategy %s cannot train %s, a batch normalisation: %s", job->strategy->name,
                         node->label, why_not);
    if (node->kind != RONDE__OP_BATCH_NORM2D || shape->dim[1] * shape->dim[2] > 1) continue;
    for (int s = 0; s < 2; s++) {
      int64_t parts = job->options->sync_bn ? 1 : job->n_replicas * job->micro_batches; /* normalised by themselves */
      if (sizes[s] / parts == 1 || ronde__ceil_div(sizes[s], parts) == 1)
        return ronde__fail(RONDE_E_USAGE,
                           "%s: batch normalisation over a single value: %s 1 example of a batch of %" PRId64 "%s",
                           node->label,
                           parts == 1               ? "there is"
                           : job->micro_batches > 1 ? "a micro-batch has"
                                                    : "a worker has",
                           sizes[s], s ? " (the short last batch; --drop-last leaves it out)" : "");
    }
  }
  return RONDE_OK;
}

/* Weights of other classes, or of another number of them: a new output layer, where --classes says that it is meant. */
static ronde_status check_weights(ronde__job *job, const ronde_graph *graph) {
  const ronde__options *o = job->options;
  int64_t in_file = 0;
  bool trains = job->config->verb == RONDE__VERB_TRAIN;
  RONDE_TRY(ronde__weights_check(graph, job->init, job->init_path, trains ? &in_file : NULL));
  if (in_file == 0 && !job->other_classes) return RONDE_OK;
  const char *head = ronde__graph_head(graph);
  if (!head)
    return ronde__fail(
        RONDE_E_INPUT,
        "%s: its classes differ from the data's, and the network has no output layer that could be replaced",
        job->init_path);
  if (!ronde__config_is_set(job->config, "classes"))
    return ronde__fail(RONDE_E_INPUT,
                       "%s: its output layer %s has %" PRId64 " classes, but the data %s have %" PRId64
                       ": --classes %" PRId64 " starts a new output layer, --classes %" PRId64 " keeps the file's",
                       job->init_path, head, in_file, job->data->source.name, job->classes, job->classes, in_file);
  if (!(job->new_head = ronde__strdup(head))) return ronde__fail(RONDE_E_MEMORY, "%s: no memory", job->init_path);
  if (in_file)
    ronde__log(RONDE_LOG_INFO,
               "the output layer %s is initialised anew: %" PRId64 " classes instead of the %" PRId64
               " in %s, by --seed %" PRId64,
               head, job->classes, in_file, job->init_path, o->seed);
  else
    ronde__log(RONDE_LOG_INFO,
               "the output layer %s is initialised anew: its %" PRId64
               " classes are not those of %s, by --seed %" PRId64,
               head, job->classes, job->init_path, o->seed);
  return RONDE_OK;
}

/* Keras has classes as rows of one 1 and zeros; learnt as values unasked, they would give no accuracy. Targets of several labels
 * are 0 or 1, or shares of them. */
static ronde_status check_targets(const ronde__job *job) {
  bool trains = job->config->verb == RONDE__VERB_TRAIN && job->data;
  if (job->targets > 1 && trains && job->data->is_one_hot && !ronde__config_is_set(job->config, "loss"))
    return ronde__fail(RONDE_E_INPUT,
                       "%s: the %" PRId64
                       " targets of each example are one 1 and zeros, which looks like classes: save them as "
                       "integers, numpy.argmax(y, 1), or give --loss mse or bce to learn them as values",
                       job->data->source.name, job->targets);
  if (job->targets == 0 || job->options->loss != RONDE__LOSS_BCE || !job->data || !job->data->n_beyond_unit)
    return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT, "%s: %" PRId64 " target values are not within 0..1, as --loss bce needs",
                     job->data->source.name, job->data->n_beyond_unit);
}

/* Shape errors, and data and weights that do not fit the network, are found here, before any rank starts. */
static ronde_status check_network(ronde__job *job) {
  ronde_graph *graph;
  RONDE_TRY(check_targets(job));
  RONDE_TRY(ronde__job_graph(job, &graph));
  ronde_status status = job->init ? check_weights(job, graph) : RONDE_OK;
  if (job->resume) status = ronde__weights_check(graph, job->resume->file, job->resume->path, NULL);
  if (status == RONDE_OK) ronde__tell_classes(job);
  if (status == RONDE_OK) status = ronde__check_effects(job, RONDE__KNOWN_NETWORK, graph);
  if (status == RONDE_OK) status = ronde__check_spans(job, graph);
  if (status == RONDE_OK && job->sampler) status = check_batch_norm(job, graph);
  if (status == RONDE_OK && job->config->verb == RONDE__VERB_TRAIN) {
    status = ronde__set_up_stages(job, graph, ronde__memory_of_stage(job));
    if (status == RONDE_OK) status = ronde__set_up_split(job, graph);
    if (status == RONDE_OK) status = ronde__check_memory(job, graph);
  }
  ronde_graph_destroy(graph);
  return status;
}

/* Where the CPU has no bfloat16, all is f32. */
static void settle_dtype(ronde__job *job) {
  int asked = job->options->dtype;
  const char *isa = job->compute.kernels->isa;
  if (asked == RONDE__DTYPE_F32) return;
  const ronde__bf16 *bf16 = ronde__bf16_get(job->compute.kernels);
  if (bf16 && (ronde__bf16_pays(bf16) || asked == RONDE__DTYPE_BF16)) job->compute.bf16 = bf16;
  if (job->compute.bf16) ronde__log(RONDE_LOG_INFO, "layers multiply in bfloat16 (%s)", bf16->name);
  else if (bf16) ronde__log(RONDE_LOG_INFO, "layers multiply in f32, which is faster than bfloat16 by %s", bf16->name);
  else if (asked == RONDE__DTYPE_AUTO) ronde__log(RONDE_LOG_INFO, "layers multiply in f32: %s has no bfloat16", isa);
  else ronde__log(RONDE_LOG_WARNING, "--dtype bf16: layers multiply in f32, because %s has no bfloat16", isa);
}

static ronde_status resolve(ronde__job *job) {
  int verb = job->config->verb;
  RONDE_TRY(ronde__kernels_get(&job->compute.kernels));
  RONDE_TRY(ronde__gemm_default(job->compute.kernels, &job->compute.gemm));
  settle_dtype(job);
  if (verb == RONDE__VERB_TRAIN) RONDE_TRY(ronde__join_ranks(job));
  if (verb == RONDE__VERB_EVAL) RONDE_TRY(ronde__take_run_data(job));
  RONDE_TRY(ronde__check_effects(job, RONDE__KNOWN_AT_ONCE, NULL));
  if (verb == RONDE__VERB_TRAIN) RONDE_TRY(open_resume(job));
  if (verb == RONDE__VERB_TRAIN) RONDE_TRY(ronde__settle_strategy(job));
  if (verb == RONDE__VERB_TRAIN && job->options->strategy == RONDE__STRATEGY_MEASURED) return RONDE_OK;
  if (verb == RONDE__VERB_TRAIN) RONDE_TRY(ronde__config_copy(job->config, &job->given));
  RONDE_TRY(open_init(job));
  RONDE_TRY(ronde__config_resize(job->options, job->resize));
  RONDE_TRY(find_model(job));
  if (verb == RONDE__VERB_TRAIN) RONDE_TRY(ronde__settle_optimizer(job));
  settle_own(job);
  RONDE_TRY(ronde__check_effects(job, RONDE__KNOWN_OPTIONS, NULL));
  if (verb != RONDE__VERB_INIT && verb != RONDE__VERB_EXPORT) RONDE_TRY(ronde__set_up_world(job));
  bool has_data = verb == RONDE__VERB_TRAIN || verb == RONDE__VERB_EVAL || job->options->data || job->hooks.source;
  if (has_data) {
    RONDE_TRY(open_data(job));
    RONDE_TRY(bind_to_data(job));
    RONDE_TRY(mask_data(job));
    RONDE_TRY(ronde__set_up_classes(job));
    if (job->model && job->model->text) ronde__data_tell_text(job->data);
    shape_from_data(job);
    if (verb == RONDE__VERB_EVAL) RONDE_TRY(ronde__check_input(job));
  } else {
    RONDE_TRY(bind_to_options(job));
    RONDE_TRY(shape_from_options(job));
  }
  if (verb == RONDE__VERB_TRAIN) RONDE_TRY(ronde__set_up_training(job));
  if (verb == RONDE__VERB_BENCH_STEP || verb == RONDE__VERB_BENCH_KERNELS) RONDE_TRY(ronde__set_up_stepper(job));
  if (verb == RONDE__VERB_TRAIN) RONDE_TRY(ronde__set_up_checkpoints(job));
  /* predict knows the input's shape only when it has read it */
  return verb == RONDE__VERB_PREDICT ? RONDE_OK : check_network(job);
}

/* All that ranks have to find out together: nothing where measuring comes first. */
static ronde_status agree(const ronde__job *job) {
  return job->mpi && job->strategy ? ronde__job_agree(job) : RONDE_OK;
}

/* What is refused here may be refused for another reason, or not at all, on another rank. */
static ronde_status refuse_together(const ronde__job *job, ronde_status status) {
  bool all = status == RONDE_OK;
  if (status == RONDE_E_MEMORY) status = RONDE_E_USAGE; /* it does not fit: others may */
  if (!job->mpi || (status != RONDE_OK && status != RONDE_E_USAGE)) return status;
  RONDE_TRY(ronde__all_agree(job->mpi, all, &all));
  return all ? RONDE_OK : RONDE_E_USAGE;
}

static ronde_status create(const ronde_config *config, const ronde_hooks *hooks, bool tries, ronde__transport *mpi,
                           ronde__job **job_out) {
  ronde__job *job;
  RONDE__ALLOC(job, sizeof *job, "job");
  *job = (ronde__job){.mpi = mpi, .n_stages = 1, .n_replicas = 1, .micro_batches = 1};
  if (hooks) job->hooks = *hooks;
  ronde_status status = ronde__config_copy(config, &job->config);
  if (status == RONDE_OK) {
    job->options = ronde__config_options(job->config);
    status = resolve(job);
  }
  if (tries) status = refuse_together(job, status);
  if (status == RONDE_OK) status = agree(job);
  bool go_on = tries && status == RONDE_E_USAGE;
  if (status != RONDE_OK && job->mpi && !go_on) job->mpi->ops->abort(job->mpi);
  if (status != RONDE_OK && tries) job->mpi = NULL; /* it remains the caller's */
  if (status != RONDE_OK) ronde__job_destroy(job);
  else *job_out = job;
  return status;
}

ronde_status ronde__job_create(const ronde_config *config, const ronde_hooks *hooks, ronde__job **job_out) {
  return create(config, hooks, false, NULL, job_out);
}

ronde_status ronde__job_try(const ronde_config *config, const ronde_hooks *hooks, ronde__transport *mpi,
                            ronde__job **job_out) {
  return create(config, hooks, true, mpi, job_out);
}

void ronde__job_destroy(ronde__job *job) {
  if (!job) return;
  ronde__transport_destroy(job->mpi);
  ronde__sampler_destroy(job->sampler);
  ronde__data_close(job->data);
  ronde__safetensors_close(job->init);
  ronde__onnx_close(job->file);
  free(job->best_path);
  json_decref(job->strategy_costs);
  ronde__roles_release(&job->roles);
  ronde__free(job->sim);
  ronde__free(job->sim_host_of);
  ronde__free(job->stages);
  ronde__free(job->split);
  ronde__free(job->may_lose);
  ronde__free(job->memory);
  ronde__free(job->rooms);
  ronde__spans_destroy(job->stage_costs);
  ronde__spans_destroy(job->spans);
  free(job->new_head);
  free(job->init_path);
  ronde__class_names_release(&job->class_names);
  ronde__resume_close(job->resume);
  ronde_config_destroy(job->config);
  ronde_config_destroy(job->given);
  ronde__free(job);
}
