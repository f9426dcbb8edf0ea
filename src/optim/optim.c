/* Optimizers on ranges of the flat arrays. */
#include "optim/optim.h"
#include "optim/lbfgs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 4096 /* elements: a thread's part of each array starts on a page of its own */

/* Sources of the definitions: the algorithm boxes of torch.optim.SGD, Adam, AdamW, Adagrad and RMSprop (PyTorch 2). */
struct ronde__optim {
  ronde__optim_options options;
  const ronde__kernels *kernels;
  size_t n;
  int64_t n_updates;
  int n_states;
  float **state;     /* [n_states][n] */
  char (*names)[24]; /* [n_states] */
  const ronde__range *dead;
  int n_dead;
  ronde__time *time; /* by which an update takes its time; NULL: it takes what it takes */
  double element_ns;
  bool passes_dead, looked; /* passes_dead is valid once looked is set; loading a state clears it */
  union {
    ronde__sgd_args sgd;
    ronde__adam_args adam;
    ronde__adagrad_args adagrad;
    ronde__rmsprop_args rmsprop;
  } args; /* of the present update */
};

static const char *const state_names[][2] = {[RONDE__OPTIM_SGD] = {"momentum_buffer"},
                                             [RONDE__OPTIM_ADAM] = {"exp_avg", "exp_avg_sq"},
                                             [RONDE__OPTIM_ADAMW] = {"exp_avg", "exp_avg_sq"},
                                             [RONDE__OPTIM_ADAGRAD] = {"sum"},
                                             [RONDE__OPTIM_RMSPROP] = {"square_avg", "momentum_buffer"}};

static int states_needed(const ronde__optim_options *o) {
  switch (o->kind) {
  case RONDE__OPTIM_SGD: return o->momentum != 0 ? 1 : 0;
  case RONDE__OPTIM_ADAM:
  case RONDE__OPTIM_ADAMW: return 2;
  case RONDE__OPTIM_ADAGRAD: return 1;
  case RONDE__OPTIM_RMSPROP: return o->momentum != 0 ? 2 : 1;
  case RONDE__OPTIM_LBFGS: return RONDE__LBFGS_PAIRS - RONDE__LBFGS_DIRECTION + 2 * o->history;
  }
  return 0;
}

static void name_state(ronde__optim_kind kind, int i, char name_out[24]) {
  static const char *const of_lbfgs[] = {"d", "prev_flat_grad"}, *const of_pairs[] = {"old_dirs", "old_stps"};
  int pair = i + RONDE__LBFGS_DIRECTION - RONDE__LBFGS_PAIRS;
  bool is_pair = kind == RONDE__OPTIM_LBFGS && pair >= 0;
  if (is_pair) snprintf(name_out, 24, "%s.%d", of_pairs[pair % 2], pair / 2);
  else snprintf(name_out, 24, "%s", kind == RONDE__OPTIM_LBFGS ? of_lbfgs[i] : state_names[kind][i]);
}

size_t ronde__optim_state_bytes(const ronde__optim_options *options, size_t n) {
  return (size_t)states_needed(options) * n * sizeof(float);
}

static ronde_status make_states(ronde__optim *optim) {
  int wanted = states_needed(&optim->options);
  size_t bytes = optim->n * sizeof(float);
  RONDE__ALLOC(optim->state, (size_t)wanted * sizeof *optim->state, "optimizer");
  RONDE__ALLOC(optim->names, (size_t)wanted * sizeof *optim->names, "optimizer");
  for (; optim->n_states < wanted; ++optim->n_states) {
    float *state = ronde__floats_map(optim->kernels, optim->n);
    if (!state) return ronde__fail(RONDE_E_MEMORY, "optimizer state: no memory for %d times %zu bytes", wanted, bytes);
    optim->state[optim->n_states] = state;
    name_state(optim->options.kind, optim->n_states, optim->names[optim->n_states]);
  }
  return RONDE_OK;
}

ronde_status ronde__optim_create(const ronde__optim_options *options, const ronde__kernels *kernels, size_t n,
                                 ronde__optim **optim_out) {
  ronde__optim *optim;
  RONDE__ALLOC(optim, sizeof *optim, "optimizer");
  *optim = (ronde__optim){.options = *options, .kernels = kernels, .n = n};
  ronde_status status = make_states(optim);
  if (status != RONDE_OK) ronde__optim_destroy(optim);
  else *optim_out = optim;
  return status;
}

void ronde__optim_destroy(ronde__optim *optim) {
  if (!optim) return;
  for (int i = 0; i < optim->n_states; ++i) ronde__pages_unmap(optim->state[i], optim->n * sizeof(float));
  ronde__free(optim->state);
  ronde__free(optim->names);
  ronde__free(optim);
}

void ronde__optim_pace(ronde__optim *optim, ronde__time *time, double element_ns) {
  optim->time = time;
  optim->element_ns = element_ns;
}

void ronde__optim_set_dead(ronde__optim *optim, const ronde__range *dead, int n_dead) {
  optim->dead = dead;
  optim->n_dead = n_dead;
  optim->looked = false;
}

/* Before the first update all of it is zero, and no page is touched. */
static float *pack_state(const ronde__optim *optim, const float *state, const ronde__range *ranges, int n_ranges,
                         size_t n) {
  float *packed = ronde__pages_map(n * sizeof *packed);
  size_t at = 0;
  for (int i = 0; i < n_ranges && packed && optim->n_updates > 0; at += ranges[i++].n)
    memcpy(packed + at, state + ranges[i].begin, ranges[i].n * sizeof *packed);
  return packed;
}

ronde_status ronde__optim_keep(ronde__optim *optim, const ronde__range *ranges, int n_ranges) {
  float **packed;
  size_t n = 0;
  bool complete = true;
  RONDE__ALLOC(packed, (size_t)(optim->n_states + 1) * sizeof *packed, "optimizer");
  for (int i = 0; i < n_ranges; ++i) n += ranges[i].n;
  for (int s = 0; s < optim->n_states; ++s) {
    packed[s] = pack_state(optim, optim->state[s], ranges, n_ranges, n);
    complete &= packed[s] != NULL;
  }
  for (int s = 0; s < optim->n_states; ++s) {
    ronde__pages_unmap(complete ? optim->state[s] : packed[s], (complete ? optim->n : n) * sizeof(float));
    if (complete) optim->state[s] = packed[s];
  }
  ronde__free(packed);
  if (!complete) return ronde__fail(RONDE_E_MEMORY, "optimizer state: no memory for %zu bytes", n * sizeof(float));
  optim->n = n;
  ronde__optim_set_dead(optim, NULL, 0);
  return RONDE_OK;
}

void ronde__optim_take(ronde__optim *optim, float *const *whole, size_t n) {
  for (int s = 0; s < optim->n_states; ++s) {
    ronde__pages_unmap(optim->state[s], optim->n * sizeof(float));
    optim->state[s] = whole[s];
  }
  optim->n = n;
  optim->looked = false;
}

/* Whether an update changes elements whose gradient and state are zero: all but SGD divide by eps there. */
static bool optim_moves_zeros(const ronde__optim_options *o) {
  return o->weight_decay != 0 || (o->kind != RONDE__OPTIM_SGD && !(o->eps > 0));
}

static bool optim_stays(const ronde__optim *optim) {
  if (optim->time) return true;
  if (optim_moves_zeros(&optim->options)) return false;
  for (int i = 0; i < optim->n_dead; ++i)
    for (int s = 0; s < optim->n_states; ++s)
      for (size_t j = optim->dead[i].begin; j < optim->dead[i].begin + optim->dead[i].n; ++j)
        if (optim->state[s][j] != 0) return false;
  return true;
}

/* 1 - beta^t */
static double bias_correction(double beta, int64_t t) { return -expm1((double)t * log(beta)); }

static ronde__adam_args adam_args(const ronde__optim *optim, double lr) {
  const ronde__optim_options *o = &optim->options;
  bool decoupled = o->kind == RONDE__OPTIM_ADAMW;
  ronde__adam_args args = {.beta1 = (float)o->beta1, .beta2 = (float)o->beta2, .eps = (float)o->eps};
  args.weight_decay = decoupled ? 0 : (float)o->weight_decay;
  args.decay = decoupled ? (float)(1 - lr * o->weight_decay) : 1;
  args.rest1 = (float)(1 - o->beta1);
  args.rest2 = (float)(1 - o->beta2);
  args.step_size = (float)(lr / bias_correction(o->beta1, optim->n_updates));
  args.inv_sqrt_bias2 = (float)(1 / sqrt(bias_correction(o->beta2, optim->n_updates)));
  return args;
}

bool ronde__optim_moves_dead(ronde__optim *optim) {
  if (!optim->looked) optim->passes_dead = optim_stays(optim);
  optim->looked = true;
  return !optim->passes_dead;
}

void ronde__optim_begin(ronde__optim *optim, double lr) {
  const ronde__optim_options *o = &optim->options;
  ++optim->n_updates;
  ronde__optim_moves_dead(optim);
  if (o->kind == RONDE__OPTIM_SGD) {
    optim->args.sgd = (ronde__sgd_args){(float)lr, (float)o->momentum, (float)o->weight_decay, o->nesterov};
  } else if (o->kind == RONDE__OPTIM_ADAGRAD) {
    optim->args.adagrad = (ronde__adagrad_args){(float)lr, (float)o->eps, (float)o->weight_decay};
  } else if (o->kind == RONDE__OPTIM_RMSPROP) {
    optim->args.rmsprop = (ronde__rmsprop_args){(float)lr,          (float)o->alpha,        (float)o->eps,
                                                (float)o->momentum, (float)o->weight_decay, (float)(1 - o->alpha)};
  } else {
    optim->args.adam = adam_args(optim, lr);
  }
}

static void optim_update(const ronde__optim *optim, float *w, const float *g, size_t first, size_t n) {
  int64_t elems = (int64_t)n;
  float *state = optim->n_states > 0 ? optim->state[0] + first : NULL;
  float *second = optim->n_states > 1 ? optim->state[1] + first : NULL;
  switch (optim->options.kind) {
  case RONDE__OPTIM_SGD: optim->kernels->sgd(&optim->args.sgd, w, g, state, elems); break;
  case RONDE__OPTIM_ADAGRAD: optim->kernels->adagrad(&optim->args.adagrad, w, g, state, elems); break;
  case RONDE__OPTIM_ADAM:
  case RONDE__OPTIM_ADAMW: optim->kernels->adam(&optim->args.adam, w, g, state, second, elems); break;
  case RONDE__OPTIM_RMSPROP: optim->kernels->rmsprop(&optim->args.rmsprop, w, g, state, second, elems); break;
  case RONDE__OPTIM_LBFGS: break; /* nobody asks for it */
  }
}

/* Updates dead ranges that are not passed over, because decay or old state still moves them. */
static void optim_update_dead(const ronde__optim *optim, float *w, size_t first, size_t n) {
  static const float zeros[CHUNK];
  for (size_t at = 0, some; at < n; at += some) {
    some = n - at < CHUNK ? n - at : CHUNK;
    optim_update(optim, w + at, zeros, first + at, some);
  }
}

static void take_time(const ronde__optim *optim, size_t first, size_t n) {
  ronde__gaps live = ronde__gaps_of(optim->dead, optim->n_dead, first, first + n);
  size_t elems = 0;
  for (ronde__range s; ronde__gaps_next(&live, &s);) elems += s.n;
  uint64_t ns = (uint64_t)llround((double)elems * optim->element_ns);
  if (ns) ronde__time_sleep(optim->time, ns);
}

void ronde__optim_range(const ronde__optim *optim, float *w, const float *g, size_t first, size_t n) {
  size_t at = first, end = first + n;
  if (optim->time) {
    take_time(optim, first, n);
    return;
  }
  ronde__gaps live = ronde__gaps_of(optim->dead, optim->n_dead, first, end);
  for (ronde__range s = {0}; at < end; at = s.begin + s.n) {
    if (!ronde__gaps_next(&live, &s)) s = (ronde__range){end, 0};
    if (!optim->passes_dead) optim_update_dead(optim, w + (at - first), at, s.begin - at);
    if (s.n) optim_update(optim, w + (s.begin - first), g + (s.begin - first), s.begin, s.n);
  }
}

void ronde__optim_dead(const ronde__optim *optim, float *w) {
  for (int i = 0; i < optim->n_dead && !optim->passes_dead && !optim->time; ++i)
    optim_update_dead(optim, w + optim->dead[i].begin, optim->dead[i].begin, optim->dead[i].n);
}

void ronde__optim_fetch(const ronde__optim *optim, size_t first, size_t n) {
  enum { LINE = 16 };
  for (int s = 0; s < optim->n_states; ++s)
    for (size_t i = first; i < first + n && i < optim->n; i += LINE) __builtin_prefetch(optim->state[s] + i, 1, 2);
}

int ronde__optim_touches(const ronde__optim *optim, size_t first, const void **at_out) {
  if (first >= optim->n) return 0;
  for (int s = 0; s < optim->n_states; ++s) at_out[s] = optim->state[s] + first;
  return optim->n_states;
}

typedef struct optim_range_call {
  const ronde__optim *optim;
  float *w;
  const float *g;
  size_t first, n;
} optim_range_call;

static void optim_range_chunk(void *arg, int thread, int n_threads) {
  const optim_range_call *call = arg;
  int64_t n = (int64_t)call->n, n_chunks = ronde__ceil_div(n, CHUNK);
  int64_t begin = ronde__min(ronde__shard_begin(n_chunks, thread, n_threads) * CHUNK, n);
  int64_t end = ronde__min(ronde__shard_begin(n_chunks, thread + 1, n_threads) * CHUNK, n);
  if (begin < end)
    ronde__optim_range(call->optim, call->w + begin, call->g + begin, call->first + (size_t)begin,
                       (size_t)(end - begin));
}

void ronde__optim_range_on(const ronde__optim *optim, ronde__pool *pool, float *w, const float *g, size_t first,
                           size_t n) {
  optim_range_call call = {optim, w, g, first, n};
  if (optim->time) ronde__optim_range(optim, w, g, first, n);
  else if (n <= CHUNK) optim_range_chunk(&call, 0, 1);
  else ronde__pool_run(pool, optim_range_chunk, &call);
}

typedef struct optim_rows_call {
  const ronde__optim *optim;
  float *w;
  const float *g;
  size_t first;
  const ronde__row_set *rows;
  int64_t begin, end; /* elements of the table */
} optim_rows_call;

/* Whether an element whose gradient is zero stays as it is, whatever state it has. */
static bool optim_needs_gradient(const ronde__optim *optim) {
  const ronde__optim_options *o = &optim->options;
  return o->kind == RONDE__OPTIM_SGD && o->momentum == 0 && o->weight_decay == 0;
}

/* Rows that are alike, one behind the other. */
static void optim_update_run(const optim_rows_call *c, int64_t row, int64_t next) {
  int64_t begin = ronde__max(c->begin, row * c->rows->elems), end = ronde__min(c->end, next * c->rows->elems);
  size_t at = c->first + (size_t)begin, n = (size_t)(end - begin);
  if (ronde__row_set_has(c->rows, row)) optim_update(c->optim, c->w + begin, c->g + begin, at, n);
  else if (!optim_needs_gradient(c->optim)) optim_update_dead(c->optim, c->w + begin, at, n);
}

/* In turns of so many rows, because frequent tokens often have the first numbers. */
static void optim_rows_chunk(void *arg, int thread, int n_threads) {
  enum { TURN = 64 };
  const optim_rows_call *c = arg;
  int64_t rows_end = ronde__ceil_div(c->end, c->rows->elems);
  for (int64_t turn = c->begin / c->rows->elems + thread * TURN; turn < rows_end; turn += n_threads * TURN)
    for (int64_t row = turn, end = ronde__min(turn + TURN, rows_end), next; row < end; row = next) {
      next = ronde__row_set_run(c->rows, row, end);
      optim_update_run(c, row, next);
    }
}

void ronde__optim_rows_on(const ronde__optim *optim, ronde__pool *pool, float *w, const float *g, size_t first,
                          const ronde__row_set *rows, ronde__range part) {
  optim_rows_call call = {optim, w, g, first, rows, (int64_t)part.begin, (int64_t)(part.begin + part.n)};
  if (part.n <= CHUNK) optim_rows_chunk(&call, 0, 1);
  else ronde__pool_run(pool, optim_rows_chunk, &call);
}

ronde__zero_moves ronde__optim_zero_moves(const ronde__optim *optim) {
  const ronde__optim_options *o = &optim->options;
  if (optim_moves_zeros(o)) return RONDE__ZERO_MOVES_ALL;
  bool is_adam = o->kind == RONDE__OPTIM_ADAM || o->kind == RONDE__OPTIM_ADAMW;
  return is_adam || (o->kind != RONDE__OPTIM_ADAGRAD && o->momentum != 0) ? RONDE__ZERO_MOVES_STATE
                                                                          : RONDE__ZERO_MOVES_NONE;
}

int ronde__optim_n_states(const ronde__optim *optim) { return optim->n_states; }
size_t ronde__optim_elems(const ronde__optim *optim) { return optim->n; }

float *ronde__optim_state(ronde__optim *optim, int i, const char **name_out) {
  *name_out = optim->names[i];
  return optim->state[i];
}

int64_t ronde__optim_updates(const ronde__optim *optim) { return optim->n_updates; }
void ronde__optim_set_updates(ronde__optim *optim, int64_t n_updates) {
  optim->n_updates = n_updates;
  optim->looked = false;
}
