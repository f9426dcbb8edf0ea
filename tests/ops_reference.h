/* What an op must give at a case, by the naive references, with a bound for the rounding of f32.
 * The bound of an element is u * (4 + 2 sqrt(L)) * M: u half a unit in the last place, L the terms of its sum, M the
 * sum of the terms' magnitudes (the reference on absolute values); so it is 0 where nothing but zeros is added. */
#ifndef RONDE_OPS_REFERENCE_H
#define RONDE_OPS_REFERENCE_H

#include "base/rng.h"
#include "kernel/ref.h"
#include "lib/random.h"
#include "ops_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Logical, row-major. */
typedef struct expected {
  int64_t n;
  float *exact, *magnitude;
  double length; /* terms of the sums */
  bool rounded;  /* some of their terms are rounded to bfloat16 first */
} expected;

typedef struct reference {
  int n_inputs, n_outputs, n_params; /* inputs with data; a loss's values too */
  ronde__shape out_shape[RONDE__OP_MAX_OUTPUTS];
  float *in[RONDE__OP_MAX_INPUTS], *param[RONDE__OP_MAX_PARAMS], *dout[RONDE__OP_MAX_OUTPUTS];
  int64_t n_param[RONDE__OP_MAX_PARAMS];
  int64_t *labels;
  expected out[RONDE__OP_MAX_OUTPUTS], din[RONDE__OP_MAX_INPUTS], dparam[RONDE__OP_MAX_PARAMS];
  double loss_sum, loss_bound; /* losses */
  int64_t n_correct;
} reference;

double expected_bound(const expected *e, int64_t i);

int64_t example_elems(const op_case *c);
/* The inputs of a concatenation differ in their channels. */
int64_t input_channels(const op_case *c, int i);
ronde__phys phys_of_input(const op_case *c, int i, ronde__layout layout);
int64_t elems_of_input(const op_case *c, int i);
int64_t input_elems(const op_case *c);

static inline ronde__ref_conv window_of(const op_case *c) {
  const ronde__op_attr *a = &c->attr;
  return (ronde__ref_conv){c->n,         c->c,         c->h,         c->w,          a->out_channels, a->kernel[0],
                           a->kernel[1], a->stride[0], a->stride[1], a->padding[0], a->padding[1]};
}

/* What the harness gives every call. */
enum { CALL_SEED = 7, CALL_STEP = 3, CALL_FIRST_EXAMPLE = 11, CALL_LAYER = 5 };

void shapes_of_inputs(const op_case *c, ronde__shape shapes_out[RONDE__OP_MAX_INPUTS]);

reference reference_make(const op_case *c);

void reference_free(reference *r);

#endif
