/* Operators on tokens, and on how long sequences are. Neither is an activation: tokens are looked up, and of lengths a network
 * makes a number of steps, a mask of the keys that attention sees, or a factor. Here these are values that say what they are
 * of, each [batch,...]: where tokens are padding, the places of the others, whole numbers of lengths, and what they let see. A
 * table of a function of one token is looked up too, by numbers that no training changes. */
#include "onnx/import.h"

#include <math.h>
#include <string.h>

typedef ronde__onnx_value value;

static bool is_discrete(const value *v) { return v && v->kind >= RONDE__ONNX_TOKENS; }

static ronde_status set(ronde__onnx_import *im, const ronde__onnx_node *node, const value *v) {
  value *out = ronde__onnx_out(im, node, 0);
  if (out) *out = *v;
  return RONDE_OK;
}

static const char *words_of(const value *v) {
  switch (v->kind) {
  case RONDE__ONNX_TOKENS: return "tokens";
  case RONDE__ONNX_PADDING: return "where there is padding";
  case RONDE__ONNX_PLACES: return "places of tokens";
  case RONDE__ONNX_LENGTHS: return "lengths";
  case RONDE__ONNX_SEEN: return "a mask by lengths";
  case RONDE__ONNX_PACKED: return "a part of what attention reads";
  default: return "a part of attention";
  }
}

static ronde_status refuse(const ronde__onnx_import *im, const ronde__onnx_node *node) {
  int i = 0;
  while (!is_discrete(ronde__onnx_in(im, node, i))) i++;
  return ronde__onnx_fail(im, node, "its input %s is %s, on which this is not supported",
                          RONDE__SHOWN(im->file->names[node->in[i]]), words_of(ronde__onnx_in(im, node, i)));
}

/* ---- tables ---- */

static ronde_status look_up(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const value *table = ronde__onnx_in(im, node, 0), *tokens = ronde__onnx_in(im, node, 1);
  const ronde__shape shape = ronde__onnx_dims_of(im, node, 0);
  const ronde_tensor *y;
  if (!RONDE__ONNX_IS(tokens, TOKENS)) return refuse(im, node);
  if (shape.rank != 2 || table->transposed || ronde__onnx_attr_int(node, "axis", 0) != 0)
    return ronde__onnx_fail(im, node, "tokens look up axis 0 of an initializer [tokens, features], and nothing else");
  if (shape.dim[0] != tokens->x->vocabulary)
    return ronde__onnx_fail(im, node, "its table has %lld rows, but there are %lld tokens", (long long)shape.dim[0],
                            (long long)tokens->x->vocabulary);
  RONDE_TRY(ronde__onnx_look_up(im, node, table->constant, table->fixed, tokens->x, &y));
  const ronde__onnx_place place = {y ? y->shape.rank + 1 : 0, tokens->at, RONDE__ONNX_ALONE, 0};
  return ronde__onnx_set_place(im, node, 0, y, &place);
}

/* Of each token `there` where it is padding, else `other`, with the dims of v: a fixed table. */
static ronde_status tell_padding(ronde__onnx_import *im, const ronde__onnx_node *node, const value *v, double there,
                                 double other) {
  const int64_t tokens = v->x->vocabulary;
  ronde__onnx_known *table = ronde__onnx_make_known(im, 2, (int64_t[]){tokens, 1});
  const ronde_tensor *y;
  if (!table) return ronde__onnx_fail(im, node, "there are too many tokens");
  for (int64_t i = 0; i < tokens; i++) table->values[i] = (i == v->token) != v->inverted ? there : other;
  RONDE_TRY(ronde__onnx_look_up_known(im, node, ".table", table, v->x, &y));
  return ronde__onnx_set(im, node, 0, ronde_reshape(y, v->n, v->size));
}

/* ---- numbers ---- */

/* Input i as one number, of any type. */
static bool read_number(const ronde__onnx_import *im, const ronde__onnx_node *node, int i, double *number_out) {
  const value *v = ronde__onnx_in(im, node, i);
  value sizes;
  if (!v || is_discrete(v)) return false;
  if (ronde__onnx_is_number(im, node, i, number_out)) return true;
  if (RONDE__ONNX_IS(v, SIZES)) sizes = *v;
  else if (!RONDE__ONNX_IS(v, CONSTANT) || !ronde__onnx_read_sizes(v->constant, &sizes)) return false;
  *number_out = (double)sizes.size[0];
  return sizes.n == 1 && !ronde__onnx_batches(sizes.size[0]);
}

/* Whether input i is the numbers first, first + 1, ..., in one dimension, or in the last one of several that are 1. */
static bool is_count(ronde__onnx_import *im, const ronde__onnx_node *node, int i, double first, int64_t *n_out) {
  const value *v = ronde__onnx_in(im, node, i);
  const ronde__onnx_known *known = ronde__onnx_known_of(im, v);
  const Onnx__TensorProto *tensor = RONDE__ONNX_IS(v, CONSTANT) ? v->constant : NULL;
  if (known) {
    for (int64_t k = 0; k < known->n; k++)
      if (known->values[k] != first + (double)k) return false;
    *n_out = known->n;
    return known->rank > 0 && known->dim[known->rank - 1] == known->n;
  }
  int64_t n = tensor && tensor->n_dims > 0 ? ronde__onnx_elems(tensor) : 0;
  bool is_list = n > 0 && n <= INT16_MAX && tensor->dims[tensor->n_dims - 1] == n &&
                 tensor->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT && !v->transposed &&
                 ronde__onnx_check_floats(im->file, tensor) == RONDE_OK;
  float *values = is_list ? ronde__alloc((size_t)n * sizeof *values) : NULL;
  is_list = values && ronde__onnx_read_floats(im->file, tensor, values) == RONDE_OK;
  for (int64_t k = 0; k < n && is_list; k++) is_list = values[k] == (float)(first + (double)k);
  ronde__free(values);
  *n_out = n;
  return is_list;
}

/* ---- padding ---- */

static ronde_status compare(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const int of = RONDE__ONNX_IS(ronde__onnx_in(im, node, 0), TOKENS) ? 0 : 1;
  const value *tokens = ronde__onnx_in(im, node, of);
  value padding = {.kind = RONDE__ONNX_PADDING};
  ronde__shape shape = {0};
  double token;
  if (!RONDE__ONNX_IS(tokens, TOKENS) || !read_number(im, node, 1 - of, &token) || !(fabs(token) <= INT32_MAX))
    return refuse(im, node);
  padding.x = tokens->x;
  padding.token = (int32_t)token;
  shape.rank = ronde_tensor_dims(tokens->x, shape.dim);
  padding.n = shape.rank;
  memcpy(padding.size, shape.dim, (size_t)shape.rank * sizeof *shape.dim);
  return set(im, node, &padding);
}

static ronde_status invert(ronde__onnx_import *im, const ronde__onnx_node *node) {
  value v = *ronde__onnx_in(im, node, 0);
  if (v.kind != RONDE__ONNX_PADDING) return refuse(im, node);
  v.inverted = !v.inverted;
  return set(im, node, &v);
}

/* The places of tokens that are not padding, 0 of others; or one of two numbers for each token. */
static ronde_status choose(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const value *padding = ronde__onnx_in(im, node, 0);
  double there, other;
  int64_t n;
  if (!RONDE__ONNX_IS(padding, PADDING)) return refuse(im, node);
  if (!read_number(im, node, 1, &there)) return refuse(im, node);
  if (read_number(im, node, 2, &other)) return tell_padding(im, node, padding, there, other);
  bool counts = there == 0 && !padding->inverted && padding->n == 1 && is_count(im, node, 2, 1, &n);
  if (!counts || n != padding->size[0]) return refuse(im, node);
  value places = *padding;
  places.kind = RONDE__ONNX_PLACES;
  return set(im, node, &places);
}

/* The last place is the length. */
static ronde_status last_place(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const value *places = ronde__onnx_in(im, node, 0);
  unsigned axes;
  if (!RONDE__ONNX_IS(places, PLACES)) return refuse(im, node);
  RONDE_TRY(ronde__onnx_axes(im, node, 1, 2, &axes));
  if (axes != 2 || !ronde__onnx_attr_int(node, "keepdims", 1)) return refuse(im, node);
  RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0));
  return ronde__onnx_set(im, node, 0, ronde_lengths(places->x, places->token));
}

/* ---- lengths ---- */

ronde_status ronde__onnx_op_round(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  int64_t dims[RONDE_MAX_RANK];
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
  if (!im->file->lead || ronde_tensor_dims(x, dims) != 1 || dims[0] != 1)
    return ronde__onnx_fail(im, node, "only lengths of sequences, [batch,1], can be rounded");
  const value whole = {.kind = RONDE__ONNX_LENGTHS, .x = x, .n = 1, .size = {1}, .least = -INFINITY, .most = INFINITY};
  return set(im, node, &whole);
}

static ronde_status bound(ronde__onnx_import *im, const ronde__onnx_node *node, value v, double least, double most) {
  v.least = fmin(most, fmax(least, v.least));
  v.most = fmin(most, fmax(least, v.most));
  return set(im, node, &v);
}

static ronde_status clip(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const value *v = ronde__onnx_in(im, node, 0);
  double least = ronde__onnx_attr_float(node, "min", -INFINITY), most = ronde__onnx_attr_float(node, "max", INFINITY);
  bool known = (!ronde__onnx_in(im, node, 1) || read_number(im, node, 1, &least)) &&
               (!ronde__onnx_in(im, node, 2) || read_number(im, node, 2, &most));
  return RONDE__ONNX_IS(v, LENGTHS) && known ? bound(im, node, *v, least, most) : refuse(im, node);
}

static ronde_status at_least(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const int of = RONDE__ONNX_IS(ronde__onnx_in(im, node, 0), LENGTHS) ? 0 : 1;
  const value *v = ronde__onnx_in(im, node, of);
  double least;
  bool known = node->n_in == 2 && RONDE__ONNX_IS(v, LENGTHS) && read_number(im, node, 1 - of, &least);
  return known ? bound(im, node, *v, least, INFINITY) : refuse(im, node);
}

/* Whether places 0, 1, ... lie below lengths [batch,1]: [batch,S]. */
static ronde_status see(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const bool turned = !strcmp(node->proto->op_type, "Greater");
  const value *v = ronde__onnx_in(im, node, turned ? 0 : 1);
  int64_t n;
  if (!RONDE__ONNX_IS(v, LENGTHS) || v->n != 1 || !is_count(im, node, turned ? 1 : 0, 0, &n) || v->most < (double)n)
    return refuse(im, node);
  value seen = *v;
  seen.kind = RONDE__ONNX_SEEN;
  seen.size[0] = n;
  return set(im, node, &seen);
}

/* ---- dims ---- */

/* Axes, counted with the batch, which is none of them, as a mask of dims. */
static ronde_status read_axes(ronde__onnx_import *im, const ronde__onnx_node *node, int rank, unsigned *mask_out) {
  RONDE_TRY(ronde__onnx_axes(im, node, 1, rank, mask_out));
  return *mask_out & 1 || *mask_out == 0 ? refuse(im, node) : RONDE_OK;
}

static ronde_status squeeze(ronde__onnx_import *im, const ronde__onnx_node *node) {
  value v = *ronde__onnx_in(im, node, 0), y;
  unsigned axes;
  if (v.kind != RONDE__ONNX_LENGTHS) return refuse(im, node);
  RONDE_TRY(read_axes(im, node, v.n + 1, &axes));
  y = v;
  y.n = 0;
  for (int d = 0; d < v.n; d++)
    if (!(axes >> (d + 1) & 1)) y.size[y.n++] = v.size[d];
    else if (v.size[d] != 1) return refuse(im, node);
  return set(im, node, &y);
}

static ronde_status unsqueeze(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const value v = *ronde__onnx_in(im, node, 0);
  value y = v;
  size_t n_given;
  unsigned axes;
  value list = {0};
  if (v.kind == RONDE__ONNX_TOKENS || v.kind == RONDE__ONNX_PLACES || v.kind >= RONDE__ONNX_PACKED)
    return refuse(im, node);
  if (!ronde__onnx_attr_ints(node, "axes", &n_given)) {
    RONDE_TRY(ronde__onnx_in_sizes(im, node, 1, &list));
    n_given = (size_t)list.n;
  }
  if (n_given + (size_t)v.n > RONDE_MAX_RANK) return refuse(im, node);
  y.n = v.n + (int)n_given;
  RONDE_TRY(read_axes(im, node, y.n + 1, &axes));
  if (__builtin_popcount(axes) != (int)n_given) return refuse(im, node);
  for (int d = 0, from = 0; d < y.n; d++) y.size[d] = axes >> (d + 1) & 1 ? 1 : v.size[from++];
  return set(im, node, &y);
}

/* A mask is repeated along dims of 1. */
static ronde_status expand(ronde__onnx_import *im, const ronde__onnx_node *node) {
  value v = *ronde__onnx_in(im, node, 0), sizes;
  if (v.kind != RONDE__ONNX_SEEN) return refuse(im, node);
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 1, &sizes));
  if (sizes.n != v.n + 1 || (sizes.size[0] != 1 && sizes.size[0] != RONDE__ONNX_BATCH)) return refuse(im, node);
  for (int d = 0; d < v.n; d++) {
    const int64_t size = sizes.size[d + 1];
    if (size < 1 || size > INT32_MAX || (size != 1 && v.size[d] != 1 && size != v.size[d])) return refuse(im, node);
    if (v.size[d] == 1) v.size[d] = size;
  }
  return set(im, node, &v);
}

/* Truths become 1 and 0; whole numbers stay what they are. */
static ronde_status cast(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const value *v = ronde__onnx_in(im, node, 0);
  const int64_t to = ronde__onnx_cast_to(im, node);
  const bool floats = to == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, truths = to == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL;
  const bool integers = ronde__onnx_is_integer(to);
  if (RONDE__ONNX_IS(v, PADDING) && floats) return tell_padding(im, node, v, 1, 0);
  bool stays = (RONDE__ONNX_IS(v, TOKENS) && integers) || (RONDE__ONNX_IS(v, LENGTHS) && (integers || floats)) ||
               ((RONDE__ONNX_IS(v, PADDING) || RONDE__ONNX_IS(v, SEEN)) && truths);
  return stays ? set(im, node, v) : refuse(im, node);
}

static ronde_status pass_on(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return set(im, node, ronde__onnx_in(im, node, 0));
}

static ronde_status shape_of(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const value *v = ronde__onnx_in(im, node, 0);
  value sizes = {.kind = RONDE__ONNX_SIZES}, all;
  if (v->kind > RONDE__ONNX_SEEN) return refuse(im, node);
  if (RONDE__ONNX_IS(v, TOKENS)) {
    ronde__onnx_sizes_of(v->x, &(ronde__onnx_place){.at = v->at}, &all);
  } else {
    all = (value){.kind = RONDE__ONNX_SIZES, .n = v->n + 1, .size = {RONDE__ONNX_BATCH}};
    memcpy(all.size + 1, v->size, (size_t)v->n * sizeof *v->size);
  }
  int64_t first, end;
  ronde__onnx_shape_range(node, all.n, &first, &end);
  for (int64_t d = first; d < end; d++) sizes.size[sizes.n++] = all.size[d];
  return set(im, node, &sizes);
}

/* Tokens in the dims that they have, as Hugging Face's GPT-2 writes view(-1, T). */
static ronde_status reshape(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const value *v = ronde__onnx_in(im, node, 0);
  value own, to;
  if (!RONDE__ONNX_IS(v, TOKENS)) return refuse(im, node);
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 1, &to));
  ronde__onnx_sizes_of(v->x, &(ronde__onnx_place){.at = 0}, &own);
  bool stays = to.n == own.n && (to.size[0] == -1 || to.size[0] == own.size[0]);
  for (int d = 1; d < to.n && stays; d++) stays = to.size[d] == own.size[d];
  return stays ? set(im, node, v) : ronde__onnx_fail(im, node, "tokens cannot get other dimensions");
}

/* ---- all ---- */

static const struct {
  const char *of;
  ronde__onnx_operator build;
  bool any_place; /* of tokens' batch */
} acts[] = {
    {"Gather", look_up, true},       {"Equal", compare, false},
    {"Where", choose, false},        {"ReduceMax", last_place, false},
    {"Clip", clip, false},           {"Max", at_least, false},
    {"Squeeze", squeeze, false},     {"Expand", expand, false},
    {"Unsqueeze", unsqueeze, false}, {"Cast", cast, true},
    {"Shape", shape_of, true},       {"Identity", pass_on, true},
    {"Not", invert, false},          {"Less", see, false},
    {"Greater", see, false},         {"CastLike", cast, true},
    {"Reshape", reshape, false},
};

/* Operators that read lengths themselves. */
static bool takes_lengths(const char *operator) {
  static const char *const all[] = {"LSTM", "GRU", "RNN", "Attention"};
  for (size_t k = 0; k < RONDE__COUNT(all); k++)
    if (!strcmp(operator, all[k])) return true;
  return false;
}

ronde_status ronde__onnx_build_discrete(ronde__onnx_import *im, const ronde__onnx_node *node, bool *done_out) {
  bool reads = false;
  const bool of_type = node->build == ronde__onnx_op_cast && RONDE__ONNX_IS(ronde__onnx_in(im, node, 1), ABSORBED);
  for (int i = 0; i < (of_type ? 1 : node->n_in) && !reads; i++) reads = is_discrete(ronde__onnx_in(im, node, i));
  *done_out = reads && !takes_lengths(node->proto->op_type);
  if (!*done_out) return RONDE_OK;
  size_t k = 0;
  while (k < RONDE__COUNT(acts) && strcmp(acts[k].of, node->proto->op_type) != 0) k++;
  const bool any_place = k < RONDE__COUNT(acts) && acts[k].any_place;
  for (int i = 0; i < node->n_in && !any_place; i++) {
    const value *v = ronde__onnx_in(im, node, i);
    if (RONDE__ONNX_IS(v, TOKENS) && v->at != 0)
      return ronde__onnx_fail(im, node, "the batch is not the first dimension of the tokens %s",
                              RONDE__SHOWN(im->file->names[node->in[i]]));
  }
  return k < RONDE__COUNT(acts) ? acts[k].build(im, node) : refuse(im, node);
}

bool ronde__onnx_in_lengths(const ronde__onnx_import *im, const ronde__onnx_node *node, int i, int64_t most,
                            const ronde_tensor **lengths_out) {
  const value *v = ronde__onnx_in(im, node, i);
  if (!RONDE__ONNX_IS(v, LENGTHS) || v->n != 0 || v->least > 0 || v->most < (double)most) return false;
  *lengths_out = v->x;
  return true;
}

bool ronde__onnx_is_any(const value *v, const ronde_tensor *lengths) {
  return RONDE__ONNX_IS(v, LENGTHS) && v->x == lengths && v->n == 2 && v->size[0] == 1 && v->size[1] == 1 &&
         v->least == 0 && v->most == 1;
}
