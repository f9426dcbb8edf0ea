/* Concatenation along the first dimension: channels of images, features of vectors. All inputs come in the layout of the
 * output, so that it is copying runs: of whole inputs (ROWS, an example at a time), of planes (LANES), or of the channels
 * that lie in one block on both sides (BLOCKS). */
#include "ops/elementwise.h"
#include "ops/gemm_list.h"

#include <string.h>

static ronde_status infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                          const char *const *in_labels, ronde__shape *out) {
  *out = in[0];
  for (int i = 1; i < attr->n_inputs; i++) {
    bool fits = in[i].rank == in[0].rank && (in[0].rank == 1 || in[0].rank == 3);
    for (int d = 1; fits && d < in[0].rank; d++) fits = in[i].dim[d] == in[0].dim[d];
    if (!fits) {
      char a[96], b[96];
      ronde__shape_text(&in[0], a, sizeof a);
      ronde__shape_text(&in[i], b, sizeof b);
      return ronde__fail(RONDE_E_USAGE, "%s: %s gives %s and %s gives %s: they must agree but in the first dimension",
                         label, in_labels[0], a, in_labels[i], b);
    }
    out->dim[0] += in[i].dim[0];
  }
  return RONDE_OK;
}

/* BLOCKS where any input has it, so that nothing comes back from it; else LANES. A flattened image becomes a vector. */
static void layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  ronde__layout layout = RONDE__ROWS;
  int64_t n = desc->in[0].n, h = out->rank == 3 ? out->dim[1] : 1, w = out->rank == 3 ? out->dim[2] : 1;
  for (int i = 0; i < desc->attr.n_inputs; i++)
    if (desc->in[i].layout > layout) layout = desc->in[i].layout;
  for (int i = 0; i < desc->attr.n_inputs; i++) desc->in[i] = ronde__phys_make(layout, n, in[i].dim[0], h, w);
  desc->out[0] = ronde__phys_make(layout, n, out->dim[0], h, w);
}

/* `rows` runs of `length` floats, in steps, from an input to the output (or back). */
typedef struct run {
  int64_t in, in_step, out, out_step, rows, length;
} run;

/* Of channel c of an input whose first channel is channel `offset` of the output: the run that begins there; *next_out:
 * the channel behind it. */
static run run_at(const ronde__op_desc *desc, int input, int64_t offset, int64_t c, int64_t *next_out) {
  const ronde__phys *in = &desc->in[input], *out = &desc->out[0];
  int64_t pixels = in->h * in->w, bi = in->block, bo = out->block, to = offset + c;
  *next_out = in->c;
  switch (in->layout) {
  case RONDE__ROWS: return (run){0, in->c * pixels, offset * pixels, out->c * pixels, in->n, in->c * pixels};
  case RONDE__LANES: return (run){0, pixels * bi, offset * pixels * bo, pixels * bo, in->c, pixels * bi};
  default:
    *next_out = ronde__min(in->c, ronde__min((c / bi + 1) * bi, (to / bo + 1) * bo - offset));
    return (run){
        ronde__phys_index(in, 0, c, 0), bi, ronde__phys_index(out, 0, to, 0), bo, pixels * in->n, *next_out - c};
  }
}

typedef struct job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
  int input;
  int64_t offset;
} job;

/* The padded channels of the last block. */
static void zero_tail(const ronde__phys *phys, float *x, int thread, int n_threads) {
  int64_t rows = phys->h * phys->w * phys->n, begin, end;
  int64_t tail = phys->layout == RONDE__BLOCKS ? phys->c % phys->block : 0;
  float *last = x + (ronde__phys_blocks(phys) - 1) * rows * phys->block;
  ronde__thread_share(rows, thread, n_threads, &begin, &end);
  for (int64_t r = begin; r < end && tail; r++)
    memset(last + r * phys->block + tail, 0, (size_t)(phys->block - tail) * sizeof *x);
}

static void forward_part(void *arg, int thread, int n_threads) {
  const job *j = arg;
  int64_t begin, end;
  for (int64_t c = 0; c < j->desc->in[j->input].c;) {
    run r = run_at(j->desc, j->input, j->offset, c, &c);
    ronde__thread_share(r.rows, thread, n_threads, &begin, &end);
    for (int64_t i = begin; i < end; i++)
      memcpy(j->call->out[0] + r.out + i * r.out_step, j->call->in[j->input] + r.in + i * r.in_step,
             (size_t)r.length * sizeof(float));
  }
  if (j->input == 0) zero_tail(&j->desc->out[0], j->call->out[0], thread, n_threads);
}

static void backward_part(void *arg, int thread, int n_threads) {
  const job *j = arg;
  float *din = j->call->din[j->input];
  bool accumulate = j->call->accumulate_dinput[j->input];
  int64_t begin, end;
  for (int64_t c = 0; c < j->desc->in[j->input].c;) {
    run r = run_at(j->desc, j->input, j->offset, c, &c);
    ronde__thread_share(r.rows, thread, n_threads, &begin, &end);
    for (int64_t i = begin; i < end; i++)
      ronde__gradient_add(j->desc, j->call->dout[0] + r.out + i * r.out_step, din + r.in + i * r.in_step, r.length,
                          accumulate);
  }
  if (!accumulate) zero_tail(&j->desc->in[j->input], din, thread, n_threads);
}

/* One input after the other: two may be the same tensor, whose gradient is then added to. */
static void each_input(const ronde__op_desc *desc, const ronde__op_call *call, bool backward) {
  job j = {desc, call, 0, 0};
  for (; j.input < desc->attr.n_inputs; j.offset += desc->in[j.input++].c)
    if (!backward || call->din[j.input]) ronde__pool_run(call->pool, backward ? backward_part : forward_part, &j);
}

static ronde_status forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  each_input(desc, call, false);
  return RONDE_OK;
}

static ronde_status backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  each_input(desc, call, true);
  return RONDE_OK;
}

static const ronde__form form = {
    .forward = forward,
    .backward = backward,
    .implementation = ronde__elementwise_implementation,
};

const ronde__op ronde__op_concat = {
    .name = "concat",
    .infer = infer,
    .layouts = layouts,
    .forms = (const ronde__form *const[]){&form, NULL},
};
