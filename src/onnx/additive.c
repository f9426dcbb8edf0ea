/* Additive attention, as the sum of queries and keys, its tanh, a product with a vector and a softmax over the keys: from its first node
 * on it is looked whether all the others are there, and read by nobody else. Then it is the op of that name, which holds no
 * tanh for each pair of query and key. Legend: T queries, S keys, U features. */
#include "onnx/import.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NODES = 12 };

typedef struct additive {
  const ronde__onnx_node *all[MAX_NODES]; /* [n], but the last one */
  int n;
  const ronde__onnx_node *softmax, *last;
  int query, key;              /* values */
  int vector, scale, bias;     /* -1: it is not normalised */
  const ronde_tensor *lengths; /* [1], or NULL */
} additive;

static const ronde__onnx_node *next_of(const ronde__onnx_import *im, const ronde__onnx_node *node,
                                       ronde__onnx_operator build) {
  const ronde__onnx_node *next = node->n_out ? ronde__onnx_only_reader(im->file, node->out[0]) : NULL;
  return next && next->build == build ? next : NULL;
}

static const ronde__onnx_node *producer_of(const ronde__onnx_import *im, int value, ronde__onnx_operator build) {
  const int i = value < 0 ? -1 : im->file->producer[value];
  return i >= 0 && im->file->nodes[i].build == build ? &im->file->nodes[i] : NULL;
}

static bool take(additive *a, const ronde__onnx_node *node) {
  if (!node || a->n == MAX_NODES) return false;
  a->all[a->n++] = node;
  return true;
}

static const Onnx__TensorProto *vector_of(const ronde__onnx_import *im, int value, int64_t n) {
  const ronde__onnx_value *v = value < 0 ? NULL : &im->values[value];
  bool right = RONDE__ONNX_IS(v, CONSTANT) && !v->fixed && v->constant->n_dims == 1 && v->constant->dims[0] == n;
  return right ? v->constant : NULL;
}

/* Whether it puts one dimension of 1 at the axis. */
static bool is_unsqueeze(const ronde__onnx_import *im, const ronde__onnx_node *node, int64_t axis) {
  ronde__onnx_value list;
  const ronde__onnx_value *axes = node && node->n_in == 2 ? ronde__onnx_in(im, node, 1) : NULL;
  if (RONDE__ONNX_IS(axes, SIZES)) list = *axes;
  else if (!RONDE__ONNX_IS(axes, CONSTANT) || !ronde__onnx_read_sizes(axes->constant, &list)) return false;
  return list.n == 1 && list.size[0] == axis;
}

/* [T,U] of an example, the batch in front. */
static bool is_rows(const ronde__onnx_import *im, int value, int64_t dims[RONDE_MAX_RANK]) {
  const ronde__onnx_value *v = value < 0 ? NULL : &im->values[value];
  return RONDE__ONNX_IS(v, TENSOR) && v->order == RONDE__ONNX_AS_EVER && !v->transposed && !v->merged && v->at == 0 &&
         ronde_tensor_dims(v->x, dims) == 2;
}

/* ---- the nodes ---- */

/* Queries as [T,1,U], perhaps with a bias, keys as [1,S,U], and their sum. */
static const ronde__onnx_node *find_sum(const ronde__onnx_import *im, const ronde__onnx_node *rows, additive *a) {
  int64_t of_query[RONDE_MAX_RANK], of_key[RONDE_MAX_RANK];
  a->query = rows->in[0];
  if (!is_unsqueeze(im, rows, 2) || !is_rows(im, a->query, of_query) || !take(a, rows)) return NULL;
  const ronde__onnx_node *biased = next_of(im, rows, ronde__onnx_op_add);
  const int bias = biased ? ronde__onnx_other(biased, rows->out[0]) : -1;
  if (vector_of(im, bias, of_query[1]) && take(a, biased)) a->bias = bias, rows = biased;
  const ronde__onnx_node *sum = next_of(im, rows, ronde__onnx_op_add);
  const ronde__onnx_node *columns =
      sum ? producer_of(im, ronde__onnx_other(sum, rows->out[0]), ronde__onnx_op_unsqueeze) : NULL;
  if (!columns || next_of(im, columns, ronde__onnx_op_add) != sum || !is_unsqueeze(im, columns, 1)) return NULL;
  a->key = columns->in[0];
  bool fits = is_rows(im, a->key, of_key) && of_query[1] == of_key[1];
  return fits && take(a, columns) && take(a, sum) ? sum : NULL;
}

/* v, or g v / |v|. */
static bool find_vector(const ronde__onnx_import *im, const ronde__onnx_node *product, additive *a) {
  const int value = product->n_in == 2 ? product->in[1] : -1;
  int64_t dims[RONDE_MAX_RANK];
  const ronde__onnx_node *scaled = producer_of(im, value, ronde__onnx_op_mul), *factor, *norm;
  is_rows(im, a->query, dims);
  a->vector = value;
  if (a->bias < 0) return vector_of(im, value, dims[1]) != NULL;
  if (!scaled || scaled->n_in != 2 || next_of(im, scaled, ronde__onnx_op_matmul) != product) return false;
  a->vector = scaled->in[0];
  factor = producer_of(im, scaled->in[1], ronde__onnx_op_div);
  if (!factor || factor->n_in != 2 || next_of(im, factor, ronde__onnx_op_mul) != scaled) return false;
  a->scale = factor->in[0];
  norm = producer_of(im, factor->in[1], ronde__onnx_op_reduce_l2);
  if (!norm || norm->n_in < 1 || next_of(im, norm, ronde__onnx_op_div) != factor || norm->in[0] != a->vector)
    return false;
  return vector_of(im, a->vector, dims[1]) && vector_of(im, a->scale, 1) && take(a, norm) && take(a, factor) &&
         take(a, scaled);
}

/* The softmax over the keys, of those that are there. */
static bool find_shares(const ronde__onnx_import *im, const ronde__onnx_node *product, additive *a) {
  const ronde__onnx_node *where = next_of(im, product, ronde__onnx_op_where);
  double unseen;
  a->softmax = next_of(im, where ? where : product, ronde__onnx_op_softmax);
  a->last = a->softmax;
  const int64_t axis = a->softmax ? ronde__onnx_attr_int(a->softmax, "axis", im->file->opset < 13 ? 1 : -1) : 0;
  if (axis != 2 && axis != -1) return false;
  if (!where) return true;
  const ronde__onnx_value *seen = ronde__onnx_in(im, where, 0);
  int64_t of_key[RONDE_MAX_RANK];
  is_rows(im, a->key, of_key);
  bool fits = where->n_in == 3 && where->in[1] == product->out[0] && RONDE__ONNX_IS(seen, SEEN) && seen->n == 2 &&
              seen->size[0] == 1 && seen->size[1] == of_key[0] && seen->least <= 1 &&
              ronde__onnx_is_number(im, where, 2, &unseen) && unseen <= -1e30;
  if (!fits || !take(a, where)) return false;
  a->lengths = seen->x;
  a->last = next_of(im, a->softmax, ronde__onnx_op_mul);
  const int any = a->last ? ronde__onnx_other(a->last, a->softmax->out[0]) : -1;
  return any >= 0 && ronde__onnx_is_any(&im->values[any], a->lengths) && take(a, a->softmax);
}

static bool find(const ronde__onnx_import *im, const ronde__onnx_node *node, additive *a) {
  const ronde__onnx_node *sum = find_sum(im, node, a);
  const ronde__onnx_node *tanh = sum ? next_of(im, sum, ronde__onnx_op_tanh) : NULL;
  const ronde__onnx_node *product = tanh ? next_of(im, tanh, ronde__onnx_op_matmul) : NULL;
  return product && product->in[0] == tanh->out[0] && find_vector(im, product, a) && take(a, tanh) &&
         take(a, product) && find_shares(im, product, a);
}

/* ---- the op ---- */

static ronde_status take_weight(ronde__onnx_import *im, const additive *a, int value, ronde__onnx_layer *layer) {
  const Onnx__TensorProto *tensor = im->values[value].constant;
  const ronde__shape shape = {1, {tensor->dims[0]}};
  if (!ronde__onnx_is_weight_name(tensor->name))
    return ronde__onnx_fail(im, a->softmax, "the name %s cannot be that of a weight", RONDE__SHOWN(tensor->name));
  return ronde__onnx_take_tensor(im, a->softmax, tensor, NULL, RONDE__ONNX_AS_IT_IS, &shape, false, layer);
}

static ronde_status build(ronde__onnx_import *im, const additive *a, ronde__onnx_layer *layer) {
  const ronde_additive_attention_options options = {.normalised = a->bias >= 0, .lengths = a->lengths};
  layer->label = ronde__strdup(ronde__onnx_node_name(a->softmax));
  if (!layer->label) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for names", im->file->path);
  RONDE_TRY(take_weight(im, a, a->vector, layer));
  if (a->bias >= 0) RONDE_TRY(take_weight(im, a, a->scale, layer));
  if (a->bias >= 0) RONDE_TRY(take_weight(im, a, a->bias, layer));
  RONDE_TRY(ronde__onnx_begin(im, layer));
  return ronde__onnx_end_layer(
      im, a->last, layer,
      ronde_additive_attention(im->values[a->query].x, im->values[a->key].x, layer->label, &options));
}

ronde_status ronde__onnx_build_additive(ronde__onnx_import *im, const ronde__onnx_node *node, bool *done_out) {
  additive a = {.bias = -1, .scale = -1};
  ronde__onnx_layer layer = {0};
  *done_out = node->build == ronde__onnx_op_unsqueeze && im->file->lead && find(im, node, &a);
  if (!*done_out) return RONDE_OK;
  ronde_status status = build(im, &a, &layer);
  ronde__onnx_layer_release(&layer);
  for (int i = 0; i < a.n; i++) *ronde__onnx_out(im, a.all[i], 0) = (ronde__onnx_value){.kind = RONDE__ONNX_ABSORBED};
  return status;
}
