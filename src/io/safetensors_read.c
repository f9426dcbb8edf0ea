/* Reading safetensors: files are mapped, and checked before anything in them is used. */
#include "io/safetensors.h"

#include "io/checksum.h"
#include "io/foreign.h"
#include "io/safetensors_dtype.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The limit of the reference implementation. */
#define MAX_HEADER_BYTES 100000000u

/* The memory that holds a file's tensors and text. */
typedef struct safetensors_impl {
  char *path;
  json_t *root; /* owns names, keys and values */
  void *map;    /* NULL: the data is borrowed */
  size_t map_bytes;
  void *converted; /* tensors that cannot be used in place */
  size_t converted_bytes;
} safetensors_impl;

/* One tensor as the header describes it. */
typedef struct header_entry {
  const char *name;
  ronde__source_dtype dtype;
  ronde__shape shape;
  uint64_t n_elems, begin, end; /* bytes from the start of the data */
} header_entry;

typedef struct header_reader {
  const char *path;
  const unsigned char *bytes;
  size_t n_bytes;
  bool header_only; /* `bytes` ends where the data begins; n_bytes counts it */
  size_t header_bytes;
  uint64_t data_begin; /* offset in the file */
  json_t *root;
  int n_entries, n_meta;
  header_entry *entries;
} header_reader;

__attribute__((format(printf, 4, 5))) static ronde_status fail_tensor(const header_reader *r, const char *name,
                                                                      uint64_t offset, const char *format, ...) {
  char reason[256];
  va_list args;
  va_start(args, format);
  vsnprintf(reason, sizeof reason, format, args);
  va_end(args);
  return ronde__fail(RONDE_E_INPUT, "%s: tensor \"%s\": offset %llu: %s", r->path, RONDE__SHOWN(name),
                     (unsigned long long)offset, reason);
}

/* ---- the header ---- */

static uint64_t header_length(const unsigned char *bytes) {
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | bytes[i];
  return length;
}

static ronde_status header_load(header_reader *r) {
  if (r->n_bytes == 0) return ronde__fail(RONDE_E_INPUT, "%s: offset 0: the file is empty", r->path);
  if (r->n_bytes < 8)
    return ronde__fail(RONDE_E_INPUT, "%s: offset 0: %zu bytes are too few for a safetensors file", r->path,
                       r->n_bytes);
  uint64_t length = header_length(r->bytes);
  bool sound = length > 0 && length <= r->n_bytes - 8 && r->bytes[8] == '{';
  ronde__foreign foreign = sound ? RONDE__FOREIGN_NONE : ronde__foreign_kind(r->bytes, r->n_bytes);
  if (foreign) return ronde__foreign_fail(r->path, foreign);
  if (length > MAX_HEADER_BYTES)
    return ronde__fail(RONDE_E_INPUT,
                       "%s: offset 0: not a safetensors file: it would have a header of %llu bytes, more than the "
                       "format's limit of %u",
                       r->path, (unsigned long long)length, MAX_HEADER_BYTES);
  if (length > r->n_bytes - 8)
    return ronde__fail(RONDE_E_INPUT,
                       "%s: offset 0: the header claims %llu bytes, the file holds %zu after that (cut short?)",
                       r->path, (unsigned long long)length, r->n_bytes - 8);
  r->header_bytes = (size_t)length;
  r->data_begin = 8 + length;
  const char *text = (const char *)r->bytes + 8;
  if (length == 0 || text[0] != '{')
    return ronde__fail(RONDE_E_INPUT, "%s: offset 8: the header is not a JSON object", r->path);
  json_error_t error;
  r->root = json_loadb(text, r->header_bytes, JSON_REJECT_DUPLICATES, &error);
  if (r->root) return RONDE_OK;
  if (json_error_code(&error) == json_error_out_of_memory)
    return ronde__fail(RONDE_E_MEMORY, "%s: no memory for the header of %zu bytes", r->path, r->header_bytes);
  return ronde__fail(RONDE_E_INPUT, "%s: offset %llu: the header is not valid JSON: %s", r->path,
                     8ull + (unsigned)error.position, RONDE__SHOWN(error.text));
}

static ronde_status dtype_read(const header_reader *r, const char *name, const json_t *json, header_entry *out) {
  const char *text = json_string_value(json);
  if (!text) return fail_tensor(r, name, 8, "no dtype, or not a string");
  if (ronde__source_dtype_find(text, &out->dtype)) return RONDE_OK;
  return fail_tensor(r, name, 8, "dtype \"%.20s\" cannot be read (F32, F64, F16, BF16 and I64 can)",
                     RONDE__SHOWN(text));
}

static ronde_status shape_read(const header_reader *r, const char *name, const json_t *json, header_entry *out) {
  if (!json_is_array(json)) return fail_tensor(r, name, 8, "no shape, or not a list");
  size_t rank = json_array_size(json);
  if (rank > RONDE_MAX_RANK)
    return fail_tensor(r, name, 8, "its shape has %zu dimensions, at most %d can be read", rank, RONDE_MAX_RANK);
  out->shape = (ronde__shape){.rank = (int)rank};
  /* The product of the dimensions other than 0 must fit too: a 0 in front must not hide an overflow from later code. */
  int64_t product = 1;
  bool empty = false;
  for (size_t i = 0; i < rank; ++i) {
    const json_t *dim = json_array_get(json, i);
    if (!json_is_integer(dim)) return fail_tensor(r, name, 8, "dimension %zu of its shape is not a whole number", i);
    int64_t value = json_integer_value(dim);
    if (value < 0) return fail_tensor(r, name, 8, "dimension %zu of its shape is negative (%lld)", i, (long long)value);
    if (value == 0) empty = true;
    else if (__builtin_mul_overflow(product, value, &product) || product > INT64_MAX / 8)
      return fail_tensor(r, name, 8, "the product of its shape overflows at dimension %zu (%lld)", i, (long long)value);
    out->shape.dim[i] = value;
  }
  out->n_elems = empty ? 0 : (uint64_t)product;
  return RONDE_OK;
}

static ronde_status offsets_read(const header_reader *r, const char *name, const json_t *json, header_entry *out) {
  const json_t *begin_json = json_array_get(json, 0), *end_json = json_array_get(json, 1);
  if (json_array_size(json) != 2 || !json_is_integer(begin_json) || !json_is_integer(end_json))
    return fail_tensor(r, name, 8, "data_offsets is not a list of two whole numbers");
  int64_t begin = json_integer_value(begin_json), end = json_integer_value(end_json);
  uint64_t available = r->n_bytes - r->data_begin;
  if (begin < 0 || end < begin || (uint64_t)end > available)
    return fail_tensor(r, name, 8, "data_offsets [%lld, %lld] are not within the %llu bytes of data", (long long)begin,
                       (long long)end, (unsigned long long)available);
  uint64_t wanted = out->n_elems * ronde__source_dtype_bytes(out->dtype);
  if ((uint64_t)(end - begin) != wanted)
    return fail_tensor(r, name, r->data_begin + (uint64_t)begin,
                       "its data has %lld bytes, its shape and dtype need %llu", (long long)(end - begin),
                       (unsigned long long)wanted);
  out->begin = (uint64_t)begin;
  out->end = (uint64_t)end;
  return RONDE_OK;
}

static ronde_status entry_read(const header_reader *r, const char *name, const json_t *json, header_entry *out) {
  if (!json_is_object(json)) return fail_tensor(r, name, 8, "its description is not a JSON object");
  *out = (header_entry){.name = name};
  RONDE_TRY(dtype_read(r, name, json_object_get(json, "dtype"), out));
  RONDE_TRY(shape_read(r, name, json_object_get(json, "shape"), out));
  return offsets_read(r, name, json_object_get(json, "data_offsets"), out);
}

static ronde_status meta_check(header_reader *r, json_t *json) {
  if (!json_is_object(json))
    return ronde__fail(RONDE_E_INPUT, "%s: offset 8: __metadata__ is not a JSON object", r->path);
  const char *key;
  json_t *value;
  json_object_foreach(json, key, value) {
    if (!json_is_string(value))
      return ronde__fail(RONDE_E_INPUT, "%s: offset 8: __metadata__ \"%s\" is not a string", r->path,
                         RONDE__SHOWN(key));
  }
  r->n_meta = (int)json_object_size(json);
  return RONDE_OK;
}

static ronde_status entries_read(header_reader *r) {
  RONDE__ALLOC(r->entries, json_object_size(r->root) * sizeof *r->entries, r->path);
  const char *key;
  json_t *value;
  json_object_foreach(r->root, key, value) {
    if (strcmp(key, "__metadata__") == 0) RONDE_TRY(meta_check(r, value));
    else {
      RONDE_TRY(entry_read(r, key, value, &r->entries[r->n_entries]));
      ++r->n_entries;
    }
  }
  return RONDE_OK;
}

/* ---- the data ---- */

static int entries_by_offset(const void *a, const void *b) {
  const header_entry *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return (x->end > y->end) - (x->end < y->end);
}

static int entries_by_name(const void *a, const void *b) {
  const header_entry *x = a, *y = b;
  return strcmp(x->name, y->name);
}

/* The tensors must cover the data exactly. */
static ronde_status cover_check(header_reader *r) {
  qsort(r->entries, (size_t)r->n_entries, sizeof *r->entries, entries_by_offset);
  uint64_t covered = 0;
  for (int i = 0; i < r->n_entries; ++i) {
    const header_entry *e = &r->entries[i];
    if (e->begin < covered)
      return fail_tensor(r, e->name, r->data_begin + e->begin, "its data overlaps that of \"%s\"",
                         RONDE__SHOWN(e[-1].name));
    if (e->begin > covered)
      return fail_tensor(r, e->name, r->data_begin + e->begin,
                         "a gap of %llu bytes that belong to no tensor lies before its data",
                         (unsigned long long)(e->begin - covered));
    covered = e->end;
  }
  uint64_t available = r->n_bytes - r->data_begin;
  if (covered == available) return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT, "%s: offset %llu: %llu bytes after the last tensor belong to none", r->path,
                     (unsigned long long)(r->data_begin + covered), (unsigned long long)(available - covered));
}

static bool entry_in_place(const header_reader *r, const header_entry *e) {
  size_t bytes = ronde__source_dtype_bytes(e->dtype);
  bool same = e->dtype == RONDE__SOURCE_F32 || e->dtype == RONDE__SOURCE_I64;
  return r->header_only || e->n_elems == 0 || (same && (uintptr_t)(r->bytes + r->data_begin + e->begin) % bytes == 0);
}

static size_t entry_converted_bytes(const header_entry *e) {
  return (size_t)ronde__round_up((int64_t)e->n_elems * (e->dtype == RONDE__SOURCE_I64 ? 8 : 4), 64);
}

/* Every tensor's data: in the file, or in memory of its own where it must be converted or aligned. */
static ronde_status tensors_make(const header_reader *r, safetensors_impl *own, ronde__safetensors *file) {
  for (int i = 0; i < r->n_entries; ++i)
    if (!entry_in_place(r, &r->entries[i])) own->converted_bytes += entry_converted_bytes(&r->entries[i]);
  if (own->converted_bytes > 0 && !(own->converted = ronde__pages_map(own->converted_bytes)))
    return ronde__fail(RONDE_E_MEMORY, "%s: no memory for %zu bytes of converted tensors", r->path,
                       own->converted_bytes);
  char *next = own->converted;
  for (int i = 0; i < r->n_entries; ++i) {
    const header_entry *e = &r->entries[i];
    const unsigned char *data = r->header_only ? NULL : r->bytes + r->data_begin + e->begin;
    ronde__file_tensor *tensor = &file->tensors[i];
    *tensor = (ronde__file_tensor){.name = e->name, .shape = e->shape, .data = data};
    tensor->dtype = e->dtype == RONDE__SOURCE_I64 ? RONDE__FILE_I64 : RONDE__FILE_F32;
    if (entry_in_place(r, e)) continue;
    ronde__source_convert(e->dtype, data, e->n_elems, next);
    tensor->data = next;
    next += entry_converted_bytes(e);
  }
  return RONDE_OK;
}

static void meta_make(const header_reader *r, ronde__safetensors *file) {
  const char *key;
  json_t *value;
  json_object_foreach(json_object_get(r->root, "__metadata__"), key, value) {
    file->meta[file->n_meta++] = (ronde__file_meta){key, json_string_value(value)};
  }
}

/* Room for what the reader has counted. */
static ronde_status file_alloc(const header_reader *r, ronde__safetensors **file_out) {
  ronde__safetensors *file = calloc(1, sizeof *file);
  safetensors_impl *own = calloc(1, sizeof *own);
  if (file && own && (own->path = ronde__strdup(r->path)) &&
      (file->tensors = ronde__alloc((size_t)r->n_entries * sizeof *file->tensors)) &&
      (file->meta = ronde__alloc((size_t)r->n_meta * sizeof *file->meta))) {
    file->impl = own;
    *file_out = file;
    return RONDE_OK;
  }
  if (file) {
    ronde__free(file->meta);
    ronde__free(file->tensors);
  }
  if (own) free(own->path);
  free(own);
  free(file);
  return ronde__fail(RONDE_E_MEMORY, "%s: no memory for a list of %d tensors", r->path, r->n_entries);
}

/* Takes r->root over on success. */
static ronde_status file_make(header_reader *r, ronde__safetensors **file_out) {
  ronde__safetensors *file;
  RONDE_TRY(file_alloc(r, &file));
  safetensors_impl *own = file->impl;
  ronde_status status = tensors_make(r, own, file);
  if (status) {
    ronde__safetensors_close(file);
    return status;
  }
  file->n_tensors = r->n_entries;
  file->header = r->bytes;
  file->header_bytes = (size_t)r->data_begin;
  file->bytes = r->n_bytes;
  meta_make(r, file);
  own->root = r->root;
  r->root = NULL;
  *file_out = file;
  return RONDE_OK;
}

static ronde_status safetensors_read(header_reader *r, ronde__safetensors **file_out) {
  ronde_status status = header_load(r);
  if (!status) status = entries_read(r);
  if (!status) status = cover_check(r);
  if (!status) {
    qsort(r->entries, (size_t)r->n_entries, sizeof *r->entries, entries_by_name);
    status = file_make(r, file_out);
  }
  ronde__free(r->entries);
  json_decref(r->root);
  return status;
}

ronde_status ronde__safetensors_parse(const char *name, const void *data, size_t bytes, ronde__safetensors **file_out) {
  return safetensors_read(&(header_reader){.path = name, .bytes = data, .n_bytes = bytes}, file_out);
}

ronde_status ronde__safetensors_parse_header(const char *name, const void *header, size_t header_bytes,
                                             uint64_t file_bytes, ronde__safetensors **file_out) {
  if (header_bytes < 8 || file_bytes < header_bytes || header_length(header) != header_bytes - 8)
    return ronde__fail(RONDE_E_INPUT, "%s: its header is cut short", name);
  return safetensors_read(&(header_reader){.path = name, .bytes = header, .n_bytes = file_bytes, .header_only = true},
                          file_out);
}

ronde_status ronde__safetensors_wrap(const char *name, const ronde__file_tensor *tensors, int n_tensors,
                                     const ronde__file_meta *meta, int n_meta, void *pages, size_t bytes,
                                     ronde__safetensors **file_out) {
  header_reader r = {.path = name, .n_entries = n_tensors, .n_meta = n_meta};
  ronde__safetensors *file;
  RONDE_TRY(file_alloc(&r, &file));
  safetensors_impl *own = file->impl;
  memcpy(file->tensors, tensors, (size_t)n_tensors * sizeof *tensors);
  memcpy(file->meta, meta, (size_t)n_meta * sizeof *meta);
  file->n_tensors = n_tensors;
  file->n_meta = n_meta;
  own->converted = pages;
  own->converted_bytes = bytes;
  *file_out = file;
  return RONDE_OK;
}

/* ---- the file ---- */

static ronde_status file_map(const char *path, void **map_out, size_t *bytes_out) {
  /* Without O_NONBLOCK a named pipe would block here for ever. */
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return ronde__fail(RONDE_E_INPUT, "%s: cannot read: %s", path, strerror(errno));
  ronde_status status = RONDE_OK;
  struct stat info;
  void *map = NULL;
  if (fstat(fd, &info)) status = ronde__fail(RONDE_E_INPUT, "%s: cannot read: %s", path, strerror(errno));
  else if (!S_ISREG(info.st_mode))
    status = ronde__fail(RONDE_E_INPUT, "%s: cannot read: %s", path,
                         S_ISDIR(info.st_mode) ? "it is a folder" : "not a regular file");
  else if (info.st_size > 0) {
    map = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) status = ronde__fail(RONDE_E_INPUT, "%s: cannot map: %s", path, strerror(errno));
  }
  close(fd);
  if (status) return status;
  *map_out = map;
  *bytes_out = (size_t)info.st_size;
  return RONDE_OK;
}

ronde_status ronde__safetensors_open(const char *path, ronde__safetensors **file_out) {
  void *map = NULL;
  size_t bytes = 0;
  RONDE_TRY(file_map(path, &map, &bytes));
  ronde__safetensors *file;
  ronde_status status = ronde__safetensors_parse(path, map, bytes, &file);
  if (status) {
    if (map) munmap(map, bytes);
    return status;
  }
  safetensors_impl *own = file->impl;
  own->map = map;
  own->map_bytes = bytes;
  *file_out = file;
  return RONDE_OK;
}

void ronde__safetensors_close(ronde__safetensors *file) {
  if (!file) return;
  safetensors_impl *own = file->impl;
  if (own->map) munmap(own->map, own->map_bytes);
  ronde__pages_unmap(own->converted, own->converted_bytes);
  json_decref(own->root);
  free(own->path);
  free(own);
  ronde__free(file->meta);
  ronde__free(file->tensors);
  free(file);
}

const ronde__file_tensor *ronde__safetensors_find(const ronde__safetensors *file, const char *name) {
  int low = 0, high = file->n_tensors;
  while (low < high) {
    int middle = low + (high - low) / 2;
    int order = strcmp(name, file->tensors[middle].name);
    if (order == 0) return &file->tensors[middle];
    if (order < 0) high = middle;
    else low = middle + 1;
  }
  return NULL;
}

const char *ronde__safetensors_meta(const ronde__safetensors *file, const char *key) {
  for (int i = 0; i < file->n_meta; ++i)
    if (strcmp(file->meta[i].key, key) == 0) return file->meta[i].value;
  return NULL;
}

ronde_status ronde__safetensors_check_finite(const ronde__safetensors *file) {
  const safetensors_impl *own = file->impl;
  for (int i = 0; i < file->n_tensors; ++i) {
    const ronde__file_tensor *tensor = &file->tensors[i];
    if (tensor->dtype != RONDE__FILE_F32) continue;
    const float *x = tensor->data;
    int64_t n = ronde__shape_elems(&tensor->shape);
    for (int64_t j = 0; j < n; ++j) {
      if (!isfinite(x[j]))
        return ronde__fail(RONDE_E_INPUT, "%s: tensor \"%s\": the value at index %lld is %s", own->path,
                           RONDE__SHOWN(tensor->name), (long long)j, isnan(x[j]) ? "NaN" : "Inf");
    }
  }
  return RONDE_OK;
}

/* ---- checksums ---- */

bool ronde__safetensors_reserved(const char *name) {
  return strncmp(name, RONDE__RESERVED, sizeof RONDE__RESERVED - 1) == 0;
}

static ronde_status sums_compare(const ronde__safetensors *file, const uint64_t *sums) {
  const safetensors_impl *own = file->impl;
  int n = file->n_tensors;
  if (sums[n] != ronde__checksum(sums, (size_t)n * sizeof *sums))
    return ronde__fail(RONDE_E_DIFFERENCE, "%s: its list of checksums is damaged", own->path);
  for (int i = 0; i < n; ++i) {
    const ronde__file_tensor *tensor = &file->tensors[i];
    size_t bytes = (size_t)ronde__shape_elems(&tensor->shape) * (tensor->dtype == RONDE__FILE_I64 ? 8 : 4);
    bool is_list = strcmp(tensor->name, RONDE__CHECKSUMS) == 0;
    if (is_list && sums[i] != ronde__checksum(file->header, file->header_bytes))
      return ronde__fail(RONDE_E_DIFFERENCE, "%s: its header is damaged", own->path);
    if (!is_list && sums[i] != ronde__checksum(tensor->data, bytes))
      return ronde__fail(RONDE_E_DIFFERENCE, "%s: tensor \"%s\" is damaged", own->path, RONDE__SHOWN(tensor->name));
  }
  return RONDE_OK;
}

ronde_status ronde__safetensors_verify(const ronde__safetensors *file, bool *checked_out) {
  const safetensors_impl *own = file->impl;
  const ronde__file_tensor *list = ronde__safetensors_find(file, RONDE__CHECKSUMS);
  bool fits =
      list && list->dtype == RONDE__FILE_I64 && list->shape.rank == 1 && list->shape.dim[0] == file->n_tensors + 1;
  bool wanted = list || ronde__safetensors_meta(file, RONDE__CHECKSUMS);
  if (wanted && !fits) return ronde__fail(RONDE_E_DIFFERENCE, "%s: its header is damaged: no checksums", own->path);
  if (wanted) RONDE_TRY(sums_compare(file, list->data));
  *checked_out = wanted;
  return RONDE_OK;
}
