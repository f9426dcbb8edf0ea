/* All-reduce by recursive halving (reduce-scatter), then recursive doubling (all-gather); short messages by recursive
 * doubling alone. Ranks beyond the largest power of two are folded into others, the rest are corners of a cube.
 * Source: Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005. */
#include "comm/collective.h"

/* Up to this length the latency of twice as many messages costs more than sending all of x each time. */
#define SHORT ((size_t)(8 << 10) / sizeof(float))

enum { PHASE_FOLD, PHASE_HALVE, PHASE_DOUBLE, PHASE_UNFOLD };

typedef struct cube {
  ronde__exchange e;
  float *x, *scratch;
  int64_t n;
  uint32_t tag;
  int rest;   /* ranks beyond the largest power of two: so many pairs are folded into one rank each */
  int size;   /* the power of two */
  int corner; /* this rank's among them; -1: folded away */
} cube;

static int largest_power(int p) {
  int power = 1;
  while (2 * power <= p) power *= 2;
  return power;
}

static int rank_of_corner(int rest, int corner) { return corner < rest ? 2 * corner + 1 : corner + rest; }

/* Between this rank and a peer: out goes, in comes; sum: in is added to what came. */
static ronde_status cube_swap(cube *c, int peer, int phase, const float *out, int64_t n_out, float *in, int64_t n_in,
                              bool sum) {
  c->e.wire_tag = RONDE__WIRE_TAG(c->tag, phase);
  c->e.to = out ? peer : -1;
  c->e.from = in ? peer : -1;
  c->e.out = out, c->e.n_out = n_out;
  c->e.in = in, c->e.n_in = n_in;
  c->e.scratch = sum ? c->scratch : NULL;
  return ronde__exchange_run(&c->e);
}

/* Of the first 2 rest ranks, the even ones send their vectors to the odd ones, and in the end get the sum back. */
static ronde_status cube_fold(cube *c, bool back) {
  int rank = c->e.transport->rank;
  if (rank >= 2 * c->rest) return RONDE_OK;
  bool even = rank % 2 == 0, gives = even != back;
  int phase = back ? PHASE_UNFOLD : PHASE_FOLD;
  return cube_swap(c, even ? rank + 1 : rank - 1, phase, gives ? c->x : NULL, c->n, gives ? NULL : c->x, c->n, !back);
}

/* The chunks [begin, end) of c->size, as a range of x. */
static float *cube_range(const cube *c, int begin, int end, int64_t *n_out) {
  int64_t from = ronde__shard_begin(c->n, begin, c->size);
  *n_out = ronde__shard_begin(c->n, end, c->size) - from;
  return c->x + from;
}

/* At each distance, from half the cube down: keep the half of the present chunks in which this corner lies. */
static ronde_status cube_halve(cube *c) {
  for (int distance = c->size / 2; distance > 0; distance /= 2) {
    int mine = c->corner / distance * distance, other = mine ^ distance;
    int64_t n_keep, n_give;
    float *keep = cube_range(c, mine, mine + distance, &n_keep),
          *give = cube_range(c, other, other + distance, &n_give);
    RONDE_TRY(
        cube_swap(c, rank_of_corner(c->rest, c->corner ^ distance), PHASE_HALVE, give, n_give, keep, n_keep, true));
  }
  return RONDE_OK;
}

static ronde_status cube_gather(cube *c) {
  for (int distance = 1; distance < c->size; distance *= 2) {
    int mine = c->corner / distance * distance, other = mine ^ distance;
    int64_t n_have, n_want;
    float *have = cube_range(c, mine, mine + distance, &n_have),
          *want = cube_range(c, other, other + distance, &n_want);
    RONDE_TRY(
        cube_swap(c, rank_of_corner(c->rest, c->corner ^ distance), PHASE_DOUBLE, have, n_have, want, n_want, false));
  }
  return RONDE_OK;
}

/* a + b and b + a are the same bits, so all corners agree. What goes out must not change meanwhile, so it is a copy,
 * which lies behind the scratch. */
static ronde_status cube_double_whole(cube *c) {
  float *copy = c->scratch + ronde__exchange_scratch(c->n);
  for (int distance = 1; distance < c->size; distance *= 2) {
    for (int64_t i = 0; i < c->n; i++) copy[i] = c->x[i];
    RONDE_TRY(cube_swap(c, rank_of_corner(c->rest, c->corner ^ distance), PHASE_DOUBLE, copy, c->n, c->x, c->n, true));
  }
  return RONDE_OK;
}

static size_t halving_scratch(const ronde__transport *transport, size_t n) {
  return transport->size == 1 ? 0 : ronde__exchange_scratch((int64_t)n) + (size_t)ronde__min(n, SHORT);
}

static ronde_status cube_run(cube *c) {
  RONDE_TRY(cube_fold(c, false));
  if (c->corner >= 0 && (size_t)c->n <= SHORT) {
    RONDE_TRY(cube_double_whole(c));
  } else if (c->corner >= 0) {
    RONDE_TRY(cube_halve(c));
    RONDE_TRY(cube_gather(c));
  }
  return cube_fold(c, true);
}

static ronde_status halving_allreduce(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag,
                                      float *x, size_t n, float *scratch) {
  cube c = {.e = {.transport = transport, .kernels = kernels}, .x = x, .scratch = scratch, .n = (int64_t)n, .tag = tag};
  int p = transport->size, rank = transport->rank;
  c.size = largest_power(p);
  c.rest = p - c.size;
  if (rank >= 2 * c.rest) c.corner = rank - c.rest;
  else c.corner = rank % 2 ? rank / 2 : -1;
  return cube_run(&c);
}

/* For the model of costs: a rank's peer at a distance; distance 0: the rank it is folded into. */
typedef struct model_step {
  int rest, size, distance;
} model_step;

static int model_peer(const void *arg, int rank) {
  const model_step *s = arg;
  bool pairs = rank < 2 * s->rest;
  if (s->distance == 0) return pairs && rank % 2 == 0 ? rank + 1 : -1;
  if (pairs && rank % 2 == 0) return -1;
  return rank_of_corner(s->rest, (pairs ? rank / 2 : rank - s->rest) ^ s->distance);
}

static double halving_seconds(const ronde__ranks *ranks, size_t n) {
  model_step s = {.size = largest_power(ranks->n)};
  s.rest = ranks->n - s.size;
  double bytes = (double)(n * sizeof(float)), sum = s.rest ? 2 * ronde__round_s(ranks, model_peer, &s, bytes) : 0;
  for (s.distance = 1; s.distance < s.size; s.distance *= 2) {
    if (n <= SHORT) sum += ronde__round_s(ranks, model_peer, &s, bytes);
    else sum += 2 * ronde__round_s(ranks, model_peer, &s, bytes * s.distance / s.size);
  }
  return sum;
}

const ronde__allreduce ronde__allreduce_halving_doubling = {"halving-doubling", halving_scratch, halving_allreduce,
                                                            NULL, halving_seconds};
