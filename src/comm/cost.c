/* The model of what messages cost, in seconds: alpha for a message's latency, beta for each byte (Hockney, "The
 * communication challenge for MPP: Intel Paragon and Meiko CS-2", Parallel Computing 1994), with one pair of constants
 * inside a host and one between hosts. */
#include "comm/collective.h"

/* Inside a host a sleeping rank is woken and copies out of the sender's memory: 5 us where each rank has a core, 20
 * us where they share cores; 2 to 10 GB/s. Between hosts the constants lie between the measurements of 1 and 10
 * Gbit/s Ethernet. Long vectors are decided by their bytes whatever the link, short ones by the number of messages.
 * In between, where a wrong constant changes the choice, the candidates cost about the same. */
const ronde__link_class ronde__within_host = {10e-6, 0.2e-9}, ronde__between_hosts = {40e-6, 2e-9};

int ronde__ranks_hosts(const ronde__ranks *ranks) {
  int n_hosts = 1;
  for (int r = 0; r < ranks->n; r++) n_hosts = (int)ronde__max(n_hosts, ronde__host_of(ranks, r) + 1);
  return n_hosts;
}

enum { HOSTS_AT_ONCE = 1024 };

double ronde__round_s(const ronde__ranks *ranks, int (*peer_of)(const void *arg, int rank), const void *arg,
                      double bytes) {
  bool inside = false;
  int most_out = 0; /* messages that leave a host and share its link */
  for (int first = 0, n_hosts = ronde__ranks_hosts(ranks); first < n_hosts; first += HOSTS_AT_ONCE) {
    int n_out[HOSTS_AT_ONCE] = {0};
    for (int r = 0; r < ranks->n; r++) {
      int host = ronde__host_of(ranks, r);
      int peer = host >= first && host < first + HOSTS_AT_ONCE ? peer_of(arg, r) : -1;
      if (peer < 0) continue;
      if (ronde__host_of(ranks, peer) == host) inside = true;
      else most_out = (int)ronde__max(most_out, ++n_out[host - first]);
    }
  }
  double within_s = inside ? ronde__within_host.alpha_s + bytes * ronde__within_host.beta_s : 0;
  double between_s = most_out ? ronde__between_hosts.alpha_s + most_out * bytes * ronde__between_hosts.beta_s : 0;
  return within_s > between_s ? within_s : between_s;
}
