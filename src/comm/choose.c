/* Which all-reduce is to run between some ranks: by a model of what each costs there, never by the clock, so that the
 * same command always sums in the same order. */
#include "comm/collective.h"

#include <string.h>

/* So much less must another cost than what the ranks' places suggest: the model is no finer than that. */
#define MARGIN 1.25

/* Within a host: a rank that sleeps is woken and copies out of the sender's memory (5 us where each has a core, 20 us
 * where they share them; 2 to 10 GB/s). Between hosts: between what Ethernet of 1 and of 10 Gbit/s measures. Long
 * vectors are decided by their bytes whatever the link, short ones by the number of messages; in the middle, where a
 * wrong constant changes the choice, the candidates cost about the same. */
const ronde__link_class ronde__within_host = {10e-6, 0.2e-9}, ronde__between_hosts = {40e-6, 2e-9};

int ronde__ranks_hosts(const ronde__ranks *ranks) {
  int n_hosts = 1;
  for (int r = 0; r < ranks->n; r++) n_hosts = (int)ronde__max(n_hosts, ronde__host_of(ranks, r) + 1);
  return n_hosts;
}

double ronde__round_s(const ronde__ranks *ranks, int (*peer_of)(const void *arg, int rank), const void *arg,
                      double bytes) {
  bool inside = false;
  int most_out = 0; /* messages that leave a host and share its link */
  for (int host = 0, n_hosts = ronde__ranks_hosts(ranks); host < n_hosts; host++) {
    int n_out = 0;
    for (int r = 0; r < ranks->n; r++) {
      int peer = ronde__host_of(ranks, r) == host ? peer_of(arg, r) : -1;
      if (peer < 0) continue;
      if (ronde__host_of(ranks, peer) == host) inside = true;
      else n_out++;
    }
    most_out = (int)ronde__max(most_out, n_out);
  }
  double within_s = inside ? ronde__within_host.alpha_s + bytes * ronde__within_host.beta_s : 0;
  double between_s = most_out ? ronde__between_hosts.alpha_s + most_out * bytes * ronde__between_hosts.beta_s : 0;
  return within_s > between_s ? within_s : between_s;
}

const ronde__allreduce *ronde__allreduce_auto(const ronde__ranks *ranks, size_t n) {
  int n_hosts = ronde__ranks_hosts(ranks);
  const ronde__allreduce *usual = ronde__allreduce_find(n_hosts > 1 && n_hosts < ranks->n ? "hierarchical" : "ring");
  const ronde__allreduce *best = usual, *one;
  double best_s = usual->seconds(ranks, n) / MARGIN;
  for (int i = 0; (one = ronde__allreduce_at(i)); i++) {
    /* MPI's own is left to those who name it: how it sums is not ours to promise. */
    double s = one == usual || !one->seconds ? best_s : one->seconds(ranks, n);
    if (s >= best_s) continue;
    best = one;
    best_s = s;
  }
  return best;
}
