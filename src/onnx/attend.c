/* Ronde's own attention for heads that a file has moved about: queries, keys and values are read where they lie in rows of features,
 * if they do. And masks that it knows.
 * Legend: H heads, T queries, S keys, D features of a head, F = H D. */
#include "onnx/import.h"

#include <math.h>

enum { QUERY, KEY, VALUE };

ronde__onnx_mask ronde__onnx_read_mask(ronde__onnx_import *im, const ronde__onnx_value *value, bool inverted, int64_t t,
                                       int64_t s) {
  const ronde__onnx_known *before = im->known, *mask = value ? ronde__onnx_known_of(im, value) : NULL;
  const int rank = mask ? mask->rank : 0;
  const int64_t columns = rank > 0 ? mask->dim[rank - 1] : 1, rows = rank > 1 ? mask->dim[rank - 2] : 1;
  bool all = mask && mask->n == rows * columns && (columns == 1 || columns == s) && (rows == 1 || rows == t);
  bool triangle = all && columns == s && rows == t;
  for (int64_t i = 0; (all || triangle) && i < mask->n; i++) {
    const double own = mask->values[i];
    const bool seen = mask->integers ? (own != 0) != inverted : own == 0,
               unseen = mask->integers || own <= RONDE__ONNX_UNSEEN;
    all &= seen;
    triangle &= i % columns <= i / columns ? seen : !seen && unseen;
  }
  ronde__onnx_release_known(im, before);
  return all ? RONDE__ONNX_SEES_ALL : triangle ? RONDE__ONNX_SEES_EARLIER : RONDE__ONNX_SEES_OTHERS;
}

/* Rows [time,F] in which a head's features lie side by side, or those of queries, keys and values, [time,3F]. */
typedef struct rows {
  const ronde_tensor *x, *packed; /* NULL: there are none */
  double scale, packed_scale;
} rows;

static bool is_rows(const ronde__onnx_view *view, int64_t time, int64_t width, int64_t offset) {
  const ronde__shape *shape = &view->x->shape;
  return shape->rank == 2 && shape->dim[0] == time && shape->dim[1] == width && view->offset == offset &&
         (view->step[0] == view->dim[2] || view->dim[0] == 1) && (view->step[1] == width || time == 1) &&
         (view->step[2] == 1 || view->dim[2] == 1);
}

/* Of a view [H,time,D], number i of the three. */
static rows find_rows(ronde__onnx_view view, int i) {
  const int64_t time = view.dim[1], f = view.dim[0] * view.dim[2];
  rows found = {0};
  do {
    if (is_rows(&view, time, f, 0)) found.x = view.x, found.scale = view.scale;
    if (is_rows(&view, time, 3 * f, i * f)) found.packed = view.x, found.packed_scale = view.scale;
  } while (ronde__onnx_view_back(&view));
  return found;
}

static const ronde_tensor *scaled(const ronde_tensor *x, double factor) {
  return fabs(factor - 1) < 1e-6 ? x : ronde_function(x, RONDE_AFFINE, (float)factor, 0);
}

/* Where no earlier tensor has them so: moved there. */
static const ronde_tensor *make_rows(const ronde__onnx_heads *heads) {
  static const int in_order[] = {1, 0, 2}, turned[] = {2, 0, 1};
  const int64_t *dim = heads->view.dim;
  return ronde_reshape(ronde__onnx_transposed(heads->view.x, heads->turned ? turned : in_order), 2,
                       (int64_t[]){dim[1], dim[0] * dim[2]});
}

bool ronde__onnx_heads_of(const ronde_tensor *x, bool turned, ronde__onnx_heads *heads_out) {
  *heads_out = (ronde__onnx_heads){ronde__onnx_view_of(x), turned};
  if (heads_out->view.rank != 3) return false;
  if (turned) ronde__onnx_view_transpose(&heads_out->view, (int[]){0, 2, 1});
  return true;
}

/* [T,F] of heads. */
static const ronde_tensor *attend(const ronde__onnx_heads heads[3], double scale,
                                  const ronde_attention_options *options) {
  const double wanted = 1 / sqrt((double)heads[QUERY].view.dim[2]);
  const ronde_tensor *x[3];
  rows all[3];
  double packed_scale = scale;
  for (int i = 0; i < 3; i++) {
    all[i] = find_rows(heads[i].view, i);
    packed_scale *= all[i].packed_scale;
  }
  const bool packed = all[QUERY].packed && all[QUERY].packed == all[KEY].packed && all[KEY].packed == all[VALUE].packed;
  if (packed && fabs(packed_scale / wanted - 1) < 1e-6 && all[VALUE].packed_scale == 1)
    return ronde_self_attention(all[QUERY].packed, options);
  for (int i = 0; i < 3; i++) {
    const bool lies = all[i].x && (i != VALUE || all[i].scale == 1);
    x[i] = lies ? all[i].x : make_rows(&heads[i]);
    if (lies && i != VALUE) scale *= all[i].scale;
  }
  return ronde_attention(scaled(x[QUERY], scale / wanted), x[KEY], x[VALUE], options);
}

const ronde_tensor *ronde__onnx_attend(const ronde__onnx_heads heads[3], double scale, bool causal,
                                       const ronde_tensor *lengths) {
  const int64_t *q = heads[QUERY].view.dim, by_row[] = {q[1], q[0], q[2]};
  const ronde_attention_options options = {.heads = (int)q[0], .causal = causal, .lengths = lengths};
  return ronde_transpose(ronde_reshape(attend(heads, scale, &options), 3, by_row), (int[]){1, 0, 2});
}
