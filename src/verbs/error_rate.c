/* Word and character error rates: the fewest insertions, deletions and replacements that make the reference of what was told,
 * by the words and characters of all references. Source: Levenshtein, "Binary codes capable of correcting deletions, insertions,
 * and reversals", 1966. */
#include "verbs/error_rate.h"

#include "verbs/transcribe.h"

#include <stdlib.h>
#include <string.h>

/* ---- texts ---- */

/* A word, or a character. */
typedef struct piece {
  const char *at;
  size_t bytes;
} piece;

typedef struct pieces {
  piece *at; /* [n] */
  int64_t n;
} pieces;

static bool same_piece(const piece *a, const piece *b) {
  return a->bytes == b->bytes && !memcmp(a->at, b->at, a->bytes);
}

/* room [strlen(text)] */
static pieces cut_words(const char *text, piece *room) {
  pieces words = {room, 0};
  for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
    size_t n = strcspn(text, " ");
    words.at[words.n++] = (piece){text, n};
    text += n;
  }
  return words;
}

static size_t bytes_of_character(const char *text) {
  size_t n = 1;
  while (((unsigned char)text[n] & 0xc0) == 0x80) n++;
  return n;
}

static pieces cut_characters(const char *text, piece *room) {
  pieces characters = {room, 0};
  const char *end = text + strlen(text);
  while (*text == ' ') text++;
  while (end > text && end[-1] == ' ') end--;
  for (size_t n; text < end; text += n) {
    n = bytes_of_character(text);
    characters.at[characters.n++] = (piece){text, n};
  }
  return characters;
}

/* row [b.n + 1]: distances of a's first pieces from b's first ones. */
static int64_t distance(pieces a, pieces b, int64_t *row) {
  for (int64_t j = 0; j <= b.n; j++) row[j] = j;
  for (int64_t i = 0; i < a.n; i++) {
    int64_t corner = row[0];
    row[0] = i + 1;
    for (int64_t j = 0; j < b.n; j++) {
      int64_t replaced = corner + !same_piece(&a.at[i], &b.at[j]);
      corner = row[j + 1];
      row[j + 1] = ronde__min(replaced, ronde__min(corner, row[j]) + 1);
    }
  }
  return row[b.n];
}

ronde_status ronde__error_counts_add(ronde__error_counts *counts, const char *reference, const char *told) {
  size_t n = strlen(reference) + 1, m = strlen(told) + 1;
  piece *room;
  int64_t *row;
  RONDE__ALLOC(room, (n + m) * sizeof *room + m * sizeof *row, "error rates");
  row = (int64_t *)(room + n + m);
  pieces a = cut_words(reference, room), b = cut_words(told, room + n);
  counts->words += a.n;
  counts->word_errors += distance(a, b, row);
  a = cut_characters(reference, room), b = cut_characters(told, room + n);
  counts->characters += a.n;
  counts->character_errors += distance(a, b, row);
  ronde__free(room);
  return RONDE_OK;
}

/* ---- examples ---- */

struct ronde__listener {
  ronde__alphabet alphabet;
  ronde__error_counts counts;
  ronde__steps_of steps;
  int64_t row, n_labels;
  int64_t *labels; /* [steps] */
  char *reference, *told;
};

static const char *name_of_class(const void *user, int64_t k) { return ronde__data_class_name(user, k); }

ronde_status ronde__listener_create(const ronde__job *job, const ronde_graph *graph, ronde__listener **listener_out) {
  ronde__listener *l;
  const ronde__shape *shape = &graph->tensors[graph->output]->shape;
  if (ronde__data_class_names(job->data) == 0)
    return ronde__fail(RONDE_E_USAGE, "%s: its classes have no names, so it has no texts", job->data->source.name);
  RONDE__ALLOC(l, sizeof *l, "error rates");
  *l = (ronde__listener){.alphabet = {name_of_class, job->data},
                         .steps = {job->shape.dim[2], shape->dim[0], shape->dim[1]},
                         .row = ronde__source_elems(&job->data->source),
                         .n_labels = ronde__source_labels(&job->data->source)};
  int64_t most = ronde__max(l->steps.steps, l->n_labels);
  size_t bytes = ronde__alphabet_bytes(&l->alphabet, most);
  l->labels = ronde__alloc((size_t)most * sizeof *l->labels);
  l->reference = ronde__alloc(bytes);
  l->told = ronde__alloc(bytes);
  if (l->labels && l->reference && l->told) return *listener_out = l, RONDE_OK;
  ronde__listener_destroy(l);
  return ronde__fail(RONDE_E_MEMORY, "error rates: no memory for texts of %zu bytes", bytes);
}

void ronde__listener_destroy(ronde__listener *l) {
  if (!l) return;
  ronde__free(l->labels);
  ronde__free(l->reference);
  ronde__free(l->told);
  ronde__free(l);
}

int64_t ronde__listener_outputs(const ronde__listener *l) { return l->steps.steps * l->steps.classes; }

ronde_status ronde__listener_hear(void *user, int64_t n, const float *x, const float *outputs, const int64_t *labels) {
  ronde__listener *l = user;
  for (int64_t i = 0; i < n; i++) {
    const int64_t *own = labels + i * l->n_labels;
    int64_t n_own = 0;
    while (n_own < l->n_labels && own[n_own] >= 0) n_own++;
    ronde__alphabet_text(&l->alphabet, own, n_own, l->reference);
    int64_t n_told =
        ronde__ctc_greedy(&l->steps, x[(i + 1) * l->row - 1], outputs + i * ronde__listener_outputs(l), l->labels);
    ronde__alphabet_text(&l->alphabet, l->labels, n_told, l->told);
    RONDE_TRY(ronde__error_counts_add(&l->counts, l->reference, l->told));
  }
  return RONDE_OK;
}

const ronde__error_counts *ronde__listener_counts(const ronde__listener *l) { return &l->counts; }

void ronde__error_counts_join(ronde__error_counts *counts, const ronde__error_counts *others) {
  counts->words += others->words;
  counts->word_errors += others->word_errors;
  counts->characters += others->characters;
  counts->character_errors += others->character_errors;
}

void ronde__error_rates_tell(const ronde__error_counts *counts, json_t *result) {
  json_object_set_new(result, "wer", json_real((double)counts->word_errors / (double)ronde__max(1, counts->words)));
  json_object_set_new(result, "cer",
                      json_real((double)counts->character_errors / (double)ronde__max(1, counts->characters)));
  json_object_set_new(result, "words", json_integer(counts->words));
  json_object_set_new(result, "characters", json_integer(counts->characters));
}
