/* Location-sensitive attention within an LSTM, over all steps of a known sequence: for each step t
 *   h_t, c_t = LSTM cell of [x_t, context_(t-1)], from h_(t-1) and c_(t-1);
 *   w_t = softmax over the places s of v . tanh(W h_t + keys_s + U f_s), f = filters of [w_(t-1), w_1 + ... + w_(t-1)];
 *   context_t = sum over s of w_ts memory_s.
 * All that is in front of the first step is zero. Sources: Chorowski et al., "Attention-based models for speech recognition",
 * 2015; Shen et al., "Natural TTS synthesis by conditioning WaveNet on mel spectrogram predictions", 2018; parameters are
 * called as in NVIDIA's Tacotron 2.
 * Inputs: x [T][P], memory [S][E], keys [S][A] as a linear layer gives them; perhaps lengths, how many places of an example are
 * there. Outputs: all h, contexts and weights. The products of x are made for all steps at once. The filters and the linear layer
 * U behind them are one matrix, which the windows of weights around all places are multiplied with. The tanh, [T][S][A], is
 * never held: backward makes it again.
 * Examples are shared out among the threads; those of a thread go through the steps side by side. */
#include "ops/location_attention.h"

#include "ops/elementwise.h"

#include <math.h>
#include <string.h>

static ronde_status location_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                   const char *const *in_labels, ronde__shape *out) {
  char text[96];
  const ronde__shape *memory = &in[RONDE__LOCATION_MEMORY];
  if (attr->out_channels < 1 || attr->filters < 1 || attr->kernel[1] < 1 || attr->kernel[1] % 2 == 0)
    return ronde__fail(RONDE_E_USAGE, "%s: hidden and filters must be positive, and the kernel odd", label);
  for (int i = RONDE__LOCATION_X; i <= RONDE__LOCATION_KEYS; i++) {
    if (in[i].rank == 2 && (i != RONDE__LOCATION_KEYS || in[i].dim[0] == memory->dim[0])) continue;
    ronde__shape_text(&in[i], text, sizeof text);
    return ronde__fail(RONDE_E_USAGE, "%s: a sequence [T,P], a memory [S,E] and keys [S,A] are needed, but %s gives %s",
                       label, in_labels[i], text);
  }
  if (attr->lengths && !ronde__shape_equal(&in[3], &(ronde__shape){1, {1}})) {
    ronde__shape_text(&in[3], text, sizeof text);
    return ronde__fail(RONDE_E_USAGE, "%s: lengths are one number an example, but %s gives %s", label, in_labels[3],
                       text);
  }
  int64_t t = in[RONDE__LOCATION_X].dim[0];
  out[RONDE__LOCATION_HIDDEN] = (ronde__shape){2, {t, attr->out_channels}};
  out[RONDE__LOCATION_CONTEXT] = (ronde__shape){2, {t, memory->dim[1]}};
  out[RONDE__LOCATION_WEIGHTS] = (ronde__shape){2, {t, memory->dim[0]}};
  return RONDE_OK;
}

static int location_outputs(const ronde__op_attr *attr) { return 3; }

static int location_params(const ronde__op_attr *attr, const ronde__shape *in,
                           ronde__param_spec specs[RONDE__OP_MAX_PARAMS]) {
  int64_t h = attr->out_channels, k = attr->kernel[1], c = attr->filters, a = in[RONDE__LOCATION_KEYS].dim[1];
  int64_t columns = in[RONDE__LOCATION_X].dim[1] + in[RONDE__LOCATION_MEMORY].dim[1];
  const ronde__param_spec all[RONDE__LOCATION_PARAMS] = {
      {"attention_rnn.weight_ih", {2, {4 * h, columns}}, (float)h, RONDE_INIT_UNIFORM},
      {"attention_rnn.weight_hh", {2, {4 * h, h}}, (float)h, RONDE_INIT_UNIFORM},
      {"attention_rnn.bias_ih", {1, {4 * h}}, (float)h, RONDE_INIT_UNIFORM},
      {"attention_rnn.bias_hh", {1, {4 * h}}, (float)h, RONDE_INIT_UNIFORM},
      {"attention_layer.query_layer.linear_layer.weight", {2, {a, h}}, (float)h, RONDE_INIT_UNIFORM},
      {"attention_layer.location_layer.location_conv.conv.weight", {3, {c, 2, k}}, (float)(2 * k), RONDE_INIT_UNIFORM},
      {"attention_layer.location_layer.location_dense.linear_layer.weight", {2, {a, c}}, (float)c, RONDE_INIT_UNIFORM},
      {"attention_layer.v.linear_layer.weight", {2, {1, a}}, (float)a, RONDE_INIT_UNIFORM},
  };
  for (int i = 0; i < RONDE__LOCATION_PARAMS; i++) {
    specs[i] = all[i];
    specs[i].bound = 1 / sqrtf(all[i].bound);
  }
  return RONDE__LOCATION_PARAMS;
}

static int64_t location_flops(const ronde__op_attr *attr, const ronde__shape *in, const ronde__shape *out) {
  int64_t h = attr->out_channels, c = attr->filters, a = in[RONDE__LOCATION_KEYS].dim[1];
  int64_t t = in[RONDE__LOCATION_X].dim[0], s = in[RONDE__LOCATION_MEMORY].dim[0];
  int64_t e = in[RONDE__LOCATION_MEMORY].dim[1], p = in[RONDE__LOCATION_X].dim[1];
  return 2 * t * (4 * h * (p + e + h) + a * h + s * (2 * attr->kernel[1] * c + c * a + a + e));
}

static void location_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  int64_t n = desc->in[0].n;
  for (int i = 0; i < desc->attr.n_inputs; i++) desc->in[i] = ronde__phys_of_shape(&in[i], n);
  for (int i = 0; i < 3; i++) desc->out[i] = ronde__phys_of_shape(&out[i], n);
  ronde__location_sizes z = ronde__location_sizes_of(desc);
  const int64_t sides[RONDE__LOCATION_PARAMS][2] = {{4 * z.h, z.p + z.e}, {4 * z.h, z.h}, {4 * z.h, 1}, {4 * z.h, 1},
                                                    {z.a, z.h},           {z.c, 2 * z.k}, {z.a, z.c},   {z.a, 1}};
  for (int i = 0; i < RONDE__LOCATION_PARAMS; i++)
    desc->param[i] = ronde__weight_layout_make(RONDE__PLAIN, sides[i][0], sides[i][1], 1, 1, 1);
}

/* ---- preparing ---- */

static int64_t examples_of(const ronde__location_state *s, bool last) {
  return last ? s->sizes.n - (s->n_pieces - 1) * s->piece : s->piece;
}

static ronde_status create_forward(const ronde__op_desc *desc, ronde__location_state *s) {
  const ronde__location_sizes *z = &s->sizes;
  int64_t gates = 4 * z->h, past = z->e + z->h;
  RONDE_TRY(ronde__product_create(
      desc, &(ronde__product_shape){.m = z->t, .k = z->p, .columns = gates, .lda = z->p, .ldc = gates}, &s->of_x));
  for (int last = 0; last < 2; last++) {
    int64_t m = examples_of(s, last);
    const ronde__product_shape of_past = {.m = m, .k = past, .columns = gates, .lda = past, .ldc = z->t * gates};
    const ronde__product_shape query = {.m = m, .k = z->h, .columns = z->a, .lda = z->t * z->h, .ldc = z->t * z->a};
    RONDE_TRY(ronde__product_create(desc, &of_past, &s->of_past[last]));
    RONDE_TRY(ronde__product_create(desc, &query, &s->query[last]));
  }
  const ronde__product_shape places = {.m = z->s, .k = 2 * z->k, .columns = z->a, .lda = 2 * z->k, .ldc = z->a};
  const ronde__product_shape context = {.m = 1, .k = z->s, .columns = z->e, .lda = z->s, .ldb = z->e, .ldc = z->e};
  RONDE_TRY(ronde__product_create(desc, &places, &s->places));
  return ronde__product_create(desc, &context, &s->context);
}

static void location_release(const ronde__op_desc *desc, void *opaque) {
  ronde__location_state *s = opaque;
  if (!s) return;
  ronde__product *all[] = {&s->of_x,     &s->of_past[0], &s->of_past[1], &s->query[0],
                           &s->query[1], &s->places,     &s->context};
  for (size_t i = 0; i < RONDE__COUNT(all); i++) ronde__product_destroy(all[i]);
  ronde__location_destroy_back(s);
  ronde__free(s);
}

static ronde_status location_prepare(const ronde__op_desc *desc, void **state_out) {
  ronde__location_state *s;
  RONDE__ALLOC(s, sizeof *s, "plan of a layer of attention");
  s->sizes = ronde__location_sizes_of(desc);
  s->piece = ronde__ceil_div(s->sizes.n, desc->threads);
  s->n_pieces = ronde__ceil_div(s->sizes.n, s->piece);
  ronde_status status = create_forward(desc, s);
  if (status == RONDE_OK) status = ronde__location_create_back(desc, s);
  if (status != RONDE_OK) location_release(desc, s);
  else *state_out = s;
  return status;
}

static size_t location_saved(const ronde__op_desc *desc, const void *state) {
  const ronde__location_sizes *z = &((const ronde__location_state *)state)->sizes;
  return (size_t)(z->n * z->t * (5 * z->h + z->a));
}

static size_t location_work(const ronde__op_desc *desc, const void *state, bool backward) {
  const ronde__location_sizes *z = &((const ronde__location_state *)state)->sizes;
  if (backward) return ronde__location_work_back(z, desc->threads);
  int64_t weights = 4 * z->h * (z->p + z->e + z->h) + z->h * z->a + 4 * z->k * z->a;
  return (size_t)(weights + 4 * z->h + z->n * (z->e + z->h + z->s) + desc->threads * ronde__location_scratch(z, false));
}

/* ---- forward ---- */

/* Panels of gates; the small matrices by the first thread. */
static void pack_part(void *arg, int thread, int n_threads) {
  const ronde__location_job *j = arg;
  const ronde__location_sizes *z = &j->s->sizes;
  const float *const *param = j->call->param;
  int64_t gates = 4 * z->h, past = z->e + z->h, columns = z->p + z->e, begin, end;
  ronde__thread_chunk(ronde__panels_of(gates), thread, n_threads, &begin, &end);
  ronde__panels_pack(j->desc, &(ronde__panel_rows){z->p, gates, 0, z->p}, param[RONDE__LOCATION_IH], columns, true,
                     begin, end, j->w_ih);
  ronde__panels_pack(j->desc, &(ronde__panel_rows){past, gates, 0, z->e}, param[RONDE__LOCATION_IH] + z->p, columns,
                     true, begin, end, j->w_hh);
  ronde__panels_pack(j->desc, &(ronde__panel_rows){past, gates, z->e, z->h}, param[RONDE__LOCATION_HH], z->h, true,
                     begin, end, j->w_hh);
  if (thread) return;
  ronde__panels_pack(j->desc, &(ronde__panel_rows){z->h, z->a, 0, z->h}, param[RONDE__LOCATION_QUERY], z->h, true, 0,
                     ronde__panels_of(z->a), j->w_query);
  ronde__location_join(j);
  ronde__panels_pack(j->desc, &(ronde__panel_rows){2 * z->k, z->a, 0, 2 * z->k}, j->location, 2 * z->k, true, 0,
                     ronde__panels_of(z->a), j->places);
  j->desc->compute.kernels->add(param[RONDE__LOCATION_BIAS_IH], param[RONDE__LOCATION_BIAS_HH], j->bias, gates);
}

/* h of an example, from the sums of x, context and h in front of it. */
static void step_cell(const ronde__location_job *j, int64_t n, int64_t t) {
  const ronde__location_sizes *z = &j->s->sizes;
  int64_t row = n * z->t + t;
  float *h = j->call->out[RONDE__LOCATION_HIDDEN] + row * z->h, *cell = j->cells + row * z->h;
  j->desc->compute.kernels->lstm_step(j->gates + row * 4 * z->h, j->bias, NULL, t ? cell - z->h : NULL, cell, h, 0,
                                      z->h);
  memcpy(j->past + n * (z->e + z->h) + z->e, h, (size_t)z->h * sizeof *h);
}

static void step_attend(const ronde__location_job *j, int64_t n, int64_t t, float *scratch) {
  const ronde__location_sizes *z = &j->s->sizes;
  const ronde__op_call *call = j->call;
  int64_t row = n * z->t + t, there = ronde__rows_there(j->desc, call, n, z->s);
  const float *keys = call->in[RONDE__LOCATION_KEYS] + n * z->s * z->a;
  float *windows = scratch + z->s * z->a, *sums = j->sums + n * z->s;
  float *w = call->out[RONDE__LOCATION_WEIGHTS] + row * z->s,
        *context = call->out[RONDE__LOCATION_CONTEXT] + row * z->e;
  if (t) {
    ronde__location_windows(z, w - z->s, sums, windows);
    ronde__location_keys(j, n, windows, j->places, scratch);
    keys = scratch;
  }
  j->desc->compute.kernels->additive_scores(j->queries + row * z->a, keys, z->a, there,
                                            call->param[RONDE__LOCATION_VECTOR], z->a, w);
  ronde__softmax(w, there);
  memset(w + there, 0, (size_t)(z->s - there) * sizeof *w);
  j->desc->compute.kernels->add(sums, w, sums, z->s);
  ronde__product_run(&j->s->context, w, call->in[RONDE__LOCATION_MEMORY] + n * z->s * z->e, context, false);
  memcpy(j->past + n * (z->e + z->h), context, (size_t)z->e * sizeof *context);
}

static void forward_piece(const ronde__location_job *j, int64_t n0, int64_t n1, bool last, float *scratch) {
  const ronde__location_state *s = j->s;
  const ronde__location_sizes *z = &s->sizes;
  memset(j->sums + n0 * z->s, 0, (size_t)((n1 - n0) * z->s) * sizeof(float));
  for (int64_t n = n0; n < n1; n++)
    ronde__product_run(&s->of_x, j->call->in[RONDE__LOCATION_X] + n * z->t * z->p, j->w_ih,
                       j->gates + n * z->t * 4 * z->h, false);
  for (int64_t t = 0; t < z->t; t++) {
    int64_t row = n0 * z->t + t;
    if (t)
      ronde__product_run(&s->of_past[last], j->past + n0 * (z->e + z->h), j->w_hh, j->gates + row * 4 * z->h, true);
    for (int64_t n = n0; n < n1; n++) step_cell(j, n, t);
    ronde__product_run(&s->query[last], j->call->out[RONDE__LOCATION_HIDDEN] + row * z->h, j->w_query,
                       j->queries + row * z->a, false);
    for (int64_t n = n0; n < n1; n++) step_attend(j, n, t, scratch);
  }
}

static void forward_part(void *arg, int thread, int n_threads) {
  const ronde__location_job *j = arg;
  int64_t begin, end;
  ronde__thread_chunk(j->s->n_pieces, thread, n_threads, &begin, &end);
  for (int64_t i = begin; i < end; i++)
    forward_piece(j, i * j->s->piece, ronde__min((i + 1) * j->s->piece, j->s->sizes.n), i == j->s->n_pieces - 1,
                  j->scratch + thread * ronde__location_scratch(&j->s->sizes, false));
}

static ronde_status location_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const ronde__location_state *s = state;
  const ronde__location_sizes *z = &s->sizes;
  ronde__location_job j = {.desc = desc, .s = s, .call = call, .gates = call->saved, .w_ih = call->work};
  j.cells = j.gates + z->n * z->t * 4 * z->h, j.queries = j.cells + z->n * z->t * z->h;
  j.w_hh = j.w_ih + z->p * 4 * z->h, j.w_query = j.w_hh + (z->e + z->h) * 4 * z->h;
  j.location = j.w_query + z->h * z->a, j.places = j.location + 2 * z->k * z->a;
  j.bias = j.places + 2 * z->k * z->a, j.past = j.bias + 4 * z->h;
  j.sums = j.past + z->n * (z->e + z->h), j.scratch = j.sums + z->n * z->s;
  ronde__pool_run(call->pool, pack_part, &j);
  ronde__pool_run(call->pool, forward_part, &j);
  return RONDE_OK;
}

static const char *location_implementation(const ronde__op_desc *desc, const void *state) {
  const ronde__product *of_x = &((const ronde__location_state *)state)->of_x;
  bool narrow = of_x->shape.columns < RONDE__PANEL;
  return of_x->chunks[narrow].count ? of_x->chunk[narrow].set.implementation : of_x->rest[narrow].set.implementation;
}

/* Backward: each product of forward twice, and what places give to the keys once more. */
static double location_executed_flops(const ronde__op_desc *desc, const void *state, bool backward) {
  const ronde__location_sizes *z = &((const ronde__location_state *)state)->sizes;
  double cell = (double)(4 * z->h * (z->p + z->e + z->h) + z->a * z->h), places = (double)(z->s * 2 * z->k * z->a);
  double rest = (double)(z->s * (z->a + z->e));
  return 2 * (double)(z->n * z->t) * (backward ? 2 * cell + 3 * places + 3 * rest : cell + places + rest);
}

static const ronde__form location_form = {
    .prepare = location_prepare,
    .release = location_release,
    .work_elems = location_work,
    .saved_elems = location_saved,
    .forward = location_forward,
    .backward = ronde__location_backward,
    .implementation = location_implementation,
    .executed_flops = location_executed_flops,
};

const ronde__op ronde__op_location_attention = {
    .name = "location_attention",
    .outputs = location_outputs,
    .infer = location_infer,
    .params = location_params,
    .flops = location_flops,
    .layouts = location_layouts,
    .backward_reads = {.in = 15, .out = 7},
    .forms = (const ronde__form *const[]){&location_form, NULL},
};
