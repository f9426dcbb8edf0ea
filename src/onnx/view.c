/* Which elements of an earlier tensor a tensor is: walked back over moves, reshapes, transposes and pieces, for operators that can
 * read them where they lie. The moves stay in the graph, and nobody executes what nobody reads. */
#include "onnx/import.h"

void ronde__onnx_row_major(int rank, const int64_t *dims, int64_t *step_out) {
  int64_t step = 1;
  for (int d = rank - 1; d >= 0; d--) step_out[d] = step, step *= dims[d];
}

ronde__onnx_view ronde__onnx_view_of(const ronde_tensor *x) {
  ronde__onnx_view view = {.x = x, .scale = 1};
  view.rank = ronde_tensor_dims(x, view.dim);
  ronde__onnx_row_major(view.rank, view.dim, view.step);
  return view;
}

void ronde__onnx_view_transpose(ronde__onnx_view *view, const int *order) {
  const ronde__onnx_view old = *view;
  for (int d = 0; d < view->rank; d++) {
    view->dim[d] = old.dim[order[d]];
    view->step[d] = old.step[order[d]];
  }
}

/* The view of x, whose dimensions have `from` steps, with `to` steps and `first` elements on; false: one of its dimensions runs over
 * several of x. */
static bool change_steps(ronde__onnx_view *view, const ronde__shape *x, const int64_t *from, const int64_t *to,
                         int64_t first) {
  int64_t offset = first, rest = view->offset, last[RONDE_MAX_RANK];
  for (int d = 0; d < x->rank; d++) {
    last[d] = rest / from[d];
    rest %= from[d];
    offset += last[d] * to[d];
  }
  for (int v = 0; v < view->rank; v++) {
    int d = 0;
    if (view->dim[v] == 1) continue;
    while (d < x->rank && (x->dim[d] == 1 || view->step[v] % from[d])) d++;
    if (d == x->rank) return false;
    const int64_t by = view->step[v] / from[d];
    last[d] += (view->dim[v] - 1) * by;
    if (last[d] >= x->dim[d]) return false;
    view->step[v] = by * to[d];
  }
  view->offset = offset;
  return true;
}

static bool through_transpose(ronde__onnx_view *view, const ronde__node *node, const ronde__shape *y,
                              const ronde__shape *x) {
  int64_t from[RONDE_MAX_RANK], own[RONDE_MAX_RANK], to[RONDE_MAX_RANK];
  ronde__onnx_row_major(y->rank, y->dim, from);
  ronde__onnx_row_major(x->rank, x->dim, own);
  for (int d = 0; d < y->rank; d++) to[d] = own[node->attr.order[d]];
  return change_steps(view, y, from, to, 0);
}

static bool through_split(ronde__onnx_view *view, const ronde__node *node, const ronde__shape *y,
                          const ronde__shape *x) {
  int64_t from[RONDE_MAX_RANK], to[RONDE_MAX_RANK], before = 0;
  ronde__onnx_row_major(y->rank, y->dim, from);
  ronde__onnx_row_major(x->rank, x->dim, to);
  for (int i = 0; node->out[i] != view->x->id; i++) before += node->attr.sizes[i];
  return change_steps(view, y, from, to, before * to[node->attr.dim]);
}

bool ronde__onnx_view_back(ronde__onnx_view *view) {
  const ronde_graph *graph = view->x->graph;
  const ronde__node *node = view->x->producer >= 0 ? &graph->nodes[view->x->producer] : NULL;
  const ronde_tensor *x = node ? graph->tensors[node->in[0]] : NULL;
  const ronde__shape *shape = &view->x->shape;
  ronde__onnx_view before = *view;
  bool back = false;
  if (!node) return false;
  switch (node->kind) {
  case RONDE__OP_FLATTEN:
  case RONDE__OP_RESHAPE: back = true; break;
  case RONDE__OP_TRANSPOSE: back = through_transpose(&before, node, shape, &x->shape); break;
  case RONDE__OP_SPLIT: back = through_split(&before, node, shape, &x->shape); break;
  case RONDE__OP_FUNCTION:
    back = node->attr.function.kind == RONDE__FUNCTION_AFFINE && node->attr.function.b == 0;
    before.scale *= node->attr.function.a;
    break;
  default: break;
  }
  before.x = x;
  if (back) *view = before;
  return back;
}

const ronde_tensor *ronde__onnx_transposed(const ronde_tensor *x, const int *order) {
  const ronde__node *node = x && x->producer >= 0 ? &x->graph->nodes[x->producer] : NULL;
  int all[RONDE_MAX_RANK];
  bool same = true;
  if (!node || node->kind != RONDE__OP_TRANSPOSE) return ronde_transpose(x, order);
  for (int d = 0; d < x->shape.rank; d++) {
    all[d] = node->attr.order[order[d]];
    same &= all[d] == d;
  }
  x = x->graph->tensors[node->in[0]];
  return same ? x : ronde_transpose(x, all);
}
