/* Ports as lists of stretches in which they are busy. */
#include "comm/sim_links.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t ns_of(double s) { return (uint64_t)llround(s * 1e9); }

/* ---- a port ---- */

static void forget_before(ronde__port *p, uint64_t now_ns) {
  int n = 0;
  while (n < p->n && p->busy[n][1] <= now_ns) n++;
  if (n) memmove(p->busy, p->busy + n, (size_t)(p->n - n) * sizeof *p->busy);
  p->n -= n;
}

/* Grows together with a neighbour that it touches, or becomes stretch i. */
static ronde_status insert(ronde__port *p, int i, uint64_t begin, uint64_t end) {
  bool joins_before = i > 0 && p->busy[i - 1][1] == begin, joins_next = i < p->n && p->busy[i][0] == end;
  if (joins_before && joins_next) {
    p->busy[i - 1][1] = p->busy[i][1];
    memmove(p->busy + i, p->busy + i + 1, (size_t)(--p->n - i) * sizeof *p->busy);
  } else if (joins_before) p->busy[i - 1][1] = end;
  else if (joins_next) p->busy[i][0] = begin;
  else {
    if (p->n == p->capacity) {
      int capacity = 2 * p->capacity + 4;
      uint64_t(*larger)[2] = realloc(p->busy, (size_t)capacity * sizeof *larger);
      if (!larger) return ronde__fail(RONDE_E_MEMORY, "transport sim: no memory for %d messages under way", capacity);
      p->busy = larger;
      p->capacity = capacity;
    }
    memmove(p->busy + i + 1, p->busy + i, (size_t)(p->n++ - i) * sizeof *p->busy);
    p->busy[i][0] = begin;
    p->busy[i][1] = end;
  }
  return RONDE_OK;
}

/* The first stretch of lasts_ns from earliest_ns on. */
static ronde_status reserve(ronde__port *p, uint64_t now_ns, uint64_t earliest_ns, uint64_t lasts_ns,
                            uint64_t *begin_out) {
  uint64_t begin = earliest_ns;
  int i = 0;
  forget_before(p, now_ns);
  for (; i < p->n && p->busy[i][0] < begin + (lasts_ns ? lasts_ns : 1); i++)
    if (p->busy[i][1] > begin) begin = p->busy[i][1];
  *begin_out = begin;
  return lasts_ns ? insert(p, i, begin, begin + lasts_ns) : RONDE_OK;
}

/* ---- links ---- */

static bool is_inside(const ronde__sim_links *l, int from, int to) {
  return !l->host_of || l->host_of[from] == l->host_of[to];
}

static ronde__link_class link_of(const ronde__sim_links *l, int from, int to) {
  const ronde__sim_options *o = l->options;
  if (o->link) return o->link(o->user, from, to);
  return is_inside(l, from, to) ? o->within : o->between;
}

uint64_t ronde__sim_links_alpha_ns(const ronde__sim_links *l, int from, int to) {
  return ns_of(link_of(l, from, to).alpha_s);
}

static uint64_t draw_latency(ronde__sim_links *l, double alpha_s) {
  const ronde__sim_options *o = l->options;
  if (o->jitter > 0) alpha_s *= 1 + o->jitter * (double)ronde__rng_uniform(&l->draws);
  if (o->delay_chance > 0 && (double)ronde__rng_uniform(&l->draws) < o->delay_chance) alpha_s += o->delay_s;
  return ns_of(alpha_s);
}

ronde_status ronde__sim_links_send(ronde__sim_links *l, int from, int to, size_t bytes, uint64_t now_ns,
                                   uint64_t earliest_ns, uint64_t *left_out, uint64_t *arrived_out) {
  bool inside = is_inside(l, from, to), switched = !inside && l->options->switch_beta_s > 0;
  ronde__link_class link = link_of(l, from, to);
  ronde__port *out = inside ? &l->rank_out[from] : &l->host_out[l->host_of[from]];
  ronde__port *in = inside ? &l->rank_in[to] : &l->host_in[l->host_of[to]];
  if (!inside && l->options->half_duplex) in = &l->host_out[l->host_of[to]];
  uint64_t lasts = ns_of((double)bytes * link.beta_s), at_switch = 0, leaves, arrives;
  RONDE_TRY(reserve(out, now_ns, now_ns, lasts, &leaves));
  *left_out = leaves + lasts;
  if (switched) {
    uint64_t turn = ns_of((double)bytes * l->options->switch_beta_s);
    RONDE_TRY(reserve(&l->shared_switch, now_ns, leaves, turn, &at_switch));
    leaves = at_switch;
    if (turn > lasts) lasts = turn;
  }
  arrives = leaves + draw_latency(l, link.alpha_s);
  RONDE_TRY(reserve(in, now_ns, arrives > earliest_ns ? arrives : earliest_ns, lasts, &arrives));
  *arrived_out = arrives + lasts;
  return RONDE_OK;
}

/* ---- life ---- */

ronde_status ronde__sim_links_create(const ronde__sim_options *options, const int *host_of, ronde__sim_links *links) {
  size_t n = (size_t)options->n;
  ronde__ranks ranks = {options->n, host_of};
  *links = (ronde__sim_links){.options = options, .host_of = host_of, .n_hosts = ronde__ranks_hosts(&ranks)};
  links->draws = ronde__rng_make(options->seed, RONDE__STREAM_LINKS);
  RONDE__ALLOC(links->rank_out, 2 * n * sizeof *links->rank_out, "transport sim");
  links->rank_in = links->rank_out + n;
  RONDE__ALLOC(links->host_out, 2 * (size_t)links->n_hosts * sizeof *links->host_out, "transport sim");
  links->host_in = links->host_out + links->n_hosts;
  return RONDE_OK;
}

static void free_ports(ronde__port *ports, int n) {
  for (int i = 0; ports && i < n; i++) free(ports[i].busy);
}

void ronde__sim_links_free(ronde__sim_links *links) {
  if (!links->options) return;
  free_ports(links->rank_out, 2 * links->options->n);
  free_ports(links->host_out, 2 * links->n_hosts);
  free_ports(&links->shared_switch, 1);
  ronde__free(links->rank_out);
  ronde__free(links->host_out);
}
