/* Writing safetensors: a JSON header, then the data of the tensors in the order of their names, aligned. */
#include "io/safetensors.h"

#include "io/checksum.h"
#include "io/file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static size_t dtype_bytes(ronde__file_dtype dtype) { return dtype == RONDE__FILE_I64 ? 8 : 4; }

static size_t tensor_file_bytes(const ronde__file_tensor *tensor) {
  return (size_t)ronde__shape_elems(&tensor->shape) * dtype_bytes(tensor->dtype);
}

static int tensors_by_name(const void *a, const void *b) {
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
                   "data_offsets", (json_int_t)begin, (json_int_t)(begin + tensor_file_bytes(tensor)));
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
    if (sorted[i]->dtype == RONDE__FILE_I64) begin_f32 += tensor_file_bytes(sorted[i]);
  for (int i = 0; i < n_tensors; ++i) {
    size_t *begin = sorted[i]->dtype == RONDE__FILE_I64 ? &begin_i64 : &begin_f32;
    if (json_object_set_new(root, sorted[i]->name, entry_make(sorted[i], *begin)))
      return ronde__fail(RONDE_E_USAGE, "%s: the tensor name \"%s\" is not UTF-8 text", path, sorted[i]->name);
    *begin += tensor_file_bytes(sorted[i]);
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

/* Where the data comes from, and where its checksums go. */
typedef struct tensor_source {
  const ronde__file_tensor *tensors; /* as the caller gave them */
  ronde__tensor_fetch fetch;         /* NULL: the tensors hold their data */
  void *user;
  uint64_t *sums; /* [n + 1], by the order of names; NULL: none */
  ronde__checksum_state *state;
} tensor_source;

/* Each piece is written while it is still in a cache. */
static ronde_status append_pieces(ronde__file_out *out, const tensor_source *from, const ronde__file_tensor *tensor,
                                  uint64_t *sum_out) {
  int64_t n = ronde__shape_elems(&tensor->shape), n_piece;
  if (from->sums) ronde__checksum_begin(from->state);
  for (int64_t at = 0; at < n; at += n_piece) {
    const void *data;
    ronde_status status = from->fetch(from->user, (int)(tensor - from->tensors), at, &data, &n_piece);
    if (status) {
      ronde__file_abandon(out);
      return status;
    }
    size_t bytes = (size_t)n_piece * dtype_bytes(tensor->dtype);
    if (from->sums) ronde__checksum_add(from->state, data, bytes);
    RONDE_TRY(ronde__file_append(out, data, bytes));
  }
  if (from->sums) *sum_out = ronde__checksum_end(from->state);
  return RONDE_OK;
}

/* Tensors in the order of the file; the list of checksums, among the first, is filled in last. */
static ronde_status safetensors_stream_tensors(ronde__file_out *out, const tensor_source *from, size_t header_bytes,
                                               const ronde__file_tensor *const *sorted, int n) {
  const ronde__file_dtype order[] = {RONDE__FILE_I64, RONDE__FILE_F32};
  uint64_t offset = header_bytes, list_offset = 0;
  for (size_t d = 0; d < RONDE__COUNT(order); ++d)
    for (int i = 0; i < n; ++i) {
      if (sorted[i]->dtype != order[d]) continue;
      bool is_list = from->sums && sorted[i]->data == from->sums;
      if (is_list) list_offset = offset;
      if (from->fetch && !is_list) RONDE_TRY(append_pieces(out, from, sorted[i], from->sums ? &from->sums[i] : NULL));
      else RONDE_TRY(ronde__file_append(out, sorted[i]->data, tensor_file_bytes(sorted[i])));
      offset += tensor_file_bytes(sorted[i]);
    }
  if (!from->sums) return RONDE_OK;
  from->sums[n] = ronde__checksum(from->sums, (size_t)n * sizeof *from->sums);
  return ronde__file_patch(out, list_offset, from->sums, ((size_t)n + 1) * sizeof *from->sums);
}

static ronde_status safetensors_stream(const char *path, const tensor_source *from, const char *header,
                                       size_t header_bytes, const ronde__file_tensor *const *sorted, int n) {
  ronde__file_out out;
  for (int i = 0; i < n && from->sums; ++i)
    if (strcmp(sorted[i]->name, RONDE__CHECKSUMS) == 0) from->sums[i] = ronde__checksum(header, header_bytes);
  RONDE_TRY(ronde__file_begin(path, &out));
  RONDE_TRY(ronde__file_append(&out, header, header_bytes));
  RONDE_TRY(safetensors_stream_tensors(&out, from, header_bytes, sorted, n));
  return ronde__file_commit(&out);
}

/* `extra` (may be NULL) is written among the tensors. */
static ronde_status safetensors_write_file(const char *path, const tensor_source *from, int n_tensors,
                                           const ronde__file_tensor *extra, const ronde__file_meta *meta, int n_meta) {
  const ronde__file_tensor **sorted;
  int n = 0;
  RONDE__ALLOC(sorted, ((size_t)n_tensors + 1) * sizeof *sorted, path);
  while (n < n_tensors) {
    sorted[n] = &from->tensors[n];
    ++n;
  }
  if (extra) sorted[n++] = extra;
  qsort(sorted, (size_t)n, sizeof *sorted, tensors_by_name);
  char *header = NULL;
  size_t header_bytes = 0;
  ronde_status status = names_check(path, sorted, n);
  if (!status) status = header_make(path, sorted, n, meta, n_meta, &header, &header_bytes);
  if (!status) status = safetensors_stream(path, from, header, header_bytes, sorted, n);
  free(header);
  ronde__free(sorted);
  return status;
}

ronde_status ronde__safetensors_write(const char *path, const ronde__file_tensor *tensors, int n_tensors,
                                      const ronde__file_meta *meta, int n_meta) {
  return safetensors_write_file(path, &(tensor_source){.tensors = tensors}, n_tensors, NULL, meta, n_meta);
}

ronde_status ronde__safetensors_write_pieces(const char *path, const ronde__file_tensor *tensors, int n_tensors,
                                             const ronde__file_meta *meta, int n_meta, ronde__tensor_fetch fetch,
                                             void *user) {
  return safetensors_write_file(path, &(tensor_source){.tensors = tensors, .fetch = fetch, .user = user}, n_tensors,
                                NULL, meta, n_meta);
}

ronde_status ronde__safetensors_write_checked(const char *path, const ronde__file_tensor *tensors, int n_tensors,
                                              const ronde__file_meta *meta, int n_meta, ronde__tensor_fetch fetch,
                                              void *user) {
  tensor_source from = {.tensors = tensors, .fetch = fetch, .user = user};
  ronde__file_meta *notes;
  RONDE__ALLOC(notes, ((size_t)n_meta + 1) * sizeof *notes, path);
  for (int i = 0; i < n_meta; ++i) notes[i] = meta[i];
  notes[n_meta] = (ronde__file_meta){RONDE__CHECKSUMS, "xxh3-64"};
  from.sums = ronde__alloc(((size_t)n_tensors + 2) * sizeof *from.sums);
  ronde__file_tensor list = {RONDE__CHECKSUMS, RONDE__FILE_I64, {1, {n_tensors + 2}}, from.sums};
  from.state = ronde__checksum_create();
  ronde_status status = from.sums && from.state
                            ? safetensors_write_file(path, &from, n_tensors, &list, notes, n_meta + 1)
                            : ronde__fail(RONDE_E_MEMORY, "%s: no memory for checksums", path);
  ronde__checksum_destroy(from.state);
  ronde__free(from.sums);
  ronde__free(notes);
  return status;
}
