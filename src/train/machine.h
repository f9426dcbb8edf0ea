/* Facts about the machine and this process, for run.json. */
#ifndef RONDE_MACHINE_H
#define RONDE_MACHINE_H

#include "base/base.h"
#include <jansson.h>

/* Text as a JSON string, bytes that are not UTF-8 replaced by '?'; null for NULL and "". */
json_t *ronde__json_text(const char *text);
/* {hosts[],cpu,cores,isa,memory_bytes,os}; what cannot be read is null. */
json_t *ronde__machine_json(const char *isa);
/* The command line of this process: an array of texts. */
json_t *ronde__command_json(void);

#endif
