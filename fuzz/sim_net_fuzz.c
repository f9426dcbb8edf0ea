/* Files of --sim-net. What is taken can be placed or is refused by name, and its numbers are finite and within bounds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comm/sim_net.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void silent(void *user, ronde_log_level level, const char *line) {}

static void require(bool holds) {
  if (!holds) abort();
}

static void check_link(ronde__link_class link) {
  require(link.alpha_s >= 0 && link.alpha_s <= 1e6 && link.beta_s > 0 && link.beta_s <= 1);
}

static void check_placed(const ronde__sim_net *net, int n_ranks) {
  ronde__sim_options o = ronde__sim_net_options(net, n_ranks, 1);
  for (int a = 0; a < n_ranks; a++) {
    require(net->host_of[a] >= 0 && net->host_of[a] < 4096);
    double slowness = ronde__sim_net_slowness(net, a);
    require(slowness >= 1e-3 && slowness <= 1e6);
    require(ronde__sim_net_straggle_ns(net, 1, a, 1) <= 1000000000000000u);
    for (int b = 0; o.link && b < n_ranks; b++) check_link(o.link(o.user, a, b));
  }
  for (int i = 0; i < o.n_faults; i++) require(o.faults[i].rank >= 0 && o.faults[i].rank < n_ranks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  enum { RANKS = 5 };
  ronde__sim_net *net;
  int host_of[RANKS];
  ronde_log_set(silent, NULL);
  char *text = malloc(size + 1);
  memcpy(text, data, size);
  text[size] = 0;
  if (ronde__sim_net_parse("net", text, &net) == RONDE_OK) {
    check_link(net->within);
    check_link(net->between);
    require(isfinite(net->switch_beta_s) && net->jitter >= 0 && net->jitter <= 1);
    if (ronde__sim_net_place(net, RANKS, host_of) == RONDE_OK) check_placed(net, RANKS);
    ronde__free(net);
  }
  free(text);
  return 0;
}
