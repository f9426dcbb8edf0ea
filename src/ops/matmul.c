/* Products of matrices: y [...,M,N] = a [...,M,K] b [...,K,N], the dimensions in front as in arithmetic with broadcasting. Each
 * operand may lie the other way round ([...,K,M], [...,N,K]). In ROWS.
 * One product is one GEMM, in pieces of K. Its second operand must have its columns adjacent: what lies the other way
 * round is turned into a thread's scratch. Gradients: da = dy bT, db = aT dy, or transposed. */
#include "ops/elementwise.h"
#include "ops/gemm_list.h"
#include "ops/walk.h"

typedef struct sizes {
  int64_t m, n, k;
} sizes;

static int64_t side(const ronde__shape *shape, bool turned, int i) {
  return shape->dim[shape->rank - 2 + (turned ? 1 - i : i)];
}

static ronde_status refuse(const char *label, const ronde__shape *in, const char *const *in_labels) {
  char a[96], b[96];
  ronde__shape_text(&in[0], a, sizeof a);
  ronde__shape_text(&in[1], b, sizeof b);
  return ronde__fail(RONDE_E_USAGE, "%s: %s gives %s and %s gives %s, which have no product", label, in_labels[0], a,
                     in_labels[1], b);
}

static ronde_status matmul_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                 const char *const *in_labels, ronde__shape *out) {
  int rank = in[0].rank;
  if (rank < 2 || in[1].rank != rank || side(&in[0], attr->turned[0], 1) != side(&in[1], attr->turned[1], 0))
    return refuse(label, in, in_labels);
  out->rank = rank;
  for (int d = 0; d < rank - 2; d++) {
    out->dim[d] = ronde__max(in[0].dim[d], in[1].dim[d]);
    for (int i = 0; i < 2; i++)
      if (in[i].dim[d] != out->dim[d] && in[i].dim[d] != 1) return refuse(label, in, in_labels);
  }
  out->dim[rank - 2] = side(&in[0], attr->turned[0], 0);
  out->dim[rank - 1] = side(&in[1], attr->turned[1], 1);
  return RONDE_OK;
}

static int64_t matmul_flops(const ronde__op_attr *attr, const ronde__shape *in, const ronde__shape *out) {
  return 2 * ronde__shape_elems(out) * side(&in[0], attr->turned[0], 1);
}

static void matmul_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  ronde__op_attr *attr = &desc->attr;
  attr->shape = *out;
  attr->length = side(&in[0], attr->turned[0], 1);
  for (int i = 0; i < 2; i++) {
    attr->repeated[i] = 0;
    for (int d = 0; d < out->rank - 2; d++)
      if (in[i].dim[d] < out->dim[d]) attr->repeated[i] |= 1u << d;
    desc->in[i] = ronde__phys_of_shape(&in[i], desc->in[0].n);
  }
  desc->out[0] = ronde__phys_of_shape(out, desc->in[0].n);
}

static sizes sizes_of(const ronde__op_desc *desc) {
  const ronde__op_attr *a = &desc->attr;
  return (sizes){a->shape.dim[a->shape.rank - 2], a->shape.dim[a->shape.rank - 1], a->length};
}

/* Of whole matrices: arrays 0 and 1 are the operands, 2 is the output. */
static void walk_of(const ronde__op_desc *desc, ronde__walk *walk) {
  const ronde__op_attr *attr = &desc->attr;
  ronde__shape front = {attr->shape.rank - 2, {0}};
  sizes s = sizes_of(desc);
  const int64_t elems[] = {s.m * s.k, s.k * s.n, s.m * s.n};
  const unsigned repeated[] = {attr->repeated[0], attr->repeated[1], 0};
  for (int d = 0; d < front.rank; d++) front.dim[d] = attr->shape.dim[d];
  for (int a = 0; a < 3; a++) {
    ronde__walk_operand(walk, a, &desc->out[0], &front, &desc->out[0], repeated[a], false);
    for (int d = 0; d < walk->rank; d++) walk->step[a][d] *= elems[a];
  }
  ronde__walk_merge(walk);
}

/* ---- one product ---- */

/* C [m][n] (+)= A B, with operands that lie either way round; B is turned into scratch [k][n] where it must be. */
typedef struct product {
  sizes s;
  bool turned_a, turned_b;
  ronde__gemm_pair whole, rest; /* pieces of K */
} product;

typedef struct matmul_state {
  product forward, of_a, of_b;
} matmul_state;

enum { PIECE = 256 };

static product product_make(const ronde__op_desc *desc, sizes s, bool turned_a, bool turned_b) {
  product p = {.s = s, .turned_a = turned_a, .turned_b = turned_b};
  int64_t lda = turned_a ? s.m : s.k;
  for (int last = 0; last < 2; last++) {
    int64_t k = last ? s.k % PIECE : ronde__min(PIECE, s.k);
    if (k == 0) continue;
    *(last ? &p.rest : &p.whole) = ronde__gemm_pair_resolve(
        desc, (ronde__gemm_shape){(int)s.m, (int)s.n, (int)k, lda, s.n, s.n, turned_a, false, false});
  }
  return p;
}

static void product_run(const product *p, const ronde__kernels *kernels, const float *a, const float *b, float *c,
                        bool accumulate, float *scratch) {
  sizes s = p->s;
  const uint64_t zero = 0;
  if (p->turned_b) {
    kernels->transpose(b, s.k, s.n, s.k, scratch, s.n);
    b = scratch;
  }
  for (int64_t k = 0; k < s.k; k += PIECE) {
    const ronde__gemm_pair *pair = k + PIECE <= s.k || k == 0 ? &p->whole : &p->rest;
    ronde__gemm_run(accumulate || k ? &pair->add : &pair->set, a + (p->turned_a ? k * s.m : k), &zero, b + k * s.n,
                    &zero, 1, c);
  }
}

/* ---- the op ---- */

static ronde_status matmul_prepare(const ronde__op_desc *desc, void **state_out) {
  sizes s = sizes_of(desc);
  const bool *turned = desc->attr.turned;
  matmul_state *state;
  RONDE__ALLOC(state, sizeof *state, "matrix product plan");
  state->forward = product_make(desc, s, turned[0], turned[1]);
  /* da [m][k] = dy bT; where a lies as [k][m]: daT = b dyT */
  state->of_a = turned[0] ? product_make(desc, (sizes){s.k, s.m, s.n}, turned[1], true)
                          : product_make(desc, (sizes){s.m, s.k, s.n}, false, !turned[1]);
  /* db [k][n] = aT dy; where b lies as [n][k]: dbT = dyT a */
  state->of_b = turned[1] ? product_make(desc, (sizes){s.n, s.k, s.m}, true, turned[0])
                          : product_make(desc, (sizes){s.k, s.n, s.m}, !turned[0], false);
  *state_out = state;
  return RONDE_OK;
}

static void matmul_release(const ronde__op_desc *desc, void *state) { ronde__free(state); }

/* Of a thread: the largest operand that may have to be turned, in forward the second one. */
static int64_t scratch_elems(const ronde__op_desc *desc) {
  sizes s = sizes_of(desc);
  return ronde__max(s.m * s.k, ronde__max(s.k * s.n, s.m * s.n));
}

static size_t matmul_work(const ronde__op_desc *desc, const void *state, bool backward) {
  return backward || desc->attr.turned[1] ? (size_t)(desc->threads * scratch_elems(desc)) : 0;
}

typedef struct matmul_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
  const matmul_state *state;
  ronde__walk walk;
  int operand; /* whose gradient */
} matmul_job;

static void forward_part(void *arg, int thread, int n_threads) {
  const matmul_job *j = arg;
  const ronde__walk *w = &j->walk;
  float *scratch = j->call->work + thread * scratch_elems(j->desc);
  int64_t begin, end;
  ronde__thread_chunk(ronde__walk_count(w, 0, w->rank), thread, n_threads, &begin, &end);
  for (int64_t i = begin; i < end; i++)
    product_run(&j->state->forward, j->desc->compute.kernels, j->call->in[0] + ronde__walk_at(w, 0, 0, w->rank, i),
                j->call->in[1] + ronde__walk_at(w, 1, 0, w->rank, i),
                j->call->out[0] + ronde__walk_at(w, 2, 0, w->rank, i), false, scratch);
}

static ronde_status matmul_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  matmul_job j = {.desc = desc, .call = call, .state = state};
  walk_of(desc, &j.walk);
  ronde__pool_run(call->pool, forward_part, &j);
  return RONDE_OK;
}

/* One matrix of an operand, which may stand in several products. */
static void backward_item(const matmul_job *j, int kept, int64_t item, float *scratch) {
  const ronde__walk *w = &j->walk;
  const ronde__op_call *call = j->call;
  int o = j->operand;
  bool turned = j->desc->attr.turned[o];
  float *dx = call->din[o] + ronde__walk_at(w, o, 0, kept, item);
  for (int64_t r = 0; r < ronde__walk_count(w, kept, w->rank); r++) {
    const float *dy = call->dout[0] + ronde__walk_at(w, 2, 0, kept, item) + ronde__walk_at(w, 2, kept, w->rank, r);
    const float *other =
        call->in[1 - o] + ronde__walk_at(w, 1 - o, 0, kept, item) + ronde__walk_at(w, 1 - o, kept, w->rank, r);
    bool dy_first = (o == 0) != turned, accumulate = call->accumulate_dinput[o] || r > 0;
    product_run(o ? &j->state->of_b : &j->state->of_a, j->desc->compute.kernels, dy_first ? dy : other,
                dy_first ? other : dy, dx, accumulate, scratch);
  }
}

static void backward_part(void *arg, int thread, int n_threads) {
  matmul_job j = *(const matmul_job *)arg;
  float *scratch = j.call->work + thread * scratch_elems(j.desc);
  int kept = ronde__walk_sort(&j.walk, j.operand);
  int64_t begin, end;
  ronde__thread_chunk(ronde__walk_count(&j.walk, 0, kept), thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) backward_item(&j, kept, item, scratch);
}

/* Both may be one tensor: the second then adds to what the first has written. */
static ronde_status matmul_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  for (int o = 0; o < 2; o++) {
    matmul_job j = {.desc = desc, .call = call, .state = state, .operand = o};
    walk_of(desc, &j.walk);
    if (call->din[o]) ronde__pool_run(call->pool, backward_part, &j);
  }
  return RONDE_OK;
}

static const char *matmul_implementation(const ronde__op_desc *desc, const void *state) {
  return ((const matmul_state *)state)->forward.whole.set.implementation;
}

static double matmul_executed_flops(const ronde__op_desc *desc, const void *state, bool backward) {
  sizes s = sizes_of(desc);
  double one = 2 * (double)ronde__phys_elems(&desc->out[0]) * (double)s.k;
  return backward ? one * (desc->need_dinput[0] + desc->need_dinput[1]) : one;
}

static const ronde__form matmul_form = {
    .prepare = matmul_prepare,
    .release = matmul_release,
    .work_elems = matmul_work,
    .forward = matmul_forward,
    .backward = matmul_backward,
    .implementation = matmul_implementation,
    .executed_flops = matmul_executed_flops,
};

const ronde__op ronde__op_matmul = {
    .name = "matmul",
    .infer = matmul_infer,
    .flops = matmul_flops,
    .layouts = matmul_layouts,
    .backward_reads = {.in = 3},
    .forms = (const ronde__form *const[]){&matmul_form, NULL},
};
