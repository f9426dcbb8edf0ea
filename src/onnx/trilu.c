/* The operator Trilu: one side of matrices, and zeros on the other. Of an array that the file gives it is an array, as causal
 * masks are. */
#include "onnx/import.h"

/* 1 where an element stays, of matrices in dims [rank], else 0; NULL: they are too large. */
static ronde__onnx_known *make_kept(ronde__onnx_import *im, const ronde__onnx_node *node, double k, int rank,
                                    const int64_t *dims) {
  const bool upper = ronde__onnx_attr_int(node, "upper", 1) != 0;
  ronde__onnx_known *kept = ronde__onnx_make_known(im, rank, dims);
  for (int64_t i = 0; kept && i < kept->n; i++) {
    const double right = (double)(i % dims[rank - 1]) - (double)(i / dims[rank - 1] % dims[rank - 2]);
    kept->values[i] = upper ? right >= k : right <= k;
  }
  return kept;
}

static ronde_status of_array(ronde__onnx_import *im, const ronde__onnx_node *node, double k,
                             const ronde__onnx_known *x) {
  ronde__onnx_known *y = make_kept(im, node, k, x->rank, x->dim);
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0);
  if (!y) return ronde__onnx_fail(im, node, "its input is too large");
  for (int64_t i = 0; i < y->n; i++) y->values[i] = y->values[i] != 0 ? x->values[i] : 0;
  y->integers = x->integers;
  if (out) *out = (ronde__onnx_value){.kind = RONDE__ONNX_KNOWN, .known = y};
  return RONDE_OK;
}

static ronde_status of_tensor(ronde__onnx_import *im, const ronde__onnx_node *node, double k) {
  const ronde_tensor *x, *mask;
  ronde__onnx_place place = {0};
  int64_t dims[RONDE_MAX_RANK];
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &x, &place));
  const int rank = ronde_tensor_dims(x, dims);
  if (rank < 2 || place.at >= place.rank - 2)
    return ronde__onnx_fail(im, node, "the batch is in its matrices, or they have not two dimensions");
  const ronde__onnx_known *kept = make_kept(im, node, k, 2, dims + rank - 2);
  const ronde__onnx_place matrix = {rank, RONDE__ONNX_ALIKE, RONDE__ONNX_ALONE, 0};
  if (!kept) return ronde__onnx_fail(im, node, "its matrices are too large");
  RONDE_TRY(ronde__onnx_fixed_operand(im, node, ".kept", kept, &matrix, &mask));
  RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0));
  return ronde__onnx_set_place(im, node, 0, ronde_multiply(x, mask), &place);
}

ronde_status ronde__onnx_op_trilu(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde__onnx_known *k = ronde__onnx_known_of(im, ronde__onnx_in(im, node, 1)),
                          *x = ronde__onnx_known_of(im, ronde__onnx_in(im, node, 0));
  if (ronde__onnx_in(im, node, 1) && !(k && k->integers && k->n == 1))
    return ronde__onnx_fail(im, node, "its diagonal is not one integer of the file");
  const double diagonal = k ? k->values[0] : 0;
  if (!x) return of_tensor(im, node, diagonal);
  return x->rank < 2 ? ronde__onnx_fail(im, node, "its input is no matrix") : of_array(im, node, diagonal, x);
}
