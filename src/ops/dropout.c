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

/* Factors of elements [begin, begin + n) of the layer's example: four stretches from each Philox block. */
static void draw_factors(const ronde__op_attr *attr, const draw *of, int64_t begin, int64_t n, float *factors) {
  float p = attr->probability, kept = 1 / (1 - p);
  uint32_t threshold = (uint32_t)lrint(p * 4294967296.0 < 4294967295.0 ? p * 4294967296.0 : 4294967295.0), random[4];
  int64_t length = ronde__max(1, attr->length), stretch = begin / length, block = -1;
  for (int64_t i = 0, end; i < n; i = end, stretch++) {
    if (stretch / 4 != block) {
      block = stretch / 4;
      ronde__philox(of->key, of->stream, of->example << 32 | (uint64_t)block, random);
    }
    float factor = random[stretch % 4] < threshold ? 0 : kept;
    end = ronde__min(n, (stretch + 1) * length - begin);
    for (int64_t k = i; k < end; k++) factors[k] = factor;
  }
}

/* Where element i of an example is, and how many from there on lie side by side. */
static int64_t place_of(const ronde__op_desc *desc, int64_t example, int64_t i, int64_t *together_out) {
  const ronde__phys *x = &desc->in[0];
  int64_t pixels = x->h * x->w, elems = x->c * pixels;
  if (x->layout == RONDE__ROWS) {
    *together_out = elems * desc->rows - i;
    return example * elems * desc->rows + i;
  }
  int64_t c = i % elems / pixels;
  bool side_by_side = x->layout == RONDE__BLOCKS && pixels == 1;
  *together_out = side_by_side ? ronde__min(x->block - c % x->block, elems - c) : 1;
  return ronde__phys_index(x, example * desc->rows + i / elems, c, i % pixels);
}

/* Elements [at, at + n), times factors that may be 0. */
static void drop(const dropout_job *j, int64_t at, int64_t n, const float *factors) {
  const ronde__phys *x = &j->desc->in[0];
  float room[RONDE__STRETCH], sums[RONDE__STRETCH];
  const float *from = ronde__widen(j->desc, x, j->from, at, n, room);
  float *to = ronde__operand_room(x, j->to, at, sums);
  if (j->accumulate) {
    ronde__widen(j->desc, x, j->to, at, n, sums);
    for (int64_t i = 0; i < n; i++) to[i] += factors[i] == 0 ? 0 : from[i] * factors[i];
  } else {
    for (int64_t i = 0; i < n; i++) to[i] = factors[i] == 0 ? 0 : from[i] * factors[i];
  }
  ronde__narrow(j->desc, x, to, n, j->to, at);
}

/* A split layer's part begins within the example. */
static void drop_example(const dropout_job *j, int64_t example) {
  const ronde__phys *x = &j->desc->in[0];
  int64_t pixels = x->h * x->w, first = j->desc->first_channel * pixels, elems = x->c * pixels * j->desc->rows;
  const draw of = draw_of(j, example);
  float factors[RONDE__STRETCH];
  for (int64_t begin = 0, n; begin < elems; begin += n) {
    n = ronde__min(RONDE__STRETCH, elems - begin);
    draw_factors(&j->desc->attr, &of, first + begin, n, factors);
    for (int64_t i = 0, together; i < n; i += together) {
      int64_t at = place_of(j->desc, example, begin + i, &together);
      together = ronde__min(together, n - i);
      drop(j, at, together, factors + i);
    }
  }
}

static void dropout_part(void *arg, int thread, int n_threads) {
  const dropout_job *j = arg;
  int64_t begin, end;
  ronde__thread_chunk(j->desc->in[0].n / j->desc->rows, thread, n_threads, &begin, &end);
  for (int64_t n = begin; n < end; n++) drop_example(j, n);
}

static void dropout_run(const ronde__op_desc *desc, const ronde__op_call *call, const float *from, float *to,
                        bool accumulate) {
  dropout_job j = {desc, call, from, to, accumulate};
  const ronde__phys *x = &desc->in[0];
  if (!call->training || desc->attr.probability == 0) {
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
