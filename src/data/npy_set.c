/* A set of npy files: train_x.npy, images NCHW (or NHW, or NHWC where --layout says so) or a table (N, F), f32, f64 or u8; or
 * tokens (N, T) of integers other than u8. train_y.npy, labels (N,), also as (N, 1), or, for each step of a sequence, (N, T), of
 * integers, or targets (N,) or (N, T) of floats; test_x.npy and test_y.npy may be absent. */
#include "data/normalization.h"
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
  bool are_tokens;
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
  bool f32 = npy->type == 'f' && npy->item_bytes >= 4, u8 = npy->type == 'u' && npy->item_bytes == 1;
  bool are_tokens = is_table && npy->type != 'f' && !u8;
  if (!f32 && !u8 && !are_tokens) {
    char type[24];
    npy_type_text(npy, type, sizeof type);
    return ronde__fail(
        RONDE_E_INPUT, "%s: offset 10: the %s of type %s; %s is needed", path, is_table ? "table is" : "images are",
        type, is_table ? "float32, float64, uint8 or, for tokens, another integer" : "float32, float64 or uint8");
  }
  if (npy->rank < 2 || npy->rank > 4)
    return ronde__fail(RONDE_E_INPUT,
                       "%s: offset 10: inputs of rank %d; (N, C, H, W), (N, H, W) or a table (N, F) is needed", path,
                       npy->rank);
  if (is_table && layout != RONDE__IMAGE_AUTO)
    return ronde__fail(RONDE_E_USAGE, "--layout can have no effect: %s is a table, not images", path);
  if (is_table) {
    *images_out = (npy_images){.n = npy->dim[0],
                               .f32 = f32 || are_tokens,
                               .is_table = true,
                               .are_tokens = are_tokens,
                               .dims = {npy->dim[1], 1, 1}};
    return RONDE_OK;
  }
  RONDE_TRY(npy_check_layout(path, npy, layout));
  bool nhwc = npy->rank == 4 && layout == RONDE__IMAGE_NHWC;
  const int64_t *dim = npy->dim, *sides = nhwc ? dim + 1 : dim + npy->rank - 2;
  *images_out = (npy_images){.n = dim[0], .f32 = f32, .nhwc = nhwc, .dims = {1, sides[0], sides[1]}};
  if (npy->rank == 4) images_out->dims[0] = nhwc ? dim[3] : dim[1];
  return RONDE_OK;
}

/* Images of channels last become NCHW, in place. */
static ronde_status npy_turn(const char *name, const npy_images *im, int64_t n, size_t item, void *x) {
  size_t channels = (size_t)im->dims[0], pixels = (size_t)(im->dims[1] * im->dims[2]), bytes = pixels * channels * item;
  char *image = x, *copy;
  RONDE__ALLOC(copy, bytes, name);
  for (int64_t i = 0; i < n; ++i, image += bytes) {
    memcpy(copy, image, bytes);
    for (size_t p = 0; p < pixels; ++p)
      for (size_t c = 0; c < channels; ++c)
        memcpy(image + (c * pixels + p) * item, copy + (p * channels + c) * item, item);
  }
  ronde__free(copy);
  return RONDE_OK;
}

static int64_t npy_example_elems(const npy_images *im) { return im->dims[0] * im->dims[1] * im->dims[2]; }

/* The next n examples, of which the first is example `first`, u8 or f32. */
static ronde_status npy_take_examples(ronde__stream *stream, const ronde__npy *npy, const npy_images *im, int64_t first,
                                      int64_t n, void *x) {
  int64_t elems = npy_example_elems(im);
  if (im->f32) RONDE_TRY(ronde__npy_take_f32(stream, npy, first * elems, n * elems, x));
  else RONDE_TRY(ronde__npy_take(stream, npy, first * elems, n * elems, x));
  if (!im->nhwc || im->dims[0] == 1) return RONDE_OK;
  return npy_turn(ronde__stream_name(stream), im, n, im->f32 ? sizeof(float) : 1, x);
}

/* Each step of a sequence of tokens may have a label. */
static ronde_status npy_check_labels(const char *path, const ronde__npy *npy, const char *x_path, int64_t n,
                                     bool of_tokens) {
  bool are_values = npy->type == 'f';
  if (are_values && npy->item_bytes < 4) {
    char type[24];
    npy_type_text(npy, type, sizeof type);
    return ronde__fail(RONDE_E_INPUT, "%s: offset 10: the targets are of type %s; float32 or float64 is needed", path,
                       type);
  }
  bool two = are_values || of_tokens, are_rows = npy->rank == 2 && (two || npy->dim[1] == 1);
  if (npy->rank == 2 && !are_rows)
    return ronde__fail(
        RONDE_E_INPUT,
        "%s: offset 10: %lld labels an example, but one is needed, (N,): numpy.argmax(y, 1) makes it of one-hot rows",
        path, (long long)npy->dim[1]);
  if (npy->rank != 1 && !are_rows)
    return ronde__fail(RONDE_E_INPUT, "%s: offset 10: %s of rank %d; (N,)%s is needed", path,
                       are_values ? "targets" : "labels", npy->rank, two ? " or (N, T)" : "");
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

/* Of sequences; 0: an example has one label. */
static int64_t npy_label_elems(const ronde__npy *npy, bool of_tokens) {
  return of_tokens && npy->type != 'f' && npy->rank == 2 ? npy->dim[1] : 0;
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
static ronde_status npy_check_test(const ronde__set *set, const npy_images *im, const ronde__npy *y,
                                   const ronde__facts *train) {
  int64_t target_elems = npy_target_elems(y), label_elems = npy_label_elems(y, im->are_tokens);
  const char *x_path = set->x_path[RONDE_SPLIT_TEST], *y_path = set->y_path[RONDE_SPLIT_TEST];
  char a[64], b[64];
  if (im->is_table != train->is_table || (im->is_table && im->dims[0] != train->dims[0]))
    return ronde__fail(RONDE_E_INPUT, "%s: offset 10: %s, but the training examples are %s", x_path,
                       npy_kind_text(im->is_table, im->dims[0], a), npy_kind_text(train->is_table, train->dims[0], b));
  if (im->are_tokens != train->are_tokens)
    return ronde__fail(RONDE_E_INPUT, "%s: offset 10: %s, but the training examples are %s", x_path,
                       im->are_tokens ? "tokens" : "values", train->are_tokens ? "tokens" : "values");
  if (memcmp(im->dims, train->dims, sizeof im->dims) || im->f32 != train->f32)
    return ronde__fail(
        RONDE_E_INPUT, "%s: offset 10: %s images of %lldx%lldx%lld, but the training images are %s of %lldx%lldx%lld",
        x_path, npy_type_name(im->f32), (long long)im->dims[0], (long long)im->dims[1], (long long)im->dims[2],
        npy_type_name(train->f32), (long long)train->dims[0], (long long)train->dims[1], (long long)train->dims[2]);
  if (target_elems == 0 && train->target_elems == 0 && label_elems != train->label_elems)
    return ronde__fail(RONDE_E_INPUT, "%s: offset 10: %lld labels an example, but in training %lld", y_path,
                       (long long)ronde__max(1, label_elems), (long long)ronde__max(1, train->label_elems));
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
    RONDE_TRY(npy_check_labels(set->y_path[split], &y, set->x_path[split], im.n, im.are_tokens));
    if (split == RONDE_SPLIT_TEST) RONDE_TRY(npy_check_test(set, &im, &y, &facts));
    memcpy(facts.dims, im.dims, sizeof im.dims);
    facts.n[split] = im.n;
    facts.f32 = im.f32;
    facts.is_table = im.is_table;
    facts.are_tokens = im.are_tokens;
    facts.target_elems = npy_target_elems(&y);
    facts.label_elems = npy_label_elems(&y, im.are_tokens);
    facts.label_offset[split] = y.data_offset;
    facts.label_bytes[split] = y.item_bytes;
  }
  *facts_out = facts;
  return RONDE_OK;
}

static ronde_status npy_take_images(ronde__stream *stream, const ronde__npy *npy, const npy_images *im, void *x) {
  RONDE_TRY(ronde__npy_begin(stream, npy));
  RONDE_TRY(npy_take_examples(stream, npy, im, 0, im->n, x));
  return ronde__stream_end(stream);
}

static ronde_status npy_fill_images(const ronde__set *set, const ronde__facts *facts, ronde_split split, void *x) {
  const char *path = set->x_path[split];
  ronde__stream *stream;
  ronde__npy npy;
  npy_images im;
  RONDE_TRY(ronde__stream_open(path, &stream));
  ronde_status status = ronde__npy_scan(stream, &npy);
  if (status == RONDE_OK) status = npy_check_images(path, &npy, set->layout, &im);
  if (status == RONDE_OK && (im.n != facts->n[split] || memcmp(im.dims, facts->dims, sizeof im.dims) ||
                             im.f32 != facts->f32 || im.are_tokens != facts->are_tokens))
    status = ronde__fail(RONDE_E_INPUT, "%s: offset 10: the file changed while it was in use", path);
  if (status == RONDE_OK && im.are_tokens) status = ronde__npy_read_tokens(stream, &npy, x);
  else if (status == RONDE_OK) status = npy_take_images(stream, &npy, &im, x);
  ronde__stream_close(stream);
  return status;
}

/* Labels, or targets [n][target_elems]; the other is NULL. */
static ronde_status npy_fill_answers(const char *path, const char *x_path, int64_t n, const ronde__facts *facts,
                                     int64_t *labels, float *targets) {
  ronde__stream *stream;
  ronde__npy npy;
  RONDE_TRY(ronde__stream_open(path, &stream));
  ronde_status status = ronde__npy_scan(stream, &npy);
  if (status == RONDE_OK) status = npy_check_labels(path, &npy, x_path, n, facts->are_tokens);
  bool same =
      npy_target_elems(&npy) == facts->target_elems && npy_label_elems(&npy, facts->are_tokens) == facts->label_elems;
  if (status == RONDE_OK && !same)
    status = ronde__fail(RONDE_E_INPUT, "%s: offset 10: the file changed while it was in use", path);
  if (status == RONDE_OK)
    status = targets              ? ronde__npy_read_f32(stream, &npy, targets)
             : facts->label_elems ? ronde__npy_read_sequences(stream, &npy, labels)
                                  : ronde__npy_read_labels(stream, &npy, labels);
  ronde__stream_close(stream);
  return status;
}

static ronde_status npy_fill(const ronde__set *set, const ronde__facts *facts, ronde_split split, void *x,
                             int64_t *labels, float *targets) {
  RONDE_TRY(npy_fill_images(set, facts, split, x));
  return npy_fill_answers(set->y_path[split], set->x_path[split], facts->n[split], facts, labels, targets);
}

const ronde__set_kind ronde__npy_kind = {npy_scan, npy_fill};

/* ---- a single file, for predict --------------------------------------------------------------------------------- */

struct ronde__npy_inputs {
  ronde__stream *stream;
  const ronde__kernels *kernels;
  ronde__npy npy;
  npy_images images;
  int64_t at;      /* the next example */
  uint8_t *pixels; /* [room] examples; NULL: not needed yet */
  int64_t room;
};

static ronde_status npy_start(ronde__npy_inputs *in, const char *path, ronde__image_layout layout) {
  RONDE_TRY(ronde__kernels_get(&in->kernels));
  RONDE_TRY(ronde__stream_open(path, &in->stream));
  RONDE_TRY(ronde__npy_scan(in->stream, &in->npy));
  RONDE_TRY(npy_check_images(path, &in->npy, layout, &in->images));
  if (in->images.are_tokens)
    return ronde__fail(RONDE_E_INPUT, "%s: offset 10: it holds tokens; predictions of sequences are not there yet",
                       path);
  return ronde__npy_begin(in->stream, &in->npy);
}

ronde_status ronde__npy_inputs_open(const char *path, ronde__image_layout layout, int64_t *n_out,
                                    ronde__shape *shape_out, ronde__npy_inputs **inputs_out) {
  ronde__npy_inputs *in;
  RONDE__ALLOC(in, sizeof *in, path);
  ronde_status status = npy_start(in, path, layout);
  if (status != RONDE_OK) {
    ronde__npy_inputs_close(in);
    return status;
  }
  const npy_images *im = &in->images;
  ronde__shape image = {3, {im->dims[0], im->dims[1], im->dims[2]}}, row = {1, {im->dims[0]}};
  *n_out = im->n;
  *shape_out = im->is_table ? row : image;
  *inputs_out = in;
  return RONDE_OK;
}

/* The next n examples of bytes, by way of memory of its own. */
static ronde_status npy_next_u8(ronde__npy_inputs *in, int64_t n, const ronde__scaling *scaling, float *x) {
  int64_t elems = npy_example_elems(&in->images);
  if (n > in->room) {
    ronde__free(in->pixels);
    in->room = 0;
    RONDE__ALLOC(in->pixels, (size_t)(n * elems), ronde__stream_name(in->stream));
    in->room = n;
  }
  RONDE_TRY(npy_take_examples(in->stream, &in->npy, &in->images, in->at, n, in->pixels));
  for (int64_t i = 0; i < n; ++i) ronde__scaling_u8(scaling, in->kernels, elems, in->pixels + i * elems, x + i * elems);
  return RONDE_OK;
}

static ronde_status npy_next_f32(ronde__npy_inputs *in, int64_t n, const ronde__scaling *scaling, float *x) {
  int64_t elems = npy_example_elems(&in->images);
  RONDE_TRY(npy_take_examples(in->stream, &in->npy, &in->images, in->at, n, x));
  for (int64_t i = 0; scaling->changes && i < n; ++i, x += elems) ronde__scaling_f32(scaling, elems, x, x);
  return RONDE_OK;
}

ronde_status ronde__npy_inputs_next(ronde__npy_inputs *in, int64_t n, const ronde__scaling *scaling, float *x) {
  RONDE_TRY(in->images.f32 ? npy_next_f32(in, n, scaling, x) : npy_next_u8(in, n, scaling, x));
  in->at += n;
  return in->at == in->images.n ? ronde__stream_end(in->stream) : RONDE_OK;
}

float ronde__npy_inputs_unit(const ronde__npy_inputs *in) { return in->images.f32 ? 1 : 255; }

void ronde__npy_inputs_close(ronde__npy_inputs *in) {
  if (!in) return;
  ronde__stream_close(in->stream);
  ronde__free(in->pixels);
  ronde__free(in);
}
