/* What an op must give at a case, by the naive references, with a bound for the rounding of f32.
 * The bound of an element is u * (4 + 2 sqrt(L)) * M: u half a unit in the last place, L the terms of its sum, M the
 * sum of the terms' magnitudes (the reference on absolute values); so it is 0 where nothing but zeros is added. */
#ifndef RONDE_OPS_REFERENCE_H
#define RONDE_OPS_REFERENCE_H

#include "base/rng.h"
#include "kernel/ref.h"
#include "lib/random.h"
#include "lib/window.h"
#include "ops_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Logical, row-major. */
typedef struct expected {
  int64_t n;
  float *exact, *magnitude;
  double length; /* terms of the sums */
  int rounded;   /* some of their terms are rounded to bfloat16 first, so many times one behind the other */
} expected;

typedef struct reference {
  int n_inputs, n_outputs, n_params; /* inputs with data; a loss's values too */
  ronde__shape out_shape[RONDE__OP_MAX_OUTPUTS];
  float *in[RONDE__OP_MAX_INPUTS], *param[RONDE__OP_MAX_PARAMS], *dout[RONDE__OP_MAX_OUTPUTS];
  int64_t n_param[RONDE__OP_MAX_PARAMS];
  int64_t *labels, n_classes;
  expected out[RONDE__OP_MAX_OUTPUTS], din[RONDE__OP_MAX_INPUTS], dparam[RONDE__OP_MAX_PARAMS];
  double loss_sum, loss_bound; /* losses */
  int64_t n_correct;
} reference;

double expected_bound(const expected *e, int64_t i);
expected expected_make(int64_t n, double length);
/* The first output, and its gradient. */
void make_output(const op_case *c, reference *r, ronde__shape shape, double length);
void make_params(reference *r, int64_t n_weight, int64_t n_bias, double fan_in, double length);
float *magnitudes_of(const float *x, int64_t n); /* to be freed */
ronde__shape shape_of_input(const op_case *c, int i);

int64_t example_elems(const op_case *c);
/* The inputs of a concatenation differ in their channels. */
int64_t input_channels(const op_case *c, int i);
ronde__phys phys_of_input(const op_case *c, int i, ronde__layout layout);
int64_t elems_of_input(const op_case *c, int i);
int64_t input_elems(const op_case *c);

static inline ronde__ref_conv window_of(const op_case *c) { return window_of_attr(&c->attr, c->n, c->c, c->h, c->w); }

/* What the harness gives every call. */
enum { CALL_SEED = 7, CALL_STEP = 3, CALL_FIRST_EXAMPLE = 11, CALL_LAYER = 5 };
#define CALL_LABEL_WEIGHT 0.375 /* of losses that have more labels than examples */

void shapes_of_inputs(const op_case *c, ronde__shape shapes_out[RONDE__OP_MAX_INPUTS]);

reference reference_make(const op_case *c);

void reference_free(reference *r);

#endif
