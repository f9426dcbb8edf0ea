/* Safetensors files from anywhere: what is accepted must be usable in full. */
#include "io/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t sum_bytes(const void *data, size_t bytes) {
  const unsigned char *p = data;
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes; ++i) sum += p[i];
  return sum;
}

static void require(bool holds) {
  if (!holds) abort();
}

static void sum_tensors(const ronde__safetensors *file) {
  volatile uint64_t sink = 0;
  for (int i = 0; i < file->n_tensors; ++i) {
    const ronde__file_tensor *tensor = &file->tensors[i];
    size_t bytes_each = tensor->dtype == RONDE__FILE_I64 ? 8 : 4;
    require(tensor->shape.rank >= 0 && tensor->shape.rank <= RONDE_MAX_RANK);
    require(ronde__safetensors_find(file, tensor->name) == tensor);
    require(i == 0 || strcmp(file->tensors[i - 1].name, tensor->name) < 0);
    int64_t n = ronde__shape_elems(&tensor->shape);
    require(n >= 0 && (n == 0 || (uintptr_t)tensor->data % bytes_each == 0));
    sink += sum_bytes(tensor->data, (size_t)n * bytes_each);
  }
  for (int i = 0; i < file->n_meta; ++i)
    require(ronde__safetensors_meta(file, file->meta[i].key) == file->meta[i].value);
  (void)ronde__safetensors_check_finite(file);
  (void)sink;
}

/* As another rank gets it: only the header, from a process that may say anything of the rest. */
static void parse_header(const uint8_t *data, size_t size, uint64_t file_bytes, int n_tensors) {
  ronde__safetensors *file = NULL;
  if (ronde__safetensors_parse_header("fuzz", data, size, file_bytes, &file) != RONDE_OK) {
    require(n_tensors < 0 && file == NULL);
    return;
  }
  require(n_tensors < 0 || file->n_tensors == n_tensors);
  for (int i = 0; i < file->n_tensors; ++i) require(!file->tensors[i].data);
  ronde__safetensors_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ronde__safetensors *file = NULL;
  parse_header(data, size, 2 * size, -1);
  if (ronde__safetensors_parse("fuzz", data, size, &file) != RONDE_OK) {
    require(file == NULL);
    return 0;
  }
  sum_tensors(file);
  parse_header(file->header, file->header_bytes, file->bytes, file->n_tensors);
  ronde__safetensors_close(file);
  return 0;
}
