#include "io/safetensors.h"

#include "io/file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static size_t dtype_bytes(ronde__file_dtype dtype) { return dtype == RONDE__FILE_I64 ? 8 : 4; }

static size_t tensor_bytes(const ronde__file_tensor *tensor) {
  return (size_t)ronde__shape_elems(&tensor->shape) * dtype_bytes(tensor->dtype);
}

static int compare_names(const void *a, const void *b) {
  const ronde__file_tensor *const *x = a, *const *y = b;
  return strcmp((*x)->name, (*y)->name);
}

static ronde_status names_check(const char *path, const ronde__file_tensor *const *sorted, int n) {
  for (int i = 0; i < n; ++i) {
    if (strcmp(sorted[i]->name, "__metadata__") == 0)
      return ronde__fail(RONDE_E_USAGE, "%s: no tensor can be called __metadata__ in a safetensors file", path);
    if (i > 0 && strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
      return ronde__fail(RONDE_E_USAGE, "%s: two tensors are called \"%s\"", path, sorted[i]->name);
  }
  return RONDE_OK;
}

static json_t *entry_make(const ronde__file_tensor *tensor, size_t begin) {
  json_t *shape = json_array();
  for (int i = 0; shape && i < tensor->shape.rank; ++i)
    json_array_append_new(shape, json_integer(tensor->shape.dim[i]));
  return json_pack("{s:s, s:o, s:[I,I]}", "dtype", tensor->dtype == RONDE__FILE_I64 ? "I64" : "F32", "shape", shape,
                   "data_offsets", (json_int_t)begin, (json_int_t)(begin + tensor_bytes(tensor)));
}

static ronde_status header_fill(const char *path, json_t *root, const ronde__file_tensor *const *sorted, int n_tensors,
                                const ronde__file_meta *meta, int n_meta) {
  if (n_meta > 0) {
    json_t *object = json_object();
    json_object_set_new(root, "__metadata__", object);
    for (int i = 0; i < n_meta; ++i) {
      if (json_object_set_new(object, meta[i].key, json_string(meta[i].value)))
        return ronde__fail(RONDE_E_USAGE, "%s: the note \"%s\" is not UTF-8 text", path, meta[i].key);
    }
  }
  size_t begin_f32 = 0, begin_i64 = 0;
  for (int i = 0; i < n_tensors; ++i)
    if (sorted[i]->dtype == RONDE__FILE_I64) begin_f32 += tensor_bytes(sorted[i]);
  for (int i = 0; i < n_tensors; ++i) {
    size_t *begin = sorted[i]->dtype == RONDE__FILE_I64 ? &begin_i64 : &begin_f32;
    if (json_object_set_new(root, sorted[i]->name, entry_make(sorted[i], *begin)))
      return ronde__fail(RONDE_E_USAGE, "%s: the tensor name \"%s\" is not UTF-8 text", path, sorted[i]->name);
    *begin += tensor_bytes(sorted[i]);
  }
  return RONDE_OK;
}

/* The header as it stands in the file: its length, the JSON, and spaces to a multiple of 8. */
static ronde_status header_make(const char *path, const ronde__file_tensor *const *sorted, int n_tensors,
                                const ronde__file_meta *meta, int n_meta, char **header_out, size_t *bytes_out) {
  json_t *root = json_object();
  if (!root) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for its header", path);
  ronde_status status = header_fill(path, root, sorted, n_tensors, meta, n_meta);
  char *text = status ? NULL : json_dumps(root, JSON_COMPACT);
  json_decref(root);
  if (status) return status;
  size_t length = text ? strlen(text) : 0, padded = (length + 7) / 8 * 8;
  char *header = text ? malloc(8 + padded) : NULL;
  if (!header) {
    free(text);
    return ronde__fail(RONDE_E_MEMORY, "%s: no memory for its header", path);
  }
  uint64_t claimed = padded;
  memcpy(header, &claimed, 8);
  memcpy(header + 8, text, length);
  memset(header + 8 + length, ' ', padded - length);
  free(text);
  *header_out = header;
  *bytes_out = 8 + padded;
  return RONDE_OK;
}

static ronde_status stream(const char *path, const char *header, size_t header_bytes,
                           const ronde__file_tensor *const *sorted, int n) {
  ronde__file_out out;
  RONDE_TRY(ronde__file_begin(path, &out));
  RONDE_TRY(ronde__file_append(&out, header, header_bytes));
  const ronde__file_dtype order[] = {RONDE__FILE_I64, RONDE__FILE_F32};
  for (size_t d = 0; d < RONDE__COUNT(order); ++d)
    for (int i = 0; i < n; ++i)
      if (sorted[i]->dtype == order[d]) RONDE_TRY(ronde__file_append(&out, sorted[i]->data, tensor_bytes(sorted[i])));
  return ronde__file_commit(&out);
}

ronde_status ronde__safetensors_write(const char *path, const ronde__file_tensor *tensors, int n_tensors,
                                      const ronde__file_meta *meta, int n_meta) {
  const ronde__file_tensor **sorted;
  RONDE__ALLOC(sorted, (size_t)n_tensors * sizeof *sorted, path);
  for (int i = 0; i < n_tensors; ++i) sorted[i] = &tensors[i];
  qsort(sorted, (size_t)n_tensors, sizeof *sorted, compare_names);
  char *header = NULL;
  size_t header_bytes = 0;
  ronde_status status = names_check(path, sorted, n_tensors);
  if (!status) status = header_make(path, sorted, n_tensors, meta, n_meta, &header, &header_bytes);
  if (!status) status = stream(path, header, header_bytes, sorted, n_tensors);
  free(header);
  ronde__free(sorted);
  return status;
}
