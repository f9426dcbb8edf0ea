/* What the tests of rows that were met share: a source of tokens, a network with two tables, and trainings of them. */
#ifndef SPARSE_TESTING_H
#define SPARSE_TESTING_H

#include "train_testing.h"

#include "lib/folder.h"
#include "sanitized.h"

/* Of sums of f32 in another order, against the largest element of the update; and of losses. */
#define UPDATE_TOLERANCE 3e-5
#define LOSS_TOLERANCE 2e-6

enum { STEPS = 6, TOKENS = 500, WIDTH = 20, CLASSES = 5, EXAMPLES = 33, TABLES = 2 };

/* No example has token 0, and some tokens are in many. */
static inline int32_t token_of(int64_t id, int64_t t) {
  return (int32_t)(t == 2 ? 1 + id % 3 : 1 + (id * 41 + t * t * 17) % (TOKENS - 1));
}

static inline ronde_status read_tokens(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x,
                                       int64_t *labels, float *targets) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t t = 0; t < STEPS; ++t) {
      int32_t token = token_of(ids[i], t);
      memcpy(x + i * STEPS + t, &token, sizeof token);
      labels[i * STEPS + t] = (ids[i] + t * t) % CLASSES;
    }
  return RONDE_OK;
}

static inline ronde_source token_source(int64_t n_train) {
  return (ronde_source){.name = "tokens",
                        .rank = 1,
                        .dims = {STEPS},
                        .classes = CLASSES,
                        .label_elems = STEPS,
                        .vocabulary = TOKENS,
                        .n_examples = {n_train, 0},
                        .read = read_tokens};
}

/* Two tables of the same tokens, and layers around them; the second table lies behind the first one and between biases. */
static inline ronde_tensor *two_tables(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  ronde_tensor *y = ronde_linear(ronde_embedding(x, "first", WIDTH, 0.5f), "fc1", WIDTH, true);
  y = ronde_add(ronde_tanh(y), ronde_embedding(x, "second", WIDTH, 0.5f));
  return ronde_linear(y, "fc2", classes, true);
}

static inline observed train(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline observed train(const char *format, ...) {
  char options[512];
  va_list args;
  va_start(args, format);
  vsnprintf(options, sizeof options, format, args);
  va_end(args);
  ronde_source source = token_source(EXAMPLES);
  bool built_in = strstr(options, "model=") != NULL;
  observed o = observe(options, built_in ? NULL : &source, built_in ? NULL : two_tables, NULL);
  if (o.status != RONDE_OK) fail_msg("%s: status %d", options, o.status);
  return o;
}

static inline void check_same_bits(const char *options, const char *a_more, const char *b_more) {
  observed a = train("threads=1 %s %s", options, a_more), b = train("threads=1 %s %s", options, b_more);
  assert_true(replicas_equal(&a) && replicas_equal(&b));
  if (!bits_equal(&a, &b)) fail_msg("%s: %s | %s: not the same bits", options, a_more, b_more);
  free(a.weights), free(b.weights);
}

static const char *const updates[] = {
    "lr=0.3",
    "lr=0.3 momentum=0.9",
    "lr=0.3 weight-decay=0.01",
    "lr=0.01 optimizer=adam",
    "lr=0.3 clip=0.1",
    "lr=0.3 accumulate=3",
    "lr=0.01 optimizer=adamw accumulate=2 clip=0.5",
};

static inline double loss_difference(const observed *a, const observed *b) {
  double largest = 0;
  assert_int_equal(a->n_steps, b->n_steps);
  for (int64_t i = 0; i < a->n_steps; ++i) largest = fmax(largest, fabs(a->loss[i] - b->loss[i]) / fabs(b->loss[i]));
  return largest;
}

static inline void check_close(const char *name, const observed *a, const observed *b, const observed *fresh) {
  double update = update_difference(a, b, fresh), loss = loss_difference(a, b);
  if (!(update <= UPDATE_TOLERANCE && loss <= LOSS_TOLERANCE))
    fail_msg("%s: updates differ by %g, losses by %g", name, update, loss);
}

static const char *const problems[] = {
    "",
    "model=transformer-tiny dropout=0 window=8 data=pairs:pairs.tsv",
    "model=gnmt-tiny dropout=0 window=8 data=pairs:pairs.tsv",
};
enum { PROBLEMS = THREADS_ONLY ? 1 : RONDE__COUNT(problems) };

/* ---- what is sent ---- */

static uint64_t n_sent;

static inline void count_sent(ronde__run *run) {
  n_sent = 0;
  for (int r = 0; r < run->n_ranks; ++r) n_sent += run->transports[r]->bytes_sent;
}

static inline uint64_t bytes_sent(const char *options, const char *more) {
  observe_also = count_sent;
  observed o = train("threads=1 shuffle=off lr=0.1 %s %s", options, more);
  observe_also = NULL;
  free(o.weights);
  return n_sent;
}

/* Of examples begin to end. */
static inline int64_t rows_met(int64_t begin, int64_t end) {
  bool met[TOKENS] = {0};
  int64_t n = 0;
  for (int64_t id = begin; id < end; ++id)
    for (int64_t t = 0; t < STEPS; ++t) met[token_of(id, t)] = true;
  for (int64_t r = 0; r < TOKENS; ++r) n += met[r];
  return n;
}

/* ---- the files of the built-in networks ---- */

static inline int write_pairs(void **state) {
  static const char text[] =
      "abc\tCBA\nda\tAD\nb\tB\ncad\tDAC\nbad\tDAB\na\tA\ndcb\tBCD\ncc\tCC\nabd\tDBA\nac\tCA\n"
      "dd\tDD\nbca\tACB\nc\tC\ncda\tADC\nab\tBA\ndab\tBAD\nbb\tBB\nacd\tDCA\n";
  if (make_folder_with_cache(state)) return 1;
  test_write(folder, "pairs.tsv", text, sizeof text - 1);
  return chdir(folder);
}

#endif
