/* Reading pairs of texts line by line. A line may be longer than anything that is kept of it: what does not fit is counted,
 * not stored. */
#include "data/pairs.h"

#include "data/columns.h"

#include <string.h>

#define MARK "\xEF\xBB\xBF" /* of UTF-8, at the beginning of a file */

enum { CHUNK = 1 << 16, TEXTS = 2, MARK_BYTES = 3 };

/* One of a line's two texts. */
typedef struct text {
  char *bytes;    /* [kept + 1] */
  int64_t length; /* of which as many are kept as fit */
} text;

struct ronde__pairs {
  ronde__stream *stream;
  int64_t window, kept; /* bytes of a text: those with a mark in front may fit as well */
  char *chunk;
  int64_t at, n; /* in the chunk */
  text texts[TEXTS];
  int64_t line, n_long;
};

ronde_status ronde__pairs_open(ronde__stream *stream, int64_t window, ronde__pairs **pairs_out) {
  ronde__pairs *p;
  size_t room = (size_t)window + MARK_BYTES + 1;
  RONDE__ALLOC(p, sizeof *p + CHUNK + TEXTS * room, ronde__stream_name(stream));
  *p = (ronde__pairs){.stream = stream, .window = window, .kept = window + MARK_BYTES, .chunk = (char *)(p + 1)};
  for (int i = 0; i < TEXTS; ++i) p->texts[i].bytes = p->chunk + CHUNK + (size_t)i * room;
  *pairs_out = p;
  return RONDE_OK;
}

void ronde__pairs_close(ronde__pairs *p) { ronde__free(p); }

int64_t ronde__pairs_n_long(const ronde__pairs *p) { return p->n_long; }

static ronde_status pairs_fail(const ronde__pairs *p, const char *reason) {
  return ronde__fail(RONDE_E_INPUT, "%s: line %lld: %s", ronde__stream_name(p->stream), (long long)p->line, reason);
}

/* The next byte; -1 at the end. */
static ronde_status next_byte(ronde__pairs *p, int *byte_out) {
  if (p->at == p->n) {
    p->at = 0;
    RONDE_TRY(ronde__stream_some(p->stream, p->chunk, CHUNK, &p->n));
  }
  *byte_out = p->n ? (unsigned char)p->chunk[p->at++] : -1;
  return RONDE_OK;
}

static void keep_byte(const ronde__pairs *p, text *t, int byte) {
  if (t->length < p->kept) t->bytes[t->length] = (char)byte;
  ++t->length;
}

/* n_tabs_out -1: there is no further line. */
static ronde_status read_line(ronde__pairs *p, int64_t *n_tabs_out) {
  int byte;
  int64_t n_tabs = 0;
  p->texts[0].length = p->texts[1].length = 0;
  RONDE_TRY(next_byte(p, &byte));
  if (byte < 0) return *n_tabs_out = -1, RONDE_OK;
  for (++p->line; byte >= 0 && byte != '\n';) {
    if (byte == 0) return pairs_fail(p, "a byte is zero, so it is no text");
    if (byte == '\t') ++n_tabs;
    else keep_byte(p, &p->texts[n_tabs > 0], byte);
    RONDE_TRY(next_byte(p, &byte));
  }
  *n_tabs_out = n_tabs;
  return RONDE_OK;
}

/* Lines may end as on Windows, and a file may begin with a mark of UTF-8. */
static void trim(const ronde__pairs *p, text *source, text *last) {
  if (last->length > 0 && last->length <= p->kept && last->bytes[last->length - 1] == '\r') --last->length;
  if (p->line != 1 || source->length < MARK_BYTES || memcmp(source->bytes, MARK, MARK_BYTES) != 0) return;
  memmove(source->bytes, source->bytes + MARK_BYTES, (size_t)(ronde__min(source->length, p->kept) - MARK_BYTES));
  source->length -= MARK_BYTES;
}

static ronde_status check_texts(const ronde__pairs *p) {
  static const char *const wrong[TEXTS] = {"the source is no text in UTF-8", "the target is no text in UTF-8"};
  for (int i = 0; i < TEXTS; ++i)
    if (!ronde__is_utf8(p->texts[i].bytes)) return pairs_fail(p, wrong[i]);
  return RONDE_OK;
}

ronde_status ronde__pairs_next(ronde__pairs *p, ronde__pair_of_texts *pair_out, bool *any_out) {
  text *source = &p->texts[0], *target = &p->texts[1];
  for (int64_t n_tabs = 0;;) {
    RONDE_TRY(read_line(p, &n_tabs));
    if (n_tabs < 0) return *any_out = false, RONDE_OK;
    trim(p, source, n_tabs ? target : source);
    if (n_tabs == 0 && source->length == 0) continue;
    if (n_tabs != 1) return pairs_fail(p, "a source and a target are needed, with one TAB between them");
    if (source->length == 0) return pairs_fail(p, "the source is empty");
    if (target->length == 0) return pairs_fail(p, "the target is empty");
    if (source->length < p->window && target->length < p->window) break;
    ++p->n_long;
  }
  source->bytes[source->length] = target->bytes[target->length] = '\0';
  RONDE_TRY(check_texts(p));
  *pair_out = (ronde__pair_of_texts){source->bytes, target->bytes, p->line};
  *any_out = true;
  return RONDE_OK;
}
