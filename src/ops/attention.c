/* Scaled dot-product attention of several heads, y = softmax(q kT / sqrt(D)) v, without ever holding all of the softmax: it is
 * made in tiles of BLOCK queries by BLOCK keys, forward with running maxima and sums, backward again from the logarithm of
 * each query's sum. Source: Dao, "FlashAttention-2: faster attention with better parallelism and work partitioning", 2023;
 * the running softmax: Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018.
 * Scores lie turned, a row for each key and a column for each query, so that a query is a lane, and only queries and their
 * gradients need to be turned, once.
 * Legend: N examples, H heads, T queries, S keys, D features of a head, F = H D; s scores, p their softmax.
 * Inputs: query, key and value, or one with all three side by side [T][3F]; then perhaps lengths, how many keys of an example
 * are there. A head's rows are a matrix with a leading dimension of F or 3F. Forward shares out tiles of queries, backward heads
 * of examples, each of which sums its keys, or its queries, in their order. */
#include "ops/elementwise.h"
#include "ops/gemm_list.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 64 };
enum { QUERY, KEY, VALUE };

/* ---- shapes ---- */

static bool is_packed(const ronde__op_attr *attr) { return attr->n_inputs - attr->lengths == 1; }

static int64_t features_of(const ronde__op_attr *attr, const ronde__shape *in) {
  return is_packed(attr) ? in[0].dim[1] / 3 : in[0].dim[1];
}

static ronde_status check_inputs(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                 const char *const *in_labels) {
  int n = attr->n_inputs - attr->lengths;
  char text[96];
  for (int i = 0; i < n; i++) {
    bool fits = in[i].rank == 2 && in[i].dim[1] == in[0].dim[1] && (i < VALUE || in[i].dim[0] == in[KEY].dim[0]);
    if (fits && (n == 3 || in[0].dim[1] % 3 == 0)) continue;
    ronde__shape_text(&in[i], text, sizeof text);
    return ronde__fail(
        RONDE_E_USAGE, "%s: %s is needed, but %s gives %s", label,
        n == 3 ? "a query [T,F], and a key and a value [S,F]" : "query, key and value side by side [T,3F]",
        in_labels[i], text);
  }
  if (!attr->lengths || (in[n].rank == 1 && in[n].dim[0] == 1)) return RONDE_OK;
  ronde__shape_text(&in[n], text, sizeof text);
  return ronde__fail(RONDE_E_USAGE, "%s: lengths are one number an example, but %s gives %s", label, in_labels[n],
                     text);
}

static ronde_status attention_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                    const char *const *in_labels, ronde__shape *out) {
  RONDE_TRY(check_inputs(attr, label, in, in_labels));
  int64_t features = features_of(attr, in);
  if (attr->heads < 1 || features % attr->heads)
    return ronde__fail(RONDE_E_USAGE, "%s: %d heads cannot share %lld features", label, attr->heads,
                       (long long)features);
  *out = (ronde__shape){2, {in[0].dim[0], features}};
  return RONDE_OK;
}

static int64_t attention_flops(const ronde__op_attr *attr, const ronde__shape *in, const ronde__shape *out) {
  int64_t keys = is_packed(attr) ? in[0].dim[0] : in[KEY].dim[0];
  return 4 * out->dim[0] * keys * out->dim[1];
}

static void attention_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  int64_t n = desc->in[0].n;
  for (int i = 0; i < desc->attr.n_inputs; i++) desc->in[i] = ronde__phys_of_shape(&in[i], n);
  desc->out[0] = ronde__phys_of_shape(out, n);
}

/* ---- plan ---- */

typedef struct attention_state {
  int64_t n, heads, t, s, d, f;
  int64_t ld; /* of query, key and value */
  float scale;
  /* By whether it is the last tile of queries, and of keys. */
  ronde__gemm_pair scores[2][2], out[2][2], dq[2][2], dk[2][2], dv[2][2];
} attention_state;

static int64_t tiles_of(int64_t rows) { return ronde__ceil_div(rows, BLOCK); }
static int64_t tile_rows(int64_t rows, int64_t tile) { return ronde__min(BLOCK, rows - tile * BLOCK); }

static void make_kernels(const ronde__op_desc *desc, attention_state *s, int last_q, int last_k) {
  int q = (int)(last_q ? tile_rows(s->t, tiles_of(s->t) - 1) : ronde__min(BLOCK, s->t));
  int k = (int)(last_k ? tile_rows(s->s, tiles_of(s->s) - 1) : ronde__min(BLOCK, s->s));
  int d = (int)s->d;
  ronde__gemm_shape scores = {.m = k, .n = q, .k = d, .lda = s->ld, .ldb = BLOCK, .ldc = BLOCK},
                    out = {.m = d, .n = q, .k = k, .lda = s->ld, .ldb = BLOCK, .ldc = BLOCK, .trans_a = true},
                    dq = {.m = q, .n = d, .k = k, .lda = BLOCK, .ldb = s->ld, .ldc = d, .trans_a = true},
                    dk = {.m = k, .n = d, .k = q, .lda = BLOCK, .ldb = s->ld, .ldc = d}, dv = dk;
  dv.ldb = s->f;
  s->scores[last_q][last_k] = ronde__gemm_pair_resolve(desc, scores);
  s->out[last_q][last_k] = ronde__gemm_pair_resolve(desc, out);
  s->dq[last_q][last_k] = ronde__gemm_pair_resolve(desc, dq);
  s->dk[last_q][last_k] = ronde__gemm_pair_resolve(desc, dk);
  s->dv[last_q][last_k] = ronde__gemm_pair_resolve(desc, dv);
}

static ronde_status attention_prepare(const ronde__op_desc *desc, void **state_out) {
  const ronde__phys *x = &desc->in[0];
  bool packed = is_packed(&desc->attr);
  attention_state *s;
  RONDE__ALLOC(s, sizeof *s, "attention plan");
  s->n = x->n, s->heads = desc->attr.heads, s->t = x->c, s->ld = x->w;
  s->s = packed ? s->t : desc->in[KEY].c;
  s->f = packed ? x->w / 3 : x->w;
  s->d = s->f / s->heads;
  s->scale = (float)(1 / sqrt((double)s->d));
  for (int i = 0; i < 4; i++) make_kernels(desc, s, i / 2, i % 2);
  *state_out = s;
  return RONDE_OK;
}

static void attention_release(const ronde__op_desc *desc, void *state) { ronde__free(state); }

/* The logarithm of each query's sum, [N][H][T]. */
static size_t attention_saved(const ronde__op_desc *desc, const void *state) {
  const attention_state *s = state;
  return (size_t)(s->n * s->heads * s->t);
}

/* Of a thread: turned queries and the output's sums [D][BLOCK], scores, and of each query the maximum, the sum and how they
 * have changed. */
static int64_t forward_scratch(const attention_state *s) { return BLOCK * (2 * s->d + BLOCK + 3); }
/* Scores and slopes; of the whole head: queries and gradients of outputs, turned tile by tile, the gradients of queries, keys and
 * values, and of each query the dot product of output and gradient. */
static int64_t backward_scratch(const attention_state *s) {
  return 2 * BLOCK * BLOCK + 2 * tiles_of(s->t) * BLOCK * s->d + s->t * (s->d + 1) + 2 * s->s * s->d;
}

static size_t attention_work(const ronde__op_desc *desc, const void *state, bool backward) {
  return (size_t)(desc->threads * (backward ? backward_scratch(state) : forward_scratch(state)));
}

/* ---- a head of an example ---- */

typedef struct attention_job {
  const ronde__op_desc *desc;
  const attention_state *s;
  const ronde__op_call *call;
} attention_job;

typedef struct head {
  const float *x[3]; /* query, key, value */
  int64_t at;        /* of its first feature of the first query, in the output */
  int64_t n_keys;    /* that are there */
  float *sums;       /* [T]: logarithms */
} head;

/* Where a head's rows of operand i begin in an array that lies like it. */
static int64_t place_of(const attention_job *j, int64_t n, int64_t h, int i) {
  const attention_state *s = j->s;
  if (is_packed(&j->desc->attr)) return n * s->t * s->ld + i * s->f + h * s->d;
  return n * (i == QUERY ? s->t : s->s) * s->ld + h * s->d;
}

static head head_of(const attention_job *j, int64_t item) {
  const attention_state *s = j->s;
  int64_t n = item / s->heads, h = item % s->heads;
  head head = {.at = n * s->t * s->f + h * s->d, .sums = j->call->saved + item * s->t};
  head.n_keys = ronde__rows_there(j->desc, j->call, n, s->s);
  for (int i = 0; i < 3; i++) head.x[i] = j->call->in[is_packed(&j->desc->attr) ? 0 : i] + place_of(j, n, h, i);
  return head;
}

/* Of a tile of keys: how many of them are there. */
static int64_t keys_there(const head *head, int64_t k, int64_t n) {
  return ronde__max(0, ronde__min(n, head->n_keys - k * BLOCK));
}

/* So many keys beyond its own number in its tile a query sees of this tile. */
static int64_t reach_of(const attention_job *j, int64_t tile, int64_t k) {
  return j->desc->attr.causal ? (tile - k) * BLOCK : BLOCK;
}

/* The first tile of keys that no query of the tile sees. */
static int64_t key_tiles(const attention_job *j, const head *head, int64_t tile) {
  int64_t last = ronde__min(j->s->t, (tile + 1) * BLOCK);
  return tiles_of(j->desc->attr.causal ? ronde__min(head->n_keys, last) : head->n_keys);
}

static void multiply(const ronde__gemm *gemm, const float *a, const float *b, float *c) {
  const uint64_t zero = 0;
  ronde__gemm_run(gemm, a, &zero, b, &zero, 1, c);
}

/* Rows of a tile of queries, or of gradients, as [D][BLOCK]. */
static void turn(const attention_job *j, const float *x, int64_t ld, int64_t tile, float *turned) {
  j->desc->compute.kernels->transpose(x + tile * BLOCK * ld, ld, tile_rows(j->s->t, tile), j->s->d, turned, BLOCK);
}

/* ---- forward ---- */

/* The sums [D][BLOCK] of a tile become its outputs, and the logarithms of the queries' sums. */
static void give_outputs(const attention_job *j, const head *head, int64_t tile, float *y, const float *most,
                         float *sum) {
  const attention_state *s = j->s;
  int64_t first = tile * BLOCK, rows = tile_rows(s->t, tile);
  for (int64_t r = 0; r < rows; r++) {
    head->sums[first + r] = most[r] + logf(sum[r]);
    sum[r] = sum[r] > 0 || isnan(sum[r]) ? 1 / sum[r] : 0;
  }
  j->desc->compute.kernels->scale_columns(y, BLOCK, s->d, rows, sum);
  j->desc->compute.kernels->transpose(y, BLOCK, s->d, rows, j->call->out[0] + head->at + first * s->f, s->f);
}

static void forward_tile(const attention_job *j, const head *head, int64_t tile, float *work) {
  const attention_state *s = j->s;
  const ronde__kernels *kernels = j->desc->compute.kernels;
  int64_t rows = tile_rows(s->t, tile), d = s->d;
  float *query = work, *scores = query + BLOCK * d, *y = scores + BLOCK * BLOCK, *most = y + BLOCK * d,
        *sum = most + BLOCK, *changed = sum + BLOCK;
  turn(j, head->x[QUERY], s->ld, tile, query);
  memset(y, 0, (size_t)(BLOCK * d) * sizeof *y);
  for (int64_t r = 0; r < rows; r++) most[r] = -INFINITY, sum[r] = 0;
  for (int64_t k = 0; k < key_tiles(j, head, tile); k++) {
    int64_t n = tile_rows(s->s, k), there = keys_there(head, k, n);
    int last_q = tile == tiles_of(s->t) - 1, last_k = k == tiles_of(s->s) - 1;
    multiply(&s->scores[last_q][last_k].set, head->x[KEY] + k * BLOCK * s->ld, query, scores);
    kernels->softmax_columns(scores, BLOCK, there, rows, reach_of(j, tile, k), s->scale, most, sum, changed);
    memset(scores + there * BLOCK, 0, (size_t)((n - there) * BLOCK) * sizeof *scores);
    if (k > 0) kernels->scale_columns(y, BLOCK, d, rows, changed);
    multiply(&s->out[last_q][last_k].add, head->x[VALUE] + k * BLOCK * s->ld, scores, y);
  }
  give_outputs(j, head, tile, y, most, sum);
}

static void forward_part(void *arg, int thread, int n_threads) {
  const attention_job *j = arg;
  const attention_state *s = j->s;
  int64_t tiles = tiles_of(s->t), begin, end;
  ronde__thread_chunk(s->n * s->heads * tiles, thread, n_threads, &begin, &end);
  for (int64_t i = begin; i < end; i++) {
    head head = head_of(j, i / tiles);
    forward_tile(j, &head, i % tiles, j->call->work + thread * forward_scratch(s));
  }
}

static ronde_status attention_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  attention_job j = {desc, state, call};
  ronde__pool_run(call->pool, forward_part, &j);
  return RONDE_OK;
}

/* ---- backward ---- */

typedef struct scratch {
  float *scores, *slopes, *queries, *gradients, *dq, *dk, *dv, *dots;
} scratch;

static scratch scratch_of(const attention_job *j, int thread) {
  int64_t d = j->s->d, turned = tiles_of(j->s->t) * BLOCK * d;
  scratch w = {.scores = j->call->work + thread * backward_scratch(j->s)};
  w.slopes = w.scores + BLOCK * BLOCK;
  w.queries = w.slopes + BLOCK * BLOCK;
  w.gradients = w.queries + turned;
  w.dq = w.gradients + turned;
  w.dk = w.dq + j->s->t * d;
  w.dv = w.dk + j->s->s * d;
  w.dots = w.dv + j->s->s * d;
  return w;
}

/* What a tile of keys has from a tile of queries, and gives to it: p again in `scores`, its slope in `slopes`. */
static void backward_tile(const attention_job *j, const head *head, int64_t tile, int64_t k, const scratch *w) {
  const attention_state *s = j->s;
  int64_t first = tile * BLOCK, n = tile_rows(s->s, k), there = keys_there(head, k, n), turned = tile * BLOCK * s->d;
  int last_q = tile == tiles_of(s->t) - 1, last_k = k == tiles_of(s->s) - 1;
  const float *query = head->x[QUERY] + first * s->ld, *dy = j->call->dout[0] + head->at + first * s->f;
  const float *key = head->x[KEY] + k * BLOCK * s->ld, *value = head->x[VALUE] + k * BLOCK * s->ld;
  multiply(&s->scores[last_q][last_k].set, key, w->queries + turned, w->scores);
  multiply(&s->scores[last_q][last_k].set, value, w->gradients + turned, w->slopes);
  j->desc->compute.kernels->softmax_columns_backward(w->scores, w->slopes, BLOCK, there, tile_rows(s->t, tile),
                                                     reach_of(j, tile, k), s->scale, head->sums + first,
                                                     w->dots + first);
  memset(w->scores + there * BLOCK, 0, (size_t)((n - there) * BLOCK) * sizeof *w->scores);
  memset(w->slopes + there * BLOCK, 0, (size_t)((n - there) * BLOCK) * sizeof *w->slopes);
  multiply(&s->dv[last_q][last_k].add, w->scores, dy, w->dv + k * BLOCK * s->d);
  multiply(&s->dk[last_q][last_k].add, w->slopes, query, w->dk + k * BLOCK * s->d);
  multiply(&s->dq[last_q][last_k].add, w->slopes, key, w->dq + first * s->d);
}

/* A gradient [rows][D] to its place in that of operand i, if it is wanted. */
static void give(const attention_job *j, int64_t item, int i, int64_t rows, const float *gradient, float factor) {
  const attention_state *s = j->s;
  int input = is_packed(&j->desc->attr) ? 0 : i;
  float *dx = j->call->din[input];
  if (!dx) return;
  dx += place_of(j, item / s->heads, item % s->heads, i);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < s->d; c++) {
      float *at = dx + r * s->ld + c;
      *at = gradient[r * s->d + c] * factor + (j->call->accumulate_dinput[input] ? *at : 0);
    }
}

static void backward_head(const attention_job *j, int64_t item, const scratch *w) {
  const attention_state *s = j->s;
  head head = head_of(j, item);
  memset(w->dq, 0, (size_t)((s->t + 2 * s->s) * s->d) * sizeof *w->dq); /* dk and dv lie behind it */
  for (int64_t t = 0; t < s->t; t++) {
    int64_t at = head.at + t * s->f;
    w->dots[t] = (float)j->desc->compute.kernels->dot(j->call->out[0] + at, j->call->dout[0] + at, s->d);
  }
  for (int64_t tile = 0; tile < tiles_of(s->t); tile++) {
    turn(j, head.x[QUERY], s->ld, tile, w->queries + tile * BLOCK * s->d);
    turn(j, j->call->dout[0] + head.at, s->f, tile, w->gradients + tile * BLOCK * s->d);
  }
  for (int64_t k = 0; k < tiles_of(head.n_keys); k++)
    for (int64_t tile = j->desc->attr.causal ? k : 0; tile < tiles_of(s->t); tile++)
      backward_tile(j, &head, tile, k, w);
  give(j, item, QUERY, s->t, w->dq, s->scale); /* in this order, because they may be one tensor */
  give(j, item, KEY, s->s, w->dk, s->scale);
  give(j, item, VALUE, s->s, w->dv, 1);
}

static void backward_part(void *arg, int thread, int n_threads) {
  const attention_job *j = arg;
  scratch w = scratch_of(j, thread);
  int64_t begin, end;
  ronde__thread_chunk(j->s->n * j->s->heads, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) backward_head(j, item, &w);
}

static ronde_status attention_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  attention_job j = {desc, state, call};
  ronde__pool_run(call->pool, backward_part, &j);
  ronde__lengths_backward(desc, call);
  return RONDE_OK;
}

static const char *attention_implementation(const ronde__op_desc *desc, const void *state) {
  return ((const attention_state *)state)->scores[0][0].set.implementation;
}

/* All tiles counted: which of them are passed over follows from lengths. */
static double attention_executed_flops(const ronde__op_desc *desc, const void *state, bool backward) {
  const attention_state *s = state;
  double product = 2 * (double)(s->n * s->t) * (double)(s->s * s->f) * (desc->attr.causal ? 0.5 : 1);
  return product * (backward ? 5 : 2);
}

static const ronde__form attention_form = {
    .prepare = attention_prepare,
    .release = attention_release,
    .work_elems = attention_work,
    .saved_elems = attention_saved,
    .forward = attention_forward,
    .backward = attention_backward,
    .implementation = attention_implementation,
    .executed_flops = attention_executed_flops,
};

const ronde__op ronde__op_attention = {
    .name = "attention",
    .infer = attention_infer,
    .flops = attention_flops,
    .layouts = attention_layouts,
    .backward_reads = {.in = 15, .out = 1},
    .forms = (const ronde__form *const[]){&attention_form, NULL},
};
