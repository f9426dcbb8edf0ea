/* Dimensions beside the batch that a file leaves open, such as how many tokens an example has: a network here has one size of
 * each, which examples give it before it is built. All of one name have the same. */
#include "onnx/import.h"

#include <inttypes.h>
#include <string.h>

bool ronde__onnx_is_open(const ronde__onnx *file) { return file->is_open; }

const char *ronde__onnx_open_dim(const ronde__onnx *file, int i, int d) {
  return file->lead && i < file->n_inputs && d < file->inputs[i].rank ? file->inputs[i].open[d] : NULL;
}

/* Sets all dimensions that are called so, or just this one, which has no name. */
static ronde_status give_size(ronde__onnx *file, int i, int d, int64_t size) {
  const char *name = file->inputs[i].open[d];
  for (int k = 0; k < file->n_inputs; k++)
    for (int e = 0; e < file->inputs[k].rank; e++) {
      ronde__onnx_input *input = &file->inputs[k];
      const bool same = *name ? input->open[e] && !strcmp(input->open[e], name) : k == i && e == d;
      if (!same) continue;
      if (input->shape.dim[e] && input->shape.dim[e] != size)
        return ronde__fail(RONDE_E_USAGE, "%s: its dimension %s is %" PRId64 " of one input and %" PRId64 " of another",
                           file->path, RONDE__SHOWN(name), input->shape.dim[e], size);
      input->shape.dim[e] = size;
    }
  return RONDE_OK;
}

static ronde_status take_sizes(ronde__onnx *file, int i, const ronde__shape *from) {
  const ronde__onnx_input *input = &file->inputs[i];
  if (from->rank == 0 || input->rank == 0) return RONDE_OK;
  if (from->rank != input->rank)
    return ronde__fail(RONDE_E_USAGE, "%s: its input %s has %d dimensions an example, not %d", file->path,
                       RONDE__SHOWN(input->name), input->rank, from->rank);
  for (int d = 0; d < input->rank; d++)
    if (input->open[d]) RONDE_TRY(give_size(file, i, d, from->dim[d]));
  return RONDE_OK;
}

static ronde_status check_sizes(const ronde__onnx *file, int i) {
  const ronde__onnx_input *input = &file->inputs[i];
  for (int d = 0; d < input->rank; d++)
    if (input->shape.dim[d] == 0)
      return ronde__fail(
          RONDE_E_USAGE,
          "%s: dimension %d of its input %s%s%s%s is open, and neither data nor --shape say how large it is",
          file->path, d + 1, RONDE__SHOWN(input->name), *input->open[d] ? ", " : "",
          *input->open[d] ? RONDE__SHOWN(input->open[d]) : "", *input->open[d] ? "," : "");
  return RONDE_OK;
}

ronde_status ronde__onnx_bind(ronde__onnx *file, const ronde__shape *inputs, int n) {
  if (!file->is_open) return RONDE_OK;
  for (int i = 0; i < file->n_inputs && i < n; i++) RONDE_TRY(take_sizes(file, i, &inputs[i]));
  for (int i = 0; i < file->n_inputs; i++) RONDE_TRY(check_sizes(file, i));
  file->shape = file->inputs[0].shape;
  file->is_open = false;
  return ronde__onnx_settle(file);
}
