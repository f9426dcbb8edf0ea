/* A set that is open: facts, limits and normalisation around decoded examples, read as f32. */
#include "data/catalog.h"
#include "data/store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct impl {
  ronde__set set;
  ronde__facts facts;
  const ronde__kernels *kernels;
  int n_scales; /* 1: all channels have the same; else one a channel */
  float factor[RONDE__NORMALIZED_MAX], shift[RONDE__NORMALIZED_MAX]; /* stored element -> value */
  bool cached;
  ronde__store store;    /* cached: both splits */
  pthread_mutex_t mutex; /* of kept */
  ronde__store kept[2];  /* cache off: a split that source.read was asked for */
} impl;

static const bool train_only[2] = {true, false}, test_only[2] = {false, true};

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static void read_row(const impl *im, const ronde__store *store, ronde_split split, int64_t id, int64_t elems,
                     float *x) {
  const uint8_t *pixels = (const uint8_t *)store->x[split] + id * elems;
  int64_t n = im->n_scales > 1 ? elems / im->n_scales : elems; /* that share a factor and a shift */
  for (int c = 0; !store->facts.f32 && c < im->n_scales; ++c)
    im->kernels->from_u8(pixels + c * n, im->factor[c], im->shift[c], x + c * n, n);
  if (!store->facts.f32) return;
  memcpy(x, (const float *)store->x[split] + id * elems, (size_t)elems * sizeof *x);
}

static ronde_status read_rows(const impl *im, const ronde__store *store, ronde_split split, const int64_t *ids,
                              int64_t n, float *x, int64_t *labels) {
  int64_t elems = ronde__facts_elems(&store->facts);
  for (int64_t i = 0; i < n; ++i) {
    if (ids[i] < 0 || ids[i] >= store->facts.n[split])
      return ronde__fail(RONDE_E_INTERNAL, "%s: example %lld of %lld was asked for", im->set.name, (long long)ids[i],
                         (long long)store->facts.n[split]);
    read_row(im, store, split, ids[i], elems, x + i * elems);
    labels[i] = store->labels[split][ids[i]];
  }
  return RONDE_OK;
}

/* One split from the files as they are now; filling refuses those that are no longer as they were opened. */
static ronde_status decode_split(const impl *im, const bool want[2], ronde__store *store_out) {
  return ronde__store_decode(&im->set, &im->facts, want, false, store_out);
}

/* Cache off: decodes at the first call, since evaluation comes back batch by batch. */
static ronde_status keep_split(impl *im, ronde_split split, const ronde__store **store_out) {
  pthread_mutex_lock(&im->mutex);
  ronde_status status = RONDE_OK;
  if (!im->kept[split].base)
    status = decode_split(im, split == RONDE_SPLIT_TRAIN ? train_only : test_only, &im->kept[split]);
  pthread_mutex_unlock(&im->mutex);
  *store_out = &im->kept[split];
  return status;
}

static ronde_status source_read(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                                float *targets) {
  impl *im = user;
  const ronde__store *store = &im->store;
  if (!im->cached) RONDE_TRY(keep_split(im, split, &store));
  return read_rows(im, store, split, ids, n, x, labels);
}

bool ronde__data_decodes(const ronde__data *data) { return data->impl && !((const impl *)data->impl)->cached; }

ronde_status ronde__data_decode(const ronde__data *data, ronde__store *store_out) {
  return decode_split(data->impl, train_only, store_out);
}

ronde_status ronde__data_read_from(const ronde__data *data, const ronde__store *store, ronde_split split,
                                   const int64_t *ids, int64_t n, float *x, int64_t *labels) {
  return read_rows(data->impl, store, split, ids, n, x, labels);
}

ronde_status ronde__data_read(const ronde__data *data, ronde_split split, const int64_t *ids, int64_t n, float *x,
                              int64_t *labels, float *targets) {
  const ronde_source *source = &data->source;
  ronde_status status = source->read(source->user, split, ids, n, x, labels, targets);
  if (status != RONDE_OK && !data->impl)
    ronde__fail(status, "%s: its read function failed: %s", source->name, ronde_status_text(status));
  RONDE_TRY(status);
  for (int64_t i = 0; i < n && source->classes > 0; ++i)
    if (labels[i] < 0 || labels[i] >= source->classes)
      return ronde__fail(RONDE_E_INPUT, "%s: label %lld of example %lld is not within the %lld classes (0..%lld)",
                         source->name, (long long)labels[i], (long long)ids[i], (long long)source->classes,
                         (long long)source->classes - 1);
  return RONDE_OK;
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

/* Names the first label that is not below the limit, if one is. */
static ronde_status check_labels(const impl *im, const ronde__store *store, int64_t limit) {
  if (limit == 0 || store->facts.largest_label < limit) return RONDE_OK;
  for (int split = 0; split < 2; ++split)
    for (int64_t i = 0; store->labels[split] && i < store->facts.n[split]; ++i) {
      int64_t label = store->labels[split][i];
      if (label < limit) continue;
      const char *file = im->set.y_path[split] ? im->set.y_path[split] : im->set.name;
      return ronde__fail(RONDE_E_INPUT,
                         "%s: offset %lld: label %lld of example %lld is beyond the %lld classes (0..%lld)", file,
                         (long long)(store->facts.label_offset[split] + i * store->facts.label_bytes[split]),
                         (long long)label, (long long)i, (long long)limit, (long long)limit - 1);
    }
  return RONDE_OK;
}

/* Decodes each split once, for the facts, the hash and the checks, and lets it go. */
static ronde_status inspect(impl *im, int64_t limit, char sha256[65]) {
  RONDE_TRY(im->set.kind->scan(&im->set, &im->facts));
  for (int split = 0; split < 2; ++split) {
    if (im->facts.n[split] == 0) continue;
    ronde__store store;
    bool train = split == RONDE_SPLIT_TRAIN;
    RONDE_TRY(ronde__store_decode(&im->set, &im->facts, train ? train_only : test_only, train, &store));
    im->facts.largest_label = ronde__max(im->facts.largest_label, store.facts.largest_label);
    if (train) memcpy(sha256, store.sha256, sizeof store.sha256);
    ronde_status status = check_labels(im, &store, limit);
    ronde__store_close(&store);
    RONDE_TRY(status);
  }
  return RONDE_OK;
}

static ronde_status load(impl *im, int64_t limit, char sha256[65]) {
  if (!im->cached) return inspect(im, limit, sha256);
  RONDE_TRY(ronde__store_open_cached(&im->set, &im->store));
  im->facts = im->store.facts;
  memcpy(sha256, im->store.sha256, sizeof im->store.sha256);
  return check_labels(im, &im->store, limit);
}

static void set_scales(impl *im, const ronde__normalization *normalization) {
  im->n_scales = 1;
  im->factor[0] = 1.f / 255;
  for (int c = 0; c < normalization->channels; ++c) {
    im->factor[c] = 1 / (255 * normalization->deviation[c]);
    im->shift[c] = -normalization->mean[c] / normalization->deviation[c];
    im->n_scales = c + 1;
  }
}

static void fill_source(impl *im, int64_t classes, ronde_source *source) {
  const ronde__facts *facts = &im->facts;
  *source = (ronde_source){.name = im->set.name, .rank = 3, .read = source_read, .user = im};
  memcpy(source->dims, facts->dims, sizeof facts->dims);
  memcpy(source->n_examples, facts->n, sizeof facts->n);
  source->classes = classes ? classes : im->set.classes ? im->set.classes : facts->largest_label + 1;
}

ronde_status ronde__data_open(const ronde__data_options *options, ronde__data **data_out) {
  const ronde__kernels *kernels;
  RONDE_TRY(ronde__kernels_get(&kernels));
  ronde__data *data;
  impl *im;
  RONDE__ALLOC(data, sizeof *data + sizeof *im, "data set");
  im = (impl *)(data + 1);
  im->kernels = kernels;
  im->cached = options->cache;
  pthread_mutex_init(&im->mutex, NULL);
  data->impl = im;
  ronde_status status = ronde__set_find(options->spec, options->seed, &im->set);
  if (status == RONDE_OK) status = load(im, options->classes ? options->classes : im->set.class_limit, data->sha256);
  if (status != RONDE_OK) {
    ronde__data_close(data);
    return status;
  }
  if (options->normalize) data->normalization = im->set.normalization;
  set_scales(im, &data->normalization);
  fill_source(im, options->classes, &data->source);
  *data_out = data;
  return RONDE_OK;
}

ronde_status ronde__data_wrap(const ronde_source *source, ronde__data **data_out) {
  const char *name = source->name ? source->name : "the source";
  const char *wrong = NULL;
  if (source->rank < 1 || source->rank > RONDE_MAX_RANK) wrong = "its rank must lie in 1..6";
  int64_t elems = 1;
  for (int d = 0; !wrong && d < source->rank; ++d)
    if (source->dims[d] < 1 || __builtin_mul_overflow(elems, source->dims[d], &elems))
      wrong = "its dims must be positive";
  if (!wrong && source->n_examples[RONDE_SPLIT_TRAIN] < 0) wrong = "n_examples must not be negative";
  if (!wrong && source->n_examples[RONDE_SPLIT_TEST] < 0) wrong = "n_examples must not be negative";
  if (!wrong && (source->classes < 0 || (source->classes == 0 && source->target_elems < 1)))
    wrong = "it needs classes, or target_elems where classes is 0";
  if (!wrong && !source->read) wrong = "it needs a read function";
  if (wrong) return ronde__fail(RONDE_E_USAGE, "%s: %s", name, wrong);
  ronde__data *data;
  RONDE__ALLOC(data, sizeof *data, name);
  data->source = *source;
  data->source.name = name;
  *data_out = data;
  return RONDE_OK;
}

void ronde__data_close(ronde__data *data) {
  if (!data) return;
  impl *im = data->impl;
  if (im) {
    ronde__store_close(&im->store);
    ronde__store_close(&im->kept[0]);
    ronde__store_close(&im->kept[1]);
    pthread_mutex_destroy(&im->mutex);
    ronde__set_release(&im->set);
  }
  ronde__free(data);
}
