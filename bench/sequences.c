/* Ops of sequences by themselves: forward and backward of one call after another on random operands, on one thread.
 * bench/sequences.py builds it, and runs it beside PyTorch.
 *
 *   sequences lstm N T F H | gru N T F H | attention N T F HEADS [causal]
 *
 * Then each line "go K" on standard input makes K calls, and answers with their seconds. Built against the library's own
 * headers, because an op alone is no network. */
#include "ops/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct bench {
  const ronde__op *op;
  ronde__op_desc desc;
  ronde__shape in, out[RONDE__OP_MAX_OUTPUTS];
  ronde__op_call call;
  float *gradient; /* of the first output, which a call may overwrite */
  size_t n_out;
  void *state;
} bench;

static void check(bool good, const char *what) {
  if (good) return;
  fprintf(stderr, "sequences: %s\n", what);
  exit(1);
}

static float *values(size_t n, float scale) {
  static uint32_t seed = 1;
  float *x = aligned_alloc(64, (n + 15) / 16 * 64);
  check(x != NULL, "no memory");
  for (size_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = ((float)(seed >> 8) / (float)(1 << 23) - 1) * scale;
  }
  return x;
}

static void describe(bench *b, int kind, ronde__cell_kind cell, int64_t n, int64_t t, int64_t f, int64_t by,
                     bool causal) {
  const char *label = "x";
  ronde__param_spec specs[RONDE__OP_MAX_PARAMS];
  ronde__op_desc *d = &b->desc;
  b->op = ronde__ops[kind];
  b->in = (ronde__shape){2, {t, kind == RONDE__OP_ATTENTION ? 3 * f : f}};
  *d = (ronde__op_desc){
      .attr = {.out_channels = by, .heads = (int)by, .causal = causal, .cell = cell, .bias = true, .n_inputs = 1},
      .n_inputs = 1,
      .in = {ronde__phys_of_shape(&b->in, n)},
      .need_dinput = {true},
      .compute = {.kernels = ronde__kernels_available(0)},
      .threads = 1};
  check(ronde__gemm_default(d->compute.kernels, &d->compute.gemm) == RONDE_OK, "no GEMM");
  check(b->op->infer(&d->attr, "op", &b->in, &label, b->out) == RONDE_OK, "the shape is refused");
  d->n_outputs = b->op->outputs ? b->op->outputs(&d->attr) : 1;
  d->n_params = b->op->params ? b->op->params(&d->attr, &b->in, specs) : 0;
  b->op->layouts(d, &b->in, b->out);
  check(ronde__form_choose(b->op, d) == RONDE_OK && d->form->prepare(d, &b->state) == RONDE_OK, "no form");
}

static size_t more(const size_t a, const size_t b) { return a > b ? a : b; }

static void allocate(bench *b) {
  const ronde__op_desc *d = &b->desc;
  const ronde__form *form = d->form;
  ronde__op_call *c = &b->call;
  *c = (ronde__op_call){.training = true};
  check(ronde__pool_create(1, &c->pool) == RONDE_OK, "no thread pool");
  c->in[0] = values((size_t)ronde__phys_elems(&d->in[0]), 1);
  c->din[0] = values((size_t)ronde__phys_elems(&d->in[0]), 1);
  for (int i = 0; i < d->n_outputs; i++) c->out[i] = values((size_t)ronde__phys_elems(&d->out[i]), 1);
  b->n_out = (size_t)ronde__phys_elems(&d->out[0]);
  b->gradient = values(b->n_out, 1);
  c->dout[0] = values(b->n_out, 1);
  for (int i = 0; i < d->n_params; i++) {
    c->param[i] = values((size_t)ronde__weight_elems(&d->param[i]), 0.05f);
    c->dparam[i] = values((size_t)ronde__weight_elems(&d->param[i]), 1);
  }
  c->saved = values(form->saved_elems ? form->saved_elems(d, b->state) : 0, 1);
  c->work = values(more(form->work_elems(d, b->state, false), form->work_elems(d, b->state, true)), 1);
}

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The gradient that a call may overwrite is copied outside of what is timed. */
static void run(bench *b, long n) {
  double forward = 0, backward = 0;
  for (long i = 0; i < n; i++) {
    memcpy(b->call.dout[0], b->gradient, b->n_out * sizeof(float));
    double begin = now_s();
    check(b->desc.form->forward(&b->desc, b->state, &b->call) == RONDE_OK, "forward failed");
    double middle = now_s();
    check(b->desc.form->backward(&b->desc, b->state, &b->call) == RONDE_OK, "backward failed");
    forward += middle - begin;
    backward += now_s() - middle;
  }
  printf("{\"seconds\": %.9g, \"forward\": %.9g}\n", forward + backward, forward);
  fflush(stdout);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    int kind;
    ronde__cell_kind cell;
  } ops[] = {{"lstm", RONDE__OP_LSTM, RONDE__CELL_LSTM},
             {"gru", RONDE__OP_GRU, RONDE__CELL_GRU},
             {"gru-reset-first", RONDE__OP_GRU, RONDE__CELL_GRU_RESET_FIRST},
             {"rnn", RONDE__OP_RNN, RONDE__CELL_TANH},
             {"attention", RONDE__OP_ATTENTION}};
  check(argc >= 6, "usage: sequences lstm|gru|gru-reset-first|rnn|attention N T F H|HEADS [causal]");
  bench b = {0};
  for (size_t i = 0; i < RONDE__COUNT(ops); i++)
    if (!strcmp(argv[1], ops[i].name))
      describe(&b, ops[i].kind, ops[i].cell, atol(argv[2]), atol(argv[3]), atol(argv[4]), atol(argv[5]), argc > 6);
  check(b.op != NULL, "no such op");
  allocate(&b);
  double flops = b.desc.form->executed_flops(&b.desc, b.state, false),
         back = b.desc.form->executed_flops(&b.desc, b.state, true);
  printf("{\"forward_flops\": %.9g, \"backward_flops\": %.9g}\n", flops, back);
  fflush(stdout);
  for (long n; scanf(" go %ld", &n) == 1;) run(&b, n);
  return 0;
}
