/* What a source says of its examples, checked: shapes of its inputs, and that tokens are in their vocabulary. */
#include "data/source.h"

#include <string.h>

static int64_t elems_of(int rank, const int64_t *dims) {
  int64_t elems = 1;
  for (int d = 0; d < rank; ++d) elems *= dims[d];
  return elems;
}

int64_t ronde__source_elems(const ronde_source *source) {
  int64_t elems = elems_of(source->rank, source->dims);
  for (int i = 0; i < source->n_more; ++i) elems += elems_of(source->more[i].rank, source->more[i].dims);
  return elems;
}

/* One input's tokens of an example. vocabulary 0: it is values. */
static ronde_status check_tokens(const ronde_source *source, int64_t id, int64_t vocabulary, int64_t n,
                                 const float *x) {
  for (int64_t i = 0; i < n && vocabulary; ++i) {
    int32_t token;
    memcpy(&token, x + i, sizeof token);
    if (token < 0 || token >= vocabulary)
      return ronde__fail(RONDE_E_INPUT, "%s: token %d of example %lld is not within the %lld of the vocabulary",
                         source->name, token, (long long)id, (long long)vocabulary);
  }
  return RONDE_OK;
}

ronde_status ronde__source_check_row(const ronde_source *source, int64_t id, const float *x) {
  int64_t n = elems_of(source->rank, source->dims);
  RONDE_TRY(check_tokens(source, id, source->vocabulary, n, x));
  for (int i = 0; i < source->n_more; ++i) {
    x += n;
    n = elems_of(source->more[i].rank, source->more[i].dims);
    RONDE_TRY(check_tokens(source, id, source->more[i].vocabulary, n, x));
  }
  return RONDE_OK;
}

/* NULL, or what is wrong with the shape of an input. elems: of all inputs in front of it; its own are added. */
static const char *wrong_shape(int rank, const int64_t *dims, int64_t *elems) {
  int64_t own = 1;
  if (rank < 1 || rank > RONDE_MAX_RANK) return "its rank must lie in 1..6";
  for (int d = 0; d < rank; ++d)
    if (dims[d] < 1 || __builtin_mul_overflow(own, dims[d], &own)) return "its dims must be positive";
  return __builtin_add_overflow(*elems, own, elems) ? "its dims are too large" : NULL;
}

static const char *wrong_inputs(const ronde_source *source) {
  int64_t elems = 0;
  const char *wrong = wrong_shape(source->rank, source->dims, &elems);
  if (!wrong && (source->n_more < 0 || source->n_more >= RONDE_MAX_INPUTS)) wrong = "it has too many inputs";
  for (int i = 0; !wrong && i < source->n_more; ++i) {
    const ronde_source_input *more = &source->more[i];
    const char *allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    wrong = wrong_shape(more->rank, more->dims, &elems);
    if (ronde__is_empty(more->name) || more->name[strspn(more->name, allowed)] ||
        strlen(more->name) >= RONDE__INPUT_NAME_BYTES)
      wrong = "an input's name has 1 to 63 letters, digits, underscores, dots and hyphens";
    if (more->vocabulary < 0 || more->vocabulary > INT32_MAX) wrong = "a vocabulary is too large";
  }
  return wrong;
}

const char *ronde__source_wrong(const ronde_source *source) {
  const char *wrong = wrong_inputs(source);
  if (!wrong && source->n_examples[RONDE_SPLIT_TRAIN] < 0) wrong = "n_examples must not be negative";
  if (!wrong && source->n_examples[RONDE_SPLIT_TEST] < 0) wrong = "n_examples must not be negative";
  if (!wrong && (source->classes < 0 || (source->classes == 0 && source->target_elems < 1)))
    wrong = "it needs classes, or target_elems where classes is 0";
  if (!wrong && (source->label_elems < 0 || (source->label_elems && !source->classes)))
    wrong = "label_elems are of labels, and need classes";
  if (!wrong && (source->vocabulary < 0 || source->vocabulary > INT32_MAX)) wrong = "its vocabulary is too large";
  if (!wrong && !source->read) wrong = "it needs a read function";
  return wrong;
}
