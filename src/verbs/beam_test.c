/* The search in width against all sequences there are, against one token at a time, and against a search that is written
 * down as the header describes it, without its shortcuts. The logits are made from the tokens so far. */
#include "data/testing.h"

#include "base/rng.h"
#include "verbs/beam.h"

#include <math.h>

enum { V = 4, END = 2, MOST = 5, ROOM = 1024 };

/* What tells the next token. coarse: few different logits, so that many are equal. */
typedef struct speaker {
  uint64_t seed;
  bool coarse;
} speaker;

static void speak(const speaker *s, const int32_t *tokens, int64_t n, float logits_out[V]) {
  uint64_t told = s->seed;
  for (int64_t i = 0; i < n; i++) told = told * (V + 1) + (uint64_t)tokens[i] + 1;
  ronde__rng rng = ronde__rng_make(told, RONDE__STREAM_SYNTHETIC);
  for (int k = 0; k < V; k++)
    logits_out[k] = s->coarse ? (float)ronde__rng_below(&rng, 3) : 4 * ronde__rng_uniform(&rng);
}

static double log_p_of(const speaker *s, const int32_t *tokens, int64_t n, int32_t next) {
  float logits[V];
  double sum = 0;
  speak(s, tokens, n, logits);
  for (int k = 0; k < V; k++) sum += exp((double)logits[k]);
  return (double)logits[next] - log(sum);
}

static double score_of(double log_p, int64_t n, double penalty) { return log_p * pow(6 / (5 + (double)n), penalty); }

/* ---- the search, and what it is held against ---- */

typedef struct outcome {
  int32_t tokens[MOST];
  int64_t n;
  bool is_complete;
  double log_p, score;
} outcome;

static outcome search(const speaker *s, int64_t width, int64_t most, double penalty) {
  ronde__beam_options options = {width, V, most, END, penalty};
  ronde__beam *beam;
  float *logits = malloc((size_t)width * 2 * V * sizeof *logits);
  assert_int_equal(ronde__beam_create(&options, &beam), RONDE_OK);
  for (int again = 0; again < 2; again++) { /* nothing is left of the search before */
    ronde__beam_begin(beam);
    for (int64_t n; (n = ronde__beam_n(beam)) > 0;) {
      assert_true(n <= width && ronde__beam_length(beam) < most);
      for (int64_t i = 0; i < n; i++)
        speak(s, ronde__beam_tokens(beam, i), ronde__beam_length(beam), logits + 2 * V * i);
      assert_true(ronde__beam_step(beam, logits, 2 * V));
    }
  }
  ronde__hypothesis best = ronde__beam_best(beam);
  outcome o = {.n = best.n, .is_complete = best.is_complete, .log_p = best.log_p, .score = best.score};
  memcpy(o.tokens, best.tokens, (size_t)best.n * sizeof *o.tokens);
  ronde__beam_destroy(beam);
  free(logits);
  return o;
}

static outcome one_at_a_time(const speaker *s, int64_t most, double penalty) {
  outcome o = {.n = 0};
  while (o.n < most && !o.is_complete) {
    float logits[V];
    int32_t best = 0;
    speak(s, o.tokens, o.n, logits);
    for (int32_t k = 1; k < V; k++)
      if (logits[k] > logits[best]) best = k;
    o.log_p += log_p_of(s, o.tokens, o.n, best);
    if (best == END) o.is_complete = true;
    else o.tokens[o.n++] = best;
  }
  o.score = score_of(o.log_p, o.n + o.is_complete, penalty);
  return o;
}

static bool is_better(const outcome *a, const outcome *b) {
  return a->is_complete != b->is_complete ? a->is_complete : a->score > b->score;
}

/* All sequences that begin with `so_far`. */
static void exhaust(const speaker *s, const outcome *so_far, int64_t most, double penalty, outcome *best) {
  outcome o = *so_far;
  o.score = score_of(o.log_p, o.n + o.is_complete, penalty);
  if (o.is_complete || o.n == most) {
    if (best->n < 0 || is_better(&o, best)) *best = o;
    return;
  }
  for (int32_t k = 0; k < V; k++) {
    outcome next = *so_far;
    next.log_p += log_p_of(s, next.tokens, next.n, k);
    if (k == END) next.is_complete = true;
    else next.tokens[next.n++] = k;
    exhaust(s, &next, most, penalty, best);
  }
}

static void check_same(const outcome *a, const outcome *b) {
  assert_int_equal(a->n, b->n);
  assert_int_equal(a->is_complete, b->is_complete);
  assert_memory_equal(a->tokens, b->tokens, (size_t)a->n * sizeof *a->tokens);
  assert_true(fabs(a->log_p - b->log_p) < 1e-9);
  assert_true(fabs(a->score - b->score) < 1e-9);
}

/* ---- tests ---- */

static const double penalties[] = {0, 0.6, 1, 2};

static void a_search_that_keeps_all_finds_the_best_of_all(void **state) {
  const outcome nothing = {.n = 0};
  for (uint64_t seed = 0; seed < 40; seed++)
    for (size_t p = 0; p < RONDE__COUNT(penalties); p++) {
      const speaker s = {seed, false};
      int64_t most = 1 + (int64_t)(seed % MOST);
      outcome best = {.n = -1}, greedy = one_at_a_time(&s, most, penalties[p]);
      exhaust(&s, &nothing, most, penalties[p], &best);
      outcome found = search(&s, ROOM, most, penalties[p]);
      check_same(&found, &best);
      assert_true(found.is_complete >= greedy.is_complete);
      assert_true(found.is_complete > greedy.is_complete || found.score >= greedy.score - 1e-9);
    }
}

static void a_width_of_one_takes_the_likeliest_token(void **state) {
  for (uint64_t seed = 0; seed < 400; seed++)
    for (int coarse = 0; coarse < 2; coarse++) {
      const speaker s = {seed, coarse};
      outcome found = search(&s, 1, MOST, 0.6), wanted = one_at_a_time(&s, MOST, 0.6);
      check_same(&found, &wanted);
    }
}

static int by_log_p(const void *a, const void *b) {
  double x = ((const outcome *)a)->log_p, y = ((const outcome *)b)->log_p;
  return x < y ? 1 : x > y ? -1 : 0;
}

/* To the last token, or until enough are complete. */
static outcome plain_search(const speaker *s, int64_t width, int64_t most, double penalty) {
  outcome alive[8] = {{.n = 0}}, all[8 * V], best = {.n = -1};
  int64_t n = 1, n_completed = 0;
  for (int64_t length = 0; length < most && n_completed < width; length++) {
    int64_t n_all = 0;
    for (int64_t i = 0; i < n; i++)
      for (int32_t k = 0; k < V; k++) {
        outcome *next = &all[n_all++];
        *next = alive[i];
        next->log_p += log_p_of(s, next->tokens, next->n, k);
        next->tokens[next->n] = k;
      }
    qsort(all, (size_t)n_all, sizeof *all, by_log_p);
    n = 0;
    for (int64_t r = 0; r < n_all && r < 2 * width; r++) {
      outcome o = all[r];
      o.is_complete = o.tokens[length] == END;
      if (!o.is_complete) o.n++;
      o.score = score_of(o.log_p, length + 1, penalty);
      if (!o.is_complete && n < width) alive[n++] = o;
      if (o.is_complete && r < width && (n_completed++ == 0 || o.score > best.score)) best = o;
    }
  }
  return n_completed ? best : alive[0];
}

/* Between the two ends, where hypotheses are lost. */
static void a_narrow_search_keeps_what_it_should(void **state) {
  int n_cut = 0, n_better = 0;
  for (uint64_t seed = 0; seed < 200; seed++)
    for (int64_t width = 1; width <= 8; width++) {
      const speaker s = {seed, false};
      double penalty = penalties[seed % RONDE__COUNT(penalties)];
      outcome found = search(&s, width, MOST, penalty), wanted = plain_search(&s, width, MOST, penalty);
      outcome greedy = one_at_a_time(&s, MOST, penalty);
      check_same(&found, &wanted);
      n_cut += !found.is_complete;
      n_better += is_better(&found, &greedy);
    }
  assert_true(n_cut > 0 && n_better > 100);
}

static void numbers_that_are_none_are_refused(void **state) {
  ronde__beam_options options = {2, V, MOST, END, 0};
  float logits[V] = {0, 1, 2, 3};
  ronde__beam *beam;
  assert_int_equal(ronde__beam_create(&options, &beam), RONDE_OK);
  logits[1] = NAN;
  assert_false(ronde__beam_step(beam, logits, V));
  logits[1] = -INFINITY;
  assert_false(ronde__beam_step(beam, logits, V));
  assert_int_equal(ronde__beam_length(beam), 0);
  logits[1] = 1e30f; /* a probability of 1, and of 0 for all others */
  assert_true(ronde__beam_step(beam, logits, V));
  ronde__hypothesis best = ronde__beam_best(beam);
  assert_true(best.n == 1 && best.tokens[0] == 1 && best.log_p == 0 && !best.is_complete);
  ronde__beam_destroy(beam);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_search_that_keeps_all_finds_the_best_of_all),
      cmocka_unit_test(a_width_of_one_takes_the_likeliest_token),
      cmocka_unit_test(a_narrow_search_keeps_what_it_should),
      cmocka_unit_test(numbers_that_are_none_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
