/* Every op of ops.inc against the naive references, at the cases of ops_cases.h: in every layout that a producer may
 * offer, under every instruction set of this machine and both GEMMs, on 1, 2 and 3 threads with the same bits. */
#include "ops_testing.h"
#include "sanitized.h"

static ronde__pool *pools[4]; /* by threads; [1]: none */
static bool threads_only = THREADS_ONLY;
/* What a sanitizer or another processor may show it shows on three; the release build compares the bits. */
static int least_threads = SANITIZED || SMALL_CASES_ONLY ? 3 : 1;

static int start_pools(void **unused) {
  return ronde__pool_create(2, &pools[2]) != RONDE_OK || ronde__pool_create(3, &pools[3]) != RONDE_OK;
}

static int stop_pools(void **unused) {
  ronde__pool_destroy(pools[2]);
  ronde__pool_destroy(pools[3]);
  return 0;
}

/* The gradient of an input in the place of the output's: the same bits again. */
static bool check_places(const op_case *c, const reference *ref, variant v, const ronde__phys *out, uint64_t bits) {
  bool held = true;
  for (v.in_dout = 1; v.in_dout <= ref->n_inputs && held; v.in_dout++) {
    uint64_t there;
    if (!((v.op->dinput_in_dout & v.need) >> (v.in_dout - 1) & 1)) continue;
    held = op_run_check(c, ref, &v, out, &there);
    if (held && there != bits)
      held = found(&(op_run){.c = c, .ref = ref, .v = &v}, "other bits than in a place of its own");
  }
  return held;
}

/* One layout and choice of gradients: the same bits on all numbers of threads; overwriting and accumulating. How many
 * threads divide the work is decided in front of the kernels, so on two threads the best ones run alone. */
static bool check_threads(const op_case *c, const reference *ref, variant v, const ronde__phys *out) {
  uint64_t bits[4];
  bool is_best = v.kernels == ronde__kernels_available(0) && v.gemm == RONDE__GEMM_TILE;
  for (int threads = least_threads; threads <= 3; threads += is_best ? 1 : 2) {
    v.pool = pools[threads];
    if (!op_run_check(c, ref, &v, out, &bits[threads])) return false;
    if (bits[threads] != bits[least_threads])
      return found(&(op_run){.c = c, .ref = ref, .v = &v}, "other bits than on one thread");
  }
  if (threads_only) return true; /* the rest is on one thread */
  v.pool = NULL;
  if (!check_places(c, ref, v, out, bits[3])) return false;
  v.accumulate = true;
  return op_run_check(c, ref, &v, out, &bits[0]);
}

static bool check_layouts(const op_case *c, const reference *ref, variant v) {
  bool held = true;
  unsigned needs = v.op->is_loss ? 2 : 1u << ref->n_inputs, all = (needs - 1) & ~v.op->tokens;
  for (v.offered = RONDE__ROWS; v.offered <= RONDE__BLOCKS; v.offered++)
    for (v.need = 0; v.need < needs && held; v.need++) {
      if (SMALL_CASES_ONLY && v.need && v.need != all) continue; /* some of the inputs: other builds have that */
      if (v.need & v.op->tokens || is_offered_in_vain(c, ref, &v)) continue;
      if (c->kind != RONDE__OP_REORDER) held = check_threads(c, ref, v, NULL);
      else
        for (ronde__layout to = RONDE__ROWS; to <= RONDE__BLOCKS && held; to++) {
          ronde__phys out = ronde__phys_make(to, c->n, c->c, c->h, c->w);
          held = check_threads(c, ref, v, &out);
        }
    }
  return held;
}

static bool check_case(const op_case *c, const reference *ref, const ronde__op *op) {
  bool held = true;
  const ronde__kernels *kernels;
  for (int i = 0; (kernels = ronde__kernels_available(i)) && held && !(threads_only && i); i++)
    for (ronde__gemm_impl gemm = RONDE__GEMM_TILE; gemm <= RONDE__GEMM_XSMM && held; gemm++) {
      bool has_gemm = op->params != NULL;
      if (threads_only && gemm == RONDE__GEMM_XSMM) continue;
      if (gemm == RONDE__GEMM_TILE || (has_gemm && i == 0))
        held = check_layouts(c, ref, (variant){.op = op, .kernels = kernels, .gemm = gemm});
    }
  return held;
}

/* Operands of bfloat16, the results of which have the error of f32 sums, because these values are numbers of it. */
static bool check_bf16_case(const op_case *c, const reference *ref) {
  bool held = true;
  for (int i = 0; ronde__bf16_available(i) && held; i++)
    held = check_layouts(
        c, ref,
        (variant){.op = ronde__ops[c->kind], .kernels = ronde__kernels_available(0), .bf16 = ronde__bf16_available(i)});
  return held;
}

static bool takes_long(const op_case *c) {
  const ronde__op_attr *a = &c->attr;
  int64_t terms = input_elems(c);
  if (c->kind == RONDE__OP_CONV2D || c->kind == RONDE__OP_CONV_TRANSPOSE2D)
    terms *= a->out_channels * a->kernel[0] * a->kernel[1];
  if (c->kind == RONDE__OP_LINEAR) terms *= a->out_channels;
  return terms > 100000;
}

static void ops_match_the_references(void **unused) {
  int n_cases[RONDE__N_OPS] = {0};
  for (size_t i = 0; i < RONDE__COUNT(op_cases); i++) {
    const op_case *c = &op_cases[i];
    if (SMALL_CASES_ONLY && takes_long(c)) continue;
    reference ref = reference_make(c);
    *finding = 0;
    if (!check_case(c, &ref, ronde__ops[c->kind])) print_error("%s\n", finding);
    reference_free(&ref);
    assert_string_equal(finding, "");
    n_cases[c->kind]++;
  }
  for (int kind = 0; kind < RONDE__N_OPS; kind++)
    if (n_cases[kind] == 0) fail_msg("no case for %s", ronde__ops[kind]->name);
}

/* How many products in a row take what the one before has computed, rounded. */
static int roundings_of(const op_case *c) {
  switch (c->kind) {
  case RONDE__OP_LSTM:
  case RONDE__OP_GRU:
  case RONDE__OP_RNN: return 4; /* one a step, of which the ones before fade */
  case RONDE__OP_ATTENTION: return 1;
  default: return 0;
  }
}

static void ops_match_the_references_in_bf16(void **unused) {
  if (!ronde__bf16_available(0)) print_message("SKIP: this CPU has no bfloat16\n");
  random_bits = 8;
  for (size_t i = 0; i < RONDE__COUNT(op_cases); i++) {
    const op_case *c = &op_cases[i];
    const int rounded = roundings_of(c);
    if ((c->kind != RONDE__OP_CONV2D && c->kind != RONDE__OP_LINEAR && !rounded) || (SMALL_CASES_ONLY && takes_long(c)))
      continue;
    const int back = rounded ? rounded : c->attr.act > RONDE__ACT_RELU;
    reference ref = reference_make(c);
    for (int p = 0; p < RONDE__OP_MAX_PARAMS; p++) ref.dparam[p].rounded = back;
    for (int p = 0; p < ref.n_inputs; p++) ref.din[p].rounded = back;
    for (int i = 0; i < ref.n_outputs; i++) ref.out[i].rounded = rounded;
    *finding = 0;
    if (!check_bf16_case(c, &ref)) print_error("%s\n", finding);
    reference_free(&ref);
    assert_string_equal(finding, "");
  }
  random_bits = 24;
}

/* Plans of all batch sizes share the weights, so what layouts() says of them and of the forms must not depend on n. */
static void layouts_do_not_depend_on_the_batch(void **unused) {
  static const int64_t batches[] = {1, 7, 16, 126, 300};
  for (size_t i = 0; i < RONDE__COUNT(op_cases); i++) {
    const ronde__op *op = ronde__ops[op_cases[i].kind];
    for (int variant = 0; op->layouts && variant < 6; variant++) {
      ronde__op_desc first;
      for (size_t b = 0; b < RONDE__COUNT(batches); b++) {
        op_case c = op_cases[i];
        ronde__shape in[RONDE__OP_MAX_INPUTS], out[RONDE__OP_MAX_OUTPUTS];
        shapes_of_inputs(&c, in);
        assert_int_equal(op->infer(&c.attr, "op", in, (const char *const[]){"a", "b", "c", "d"}, out), RONDE_OK);
        ronde__op_desc d = {.attr = c.attr, .n_inputs = 2};
        c.n = batches[b];
        for (int i = 0; i < RONDE__OP_MAX_INPUTS; i++) {
          d.in[i] = phys_of_input(&c, i, variant / 2);
          d.need_dinput[i] = variant % 2;
        }
        op->layouts(&d, in, out);
        if (b == 0) first = d;
        assert_int_equal(d.in[0].layout, first.in[0].layout);
        assert_int_equal(d.out[0].layout, first.out[0].layout);
        for (int p = 0; p < RONDE__OP_MAX_PARAMS; p++) {
          assert_int_equal(d.param[p].form, first.param[p].form);
          assert_int_equal(ronde__weight_elems(&d.param[p]), ronde__weight_elems(&first.param[p]));
          if (d.param[p].form != RONDE__PLAIN) assert_int_equal(d.param[p].block_o, first.param[p].block_o);
          if (d.param[p].form == RONDE__BLOCKED) assert_int_equal(d.param[p].block_i, first.param[p].block_i);
        }
      }
    }
  }
}

/* ---- planted bugs, each of which the harness must name ---- */

static ronde_status drop_a_tap(const ronde__op_desc *d, const void *state, const ronde__op_call *call) {
  ronde_status status = sound_form(d)->backward(d, state, call);
  const ronde__weight_layout *l = &d->param[0];
  call->dparam[0][ronde__weight_index(l, l->o - 1, l->i - 1, l->t - 1)] = 0;
  return status;
}

static ronde_status drop_the_last_example_of_the_bias(const ronde__op_desc *d, const void *state,
                                                      const ronde__op_call *call) {
  float last = call->dout[0][ronde__phys_index(&d->out[0], d->out[0].n - 1, 0, 0)];
  ronde_status status = sound_form(d)->backward(d, state, call);
  call->dparam[1][0] -= last;
  return status;
}

static ronde_status overwrite_instead_of_adding(const ronde__op_desc *d, const void *state,
                                                const ronde__op_call *call) {
  ronde__op_call other = *call;
  other.accumulate_dinput[0] = false;
  return sound_form(d)->backward(d, state, &other);
}

static ronde__op_call silent(const ronde__op_call *call) {
  ronde__op_call other = *call;
  other.listener = (ronde__gradient_listener){0};
  return other;
}

static ronde_status tell_too_early(const ronde__op_desc *d, const void *state, const ronde__op_call *call) {
  ronde__op_call other = silent(call);
  ronde__op_gradients_final(d, call);
  return sound_form(d)->backward(d, state, &other);
}

static ronde_status write_past_the_end(const ronde__op_desc *d, const void *state, const ronde__op_call *call) {
  ronde_status status = sound_form(d)->forward(d, state, call);
  call->out[0][ronde__phys_elems(&d->out[0])] = 0;
  return status;
}

static ronde_status leave_dirt_in_padded_channels(const ronde__op_desc *d, const void *state,
                                                  const ronde__op_call *call) {
  ronde_status status = sound_form(d)->forward(d, state, call);
  if (d->out[0].layout == RONDE__BLOCKS && d->out[0].c % d->out[0].block)
    call->out[0][ronde__phys_elems(&d->out[0]) - 1] = 1e-30f;
  return status;
}

static ronde_status read_an_old_output(const ronde__op_desc *d, const void *state, const ronde__op_call *call) {
  ronde_status status = sound_form(d)->forward(d, state, call);
  call->out[0][0] += 0 * call->work[0];
  return status;
}

static ronde_status round_by_thread(const ronde__op_desc *d, const void *state, const ronde__op_call *call) {
  ronde__op_call other = silent(call);
  ronde_status status = sound_form(d)->backward(d, state, &other);
  if (ronde__pool_threads(call->pool) > 1 && call->dparam[0]) call->dparam[0][0] = nextafterf(call->dparam[0][0], 2);
  return status;
}

static ronde_status forget_the_input_of_a_frozen_layer(const ronde__op_desc *d, const void *state,
                                                       const ronde__op_call *call) {
  return call->dparam[0] ? sound_form(d)->backward(d, state, call) : RONDE_OK;
}

static size_t work_of_one(const ronde__op_desc *d, const void *state, bool backward) { return 64; }

static void planted_bugs_are_found(void **unused) {
  static const op_case conv = CONV(7, 3, 6, 6, 10, 3, 3, 1, 1, 1, 1, .bias = true),
                       relu = PLAIN_OP(ACTIVATION, 7, 67, 3, 3, false, .act = RELU);
  static const op_case linear = LINEAR(7, 67, 1, 1, 10, .bias = true);
  typedef ronde_status (*call_fn)(const ronde__op_desc *d, const void *state, const ronde__op_call *call);
  static const struct {
    const op_case *c;
    call_fn forward, backward;
    const char *finding;
  } bugs[] = {
      {&conv, NULL, drop_a_tap, "weight gradient [269]"},
      {&conv, NULL, drop_the_last_example_of_the_bias, "bias gradient [0]"},
      {&linear, NULL, drop_a_tap, "weight gradient [669]"},
      {&linear, NULL, overwrite_instead_of_adding, "input gradient [0]"},
      {&linear, NULL, tell_too_early, "the weight's gradient changed behind being final"},
      {&linear, write_past_the_end, NULL, "output: written outside"},
      {&relu, leave_dirt_in_padded_channels, NULL, "output: a padded channel holds 1e-30"},
      {&relu, read_an_old_output, NULL, "output [0]: nan"},
      {&linear, NULL, forget_the_input_of_a_frozen_layer, "gradient of parameter 1 changes with frozen mask 1"},
      {&conv, NULL, round_by_thread,
       "2 threads, ROWS, need 0, accumulate 0, in dout 0): other bits than on one thread"},
  };
  threads_only = false; /* most of them are found on one thread, */
  least_threads = 1;    /* and one between two numbers of them */
  for (size_t i = 0; i < RONDE__COUNT(bugs); i++) {
    reference ref = reference_make(bugs[i].c);
    plant(ronde__ops[bugs[i].c->kind]);
    for (int f = 0; planted.list[f]; f++) {
      if (bugs[i].forward) planted.forms[f].forward = bugs[i].forward;
      if (bugs[i].backward) planted.forms[f].backward = bugs[i].backward;
      if (bugs[i].forward == read_an_old_output) planted.forms[f].work_elems = work_of_one;
    }
    *finding = 0;
    assert_false(check_case(bugs[i].c, &ref, &planted.op));
    if (!strstr(finding, bugs[i].finding)) fail_msg("\"%s\" is not in \"%s\"", bugs[i].finding, finding);
    *finding = 0;
    assert_true(check_case(bugs[i].c, &ref, planted.sound));
    reference_free(&ref);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ops_match_the_references),
      cmocka_unit_test(ops_match_the_references_in_bf16),
      cmocka_unit_test(layouts_do_not_depend_on_the_batch),
      cmocka_unit_test(planted_bugs_are_found),
  };
  return cmocka_run_group_tests(tests, start_pools, stop_pools);
}
