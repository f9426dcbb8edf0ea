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

const ronde__allreduce *ronde__allreduce_auto(const ronde__transport *transport) {
  int n_hosts = 1;
  for (int r = 0; r < transport->size && transport->host_of; r++)
    n_hosts = (int)ronde__max(n_hosts, transport->host_of[r] + 1);
  return ronde__allreduce_find(n_hosts > 1 && n_hosts < transport->size ? "hierarchical" : "ring");
}

const ronde__allreduce *ronde__allreduce_find(const char *name) {
  for (size_t i = 0; i < RONDE__COUNT(all); i++)
    if (!strcmp(all[i]->name, name)) return all[i];
  return NULL;
}
