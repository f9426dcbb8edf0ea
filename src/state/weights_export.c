/* The weights of a checkpoint alone, as a file of weights holds them. */
#include "state/checkpoint.h"

#include <string.h>

ronde_status ronde__weights_export(const ronde__safetensors *file, const char *path, int *n_tensors_out,
                                   int64_t *elems_out) {
  int n_tensors = 0, n_meta = 0;
  int64_t elems = 0;
  ronde__file_tensor *tensors = ronde__alloc((size_t)file->n_tensors * sizeof *tensors);
  ronde__file_meta *meta = ronde__alloc((size_t)file->n_meta * sizeof *meta);
  ronde_status status = tensors && meta ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "%s: no memory", path);
  for (int i = 0; i < file->n_tensors && status == RONDE_OK; i++) {
    if (ronde__safetensors_reserved(file->tensors[i].name)) continue;
    tensors[n_tensors++] = file->tensors[i];
    elems += ronde__shape_elems(&file->tensors[i].shape);
  }
  for (int i = 0; i < file->n_meta && status == RONDE_OK; i++) {
    const char *key = file->meta[i].key;
    if (strcmp(key, RONDE__CHECKPOINT_NOTE) && strcmp(key, RONDE__CHECKSUMS)) meta[n_meta++] = file->meta[i];
  }
  if (status == RONDE_OK) status = ronde__safetensors_write(path, tensors, n_tensors, meta, n_meta);
  ronde__free(meta);
  ronde__free(tensors);
  if (n_tensors_out) *n_tensors_out = n_tensors;
  if (elems_out) *elems_out = elems;
  return status;
}
