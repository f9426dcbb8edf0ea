#include "comm/transport.h"

void ronde__transport_destroy(ronde__transport *transport) {
  if (transport) transport->ops->destroy(transport);
}
