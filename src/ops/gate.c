/* The form of a product of an image with a factor of each channel and example (squeeze and excitation; Hu et al., CVPR
 * 2018), in BLOCKS: backward reads and writes the image once. The gate's gradient is a sum over the pixels: in f32 over the
 * pixels of a chunk, then over the chunks in f64, in their order. */
#include "ops/elementwise.h"
#include "ops/gemm_list.h"
#include "ops/pair.h"
#include "ops/widen.h"

enum { CHUNK = 64 }; /* pixels */

/* Whether that operand is the gate. */
static bool is_gate(const ronde__op_desc *desc, int i) {
  const ronde__phys *y = &desc->out[0], *gate = &desc->in[i], *x = &desc->in[1 - i];
  return desc->attr.pair == RONDE__PAIR_MULTIPLY && y->layout == RONDE__BLOCKS && ronde__phys_equal(x, y) &&
         gate->layout == RONDE__BLOCKS && gate->h * gate->w == 1 && gate->c == y->c && gate->n == y->n;
}

static bool gate_first_takes(const ronde__op_desc *desc) { return is_gate(desc, 0); }

static bool gate_second_takes(const ronde__op_desc *desc) { return is_gate(desc, 1); }

/* Which operand it is. */
static int gate_of(const ronde__op_desc *desc) { return desc->form == &ronde__gate_second; }

static const ronde__gate_kernels *kernels_of(const ronde__op_desc *desc) {
  return desc->out[0].bf16 ? desc->compute.bf16->gate : desc->compute.kernels->gate;
}

static int64_t chunks_of(const ronde__phys *x) { return ronde__ceil_div(x->h * x->w, CHUNK); }

/* The chunks' sums, [blocks][chunks][N * block]. */
static size_t gate_work_elems(const ronde__op_desc *desc, const void *state, bool backward) {
  const ronde__phys *y = &desc->out[0];
  return backward ? (size_t)(ronde__phys_blocks(y) * chunks_of(y) * y->n * y->block) : 0;
}

typedef struct gate_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
  int gate;
} gate_job;

/* A chunk of the image: its block, first element, and pixels. */
typedef struct chunk {
  int64_t block, at, pixels;
} chunk;

static chunk chunk_of(const ronde__phys *y, int64_t item) {
  int64_t chunks = chunks_of(y), pixels = y->h * y->w, block = item / chunks, pixel = item % chunks * CHUNK;
  return (chunk){block, (block * pixels + pixel) * y->n * y->block, ronde__min(CHUNK, pixels - pixel)};
}

static void forward_part(void *arg, int thread, int n_threads) {
  const gate_job *j = arg;
  const ronde__op_call *call = j->call;
  const ronde__phys *y = &j->desc->out[0];
  int64_t row = y->n * y->block, begin, end;
  ronde__thread_chunk(ronde__phys_blocks(y) * chunks_of(y), thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    chunk c = chunk_of(y, item);
    kernels_of(j->desc)->forward(ronde__operand_at(y, call->in[1 - j->gate], c.at), call->in[j->gate] + c.block * row,
                                 c.pixels, row, ronde__operand_at(y, call->out[0], c.at));
  }
}

static ronde_status gate_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  gate_job j = {desc, call, gate_of(desc)};
  ronde__pool_run(call->pool, forward_part, &j);
  return RONDE_OK;
}

static void chunks_part(void *arg, int thread, int n_threads) {
  const gate_job *j = arg;
  const ronde__op_call *call = j->call;
  const ronde__phys *y = &j->desc->out[0];
  int64_t row = y->n * y->block, begin, end;
  float *dx = call->din[1 - j->gate];
  ronde__thread_chunk(ronde__phys_blocks(y) * chunks_of(y), thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    chunk c = chunk_of(y, item);
    kernels_of(j->desc)->backward(ronde__operand_at(y, call->dout[0], c.at),
                                  ronde__operand_at(y, call->in[1 - j->gate], c.at), call->in[j->gate] + c.block * row,
                                  c.pixels, row, dx ? ronde__operand_at(y, dx, c.at) : NULL,
                                  call->accumulate_dinput[1 - j->gate], call->work + item * row);
  }
}

static void sums_part(void *arg, int thread, int n_threads) {
  const gate_job *j = arg;
  const ronde__phys *y = &j->desc->out[0];
  int64_t chunks = chunks_of(y), row = y->n * y->block, begin, end;
  float *dgate = j->call->din[j->gate];
  bool accumulate = j->call->accumulate_dinput[j->gate];
  ronde__thread_chunk(ronde__phys_blocks(y) * row, thread, n_threads, &begin, &end);
  for (int64_t i = begin; i < end; i++) {
    const float *partial = j->call->work + i / row * chunks * row + i % row;
    double sum = accumulate ? (double)dgate[i] : 0;
    for (int64_t chunk = 0; chunk < chunks; chunk++) sum += (double)partial[chunk * row];
    dgate[i] = (float)sum;
  }
}

static ronde_status gate_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  gate_job j = {desc, call, gate_of(desc)};
  ronde__pool_run(call->pool, chunks_part, &j);
  if (call->din[j.gate]) ronde__pool_run(call->pool, sums_part, &j);
  return RONDE_OK;
}

#define GATE_FORM(form, own_takes, image)                  \
  const ronde__form form = {                               \
      .name = "gate",                                      \
      .takes = own_takes,                                  \
      .bf16 = {.in = 1u << (image), .out = 1},             \
      .one_format = true,                                  \
      .work_elems = gate_work_elems,                       \
      .forward = gate_forward,                             \
      .backward = gate_backward,                           \
      .implementation = ronde__elementwise_implementation, \
  }
GATE_FORM(ronde__gate_first, gate_first_takes, 1);
GATE_FORM(ronde__gate_second, gate_second_takes, 0);
