#include "comm/transport.h"

int ronde__transport_local(const ronde__transport *transport) {
  int n = 0;
  for (int r = 0; r < transport->size; r++)
    n += !transport->host_of || transport->host_of[r] == transport->host_of[transport->rank];
  return n;
}

void ronde__transport_destroy(ronde__transport *transport) {
  if (transport) transport->ops->destroy(transport);
}
