/* Host files. What is taken has names that ssh and mpirun read as nothing else, and slots within bounds; written out
 * again it is taken again, as the same. */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hosts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

ronde_status tool_fail(ronde_status status, const char *format, ...) { return status; }

static void require(bool holds) {
  if (!holds) abort();
}

static void check_host(const tool_host *host) {
  require(isalnum((unsigned char)host->name[0]));
  for (const char *at = host->name; *at; at++) require(isalnum((unsigned char)*at) || strchr("-._", *at));
  require(host->slots >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size > 4096) return 0;
  char text[4097], again[16384] = "";
  memcpy(text, data, size);
  text[size] = 0;
  tool_hosts hosts, same;
  if (tool_hosts_parse("hosts", text, &hosts) != RONDE_OK) return 0;
  require(hosts.n >= 1 && hosts.n <= TOOL_MAX_HOSTS);
  size_t used = 0;
  bool in_bounds = true;
  for (int i = 0; i < hosts.n; i++) {
    const tool_host *host = &hosts.at[i];
    check_host(host);
    used += (size_t)snprintf(again + used, sizeof again - used, "%s", host->name);
    if (host->slots && host->slots <= 1024)
      used += (size_t)snprintf(again + used, sizeof again - used, " slots=%d", host->slots);
    used += (size_t)snprintf(again + used, sizeof again - used, "\n");
    require(used < sizeof again);
    in_bounds &= host->slots <= 1024; /* of hosts that stand several times, the sum may be larger */
  }
  if (!in_bounds) {
    tool_hosts_free(&hosts);
    return 0;
  }
  require(tool_hosts_parse("hosts", again, &same) == RONDE_OK);
  require(same.n == hosts.n && same.slots == hosts.slots);
  for (int i = 0; i < hosts.n; i++)
    require(strcmp(same.at[i].name, hosts.at[i].name) == 0 && same.at[i].slots == hosts.at[i].slots);
  tool_hosts_free(&hosts);
  tool_hosts_free(&same);
  return 0;
}
