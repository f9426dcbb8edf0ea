/* The file that --sim-net names: the machines and links of a simulated cluster, and what goes wrong on them. Lines of a
 * keyword and its values; # begins a comment.
 *
 *   hosts N ranks K                    N more hosts with K ranks each, filled in order. None: each rank has its own host
 *   within latency T rate R            links inside a host, and between hosts; else those of the cost model (cost.c)
 *   between latency T rate R
 *   pair A B latency T rate R          the link between hosts A and B, both ways
 *   duplex full|half                   half: a host sends or receives
 *   switch rate R                      what all messages between hosts share
 *   jitter F                           latencies are longer by up to this part, drawn by --sim-seed
 *   delay chance P time T              so many messages take this much longer
 *   straggler chance P time T          so many steps of a worker begin this much later
 *   slow rank I factor F               replayed computation takes this many times as long
 *   pause rank I at T time T           the rank stands still at that moment of virtual time
 *   die rank I at T
 *
 * T is a number with ns, us, ms or s, R one with bit/s, kbit/s, Mbit/s, Gbit/s, B/s, kB/s, MB/s or GB/s. */
#ifndef RONDE_SIM_NET_H
#define RONDE_SIM_NET_H

#include "comm/sim_links.h"

typedef struct ronde__sim_hosts {
  int n, ranks;
} ronde__sim_hosts;

typedef struct ronde__sim_pair {
  int a, b, line;
  ronde__link_class link;
} ronde__sim_pair;

typedef struct ronde__sim_slow {
  int rank, line;
  double factor;
} ronde__sim_slow;

enum { RONDE__SIM_ROWS = 4096 };

typedef struct ronde__sim_net {
  const char *name; /* of the file, for errors; borrowed */
  ronde__sim_hosts hosts[RONDE__SIM_ROWS];
  ronde__sim_pair pairs[RONDE__SIM_ROWS];
  ronde__sim_slow slow[RONDE__SIM_ROWS];
  ronde__sim_fault faults[RONDE__SIM_ROWS];
  int fault_lines[RONDE__SIM_ROWS];
  int n_hosts, n_pairs, n_slow, n_faults; /* rows */
  ronde__link_class within, between;
  bool half_duplex;
  double switch_beta_s, jitter, delay_chance, delay_s, straggler_chance, straggler_s;
  const int *host_of; /* once placed: [ranks], borrowed */
} ronde__sim_net;

/* A text of the format; name must outlive the net, which ronde__free takes. RONDE_E_INPUT names the line. */
ronde_status ronde__sim_net_parse(const char *name, const char *text, ronde__sim_net **net_out);
ronde_status ronde__sim_net_read(const char *path, ronde__sim_net **net_out);
/* Each rank's host, into host_of [n_ranks], which must outlive the net's use. RONDE_E_INPUT where there are fewer places
 * than ranks, or a line names a host or a rank that there is not. */
ronde_status ronde__sim_net_place(ronde__sim_net *net, int n_ranks, int *host_of);
/* What a placed net says, for a transport of so many ranks. */
ronde__sim_options ronde__sim_net_options(const ronde__sim_net *net, int n_ranks, uint64_t seed);
/* How many times as long the rank computes. */
double ronde__sim_net_slowness(const ronde__sim_net *net, int rank);
/* How much later the rank begins this step: a function of (seed, rank, step). */
uint64_t ronde__sim_net_straggle_ns(const ronde__sim_net *net, uint64_t seed, int rank, int64_t step);

#endif
