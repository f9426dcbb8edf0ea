/* Networks that are cut into stages, each on a rank of its own: after passes in the order of 1F1B their losses, outputs,
 * gradients and statistics are those of the whole, bit by bit, wherever the cuts are. */
#include "graph/net_testing.h"
#include "kernel/bf16.h"
#include "sanitized.h"
#include "strategy/neighbours.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MAX_STAGES = 4, MICRO_BATCHES = 4, EXAMPLES = 7 };
static const int64_t sizes[MICRO_BATCHES] = {2, 2, 2, 1};

/* What a rank computes: forward and backward of all micro-batches, then outputs without loss, then an evaluation. */
typedef struct rank {
  ronde__net *net;
  ronde__neighbour_ranks neighbours;
  const examples *e;
  int64_t outputs;
  int n_passes; /* under way at once */
  ronde_status status;
  double loss_sum[MICRO_BATCHES], evaluated;
  float *predictions, *predicted; /* [EXAMPLES][outputs], NAN where this rank has no output */
} rank;

static ronde__net_batch micro_batch(const rank *r, int i) {
  int64_t begin = 2 * i;
  ronde__net_batch batch = part_of(r->e, begin, sizes[i]);
  batch.seed = 3, batch.step = 11, batch.first_example = begin;
  batch.predictions = i == 1 ? r->predictions : NULL;
  return batch;
}

static _Atomic int n_expected; /* forward passes whose inputs were asked for before */

/* In front of forward i: the next forward of every pass, as long as one after the other can be expected. */
static ronde_status expect(const rank *r, ronde__pass **passes, int i, int *next) {
  bool any = true;
  for (*next = *next > i ? *next : i; *next < i + r->n_passes && *next < MICRO_BATCHES && any; *next += any) {
    RONDE_TRY(ronde__pass_expect(passes[*next % r->n_passes], sizes[*next], &any));
    n_expected += any && r->neighbours.rank_of[RONDE__IN_FRONT] >= 0;
  }
  return RONDE_OK;
}

/* Source: Narayanan et al., "PipeDream", 2019. */
static ronde_status in_turns(rank *r, ronde__pass **passes) {
  int next = 0;
  for (int i = 0; i < MICRO_BATCHES + r->n_passes; i++) {
    int back = i - r->n_passes;
    if (i < MICRO_BATCHES && r->neighbours.transport) RONDE_TRY(expect(r, passes, i, &next));
    if (back >= 0 && back < MICRO_BATCHES) RONDE_TRY(ronde__pass_backward(passes[i % r->n_passes], back > 0, NULL));
    if (i >= MICRO_BATCHES) continue;
    ronde__net_batch batch = micro_batch(r, i);
    ronde__net_result result;
    RONDE_TRY(ronde__pass_forward(passes[i % r->n_passes], &batch, 0.1f, NULL, &result));
    r->loss_sum[i] = result.loss_sum;
  }
  return RONDE_OK;
}

static ronde_status compute(rank *r) {
  ronde__pass *passes[MAX_STAGES];
  for (int i = 0; i < r->n_passes; i++) RONDE_TRY(ronde__pass_create(r->net, &passes[i]));
  ronde_status status = in_turns(r, passes);
  ronde__net_batch batch = part_of(r->e, 0, EXAMPLES);
  ronde__net_result result = {0};
  batch.training = false;
  if (status == RONDE_OK) status = ronde__net_predict(r->net, EXAMPLES, r->e->x, r->predicted);
  if (status == RONDE_OK) status = ronde__net_forward(r->net, &batch, 1, NULL, &result);
  r->evaluated = result.loss_sum;
  for (int i = 0; i < r->n_passes; i++) ronde__pass_destroy(passes[i]);
  return status;
}

static void *rank_main(void *arg) {
  rank *r = arg;
  r->status = compute(r);
  if (r->status != RONDE_OK) r->neighbours.transport->ops->abort(r->neighbours.transport);
  return NULL;
}

static const ronde__bf16 *in_bf16; /* NULL: f32 */

static ronde__compute compute_with(const ronde__bf16 *bf16) {
  return (ronde__compute){.kernels = ronde__kernels_available(0), .gemm = RONDE__GEMM_XSMM, .bf16 = bf16};
}

static ronde_status open_rank(rank *r, const ronde_graph *graph, const examples *e, const ronde__stage *stage) {
  r->e = e;
  r->outputs = elems_of(graph, graph->output);
  r->predictions = malloc((size_t)(EXAMPLES * r->outputs) * sizeof *r->predictions);
  r->predicted = malloc((size_t)(EXAMPLES * r->outputs) * sizeof *r->predicted);
  for (int64_t i = 0; i < EXAMPLES * r->outputs; i++) r->predictions[i] = r->predicted[i] = NAN;
  ronde__net_options options = {.compute = compute_with(in_bf16), .training = true, .stage = *stage};
  options.keeps_turned = stage->end > 0; /* the whole has none, and the same bits */
  RONDE_TRY(ronde__net_create(graph, &options, &r->net));
  assert_int_equal(ronde__net_init(r->net, 7), RONDE_OK);
  return RONDE_OK;
}

static void close_rank(rank *r) {
  ronde__net_destroy(r->net);
  ronde__transport_destroy(r->neighbours.transport);
  free(r->predictions), free(r->predicted);
}

/* ---- comparison ---- */

static const char *subject; /* the network under test */
static int n_different;
static bool is_planted; /* differences are expected, and not printed */

static void compare(const char *what, const void *a, const void *b, size_t n_floats) {
  if (memcmp(a, b, n_floats * sizeof(float)) == 0) return;
  n_different++;
  if (!is_planted) print_error("%s: other %s\n", subject, what);
}

static void check_params(rank *stage, rank *whole, int *n_met) {
  int n, n_whole;
  const ronde__net_param *params = ronde__net_params(stage->net, &n), *of = ronde__net_params(whole->net, &n_whole);
  for (int i = 0; i < n; i++) {
    const ronde__net_param *p = &params[i], *w = &of[p->index];
    assert_string_equal(p->name, w->name);
    assert_true(i == 0 || p->index > params[i - 1].index);
    n_met[p->index]++;
    assert_true(ronde__weight_layout_equal(&p->layout, &w->layout));
    compare(p->name, ronde__net_values(stage->net) + p->offset, ronde__net_values(whole->net) + w->offset, p->n_packed);
    if (p->frozen) continue;
    compare("gradients", ronde__net_gradients(stage->net) + p->offset, ronde__net_gradients(whole->net) + w->offset,
            p->n_packed);
  }
}

static void check_buffers(rank *stage, rank *whole, int *n_met) {
  int n, n_whole;
  size_t n_elems;
  const ronde__net_buffer *buffers = ronde__net_buffers(stage->net, &n), *of = ronde__net_buffers(whole->net, &n_whole);
  for (int i = 0; i < n; i++) {
    const ronde__net_buffer *b = &buffers[i], *w = &of[b->index];
    assert_string_equal(b->name, w->name);
    n_met[b->index]++;
    assert_int_equal(b->count, w->count);
    if (b->is_counter) continue;
    compare(b->name, ronde__net_buffer_values(stage->net, &n_elems) + b->offset,
            ronde__net_buffer_values(whole->net, &n_elems) + w->offset, (size_t)ronde__weight_elems(&b->layout));
  }
}

static void check_outputs(const rank *stages, int n_stages, const rank *whole) {
  int n_predicted = 0, n_evaluated = 0;
  for (int s = 0; s < n_stages; s++) {
    if (!isnan(stages[s].predicted[0])) {
      n_predicted++;
      compare("outputs", stages[s].predicted, whole->predicted, (size_t)(EXAMPLES * whole->outputs));
      compare("predictions", stages[s].predictions, whole->predictions, (size_t)(sizes[1] * whole->outputs));
    }
    if (stages[s].evaluated == 0) continue;
    n_evaluated++;
    compare("losses", stages[s].loss_sum, whole->loss_sum, MICRO_BATCHES * sizeof(double) / sizeof(float));
    compare("loss of the evaluation", &stages[s].evaluated, &whole->evaluated, sizeof(double) / sizeof(float));
  }
  assert_int_equal(n_predicted, 1);
  assert_int_equal(n_evaluated, 1);
}

static void check_stages(rank *stages, int n_stages, rank *whole) {
  int n_params, n_buffers;
  ronde__net_params(whole->net, &n_params);
  ronde__net_buffers(whole->net, &n_buffers);
  int *n_met = calloc((size_t)(n_params + n_buffers), sizeof *n_met);
  for (int s = 0; s < n_stages; s++) {
    check_params(&stages[s], whole, n_met);
    check_buffers(&stages[s], whole, n_met + n_params);
  }
  for (int i = 0; i < n_params + n_buffers; i++) assert_int_equal(n_met[i], 1);
  free(n_met);
  check_outputs(stages, n_stages, whole);
  if (!is_planted) assert_int_equal(n_different, 0);
}

/* ---- cuts ---- */

static void open_transports(rank *ranks, int n) {
  ronde__transport *transports[MAX_STAGES];
  assert_int_equal(ronde__transport_threads(n, transports), RONDE_OK);
  for (int s = 0; s < n; s++)
    ronde__neighbour_ranks_set(&ranks[s].neighbours, transports[s], NULL, s - 1, s + 1 < n ? s + 1 : -1);
}

static void run_all(rank *ranks, int n) {
  pthread_t threads[MAX_STAGES];
  for (int s = 0; s < n; s++) assert_int_equal(pthread_create(&threads[s], NULL, rank_main, &ranks[s]), 0);
  for (int s = 0; s < n; s++) pthread_join(threads[s], NULL);
}

/* Planted: of each value, or each gradient, the first element arrives a little larger. */
static ronde__side tampered_side;

static ronde_status receive_more(void *user, ronde__side side, int message, float *x, size_t n) {
  const ronde__neighbour_ranks *r = user;
  ronde__neighbour_ranks own;
  ronde__neighbour_ranks_set(&own, r->transport, NULL, r->rank_of[RONDE__IN_FRONT], r->rank_of[RONDE__BEHIND]);
  RONDE_TRY(own.messages.receive(&own, side, message, x, n));
  if (side == tampered_side) x[0] += 0.01f;
  return RONDE_OK;
}

/* What is expected is changed when it has been waited for. */
static _Thread_local struct {
  void *under_way;
  float *x;
} changed[MICRO_BATCHES];

static ronde_status expect_more(void *user, ronde__side side, int message, float *x, size_t n, void **under_way_out) {
  const ronde__neighbour_ranks *r = user;
  ronde__neighbour_ranks own;
  int i = 0;
  ronde__neighbour_ranks_set(&own, r->transport, NULL, r->rank_of[RONDE__IN_FRONT], r->rank_of[RONDE__BEHIND]);
  RONDE_TRY(own.messages.expect(&own, side, message, x, n, under_way_out));
  while (changed[i].under_way) i++;
  changed[i].under_way = side == tampered_side ? *under_way_out : NULL;
  changed[i].x = x;
  return RONDE_OK;
}

static ronde_status wait_more(void *user, void **under_way) {
  const ronde__neighbour_ranks *r = user;
  ronde__neighbour_ranks own;
  void *waited = *under_way;
  ronde__neighbour_ranks_set(&own, r->transport, NULL, r->rank_of[RONDE__IN_FRONT], r->rank_of[RONDE__BEHIND]);
  RONDE_TRY(own.messages.wait(&own, under_way));
  for (int i = 0; i < MICRO_BATCHES && waited; i++) {
    if (changed[i].under_way != waited) continue;
    changed[i].under_way = NULL;
    changed[i].x[0] += 0.01f;
  }
  return RONDE_OK;
}

/* cuts [n_stages + 1], from 0 to the number of nodes. Whether there can be such stages. */
static bool check_cuts(const ronde_graph *graph, const examples *e, rank *whole, const int *cuts, int n_stages) {
  rank ranks[MAX_STAGES] = {0};
  bool made = true;
  open_transports(ranks, n_stages);
  for (int s = 0; s < n_stages; s++) {
    if (is_planted) {
      ranks[s].neighbours.messages.receive = receive_more;
      ranks[s].neighbours.messages.expect = expect_more;
      ranks[s].neighbours.messages.wait = wait_more;
    }
    ronde_status status =
        open_rank(&ranks[s], graph, e, &(ronde__stage){cuts[s], cuts[s + 1], &ranks[s].neighbours.messages});
    ranks[s].n_passes = n_stages - s;
    if (status != RONDE_OK) assert_int_equal(status, RONDE_E_USAGE);
    made &= status == RONDE_OK;
  }
  if (made) {
    run_all(ranks, n_stages);
    for (int s = 0; s < n_stages; s++) assert_int_equal(ranks[s].status, RONDE_OK);
    check_stages(ranks, n_stages, whole);
  }
  for (int s = 0; s < n_stages; s++) close_rank(&ranks[s]);
  return made;
}

static void open_whole(rank *whole, const ronde_graph *graph, const examples *e) {
  *whole = (rank){.n_passes = 1};
  assert_int_equal(open_rank(whole, graph, e, &(ronde__stage){0}), RONDE_OK);
  assert_int_equal(compute(whole), RONDE_OK);
}

/* Under the thread sanitizer: threads meet in the same way at any cut. */
static bool is_enough(int n_made) { return THREADS_ONLY && n_made >= 3; }

/* Two stages by each cut of `stride`, and three by each pair (in part: one behind each cut); how many of these there can be. */
static int check_graph(const char *name, ronde_graph *graph, int stride, bool three) {
  subject = name;
  examples e = examples_make(graph, EXAMPLES);
  rank whole;
  int n_made = 0, n = graph->n_nodes;
  open_whole(&whole, graph, &e);
  for (int a = stride; a < n && !is_enough(n_made); a += stride) {
    n_made += check_cuts(graph, &e, &whole, (int[]){0, a, n}, 2);
    for (int b = a + stride, made = 0; b < n && three && !is_enough(n_made) && !(IN_PART && made); b += stride)
      n_made += made = check_cuts(graph, &e, &whole, (int[]){0, a, b, n}, 3);
  }
  close_rank(&whole);
  examples_free(&e);
  ronde_graph_destroy(graph);
  return n_made;
}

static void small_networks_at_each_cut(void **unused) {
  for (size_t i = 0; i < RONDE__COUNT(networks); i++) {
    ronde_graph *graph = graph_of(&networks[i]);
    bool shared = graph->n_shared > 0;
    assert_true(check_graph(networks[i].name, graph, 1, true) > 0 || shared);
  }
  for (size_t i = 0; i < RONDE__COUNT(sequence_networks); i++)
    assert_true(check_graph(sequence_networks[i].name, graph_of(&sequence_networks[i]), 1, true) > 0);
}

static void shortcuts_across_cuts(void **unused) {
  for (size_t i = 0; i < RONDE__COUNT(normed_networks); i++)
    assert_true(check_graph(normed_networks[i].name, graph_of(&normed_networks[i]), 1, true) > 2);
}

static ronde_graph *graph_of_model(const char *name) {
  ronde_graph *graph;
  assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
  build_model(graph, ronde__model_find(name));
  assert_int_equal(ronde__graph_finish(graph), RONDE_OK);
  return graph;
}

static void built_in_networks(void **unused) {
  assert_true(check_graph("lenet5", graph_of_model("lenet5"), 1, false) > (THREADS_ONLY ? 2 : 6));
  if (!THREADS_ONLY) assert_true(check_graph("resnet18-cifar", graph_of_model("resnet18-cifar"), 13, false) > 3);
  assert_true(n_expected > 0);
}

static ronde__stage_size first_half_of(const ronde_graph *graph, const ronde__bf16 *bf16) {
  ronde__net_options options = {
      .compute = compute_with(bf16), .training = true, .stage = {0, graph->n_nodes / 2, NULL}};
  ronde__stage_size size;
  assert_int_equal(ronde__stage_measure(graph, &options, EXAMPLES, &size), RONDE_OK);
  return size;
}

/* What lies between layers that multiply in bfloat16 travels as it is, and takes half the memory. Without tiles most
 * convolutions of resnet18-cifar stay f32. */
static void values_of_bfloat16(void **unused) {
  leave_out_if(!ronde__bf16_available(0), "this CPU has no bfloat16");
  ronde_graph *graph = graph_of_model(ronde__bf16_available(0)->is_tiles ? "resnet18-cifar" : "alexnet");
  ronde__stage_size f32 = first_half_of(graph, NULL), bf16 = first_half_of(graph, ronde__bf16_available(0));
  assert_true(bf16.sent_bytes == f32.sent_bytes / 2);
  assert_in_range(bf16.arena_bytes, f32.arena_bytes / 3, f32.arena_bytes * 3 / 4);
  ronde_graph_destroy(graph);
  for (int i = 0; (in_bf16 = ronde__bf16_available(i)); i++) {
    for (size_t k = 0; k < RONDE__COUNT(normed_networks); k++)
      assert_true(check_graph(normed_networks[k].name, graph_of(&normed_networks[k]), 1, true) > 2);
    if (!THREADS_ONLY) assert_true(check_graph("resnet18-cifar", graph_of_model("resnet18-cifar"), 13, false) > 3);
  }
}

static void what_arrives_changed_is_seen(void **unused) {
  for (tampered_side = RONDE__IN_FRONT; tampered_side <= RONDE__BEHIND; tampered_side++) {
    is_planted = true, n_different = 0;
    int n_made = check_graph("planted", graph_of_model("lenet5"), 4, false);
    assert_true(n_made > 1 && n_different >= n_made);
  }
  is_planted = false, n_different = 0;
}

/* ---- what cannot be cut ---- */

static ronde_status define_nothing(void *user, ronde_graph *graph) { return RONDE_E_INTERNAL; }

static ronde_status try_stage(const ronde_graph *graph, int begin, int end, bool eager) {
  ronde__neighbour_ranks nobody;
  ronde__neighbour_ranks_set(&nobody, NULL, NULL, -1, -1);
  ronde__net_options options = {
      .compute = compute_with(NULL), .training = true, .stage = {begin, end, &nobody.messages}};
  if (eager) options.define = define_nothing;
  ronde__net *net;
  ronde_status status = ronde__net_create(graph, &options, &net);
  if (status == RONDE_OK) ronde__net_destroy(net);
  return status;
}

/* Two layers of one weight, and a third. */
static void build_shared(ronde_graph *graph, ronde_tensor *x) {
  ronde_graph_share(graph, "fc");
  x = ronde_tanh(ronde_linear(x, "fc", 8, true));
  x = ronde_tanh(ronde_linear(x, "fc", 8, true));
  ronde_graph_set_output(graph, ronde_linear(x, "last", 5, true));
}

static void stages_that_cannot_be_are_refused(void **unused) {
  static const network shared = {"shared", 8, 0, 0, build_shared};
  ronde_graph *graph = graph_of(&shared);
  int n = graph->n_nodes; /* fc tanh fc tanh last loss */
  for (int side = 0; side < 2; side++) {
    assert_int_equal(try_stage(graph, side ? 0 : 2, side ? 2 : n, false), RONDE_E_USAGE);
    assert_int_equal(try_stage(graph, side ? 0 : 4, side ? 4 : n, false), RONDE_OK);
  }
  assert_int_equal(try_stage(graph, 0, n, true), RONDE_E_USAGE);
  assert_int_equal(try_stage(graph, 3, 4, false), RONDE_E_USAGE); /* the tanh is executed by its layer */
  assert_int_equal(try_stage(graph, 2, 2, false), RONDE_E_INTERNAL);
  assert_int_equal(try_stage(graph, 0, n + 1, false), RONDE_E_INTERNAL);
  ronde_graph_destroy(graph);
}

/* ---- a neighbour that is lost ---- */

/* The other rank gives up at once; what this one has begun to send is its own again, and it does not wait. */
static void a_lost_neighbour_ends_the_pass(void **unused) {
  ronde_graph *graph = graph_of_model("lenet5");
  examples e = examples_make(graph, EXAMPLES);
  rank ranks[2] = {0};
  open_transports(ranks, 2);
  assert_int_equal(open_rank(&ranks[0], graph, &e, &(ronde__stage){0, 4, &ranks[0].neighbours.messages}), RONDE_OK);
  ronde__pass *pass;
  ronde__net_result result;
  assert_int_equal(ronde__pass_create(ranks[0].net, &pass), RONDE_OK);
  assert_int_equal(ronde__pass_forward(pass, &e.batch, 0.1f, NULL, &result), RONDE_OK);
  ranks[1].neighbours.transport->ops->abort(ranks[1].neighbours.transport);
  assert_int_equal(ronde__pass_backward(pass, false, NULL), RONDE_E_LOST);
  assert_int_equal(ronde__pass_backward(pass, false, NULL), RONDE_E_INTERNAL);
  assert_int_equal(ronde__pass_forward(pass, &e.batch, 0.1f, NULL, &result), RONDE_E_LOST);
  ronde__pass_destroy(pass);
  for (int s = 0; s < 2; s++) close_rank(&ranks[s]);
  examples_free(&e);
  ronde_graph_destroy(graph);
}

static void a_pass_is_given_up_while_it_sends(void **unused) {
  ronde_graph *graph = graph_of_model("lenet5");
  examples e = examples_make(graph, EXAMPLES);
  rank ranks[2] = {0};
  open_transports(ranks, 2);
  assert_int_equal(open_rank(&ranks[0], graph, &e, &(ronde__stage){0, 4, &ranks[0].neighbours.messages}), RONDE_OK);
  ronde__pass *pass;
  ronde__net_result result;
  assert_int_equal(ronde__pass_create(ranks[0].net, &pass), RONDE_OK);
  assert_int_equal(ronde__pass_forward(pass, &e.batch, 0.1f, NULL, &result), RONDE_OK);
  ronde__pass_destroy(pass);
  for (int s = 0; s < 2; s++) close_rank(&ranks[s]);
  examples_free(&e);
  ronde_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_networks_at_each_cut),
      cmocka_unit_test(shortcuts_across_cuts),
      cmocka_unit_test(built_in_networks),
      cmocka_unit_test(values_of_bfloat16),
      cmocka_unit_test(what_arrives_changed_is_seen),
      cmocka_unit_test(stages_that_cannot_be_are_refused),
      cmocka_unit_test(a_lost_neighbour_ends_the_pass),
      cmocka_unit_test(a_pass_is_given_up_while_it_sends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
