/* Learning a vocabulary. A text is its distinct words and how often each occurs; pairs of tokens are counted over these. What
 * a merge changes is counted anew, in the words that have its pair.
 * Source: Sennrich, Haddow & Birch, 2016, algorithm 1. */
#include "data/bpe.h"

#include "io/checksum.h"

#include <stdlib.h>
#include <string.h>

typedef struct word {
  const char *text;
  int64_t n_bytes, count;
  int32_t *tokens; /* [n] */
  int64_t n;
} word;

typedef struct pair {
  int32_t left, right;
  int64_t count;
} pair;

/* Words and pairs in the order in which they were met; each is found by open addressing, with 1 + its number in a slot. */
typedef struct learner {
  ronde__bpe *bpe;
  word *words;
  pair *pairs;
  int64_t n_words, n_pairs, words_room, pairs_room;
  int32_t *word_slots, *pair_slots; /* twice as many as there is room for */
  int32_t *tokens;                  /* of all words */
  ronde_status status;              /* the first failure: then nothing more is counted */
} learner;

enum { LEAST_ROOM = 1 << 12 };

/* ---- tables ---- */

static int32_t *word_slot(const learner *l, const char *text, int64_t n) {
  uint64_t mask = 2 * (uint64_t)l->words_room - 1;
  for (uint64_t at = ronde__checksum(text, (size_t)n);; ++at) {
    int32_t *slot = &l->word_slots[at & mask];
    if (*slot == 0) return slot;
    const word *w = &l->words[*slot - 1];
    if (w->n_bytes == n && !memcmp(w->text, text, (size_t)n)) return slot;
  }
}

static int32_t *pair_slot(const learner *l, int32_t left, int32_t right) {
  const int32_t key[] = {left, right};
  uint64_t mask = 2 * (uint64_t)l->pairs_room - 1;
  for (uint64_t at = ronde__checksum(key, sizeof key);; ++at) {
    int32_t *slot = &l->pair_slots[at & mask];
    if (*slot == 0) return slot;
    const pair *p = &l->pairs[*slot - 1];
    if (p->left == left && p->right == right) return slot;
  }
}

/* Both are NULL, or what they were. */
static bool grow(void *items, size_t item_bytes, int32_t **slots, int64_t *room) {
  int64_t n = *room ? 2 * *room : LEAST_ROOM;
  void *old, *grown;
  memcpy(&old, items, sizeof old);
  grown = n < INT32_MAX / 2 ? realloc(old, (size_t)n * item_bytes) : NULL;
  if (!grown) return false;
  memcpy(items, &grown, sizeof grown);
  int32_t *empty = calloc(2 * (size_t)n, sizeof *empty);
  if (!empty) return false;
  free(*slots);
  *slots = empty;
  *room = n;
  return true;
}

static void fail_memory(learner *l) {
  if (l->status == RONDE_OK) l->status = ronde__fail(RONDE_E_MEMORY, "vocabulary: no memory to learn it");
}

static void grow_words(learner *l) {
  if (!grow(&l->words, sizeof *l->words, &l->word_slots, &l->words_room)) return fail_memory(l);
  for (int32_t i = 0; i < l->n_words; ++i) *word_slot(l, l->words[i].text, l->words[i].n_bytes) = i + 1;
}

static void grow_pairs(learner *l) {
  if (!grow(&l->pairs, sizeof *l->pairs, &l->pair_slots, &l->pairs_room)) return fail_memory(l);
  for (int32_t i = 0; i < l->n_pairs; ++i) *pair_slot(l, l->pairs[i].left, l->pairs[i].right) = i + 1;
}

/* ---- counts ---- */

static void count_word(learner *l, const char *text, int64_t n) {
  if (l->n_words == l->words_room) grow_words(l);
  if (l->status != RONDE_OK) return;
  int32_t *slot = word_slot(l, text, n);
  if (*slot == 0) {
    l->words[l->n_words] = (word){.text = text, .n_bytes = n, .n = n};
    *slot = (int32_t)++l->n_words;
  }
  ++l->words[*slot - 1].count;
}

static void count_pair(learner *l, int32_t left, int32_t right, int64_t n) {
  if (l->n_pairs == l->pairs_room) grow_pairs(l);
  if (l->status != RONDE_OK) return;
  int32_t *slot = pair_slot(l, left, right);
  if (*slot == 0) {
    l->pairs[l->n_pairs] = (pair){left, right, 0};
    *slot = (int32_t)++l->n_pairs;
  }
  l->pairs[*slot - 1].count += n;
}

static void count_pairs(learner *l, const word *w, int64_t n) {
  for (int64_t i = 0; i + 1 < w->n; ++i) count_pair(l, w->tokens[i], w->tokens[i + 1], n);
}

static ronde_status count_text(learner *l, const char *text, int64_t n) {
  int64_t n_tokens = 0;
  for (int64_t at = 0, length; at < n && l->status == RONDE_OK; at += length) {
    length = ronde__bpe_word(text + at, n - at);
    count_word(l, text + at, length);
  }
  for (int64_t i = 0; i < l->n_words; ++i) n_tokens += l->words[i].n_bytes;
  RONDE_TRY(l->status);
  RONDE__ALLOC(l->tokens, (size_t)n_tokens * sizeof *l->tokens, "vocabulary");
  int32_t *tokens = l->tokens;
  for (int64_t i = 0; i < l->n_words; ++i) {
    word *w = &l->words[i];
    w->tokens = tokens;
    for (int64_t k = 0; k < w->n_bytes; ++k) *tokens++ = ronde__bpe_byte(l->bpe, w->text[k]);
    count_pairs(l, w, w->count);
  }
  return l->status;
}

/* ---- merges ---- */

/* NULL: none occurs twice. */
static const pair *best_pair(const learner *l) {
  const pair *best = NULL;
  for (int64_t i = 0; i < l->n_pairs; ++i) {
    const pair *p = &l->pairs[i];
    if (p->count < 2 || (best && p->count < best->count)) continue;
    bool first =
        !best || p->count > best->count || p->left < best->left || (p->left == best->left && p->right < best->right);
    if (first) best = p;
  }
  return best;
}

static bool has_pair(const word *w, int32_t left, int32_t right) {
  for (int64_t i = 0; i + 1 < w->n; ++i)
    if (w->tokens[i] == left && w->tokens[i + 1] == right) return true;
  return false;
}

static void merge_in(word *w, int32_t left, int32_t right, int32_t made) {
  int64_t n = 0;
  for (int64_t i = 0; i < w->n; ++n) {
    bool is_pair = i + 1 < w->n && w->tokens[i] == left && w->tokens[i + 1] == right;
    w->tokens[n] = is_pair ? made : w->tokens[i];
    i += 1 + is_pair;
  }
  w->n = n;
}

/* A pair may come back, where its tokens are made in another way than before: then its merge is there. */
static ronde_status merge_all(learner *l, pair p) {
  int32_t made = ronde__bpe_made(l->bpe, p.left, p.right);
  const char *why;
  ronde_status status = made < 0 ? ronde__bpe_merge(l->bpe, p.left, p.right, &made, &why) : RONDE_OK;
  if (status == RONDE_E_INPUT) return ronde__fail(status, "vocabulary: %s", why);
  RONDE_TRY(status);
  for (int64_t i = 0; i < l->n_words; ++i) {
    word *w = &l->words[i];
    if (!has_pair(w, p.left, p.right)) continue;
    count_pairs(l, w, -w->count);
    merge_in(w, p.left, p.right, made);
    count_pairs(l, w, w->count);
  }
  return l->status;
}

static ronde_status learn(learner *l, const char *text, int64_t n, int64_t size) {
  const pair *best;
  RONDE_TRY(ronde__bpe_create(&l->bpe));
  RONDE_TRY(count_text(l, text, n));
  while (ronde__bpe_size(l->bpe) < size && (best = best_pair(l))) RONDE_TRY(merge_all(l, *best));
  return RONDE_OK;
}

ronde_status ronde__bpe_learn(const char *text, int64_t n, int64_t size, ronde__bpe **bpe_out) {
  learner l = {.status = RONDE_OK};
  ronde_status status = learn(&l, text, n, size);
  free(l.words);
  free(l.pairs);
  free(l.word_slots);
  free(l.pair_slots);
  ronde__free(l.tokens);
  if (status == RONDE_OK) *bpe_out = l.bpe;
  else ronde__bpe_destroy(l.bpe);
  return status;
}
