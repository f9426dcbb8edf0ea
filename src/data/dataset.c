/* A set that is open: facts, limits and normalisation around decoded examples, read as f32. */
#include "data/bpe.h"
#include "data/catalog.h"
#include "data/columns.h"
#include "data/labels.h"
#include "data/normalization.h"
#include "data/source.h"
#include "data/store.h"
#include "data/transform.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct dataset_impl {
  ronde__set set;
  ronde__facts facts;
  const ronde__kernels *kernels;
  ronde__scaling scaling;        /* stored element -> value */
  ronde__normalization standard; /* of a table's columns */
  int64_t sides[2], elems;       /* of an image as it is read */
  ronde__resizer *resizer;       /* NULL: as it is stored */
  int64_t *label_of;             /* ronde__data_relabel; NULL: as they are stored */
  bool crop, flip;
  uint64_t seed; /* of what is changed at random */
  bool cached;
  ronde__store store;         /* cached: both splits, mapped; none once the file was about to change */
  pthread_rwlock_t gate;      /* guards store: readers hold it, whoever closes the store waits for them */
  ronde_source_input more[2]; /* inputs beside the first one, of pairs and recordings */
  bool tells_text;            /* the last one is the labels */
  pthread_mutex_t mutex;      /* of kept */
  ronde__store kept[2];       /* not cached, or no longer: a split that was asked for */
  int64_t *train_labels;      /* and [n] */
} dataset_impl;

static const bool train_only[2] = {true, false}, test_only[2] = {false, true};

/* ---- reading ---------------------------------------------------------------------------------------------------- */

/* Memory between the store and x, for images that are not merely converted. */
typedef struct dataset_workspace {
  void *moved;    /* an image as stored, moved */
  float *resized; /* an image of the new size, not yet moved */
} dataset_workspace;

static void dataset_workspace_release(dataset_workspace *w) {
  ronde__free(w->moved);
  ronde__free(w->resized);
}

static ronde_status dataset_workspace_make(const dataset_impl *im, bool moves, dataset_workspace *w) {
  if (moves && im->resizer) RONDE__ALLOC(w->resized, (size_t)im->elems * sizeof(float), im->set.name);
  else if (moves && !im->facts.f32) RONDE__ALLOC(w->moved, (size_t)im->elems, im->set.name);
  return RONDE_OK;
}

static void dataset_read_tokens(const dataset_impl *im, const void *stored, int32_t *x) {
  const uint8_t *bytes = stored;
  if (im->facts.f32) memcpy(x, stored, (size_t)im->elems * sizeof *x);
  for (int64_t i = 0; i < im->elems && !im->facts.f32; ++i) x[i] = bytes[i];
}

/* stored: an image in the store. move: NULL for none. The zeros of a move come in before normalisation. */
static void dataset_read_image(const dataset_impl *im, const void *stored, const ronde__move *move,
                               const dataset_workspace *w, float *x) {
  int64_t channels = im->facts.dims[0];
  if (im->facts.are_tokens) {
    dataset_read_tokens(im, stored, (int32_t *)(void *)x);
  } else if (im->resizer) {
    float *resized = move ? w->resized : x;
    if (im->facts.f32) ronde__resize_f32(im->resizer, channels, stored, resized);
    else ronde__resize_u8(im->resizer, channels, stored, resized);
    if (move) ronde__move_apply(*move, channels, im->sides, sizeof(float), resized, x);
    if (im->scaling.changes) ronde__scaling_f32(&im->scaling, im->elems, x, x);
  } else if (im->facts.f32) {
    if (move) ronde__move_apply(*move, channels, im->sides, sizeof(float), stored, x);
    else memcpy(x, stored, (size_t)im->elems * sizeof *x);
    if (im->scaling.changes) ronde__scaling_f32(&im->scaling, im->elems, x, x);
  } else {
    if (move) ronde__move_apply(*move, channels, im->sides, 1, stored, w->moved);
    ronde__scaling_u8(&im->scaling, im->kernels, im->elems, move ? w->moved : stored, x);
  }
}

static void dataset_read_text(int64_t n, const int64_t *labels, float *x) {
  for (int64_t k = 0; k < n; ++k) {
    int32_t token = labels[k] < 0 ? 0 : (int32_t)labels[k];
    memcpy(x + k, &token, sizeof token);
  }
}

/* epoch: of augmented training examples; 0: they are read as they are. */
static ronde_status dataset_read_rows(const dataset_impl *im, const ronde__store *store, ronde_split split,
                                      int64_t epoch, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                                      float *targets) {
  int64_t stored_bytes = ronde__facts_elems(&im->facts) * (im->facts.f32 ? (int64_t)sizeof(float) : 1);
  int64_t t = im->facts.target_elems, l = ronde__facts_labels(&im->facts), row = im->elems + (im->tells_text ? l : 0);
  dataset_workspace w = {0};
  RONDE_TRY(dataset_workspace_make(im, epoch > 0, &w));
  ronde_status status = RONDE_OK;
  for (int64_t i = 0; i < n && status == RONDE_OK; ++i) {
    if (ids[i] < 0 || ids[i] >= store->facts.n[split]) {
      status = ronde__fail(RONDE_E_INTERNAL, "%s: example %lld of %lld was asked for", im->set.name, (long long)ids[i],
                           (long long)store->facts.n[split]);
      break;
    }
    ronde__move move;
    if (epoch > 0) move = ronde__move_draw(im->seed, epoch, ids[i], im->crop, im->flip);
    dataset_read_image(im, (const char *)store->x[split] + ids[i] * stored_bytes, epoch > 0 ? &move : NULL, &w,
                       x + i * row);
    if (store->targets[split]) {
      memcpy(targets + i * t, store->targets[split] + ids[i] * t, (size_t)t * sizeof *targets);
      continue;
    }
    memcpy(labels + i * l, store->labels[split] + ids[i] * l, (size_t)l * sizeof *labels);
    for (int64_t k = i * l; im->label_of && k < (i + 1) * l; ++k)
      if (labels[k] >= 0) labels[k] = im->label_of[labels[k]];
    if (im->tells_text) dataset_read_text(l, labels + i * l, x + i * row + im->elems);
  }
  dataset_workspace_release(&w);
  return status;
}

/* Decodes one split from the files as they are now. Files that have changed since they were opened are refused. */
static ronde_status dataset_decode(const dataset_impl *im, const bool want[2], ronde__store *store_out) {
  return ronde__store_decode(&im->set, &im->facts, want, false, store_out);
}

/* Without a cache: decodes at the first call and keeps the examples, because evaluation asks batch by batch. */
static ronde_status dataset_keep_split(dataset_impl *im, ronde_split split, const ronde__store **store_out) {
  pthread_mutex_lock(&im->mutex);
  ronde_status status = RONDE_OK;
  if (!im->kept[split].base)
    status = dataset_decode(im, split == RONDE_SPLIT_TRAIN ? train_only : test_only, &im->kept[split]);
  pthread_mutex_unlock(&im->mutex);
  *store_out = &im->kept[split];
  return status;
}

/* Somebody writes to the cache file or has truncated it. Its pages may vanish, and reading them would kill the
 * process. */
static void dataset_leave_cache(dataset_impl *im) {
  pthread_rwlock_wrlock(&im->gate);
  if (im->store.base)
    ronde__log(RONDE_LOG_WARNING,
               "%s: its cache file was changed while in use: from now on this process decodes the files into "
               "memory of its own",
               im->set.name);
  ronde__store_close(&im->store);
  pthread_rwlock_unlock(&im->gate);
}

/* The examples of a split; the caller hands them back to dataset_give_back. */
static ronde_status dataset_borrow(dataset_impl *im, ronde_split split, const ronde__store **store_out) {
  if (im->cached) {
    pthread_rwlock_rdlock(&im->gate);
    if (im->store.base && ronde__lease_holds(im->store.lease)) {
      *store_out = &im->store;
      return RONDE_OK;
    }
    pthread_rwlock_unlock(&im->gate);
    dataset_leave_cache(im);
  }
  return dataset_keep_split(im, split, store_out);
}

static void dataset_give_back(dataset_impl *im, const ronde__store *store) {
  if (store == &im->store) pthread_rwlock_unlock(&im->gate);
}

static ronde_status dataset_borrow_rows(dataset_impl *im, ronde_split split, int64_t epoch, const int64_t *ids,
                                        int64_t n, float *x, int64_t *labels, float *targets) {
  const ronde__store *store;
  RONDE_TRY(dataset_borrow(im, split, &store));
  ronde_status status = dataset_read_rows(im, store, split, epoch, ids, n, x, labels, targets);
  dataset_give_back(im, store);
  return status;
}

static ronde_status source_read(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                                float *targets) {
  return dataset_borrow_rows(user, split, 0, ids, n, x, labels, targets);
}

bool ronde__data_decodes(const ronde__data *data) { return data->impl && !((const dataset_impl *)data->impl)->cached; }

ronde_status ronde__data_decode(const ronde__data *data, ronde__store *store_out) {
  return dataset_decode(data->impl, train_only, store_out);
}

/* Reads from the source, whoever's it is, and checks what it gave. */
static ronde_status dataset_read_checked(const ronde__data *data, ronde_split split, const int64_t *ids, int64_t n,
                                         float *x, int64_t *labels, float *targets) {
  const ronde_source *source = &data->source;
  ronde_status status = source->read(source->user, split, ids, n, x, labels, targets);
  if (status != RONDE_OK && !data->impl)
    ronde__fail(status, "%s: its read function failed: %s", source->name, ronde_status_text(status));
  RONDE_TRY(status);
  int64_t l = ronde__source_labels(source);
  for (int64_t i = 0; i < n * l; ++i)
    if ((labels[i] < 0 || labels[i] >= source->classes) && !(source->label_elems && labels[i] == RONDE_IGNORED))
      return ronde__fail(RONDE_E_INPUT, "%s: label %lld of example %lld is not within the %lld classes (0..%lld)",
                         source->name, (long long)labels[i], (long long)ids[i / l], (long long)source->classes,
                         (long long)source->classes - 1);
  for (int64_t i = 0, elems = ronde__source_elems(source); i < n && !data->impl; ++i)
    RONDE_TRY(ronde__source_check_row(source, ids[i], x + i * elems));
  return RONDE_OK;
}

static void dataset_mask(const ronde__data *data, int64_t epoch, const int64_t *ids, int64_t n, float *x,
                         int64_t *labels) {
  int64_t elems = ronde__source_elems(&data->source);
  for (int64_t i = 0; i < n && data->masking.share > 0; ++i)
    ronde__masking_apply(&data->masking, epoch, ids[i], elems, (int32_t *)(void *)x + i * elems, labels + i * elems);
}

ronde_status ronde__data_read(const ronde__data *data, ronde_split split, const int64_t *ids, int64_t n, float *x,
                              int64_t *labels, float *targets) {
  RONDE_TRY(dataset_read_checked(data, split, ids, n, x, labels, targets));
  dataset_mask(data, 0, ids, n, x, labels);
  return RONDE_OK;
}

ronde_status ronde__data_read_epoch(const ronde__data *data, const ronde__store *store, int64_t epoch,
                                    const int64_t *ids, int64_t n, float *x, int64_t *labels, float *targets) {
  dataset_impl *im = data->impl;
  if (!im) RONDE_TRY(dataset_read_checked(data, RONDE_SPLIT_TRAIN, ids, n, x, labels, targets));
  int64_t moved = im && (im->crop || im->flip) ? epoch : 0;
  if (im && !store) RONDE_TRY(dataset_borrow_rows(im, RONDE_SPLIT_TRAIN, moved, ids, n, x, labels, targets));
  if (im && store) RONDE_TRY(dataset_read_rows(im, store, RONDE_SPLIT_TRAIN, moved, ids, n, x, labels, targets));
  dataset_mask(data, epoch, ids, n, x, labels);
  return RONDE_OK;
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static double stored_value(const ronde__facts *facts, const void *x, int64_t i) {
  return facts->f32 ? (double)((const float *)x)[i] : ((const uint8_t *)x)[i] / 255.0;
}

/* Names the first label that is not below the limit, if one is. */
static ronde_status dataset_check_labels(const dataset_impl *im, const ronde__store *store, int64_t limit) {
  if (limit == 0 || store->facts.largest_label < limit) return RONDE_OK;
  for (int split = 0; split < 2; ++split)
    for (int64_t i = 0; store->labels[split] && i < store->facts.n[split] * ronde__facts_labels(&store->facts); ++i) {
      int64_t label = store->labels[split][i];
      if (label < limit) continue;
      const char *file = im->set.y_path[split] ? im->set.y_path[split] : im->set.name;
      return ronde__fail(
          RONDE_E_INPUT, "%s: offset %lld: label %lld of example %lld is beyond the %lld classes (0..%lld)", file,
          (long long)(store->facts.label_offset[split] + i * store->facts.label_bytes[split]), (long long)label,
          (long long)(i / ronde__facts_labels(&store->facts)), (long long)limit, (long long)limit - 1);
    }
  return RONDE_OK;
}

static ronde_status dataset_keep_labels(dataset_impl *im, const ronde__store *store) {
  size_t bytes = (size_t)im->facts.n[RONDE_SPLIT_TRAIN] * sizeof *im->train_labels;
  if (im->facts.target_elems || im->facts.label_elems) return RONDE_OK;
  RONDE__ALLOC(im->train_labels, bytes, im->set.name);
  memcpy(im->train_labels, store->labels[RONDE_SPLIT_TRAIN], bytes);
  return RONDE_OK;
}

/* Mean and deviation of each column over the training rows, in two passes; a column that is constant is only shifted.
 * None of tables that are too wide. Bytes are read as 0 to 1. */
static ronde__normalization table_standard(const ronde__store *store) {
  ronde__normalization s = {0};
  int64_t columns = store->facts.dims[0], n = store->facts.n[RONDE_SPLIT_TRAIN];
  const void *x = store->x[RONDE_SPLIT_TRAIN];
  if (!store->facts.is_table || store->facts.are_tokens || store->facts.mels || columns > RONDE__NORMALIZED_MAX ||
      n == 0)
    return s;
  s.channels = (int)columns;
  for (int64_t c = 0; c < columns; ++c) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; ++i) sum += stored_value(&store->facts, x, i * columns + c);
    for (int64_t i = 0; i < n; ++i) {
      double d = stored_value(&store->facts, x, i * columns + c) - sum / (double)n;
      squares += d * d;
    }
    float deviation = (float)sqrt(squares / (double)n);
    s.mean[c] = (float)(sum / (double)n);
    s.deviation[c] = deviation > 0 && isfinite(deviation) ? deviation : 1;
  }
  return s;
}

static ronde_status dataset_count_labels(const ronde__store *store, int split, const char *name, ronde__data *data) {
  if (store->facts.label_elems == 0 || !store->labels[split]) return RONDE_OK;
  return ronde__labels_count(name, store->facts.n[split], store->facts.label_elems, store->labels[split],
                             &data->counted[split]);
}

/* Decodes each split once, for the facts, the hash and the checks, and frees it. */
static ronde_status dataset_inspect(dataset_impl *im, int64_t limit, ronde__data *data) {
  RONDE_TRY(im->set.kind->scan(&im->set, &im->facts));
  for (int split = 0; split < 2; ++split) {
    if (im->facts.n[split] == 0) continue;
    ronde__store store;
    bool train = split == RONDE_SPLIT_TRAIN;
    RONDE_TRY(ronde__store_decode(&im->set, &im->facts, train ? train_only : test_only, true, &store));
    im->facts.largest_label = ronde__max(im->facts.largest_label, store.facts.largest_label);
    im->facts.largest_token = ronde__max(im->facts.largest_token, store.facts.largest_token);
    im->facts.n_beyond_unit += store.facts.n_beyond_unit;
    im->facts.n_one_hot += store.facts.n_one_hot;
    if (train) im->standard = table_standard(&store);
    memcpy(train ? data->sha256 : data->test_sha256, store.sha256[split], sizeof data->sha256);
    ronde_status status = dataset_check_labels(im, &store, limit);
    if (train && status == RONDE_OK) status = dataset_keep_labels(im, &store);
    if (status == RONDE_OK) status = dataset_count_labels(&store, split, im->set.name, data);
    ronde__store_close(&store);
    RONDE_TRY(status);
  }
  return RONDE_OK;
}

static ronde_status dataset_load(dataset_impl *im, int64_t limit, ronde__data *data) {
  if (!im->cached) return dataset_inspect(im, limit, data);
  RONDE_TRY(ronde__store_open_cached(&im->set, &im->store));
  im->facts = im->store.facts;
  im->standard = table_standard(&im->store);
  memcpy(data->sha256, im->store.sha256[RONDE_SPLIT_TRAIN], sizeof data->sha256);
  memcpy(data->test_sha256, im->store.sha256[RONDE_SPLIT_TEST], sizeof data->test_sha256);
  for (int split = 0; split < 2; ++split) RONDE_TRY(dataset_count_labels(&im->store, split, im->set.name, data));
  return dataset_check_labels(im, &im->store, limit);
}

static ronde_status dataset_copy_names(const char *const *names, int64_t n, const char *what, ronde__files *copy) {
  copy->path = calloc((size_t)n, sizeof *copy->path);
  for (; copy->path && copy->n < n; ++copy->n)
    if (!(copy->path[copy->n] = ronde__strdup(names[copy->n]))) break;
  return copy->n == n ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "%s: no memory for the names of its classes", what);
}

/* What scan found out of the columns, or has kept in the cache; the classes that they name are the set's. */
static ronde_status dataset_take_columns(dataset_impl *im) {
  ronde__columns *c = im->set.columns;
  if (!c) return RONDE_OK;
  if (im->store.note) RONDE_TRY(ronde__columns_take(c, im->store.note, im->set.name));
  if (!c->are_classes) return RONDE_OK;
  im->set.classes = c->n_classes;
  return dataset_copy_names((const char *const *)c->class_name, c->n_classes, im->set.name, &im->set.class_names);
}

static ronde_status set_normalization(const dataset_impl *im, const ronde__data_options *options,
                                      ronde__normalization *out) {
  int64_t channels = im->facts.dims[0];
  if (options->normalize) *out = options->standardize && im->facts.is_table ? im->standard : im->set.normalization;
  if (options->normalization) *out = *options->normalization;
  if (out->channels && im->facts.are_tokens)
    return ronde__fail(RONDE_E_USAGE, "--normalize can have no effect: %s holds tokens", im->set.name);
  if (out->channels && im->facts.mels)
    return ronde__fail(RONDE_E_USAGE, "--normalize can have no effect: %s holds recordings, each normalised by itself",
                       im->set.name);
  if (out->channels <= 1 || out->channels == channels) return RONDE_OK;
  return ronde__fail(RONDE_E_USAGE, "%s: mean and deviation are given for %d %s have %lld", im->set.name, out->channels,
                     im->facts.is_table ? "columns, but the rows" : "channels, but the images", (long long)channels);
}

/* Sets the size of images as they are read, and what resizing needs. */
static ronde_status set_size(dataset_impl *im, const ronde__data_options *options) {
  const int64_t *stored = im->facts.dims + 1;
  const char *of_images = options->resize[0] ? "--resize" : options->crop || options->flip ? "--augment" : NULL;
  if (of_images && im->facts.is_table)
    return ronde__fail(RONDE_E_USAGE, "%s can have no effect: %s holds a table, not images", of_images, im->set.name);
  memcpy(im->sides, options->resize[0] ? options->resize : stored, sizeof im->sides);
  im->elems = im->facts.dims[0] * im->sides[0] * im->sides[1];
  im->crop = options->crop;
  im->flip = options->flip;
  im->seed = options->seed;
  if (im->crop && ronde__min(im->sides[0], im->sides[1]) <= RONDE__CROP_PADDING)
    return ronde__fail(RONDE_E_USAGE,
                       "%s: images of %lldx%lld are too small for --augment crop, which shifts them by up to %d pixels",
                       im->set.name, (long long)im->sides[0], (long long)im->sides[1], RONDE__CROP_PADDING);
  bool same = im->sides[0] == stored[0] && im->sides[1] == stored[1];
  return same ? RONDE_OK : ronde__resizer_create(stored, im->sides, &im->resizer);
}

static void fill_source(dataset_impl *im, int64_t classes, ronde_source *source) {
  const ronde__facts *facts = &im->facts;
  *source = (ronde_source){.name = im->set.name, .rank = facts->is_table ? 1 : 3, .read = source_read, .user = im};
  source->dims[0] = facts->dims[0];
  if (!facts->is_table) memcpy(source->dims + 1, im->sides, sizeof im->sides);
  memcpy(source->n_examples, facts->n, sizeof facts->n);
  source->target_elems = facts->target_elems;
  source->label_elems = facts->label_elems;
  source->vocabulary = im->set.bpe ? ronde__bpe_size(im->set.bpe) : facts->are_tokens ? facts->largest_token + 1 : 0;
  if (im->set.kind == &ronde__pairs_kind) { /* the other half of a row */
    source->dims[0] /= 2;
    im->more[0] = (ronde_source_input){
        .name = "decoder_input", .rank = 1, .dims = {source->dims[0]}, .vocabulary = source->vocabulary};
  } else if (facts->mels) { /* its last element */
    source->rank = 3;
    source->dims[0] = 1, source->dims[1] = facts->mels, source->dims[2] = facts->dims[0] / facts->mels;
    im->more[0] = (ronde_source_input){.name = "lengths", .rank = 1, .dims = {1}};
  }
  source->n_more = im->more[0].name != NULL;
  source->more = source->n_more ? im->more : NULL;
  if (facts->target_elems) return;
  source->classes = classes ? classes : im->set.classes ? im->set.classes : facts->largest_label + 1;
}

ronde_status ronde__data_open(const ronde__data_options *options, ronde__data **data_out) {
  const ronde__kernels *kernels;
  RONDE_TRY(ronde__kernels_get(&kernels));
  ronde__data *data;
  dataset_impl *im;
  RONDE__ALLOC(data, sizeof *data + sizeof *im, "data set");
  im = (dataset_impl *)(data + 1);
  im->kernels = kernels;
  im->cached = options->cache;
  pthread_mutex_init(&im->mutex, NULL);
  pthread_rwlock_init(&im->gate, NULL);
  data->impl = im;
  ronde_status status = ronde__set_find(options->spec, options->seed, &im->set);
  memcpy(im->set.resize, options->resize, im->set.kind == &ronde__folder_kind ? sizeof im->set.resize : 0);
  im->set.skip_bad = options->skip_bad_images && im->set.kind == &ronde__folder_kind;
  im->set.layout = im->set.kind == &ronde__npy_kind ? options->layout : RONDE__IMAGE_AUTO;
  bool has_window = im->set.kind == &ronde__text_kind || im->set.kind == &ronde__pairs_kind;
  im->set.window = has_window ? options->window : im->set.kind == &ronde__audio_kind ? options->frames : 0;
  if (status == RONDE_OK) status = ronde__text_take_stride(options, &im->set);
  if (status == RONDE_OK) status = ronde__text_take_vocabulary(options, &im->set);
  if (status == RONDE_OK && options->prefers_val) status = ronde__folder_take_val(&im->set);
  bool has_columns = im->set.kind == &ronde__csv_kind, has_names = has_columns || im->set.class_names.n;
  int64_t limit = has_names ? 0 : options->classes ? options->classes : im->set.class_limit;
  if (status == RONDE_OK && has_columns) status = ronde__columns_create(options->columns, &im->set.columns);
  if (status == RONDE_OK) status = dataset_load(im, limit, data);
  if (status == RONDE_OK) status = dataset_take_columns(im);
  if (status == RONDE_OK && options->classes && im->facts.target_elems)
    status = ronde__fail(RONDE_E_USAGE, "--classes %lld can have no effect: the targets of %s are values, not classes",
                         (long long)options->classes, im->set.name);
  if (status == RONDE_OK) status = set_size(im, options);
  if (status == RONDE_OK) status = set_normalization(im, options, &data->normalization);
  if (status != RONDE_OK) {
    ronde__data_close(data);
    return status;
  }
  data->n_skipped = im->facts.n_skipped;
  if (data->n_skipped && im->set.kind == &ronde__pairs_kind)
    ronde__log(RONDE_LOG_WARNING, "%s: %lld pairs with a text of --window %lld or more bytes are left out",
               im->set.name, (long long)data->n_skipped, (long long)im->set.window);
  else if (data->n_skipped && im->facts.mels)
    ronde__log(RONDE_LOG_WARNING, "%s: %lld recordings of more than --frames %lld are left out", im->set.name,
               (long long)data->n_skipped, (long long)im->set.window);
  else if (data->n_skipped)
    ronde__log(RONDE_LOG_WARNING, "%s: %lld images that cannot be read are left out", im->set.name,
               (long long)data->n_skipped);
  data->test_is_val = im->set.test_is_val;
  data->has_other_val = im->set.other_val && !im->set.test_is_val;
  if (im->set.kind == &ronde__folder_kind && im->facts.n[RONDE_SPLIT_TEST] == 0 && !options->any_split)
    ronde__log(RONDE_LOG_WARNING, "%s: it has neither test/ nor val/, so there are no test examples", options->spec);
  data->n_beyond_unit = im->facts.n_beyond_unit;
  data->is_one_hot = im->facts.n_one_hot > 0 && im->facts.n_one_hot == im->facts.n[0] + im->facts.n[1];
  data->augments = options->crop || options->flip;
  im->scaling = ronde__scaling_of(&data->normalization, im->facts.f32 ? 1 : 255);
  fill_source(im, options->classes, &data->source);
  *data_out = data;
  return RONDE_OK;
}

ronde__stored ronde__data_stored(const ronde__data *data, ronde_split split) {
  const dataset_impl *im = data->impl;
  return (ronde__stored){im->facts.f32, im->store.x[split], im->facts.are_tokens, im->store.labels[split],
                         im->store.targets[split]};
}

const char *ronde__data_class_name(const ronde__data *data, int64_t label) {
  const dataset_impl *im = data->impl;
  return im && label >= 0 && label < im->set.class_names.n ? im->set.class_names.path[label] : NULL;
}

const ronde__bpe *ronde__data_vocabulary(const ronde__data *data) {
  const dataset_impl *im = data->impl;
  return im ? im->set.bpe : NULL;
}

char *ronde__data_columns(const ronde__data *data) {
  const dataset_impl *im = data->impl;
  return im && im->set.columns ? ronde__columns_text(im->set.columns, false) : NULL;
}

bool ronde__data_has_integer_classes(const ronde__data *data) {
  const dataset_impl *im = data->impl;
  return im && im->set.columns && ronde__columns_have_integers(im->set.columns);
}

/* Reads through the caller's function, a few examples at a time: labels_out [n][label_elems]. */
static ronde_status dataset_read_labels(const ronde__data *data, ronde_split split, int64_t *labels_out) {
  enum { CHUNK = 64 };
  const ronde_source *source = &data->source;
  int64_t ids[CHUNK], n = source->n_examples[split];
  float *x;
  RONDE__ALLOC(x, CHUNK * (size_t)ronde__source_elems(source) * sizeof *x, source->name);
  ronde_status status = RONDE_OK;
  for (int64_t at = 0; at < n && status == RONDE_OK; at += CHUNK) {
    int64_t n_now = ronde__min(CHUNK, n - at);
    for (int64_t i = 0; i < n_now; ++i) ids[i] = at + i;
    status = ronde__data_read(data, split, ids, n_now, x, labels_out + at * ronde__source_labels(source), NULL);
  }
  ronde__free(x);
  return status;
}

ronde_status ronde__data_labels(const ronde__data *data, int64_t *labels_out) {
  const dataset_impl *im = data->impl;
  if (!im) return dataset_read_labels(data, RONDE_SPLIT_TRAIN, labels_out);
  const int64_t *labels = im->cached ? im->store.labels[RONDE_SPLIT_TRAIN] : im->train_labels;
  memcpy(labels_out, labels, (size_t)im->facts.n[RONDE_SPLIT_TRAIN] * sizeof *labels);
  return RONDE_OK;
}

int64_t ronde__data_class_names(const ronde__data *data) {
  const dataset_impl *im = data->impl;
  return im ? im->set.class_names.n : 0;
}

const char *ronde__data_example_file(const ronde__data *data, ronde_split split, int64_t id) {
  const dataset_impl *im = data->impl;
  if (!im || im->set.kind != &ronde__folder_kind || im->set.files[split].n != im->facts.n[split]) return NULL;
  return id >= 0 && id < im->set.files[split].n ? im->set.files[split].path[id] : NULL;
}

ronde_status ronde__data_relabel(ronde__data *data, const int64_t *label_of, const char *const *names, int64_t n_names,
                                 int64_t classes) {
  dataset_impl *im = data->impl;
  size_t bytes = (size_t)im->set.class_names.n * sizeof *label_of;
  ronde__files copy = {.n = 0};
  RONDE__ALLOC(im->label_of, bytes, im->set.name);
  memcpy(im->label_of, label_of, bytes);
  ronde_status status = dataset_copy_names(names, n_names, im->set.name, &copy);
  ronde__files *old = status == RONDE_OK ? &im->set.class_names : &copy;
  ronde__files_release(old);
  if (status == RONDE_OK) im->set.class_names = copy;
  data->source.classes = classes;
  return status;
}

void ronde__data_tell_text(ronde__data *data) {
  dataset_impl *im = data->impl;
  if (!im || !im->facts.mels) return;
  im->more[1] = (ronde_source_input){
      .name = "text", .rank = 1, .dims = {data->source.label_elems}, .vocabulary = data->source.classes};
  data->source.n_more = 2;
  im->tells_text = true;
}

/* Of sequences all is read once, because a step must know how many labels it has before any worker has its share. */
static ronde_status count_callers_labels(ronde__data *data, ronde_split split) {
  const ronde_source *source = &data->source;
  int64_t n = source->n_examples[split], *labels;
  if (source->label_elems == 0 || n == 0) return RONDE_OK;
  RONDE__ALLOC(labels, (size_t)(n * source->label_elems) * sizeof *labels, source->name);
  ronde_status status = dataset_read_labels(data, split, labels);
  if (status == RONDE_OK)
    status = ronde__labels_count(source->name, n, source->label_elems, labels, &data->counted[split]);
  ronde__free(labels);
  return status;
}

ronde_status ronde__data_wrap(const ronde_source *source, ronde__data **data_out) {
  const char *name = source->name ? source->name : "the source";
  const char *wrong = ronde__source_wrong(source);
  if (wrong) return ronde__fail(RONDE_E_USAGE, "%s: %s", name, wrong);
  ronde__data *data;
  RONDE__ALLOC(data, sizeof *data, name);
  data->source = *source;
  data->source.name = name;
  ronde_status status = RONDE_OK;
  for (int split = 0; split < 2 && status == RONDE_OK; ++split) status = count_callers_labels(data, (ronde_split)split);
  if (status != RONDE_OK) ronde__data_close(data);
  else *data_out = data;
  return status;
}

void ronde__data_close(ronde__data *data) {
  if (!data) return;
  dataset_impl *im = data->impl;
  if (im) {
    ronde__store_close(&im->store);
    ronde__store_close(&im->kept[0]);
    ronde__store_close(&im->kept[1]);
    ronde__resizer_destroy(im->resizer);
    ronde__free(im->label_of);
    ronde__free(im->train_labels);
    pthread_mutex_destroy(&im->mutex);
    pthread_rwlock_destroy(&im->gate);
    ronde__set_release(&im->set);
  }
  for (int split = 0; split < 2; ++split) ronde__free(data->counted[split]);
  ronde__free(data);
}
