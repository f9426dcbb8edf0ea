/* The search in width. Probabilities are kept as logarithms in f64, so that the order of the tokens behind one hypothesis is
 * that of its logits. */
#include "verbs/beam.h"

#include <math.h>
#include <string.h>

/* A hypothesis and a token behind it. */
typedef struct candidate {
  double log_p;
  float logit;
  int64_t from;
  int32_t token;
} candidate;

struct ronde__beam {
  ronde__beam_options options;
  int64_t n, length; /* hypotheses, and the tokens of each */
  bool is_over;
  double *log_p, *next_log_p;        /* [width] */
  int32_t *tokens, *next_tokens;     /* [width][most] */
  candidate *candidates;             /* [2 width], the likeliest first */
  int64_t n_candidates, n_completed; /* of these the best one: */
  int32_t *complete;                 /* [most] */
  int64_t n_complete;                /* its tokens */
  double complete_log_p, complete_score;
};

void ronde__beam_destroy(ronde__beam *b) { ronde__free(b); }

ronde_status ronde__beam_create(const ronde__beam_options *options, ronde__beam **beam_out) {
  ronde__beam *b;
  size_t width = (size_t)options->width, tokens = width * (size_t)options->most;
  RONDE__ALLOC(b,
               sizeof *b + 2 * width * (sizeof *b->candidates + sizeof *b->log_p) +
                   (2 * tokens + (size_t)options->most) * sizeof *b->tokens,
               "beam search");
  *b = (ronde__beam){.options = *options, .candidates = (candidate *)(b + 1)};
  b->log_p = (double *)(b->candidates + 2 * width);
  b->next_log_p = b->log_p + width;
  b->tokens = (int32_t *)(b->next_log_p + width);
  b->next_tokens = b->tokens + tokens;
  b->complete = b->next_tokens + tokens;
  ronde__beam_begin(b);
  *beam_out = b;
  return RONDE_OK;
}

void ronde__beam_begin(ronde__beam *b) {
  b->n = 1;
  b->length = b->n_completed = 0;
  b->log_p[0] = 0;
  b->is_over = b->options.most == 0;
}

int64_t ronde__beam_n(const ronde__beam *b) { return b->is_over ? 0 : b->n; }
int64_t ronde__beam_length(const ronde__beam *b) { return b->length; }
const int32_t *ronde__beam_tokens(const ronde__beam *b, int64_t i) { return b->tokens + i * b->options.most; }

/* ---- a step ---- */

static double score_of(const ronde__beam *b, double log_p, int64_t n) {
  return log_p / pow((5 + (double)n) / 6, b->options.length_penalty);
}

/* Rounded probabilities may be equal where the logits of one hypothesis are not. */
static bool is_likelier(const candidate *x, const candidate *y) {
  return x->log_p > y->log_p || (x->log_p == y->log_p && x->logit > y->logit);
}

/* Of equally likely ones the first that comes stays in front. */
static void take_candidate(ronde__beam *b, candidate c) {
  int64_t at = b->n_candidates, most = 2 * b->options.width;
  if (at == most && !is_likelier(&c, &b->candidates[--at])) return;
  for (; at > 0 && is_likelier(&c, &b->candidates[at - 1]); at--) b->candidates[at] = b->candidates[at - 1];
  b->candidates[at] = c;
  b->n_candidates += b->n_candidates < most;
}

/* The logarithm of the sum of exponentials; NaN where a logit is not finite. */
static double log_sum(const float *logits, int64_t n) {
  float most = logits[0];
  double sum = 0;
  for (int64_t k = 0; k < n; k++) {
    if (!isfinite(logits[k])) return NAN;
    if (logits[k] > most) most = logits[k];
  }
  for (int64_t k = 0; k < n; k++) sum += exp((double)logits[k] - (double)most);
  return (double)most + log(sum);
}

static bool find_candidates(ronde__beam *b, const float *logits, int64_t stride) {
  int64_t v = b->options.vocabulary;
  b->n_candidates = 0;
  for (int64_t i = 0; i < b->n; i++, logits += stride) {
    double sum = log_sum(logits, v);
    if (isnan(sum)) return false;
    for (int64_t k = 0; k < v; k++)
      take_candidate(b, (candidate){b->log_p[i] + ((double)logits[k] - sum), logits[k], i, (int32_t)k});
  }
  return true;
}

static void take_complete(ronde__beam *b, const candidate *c) {
  double score = score_of(b, c->log_p, b->length + 1);
  if (b->n_completed++ && score <= b->complete_score) return;
  b->n_complete = b->length;
  b->complete_log_p = c->log_p;
  b->complete_score = score;
  memcpy(b->complete, ronde__beam_tokens(b, c->from), (size_t)b->length * sizeof *b->complete);
}

static void take_next(ronde__beam *b, const candidate *c, int64_t i) {
  int32_t *tokens = b->next_tokens + i * b->options.most;
  memcpy(tokens, ronde__beam_tokens(b, c->from), (size_t)b->length * sizeof *tokens);
  tokens[b->length] = c->token;
  b->next_log_p[i] = c->log_p;
}

static void go_on(ronde__beam *b, int64_t n) {
  double *log_p = b->log_p;
  int32_t *tokens = b->tokens;
  b->log_p = b->next_log_p, b->next_log_p = log_p;
  b->tokens = b->next_tokens, b->next_tokens = tokens;
  b->n = n;
  b->length++;
}

/* A logarithm only falls from here on, and the largest penalty is that of the longest one. */
static bool can_improve(const ronde__beam *b) {
  return b->n_completed == 0 || score_of(b, b->log_p[0], b->options.most) > b->complete_score;
}

bool ronde__beam_step(ronde__beam *b, const float *logits, int64_t stride) {
  int64_t n = 0, width = b->options.width;
  if (!find_candidates(b, logits, stride)) return false;
  for (int64_t r = 0; r < b->n_candidates; r++) {
    const candidate *c = &b->candidates[r];
    if (c->token != b->options.end) {
      if (n < width) take_next(b, c, n++);
    } else if (r < width) {
      take_complete(b, c);
    }
  }
  go_on(b, n);
  b->is_over = n == 0 || b->n_completed >= width || b->length == b->options.most || !can_improve(b);
  return true;
}

ronde__hypothesis ronde__beam_best(const ronde__beam *b) {
  if (b->n_completed)
    return (ronde__hypothesis){b->complete, b->n_complete, true, b->complete_log_p, b->complete_score};
  return (ronde__hypothesis){b->tokens, b->length, false, b->log_p[0], score_of(b, b->log_p[0], b->length)};
}
