/* Text of users and files, made fit for a terminal. */
#include "common.h"

#include <stdio.h>
#include <string.h>

/* Bytes of the character that text begins with; 0: it is none that a terminal may get. U+0080 to U+009F are control
 * characters too. */
static size_t character_bytes(const unsigned char *text) {
  unsigned char c = text[0];
  if (c < 0x80) return c >= 0x20 && c != 0x7f;
  size_t n = c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
  for (size_t i = 1; i < n; i++)
    if ((text[i] & 0xc0) != 0x80) return 0;
  return c == 0xc2 && text[1] < 0xa0 ? 0 : n;
}

void tool_printable(const char *text, char *buffer, size_t size) {
  size_t used = 0;
  while (*text && used + 5 <= size) {
    size_t n = character_bytes((const unsigned char *)text);
    if (n) memcpy(buffer + used, text, n);
    else snprintf(buffer + used, 5, "\\x%02x", (unsigned char)*text);
    used += n ? n : 4;
    text += n ? n : 1;
  }
  buffer[used] = '\0';
}

const char *tool_shown(const char *text, char buffer[TOOL_SHOWN]) {
  size_t n = strlen(text), kept = n < TOOL_SHOWN - 4 ? n : TOOL_SHOWN - 4;
  while (kept < n && kept > 0 && ((unsigned char)text[kept] & 0xc0) == 0x80) kept--; /* never half a character */
  snprintf(buffer, TOOL_SHOWN, "%.*s%s", (int)kept, text, kept < n ? "..." : "");
  return buffer;
}
