/* y = f(a, b), element by element, with broadcasting. In BLOCKS and LANES, where both are images: a gate of [C,1,1] is a row
 * of the batch and a block of channels for each pixel, and nothing is moved.
 *
 * The gradient of what was repeated is a sum over where it was: for each element of the operand, or each run of adjacent
 * ones, all the terms in a fixed order, in f64. Of a sum or a difference, what is not repeated may
 * have it where the output's lies: it is the same, or, of a difference's second operand, made last. */
#include "ops/pair.h"

#include "ops/elementwise.h"
#include "ops/gemm_list.h"
#include "ops/walk.h"

#include <math.h>
#include <string.h>

static ronde_status refuse(const char *label, const ronde__shape *in, const char *const *in_labels) {
  char a[96], b[96];
  ronde__shape_text(&in[0], a, sizeof a);
  ronde__shape_text(&in[1], b, sizeof b);
  return ronde__fail(RONDE_E_USAGE, "%s: %s gives %s, but %s gives %s: dimensions must be equal, or 1 in one of them",
                     label, in_labels[0], a, in_labels[1], b);
}

ronde_status ronde__pair_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                               const char *const *in_labels, ronde__shape *out) {
  if (in[0].rank != in[1].rank) return refuse(label, in, in_labels);
  out->rank = in[0].rank;
  for (int d = 0; d < out->rank; d++) {
    out->dim[d] = ronde__max(in[0].dim[d], in[1].dim[d]);
    for (int i = 0; i < 2; i++)
      if (in[i].dim[d] != out->dim[d] && in[i].dim[d] != 1) return refuse(label, in, in_labels);
  }
  return RONDE_OK;
}

/* The larger input's layout, where the output and both inputs are images or vectors; what has rows of examples keeps them
 * only where nothing is repeated. */
void ronde__pair_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  int larger = ronde__shape_elems(&in[1]) > ronde__shape_elems(&in[0]);
  const ronde__phys *x = &desc->in[larger];
  int64_t n = x->n / ronde__phys_rows(x, &in[larger]);
  ronde__layout layout = out->rank == 3 || out->rank == 1 ? x->layout : RONDE__ROWS;
  desc->attr.shape = *out;
  for (int i = 0; i < 2; i++) {
    desc->attr.repeated[i] = 0;
    for (int d = 0; d < out->rank; d++)
      if (in[i].dim[d] < out->dim[d]) desc->attr.repeated[i] |= 1u << d;
  }
  if (!desc->attr.repeated[0] && !desc->attr.repeated[1]) {
    desc->in[1 - larger] = desc->in[larger];
    desc->out[0] = desc->in[larger];
    return;
  }
  if (x->n != n || !ronde__shape_equal(&in[larger], out)) layout = RONDE__ROWS;
  if (out->rank == 1) layout = RONDE__ROWS;
  for (int i = 0; i < 2; i++) desc->in[i] = ronde__phys_of_shape_in(layout, &in[i], n);
  desc->out[0] = ronde__phys_of_shape_in(layout, out, n);
}

/* Arrays 0 and 1 are the operands, 2 is the output. Two walks in BLOCKS; returns whether there is something to walk. */
static bool walk_of(const ronde__op_desc *desc, bool last_block, ronde__walk *walk) {
  const ronde__phys *y = &desc->out[0];
  if (last_block && (y->layout != RONDE__BLOCKS || y->c % y->block == 0)) return false;
  if (y->layout == RONDE__BLOCKS && !last_block && y->c < y->block) return false;
  if (!desc->attr.repeated[0] && !desc->attr.repeated[1] && !last_block && y->layout != RONDE__BLOCKS) {
    *walk = (ronde__walk){.rank = 1, .size = {ronde__phys_elems(y)}, .step = {{1}, {1}, {1}}};
    return true;
  }
  const ronde__phys *of[] = {&desc->in[0], &desc->in[1], y};
  const unsigned repeated[] = {desc->attr.repeated[0], desc->attr.repeated[1], 0};
  for (int a = 0; a < 3; a++) ronde__walk_operand(walk, a, y, &desc->attr.shape, of[a], repeated[a], last_block);
  ronde__walk_merge(walk);
  return true;
}

/* Where the last block of an array begins. */
static int64_t last_block_of(const ronde__phys *own, const ronde__phys *y) {
  return own->c < y->c ? 0 : (ronde__phys_blocks(own) - 1) * own->h * own->w * own->n * own->block;
}

/* ---- one run: [n] terms, where operands step by 0 or 1 ---- */

/* The steps are constants to the loops, so that each is compiled for itself. */
#define RUN_BY(sa_, sb_, expression)                                                                \
  for (int64_t i = 0; i < n; i++) {                                                                 \
    const float x __attribute__((unused)) = a[i * (sa_)], z __attribute__((unused)) = b[i * (sb_)]; \
    to[i] = (expression);                                                                           \
  }
#define RUN(expression)                                   \
  do {                                                    \
    if (sa == 1 && sb == 1) RUN_BY(1, 1, expression)      \
    else if (sa == 1 && sb == 0) RUN_BY(1, 0, expression) \
    else if (sa == 0 && sb == 1) RUN_BY(0, 1, expression) \
    else RUN_BY(sa, sb, expression)                       \
  } while (0)

static float maximum(float x, float z) { return x > z || isnan(x) ? x : z; }
static float minimum(float x, float z) { return x < z || isnan(x) ? x : z; }

static void value_run(ronde__pair_kind kind, int64_t n, const float *a, int64_t sa, const float *b, int64_t sb,
                      float *to) {
  switch (kind) {
  case RONDE__PAIR_ADD: RUN(x + z); break;
  case RONDE__PAIR_SUBTRACT: RUN(x - z); break;
  case RONDE__PAIR_MULTIPLY: RUN(x * z); break;
  case RONDE__PAIR_DIVIDE: RUN(x / z); break;
  case RONDE__PAIR_MINIMUM: RUN(minimum(x, z)); break;
  case RONDE__PAIR_MAXIMUM: RUN(maximum(x, z)); break;
  case RONDE__PAIR_POWER: RUN(powf(x, z)); break;
  }
}

/* Of the smaller, or the larger: half for each where both are equal, as in PyTorch. */
static float share(bool first, float x, float z) {
  if (x == z) return 0.5f;
  return first ? 1 : 0;
}

static float power_of_base(float x, float z) { return z == 0 ? 0 : z * powf(x, z - 1); }
static float power_of_exponent(float x, float z) { return x == 0 && z >= 0 ? 0 : powf(x, z) * logf(x); }

static bool is_dy(ronde__pair_kind kind, int j) {
  return kind == RONDE__PAIR_ADD || (kind == RONDE__PAIR_SUBTRACT && j == 0);
}

/* dy times the slope by operand j. Sums read no operand. */
static void term_run(ronde__pair_kind kind, int j, int64_t n, const float *dy, const float *a, int64_t sa,
                     const float *b, int64_t sb, float *to) {
  switch (kind) {
  case RONDE__PAIR_ADD: memcpy(to, dy, (size_t)n * sizeof *to); break;
  case RONDE__PAIR_SUBTRACT:
    for (int64_t i = 0; i < n; i++) to[i] = j ? -dy[i] : dy[i];
    break;
  case RONDE__PAIR_MULTIPLY:
    if (j == 0) RUN(dy[i] * z);
    else RUN(dy[i] * x);
    break;
  case RONDE__PAIR_DIVIDE:
    if (j == 0) RUN(dy[i] / z);
    else RUN(-dy[i] * (x / z) / z);
    break;
  case RONDE__PAIR_MINIMUM: RUN(dy[i] * share((x < z) == (j == 0), x, z)); break;
  case RONDE__PAIR_MAXIMUM: RUN(dy[i] * share((x > z) == (j == 0), x, z)); break;
  case RONDE__PAIR_POWER:
    if (j == 0) RUN(dy[i] * power_of_base(x, z));
    else RUN(dy[i] * power_of_exponent(x, z));
    break;
  }
}

/* ---- forward ---- */

typedef struct pair_job {
  const ronde__op_desc *desc;
  ronde__walk walk;
  const float *a, *b, *dy;
  float *to;
  int operand; /* whose gradient */
  bool accumulate;
} pair_job;

enum { CHUNK = 1024 }; /* of a run: a page, where the dimension that is summed over has steps of many */

static void forward_part(void *arg, int thread, int n_threads) {
  enum { STRETCH = 4 * CHUNK };
  const pair_job *j = arg;
  const ronde__walk *w = &j->walk;
  int last = w->rank - 1;
  int64_t length = w->size[last], per_row = ronde__ceil_div(length, STRETCH), begin, end;
  ronde__thread_chunk(ronde__walk_count(w, 0, last) * per_row, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t row = item / per_row, first = item % per_row * STRETCH;
    value_run(j->desc->attr.pair, ronde__min(STRETCH, length - first),
              j->a + ronde__walk_at(w, 0, 0, last, row) + first * w->step[0][last], w->step[0][last],
              j->b + ronde__walk_at(w, 1, 0, last, row) + first * w->step[1][last], w->step[1][last],
              j->to + ronde__walk_at(w, 2, 0, last, row) + first);
  }
}

ronde_status ronde__pair_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const ronde__phys *y = &desc->out[0];
  for (int tail = 0; tail < 2; tail++) {
    pair_job j = {.desc = desc, .a = call->in[0], .b = call->in[1], .to = call->out[0]};
    if (!walk_of(desc, tail, &j.walk)) continue;
    if (tail) {
      j.a += last_block_of(&desc->in[0], y);
      j.b += last_block_of(&desc->in[1], y);
      j.to += last_block_of(y, y);
    }
    ronde__pool_run(call->pool, forward_part, &j);
  }
  ronde__elementwise_clear_padding(y, call->out[0]);
  return RONDE_OK;
}

/* ---- backward ---- */

/* The terms of n elements of the output from where the dimensions in front of the last stand; `own` is for those that are not
 * dy itself. */
static const float *terms_at(const pair_job *j, int64_t dy, int64_t a, int64_t b, int64_t n, float *own) {
  const ronde__walk *w = &j->walk;
  ronde__pair_kind kind = j->desc->attr.pair;
  int last = w->rank - 1;
  if (w->step[2][last] == 1) {
    if (is_dy(kind, j->operand)) return j->dy + dy;
    term_run(kind, j->operand, n, j->dy + dy, j->a + a, w->step[0][last], j->b + b, w->step[1][last], own);
    return own;
  }
  for (int64_t i = 0; i < n; i++)
    term_run(kind, j->operand, 1, j->dy + dy + i * w->step[2][last], j->a + a + i * w->step[0][last], 1,
             j->b + b + i * w->step[1][last], 1, own + i);
  return own;
}

static void put_sums(const pair_job *j, const double *sums, int64_t at, int64_t step, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    j->to[at + i * step] = (float)(sums[i] + (j->accumulate ? (double)j->to[at + i * step] : 0));
}

/* One item is a run of the operand's elements, or one of them: the sum of the terms over what lies behind `kept`
 * dimensions. */
static void sum_item(const pair_job *j, int kept, int64_t item) {
  const ronde__walk *w = &j->walk;
  int o = j->operand, last = w->rank - 1;
  double sum = 0;
  float own[CHUNK];
  int64_t at[3];
  for (int a = 0; a < 3; a++) at[a] = ronde__walk_at(w, a, 0, kept, item);
  for (int64_t r = 0; r < ronde__walk_count(w, kept, last); r++) {
    int64_t here[3];
    for (int a = 0; a < 3; a++) here[a] = at[a] + ronde__walk_at(w, a, kept, last, r);
    for (int64_t i = 0; i < w->size[last]; i += CHUNK) {
      int64_t n = ronde__min(CHUNK, w->size[last] - i);
      const float *terms = terms_at(j, here[2] + i * w->step[2][last], here[0] + i * w->step[0][last],
                                    here[1] + i * w->step[1][last], n, own);
      for (int64_t k = 0; k < n; k++) sum += (double)terms[k];
    }
  }
  put_sums(j, &sum, at[o], 1, 1);
}

static void sum_part(void *arg, int thread, int n_threads) {
  pair_job j = *(const pair_job *)arg;
  int kept = ronde__walk_sort(&j.walk, j.operand);
  int64_t begin, end;
  ronde__thread_chunk(ronde__walk_count(&j.walk, 0, kept), thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) sum_item(&j, kept, item);
}

/* The last dimension is the operand's own: runs of it, summed over the dimensions that it is repeated in. */
static void run_part(void *arg, int thread, int n_threads) {
  const pair_job *j = arg;
  ronde__walk front = j->walk;
  int last = front.rank - 1, o = j->operand;
  front.rank = last;
  int kept = last ? ronde__walk_sort(&front, o) : 0;
  int64_t length = j->walk.size[last], per_row = ronde__ceil_div(length, CHUNK), begin, end;
  int64_t n_terms = ronde__walk_count(&front, kept, last);
  ronde__thread_chunk(ronde__walk_count(&front, 0, kept) * per_row, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t first = item % per_row * CHUNK, n = ronde__min(CHUNK, length - first), at[3];
    double sums[CHUNK];
    float own[CHUNK];
    for (int a = 0; a < 3; a++)
      at[a] = ronde__walk_at(&front, a, 0, kept, item / per_row) + first * j->walk.step[a][last];
    if (n_terms == 1 && j->walk.step[o][last] == 1) {
      ronde__gradient_add(j->desc, terms_at(j, at[2], at[0], at[1], n, own), j->to + at[o], n, j->accumulate);
      continue;
    }
    memset(sums, 0, (size_t)n * sizeof *sums);
    for (int64_t r = 0; r < n_terms; r++) {
      int64_t here[3];
      for (int a = 0; a < 3; a++) here[a] = at[a] + ronde__walk_at(&front, a, kept, last, r);
      const float *terms = terms_at(j, here[2], here[0], here[1], n, own);
      for (int64_t i = 0; i < n; i++) sums[i] += (double)terms[i];
    }
    put_sums(j, sums, at[o], j->walk.step[o][last], n);
  }
}

static ronde_status pair_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const ronde__phys *y = &desc->out[0];
  for (int o = 0; o < 2; o++) {
    if (!call->din[o] || (call->din[o] == call->dout[0] && is_dy(desc->attr.pair, o))) continue;
    /* A channel that is repeated gets its gradient from both walks. */
    bool both = y->layout == RONDE__BLOCKS && desc->in[o].c < y->c;
    bool walked = false;
    for (int tail = 0; tail < 2; tail++) {
      pair_job j = {desc,          {0},          call->in[0], call->in[1],
                    call->dout[0], call->din[o], o,           call->accumulate_dinput[o] || (both && walked)};
      if (!walk_of(desc, tail, &j.walk)) continue;
      if (tail) {
        j.a += last_block_of(&desc->in[0], y);
        j.b += last_block_of(&desc->in[1], y);
        j.dy += last_block_of(y, y);
        j.to += last_block_of(&desc->in[o], y);
      }
      walked = true;
      bool own = j.walk.step[o][j.walk.rank - 1] != 0 || j.walk.size[j.walk.rank - 1] == 1;
      ronde__pool_run(call->pool, own ? run_part : sum_part, &j);
    }
    ronde__elementwise_clear_padding(&desc->in[o], call->din[o]);
  }
  return RONDE_OK;
}

const ronde__form ronde__pair_form = {
    .forward = ronde__pair_forward,
    .backward = pair_backward,
    .implementation = ronde__elementwise_implementation,
};
