/* Texts that users gave, in messages: shown so that they fit on a line, and compared with what they may have meant. */
#include "base/base.h"
#include <ronde/measure.h>

#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_MAX 80

const char *ronde__shown(const char *text, char out[RONDE__SHOWN_BYTES]) {
  size_t n = strnlen(text, SHOWN_MAX + 1), kept = n <= SHOWN_MAX ? n : SHOWN_MAX;
  while (kept < n && kept > 0 && ((unsigned char)text[kept] & 0xc0) == 0x80) --kept; /* never half a character */
  for (size_t i = 0; i < kept; ++i) {
    unsigned char c = (unsigned char)text[i];
    out[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
  }
  strcpy(out + kept, n > kept ? "..." : "");
  return out;
}

static locale_t c_locale;
static void make_c_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

locale_t ronde__c_locale(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_c_locale);
  return c_locale;
}

bool ronde__bytes_parse(const char *text, int64_t *bytes_out) {
  static const char units[] = "KMGT";
  size_t n = strspn(text, "0123456789.");
  char *end;
  double value = n ? strtod_l(text, &end, ronde__c_locale()) : 0;
  if (n == 0 || end != text + n) return false;
  const char *unit = text[n] ? strchr(units, text[n]) : NULL;
  if (text[n] && (!unit || text[n + 1])) return false;
  for (int i = unit ? (int)(unit - units) + 1 : 0; i > 0; i--) value *= 1024;
  if (value < 1 || value > 9e18) return false;
  *bytes_out = (int64_t)value;
  return true;
}

/* Source: Wagner & Fischer, "The string-to-string correction problem", 1974. */
int ronde__edit_distance(const char *a, const char *b) {
  enum { LONGEST = 63 };
  int row[LONGEST + 1], n = (int)strnlen(b, LONGEST);
  for (int j = 0; j <= n; j++) row[j] = j;
  for (int i = 0; a[i] && i < LONGEST; i++) {
    int diagonal = row[0];
    row[0] = i + 1;
    for (int j = 0; j < n; j++) {
      int replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = (int)ronde__min(replaced, 1 + ronde__min(row[j], diagonal));
    }
  }
  return row[n];
}

/* Two edits for five letters or more, one for fewer. */
bool ronde__is_near(const char *meant, int distance) {
  return distance <= ronde__max(1, 2 * (int64_t)strnlen(meant, 63) / 5);
}

int ronde_nearest_word(const char *word, const char *const *words, int n) {
  int nearest = -1, least = 0;
  for (int i = 0; i < n; i++) {
    int distance = ronde__edit_distance(word, words[i]);
    if (!ronde__is_near(words[i], distance) || (nearest >= 0 && distance >= least)) continue;
    least = distance;
    nearest = i;
  }
  return nearest;
}
