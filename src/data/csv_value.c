/* What a field of comma-separated text means by itself: a number, a text, or that a value is missing. Numbers are read in
 * the C locale. */
#include "data/columns_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* What stands for a value that is missing, where it is not in quotes. */
static const char *const absences[] = {"na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "?"};
static const char *const infinities[] = {"inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"};

static bool is_among(const char *text, const char *const *words, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (!strcasecmp(text, words[i])) return true;
  return false;
}

bool ronde__csv_is_integer(const char *text) {
  const char *digits = text + (*text == '+' || *text == '-');
  size_t n = strspn(digits, "0123456789");
  return n > 0 && n <= 18 && !digits[n];
}

ronde__meaning ronde__csv_meaning(const ronde__csv_field *field, float *value_out) {
  char *end;
  if (field->n == 0) return RONDE__FIELD_MISSING;
  char first = field->text[0];
  if (strchr("+-.0123456789", first)) {
    *value_out = strtof_l(field->text, &end, ronde__c_locale());
    bool decimal = !field->text[strspn(field->text, "+-.0123456789eE")];
    if (decimal && end == field->text + field->n)
      return !isfinite(*value_out)                ? RONDE__FIELD_BEYOND
             : ronde__csv_is_integer(field->text) ? RONDE__FIELD_INTEGER
                                                  : RONDE__FIELD_NUMBER;
  }
  if (!field->quoted && field->n <= 4 && is_among(field->text, absences, RONDE__COUNT(absences)))
    return RONDE__FIELD_MISSING;
  if (!field->quoted && field->n <= 9 && is_among(field->text, infinities, RONDE__COUNT(infinities)))
    return RONDE__FIELD_BEYOND;
  return RONDE__FIELD_TEXT;
}

int ronde__category_order(const void *a, const void *b) {
  const char *s = *(const char *const *)a, *t = *(const char *const *)b;
  bool si = ronde__csv_is_integer(s), ti = ronde__csv_is_integer(t);
  if (si != ti) return si ? -1 : 1;
  long long x = si ? strtoll(s, NULL, 10) : 0, y = si ? strtoll(t, NULL, 10) : 0;
  return x != y ? (x < y ? -1 : 1) : strcmp(s, t);
}
