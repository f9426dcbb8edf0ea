/* Runs an op at a case and compares it with its reference. */
#include "ops_testing.h"
#include "sanitized.h"

const char *const gradient_names[RONDE__OP_MAX_PARAMS] = {
    "weight gradient",         "bias gradient",           "gradient of parameter 2", "gradient of parameter 3",
    "gradient of parameter 4", "gradient of parameter 5", "gradient of parameter 6", "gradient of parameter 7"};

char finding[640];

bool found(const op_run *run, const char *format, ...) {
  static const char *const layouts[] = {"ROWS", "LANES", "BLOCKS"};
  const op_case *c = run->c;
  const ronde__op_attr *a = &c->attr;
  if (*finding) return false;
  size_t size = sizeof finding, used = 0;
  used += (size_t)snprintf(finding, size,
                           "%s n %d, %dx%dx%d -> %d, kernel %dx%d, stride %dx%d, padding %dx%d+%dx%d, dilation "
                           "%dx%d, groups %d, act %d",
                           run->v->op->name, (int)c->n, (int)c->c, (int)c->h, (int)c->w, (int)a->out_channels,
                           a->kernel[0], a->kernel[1], a->stride[0], a->stride[1], a->padding[0], a->padding[1],
                           a->padding_more[0], a->padding_more[1], a->dilation[0], a->dilation[1], a->groups, a->act);
  used +=
      (size_t)snprintf(finding + used, size - used,
                       " (%s %s, gemm %d, %d threads, %s, need %u, accumulate %d, in dout %d): ", run->v->kernels->isa,
                       run->v->bf16 ? run->v->bf16->name : "f32", run->v->gemm, ronde__pool_threads(run->v->pool),
                       layouts[run->v->offered], run->v->need, run->v->accumulate, run->v->in_dout);
  va_list args;
  va_start(args, format);
  vsnprintf(finding + used, size - used, format, args);
  va_end(args);
  return false;
}

static void fill_bits(float *x, int64_t n, uint32_t bits) {
  for (int64_t i = 0; i < n; i++) memcpy(x + i, &bits, sizeof bits);
}

static void poison(buffer *b) { fill_bits(b->at, b->n, 0x7fc00bad); }

static buffer buffer_make(int64_t n) {
  buffer b = {.n = n};
  assert_int_equal(posix_memalign((void **)&b.block, 64, (size_t)(n + 2 * GUARD) * sizeof(float)), 0);
  b.at = b.block + GUARD;
  fill_bits(b.block, n + 2 * GUARD, 0x7fdeadbe);
  poison(&b);
  return b;
}

static bool guards_hold(const op_run *run, const buffer *b, const char *name) {
  for (int64_t i = 0; b->at && i < GUARD; i++) {
    uint32_t before, after;
    memcpy(&before, b->block + i, sizeof before);
    memcpy(&after, b->at + b->n + i, sizeof after);
    if (before != 0x7fdeadbe || after != 0x7fdeadbe) return found(run, "%s: written outside", name);
  }
  return true;
}

bool all_guards_hold(const op_run *run) {
  bool held = guards_hold(run, &run->saved, "saved") && guards_hold(run, &run->work, "work");
  for (int i = 0; i < RONDE__OP_MAX_OUTPUTS; i++)
    held = held && guards_hold(run, &run->out[i], "output") && guards_hold(run, &run->dout[i], "output gradient");
  for (int i = 0; i < RONDE__OP_MAX_BUFFERS; i++) held = held && guards_hold(run, &run->state_of[i], "buffer");
  for (int i = 0; i < RONDE__OP_MAX_INPUTS; i++)
    held = held && guards_hold(run, &run->in[i], "input") && guards_hold(run, &run->din[i], "input gradient");
  for (int i = 0; i < RONDE__OP_MAX_PARAMS; i++)
    held = held && guards_hold(run, &run->param[i], "parameter") &&
           guards_hold(run, &run->dparam[i], "parameter gradient");
  return held;
}

int64_t place_of(const ronde__phys *phys, int64_t i) {
  int64_t pixels = phys->h * phys->w;
  return ronde__phys_index(phys, i / pixels / phys->c, i / pixels % phys->c, i % pixels);
}

static void put(const ronde__phys *phys, const float *logical, float *x) {
  for (int64_t i = 0; i < phys->n * phys->c * phys->h * phys->w; i++) x[place_of(phys, i)] = logical[i];
}

void put_padded(const ronde__phys *phys, const float *logical, float *x) {
  memset(x, 0, (size_t)ronde__phys_elems(phys) * sizeof *x);
  put(phys, logical, x);
}

float start_value(int64_t i) { return (float)(i % 7) - 3.0f; }

static void put_start(const ronde__phys *phys, float *x) {
  memset(x, 0, (size_t)ronde__phys_elems(phys) * sizeof *x);
  for (int64_t i = 0; i < phys->n * phys->c * phys->h * phys->w; i++) x[place_of(phys, i)] = start_value(i);
}

int64_t weight_place(const ronde__weight_layout *l, int64_t i) {
  return ronde__weight_index(l, i / l->t / l->i, i / l->t % l->i, i % l->t);
}

static void put_weight(const ronde__weight_layout *l, const float *logical, float *w) {
  memset(w, 0, (size_t)ronde__weight_elems(l) * sizeof *w);
  for (int64_t i = 0; i < l->o * l->i * l->t; i++) w[weight_place(l, i)] = logical ? logical[i] : start_value(i);
}

/* An input as it is offered; in BLOCKS a matrix as the rows of linear layers, to whoever takes these. */
static ronde__phys phys_offered(const op_run *run, int i, const ronde__shape *shape) {
  ronde__layout layout = run->v->op->is_loss && i == 1 ? RONDE__ROWS : run->v->offered;
  if (layout == RONDE__BLOCKS && run->v->op->takes_rows && shape->rank == 2)
    return ronde__phys_make(layout, run->c->n * shape->dim[0], shape->dim[1], 1, 1);
  return phys_of_input(run->c, i, layout);
}

static bool describe(op_run *run) {
  const op_case *c = run->c;
  const ronde__op *op = run->v->op;
  ronde__op_desc *d = &run->desc;
  ronde__shape in[RONDE__OP_MAX_INPUTS], out[RONDE__OP_MAX_OUTPUTS];
  const char *const labels[] = {"a", "b", "c", "d"};
  shapes_of_inputs(c, in);
  if (op->infer(&c->attr, "op", in, labels, out) != RONDE_OK) return found(run, "the shape is refused");
  if ((op->outputs ? op->outputs(&c->attr) : 1) != run->ref->n_outputs + op->is_loss)
    return found(run, "another number of outputs");
  for (int i = 0; i < run->ref->n_outputs; i++)
    if (!ronde__shape_equal(&out[i], &run->ref->out_shape[i])) return found(run, "wrong shape of output %d", i);
  *d = (ronde__op_desc){.attr = c->attr,
                        .n_inputs = run->ref->n_inputs + op->wants_labels,
                        .n_outputs = run->ref->n_outputs + op->is_loss,
                        .compute = {run->v->kernels, run->v->gemm, run->v->bf16},
                        .threads = ronde__pool_threads(run->v->pool)};
  for (int i = 0; i < run->ref->n_inputs; i++) {
    d->in[i] = phys_offered(run, i, &in[i]);
    d->need_dinput[i] = run->v->need >> i & 1;
  }
  ronde__param_spec specs[RONDE__OP_MAX_PARAMS];
  d->n_params = op->params ? op->params(&c->attr, in, specs) : 0;
  if (d->n_params != run->ref->n_params) return found(run, "%d parameters", d->n_params);
  for (int i = 0; i < d->n_params; i++)
    if (ronde__shape_elems(&specs[i].shape) != run->ref->n_param[i])
      return found(run, "%s has another shape", specs[i].suffix);
  ronde__buffer_spec buffers[RONDE__OP_MAX_BUFFERS];
  d->n_buffers = op->buffers ? op->buffers(&c->attr, in, buffers) : 0;
  d->layer = CALL_LAYER;
  if (op->layouts) op->layouts(d, in, out);
  for (int i = 0; i < run->ref->n_inputs; i++)
    if (d->in[i].n * d->in[i].c * d->in[i].h * d->in[i].w != elems_of_input(c, i))
      return found(run, "layouts changed the input's shape");
  return true;
}

static bool lie_alike(const ronde__op_desc *a, const ronde__op_desc *b) {
  bool alike = true;
  for (int i = 0; i < RONDE__OP_MAX_INPUTS; i++) alike = alike && ronde__phys_equal(&a->in[i], &b->in[i]);
  for (int i = 0; i < RONDE__OP_MAX_OUTPUTS; i++) alike = alike && ronde__phys_equal(&a->out[i], &b->out[i]);
  for (int i = 0; i < a->n_params; i++) alike = alike && ronde__weight_layout_equal(&a->param[i], &b->param[i]);
  return alike;
}

bool is_offered_in_vain(const op_case *c, const reference *ref, const variant *v) {
  variant before = *v;
  op_run run = {.c = c, .ref = ref, .v = v}, earlier = {.c = c, .ref = ref, .v = &before};
  while (before.offered > RONDE__ROWS) {
    before.offered--;
    if (describe(&earlier) && describe(&run) && lie_alike(&earlier.desc, &run.desc)) return true;
  }
  return false;
}

bool op_run_open(op_run *run, const op_case *c, const reference *ref, const variant *v, const ronde__phys *out) {
  *run = (op_run){.c = c, .ref = ref, .v = v};
  if (!describe(run)) return false;
  if (out) run->desc.out[0] = *out; /* a reorder's, which the plan chooses */
  const ronde__op *op = v->op;
  const ronde__op_desc *d = &run->desc;
  if (ronde__form_choose(op, &run->desc) != RONDE_OK) return found(run, "no form takes it");
  const ronde__form *form = d->form;
  if (form && form->prepare && form->prepare(d, &run->state) != RONDE_OK) return found(run, "cannot be prepared");
  for (int i = 0; i < ref->n_inputs; i++) {
    run->in[i] = buffer_make(ronde__phys_elems(&d->in[i]));
    put_padded(&d->in[i], ref->in[i], run->in[i].at);
    if (d->need_dinput[i]) run->din[i] = buffer_make(run->in[i].n);
  }
  for (int i = 0; i < d->n_params; i++) {
    run->param[i] = buffer_make(ronde__weight_elems(&d->param[i]));
    run->dparam[i] = buffer_make(run->param[i].n);
    run->heard[i] = malloc((size_t)run->param[i].n * sizeof(float));
    put_weight(&d->param[i], ref->param[i], run->param[i].at);
  }
  ronde__buffer_spec buffers[RONDE__OP_MAX_BUFFERS];
  ronde__shape in[RONDE__OP_MAX_INPUTS];
  shapes_of_inputs(c, in);
  for (int i = 0; op->buffers && i < op->buffers(&c->attr, in, buffers); i++)
    if (!buffers[i].is_counter) run->state_of[i] = buffer_make(ronde__weight_elems(&d->buffer));
  for (int i = 0; i < ref->n_outputs; i++) {
    run->out[i] = buffer_make(ronde__phys_elems(&d->out[i]));
    run->dout[i] = buffer_make(run->out[i].n);
  }
  run->saved = buffer_make(form && form->saved_elems ? (int64_t)form->saved_elems(d, run->state) : 0);
  return true;
}

void op_run_close(op_run *run) {
  const ronde__form *form = run->desc.form;
  if (form && form->release) form->release(&run->desc, run->state);
  for (int i = 0; i < RONDE__OP_MAX_INPUTS; i++) free(run->in[i].block), free(run->din[i].block);
  for (int i = 0; i < RONDE__OP_MAX_PARAMS; i++) free(run->param[i].block), free(run->dparam[i].block);
  for (int i = 0; i < RONDE__OP_MAX_BUFFERS; i++) free(run->state_of[i].block);
  for (int i = 0; i < RONDE__OP_MAX_PARAMS; i++) free(run->heard[i]);
  for (int i = 0; i < RONDE__OP_MAX_OUTPUTS; i++) free(run->out[i].block), free(run->dout[i].block);
  free(run->saved.block), free(run->work.block);
}

/* A number that differs where any bit of a buffer does. */
static uint64_t digest(uint64_t d, const buffer *b) {
  for (int64_t i = 0; i < b->n; i++) {
    uint32_t bits;
    memcpy(&bits, b->at + i, sizeof bits);
    d = (d ^ bits) * 0x9e3779b97f4a7c15u;
    d ^= d >> 29;
  }
  return d;
}

/* A parameter's last elements come first. */
static void hear(void *user, const ronde__gradient *g) {
  op_run *run = user;
  if (g->data != run->dparam[g->param].at + g->begin || g->end != run->heard_first[g->param] || g->begin >= g->end)
    found(run, "elements %zu to %zu of param[%d] are told to be final behind %zu", g->begin, g->end, g->param,
          run->heard_first[g->param]);
  else memcpy(run->heard[g->param] + g->begin, g->data, (g->end - g->begin) * sizeof(float));
  run->heard_first[g->param] = g->begin;
}

void op_run_bind(op_run *run, bool backward) {
  const ronde__form *form = run->desc.form;
  free(run->work.block);
  run->work = buffer_make(form && form->work_elems ? (int64_t)form->work_elems(&run->desc, run->state, backward) : 0);
  run->call = (ronde__op_call){.saved = run->saved.at,
                               .work = run->work.at,
                               .pool = run->v->pool,
                               .training = true,
                               .seed = CALL_SEED,
                               .step = CALL_STEP,
                               .first_example = CALL_FIRST_EXAMPLE};
  for (int i = 0; i < RONDE__OP_MAX_BUFFERS; i++) {
    run->call.buffer[i] = run->state_of[i].at;
    if (run->state_of[i].at && !backward) put_weight(&run->desc.buffer, NULL, run->state_of[i].at);
  }
  for (int i = 0; i < run->ref->n_outputs; i++) run->call.out[i] = run->out[i].at;
  run->call.labels = run->ref->labels;
  run->call.loss_scale = 1 / (float)run->c->n;
  run->call.label_weight =
      run->ref->n_classes && elems_of_input(run->c, 0) > run->c->n * run->ref->n_classes ? (float)CALL_LABEL_WEIGHT : 1;
  for (int i = 0; i < run->ref->n_inputs; i++) run->call.in[i] = run->in[i].at;
  for (int i = 0; i < run->desc.n_params; i++) run->call.param[i] = run->param[i].at;
}

void call_forward(op_run *run) {
  assert_int_equal(run->desc.form->forward(&run->desc, run->state, &run->call), RONDE_OK);
}

void op_run_forward(op_run *run) {
  for (int i = 0; i < run->ref->n_outputs; i++) poison(&run->out[i]);
  poison(&run->saved);
  op_run_bind(run, false);
  run->loss_sum = run->n_correct = 0;
  run->call.loss_sum = &run->loss_sum;
  run->call.n_correct = &run->n_correct;
  if (run->v->op->is_view) memcpy(run->out[0].at, run->in[0].at, (size_t)run->out[0].n * sizeof(float));
  else call_forward(run);
}

/* As plan.c has it: only where both lie alike, which one that is repeated does not. 0: none. */
static int shared_with_dout(const op_run *run) {
  int input = run->v->in_dout;
  return input && ronde__phys_equal(&run->desc.in[input - 1], &run->desc.out[0]) ? input : 0;
}

void op_run_backward(op_run *run) {
  const ronde__op *op = run->v->op;
  const ronde__op_desc *d = &run->desc;
  const int shared = shared_with_dout(run);
  op_run_bind(run, true);
  ronde__operands again = ronde__op_backward_reads(op, d);
  for (int i = 0; i < run->ref->n_inputs; i++)
    if (!(again.in >> i & 1)) poison(&run->in[i]);
  for (int i = 0; i < run->ref->n_outputs; i++) {
    if (again.out >> i & 1) put(&d->out[i], run->ref->out[i].exact, run->out[i].at);
    else poison(&run->out[i]);
    put_padded(&d->out[i], run->ref->dout[i], run->dout[i].at);
    run->call.dout[i] = run->c->unread >> i & 1 ? NULL : run->dout[i].at;
  }
  run->call.listener = (ronde__gradient_listener){hear, run};
  for (int i = 0; i < d->n_params; i++) run->heard_first[i] = (size_t)run->dparam[i].n;
  for (int i = 0; i < run->ref->n_inputs; i++) {
    run->call.din[i] = i + 1 == shared ? run->dout[0].at : run->din[i].at;
    run->call.accumulate_dinput[i] = run->v->accumulate;
    if (run->din[i].at) run->v->accumulate ? put_start(&d->in[i], run->din[i].at) : poison(&run->din[i]);
  }
  for (int i = 0; i < d->n_params; i++) {
    run->call.dparam[i] = d->frozen[i] ? NULL : run->dparam[i].at;
    run->call.accumulate_dparam[i] = run->v->accumulate;
    run->v->accumulate ? put_weight(&d->param[i], NULL, run->dparam[i].at) : poison(&run->dparam[i]);
  }
  if (op->is_view && run->din[0].at)
    for (int64_t i = 0; i < run->dout[0].n; i++)
      run->din[0].at[i] = run->dout[0].at[i] + (run->v->accumulate ? run->din[0].at[i] : 0);
  if (!op->is_view) assert_int_equal(d->form->backward(d, run->state, &run->call), RONDE_OK);
  if (shared) memcpy(run->din[shared - 1].at, run->dout[0].at, (size_t)run->dout[0].n * sizeof(float));
}

planted_op planted;

void plant(const ronde__op *sound) {
  planted = (planted_op){.op = *sound, .sound = sound};
  for (int i = 0; sound->forms[i]; i++) {
    assert_true(i < MAX_FORMS);
    planted.forms[i] = *sound->forms[i];
    planted.list[i] = &planted.forms[i];
  }
  planted.op.forms = planted.list;
}

const ronde__form *sound_form(const ronde__op_desc *d) { return planted.sound->forms[d->form - planted.forms]; }

static bool is_near(const op_run *run, const char *name, int64_t i, float x, const expected *e, bool accumulate) {
  double start = accumulate ? start_value(i) : 0, exact = start + (double)e->exact[i];
  double bound = expected_bound(e, i) + (accumulate ? 0x1p-23 * (fabs(start) + fabs(exact)) : 0);
  if (fabs((double)x - exact) <= bound) return true;
  return found(run, "%s [%lld]: %.9g instead of %.9g (bound %.2g)", name, (long long)i, (double)x, exact, bound);
}

bool padding_holds(const op_run *run, const char *name, const ronde__phys *phys, const float *x) {
  int64_t pixels = phys->h * phys->w, tail = phys->layout == RONDE__BLOCKS ? phys->c % phys->block : 0;
  for (int64_t r = 0; tail && r < pixels * phys->n; r++)
    for (int64_t b = tail; b < phys->block; b++) {
      float channel = x[((ronde__phys_blocks(phys) - 1) * pixels * phys->n + r) * phys->block + b];
      if (channel != 0) return found(run, "%s: a padded channel holds %g", name, (double)channel);
    }
  return true;
}

static bool activation_holds(const op_run *run, const char *name, const ronde__phys *phys, const float *x,
                             const expected *e, bool gradient) {
  for (int64_t i = 0; i < e->n; i++)
    if (!is_near(run, name, i, x[place_of(phys, i)], e, gradient && run->v->accumulate)) return false;
  return padding_holds(run, name, phys, x);
}

static bool weight_holds(const op_run *run, const char *name, const ronde__weight_layout *l, buffer *packed,
                         const expected *e) {
  float *rest = malloc((size_t)packed->n * sizeof *rest);
  memcpy(rest, packed->at, (size_t)packed->n * sizeof *rest);
  bool held = true;
  for (int64_t i = 0; i < e->n && held; i++) {
    held = is_near(run, name, i, packed->at[weight_place(l, i)], e, run->v->accumulate);
    rest[weight_place(l, i)] = 0;
  }
  for (int64_t i = 0; i < packed->n && held; i++)
    if (rest[i] != 0) held = found(run, "%s: padding holds %g", name, (double)rest[i]);
  free(rest);
  return held;
}

static bool forward_holds(op_run *run) {
  const reference *ref = run->ref;
  if (!all_guards_hold(run)) return false;
  for (int i = 0; i < ref->n_inputs; i++)
    for (int64_t j = 0; j < elems_of_input(run->c, i); j++)
      if (run->in[i].at[place_of(&run->desc.in[i], j)] != ref->in[i][j]) return found(run, "forward changed its input");
  for (int i = 0; i < ref->n_outputs; i++)
    if (!activation_holds(run, "output", &run->desc.out[i], run->out[i].at, &ref->out[i], false)) return false;
  if (!run->v->op->is_loss) return true;
  if (run->n_correct != ref->n_correct)
    return found(run, "%lld right instead of %lld", (long long)run->n_correct, (long long)ref->n_correct);
  if (fabs(run->loss_sum - ref->loss_sum) <= ref->loss_bound) return true;
  return found(run, "loss %.12g instead of %.12g", run->loss_sum, ref->loss_sum);
}

bool backward_holds(op_run *run) {
  const reference *ref = run->ref;
  bool held = all_guards_hold(run);
  for (int i = 0; i < run->desc.n_params && held; i++) {
    for (int64_t j = 0; j < ref->n_param[i]; j++)
      if (run->param[i].at[weight_place(&run->desc.param[i], j)] != ref->param[i][j])
        return found(run, "backward changed a parameter");
    held = weight_holds(run, gradient_names[i], &run->desc.param[i], &run->dparam[i], &ref->dparam[i]);
  }
  for (int i = 0; i < run->desc.n_params && held; i++) {
    size_t first = run->heard_first[i], n = (size_t)run->dparam[i].n - first;
    if (n && memcmp(run->heard[i] + first, run->dparam[i].at + first, n * sizeof(float)) != 0)
      return found(run, "the %s's gradient changed behind being final", i ? "bias" : "weight");
  }
  for (int i = 0; i < ref->n_inputs && held; i++)
    if (run->din[i].at)
      held = activation_holds(run, "input gradient", &run->desc.in[i], run->din[i].at, &ref->din[i], true);
  return held;
}

/* All combinations once a case; else, of many parameters, each one alone, all but one, and all. */
static bool is_tried(const op_run *run, int mask) {
  const variant *v = run->v;
  int frozen = __builtin_popcount((unsigned)mask), n = run->desc.n_params;
  unsigned all_inputs = ((1u << run->ref->n_inputs) - 1) & ~v->op->tokens;
  bool has_all = !SMALL_CASES_ONLY && v->kernels == ronde__kernels_available(0) && v->gemm == RONDE__GEMM_TILE &&
                 !v->bf16 && !v->in_dout && v->need == all_inputs;
  if (!v->need && frozen == n) return false; /* a plan has no such step */
  return has_all || n <= 2 || frozen == 1 || frozen >= n - 1;
}

/* Frozen parameters: nothing is written for them, and all else keeps its bits. */
static bool frozen_holds(op_run *run) {
  buffer *din = run->din, *dparam = run->dparam;
  uint64_t whole[RONDE__OP_MAX_INPUTS + RONDE__OP_MAX_PARAMS];
  int n_params = run->desc.n_params;
  for (int i = 0; i < RONDE__OP_MAX_INPUTS; i++) whole[i] = digest(1, &din[i]);
  for (int i = 0; i < n_params; i++) whole[RONDE__OP_MAX_INPUTS + i] = digest(1, &dparam[i]);
  for (int mask = 1; mask < 1 << n_params; mask++) {
    if (!is_tried(run, mask)) continue;
    for (int i = 0; i < n_params; i++) run->desc.frozen[i] = mask >> i & 1;
    op_run_backward(run);
    if (!all_guards_hold(run)) return false;
    for (int i = 0; i < RONDE__OP_MAX_INPUTS; i++)
      if (digest(1, &din[i]) != whole[i]) return found(run, "input gradient %d changes with frozen mask %d", i, mask);
    for (int i = 0; i < n_params; i++) {
      uint64_t now = digest(1, &dparam[i]);
      if (run->desc.frozen[i]) {
        run->v->accumulate ? put_weight(&run->desc.param[i], NULL, dparam[i].at) : poison(&dparam[i]);
        if (digest(1, &dparam[i]) != now) return found(run, "the gradient of frozen parameter %d was written", i);
      } else if (now != whole[RONDE__OP_MAX_INPUTS + i]) {
        return found(run, "gradient of parameter %d changes with frozen mask %d", i, mask);
      }
    }
  }
  return true;
}

bool op_run_check(const op_case *c, const reference *ref, const variant *v, const ronde__phys *out,
                  uint64_t *bits_out) {
  op_run run;
  bool held = op_run_open(&run, c, ref, v, out);
  if (held) op_run_forward(&run);
  held = held && forward_holds(&run);
  for (int i = 0; held && i < RONDE__OP_MAX_OUTPUTS; i++) *bits_out = digest(i ? *bits_out : 1, &run.out[i]);
  if (held && (v->need || run.desc.n_params)) {
    op_run_backward(&run);
    held = backward_holds(&run);
    for (int i = 0; i < RONDE__OP_MAX_INPUTS; i++) *bits_out = digest(*bits_out, &run.din[i]);
    for (int i = 0; i < RONDE__OP_MAX_PARAMS; i++) *bits_out = digest(*bits_out, &run.dparam[i]);
    if (held && ronde__pool_threads(v->pool) == 1) held = frozen_holds(&run);
  }
  op_run_close(&run);
  return held;
}
