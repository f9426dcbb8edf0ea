/* Operands in bfloat16: an op whose form takes them gives, bit for bit, what it gives of the same numbers in f32, rounded where
 * the result is bfloat16; at the cases of ops_cases.h, for all subsets of these operands, on 1 and 3 threads; in
 * part for all of them together, on 3. */
#include "ops_testing.h"
#include "sanitized.h"

static ronde__pool *pool;

static int start_pool(void **unused) { return ronde__pool_create(3, &pool) != RONDE_OK; }
static int stop_pool(void **unused) { return ronde__pool_destroy(pool), 0; }

static void narrow_if_bf16(const op_run *run, const ronde__phys *phys, float *x) {
  int64_t n = ronde__phys_elems(phys);
  if (!phys->bf16) return;
  uint16_t *packed = malloc((size_t)n * sizeof *packed);
  run->v->bf16->pack(x, n, packed);
  memcpy(x, packed, (size_t)n * sizeof *packed);
  free(packed);
}

/* To bfloat16 and back. */
static void round_all(const op_run *run, const ronde__phys *phys, const float *x, float *rounded) {
  int64_t n = ronde__phys_elems(phys);
  uint16_t *packed = malloc((size_t)n * sizeof *packed);
  run->v->bf16->pack(x, n, packed);
  run->v->bf16->unpack(packed, n, rounded);
  free(packed);
}

static void round_in_place(const op_run *run, const ronde__phys *phys, float *x) { round_all(run, phys, x, x); }

/* Bits [0, n_inputs) are the inputs, the next one the output. */
static unsigned operands_of(const op_run *run) {
  const ronde__op_desc *d = &run->desc;
  unsigned operands = 0;
  for (int i = 0; i < d->n_inputs; i++)
    if (d->form->bf16.in >> i & 1 && d->in[i].layout == RONDE__BLOCKS) operands |= 1u << i;
  if (d->form->bf16.out & 1 && d->out[0].layout == RONDE__BLOCKS) operands |= 1u << d->n_inputs;
  return operands;
}

/* A reorder's output is in ROWS. */
static bool open_run(op_run *run, const op_case *c, const reference *ref, const variant *v) {
  ronde__phys rows = ronde__phys_make(RONDE__ROWS, c->n, c->c, c->h, c->w);
  return op_run_open(run, c, ref, v, c->kind == RONDE__OP_REORDER ? &rows : NULL);
}

/* The run whose operands are bfloat16 as the mask says, prepared anew. */
static void open_narrow(op_run *run, const op_run *wide, unsigned mask) {
  ronde__op_desc *d = &run->desc;
  assert_true(open_run(run, wide->c, wide->ref, wide->v));
  for (int i = 0; i < d->n_inputs; i++) d->in[i].bf16 = mask >> i & 1;
  d->out[0].bf16 = mask >> d->n_inputs & 1;
  if (d->form->release) d->form->release(d, run->state);
  run->state = NULL;
  if (d->form->prepare) assert_int_equal(d->form->prepare(d, &run->state), RONDE_OK);
  for (int i = 0; i < d->n_inputs; i++) narrow_if_bf16(run, &d->in[i], run->in[i].at);
}

/* Forward's output is `out` in f32, whatever forward has given. */
static void backward(op_run *run, const float *out) {
  const ronde__op_desc *d = &run->desc;
  op_run_bind(run, true);
  memcpy(run->out[0].at, out, (size_t)ronde__phys_elems(&d->out[0]) * sizeof *out);
  narrow_if_bf16(run, &d->out[0], run->out[0].at);
  put_padded(&d->out[0], run->ref->dout[0], run->dout[0].at);
  round_in_place(run, &d->out[0], run->dout[0].at);
  narrow_if_bf16(run, &d->out[0], run->dout[0].at);
  run->call.dout[0] = run->dout[0].at;
  for (int i = 0; i < d->n_inputs; i++) {
    if (!d->need_dinput[i]) continue;
    memset(run->din[i].at, 0, (size_t)run->din[i].n * sizeof(float));
    for (int64_t j = 0; j < elems_of_input(run->c, i); j++) run->din[i].at[place_of(&d->in[i], j)] = start_value(j);
    narrow_if_bf16(run, &d->in[i], run->din[i].at);
    run->call.din[i] = run->v->in_dout == i + 1 ? run->dout[0].at : run->din[i].at;
    run->call.accumulate_dinput[i] = run->v->accumulate;
  }
  for (int i = 0; i < d->n_params; i++) {
    memset(run->dparam[i].at, 0, (size_t)run->dparam[i].n * sizeof(float));
    run->call.dparam[i] = run->dparam[i].at;
    run->call.accumulate_dparam[i] = run->v->accumulate;
  }
  assert_int_equal(d->form->backward(d, run->state, &run->call), RONDE_OK);
  if (run->v->in_dout)
    memcpy(run->din[run->v->in_dout - 1].at, run->dout[0].at, (size_t)run->dout[0].n * sizeof(float));
}

/* Whether an operand holds the f32 one's numbers, rounded if it is bfloat16. */
static bool same(const op_run *run, const char *what, const ronde__phys *phys, const float *got, const float *wide) {
  int64_t n = ronde__phys_elems(phys);
  float *a = malloc((size_t)n * sizeof *a), *b = malloc((size_t)n * sizeof *b);
  memcpy(b, wide, (size_t)n * sizeof *b);
  if (phys->bf16) run->v->bf16->unpack((const uint16_t *)got, n, a), round_in_place(run, phys, b);
  else memcpy(a, got, (size_t)n * sizeof *a);
  bool held = true;
  for (int64_t i = 0; i < n && held; i++)
    if (a[i] != b[i])
      held = found(run, "%s [%lld]: %.9g instead of %.9g", what, (long long)i, (double)a[i], (double)b[i]);
  free(a), free(b);
  return held;
}

/* Whether the difference is that of numbers rounded once more. */
static bool is_near(const op_run *run, const char *what, const float *got, const float *wide, int64_t n) {
  double most = 0, size = 0;
  for (int64_t i = 0; i < n; i++) {
    most = fmax(most, fabs((double)got[i] - (double)wide[i]));
    size = fmax(size, fabs((double)wide[i]));
  }
  return most <= size * 0x1p-7 || found(run, "%s: off by %.3g of %.3g", what, most, size);
}

/* In front of an activation but a ReLU, the gradient of an output in bfloat16 is rounded again, where it lies; and so is the
 * output itself by convolutions in groups. */
static bool is_rounded_again(const op_run *run) {
  return run->desc.out[0].bf16 && run->desc.attr.act > RONDE__ACT_RELU;
}

static bool values_are_near(const op_run *run, const char *what, const ronde__phys *phys, const float *got,
                            const float *wide) {
  int64_t n = ronde__phys_elems(phys);
  float *values = malloc((size_t)n * sizeof *values);
  if (phys->bf16) run->v->bf16->unpack((const uint16_t *)got, n, values);
  else memcpy(values, got, (size_t)n * sizeof *values);
  bool held = is_near(run, what, values, wide, n);
  free(values);
  return held;
}

static bool gradients_are_near(const op_run *run, const op_run *wide) {
  bool held = true;
  for (int i = 0; i < run->desc.n_params && held; i++)
    held = is_near(run, gradient_names[i], run->dparam[i].at, wide->dparam[i].at, run->dparam[i].n);
  if (run->din[0].at && held)
    held = values_are_near(run, "input gradient", &run->desc.in[0], run->din[0].at, wide->din[0].at);
  return held && all_guards_hold(run);
}

static bool output_holds(const op_run *run, const float *wide) {
  const ronde__phys *out = &run->desc.out[0];
  if (run->desc.form->one_format && is_rounded_again(run))
    return values_are_near(run, "output", out, run->out[0].at, wide);
  return same(run, "output", out, run->out[0].at, wide);
}

static bool gradients_hold(const op_run *run, const op_run *wide) {
  bool held = true;
  if (is_rounded_again(run)) return gradients_are_near(run, wide);
  for (int i = 0; i < run->desc.n_inputs && held; i++)
    if (run->din[i].at) held = same(run, "input gradient", &run->desc.in[i], run->din[i].at, wide->din[i].at);
  for (int i = 0; i < run->desc.n_params && held; i++)
    if (memcmp(run->dparam[i].at, wide->dparam[i].at, (size_t)run->dparam[i].n * sizeof(float)))
      held = found(run, "%s: other bits", gradient_names[i]);
  return held && all_guards_hold(run);
}

static bool check_mask(op_run *wide, const float *out, unsigned mask) {
  op_run run;
  open_narrow(&run, wide, mask);
  op_run_forward(&run);
  bool held = output_holds(&run, out) && all_guards_hold(&run);
  if (held) {
    float *rounded = malloc((size_t)ronde__phys_elems(&run.desc.out[0]) * sizeof *rounded);
    round_all(&run, &run.desc.out[0], out, rounded);
    backward(wide, rounded);
    backward(&run, rounded);
    held = gradients_hold(&run, wide);
    free(rounded);
  }
  op_run_close(&run);
  return held;
}

/* All subsets; returns how many there were. */
static int check(const op_case *c, const reference *ref, const variant *v) {
  op_run wide;
  int n = 0;
  assert_true(open_run(&wide, c, ref, v));
  unsigned all = operands_of(&wide);
  if (v->in_dout && !ronde__phys_equal(&wide.desc.in[v->in_dout - 1], &wide.desc.out[0])) all = 0;
  if (all) {
    op_run_forward(&wide);
    size_t bytes = (size_t)wide.out[0].n * sizeof(float);
    float *out = malloc(bytes);
    memcpy(out, wide.out[0].at, bytes);
    for (unsigned mask = 1; mask <= all; mask++) {
      unsigned output = mask >> wide.desc.n_inputs & 1;
      if (mask & ~all || ((IN_PART || wide.desc.form->one_format) && mask != all) ||
          (v->in_dout && (mask >> (v->in_dout - 1) & 1) != output))
        continue;
      if (!check_mask(&wide, out, mask)) print_error("%s, operands %u\n", finding, mask);
      assert_string_equal(finding, "");
      n++;
    }
    free(out);
  }
  op_run_close(&wide);
  return n;
}

static int check_case(const op_case *c, const reference *ref, const ronde__bf16 *bf16) {
  const ronde__op *op = ronde__ops[c->kind];
  int n = 0;
  for (int threads = IN_PART ? 3 : 1; threads <= 3; threads += 2)
    for (int accumulate = 0; accumulate < 2; accumulate++)
      for (int in_dout = 0; in_dout <= ref->n_inputs; in_dout++)
        for (ronde__layout offered = RONDE__LANES; offered <= RONDE__BLOCKS; offered++) {
          variant v = {.op = op,
                       .kernels = ronde__kernels_available(0),
                       .bf16 = bf16,
                       .pool = threads > 1 ? pool : NULL,
                       .offered = offered,
                       .need = offered == RONDE__BLOCKS ? (1u << ref->n_inputs) - 1 : 0,
                       .accumulate = accumulate,
                       .in_dout = in_dout};
          if (in_dout && (accumulate || !(op->dinput_in_dout & v.need) || !(op->dinput_in_dout >> (in_dout - 1) & 1)))
            continue;
          n += check(c, ref, &v);
        }
  return n;
}

/* Losses and ops of tokens have none. */
static bool may_have_operands(const op_case *c) {
  const ronde__op *op = ronde__ops[c->kind];
  bool any = false;
  for (const ronde__form *const *form = op->forms; form && *form; form++)
    any |= ((*form)->bf16.in | (*form)->bf16.out) != 0;
  return any;
}

static void results_are_those_of_f32(void **unused) {
  int n[RONDE__N_OPS] = {0};
  leave_out_if(!ronde__bf16_available(0), "this CPU has no bfloat16");
  random_bits = 8;
  for (size_t i = 0; i < RONDE__COUNT(op_cases); i++) {
    const op_case *c = &op_cases[i];
    if (!may_have_operands(c)) continue;
    reference ref = reference_make(c);
    *finding = 0;
    for (int k = 0; ronde__bf16_available(k); k++) n[c->kind] += check_case(c, &ref, ronde__bf16_available(k));
    reference_free(&ref);
  }
  random_bits = 24;
  const ronde__op_kind kinds[] = {RONDE__OP_CONV2D,
                                  RONDE__OP_BATCH_NORM2D,
                                  RONDE__OP_MAX_POOL2D,
                                  RONDE__OP_AVG_POOL2D,
                                  RONDE__OP_ADAPTIVE_AVG_POOL2D,
                                  RONDE__OP_LAYER_NORM,
                                  RONDE__OP_RMS_NORM,
                                  RONDE__OP_ATTENTION,
                                  RONDE__OP_DROPOUT,
                                  RONDE__OP_ADD,
                                  RONDE__OP_REORDER};
  for (size_t i = 0; i < RONDE__COUNT(kinds); i++)
    if (n[kinds[i]] == 0) fail_msg("no case for %s", ronde__ops[kinds[i]]->name);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(results_are_those_of_f32)};
  return cmocka_run_group_tests(tests, start_pool, stop_pool);
}
