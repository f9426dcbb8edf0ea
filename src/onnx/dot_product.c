/* Scaled dot-product attention as exporters write it: a product of queries and turned keys, perhaps scaled, perhaps with a causal
 * mask, a softmax over the keys, and a product with the values. From the first product on it is looked whether all the others
 * are there, and read by nobody else. Then the last one builds the op of that name, which takes memory for no scores, and
 * reads queries, keys and values where they lie in rows of features. Where these are of other shapes, all nodes are built
 * as they are.
 * Legend: H heads, T queries, S keys, D features of a head, F = H D. */
#include "onnx/import.h"

enum { MAX_NODES = 6, NEIGHBOURS = 64 };
enum { QUERY, KEY, VALUE };

/* [n] nodes up to the softmax, and the product with values behind them. */
typedef struct ronde__onnx_dot_product {
  struct ronde__onnx_dot_product *next; /* in the building's list */
  const ronde__onnx_node *all[MAX_NODES + 1];
  int n;
} dot_product;

typedef struct scores {
  int64_t t, s;
  double scale;
  bool causal;
} scores;

/* ---- the nodes ---- */

static bool take(dot_product *a, const ronde__onnx_node *node) {
  if (!node || a->n == MAX_NODES) return false;
  a->all[a->n++] = node;
  return true;
}

/* The node that reads a value, where no other one reads its numbers: a CastLike close by may read of which type they are. */
static const ronde__onnx_node *reader_of_numbers(const ronde__onnx *file, int value) {
  if (value < 0 || value == file->output || file->n_readers[value] < 1 || file->n_readers[value] > 2) return NULL;
  const ronde__onnx_node *reader = &file->nodes[file->reader[value]];
  int n_types = 0;
  for (int i = ronde__max(0, file->reader[value] - NEIGHBOURS); i < file->reader[value]; i++) {
    const ronde__onnx_node *node = &file->nodes[i];
    n_types += node->build == ronde__onnx_op_cast && node->n_in == 2 && node->in[1] == value && node->in[0] != value;
  }
  return file->n_readers[value] - n_types == 1 ? reader : NULL;
}

/* Whether a node may scale or mask scores. */
static bool is_between(const ronde__onnx_node *node) {
  return node->build == ronde__onnx_op_mul || node->build == ronde__onnx_op_div || node->build == ronde__onnx_op_add ||
         node->build == ronde__onnx_op_where;
}

static bool is_activation(const ronde__onnx_import *im, const ronde__onnx_node *node, int i) {
  const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
  return RONDE__ONNX_IS(value, TENSOR) && value->order == RONDE__ONNX_AS_EVER && value->at == 0 &&
         value->merged != RONDE__ONNX_INNER;
}

/* All of them, of which nothing but the first product's operands needs to be there yet. */
static bool find(const ronde__onnx_import *im, const ronde__onnx_node *first, dot_product *a) {
  const bool fits = first->build == ronde__onnx_op_matmul && im->file->lead && first->n_in == 2 &&
                    is_activation(im, first, QUERY) && is_activation(im, first, KEY);
  if (!fits || !take(a, first)) return false;
  const ronde__onnx_node *node = reader_of_numbers(im->file, first->out[0]);
  while (node && is_between(node) && take(a, node)) node = reader_of_numbers(im->file, node->out[0]);
  if (!node || node->build != ronde__onnx_op_softmax || !take(a, node)) return false;
  const int rank = ronde__onnx_place_of(ronde__onnx_in(im, first, QUERY)).rank;
  const int64_t axis = ronde__onnx_attr_int(node, "axis", im->file->opset < 13 ? 1 : -1);
  const ronde__onnx_node *last = ronde__onnx_only_reader(im->file, node->out[0]);
  a->all[a->n] = last;
  return (axis == -1 || axis == rank - 1) && last && last->build == ronde__onnx_op_matmul && last->n_in == 2 &&
         last->in[0] == node->out[0] && last->in[1] != node->out[0];
}

/* ---- what is done to scores [T,S] ---- */

/* A mask that follows from the file and says something that Ronde's own attention knows. */
static bool apply_mask(ronde__onnx_import *im, const ronde__onnx_node *node, int mask, bool inverted, scores *c) {
  const ronde__onnx_mask sees = ronde__onnx_read_mask(im, ronde__onnx_in(im, node, mask), inverted, c->t, c->s);
  c->causal |= sees == RONDE__ONNX_SEES_EARLIER;
  return sees != RONDE__ONNX_SEES_OTHERS;
}

/* Scores where they are seen, and elsewhere what a softmax takes for nothing. */
static bool apply_choice(ronde__onnx_import *im, const ronde__onnx_node *node, int value, scores *c) {
  const int other = node->n_in == 3 && node->in[1] == value ? 2 : 1;
  double unseen;
  return node->n_in == 3 && node->in[3 - other] == value && ronde__onnx_is_number(im, node, other, &unseen) &&
         unseen <= RONDE__ONNX_UNSEEN && apply_mask(im, node, 0, other == 1, c);
}

/* What a node between product and softmax does to `value`; false: something else. */
static bool apply(ronde__onnx_import *im, const ronde__onnx_node *node, int value, scores *c) {
  const int at = node->n_in == 2 && node->in[0] == value ? 1 : 0;
  double number;
  if (node->build == ronde__onnx_op_where) return apply_choice(im, node, value, c);
  if (ronde__onnx_other(node, value) < 0) return false;
  if (node->build == ronde__onnx_op_add) return apply_mask(im, node, at, false, c);
  if (c->causal || !ronde__onnx_is_number(im, node, at, &number) || number == 0) return false;
  if (node->build == ronde__onnx_op_div) c->scale /= number;
  else c->scale *= number;
  return node->build == ronde__onnx_op_mul || at == 1;
}

/* ---- building ---- */

/* Operand i as it is multiplied. */
static bool find_operand(const ronde__onnx_import *im, const dot_product *a, int i, ronde__onnx_heads *heads_out) {
  const ronde__onnx_node *node = i == VALUE ? a->all[a->n] : a->all[0];
  const ronde__onnx_value *value = ronde__onnx_in(im, node, i == QUERY ? 0 : 1);
  return is_activation(im, node, i == QUERY ? 0 : 1) && (i == KEY || !value->transposed) &&
         value->merged == ronde__onnx_in(im, a->all[0], QUERY)->merged &&
         ronde__onnx_heads_of(value->x, i == KEY && !value->transposed, heads_out);
}

static bool is_one_attention(ronde__onnx_import *im, const dot_product *a, const ronde__onnx_heads *heads, scores *c) {
  const int64_t *q = heads[QUERY].view.dim, *k = heads[KEY].view.dim, *v = heads[VALUE].view.dim;
  bool fits = q[0] == k[0] && q[2] == k[2] && k[0] == v[0] && k[1] == v[1] && k[2] == v[2] && q[0] <= INT32_MAX;
  *c = (scores){.t = q[1], .s = k[1], .scale = 1};
  for (int i = 1; i < a->n - 1 && fits; i++) fits = apply(im, a->all[i], a->all[i - 1]->out[0], c);
  return fits;
}

static ronde_status build_one(ronde__onnx_import *im, const dot_product *a, const ronde__onnx_heads *heads,
                              const scores *c) {
  const ronde__onnx_place place = ronde__onnx_place_of(ronde__onnx_in(im, a->all[0], QUERY));
  RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(a->all[0]), NULL, 0));
  return ronde__onnx_set_place(im, a->all[a->n], 0, ronde__onnx_attend(heads, c->scale, c->causal, NULL), &place);
}

/* ---- the building's list ---- */

static ronde_status note(ronde__onnx_import *im, const dot_product *found) {
  dot_product *a;
  RONDE__ALLOC(a, sizeof *a, im->file->path);
  *a = *found;
  a->next = im->dot_products;
  im->dot_products = a;
  for (int i = 0; i < a->n; i++) *ronde__onnx_out(im, a->all[i], 0) = (ronde__onnx_value){.kind = RONDE__ONNX_ABSORBED};
  return RONDE_OK;
}

void ronde__onnx_release_dot_products(ronde__onnx_import *im) {
  for (dot_product *next; im->dot_products; im->dot_products = next) {
    next = im->dot_products->next;
    ronde__free(im->dot_products);
  }
}

static ronde_status build(ronde__onnx_import *im, const dot_product *a, ronde__onnx_apart *apart_out) {
  ronde__onnx_heads heads[3];
  scores c;
  bool fits = true;
  for (int i = 0; i < 3 && fits; i++) fits = find_operand(im, a, i, &heads[i]);
  if (fits && is_one_attention(im, a, heads, &c)) return build_one(im, a, heads, &c);
  *apart_out = (ronde__onnx_apart){a->all, a->n + 1};
  for (int i = 0; i < a->n; i++) *ronde__onnx_out(im, a->all[i], 0) = (ronde__onnx_value){.kind = RONDE__ONNX_NOTHING};
  return RONDE_OK;
}

ronde_status ronde__onnx_build_dot_product(ronde__onnx_import *im, const ronde__onnx_node *node, bool *done_out,
                                           ronde__onnx_apart *apart_out) {
  dot_product found = {.n = 0};
  *done_out = true;
  *apart_out = (ronde__onnx_apart){NULL, 0};
  for (const dot_product *a = node->build == ronde__onnx_op_matmul ? im->dot_products : NULL; a; a = a->next)
    if (a->all[a->n] == node) return build(im, a, apart_out);
  *done_out = find(im, node, &found);
  return *done_out ? note(im, &found) : RONDE_OK;
}
