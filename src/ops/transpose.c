/* The dimensions of an example in another order, in ROWS. Backward is the opposite order. */
#include "ops/elementwise.h"
#include "ops/gemm_list.h"
#include "ops/walk.h"

static ronde_status transpose_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                    const char *const *in_labels, ronde__shape *out) {
  unsigned seen = 0;
  *out = (ronde__shape){.rank = in[0].rank};
  for (int d = 0; d < in[0].rank; d++) {
    int from = attr->order[d];
    if (from < 0 || from >= in[0].rank || seen >> from & 1)
      return ronde__fail(RONDE_E_USAGE, "%s: its order names dimension %d of %d twice, or it is not there", label, from,
                         in[0].rank);
    seen |= 1u << from;
    out->dim[d] = in[0].dim[from];
  }
  return RONDE_OK;
}

static void transpose_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  desc->attr.shape = in[0];
  desc->in[0] = ronde__phys_of_shape(&in[0], desc->in[0].n);
  desc->out[0] = ronde__phys_of_shape(out, desc->in[0].n);
}

/* From array 0 to array 1, whose elements are adjacent in the order of the walk. */
typedef struct transpose_job {
  const ronde__op_desc *desc;
  ronde__walk walk;
  const float *from;
  float *to;
  bool accumulate;
} transpose_job;

/* Where the last two dimensions change places, in tiles of them. */
static bool is_matrix(const ronde__walk *w) { return w->rank >= 2 && w->step[0][w->rank - 2] == 1; }

static void move_matrix(const transpose_job *j, int64_t item) {
  const ronde__walk *w = &j->walk;
  int last = w->rank - 1;
  j->desc->compute.kernels->transpose(j->from + ronde__walk_at(w, 0, 0, last - 1, item), w->step[0][last],
                                      w->size[last], w->size[last - 1], j->to + ronde__walk_at(w, 1, 0, last - 1, item),
                                      w->size[last]);
}

static void move_row(const transpose_job *j, int64_t item) {
  const ronde__walk *w = &j->walk;
  int last = w->rank - 1;
  const float *from = j->from + ronde__walk_at(w, 0, 0, last, item);
  float *to = j->to + ronde__walk_at(w, 1, 0, last, item);
  int64_t step = w->step[0][last];
  if (step == 1) {
    ronde__gradient_add(j->desc, from, to, w->size[last], j->accumulate);
    return;
  }
  for (int64_t i = 0; i < w->size[last]; i++) to[i] = from[i * step] + (j->accumulate ? to[i] : 0);
}

static void transpose_part(void *arg, int thread, int n_threads) {
  const transpose_job *j = arg;
  bool matrix = is_matrix(&j->walk) && !j->accumulate;
  int64_t begin, end;
  ronde__thread_chunk(ronde__walk_count(&j->walk, 0, j->walk.rank - (matrix ? 2 : 1)), thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) matrix ? move_matrix(j, item) : move_row(j, item);
}

/* order[d]: the dimension of `shape`, from which is copied, that stands at d where it is copied to. */
static void transpose_run(const ronde__op_desc *desc, const ronde__op_call *call, const ronde__shape *shape,
                          const int *order, const float *from, float *to, bool accumulate) {
  transpose_job j = {.desc = desc, .from = from, .to = to, .accumulate = accumulate};
  int64_t step[RONDE_MAX_RANK + 1], own = 1;
  step[shape->rank] = 1;
  for (int d = shape->rank - 1; d >= 0; d--) step[d] = step[d + 1] * shape->dim[d];
  j.walk.rank = shape->rank + 1;
  j.walk.size[0] = desc->in[0].n;
  j.walk.step[0][0] = j.walk.step[1][0] = step[0];
  for (int d = shape->rank - 1; d >= 0; d--) {
    j.walk.size[d + 1] = shape->dim[order[d]];
    j.walk.step[0][d + 1] = step[order[d] + 1];
    j.walk.step[1][d + 1] = own;
    own *= shape->dim[order[d]];
  }
  ronde__walk_merge(&j.walk);
  ronde__pool_run(call->pool, transpose_part, &j);
}

static ronde_status transpose_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  transpose_run(desc, call, &desc->attr.shape, desc->attr.order, call->in[0], call->out[0], false);
  return RONDE_OK;
}

static ronde_status transpose_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const ronde__shape *in = &desc->attr.shape;
  ronde__shape out = {.rank = in->rank};
  int back[RONDE_MAX_RANK];
  for (int d = 0; d < in->rank; d++) {
    out.dim[d] = in->dim[desc->attr.order[d]];
    back[desc->attr.order[d]] = d;
  }
  if (call->din[0]) transpose_run(desc, call, &out, back, call->dout[0], call->din[0], call->accumulate_dinput[0]);
  return RONDE_OK;
}

static const ronde__form transpose_form = {
    .forward = transpose_forward,
    .backward = transpose_backward,
    .implementation = ronde__elementwise_implementation,
};

const ronde__op ronde__op_transpose = {
    .name = "transpose",
    .infer = transpose_infer,
    .layouts = transpose_layouts,
    .forms = (const ronde__form *const[]){&transpose_form, NULL},
};
