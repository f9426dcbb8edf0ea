/* CTC by its definition: every alignment by itself, in f64. */
#include "sequence_reference.h"

/* Labels of different number, from none on, some of them twice in a row; behind them padding. */
static void set_labels(const op_case *c, reference *r) {
  int64_t s = c->attr.labels;
  r->labels = malloc((size_t)(c->n * s) * sizeof *r->labels);
  for (int64_t n = 0; n < c->n; n++)
    for (int64_t i = 0; i < s; i++) {
      int64_t label = (n + i * i / 2) % (c->w - 1);
      r->labels[n * s + i] = i >= (n + 1) % (s + 1) ? RONDE_IGNORED : label + (label >= c->attr.blank);
    }
}

/* Whether an alignment, a number in base K with a digit a step, gives these labels. */
static bool is_aligned(const op_case *c, const int64_t *labels, int64_t alignment, int64_t steps) {
  int64_t before = -1, at = 0;
  for (int64_t t = 0; t < steps; t++, alignment /= c->w) {
    int64_t class = alignment % c->w;
    if (class != before && class != c->attr.blank) {
      if (at == c->attr.labels || labels[at] != class) return false;
      at++;
    }
    before = class;
  }
  return at == c->attr.labels || labels[at] < 0;
}

void ctc_reference(const op_case *c, reference *r) {
  int64_t k = c->w, elems = c->c * k;
  double *p = malloc((size_t)(2 * elems) * sizeof *p), *chance = p + elems;
  r->n_classes = k;
  r->din[0] = expected_make(c->n * elems, 16);
  set_labels(c, r);
  for (int64_t n = 0; n < c->n && c->attr.lengths; n++) r->in[2][n] = (float)(n % 3 == 0 ? 1 : n * 3 % (c->c + 2));
  for (int64_t n = 0; n < c->n; n++) {
    const int64_t *labels = r->labels + n * c->attr.labels;
    int64_t steps = c->attr.lengths ? (int64_t)fmin((double)c->c, (double)r->in[2][n]) : c->c, all = 1, count = 0;
    double total = 0;
    memset(chance, 0, (size_t)elems * sizeof *chance);
    for (int64_t t = 0; t < steps; t++, all *= k) {
      double sum = 0;
      for (int64_t i = 0; i < k; i++) sum += exp((double)r->in[0][n * elems + t * k + i]);
      for (int64_t i = 0; i < k; i++) p[t * k + i] = exp((double)r->in[0][n * elems + t * k + i]) / sum;
    }
    for (int64_t a = 0; a < all; a++) {
      double product = 1;
      int64_t rest = a;
      if (!is_aligned(c, labels, a, steps)) continue;
      for (int64_t t = 0; t < steps; t++, rest /= k) product *= p[t * k + rest % k];
      rest = a, total += product;
      for (int64_t t = 0; t < steps; t++, rest /= k) chance[t * k + rest % k] += product;
    }
    while (count < c->attr.labels && labels[count] >= 0) count++;
    if (total <= 0) continue; /* zero_infinity */
    double factor = 1 / fmax(1, (double)count);
    r->loss_sum -= log(total) * factor;
    for (int64_t i = 0; i < steps * k; i++) {
      double to = factor / (double)c->n;
      r->din[0].exact[n * elems + i] = (float)((p[i] - chance[i] / total) * to);
      r->din[0].magnitude[n * elems + i] = (float)((p[i] + chance[i] / total) * to);
    }
  }
  r->loss_bound = 1e-9 * (double)c->n;
  free(p);
}
