/* Concat, Split and SplitToSequence: arrays that are joined and cut, and lists of sizes that are joined. */
#include "onnx/import.h"

#include <string.h>

static ronde_status join_sizes(ronde__onnx_import *im, const ronde__onnx_node *node) {
  ronde__onnx_value all = {.kind = RONDE__ONNX_SIZES}, one;
  for (int i = 0; i < node->n_in; i++) {
    RONDE_TRY(ronde__onnx_in_sizes(im, node, i, &one));
    if (all.n + one.n > RONDE__ONNX_MAX_SIZES) return ronde__onnx_fail(im, node, "the list of sizes is too long");
    memcpy(all.size + all.n, one.size, (size_t)one.n * sizeof *one.size);
    all.n += one.n;
  }
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0);
  if (out) *out = all;
  return RONDE_OK;
}

/* Of more inputs than a call takes: those so far, and the next ones. */
static ronde_status join_tensors(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde__onnx_place *place,
                                 int dim) {
  const ronde_tensor *inputs[RONDE__OP_MAX_INPUTS];
  int n = 0;
  for (int i = 0; i < node->n_in; i++) {
    RONDE_TRY(ronde__onnx_operand(im, node, i, place, &inputs[n++]));
    bool is_last = i == node->n_in - 1;
    if (n < RONDE__OP_MAX_INPUTS && !is_last) continue;
    if (is_last) RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0));
    if (n > 1 && !(inputs[0] = ronde_concat_along(inputs, n, dim))) return ronde_graph_status(im->graph);
    n = 1;
  }
  return n ? ronde__onnx_set_place(im, node, 0, inputs[0], place) : ronde__onnx_fail(im, node, "it has no inputs");
}

ronde_status ronde__onnx_op_concat(ronde__onnx_import *im, const ronde__onnx_node *node) {
  ronde__onnx_place place = {0};
  int dim;
  if (ronde__onnx_is_sizes(ronde__onnx_in(im, node, 0))) return join_sizes(im, node);
  RONDE_TRY(ronde__onnx_common(im, node, 0, node->n_in, &place));
  RONDE_TRY(ronde__onnx_axis(im, node, ronde__onnx_attr_int(node, "axis", 1), &place, &dim));
  return join_tensors(im, node, &place, dim);
}

/* Sizes of the pieces: an input since opset 13, before an attribute, or alike. */
static ronde_status read_pieces(ronde__onnx_import *im, const ronde__onnx_node *node, int64_t length,
                                int64_t *sizes_out) {
  size_t n;
  const int64_t *given = ronde__onnx_attr_ints(node, "split", &n);
  ronde__onnx_value sizes;
  if (ronde__onnx_in(im, node, 1)) {
    RONDE_TRY(ronde__onnx_in_sizes(im, node, 1, &sizes));
    given = sizes.size;
    n = (size_t)sizes.n;
  }
  if (given && n != (size_t)node->n_out) return ronde__onnx_fail(im, node, "it has not one size for each output");
  int64_t each = ronde__ceil_div(length, node->n_out), left = length;
  for (int i = 0; i < node->n_out; i++) {
    sizes_out[i] = given ? given[i] : ronde__min(each, left);
    if (sizes_out[i] < 1 || sizes_out[i] > left) return ronde__onnx_fail(im, node, "its pieces do not fit its input");
    left -= sizes_out[i];
  }
  return left ? ronde__onnx_fail(im, node, "its pieces do not fit its input") : RONDE_OK;
}

/* Whether the pieces are query, key and value of one attention and of nothing else, side by side in rows [batch,time,...]. */
static bool is_for_attention(const ronde__onnx_import *im, const ronde__onnx_node *node, const ronde__onnx_place *place,
                             int dim, const int64_t *sizes) {
  const ronde__onnx_node *next = ronde__onnx_only_reader(im->file, node->out[0]);
  if (!im->file->lead || place->rank != 3 || place->at != 0 || place->merged || dim != 1) return false;
  if (node->n_out != 3 || sizes[0] != sizes[1] || sizes[1] != sizes[2]) return false;
  if (!next || next->build != ronde__onnx_op_attention || next->n_in < 3) return false;
  for (int i = 0; i < 3; i++)
    if (ronde__onnx_only_reader(im->file, node->out[i]) != next || next->in[i] != node->out[i]) return false;
  return true;
}

/* x along dim. Of more pieces than a call makes: the first ones, and the rest to cut again. */
static ronde_status cut(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor *x, int dim, int n_all,
                        const int64_t *sizes, const ronde_tensor **pieces_out) {
  ronde_tensor *pieces[RONDE__OP_MAX_OUTPUTS] = {NULL};
  for (int at = 0; at < n_all;) {
    int left = n_all - at, n = left <= RONDE__OP_MAX_OUTPUTS ? left : RONDE__OP_MAX_OUTPUTS, own = n < left ? n - 1 : n;
    int64_t now[RONDE__OP_MAX_OUTPUTS] = {0};
    for (int i = 0; i < left; i++) now[ronde__min(i, n - 1)] += sizes[at + i];
    if (at == 0) RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0));
    ronde_cut_along(x, dim, n, now, pieces);
    RONDE_TRY(ronde_graph_status(im->graph));
    for (int i = 0; i < own; i++) pieces_out[at + i] = pieces[i];
    x = pieces[n - 1];
    at += own;
  }
  return RONDE_OK;
}

ronde_status ronde__onnx_op_split(ronde__onnx_import *im, const ronde__onnx_node *node) {
  enum { MAX_PIECES = 64 };
  const ronde_tensor *x, *pieces[MAX_PIECES];
  ronde__onnx_place place = {0};
  int64_t dims[RONDE_MAX_RANK], sizes[MAX_PIECES];
  int dim, n = node->n_out;
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &x, &place));
  RONDE_TRY(ronde__onnx_axis(im, node, ronde__onnx_attr_int(node, "axis", 0), &place, &dim));
  ronde_tensor_dims(x, dims);
  if (n > MAX_PIECES) return ronde__onnx_fail(im, node, "only up to %d pieces are supported", MAX_PIECES);
  RONDE_TRY(read_pieces(im, node, dims[dim], sizes));
  if (n == 1) return ronde__onnx_set_place(im, node, 0, x, &place);
  if (is_for_attention(im, node, &place, dim, sizes)) {
    for (int i = 0; i < n; i++) *ronde__onnx_out(im, node, i) = (ronde__onnx_value){.kind = RONDE__ONNX_PACKED, .x = x};
    return RONDE_OK;
  }
  RONDE_TRY(cut(im, node, x, dim, n, sizes, pieces));
  for (int i = 0; i < n; i++) RONDE_TRY(ronde__onnx_set_place(im, node, i, pieces[i], &place));
  return RONDE_OK;
}

/* The pieces of a sequence: of sizes that are given, or of one size but for the last. */
static ronde_status read_sequence(ronde__onnx_import *im, const ronde__onnx_node *node, int64_t length,
                                  ronde__onnx_value *sizes_out) {
  int64_t left = length, each = 1;
  bool given = ronde__onnx_in(im, node, 1);
  if (given) RONDE_TRY(ronde__onnx_in_sizes(im, node, 1, sizes_out));
  else if (!ronde__onnx_attr_int(node, "keepdims", 1)) return ronde__onnx_fail(im, node, "keepdims must be 1");
  if (given && !sizes_out->is_scalar) {
    for (int i = 0; i < sizes_out->n && left > 0; i++)
      left = sizes_out->size[i] < 1 ? -1 : left - ronde__min(sizes_out->size[i], length + 1);
    return left ? ronde__onnx_fail(im, node, "its pieces do not fit its input") : RONDE_OK;
  }
  if (given) each = sizes_out->size[0];
  if (each < 1 || ronde__ceil_div(length, each) > RONDE__ONNX_MAX_SIZES)
    return ronde__onnx_fail(im, node, "only up to %d pieces are supported", RONDE__ONNX_MAX_SIZES);
  sizes_out->n = 0;
  for (; left > 0; left -= each) sizes_out->size[sizes_out->n++] = ronde__min(each, left);
  return RONDE_OK;
}

/* As PyTorch's newer exporter writes a split: SequenceAt takes the pieces one by one. */
ronde_status ronde__onnx_op_split_to_sequence(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x, *pieces[RONDE__ONNX_MAX_SIZES];
  ronde__onnx_place place = {0};
  ronde__onnx_value sizes = {0}, *out = ronde__onnx_out(im, node, 0);
  int64_t dims[RONDE_MAX_RANK];
  int dim;
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &x, &place));
  RONDE_TRY(ronde__onnx_axis(im, node, ronde__onnx_attr_int(node, "axis", 0), &place, &dim));
  ronde_tensor_dims(x, dims);
  RONDE_TRY(read_sequence(im, node, dims[dim], &sizes));
  pieces[0] = x;
  if (sizes.n > 1) RONDE_TRY(cut(im, node, x, dim, sizes.n, sizes.size, pieces));
  if (!out) return RONDE_OK;
  *out = (ronde__onnx_value){.kind = RONDE__ONNX_SEQUENCE, .at = place.at, .merged = place.merged, .n = sizes.n};
  for (int i = 0; i < sizes.n; i++) out->size[i] = pieces[i]->id;
  return RONDE_OK;
}

ronde_status ronde__onnx_op_sequence_at(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde__onnx_value *in = ronde__onnx_in(im, node, 0);
  ronde__onnx_value index;
  if (!in || in->kind != RONDE__ONNX_SEQUENCE)
    return ronde__onnx_fail(im, node, "only the pieces of SplitToSequence are supported");
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 1, &index));
  int64_t i = index.n == 1 ? index.size[0] + (index.size[0] < 0 ? in->n : 0) : -1;
  if (i < 0 || i >= in->n) return ronde__onnx_fail(im, node, "there is no such piece of %d", in->n);
  const ronde__onnx_place place = {.at = in->at, .merged = in->merged};
  return ronde__onnx_set_place(im, node, 0, im->graph->tensors[in->size[i]], &place);
}
