/* Every all-reduce, by name and by number. */
#include "comm/collective.h"

#include <string.h>

#define RONDE_ALLREDUCE(symbol) extern const ronde__allreduce ronde__allreduce_##symbol;
#include "comm/collectives.inc"
#undef RONDE_ALLREDUCE

static const ronde__allreduce *const all[] = {
#define RONDE_ALLREDUCE(symbol) &ronde__allreduce_##symbol,
#include "comm/collectives.inc"
#undef RONDE_ALLREDUCE
};

const ronde__allreduce *ronde__allreduce_at(int i) { return i >= 0 && i < (int)RONDE__COUNT(all) ? all[i] : NULL; }

const ronde__allreduce *ronde__allreduce_find(const char *name) {
  for (size_t i = 0; i < RONDE__COUNT(all); i++)
    if (!strcmp(all[i]->name, name)) return all[i];
  return NULL;
}
