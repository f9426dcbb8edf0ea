/* The list of all-reduces, by name and by number. */
#include "comm/collective.h"

#include <string.h>

static const ronde__allreduce *const allreduces[] = {
#define RONDE_ALLREDUCE(symbol) &ronde__allreduce_##symbol,
#include "comm/collectives.inc"
#undef RONDE_ALLREDUCE
};

const ronde__allreduce *ronde__allreduce_at(int i) {
  return i >= 0 && i < (int)RONDE__COUNT(allreduces) ? allreduces[i] : NULL;
}

const ronde__allreduce *ronde__allreduce_find(const char *name) {
  for (size_t i = 0; i < RONDE__COUNT(allreduces); i++)
    if (!strcmp(allreduces[i]->name, name)) return allreduces[i];
  return NULL;
}
