/* Facts about the machine and this process, for run.json. */
#ifndef RONDE_MACHINE_H
#define RONDE_MACHINE_H

#include "base/base.h"
#include <jansson.h>

/* {hosts[],cpu,cores,isa,memory_bytes,os}; what cannot be read is null. */
json_t *ronde__machine_json(const char *isa);
/* The command line of this process: an array of texts. */
json_t *ronde__command_json(void);

#endif
