/* Inside the Winograd form of the convolution: the weight gradient, which is used where its sums are long. */
#ifndef RONDE_CONV_WINOGRAD_H
#define RONDE_CONV_WINOGRAD_H

#include "ops/conv.h"
#include "ops/winograd_rows.h"

/* Scratch: transforms of the input and of the output's gradient, products [Ib][Ob][place][bi][bo]; pair_by_pair: of one
 * pair a thread, which is mapped to its taps while it is in the second cache. */
typedef struct ronde__winograd_weight {
  ronde__winograd_rows rows;
  ronde__winograd_operand x, dy;
  int64_t group, product;
  int64_t dy_at, products_at, elems;
  bool pair_by_pair;
  ronde__gemm_pair gemm;
} ronde__winograd_weight;

void ronde__winograd_weight_create(const ronde__op_desc *desc, ronde__winograd_weight *weight);
void ronde__winograd_weight_gradient(const ronde__op_desc *desc, const ronde__winograd_weight *weight,
                                     const ronde__op_call *call);

#endif
