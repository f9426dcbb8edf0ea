/* Between known.c, which says which nodes are evaluated, and the operators on arrays that it calls. A function that returns NULL gives it up: the
 * file asks for what there is not, or for more memory than a building gets; the node is then refused by its operator. Arrays
 * belong to the building. */
#ifndef RONDE_KNOWN_H
#define RONDE_KNOWN_H

#include "onnx/import.h"

typedef ronde__onnx_known known;

/* Of one array: a file does not get memory for what it merely claims. */
enum { MAX_ELEMS = 1 << 20, MAX_RANK = RONDE__ONNX_MAX_SIZES };
/* A number that stands for "to the end" in a file may be larger; it still lies behind every end. */
#define RONDE__KNOWN_FAR (INT64_C(1) << 53)

/* ---- known_array.c ---- */

/* Its values are not set. */
known *ronde__known_make(ronde__onnx_import *im, int rank, const int64_t *dims, bool integers);
/* As the file's types have it: f32, or integers that doubles hold. */
double ronde__known_rounded(double value, bool integers);
void ronde__known_steps_of(const known *array, int64_t step_out[MAX_RANK]);
/* Where indices [k] into its first dimensions are, which may count from the end; -1: nowhere. */
int64_t ronde__known_place(const known *array, const int64_t *step, const double *index, int64_t k);
/* Elements in the steps of `step` over the dims of `to`, which begin at `first`. */
void ronde__known_copy_steps(const known *from, int64_t first, const int64_t *step, known *to);
/* The array with the dims of a larger one, as in arithmetic. */
const known *ronde__known_spread(ronde__onnx_import *im, const known *array, int rank, const int64_t *dims);

/* ---- known_shapes.c ---- */

/* In dims `to`, one of which may be -1, and those of 0 are as before. */
known *ronde__known_reshape(ronde__onnx_import *im, const ronde__onnx_node *node, const known *x, const known *to);
known *ronde__known_transpose(ronde__onnx_import *im, const ronde__onnx_node *node, const known *x);
/* Dimensions of 1 come, or go away, at the axes of the list, or of the attribute of older opsets. */
known *ronde__known_squeeze(ronde__onnx_import *im, const ronde__onnx_node *node, const known *x, const known *list,
                            bool away);
/* Not to fewer elements than there are: sizes of 1 leave a dimension as it is. */
const known *ronde__known_expand(ronde__onnx_import *im, const known *x, const known *to);
/* in: x, starts, ends, axes and steps. */
known *ronde__known_slice(ronde__onnx_import *im, const known *const *in);
known *ronde__known_gather(ronde__onnx_import *im, const ronde__onnx_node *node, const known *x, const known *at);
/* Slices at indices [...,K] into the first K dimensions. */
known *ronde__known_gather_nd(ronde__onnx_import *im, const ronde__onnx_node *node, const known *x, const known *at);
/* Elements at indices of one dimension, which have as many dimensions as x. */
known *ronde__known_gather_elements(ronde__onnx_import *im, const ronde__onnx_node *node, const known *x,
                                    const known *at);
/* Running sums along the axis, a number. */
known *ronde__known_running_sums(ronde__onnx_import *im, const ronde__onnx_node *node, const known *x,
                                 const known *axis);
/* Of all inputs. */
known *ronde__known_concat(ronde__onnx_import *im, const ronde__onnx_node *node, const known *const *in);

#endif
