/* NumPy's array file: magic, version, length of the header, a Python dict literal with 'descr', 'fortran_order' and
 * 'shape', then the items. Source: numpy.lib.format, versions 1.0 to 3.0. */
#include "data/set.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_MAX (1 << 20) /* of the dict; real ones have about 120 bytes */
#define FRONT_MAX (12 + HEADER_MAX)

/* ---- the dict --------------------------------------------------------------------------------------------------- */

typedef struct npy_cursor {
  const char *at, *end;
} npy_cursor;

static void npy_skip_spaces(npy_cursor *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t')) ++c->at;
}

static bool npy_accept(npy_cursor *c, const char *text) {
  npy_skip_spaces(c);
  size_t n = strlen(text);
  if ((size_t)(c->end - c->at) < n || memcmp(c->at, text, n)) return false;
  c->at += n;
  return true;
}

/* A comma, or the closing bracket ahead. */
static bool npy_accept_separator(npy_cursor *c, char closing) {
  if (npy_accept(c, ",")) return true;
  return c->at < c->end && *c->at == closing;
}

static bool npy_parse_string(npy_cursor *c, char *text, size_t size) {
  npy_skip_spaces(c);
  if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return false;
  char quote = *c->at++;
  size_t used = 0;
  for (; c->at < c->end && *c->at != quote; ++c->at) {
    if (used + 1 >= size) return false;
    text[used++] = *c->at;
  }
  if (c->at == c->end) return false;
  ++c->at;
  text[used] = '\0';
  return true;
}

static bool npy_parse_integer(npy_cursor *c, int64_t *value_out) {
  npy_skip_spaces(c);
  int64_t value = 0;
  const char *begin = c->at;
  for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; ++c->at)
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *c->at - '0', &value)) return false;
  if (c->at == begin) return false;
  npy_accept(c, "L"); /* written by Python 2 */
  *value_out = value;
  return true;
}

static bool npy_parse_shape(npy_cursor *c, ronde__npy *npy) {
  if (!npy_accept(c, "(")) return false;
  npy->rank = 0;
  while (!npy_accept(c, ")")) {
    if (npy->rank == RONDE_MAX_RANK || !npy_parse_integer(c, &npy->dim[npy->rank])) return false;
    ++npy->rank;
    if (!npy_accept_separator(c, ')')) return false;
  }
  return true;
}

typedef struct npy_dict {
  char descr[16];
  bool fortran, has_descr, has_order, has_shape;
} npy_dict;

static const char *npy_parse_value(npy_cursor *c, const char *key, npy_dict *d, ronde__npy *npy) {
  if (!strcmp(key, "descr")) {
    d->has_descr = true;
    if (npy_accept(c, "[")) return "a structured array; one plain type is needed";
    return npy_parse_string(c, d->descr, sizeof d->descr) ? NULL : "cannot read 'descr' of the header";
  }
  if (!strcmp(key, "fortran_order")) {
    d->has_order = true;
    d->fortran = npy_accept(c, "True");
    return d->fortran || npy_accept(c, "False") ? NULL : "cannot read 'fortran_order' of the header";
  }
  if (!strcmp(key, "shape")) {
    d->has_shape = true;
    return npy_parse_shape(c, npy) ? NULL : "cannot read 'shape' of the header";
  }
  return "an unknown key in the header";
}

/* NULL, or what is wrong. */
static const char *npy_parse_dict(const char *text, size_t bytes, npy_dict *d, ronde__npy *npy) {
  npy_cursor c = {text, text + bytes};
  if (!npy_accept(&c, "{")) return "the header is not a dict";
  while (!npy_accept(&c, "}")) {
    char key[16];
    if (!npy_parse_string(&c, key, sizeof key) || !npy_accept(&c, ":")) return "cannot read the header's dict";
    const char *wrong = npy_parse_value(&c, key, d, npy);
    if (wrong) return wrong;
    if (!npy_accept_separator(&c, '}')) return "cannot read the header's dict";
  }
  npy_skip_spaces(&c);
  if (c.at != c.end) return "something follows the header's dict";
  return d->has_descr && d->has_order && d->has_shape ? NULL : "the header lacks 'descr', 'fortran_order' or 'shape'";
}

static const char *npy_parse_type(const char *descr, ronde__npy *npy) {
  char order = descr[0];
  npy->type = order ? descr[1] : '\0';
  npy->item_bytes = npy->type && descr[2] >= '1' && descr[2] <= '8' && !descr[3] ? descr[2] - '0' : 0;
  bool known = strchr("fiu", npy->type) && npy->type &&
               (npy->item_bytes == 1 || npy->item_bytes == 2 || npy->item_bytes == 4 || npy->item_bytes == 8);
  if (!known || !strchr("<>|=", order)) return "only plain integers and floats are supported";
  if (npy->item_bytes > 1 && order == '>') return "big-endian; save it as little-endian";
  return NULL;
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

static ronde_status npy_read_dict(ronde__stream *stream, int64_t held, ronde__npy *npy) {
  const char *name = ronde__stream_name(stream);
  uint8_t fixed[12];
  RONDE_TRY(ronde__stream_read(stream, fixed, 10));
  if (memcmp(fixed, "\x93NUMPY", 6)) return ronde__fail(RONDE_E_INPUT, "%s: offset 0: not a npy file", name);
  int major = fixed[6];
  if (major < 1 || major > 3)
    return ronde__fail(RONDE_E_INPUT, "%s: offset 6: npy version %d.%d; 1.0 to 3.0 are supported", name, major,
                       fixed[7]);
  int64_t length = fixed[8] | fixed[9] << 8;
  if (major > 1) {
    RONDE_TRY(ronde__stream_read(stream, fixed + 10, 2));
    length |= (int64_t)fixed[10] << 16 | (int64_t)fixed[11] << 24;
  }
  int64_t begin = ronde__stream_offset(stream);
  if (length > HEADER_MAX)
    return ronde__fail(RONDE_E_INPUT, "%s: offset 8: the header claims to have %lld bytes; at most %d are supported",
                       name, (long long)length, HEADER_MAX);
  if (length > held - begin)
    return ronde__fail(RONDE_E_INPUT, "%s: offset 8: the header claims to have %lld bytes, but only %lld bytes follow",
                       name, (long long)length, (long long)(held - begin));
  char *text;
  RONDE__ALLOC(text, (size_t)length + 1, name);
  ronde_status status = ronde__stream_read(stream, text, length);
  npy_dict d = {.fortran = false};
  const char *wrong = status == RONDE_OK ? npy_parse_dict(text, (size_t)length, &d, npy) : NULL;
  ronde__free(text);
  RONDE_TRY(status);
  npy->data_offset = begin + length;
  if (wrong) return ronde__fail(RONDE_E_INPUT, "%s: offset %lld: %s", name, (long long)begin, wrong);
  if (d.fortran)
    return ronde__fail(RONDE_E_INPUT, "%s: offset %lld: Fortran order; save it in C order", name, (long long)begin);
  wrong = npy_parse_type(d.descr, npy);
  if (wrong)
    return ronde__fail(RONDE_E_INPUT, "%s: offset %lld: type '%s': %s", name, (long long)begin, d.descr, wrong);
  return RONDE_OK;
}

ronde_status ronde__npy_scan(ronde__stream *stream, ronde__npy *npy_out) {
  const char *name = ronde__stream_name(stream);
  ronde__npy npy = {0};
  int64_t held, claimed;
  RONDE_TRY(ronde__stream_measure(stream, FRONT_MAX, &held));
  RONDE_TRY(npy_read_dict(stream, held, &npy));
  npy.n_items = 1;
  bool countable = true;
  for (int d = 0; d < npy.rank; ++d) {
    if (npy.dim[d] == 0) return ronde__fail(RONDE_E_INPUT, "%s: shape: dimension %d is 0", name, d);
    countable = countable && !__builtin_mul_overflow(npy.n_items, npy.dim[d], &npy.n_items);
  }
  countable = countable && !__builtin_mul_overflow(npy.n_items, npy.item_bytes, &claimed);
  if (!countable || claimed > INT64_MAX - npy.data_offset - 1)
    return ronde__fail(RONDE_E_INPUT, "%s: shape: more items than can be counted", name);
  RONDE_TRY(ronde__stream_measure(stream, npy.data_offset + claimed + 1, &held));
  held -= npy.data_offset;
  if (claimed > held)
    return ronde__fail(RONDE_E_INPUT, "%s: offset %lld: the shape needs %lld bytes, but %lld follow the header", name,
                       (long long)npy.data_offset, (long long)claimed, (long long)held);
  if (claimed < held)
    return ronde__fail(RONDE_E_INPUT, "%s: offset %lld: the shape needs %lld bytes, but the file is longer", name,
                       (long long)(npy.data_offset + claimed), (long long)claimed);
  *npy_out = npy;
  return RONDE_OK;
}

ronde_status ronde__npy_begin(ronde__stream *stream, const ronde__npy *npy) {
  ronde__npy now;
  RONDE_TRY(ronde__npy_scan(stream, &now));
  bool same = now.type == npy->type && now.item_bytes == npy->item_bytes && now.rank == npy->rank &&
              !memcmp(now.dim, npy->dim, sizeof now.dim);
  if (!same)
    return ronde__fail(RONDE_E_INPUT, "%s: offset 0: the file changed while it was in use", ronde__stream_name(stream));
  for (int64_t left = now.data_offset; left > 0;) {
    char front[4096];
    int64_t n = ronde__min(left, (int64_t)sizeof front);
    RONDE_TRY(ronde__stream_read(stream, front, n));
    left -= n;
  }
  return RONDE_OK;
}

static ronde_status npy_refuse_item(ronde__stream *stream, const ronde__npy *npy, int64_t i, float value) {
  return ronde__fail(RONDE_E_INPUT, "%s: offset %lld: element %lld is %s", ronde__stream_name(stream),
                     (long long)(npy->data_offset + npy->item_bytes * i), (long long)i,
                     isnan(value) ? "NaN" : "infinite");
}

ronde_status ronde__npy_take(ronde__stream *stream, const ronde__npy *npy, int64_t first, int64_t n, void *to) {
  RONDE_TRY(ronde__stream_read(stream, to, n * npy->item_bytes));
  const float *x = to;
  for (int64_t i = 0; npy->type == 'f' && i < n; ++i)
    if (!isfinite(x[i])) return npy_refuse_item(stream, npy, first + i, x[i]);
  return RONDE_OK;
}

ronde_status ronde__npy_take_f32(ronde__stream *stream, const ronde__npy *npy, int64_t first, int64_t n, float *to) {
  if (npy->item_bytes == 4) return ronde__npy_take(stream, npy, first, n, to);
  double chunk[512];
  for (int64_t i = 0; i < n; ++i) {
    int64_t within = i % (int64_t)RONDE__COUNT(chunk);
    int64_t n_chunk = ronde__min((int64_t)RONDE__COUNT(chunk), n - i);
    if (within == 0) RONDE_TRY(ronde__stream_read(stream, chunk, n_chunk * npy->item_bytes));
    to[i] = (float)chunk[within];
    if (!isfinite(to[i])) return npy_refuse_item(stream, npy, first + i, to[i]);
  }
  return RONDE_OK;
}

ronde_status ronde__npy_read_f32(ronde__stream *stream, const ronde__npy *npy, float *to) {
  RONDE_TRY(ronde__npy_begin(stream, npy));
  RONDE_TRY(ronde__npy_take_f32(stream, npy, 0, npy->n_items, to));
  return ronde__stream_end(stream);
}

/* Little-endian, of 1, 2, 4 or 8 bytes; a u64 beyond i64 becomes negative, which no label may be. */
static int64_t npy_integer_at(const uint8_t *at, int bytes, bool is_signed) {
  uint64_t value = 0;
  memcpy(&value, at, (size_t)bytes);
  if (is_signed && bytes < 8 && value >> (8 * bytes - 1)) value |= ~0ull << (8 * bytes);
  return (int64_t)value;
}

/* Each item to `take`, which says whether it may be. */
static ronde_status npy_read_integers(ronde__stream *stream, const ronde__npy *npy, const char *what,
                                      bool (*take)(void *to, int64_t i, int64_t value), void *to) {
  RONDE_TRY(ronde__npy_begin(stream, npy));
  uint8_t chunk[4096];
  int64_t in_chunk = (int64_t)sizeof chunk / npy->item_bytes;
  for (int64_t i = 0; i < npy->n_items; ++i) {
    int64_t within = i % in_chunk;
    if (within == 0)
      RONDE_TRY(ronde__stream_read(stream, chunk, ronde__min(in_chunk, npy->n_items - i) * npy->item_bytes));
    int64_t value = npy_integer_at(chunk + within * npy->item_bytes, npy->item_bytes, npy->type == 'i');
    if (!take(to, i, value)) {
      int64_t per_example = npy->rank ? npy->n_items / npy->dim[0] : 1;
      return ronde__fail(RONDE_E_INPUT, "%s: offset %lld: %s %lld of example %lld is not within 0..%d",
                         ronde__stream_name(stream), (long long)(npy->data_offset + i * npy->item_bytes), what,
                         (long long)value, (long long)(i / per_example), RONDE__LABEL_MAX);
    }
  }
  return ronde__stream_end(stream);
}

static bool take_label(void *to, int64_t i, int64_t value) {
  ((int64_t *)to)[i] = value;
  return value >= 0 && value <= RONDE__LABEL_MAX;
}

static bool take_label_or_none(void *to, int64_t i, int64_t value) {
  bool is_ignored = value == RONDE_IGNORED || value == -100;
  ((int64_t *)to)[i] = is_ignored ? RONDE_IGNORED : value;
  return is_ignored || (value >= 0 && value <= RONDE__LABEL_MAX);
}

static bool take_token(void *to, int64_t i, int64_t value) {
  ((int32_t *)to)[i] = (int32_t)value;
  return value >= 0 && value <= RONDE__LABEL_MAX;
}

ronde_status ronde__npy_read_labels(ronde__stream *stream, const ronde__npy *npy, int64_t *labels) {
  return npy_read_integers(stream, npy, "label", take_label, labels);
}

ronde_status ronde__npy_read_sequences(ronde__stream *stream, const ronde__npy *npy, int64_t *labels) {
  return npy_read_integers(stream, npy, "label", take_label_or_none, labels);
}

ronde_status ronde__npy_read_tokens(ronde__stream *stream, const ronde__npy *npy, int32_t *tokens) {
  return npy_read_integers(stream, npy, "token", take_token, tokens);
}
