/* The weights of an ONNX file as a file of weights, in the order of elements that Ronde's layers have. */
#include "onnx/import.h"

#include <stdlib.h>
#include <string.h>

static int weights_by_name(const void *a, const void *b) {
  return strcmp((*(const ronde__onnx_weight *const *)a)->name, (*(const ronde__onnx_weight *const *)b)->name);
}

/* ---- order of elements ---- */

/* Block i of Ronde's rows is block from[i] of ONNX's. */
static const struct {
  int n, from[4];
} orders[] = {[RONDE__ONNX_LSTM_GATES] = {4, {0, 2, 3, 1}},
              [RONDE__ONNX_GRU_GATES] = {3, {1, 0, 2}},
              [RONDE__ONNX_RNN_GATES] = {1, {0}},
              [RONDE__ONNX_PEEPHOLES] = {3, {0, 2, 1}}};

int ronde__onnx_gate_from(ronde__onnx_change change, int i) { return orders[change].from[i]; }

static void turn_gates(const float *values, const ronde__onnx_weight *weight, float *out) {
  const int n = orders[weight->change].n, *from = orders[weight->change].from;
  const int64_t own = ronde__shape_elems(&weight->shape), block = own / n;
  for (int gate = 0; gate < n; gate++)
    memcpy(out + gate * block, values + weight->part * own + from[gate] * block, (size_t)block * sizeof *out);
}

static ronde_status read_changed(const ronde__onnx *file, const ronde__onnx_weight *weight, float *out) {
  int64_t n = ronde__onnx_elems(weight->tensor);
  if (weight->change <= RONDE__ONNX_INPUTS_FIRST) return ronde__onnx_read_floats(file, weight->tensor, out);
  float *values;
  RONDE__ALLOC(values, (size_t)n * sizeof *values, file->path);
  ronde_status status = ronde__onnx_read_floats(file, weight->tensor, values);
  if (status == RONDE_OK) turn_gates(values, weight, out);
  ronde__free(values);
  return status;
}

/* ---- the file of weights ---- */

static ronde_status read_all(const ronde__onnx *file, const ronde__onnx_weight **order, float *at,
                             ronde__file_tensor *tensors) {
  for (int i = 0; i < file->n_weights; i++) {
    RONDE_TRY(read_changed(file, order[i], at));
    tensors[i] = (ronde__file_tensor){order[i]->name, RONDE__FILE_F32, order[i]->shape, at};
    at += ronde__shape_elems(&order[i]->shape);
  }
  return RONDE_OK;
}

/* What it is comes first, so that nothing in the file can say otherwise. */
static int describe(const ronde__onnx *file, ronde__file_meta *meta) {
  int n = 0;
  meta[n++] = (ronde__file_meta){"model", file->path};
  meta[n++] = (ronde__file_meta){"shape", file->shape_text};
  meta[n++] = (ronde__file_meta){"classes", file->outputs_text};
  for (size_t i = 0; i < file->model->n_metadata_props; i++) {
    const Onnx__StringStringEntryProto *entry = file->model->metadata_props[i];
    if (!ronde__is_empty(entry->key) && entry->value) meta[n++] = (ronde__file_meta){entry->key, entry->value};
  }
  return n;
}

ronde_status ronde__onnx_weights(const ronde__onnx *file, ronde__safetensors **weights_out) {
  size_t n = (size_t)file->n_weights, elems = 0;
  const ronde__onnx_weight **order = ronde__alloc(n * sizeof *order);
  ronde__file_tensor *tensors = ronde__alloc(n * sizeof *tensors);
  ronde__file_meta *meta = ronde__alloc((file->model->n_metadata_props + 3) * sizeof *meta);
  for (size_t i = 0; i < n; i++) elems += (size_t)ronde__shape_elems(&file->weights[i].shape);
  float *values = ronde__pages_map(elems * sizeof *values);
  ronde_status status = RONDE_OK;
  if (order && tensors && meta && values) {
    for (size_t i = 0; i < n; i++) order[i] = &file->weights[i];
    qsort(order, n, sizeof *order, weights_by_name);
    status = read_all(file, order, values, tensors);
    if (status == RONDE_OK)
      status = ronde__safetensors_wrap(file->path, tensors, file->n_weights, meta, describe(file, meta), values,
                                       elems * sizeof *values, weights_out);
  } else {
    status = ronde__fail(RONDE_E_MEMORY, "%s: no memory for %zu values", file->path, elems);
  }
  if (status != RONDE_OK) ronde__pages_unmap(values, elems * sizeof *values);
  ronde__free(order);
  ronde__free(tensors);
  ronde__free(meta);
  return status;
}
