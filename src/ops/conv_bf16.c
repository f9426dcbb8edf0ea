/* Convolution between BLOCKS with operands of bfloat16 and sums of f32: `conv_blocks.c` in another format. A call packs
 * what it multiplies: forward the input, as rows, and the weights; the data gradient the output's gradient, as rows, and
 * the weights transposed; the weight gradient the output's gradient transposed, whose rows are the reduction over the
 * examples of neighbouring pixels, and the input as panels, in which the taps begin at whole lines of cache: it comes out
 * transposed, and is turned over in cache. An input, an output and their gradients may be bfloat16
 * already: these are rows as they lie, and what is computed is rounded while it is in cache.
 * Legend: Ob, Ib blocks of bo, bi channels; a row is a row of pixels. */
#include "kernel/bf16.h"
#include "ops/conv.h"
#include "ops/conv_schedule.h"
#include "ops/widen.h"

#include <string.h>

/* Runs of pixels are cut to about ROWS_WANTED rows; a weight gradient's reduction in parts of about PART, so that the
 * operands of its taps stay in the second cache. */
enum { ROWS_WANTED = 128, PART = 512 };

/* Where the weight gradient finds its operands. Gradient: [Ob][OH] tiles of [bo][reduced], the reduction [OW][N]. Input: [Ib][H][phase]
 * panels of rows [place][N]: the places of a phase are the pixels that lie a stride apart, those of the padding too, so
 * that the outputs of a row meet neighbouring places under each tap. N is even: of an odd batch the last example is
 * zeros. */
typedef struct weight_plan {
  int64_t n;                         /* N */
  int64_t reduced;                   /* in whole parts; beyond the last output the gradient is zero */
  int64_t places, rows;              /* of a phase */
  int64_t phase, n_phases, in_block; /* phase and blocks in elements */
  int64_t part, n_parts;             /* of the reduction over a row of outputs: elements, and how many */
  int64_t out_block;
  ronde__gemm_pair gemm;
  ronde__gemm_list list; /* parts of rows from the first on: of the gradient, of the input */
} weight_plan;

typedef struct conv_bf16_state {
  ronde__axis h, w;
  bool *live; /* [KH*KW]: as in conv_blocks.c */
  int64_t in_blocks, out_blocks, weight_block;
  bool streams_rows; /* rather than weights */
  ronde__conv_schedule forward, data;
  weight_plan weight;
} conv_bf16_state;

static void conv_bf16_release(const ronde__op_desc *desc, void *opaque) {
  conv_bf16_state *s = opaque;
  if (!s) return;
  ronde__conv_schedule_release(&s->forward);
  ronde__conv_schedule_release(&s->data);
  ronde__gemm_list_destroy(&s->weight.list);
  ronde__free(s->live);
  ronde__free(s);
}

/* ---- preparing ---- */

static ronde_status conv_bf16_make_run(const ronde__conv_direction *dir, ronde__taps h, ronde__taps w,
                                       ronde__conv_schedule *schedule, ronde__conv_run *r) {
  int64_t k = dir->from->block, n = dir->to->block;
  ronde__gemm_shape shape = {
      .m = (int)r->extent, .n = (int)n, .k = (int)k, .lda = k, .ldb = k, .ldc = n, .operands = RONDE__OF_BF16};
  r->kernel = ronde__conv_schedule_kernel(schedule, dir->desc, &shape);
  return ronde__conv_taps_list(dir, h, w, ronde__phys_blocks(dir->from), k * n, sizeof(uint16_t), schedule, &r->list);
}

static ronde_status make_weight_plan(const ronde__op_desc *desc, conv_bf16_state *s) {
  const ronde__phys *in = &desc->in[0], *out = &desc->out[0];
  weight_plan *p = &s->weight;
  int64_t extent = ronde__axis_extent(&s->w);
  p->n = ronde__round_up(in->n, 2);
  p->places = out->w + (extent - 1) / s->w.stride;
  p->rows = p->places * p->n;
  p->phase = p->rows * in->block;
  p->n_phases = ronde__min(s->w.stride, extent);
  p->in_block = in->h * p->n_phases * p->phase;
  p->n_parts = ronde__ceil_div(out->w * p->n, PART);
  p->part = ronde__round_up(ronde__ceil_div(out->w * p->n, p->n_parts), RONDE__BF16_STEP);
  p->reduced = p->n_parts * p->part;
  p->out_block = out->h * out->block * p->reduced;
  ronde__gemm_shape shape = {.m = (int)out->block,
                             .n = (int)in->block,
                             .k = (int)p->part,
                             .lda = p->reduced,
                             .ldb = p->rows,
                             .ldc = in->block,
                             .operands = RONDE__OF_BF16_TILES};
  p->gemm = ronde__gemm_pair_resolve(desc, shape);
  RONDE_TRY(ronde__gemm_list_create(out->h * p->n_parts, &p->list));
  for (int64_t i = 0; i < p->list.count; i++) {
    int64_t oh = i / p->n_parts, first = i % p->n_parts * p->part;
    p->list.a[i] = (uint64_t)(oh * out->block * p->reduced + first * RONDE__BF16_PANEL) * sizeof(uint16_t);
    p->list.b[i] = (uint64_t)(oh * s->h.stride * p->n_phases * p->phase + first * RONDE__BF16_PANEL) * sizeof(uint16_t);
  }
  return RONDE_OK;
}

static ronde_status find_live(conv_bf16_state *s) {
  int taps = s->h.kernel * s->w.kernel;
  RONDE__ALLOC(s->live, (size_t)taps * sizeof *s->live, "convolution plan");
  for (int t = 0; t < taps; t++) {
    int64_t h0, h1, w0, w1;
    ronde__axis_outputs_of_tap(&s->h, t / s->w.kernel, &h0, &h1);
    ronde__axis_outputs_of_tap(&s->w, t % s->w.kernel, &w0, &w1);
    s->live[t] = h0 < h1 && w0 < w1;
  }
  return RONDE_OK;
}

static ronde_status conv_bf16_prepare(const ronde__op_desc *desc, void **state_out) {
  conv_bf16_state *s;
  RONDE__ALLOC(s, sizeof *s, "convolution plan");
  *s = (conv_bf16_state){.h = ronde__conv_axis_h(desc),
                         .w = ronde__conv_axis_w(desc),
                         .in_blocks = ronde__phys_blocks(&desc->in[0]),
                         .out_blocks = ronde__phys_blocks(&desc->out[0]),
                         .weight_block = desc->in[0].block * desc->out[0].block,
                         .streams_rows = ronde__phys_elems(&desc->in[0]) > ronde__weight_elems(&desc->param[0])};
  int64_t longest = ronde__max(1, ROWS_WANTED / desc->in[0].n);
  ronde_status status = ronde__conv_schedules_create(desc, longest, conv_bf16_make_run, NULL, &s->forward, &s->data);
  if (status == RONDE_OK) status = find_live(s);
  if (status == RONDE_OK) status = make_weight_plan(desc, s);
  if (status != RONDE_OK) conv_bf16_release(desc, s);
  else *state_out = s;
  return status;
}

/* ---- scratch ---- */

/* Elements of each packed operand in the scratch of a call, one behind the other; 0 where it is not needed. In front of
 * them each thread has room for sums: those of a run, where they are rounded, and those of the weight's gradient. */
typedef struct packed {
  int64_t sums;          /* floats */
  int64_t weights, rows; /* of the input, or of the output's gradient */
  int64_t input, gradient;
} packed;

/* Elements that the last part of a row may read beyond the last panel of all. */
static int64_t excess(const weight_plan *p) { return p->n_parts * RONDE__BF16_STEP * RONDE__BF16_PANEL; }

/* Floats of a thread: of each tap a block of the weight's gradient, transposed, and one more; before that, a row of the
 * outputs' gradient of an odd batch. */
static int64_t weight_sums(const ronde__op_desc *desc, const conv_bf16_state *s) {
  int64_t row = desc->out[0].n % 2 ? desc->out[0].w * s->weight.n * desc->out[0].block / 2 : 0;
  return ronde__max((s->h.kernel * s->w.kernel + 1) * s->weight_block, row);
}

static int64_t longest_run(const ronde__conv_schedule *schedule) {
  int64_t longest = 0;
  for (int i = 0; i < schedule->n_runs; i++) longest = ronde__max(longest, schedule->runs[i].extent);
  return longest;
}

static packed conv_bf16_packed_sizes(const ronde__op_desc *desc, const conv_bf16_state *s, bool backward) {
  const ronde__phys *rows = backward ? &desc->out[0] : &desc->in[0];
  bool multiplies = !backward || desc->need_dinput[0], learns = backward && !desc->frozen[0];
  const ronde__phys *to = backward ? &desc->in[0] : &desc->out[0];
  packed p = {0};
  if (multiplies) p.weights = ronde__weight_elems(&desc->param[0]);
  if (multiplies && !rows->bf16) p.rows = ronde__phys_elems(rows);
  if (multiplies && to->bf16) p.sums = longest_run(backward ? &s->data : &s->forward) * to->block;
  if (learns) {
    p.sums = ronde__max(p.sums, weight_sums(desc, s));
    p.input = s->in_blocks * s->weight.in_block + excess(&s->weight);
    p.gradient = s->out_blocks * s->weight.out_block;
  }
  const int64_t line = 64 / sizeof(uint16_t);
  p.rows = ronde__round_up(p.rows, line), p.input = ronde__round_up(p.input, line);
  return p;
}

static size_t conv_bf16_work_elems(const ronde__op_desc *desc, const void *state, bool backward) {
  packed p = conv_bf16_packed_sizes(desc, state, backward);
  return (size_t)(desc->threads * p.sums + ronde__ceil_div(p.weights + p.rows + p.input + p.gradient, 2));
}

typedef struct conv_bf16_job {
  const ronde__op_desc *desc;
  const conv_bf16_state *s;
  const ronde__op_call *call;
  const ronde__bf16 *bf16;
  float *sums;          /* [threads][room] */
  int64_t room;         /* of a thread's sums, in floats */
  const uint16_t *rows; /* packed, or as they are */
  uint16_t *weights, *packed_rows, *input, *gradient;
} conv_bf16_job;

static conv_bf16_job conv_bf16_job_of(const ronde__op_desc *desc, const void *state, const ronde__op_call *call,
                                      bool backward) {
  packed p = conv_bf16_packed_sizes(desc, state, backward);
  uint16_t *at = (uint16_t *)(call->work + desc->threads * p.sums);
  bool as_they_are = backward ? desc->out[0].bf16 : desc->in[0].bf16;
  const float *rows = backward ? call->dout[0] : call->in[0];
  return (conv_bf16_job){.desc = desc,
                         .s = state,
                         .call = call,
                         .bf16 = desc->compute.bf16,
                         .sums = call->work,
                         .room = p.sums,
                         .rows = as_they_are ? (const uint16_t *)rows : at + p.weights,
                         .weights = at,
                         .packed_rows = at + p.weights,
                         .input = at + p.weights + p.rows,
                         .gradient = at + p.weights + p.rows + p.input};
}

/* ---- forward ---- */

/* Panels of the live taps of a weight [Ob][T][Ib][bi][bo], where they are. */
static void conv_bf16_pack_weights_part(void *arg, int thread, int n_threads) {
  const conv_bf16_job *j = arg;
  const ronde__weight_layout *l = &j->desc->param[0];
  int64_t begin, end, size = j->s->weight_block;
  ronde__thread_chunk(j->s->out_blocks * l->t * j->s->in_blocks, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++)
    if (j->s->live[item / j->s->in_blocks % l->t])
      j->bf16->pack_panels(j->call->param[0] + item * size, l->block_o, l->block_i, l->block_o, l->block_i,
                           j->weights + item * size, l->block_i);
}

static void conv_bf16_pack_input_part(void *arg, int thread, int n_threads) {
  const conv_bf16_job *j = arg;
  int64_t begin, end, pixel = j->desc->in[0].n * j->desc->in[0].block;
  ronde__thread_chunk(ronde__phys_elems(&j->desc->in[0]) / pixel, thread, n_threads, &begin, &end);
  j->bf16->pack(j->call->in[0] + begin * pixel, (end - begin) * pixel, j->packed_rows + begin * pixel);
}

/* A run's sum, of packed rows and packed weights. */
static void sum_run(const conv_bf16_job *j, const ronde__conv_schedule *schedule, const ronde__conv_run *r,
                    const uint16_t *weights, float *c, bool accumulate) {
  const ronde__gemm_pair *pair = &schedule->kernels[r->kernel];
  const ronde__gemm_list *list = &schedule->lists[r->list];
  ronde__gemm_run(accumulate ? &pair->add : &pair->set, j->rows + r->a0, list->a, weights, list->b, list->count, c);
}

/* A run of one of the blocks that are computed. What is larger, rows or weights, goes by once, and the other one stays in
 * cache. */
static const ronde__conv_run *item_of(const ronde__conv_schedule *schedule, bool streams_rows, int64_t blocks,
                                      int64_t item, int64_t *block_out) {
  *block_out = streams_rows ? item % blocks : item / schedule->n_runs;
  return &schedule->runs[streams_rows ? item / blocks : item % schedule->n_runs];
}

static void conv_bf16_forward_part(void *arg, int thread, int n_threads) {
  const conv_bf16_job *j = arg;
  const conv_bf16_state *s = j->s;
  const ronde__phys *out = &j->desc->out[0];
  int64_t begin, end, slab = j->desc->param[0].t * s->in_blocks * s->weight_block;
  int64_t block = out->h * out->w * out->n * out->block;
  ronde__thread_chunk(s->out_blocks * s->forward.n_runs, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t ob;
    const ronde__conv_run *r = item_of(&s->forward, s->streams_rows, s->out_blocks, item, &ob);
    float *y = ronde__operand_room(out, j->call->out[0], ob * block + r->c0, j->sums + thread * j->room);
    ronde__narrow_soon(out, j->call->out[0], ob * block + r->c0, r->extent * out->block);
    sum_run(j, &s->forward, r, j->weights + ob * slab, y, false);
    ronde__fused_bias_act(j->desc, j->call, ob, y, r->extent);
    ronde__narrow(j->desc, out, y, r->extent * out->block, j->call->out[0], ob * block + r->c0);
  }
}

static ronde_status conv_bf16_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  conv_bf16_job j = conv_bf16_job_of(desc, state, call, false);
  ronde__pool_run(call->pool, conv_bf16_pack_weights_part, &j);
  if (!desc->in[0].bf16) ronde__pool_run(call->pool, conv_bf16_pack_input_part, &j);
  ronde__pool_run(call->pool, conv_bf16_forward_part, &j);
  return RONDE_OK;
}

/* ---- backward ---- */

/* Of each block of a weight [Ob][T][Ib][bi][bo] the transposed one: panels [Ib][T][Ob]. */
static void conv_bf16_pack_transposed_weights_part(void *arg, int thread, int n_threads) {
  const conv_bf16_job *j = arg;
  const conv_bf16_state *s = j->s;
  const ronde__weight_layout *l = &j->desc->param[0];
  int64_t begin, end;
  ronde__thread_chunk(s->in_blocks * l->t * s->out_blocks, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t ob = item % s->out_blocks, t = item / s->out_blocks % l->t, ib = item / s->out_blocks / l->t;
    const float *from = j->call->param[0] + ((ob * l->t + t) * s->in_blocks + ib) * s->weight_block;
    if (s->live[t])
      j->bf16->pack_transposed_panels(from, l->block_o, l->block_i, l->block_o, j->weights + item * s->weight_block);
  }
}

/* Row `item` of the outputs' gradient, [OW][N][bo], transposed; of an odd batch by way of `even` [OW][N + 1][bo]. */
static void transpose_gradient_row(const conv_bf16_job *j, int64_t item, uint16_t *even) {
  const weight_plan *p = &j->s->weight;
  const ronde__phys *out = &j->desc->out[0];
  int64_t pixel = out->n * out->block, padded = p->n * out->block;
  const float *all = j->call->dout[0];
  const void *rows = pixel == padded ? ronde__operand_at(out, all, item * out->w * pixel) : even;
  uint16_t *to = j->gradient + item * out->block * p->reduced;
  for (int64_t ow = 0; ow < out->w && rows == even; ow++) {
    const void *from = ronde__operand_at(out, all, (item * out->w + ow) * pixel);
    if (out->bf16) memcpy(even + ow * padded, from, (size_t)pixel * sizeof *even);
    else j->bf16->pack(from, pixel, even + ow * padded);
    memset(even + ow * padded + pixel, 0, (size_t)out->block * sizeof *even);
  }
  if (out->bf16 || rows == even) j->bf16->transposed(rows, out->block, out->w * p->n, out->block, to, p->reduced);
  else j->bf16->pack_transposed(rows, out->block, out->w * p->n, out->block, to, p->reduced);
}

/* The gradient of a row of outputs, in both forms while it is in cache. */
static void conv_bf16_pack_gradient_part(void *arg, int thread, int n_threads) {
  const conv_bf16_job *j = arg;
  const ronde__phys *out = &j->desc->out[0];
  int64_t begin, end, size = out->w * out->n * out->block;
  ronde__thread_chunk(j->s->out_blocks * out->h, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    if (j->call->din[0] && !out->bf16)
      j->bf16->pack(j->call->dout[0] + item * size, size, j->packed_rows + item * size);
    if (j->call->dparam[0]) transpose_gradient_row(j, item, (uint16_t *)(j->sums + thread * j->room));
  }
}

/* n places of the padding from `first` on, in all panels of a phase. */
static void clear_places(const weight_plan *p, uint16_t *to, int64_t channels, int64_t first, int64_t n) {
  for (int64_t c = 0; c < channels && n > 0; c += RONDE__BF16_PANEL)
    memset(to + c * p->rows + first * p->n * RONDE__BF16_PANEL, 0, (size_t)(n * p->n * RONDE__BF16_PANEL) * sizeof *to);
}

/* Row (ib, ih) of the input, by phases. */
static void pack_input_row(const conv_bf16_job *j, int64_t item) {
  const weight_plan *p = &j->s->weight;
  const ronde__phys *in = &j->desc->in[0];
  const ronde__axis *w = &j->s->w;
  uint16_t *to = j->input + item * p->n_phases * p->phase;
  for (int64_t phase = 0; phase < p->n_phases; phase++, to += p->phase) {
    /* Place i is pixel i * stride + phase - padding. */
    int64_t first = ronde__ceil_div(ronde__max(0, w->padding - phase), w->stride);
    int64_t end = ronde__min(p->places, ronde__ceil_div(w->in + w->padding - phase, w->stride));
    bool are_neighbours = w->stride == 1 && in->n == p->n; /* in memory */
    int64_t run = are_neighbours ? ronde__max(1, end - first) : 1;
    end = ronde__max(first, end);
    clear_places(p, to, in->block, 0, ronde__min(first, p->places));
    clear_places(p, to, in->block, end, p->places - end);
    for (int64_t i = first; i < end; i += run) {
      int64_t pixel = item * in->w + i * w->stride + phase - w->padding;
      ronde__operand_panels(j->desc, in, j->call->in[0], pixel * in->n * in->block, in->block, run * in->n, in->block,
                            run * p->n, to + i * p->n * RONDE__BF16_PANEL, p->rows);
    }
  }
}

static void conv_bf16_pack_input_panels_part(void *arg, int thread, int n_threads) {
  const conv_bf16_job *j = arg;
  int64_t begin, end;
  ronde__thread_chunk(j->s->in_blocks * j->desc->in[0].h, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) pack_input_row(j, item);
  if (thread == 0) /* anything finite */
    memset(j->input + j->s->in_blocks * j->s->weight.in_block, 0, (size_t)excess(&j->s->weight) * sizeof *j->input);
}

/* A tap's gradient, from its transposed sums. */
static void turn_tap(const conv_bf16_job *j, const float *sums, float *room, float *dw) {
  const ronde__kernels *kernels = j->desc->compute.kernels;
  int64_t bi = j->desc->in[0].block, bo = j->desc->out[0].block;
  bool accumulate = j->call->accumulate_dparam[0];
  kernels->transpose(sums, bi, bo, bi, accumulate ? room : dw, bo);
  if (accumulate) kernels->add(dw, room, dw, bi * bo);
}

/* The taps [tap0, tap1) of one pair of blocks, as many terms at once as one part has: neighbouring taps share operands. */
static void conv_bf16_weight_taps(const conv_bf16_job *j, int64_t ob, int64_t ib, int64_t tap0, int64_t tap1,
                                  float *sums) {
  const conv_bf16_state *s = j->s;
  const weight_plan *p = &s->weight;
  const ronde__op_call *call = j->call;
  int64_t taps = j->desc->param[0].t, dw_tap = s->in_blocks * s->weight_block;
  int64_t terms = ronde__max(1, PART / p->part), n = p->list.count;
  float *dw = call->dparam[0] + (ob * taps * s->in_blocks + ib) * s->weight_block;
  const uint16_t *x = j->input + ib * p->in_block, *dy = j->gradient + ob * p->out_block;
  for (int64_t i = 0; i < n; i += terms)
    for (int64_t t = tap0; t < tap1; t++) {
      int64_t oh0, oh1, kh = t / s->w.kernel, kw = t % s->w.kernel;
      ronde__axis_outputs_of_tap(&s->h, (int)kh, &oh0, &oh1);
      int64_t first = oh0 * p->n_parts, begin = ronde__max(i, first), end = ronde__min(oh1 * p->n_parts, i + terms);
      if (!s->live[t] || begin >= end) continue;
      int64_t column = kw * s->w.dilation, row = kh * s->h.dilation - s->h.padding;
      int64_t phase = row * p->n_phases + column % s->w.stride, place = column / s->w.stride;
      ronde__gemm_run(begin == first ? &p->gemm.set : &p->gemm.add, dy, p->list.a + begin,
                      x + phase * p->phase + place * p->n * RONDE__BF16_PANEL, p->list.b + begin, end - begin,
                      sums + t * s->weight_block);
    }
  for (int64_t t = tap0; t < tap1; t++) {
    if (s->live[t]) turn_tap(j, sums + t * s->weight_block, sums + taps * s->weight_block, dw + t * dw_tap);
    else if (!call->accumulate_dparam[0] && !call->leaves_dead)
      memset(dw + t * dw_tap, 0, (size_t)s->weight_block * sizeof(float));
  }
}

static void conv_bf16_weight_part(void *arg, int thread, int n_threads) {
  const conv_bf16_job *j = arg;
  int64_t taps = j->desc->param[0].t, begin, end;
  ronde__thread_chunk(j->s->out_blocks * j->s->in_blocks * taps, thread, n_threads, &begin, &end);
  while (begin < end) {
    int64_t pair = begin / taps, tap0 = begin % taps, tap1 = ronde__min(taps, tap0 + end - begin);
    conv_bf16_weight_taps(j, pair / j->s->in_blocks, pair % j->s->in_blocks, tap0, tap1, j->sums + thread * j->room);
    begin += tap1 - tap0;
  }
}

static void conv_bf16_data_part(void *arg, int thread, int n_threads) {
  const conv_bf16_job *j = arg;
  const conv_bf16_state *s = j->s;
  const ronde__phys *in = &j->desc->in[0];
  int64_t begin, end, slab = j->desc->param[0].t * s->out_blocks * s->weight_block;
  int64_t block = in->h * in->w * in->n * in->block;
  ronde__thread_chunk(s->in_blocks * s->data.n_runs, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t ib;
    const ronde__conv_run *r = item_of(&s->data, s->streams_rows, s->in_blocks, item, &ib);
    int64_t at = ib * block + r->c0, elems = r->extent * in->block;
    float *room = j->sums + thread * j->room, *dx = ronde__operand_room(in, j->call->din[0], at, room);
    if (j->call->accumulate_dinput[0]) ronde__widen(j->desc, in, j->call->din[0], at, elems, room);
    else ronde__narrow_soon(in, j->call->din[0], at, elems);
    sum_run(j, &s->data, r, j->weights + ib * slab, dx, j->call->accumulate_dinput[0]);
    ronde__narrow(j->desc, in, dx, elems, j->call->din[0], at);
  }
}

static ronde_status conv_bf16_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  conv_bf16_job j = conv_bf16_job_of(desc, state, call, true);
  ronde__fused_backward(desc, call);
  if (call->dparam[0] || !desc->out[0].bf16) ronde__pool_run(call->pool, conv_bf16_pack_gradient_part, &j);
  if (call->dparam[0]) {
    ronde__pool_run(call->pool, conv_bf16_pack_input_panels_part, &j);
    ronde__pool_run(call->pool, conv_bf16_weight_part, &j);
  }
  ronde__op_gradients_final(desc, call);
  if (call->din[0]) {
    ronde__pool_run(call->pool, conv_bf16_pack_transposed_weights_part, &j);
    ronde__pool_run(call->pool, conv_bf16_data_part, &j);
  }
  return RONDE_OK;
}

static const char *conv_bf16_implementation(const ronde__op_desc *desc, const void *state) {
  return desc->compute.bf16->name;
}

/* Without tiles these save more multiplications than bfloat16 is faster by. */
static bool has_fewer_products(const ronde__op_desc *desc) {
  return ronde__conv_toeplitz.takes(desc) || ronde__conv_winograd.takes(desc);
}

static bool conv_bf16_takes(const ronde__op_desc *desc) {
  const ronde__bf16 *bf16 = desc->compute.bf16;
  return bf16 && ronde__conv_is_between(desc, RONDE__BLOCKS, RONDE__BLOCKS) &&
         (bf16->is_tiles || !has_fewer_products(desc));
}

const ronde__form ronde__conv_bf16 = {
    .name = "bf16",
    .takes = conv_bf16_takes,
    .prepare = conv_bf16_prepare,
    .release = conv_bf16_release,
    .work_elems = conv_bf16_work_elems,
    .forward = conv_bf16_forward,
    .backward = conv_bf16_backward,
    .implementation = conv_bf16_implementation,
    .bf16 = {.in = 1, .out = 1},
    .multiplies_bf16 = true,
    .executed_flops = ronde__conv_executed_flops,
};
