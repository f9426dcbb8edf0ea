/* What every writer of JSON needs beside jansson. */
#ifndef RONDE_JSON_H
#define RONDE_JSON_H

#include "base/base.h"
#include <jansson.h>

/* Text as a JSON string, bytes that are not UTF-8 replaced by '?'; null for NULL and "". */
json_t *ronde__json_text(const char *text);
/* The text of json, which is taken over, to be freed by the caller; json_out may be NULL. NULL as json: RONDE_E_MEMORY,
 * which names `what`. */
ronde_status ronde__json_give(json_t *json, const char *what, char **json_out);

#endif
