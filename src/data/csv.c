/* Comma-separated text: fields may be quoted, and quoted ones hold commas, line ends and doubled quotes. Lines end with
 * LF, CRLF or CR; the last one need not. Source: RFC 4180. */
#include "data/csv.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 64 << 10, END = -1 };

struct ronde__csv {
  ronde__stream *stream;
  uint8_t *chunk; /* [CHUNK], of which n are read, and `at` taken */
  int64_t n, at;
  bool is_last; /* the stream ends with the chunk */
  int64_t line; /* of the next byte */
  bool after_cr;
  int64_t empty_line; /* the first one since the last record; 0: none */
  char *text;         /* of the record: fields with a 0 behind each */
  size_t used, room;
  ronde__csv_field *field; /* [field_room] */
  size_t *begin;           /* [field_room] in text */
  int64_t n_fields, field_room;
};

ronde_status ronde__csv_open(ronde__stream *stream, ronde__csv **csv_out) {
  ronde__csv *csv;
  RONDE_TRY(ronde__stream_rewind(stream));
  RONDE__ALLOC(csv, sizeof *csv + CHUNK, ronde__stream_name(stream));
  csv->chunk = (uint8_t *)(csv + 1);
  csv->stream = stream;
  csv->line = 1;
  *csv_out = csv;
  return RONDE_OK;
}

void ronde__csv_close(ronde__csv *csv) {
  if (!csv) return;
  free(csv->text);
  free(csv->field);
  free(csv->begin);
  ronde__free(csv);
}

/* ---- bytes ---- */

static ronde_status csv_fail(const ronde__csv *csv, const char *reason) {
  return ronde__fail(RONDE_E_INPUT, "%s: line %lld, column %lld: %s", ronde__stream_name(csv->stream),
                     (long long)csv->line, (long long)csv->n_fields + 1, reason);
}

static ronde_status csv_refill(ronde__csv *csv) {
  static const uint8_t mark[] = {0xef, 0xbb, 0xbf}; /* what some programs write in front of UTF-8 */
  bool is_first = ronde__stream_offset(csv->stream) == 0;
  csv->at = 0;
  RONDE_TRY(ronde__stream_some(csv->stream, csv->chunk, CHUNK, &csv->n));
  csv->is_last = csv->n < CHUNK;
  if (is_first && csv->n >= 3 && !memcmp(csv->chunk, mark, sizeof mark)) csv->at = 3;
  return RONDE_OK;
}

/* The next byte, which remains the next one, or END. */
static ronde_status csv_peek(ronde__csv *csv, int *byte_out) {
  if (csv->at == csv->n && !csv->is_last) RONDE_TRY(csv_refill(csv));
  *byte_out = csv->at < csv->n ? csv->chunk[csv->at] : END;
  return RONDE_OK;
}

/* Takes the byte that was peeked at. */
static void csv_take(ronde__csv *csv) {
  uint8_t byte = csv->chunk[csv->at++];
  csv->line += byte == '\r' || (byte == '\n' && !csv->after_cr);
  csv->after_cr = byte == '\r';
}

static ronde_status csv_keep(ronde__csv *csv, char byte) {
  if (csv->used == csv->room) {
    size_t room = csv->room ? 2 * csv->room : 4096;
    char *text = csv->used < RONDE__CSV_RECORD_MAX ? realloc(csv->text, room) : NULL;
    if (csv->used >= RONDE__CSV_RECORD_MAX) return csv_fail(csv, "the record has more than 16777216 bytes");
    if (!text) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for a record", ronde__stream_name(csv->stream));
    csv->text = text;
    csv->room = room;
  }
  csv->text[csv->used++] = byte;
  return RONDE_OK;
}

/* ---- fields ---- */

static bool is_blank(int byte) { return byte == ' ' || byte == '\t'; }
static bool ends_field(int byte) { return byte == ',' || byte == '\n' || byte == '\r' || byte == END; }

static ronde_status csv_skip_blanks(ronde__csv *csv, int *byte_out) {
  RONDE_TRY(csv_peek(csv, byte_out));
  while (is_blank(*byte_out)) {
    csv_take(csv);
    RONDE_TRY(csv_peek(csv, byte_out));
  }
  return RONDE_OK;
}

static ronde_status csv_keep_text(ronde__csv *csv, size_t begin, int byte) {
  if (byte == 0) return csv_fail(csv, "a zero byte: this is not text in UTF-8");
  if (csv->used - begin >= RONDE__CSV_FIELD_MAX)
    return csv_fail(csv, "the field has more than 1048576 bytes; is a quote not closed?");
  return csv_keep(csv, (char)byte);
}

/* What follows the opening quote, up to what ends the field. */
static ronde_status csv_read_quoted(ronde__csv *csv, size_t begin, int64_t line) {
  for (int byte;;) {
    RONDE_TRY(csv_peek(csv, &byte));
    if (byte == END) {
      csv->line = line;
      return csv_fail(csv, "the quote that opens the field is never closed");
    }
    csv_take(csv);
    if (byte == '"') {
      RONDE_TRY(csv_peek(csv, &byte));
      if (byte != '"') break;
      csv_take(csv);
    }
    RONDE_TRY(csv_keep_text(csv, begin, byte));
  }
  int next;
  RONDE_TRY(csv_skip_blanks(csv, &next));
  return ends_field(next) ? RONDE_OK : csv_fail(csv, "text follows the closing quote; a quote within is doubled");
}

static ronde_status csv_read_plain(ronde__csv *csv, size_t begin) {
  for (int byte;;) {
    RONDE_TRY(csv_peek(csv, &byte));
    if (ends_field(byte)) break;
    if (byte == '"') return csv_fail(csv, "a quote within a field that is not quoted");
    RONDE_TRY(csv_keep_text(csv, begin, byte));
    csv_take(csv);
  }
  while (csv->used > begin && is_blank(csv->text[csv->used - 1])) csv->used--;
  return RONDE_OK;
}

static ronde_status csv_make_room(ronde__csv *csv) {
  if (csv->n_fields < csv->field_room) return RONDE_OK;
  if (csv->n_fields == RONDE__CSV_FIELDS_MAX) return csv_fail(csv, "there are more than 65536 columns");
  int64_t room = csv->field_room ? 2 * csv->field_room : 32;
  ronde__csv_field *fields = realloc(csv->field, (size_t)room * sizeof *fields);
  if (fields) csv->field = fields;
  size_t *begins = realloc(csv->begin, (size_t)room * sizeof *begins);
  if (begins) csv->begin = begins;
  if (!fields || !begins)
    return ronde__fail(RONDE_E_MEMORY, "%s: no memory for a record", ronde__stream_name(csv->stream));
  csv->field_room = room;
  return RONDE_OK;
}

static ronde_status csv_read_field(ronde__csv *csv) {
  int byte;
  size_t begin = csv->used;
  RONDE_TRY(csv_make_room(csv));
  RONDE_TRY(csv_skip_blanks(csv, &byte));
  int64_t line = csv->line;
  bool quoted = byte == '"';
  if (quoted) csv_take(csv);
  RONDE_TRY(quoted ? csv_read_quoted(csv, begin, line) : csv_read_plain(csv, begin));
  csv->begin[csv->n_fields] = begin;
  csv->field[csv->n_fields] = (ronde__csv_field){.n = csv->used - begin, .line = line, .quoted = quoted};
  RONDE_TRY(csv_keep(csv, '\0'));
  csv->n_fields++;
  return RONDE_OK;
}

/* ---- records ---- */

/* Fields up to the end of the line, which is taken too. */
static ronde_status csv_read_record(ronde__csv *csv) {
  int byte;
  csv->used = 0;
  csv->n_fields = 0;
  for (bool more = true; more;) {
    RONDE_TRY(csv_read_field(csv));
    RONDE_TRY(csv_peek(csv, &byte));
    more = byte == ',';
    if (byte != END) csv_take(csv);
  }
  if (byte != '\r') return RONDE_OK;
  RONDE_TRY(csv_peek(csv, &byte));
  if (byte == '\n') csv_take(csv);
  return RONDE_OK;
}

static bool is_empty_line(const ronde__csv *csv) {
  return csv->n_fields == 1 && csv->field[0].n == 0 && !csv->field[0].quoted;
}

ronde_status ronde__csv_next(ronde__csv *csv, const ronde__csv_field **fields_out, int64_t *n_out) {
  *n_out = 0;
  for (int byte;;) {
    RONDE_TRY(csv_peek(csv, &byte));
    if (byte == END) return RONDE_OK;
    int64_t line = csv->line;
    RONDE_TRY(csv_read_record(csv));
    if (!is_empty_line(csv)) break;
    if (!csv->empty_line) csv->empty_line = line;
  }
  if (csv->empty_line)
    return ronde__fail(RONDE_E_INPUT, "%s: line %lld: the line is empty", ronde__stream_name(csv->stream),
                       (long long)csv->empty_line);
  for (int64_t i = 0; i < csv->n_fields; ++i) csv->field[i].text = csv->text + csv->begin[i];
  *fields_out = csv->field;
  *n_out = csv->n_fields;
  return RONDE_OK;
}
