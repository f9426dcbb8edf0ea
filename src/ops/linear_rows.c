/* Fully connected layer of many rows, as sequences and maps of pixels have them, in f32 from BLOCKS. The rows are gone through
 * in chunks whose activations stay in the second cache: forward and both gradients read each chunk once from memory for
 * all blocks of weights, where the form for batches (linear_f32.c) keeps the weights in cache and reads all rows for each
 * block. Legend: N rows; C inputs in Ib blocks of bi; O outputs in Ob blocks of bo; R rows of a chunk. Chunks depend on the
 * shape alone, and the chunks of a sum come in their order, so the threads change no bit. */
#include "ops/linear.h"

enum { MOST_ROWS = 256, FEWEST_ROWS = 64, MANY = 128 };
enum { IN_CACHE = 128 << 10 }; /* floats: the chunk of an input */
enum { WEIGHTS = 8 << 20 };    /* floats: more would cost too much memory, transposed */
enum { SHARE = 512 };          /* outputs whose gradients are made together */

/* The rows of each; the last one may have fewer. */
typedef struct linear_chunks {
  int64_t rows, n;
} linear_chunks;

typedef struct linear_rows_state {
  linear_chunks chunks, sums; /* sums: of the weights' gradients, which are read and written once a chunk */
  ronde__linear_lists lists;
  ronde__gemm_pair forward[2], data[2]; /* [last chunk] */
  ronde__gemm_pair weight, rest[2];     /* of pieces of a chunk's rows, and [last chunk] of what these leave */
  ronde__gemm_list pieces;              /* of the longest chunk */
} linear_rows_state;

static int64_t outputs_together(const ronde__op_desc *desc) {
  return ronde__min(ronde__phys_blocks(&desc->out[0]), ronde__max(1, SHARE / desc->out[0].block));
}

static void linear_rows_release(const ronde__op_desc *desc, void *opaque) {
  linear_rows_state *s = opaque;
  if (!s) return;
  ronde__linear_lists_destroy(&s->lists);
  ronde__gemm_list_destroy(&s->pieces);
  ronde__free(s);
}

static linear_chunks make_chunks(int64_t n, int64_t rows) { return (linear_chunks){rows, ronde__ceil_div(n, rows)}; }

static int rows_of(const ronde__op_desc *desc, linear_chunks chunks, bool last) {
  return (int)(last ? desc->in[0].n - (chunks.n - 1) * chunks.rows : chunks.rows);
}

/* A sum over rows, in pieces that one call should add up. */
static ronde_status make_pieces(const ronde__op_desc *desc, linear_rows_state *s) {
  int bi = (int)desc->in[0].block, bo = (int)desc->out[0].block;
  ronde__gemm_shape shape = {bi, bo, (int)s->sums.rows, bi, bo, bo, true, false, false};
  int piece = (int)ronde__min(s->sums.rows, ronde__gemm_resolve(&desc->compute, &shape).most);
  shape.k = piece;
  s->weight = ronde__gemm_pair_resolve(desc, shape);
  for (int last = 0; last < 2; last++) {
    shape.k = rows_of(desc, s->sums, last) % piece;
    if (shape.k) s->rest[last] = ronde__gemm_pair_resolve(desc, shape);
  }
  RONDE_TRY(ronde__gemm_list_create(s->sums.rows / piece, &s->pieces));
  for (int64_t i = 0; i < s->pieces.count; i++) {
    s->pieces.a[i] = (uint64_t)(i * piece * bi) * sizeof(float);
    s->pieces.b[i] = (uint64_t)(i * piece * bo) * sizeof(float);
  }
  return RONDE_OK;
}

static void make_kernels(const ronde__op_desc *desc, linear_rows_state *s) {
  int bi = (int)desc->in[0].block, bo = (int)desc->out[0].block;
  for (int last = 0; last < 2; last++) {
    int rows = rows_of(desc, s->chunks, last);
    s->forward[last] =
        ronde__gemm_pair_resolve(desc, (ronde__gemm_shape){rows, bo, bi, bi, bo, bo, false, false, false});
    s->data[last] = ronde__gemm_pair_resolve(desc, (ronde__gemm_shape){rows, bi, bo, bo, bi, bi, false, false, false});
  }
}

static ronde_status linear_rows_prepare(const ronde__op_desc *desc, void **state_out) {
  const ronde__phys *x = &desc->in[0];
  linear_rows_state *s;
  RONDE__ALLOC(s, sizeof *s, "linear layer plan");
  int64_t fit = IN_CACHE / x->c / RONDE__QUANTUM * RONDE__QUANTUM;
  s->chunks = make_chunks(x->n, ronde__max(FEWEST_ROWS, ronde__min(MOST_ROWS, fit)));
  s->sums = make_chunks(x->n, ronde__min(MOST_ROWS, x->n));
  ronde_status status = ronde__linear_lists_create(desc, ronde__phys_blocks(x), x->n * x->block,
                                                   x->block * desc->out[0].block, &s->lists);
  if (status == RONDE_OK) status = make_pieces(desc, s);
  if (status != RONDE_OK) {
    linear_rows_release(desc, s);
    return status;
  }
  make_kernels(desc, s);
  *state_out = s;
  return RONDE_OK;
}

/* The weights' gradients of outputs_together(), where they are handed on at once; in front of them the transposed weights. */
static int64_t share_elems(const ronde__op_desc *desc) {
  return desc->in_pieces ? outputs_together(desc) * ronde__linear_slab(desc) : 0;
}

static size_t linear_rows_work_elems(const ronde__op_desc *desc, const void *state, bool backward) {
  if (!backward) return 0;
  return (size_t)(share_elems(desc) + (desc->need_dinput[0] ? ronde__weight_elems(&desc->param[0]) : 0));
}

static void forward_part(void *arg, int thread, int n_threads) {
  const ronde__linear_piece *j = arg;
  const linear_rows_state *s = j->state;
  const ronde__phys *x = &j->desc->in[0], *y = &j->desc->out[0];
  int64_t begin, end;
  ronde__thread_chunk(s->chunks.n, thread, n_threads, &begin, &end);
  for (int64_t chunk = begin; chunk < end; chunk++) {
    const ronde__gemm_pair *pair = &s->forward[chunk == s->chunks.n - 1];
    for (int64_t ob = 0; ob < ronde__phys_blocks(y); ob++) {
      float *to = j->call->out[0] + (ob * y->n + chunk * s->chunks.rows) * y->block;
      ronde__gemm_sum(pair, &s->lists.terms, s->lists.terms.count, j->call->in[0] + chunk * s->chunks.rows * x->block,
                      j->call->param[0] + ob * ronde__linear_slab(j->desc), to, false);
      ronde__fused_bias_act(j->desc, j->call, ob, to, pair->set.shape.m);
    }
  }
}

static ronde_status linear_rows_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__linear_piece j = {.desc = desc, .state = state, .call = call};
  ronde__pool_run(call->pool, forward_part, &j);
  return RONDE_OK;
}

typedef struct data_job {
  ronde__linear_piece of;
  const float *turned; /* [Ib][Ob][bo][bi] */
} data_job;

static void data_part(void *arg, int thread, int n_threads) {
  const data_job *j = arg;
  const linear_rows_state *s = j->of.state;
  const ronde__phys *x = &j->of.desc->in[0], *y = &j->of.desc->out[0];
  const ronde__op_call *call = j->of.call;
  int64_t begin, end;
  ronde__thread_chunk(s->chunks.n, thread, n_threads, &begin, &end);
  for (int64_t chunk = begin; chunk < end; chunk++)
    for (int64_t ib = 0; ib < ronde__phys_blocks(x); ib++)
      ronde__gemm_sum(&s->data[chunk == s->chunks.n - 1], &s->lists.outputs, s->lists.outputs.count,
                      call->dout[0] + chunk * s->chunks.rows * y->block,
                      j->turned + ib * ronde__phys_blocks(y) * y->block * x->block,
                      call->din[0] + (ib * x->n + chunk * s->chunks.rows) * x->block, call->accumulate_dinput[0]);
}

/* dw (+)= X^T dY of a chunk of sums. */
static void sum_rows(const ronde__op_desc *desc, const linear_rows_state *s, bool last, const float *x, const float *dy,
                     float *dw, bool adds) {
  static const uint64_t none = 0;
  int64_t piece = s->weight.set.shape.k, rows = rows_of(desc, s->sums, last), n_pieces = rows / piece,
          done = n_pieces * piece;
  const ronde__gemm_pair *rest = &s->rest[last];
  if (n_pieces) ronde__gemm_sum_by(&s->weight, &s->pieces, n_pieces, 1, x, dy, dw, adds);
  if (rows == done) return;
  ronde__gemm_run(adds || done ? &rest->add : &rest->set, x + done * desc->in[0].block, &none,
                  dy + done * desc->out[0].block, &none, 1, dw);
}

/* What chunk adds to the gradient of a tile of weights, of output block ob and input block ib: X^T dY. */
static void weight_tile(const ronde__linear_piece *j, int64_t ob, int64_t ib, int64_t chunk) {
  const linear_rows_state *s = j->state;
  const ronde__phys *x = &j->desc->in[0], *y = &j->desc->out[0];
  const ronde__op_call *call = j->call;
  int64_t place = ob * ronde__linear_slab(j->desc) + ib * x->block * y->block, row = chunk * s->sums.rows;
  bool last = chunk == s->sums.n - 1;
  float *dw = call->dparam[0] + place;
  if (j->desc->in_pieces) dw = call->work + place - j->ob0 * ronde__linear_slab(j->desc);
  sum_rows(j->desc, s, last, call->in[0] + (ib * x->n + row) * x->block, call->dout[0] + (ob * y->n + row) * y->block,
           dw, chunk || call->accumulate_dparam[0]);
  if (!last || !j->desc->in_pieces) return;
  size_t begin = (size_t)place, end = begin + (size_t)(x->block * y->block);
  call->listener.final(call->listener.user, &(ronde__gradient){0, begin, end, dw, true, NULL});
}

/* The gradients of outputs of a chunk stay in cache while inputs go by, a block at a time. */
static void weight_part(void *arg, int thread, int n_threads) {
  const ronde__linear_piece *j = arg;
  const linear_rows_state *s = j->state;
  int64_t in_blocks = ronde__phys_blocks(&j->desc->in[0]), begin, end;
  if (j->desc->frozen[0]) return;
  ronde__thread_chunk(j->n_obs * in_blocks, thread, n_threads, &begin, &end);
  for (int64_t chunk = 0; chunk < s->sums.n; chunk++)
    for (int64_t item = begin; item < end; item++) weight_tile(j, j->ob0 + item % j->n_obs, item / j->n_obs, chunk);
}

static ronde_status linear_rows_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__fused_act_backward(desc, call);
  if (desc->attr.bias) ronde__bias_gradient(desc, call);
  if (call->din[0]) { /* reads the weights before their gradient is handed out */
    data_job j = {{.desc = desc, .state = state, .call = call},
                  ronde__weight_turned(desc, &(bool){true}, call, call->work + share_elems(desc))};
    ronde__pool_run(call->pool, data_part, &j);
  }
  ronde__linear_backward_pieces(desc, state, call, outputs_together(desc), weight_part);
  return RONDE_OK;
}

static bool linear_rows_takes(const ronde__op_desc *desc) {
  const ronde__phys *x = &desc->in[0];
  return x->layout == RONDE__BLOCKS && x->h * x->w == 1 && x->n >= MANY &&
         ronde__weight_elems(&desc->param[0]) <= WEIGHTS;
}

static const char *linear_rows_implementation(const ronde__op_desc *desc, const void *opaque) {
  return ((const linear_rows_state *)opaque)->forward[0].set.implementation;
}

const ronde__form ronde__linear_rows = {
    .name = "rows",
    .takes = linear_rows_takes,
    .prepare = linear_rows_prepare,
    .release = linear_rows_release,
    .work_elems = linear_rows_work_elems,
    .gives_pieces = true,
    .turns_weight = true,
    .forward = linear_rows_forward,
    .backward = linear_rows_backward,
    .implementation = linear_rows_implementation,
    .executed_flops = ronde__linear_executed_flops,
};
