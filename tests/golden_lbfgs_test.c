/* Golden files from PyTorch (tests/golden/make_golden_lbfgs.py): each evaluation of L-BFGS on networks, on the whole set
 * and on batches of it. The error of losses, step lengths and weights against f64 may be at most BOUND times PyTorch's
 * own in f32, with a floor of some ulps. */
#include "golden_testing.h"

#include "optim/lbfgs.h"

enum { N_MAX_VECTORS = RONDE__LBFGS_PAIRS + 2 * RONDE__LBFGS_MAX_HISTORY };

/* The vectors of a network, in memory. */
typedef struct vectors {
  ronde__flat_vectors flat;
  ronde__vectors table;
  float *at[N_MAX_VECTORS];
  int n;
} vectors;

static void vectors_create(vectors *v, const subject *s, const ronde__kernels *kernels, int history) {
  v->flat = (ronde__flat_vectors){
      .kernels = kernels, .pool = s->pool, .n = ronde__net_n_elems(s->net), .piece = RONDE__FLAT_PIECE, .at = v->at};
  v->flat.part = malloc(ronde__flat_pieces(&v->flat) * sizeof *v->flat.part);
  v->at[RONDE__LBFGS_WEIGHTS] = ronde__net_values(s->net);
  v->at[RONDE__LBFGS_GRADIENT] = ronde__net_gradients(s->net);
  v->n = RONDE__LBFGS_PAIRS + 2 * history;
  for (int i = RONDE__LBFGS_START; i < v->n; i++) assert_non_null(v->at[i] = calloc(v->flat.n, sizeof *v->at[i]));
  v->table = ronde__flat_vectors_table(&v->flat);
}

static void vectors_destroy(vectors *v) {
  for (int i = RONDE__LBFGS_START; i < v->n; i++) free(v->at[i]);
  free(v->flat.part);
}

/* A scalar's rounding is a matter of luck: numbers of one kind share PyTorch's largest error, relative to their size. */
static double peer_error(const json_t *f64, const json_t *f32) {
  const json_t *wanted;
  double error = 0;
  size_t i;
  json_array_foreach(f64, i, wanted) {
    const json_t *other = json_array_get(f32, i);
    double own = json_is_array(wanted)
                     ? peer_error(wanted, other)
                     : fabs(json_number_value(wanted) - json_number_value(other)) / fabs(json_number_value(wanted));
    error = fmax(error, own);
  }
  return error;
}

typedef struct peer {
  double losses, lengths; /* PyTorch's own errors in f32 */
} peer;

/* One step on examples [begin, end). */
static int step_failures(const golden *g, subject *s, ronde__lbfgs *lbfgs, size_t k, int64_t begin, int64_t end,
                         const peer *errors) {
  const json_t *losses = json_array_get(field(g->json, "losses_f64"), k);
  double length = json_number_value(json_array_get(field(g->json, "lengths_f64"), k));
  bool more = true;
  int failures = 0;
  size_t i = 0;
  char what[64];
  ronde__lbfgs_begin(lbfgs, number(field(g->json, "options"), "lr"));
  for (; more; i++) {
    double loss = gradients(g, s, begin, end), wanted = json_number_value(json_array_get(losses, i));
    snprintf(what, sizeof what, "loss %zu of step %zu", i + 1, k + 1);
    failures += !within(s->text, what, fabs(loss - wanted), errors->losses * wanted, wanted, false);
    assert_int_equal(ronde__lbfgs_tell(lbfgs, loss, &more), RONDE_OK);
  }
  assert_int_equal(i, json_array_size(losses));
  snprintf(what, sizeof what, "length of step %zu", k + 1);
  double found = ronde__lbfgs_memory_of(lbfgs)->t;
  return failures + !within(s->text, what, fabs(found - length), errors->lengths * length, length, false);
}

static int follow(const golden *g, const machine *m) {
  const json_t *json = field(g->json, "options");
  ronde__lbfgs_options options = {.history = (int)whole(json, "history_size"),
                                  .max_iter = (int)whole(json, "max_iter"),
                                  .max_eval = (int)whole(json, "max_iter") * 5 / 4,
                                  .tolerance_grad = 1e-7,
                                  .tolerance_change = 1e-9};
  const peer errors = {peer_error(field(g->json, "losses_f64"), field(g->json, "losses_f32")),
                       peer_error(field(g->json, "lengths_f64"), field(g->json, "lengths_f32"))};
  subject s = subject_create(g, m);
  vectors v = {0};
  ronde__lbfgs *lbfgs;
  int failures = 0;
  int64_t begin = 0;
  vectors_create(&v, &s, m->kernels, options.history);
  assert_int_equal(ronde__lbfgs_create(&options, &v.table, NULL, &lbfgs), RONDE_OK);
  for (size_t k = 0; k < json_array_size(field(g->json, "losses_f64")); k++) {
    int64_t end = ronde__min(begin + g->batch, g->examples);
    failures += step_failures(g, &s, lbfgs, k, begin, end, &errors);
    begin = end < g->examples ? end : 0;
  }
  failures += net_failures(g->json, &s, false, false);
  ronde__lbfgs_destroy(lbfgs);
  vectors_destroy(&v);
  subject_destroy(&s);
  return failures;
}

static void test_follows_pytorch(void **state) {
  golden g = {.name = *state};
  const ronde__kernels *best = ronde__kernels_available(0);
  const machine machines[] = {{best, RONDE__GEMM_XSMM, 1, NULL}, {best, RONDE__GEMM_TILE, 2, NULL}};
  int failures = 0;
  golden_open(&g);
  for (size_t i = 0; i < RONDE__COUNT(machines); i++) failures += follow(&g, &machines[i]);
  golden_close(&g);
  assert_int_equal(failures, 0);
}

int main(void) {
  static const char *const cases[] = {"lbfgs-lenet5", "lbfgs-lenet5-batches", "lbfgs-mnist-small",
                                      "lbfgs-mnist-small-batches"};
  struct CMUnitTest tests[RONDE__COUNT(cases)];
  for (size_t i = 0; i < RONDE__COUNT(cases); i++)
    tests[i] = (struct CMUnitTest){cases[i], test_follows_pytorch, NULL, NULL, (void *)(uintptr_t)cases[i]};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
