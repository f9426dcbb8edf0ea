/* The weights of additive attention: of each query t a softmax over the keys s of v . tanh(q_t + k_s); normalised, of
 * g v / |v| . tanh(q_t + k_s + b). What lies between, [T][S][U] for each example, is never held: backward makes it again from
 * the inputs and the weights.
 * Sources: Bahdanau, Cho & Bengio, "Neural machine translation by jointly learning to align and translate", 2015; the
 * normalised vector: Salimans & Kingma, "Weight normalization", 2016.
 * Legend: N examples, T queries, S keys, U features.
 * Inputs: queries [T][U] and keys [S][U]; perhaps lengths, how many keys of an example are there. The weights [T][S] of the
 * others are zero. Forward shares out queries. Backward shares out panels of an example's features: whoever has one adds up all
 * that queries and keys give to it, in their order, and the examples' sums for the parameters are joined in theirs. */
#include "ops/elementwise.h"

#include "ops/gemm_list.h"

#include <math.h>
#include <string.h>

enum { QUERY, KEY };
enum { VECTOR, SCALE, BIAS }; /* v, g, b */
enum { PANEL = 64 };

static ronde_status additive_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                   const char *const *in_labels, ronde__shape *out) {
  char text[96];
  for (int i = QUERY; i <= KEY; i++) {
    if (in[i].rank == 2 && in[i].dim[1] == in[QUERY].dim[1]) continue;
    ronde__shape_text(&in[i], text, sizeof text);
    return ronde__fail(RONDE_E_USAGE, "%s: queries [T,U] and keys [S,U] are needed, but %s gives %s", label,
                       in_labels[i], text);
  }
  if (attr->lengths && !ronde__shape_equal(&in[2], &(ronde__shape){1, {1}})) {
    ronde__shape_text(&in[2], text, sizeof text);
    return ronde__fail(RONDE_E_USAGE, "%s: lengths are one number an example, but %s gives %s", label, in_labels[2],
                       text);
  }
  *out = (ronde__shape){2, {in[QUERY].dim[0], in[KEY].dim[0]}};
  return RONDE_OK;
}

/* Called as in the usual implementation for PyTorch. */
static int additive_params(const ronde__op_attr *attr, const ronde__shape *in,
                           ronde__param_spec specs[RONDE__OP_MAX_PARAMS]) {
  int64_t u = in[QUERY].dim[1];
  float bound = (float)(1 / sqrt((double)u));
  specs[VECTOR] = (ronde__param_spec){.suffix = "linear_att", .shape = {1, {u}}, .bound = bound};
  specs[SCALE] =
      (ronde__param_spec){.suffix = "normalize_scalar", .shape = {1, {1}}, .bound = bound, .init = RONDE_INIT_CONSTANT};
  specs[BIAS] = (ronde__param_spec){.suffix = "normalize_bias", .shape = {1, {u}}, .init = RONDE_INIT_CONSTANT};
  return attr->normalised ? 3 : 1;
}

static int64_t additive_flops(const ronde__op_attr *attr, const ronde__shape *in, const ronde__shape *out) {
  return 2 * out->dim[0] * out->dim[1] * in[QUERY].dim[1];
}

static void additive_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  int64_t n = desc->in[0].n, u = in[QUERY].dim[1];
  for (int i = 0; i < desc->attr.n_inputs; i++) desc->in[i] = ronde__phys_of_shape(&in[i], n);
  desc->out[0] = ronde__phys_of_shape(out, n);
  for (int i = VECTOR; i <= BIAS; i++)
    desc->param[i] = ronde__weight_layout_make(RONDE__PLAIN, i == SCALE ? 1 : u, 1, 1, 1, 1);
}

typedef struct additive_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
  int64_t n, t, s, u;
  const float *bias; /* [U]; NULL: none */
  float *vector;     /* [U], as it is multiplied with */
  float *dvector;    /* [N][U], of that */
  float *dbias;      /* [N][U] */
  float *scratch;    /* of the threads */
} additive_job;

static additive_job job_of(const ronde__op_desc *desc, const ronde__op_call *call) {
  const ronde__phys *query = &desc->in[QUERY];
  additive_job j = {.desc = desc, .n = query->n, .t = query->c, .s = desc->in[KEY].c, .u = query->w};
  if (!call) return j;
  j.call = call;
  j.bias = desc->attr.normalised ? call->param[BIAS] : NULL;
  j.vector = call->work;
  return j;
}

static int64_t panels_of(const additive_job *j) { return ronde__ceil_div(j->u, PANEL); }

/* Of a thread. Forward: a query with the bias. Backward: a panel of it, of its gradient, and of those of all keys. */
static int64_t scratch_of(const additive_job *j, bool backward) { return backward ? PANEL * (2 + j->s) : j->u; }

static size_t additive_work(const ronde__op_desc *desc, const void *state, bool backward) {
  additive_job j = job_of(desc, NULL);
  return (size_t)(j.u + (backward ? 2 * j.n * j.u : 0) + desc->threads * scratch_of(&j, backward));
}

static void add_bias(const float *x, const float *bias, int64_t n, float *sum) {
  for (int64_t i = 0; i < n; i++) sum[i] = x[i] + (bias ? bias[i] : 0);
}

/* The vector by its norm and the scale. */
static void make_vector(const additive_job *j) {
  memcpy(j->vector, j->call->param[VECTOR], (size_t)j->u * sizeof *j->vector);
  if (!j->desc->attr.normalised) return;
  const ronde__kernels *kernels = j->desc->compute.kernels;
  double factor = (double)*j->call->param[SCALE] / sqrt(kernels->sum_squares(j->vector, j->u));
  kernels->scale(j->vector, (float)factor, j->u);
}

/* ---- forward ---- */

static void forward_part(void *arg, int thread, int n_threads) {
  const additive_job *j = arg;
  float *query = j->scratch + thread * scratch_of(j, false);
  int64_t begin, end;
  ronde__thread_chunk(j->n * j->t, thread, n_threads, &begin, &end);
  for (int64_t row = begin; row < end; row++) {
    int64_t n = row / j->t, there = ronde__rows_there(j->desc, j->call, n, j->s);
    float *y = j->call->out[0] + row * j->s;
    add_bias(j->call->in[QUERY] + row * j->u, j->bias, j->u, query);
    j->desc->compute.kernels->additive_scores(query, j->call->in[KEY] + n * j->s * j->u, j->u, there, j->vector, j->u,
                                              y);
    ronde__softmax(y, there);
    memset(y + there, 0, (size_t)(j->s - there) * sizeof *y);
  }
}

static ronde_status additive_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  additive_job j = job_of(desc, call);
  j.scratch = j.vector + j.u;
  make_vector(&j);
  ronde__pool_run(call->pool, forward_part, &j);
  return RONDE_OK;
}

/* ---- backward ---- */

/* The gradients of weights become those of scores, in their place. */
static void slopes_part(void *arg, int thread, int n_threads) {
  const additive_job *j = arg;
  int64_t begin, end;
  ronde__thread_chunk(j->n * j->t, thread, n_threads, &begin, &end);
  for (int64_t row = begin; row < end; row++) {
    int64_t there = ronde__rows_there(j->desc, j->call, row / j->t, j->s);
    const float *p = j->call->out[0] + row * j->s;
    float *dp = j->call->dout[0] + row * j->s, dot = (float)j->desc->compute.kernels->dot(p, dp, there);
    for (int64_t s = 0; s < there; s++) dp[s] = p[s] * (dp[s] - dot);
  }
}

static void backward_panel(const additive_job *j, int64_t n, int64_t panel, float *scratch) {
  const ronde__op_call *call = j->call;
  int64_t first = panel * PANEL, width = ronde__min(PANEL, j->u - first), at = n * j->u + first;
  int64_t there = ronde__rows_there(j->desc, call, n, j->s);
  float *query = scratch, *dquery = query + PANEL, *dkey = dquery + PANEL;
  memset(j->dvector + at, 0, (size_t)width * sizeof(float));
  memset(j->dbias + at, 0, (size_t)width * sizeof(float));
  memset(dkey, 0, (size_t)(j->s * width) * sizeof(float));
  for (int64_t row = n * j->t; row < (n + 1) * j->t; row++) {
    add_bias(call->in[QUERY] + row * j->u + first, j->bias ? j->bias + first : NULL, width, query);
    j->desc->compute.kernels->additive_scores_back(query, call->in[KEY] + n * j->s * j->u + first, j->u, there,
                                                   j->vector + first, width, call->dout[0] + row * j->s, dquery, dkey,
                                                   j->dvector + at);
    for (int64_t i = 0; i < width; i++) j->dbias[at + i] += dquery[i];
    if (call->din[QUERY])
      ronde__gradient_add(j->desc, dquery, call->din[QUERY] + row * j->u + first, width,
                          call->accumulate_dinput[QUERY]);
  }
  for (int64_t s = 0; s < j->s && call->din[KEY]; s++) /* last, because both may be one tensor */
    ronde__gradient_add(j->desc, dkey + s * width, call->din[KEY] + (n * j->s + s) * j->u + first, width,
                        call->accumulate_dinput[KEY]);
}

static void backward_part(void *arg, int thread, int n_threads) {
  const additive_job *j = arg;
  int64_t begin, end;
  ronde__thread_chunk(j->n * panels_of(j), thread, n_threads, &begin, &end);
  for (int64_t i = begin; i < end; i++)
    backward_panel(j, i / panels_of(j), i % panels_of(j), j->scratch + thread * scratch_of(j, true));
}

/* Over the examples of x [N][U], into the first one. */
static void join_examples(const additive_job *j, float *x) {
  for (int64_t i = 0; i < j->u; i++) {
    double sum = 0;
    for (int64_t n = 0; n < j->n; n++) sum += (double)x[n * j->u + i];
    x[i] = (float)sum;
  }
}

static void give_param(const additive_job *j, int i, const float *gradient, int64_t n) {
  if (j->call->dparam[i]) ronde__gradient_add(j->desc, gradient, j->call->dparam[i], n, j->call->accumulate_dparam[i]);
}

/* With w = g v / |v|: dg = v . dw / |v|, dv = g / |v| (dw - v (v . dw) / |v|^2). */
static void give_params(const additive_job *j) {
  const float *v = j->call->param[VECTOR];
  join_examples(j, j->dvector);
  if (j->desc->attr.normalised) {
    double squares = j->desc->compute.kernels->sum_squares(v, j->u), norm = sqrt(squares);
    double along = j->desc->compute.kernels->dot(v, j->dvector, j->u), factor = (double)*j->call->param[SCALE] / norm;
    float dscale = (float)(along / norm);
    for (int64_t i = 0; i < j->u; i++)
      j->dvector[i] = (float)(factor * ((double)j->dvector[i] - (double)v[i] * along / squares));
    join_examples(j, j->dbias);
    give_param(j, BIAS, j->dbias, j->u);
    give_param(j, SCALE, &dscale, 1);
  }
  give_param(j, VECTOR, j->dvector, j->u);
}

static ronde_status additive_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  additive_job j = job_of(desc, call);
  j.dvector = j.vector + j.u, j.dbias = j.dvector + j.n * j.u, j.scratch = j.dbias + j.n * j.u;
  make_vector(&j);
  ronde__pool_run(call->pool, slopes_part, &j);
  ronde__pool_run(call->pool, backward_part, &j);
  give_params(&j);
  ronde__lengths_backward(desc, call);
  return RONDE_OK;
}

/* Forward a sum; backward three of them, and the product that gives the slope. */
static double additive_executed_flops(const ronde__op_desc *desc, const void *state, bool backward) {
  additive_job j = job_of(desc, NULL);
  return 2 * (double)(j.n * j.t) * (double)(j.s * j.u) * (backward ? 4 : 1);
}

static const ronde__form additive_form = {
    .work_elems = additive_work,
    .forward = additive_forward,
    .backward = additive_backward,
    .implementation = ronde__elementwise_implementation,
    .executed_flops = additive_executed_flops,
};

const ronde__op ronde__op_additive_attention = {
    .name = "additive_attention",
    .infer = additive_infer,
    .params = additive_params,
    .flops = additive_flops,
    .layouts = additive_layouts,
    .backward_reads = {.in = 7, .out = 1},
    .forms = (const ronde__form *const[]){&additive_form, NULL},
};
