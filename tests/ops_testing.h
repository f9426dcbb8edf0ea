/* Runs one op at one case as a plan would: layouts, prepare, forward, backward, each operand between guard zones,
 * everything that must be written poisoned before, everything that may be gone by then poisoned too. The first finding
 * is kept as text, so that a test can also demand one. */
#ifndef RONDE_OPS_TESTING_H
#define RONDE_OPS_TESTING_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernel/bf16.h"
#include "ops_reference.h"

#include <stdio.h>

typedef struct variant {
  const ronde__op *op;
  const ronde__kernels *kernels;
  ronde__gemm_impl gemm;
  const ronde__bf16 *bf16; /* NULL: f32 */
  ronde__pool *pool;
  ronde__layout offered;
  unsigned need; /* bit i: input i needs its gradient */
  bool accumulate;
  int in_dout; /* 1 + the input whose gradient lies where the output's does; 0: none */
} variant;

typedef struct buffer {
  float *block, *at; /* NULL: no such operand */
  int64_t n;
} buffer;

typedef struct op_run {
  const op_case *c;
  const reference *ref;
  const variant *v;
  ronde__op_desc desc;
  void *state;
  ronde__op_call call;
  buffer in[RONDE__OP_MAX_INPUTS], din[RONDE__OP_MAX_INPUTS], param[RONDE__OP_MAX_PARAMS], dparam[RONDE__OP_MAX_PARAMS];
  buffer state_of[RONDE__OP_MAX_BUFFERS]; /* running statistics */
  buffer out[RONDE__OP_MAX_OUTPUTS], dout[RONDE__OP_MAX_OUTPUTS], saved, work;
  double loss_sum;
  int64_t n_correct;
  /* The gradients as backward told that they were final, each from this element on; its size: nothing was told. */
  float *heard[RONDE__OP_MAX_PARAMS];
  size_t heard_first[RONDE__OP_MAX_PARAMS];
} op_run;

extern const char *const gradient_names[RONDE__OP_MAX_PARAMS];
extern char finding[640];

/* Keeps the first finding; false. */
bool found(const op_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- memory ---- */

enum { GUARD = 64 }; /* floats on each side */

bool all_guards_hold(const op_run *run);

/* ---- layouts ---- */

/* Where the logical element i of an activation lies. */
int64_t place_of(const ronde__phys *phys, int64_t i);

/* Zeros in padded channels. */
void put_padded(const ronde__phys *phys, const float *logical, float *x);

/* What a gradient holds before it is added to. */
float start_value(int64_t i);

int64_t weight_place(const ronde__weight_layout *l, int64_t i);

/* ---- set up and release ---- */

bool op_run_open(op_run *run, const op_case *c, const reference *ref, const variant *v, const ronde__phys *out);

/* Whether the op asks for the same layouts where an earlier layout than v->offered is offered: then both are one. */
bool is_offered_in_vain(const op_case *c, const reference *ref, const variant *v);

void op_run_close(op_run *run);

/* ---- calls ---- */

void op_run_bind(op_run *run, bool backward);

/* No op of this list communicates: none can fail. */
void call_forward(op_run *run);

void op_run_forward(op_run *run);

/* The output is replaced by the reference's, so that what backward must give does not depend on forward's rounding. */
void op_run_backward(op_run *run);

/* ---- planted bugs ---- */

enum { MAX_FORMS = 12 };

/* An op whose forms are those of a sound one, but for what a test plants. */
typedef struct planted_op {
  ronde__op op;
  const ronde__op *sound;
  ronde__form forms[MAX_FORMS];
  const ronde__form *list[MAX_FORMS + 1];
} planted_op;

extern planted_op planted;

void plant(const ronde__op *sound);

/* The form in whose place the planted one stands. */
const ronde__form *sound_form(const ronde__op_desc *d);

/* ---- checks ---- */

/* Padded channels are zero. */
bool padding_holds(const op_run *run, const char *name, const ronde__phys *phys, const float *x);

bool backward_holds(op_run *run);

/* One case in one variant; false where something was found. bits_out: of all results. */
bool op_run_check(const op_case *c, const reference *ref, const variant *v, const ronde__phys *out, uint64_t *bits_out);

#endif
