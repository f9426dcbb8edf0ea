/* L-BFGS: g gradient, d direction, t step length, s = t d the change of the weights, y that of the gradient, rho = 1 / (y . s).
 * Sources: Nocedal & Wright, "Numerical Optimization", 2nd edition, algorithms 7.4 (two-loop recursion) and 7.5;
 * what ends a step, and the first step lengths, as in torch/optim/lbfgs.py (PyTorch 2). */
#include "optim/lbfgs.h"

#include "optim/line_search.h"

#include <math.h>

struct ronde__lbfgs {
  ronde__lbfgs_options options;
  const ronde__vectors *vectors;
  ronde__lbfgs_memory memory;
  /* of the present step */
  double lr, loss; /* the loss where the last line search ended, or the step began */
  int n_iterations, n_evaluations;
  bool moved, searches;
  ronde__line_search search;
};

enum { W = RONDE__LBFGS_WEIGHTS, G = RONDE__LBFGS_GRADIENT, START = RONDE__LBFGS_START, KEPT = RONDE__LBFGS_KEPT };
enum { D = RONDE__LBFGS_DIRECTION, PREVIOUS = RONDE__LBFGS_PREVIOUS };

static int y_of(int pair) { return RONDE__LBFGS_PAIRS + 2 * pair; }
static int s_of(int pair) { return RONDE__LBFGS_PAIRS + 2 * pair + 1; }

ronde_status ronde__lbfgs_create(const ronde__lbfgs_options *options, const ronde__vectors *vectors,
                                 const ronde__lbfgs_memory *memory, ronde__lbfgs **lbfgs_out) {
  ronde__lbfgs *l;
  RONDE__ALLOC(l, sizeof *l, "L-BFGS");
  *l = (ronde__lbfgs){.options = *options, .vectors = vectors};
  if (memory) l->memory = *memory;
  *lbfgs_out = l;
  return RONDE_OK;
}

void ronde__lbfgs_destroy(ronde__lbfgs *l) { ronde__free(l); }

void ronde__lbfgs_begin(ronde__lbfgs *l, double lr) {
  l->lr = lr;
  l->n_iterations = l->n_evaluations = 0;
  l->moved = l->searches = false;
}

bool ronde__lbfgs_moved(const ronde__lbfgs *l) { return l->moved; }
const ronde__lbfgs_memory *ronde__lbfgs_memory_of(const ronde__lbfgs *l) { return &l->memory; }

static void forget(ronde__lbfgs *l) { l->memory = (ronde__lbfgs_memory){.n_iterations = l->memory.n_iterations}; }

static ronde_status dot(const ronde__lbfgs *l, int x, int y, double *dot_out) {
  return l->vectors->dot(l->vectors->user, x, y, dot_out);
}
static ronde_status copy(const ronde__lbfgs *l, int to, int from) {
  return l->vectors->copy(l->vectors->user, to, from);
}
static ronde_status scale(const ronde__lbfgs *l, int x, double factor) {
  return l->vectors->scale(l->vectors->user, x, factor);
}
static ronde_status add(const ronde__lbfgs *l, int y, double factor, int x) {
  return l->vectors->add(l->vectors->user, y, factor, x);
}
static ronde_status norms(const ronde__lbfgs *l, int x, ronde__vector_norms *norms_out) {
  return l->vectors->norms(l->vectors->user, x, norms_out);
}

/* What the last line search has shown of the curvature, where that is positive; the oldest pair makes room for it. d
 * becomes s. */
static ronde_status remember(ronde__lbfgs *l) {
  ronde__lbfgs_memory *m = &l->memory;
  double ys, yy;
  RONDE_TRY(copy(l, KEPT, G));
  RONDE_TRY(add(l, KEPT, -1, PREVIOUS));
  RONDE_TRY(scale(l, D, m->t));
  RONDE_TRY(dot(l, KEPT, D, &ys));
  if (!(ys > 1e-10)) return RONDE_OK;
  RONDE_TRY(dot(l, KEPT, KEPT, &yy));
  m->newest = m->n ? (m->newest + 1) % l->options.history : 0;
  if (m->n < l->options.history) m->n++;
  m->rho[m->newest] = 1 / ys;
  m->scale = ys / yy;
  RONDE_TRY(copy(l, y_of(m->newest), KEPT));
  return copy(l, s_of(m->newest), D);
}

/* Algorithm 7.4: d = - H g. */
static ronde_status two_loops(const ronde__lbfgs *l) {
  const ronde__lbfgs_memory *m = &l->memory;
  double alpha[RONDE__LBFGS_MAX_HISTORY], product;
  int history = l->options.history, oldest = (m->newest + history - m->n + 1) % history;
  RONDE_TRY(copy(l, D, G));
  RONDE_TRY(scale(l, D, -1));
  for (int i = m->n - 1; i >= 0; i--) {
    int pair = (oldest + i) % history;
    RONDE_TRY(dot(l, s_of(pair), D, &product));
    alpha[i] = product * m->rho[pair];
    RONDE_TRY(add(l, D, -alpha[i], y_of(pair)));
  }
  if (m->n) RONDE_TRY(scale(l, D, m->scale));
  for (int i = 0; i < m->n; i++) {
    int pair = (oldest + i) % history;
    RONDE_TRY(dot(l, y_of(pair), D, &product));
    RONDE_TRY(add(l, D, alpha[i] - product * m->rho[pair], s_of(pair)));
  }
  return RONDE_OK;
}

/* w = start + t d */
static ronde_status go(const ronde__lbfgs *l, double t) {
  RONDE_TRY(copy(l, W, START));
  return t != 0 ? add(l, W, t, D) : RONDE_OK;
}

/* Begins an iteration: a direction, and the first trial along it. */
static ronde_status iterate(ronde__lbfgs *l, const ronde__vector_norms *of_gradient, bool *more_out) {
  ronde__lbfgs_memory *m = &l->memory;
  double slope, t = m->any ? l->lr : fmin(1, 1 / of_gradient->sum_abs) * l->lr;
  l->n_iterations++;
  m->n_iterations++;
  if (m->any) RONDE_TRY(remember(l));
  RONDE_TRY(two_loops(l));
  RONDE_TRY(copy(l, PREVIOUS, G));
  m->any = true;
  m->t = 0;
  RONDE_TRY(dot(l, G, D, &slope));
  if (!(slope < 0)) forget(l);
  if (!(slope <= -l->options.tolerance_change)) return RONDE_OK;
  ronde__vector_norms of_direction;
  RONDE_TRY(norms(l, D, &of_direction));
  RONDE_TRY(copy(l, START, W));
  ronde__line_search_begin(&l->search, (ronde__line_point){0, l->loss, slope}, t, of_direction.max_abs,
                           l->options.max_eval - l->n_evaluations);
  l->searches = *more_out = true;
  return go(l, t);
}

/* Weights and gradient are those of the best point. */
static ronde_status return_to_best(const ronde__lbfgs *l) {
  const ronde__line_search *s = &l->search;
  if (s->where == RONDE__LINE_BEST_NEWEST) return RONDE_OK;
  RONDE_TRY(copy(l, G, s->where == RONDE__LINE_BEST_START ? PREVIOUS : KEPT));
  return go(l, s->best.t);
}

/* A line search is over: goes on with another iteration, unless something ends the step. */
static ronde_status end_search(ronde__lbfgs *l, bool *more_out) {
  const ronde__line_search *s = &l->search;
  const ronde__lbfgs_options *o = &l->options;
  double change = fabs(s->best.loss - l->loss);
  l->searches = false;
  RONDE_TRY(return_to_best(l));
  l->memory.t = s->best.t;
  l->loss = s->best.loss;
  if (s->where == RONDE__LINE_BEST_START) {
    if (!l->moved) forget(l); /* it had all evaluations of a step; the next one would only try the same again */
    return RONDE_OK;
  }
  l->moved = true;
  ronde__vector_norms of_gradient;
  RONDE_TRY(norms(l, G, &of_gradient));
  bool is_over = l->n_iterations >= o->max_iter || l->n_evaluations >= o->max_eval ||
                 of_gradient.max_abs <= o->tolerance_grad || s->best.t * s->reach <= o->tolerance_change ||
                 change < o->tolerance_change;
  return is_over ? RONDE_OK : iterate(l, &of_gradient, more_out);
}

static ronde_status begin_search(ronde__lbfgs *l, double loss, bool *more_out) {
  ronde__vector_norms of_gradient;
  l->loss = loss;
  RONDE_TRY(norms(l, G, &of_gradient));
  return of_gradient.max_abs <= l->options.tolerance_grad ? RONDE_OK : iterate(l, &of_gradient, more_out);
}

ronde_status ronde__lbfgs_tell(ronde__lbfgs *l, double loss, bool *more_out) {
  double slope = NAN;
  *more_out = false;
  l->n_evaluations++;
  if (!l->searches) return begin_search(l, loss, more_out);
  if (isfinite(loss)) RONDE_TRY(dot(l, G, D, &slope));
  if (!ronde__line_search_tell(&l->search, loss, slope)) return end_search(l, more_out);
  if (l->search.where == RONDE__LINE_BEST_NEWEST) RONDE_TRY(copy(l, KEPT, G));
  *more_out = true;
  return go(l, l->search.t);
}
