/* Operators that take elements of an activation, or put some around it: by what the file alone decides. */
#include "onnx/import.h"

#include <inttypes.h>
#include <string.h>

static ronde_status name_next(const ronde__onnx_import *im, const ronde__onnx_node *node) {
  return ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0);
}

/* A list of axes as dimensions of an example (-1: the batch); all of the file's, where there is none. */
static ronde_status dims_of_axes(const ronde__onnx_import *im, const ronde__onnx_node *node,
                                 const ronde__onnx_value *axes, int n, const ronde__onnx_place *place, int *dims_out) {
  for (int i = 0; i < n; i++) {
    int64_t axis = axes ? axes->size[i] : i;
    if (axis < 0) axis += place->rank;
    if (axis < 0 || axis >= place->rank) return ronde__onnx_fail(im, node, "axis %" PRId64 " is not there", axis);
    dims_out[i] = ronde__onnx_dim_at(place, (int)axis);
  }
  return RONDE_OK;
}

/* ---- slices ---- */

typedef struct cut {
  int64_t begin[RONDE_MAX_RANK], step[RONDE_MAX_RANK], size[RONDE_MAX_RANK];
} cut;

static cut whole_of(int rank, const int64_t *dims) {
  cut c = {{0}, {0}, {0}};
  for (int d = 0; d < rank; d++) c.step[d] = 1, c.size[d] = dims[d];
  return c;
}

static int64_t bounded(int64_t at, int64_t n, int64_t least, int64_t most) {
  if (at < 0) at = at < -n ? -1 : at + n; /* what is below the first stays below it */
  return ronde__max(least, ronde__min(most, at));
}

static ronde_status cut_dim(const ronde__onnx_import *im, const ronde__onnx_node *node, int64_t start, int64_t end,
                            int64_t step, int64_t n, cut *c, int d) {
  if (step == 0 || step < -INT32_MAX || step > INT32_MAX) return ronde__onnx_fail(im, node, "its step is impossible");
  start = step > 0 ? bounded(start, n, 0, n) : bounded(start, n, -1, n - 1);
  end = step > 0 ? bounded(end, n, 0, n) : bounded(end, n, -1, n - 1);
  int64_t length = step > 0 ? end - start : start - end;
  if (length <= 0) return ronde__onnx_fail(im, node, "nothing of dimension %d is left", d);
  c->begin[d] = start;
  c->step[d] = step;
  c->size[d] = ronde__ceil_div(length, step > 0 ? step : -step);
  return RONDE_OK;
}

/* A stretch of the channels of an image is a piece of a split, which stays in its layout. */
static ronde_tensor *take(const ronde_tensor *x, const cut *c) {
  int64_t dims[RONDE_MAX_RANK], sizes[3];
  int rank = ronde_tensor_dims(x, dims), n = 0, own = 0;
  ronde_tensor *pieces[3];
  bool others = false, all = c->begin[0] == 0 && c->step[0] == 1 && c->size[0] == dims[0];
  for (int d = 1; d < rank; d++) others |= c->begin[d] != 0 || c->step[d] != 1 || c->size[d] != dims[d];
  if (rank != 3 || others || all || c->step[0] != 1) return ronde_slice(x, c->begin, c->step, c->size);
  if (c->begin[0] > 0) sizes[n++] = c->begin[0], own = 1;
  sizes[n++] = c->size[0];
  if (c->begin[0] + c->size[0] < dims[0]) sizes[n++] = dims[0] - c->begin[0] - c->size[0];
  ronde_cut(x, n, sizes, pieces);
  return pieces[own];
}

/* What is passed over: nothing is cut from the batch. */
static bool keeps_batch(int64_t start, int64_t end, int64_t step, int64_t batch) {
  return start == 0 && step == 1 && (end == RONDE__ONNX_BATCH || end >= INT32_MAX || (batch && end >= batch));
}

/* Starts, ends, axes and steps are inputs since opset 10, and attributes before. */
static ronde_status read_list(ronde__onnx_import *im, const ronde__onnx_node *node, int i, const char *name,
                              ronde__onnx_value *list_out, bool *given_out) {
  size_t n;
  const int64_t *values = ronde__onnx_attr_ints(node, name, &n);
  *given_out = values || ronde__onnx_in(im, node, i);
  if (!values) return *given_out ? ronde__onnx_in_sizes(im, node, i, list_out) : RONDE_OK;
  if (n > RONDE__ONNX_MAX_SIZES) return ronde__onnx_fail(im, node, "its %s are too many", name);
  *list_out = (ronde__onnx_value){.kind = RONDE__ONNX_SIZES, .n = (int)n};
  memcpy(list_out->size, values, n * sizeof *values);
  return RONDE_OK;
}

ronde_status ronde__onnx_slice_tensor(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_value starts, ends, axes, steps;
  ronde__onnx_place place = {0};
  bool has_starts, has_ends, has_axes, has_steps;
  int64_t dims[RONDE_MAX_RANK];
  int of[RONDE__ONNX_MAX_SIZES];
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &x, &place));
  RONDE_TRY(read_list(im, node, 1, "starts", &starts, &has_starts));
  RONDE_TRY(read_list(im, node, 2, "ends", &ends, &has_ends));
  RONDE_TRY(read_list(im, node, 3, "axes", &axes, &has_axes));
  RONDE_TRY(read_list(im, node, 4, "steps", &steps, &has_steps));
  if (!has_starts || !has_ends || starts.n != ends.n || (has_axes && axes.n != starts.n) ||
      (has_steps && steps.n != starts.n))
    return ronde__onnx_fail(im, node, "its lists differ in length");
  int rank = ronde_tensor_dims(x, dims);
  cut c = whole_of(rank, dims);
  RONDE_TRY(dims_of_axes(im, node, has_axes ? &axes : NULL, starts.n, &place, of));
  for (int i = 0; i < starts.n; i++) {
    int64_t step = has_steps ? steps.size[i] : 1;
    if (of[i] >= 0) RONDE_TRY(cut_dim(im, node, starts.size[i], ends.size[i], step, dims[of[i]], &c, of[i]));
    else if (!keeps_batch(starts.size[i], ends.size[i], step, im->file->batch))
      return ronde__onnx_fail(im, node, "it cuts the batch");
  }
  RONDE_TRY(name_next(im, node));
  return ronde__onnx_set_place(im, node, 0, take(x, &c), &place);
}

/* ---- gather ---- */

/* How many indices from i on are an arithmetic progression. */
static int run_of(const int64_t *at, int n, int i) {
  int length = 1;
  while (i + length < n && (length < 2 || at[i + length] - at[i + length - 1] == at[i + 1] - at[i]) &&
         at[i + length] != at[i])
    length++;
  return length;
}

/* The slices of dimension d at these indices, one behind the other. */
static const ronde_tensor *gather(const ronde_tensor *x, int d, const int64_t *at, int n) {
  int64_t dims[RONDE_MAX_RANK];
  int rank = ronde_tensor_dims(x, dims);
  const ronde_tensor *parts[2] = {NULL, NULL};
  for (int i = 0; i < n;) {
    int length = run_of(at, n, i);
    cut c = whole_of(rank, dims);
    c.begin[d] = at[i];
    c.step[d] = length > 1 ? at[i + 1] - at[i] : 1;
    c.size[d] = length;
    parts[1] = take(x, &c);
    parts[0] = parts[0] ? ronde_concat_along(parts, 2, d) : parts[1];
    if (!parts[0]) return NULL;
    i += length;
  }
  return parts[0];
}

/* Indices that the file gives: a list of its own [n], and the dims that take the place of the dimension. */
typedef struct places {
  int64_t *at;
  int n;
  ronde__shape dims;
} places;

static ronde_status read_places(const ronde__onnx_import *im, const ronde__onnx_node *node,
                                const ronde__onnx_value *given, const ronde__onnx_known *array, places *p) {
  enum { MAX_INDICES = 1 << 20 };
  bool is_known = array && array->integers;
  bool is_constant = given && given->kind == RONDE__ONNX_CONSTANT;
  bool is_sizes = given && given->kind == RONDE__ONNX_SIZES;
  int64_t n = is_known ? array->n : is_sizes ? given->n : is_constant ? ronde__onnx_elems(given->constant) : -1;
  int rank = is_known ? array->rank : is_constant ? (int)given->constant->n_dims : is_sizes && !given->is_scalar;
  const int64_t *dims = is_known ? array->dim : is_constant ? given->constant->dims : &n;
  if (n < 1 || n > MAX_INDICES || rank > RONDE_MAX_RANK)
    return ronde__onnx_fail(im, node, "its indices are not up to %d numbers of the file", MAX_INDICES);
  RONDE__ALLOC(p->at, (size_t)n * sizeof *p->at, im->file->path);
  if (is_constant && !ronde__onnx_read_integers(given->constant, (int)n, p->at, &p->n))
    return ronde__onnx_fail(im, node, "its indices are not integers of the file");
  p->n = (int)n;
  for (int64_t i = 0; i < n && !is_constant; i++) p->at[i] = is_known ? (int64_t)array->values[i] : given->size[i];
  p->dims.rank = rank;
  for (int d = 0; d < rank; d++) p->dims.dim[d] = dims[d];
  return RONDE_OK;
}

/* One that was made for another node. */
static const Onnx__TensorProto *find_picks(const ronde__onnx *file, const int64_t *at, int n, int64_t width) {
  for (int k = 0; k < file->n_made; k++) {
    const Onnx__TensorProto *made = file->made[k];
    size_t length = strlen(made->name);
    bool same = length > 6 && !strcmp(made->name + length - 6, ".picks") && made->n_dims == 2 && made->dims[0] == n &&
                made->dims[1] == width;
    for (int i = 0; i < n && same; i++) same = made->float_data[i * width + at[i]] == 1;
    if (same) return made;
  }
  return NULL;
}

/* A fixed matrix [n,width] whose row i has a one at at[i] and zeros else. */
static ronde_status add_picks(ronde__onnx_import *im, const ronde__onnx_node *node, const int64_t *at, int n,
                              int64_t width, const ronde_tensor **x_out) {
  const Onnx__TensorProto *made = find_picks(im->file, at, n, width);
  if (made) return ronde__onnx_fixed_tensor(im, node, made, x_out);
  ronde__onnx_known *picks = ronde__onnx_make_known(im, 2, (int64_t[]){n, width});
  if (!picks)
    return ronde__onnx_fail(im, node, "it picks %d times one of %lld elements, which is too many", n, (long long)width);
  for (int i = 0; i < n; i++) picks->values[i * width + at[i]] = 1;
  return ronde__onnx_fixed(im, node, ".picks", picks, x_out);
}

/* Many slices are a product with a matrix that has a one in each row: exact, and so is its gradient. */
static ronde_status gather_many(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor *x, int d,
                                const places *p, const ronde_tensor **y_out) {
  int64_t dims[RONDE_MAX_RANK], three[3] = {1, 1, 1};
  int rank = ronde_tensor_dims(x, dims);
  const ronde_tensor *picks;
  for (int k = 0; k < rank; k++) three[k < d ? 0 : k == d ? 1 : 2] *= dims[k];
  RONDE_TRY(add_picks(im, node, p->at, p->n, dims[d], &picks));
  x = ronde_matmul(ronde_reshape(picks, 3, (int64_t[]){1, p->n, dims[d]}), ronde_reshape(x, 3, three), false, false);
  dims[d] = p->n;
  *y_out = ronde_reshape(x, rank, dims);
  return *y_out ? RONDE_OK : ronde_graph_status(im->graph);
}

/* x at places p of an axis. */
static ronde_status gather_places(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor *x,
                                  ronde__onnx_place place, int64_t axis, places *p) {
  ronde__shape own = {0}, to = {0};
  enum { MAX_STRETCHES = 16 };
  int dim;
  own.rank = ronde_tensor_dims(x, own.dim);
  RONDE_TRY(ronde__onnx_axis(im, node, axis, &place, &dim));
  if (own.rank - 1 + p->dims.rank > RONDE_MAX_RANK) return ronde__onnx_fail(im, node, "it has too many dimensions");
  for (int i = 0; i < p->n; i++) {
    if (p->at[i] < 0) p->at[i] = p->at[i] < -own.dim[dim] ? -1 : p->at[i] + own.dim[dim];
    if (p->at[i] < 0 || p->at[i] >= own.dim[dim]) return ronde__onnx_fail(im, node, "an index is not there");
  }
  for (int d = 0; d < own.rank; d++) {
    if (d != dim) to.dim[to.rank++] = own.dim[d];
    for (int k = 0; k < p->dims.rank && d == dim; k++) to.dim[to.rank++] = p->dims.dim[k];
  }
  if (to.rank == 0) to = (ronde__shape){1, {1}};
  if ((axis < 0 ? axis + place.rank : axis) < place.at) place.at += p->dims.rank - 1;
  if (own.rank == 1 && p->dims.rank == 0 && im->file->lead)
    return ronde__onnx_fail(im, node, "nothing of an example is left but one number without a dimension");
  bool reshapes = p->dims.rank != 1;
  int stretches = 0;
  for (int i = 0; i < p->n && stretches <= MAX_STRETCHES; i += run_of(p->at, p->n, i)) stretches++;
  bool is_many = stretches > MAX_STRETCHES;
  if (is_many) RONDE_TRY(gather_many(im, node, x, dim, p, &x));
  if (!is_many && !reshapes) RONDE_TRY(name_next(im, node));
  if (!is_many) x = gather(x, dim, p->at, p->n);
  if (reshapes) RONDE_TRY(name_next(im, node));
  return ronde__onnx_set_place(im, node, 0, reshapes ? ronde_reshape(x, to.rank, to.dim) : x, &place);
}

/* Indices [...,K] into the first K dimensions, which become one, and the indices places in it. */
static ronde_status flatten_indices(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor **x,
                                    ronde__onnx_place *place, places *p) {
  ronde__shape own = {0};
  own.rank = ronde_tensor_dims(*x, own.dim);
  const int64_t k = p->dims.rank ? p->dims.dim[p->dims.rank - 1] : 0;
  const bool reaches_batch = place->at != RONDE__ONNX_ALIKE && place->at < k;
  if (k < 1 || k > own.rank || reaches_batch || ronde__onnx_attr_int(node, "batch_dims", 0))
    return ronde__onnx_fail(im, node, "its indices are not into dimensions in front of the batch");
  p->dims.rank--;
  p->n /= (int)k;
  for (int i = 0; i < p->n; i++) {
    int64_t flat = 0;
    for (int64_t d = 0; d < k; d++) {
      int64_t at = p->at[i * k + d];
      if (at < 0 && at >= -own.dim[d]) at += own.dim[d];
      if (at < 0 || at >= own.dim[d]) return ronde__onnx_fail(im, node, "an index is not there");
      flat = flat * own.dim[d] + at;
    }
    p->at[i] = flat;
  }
  if (k == 1) return RONDE_OK;
  int64_t merged[RONDE_MAX_RANK] = {1};
  for (int d = 0; d < own.rank; d++) merged[d < k ? 0 : d - k + 1] = d < k ? merged[0] * own.dim[d] : own.dim[d];
  RONDE_TRY(name_next(im, node));
  *x = ronde_reshape(*x, own.rank - (int)k + 1, merged);
  place->rank -= (int)k - 1;
  if (place->at != RONDE__ONNX_ALIKE) place->at -= (int)k - 1;
  return *x ? RONDE_OK : ronde_graph_status(im->graph);
}

static ronde_status gather_from(ronde__onnx_import *im, const ronde__onnx_node *node, bool flattens, places *p) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &x, &place));
  if (flattens) RONDE_TRY(flatten_indices(im, node, &x, &place, p));
  return gather_places(im, node, x, place, flattens ? 0 : ronde__onnx_attr_int(node, "axis", 0), p);
}

/* Indices that go to the next example's elements where an example's are one dimension with the batch, [N * elements], as those of
 * PyTorch's as_strided do; NULL: they do not. */
static const ronde__onnx_known *strided_of(const ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde__onnx_value *value = ronde__onnx_in(im, node, 0), *given = ronde__onnx_in(im, node, 1);
  const ronde__onnx_known *at = given && given->kind == RONDE__ONNX_KNOWN ? given->known : NULL;
  int64_t dims[RONDE_MAX_RANK];
  if (!at || !at->integers || !value || value->kind != RONDE__ONNX_TENSOR || value->order != RONDE__ONNX_AS_EVER)
    return NULL;
  const ronde__onnx_place place = ronde__onnx_place_of(value);
  bool is_flat = place.rank == 1 && place.at == 0 && ronde_tensor_dims(value->x, dims) == 1;
  bool goes_on = is_flat && at->per_example == (double)dims[0] && at->examples_at >= 0 && at->examples_at < at->rank;
  return goes_on && at->dim[at->examples_at] == 1 && !ronde__onnx_attr_int(node, "axis", 0) ? at : NULL;
}

static ronde_status gather_strided(ronde__onnx_import *im, const ronde__onnx_node *node, places *p, int examples_at) {
  const ronde_tensor *x = ronde__onnx_in(im, node, 0)->x;
  const ronde__onnx_place to = {p->dims.rank, examples_at, RONDE__ONNX_ALONE, 0};
  int64_t dims[RONDE_MAX_RANK];
  bool all = true;
  ronde_tensor_dims(x, dims);
  const int64_t n = dims[0];
  for (int d = examples_at; d < p->dims.rank - 1; d++) p->dims.dim[d] = p->dims.dim[d + 1];
  p->dims.rank--;
  for (int i = 0; i < p->n; i++) {
    if (p->at[i] < 0 || p->at[i] >= n) return ronde__onnx_fail(im, node, "an index is not in its own example");
    all = all && p->at[i] == i;
  }
  if (p->dims.rank == 0) p->dims = (ronde__shape){1, {1}};
  if (!all || p->n != n) RONDE_TRY(gather_many(im, node, x, 0, p, &x));
  RONDE_TRY(name_next(im, node));
  return ronde__onnx_set_place(im, node, 0, ronde_reshape(x, p->dims.rank, p->dims.dim), &to);
}

static ronde_status gather_tensor(ronde__onnx_import *im, const ronde__onnx_node *node, bool flattens) {
  places p = {0};
  const ronde__onnx_value *given = ronde__onnx_in(im, node, 1);
  const ronde__onnx_known *strided = flattens ? NULL : strided_of(im, node);
  ronde_status status = read_places(im, node, given, strided ? strided : ronde__onnx_array(given), &p);
  if (status == RONDE_OK)
    status = strided ? gather_strided(im, node, &p, strided->examples_at) : gather_from(im, node, flattens, &p);
  ronde__free(p.at);
  return status;
}

ronde_status ronde__onnx_gather_tensor(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return gather_tensor(im, node, false);
}

ronde_status ronde__onnx_op_gather_nd(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return gather_tensor(im, node, true);
}

/* ---- padding ---- */

static ronde_status pad(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor *x,
                        const ronde__onnx_place *place, const int64_t *before, const int64_t *after,
                        ronde_pad_mode mode, double value) {
  RONDE_TRY(name_next(im, node));
  return ronde__onnx_set_place(im, node, 0, ronde_pad(x, before, after, mode, (float)value), place);
}

/* As many as twice the axes: more than other lists have. */
static ronde_status read_pads(ronde__onnx_import *im, const ronde__onnx_node *node, int64_t *pads, int max,
                              int *n_out) {
  size_t n;
  const int64_t *given = ronde__onnx_attr_ints(node, "pads", &n);
  const ronde__onnx_value *value = ronde__onnx_in(im, node, 1);
  *n_out = (int)ronde__min((int64_t)n, max + 1);
  if (given && *n_out <= max) memcpy(pads, given, n * sizeof *given);
  if (given) return RONDE_OK;
  if (value && value->kind == RONDE__ONNX_SIZES) {
    memcpy(pads, value->size, (size_t)value->n * sizeof *pads);
    return *n_out = value->n, RONDE_OK;
  }
  if (value && value->kind == RONDE__ONNX_CONSTANT && ronde__onnx_read_integers(value->constant, max, pads, n_out))
    return RONDE_OK;
  return ronde__onnx_fail(im, node, "its pads do not follow from the file alone");
}

static ronde_status read_mode(const ronde__onnx_import *im, const ronde__onnx_node *node, ronde_pad_mode *mode_out) {
  static const char *const words[] = {"constant", "edge", "reflect", "wrap"};
  for (int i = 0; i < 4; i++)
    if (ronde__onnx_attr_is(node, "mode", "constant", words[i])) return *mode_out = (ronde_pad_mode)i, RONDE_OK;
  return ronde__onnx_fail(im, node, "its mode is unknown");
}

/* Pads, value and axes are inputs since opset 11, and attributes before. */
ronde_status ronde__onnx_op_pad(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  ronde__onnx_value axes;
  int64_t dims[RONDE_MAX_RANK], before[RONDE_MAX_RANK] = {0}, after[RONDE_MAX_RANK] = {0};
  int of[2 * RONDE__ONNX_MAX_SIZES];
  double value;
  ronde_pad_mode mode = RONDE_PAD_VALUE;
  bool has_axes = ronde__onnx_in(im, node, 3) != NULL;
  int64_t pads[2 * RONDE__ONNX_MAX_SIZES];
  int n_pads;
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &x, &place));
  RONDE_TRY(read_pads(im, node, pads, 2 * RONDE__ONNX_MAX_SIZES, &n_pads));
  RONDE_TRY(ronde__onnx_in_number(im, node, 2, ronde__onnx_attr_float(node, "value", 0), &value));
  RONDE_TRY(read_mode(im, node, &mode));
  if (has_axes) RONDE_TRY(ronde__onnx_in_sizes(im, node, 3, &axes));
  ronde_tensor_dims(x, dims);
  int n = n_pads / 2;
  if (n_pads % 2 || n > RONDE__ONNX_MAX_SIZES || n != (has_axes ? axes.n : place.rank))
    return ronde__onnx_fail(im, node, "its pads are not two for each axis");
  RONDE_TRY(dims_of_axes(im, node, has_axes ? &axes : NULL, n, &place, of));
  for (int i = 0; i < n; i++) {
    if (of[i] >= 0) before[of[i]] = pads[i], after[of[i]] = pads[n + i];
    else if (pads[i] || pads[n + i]) return ronde__onnx_fail(im, node, "it pads the batch");
  }
  return pad(im, node, x, &place, before, after, mode, value);
}

/* To given sizes, in the middle: an odd element more or less is behind. */
ronde_status ronde__onnx_op_center_crop_pad(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  ronde__onnx_value to, axes = {.kind = RONDE__ONNX_SIZES};
  int64_t dims[RONDE_MAX_RANK], before[RONDE_MAX_RANK] = {0}, after[RONDE_MAX_RANK] = {0};
  int of[RONDE__ONNX_MAX_SIZES];
  size_t n;
  const int64_t *given = ronde__onnx_attr_ints(node, "axes", &n);
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &x, &place));
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 1, &to));
  ronde_tensor_dims(x, dims);
  if (to.n != (given ? (int)n : place.rank) || (given && n > RONDE__ONNX_MAX_SIZES))
    return ronde__onnx_fail(im, node, "it has not one size for each axis");
  if (given) memcpy(axes.size, given, n * sizeof *given);
  RONDE_TRY(dims_of_axes(im, node, given ? &axes : NULL, to.n, &place, of));
  for (int i = 0; i < to.n; i++) {
    if (of[i] < 0 && to.size[i] != RONDE__ONNX_BATCH) return ronde__onnx_fail(im, node, "it cuts or pads the batch");
    if (of[i] < 0) continue;
    if (to.size[i] < 1 || to.size[i] > INT32_MAX) return ronde__onnx_fail(im, node, "a size is impossible");
    int64_t more = to.size[i] - dims[of[i]];
    before[of[i]] = more / 2;
    after[of[i]] = more - more / 2;
  }
  return pad(im, node, x, &place, before, after, RONDE_PAD_VALUE, 0);
}

/* ---- repeating ---- */

ronde_status ronde__onnx_op_tile(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  ronde__onnx_value times;
  int64_t dims[RONDE_MAX_RANK], none[RONDE_MAX_RANK] = {0}, after[RONDE_MAX_RANK] = {0};
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &x, &place));
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 1, &times));
  ronde_tensor_dims(x, dims);
  bool has_batch = place.at != RONDE__ONNX_ALIKE;
  if (times.n != place.rank || (has_batch && times.size[place.at] != 1))
    return ronde__onnx_fail(im, node, "it repeats the batch, or has not one number for each axis");
  for (int axis = 0; axis < place.rank; axis++) {
    int d = ronde__onnx_dim_at(&place, axis);
    if (d < 0) continue;
    int64_t n = times.size[axis];
    if (n < 1 || n > INT32_MAX / dims[d]) return ronde__onnx_fail(im, node, "a number of times is impossible");
    after[d] = (n - 1) * dims[d];
  }
  return pad(im, node, x, &place, none, after, RONDE_PAD_WRAP, 0);
}

/* Whether a size of an expansion leaves the batch, once or several times, as it is. */
static bool keeps_batches(const ronde__onnx_import *im, int64_t size, int64_t k) {
  return size == 1 || size == RONDE__ONNX_BATCHES(k) || (im->file->batch && size == im->file->batch * k);
}

/* Dimensions of 1 become larger; new ones come in front. What is alike in all examples gets their dimension. */
ronde_status ronde__onnx_expand_tensor(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0}, to = {0};
  ronde__onnx_value wanted, own;
  int64_t none[RONDE_MAX_RANK] = {0}, after[RONDE_MAX_RANK] = {0};
  ronde__shape has = {0}, shape = {0};
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &x, &place));
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 1, &wanted));
  ronde__onnx_sizes_of(x, &place, &own);
  has.rank = ronde_tensor_dims(x, has.dim);
  to = place;
  to.rank = wanted.n > own.n ? wanted.n : own.n;
  if (place.at != RONDE__ONNX_ALIKE) to.at += to.rank - place.rank;
  for (int axis = 0; axis < to.rank; axis++) {
    int from = axis - (to.rank - own.n), at = axis - (to.rank - wanted.n);
    int64_t size = at >= 0 ? wanted.size[at] : 1, is = from >= 0 ? own.size[from] : 1, k = ronde__onnx_batches(is);
    bool right = k ? keeps_batches(im, size, k) : size == 1 || size == is || (is == 1 && size != 0);
    if (k == 1 && right) continue;
    if (!k && is == 1 && place.at == RONDE__ONNX_ALIKE && to.at == RONDE__ONNX_ALIKE && size == RONDE__ONNX_BATCH) {
      to.at = axis;
      continue;
    }
    if (!right || (!k && (size < 1 || size > INT32_MAX)) || shape.rank == RONDE_MAX_RANK)
      return ronde__onnx_fail(im, node, "dimension %d cannot be expanded so", axis);
    after[shape.rank] = !k && is == 1 ? size - 1 : 0;
    shape.dim[shape.rank++] = k ? k : is;
  }
  if (shape.rank == 0) return ronde__onnx_fail(im, node, "nothing of an example is left");
  if (!ronde__shape_equal(&has, &shape)) x = ronde_reshape(x, shape.rank, shape.dim);
  return pad(im, node, x, &to, none, after, RONDE_PAD_EDGE, 0);
}

/* ---- depth and space ---- */

static ronde_status turn(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor *x, int lead,
                         const int64_t split[6], const int order[6], const int64_t *to) {
  int64_t dims[RONDE_MAX_RANK];
  int own[RONDE_MAX_RANK], n = 6 - lead;
  for (int d = 0; d < n; d++) dims[d] = split[d + lead], own[d] = order[d + lead] - lead;
  x = ronde_transpose(ronde_reshape(x, n, dims), own);
  RONDE_TRY(name_next(im, node));
  return ronde__onnx_set(im, node, 0, ronde_reshape(x, 4 - lead, to + lead));
}

static ronde_status read_image(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor **x_out,
                               int64_t d[4], int64_t *block_out) {
  int64_t dims[RONDE_MAX_RANK];
  int lead = im->file->lead;
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, x_out));
  *block_out = ronde__onnx_attr_int(node, "blocksize", 0);
  if (ronde_tensor_dims(*x_out, dims) + lead != 4 || *block_out < 1 || *block_out > INT16_MAX)
    return ronde__onnx_fail(im, node, "its input has not 4 dimensions, or its blocksize is impossible");
  d[0] = 1;
  for (int i = lead; i < 4; i++) d[i] = dims[i - lead];
  return RONDE_OK;
}

ronde_status ronde__onnx_op_depth_to_space(ronde__onnx_import *im, const ronde__onnx_node *node) {
  static const int depth_first[] = {0, 3, 4, 1, 5, 2}, column_first[] = {0, 1, 4, 2, 5, 3};
  const ronde_tensor *x;
  int64_t d[4], b;
  RONDE_TRY(read_image(im, node, &x, d, &b));
  if (d[1] % (b * b)) return ronde__onnx_fail(im, node, "its blocks do not divide the channels");
  bool column = ronde__onnx_attr_is(node, "mode", "DCR", "CRD");
  const int64_t c = d[1] / b / b, to[] = {d[0], c, d[2] * b, d[3] * b};
  const int64_t dcr[] = {d[0], b, b, c, d[2], d[3]}, crd[] = {d[0], c, b, b, d[2], d[3]};
  return turn(im, node, x, im->file->lead, column ? crd : dcr, column ? column_first : depth_first, to);
}

ronde_status ronde__onnx_op_space_to_depth(ronde__onnx_import *im, const ronde__onnx_node *node) {
  static const int depth_first[] = {0, 3, 5, 1, 2, 4}, channel_first[] = {0, 1, 3, 5, 2, 4};
  const ronde_tensor *x;
  int64_t d[4], b;
  RONDE_TRY(read_image(im, node, &x, d, &b));
  if (d[2] % b || d[3] % b) return ronde__onnx_fail(im, node, "its blocks do not divide height and width");
  bool channel = ronde__onnx_attr_is(node, "mode", "DCR", "CRD");
  const int64_t split[] = {d[0], d[1], d[2] / b, b, d[3] / b, b}, to[] = {d[0], d[1] * b * b, d[2] / b, d[3] / b};
  return turn(im, node, x, im->file->lead, split, channel ? channel_first : depth_first, to);
}
