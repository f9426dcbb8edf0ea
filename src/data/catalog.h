/* The sets that have a name: from NAME[:DIR] to the files of a set. */
#ifndef RONDE_CATALOG_H
#define RONDE_CATALOG_H

#include "data/set.h"

/* Errors: RONDE_E_USAGE for an unknown name or a malformed one, RONDE_E_INPUT where files are not found. */
ronde_status ronde__set_find(const char *spec, uint64_t seed, ronde__set *set_out);
void ronde__set_release(ronde__set *set);

/* The folder in which a set's files are found where no DIR is given; NULL: none, or no set of this name. The caller
 * frees it. */
char *ronde__set_folder(const char *name);
/* The folder to download a set into, in which it will be found; NULL where no variable names one. The caller frees
 * it. */
char *ronde__set_home(const char *name);

#endif
