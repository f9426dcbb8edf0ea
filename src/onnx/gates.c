/* Weights of recurrent layers whose gates a file turns by nodes. PyTorch's newer exporter cuts them into gates by Slices and puts
 * these into ONNX's order by Concats; Ronde has PyTorch's order, so that the parameter is the initializer as it is. Until the layer
 * reads them they are stretches of rows of initializers. */
#include "onnx/import.h"

#include <string.h>

typedef ronde__onnx_rows rows;

static bool is_operator(const ronde__onnx_node *node, const char *type) { return !strcmp(node->proto->op_type, type); }

static bool is_recurrent(const ronde__onnx_node *node) {
  return is_operator(node, "LSTM") || is_operator(node, "GRU") || is_operator(node, "RNN");
}

/* Whether what the node gives becomes weights of a recurrent layer, and nothing else. */
static bool is_for_gates(const ronde__onnx *file, const ronde__onnx_node *node) {
  enum { MAX_STEPS = 5 }; /* of a gate: to a weight, to two biases, to a direction, to two directions, to the layer */
  for (int i = 0; i < MAX_STEPS && node; i++) {
    node = ronde__onnx_only_reader(file, node->out[0]);
    if (node && is_recurrent(node)) return true;
    if (node && !is_operator(node, "Concat") && !is_operator(node, "Unsqueeze")) return false;
  }
  return false;
}

static ronde_status set(ronde__onnx_import *im, const ronde__onnx_node *node, const rows *from) {
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0);
  rows *own;
  RONDE__ALLOC(own, sizeof *own, im->file->path);
  *own = *from;
  own->next = im->rows;
  im->rows = own;
  if (out) *out = (ronde__onnx_value){.kind = RONDE__ONNX_ROWS, .rows = own};
  return RONDE_OK;
}

void ronde__onnx_release_rows(ronde__onnx_import *im) {
  for (rows *next; im->rows; im->rows = next) {
    next = im->rows->next;
    ronde__free(im->rows);
  }
}

/* ---- nodes ---- */

/* Input i, a list of one number; false: it is something else. */
static bool one_of(const ronde__onnx_import *im, const ronde__onnx_node *node, int i, int64_t *number_out) {
  const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
  ronde__onnx_value list;
  if (!value || (value->kind != RONDE__ONNX_SIZES && value->kind != RONDE__ONNX_CONSTANT)) return false;
  if (ronde__onnx_in_sizes(im, node, i, &list) != RONDE_OK || list.n != 1) return false;
  *number_out = list.size[0];
  return true;
}

static ronde_status cut(ronde__onnx_import *im, const ronde__onnx_node *node, const Onnx__TensorProto *tensor) {
  int64_t first, end, axis = 0, step = 1, n = tensor->dims[0];
  bool right = one_of(im, node, 1, &first) && one_of(im, node, 2, &end);
  if (right && ronde__onnx_in(im, node, 3)) right = one_of(im, node, 3, &axis);
  if (right && ronde__onnx_in(im, node, 4)) right = one_of(im, node, 4, &step);
  if (!right || axis != 0 || step != 1 || first < 0 || end > n || first >= end)
    return ronde__onnx_fail(im, node,
                            "of the weights of a recurrent layer only rows that follow each other can be cut");
  return set(im, node, &(rows){.n = 1, .stretch = {{tensor, first, end - first}}});
}

static int64_t columns_of(const rows *r) {
  const Onnx__TensorProto *tensor = r->stretch[0].tensor;
  return tensor->n_dims == 2 ? tensor->dims[1] : 0;
}

static ronde_status join(ronde__onnx_import *im, const ronde__onnx_node *node) {
  rows all = {0};
  for (int i = 0; i < node->n_in; i++) {
    const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
    const rows *own = RONDE__ONNX_IS(value, ROWS) ? value->rows : NULL;
    bool fits = own && all.n + own->n <= RONDE__ONNX_MAX_STRETCHES &&
                (i == 0 || (own->has_directions == all.has_directions && columns_of(own) == columns_of(&all)));
    if (!fits || ronde__onnx_attr_int(node, "axis", 1) != 0)
      return ronde__onnx_fail(im, node, "what it joins are not all gates of one recurrent layer");
    all.has_directions = own->has_directions;
    memcpy(all.stretch + all.n, own->stretch, (size_t)own->n * sizeof *own->stretch);
    all.n += own->n;
  }
  return set(im, node, &all);
}

static ronde_status add_directions(ronde__onnx_import *im, const ronde__onnx_node *node, const rows *own) {
  size_t n;
  const int64_t *given = ronde__onnx_attr_ints(node, "axes", &n);
  int64_t axis = given && n == 1 ? given[0] : -1;
  rows with = *own;
  with.has_directions = true;
  if (own->has_directions || (!given && !one_of(im, node, 1, &axis)) || axis != 0)
    return ronde__onnx_fail(im, node, "gates get one dimension more, in front");
  return set(im, node, &with);
}

ronde_status ronde__onnx_build_gates(ronde__onnx_import *im, const ronde__onnx_node *node, bool *done_out) {
  const ronde__onnx_value *in = ronde__onnx_in(im, node, 0);
  bool reads = false;
  for (int i = 0; i < node->n_in && !reads; i++) reads = RONDE__ONNX_IS(ronde__onnx_in(im, node, i), ROWS);
  bool cuts = RONDE__ONNX_IS(in, CONSTANT) && !in->fixed && !in->transposed && is_operator(node, "Slice") &&
              (in->constant->n_dims == 1 || in->constant->n_dims == 2) && ronde__onnx_elems(in->constant) > 0 &&
              !ronde__onnx_is_integer(in->constant->data_type) && is_for_gates(im->file, node);
  *done_out = cuts || (reads && !is_recurrent(node));
  if (!*done_out) return RONDE_OK;
  if (cuts) return cut(im, node, in->constant);
  if (is_operator(node, "Concat")) return join(im, node);
  if (is_operator(node, "Unsqueeze") && RONDE__ONNX_IS(in, ROWS)) return add_directions(im, node, in->rows);
  return ronde__onnx_fail(im, node, "it reads gates, which only a recurrent layer can");
}

/* ---- what the layer reads ---- */

ronde__shape ronde__onnx_dims_of_gates(const rows *r, int directions) {
  int64_t n = 0;
  for (int i = 0; i < r->n; i++) n += r->stretch[i].n;
  if (!r->has_directions || n % directions) return (ronde__shape){0};
  return (ronde__shape){columns_of(r) ? 3 : 2, {directions, n / directions, columns_of(r)}};
}

const Onnx__TensorProto *ronde__onnx_turned_gates(const rows *r, ronde__onnx_change change, int gates, int part) {
  const int first = part * gates;
  if (first + gates > r->n) return NULL;
  const Onnx__TensorProto *tensor = r->stretch[first].tensor;
  if (tensor->dims[0] % gates) return NULL;
  for (int i = 0; i < gates; i++) {
    const int from = first + ronde__onnx_gate_from(change, i);
    const int64_t n = tensor->dims[0] / gates;
    if (r->stretch[from].tensor != tensor || r->stretch[from].first != i * n || r->stretch[from].n != n) return NULL;
  }
  return tensor;
}
