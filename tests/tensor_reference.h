/* Naive references of arithmetic, reductions and moves. */
#ifndef RONDE_TENSOR_REFERENCE_H
#define RONDE_TENSOR_REFERENCE_H

#include "ops_reference.h"

void pair_reference(const op_case *c, reference *r);
void function_reference(const op_case *c, reference *r);
void reduce_reference(const op_case *c, reference *r);
void transpose_reference(const op_case *c, reference *r);
void channel_shuffle_reference(const op_case *c, reference *r);
void slice_reference(const op_case *c, reference *r);
void parameter_reference(const op_case *c, reference *r);
void matmul_reference(const op_case *c, reference *r);

#endif
