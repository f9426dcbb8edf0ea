/* Location-sensitive attention, backward through time. What a step's weights give goes to the windows around them in the next
 * step and, by their sum, in all steps behind. Gradients of parameters and memory are products over all steps, made behind the
 * walk; what an example gives to the filters, the dense layer and the vector is summed by itself and then joined in the order of
 * examples, so bits do not depend on threads. */
#include "ops/location_attention.h"

#include "ops/elementwise.h"

#include <string.h>

/* ---- preparing ---- */

static ronde_status create_steps(const ronde__op_desc *desc, ronde__location_state *s) {
  const ronde__location_sizes *z = &s->sizes;
  int64_t gates = 4 * z->h, columns = z->p + z->e;
  for (int last = 0; last < 2; last++) {
    int64_t m = last ? z->n - (s->n_pieces - 1) * s->piece : s->piece;
    const ronde__product_shape dinput = {.m = m, .k = gates, .columns = columns, .lda = z->t * gates, .ldc = columns};
    const ronde__product_shape dhidden = {.m = m, .k = gates, .columns = z->h, .lda = z->t * gates, .ldc = z->h};
    const ronde__product_shape dquery = {.m = m, .k = z->a, .columns = z->h, .lda = z->t * z->a, .ldc = z->h};
    RONDE_TRY(ronde__product_create(desc, &dinput, &s->dinput[last]));
    RONDE_TRY(ronde__product_create(desc, &dhidden, &s->dhidden[last]));
    RONDE_TRY(ronde__product_create(desc, &dquery, &s->dquery[last]));
  }
  const ronde__product_shape dweights = {.m = 1, .k = z->e, .columns = z->s, .lda = z->e, .ldc = z->s};
  const ronde__product_shape dplaces = {.m = z->s, .k = z->a, .columns = 2 * z->k, .lda = z->a, .ldc = 2 * z->k};
  RONDE_TRY(ronde__product_create(desc, &dweights, &s->dweights));
  return ronde__product_create(desc, &dplaces, &s->dplaces);
}

static ronde_status create_sums(const ronde__op_desc *desc, ronde__location_state *s) {
  const ronde__location_sizes *z = &s->sizes;
  int64_t rows = z->n * z->t, columns = z->p + z->e, widths[] = {RONDE__PANEL, 4 * z->h % RONDE__PANEL};
  const ronde__product_shape dlocation = {
      .m = 2 * z->k, .k = z->s, .columns = z->a, .lda = 2 * z->k, .ldb = z->a, .ldc = z->a, .turned = true};
  const ronde__product_shape dmemory = {
      .m = z->s, .k = z->t, .columns = z->e, .lda = z->s, .ldb = z->e, .ldc = z->e, .turned = true};
  const ronde__product_shape dw_query = {
      .m = z->a, .k = rows, .columns = z->h, .lda = z->a, .ldb = z->h, .ldc = z->h, .turned = true};
  RONDE_TRY(ronde__product_create(desc, &dlocation, &s->dlocation));
  RONDE_TRY(ronde__product_create(desc, &dmemory, &s->dmemory));
  RONDE_TRY(ronde__product_create(desc, &dw_query, &s->dw_query));
  for (int narrow = 0; narrow < 2; narrow++) {
    ronde__product_shape shape = {
        .m = widths[narrow], .k = rows, .columns = columns, .lda = widths[narrow], .ldc = columns, .turned = true};
    if (shape.m == 0) continue;
    RONDE_TRY(ronde__product_create(desc, &shape, &s->dw_ih[narrow]));
    shape.columns = shape.ldc = z->h;
    RONDE_TRY(ronde__product_create(desc, &shape, &s->dw_hh[narrow]));
  }
  return RONDE_OK;
}

ronde_status ronde__location_create_back(const ronde__op_desc *desc, ronde__location_state *s) {
  RONDE_TRY(create_steps(desc, s));
  return create_sums(desc, s);
}

void ronde__location_destroy_back(ronde__location_state *s) {
  ronde__product *pairs[] = {s->dinput, s->dhidden, s->dquery, s->dw_ih, s->dw_hh};
  ronde__product *ones[] = {&s->dweights, &s->dplaces, &s->dlocation, &s->dmemory, &s->dw_query};
  for (size_t i = 0; i < RONDE__COUNT(pairs); i++)
    for (int k = 0; k < 2; k++) ronde__product_destroy(&pairs[i][k]);
  for (size_t i = 0; i < RONDE__COUNT(ones); i++) ronde__product_destroy(ones[i]);
}

/* Takes the next n floats; of a work of NULL, counts them. */
static float *take(float *work, size_t *used, int64_t n) {
  float *at = work ? work + *used : NULL;
  *used += (size_t)n;
  return at;
}

static size_t lay_out(const ronde__location_sizes *z, int threads, float *work, ronde__location_job *j) {
  int64_t rows = z->n * z->t, gates = 4 * z->h, columns = z->p + z->e, places = 2 * z->k * z->a;
  size_t used = 0;
  j->location = take(work, &used, places);
  j->places = take(work, &used, places);
  j->turned_places = take(work, &used, places);
  j->w_ih = take(work, &used, gates * columns);
  j->w_hh = take(work, &used, gates * z->h);
  j->w_query = take(work, &used, z->a * z->h);
  j->memory = take(work, &used, z->n * z->e * z->s);
  j->sums = take(work, &used, rows * z->s);
  j->drows = take(work, &used, rows * gates);
  j->dqueries = take(work, &used, rows * z->a);
  j->dcontexts = take(work, &used, rows * z->e);
  j->inputs = take(work, &used, rows * columns);
  j->before = take(work, &used, rows * z->h);
  j->dinputs = take(work, &used, z->n * columns);
  j->dh = take(work, &used, z->n * z->h);
  j->dcell = take(work, &used, z->n * z->h);
  j->dbefore = take(work, &used, z->n * z->s);
  j->dsums = take(work, &used, z->n * z->s);
  j->dkeys = take(work, &used, z->n * z->s * z->a);
  j->dlocation = take(work, &used, z->n * places);
  j->dvector = take(work, &used, z->n * z->a);
  j->small = take(work, &used, places + z->c * (z->a + 2 * z->k));
  j->scratch = take(work, &used, threads * ronde__location_scratch(z, true));
  return used;
}

size_t ronde__location_work_back(const ronde__location_sizes *z, int threads) {
  return lay_out(z, threads, NULL, &(ronde__location_job){0});
}

/* ---- in front of the walk ---- */

/* Panels of both weights of the gates; the small matrices by the first thread. */
static void pack_back_part(void *arg, int thread, int n_threads) {
  const ronde__location_job *j = arg;
  const ronde__location_sizes *z = &j->s->sizes;
  int64_t gates = 4 * z->h, columns = z->p + z->e, twice = 2 * z->k, begin, end;
  ronde__thread_chunk(ronde__panels_of(columns), thread, n_threads, &begin, &end);
  ronde__panels_pack(j->desc, &(ronde__panel_rows){gates, columns, 0, gates}, j->call->param[RONDE__LOCATION_IH],
                     columns, false, begin, end, j->w_ih);
  ronde__thread_chunk(ronde__panels_of(z->h), thread, n_threads, &begin, &end);
  ronde__panels_pack(j->desc, &(ronde__panel_rows){gates, z->h, 0, gates}, j->call->param[RONDE__LOCATION_HH], z->h,
                     false, begin, end, j->w_hh);
  ronde__panels_pack(j->desc, &(ronde__panel_rows){z->a, z->h, 0, z->a}, j->call->param[RONDE__LOCATION_QUERY], z->h,
                     false, begin, end, j->w_query);
  if (thread) return;
  ronde__location_join(j);
  ronde__panels_pack(j->desc, &(ronde__panel_rows){twice, z->a, 0, twice}, j->location, twice, true, 0,
                     ronde__panels_of(z->a), j->places);
  ronde__panels_pack(j->desc, &(ronde__panel_rows){z->a, twice, 0, z->a}, j->location, twice, false, 0,
                     ronde__panels_of(twice), j->turned_places);
}

static void set_inputs(const ronde__location_job *j, int64_t n, int64_t t) {
  const ronde__location_sizes *z = &j->s->sizes;
  int64_t row = n * z->t + t, rows = z->n * z->t, columns = z->p + z->e;
  const float *x = j->call->in[RONDE__LOCATION_X] + row * z->p;
  const float *context = t ? j->call->out[RONDE__LOCATION_CONTEXT] + (row - 1) * z->e : NULL;
  const float *h = t ? j->call->out[RONDE__LOCATION_HIDDEN] + (row - 1) * z->h : NULL;
  ronde__panels_set(j->inputs, rows, columns, row, 0, x, z->p);
  ronde__panels_set(j->inputs, rows, columns, row, z->p, context, z->e);
  ronde__panels_set(j->before, rows, z->h, row, 0, h, z->h);
}

/* What was in front of each step, and nothing behind the last one. */
static void begin_example(const ronde__location_job *j, int64_t n) {
  const ronde__location_sizes *z = &j->s->sizes;
  const float *w = j->call->out[RONDE__LOCATION_WEIGHTS] + n * z->t * z->s;
  float *sums = j->sums + n * z->t * z->s;
  const struct {
    float *at;
    int64_t n;
  } zeros[] = {{sums, z->s},
               {j->dinputs + n * (z->p + z->e), z->p + z->e},
               {j->dh + n * z->h, z->h},
               {j->dcell + n * z->h, z->h},
               {j->dbefore + n * z->s, z->s},
               {j->dsums + n * z->s, z->s},
               {j->dkeys + n * z->s * z->a, z->s * z->a},
               {j->dlocation + n * 2 * z->k * z->a, 2 * z->k * z->a},
               {j->dvector + n * z->a, z->a}};
  for (size_t i = 0; i < RONDE__COUNT(zeros); i++) memset(zeros[i].at, 0, (size_t)zeros[i].n * sizeof(float));
  for (int64_t t = 0; t < z->t; t++) {
    set_inputs(j, n, t);
    if (t) j->desc->compute.kernels->add(sums + (t - 1) * z->s, w + (t - 1) * z->s, sums + t * z->s, z->s);
  }
  ronde__panels_pack(j->desc, &(ronde__panel_rows){z->e, z->s, 0, z->e},
                     j->call->in[RONDE__LOCATION_MEMORY] + n * z->s * z->e, z->e, true, 0, ronde__panels_of(z->s),
                     j->memory + n * z->e * z->s);
}

/* ---- the walk ---- */

/* In f64, and by the sum of the weights, which is 1 but for rounding: what all places share cancels, and is much more than the
 * rest. */
static double weighted_mean(const float *w, const float *x, int64_t n) {
  double sum = 0, weights = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)w[i] * (double)x[i], weights += (double)w[i];
  return sum / weights;
}

/* Gradients of a step's scores, in the place of those of its weights, slopes [S]. */
static void slopes_of_step(const ronde__location_job *j, int64_t n, int64_t t, int64_t there, float *slopes) {
  const ronde__location_sizes *z = &j->s->sizes;
  const ronde__kernels *kernels = j->desc->compute.kernels;
  int64_t row = n * z->t + t;
  const float *w = j->call->out[RONDE__LOCATION_WEIGHTS] + row * z->s, *dw = j->call->dout[RONDE__LOCATION_WEIGHTS];
  const float *dout = j->call->dout[RONDE__LOCATION_CONTEXT];
  float *dcontext = j->dcontexts + row * z->e;
  memcpy(dcontext, j->dinputs + n * (z->p + z->e) + z->p, (size_t)z->e * sizeof *dcontext);
  if (dout) kernels->add(dcontext, dout + row * z->e, dcontext, z->e);
  ronde__product_run(&j->s->dweights, dcontext, j->memory + n * z->e * z->s, slopes, false);
  kernels->add(slopes, j->dbefore + n * z->s, slopes, z->s);
  kernels->add(slopes, j->dsums + n * z->s, slopes, z->s);
  if (dw) kernels->add(slopes, dw + row * z->s, slopes, z->s);
  double mean = weighted_mean(w, slopes, there);
  for (int64_t s = 0; s < there; s++) slopes[s] = (float)((double)w[s] * ((double)slopes[s] - mean));
}

/* To the weights that the windows were of. */
static void give_windows(const ronde__location_sizes *z, const float *dwindows, float *dbefore, float *dsums) {
  float *to[] = {dbefore, dsums};
  for (int64_t s = 0; s < z->s; s++)
    for (int channel = 0; channel < 2; channel++) {
      const float *row = dwindows + (2 * s + channel) * z->k;
      int64_t first = s - z->k / 2, end = ronde__min(z->k, z->s - first);
      for (int64_t i = ronde__max(0, -first); i < end; i++) to[channel][first + i] += row[i];
    }
}

static void attend_back(const ronde__location_job *j, int64_t n, int64_t t, float *scratch) {
  const ronde__location_sizes *z = &j->s->sizes;
  const ronde__kernels *kernels = j->desc->compute.kernels;
  const ronde__op_call *call = j->call;
  int64_t row = n * z->t + t, there = ronde__rows_there(j->desc, call, n, z->s);
  float *windows = scratch + z->s * z->a, *dkeys = windows + z->s * 2 * z->k, *dwindows = dkeys + z->s * z->a;
  float *slopes = dwindows, *dbefore = j->dbefore + n * z->s;
  const float *keys = call->in[RONDE__LOCATION_KEYS] + n * z->s * z->a;
  const float *w = call->out[RONDE__LOCATION_WEIGHTS] + row * z->s;
  slopes_of_step(j, n, t, there, slopes);
  memset(dbefore, 0, (size_t)z->s * sizeof *dbefore);
  memset(dkeys, 0, (size_t)(z->s * z->a) * sizeof *dkeys);
  if (t) {
    ronde__location_windows(z, w - z->s, j->sums + row * z->s, windows);
    ronde__location_keys(j, n, windows, j->places, scratch);
    keys = scratch;
  }
  kernels->additive_scores_back(j->queries + row * z->a, keys, z->a, there, call->param[RONDE__LOCATION_VECTOR], z->a,
                                slopes, j->dqueries + row * z->a, dkeys, j->dvector + n * z->a);
  kernels->add(j->dkeys + n * z->s * z->a, dkeys, j->dkeys + n * z->s * z->a, z->s * z->a);
  if (t == 0) return;
  ronde__product_run(&j->s->dlocation, windows, dkeys, j->dlocation + n * 2 * z->k * z->a, true);
  ronde__product_run(&j->s->dplaces, dkeys, j->turned_places, dwindows, false);
  give_windows(z, dwindows, dbefore, j->dsums + n * z->s);
}

static void cell_back(const ronde__location_job *j, int64_t n, int64_t t) {
  const ronde__location_sizes *z = &j->s->sizes;
  int64_t row = n * z->t + t;
  const float *cell = j->cells + row * z->h, *dy = j->call->dout[RONDE__LOCATION_HIDDEN];
  j->desc->compute.kernels->lstm_step_back(j->gates + row * 4 * z->h, NULL, t ? cell - z->h : NULL, cell,
                                           dy ? dy + row * z->h : NULL, j->dh + n * z->h, j->dcell + n * z->h,
                                           j->drows + row * 4 * z->h, 0, z->h);
}

static void backward_piece(const ronde__location_job *j, int64_t n0, int64_t n1, bool last, float *scratch) {
  const ronde__location_state *s = j->s;
  const ronde__location_sizes *z = &s->sizes;
  int64_t columns = z->p + z->e;
  float *dx = j->call->din[RONDE__LOCATION_X];
  for (int64_t n = n0; n < n1; n++) begin_example(j, n);
  for (int64_t t = z->t - 1; t >= 0; t--) {
    int64_t row = n0 * z->t + t;
    for (int64_t n = n0; n < n1; n++) attend_back(j, n, t, scratch);
    ronde__product_run(&s->dquery[last], j->dqueries + row * z->a, j->w_query, j->dh + n0 * z->h, true);
    for (int64_t n = n0; n < n1; n++) cell_back(j, n, t);
    ronde__product_run(&s->dhidden[last], j->drows + row * 4 * z->h, j->w_hh, j->dh + n0 * z->h, false);
    ronde__product_run(&s->dinput[last], j->drows + row * 4 * z->h, j->w_ih, j->dinputs + n0 * columns, false);
    for (int64_t n = n0; n < n1 && dx; n++)
      ronde__gradient_add(j->desc, j->dinputs + n * columns, dx + (n * z->t + t) * z->p, z->p,
                          j->call->accumulate_dinput[RONDE__LOCATION_X]);
  }
}

static void backward_part(void *arg, int thread, int n_threads) {
  const ronde__location_job *j = arg;
  int64_t begin, end;
  ronde__thread_chunk(j->s->n_pieces, thread, n_threads, &begin, &end);
  for (int64_t i = begin; i < end; i++)
    backward_piece(j, i * j->s->piece, ronde__min((i + 1) * j->s->piece, j->s->sizes.n), i == j->s->n_pieces - 1,
                   j->scratch + thread * ronde__location_scratch(&j->s->sizes, true));
}

/* ---- behind the walk ---- */

/* Last, because inputs may be one tensor. */
static void give_memory_part(void *arg, int thread, int n_threads) {
  const ronde__location_job *j = arg;
  const ronde__location_sizes *z = &j->s->sizes;
  const ronde__op_call *call = j->call;
  float *dmemory = call->din[RONDE__LOCATION_MEMORY], *dkeys = call->din[RONDE__LOCATION_KEYS];
  int64_t begin, end, keys = z->s * z->a;
  ronde__thread_chunk(z->n, thread, n_threads, &begin, &end);
  for (int64_t n = begin; n < end && dmemory; n++)
    ronde__product_run(&j->s->dmemory, call->out[RONDE__LOCATION_WEIGHTS] + n * z->t * z->s,
                       j->dcontexts + n * z->t * z->e, dmemory + n * z->s * z->e,
                       call->accumulate_dinput[RONDE__LOCATION_MEMORY]);
  for (int64_t n = begin; n < end && dkeys; n++)
    ronde__gradient_add(j->desc, j->dkeys + n * keys, dkeys + n * keys, keys,
                        call->accumulate_dinput[RONDE__LOCATION_KEYS]);
}

/* A panel of gates' rows of both weights, and of both biases. */
static void give_gates(const ronde__location_job *j, int64_t panel, float *rows_of_panel) {
  const ronde__location_sizes *z = &j->s->sizes;
  const ronde__op_call *call = j->call;
  int64_t gates = 4 * z->h, width = ronde__panel_width(gates, panel), first = panel * RONDE__PANEL;
  int64_t rows = z->n * z->t, columns = z->p + z->e;
  bool narrow = width < RONDE__PANEL;
  float *dw_ih = call->dparam[RONDE__LOCATION_IH], *dw_hh = call->dparam[RONDE__LOCATION_HH];
  for (int64_t r = 0; r < rows; r++)
    memcpy(rows_of_panel + r * width, j->drows + r * gates + first, (size_t)width * sizeof(float));
  if (dw_ih)
    ronde__product_run(&j->s->dw_ih[narrow], rows_of_panel, j->inputs, dw_ih + first * columns,
                       call->accumulate_dparam[RONDE__LOCATION_IH]);
  if (dw_hh)
    ronde__product_run(&j->s->dw_hh[narrow], rows_of_panel, j->before, dw_hh + first * z->h,
                       call->accumulate_dparam[RONDE__LOCATION_HH]);
  for (int b = RONDE__LOCATION_BIAS_IH; b <= RONDE__LOCATION_BIAS_HH; b++) {
    float *db = call->dparam[b] ? call->dparam[b] + first : NULL;
    if (db && !call->accumulate_dparam[b]) memset(db, 0, (size_t)width * sizeof *db);
    if (db) j->desc->compute.kernels->column_sums(rows_of_panel, width, rows, width, db);
  }
}

static void give_gates_part(void *arg, int thread, int n_threads) {
  const ronde__location_job *j = arg;
  const ronde__location_sizes *z = &j->s->sizes;
  float *scratch = j->scratch + thread * ronde__location_scratch(z, true), *dw = j->call->dparam[RONDE__LOCATION_QUERY];
  int64_t begin, end;
  ronde__thread_chunk(ronde__panels_of(4 * z->h), thread, n_threads, &begin, &end);
  for (int64_t panel = begin; panel < end; panel++) give_gates(j, panel, scratch);
  ronde__thread_chunk(ronde__panels_of(z->h), thread, n_threads, &begin, &end);
  if (dw)
    ronde__product_run_some(&j->s->dw_query, begin, end, j->dqueries, j->call->out[RONDE__LOCATION_HIDDEN], dw,
                            j->call->accumulate_dparam[RONDE__LOCATION_QUERY]);
}

/* Over the examples of x [N][n], into the first one. */
static void join_examples(const ronde__location_job *j, float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int64_t example = 0; example < j->s->sizes.n; example++) sum += (double)x[example * n + i];
    x[i] = (float)sum;
  }
}

static void give_param(const ronde__location_job *j, int param, const float *gradient, int64_t n) {
  if (j->call->dparam[param])
    ronde__gradient_add(j->desc, gradient, j->call->dparam[param], n, j->call->accumulate_dparam[param]);
}

/* From the gradient of location = dense filters to those of both. */
static void give_location(const ronde__location_job *j) {
  const ronde__location_sizes *z = &j->s->sizes;
  const ronde__kernels *kernels = j->desc->compute.kernels;
  const float *filters = j->call->param[RONDE__LOCATION_FILTERS], *dense = j->call->param[RONDE__LOCATION_DENSE];
  int64_t twice = 2 * z->k;
  float *slopes = j->small, *ddense = slopes + z->a * twice, *dfilters = ddense + z->a * z->c;
  join_examples(j, j->dlocation, twice * z->a);
  kernels->transpose(j->dlocation, z->a, twice, z->a, slopes, twice);
  memset(dfilters, 0, (size_t)(z->c * twice) * sizeof *dfilters);
  for (int64_t a = 0; a < z->a; a++)
    for (int64_t c = 0; c < z->c; c++) {
      ddense[a * z->c + c] = (float)kernels->dot(slopes + a * twice, filters + c * twice, twice);
      for (int64_t i = 0; i < twice; i++) dfilters[c * twice + i] += dense[a * z->c + c] * slopes[a * twice + i];
    }
  give_param(j, RONDE__LOCATION_FILTERS, dfilters, z->c * twice);
  give_param(j, RONDE__LOCATION_DENSE, ddense, z->a * z->c);
}

ronde_status ronde__location_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const ronde__location_state *s = state;
  const ronde__location_sizes *z = &s->sizes;
  ronde__location_job j = {.desc = desc, .s = s, .call = call, .gates = call->saved};
  j.cells = j.gates + z->n * z->t * 4 * z->h, j.queries = j.cells + z->n * z->t * z->h;
  lay_out(z, desc->threads, call->work, &j);
  ronde__pool_run(call->pool, pack_back_part, &j);
  ronde__pool_run(call->pool, backward_part, &j);
  ronde__pool_run(call->pool, give_memory_part, &j);
  ronde__pool_run(call->pool, give_gates_part, &j);
  give_location(&j);
  join_examples(&j, j.dvector, z->a);
  give_param(&j, RONDE__LOCATION_VECTOR, j.dvector, z->a);
  ronde__lengths_backward(desc, call);
  return RONDE_OK;
}
