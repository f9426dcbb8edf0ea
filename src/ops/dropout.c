/* Dropout: in training each element is zero with probability p, else divided by 1 - p; or so are stretches of `length`
 * elements together, such as a channel (Tompson et al. 2015) or the whole example (stochastic depth, Huang et al. 2016).
 * Which ones is a function of (seed, step, layer, example, stretch) and of nothing else, so that it does not depend on
 * layouts, threads or the number of workers. */
#include "ops/elementwise.h"

#include "base/rng.h"
#include "ops/gemm_list.h"
#include "ops/shares.h"

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

typedef struct dropout_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
  const float *from;
  float *to;
  bool accumulate;
} dropout_job;

/* Elements [begin,end) of an example, times a factor that may be 0. */
static void drop_stretch(const dropout_job *j, int64_t n, int64_t begin, int64_t end, float factor) {
  const ronde__phys *x = &j->desc->in[0];
  int64_t pixels = x->h * x->w, elems = x->c * pixels;
  bool whole = x->layout == RONDE__ROWS; /* features lie side by side */
  for (int64_t i = begin; i < end; i++) {
    int64_t at = whole ? n * elems + i : ronde__phys_index(x, n, i / pixels, i % pixels);
    float value = factor == 0 ? 0 : j->from[at] * factor;
    j->to[at] = j->accumulate ? j->to[at] + value : value;
  }
}

/* One example: four stretches from each Philox block. A split layer's part begins within the example. */
static void drop_example(const dropout_job *j, int64_t n) {
  const ronde__phys *x = &j->desc->in[0];
  const ronde__op_call *call = j->call;
  float p = j->desc->attr.probability, factor = 1 / (1 - p);
  uint32_t threshold = (uint32_t)lrint(p * 4294967296.0 < 4294967295.0 ? p * 4294967296.0 : 4294967295.0);
  int64_t pixels = x->h * x->w, first = j->desc->first_channel * pixels, end = first + x->c * pixels;
  int64_t length = ronde__max(1, j->desc->attr.length);
  uint64_t stream = RONDE__STREAM_DROPOUT | (uint64_t)j->desc->layer,
           example =
               (uint64_t)(call->first_example + (j->desc->turn.peers ? ronde__turn_example(&j->desc->turn, n) : n));
  uint32_t random[4];
  ronde__philox(call->seed, stream, call->step, random);
  uint64_t key = (uint64_t)random[0] << 32 | random[1];
  for (int64_t block = first / length / 4; block * 4 * length < end; block++) {
    ronde__philox(key, stream, example << 32 | (uint64_t)block, random);
    for (int64_t k = 0; k < 4; k++) {
      int64_t from = (block * 4 + k) * length;
      drop_stretch(j, n, ronde__max(from, first) - first, ronde__min(from + length, end) - first,
                   random[k] < threshold ? 0 : factor);
    }
  }
}

static void dropout_part(void *arg, int thread, int n_threads) {
  const dropout_job *j = arg;
  int64_t begin, end;
  ronde__thread_chunk(j->desc->in[0].n, thread, n_threads, &begin, &end);
  for (int64_t n = begin; n < end; n++) drop_example(j, n);
}

static void dropout_run(const ronde__op_desc *desc, const ronde__op_call *call, const float *from, float *to,
                        bool accumulate) {
  dropout_job j = {desc, call, from, to, accumulate};
  int64_t elems = ronde__phys_elems(&desc->in[0]);
  if (!call->training || desc->attr.probability == 0) {
    ronde__gradient_add(desc, from, to, elems, accumulate);
    return;
  }
  if (!accumulate) memset(to, 0, (size_t)elems * sizeof *to); /* padding */
  ronde__pool_run(call->pool, dropout_part, &j);
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
    .forward = dropout_forward,
    .backward = dropout_backward,
    .implementation = ronde__elementwise_implementation,
};

const ronde__op ronde__op_dropout = {
    .name = "dropout",
    .infer = dropout_infer,
    .layouts = ronde__elementwise_layouts,
    .forms = (const ronde__form *const[]){&dropout_form, NULL},
};
