/* Dropout: in training each element is zero with probability p, else divided by 1 - p; or so are stretches of `length`
 * elements together, such as a channel (Tompson et al. 2015) or the whole example (stochastic depth, Huang et al. 2016).
 * Which ones is a function of (seed, step, layer, example, stretch) and of nothing else, so that it does not depend on
 * layouts, threads or the number of workers. */
#include "ops/elementwise.h"

#include "base/rng.h"
#include "ops/gemm_list.h"
#include "ops/shares.h"
#include "ops/widen.h"

#include <math.h>
#include <string.h>

static ronde_status dropout_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                  const char *const *in_labels, ronde__shape *out) {
  if (!(attr->probability >= 0 && attr->probability < 1))
    return ronde__fail(RONDE_E_USAGE, "%s: a probability of dropout is at least 0 and below 1, not %g", label,
                       (double)attr->probability);
  if (attr->length > 0 && ronde__shape_elems(&in[0]) % attr->length)
    return ronde__fail(RONDE_E_USAGE, "%s: an example has no whole number of stretches", label);
  *out = in[0];
  return RONDE_OK;
}

static void dropout_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  desc->out[0] = desc->in[0];
  desc->rows = in[0].rank > 1 ? ronde__phys_rows(&desc->in[0], &in[0]) : 1; /* of vectors a rank may have a part */
}

typedef struct dropout_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
  const float *from;
  float *to;
  bool accumulate;
  uint32_t threshold; /* below it a word says that its stretch is dropped */
  float factor;       /* of what is kept */
} dropout_job;

/* The numbers of an example: a function of its key and its place in the step alone. */
typedef struct draw {
  uint64_t key, stream, example;
} draw;

static draw draw_of(const dropout_job *j, int64_t example) {
  const ronde__op_desc *desc = j->desc;
  const ronde__op_call *call = j->call;
  uint64_t stream = RONDE__STREAM_DROPOUT | (uint64_t)desc->layer;
  uint32_t random[4];
  ronde__philox(call->seed, stream, call->step, random);
  if (desc->turn.peers) example = ronde__turn_example(&desc->turn, example);
  return (draw){(uint64_t)random[0] << 32 | random[1], stream, (uint64_t)(call->first_example + example)};
}

static uint32_t threshold_of(float p) {
  return (uint32_t)lrint(p * 4294967296.0 < 4294967295.0 ? p * 4294967296.0 : 4294967295.0);
}

/* The words of n elements of the layer's example, from `begin` on: each stretch has one, four of which are a block. */
static void draw_words(const dropout_job *j, const draw *of, int64_t begin, int64_t n, uint32_t *words) {
  uint32_t drawn[RONDE__STRETCH + 8];
  const ronde__op_attr *attr = &j->desc->attr;
  int64_t length = ronde__max(1, attr->length), first = begin / length / 4, last = (begin + n - 1) / length / 4;
  j->desc->compute.kernels->philox(of->key, of->stream, of->example << 32 | (uint64_t)first, last - first + 1, drawn);
  const uint32_t *word = drawn + begin / length - first * 4;
  if (length == 1) {
    memcpy(words, word, (size_t)n * sizeof *words);
    return;
  }
  for (int64_t i = 0, end = length - begin % length; i < n; word++, end += length)
    for (; i < ronde__min(n, end); i++) words[i] = *word;
}

/* Elements [at, at + n), by their words. */
static void drop(const dropout_job *j, int64_t at, int64_t n, const uint32_t *words) {
  const ronde__phys *x = &j->desc->in[0];
  float room[RONDE__STRETCH], sums[RONDE__STRETCH];
  const float *from = ronde__widen(j->desc, x, j->from, at, n, room);
  float *to = ronde__operand_room(x, j->to, at, sums);
  if (j->accumulate) ronde__widen(j->desc, x, j->to, at, n, sums);
  j->desc->compute.kernels->drop(from, words, j->threshold, j->factor, n, to, j->accumulate);
  ronde__narrow(j->desc, x, to, n, j->to, at);
}

/* Where an example's element i is, in ROWS or in BLOCKS of vectors, and how many from there on lie side by side. */
static int64_t place_of(const ronde__op_desc *desc, int64_t example, int64_t i, int64_t *together_out) {
  const ronde__phys *x = &desc->in[0];
  int64_t elems = x->c * x->h * x->w;
  if (x->layout == RONDE__ROWS) {
    *together_out = elems * desc->rows - i;
    return example * elems * desc->rows + i;
  }
  *together_out = ronde__min(x->block - i % elems % x->block, elems - i % elems);
  return ronde__phys_index(x, example * desc->rows + i / elems, i % elems, 0);
}

/* Elements [begin, begin + n) of an example. */
static void drop_in_order(const dropout_job *j, int64_t example, int64_t begin, int64_t n, const uint32_t *words) {
  for (int64_t i = 0, together; i < n; i += together) {
    int64_t at = place_of(j->desc, example, begin + i, &together);
    together = ronde__min(together, n - i);
    drop(j, at, together, words + i);
  }
}

/* The same of images in LANES, which are f32. */
static void drop_lanes(const dropout_job *j, int64_t example, int64_t begin, int64_t n, const uint32_t *words) {
  const ronde__phys *x = &j->desc->in[0];
  for (int64_t i = 0; i < n; i++) {
    int64_t at = (begin + i) * x->block + example;
    float value = words[i] < j->threshold ? 0 : j->from[at] * j->factor;
    j->to[at] = j->accumulate ? j->to[at] + value : value;
  }
}

/* Images in BLOCKS: the words of a block's channels, which are adjacent in each pixel. */
static void drop_blocks(const dropout_job *j, const draw *of, int64_t example, uint32_t *words) {
  const ronde__phys *x = &j->desc->in[0];
  int64_t pixels = x->h * x->w;
  for (int64_t c = 0; c < x->c; c += x->block) {
    int64_t channels = ronde__min(x->block, x->c - c), elems = channels * pixels;
    for (int64_t i = 0; i < elems; i += RONDE__STRETCH)
      draw_words(j, of, c * pixels + i, ronde__min(RONDE__STRETCH, elems - i), words + i);
    for (int64_t p = 0; p < pixels; p++) {
      uint32_t own[RONDE__MAX_BLOCK];
      for (int64_t i = 0; i < channels; i++) own[i] = words[i * pixels + p];
      drop(j, ronde__phys_index(x, example, c, p), channels, own);
    }
  }
}

static bool is_image_in_blocks(const ronde__phys *x) { return x->layout == RONDE__BLOCKS && x->h * x->w > 1; }

/* Words of a block of channels, for each thread. */
static int64_t own_words(const ronde__phys *x) { return is_image_in_blocks(x) ? x->block * x->h * x->w : 0; }

static size_t dropout_work(const ronde__op_desc *desc, const void *state, bool backward) {
  return (size_t)(desc->threads * own_words(&desc->in[0]));
}

/* A split layer's part, which is no image, begins within the example. */
static void drop_example(const dropout_job *j, int64_t example, uint32_t *own) {
  const ronde__phys *x = &j->desc->in[0];
  int64_t elems = x->c * x->h * x->w * j->desc->rows;
  const draw of = draw_of(j, example);
  uint32_t words[RONDE__STRETCH];
  if (is_image_in_blocks(x)) {
    drop_blocks(j, &of, example, own);
    return;
  }
  for (int64_t begin = 0, n; begin < elems; begin += n) {
    n = ronde__min(RONDE__STRETCH, elems - begin);
    draw_words(j, &of, j->desc->first_channel + begin, n, words);
    if (x->layout == RONDE__LANES) drop_lanes(j, example, begin, n, words);
    else drop_in_order(j, example, begin, n, words);
  }
}

static void dropout_part(void *arg, int thread, int n_threads) {
  const dropout_job *j = arg;
  int64_t begin, end;
  ronde__thread_chunk(j->desc->in[0].n / j->desc->rows, thread, n_threads, &begin, &end);
  for (int64_t n = begin; n < end; n++)
    drop_example(j, n, (uint32_t *)(void *)j->call->work + thread * own_words(&j->desc->in[0]));
}

static void dropout_run(const ronde__op_desc *desc, const ronde__op_call *call, const float *from, float *to,
                        bool accumulate) {
  float p = desc->attr.probability;
  dropout_job j = {desc, call, from, to, accumulate, threshold_of(p), 1 / (1 - p)};
  const ronde__phys *x = &desc->in[0];
  if (!call->training || p == 0) {
    ronde__value_add(desc, x, from, 0, to, 0, ronde__phys_elems(x), accumulate);
    return;
  }
  ronde__pool_run(call->pool, dropout_part, &j);
  if (!accumulate) ronde__elementwise_clear_padding(x, to);
}

static ronde_status dropout_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  dropout_run(desc, call, call->in[0], call->out[0], false);
  return RONDE_OK;
}

static ronde_status dropout_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  if (call->din[0]) dropout_run(desc, call, call->dout[0], call->din[0], call->accumulate_dinput[0]);
  return RONDE_OK;
}

static const ronde__form dropout_form = {
    .bf16 = {.in = 1, .out = 1},
    .one_format = true,
    .work_elems = dropout_work,
    .forward = dropout_forward,
    .backward = dropout_backward,
    .implementation = ronde__elementwise_implementation,
};

const ronde__op ronde__op_dropout = {
    .name = "dropout",
    .infer = dropout_infer,
    .layouts = dropout_layouts,
    .takes_rows = true,
    .forms = (const ronde__form *const[]){&dropout_form, NULL},
};
