/* Fully connected layer of many rows, as sequences and maps of pixels have them, in f32 from BLOCKS. The rows are gone through
 * in chunks, and a chunk's activations in pieces that stay in the second cache while all weights that they meet go by once,
 * where the form for batches (linear_f32.c) keeps the weights in cache and reads all rows for each block. Each product
 * fetches what the next one wants from memory: weights, and in front of an update within the layer the optimizer's state.
 * Legend: N rows; C inputs in Ib blocks of bi; O outputs in Ob blocks of bo. Chunks and pieces depend on the shape alone,
 * and those of a sum come in their order, so the threads change no bit.
 * Source: Goto & van de Geijn, "Anatomy of high-performance matrix multiplication", TOMS 2008 (what stays in which cache). */
#include "ops/linear.h"

enum { MOST_ROWS = 512, MANY = 128 };
enum { IN_CACHE = 192 << 10 }; /* floats: a piece of a chunk */

/* The rows of each; the last one may have fewer. */
typedef struct linear_chunks {
  int64_t rows, n;
} linear_chunks;

typedef struct linear_rows_state {
  linear_chunks chunks;
  int64_t in_pieces, out_pieces; /* of a sum over inputs, over outputs */
  ronde__linear_lists lists;
  ronde__gemm_pair forward[2], data[2]; /* [last chunk] */
  ronde__gemm_pair weight, rest[2];     /* of pieces of a chunk's rows, and [last chunk] of what these leave */
  ronde__gemm_list pieces;              /* of the longest chunk */
} linear_rows_state;

/* Of the blocks of inputs or outputs: their sum in pieces, or a thread's part of them. */
typedef struct linear_span {
  int64_t begin, end;
} linear_span;

/* Output blocks whose weights' gradients are made together: their own gradients are a piece. */
static int64_t outputs_together(const ronde__op_desc *desc, const linear_rows_state *s) {
  return ronde__ceil_div(ronde__phys_blocks(&desc->out[0]), s->out_pieces);
}

static void linear_rows_release(const ronde__op_desc *desc, void *opaque) {
  linear_rows_state *s = opaque;
  if (!s) return;
  ronde__linear_lists_destroy(&s->lists);
  ronde__gemm_list_destroy(&s->pieces);
  ronde__free(s);
}

static int rows_of(const ronde__op_desc *desc, linear_chunks chunks, bool last) {
  return (int)(last ? desc->in[0].n - (chunks.n - 1) * chunks.rows : chunks.rows);
}

/* A sum over rows, in pieces that one call should add up. */
static ronde_status make_pieces(const ronde__op_desc *desc, linear_rows_state *s) {
  int bi = (int)desc->in[0].block, bo = (int)desc->out[0].block;
  ronde__gemm_shape shape = {bi, bo, (int)s->chunks.rows, bi, bo, bo, true, false, false};
  int piece = (int)ronde__min(s->chunks.rows, ronde__gemm_resolve_tile(&desc->compute, &shape).most);
  shape.k = piece;
  s->weight = ronde__gemm_pair_tile(desc, shape);
  for (int last = 0; last < 2; last++) {
    shape.k = rows_of(desc, s->chunks, last) % piece;
    if (shape.k) s->rest[last] = ronde__gemm_pair_tile(desc, shape);
  }
  RONDE_TRY(ronde__gemm_list_create(s->chunks.rows / piece, &s->pieces));
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
    s->forward[last] = ronde__gemm_pair_tile(desc, (ronde__gemm_shape){rows, bo, bi, bi, bo, bo, false, false, false});
    s->data[last] = ronde__gemm_pair_tile(desc, (ronde__gemm_shape){rows, bi, bo, bo, bi, bi, false, false, false});
  }
}

static int64_t pieces_of(const linear_rows_state *s, const ronde__phys *x) {
  return ronde__ceil_div(ronde__phys_blocks(x), ronde__max(1, IN_CACHE / (s->chunks.rows * x->block)));
}

static ronde_status linear_rows_prepare(const ronde__op_desc *desc, void **state_out) {
  const ronde__phys *x = &desc->in[0];
  linear_rows_state *s;
  RONDE__ALLOC(s, sizeof *s, "linear layer plan");
  s->chunks.rows = ronde__ceil_div(x->n, ronde__ceil_div(x->n, MOST_ROWS));
  s->chunks.n = ronde__ceil_div(x->n, s->chunks.rows);
  s->in_pieces = pieces_of(s, x);
  s->out_pieces = pieces_of(s, &desc->out[0]);
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

/* Transposed weights of a thread: those of a piece's outputs and one block of inputs. */
static int64_t turned_elems(const ronde__op_desc *desc, const linear_rows_state *s) {
  return outputs_together(desc, s) * ronde__linear_tile_elems(desc);
}

/* Of weights' gradients that are handed on at once: a tile a thread; or, where several chunks add to each, those of
 * outputs_together(). */
static int64_t gradient_elems(const ronde__op_desc *desc, const linear_rows_state *s) {
  if (!desc->in_pieces) return 0;
  return s->chunks.n == 1 ? desc->threads * ronde__linear_tile_elems(desc)
                          : outputs_together(desc, s) * ronde__linear_slab(desc);
}

/* Backward: transposed weights, and then gradients of weights. */
static size_t linear_rows_work_elems(const ronde__op_desc *desc, const void *state, bool backward) {
  int64_t turned = desc->need_dinput[0] ? desc->threads * turned_elems(desc, state) : 0;
  return backward ? (size_t)ronde__max(turned, gradient_elems(desc, state)) : 0;
}

/* Calls `chunk_part` with the calling thread's blocks, of n, in each chunk in which it has any. */
static void each_chunk(const ronde__linear_piece *j, int64_t n, int thread, int n_threads,
                       void (*chunk_part)(const ronde__linear_piece *j, int64_t chunk, linear_span blocks,
                                          int thread)) {
  int64_t begin, end;
  ronde__thread_chunk(((const linear_rows_state *)j->state)->chunks.n * n, thread, n_threads, &begin, &end);
  for (int64_t chunk = begin / n; chunk * n < end; chunk++)
    chunk_part(j, chunk, (linear_span){ronde__max(begin - chunk * n, 0), ronde__min(end - chunk * n, n)}, thread);
}

static linear_span piece_of(int64_t n, int64_t piece, int64_t pieces) {
  return (linear_span){ronde__shard_begin(n, piece, pieces), ronde__shard_begin(n, piece + 1, pieces)};
}

/* Sums of a chunk over one piece of its inputs; the next block's weights are fetched. */
static void forward_piece(const ronde__linear_piece *j, int64_t chunk, linear_span obs, int64_t piece) {
  const linear_rows_state *s = j->state;
  const ronde__phys *x = &j->desc->in[0], *y = &j->desc->out[0];
  const ronde__gemm_pair *pair = &s->forward[chunk == s->chunks.n - 1];
  const linear_span ibs = piece_of(ronde__phys_blocks(x), piece, s->in_pieces);
  const ronde__gemm_list terms = {s->lists.terms.a + ibs.begin, s->lists.terms.b + ibs.begin, ibs.end - ibs.begin};
  const float *from = j->call->in[0] + chunk * s->chunks.rows * x->block, *w = j->call->param[0];
  for (int64_t ob = obs.begin; ob < obs.end; ob++) {
    float *to = j->call->out[0] + (ob * y->n + chunk * s->chunks.rows) * y->block;
    ronde__ahead next = {.n = ob + 1 < obs.end,
                         .bytes = terms.count * ronde__linear_tile_elems(j->desc) * (int64_t)sizeof(float)};
    next.at[0] = w + (ob + 1) * ronde__linear_slab(j->desc) + ibs.begin * ronde__linear_tile_elems(j->desc);
    ronde__gemm_sum_by(pair, &terms, terms.count, ronde__gemm_piece(pair, terms.count), from,
                       w + ob * ronde__linear_slab(j->desc), to, piece > 0, &next);
    if (piece == s->in_pieces - 1) ronde__fused_bias_act(j->desc, j->call, ob, to, pair->set.shape.m);
  }
}

static void forward_chunk(const ronde__linear_piece *j, int64_t chunk, linear_span obs, int thread) {
  for (int64_t piece = 0; piece < ((const linear_rows_state *)j->state)->in_pieces; piece++)
    forward_piece(j, chunk, obs, piece);
}

static void forward_part(void *arg, int thread, int n_threads) {
  const ronde__linear_piece *j = arg;
  each_chunk(j, ronde__phys_blocks(&j->desc->out[0]), thread, n_threads, forward_chunk);
}

static ronde_status linear_rows_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__linear_piece j = {.desc = desc, .state = state, .call = call};
  ronde__pool_run(call->pool, forward_part, &j);
  return RONDE_OK;
}

/* dX of a chunk: sums over one piece of its outputs. */
static void data_piece(const ronde__linear_piece *j, int64_t chunk, linear_span ibs, int64_t piece, float *turned) {
  const linear_rows_state *s = j->state;
  const ronde__phys *x = &j->desc->in[0], *y = &j->desc->out[0];
  const ronde__gemm_pair *pair = &s->data[chunk == s->chunks.n - 1];
  const linear_span obs = piece_of(ronde__phys_blocks(y), piece, s->out_pieces);
  const ronde__gemm_list terms = {s->lists.outputs.a + obs.begin, s->lists.outputs.b, obs.end - obs.begin};
  for (int64_t ib = ibs.begin; ib < ibs.end; ib++) {
    ronde__ahead next = {0};
    ronde__linear_turn(j, obs.begin, obs.end - obs.begin, ib, turned);
    if (ib + 1 < ibs.end) next = ronde__linear_tiles_ahead(j, obs.begin, obs.end - obs.begin, ib + 1);
    ronde__gemm_sum_by(pair, &terms, terms.count, ronde__gemm_piece(pair, terms.count),
                       j->call->dout[0] + chunk * s->chunks.rows * y->block, turned,
                       j->call->din[0] + (ib * x->n + chunk * s->chunks.rows) * x->block,
                       piece || j->call->accumulate_dinput[0], &next);
  }
}

static void data_chunk(const ronde__linear_piece *j, int64_t chunk, linear_span ibs, int thread) {
  const linear_rows_state *s = j->state;
  float *turned = j->call->work + thread * turned_elems(j->desc, s);
  for (int64_t piece = 0; piece < s->out_pieces; piece++) data_piece(j, chunk, ibs, piece, turned);
}

static void data_part(void *arg, int thread, int n_threads) {
  const ronde__linear_piece *j = arg;
  each_chunk(j, ronde__phys_blocks(&j->desc->in[0]), thread, n_threads, data_chunk);
}

/* dw (+)= X^T dY of a chunk. */
static void sum_rows(const ronde__op_desc *desc, const linear_rows_state *s, bool last, const float *x, const float *dy,
                     float *dw, bool adds, ronde__ahead *next) {
  static const uint64_t none = 0;
  int64_t piece = s->weight.set.shape.k, rows = rows_of(desc, s->chunks, last), n_pieces = rows / piece,
          done = n_pieces * piece;
  const ronde__gemm_pair *rest = &s->rest[last];
  if (n_pieces) ronde__gemm_sum_by(&s->weight, &s->pieces, n_pieces, 1, x, dy, dw, adds, next);
  if (rows == done) return;
  ronde__gemm_run_ahead(adds || done ? &rest->add : &rest->set, x + done * desc->in[0].block, &none,
                        dy + done * desc->out[0].block, &none, 1, dw, next);
}

static float *gradient_at(const ronde__linear_piece *j, ronde__linear_tile of, int thread) {
  if (!j->desc->in_pieces) return j->call->dparam[0] + of.place;
  bool one = ((const linear_rows_state *)j->state)->chunks.n == 1;
  return j->call->work +
         (one ? thread * ronde__linear_tile_elems(j->desc) : of.place - j->ob0 * ronde__linear_slab(j->desc));
}

/* What chunk adds to the gradient of a tile: X^T dY. next: the tile that comes then, or NULL. */
static void weight_tile(const ronde__linear_piece *j, int64_t chunk, ronde__linear_tile of,
                        const ronde__linear_tile *next, int thread) {
  const linear_rows_state *s = j->state;
  const ronde__phys *x = &j->desc->in[0], *y = &j->desc->out[0];
  const ronde__op_call *call = j->call;
  const int64_t row = chunk * s->chunks.rows;
  const bool last = chunk == s->chunks.n - 1, hands_on = last && j->desc->in_pieces;
  ronde__ahead ahead = {0};
  float *dw = gradient_at(j, of, thread);
  if (next && (hands_on || !j->desc->in_pieces)) ahead = ronde__linear_tile_ahead(j, *next);
  sum_rows(j->desc, s, last, call->in[0] + (of.term * x->n + row) * x->block,
           call->dout[0] + (of.ob * y->n + row) * y->block, dw, chunk || call->accumulate_dparam[0], &ahead);
  if (hands_on)
    ronde__linear_hand_on(j, of.place, ronde__linear_tile_elems(j->desc), dw, ronde__ahead_has_begun(&ahead));
}

/* The gradients of outputs of a chunk stay in cache while inputs go by, a block at a time. */
static void weight_part(void *arg, int thread, int n_threads) {
  const ronde__linear_piece *j = arg;
  int64_t begin, end;
  if (j->desc->frozen[0]) return;
  ronde__thread_chunk(j->n_obs * ronde__phys_blocks(&j->desc->in[0]), thread, n_threads, &begin, &end);
  for (int64_t chunk = 0; chunk < ((const linear_rows_state *)j->state)->chunks.n; chunk++)
    for (int64_t i = begin; i < end; i++) {
      ronde__linear_tile next = ronde__linear_tile_of(j, i + 1);
      weight_tile(j, chunk, ronde__linear_tile_of(j, i), i + 1 < end ? &next : NULL, thread);
    }
}

static ronde_status linear_rows_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__linear_piece j = {.desc = desc, .state = state, .call = call};
  ronde__fused_backward(desc, call);
  if (call->din[0])
    ronde__pool_run(call->pool, data_part, &j); /* reads the weights before their gradient is handed out */
  ronde__linear_backward_pieces(desc, state, call, outputs_together(desc, state), weight_part);
  return RONDE_OK;
}

static bool linear_rows_takes(const ronde__op_desc *desc) {
  const ronde__phys *x = &desc->in[0];
  return x->layout == RONDE__BLOCKS && x->h * x->w == 1 && x->n >= MANY;
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
    .forward = linear_rows_forward,
    .backward = linear_rows_backward,
    .implementation = linear_rows_implementation,
    .executed_flops = ronde__linear_executed_flops,
};
