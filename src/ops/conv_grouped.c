/* Convolution in groups between BLOCKS, several groups a block: depthwise (a channel meets one filter), and groups as wide
 * on both sides. A block of outputs meets the same block of inputs alone, so there is no GEMM: tiles of neighbouring outputs
 * are summed in registers, with a tap's inputs loaded once for all the outputs that it meets. What is left at the borders,
 * and windows for which there is no tile, go by lists of taps. Weights [C/b][G][T][b], G channels a group.
 *
 * Results are numbered by phases: forward there is one; of the data gradient at stride s there are s on each axis, in each
 * of which neighbouring results read neighbouring gradients through every s-th tap, the last first. */
#include "ops/conv.h"
#include "ops/conv_schedule.h"
#include "ops/widen.h"

#include <string.h>

/* Results at, at + step, ... of an axis, `count` of them. Result u reads operands base + u stride, and the next ones,
 * through taps first, first + tap_step, ... */
typedef struct phase {
  int64_t at, step, count, base;
  int stride, taps, first, tap_step;
  int64_t begin, end; /* in whole tiles: the results all of whose operands are there */
} phase;

/* Two rows of results, or the last one, of a phase. */
typedef struct row_pair {
  int phase, rows;
  int64_t u;
} row_pair;

typedef struct direction {
  ronde__conv_schedule schedule; /* without GEMM kernels */
  phase *h, *w;                  /* [n_h], [n_w] */
  int n_h, n_w;
  row_pair *pairs;
  int64_t n_pairs;
  int *row_runs; /* [rows + 1]: the first run of each row of results */
  bool *tiled;   /* [columns] */
  ronde__phys from, to;
} direction;

typedef struct conv_grouped_state {
  ronde__axis h, w;
  direction forward, data;
  int64_t tap, input; /* of the weights: strides of taps and of a group's inputs */
  int group;
  int together; /* rows of taps in a call for the weight gradient of tiles; 0: no tile takes it */
} conv_grouped_state;

/* ---- preparation ------------------------------------------------------------------------------------------------- */

static phase forward_phase(const ronde__axis *a) {
  return (phase){
      .step = 1, .count = a->out, .base = -a->padding, .stride = a->stride, .taps = a->kernel, .tap_step = 1};
}

/* Of inputs at, at + stride, ...: tap k comes from output (i + padding - k) / stride. */
static phase data_phase(const ronde__axis *a, int64_t at) {
  int residue = (int)((at + a->padding) % a->stride);
  int taps = residue < a->kernel ? (a->kernel - residue - 1) / a->stride + 1 : 0;
  return (phase){.at = at,
                 .step = a->stride,
                 .count = at < a->in ? (a->in - at - 1) / a->stride + 1 : 0,
                 .base = (at + a->padding - residue) / a->stride - (taps - 1),
                 .stride = 1,
                 .taps = taps,
                 .first = residue + (taps - 1) * a->stride,
                 .tap_step = -a->stride};
}

static bool is_dilated(const conv_grouped_state *s) { return s->h.dilation > 1 || s->w.dilation > 1; }

/* The tiles of a phase along the width, over `width` operands. */
static void place_tiles(const conv_grouped_state *s, phase *p, int64_t width) {
  if (is_dilated(s) || !ronde__grouped_tile_fits(p->taps, p->stride, s->group)) return;
  int64_t last = width - p->taps - p->base; /* the place of the last result that is inside, times the stride */
  p->begin = p->base < 0 ? ronde__ceil_div(-p->base, p->stride) : 0;
  int64_t inside = last < 0 ? 0 : ronde__min(p->count, last / p->stride + 1);
  p->end = p->begin;
  if (inside > p->begin) p->end += (inside - p->begin) / RONDE__GROUPED_COLUMNS * RONDE__GROUPED_COLUMNS;
}

static ronde_status count_pairs(direction *d) {
  for (int p = 0; p < d->n_h; p++) d->n_pairs += (d->h[p].count + 1) / 2;
  RONDE__ALLOC(d->pairs, (size_t)d->n_pairs * sizeof *d->pairs, "convolution plan");
  row_pair *pair = d->pairs;
  for (int p = 0; p < d->n_h; p++)
    for (int64_t u = 0; u < d->h[p].count; u += 2)
      *pair++ = (row_pair){.phase = p, .rows = (int)ronde__min(2, d->h[p].count - u), .u = u};
  return RONDE_OK;
}

static ronde_status find_rows_and_columns(direction *d) {
  RONDE__ALLOC(d->row_runs, (size_t)(d->to.h + 1) * sizeof *d->row_runs, "convolution plan");
  RONDE__ALLOC(d->tiled, (size_t)d->to.w * sizeof *d->tiled, "convolution plan");
  int64_t at = 0;
  for (int i = 0, row = 0; i < d->schedule.n_runs; i++) {
    if (at % d->to.w == 0) d->row_runs[row++] = i;
    at += d->schedule.runs[i].extent / d->to.n;
  }
  d->row_runs[d->to.h] = d->schedule.n_runs;
  memset(d->tiled, 0, (size_t)d->to.w * sizeof *d->tiled);
  for (int p = 0; p < d->n_w; p++)
    for (int64_t u = d->w[p].begin; u < d->w[p].end; u++) d->tiled[d->w[p].at + u * d->w[p].step] = true;
  return RONDE_OK;
}

static ronde_status direction_prepare(const conv_grouped_state *s, bool is_data, direction *d) {
  d->n_h = is_data ? s->h.stride : 1, d->n_w = is_data ? s->w.stride : 1;
  RONDE__ALLOC(d->h, (size_t)d->n_h * sizeof *d->h, "convolution plan");
  RONDE__ALLOC(d->w, (size_t)d->n_w * sizeof *d->w, "convolution plan");
  for (int p = 0; p < d->n_h; p++) d->h[p] = is_data ? data_phase(&s->h, p) : forward_phase(&s->h);
  for (int p = 0; p < d->n_w; p++) {
    d->w[p] = is_data ? data_phase(&s->w, p) : forward_phase(&s->w);
    place_tiles(s, &d->w[p], d->from.w);
  }
  RONDE_TRY(count_pairs(d));
  return find_rows_and_columns(d);
}

static void direction_release(direction *d) {
  ronde__conv_schedule_release(&d->schedule);
  ronde__free(d->h);
  ronde__free(d->w);
  ronde__free(d->pairs);
  ronde__free(d->row_runs);
  ronde__free(d->tiled);
}

static void conv_grouped_release(const ronde__op_desc *desc, void *opaque) {
  conv_grouped_state *s = opaque;
  if (!s) return;
  direction_release(&s->forward);
  direction_release(&s->data);
  ronde__free(s);
}

static ronde_status conv_grouped_make_run(const ronde__conv_direction *dir, ronde__taps h, ronde__taps w,
                                          ronde__conv_schedule *sched, ronde__conv_run *r) {
  return ronde__conv_taps_list(dir, h, w, 1, dir->from->block, 1, sched, &r->list);
}

static ronde_status conv_grouped_prepare(const ronde__op_desc *desc, void **state_out) {
  conv_grouped_state *s;
  RONDE__ALLOC(s, sizeof *s, "convolution plan");
  *s = (conv_grouped_state){.h = ronde__conv_axis_h(desc),
                            .w = ronde__conv_axis_w(desc),
                            .forward = {.from = desc->in[0], .to = desc->out[0]},
                            .data = {.from = desc->out[0], .to = desc->in[0]},
                            .tap = desc->in[0].block,
                            .input = desc->param[0].t * desc->in[0].block,
                            .group = (int)desc->param[0].i};
  s->together = ronde__grouped_weight_rows(s->w.kernel, s->w.stride, s->group);
  ronde_status status = ronde__conv_schedules_create(desc, INT64_MAX, conv_grouped_make_run, NULL, &s->forward.schedule,
                                                     &s->data.schedule);
  if (status == RONDE_OK) status = direction_prepare(s, false, &s->forward);
  if (status == RONDE_OK && desc->need_dinput[0]) status = direction_prepare(s, true, &s->data);
  if (status != RONDE_OK) conv_grouped_release(desc, s);
  else *state_out = s;
  return status;
}

/* The transposed weights; depthwise they are the weights. */
static size_t conv_grouped_work_elems(const ronde__op_desc *desc, const void *opaque, bool backward) {
  const conv_grouped_state *s = opaque;
  return backward && desc->need_dinput[0] && s->group > 1 ? (size_t)ronde__weight_elems(&desc->param[0]) : 0;
}

/* ---- forward, and the data gradient ------------------------------------------------------------------------------- */

typedef struct conv_grouped_job {
  const ronde__op_desc *desc;
  const conv_grouped_state *s;
  const ronde__op_call *call;
  const ronde__grouped_kernels *kernels;
  const direction *d;
  const float *from;           /* in its own format, as are the values that a job writes */
  const float *bias, *weights; /* bias: NULL: none */
  float *to;
  bool accumulate;
} conv_grouped_job;

static const ronde__grouped_kernels *kernels_of(const ronde__op_desc *desc) {
  return desc->in[0].bf16 ? desc->compute.bf16->grouped : desc->compute.kernels->grouped;
}

/* The tiles of a phase of columns; operands begin at elements `from` and `to`. */
static void add_tiles(const conv_grouped_job *j, const row_pair *pair, const phase *w, int64_t from,
                      const float *weights, const float *bias, int64_t to) {
  const direction *d = j->d;
  const phase *h = &d->h[pair->phase];
  const int64_t block = d->to.block, pixel = d->from.n * block, first_row = h->base + pair->u * h->stride;
  const int64_t w_row = h->tap_step * j->s->w.kernel * block;
  ronde__grouped_tile tile = {
      .x_row = d->from.w * pixel,
      .x_column = pixel,
      .w = weights + (h->first * j->s->w.kernel + w->first) * block,
      .w_row = w_row,
      .w_column = w->tap_step * block,
      .w_input = j->s->input,
      .y_row = h->step * d->to.w * pixel,
      .y_column = w->step * pixel,
      .taps = {h->taps, w->taps},
      .stride = {h->stride, w->stride},
      .rows = pair->rows,
      .begin = (int)ronde__max(0, -first_row),
      .end = (int)ronde__min((pair->rows - 1) * h->stride + h->taps, d->from.h - first_row),
      .n = d->to.n,
      .block = block,
      .group = j->s->group,
      .bias = bias,
      .accumulate = j->accumulate,
  };
  for (int64_t u = w->begin; u < w->end; u += RONDE__GROUPED_COLUMNS) {
    tile.x = ronde__operand_at(&d->from, j->from, from + (first_row * d->from.w + w->base + u * w->stride) * pixel);
    tile.y =
        ronde__operand_at(&d->to, j->to, to + ((h->at + pair->u * h->step) * d->to.w + w->at + u * w->step) * pixel);
    j->kernels->tile(&tile);
  }
}

/* The columns of a row of results that are in no tile. */
static void add_rest(const conv_grouped_job *j, int64_t row, int64_t from, const float *weights, const float *bias,
                     int64_t to) {
  const direction *d = j->d;
  const int64_t block = d->to.block, pixel = d->to.n * block;
  int64_t x = 0;
  for (int i = d->row_runs[row]; i < d->row_runs[row + 1]; i++) {
    const ronde__conv_run *r = &d->schedule.runs[i];
    const ronde__gemm_list *list = &d->schedule.lists[r->list];
    int64_t begin = x, end = x + r->extent / d->to.n;
    for (x = begin; x < end;) {
      int64_t first = x;
      while (x < end && !d->tiled[x]) x++;
      if (x > first)
        j->kernels->rows(
            &(ronde__grouped_rows){.x = ronde__operand_at(&d->from, j->from, from + r->a0 + (first - begin) * pixel),
                                   .w = weights,
                                   .x_offsets = list->a,
                                   .w_offsets = list->b,
                                   .count = list->count,
                                   .rows = (x - first) * d->to.n,
                                   .block = block,
                                   .group = j->s->group,
                                   .w_input = j->s->input,
                                   .y = ronde__operand_at(&d->to, j->to, to + r->c0 + (first - begin) * pixel),
                                   .bias = bias,
                                   .accumulate = j->accumulate});
      while (x < end && d->tiled[x]) x++;
    }
  }
}

static void conv_grouped_part(void *arg, int thread, int n_threads) {
  const conv_grouped_job *j = arg;
  const direction *d = j->d;
  const bool is_forward = d == &j->s->forward;
  int64_t begin, end, row = d->to.w * d->to.n * d->to.block;
  int64_t from_block = d->from.h * d->from.w * d->from.n * d->from.block, to_block = d->to.h * row;
  ronde__thread_chunk(ronde__phys_blocks(&d->to) * d->n_pairs, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t block = item / d->n_pairs;
    const row_pair *pair = &d->pairs[item % d->n_pairs];
    int64_t from = block * from_block, to = block * to_block;
    const float *weights = j->weights + block * j->s->group * j->s->input;
    const float *bias = j->bias ? j->bias + block * d->to.block : NULL;
    for (int p = 0; p < d->n_w; p++) add_tiles(j, pair, &d->w[p], from, weights, bias, to);
    for (int q = 0; q < pair->rows; q++) {
      int64_t y = d->h[pair->phase].at + (pair->u + q) * d->h[pair->phase].step;
      add_rest(j, y, from, weights, bias, to);
      if (is_forward) ronde__fused_act(j->desc, j->call, block, to + y * row, row / d->to.block);
    }
  }
}

static ronde_status conv_grouped_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const conv_grouped_state *s = state;
  conv_grouped_job j = {.desc = desc,
                        .s = s,
                        .call = call,
                        .kernels = kernels_of(desc),
                        .d = &s->forward,
                        .from = call->in[0],
                        .bias = desc->attr.bias ? call->param[1] : NULL,
                        .weights = call->param[0],
                        .to = call->out[0]};
  ronde__pool_run(call->pool, conv_grouped_part, &j);
  return RONDE_OK;
}

/* ---- the weight gradient ------------------------------------------------------------------------------------------ */

/* One tap's gradient of the outputs of row oh that are in no tile. */
static void add_dots(const conv_grouped_job *j, int64_t x, int64_t dy, float *dw, int64_t oh, int kh, int64_t channel) {
  const conv_grouped_state *s = j->s;
  const direction *d = j->d;
  const int64_t n = d->to.n, pixel = n * d->to.block, ih = oh * s->h.stride + kh * s->h.dilation - s->h.padding;
  for (int kw = 0; kw < s->w.kernel; kw++) {
    int64_t w0, w1;
    ronde__axis_outputs_of_tap(&s->w, kw, &w0, &w1);
    for (int64_t ow = w0, length; ow < w1; ow += length) {
      length = 1;
      if (s->together && d->tiled[ow]) continue;
      while (s->w.stride == 1 && ow + length < w1 && !(s->together && d->tiled[ow + length])) length++;
      int64_t iw = ow * s->w.stride + kw * s->w.dilation - s->w.padding;
      j->kernels->dots(
          &(ronde__grouped_dots){.dy = ronde__operand_at(&d->to, j->call->dout[0], dy + (oh * s->w.out + ow) * pixel),
                                 .x = ronde__operand_at(&d->from, j->from, x + (ih * s->w.in + iw) * pixel),
                                 .rows = length * n,
                                 .block = d->to.block,
                                 .channel = channel,
                                 .group = s->group,
                                 .w_input = s->input,
                                 .out = dw + (kh * s->w.kernel + kw) * s->tap});
    }
  }
}

static bool is_inside(const conv_grouped_state *s, int64_t oh, int kh) {
  int64_t ih = oh * s->h.stride + kh * s->h.dilation - s->h.padding;
  return ih >= 0 && ih < s->h.in;
}

/* The gradient of `rows` rows of taps from kh on, over the tiles of output row oh. */
static void add_tile_weights(const conv_grouped_job *j, int64_t x, int64_t dy, float *dw, int64_t oh, int kh, int rows,
                             int64_t channel) {
  const conv_grouped_state *s = j->s;
  const direction *d = j->d;
  const phase *w = &d->w[0];
  const int64_t block = d->to.block, pixel = d->to.n * block, ih = oh * s->h.stride + kh - s->h.padding;
  j->kernels->weights(&(ronde__grouped_weights){
      .x = ronde__operand_at(&d->from, j->from, x + (ih * s->w.in + w->base + w->begin * w->stride) * pixel),
      .x_row = s->w.in * pixel,
      .x_column = pixel,
      .dy = ronde__operand_at(&d->to, j->call->dout[0], dy + (oh * s->w.out + w->begin) * pixel),
      .dy_column = pixel,
      .dw = dw + kh * s->w.kernel * s->tap,
      .w_row = s->w.kernel * s->tap,
      .w_column = s->tap,
      .w_input = s->input,
      .taps = {rows, s->w.kernel},
      .stride = w->stride,
      .tiles = (w->end - w->begin) / RONDE__GROUPED_COLUMNS,
      .n = d->to.n,
      .block = block,
      .channel = channel,
      .group = s->group});
}

/* Items of 16 channels of a block: all rows of outputs, so that the rows that neighbouring taps share stay in cache. */
static void conv_grouped_weight_part(void *arg, int thread, int n_threads) {
  const conv_grouped_job *j = arg;
  const conv_grouped_state *s = j->s;
  const direction *d = j->d;
  const ronde__phys *in = &d->from, *out = &d->to;
  const int64_t parts = out->block / RONDE__QUANTUM, taps = j->desc->param[0].t;
  const int together = (int)ronde__max(1, s->together);
  const bool has_tiles = s->together && d->w[0].end > d->w[0].begin;
  const int64_t groups_of_rows = ronde__ceil_div(s->h.kernel, together);
  int64_t begin, end;
  ronde__thread_chunk(ronde__phys_blocks(out) * parts * groups_of_rows, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t block = item / groups_of_rows / parts, channel = item / groups_of_rows % parts * RONDE__QUANTUM;
    int kh0 = (int)(item % groups_of_rows) * together, kh1 = (int)ronde__min(s->h.kernel, kh0 + together);
    int64_t x = block * in->h * in->w * in->n * in->block, dy = block * out->h * out->w * out->n * out->block;
    float *dw = j->to + block * s->group * s->input;
    for (int k = 0; k < s->group && !j->accumulate; k++)
      for (int64_t t = (int64_t)kh0 * s->w.kernel; t < ronde__min(taps, (int64_t)kh1 * s->w.kernel); t++)
        memset(dw + k * s->input + t * s->tap + channel, 0, RONDE__QUANTUM * sizeof *dw);
    for (int64_t oh = 0; oh < s->h.out; oh++) {
      int n_inside = 0;
      for (int kh = kh0; kh < kh1; kh++) n_inside += is_inside(s, oh, kh);
      bool all = has_tiles && n_inside == together;
      if (all) add_tile_weights(j, x, dy, dw, oh, kh0, together, channel);
      for (int kh = kh0; kh < kh1; kh++) {
        if (!is_inside(s, oh, kh)) continue;
        if (!all && has_tiles) add_tile_weights(j, x, dy, dw, oh, kh, 1, channel);
        add_dots(j, x, dy, dw, oh, kh, channel);
      }
    }
  }
}

/* ---- backward ----------------------------------------------------------------------------------------------------- */

/* Within the groups: for input channel c, the weights of its group's k-th output. */
static void conv_grouped_transpose_part(void *arg, int thread, int n_threads) {
  const conv_grouped_job *j = arg;
  const conv_grouped_state *s = j->s;
  const int64_t block = j->desc->out[0].block, taps = j->desc->param[0].t, panel = s->group * s->input;
  int64_t begin, end;
  ronde__thread_chunk(ronde__phys_blocks(&j->desc->out[0]), thread, n_threads, &begin, &end);
  for (int64_t b = begin; b < end; b++)
    for (int k = 0; k < s->group; k++)
      for (int64_t t = 0; t < taps; t++)
        for (int64_t c = 0; c < block; c++)
          j->call->work[b * panel + k * s->input + t * s->tap + c] =
              j->call->param[0][b * panel + c % s->group * s->input + t * s->tap + c / s->group * s->group + k];
}

static void weight_gradient(const ronde__op_desc *desc, const conv_grouped_state *s, const ronde__op_call *call) {
  conv_grouped_job j = {.desc = desc,
                        .s = s,
                        .call = call,
                        .kernels = kernels_of(desc),
                        .d = &s->forward,
                        .from = call->in[0],
                        .to = call->dparam[0],
                        .accumulate = call->accumulate_dparam[0]};
  ronde__pool_run(call->pool, conv_grouped_weight_part, &j);
}

static void data_gradient(const ronde__op_desc *desc, const conv_grouped_state *s, const ronde__op_call *call) {
  conv_grouped_job j = {.desc = desc,
                        .s = s,
                        .call = call,
                        .kernels = kernels_of(desc),
                        .d = &s->data,
                        .from = call->dout[0],
                        .weights = s->group > 1 ? call->work : call->param[0],
                        .to = call->din[0],
                        .accumulate = call->accumulate_dinput[0]};
  if (s->group > 1) ronde__pool_run(call->pool, conv_grouped_transpose_part, &j);
  ronde__pool_run(call->pool, conv_grouped_part, &j);
}

static ronde_status conv_grouped_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__fused_backward(desc, call);
  if (call->dparam[0]) weight_gradient(desc, state, call);
  ronde__op_gradients_final(desc, call);
  if (call->din[0]) data_gradient(desc, state, call);
  return RONDE_OK;
}

/* Its only kernels are the instruction set's own. */
static const char *conv_grouped_implementation(const ronde__op_desc *desc, const void *state) {
  return desc->compute.kernels->isa;
}

static bool conv_grouped_takes(const ronde__op_desc *desc) {
  return ronde__conv_n_groups(&desc->attr) > 1 && desc->param[0].form == RONDE__PANELS;
}

static bool conv_depthwise_takes(const ronde__op_desc *desc) {
  return conv_grouped_takes(desc) && desc->param[0].i == 1;
}

#define GROUPED_FORM(form, own_name, own_takes)      \
  const ronde__form form = {                         \
      .name = own_name,                              \
      .bf16 = {.in = 1, .out = 1},                   \
      .one_format = true,                            \
      .multiplies_bf16 = true,                       \
      .takes = own_takes,                            \
      .prepare = conv_grouped_prepare,               \
      .release = conv_grouped_release,               \
      .work_elems = conv_grouped_work_elems,         \
      .forward = conv_grouped_forward,               \
      .backward = conv_grouped_backward,             \
      .implementation = conv_grouped_implementation, \
      .executed_flops = ronde__conv_executed_flops,  \
  }
GROUPED_FORM(ronde__conv_depthwise, "depthwise", conv_depthwise_takes);
GROUPED_FORM(ronde__conv_grouped, "grouped", conv_grouped_takes);
