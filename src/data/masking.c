/* Which tokens are masked, and how. A share of each example, and not of the whole batch, is BERT's own way: every example
 * has something to tell, and how much is known before anything is drawn.
 * Sources: Devlin et al., "BERT: pre-training of deep bidirectional transformers for language understanding", 2019; Knuth,
 * "The art of computer programming", volume 2, algorithm S (selection sampling). */
#include "data/masking.h"

#include "base/rng.h"
#include "data/data.h"

#include <math.h>

int64_t ronde__masking_count(const ronde__masking *m, int64_t n) {
  if (n == 0) return 0;
  return ronde__min(n, ronde__max(1, (int64_t)llround(m->share * (double)n)));
}

/* Maps a random word to one of n, each equally likely up to n / 2^32. */
static int64_t masking_choose(uint32_t word, int64_t n) { return (int64_t)((uint64_t)word * (uint64_t)n >> 32); }

static int32_t masking_replace(const ronde__masking *m, const uint32_t words[4], int32_t token) {
  int64_t tenth = masking_choose(words[1], 10);
  if (tenth < 8) return m->token;
  return tenth == 8 ? (int32_t)masking_choose(words[2], m->n_drawn) : token;
}

void ronde__masking_apply(const ronde__masking *m, int64_t epoch, int64_t id, int64_t n, int32_t *x, int64_t *labels) {
  int64_t left = 0;
  for (int64_t i = 0; i < n; ++i) left += labels[i] >= 0;
  int64_t wanted = ronde__masking_count(m, left);
  for (int64_t i = 0; i < n; ++i) {
    uint32_t words[4];
    if (labels[i] < 0) continue;
    ronde__philox(epoch ? m->seed : 0, RONDE__STREAM_MASKS | (uint32_t)epoch, (uint64_t)(id * n + i), words);
    bool drawn = masking_choose(words[0], left--) < wanted;
    labels[i] = drawn ? x[i] : RONDE_IGNORED;
    if (!drawn) continue;
    --wanted;
    x[i] = masking_replace(m, words, x[i]);
  }
}

/* From how many labels of each example count to how many tokens of it are to be told. */
static ronde_status masking_count_labels(ronde__data *data, ronde_split split) {
  const ronde_source *source = &data->source;
  int64_t n = source->n_examples[split];
  bool all = !data->counted[split];
  if (n == 0) return RONDE_OK;
  if (all) RONDE__ALLOC(data->counted[split], (size_t)n * sizeof **data->counted, source->name);
  int32_t *counted = data->counted[split];
  for (int64_t i = 0; i < n; ++i)
    counted[i] = (int32_t)ronde__masking_count(&data->masking, all ? source->label_elems : counted[i]);
  return RONDE_OK;
}

ronde_status ronde__data_mask(ronde__data *data, double share, int64_t token, int64_t classes, uint64_t seed) {
  ronde_source *source = &data->source;
  if (!source->vocabulary || source->label_elems != ronde__source_elems(source))
    return ronde__fail(RONDE_E_USAGE, "--mask: %s holds no sequences of tokens with a label for each", source->name);
  if (token == 0) token = source->vocabulary;
  int64_t vocabulary = ronde__max(ronde__max(source->vocabulary, token + 1), classes);
  if (vocabulary > INT32_MAX) return ronde__fail(RONDE_E_USAGE, "--mask-token %lld: it is too large", (long long)token);
  source->vocabulary = source->classes = vocabulary;
  int64_t n_drawn = token == vocabulary - 1 ? token : vocabulary;
  data->masking = (ronde__masking){share, (int32_t)token, n_drawn, seed};
  data->augments = true;
  RONDE_TRY(masking_count_labels(data, RONDE_SPLIT_TRAIN));
  return masking_count_labels(data, RONDE_SPLIT_TEST);
}
