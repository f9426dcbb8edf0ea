/* What every writer of JSON needs besides jansson. */
#ifndef RONDE_JSON_H
#define RONDE_JSON_H

#include "base/base.h"
#include <jansson.h>

/* Text as a JSON string, bytes that are not UTF-8 replaced by '?'; null for NULL and "". */
json_t *ronde__json_text(const char *text);
/* Dimensions as an array. */
json_t *ronde__json_dims(const int64_t *dims, int rank);
/* Sets *json_out to the text of json, which the caller frees; json_out may be NULL. The json object is taken over;
 * where it is NULL the error is RONDE_E_MEMORY, naming `what`. */
ronde_status ronde__json_give(json_t *json, const char *what, char **json_out);

#endif
