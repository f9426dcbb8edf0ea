/* A set of npy files: train_x.npy, images NCHW (or NHW, or NHWC where --layout says so) f32 or u8, or a table (N, F), also
 * of f64; train_y.npy, labels of integers or targets (N,) or (N, T) of floats; test_x.npy and test_y.npy may be absent. */
#include "data/set.h"

#include <stdio.h>
#include <string.h>

static void npy_type_text(const ronde__npy *npy, char *text, size_t size) {
  const char *kind = npy->type == 'f' ? "float" : npy->type == 'i' ? "int" : "uint";
  snprintf(text, size, "%s%d", kind, 8 * npy->item_bytes);
}

/* What the header of images says of them. */
typedef struct npy_images {
  int64_t n, dims[3]; /* C, H, W, in whatever order they lie in the file */
  bool f32, nhwc;
  bool is_table; /* (N, F): dims F, 1, 1 */
} npy_images;

/* Whether it looks like channels last, as Keras has it: read as NCHW it would have many channels of a few pixels'
 * width. */
static bool npy_looks_nhwc(const int64_t dim[4]) {
  bool picture = dim[3] == 1 || dim[3] == 3 || dim[3] == 4;
  return picture && dim[1] > 4 && dim[2] > dim[3];
}

static ronde_status npy_check_layout(const char *path, const ronde__npy *npy, ronde__image_layout layout) {
  if (layout != RONDE__IMAGE_AUTO || npy->rank != 4 || !npy_looks_nhwc(npy->dim)) return RONDE_OK;
  const long long n = npy->dim[0], a = npy->dim[1], b = npy->dim[2], c = npy->dim[3];
  return ronde__fail(RONDE_E_INPUT,
                     "%s: offset 10: (%lld, %lld, %lld, %lld) looks like (N, H, W, C), but (N, C, H, W) is expected: "
                     "give --layout nhwc to convert it, or --layout nchw if it has %lld channels of %lldx%lld",
                     path, n, a, b, c, a, b, c);
}

static ronde_status npy_check_images(const char *path, const ronde__npy *npy, ronde__image_layout layout,
                                     npy_images *images_out) {
  bool is_table = npy->rank == 2;
  bool f32 = npy->type == 'f' && (npy->item_bytes == 4 || (is_table && npy->item_bytes == 8)),
       u8 = npy->type == 'u' && npy->item_bytes == 1;
  if (!f32 && !u8) {
    char type[24];
    npy_type_text(npy, type, sizeof type);
    return ronde__fail(RONDE_E_INPUT, "%s: offset 10: the %s of type %s; %s is needed", path,
                       is_table ? "table is" : "images are", type,
                       is_table ? "float32, float64 or uint8" : "float32 or uint8");
  }
  if (npy->rank < 2 || npy->rank > 4)
    return ronde__fail(RONDE_E_INPUT,
                       "%s: offset 10: inputs of rank %d; (N, C, H, W), (N, H, W) or a table (N, F) is needed", path,
                       npy->rank);
  if (is_table && layout != RONDE__IMAGE_AUTO)
    return ronde__fail(RONDE_E_USAGE, "--layout can have no effect: %s is a table, not images", path);
  if (is_table) {
    *images_out = (npy_images){.n = npy->dim[0], .f32 = f32, .is_table = true, .dims = {npy->dim[1], 1, 1}};
    return RONDE_OK;
  }
  RONDE_TRY(npy_check_layout(path, npy, layout));
  bool nhwc = npy->rank == 4 && layout == RONDE__IMAGE_NHWC;
  const int64_t *dim = npy->dim, *sides = nhwc ? dim + 1 : dim + npy->rank - 2;
  *images_out = (npy_images){.n = dim[0], .f32 = f32, .nhwc = nhwc, .dims = {1, sides[0], sides[1]}};
  if (npy->rank == 4) images_out->dims[0] = nhwc ? dim[3] : dim[1];
  return RONDE_OK;
}

/* Items as they lie in the file, turned to NCHW. */
static ronde_status npy_read_items(ronde__stream *stream, const ronde__npy *npy, const npy_images *im, void *x) {
  if (im->is_table && im->f32) return ronde__npy_read_f32(stream, npy, x);
  RONDE_TRY(ronde__npy_read(stream, npy, x));
  if (!im->nhwc || im->dims[0] == 1) return RONDE_OK;
  size_t item = (size_t)npy->item_bytes, channels = (size_t)im->dims[0];
  size_t pixels = (size_t)(im->dims[1] * im->dims[2]), bytes = pixels * channels * item;
  char *image = x, *copy;
  RONDE__ALLOC(copy, bytes, ronde__stream_name(stream));
  for (int64_t i = 0; i < im->n; ++i, image += bytes) {
    memcpy(copy, image, bytes);
    for (size_t p = 0; p < pixels; ++p)
      for (size_t c = 0; c < channels; ++c)
        memcpy(image + (c * pixels + p) * item, copy + (p * channels + c) * item, item);
  }
  ronde__free(copy);
  return RONDE_OK;
}

static ronde_status npy_check_labels(const char *path, const ronde__npy *npy, const char *x_path, int64_t n) {
  bool are_values = npy->type == 'f';
  if (are_values && npy->item_bytes < 4) {
    char type[24];
    npy_type_text(npy, type, sizeof type);
    return ronde__fail(RONDE_E_INPUT, "%s: offset 10: the targets are of type %s; float32 or float64 is needed", path,
                       type);
  }
  if (npy->rank != 1 && !(are_values && npy->rank == 2))
    return ronde__fail(RONDE_E_INPUT, "%s: offset 10: %s of rank %d; %s is needed", path,
                       are_values ? "targets" : "labels", npy->rank,
                       are_values ? "(N,) or (N, T)" : "(N,), or (N, T) of floats,");
  if (npy->dim[0] != n)
    return ronde__fail(RONDE_E_INPUT, "%s: offset 10: %lld %s, but %s holds %lld examples", path,
                       (long long)npy->dim[0], are_values ? "rows of targets" : "labels", x_path, (long long)n);
  return RONDE_OK;
}

/* Of targets; 0: they are labels. */
static int64_t npy_target_elems(const ronde__npy *npy) {
  if (npy->type != 'f') return 0;
  return npy->rank == 2 ? npy->dim[1] : 1;
}

static ronde_status npy_scan_path(const char *path, ronde__npy *npy_out) {
  ronde__stream *stream;
  RONDE_TRY(ronde__stream_open(path, &stream));
  ronde_status status = ronde__npy_scan(stream, npy_out);
  ronde__stream_close(stream);
  return status;
}

static const char *npy_type_name(bool f32) { return f32 ? "float32" : "uint8"; }

static const char *npy_kind_text(bool is_table, int64_t columns, char text[64]) {
  if (is_table) snprintf(text, 64, "a table of %lld columns", (long long)columns);
  else snprintf(text, 64, "images");
  return text;
}

/* Whether test files are of one kind with those of training. */
static ronde_status npy_check_test(const ronde__set *set, const npy_images *im, int64_t target_elems,
                                   const ronde__facts *train) {
  const char *x_path = set->x_path[RONDE_SPLIT_TEST], *y_path = set->y_path[RONDE_SPLIT_TEST];
  char a[64], b[64];
  if (im->is_table != train->is_table || (im->is_table && im->dims[0] != train->dims[0]))
    return ronde__fail(RONDE_E_INPUT, "%s: offset 10: %s, but the training examples are %s", x_path,
                       npy_kind_text(im->is_table, im->dims[0], a), npy_kind_text(train->is_table, train->dims[0], b));
  if (memcmp(im->dims, train->dims, sizeof im->dims) || im->f32 != train->f32)
    return ronde__fail(
        RONDE_E_INPUT, "%s: offset 10: %s images of %lldx%lldx%lld, but the training images are %s of %lldx%lldx%lld",
        x_path, npy_type_name(im->f32), (long long)im->dims[0], (long long)im->dims[1], (long long)im->dims[2],
        npy_type_name(train->f32), (long long)train->dims[0], (long long)train->dims[1], (long long)train->dims[2]);
  if (target_elems == train->target_elems) return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT,
                     "%s: offset 10: %lld target values an example, but in training %lld (0: labels, of integers)",
                     y_path, (long long)target_elems, (long long)train->target_elems);
}

static ronde_status npy_scan(const ronde__set *set, ronde__facts *facts_out) {
  ronde__facts facts = {0};
  for (int split = 0; split < 2; ++split) {
    if (!set->x_path[split]) continue;
    ronde__npy x, y;
    npy_images im;
    RONDE_TRY(npy_scan_path(set->x_path[split], &x));
    RONDE_TRY(npy_check_images(set->x_path[split], &x, set->layout, &im));
    RONDE_TRY(npy_scan_path(set->y_path[split], &y));
    RONDE_TRY(npy_check_labels(set->y_path[split], &y, set->x_path[split], im.n));
    if (split == RONDE_SPLIT_TEST) RONDE_TRY(npy_check_test(set, &im, npy_target_elems(&y), &facts));
    memcpy(facts.dims, im.dims, sizeof im.dims);
    facts.n[split] = im.n;
    facts.f32 = im.f32;
    facts.is_table = im.is_table;
    facts.target_elems = npy_target_elems(&y);
    facts.label_offset[split] = y.data_offset;
    facts.label_bytes[split] = y.item_bytes;
  }
  *facts_out = facts;
  return RONDE_OK;
}

static ronde_status npy_fill_images(const ronde__set *set, const ronde__facts *facts, ronde_split split, void *x) {
  const char *path = set->x_path[split];
  ronde__stream *stream;
  ronde__npy npy;
  npy_images im;
  RONDE_TRY(ronde__stream_open(path, &stream));
  ronde_status status = ronde__npy_scan(stream, &npy);
  if (status == RONDE_OK) status = npy_check_images(path, &npy, set->layout, &im);
  if (status == RONDE_OK &&
      (im.n != facts->n[split] || memcmp(im.dims, facts->dims, sizeof im.dims) || im.f32 != facts->f32))
    status = ronde__fail(RONDE_E_INPUT, "%s: offset 10: the file changed while it was in use", path);
  if (status == RONDE_OK) status = npy_read_items(stream, &npy, &im, x);
  ronde__stream_close(stream);
  return status;
}

/* Labels, or targets [n][target_elems]; the other is NULL. */
static ronde_status npy_fill_answers(const char *path, const char *x_path, int64_t n, int64_t target_elems,
                                     int64_t *labels, float *targets) {
  ronde__stream *stream;
  ronde__npy npy;
  RONDE_TRY(ronde__stream_open(path, &stream));
  ronde_status status = ronde__npy_scan(stream, &npy);
  if (status == RONDE_OK) status = npy_check_labels(path, &npy, x_path, n);
  if (status == RONDE_OK && npy_target_elems(&npy) != target_elems)
    status = ronde__fail(RONDE_E_INPUT, "%s: offset 10: the file changed while it was in use", path);
  if (status == RONDE_OK)
    status = targets ? ronde__npy_read_f32(stream, &npy, targets) : ronde__npy_read_labels(stream, &npy, labels);
  ronde__stream_close(stream);
  return status;
}

static ronde_status npy_fill(const ronde__set *set, const ronde__facts *facts, ronde_split split, void *x,
                             int64_t *labels, float *targets) {
  RONDE_TRY(npy_fill_images(set, facts, split, x));
  return npy_fill_answers(set->y_path[split], set->x_path[split], facts->n[split], facts->target_elems, labels,
                          targets);
}

const ronde__set_kind ronde__npy_kind = {npy_scan, npy_fill};

/* ---- a single file, for predict --------------------------------------------------------------------------------- */

static ronde_status npy_read_images(ronde__stream *stream, const ronde__npy *npy, const npy_images *im, float **x_out) {
  float *x;
  uint8_t *pixels = NULL;
  RONDE__ALLOC(x, (size_t)npy->n_items * sizeof *x, ronde__stream_name(stream));
  /* u8 are read into the end of the f32 array and converted from the front. */
  if (!im->f32) pixels = (uint8_t *)(x + npy->n_items) - npy->n_items;
  ronde_status status = npy_read_items(stream, npy, im, im->f32 ? (void *)x : pixels);
  if (status != RONDE_OK) {
    ronde__free(x);
    return status;
  }
  for (int64_t i = 0; !im->f32 && i < npy->n_items; ++i) x[i] = (float)pixels[i] / 255;
  *x_out = x;
  return RONDE_OK;
}

ronde_status ronde__npy_read_inputs(const char *path, ronde__image_layout layout, int64_t *n_out,
                                    ronde__shape *shape_out, float **x_out) {
  ronde__stream *stream;
  ronde__npy npy;
  npy_images im;
  RONDE_TRY(ronde__stream_open(path, &stream));
  ronde_status status = ronde__npy_scan(stream, &npy);
  if (status == RONDE_OK) status = npy_check_images(path, &npy, layout, &im);
  if (status == RONDE_OK) status = npy_read_images(stream, &npy, &im, x_out);
  ronde__stream_close(stream);
  if (status == RONDE_OK) {
    *n_out = im.n;
    ronde__shape image = {3, {im.dims[0], im.dims[1], im.dims[2]}}, row = {1, {im.dims[0]}};
    *shape_out = im.is_table ? row : image;
  }
  return status;
}
