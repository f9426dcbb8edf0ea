/* Which examples a run trains on, in which order, and which it holds out for validation. All are functions of the
 * options. */
#include "base/rng.h"
#include "data/by_length.h"
#include "data/data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ronde__sampler {
  ronde__sampler_options options;
  int64_t n_kept, n_validation;
  int64_t n_list;      /* kept examples, repeated */
  int64_t *kept;       /* [n_kept], ascending; NULL: all */
  int64_t *validation; /* [n_validation], ascending */
};

static ronde_status sampler_check(const ronde__sampler_options *o) {
  if (o->n_train < 1) return ronde__fail(RONDE_E_INPUT, "the data set has no training examples");
  if (o->batch < 1) return ronde__fail(RONDE_E_USAGE, "batch %lld: at least 1 is needed", (long long)o->batch);
  if (o->repeat < 1) return ronde__fail(RONDE_E_USAGE, "repeat %lld: at least 1 is needed", (long long)o->repeat);
  if (!(o->val_split >= 0 && o->val_split < 1))
    return ronde__fail(RONDE_E_USAGE, "val-split %g: a fraction of at least 0 and below 1 is needed", o->val_split);
  if (o->n_drawn < 0 || o->n_drawn > o->n_train)
    return ronde__fail(RONDE_E_USAGE, "train-examples %lld: the data set has %lld training examples",
                       (long long)o->n_drawn, (long long)o->n_train);
  return RONDE_OK;
}

/* How many of a class are kept out. */
typedef struct class_quota {
  int64_t label, n;    /* n: examples of it */
  int64_t quota, left; /* left: not drawn yet */
  int64_t rest;        /* what the quota lacks of the exact proportion, times n_train */
} class_quota;

/* Which class gives one more example first: one that keeps some to train on, then the one whose quota lacks most. */
static int most_lacking_first(const void *a, const void *b) {
  const class_quota *x = a, *y = b;
  bool x_empties = x->quota + 1 >= x->n, y_empties = y->quota + 1 >= y->n;
  if (x_empties != y_empties) return x_empties ? 1 : -1;
  if (x->rest != y->rest) return x->rest < y->rest ? 1 : -1;
  return (x->label > y->label) - (x->label < y->label);
}

static int quotas_by_label(const void *a, const void *b) {
  const class_quota *x = a, *y = b;
  return (x->label > y->label) - (x->label < y->label);
}

/* Quotas that add up to n_validation, by the method of largest remainders (Hamilton, 1792); [*n_out], to be freed. */
static ronde_status sampler_set_quotas(const ronde__sampler *s, class_quota **quotas_out, int64_t *n_out) {
  const ronde__sampler_options *o = &s->options;
  int64_t n = 0, given = 0;
  for (int64_t i = 0; i < o->n_train && o->labels; ++i) n = ronde__max(n, o->labels[i]);
  ++n; /* without labels all are of one class */
  class_quota *quotas;
  RONDE__ALLOC(quotas, (size_t)n * sizeof *quotas, "sampler");
  for (int64_t k = 0; k < n; ++k) quotas[k].label = k;
  for (int64_t i = 0; i < o->n_train; ++i) ++quotas[o->labels ? o->labels[i] : 0].n;
  for (int64_t k = 0; k < n; ++k) {
    unsigned __int128 exact = (unsigned __int128)quotas[k].n * (uint64_t)s->n_validation;
    quotas[k].quota = (int64_t)(exact / (uint64_t)o->n_train);
    quotas[k].rest = (int64_t)(exact % (uint64_t)o->n_train);
    given += quotas[k].quota;
  }
  qsort(quotas, (size_t)n, sizeof *quotas, most_lacking_first);
  for (int64_t k = 0; k < n && given < s->n_validation; ++k)
    if (quotas[k].quota < quotas[k].n) ++quotas[k].quota, ++given;
  qsort(quotas, (size_t)n, sizeof *quotas, quotas_by_label);
  for (int64_t k = 0; k < n; ++k) quotas[k].left = quotas[k].quota;
  *quotas_out = quotas;
  *n_out = n;
  return RONDE_OK;
}

/* Marks what the seed draws of each class, then deals the ids out, both lists ascending. */
static ronde_status sampler_split_off(ronde__sampler *s) {
  const ronde__sampler_options *o = &s->options;
  int64_t n = o->n_train, n_quotas;
  RONDE__ALLOC(s->kept, (size_t)s->n_kept * sizeof *s->kept, "sampler");
  RONDE__ALLOC(s->validation, (size_t)s->n_validation * sizeof *s->validation, "sampler");
  class_quota *quotas = NULL;
  int64_t *order;
  bool *drawn;
  RONDE_TRY(sampler_set_quotas(s, &quotas, &n_quotas));
  order = ronde__alloc((size_t)n * (sizeof *order + sizeof *drawn));
  if (!order) {
    ronde__free(quotas);
    return ronde__fail(RONDE_E_MEMORY, "sampler: no memory for the order of %lld examples", (long long)n);
  }
  drawn = (bool *)(order + n);
  ronde__rng rng = ronde__rng_make(o->seed, RONDE__STREAM_VALIDATION);
  ronde__rng_permutation(&rng, order, n);
  for (int64_t i = 0; i < n; ++i) {
    class_quota *of = &quotas[o->labels ? o->labels[order[i]] : 0];
    drawn[order[i]] = of->left > 0;
    of->left -= of->left > 0;
  }
  int64_t n_kept = 0, n_validation = 0;
  for (int64_t id = 0; id < n; ++id) {
    if (drawn[id]) s->validation[n_validation++] = id;
    else s->kept[n_kept++] = id;
  }
  ronde__free(quotas);
  ronde__free(order);
  return RONDE_OK;
}

ronde_status ronde__sampler_create(const ronde__sampler_options *o, ronde__sampler **sampler_out) {
  RONDE_TRY(sampler_check(o));
  /* The margin lets 0.29 of 100 be 29, whose product in doubles lies just below. */
  int64_t n_validation =
      o->n_drawn ? o->n_train - o->n_drawn : (int64_t)floor(o->val_split * (double)o->n_train + 1e-6);
  int64_t n_kept = o->n_train - n_validation, n_list;
  if (__builtin_mul_overflow(n_kept, o->repeat, &n_list))
    return ronde__fail(RONDE_E_USAGE, "repeat %lld: more examples than can be counted", (long long)o->repeat);
  if (o->batch > n_list)
    return ronde__fail(RONDE_E_USAGE, "batch %lld is larger than the data: %lld training examples%s",
                       (long long)o->batch, (long long)n_list,
                       n_validation && !o->n_drawn ? " are left after the validation examples are kept out" : "");
  ronde__sampler *s;
  RONDE__ALLOC(s, sizeof *s, "sampler");
  *s = (ronde__sampler){.options = *o, .n_kept = n_kept, .n_validation = n_validation, .n_list = n_list};
  ronde_status status = n_validation ? sampler_split_off(s) : RONDE_OK;
  s->options.labels = NULL;
  if (o->n_drawn) s->n_validation = 0; /* nobody looks at what was not drawn */
  if (status == RONDE_OK) *sampler_out = s;
  else ronde__sampler_destroy(s);
  return status;
}

void ronde__sampler_destroy(ronde__sampler *s) {
  if (!s) return;
  ronde__free(s->kept);
  ronde__free(s->validation);
  ronde__free(s);
}

int64_t ronde__sampler_epoch_examples(const ronde__sampler *s) {
  return s->options.drop_last ? s->n_list / s->options.batch * s->options.batch : s->n_list;
}

int64_t ronde__sampler_epoch_batches(const ronde__sampler *s) {
  return ronde__ceil_div(ronde__sampler_epoch_examples(s), s->options.batch);
}

int64_t ronde__sampler_batch(const ronde__sampler *s) { return s->options.batch; }

const int64_t *ronde__sampler_validation(const ronde__sampler *s, int64_t *n_out) {
  *n_out = s->n_validation;
  return s->validation;
}

static int64_t sampler_id_at(const ronde__sampler *s, int64_t place) {
  int64_t i = place % s->n_kept;
  return s->kept ? s->kept[i] : i;
}

ronde_status ronde__sampler_epoch(const ronde__sampler *s, int64_t epoch, int64_t *ids_out) {
  int64_t n = ronde__sampler_epoch_examples(s);
  if (!s->options.shuffle) {
    for (int64_t i = 0; i < n; ++i) ids_out[i] = sampler_id_at(s, i);
    return RONDE_OK;
  }
  /* The examples that are dropped with a short last batch are the last of the whole order. */
  int64_t *order = ids_out;
  if (n < s->n_list) RONDE__ALLOC(order, (size_t)s->n_list * sizeof *order, "sampler");
  ronde__rng rng = ronde__rng_make(s->options.seed, RONDE__STREAM_SHUFFLE | (uint32_t)epoch);
  ronde__rng_permutation(&rng, order, s->n_list);
  for (int64_t i = 0; i < n; ++i) ids_out[i] = sampler_id_at(s, order[i]);
  if (order != ids_out) ronde__free(order);
  const ronde__sampler_options *o = &s->options;
  return o->lengths ? ronde__order_by_length(o->lengths, o->batch, o->seed, epoch, ids_out, n) : RONDE_OK;
}
