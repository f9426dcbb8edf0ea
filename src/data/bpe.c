/* A vocabulary in memory: tables from texts to tokens and from pairs of tokens to merges; files; the cut of a text. */
#include "data/bpe.h"

#include "io/checksum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct token {
  int64_t at, n; /* of the bytes */
} token;

typedef struct merge {
  int32_t left, right, made;
} merge;

/* Open addressing, with 1 + a number in each slot that is taken. */
typedef struct table {
  int32_t *slots;
  uint64_t n; /* a power of two, at least twice what it holds */
} table;

enum { BYTES = RONDE__BPE_BYTES, LEAST_ROOM = 1024, MOST_MERGES = 1000000 - BYTES };

struct ronde__bpe {
  token *tokens; /* [room + 256] */
  merge *merges; /* [room] */
  char *bytes;   /* [bytes_room] */
  int64_t n_tokens, n_merges, n_bytes, room, bytes_room;
  table texts, pairs;
  int code[BYTES];     /* of the character that a byte is written as, */
  int32_t byte[BYTES]; /* and its token */
};

/* ---- tables ---- */

/* The slot of a text, or the free one where it belongs. */
static int32_t *text_slot(const ronde__bpe *b, const char *text, int64_t n) {
  for (uint64_t at = ronde__checksum(text, (size_t)n);; ++at) {
    int32_t *slot = &b->texts.slots[at & (b->texts.n - 1)];
    if (*slot == 0) return slot;
    const token *t = &b->tokens[*slot - 1];
    if (t->n == n && !memcmp(b->bytes + t->at, text, (size_t)n)) return slot;
  }
}

static int32_t *pair_slot(const ronde__bpe *b, int32_t left, int32_t right) {
  const int32_t pair[] = {left, right};
  for (uint64_t at = ronde__checksum(pair, sizeof pair);; ++at) {
    int32_t *slot = &b->pairs.slots[at & (b->pairs.n - 1)];
    if (*slot == 0) return slot;
    const merge *m = &b->merges[*slot - 1];
    if (m->left == left && m->right == right) return slot;
  }
}

/* ---- memory ---- */

static ronde_status no_memory(void) { return ronde__fail(RONDE_E_MEMORY, "vocabulary: no memory"); }

static bool make_table(table *t, int64_t most) {
  uint64_t n = 1;
  while (n < 2 * (uint64_t)most) n *= 2;
  int32_t *slots = calloc(n, sizeof *slots);
  if (!slots) return false;
  free(t->slots);
  *t = (table){slots, n};
  return true;
}

/* Tables are made anew, for that many merges. */
static ronde_status make_room(ronde__bpe *b, int64_t room) {
  token *tokens = realloc(b->tokens, (size_t)(room + BYTES) * sizeof *tokens);
  if (tokens) b->tokens = tokens;
  merge *merges = realloc(b->merges, (size_t)room * sizeof *merges);
  if (merges) b->merges = merges;
  if (!tokens || !merges || !make_table(&b->texts, room + BYTES) || !make_table(&b->pairs, room)) return no_memory();
  b->room = room;
  for (int32_t i = 0; i < b->n_tokens; ++i) *text_slot(b, b->bytes + b->tokens[i].at, b->tokens[i].n) = i + 1;
  for (int32_t i = 0; i < b->n_merges; ++i) *pair_slot(b, b->merges[i].left, b->merges[i].right) = i + 1;
  return RONDE_OK;
}

static ronde_status make_bytes(ronde__bpe *b, int64_t n) {
  if (b->n_bytes + n <= b->bytes_room) return RONDE_OK;
  int64_t room = 2 * b->bytes_room + LEAST_ROOM;
  char *bytes = realloc(b->bytes, (size_t)room);
  if (!bytes) return no_memory();
  b->bytes = bytes;
  b->bytes_room = room;
  return RONDE_OK;
}

void ronde__bpe_destroy(ronde__bpe *b) {
  if (!b) return;
  free(b->tokens);
  free(b->merges);
  free(b->bytes);
  free(b->texts.slots);
  free(b->pairs.slots);
  ronde__free(b);
}

/* ---- tokens ---- */

static bool is_visible(int byte) { return (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173); }

/* There is room for its bytes. */
static void add_token(ronde__bpe *b, const char *text, int64_t n) {
  memmove(b->bytes + b->n_bytes, text, (size_t)n);
  b->tokens[b->n_tokens] = (token){b->n_bytes, n};
  int32_t *slot = text_slot(b, text, n);
  *slot = (int32_t)++b->n_tokens;
  b->n_bytes += n;
}

ronde_status ronde__bpe_create(ronde__bpe **bpe_out) {
  ronde__bpe *b;
  RONDE__ALLOC(b, sizeof *b, "vocabulary");
  *b = (ronde__bpe){.n_tokens = 0};
  ronde_status status = make_room(b, LEAST_ROOM);
  if (status == RONDE_OK) status = make_bytes(b, BYTES);
  int code = BYTES;
  for (int pass = 0; pass < 2 && status == RONDE_OK; ++pass)
    for (int byte = 0; byte < BYTES; ++byte) {
      const char text = (char)byte;
      if (is_visible(byte) != (pass == 0)) continue;
      b->code[byte] = pass == 0 ? byte : code++;
      b->byte[byte] = (int32_t)b->n_tokens;
      add_token(b, &text, 1);
    }
  if (status == RONDE_OK) *bpe_out = b;
  else ronde__bpe_destroy(b);
  return status;
}

int64_t ronde__bpe_size(const ronde__bpe *b) { return b->n_tokens; }
int32_t ronde__bpe_byte(const ronde__bpe *b, char byte) { return b->byte[(unsigned char)byte]; }

const char *ronde__bpe_token(const ronde__bpe *b, int64_t i, int64_t *n_out) {
  *n_out = b->tokens[i].n;
  return b->bytes + b->tokens[i].at;
}

ronde_status ronde__bpe_merge(ronde__bpe *b, int32_t left, int32_t right, int32_t *made_out, const char **why_out) {
  char text[2 * RONDE__BPE_WORD];
  int64_t n_left = b->tokens[left].n, n = n_left + b->tokens[right].n;
  *why_out = n > RONDE__BPE_WORD          ? "the token that it makes is longer than a word may be"
             : *pair_slot(b, left, right) ? "these two tokens were merged before"
             : b->n_merges == MOST_MERGES ? "there are too many merges"
                                          : NULL;
  if (*why_out) return RONDE_E_INPUT;
  if (b->n_merges == b->room) RONDE_TRY(make_room(b, 2 * b->room));
  RONDE_TRY(make_bytes(b, n));
  memcpy(text, b->bytes + b->tokens[left].at, (size_t)n_left);
  memcpy(text + n_left, b->bytes + b->tokens[right].at, (size_t)(n - n_left));
  if (*text_slot(b, text, n) == 0) add_token(b, text, n);
  *made_out = *text_slot(b, text, n) - 1;
  int32_t *slot = pair_slot(b, left, right);
  b->merges[b->n_merges] = (merge){left, right, *made_out};
  *slot = (int32_t)++b->n_merges;
  return RONDE_OK;
}

int32_t ronde__bpe_made(const ronde__bpe *b, int32_t left, int32_t right) {
  int32_t slot = *pair_slot(b, left, right);
  return slot ? b->merges[slot - 1].made : -1;
}

/* ---- the cut ---- */

typedef enum kind { BLANK, LETTER, DIGIT, OTHER } kind;

static kind kind_of(char c) {
  if (c == ' ' || (c >= '\t' && c <= '\r')) return BLANK;
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80) return LETTER;
  return c >= '0' && c <= '9' ? DIGIT : OTHER;
}

int64_t ronde__bpe_word(const char *text, int64_t n) {
  int64_t begin = text[0] == ' ' && n > 1 && kind_of(text[1]) != BLANK, end = begin + 1;
  kind of = kind_of(text[begin]);
  while (end < n && kind_of(text[end]) == of) ++end;
  /* The last blank belongs to what follows it. */
  if (of == BLANK && end < n && end > 1) --end;
  return ronde__min(end, RONDE__BPE_WORD);
}

/* Merges the tokens of a word, one pair at a time; how many are left. */
static int64_t merge_word(const ronde__bpe *b, int32_t *tokens, int64_t n) {
  for (;;) {
    int32_t first = INT32_MAX;
    int64_t at = 0;
    for (int64_t i = 0; i + 1 < n; ++i) {
      int32_t found = *pair_slot(b, tokens[i], tokens[i + 1]);
      if (found && found < first) first = found, at = i;
    }
    if (first == INT32_MAX) return n;
    tokens[at] = b->merges[first - 1].made;
    memmove(tokens + at + 1, tokens + at + 2, (size_t)(--n - at - 1) * sizeof *tokens);
  }
}

int64_t ronde__bpe_encode(const ronde__bpe *b, const char *text, int64_t n, int32_t *tokens_out) {
  int64_t n_tokens = 0;
  for (int64_t at = 0, length; at < n; at += length) {
    int32_t *word = tokens_out + n_tokens;
    length = ronde__bpe_word(text + at, n - at);
    for (int64_t i = 0; i < length; ++i) word[i] = ronde__bpe_byte(b, text[at + i]);
    n_tokens += merge_word(b, word, length);
  }
  return n_tokens;
}

/* ---- files ---- */

#define VERSION "#version"

/* A byte is written as one character of U+0000 to U+01FF. */
static int64_t write_byte(const ronde__bpe *b, char byte, char *out) {
  int code = b->code[(unsigned char)byte];
  if (code < 0x80) return *out = (char)code, 1;
  out[0] = (char)(0xc0 | code >> 6), out[1] = (char)(0x80 | (code & 0x3f));
  return 2;
}

static int64_t write_token(const ronde__bpe *b, int32_t i, char *out) {
  int64_t n = 0;
  for (int64_t k = 0; k < b->tokens[i].n; ++k) n += write_byte(b, b->bytes[b->tokens[i].at + k], out + n);
  return n;
}

char *ronde__bpe_text(const ronde__bpe *b) {
  int64_t n = sizeof VERSION ": 0.2\n";
  for (int64_t i = 0; i < b->n_merges; ++i)
    n += 2 * (b->tokens[b->merges[i].left].n + b->tokens[b->merges[i].right].n) + 2;
  char *text = malloc((size_t)n);
  if (!text) return NULL;
  n = sprintf(text, VERSION ": 0.2\n");
  for (int64_t i = 0; i < b->n_merges; ++i) {
    n += write_token(b, b->merges[i].left, text + n);
    text[n++] = ' ';
    n += write_token(b, b->merges[i].right, text + n);
    text[n++] = '\n';
  }
  text[n] = '\0';
  return text;
}

/* A file on its way. */
typedef struct reader {
  ronde__bpe *bpe;
  ronde__stream *stream;
  char chunk[4096], line[4 * RONDE__BPE_WORD + 3]; /* two tokens, a blank, and an end as on Windows */
  int64_t at, n_chunk, n, number;                  /* of the line: its bytes, from 1 */
  int byte_of[2 * BYTES];                          /* of a character; -1: none */
} reader;

static ronde_status reader_fail(const reader *r, const char *why) {
  return ronde__fail(RONDE_E_INPUT, "%s: line %lld: %s", ronde__stream_name(r->stream), (long long)r->number, why);
}

/* any_out false: there is no further line. */
static ronde_status read_line(reader *r, bool *any_out) {
  r->n = 0;
  *any_out = false;
  ++r->number;
  for (;;) {
    if (r->at == r->n_chunk) {
      r->at = 0;
      RONDE_TRY(ronde__stream_some(r->stream, r->chunk, sizeof r->chunk, &r->n_chunk));
      if (r->n_chunk == 0) break;
    }
    *any_out = true;
    char c = r->chunk[r->at++];
    if (c == '\n') break;
    if (r->n == (int64_t)sizeof r->line) return reader_fail(r, "it is longer than a merge can be");
    r->line[r->n++] = c;
  }
  if (r->n > 0 && r->line[r->n - 1] == '\r') --r->n;
  return RONDE_OK;
}

/* The token that n bytes of the line mean; RONDE_E_INPUT: there is none. */
static ronde_status read_token(const reader *r, const char *from, int64_t n, int32_t *token_out) {
  char text[RONDE__BPE_WORD + 1];
  int64_t length = 0;
  for (int64_t i = 0; i < n; ++i) {
    unsigned char c = (unsigned char)from[i], next = i + 1 < n ? (unsigned char)from[i + 1] : 0;
    bool is_two = c >= 0xc2 && c < 0xc8 && (next & 0xc0) == 0x80;
    int byte = c < 0x80 ? r->byte_of[c] : is_two ? r->byte_of[(c & 0x1f) << 6 | (next & 0x3f)] : -1;
    if (byte < 0) return reader_fail(r, "a character stands for no byte, in the way of GPT-2's merges.txt");
    i += is_two;
    if (length < (int64_t)sizeof text) text[length++] = (char)byte; /* no token is as long as that */
  }
  int32_t slot = *text_slot(r->bpe, text, length);
  *token_out = slot - 1;
  return slot ? RONDE_OK : reader_fail(r, "a token is neither a byte nor made by a merge above");
}

static ronde_status read_merge(const reader *r) {
  int32_t left, right, made;
  const char *why, *blank = memchr(r->line, ' ', (size_t)r->n);
  int64_t n = blank ? blank - r->line : 0;
  if (n == 0 || n + 1 == r->n || memchr(blank + 1, ' ', (size_t)(r->n - n - 1)))
    return reader_fail(r, "two tokens are needed, with one blank between them");
  RONDE_TRY(read_token(r, r->line, n, &left));
  RONDE_TRY(read_token(r, blank + 1, r->n - n - 1, &right));
  ronde_status status = ronde__bpe_merge(r->bpe, left, right, &made, &why);
  return status == RONDE_E_INPUT ? reader_fail(r, why) : status;
}

static ronde_status read_lines(reader *r) {
  bool any;
  for (;;) {
    RONDE_TRY(read_line(r, &any));
    if (!any) return RONDE_OK;
    bool is_front = r->number == 1 && r->n >= (int64_t)strlen(VERSION) && !memcmp(r->line, VERSION, strlen(VERSION));
    if (!is_front && r->n > 0) RONDE_TRY(read_merge(r));
  }
}

ronde_status ronde__bpe_read(ronde__stream *stream, ronde__bpe **bpe_out) {
  reader r = {.stream = stream};
  RONDE_TRY(ronde__bpe_create(&r.bpe));
  memset(r.byte_of, -1, sizeof r.byte_of);
  for (int byte = 0; byte < BYTES; ++byte) r.byte_of[r.bpe->code[byte]] = byte;
  ronde_status status = read_lines(&r);
  if (status == RONDE_OK) *bpe_out = r.bpe;
  else ronde__bpe_destroy(r.bpe);
  return status;
}
