/* Tensors in which the batch stands anywhere, or has become one dimension with another: [T,N,F], [N * windows,T,F], and those
 * that are alike in all examples. Ronde's have the dimensions of an example in the same order, and the batch in front; so where
 * the batch moves, nothing does. */
#include "onnx/import.h"

#include <stdio.h>
#include <string.h>

static bool has_own_dim(const ronde__onnx_place *place) { return place->at != RONDE__ONNX_ALIKE && !place->merged; }

/* How many dimensions an example has. */
static int own_rank(const ronde__onnx_place *place) { return place->rank - has_own_dim(place); }

ronde__onnx_place ronde__onnx_place_of(const ronde__onnx_value *value) {
  int64_t dims[RONDE_MAX_RANK];
  ronde__onnx_place place = {0, RONDE__ONNX_ALIKE, RONDE__ONNX_ALONE, 0};
  if (!value) return place;
  if (value->kind == RONDE__ONNX_CONSTANT) place.rank = (int)value->constant->n_dims;
  if (value->kind == RONDE__ONNX_KNOWN) place.rank = value->known->rank;
  if (value->kind != RONDE__ONNX_TENSOR) return place;
  if (value->order == RONDE__ONNX_DIRECTIONS) return (ronde__onnx_place){4, 2, RONDE__ONNX_ALONE, 0};
  if (value->order == RONDE__ONNX_STATE) return (ronde__onnx_place){3, 1, RONDE__ONNX_ALONE, 0};
  place.at = value->at;
  place.merged = value->merged;
  place.rank = (value->order == RONDE__ONNX_IMAGE ? value->n : ronde_tensor_dims(value->x, dims)) + has_own_dim(&place);
  return place;
}

ronde_status ronde__onnx_in_place(ronde__onnx_import *im, const ronde__onnx_node *node, int i,
                                  const ronde_tensor **x_out, ronde__onnx_place *place_out) {
  const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
  int64_t dims[RONDE_MAX_RANK];
  bool is_constant = value && (value->kind == RONDE__ONNX_CONSTANT || value->kind == RONDE__ONNX_KNOWN);
  if (is_constant) {
    RONDE_TRY(ronde__onnx_parameter(im, node, i, x_out));
    *place_out = (ronde__onnx_place){ronde_tensor_dims(*x_out, dims), RONDE__ONNX_ALIKE, RONDE__ONNX_ALONE, 0};
    return *x_out ? RONDE_OK : ronde_graph_status(im->graph);
  }
  if (!value || value->kind != RONDE__ONNX_TENSOR) return ronde__onnx_in_tensor(im, node, i, x_out);
  if (value->transposed)
    return ronde__onnx_fail(im, node, "its input %s is transposed, which only a product of matrices takes",
                            RONDE__SHOWN(im->file->names[node->in[i]]));
  *x_out = ronde__onnx_as_in_file(value);
  *place_out = ronde__onnx_place_of(value);
  return *x_out ? RONDE_OK : ronde_graph_status(im->graph);
}

static void give_place(ronde__onnx_value *value, const ronde__onnx_place *place) {
  value->at = place->at;
  value->merged = place->merged;
  value->order = place->image ? RONDE__ONNX_IMAGE : RONDE__ONNX_AS_EVER;
  value->n = place->image;
}

ronde_status ronde__onnx_set_place(ronde__onnx_import *im, const ronde__onnx_node *node, int i, const ronde_tensor *x,
                                   const ronde__onnx_place *place) {
  RONDE_TRY(ronde__onnx_set(im, node, i, x));
  ronde__onnx_value *value = ronde__onnx_out(im, node, i);
  if (value) give_place(value, place);
  return RONDE_OK;
}

void ronde__onnx_give_place(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde__onnx_place *place) {
  ronde__onnx_value *value = ronde__onnx_out(im, node, 0);
  if (value) give_place(value, place);
}

ronde_status ronde__onnx_in_any(ronde__onnx_import *im, const ronde__onnx_node *node, int i, const ronde_tensor **x_out,
                                ronde__onnx_place *place_out) {
  const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
  bool is_image = value && value->kind == RONDE__ONNX_TENSOR && value->order == RONDE__ONNX_IMAGE;
  if (!is_image) return ronde__onnx_in_place(im, node, i, x_out, place_out);
  *x_out = value->x;
  *place_out = ronde__onnx_place_of(value);
  place_out->image = value->n;
  return RONDE_OK;
}

ronde_status ronde__onnx_in_image(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor **x_out,
                                  ronde__onnx_place *place_out) {
  const ronde__onnx_value *value = ronde__onnx_in(im, node, 0);
  int64_t dims[RONDE_MAX_RANK];
  if (value && value->kind == RONDE__ONNX_TENSOR && value->order == RONDE__ONNX_IMAGE)
    return ronde__onnx_in_any(im, node, 0, x_out, place_out);
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, x_out));
  *place_out = ronde__onnx_place_of(value);
  int rank = ronde_tensor_dims(*x_out, dims);
  if (rank == 3) return RONDE_OK;
  if (rank > 3 || !im->file->lead)
    return ronde__onnx_fail(im, node,
                            "its input is not of 4 dimensions (batch, channels, height, width), or of 2 or 3");
  place_out->image = rank;
  *x_out = ronde_reshape(*x_out, 3, (int64_t[]){dims[0], 1, rank == 2 ? dims[1] : 1});
  return *x_out ? RONDE_OK : ronde_graph_status(im->graph);
}

/* ---- axes ---- */

int ronde__onnx_dim_at(const ronde__onnx_place *place, int axis) {
  if (axis == place->at) return -1;
  return axis - (has_own_dim(place) && axis > place->at);
}

ronde_status ronde__onnx_axis(const ronde__onnx_import *im, const ronde__onnx_node *node, int64_t axis,
                              const ronde__onnx_place *place, int *dim_out) {
  int64_t from_front = axis < 0 ? axis + place->rank : axis;
  if (from_front >= 0 && from_front < place->rank && from_front != place->at) {
    *dim_out = ronde__onnx_dim_at(place, (int)from_front);
    return RONDE_OK;
  }
  return ronde__onnx_fail(im, node, "axis %lld is the batch, or beyond the %d dimensions of its input", (long long)axis,
                          place->rank);
}

/* ---- operands of arithmetic ---- */

ronde_status ronde__onnx_common(const ronde__onnx_import *im, const ronde__onnx_node *node, int first, int n,
                                ronde__onnx_place *place_out) {
  ronde__onnx_place all = {1, RONDE__ONNX_ALIKE, RONDE__ONNX_ALONE, 0};
  int behind = -1; /* dimensions from the batch's on */
  for (int i = first; i < first + n; i++) {
    const ronde__onnx_place own = ronde__onnx_place_of(ronde__onnx_in(im, node, i));
    all.rank = own.rank > all.rank ? own.rank : all.rank;
    if (own.at == RONDE__ONNX_ALIKE) continue;
    if (behind >= 0 && (behind != own.rank - own.at || all.merged != own.merged))
      return ronde__onnx_fail(im, node, "input %d (%s) has the batch in another dimension than the rest", i,
                              RONDE__SHOWN(im->file->names[node->in[i]]));
    behind = own.rank - own.at;
    all.merged = own.merged;
  }
  if (behind >= 0) all.at = all.rank - behind;
  *place_out = all;
  return RONDE_OK;
}

/* x, which stands so, with the dimensions of `place`; what: where it comes from. */
static ronde_status align(const ronde__onnx_import *im, const ronde__onnx_node *node, const char *what,
                          const ronde__onnx_place *own, const ronde__onnx_place *place, const ronde_tensor **x) {
  int64_t dims[RONDE_MAX_RANK], file[RONDE__ONNX_MAX_SIZES + RONDE_MAX_RANK], wanted[RONDE_MAX_RANK];
  int has = ronde_tensor_dims(*x, dims), rank = own_rank(place), n = 0;
  for (int d = 0; d < place->rank - own->rank && d < RONDE__ONNX_MAX_SIZES; d++) file[n++] = 1;
  for (int d = 0; d < has; d++) file[n++] = dims[d];
  if (own->at == RONDE__ONNX_ALIKE && has_own_dim(place) && place->at < n && file[place->at] == 1)
    memmove(file + place->at, file + place->at + 1, (size_t)(--n - place->at) * sizeof *file);
  if (n != rank || rank > RONDE_MAX_RANK)
    return ronde__onnx_fail(im, node, "%s has other dimensions than the rest: the batch must be the first of all",
                            what);
  memcpy(wanted, file, (size_t)n * sizeof *file);
  if (n == has && !memcmp(wanted, dims, (size_t)n * sizeof *dims)) return RONDE_OK;
  *x = ronde_reshape(*x, rank, wanted);
  return *x ? RONDE_OK : ronde_graph_status(im->graph);
}

ronde_status ronde__onnx_operand(ronde__onnx_import *im, const ronde__onnx_node *node, int i,
                                 const ronde__onnx_place *place, const ronde_tensor **x_out) {
  ronde__onnx_place own = {0};
  char what[32 + RONDE__SHOWN_BYTES];
  RONDE_TRY(ronde__onnx_in_place(im, node, i, x_out, &own));
  snprintf(what, sizeof what, "input %d (%s)", i, RONDE__SHOWN(im->file->names[node->in[i]]));
  return align(im, node, what, &own, place, x_out);
}

ronde_status ronde__onnx_fixed_operand(ronde__onnx_import *im, const ronde__onnx_node *node, const char *suffix,
                                       const ronde__onnx_known *known, const ronde__onnx_place *place,
                                       const ronde_tensor **x_out) {
  RONDE_TRY(ronde__onnx_fixed(im, node, suffix, known, x_out));
  int64_t dims[RONDE_MAX_RANK];
  const ronde__onnx_place own = {ronde_tensor_dims(*x_out, dims), RONDE__ONNX_ALIKE, RONDE__ONNX_ALONE, 0};
  return *x_out ? align(im, node, "a constant", &own, place, x_out) : ronde_graph_status(im->graph);
}

/* ---- reshaping ---- */

void ronde__onnx_sizes_of(const ronde_tensor *x, const ronde__onnx_place *place, ronde__onnx_value *sizes_out) {
  ronde__onnx_value sizes = {.kind = RONDE__ONNX_SIZES};
  int64_t dims[RONDE_MAX_RANK];
  int rank = ronde_tensor_dims(x, dims), d = 0;
  for (int axis = 0; axis < rank + has_own_dim(place); axis++) {
    bool is_batch = axis == place->at;
    sizes.size[sizes.n++] = !is_batch ? dims[d] : place->merged ? RONDE__ONNX_BATCHES(dims[d]) : RONDE__ONNX_BATCH;
    d += !is_batch || place->merged;
  }
  *sizes_out = sizes;
}

/* What is asked for, with the sizes that are 0 or -1 filled in; false: it is not possible. The size that has the batch is
 * where as many elements of an example lie in front of it as before. */
static bool fill_sizes(const ronde__onnx_import *im, const ronde__onnx_value *own, bool zeros, int64_t front,
                       int64_t elems, ronde__onnx_value *to, int *at_out) {
  int64_t product = 1, k = 1;
  int open = -1, at = -1;
  for (int i = 0; i < to->n; i++) {
    int64_t *size = &to->size[i];
    if (*size == 0 && !zeros && i < own->n) *size = own->size[i];
    bool has_batch = ronde__onnx_batches(*size) > 0;
    if (has_batch && at >= 0) return false;
    if (has_batch) k = ronde__onnx_batches(*size), at = i;
    else if (*size == -1 && open < 0) open = i;
    else if (*size < 1 || __builtin_mul_overflow(product, *size, &product)) return false;
  }
  int64_t batch = im->file->batch;
  for (int i = 0, before = 1; at < 0 && batch && i < to->n && before <= front && i != open; i++) {
    int64_t size = to->size[i]; /* a file that was made for one batch has it in its numbers */
    if (before == front && size % batch == 0) at = i, k = size / batch, product /= size;
    before = (int)ronde__min(INT32_MAX, before * (size < INT32_MAX ? size : INT32_MAX));
  }
  if (at < 0) at = open, k = 0, open = -1;
  if (at < 0 || __builtin_mul_overflow(product, k ? k : 1, &product) || product < 1 || elems % product) return false;
  if (open >= 0) to->size[open] = elems / product;
  else if (k == 0) k = elems / product;
  else if (product != elems) return false;
  to->size[at] = RONDE__ONNX_BATCHES(k);
  *at_out = at;
  return k < RONDE__ONNX_MAX_BATCHES;
}

/* The same without a batch. */
static bool fill_alike(const ronde__onnx_value *own, bool zeros, int64_t elems, ronde__onnx_value *to) {
  int64_t product = 1;
  int open = -1;
  for (int i = 0; i < to->n; i++) {
    int64_t *size = &to->size[i];
    if (*size == 0 && !zeros && i < own->n) *size = own->size[i];
    if (*size == -1 && open < 0) open = i;
    else if (*size < 1 || __builtin_mul_overflow(product, *size, &product)) return false;
  }
  if (elems % product) return false;
  if (open >= 0) to->size[open] = elems / product;
  return open >= 0 || product == elems;
}

/* n below 0: none. */
static int64_t product_of(const int64_t *dims, int n) {
  int64_t product = 1;
  for (int d = 0; d < n; d++) product *= dims[d];
  return product;
}

/* One of ONNX's own that is needed. */
static bool is_operator(const ronde__onnx_node *node, const char *type) {
  return node && node->build && !strcmp(node->proto->op_type, type);
}

/* Whether the node does nothing but to cut the channels into shape->dim[0] groups, a Transpose alone reads that, which does
 * nothing but to exchange these two dimensions, and a Reshape alone reads this. So is a shuffle of channels written. */
static bool cuts_for_shuffle(const ronde__onnx_import *im, const ronde__onnx_node *node, const ronde__onnx_place *place,
                             const ronde__shape *has, const ronde__onnx_place *target, const ronde__shape *shape) {
  const ronde__onnx_node *transpose = ronde__onnx_only_reader(im->file, node->out[0]), *reshape = NULL;
  const int lead = target->at == 0;
  size_t n;
  if (is_operator(transpose, "Transpose")) reshape = ronde__onnx_only_reader(im->file, transpose->out[0]);
  if (!is_operator(reshape, "Reshape") || place->at != target->at || place->at > 0 || place->merged || target->merged ||
      shape->rank < 2 || shape->dim[0] > INT32_MAX || shape->dim[0] * shape->dim[1] != has->dim[0])
    return false;
  const int64_t *perm = ronde__onnx_attr_ints(transpose, "perm", &n);
  bool exchanges = perm && n == (size_t)target->rank;
  for (int axis = 0; axis < target->rank && exchanges; axis++)
    exchanges = perm[axis] == (axis == lead ? lead + 1 : axis == lead + 1 ? lead : axis);
  return exchanges;
}

/* The shuffle, of which the Transpose and the Reshape behind it know that it is there already. */
static ronde_status shuffle(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor *x,
                            const ronde__onnx_place *target, const ronde__onnx_value *sizes) {
  const int lead = target->at == 0;
  RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0));
  RONDE_TRY(ronde__onnx_set_place(im, node, 0, ronde_channel_shuffle(x, (int)sizes->size[lead]), target));
  ronde__onnx_value *value = ronde__onnx_out(im, node, 0);
  value->shuffled = true;
  value->n = sizes->n;
  memcpy(value->size, sizes->size, sizeof value->size);
  value->size[lead] = sizes->size[lead + 1];
  value->size[lead + 1] = sizes->size[lead];
  return RONDE_OK;
}

ronde_status ronde__onnx_reshape_tensor(ronde__onnx_import *im, const ronde__onnx_node *node,
                                        const ronde__onnx_value *sizes) {
  const ronde__onnx_value *in = ronde__onnx_in(im, node, 0);
  const ronde_tensor *x;
  ronde__onnx_place place = {0}, target = {sizes->n, RONDE__ONNX_ALIKE, RONDE__ONNX_ALONE, 0};
  ronde__onnx_value own, to = *sizes;
  ronde__shape has = {0}, shape = {0};
  bool zeros = ronde__onnx_attr_int(node, "allowzero", 0) != 0;
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &x, &place));
  has.rank = ronde_tensor_dims(x, has.dim);
  ronde__onnx_sizes_of(x, &place, &own);
  if (in->shuffled) own = *in;
  int64_t elems = ronde__shape_elems(&has), before = 1;
  int64_t front = product_of(has.dim, place.at + (place.merged == RONDE__ONNX_INNER));
  bool alike = place.at == RONDE__ONNX_ALIKE;
  bool right = alike ? fill_alike(&own, zeros, elems, &to) : fill_sizes(im, &own, zeros, front, elems, &to, &target.at);
  for (int i = 0; i < to.n && right; i++) {
    int64_t k = ronde__onnx_batches(to.size[i]), size = k ? k : to.size[i];
    if (i < target.at) before *= size;
    if (k > 1) target.merged = before == front ? RONDE__ONNX_OUTER : RONDE__ONNX_INNER;
    if (target.merged == RONDE__ONNX_INNER && i == target.at) before *= size;
    right = shape.rank < RONDE_MAX_RANK || k == 1;
    if (k != 1 && right) shape.dim[shape.rank++] = size;
  }
  if (!right || (!alike && before != front))
    return ronde__onnx_fail(im, node, "it does not keep the batch as a dimension of its own, or an example's elements");
  if (shape.rank == 0) shape = (ronde__shape){1, {1}};
  if (cuts_for_shuffle(im, node, &place, &has, &target, &shape)) return shuffle(im, node, x, &target, &to);
  if (ronde__shape_equal(&has, &shape)) return ronde__onnx_set_place(im, node, 0, x, &target);
  RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0));
  return ronde__onnx_set_place(im, node, 0, ronde_reshape(x, shape.rank, shape.dim), &target);
}
