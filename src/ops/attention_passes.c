/* Scaled dot-product attention of several heads, y = softmax(q kT / sqrt(D)) v, without ever holding all of the softmax: it is
 * made in tiles of BLOCK queries by BLOCK keys, forward with running maxima and sums, backward again from the logarithm of
 * each query's sum. Source: Dao, "FlashAttention-2: faster attention with better parallelism and work partitioning", 2023;
 * the running softmax: Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018.
 * Scores lie turned, a row for each key and a column for each query, so that a query is a lane, and only queries and their
 * gradients need to be turned, once.
 * Legend: N examples, H heads, T queries, S keys, D features of a head, F = H D; s scores, p their softmax.
 * A head's rows are a matrix with a leading dimension of F or 3F, or of a block, of which a form packs what it wants packed. Forward shares
 * out tiles of queries, backward heads of examples, each of which sums its keys, or its queries, in their order. */
#include "ops/attention.h"
#include "ops/widen.h"

#include <math.h>
#include <string.h>

enum { BLOCK = RONDE__ATTENTION_BLOCK };
enum { QUERY = RONDE__QUERY, KEY = RONDE__KEY, VALUE = RONDE__VALUE };

/* ---- plan ---- */

ronde_status ronde__attention_prepare(const ronde__op_desc *desc, const ronde__attention_products *products,
                                      void **state_out) {
  const ronde__phys *x = &desc->in[0];
  bool packed = ronde__attention_is_packed(&desc->attr);
  ronde__attention *s;
  RONDE__ALLOC(s, sizeof *s, "attention plan");
  s->by_blocks = x->layout == RONDE__BLOCKS;
  s->t = desc->rows, s->heads = desc->attr.heads;
  s->n = s->by_blocks ? x->n / s->t : x->n;
  s->s = packed ? s->t : s->by_blocks ? desc->in[KEY].n / s->n : desc->in[KEY].c;
  s->f = s->by_blocks ? desc->out[0].c : desc->out[0].w;
  s->d = s->f / s->heads;
  s->ld = s->by_blocks ? x->block : x->w;
  s->ldy = s->by_blocks ? desc->out[0].block : s->f;
  s->scale = (float)(1 / sqrt((double)s->d));
  s->products = products;
  for (int i = 0; i < 4; i++) products->make(desc, s, i / 2, i % 2);
  *state_out = s;
  return RONDE_OK;
}

void ronde__attention_release(const ronde__op_desc *desc, void *state) { ronde__free(state); }

/* The logarithm of each query's sum, [N][H][T]. */
size_t ronde__attention_saved(const ronde__op_desc *desc, const void *state) {
  const ronde__attention *s = state;
  return (size_t)(s->n * s->heads * s->t);
}

/* Of a thread: scores, the output's sums [D][BLOCK], and of each query the maximum, the sum and how they have changed. */
static int64_t forward_scratch(const ronde__attention *s) { return BLOCK * (s->d + BLOCK + 3); }
/* Scores and slopes; of the whole head the gradients of queries, to a whole tile, of keys and values, and of each query the
 * dot product of output and gradient. */
static int64_t backward_scratch(const ronde__attention *s) {
  int64_t queries = ronde__attention_tiles(s->t) * BLOCK;
  return 2 * BLOCK * BLOCK + queries * (s->d + 1) + 2 * s->s * s->d;
}

static int64_t scratch_elems(const ronde__attention *s, bool backward) {
  int64_t own = backward ? backward_scratch(s) : forward_scratch(s);
  return ronde__round_up(own, RONDE__QUANTUM) + ronde__round_up(s->products->packed_elems(s, backward), RONDE__QUANTUM);
}

size_t ronde__attention_work(const ronde__op_desc *desc, const void *state, bool backward) {
  return (size_t)(desc->threads * scratch_elems(state, backward));
}

/* ---- a head of an example ---- */

typedef struct attention_job {
  const ronde__op_desc *desc;
  const ronde__attention *s;
  const ronde__op_call *call;
} attention_job;

/* Where in an operand row `row` of all has the features of a head from number `feature` on. */
static int64_t row_at(const ronde__attention *s, const ronde__phys *x, int64_t row, int64_t feature) {
  return s->by_blocks ? ronde__phys_index(x, row, feature, 0) : row * x->w + feature;
}

/* Where a head's rows of operand i begin in an array that lies like it. */
static int64_t place_of(const attention_job *j, int64_t n, int64_t h, int i) {
  const ronde__attention *s = j->s;
  int64_t behind = ronde__attention_is_packed(&j->desc->attr) ? i * s->f : 0;
  return row_at(s, ronde__attention_input(j->desc, i), n * (i == QUERY ? s->t : s->s), behind + h * s->d);
}

/* Of a head's first query: where its features are in the output. */
static int64_t output_of(const attention_job *j, int64_t item) {
  const ronde__attention *s = j->s;
  return row_at(s, &j->desc->out[0], item / s->heads * s->t, item % s->heads * s->d);
}

/* Rows of operand i of a head in arrays x that lie like the inputs. */
static float *operand_of(const attention_job *j, int64_t item, int i, const float *const *x) {
  const float *all = x[ronde__attention_is_packed(&j->desc->attr) ? 0 : i];
  if (!all) return NULL;
  return ronde__operand_at(ronde__attention_input(j->desc, i), all,
                           place_of(j, item / j->s->heads, item % j->s->heads, i));
}

static ronde__attention_head head_of(const attention_job *j, int64_t item, float *packed, bool backward,
                                     ronde__ahead *ahead) {
  const ronde__attention *s = j->s;
  ronde__attention_head head = {.desc = j->desc,
                                .s = s,
                                .ahead = ahead,
                                .at = output_of(j, item),
                                .sums = j->call->saved + item * s->t,
                                .packed = packed};
  head.n_keys = ronde__rows_there(j->desc, j->call, item / s->heads, s->s);
  for (int i = 0; i < 3; i++) head.x[i] = operand_of(j, item, i, j->call->in);
  if (backward) head.dy = j->call->dout[0] + head.at;
  return head;
}

/* ---- what is fetched ---- */

enum { MOST_FETCHED = 256 }; /* rows of an operand of a head */

/* Nothing yet, of a head's rows of an operand, `ld` elements apart. */
static ronde__ahead no_rows(const ronde__attention *s, const ronde__phys *x, int64_t ld) {
  return (ronde__ahead){.bytes = ronde__ahead_lines((int64_t)ronde__operand_bytes(x, s->d)),
                        .rows = ronde__min(MOST_FETCHED, ronde__min(s->t, s->s)),
                        .apart = (int64_t)ronde__operand_bytes(x, ld)};
}

static void add_rows(ronde__ahead *ahead, const float *rows) {
  if (rows && ahead->bytes > 0) ahead->at[ahead->n++] = rows;
}

/* Queries, keys and values of a head, or their gradients: of arrays that lie like x. */
static void add_operands(const attention_job *j, int64_t item, const float *const *x, ronde__ahead *ahead) {
  for (int i = 0; i < 3; i++) add_rows(ahead, operand_of(j, item, i, x));
}

/* The same of the output, or its gradient. */
static void add_output(const attention_job *j, int64_t item, const float *y, ronde__ahead *ahead) {
  add_rows(ahead, y + output_of(j, item));
}

/* Of a tile of keys: how many of them are there. */
static int64_t keys_there(const ronde__attention_head *head, int64_t k, int64_t n) {
  return ronde__max(0, ronde__min(n, head->n_keys - k * BLOCK));
}

/* So many keys beyond its own number in its tile a query sees of this tile. */
static int64_t reach_of(const ronde__attention_head *head, int64_t tile, int64_t k) {
  return head->desc->attr.causal ? (tile - k) * BLOCK : BLOCK;
}

/* The first tile of keys that no query of the tile sees. */
static int64_t key_tiles(const ronde__attention_head *head, int64_t tile) {
  int64_t last = ronde__min(head->s->t, (tile + 1) * BLOCK);
  return ronde__attention_tiles(head->desc->attr.causal ? ronde__min(head->n_keys, last) : head->n_keys);
}

static void clear_rows(float *x, int64_t from, int64_t to) {
  memset(x + from * BLOCK, 0, (size_t)((to - from) * BLOCK) * sizeof *x);
}

/* ---- forward ---- */

/* The sums [D][BLOCK] of a tile become its outputs, and the logarithms of the queries' sums. */
static void give_outputs(const ronde__attention_head *head, int64_t tile, float *y, const float *most, float *sum,
                         float *out) {
  const ronde__attention *s = head->s;
  int64_t first = tile * BLOCK, rows = ronde__attention_rows(s->t, tile);
  for (int64_t r = 0; r < rows; r++) {
    head->sums[first + r] = most[r] + logf(sum[r]);
    sum[r] = sum[r] > 0 || isnan(sum[r]) ? 1 / sum[r] : 0;
  }
  head->desc->compute.kernels->scale_columns(y, BLOCK, s->d, rows, sum);
  head->desc->compute.kernels->transpose(y, BLOCK, s->d, rows, out + head->at + first * s->ldy, s->ldy);
}

static void forward_tile(const ronde__attention_head *head, int64_t tile, float *work, float *out) {
  const ronde__attention *s = head->s;
  const ronde__kernels *kernels = head->desc->compute.kernels;
  int64_t rows = ronde__attention_rows(s->t, tile), d = s->d;
  float *scores = work, *y = scores + BLOCK * BLOCK, *most = y + BLOCK * d, *sum = most + BLOCK, *changed = sum + BLOCK;
  s->products->pack_queries(head, tile);
  memset(y, 0, (size_t)(BLOCK * d) * sizeof *y);
  for (int64_t r = 0; r < rows; r++) most[r] = -INFINITY, sum[r] = 0;
  for (int64_t k = 0; k < key_tiles(head, tile); k++) {
    int64_t n = ronde__attention_rows(s->s, k), there = keys_there(head, k, n);
    s->products->scores(head, tile, k, scores);
    kernels->softmax_columns(scores, BLOCK, there, rows, reach_of(head, tile, k), s->scale, most, sum, changed);
    clear_rows(scores, there, n);
    if (k > 0) kernels->scale_columns(y, BLOCK, d, rows, changed);
    s->products->outputs(head, tile, k, scores, y);
  }
  give_outputs(head, tile, y, most, sum, out);
}

static void forward_part(void *arg, int thread, int n_threads) {
  const attention_job *j = arg;
  const ronde__attention *s = j->s;
  int64_t tiles = ronde__attention_tiles(s->t), begin, end, own = ronde__round_up(forward_scratch(s), RONDE__QUANTUM);
  float *work = j->call->work + thread * scratch_elems(s, false);
  ronde__thread_chunk(s->n * s->heads * tiles, thread, n_threads, &begin, &end);
  ronde__ahead ahead[2] = {0};
  for (int64_t i = begin; i < end; i++) {
    ronde__attention_head head = head_of(j, i / tiles, work + own, false, ahead);
    if (i == begin || i % tiles == 0) {
      s->products->pack(&head);
      ahead[0] = no_rows(s, &j->desc->out[0], s->ldy), ahead[1] = no_rows(s, &j->desc->in[0], s->ld);
      add_output(j, i / tiles, j->call->out[0], &ahead[0]);
      if (i / tiles * tiles + tiles < end) add_operands(j, i / tiles + 1, j->call->in, &ahead[1]);
    }
    forward_tile(&head, i % tiles, work, j->call->out[0]);
  }
}

ronde_status ronde__attention_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  attention_job j = {desc, state, call};
  ronde__pool_run(call->pool, forward_part, &j);
  ronde__elementwise_clear_padding(&desc->out[0], call->out[0]);
  return RONDE_OK;
}

/* ---- backward ---- */

typedef struct scratch {
  float *scores, *slopes, *dq, *dk, *dv, *dots, *packed;
} scratch;

static scratch scratch_of(const attention_job *j, int thread) {
  const ronde__attention *s = j->s;
  scratch w = {.scores = j->call->work + thread * scratch_elems(s, true)};
  w.packed = w.scores + ronde__round_up(backward_scratch(s), RONDE__QUANTUM);
  w.slopes = w.scores + BLOCK * BLOCK;
  w.dq = w.slopes + BLOCK * BLOCK;
  w.dk = w.dq + ronde__attention_tiles(s->t) * BLOCK * s->d;
  w.dv = w.dk + s->s * s->d;
  w.dots = w.dv + s->s * s->d;
  return w;
}

/* What a tile of keys has from a tile of queries, and gives to it: p again in `scores`, its slope in `slopes`. */
static void backward_tile(const ronde__attention_head *head, int64_t tile, int64_t k, const scratch *w) {
  const ronde__attention *s = head->s;
  int64_t first = tile * BLOCK, n = ronde__attention_rows(s->s, k), there = keys_there(head, k, n);
  s->products->scores(head, tile, k, w->scores);
  s->products->slopes(head, tile, k, w->slopes);
  head->desc->compute.kernels->softmax_columns_backward(w->scores, w->slopes, BLOCK, there,
                                                        ronde__attention_rows(s->t, tile), reach_of(head, tile, k),
                                                        s->scale, head->sums + first, w->dots + first);
  clear_rows(w->scores, there, n);
  clear_rows(w->slopes, there, n);
  s->products->gradients(head, tile, k, w->scores, w->slopes, w->dq + first * s->d, w->dk + k * BLOCK * s->d,
                         w->dv + k * BLOCK * s->d);
}

/* A gradient [rows][D] to its place in that of operand i, if it is wanted. */
static void give(const attention_job *j, int64_t item, int i, int64_t rows, const float *gradient) {
  const ronde__attention *s = j->s;
  const ronde__phys *x = ronde__attention_input(j->desc, i);
  bool accumulate = j->call->accumulate_dinput[ronde__attention_is_packed(&j->desc->attr) ? 0 : i];
  float *dx = operand_of(j, item, i, (const float *const *)j->call->din);
  for (int64_t r = 0; r < rows && dx; r++)
    ronde__operand_add(j->desc, x, gradient + r * s->d, dx, r * s->ld, s->d, accumulate);
}

/* While a head is gone through: its own gradients, and all of the next one; is_last: there is none. */
static void look_ahead(const attention_job *j, int64_t item, bool is_last, ronde__ahead ahead[2]) {
  const ronde__attention *s = j->s;
  ahead[0] = no_rows(s, &j->desc->in[0], s->ld), ahead[1] = no_rows(s, &j->desc->out[0], s->ldy);
  add_operands(j, item, (const float *const *)j->call->din, &ahead[0]);
  if (is_last) return;
  add_operands(j, item + 1, j->call->in, &ahead[0]);
  add_output(j, item + 1, j->call->dout[0], &ahead[1]);
  add_output(j, item + 1, j->call->out[0], &ahead[1]);
}

static void backward_head(const attention_job *j, int64_t item, const scratch *w, ronde__ahead *ahead) {
  const ronde__attention *s = j->s;
  const ronde__attention_head head = head_of(j, item, w->packed, true, ahead);
  memset(w->dq, 0, (size_t)(w->dots - w->dq) * sizeof *w->dq);
  for (int64_t t = 0; t < s->t; t++) /* of the rounded gradient, or the slopes of a query would not add up to 0 */
    w->dots[t] = (float)j->desc->compute.kernels->dot(j->call->out[0] + head.at + t * s->ldy,
                                                      s->products->gradient(&head, t), s->d);
  s->products->pack(&head);
  for (int64_t k = 0; k < ronde__attention_tiles(head.n_keys); k++)
    for (int64_t tile = j->desc->attr.causal ? k : 0; tile < ronde__attention_tiles(s->t); tile++)
      backward_tile(&head, tile, k, w);
  give(j, item, QUERY, s->t, w->dq); /* in this order, because they may be one tensor */
  give(j, item, KEY, s->s, w->dk);
  give(j, item, VALUE, s->s, w->dv);
}

static void backward_part(void *arg, int thread, int n_threads) {
  const attention_job *j = arg;
  scratch w = scratch_of(j, thread);
  int64_t begin, end;
  ronde__thread_chunk(j->s->n * j->s->heads, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    ronde__ahead ahead[2];
    look_ahead(j, item, item + 1 == end, ahead);
    backward_head(j, item, &w, ahead);
  }
}

ronde_status ronde__attention_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  attention_job j = {desc, state, call};
  ronde__pool_run(call->pool, backward_part, &j);
  for (int i = 0; i < desc->n_inputs - desc->attr.lengths; i++)
    if (call->din[i] && !call->accumulate_dinput[i]) ronde__elementwise_clear_padding(&desc->in[i], call->din[i]);
  ronde__lengths_backward(desc, call);
  return RONDE_OK;
}

/* All tiles counted: which of them are passed over follows from lengths. */
double ronde__attention_executed_flops(const ronde__op_desc *desc, const void *state, bool backward) {
  const ronde__attention *s = state;
  double product = 2 * (double)(s->n * s->t) * (double)(s->s * s->f) * (desc->attr.causal ? 0.5 : 1);
  return product * (backward ? 5 : 2);
}
