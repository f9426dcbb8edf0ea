/* Files of weights: a net from one, checked against its graph, and into one, with what the file says of itself. */
#include "job/job.h"

#include "data/bpe.h"
#include "io/sha256.h"

#include "job/normalize.h"
#include "job/split.h"
#include "state/weights.h"
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One tensor of a network's state_dict. */
typedef struct entry {
  const char *name;
  ronde__shape shape;
  enum { PARAM, BUFFER, COUNTER } kind;
  int index; /* among the net's parameters, or buffers */
} entry;

static int entry_by_name(const void *a, const void *b) {
  return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

/* Parameters, and buffers where wanted, names ascending bytewise; to be freed. */
static ronde_status list_state(const ronde_graph *graph, bool with_buffers, entry **entries_out, int *n_out) {
  entry *entries;
  int n = 0;
  RONDE__ALLOC(entries, (size_t)(graph->n_params + graph->n_buffers) * sizeof *entries, "weights");
  for (int i = 0; i < graph->n_params; i++)
    entries[n++] = (entry){graph->params[i].name, graph->params[i].shape, PARAM, i};
  for (int i = 0; i < graph->n_buffers && with_buffers; i++) {
    const ronde__buffer *b = &graph->buffers[i];
    entries[n++] = (entry){b->name, b->shape, b->is_counter ? COUNTER : BUFFER, i};
  }
  qsort(entries, (size_t)n, sizeof *entries, entry_by_name);
  *entries_out = entries;
  *n_out = n;
  return RONDE_OK;
}

/* Where one of them lies. */
static const float *packed_values(ronde__net *net, const entry *e, const ronde__weight_layout **layout_out) {
  int n;
  size_t n_elems;
  const ronde__net_param *param = ronde__net_params(net, &n) + e->index;
  const ronde__net_buffer *buffer = ronde__net_buffers(net, &n) + e->index;
  *layout_out = e->kind == PARAM ? &param->layout : &buffer->layout;
  return e->kind == PARAM ? ronde__net_values(net) + param->offset
                          : ronde__net_buffer_values(net, &n_elems) + buffer->offset;
}

/* Values in logical order, a slice at a time. */
typedef struct reader {
  ronde__net *net;
  ronde__parts *parts; /* NULL: the net is whole */
  entry *entries;      /* [n] */
  int n;
  float *slice;
} reader;

static void reader_close(reader *r) {
  ronde__free(r->entries);
  ronde__free(r->slice);
}

static ronde_status reader_open(ronde__net *net, ronde__parts *parts, bool with_buffers, reader *reader_out) {
  reader r = {.net = net, .parts = parts};
  size_t bytes = (size_t)ronde__net_slice_elems(net) * sizeof *r.slice;
  RONDE_TRY(list_state(ronde__net_graph(net), with_buffers, &r.entries, &r.n));
  r.slice = ronde__alloc(bytes);
  if (!r.slice) {
    reader_close(&r);
    return ronde__fail(RONDE_E_MEMORY, "weights: no memory for %zu bytes", bytes);
  }
  *reader_out = r;
  return RONDE_OK;
}

static ronde_status weights_fetch(void *user, int i, int64_t first, const void **data_out, int64_t *n_out) {
  reader *r = user;
  const entry *e = &r->entries[i];
  const ronde__weight_layout *layout;
  int n_buffers;
  static const ronde__part_kind kinds[] = {
      [PARAM] = RONDE__PART_PARAM, [BUFFER] = RONDE__PART_BUFFER, [COUNTER] = RONDE__PART_COUNTER};
  if (r->parts) return ronde__parts_fetch(r->parts, (ronde__part){kinds[e->kind], e->index, 0}, first, data_out, n_out);
  if (e->kind == COUNTER) {
    *data_out = &ronde__net_buffers(r->net, &n_buffers)[e->index].count;
    *n_out = 1;
    return RONDE_OK;
  }
  const float *packed = packed_values(r->net, e, &layout);
  *n_out = ronde__weight_unpack_slice(layout, packed, first, r->slice);
  *data_out = r->slice;
  return RONDE_OK;
}

/* ---- from a file ---- */

static ronde_status check_tensor(const entry *e, const ronde__file_tensor *tensor, const char *path) {
  if (!tensor && e->kind == COUNTER) return RONDE_OK; /* older files have none */
  if (!tensor) return ronde__fail(RONDE_E_INPUT, "%s: tensor %s is missing", path, e->name);
  bool is_float = tensor->dtype == RONDE__FILE_F32;
  if (is_float != (e->kind != COUNTER))
    return ronde__fail(RONDE_E_INPUT, "%s: tensor %s is %s", path, e->name,
                       is_float ? "a float instead of I64" : "not a float");
  if (!ronde__shape_equal(&tensor->shape, &e->shape)) {
    char has[96], wants[96];
    ronde__shape_text(&tensor->shape, has, sizeof has);
    ronde__shape_text(&e->shape, wants, sizeof wants);
    return ronde__fail(RONDE_E_INPUT, "%s: tensor %s is %s, but the network's is %s", path, e->name, has, wants);
  }
  return RONDE_OK;
}

/* The file's number of classes where its output layer is the network's but for that number, which differs; else 0. */
static int64_t other_classes(const ronde_graph *graph, const ronde__node *head, const ronde__safetensors *file) {
  int64_t classes = 0;
  for (int i = 0; i < head->n_params; i++) {
    const ronde__param *param = &graph->params[head->param[i]];
    const ronde__file_tensor *tensor = ronde__safetensors_find(file, param->name);
    if (!tensor || tensor->dtype != RONDE__FILE_F32 || tensor->shape.rank != param->shape.rank) return 0;
    ronde__shape in_file = tensor->shape;
    if (i > 0 && in_file.dim[0] != classes) return 0;
    classes = in_file.dim[0];
    in_file.dim[0] = param->shape.dim[0];
    if (!ronde__shape_equal(&in_file, &param->shape)) return 0;
  }
  return head->n_params > 0 && classes != graph->params[head->param[0]].shape.dim[0] ? classes : 0;
}

static bool is_of(const ronde__node *node, const entry *e) {
  for (int i = 0; node && i < node->n_params; i++)
    if (e->kind == PARAM && e->index == node->param[i]) return true;
  return false;
}

/* new_head: the layer whose tensors are not looked at, or NULL. */
static ronde_status check_all(const entry *entries, int n, const ronde__safetensors *file, const char *path,
                              const ronde__node *new_head) {
  for (int i = 0; i < n; i++)
    if (!is_of(new_head, &entries[i]))
      RONDE_TRY(check_tensor(&entries[i], ronde__safetensors_find(file, entries[i].name), path));
  for (int i = 0; i < file->n_tensors; i++) {
    if (ronde__safetensors_reserved(file->tensors[i].name)) continue; /* of a checkpoint */
    entry wanted = {.name = file->tensors[i].name};
    if (!bsearch(&wanted, entries, (size_t)n, sizeof *entries, entry_by_name))
      return ronde__fail(RONDE_E_INPUT, "%s: tensor %s is not in the network", path, wanted.name);
  }
  return RONDE_OK;
}

static const ronde__node *find_head(const ronde_graph *graph) {
  int producer = graph->tensors[graph->output]->producer;
  return producer >= 0 && graph->nodes[producer].kind == RONDE__OP_LINEAR ? &graph->nodes[producer] : NULL;
}

const char *ronde__graph_head(const ronde_graph *graph) {
  const ronde__node *head = find_head(graph);
  return head ? head->label : NULL;
}

ronde_status ronde__weights_check(const ronde_graph *graph, const ronde__safetensors *file, const char *path,
                                  int64_t *other_classes_out) {
  entry *entries;
  int n;
  const ronde__node *head = other_classes_out ? find_head(graph) : NULL;
  int64_t classes = head ? other_classes(graph, head, file) : 0;
  RONDE_TRY(list_state(graph, true, &entries, &n));
  ronde_status status = check_all(entries, n, file, path, classes ? head : NULL);
  ronde__free(entries);
  if (status == RONDE_OK && other_classes_out) *other_classes_out = classes;
  return status;
}

static bool has_param(const ronde__node *node, const ronde_graph *graph, const char *name) {
  for (int i = 0; i < node->n_params; i++)
    if (!strcmp(graph->params[node->param[i]].name, name)) return true;
  return false;
}

void ronde__weights_load(ronde__net *net, const ronde__safetensors *file, bool new_head) {
  const ronde__node *head = new_head ? find_head(ronde__net_graph(net)) : NULL;
  int n_params, n_buffers;
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  ronde__net_buffer *buffers = ronde__net_buffers(net, &n_buffers);
  for (int i = 0; i < n_params; i++)
    if (!head || !has_param(head, ronde__net_graph(net), params[i].name))
      ronde__net_set(net, i, ronde__safetensors_find(file, params[i].name)->data);
  for (int i = 0; i < n_buffers; i++) {
    const ronde__file_tensor *tensor = ronde__safetensors_find(file, buffers[i].name);
    if (!buffers[i].is_counter) ronde__net_set_buffer(net, i, tensor->data);
    else if (tensor) buffers[i].count = *(const int64_t *)tensor->data;
  }
}

/* ---- to a file ---- */

/* The names of the data's classes as a JSON list, to be freed; NULL where they have none. */
static char *class_names(const ronde__job *job) {
  json_t *names = json_array();
  for (int64_t k = 0; job->data && k < job->classes && ronde__data_class_name(job->data, k); k++)
    json_array_append_new(names, ronde__json_text(ronde__data_class_name(job->data, k)));
  char *text = json_array_size(names) ? json_dumps(names, JSON_COMPACT) : NULL;
  json_decref(names);
  return text;
}

static void describe_targets(const ronde__job *job, ronde__weights_notes *notes) {
  ronde__file_meta *meta = notes->meta;
  const char *loss = ronde__job_loss(job);
  if (job->targets == 0) return;
  snprintf(notes->targets, sizeof notes->targets, "%" PRId64, job->targets);
  meta[notes->n++] = (ronde__file_meta){"targets", notes->targets};
  if (loss) meta[notes->n++] = (ronde__file_meta){"loss", loss};
  if (loss && job->options->loss == RONDE__LOSS_HUBER)
    meta[notes->n++] = (ronde__file_meta){"huber-delta", ronde_config_get(job->config, "huber-delta")};
}

/* Hidden tokens, of training: eval hides as many. */
static void describe_masks(const ronde__job *job, ronde__weights_notes *notes) {
  if (!job->data || job->config->verb != RONDE__VERB_TRAIN) return;
  snprintf(notes->mask, sizeof notes->mask, "%g", job->options->mask);
  snprintf(notes->mask_token, sizeof notes->mask_token, "%" PRId64, job->options->mask_token);
  notes->meta[notes->n++] = (ronde__file_meta){"mask", notes->mask};
  if (job->options->mask > 0) notes->meta[notes->n++] = (ronde__file_meta){"mask-token", notes->mask_token};
}

void ronde__weights_describe(const ronde__job *job, ronde__weights_notes *notes) {
  ronde__file_meta *meta = notes->meta;
  meta[0] = (ronde__file_meta){"format", "pt"};
  meta[1] = (ronde__file_meta){"model", job->model_name};
  meta[2] = (ronde__file_meta){"shape", notes->shape};
  meta[3] = (ronde__file_meta){"classes", notes->classes};
  notes->n = 4;
  if (job->file) meta[notes->n++] = (ronde__file_meta){RONDE__META_MODEL_SHA256, ronde__onnx_sha256(job->file)};
  notes->class_names = class_names(job);
  notes->split = ronde__split_text(job);
  notes->columns = job->data ? ronde__data_columns(job->data) : NULL;
  const ronde__bpe *bpe = job->data ? ronde__data_vocabulary(job->data) : NULL;
  notes->merges = bpe ? ronde__bpe_text(bpe) : NULL;
  ronde__shape_text(&job->shape, notes->shape, sizeof notes->shape);
  snprintf(notes->classes, sizeof notes->classes, "%" PRId64, job->classes);
  if (ronde__job_padding(job)) meta[notes->n++] = (ronde__file_meta){"padding", ronde__job_padding(job)};
  if (ronde__job_activation(job)) meta[notes->n++] = (ronde__file_meta){"activation", ronde__job_activation(job)};
  describe_targets(job, notes);
  if (job->vocabulary) {
    snprintf(notes->vocabulary, sizeof notes->vocabulary, "%" PRId64, job->vocabulary);
    meta[notes->n++] = (ronde__file_meta){"vocabulary", notes->vocabulary};
    describe_masks(job, notes);
  }
  if (job->more.n) {
    ronde__more_inputs_text(&job->more, notes->more_inputs, sizeof notes->more_inputs);
    meta[notes->n++] = (ronde__file_meta){RONDE__META_MORE_INPUTS, notes->more_inputs};
  }
  if (job->options->resize) meta[notes->n++] = (ronde__file_meta){"resize", job->options->resize};
  if (job->data && job->data->normalization.channels > 0) {
    const ronde__normalization *normalization = &job->data->normalization;
    ronde__normalization_list(normalization->mean, normalization->channels, notes->mean, sizeof notes->mean);
    ronde__normalization_list(normalization->deviation, normalization->channels, notes->deviation,
                              sizeof notes->deviation);
    meta[notes->n++] = (ronde__file_meta){"normalize_mean", notes->mean};
    meta[notes->n++] = (ronde__file_meta){"normalize_std", notes->deviation};
  } else if (job->data && !job->hooks.source && job->config->verb == RONDE__VERB_TRAIN) {
    meta[notes->n++] = (ronde__file_meta){RONDE__META_NORMALIZE, "off"};
  }
  if (notes->class_names) meta[notes->n++] = (ronde__file_meta){RONDE__META_CLASS_NAMES, notes->class_names};
  if (notes->split) meta[notes->n++] = (ronde__file_meta){RONDE__META_SPLIT, notes->split};
  if (notes->columns) meta[notes->n++] = (ronde__file_meta){RONDE__META_COLUMNS, notes->columns};
  if (notes->merges) meta[notes->n++] = (ronde__file_meta){RONDE__META_MERGES, notes->merges};
}

void ronde__weights_notes_release(ronde__weights_notes *notes) {
  free(notes->class_names);
  free(notes->split);
  free(notes->columns);
  free(notes->merges);
}

ronde_status ronde__weights_save(ronde__net *net, ronde__parts *parts, const char *path, const ronde__job *job) {
  reader r;
  RONDE_TRY(reader_open(net, parts, true, &r));
  ronde__file_tensor *tensors = ronde__alloc((size_t)r.n * sizeof *tensors);
  ronde_status status;
  if (tensors) {
    ronde__weights_notes notes;
    ronde__weights_describe(job, &notes);
    for (int i = 0; i < r.n; i++) {
      ronde__file_dtype dtype = r.entries[i].kind == COUNTER ? RONDE__FILE_I64 : RONDE__FILE_F32;
      tensors[i] = (ronde__file_tensor){r.entries[i].name, dtype, r.entries[i].shape, NULL};
    }
    status = ronde__safetensors_write_pieces(path, tensors, r.n, notes.meta, notes.n, weights_fetch, &r);
    ronde__weights_notes_release(&notes);
  } else {
    status = ronde__fail(RONDE_E_MEMORY, "%s: no memory for a list of %d tensors", path, r.n);
  }
  ronde__free(tensors);
  reader_close(&r);
  return status;
}

/* ---- hashes ---- */

static ronde_status hash_entry(reader *r, int i, ronde__sha256 *sha) {
  int64_t n = ronde__shape_elems(&r->entries[i].shape), n_slice;
  for (int64_t at = 0; at < n; at += n_slice) {
    const void *data;
    RONDE_TRY(weights_fetch(r, i, at, &data, &n_slice));
    ronde__sha256_update(sha, data, (size_t)n_slice * sizeof(float));
  }
  return RONDE_OK;
}

static ronde_status hash_state(ronde__net *net, ronde__parts *parts, bool with_buffers,
                               char hex_out[RONDE__SHA256_HEX]) {
  reader r;
  ronde__sha256 sha;
  RONDE_TRY(reader_open(net, parts, with_buffers, &r));
  ronde_status status = ronde__sha256_init(&sha), hashed = RONDE_OK;
  if (status == RONDE_OK) {
    for (int i = 0; i < r.n && hashed == RONDE_OK; i++)
      if (r.entries[i].kind != COUNTER) hashed = hash_entry(&r, i, &sha);
    status = ronde__sha256_final(&sha, hex_out);
  }
  reader_close(&r);
  return hashed != RONDE_OK ? hashed : status;
}

ronde_status ronde__weights_sha256(ronde__net *net, ronde__parts *parts, char hex_out[RONDE__SHA256_HEX]) {
  return hash_state(net, parts, false, hex_out);
}
ronde_status ronde__state_sha256(ronde__net *net, ronde__parts *parts, char hex_out[RONDE__SHA256_HEX]) {
  return hash_state(net, parts, true, hex_out);
}
