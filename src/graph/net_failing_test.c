/* Ops that fail: a pass ends with their status wherever it happens, nothing is lost, the ledger has the calls that ended,
 * and the next pass is as if nothing had been. */
#include "graph/net_testing.h"
#include "sanitized.h"

/* In place of the library's choice of forms, which stays out of this program: the same forms, but each of them fails when
 * it is told to. */
static ronde_status sound_choice(const ronde__op *op, ronde__op_desc *desc);
#define ronde__form_choose sound_choice
#include "ops/ops.c"
#undef ronde__form_choose

enum { MAX_FORMS = 64, NEVER = -1 };

static ronde__form planted[MAX_FORMS];
static const ronde__form *sound[MAX_FORMS];
static int n_planted, left = NEVER, n_done; /* left: calls that end before one fails */

static ronde_status before_call(void) {
  if (left == 0) return ronde__fail(RONDE_E_LOST, "planted");
  left -= left > 0;
  n_done++;
  return RONDE_OK;
}

static const ronde__form *sound_form(const ronde__op_desc *desc) { return sound[desc->form - planted]; }

static ronde_status forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  RONDE_TRY(before_call());
  return sound_form(desc)->forward(desc, state, call);
}

static ronde_status backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  RONDE_TRY(before_call());
  return sound_form(desc)->backward(desc, state, call);
}

static ronde_status contribute(const ronde__op_desc *desc, const void *state, const ronde__op_call *call, bool back) {
  RONDE_TRY(before_call());
  return sound_form(desc)->contribute(desc, state, call, back);
}

static ronde_status absorb(const ronde__op_desc *desc, const ronde__op_call *call) {
  RONDE_TRY(before_call());
  return sound_form(desc)->absorb(desc, call);
}

static int choices_left = NEVER;

ronde_status ronde__form_choose(const ronde__op *op, ronde__op_desc *desc) {
  if (choices_left == 0) return ronde__fail(RONDE_E_INTERNAL, "planted");
  choices_left -= choices_left > 0;
  RONDE_TRY(sound_choice(op, desc));
  int i = 0;
  while (i < n_planted && sound[i] != desc->form) i++;
  assert_true(i < MAX_FORMS);
  if (i == n_planted) {
    sound[n_planted] = desc->form;
    planted[n_planted] = *desc->form;
    planted[n_planted].forward = forward, planted[n_planted].backward = backward;
    if (desc->form->contribute) planted[n_planted].contribute = contribute, planted[n_planted].absorb = absorb;
    n_planted++;
  }
  desc->form = &planted[i];
  return RONDE_OK;
}

/* ---- the nets ---- */

typedef enum mode { KEPT, TRANSIENT, EAGER, N_MODES } mode;

static ronde_status define(void *user, ronde_graph *graph) {
  const network *network = user;
  network->build(graph,
                 ronde_input(graph, "input", network->h ? 3 : 1, (int64_t[]){network->c, network->h, network->w}));
  return ronde__graph_finish(graph);
}

static ronde_status create(const ronde_graph *graph, const network *network, mode mode, ronde__prof *prof,
                           ronde__net **net_out) {
  ronde__net_options options = {.compute = {.kernels = ronde__kernels_available(0), .gemm = RONDE__GEMM_XSMM},
                                .prof = prof,
                                .training = true,
                                .transient_gradients = mode == TRANSIENT};
  if (mode == EAGER) options.define = define, options.define_user = (void *)network;
  return ronde__net_create(graph, &options, net_out);
}

/* A net, and what it tells. */
typedef struct subject {
  mode mode;
  ronde__net *net;
  ronde__prof *prof;
  examples e;
  float *told; /* [n_elems]: gradients, in their places */
  ronde__net_hooks hooks;
} subject;

static void take(void *user, const ronde__gradient *g) {
  subject *s = user;
  memcpy(s->told + g->begin, g->data, (g->end - g->begin) * sizeof *g->data);
}

/* Of a replica that is alone. */
static ronde_status share_with_nobody(void *user, const double *partial, size_t n, ronde__partials *partials_out) {
  *partials_out = (ronde__partials){partial, (int64_t)n, 1};
  return RONDE_OK;
}

static void open_subject(subject *s, const network *network, const ronde_graph *graph, mode mode) {
  *s = (subject){.mode = mode, .e = examples_make(graph, 5)};
  s->hooks = (ronde__net_hooks){.gradient = take, .gather_partials = share_with_nobody, .user = s};
  assert_int_equal(ronde__prof_create(0, NULL, false, &s->prof), RONDE_OK);
  assert_int_equal(create(graph, network, mode, s->prof, &s->net), RONDE_OK);
  assert_int_equal(ronde__net_init(s->net, 7), RONDE_OK);
  s->told = calloc(ronde__net_n_elems(s->net), sizeof *s->told);
}

static void close_subject(subject *s) {
  ronde__net_destroy(s->net);
  ronde__prof_destroy(s->prof);
  examples_free(&s->e);
  free(s->told);
}

static ronde_status run_forward(subject *s) {
  ronde__net_result result;
  return ronde__net_forward(s->net, &s->e.batch, 0.2f, &s->hooks, &result);
}

static ronde_status run_backward(subject *s) { return ronde__net_backward(s->net, false, &s->hooks); }

/* Forward and backward; the gradients are the caller's. */
static float *gradients_of(subject *s) {
  size_t n = ronde__net_n_elems(s->net);
  memset(s->told, 0, n * sizeof *s->told);
  assert_int_equal(run_forward(s), RONDE_OK);
  assert_int_equal(run_backward(s), RONDE_OK);
  float *gradients = malloc(n * sizeof *gradients);
  memcpy(gradients, s->told, n * sizeof *gradients);
  return gradients;
}

static int64_t calls_in(const subject *s, ronde__phase phase) {
  int n;
  const ronde__prof_op *ops = ronde__prof_ops(s->prof, &n);
  int64_t calls = 0;
  for (int i = 0; i < n; i++) calls += ops[i].phase == phase ? ops[i].calls : 0;
  return calls;
}

/* ---- passes ---- */

static void check_gradients(const subject *s, const float *gradients, const float *want, const char *name) {
  for (size_t i = 0; i < ronde__net_n_elems(s->net); i++)
    if (!is_dead(s->net, i) && memcmp(&gradients[i], &want[i], sizeof *want))
      fail_msg("%s, mode %d: element %zu of the gradients is another", name, s->mode, i);
}

static void check_the_next_pass(subject *s, const float *want, const char *name) {
  float *gradients = gradients_of(s);
  check_gradients(s, gradients, want, name);
  free(gradients);
}

/* Fails at each call of a pass in turn; how many there are. */
static int fail_at_each_call(subject *s, bool backward, const float *want, const char *name) {
  for (int at = 0;; at++) {
    if (backward) assert_int_equal(run_forward(s), RONDE_OK);
    int64_t calls = calls_in(s, RONDE__PHASE_FORWARD);
    left = at, n_done = 0;
    ronde_status status = backward ? run_backward(s) : run_forward(s);
    bool failed = left == 0 && n_done == at && status != RONDE_OK;
    left = NEVER;
    if (!failed) {
      assert_int_equal(status, RONDE_OK);
      return at;
    }
    assert_int_equal(status, RONDE_E_LOST);
    if (!backward) assert_int_equal(calls_in(s, RONDE__PHASE_FORWARD) - calls, n_done);
    assert_int_equal(run_backward(s), RONDE_E_INTERNAL); /* of which forward pass? */
    check_the_next_pass(s, want, name);
  }
}

static void check_network(const network *network) {
  for (mode mode = 0; mode < N_MODES; mode++) {
    ronde_graph *graph = graph_of(network);
    ronde__graph_synchronise(graph);
    subject s;
    open_subject(&s, network, graph, mode);
    float *want = gradients_of(&s);
    for (int backward = 0; backward < 2; backward++) assert_true(fail_at_each_call(&s, backward, want, network->name));
    free(want);
    close_subject(&s);
    ronde_graph_destroy(graph);
  }
}

static void a_failed_op_ends_its_pass_and_no_other(void **unused) {
  for (size_t i = 0; i < RONDE__COUNT(networks); i++) check_network(&networks[i]);
  for (size_t i = 0; i < RONDE__COUNT(normed_networks); i++) check_network(&normed_networks[i]);
}

/* A pass under way while another fails at each of its calls. */
static void check_two_passes(const network *network) {
  for (mode mode = 0; mode < N_MODES; mode++) {
    ronde_graph *graph = graph_of(network);
    subject s;
    open_subject(&s, network, graph, mode);
    float *want = gradients_of(&s);
    ronde__pass *other;
    ronde__net_result result;
    assert_int_equal(ronde__pass_create(s.net, &other), RONDE_OK);
    bool failed = true;
    for (int at = 0; failed; at++) {
      assert_int_equal(run_forward(&s), RONDE_OK);
      left = at, n_done = 0;
      ronde_status status = ronde__pass_forward(other, &s.e.batch, 0.2f, &s.hooks, &result);
      if (status == RONDE_OK) status = ronde__pass_backward(other, false, &s.hooks);
      failed = left == 0 && n_done == at && status == RONDE_E_LOST;
      left = NEVER;
      assert_true(failed || status == RONDE_OK);
      memset(s.told, 0, ronde__net_n_elems(s.net) * sizeof *s.told);
      assert_int_equal(run_backward(&s), RONDE_OK);
      check_gradients(&s, s.told, want, network->name);
    }
    ronde__pass_destroy(other);
    free(want);
    close_subject(&s);
    ronde_graph_destroy(graph);
  }
}

static void a_failed_pass_harms_no_other(void **unused) {
  for (size_t i = 0; i < RONDE__COUNT(networks); i++) check_two_passes(&networks[i]);
  for (size_t i = 0; i < RONDE__COUNT(normed_networks); i++) check_two_passes(&normed_networks[i]);
}

/* By one of two ways, of which the other was recorded, fc1 works on copies of its weights; conv3 has much scratch. */
static void build_sum(ronde_graph *graph, ronde_tensor *x, bool swapped) {
  ronde_tensor *few = conv(x, "conv1", 8, 3, 1, 1), *many = conv(conv(x, "conv2", 40, 3, 1, 1), "conv3", 40, 3, 1, 1);
  many = conv(many, "conv4", 8, 3, 1, 1);
  x = ronde_flatten(swapped ? ronde_add(many, few) : ronde_add(few, many));
  ronde_graph_set_output(graph, ronde_linear(x, "fc1", 200, true));
}

static void build_straight(ronde_graph *graph, ronde_tensor *x) { build_sum(graph, x, false); }
static void build_swapped(ronde_graph *graph, ronde_tensor *x) { build_sum(graph, x, true); }

/* What is lost in each of so many rounds, 100 KB and more, does not fit in what the system gave first; the address
 * sanitizer sees it after fewer. */
enum { ROUNDS = SANITIZED ? 20 : 200 };

static void scratch_and_copies_of_weights_are_given_back(void **unused) {
  static const network straight = {"sum", 3, 6, 6, build_straight}, swapped = {"swapped", 3, 6, 6, build_swapped};
  ronde_graph *graph = graph_of(&straight);
  subject s;
  open_subject(&s, &swapped, graph, EAGER);
  float *want = gradients_of(&s);
  fail_at_each_call(&s, true, want, swapped.name);
  size_t arena = ronde__net_memory_use(s.net).arena;
  for (int i = 0; i < ROUNDS; i++) fail_at_each_call(&s, i % 2, want, swapped.name);
  assert_int_equal(ronde__net_memory_use(s.net).arena, arena);
  free(want);
  close_subject(&s);
  ronde_graph_destroy(graph);
}

static void a_replica_without_examples_fails_too(void **unused) {
  const network *network = &normed_networks[0];
  ronde_graph *graph = graph_of(network);
  assert_true(ronde__graph_synchronise(graph) > 0);
  subject s;
  open_subject(&s, network, graph, KEPT);
  left = 0;
  assert_int_equal(ronde__net_pass_empty(s.net, false, &s.hooks), RONDE_E_LOST);
  left = NEVER;
  assert_int_equal(ronde__net_pass_empty(s.net, false, &s.hooks), RONDE_OK);
  close_subject(&s);
  ronde_graph_destroy(graph);
}

/* ---- preparation ---- */

static void a_network_without_a_form_is_not_made(void **unused) {
  const network *network = &networks[0];
  ronde_graph *graph = graph_of(network);
  ronde__net *net;
  int n_failed = 0;
  for (int at = 0;; at++) {
    choices_left = at;
    ronde_status status = create(graph, network, KEPT, NULL, &net);
    choices_left = NEVER;
    if (status == RONDE_OK) break;
    assert_int_equal(status, RONDE_E_INTERNAL);
    n_failed++;
  }
  assert_true(n_failed > 3);
  choices_left = 2;
  assert_int_equal(ronde__net_prepare(net, 9), RONDE_E_INTERNAL);
  choices_left = NEVER;
  assert_int_equal(ronde__net_prepare(net, 9), RONDE_OK);
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_failed_op_ends_its_pass_and_no_other),
      cmocka_unit_test(a_failed_pass_harms_no_other),
      cmocka_unit_test(scratch_and_copies_of_weights_are_given_back),
      cmocka_unit_test(a_replica_without_examples_fails_too),
      cmocka_unit_test(a_network_without_a_form_is_not_made),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
