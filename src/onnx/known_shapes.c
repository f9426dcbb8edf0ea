/* Arrays that follow from the file alone in other shapes, and parts of them. */
#include "onnx/known.h"

#include <string.h>

/* ---- shapes ---- */

known *ronde__known_reshape(ronde__onnx_import *im, const ronde__onnx_node *node, const known *x, const known *to) {
  int64_t dims[MAX_RANK], product = 1;
  int open = -1;
  bool zeros = ronde__onnx_attr_int(node, "allowzero", 0) != 0;
  if (to->n > MAX_RANK) return NULL;
  for (int64_t d = 0; d < to->n; d++) {
    dims[d] = (int64_t)to->values[d];
    if (dims[d] == 0 && !zeros) dims[d] = d < x->rank ? x->dim[d] : -2;
    if (dims[d] == -1 && open < 0) open = (int)d;
    else if (dims[d] < 0 || dims[d] > MAX_ELEMS || (product *= dims[d]) > MAX_ELEMS) return NULL;
  }
  if (open >= 0 && (product == 0 || x->n % product)) return NULL;
  if (open >= 0) dims[open] = x->n / product;
  else if (product != x->n) return NULL;
  known *y = ronde__known_make(im, (int)to->n, dims, x->integers);
  if (y && x->n) memcpy(y->values, x->values, (size_t)x->n * sizeof *y->values);
  return y;
}

known *ronde__known_transpose(ronde__onnx_import *im, const ronde__onnx_node *node, const known *x) {
  size_t n;
  const int64_t *perm = ronde__onnx_attr_ints(node, "perm", &n);
  int64_t own[MAX_RANK], step[MAX_RANK], dims[MAX_RANK];
  unsigned seen = 0;
  if (perm && n != (size_t)x->rank) return NULL;
  ronde__known_steps_of(x, own);
  for (int d = 0; d < x->rank; d++) {
    int64_t from = perm ? perm[d] : x->rank - 1 - d;
    if (from < 0 || from >= x->rank || seen >> from & 1) return NULL;
    seen |= 1u << from;
    dims[d] = x->dim[from];
    step[d] = own[from];
  }
  known *y = ronde__known_make(im, x->rank, dims, x->integers);
  if (y && y->n) ronde__known_copy_steps(x, 0, step, y);
  return y;
}

known *ronde__known_squeeze(ronde__onnx_import *im, const ronde__onnx_node *node, const known *x, const known *list,
                            bool away) {
  size_t n;
  const int64_t *given = ronde__onnx_attr_ints(node, "axes", &n);
  int64_t dims[MAX_RANK];
  unsigned axes = 0;
  if (!given) n = list ? (size_t)list->n : 0;
  if (n > MAX_RANK) return NULL;
  int rank = away ? x->rank : x->rank + (int)n, kept = 0, from = 0;
  for (size_t i = 0; i < n; i++) {
    int64_t axis = given ? given[i] : (int64_t)list->values[i];
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || axes >> axis & 1) return NULL;
    axes |= 1u << axis;
  }
  if (rank > MAX_RANK) return NULL;
  for (int d = 0; d < rank; d++) {
    bool named = axes >> d & 1;
    if (!away) dims[kept++] = named ? 1 : x->dim[from++];
    else if (n ? named : x->dim[d] == 1) {
      if (x->dim[d] != 1) return NULL;
    } else dims[kept++] = x->dim[d];
  }
  known *y = ronde__known_make(im, kept, dims, x->integers);
  if (y && x->n) memcpy(y->values, x->values, (size_t)x->n * sizeof *y->values);
  return y;
}

const known *ronde__known_expand(ronde__onnx_import *im, const known *x, const known *to) {
  int64_t dims[MAX_RANK];
  int rank = x->rank > to->n ? x->rank : (int)to->n;
  if (rank > MAX_RANK) return NULL;
  for (int d = 0; d < rank; d++) {
    int own = d - (rank - x->rank), wanted = d - (rank - (int)to->n);
    int64_t size = wanted >= 0 ? (int64_t)to->values[wanted] : 1;
    dims[d] = size == 1 && own >= 0 ? x->dim[own] : size;
  }
  return ronde__known_spread(im, x, rank, dims);
}

/* ---- parts ---- */

/* An end of a slice inside [least, most]. */
static int64_t end_inside(double at, int64_t n, int64_t least, int64_t most) {
  if (at < 0) at = at + (double)n < 0 ? -1 : at + (double)n;
  return ronde__max(least, ronde__min(most, (int64_t)at));
}

known *ronde__known_slice(ronde__onnx_import *im, const known *const *in) {
  const known *x = in[0];
  int64_t dims[MAX_RANK], step[MAX_RANK], first = 0, own[MAX_RANK];
  if (!in[1] || !in[2] || in[1]->n != in[2]->n) return NULL;
  if ((in[3] && in[3]->n != in[1]->n) || (in[4] && in[4]->n != in[1]->n)) return NULL;
  ronde__known_steps_of(x, own);
  for (int d = 0; d < x->rank; d++) dims[d] = x->dim[d], step[d] = own[d];
  for (int64_t i = 0; i < in[1]->n; i++) {
    int64_t d = in[3] ? (int64_t)in[3]->values[i] : i, by = in[4] ? (int64_t)in[4]->values[i] : 1;
    if (d < 0) d += x->rank;
    if (d < 0 || d >= x->rank || by == 0 || by < -MAX_ELEMS || by > MAX_ELEMS) return NULL;
    int64_t n = x->dim[d], least = by > 0 ? 0 : -1, most = by > 0 ? n : n - 1;
    int64_t begin = end_inside(in[1]->values[i], n, by > 0 ? 0 : -1, by > 0 ? n : n - 1);
    int64_t length = (end_inside(in[2]->values[i], n, least, most) - begin) * (by > 0 ? 1 : -1);
    dims[d] = length > 0 ? ronde__ceil_div(length, by > 0 ? by : -by) : 0;
    first += begin * own[d];
    step[d] = by * own[d];
  }
  known *y = ronde__known_make(im, x->rank, dims, x->integers);
  if (y && y->n) ronde__known_copy_steps(x, first, step, y);
  return y;
}

known *ronde__known_gather(ronde__onnx_import *im, const ronde__onnx_node *node, const known *x, const known *at) {
  int64_t axis = ronde__onnx_attr_int(node, "axis", 0), dims[2 * MAX_RANK], outer = 1, inner = 1;
  int rank = 0;
  if (axis < 0) axis += x->rank;
  if (axis < 0 || axis >= x->rank || x->rank - 1 + at->rank > MAX_RANK) return NULL;
  for (int d = 0; d < axis; d++) outer *= x->dim[d], dims[rank++] = x->dim[d];
  for (int d = 0; d < at->rank; d++) dims[rank++] = at->dim[d];
  for (int d = (int)axis + 1; d < x->rank; d++) inner *= x->dim[d], dims[rank++] = x->dim[d];
  known *y = ronde__known_make(im, rank, dims, x->integers);
  double n = (double)x->dim[axis], *to = y ? y->values : NULL;
  for (int64_t o = 0; o < outer && y; o++)
    for (int64_t i = 0; i < at->n; i++, to += inner) {
      double from = at->values[i] < 0 ? at->values[i] + n : at->values[i];
      if (!(from >= 0 && from < n)) return NULL;
      memcpy(to, x->values + (o * x->dim[axis] + (int64_t)from) * inner, (size_t)inner * sizeof *to);
    }
  return y;
}

known *ronde__known_gather_nd(ronde__onnx_import *im, const ronde__onnx_node *node, const known *x, const known *at) {
  const int64_t k = at->rank ? at->dim[at->rank - 1] : 0;
  int64_t dims[2 * MAX_RANK], step[MAX_RANK], inner = 1;
  int rank = at->rank - 1;
  if (k < 1 || k > x->rank || rank + x->rank - k > MAX_RANK || ronde__onnx_attr_int(node, "batch_dims", 0)) return NULL;
  memcpy(dims, at->dim, (size_t)rank * sizeof *dims);
  for (int d = (int)k; d < x->rank; d++) inner *= x->dim[d], dims[rank++] = x->dim[d];
  ronde__known_steps_of(x, step);
  known *y = ronde__known_make(im, rank, dims, x->integers);
  for (int64_t i = 0; y && inner && i < at->n / k; i++) {
    int64_t place = ronde__known_place(x, step, at->values + i * k, k);
    if (place < 0) return NULL;
    memcpy(y->values + i * inner, x->values + place, (size_t)inner * sizeof *y->values);
  }
  return y;
}

known *ronde__known_gather_elements(ronde__onnx_import *im, const ronde__onnx_node *node, const known *x,
                                    const known *at) {
  int64_t axis = ronde__onnx_attr_int(node, "axis", 0), step[MAX_RANK], index[MAX_RANK] = {0};
  if (axis < 0) axis += x->rank;
  if (axis < 0 || axis >= x->rank || at->rank != x->rank) return NULL;
  for (int d = 0; d < x->rank; d++)
    if (d != axis && at->dim[d] > x->dim[d]) return NULL;
  ronde__known_steps_of(x, step);
  known *y = ronde__known_make(im, at->rank, at->dim, x->integers);
  for (int64_t i = 0; y && i < y->n; i++) {
    double from = at->values[i] < 0 ? at->values[i] + (double)x->dim[axis] : at->values[i];
    int64_t place = 0;
    if (!(from >= 0 && from < (double)x->dim[axis])) return NULL;
    for (int d = 0; d < x->rank; d++) place += (d == axis ? (int64_t)from : index[d]) * step[d];
    y->values[i] = x->values[place];
    for (int d = x->rank - 1; d >= 0 && ++index[d] == at->dim[d]; d--) index[d] = 0;
  }
  return y;
}

known *ronde__known_running_sums(ronde__onnx_import *im, const ronde__onnx_node *node, const known *x,
                                 const known *axis) {
  bool excludes = ronde__onnx_attr_int(node, "exclusive", 0), reverse = ronde__onnx_attr_int(node, "reverse", 0);
  if (axis->n != 1 || !(axis->values[0] >= -x->rank && axis->values[0] < x->rank)) return NULL;
  int d = (int)axis->values[0] + (axis->values[0] < 0 ? x->rank : 0);
  int64_t step[MAX_RANK];
  ronde__known_steps_of(x, step);
  known *y = ronde__known_make(im, x->rank, x->dim, x->integers);
  for (int64_t first = 0; y && first < y->n; first++) {
    if (first / step[d] % x->dim[d] != 0) continue;
    double sum = 0;
    for (int64_t k = 0; k < x->dim[d]; k++) {
      int64_t at = first + (reverse ? x->dim[d] - 1 - k : k) * step[d];
      double next = ronde__known_rounded(sum + x->values[at], x->integers);
      y->values[at] = excludes ? sum : next;
      sum = next;
    }
  }
  return y;
}

known *ronde__known_concat(ronde__onnx_import *im, const ronde__onnx_node *node, const known *const *in) {
  int64_t axis = ronde__onnx_attr_int(node, "axis", 1), dims[MAX_RANK], outer = 1, inner = 1, behind = 0;
  int rank = in[0]->rank;
  bool integers = true;
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return NULL;
  memcpy(dims, in[0]->dim, (size_t)rank * sizeof *dims);
  for (int i = 1; i < node->n_in; i++) {
    if (in[i]->rank != rank || in[i]->dim[axis] > MAX_ELEMS) return NULL;
    for (int d = 0; d < rank; d++)
      if (d != axis && in[i]->dim[d] != dims[d]) return NULL;
    dims[axis] += in[i]->dim[axis];
  }
  for (int i = 0; i < node->n_in; i++) integers = integers && in[i]->integers;
  for (int d = 0; d < axis; d++) outer *= dims[d];
  for (int d = (int)axis + 1; d < rank; d++) inner *= dims[d];
  known *y = ronde__known_make(im, rank, dims, integers);
  for (int i = 0; i < node->n_in && y && y->n; i++) {
    int64_t run = in[i]->dim[axis] * inner;
    for (int64_t o = 0; o < outer && run; o++)
      memcpy(y->values + o * dims[axis] * inner + behind, in[i]->values + o * run, (size_t)run * sizeof(double));
    behind += run;
  }
  return y;
}
