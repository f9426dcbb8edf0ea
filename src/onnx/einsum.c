/* Einsum of two operands, as a product of matrices: labels that both have and the output too are in front, one is summed over,
 * and each operand has one of its own. */
#include "onnx/import.h"

#include <string.h>

typedef struct terms {
  char label[3][RONDE__ONNX_MAX_SIZES + 1]; /* of the operands, of the output */
  int n[3];
} terms;

/* Letters alone; false: something else is there, or too many. */
static bool read_terms(const ronde__onnx_node *node, terms *terms_out) {
  const Onnx__AttributeProto *attribute = ronde__onnx_attr(node, "equation");
  terms t = {{""}, {0}};
  int term = 0;
  if (!attribute || !attribute->has_s) return false;
  for (size_t i = 0; i < attribute->s.len; i++) {
    char c = (char)attribute->s.data[i];
    bool is_arrow = c == '-' && i + 1 < attribute->s.len && attribute->s.data[i + 1] == '>';
    if (c == ' ') continue;
    if (is_arrow) i++;
    if (c == ',' || is_arrow) {
      if (term != (is_arrow ? 1 : 0)) return false;
      term++;
      continue;
    }
    bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!is_letter || t.n[term] == RONDE__ONNX_MAX_SIZES || memchr(t.label[term], c, (size_t)t.n[term])) return false;
    t.label[term][t.n[term]++] = c;
  }
  *terms_out = t;
  return term == 2;
}

static bool has(const terms *t, int term, char c) { return memchr(t->label[term], c, (size_t)t->n[term]) != NULL; }

/* Whether an operand is [those in front..., own, summed], or the other way round (turned). */
static bool is_matrix(const terms *t, int term, char own, char summed, bool *turned_out) {
  const char *last = t->label[term] + t->n[term] - 2;
  *turned_out = last[0] == summed && last[1] == own;
  return (*turned_out || (last[0] == own && last[1] == summed)) &&
         !memcmp(t->label[term], t->label[2], (size_t)t->n[term] - 2);
}

/* Whether it is a product a b as it stands, but for turned operands. */
static bool is_product(const terms *t, bool *turn_a, bool *turn_b) {
  int n = t->n[2];
  if (n < 2 || t->n[0] != n || t->n[1] != n) return false;
  char row = t->label[2][n - 2], column = t->label[2][n - 1], summed = 0;
  for (int i = n - 2; i < n; i++)
    if (!has(t, 2, t->label[0][i])) summed = t->label[0][i];
  bool right = summed && has(t, 1, summed) && has(t, 0, row) && !has(t, 1, row) && has(t, 1, column) &&
               !has(t, 0, column) && is_matrix(t, 0, row, summed, turn_a);
  return right && is_matrix(t, 1, column, summed, turn_b) && (*turn_b = !*turn_b, true);
}

ronde_status ronde__onnx_op_einsum(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *a, *b;
  ronde__onnx_place place = {0};
  terms t;
  bool turn_a, turn_b;
  if (node->n_in != 2 || !read_terms(node, &t) || !is_product(&t, &turn_a, &turn_b))
    return ronde__onnx_fail(im, node, "only products of matrices, with all other dimensions in front, are supported");
  for (int i = 0; i < 2; i++)
    if (ronde__onnx_place_of(ronde__onnx_in(im, node, i)).rank != t.n[i])
      return ronde__onnx_fail(im, node, "its equation has another number of labels than input %d dimensions", i);
  RONDE_TRY(ronde__onnx_common(im, node, 0, 2, &place));
  if (place.at >= place.rank - 2)
    return ronde__onnx_fail(im, node, "the batch is one of the dimensions that are multiplied");
  RONDE_TRY(ronde__onnx_operand(im, node, 0, &place, &a));
  RONDE_TRY(ronde__onnx_operand(im, node, 1, &place, &b));
  RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0));
  return ronde__onnx_set_place(im, node, 0, ronde_matmul(a, b, turn_a, turn_b), &place);
}
