/* The operator Attention: the op of that name where it can say it, else products of matrices and a softmax. */
#include "onnx/import.h"

#include <math.h>
#include <string.h>

/* Added to a score that a query does not see: finite, as all weights of a file are. */
static const double UNSEEN = -1e30;

enum { QUERY, KEY, VALUE, MASK, PAST_KEY, PAST_VALUE, LENGTHS };
enum { OUT, PRESENT_KEY, PRESENT_VALUE, SCORES };
enum { RAW, CAPPED, MASKED, SHARES }; /* what SCORES are */

typedef struct attention {
  const ronde__onnx_node *node;
  ronde__onnx_place place; /* of queries, keys and values */
  bool in_rows;            /* [batch,time,features], in place of [batch,heads,time,features of a head] */
  int64_t lead;            /* of a file without a batch: examples side by side; 0: there is a batch */
  int64_t heads, kv_heads, t, s, past, d, dv;
  double scale, cap;
  bool causal;
  bool masked;                       /* by what only parts can say */
  int64_t left, right;               /* how many keys a query sees in front of its own place, and behind; -1: all */
  const ronde_tensor *x[3], *packed; /* packed: all three side by side [time,features], or NULL; */
  const ronde_tensor *lengths;       /* [1]: how many keys there are, or NULL: all; */
  const ronde__onnx_node *last;      /* whose output it is: behind lengths, what makes it zero where there is no key */
} attention;

/* ---- what the node says ---- */

static ronde_status read_attributes(const ronde__onnx_import *im, attention *a) {
  const ronde__onnx_node *node = a->node;
  a->causal = ronde__onnx_attr_int(node, "is_causal", 0) != 0;
  a->cap = ronde__onnx_attr_float(node, "softcap", 0);
  a->left = ronde__onnx_attr_int(node, "left_window_size", -1);
  a->right = ronde__onnx_attr_int(node, "right_window_size", -1);
  int64_t type = ronde__onnx_attr_int(node, "softmax_precision", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
  if (type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT) return ronde__onnx_fail(im, node, "its softmax is not in f32");
  if (!(a->cap >= 0)) return ronde__onnx_fail(im, node, "its softcap is below 0");
  if (ronde__onnx_in(im, node, LENGTHS)) return ronde__onnx_fail(im, node, "lengths of keys are not supported");
  if (!ronde__onnx_in(im, node, PAST_KEY) != !ronde__onnx_in(im, node, PAST_VALUE))
    return ronde__onnx_fail(im, node, "it has only one of past_key and past_value");
  return RONDE_OK;
}

/* Heads and sizes; of rows the attributes say how many heads there are. */
static ronde_status read_sizes(const ronde__onnx_import *im, attention *a) {
  const ronde__onnx_node *node = a->node;
  int64_t dims[3][RONDE_MAX_RANK] = {{0}};
  const int rank = a->place.rank - (a->lead == 0);
  if (a->packed) {
    ronde_tensor_dims(a->packed, dims[QUERY]);
    dims[QUERY][1] /= 3;
    for (int i = KEY; i <= VALUE; i++) memcpy(dims[i], dims[QUERY], sizeof dims[i]);
  }
  for (int i = 0; i < 3 && !a->packed; i++)
    if (ronde_tensor_dims(a->x[i], dims[i]) != rank) return ronde__onnx_fail(im, node, "its inputs differ in rank");
  const int64_t *q = dims[QUERY] + (a->lead > 0), *k = dims[KEY] + (a->lead > 0), *v = dims[VALUE] + (a->lead > 0);
  a->heads = a->in_rows ? ronde__onnx_attr_int(node, "q_num_heads", 0) : q[0];
  a->kv_heads = a->in_rows ? ronde__onnx_attr_int(node, "kv_num_heads", 0) : k[0];
  if (a->heads < 1 || a->kv_heads < 1 || a->heads % a->kv_heads || a->heads > INT32_MAX)
    return ronde__onnx_fail(im, node, "its heads of keys do not divide those of queries");
  a->t = q[!a->in_rows], a->s = k[!a->in_rows];
  const int64_t features[] = {q[rank - 1 - (a->lead > 0)], k[rank - 1 - (a->lead > 0)], v[rank - 1 - (a->lead > 0)]};
  a->d = a->in_rows ? features[QUERY] / a->heads : features[QUERY];
  a->dv = a->in_rows ? features[VALUE] / a->kv_heads : features[VALUE];
  const bool divides = !a->in_rows || (features[QUERY] % a->heads == 0 && features[VALUE] % a->kv_heads == 0);
  const bool fits = v[!a->in_rows] == a->s && (a->in_rows || v[0] == k[0]) &&
                    features[KEY] == (a->in_rows ? a->kv_heads * a->d : a->d);
  for (int i = 0; i < 3 && a->lead; i++)
    if (dims[i][0] != a->lead) return ronde__onnx_fail(im, node, "its inputs differ in their batch");
  if (!divides || !fits) return ronde__onnx_fail(im, node, "the sizes of queries, keys and values do not go together");
  a->scale = ronde__onnx_attr_float(node, "scale", 1 / sqrt((double)a->d));
  return RONDE_OK;
}

/* Lengths tell how many keys a query sees. Where there is none at all, the first one is seen and the result multiplied by
 * zero, as a softmax of nothing has no meaning in ONNX. */
static ronde_status read_lengths(const ronde__onnx_import *im, attention *a) {
  const ronde__onnx_value *mask = ronde__onnx_in(im, a->node, MASK);
  const ronde__onnx_node *next = ronde__onnx_only_reader(im->file, a->node->out[OUT]);
  if (!mask || mask->kind < RONDE__ONNX_TOKENS) return RONDE_OK;
  const bool fits = mask->kind == RONDE__ONNX_SEEN && mask->n == 3 && mask->size[0] == 1 &&
                    (mask->size[1] == 1 || mask->size[1] == a->t) && mask->size[2] == a->s && mask->least <= 1;
  if (!fits)
    return ronde__onnx_fail(im, a->node, "its mask by tokens or lengths is not [batch,1,queries,keys] of lengths");
  const bool multiplied = next && next->build == ronde__onnx_op_mul && next->n_in == 2;
  const int other = multiplied && next->in[0] == a->node->out[OUT] ? 1 : 0;
  if (multiplied && ronde__onnx_is_any(ronde__onnx_in(im, next, other), mask->x)) a->last = next;
  else if (mask->least > 0)
    return ronde__onnx_fail(im, a->node, "its mask sees a key where there is none, and nothing makes that zero");
  a->lengths = mask->x;
  return RONDE_OK;
}

static ronde_status read_packed(ronde__onnx_import *im, attention *a, const ronde_tensor *packed) {
  a->packed = packed;
  a->place = (ronde__onnx_place){3, 0, RONDE__ONNX_ALONE, 0};
  a->in_rows = true;
  return read_sizes(im, a);
}

/* The three of them, where attention is built by parts. */
static ronde_status unpack(const ronde__onnx_import *im, attention *a) {
  ronde_tensor *pieces[3] = {NULL};
  const int64_t own = a->heads * a->d, sizes[] = {own, own, own};
  if (!a->packed) return RONDE_OK;
  ronde_cut_along(a->packed, -1, 3, sizes, pieces);
  for (int i = 0; i < 3; i++) a->x[i] = pieces[i];
  return ronde_graph_status(im->graph);
}

static ronde_status read_inputs(ronde__onnx_import *im, attention *a) {
  int64_t dims[RONDE_MAX_RANK];
  const ronde__onnx_value *query = ronde__onnx_in(im, a->node, QUERY);
  if (query && query->kind == RONDE__ONNX_PACKED) return read_packed(im, a, query->x);
  RONDE_TRY(ronde__onnx_common(im, a->node, QUERY, 3, &a->place));
  const bool batch = a->place.at == 0 && !a->place.merged;
  if (a->place.rank < 3 || a->place.rank > 4 || !(batch || a->place.at == RONDE__ONNX_ALIKE))
    return ronde__onnx_fail(im, a->node, "its inputs have not 3 or 4 dimensions with the batch in front");
  a->in_rows = a->place.rank == 3;
  for (int i = QUERY; i <= VALUE; i++) RONDE_TRY(ronde__onnx_operand(im, a->node, i, &a->place, &a->x[i]));
  ronde_tensor_dims(a->x[QUERY], dims);
  a->lead = batch ? 0 : dims[0];
  return read_sizes(im, a);
}

/* A mask that the op needs not be told, or that is its own. */
static void read_mask(ronde__onnx_import *im, attention *a) {
  const ronde__onnx_value *mask = ronde__onnx_in(im, a->node, MASK);
  a->masked = mask && !a->lengths;
  if (!a->masked || ronde__onnx_in(im, a->node, PAST_KEY)) return;
  const ronde__onnx_mask sees = ronde__onnx_read_mask(im, mask, false, a->t, a->s);
  a->causal |= sees == RONDE__ONNX_SEES_EARLIER;
  a->masked = sees == RONDE__ONNX_SEES_OTHERS;
}

/* ---- the op ---- */

static bool is_plain(const ronde__onnx_import *im, const attention *a) {
  for (int i = PRESENT_KEY; i <= SCORES; i++)
    if (ronde__onnx_is_read(im, a->node, i)) return false;
  return !a->lead && !a->masked && !ronde__onnx_in(im, a->node, PAST_KEY) && a->cap == 0 && a->left < 0 &&
         a->right < 0 && a->heads == a->kv_heads && a->d == a->dv &&
         (!a->in_rows || (float)a->scale == (float)(1 / sqrt((double)a->d)));
}

static const ronde_tensor *attend_heads(const attention *a) {
  ronde__onnx_heads heads[3];
  for (int i = 0; i < 3; i++) ronde__onnx_heads_of(a->x[i], false, &heads[i]);
  return ronde__onnx_attend(heads, a->scale, a->causal, a->lengths);
}

static ronde_status build_plain(ronde__onnx_import *im, const attention *a) {
  const ronde_attention_options options = {.heads = (int)a->heads, .causal = a->causal, .lengths = a->lengths};
  RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(a->node), NULL, 0));
  const ronde_tensor *y = a->packed    ? ronde_self_attention(a->packed, &options)
                          : a->in_rows ? ronde_attention(a->x[QUERY], a->x[KEY], a->x[VALUE], &options)
                                       : attend_heads(a);
  return ronde__onnx_set(im, a->last, OUT, y);
}

/* ---- by parts: tensors are [(examples),heads,time,features] ---- */

/* Dims with the examples of a file without a batch in front. */
static const ronde_tensor *shaped(const attention *a, const ronde_tensor *x, int rank, const int64_t *dims) {
  int64_t all[RONDE_MAX_RANK] = {a->lead};
  int n = a->lead > 0;
  memcpy(all + n, dims, (size_t)rank * sizeof *dims);
  return ronde_reshape(x, rank + n, all);
}

/* The two dimensions behind the examples change places. */
static const ronde_tensor *swapped(const attention *a, const ronde_tensor *x) {
  return a->lead ? ronde_transpose(x, (int[]){0, 2, 1, 3}) : ronde_transpose(x, (int[]){1, 0, 2});
}

static const ronde_tensor *by_heads(const attention *a, const ronde_tensor *x, int64_t time, int64_t heads, int64_t d) {
  return a->in_rows ? swapped(a, shaped(a, x, 3, (int64_t[]){time, heads, d})) : x;
}

/* Keys or values behind those of before, which are [batch,heads,time,features] in any case. */
static ronde_status with_past(ronde__onnx_import *im, attention *a, int i, const ronde_tensor **x) {
  const ronde__onnx_place place = {4, a->lead ? RONDE__ONNX_ALIKE : 0, RONDE__ONNX_ALONE, 0};
  int64_t dims[RONDE_MAX_RANK];
  const ronde_tensor *before;
  if (!ronde__onnx_in(im, a->node, i)) return RONDE_OK;
  RONDE_TRY(ronde__onnx_operand(im, a->node, i, &place, &before));
  ronde_tensor_dims(before, dims);
  a->past = dims[1 + (a->lead > 0)];
  *x = ronde_concat_along((const ronde_tensor *const[]){before, *x}, 2, -2);
  return *x ? RONDE_OK : ronde_graph_status(im->graph);
}

/* Whether query t sees key s. */
static bool sees(const attention *a, int64_t t, int64_t s) {
  int64_t ahead = s - (t + a->past);
  return !(a->causal && ahead > 0) && !(a->left >= 0 && -ahead > a->left) && !(a->right >= 0 && ahead > a->right);
}

/* What the file itself says of a mask, where it is one of truths or fixed: [...,T,S], of which a dimension may be 1 and keys
 * may be fewer. NULL: it is none. */
static ronde_status find_mask(ronde__onnx_import *im, const attention *a, const ronde__onnx_known **mask_out) {
  const ronde__onnx_value *given = ronde__onnx_in(im, a->node, MASK);
  *mask_out = NULL;
  if (!given || given->kind == RONDE__ONNX_TENSOR) return RONDE_OK;
  const ronde__onnx_known *mask = ronde__onnx_known_of(im, given);
  if (!mask) return RONDE_OK;
  int64_t rows = mask->rank > 1 ? mask->dim[mask->rank - 2] : 1, keys = mask->rank ? mask->dim[mask->rank - 1] : 0;
  const int most = a->lead ? 4 : 3; /* with the batch none is told apart */
  int rank = mask->rank;
  for (int d = 0; d + most < mask->rank && mask->dim[d] == 1; d++) rank--;
  if (keys < 1 || keys > a->s + a->past || (rows != 1 && rows != a->t) || rank > most)
    return ronde__onnx_fail(im, a->node, "its mask does not fit %lld queries and %lld keys", (long long)a->t,
                            (long long)(a->s + a->past));
  *mask_out = mask;
  return RONDE_OK;
}

/* What is added to scores [T,S] of each of the mask's matrices, and 0 for each query that sees no key, else 1. */
static void fill_masks(const attention *a, const ronde__onnx_known *mask, ronde__onnx_known *bias,
                       ronde__onnx_known *keep) {
  const int64_t keys = a->s + a->past;
  for (int64_t row = 0; row < keep->n; row++) {
    int64_t t = row % a->t, from = mask && mask->rank > 1 && mask->dim[mask->rank - 2] > 1 ? row : row / a->t;
    const int64_t own = mask ? mask->dim[mask->rank - 1] : 0;
    double *to = bias->values + row * keys;
    for (int64_t s = 0; s < keys; s++) {
      const bool there = !mask || s < own;
      const double value = mask && there ? mask->values[from * own + s] : 0;
      const bool seen = there && sees(a, t, s) && !(mask && mask->integers && value == 0) && value > UNSEEN;
      to[s] = !seen ? UNSEEN : mask && mask->integers ? 0 : value;
      if (seen) keep->values[row] = 1;
    }
    for (int64_t s = 0; s < keys && keep->values[row] == 0; s++) to[s] = 0; /* a softmax needs something to share */
  }
}

/* The masks that follow from the file; NULL: there is none, or each query sees a key. */
static ronde_status add_known_masks(ronde__onnx_import *im, const attention *a, int64_t mode,
                                    const ronde_tensor **scores, const ronde_tensor **keep_out) {
  const ronde__onnx_known *mask;
  int64_t dims[RONDE__ONNX_MAX_SIZES + 2];
  int rank = 0;
  RONDE_TRY(find_mask(im, a, &mask));
  *keep_out = NULL;
  if (!mask && !a->causal && a->left < 0 && a->right < 0) return RONDE_OK;
  if (mode == MASKED && ronde__onnx_is_read(im, a->node, SCORES))
    return ronde__onnx_fail(im, a->node, "scores that are masked cannot be an output");
  const int all = a->lead ? 4 : 3; /* dimensions of the scores */
  for (int d = 0; mask && d < mask->rank - 2; d++)
    if (mask->rank - d <= all) dims[rank++] = mask->dim[d];
  int64_t lead[RONDE__ONNX_MAX_SIZES + 2];
  int missing = all - 2 - rank;
  for (int d = 0; d < missing; d++) lead[d] = 1;
  memcpy(lead + missing, dims, (size_t)rank * sizeof *dims);
  lead[all - 2] = a->t, lead[all - 1] = a->s + a->past;
  ronde__onnx_known *bias = ronde__onnx_make_known(im, all, lead);
  lead[all - 1] = 1;
  ronde__onnx_known *keep = ronde__onnx_make_known(im, all, lead);
  if (!bias || !keep) return ronde__onnx_fail(im, a->node, "its masks are too large");
  fill_masks(a, mask, bias, keep);
  const ronde_tensor *term;
  RONDE_TRY(ronde__onnx_fixed(im, a->node, ".mask", bias, &term));
  *scores = ronde_add(*scores, term);
  return ronde__onnx_is_alike(keep, 1) ? RONDE_OK : ronde__onnx_fixed(im, a->node, ".seen", keep, keep_out);
}

/* A mask that is computed, or trained. */
static ronde_status add_mask(ronde__onnx_import *im, const attention *a, const ronde_tensor **scores) {
  const ronde__onnx_place place = {4, a->lead ? RONDE__ONNX_ALIKE : 0, RONDE__ONNX_ALONE, 0};
  const ronde__onnx_value *given = ronde__onnx_in(im, a->node, MASK);
  const ronde_tensor *mask;
  if (!given || (given->kind != RONDE__ONNX_TENSOR && ronde__onnx_known_of(im, given))) return RONDE_OK;
  RONDE_TRY(ronde__onnx_operand(im, a->node, MASK, &place, &mask));
  *scores = ronde_add(*scores, mask);
  return *scores ? RONDE_OK : ronde_graph_status(im->graph);
}

static const ronde_tensor *scaled(const ronde_tensor *x, double factor) {
  return factor == 1 ? x : ronde_function(x, RONDE_AFFINE, (float)factor, 0);
}

/* With fewer heads of keys than of queries, these stand in groups. */
static const ronde_tensor *grouped(const attention *a, const ronde_tensor *x, int64_t each, int64_t rows, int64_t d) {
  if (a->heads == a->kv_heads) return x;
  return shaped(a, x, 4, (int64_t[]){a->kv_heads, each, rows, d});
}

/* Sets an output [(examples),heads,rows,columns]. */
static ronde_status set_part(ronde__onnx_import *im, const attention *a, int i, const ronde_tensor *x) {
  const ronde__onnx_place place = {4, a->lead ? RONDE__ONNX_ALIKE : 0, RONDE__ONNX_ALONE, 0};
  return ronde__onnx_is_read(im, a->node, i) ? ronde__onnx_set_place(im, a->node, i, x, &place) : RONDE_OK;
}

static ronde_status build_parts(ronde__onnx_import *im, attention *a) {
  const ronde_tensor *q = by_heads(a, a->x[QUERY], a->t, a->heads, a->d), *keep;
  const ronde_tensor *k = by_heads(a, a->x[KEY], a->s, a->kv_heads, a->d);
  const ronde_tensor *v = by_heads(a, a->x[VALUE], a->s, a->kv_heads, a->dv);
  const int64_t mode = ronde__onnx_attr_int(a->node, "qk_matmul_output_mode", RAW), each = a->heads / a->kv_heads;
  RONDE_TRY(with_past(im, a, PAST_VALUE, &v));
  RONDE_TRY(with_past(im, a, PAST_KEY, &k));
  RONDE_TRY(set_part(im, a, PRESENT_KEY, k));
  RONDE_TRY(set_part(im, a, PRESENT_VALUE, v));
  const int64_t keys = a->s + a->past;
  const ronde_tensor *s = ronde_matmul(grouped(a, q, each, a->t, a->d), grouped(a, k, 1, keys, a->d), false, true);
  if (each > 1) s = shaped(a, s, 3, (int64_t[]){a->heads, a->t, keys});
  s = scaled(s, a->scale);
  if (mode == RAW) RONDE_TRY(set_part(im, a, SCORES, s));
  if (a->cap > 0) s = scaled(ronde_tanh(scaled(s, 1 / a->cap)), a->cap);
  if (mode == CAPPED) RONDE_TRY(set_part(im, a, SCORES, s));
  RONDE_TRY(add_mask(im, a, &s));
  RONDE_TRY(add_known_masks(im, a, mode, &s, &keep));
  if (mode == MASKED) RONDE_TRY(set_part(im, a, SCORES, s));
  s = ronde_softmax(s, -1);
  if (keep) s = ronde_multiply(s, keep);
  if (mode == SHARES) RONDE_TRY(set_part(im, a, SCORES, s));
  const ronde_tensor *y = ronde_matmul(grouped(a, s, each, a->t, keys), grouped(a, v, 1, keys, a->dv), false, false);
  if (each > 1) y = shaped(a, y, 3, (int64_t[]){a->heads, a->t, a->dv});
  if (a->in_rows) y = shaped(a, swapped(a, y), 2, (int64_t[]){a->t, a->heads * a->dv});
  return y ? ronde__onnx_set_place(im, a->node, OUT, y, &a->place) : ronde_graph_status(im->graph);
}

ronde_status ronde__onnx_op_attention(ronde__onnx_import *im, const ronde__onnx_node *node) {
  attention a = {.node = node, .last = node};
  RONDE_TRY(read_attributes(im, &a));
  RONDE_TRY(read_inputs(im, &a));
  RONDE_TRY(read_lengths(im, &a));
  read_mask(im, &a);
  if (is_plain(im, &a)) return build_plain(im, &a);
  if (a.lengths)
    return ronde__onnx_fail(im, node,
                            "with lengths, query, key and value have equally many heads of one size, and there "
                            "are no windows, past keys and softcap");
  RONDE_TRY(unpack(im, &a));
  return build_parts(im, &a);
}
