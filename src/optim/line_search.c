/* A line search for the strong Wolfe conditions: t step length, phi(t) the loss at it, slope phi'(t).
 * Sources: Nocedal & Wright, "Numerical Optimization", 2nd edition, algorithms 3.5 (bracketing) and 3.6 (zoom), cubic
 * interpolation of formula 3.59; safeguards and order of decisions as in torch/optim/lbfgs.py (PyTorch 2). */
#include "optim/line_search.h"

#include <math.h>

static const double C1 = 1e-4, C2 = 0.9, SMALLEST_MOVE = 1e-9;

/* The minimum in [lo, hi] of the cubic through both points; the middle where there is none. */
static double interpolate(const ronde__line_point *a, const ronde__line_point *b, double lo, double hi) {
  const ronde__line_point *left = a->t <= b->t ? a : b, *right = left == a ? b : a;
  double d1 = a->slope + b->slope - 3 * (a->loss - b->loss) / (a->t - b->t);
  double square = d1 * d1 - a->slope * b->slope;
  if (!(square >= 0)) return (lo + hi) / 2;
  double d2 = sqrt(square);
  double t = right->t - (right->t - left->t) * ((right->slope + d2 - d1) / (right->slope - left->slope + 2 * d2));
  return isnan(t) ? (lo + hi) / 2 : fmin(fmax(t, lo), hi);
}

void ronde__line_search_begin(ronde__line_search *s, ronde__line_point start, double t, double reach, int max_more) {
  *s = (ronde__line_search){.t = t, .best = start, .start = start, .at = {start}, .reach = reach, .max_more = max_more};
  s->where = RONDE__LINE_BEST_START;
}

static void take_best(ronde__line_search *s, const ronde__line_point *point, bool is_newest) {
  s->best = *point;
  s->where = is_newest ? RONDE__LINE_BEST_NEWEST : point->t == 0 ? RONDE__LINE_BEST_START : RONDE__LINE_BEST_EARLIER;
}

/* The next trial within the bracket, a tenth of it away from its ends where two in a row are near one. */
static bool next_within(ronde__line_search *s) {
  double lo = fmin(s->at[0].t, s->at[1].t), hi = fmax(s->at[0].t, s->at[1].t), margin = 0.1 * (hi - lo);
  if (s->n >= s->max_more || (hi - lo) * s->reach < SMALLEST_MOVE) return false;
  double t = interpolate(&s->at[0], &s->at[1], lo, hi);
  bool is_near = fmin(hi - t, t - lo) < margin;
  if (is_near && (s->was_near || t >= hi || t <= lo)) {
    t = fabs(t - hi) < fabs(t - lo) ? hi - margin : lo + margin;
    is_near = false;
  }
  s->was_near = is_near;
  s->t = t;
  s->n++;
  return true;
}

static bool is_flat(const ronde__line_search *s, const ronde__line_point *p) {
  return fabs(p->slope) <= -C2 * s->start.slope;
}

static bool is_too_high(const ronde__line_search *s, const ronde__line_point *p) {
  return p->loss > s->start.loss + C1 * p->t * s->start.slope;
}

static bool enclose(ronde__line_search *s, const ronde__line_point *p) {
  s->at[1] = *p;
  s->is_bracketed = true;
  s->low = s->at[0].loss <= p->loss ? 0 : 1;
  take_best(s, &s->at[s->low], s->low == 1);
  return next_within(s);
}

/* Algorithm 3.5: longer steps, until a minimum lies between two of them. */
static bool bracket(ronde__line_search *s, const ronde__line_point *p) {
  ronde__line_point before = s->at[0];
  if (s->n == s->max_more) {
    bool is_lower = p->loss < s->start.loss;
    take_best(s, is_lower ? p : &s->start, is_lower);
    return false;
  }
  if (is_too_high(s, p) || (s->n > 1 && p->loss >= before.loss)) return enclose(s, p);
  if (!is_flat(s, p) && p->slope >= 0) return enclose(s, p);
  take_best(s, p, true);
  if (is_flat(s, p)) return false;
  s->t = interpolate(&before, p, p->t + 0.01 * (p->t - before.t), p->t * 10);
  s->at[0] = *p;
  s->n++;
  return true;
}

/* Algorithm 3.6: a smaller bracket, whose low end meets the first condition. */
static bool narrow(ronde__line_search *s, const ronde__line_point *p) {
  int high = 1 - s->low, newest = s->low;
  bool is_done = false;
  if (is_too_high(s, p) || p->loss >= s->at[s->low].loss) {
    s->at[newest = high] = *p;
    s->low = s->at[0].loss <= s->at[1].loss ? 0 : 1;
  } else {
    is_done = is_flat(s, p);
    if (!is_done && p->slope * (s->at[high].t - s->at[s->low].t) >= 0) s->at[high] = s->at[s->low];
    s->at[s->low] = *p;
  }
  take_best(s, &s->at[s->low], s->low == newest);
  return !is_done && next_within(s);
}

bool ronde__line_search_tell(ronde__line_search *s, double loss, double slope) {
  ronde__line_point p = {s->t, loss, slope};
  if (!isfinite(loss) || !isfinite(slope)) p = (ronde__line_point){s->t, INFINITY, NAN};
  return s->is_bracketed ? narrow(s, &p) : bracket(s, &p);
}
