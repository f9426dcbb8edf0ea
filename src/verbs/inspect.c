/* ronde_ckpt_info, _verify, _diff: what is in checkpoints and files of weights. */
#include "state/checkpoint.h"
#include "base/json.h"
#include "io/file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t inspect_tensor_bytes(const ronde__file_tensor *tensor) {
  return (size_t)ronde__shape_elems(&tensor->shape) * (tensor->dtype == RONDE__FILE_I64 ? 8 : 4);
}

/* ---- info ---- */

static json_t *inspect_tensors_json(const ronde__safetensors *file) {
  json_t *tensors = json_array();
  for (int i = 0; i < file->n_tensors; i++) {
    const ronde__file_tensor *tensor = &file->tensors[i];
    json_t *shape = json_array();
    for (int d = 0; d < tensor->shape.rank; d++) json_array_append_new(shape, json_integer(tensor->shape.dim[d]));
    json_array_append_new(tensors, json_pack("{s:o, s:s, s:o}", "name", ronde__json_text(tensor->name), "dtype",
                                             tensor->dtype == RONDE__FILE_I64 ? "I64" : "F32", "shape", shape));
  }
  return tensors;
}

ronde_status ronde_ckpt_info(const char *path, char **json_out) {
  ronde__resume *r;
  RONDE_TRY(ronde__checkpoint_open(path, &r));
  size_t bytes = 0;
  for (int i = 0; i < r->file->n_tensors; i++) bytes += inspect_tensor_bytes(&r->file->tensors[i]);
  const char *note = ronde__safetensors_meta(r->file, RONDE__CHECKPOINT_NOTE);
  json_t *state = note ? json_loads(note, 0, NULL) : NULL;
  json_t *json =
      json_pack("{s:o, s:s, s:o, s:o, s:I, s:o, s:o}", "file", ronde__json_text(r->path), "kind",
                state ? "checkpoint" : "weights", "model", ronde__json_text(ronde__safetensors_meta(r->file, "model")),
                "shape", ronde__json_text(ronde__safetensors_meta(r->file, "shape")), "data_bytes", (json_int_t)bytes,
                "state", state ? state : json_null(), "tensors", inspect_tensors_json(r->file));
  ronde__resume_close(r);
  return ronde__json_give(json, "result", json_out);
}

/* ---- verify ---- */

static ronde_status verify_file(const char *path, json_t *files) {
  ronde__safetensors *file;
  bool checked = false;
  ronde_status status = ronde__safetensors_open(path, &file);
  if (status == RONDE_OK) {
    status = ronde__safetensors_verify(file, &checked);
    ronde__safetensors_close(file);
  }
  json_array_append_new(files, json_pack("{s:o, s:b, s:b}", "file", ronde__json_text(path), "whole", status == RONDE_OK,
                                         "checksums", checked));
  return status;
}

/* All are read; the status is that of the first that is damaged. */
static ronde_status verify_folder(const char *folder, json_t *files) {
  char **paths;
  int n;
  RONDE_TRY(ronde__checkpoint_list(folder, &paths, &n));
  ronde_status status = n ? RONDE_OK : ronde__fail(RONDE_E_INPUT, "%s: there are no checkpoints", folder);
  for (int i = 0; i < n; i++) {
    ronde_status one = verify_file(paths[i], files);
    if (status == RONDE_OK) status = one;
    free(paths[i]);
  }
  ronde__free(paths);
  return status;
}

ronde_status ronde_ckpt_verify(const char *path, char **json_out) {
  json_t *files = json_array();
  bool is_folder = ronde__is_folder(path);
  ronde_status status = is_folder ? verify_folder(path, files) : verify_file(path, files);
  ronde_status told =
      ronde__json_give(json_pack("{s:b, s:o}", "whole", status == RONDE_OK, "files", files), "result", json_out);
  return status == RONDE_OK ? told : status;
}

/* ---- diff ---- */

typedef struct tensor_comparison {
  const char *a, *b;
  int64_t n_tensors, n_differ;
  const char *first, *largest_tensor;
  double largest; /* NaN where one of the values is */
} tensor_comparison;

static double inspect_value_at(const ronde__file_tensor *tensor, int64_t i) {
  return tensor->dtype == RONDE__FILE_I64 ? (double)((const int64_t *)tensor->data)[i]
                                          : ((const float *)tensor->data)[i];
}

static void note_difference(tensor_comparison *c, const ronde__file_tensor *a, const ronde__file_tensor *b) {
  c->n_differ++;
  if (!c->first) c->first = a ? a->name : b->name;
  if (!a || !b || !ronde__shape_equal(&a->shape, &b->shape)) return;
  for (int64_t i = 0; i < ronde__shape_elems(&a->shape); i++) {
    double difference = fabs(inspect_value_at(a, i) - inspect_value_at(b, i));
    if (difference <= c->largest || isnan(c->largest)) continue;
    c->largest = difference;
    c->largest_tensor = a->name;
  }
}

/* Both lists are in the order of names. Checksums are left out: they only repeat what the tensors show. */
static void compare_files(tensor_comparison *c, const ronde__safetensors *x, const ronde__safetensors *y) {
  for (int i = 0, j = 0; i < x->n_tensors || j < y->n_tensors;) {
    const ronde__file_tensor *a = i < x->n_tensors ? &x->tensors[i] : NULL,
                             *b = j < y->n_tensors ? &y->tensors[j] : NULL;
    int order = !a ? 1 : !b ? -1 : strcmp(a->name, b->name);
    i += order <= 0;
    j += order >= 0;
    if (order > 0) a = NULL;
    if (order < 0) b = NULL;
    if (!strcmp(a ? a->name : b->name, RONDE__CHECKSUMS)) continue;
    c->n_tensors++;
    bool same = a && b && a->dtype == b->dtype && ronde__shape_equal(&a->shape, &b->shape) &&
                memcmp(a->data, b->data, inspect_tensor_bytes(a)) == 0;
    if (!same) note_difference(c, a, b);
  }
}

static ronde_status tell_comparison(const tensor_comparison *c, char **json_out) {
  json_t *json = json_pack("{s:o, s:o, s:b, s:I, s:I, s:o, s:o, s:o}", "a", ronde__json_text(c->a), "b",
                           ronde__json_text(c->b), "same", c->n_differ == 0, "tensors", (json_int_t)c->n_tensors,
                           "differing", (json_int_t)c->n_differ, "first", ronde__json_text(c->first),
                           "largest_difference", isfinite(c->largest) ? json_real(c->largest) : json_null(),
                           "largest_tensor", ronde__json_text(c->largest_tensor));
  RONDE_TRY(ronde__json_give(json, "result", json_out));
  if (c->n_differ == 0) return RONDE_OK;
  return ronde__fail(RONDE_E_DIFFERENCE,
                     "%s and %s differ in %" PRId64 " of %" PRId64
                     " tensors, the first is %s; "
                     "the largest difference is %.9g%s%s",
                     c->a, c->b, c->n_differ, c->n_tensors, c->first, c->largest, c->largest_tensor ? ", in " : "",
                     c->largest_tensor ? c->largest_tensor : "");
}

ronde_status ronde_ckpt_diff(const char *a, const char *b, char **json_out) {
  ronde__resume *x, *y;
  RONDE_TRY(ronde__checkpoint_open(a, &x));
  ronde_status status = ronde__checkpoint_open(b, &y);
  if (status == RONDE_OK) {
    tensor_comparison c = {.a = x->path, .b = y->path};
    compare_files(&c, x->file, y->file);
    status = tell_comparison(&c, json_out);
    ronde__resume_close(y);
  }
  ronde__resume_close(x);
  return status;
}
