/* Texts of any bytes into JSON, and results of JSON into texts. */
#include "base/json.h"

#include <stdlib.h>

json_t *ronde__json_text(const char *text) {
  if (!text || !*text) return json_null();
  json_t *json = json_string(text);
  if (json) return json;
  char *ascii = ronde__strdup(text);
  if (!ascii) return NULL;
  for (char *p = ascii; *p; p++) {
    if ((unsigned char)*p >= 0x80) *p = '?';
  }
  json = json_string(ascii);
  free(ascii);
  return json;
}

json_t *ronde__json_dims(const int64_t *dims, int rank) {
  json_t *array = json_array();
  for (int d = 0; d < rank; d++) json_array_append_new(array, json_integer(dims[d]));
  return array;
}

ronde_status ronde__json_give(json_t *json, const char *what, char **json_out) {
  char *text = json ? json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
  json_decref(json);
  if (!text) return ronde__fail(RONDE_E_MEMORY, "no memory for the %s", what);
  if (json_out) *json_out = text;
  else free(text);
  return RONDE_OK;
}
