/* Channels of all groups in turn, as a step between convolutions in groups: channel j of the output is channel
 * (j % g) (C / g) + j / g of the input, in whatever layout that lies. Source: Zhang et al., "ShuffleNet", 2018. Backward is the
 * shuffle by C / g groups.
 * In ROWS and LANES whole planes move. In BLOCKS each vector of a row is put together of the lanes of a few others, by a list
 * that is the same for all rows. */
#include "ops/elementwise.h"
#include "ops/gemm_list.h"

#include <string.h>

static ronde_status channel_shuffle_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                          const char *const *in_labels, ronde__shape *out) {
  char text[96];
  *out = in[0];
  if (in[0].rank >= 1 && attr->groups >= 1 && in[0].dim[0] % attr->groups == 0) return RONDE_OK;
  ronde__shape_text(&in[0], text, sizeof text);
  return ronde__fail(RONDE_E_USAGE, "%s: %d groups do not divide the channels of %s, which gives %s", label,
                     attr->groups, in_labels[0], text);
}

static void channel_shuffle_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  desc->in[0] = desc->out[0] = ronde__phys_of_shape_in(desc->in[0].layout, &in[0], desc->in[0].n);
}

/* The channel that stands at j of c behind a shuffle by so many groups. */
static int64_t channel_at(int64_t j, int64_t c, int64_t groups) { return j % groups * (c / groups) + j / groups; }

/* ---- BLOCKS ---- */

/* The picks of vector v of a row of all blocks are [begin[v], begin[v + 1]). */
typedef struct shuffle {
  ronde__pick *picks;
  int *begin;
} shuffle;

typedef struct shuffles {
  shuffle forward, backward;
} shuffles;

static int64_t n_rows(const ronde__phys *x) { return x->h * x->w * x->n; }

/* Appends the picks of the vector from channel `first` on. Each takes all lanes that its neighbours have, from the first lane on
 * that nobody has given; it ends within the row. */
static int add_picks(const ronde__phys *x, int64_t groups, int vector, int64_t first, ronde__pick *picks) {
  uint32_t left = 0;
  int n = 0;
  for (int i = 0; i < vector; i++) left |= (uint32_t)(first + i < x->c) << i;
  for (; left; left &= ~picks[n++].lanes) {
    int64_t from = channel_at(first + __builtin_ctz(left), x->c, groups);
    int64_t at = ronde__min(from % x->block, x->block - vector);
    picks[n] = (ronde__pick){.at = from / x->block * n_rows(x) * x->block + at};
    for (int i = 0; i < vector; i++) {
      int64_t lane = left >> i & 1 ? channel_at(first + i, x->c, groups) - from / x->block * x->block - at : -1;
      if (lane < 0 || lane >= vector) continue;
      picks[n].lanes |= 1u << i;
      picks[n].from[i] = (int32_t)lane;
    }
  }
  return n;
}

static ronde_status make_shuffle(const ronde__phys *x, int64_t groups, int vector, shuffle *s) {
  int64_t channels = ronde__phys_blocks(x) * x->block, n_vectors = channels / vector;
  RONDE__ALLOC(s->picks, (size_t)channels * sizeof *s->picks, "a channel shuffle");
  RONDE__ALLOC(s->begin, (size_t)(n_vectors + 1) * sizeof *s->begin, "a channel shuffle");
  for (int64_t v = 0; v < n_vectors; v++)
    s->begin[v + 1] = s->begin[v] + add_picks(x, groups, vector, v * vector, s->picks + s->begin[v]);
  return RONDE_OK;
}

static void channel_shuffle_release(const ronde__op_desc *desc, void *state) {
  shuffles *s = state;
  if (!s) return;
  ronde__free(s->forward.picks), ronde__free(s->forward.begin);
  ronde__free(s->backward.picks), ronde__free(s->backward.begin);
  ronde__free(s);
}

static ronde_status channel_shuffle_prepare(const ronde__op_desc *desc, void **state_out) {
  const ronde__phys *x = &desc->in[0];
  int vector = desc->compute.kernels->vector;
  shuffles *s;
  if (x->layout != RONDE__BLOCKS) return RONDE_OK;
  RONDE__ALLOC(s, sizeof *s, "a channel shuffle");
  *state_out = s;
  RONDE_TRY(make_shuffle(x, desc->attr.groups, vector, &s->forward));
  return desc->need_dinput[0] ? make_shuffle(x, x->c / desc->attr.groups, vector, &s->backward) : RONDE_OK;
}

/* ---- both directions ---- */

typedef struct shuffle_job {
  const ronde__op_desc *desc;
  const shuffle *blocks;
  int64_t groups;
  const float *from;
  float *to;
  bool accumulate;
} shuffle_job;

/* Rows in tiles, whose blocks stay in cache while all vectors are put together of them. */
static void shuffle_rows(const shuffle_job *j, int64_t begin, int64_t end) {
  enum { TILE = 64 };
  const ronde__phys *x = &j->desc->in[0];
  const ronde__kernels *kernels = j->desc->compute.kernels;
  int64_t block = x->block, of_block = block / kernels->vector, n_vectors = ronde__phys_blocks(x) * of_block;
  for (int64_t r = begin; r < end; r += TILE)
    for (int64_t v = 0; v < n_vectors; v++) {
      float *to = j->to + (v / of_block * n_rows(x) + r) * block + v % of_block * kernels->vector;
      kernels->pick_rows(j->from + r * block, j->blocks->picks + j->blocks->begin[v],
                         j->blocks->begin[v + 1] - j->blocks->begin[v], block, ronde__min(TILE, end - r), to,
                         j->accumulate);
    }
}

static void shuffle_planes(const shuffle_job *j, int64_t length, int64_t begin, int64_t end) {
  int64_t c = j->desc->in[0].c;
  for (int64_t p = begin; p < end; p++)
    ronde__gradient_add(j->desc, j->from + (p - p % c + channel_at(p % c, c, j->groups)) * length, j->to + p * length,
                        length, j->accumulate);
}

static void shuffle_part(void *arg, int thread, int n_threads) {
  const shuffle_job *j = arg;
  const ronde__phys *x = &j->desc->in[0];
  bool is_lanes = x->layout == RONDE__LANES;
  int64_t begin, end, n_planes = is_lanes ? x->c : x->c * x->n;
  ronde__thread_chunk(j->blocks ? n_rows(x) : n_planes, thread, n_threads, &begin, &end);
  if (j->blocks) shuffle_rows(j, begin, end);
  else shuffle_planes(j, is_lanes ? n_rows(x) : x->h * x->w, begin, end);
}

static ronde_status channel_shuffle_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const shuffles *s = state;
  shuffle_job j = {desc, s ? &s->forward : NULL, desc->attr.groups, call->in[0], call->out[0], false};
  ronde__pool_run(call->pool, shuffle_part, &j);
  return RONDE_OK;
}

static ronde_status channel_shuffle_backward(const ronde__op_desc *desc, const void *state,
                                             const ronde__op_call *call) {
  const shuffles *s = state;
  int64_t groups = desc->in[0].c / desc->attr.groups;
  shuffle_job j = {desc, s ? &s->backward : NULL, groups, call->dout[0], call->din[0], call->accumulate_dinput[0]};
  if (call->din[0]) ronde__pool_run(call->pool, shuffle_part, &j);
  return RONDE_OK;
}

static const ronde__form channel_shuffle_form = {
    .prepare = channel_shuffle_prepare,
    .release = channel_shuffle_release,
    .forward = channel_shuffle_forward,
    .backward = channel_shuffle_backward,
    .implementation = ronde__elementwise_implementation,
};

const ronde__op ronde__op_channel_shuffle = {
    .name = "channel_shuffle",
    .infer = channel_shuffle_infer,
    .layouts = channel_shuffle_layouts,
    .forms = (const ronde__form *const[]){&channel_shuffle_form, NULL},
};
