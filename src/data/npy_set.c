/* A set of npy files: train_x.npy NCHW (or NHW) f32 or u8, train_y.npy of integers; test_x.npy and test_y.npy may be
 * absent. */
#include "data/set.h"

#include <stdio.h>
#include <string.h>

static void type_text(const ronde__npy *npy, char *text, size_t size) {
  const char *kind = npy->type == 'f' ? "float" : npy->type == 'i' ? "int" : "uint";
  snprintf(text, size, "%s%d", kind, 8 * npy->item_bytes);
}

/* The shape of images, as NCHW. */
static ronde_status check_images(const char *path, const ronde__npy *npy, int64_t *n_out, int64_t dims_out[3],
                                 bool *f32_out) {
  bool f32 = npy->type == 'f' && npy->item_bytes == 4, u8 = npy->type == 'u' && npy->item_bytes == 1;
  if (!f32 && !u8) {
    char type[16];
    type_text(npy, type, sizeof type);
    return ronde__fail(RONDE_E_INPUT, "%s: offset 10: images of %s; float32 or uint8 is needed", path, type);
  }
  if (npy->rank != 4 && npy->rank != 3)
    return ronde__fail(RONDE_E_INPUT, "%s: offset 10: images of rank %d; (N, C, H, W) or (N, H, W) is needed", path,
                       npy->rank);
  *n_out = npy->dim[0];
  dims_out[0] = npy->rank == 4 ? npy->dim[1] : 1;
  dims_out[1] = npy->dim[npy->rank - 2];
  dims_out[2] = npy->dim[npy->rank - 1];
  *f32_out = f32;
  return RONDE_OK;
}

static ronde_status check_labels(const char *path, const ronde__npy *npy, const char *x_path, int64_t n) {
  if (npy->type == 'f') {
    char type[16];
    type_text(npy, type, sizeof type);
    return ronde__fail(RONDE_E_INPUT, "%s: offset 10: labels of %s; an integer type is needed", path, type);
  }
  if (npy->rank != 1)
    return ronde__fail(RONDE_E_INPUT, "%s: offset 10: labels of rank %d; (N,) is needed", path, npy->rank);
  if (npy->dim[0] != n)
    return ronde__fail(RONDE_E_INPUT, "%s: offset 10: %lld labels, but %s holds %lld images", path,
                       (long long)npy->dim[0], x_path, (long long)n);
  return RONDE_OK;
}

static ronde_status scan_path(const char *path, ronde__npy *npy_out) {
  ronde__stream *stream;
  RONDE_TRY(ronde__stream_open(path, &stream));
  ronde_status status = ronde__npy_scan(stream, npy_out);
  ronde__stream_close(stream);
  return status;
}

static ronde_status npy_scan(const ronde__set *set, ronde__facts *facts_out) {
  ronde__facts facts = {0};
  for (int split = 0; split < 2; ++split) {
    if (!set->x_path[split]) continue;
    ronde__npy x, y;
    int64_t dims[3];
    bool f32;
    RONDE_TRY(scan_path(set->x_path[split], &x));
    RONDE_TRY(check_images(set->x_path[split], &x, &facts.n[split], dims, &f32));
    RONDE_TRY(scan_path(set->y_path[split], &y));
    RONDE_TRY(check_labels(set->y_path[split], &y, set->x_path[split], facts.n[split]));
    if (split == RONDE_SPLIT_TEST && (memcmp(dims, facts.dims, sizeof dims) || f32 != facts.f32))
      return ronde__fail(RONDE_E_INPUT,
                         "%s: offset 10: %s images of %lldx%lldx%lld, but the training images are %s of %lldx%lldx%lld",
                         set->x_path[split], f32 ? "float32" : "uint8", (long long)dims[0], (long long)dims[1],
                         (long long)dims[2], facts.f32 ? "float32" : "uint8", (long long)facts.dims[0],
                         (long long)facts.dims[1], (long long)facts.dims[2]);
    memcpy(facts.dims, dims, sizeof dims);
    facts.f32 = f32;
    facts.label_offset[split] = y.data_offset;
    facts.label_bytes[split] = y.item_bytes;
  }
  *facts_out = facts;
  return RONDE_OK;
}

static ronde_status fill_images(const char *path, const ronde__facts *facts, int64_t n, void *x) {
  ronde__stream *stream;
  ronde__npy npy;
  int64_t now_n, dims[3];
  bool f32;
  RONDE_TRY(ronde__stream_open(path, &stream));
  ronde_status status = ronde__npy_scan(stream, &npy);
  if (status == RONDE_OK) status = check_images(path, &npy, &now_n, dims, &f32);
  if (status == RONDE_OK && (now_n != n || memcmp(dims, facts->dims, sizeof dims) || f32 != facts->f32))
    status = ronde__fail(RONDE_E_INPUT, "%s: offset 10: the file changed while it was in use", path);
  if (status == RONDE_OK) status = ronde__npy_read(stream, &npy, x);
  ronde__stream_close(stream);
  return status;
}

static ronde_status fill_labels(const char *path, const char *x_path, int64_t n, int64_t *labels) {
  ronde__stream *stream;
  ronde__npy npy;
  RONDE_TRY(ronde__stream_open(path, &stream));
  ronde_status status = ronde__npy_scan(stream, &npy);
  if (status == RONDE_OK) status = check_labels(path, &npy, x_path, n);
  if (status == RONDE_OK) status = ronde__npy_read_labels(stream, &npy, labels);
  ronde__stream_close(stream);
  return status;
}

static ronde_status npy_fill(const ronde__set *set, const ronde__facts *facts, ronde_split split, void *x,
                             int64_t *labels) {
  RONDE_TRY(fill_images(set->x_path[split], facts, facts->n[split], x));
  return fill_labels(set->y_path[split], set->x_path[split], facts->n[split], labels);
}

const ronde__set_kind ronde__npy_kind = {npy_scan, npy_fill};

/* ---- a single file, for predict --------------------------------------------------------------------------------- */

static ronde_status read_images(ronde__stream *stream, const ronde__npy *npy, bool f32, float **x_out) {
  float *x;
  uint8_t *pixels = NULL;
  RONDE__ALLOC(x, (size_t)npy->n_items * sizeof *x, ronde__stream_name(stream));
  /* u8 are read into the end of the f32 array and converted from the front. */
  if (!f32) pixels = (uint8_t *)(x + npy->n_items) - npy->n_items;
  ronde_status status = ronde__npy_read(stream, npy, f32 ? (void *)x : pixels);
  if (status != RONDE_OK) {
    ronde__free(x);
    return status;
  }
  for (int64_t i = 0; !f32 && i < npy->n_items; ++i) x[i] = (float)pixels[i] / 255;
  *x_out = x;
  return RONDE_OK;
}

ronde_status ronde__npy_read_images(const char *path, int64_t *n_out, int64_t dims_out[3], float **x_out) {
  ronde__stream *stream;
  ronde__npy npy;
  int64_t n, dims[3];
  bool f32;
  RONDE_TRY(ronde__stream_open(path, &stream));
  ronde_status status = ronde__npy_scan(stream, &npy);
  if (status == RONDE_OK) status = check_images(path, &npy, &n, dims, &f32);
  if (status == RONDE_OK) status = read_images(stream, &npy, f32, x_out);
  ronde__stream_close(stream);
  if (status == RONDE_OK) {
    *n_out = n;
    memcpy(dims_out, dims, sizeof dims);
  }
  return status;
}
