/* Decoded examples in memory: where they lie, how they are decoded, and their hash. */
#include "data/store.h"

#include "data/columns.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ITEM_ALIGNMENT 64

static bool layout_append(int64_t *total, int64_t count, int64_t item_bytes, int64_t *begin_out) {
  int64_t bytes, end;
  if (__builtin_mul_overflow(count, item_bytes, &bytes) || __builtin_add_overflow(*total, bytes, &end) ||
      end > INT64_MAX - ITEM_ALIGNMENT)
    return false;
  *begin_out = *total;
  *total = ronde__round_up(end, ITEM_ALIGNMENT);
  return true;
}

/* Of an example's labels, or of its targets; below 0: more than can be counted. */
static int64_t answer_bytes(const ronde__facts *facts) {
  int64_t bytes;
  int64_t labels = ronde__facts_labels(facts), item = labels ? (int64_t)sizeof(int64_t) : (int64_t)sizeof(float);
  return __builtin_mul_overflow(labels ? labels : facts->target_elems, item, &bytes) ? -1 : bytes;
}

bool ronde__store_layout_make(const ronde__facts *facts, int64_t front_bytes, const bool want[2],
                              ronde__store_layout *layout_out) {
  int64_t elems = facts->f32 ? (int64_t)sizeof(float) : 1;
  for (int d = 0; d < 3; ++d)
    if (facts->dims[d] < 1 || __builtin_mul_overflow(elems, facts->dims[d], &elems)) return false;
  ronde__store_layout layout = {.bytes = front_bytes};
  int64_t answer = answer_bytes(facts);
  if (answer < 0) return false;
  for (int split = 0; split < 2; ++split) {
    int64_t n = want[split] ? facts->n[split] : 0;
    if (n < 0 || !layout_append(&layout.bytes, n, elems, &layout.x[split]) ||
        !layout_append(&layout.bytes, n, answer, &layout.answers[split]))
      return false;
  }
  if (facts->note_bytes < 0 || !layout_append(&layout.bytes, facts->note_bytes, 1, &layout.note)) return false;
  *layout_out = layout;
  return true;
}

static bool store_hash_split(const ronde__facts *facts, const char *base, const ronde__store_layout *layout, int split,
                             char text[65]) {
  size_t x_bytes = (size_t)(facts->n[split] * ronde__facts_elems(facts)) * (facts->f32 ? sizeof(float) : 1);
  uint8_t digest[EVP_MAX_MD_SIZE];
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  bool ok = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) &&
            EVP_DigestUpdate(context, base + layout->x[split], x_bytes) &&
            EVP_DigestUpdate(context, base + layout->answers[split], (size_t)(facts->n[split] * answer_bytes(facts))) &&
            EVP_DigestFinal_ex(context, digest, NULL);
  EVP_MD_CTX_free(context);
  for (int i = 0; ok && i < 32; ++i) snprintf(text + 2 * i, 3, "%02x", digest[i]);
  return ok;
}

/* What scan has found out of the columns. */
static ronde_status store_write_note(const ronde__set *set, const ronde__facts *facts, char *note) {
  if (facts->note_bytes == 0) return RONDE_OK;
  char *text = ronde__columns_text(set->columns, true);
  bool same = text && (int64_t)strlen(text) + 1 == facts->note_bytes;
  if (same) memcpy(note, text, (size_t)facts->note_bytes);
  free(text);
  return same ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "%s: no memory for its columns", set->name);
}

static bool is_one_hot(const float *targets, int64_t n) {
  int64_t n_ones = 0, n_zeros = 0;
  for (int64_t k = 0; k < n; ++k) {
    n_ones += targets[k] == 1;
    n_zeros += targets[k] == 0;
  }
  return n > 1 && n_ones == 1 && n_zeros == n - 1;
}

ronde_status ronde__store_fill(const ronde__set *set, const ronde__store_layout *layout, const bool want[2], bool hash,
                               char *base, ronde__facts *facts, char sha256[2][65]) {
  int64_t largest = 0, largest_token = 0, n_beyond = 0, n_one_hot = 0, n_targets = facts->target_elems;
  for (int split = 0; split < 2; ++split) {
    if (!want[split] || facts->n[split] == 0) continue;
    void *answers = base + layout->answers[split];
    int64_t *labels = facts->target_elems ? NULL : answers;
    RONDE_TRY(set->kind->fill(set, facts, split, base + layout->x[split], labels, labels ? NULL : answers));
    const float *targets = answers;
    for (int64_t i = 0; i < facts->n[split] * n_targets; ++i) n_beyond += targets[i] < 0 || targets[i] > 1;
    for (int64_t i = 0; n_targets && i < facts->n[split]; ++i)
      n_one_hot += is_one_hot(targets + i * n_targets, n_targets);
    for (int64_t i = 0; labels && i < facts->n[split] * ronde__facts_labels(facts); ++i)
      largest = ronde__max(largest, labels[i]);
    const int32_t *tokens = (const int32_t *)(const void *)(base + layout->x[split]);
    for (int64_t i = 0; facts->are_tokens && facts->f32 && i < facts->n[split] * ronde__facts_elems(facts); ++i)
      largest_token = ronde__max(largest_token, tokens[i]);
    if (hash && !store_hash_split(facts, base, layout, split, sha256[split]))
      return ronde__fail(RONDE_E_INTERNAL, "%s: cannot compute SHA-256", set->name);
  }
  RONDE_TRY(store_write_note(set, facts, base + layout->note));
  facts->largest_label = largest;
  facts->largest_token = facts->f32 ? largest_token : UINT8_MAX;
  facts->n_beyond_unit = n_beyond;
  facts->n_one_hot = n_one_hot;
  return RONDE_OK;
}

void ronde__store_point(ronde__store *store, const ronde__store_layout *layout, const bool want[2]) {
  const char *base = store->base;
  if (store->facts.note_bytes) store->note = base + layout->note;
  for (int split = 0; split < 2; ++split) {
    if (!want[split] || store->facts.n[split] == 0) continue;
    store->x[split] = base + layout->x[split];
    const void *answers = base + layout->answers[split];
    if (store->facts.target_elems) store->targets[split] = answers;
    else store->labels[split] = answers;
  }
}

ronde_status ronde__store_decode(const ronde__set *set, const ronde__facts *facts, const bool want[2], bool hash,
                                 ronde__store *store_out) {
  ronde__store store = {.facts = *facts};
  ronde__store_layout layout;
  int64_t machine_bytes = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  if (!ronde__store_layout_make(facts, 0, want, &layout) || layout.bytes > machine_bytes)
    return ronde__fail(RONDE_E_MEMORY, "%s: %lld + %lld images of %lldx%lldx%lld do not fit in memory", set->name,
                       (long long)facts->n[0], (long long)facts->n[1], (long long)facts->dims[0],
                       (long long)facts->dims[1], (long long)facts->dims[2]);
  store.bytes = (size_t)layout.bytes;
  store.base = ronde__pages_map(store.bytes);
  if (!store.base) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for %zu bytes of images", set->name, store.bytes);
  ronde_status status = ronde__store_fill(set, &layout, want, hash, store.base, &store.facts, store.sha256);
  if (status != RONDE_OK) {
    ronde__store_close(&store);
    return status;
  }
  ronde__store_point(&store, &layout, want);
  *store_out = store;
  return RONDE_OK;
}

void ronde__store_close(ronde__store *store) {
  if (store->base) munmap(store->base, store->bytes);
  ronde__lease_drop(store->lease);
  *store = (ronde__store){.base = NULL};
}
