/* Reading tar archives. Source: POSIX.1-2001, pax, "ustar Interchange Format". */
#include "data/tar.h"

#include <stdio.h>
#include <string.h>

#define BLOCK 512
enum { SIZE_AT = 124, SIZE_BYTES = 12, CHECK_AT = 148, CHECK_BYTES = 8 };
enum { TYPE_AT = 156, MAGIC_AT = 257, PREFIX_AT = 345 };

/* false: no octal number. */
static bool tar_parse_octal(const uint8_t *text, int n, int64_t *value_out) {
  int64_t value = 0;
  int i = 0;
  while (i < n && text[i] == ' ') ++i;
  int begin = i;
  for (; i < n && text[i] >= '0' && text[i] <= '7'; ++i) value = 8 * value + (text[i] - '0');
  if (i == begin || (i < n && text[i] != ' ' && text[i] != '\0')) return false;
  *value_out = value;
  return true;
}

static bool tar_is_sound(const uint8_t *block) {
  int64_t claimed, sum = 0;
  for (int i = 0; i < BLOCK; ++i) sum += i >= CHECK_AT && i < CHECK_AT + CHECK_BYTES ? ' ' : block[i];
  return tar_parse_octal(block + CHECK_AT, CHECK_BYTES, &claimed) && claimed == sum;
}

static ronde_status tar_skip_bytes(ronde__stream *stream, int64_t bytes) {
  uint8_t sink[4096];
  for (; bytes > 0; bytes -= ronde__min(bytes, (int64_t)sizeof sink))
    RONDE_TRY(ronde__stream_read(stream, sink, ronde__min(bytes, (int64_t)sizeof sink)));
  return RONDE_OK;
}

ronde_status ronde__tar_skip_padding(ronde__stream *stream, const ronde__tar_member *member) {
  return tar_skip_bytes(stream, (BLOCK - member->bytes % BLOCK) % BLOCK);
}

ronde_status ronde__tar_skip(ronde__stream *stream, const ronde__tar_member *member) {
  RONDE_TRY(tar_skip_bytes(stream, member->bytes));
  return ronde__tar_skip_padding(stream, member);
}

ronde_status ronde__tar_next(ronde__stream *stream, ronde__tar_member *member_out, bool *end_out) {
  static const uint8_t zeros[BLOCK];
  uint8_t block[BLOCK];
  ronde__tar_member member;
  int64_t offset = ronde__stream_offset(stream);
  RONDE_TRY(ronde__stream_read(stream, block, BLOCK));
  *end_out = !memcmp(block, zeros, BLOCK);
  if (*end_out) return RONDE_OK;
  if (!tar_is_sound(block) || !tar_parse_octal(block + SIZE_AT, SIZE_BYTES, &member.bytes))
    return ronde__fail(RONDE_E_INPUT, "%s: offset %lld: not the header of a file in a tar archive",
                       ronde__stream_name(stream), (long long)offset);
  /* GNU's own format has other fields there. */
  bool has_prefix = !memcmp(block + MAGIC_AT, "ustar", 6) && block[PREFIX_AT];
  int used = has_prefix ? snprintf(member.name, sizeof member.name, "%.155s/", block + PREFIX_AT) : 0;
  snprintf(member.name + used, sizeof member.name - (size_t)used, "%.100s", block);
  member.is_file = block[TYPE_AT] == '0' || block[TYPE_AT] == '\0';
  *member_out = member;
  return RONDE_OK;
}
