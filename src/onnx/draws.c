/* Dropout that a file makes of random numbers, as PyTorch's exporters write Dropout2d and stochastic depth: numbers from 0 to 1
 * that are less than p, or whose sum with p is rounded down, are 1 with probability p, and x is multiplied by them and by 1 / p.
 * They are drawn for each example anew, and there is one for a whole channel, or for the whole example, where they have 1 for
 * its dimensions. In training and in evaluation it is Ronde's own dropout then, which leaves x as it is in evaluation. */
#include "onnx/import.h"

#include <math.h>
#include <string.h>

typedef ronde__onnx_value value;

static ronde_status set(ronde__onnx_import *im, const ronde__onnx_node *node, const value *v) {
  value *out = ronde__onnx_out(im, node, 0);
  if (out) *out = *v;
  return RONDE_OK;
}

static ronde_status refuse(const ronde__onnx_import *im, const ronde__onnx_node *node) {
  return ronde__onnx_fail(im, node,
                          "of random numbers only dropout is supported: less than a probability, or rounded down "
                          "with it, and multiplied with");
}

/* ---- drawing ---- */

static ronde_status set_uniform(ronde__onnx_import *im, const ronde__onnx_node *node, value *sizes) {
  if (ronde__onnx_attr_float(node, "low", 0) != 0 || ronde__onnx_attr_float(node, "high", 1) != 1)
    return ronde__onnx_fail(im, node, "only numbers from 0 to 1 are supported");
  sizes->kind = RONDE__ONNX_DRAWS;
  sizes->draw = RONDE__ONNX_UNIFORM;
  sizes->number = 1;
  return set(im, node, sizes);
}

/* The sizes of input 0; false: they are not known. */
static bool sizes_like(const ronde__onnx_import *im, const ronde__onnx_node *node, value *sizes_out) {
  const value *in = ronde__onnx_in(im, node, 0);
  const ronde__onnx_place place = ronde__onnx_place_of(in);
  *sizes_out = (value){.kind = RONDE__ONNX_SIZES};
  if (RONDE__ONNX_IS(in, TENSOR) && in->order == RONDE__ONNX_AS_EVER) ronde__onnx_sizes_of(in->x, &place, sizes_out);
  else if (RONDE__ONNX_IS(in, NUMBER)) {
    sizes_out->n = in->n;
    memcpy(sizes_out->size, in->size, sizeof in->size);
  } else if (RONDE__ONNX_IS(in, KNOWN)) {
    sizes_out->n = in->known->rank;
    memcpy(sizes_out->size, in->known->dim, (size_t)in->known->rank * sizeof *in->size);
  }
  return sizes_out->n > 0;
}

ronde_status ronde__onnx_op_random_uniform_like(ronde__onnx_import *im, const ronde__onnx_node *node) {
  value sizes;
  if (!sizes_like(im, node, &sizes)) return ronde__onnx_fail(im, node, "its sizes do not follow from the file alone");
  return set_uniform(im, node, &sizes);
}

/* What is kept: 1 with probability keep, times a number. */
static ronde_status set_kept(ronde__onnx_import *im, const ronde__onnx_node *node, const value *sizes, double keep,
                             double times) {
  value kept = *sizes;
  if (!(keep > 0 && keep <= 1)) return ronde__onnx_fail(im, node, "%g is no probability to keep something", keep);
  kept.kind = RONDE__ONNX_DRAWS;
  kept.draw = RONDE__ONNX_KEPT;
  kept.keep = keep;
  kept.number = times;
  return set(im, node, &kept);
}

/* Of probabilities that are all alike. */
ronde_status ronde__onnx_op_bernoulli(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const value *in = ronde__onnx_in(im, node, 0);
  const ronde__onnx_known *array = ronde__onnx_array(in);
  bool alike = array && array->n && ronde__onnx_is_alike(array, array->values[0]);
  value sizes;
  if (!(RONDE__ONNX_IS(in, NUMBER) || alike) || !sizes_like(im, node, &sizes))
    return ronde__onnx_fail(im, node, "its probabilities are not one number that the file gives");
  return set_kept(im, node, &sizes, alike ? array->values[0] : in->number, 1);
}

ronde_status ronde__onnx_drop_number(ronde__onnx_import *im, const ronde__onnx_node *node, double ratio) {
  const value *in = ronde__onnx_in(im, node, 0);
  return set_kept(im, node, in, 1 - ratio, in->number / (1 - ratio));
}

/* ---- what is made of them ---- */

/* Numbers < p, or p > numbers. */
static ronde_status compare(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const int own = !strcmp(node->proto->op_type, "Greater");
  const value *v = ronde__onnx_in(im, node, own);
  double p;
  if (!RONDE__ONNX_IS(v, DRAWS) || v->draw != RONDE__ONNX_UNIFORM || !ronde__onnx_is_number(im, node, 1 - own, &p))
    return refuse(im, node);
  return set_kept(im, node, v, p, 1);
}

/* A uniform one and its probability; a Floor makes of them what is kept. */
static ronde_status raise(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const int own = RONDE__ONNX_IS(ronde__onnx_in(im, node, 0), DRAWS) ? 0 : 1;
  const value *v = ronde__onnx_in(im, node, own);
  value sum = *v;
  if (v->draw != RONDE__ONNX_UNIFORM || node->n_in != 2 || !ronde__onnx_is_number(im, node, 1 - own, &sum.keep))
    return refuse(im, node);
  sum.draw = RONDE__ONNX_RAISED;
  return set(im, node, &sum);
}

static ronde_status round_down(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const value *v = ronde__onnx_in(im, node, 0);
  return v->draw == RONDE__ONNX_RAISED ? set_kept(im, node, v, v->keep, 1) : refuse(im, node);
}

static ronde_status cast(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const value *v = ronde__onnx_in(im, node, 0);
  if (!RONDE__ONNX_IS(v, DRAWS)) return refuse(im, node);
  return ronde__onnx_cast_to(im, node) == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT ? set(im, node, v) : refuse(im, node);
}

static ronde_status pass_on(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return set(im, node, ronde__onnx_in(im, node, 0));
}

static ronde_status divide(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const value *v = ronde__onnx_in(im, node, 0);
  double by;
  if (!RONDE__ONNX_IS(v, DRAWS) || v->draw != RONDE__ONNX_KEPT || !ronde__onnx_is_number(im, node, 1, &by) || by == 0)
    return refuse(im, node);
  return set_kept(im, node, v, v->keep, v->number / by);
}

/* How many dimensions of an example x the draws have one by one; those behind are 1. -1: they stand otherwise. */
static int dims_of(const ronde__onnx_import *im, const value *draws, const ronde_tensor *x,
                   const ronde__onnx_place *place) {
  int64_t dims[RONDE_MAX_RANK];
  int rank = ronde_tensor_dims(x, dims), n = 0;
  if (place->at != 0 || place->merged || draws->n != place->rank || rank != place->rank - 1) return -1;
  if (draws->size[0] != RONDE__ONNX_BATCH && !(im->file->batch > 1 && draws->size[0] == im->file->batch)) return -1;
  for (int d = 0; d < rank; d++) {
    if (n == d && draws->size[d + 1] == dims[d]) n++;
    else if (draws->size[d + 1] != 1) return -1;
  }
  return n;
}

static ronde_status drop(ronde__onnx_import *im, const ronde__onnx_node *node, const value *draws, int other) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  RONDE_TRY(ronde__onnx_in_place(im, node, other, &x, &place));
  const int dims = dims_of(im, draws, x, &place);
  const float times = (float)(draws->number * draws->keep);
  if (dims < 0)
    return ronde__onnx_fail(im, node,
                            "its random numbers are not drawn for each example, or each index into its first "
                            "dimensions");
  bool is_one = fabsf(times - 1) < 1e-6f;
  if (is_one) RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0));
  x = ronde_dropout_dims(x, (float)(1 - draws->keep), dims);
  if (!is_one) {
    RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0));
    x = ronde_function(x, RONDE_AFFINE, times, 0);
  }
  return ronde__onnx_set_place(im, node, 0, x, &place);
}

static ronde_status multiply(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const int own = RONDE__ONNX_IS(ronde__onnx_in(im, node, 0), DRAWS) ? 0 : 1;
  const value *v = ronde__onnx_in(im, node, own);
  double by;
  if (v->draw != RONDE__ONNX_KEPT || node->n_in != 2) return refuse(im, node);
  if (ronde__onnx_is_number(im, node, 1 - own, &by)) return set_kept(im, node, v, v->keep, v->number * by);
  return RONDE__ONNX_IS(ronde__onnx_in(im, node, 1 - own), TENSOR) ? drop(im, node, v, 1 - own) : refuse(im, node);
}

static const struct {
  const char *of;
  ronde__onnx_operator build;
} acts[] = {{"Less", compare},  {"Greater", compare},  {"Add", raise},  {"Floor", round_down}, {"Cast", cast},
            {"CastLike", cast}, {"Identity", pass_on}, {"Div", divide}, {"Mul", multiply}};

ronde_status ronde__onnx_build_draws(ronde__onnx_import *im, const ronde__onnx_node *node, bool *done_out) {
  *done_out = false;
  for (int i = 0; i < node->n_in && !*done_out; i++) {
    bool is_type = i == 1 && !strcmp(node->proto->op_type, "CastLike"); /* of which no number counts */
    *done_out = RONDE__ONNX_IS(ronde__onnx_in(im, node, i), DRAWS) && !is_type;
  }
  if (!*done_out) return RONDE_OK;
  for (size_t k = 0; k < RONDE__COUNT(acts); k++)
    if (!strcmp(acts[k].of, node->proto->op_type)) return acts[k].build(im, node);
  return refuse(im, node);
}

/* A number that is rounded down is a size, or was drawn. */
ronde_status ronde__onnx_op_floor(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return ronde__onnx_fail(im, node, "it is supported for random numbers alone");
}
