/* Splits flat arrays over the pool, at multiples of the quantum; and what ops share that read lengths. */
#ifndef RONDE_ELEMENTWISE_H
#define RONDE_ELEMENTWISE_H

#include "ops/op.h"

typedef void (*ronde__range_fn)(const ronde__op_desc *desc, const ronde__op_call *call, int64_t begin, int64_t n);
void ronde__elementwise_run(const ronde__op_desc *desc, const ronde__op_call *call, int64_t n, ronde__range_fn fn);
/* Ops of one input, a function of each element: y = f(x), and dx (+)= dy times its slope, which follows from `of`. Values
 * of bfloat16 come and go as f32, a stretch at a time. */
typedef void (*ronde__unary_fn)(const ronde__op_desc *desc, const float *x, float *y, int64_t n);
typedef void (*ronde__unary_back_fn)(const ronde__op_desc *desc, const float *dy, const float *of, float *dx, int64_t n,
                                     bool accumulate);
void ronde__unary_forward(const ronde__op_desc *desc, const ronde__op_call *call, ronde__unary_fn fn);
/* phys: of `of`, which is the input or the output. */
void ronde__unary_backward(const ronde__op_desc *desc, const ronde__op_call *call, const ronde__phys *phys,
                           const float *of, ronde__unary_back_fn fn);
/* dst (+)= src, [n] */
void ronde__gradient_add(const ronde__op_desc *desc, const float *src, float *dst, int64_t n, bool accumulate);
/* The same of at most RONDE__STRETCH elements, from element `at` of dst on, which is an operand in the format of phys. */
void ronde__operand_add(const ronde__op_desc *desc, const ronde__phys *phys, const float *src, float *dst, int64_t at,
                        int64_t n, bool accumulate);
/* The same of n elements of two values in the format of phys, from these places on. */
void ronde__value_add(const ronde__op_desc *desc, const ronde__phys *phys, const float *src, int64_t from, float *dst,
                      int64_t to, int64_t n, bool accumulate);

/* Of example n: how many of `most` rows there are, as the last input says of ops with lengths (op.h); else all. */
int64_t ronde__rows_there(const ronde__op_desc *desc, const ronde__op_call *call, int64_t n, int64_t most);
/* x [n] becomes exp(x) by the sum of all of them. */
void ronde__softmax(float *x, int64_t n);
/* Lengths have no gradient: it is zero. */
void ronde__lengths_backward(const ronde__op_desc *desc, const ronde__op_call *call);

/* Shape rule and layouts of ops whose output lies as their first input. */
ronde_status ronde__elementwise_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                      const char *const *in_labels, ronde__shape *out);
void ronde__elementwise_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out);
/* The same of ops of two inputs of equal shapes. */
ronde_status ronde__elementwise_infer_pair(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                           const char *const *in_labels, ronde__shape *out);
/* Of two inputs that are alike; BLOCKS where one of them is. */
void ronde__elementwise_layouts_pair(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out);
/* Sets the padded channels to zero, where a function of 0 is not 0. */
void ronde__elementwise_clear_padding(const ronde__phys *phys, float *x);
/* The same of rows [begin, end) of the last block, by a thread of several. */
void ronde__clear_padding_of_rows(const ronde__phys *phys, float *x, int64_t begin, int64_t end);
const char *ronde__elementwise_implementation(const ronde__op_desc *desc, const void *state);

#endif
