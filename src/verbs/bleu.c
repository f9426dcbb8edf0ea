/* Tokens of a pair of texts become numbers, equal where they are, and so do n-grams, each from the one in front of its last
 * token. Equal ones stand together in a sorted list, where they are counted. */
#include "verbs/bleu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- tokens ---- */

/* Of a text that is taken apart; each function appends what it makes of `in` to `out`, which has room. */
typedef struct bytes {
  char *at;
  int64_t n;
} bytes;

/* A byte grows to three at most where it is punctuation, and a point by two more on either side of it. */
enum { MOST_GROWTH = 8 };

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_point(char c) { return c == '.' || c == ','; }

/* ASCII's punctuation and blanks, but for apostrophe, comma, hyphen and point. */
static bool is_symbol(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
         (c >= ':' && c <= '@') || c == '/';
}

static void put(bytes *out, char c) { out->at[out->n++] = c; }

/* Every `from` becomes `to`. */
static void replace(bytes in, bytes *out, const char *from, const char *to) {
  size_t n_from = strlen(from), n_to = strlen(to);
  for (int64_t i = 0; i < in.n;) {
    if ((size_t)(in.n - i) >= n_from && !memcmp(in.at + i, from, n_from)) {
      memcpy(out->at + out->n, to, n_to);
      out->n += (int64_t)n_to;
      i += (int64_t)n_from;
    } else {
      put(out, in.at[i++]);
    }
  }
}

/* So that what stands at an end has neighbours. */
static void put_blanks_around(bytes in, bytes *out) {
  put(out, ' ');
  for (int64_t i = 0; i < in.n; i++) put(out, in.at[i]);
  put(out, ' ');
}

static void part_symbols(bytes in, bytes *out) {
  for (int64_t i = 0; i < in.n; i++) {
    bool parted = is_symbol(in.at[i]);
    if (parted) put(out, ' ');
    put(out, in.at[i]);
    if (parted) put(out, ' ');
  }
}

/* The next three replace pairs of bytes from left to right; a byte belongs to one pair. */
static void part_points_behind_words(bytes in, bytes *out) {
  for (int64_t i = 0; i < in.n; i++) {
    bool pair = i + 1 < in.n && !is_digit(in.at[i]) && is_point(in.at[i + 1]);
    put(out, in.at[i]);
    if (!pair) continue;
    put(out, ' ');
    put(out, in.at[++i]);
    put(out, ' ');
  }
}

static void part_points_before_words(bytes in, bytes *out) {
  for (int64_t i = 0; i < in.n; i++) {
    bool pair = i + 1 < in.n && is_point(in.at[i]) && !is_digit(in.at[i + 1]);
    if (pair) put(out, ' ');
    put(out, in.at[i]);
    if (!pair) continue;
    put(out, ' ');
    put(out, in.at[++i]);
  }
}

static void part_hyphens_behind_digits(bytes in, bytes *out) {
  for (int64_t i = 0; i < in.n; i++) {
    bool pair = i + 1 < in.n && is_digit(in.at[i]) && in.at[i + 1] == '-';
    put(out, in.at[i]);
    if (!pair) continue;
    put(out, ' ');
    put(out, in.at[++i]);
    put(out, ' ');
  }
}

/* Turn about, `text` and `other` are read and written; the result is in text. */
static void part_words(bytes *text, bytes *other) {
  static const char *const names[][2] = {
      {"<skipped>", ""}, {"&quot;", "\""}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}};
  static void (*const parts[])(bytes in, bytes * out) = {put_blanks_around, part_symbols, part_points_behind_words,
                                                         part_points_before_words, part_hyphens_behind_digits};
  for (size_t i = 0; i < RONDE__COUNT(names) + RONDE__COUNT(parts); i++) {
    bytes in = *text;
    other->n = 0;
    if (i < RONDE__COUNT(names)) replace(in, other, names[i][0], names[i][1]);
    else parts[i - RONDE__COUNT(names)](in, other);
    *text = *other;
    *other = in;
  }
}

/* The bytes of the character at `at`, and its number; of a byte that begins none, 1 and -1. */
static int64_t character(const char *at, int64_t n, int32_t *code_out) {
  static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  unsigned char c = (unsigned char)*at;
  int length = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
  int32_t code = length < 2 ? c : c & (0x7f >> length);
  for (int i = 1; i < length; i++) {
    if (i >= n || ((unsigned char)at[i] & 0xc0) != 0x80) return *code_out = -1, 1;
    code = code << 6 | ((unsigned char)at[i] & 0x3f);
  }
  bool is_one = length > 0 && code >= least[length] && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000);
  return *code_out = is_one ? code : -1, is_one ? length : 1;
}

/* Unicode's white space, as Python's str.split takes it. */
static bool is_blank(int32_t code) {
  return (code >= 9 && code <= 13) || (code >= 0x1c && code <= 0x20) || code == 0x85 || code == 0xa0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f ||
         code == 0x205f || code == 0x3000;
}

/* A token, and which one of the pair's it is. */
typedef struct word {
  const char *at;
  int64_t n, place;
} word;

/* between_blanks: a token is what lies between blanks; else each character. words [text.n]; their number. */
static int64_t find_words(bytes text, bool between_blanks, word *words) {
  int64_t n = 0, length;
  bool grows = false;
  for (int64_t i = 0; i < text.n; i += length) {
    int32_t code;
    length = character(text.at + i, text.n - i, &code);
    bool blank = is_blank(code);
    if (!blank && grows) words[n - 1].n += length;
    else if (!blank) words[n++] = (word){text.at + i, length, 0};
    grows = !blank && between_blanks;
  }
  return n;
}

/* ---- n-grams ---- */

/* What a number is made of: of one token its own, else those of the n-gram in front and of the last token. */
typedef struct gram {
  int32_t head, tail;
  int64_t place; /* of its first token */
} gram;

/* The tokens of a translation, then those of its reference. */
typedef struct pair {
  int64_t n_told, n;
  word *words;            /* [n], sorted */
  gram *grams;            /* [n], sorted */
  int32_t *tokens, *last; /* [n]: numbers of tokens, and of the n-grams that begin there */
} pair;

static int by_text(const void *a, const void *b) {
  const word *x = a, *y = b;
  int order = memcmp(x->at, y->at, (size_t)ronde__min(x->n, y->n));
  return order ? order : (x->n > y->n) - (x->n < y->n);
}

static int by_numbers(const void *a, const void *b) {
  const gram *x = a, *y = b;
  if (x->head != y->head) return x->head < y->head ? -1 : 1;
  return (x->tail > y->tail) - (x->tail < y->tail);
}

static void number_tokens(pair *p) {
  int32_t number = 0;
  for (int64_t i = 0; i < p->n; i++) p->words[i].place = i;
  qsort(p->words, (size_t)p->n, sizeof *p->words, by_text);
  for (int64_t i = 0; i < p->n; i++) {
    number += i > 0 && by_text(&p->words[i - 1], &p->words[i]) != 0;
    p->tokens[p->words[i].place] = number;
  }
  memset(p->last, 0, (size_t)p->n * sizeof *p->last);
}

/* From the numbers of n-grams one token shorter to those of `order` tokens, which are counted. */
static void count_order(pair *p, int order, ronde__bleu *sums) {
  int64_t n = 0, told = 0, wanted = 0;
  int32_t number = 0;
  for (int64_t i = 0; i < p->n; i++) {
    int64_t end = i < p->n_told ? p->n_told : p->n;
    if (i + order <= end) p->grams[n++] = (gram){p->last[i], p->tokens[i + order - 1], i};
  }
  qsort(p->grams, (size_t)n, sizeof *p->grams, by_numbers);
  for (int64_t i = 0; i < n; i++) {
    bool is_told = p->grams[i].place < p->n_told;
    told += is_told, wanted += !is_told;
    sums->n[order - 1] += is_told;
    p->last[p->grams[i].place] = number;
    if (i + 1 < n && by_numbers(&p->grams[i], &p->grams[i + 1]) == 0) continue;
    sums->matched[order - 1] += ronde__min(told, wanted);
    told = wanted = 0;
    number++;
  }
}

static ronde_status count_pair(pair *p, ronde__bleu *sums) {
  RONDE__ALLOC(p->grams, (size_t)ronde__max(p->n, 1) * (sizeof *p->grams + 2 * sizeof *p->tokens), "BLEU");
  p->tokens = (int32_t *)(p->grams + p->n);
  p->last = p->tokens + p->n;
  number_tokens(p);
  sums->n_told += p->n_told;
  sums->n_wanted += p->n - p->n_told;
  for (int order = 1; order <= RONDE__BLEU_ORDERS; order++) count_order(p, order, sums);
  ronde__free(p->grams);
  return RONDE_OK;
}

/* ---- a corpus ---- */

/* In memory for two texts of `room` bytes: from one to the other and back. */
static bytes take_apart(ronde__bleu_text text, int tokens, char *memory, int64_t room) {
  bytes at = {memory, text.n}, other = {memory + room, 0};
  memcpy(at.at, text.at, (size_t)text.n);
  if (tokens == RONDE__BLEU_13A) part_words(&at, &other);
  return at;
}

ronde_status ronde__bleu_add(ronde__bleu *sums, int tokens, ronde__bleu_text told, ronde__bleu_text wanted) {
  int64_t room = MOST_GROWTH * (ronde__max(told.n, wanted.n) + 2);
  char *memory;
  pair p = {0};
  RONDE__ALLOC(memory, (size_t)(4 * room), "BLEU");
  bytes a = take_apart(told, tokens, memory, room), b = take_apart(wanted, tokens, memory + 2 * room, room);
  p.words = ronde__alloc((size_t)(a.n + b.n + 1) * sizeof *p.words);
  ronde_status status = p.words ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "BLEU: no memory for the words of a text");
  if (status == RONDE_OK) {
    p.n_told = find_words(a, tokens == RONDE__BLEU_13A, p.words);
    p.n = p.n_told + find_words(b, tokens == RONDE__BLEU_13A, p.words + p.n_told);
    status = count_pair(&p, sums);
  }
  if (status == RONDE_OK) {
    sums->n_texts++;
    sums->n_exact += told.n == wanted.n && !memcmp(told.at, wanted.at, (size_t)told.n);
  }
  ronde__free(p.words);
  ronde__free(memory);
  return status;
}

void ronde__bleu_join(ronde__bleu *sums, const ronde__bleu *others) {
  sums->n_texts += others->n_texts;
  sums->n_exact += others->n_exact;
  sums->n_told += others->n_told;
  sums->n_wanted += others->n_wanted;
  for (int n = 0; n < RONDE__BLEU_ORDERS; n++) {
    sums->matched[n] += others->matched[n];
    sums->n[n] += others->n[n];
  }
}

double ronde__bleu_precision(const ronde__bleu *sums, int n) {
  return sums->n[n] ? 100 * (double)sums->matched[n] / (double)sums->n[n] : 0;
}

double ronde__bleu_brevity(const ronde__bleu *sums) {
  if (sums->n_told >= sums->n_wanted) return 1;
  return sums->n_told ? exp(1 - (double)sums->n_wanted / (double)sums->n_told) : 0;
}

double ronde__bleu_score(const ronde__bleu *sums) {
  double sum = 0;
  for (int n = 0; n < RONDE__BLEU_ORDERS; n++) sum += log(ronde__bleu_precision(sums, n)) / RONDE__BLEU_ORDERS;
  return ronde__bleu_brevity(sums) * exp(sum); /* of a precision of 0 the logarithm is -Inf, and this is 0 */
}

double ronde__bleu_exact(const ronde__bleu *sums) {
  return sums->n_texts ? (double)sums->n_exact / (double)sums->n_texts : 0;
}
