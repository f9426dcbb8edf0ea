/* The thread that watches over the other processes. */
#include "comm/life.h"

#include <ronde/measure.h>

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
  TICKS = 7,              /* words within the limit */
  PROBE_TICKS = 2,        /* after so many without a word a host's system is asked */
  MIN_TICK_NS = 10000000, /* whatever the limit */
  JITTERS = 4,            /* the limit is at least so many of the longest silences of late, */
  JITTER_SHRINKS = 64,    /* which are forgotten by this part with each word */
  GOODBYES = 3,           /* datagrams get lost */
  UNHEARD_TICKS = 50      /* after so many a host that was never heard is not expected to be */
};
/* A process that is gone may have left a word, or all may have been told to end: */
#define GONE_SURE_NS 100000000u
/* A process that is stopped for a moment is nobody's business. */
#define STOP_SAID_NS 1000000000u

typedef struct peer {
  ronde__life_state state;
  ronde__doing doing;
  uint64_t since_ns; /* of the state */
  ronde__life_offer offer;
  bool is_near;                     /* on this host, and seen */
  int end;                          /* of one that is: its pidfd, or -1 */
  int probe;                        /* a connection to one that is not heard, or -1 */
  uint64_t probed_ns;               /* when one was begun, */
  uint64_t answered_ns;             /* and was seen to be there */
  uint8_t hello[RONDE__LIFE_HELLO]; /* its answer to who connects, which only this job knows */
  uint64_t sequence;                /* of its last word */
  bool warned;                      /* that it is stopped */
  _Atomic bool heard;               /* by other ways, since the last look */
  _Atomic bool left;                /* by its own word */
  _Atomic bool given_up;            /* others know that it is lost */
  _Atomic bool lost;                /* and this has been said */
  ronde__loss loss;                 /* then */
} peer;

typedef struct host {
  uint64_t heard_ns; /* by whatever way; 0: no word has ever come */
  uint64_t word_ns;  /* when the last one came */
  uint64_t jitter_ns;
  _Atomic uint32_t address; /* where it was heard from; 0: nowhere */
} host;

struct ronde__life {
  ronde__life_options o;
  int rank, size, n_hosts;
  uint64_t tick_ns, started_ns;
  ronde__life_net net;
  uint8_t key[RONDE__LIFE_KEY];
  peer *peers;          /* [size] */
  host *hosts;          /* [n_hosts] */
  struct pollfd *files; /* [size + 3] */
  uint64_t sequence;
  bool refused[RONDE__N_LIFE_VERDICTS]; /* has been said */
  bool unheard_said;
  _Atomic bool said, leaves, ends;
  int wake; /* an eventfd */
  pthread_mutex_t telling;
  pthread_t thread;
  bool runs;
};

static int host_of(const ronde__life *l, int rank) {
  return l->o.transport->host_of ? l->o.transport->host_of[rank] : 0;
}

static bool is_here(const ronde__life *l, int rank) { return host_of(l, rank) == host_of(l, l->rank); }

static void turn(peer *p, ronde__life_state state, uint64_t now) {
  if (p->state == state || p->state == RONDE__LIFE_LEFT) return;
  p->state = state;
  p->since_ns = now;
  p->warned = false;
}

/* ---- telling ---- */

/* Of this host's ranks, the one that tells of all: the first that lives. */
static bool tells(const ronde__life *l) {
  for (int r = 0; r < l->rank; r++)
    if (is_here(l, r) && l->peers[r].is_near && l->peers[r].state == RONDE__LIFE_LIVES) return false;
  return true;
}

static ronde__life_word word_of(const ronde__life *l, int rank) {
  const peer *p = &l->peers[rank];
  if (rank != l->rank) return (ronde__life_word){rank, p->state, p->doing};
  ronde__life_state state = atomic_load(&l->leaves) ? RONDE__LIFE_LEFT : RONDE__LIFE_LIVES;
  return (ronde__life_word){rank, state, ronde__transport_noted(l->o.transport)};
}

static void send_to(const ronde__life *l, int rank, const uint8_t *data, size_t bytes) {
  const ronde__life_place *place = &l->peers[rank].offer.place;
  uint32_t heard = atomic_load_explicit(&l->hosts[host_of(l, rank)].address, memory_order_relaxed);
  for (int i = 0; i < (heard ? 1 : place->n_addresses); i++) {
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = heard ? heard : place->addresses[i],
                             .sin_port = htons(place->datagrams)};
    sendto(l->net.datagrams, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&to, sizeof to);
  }
}

static void send_all(ronde__life *l, const ronde__life_message *m) {
  uint8_t data[RONDE__LIFE_BYTES];
  size_t bytes = ronde__life_write(m, l->key, data);
  for (int r = 0; r < l->size && bytes; r++)
    if (!is_here(l, r) && l->peers[r].offer.place.n_addresses) send_to(l, r, data, bytes);
}

/* own: of this rank alone; else of all that are seen from here. */
static void tell(ronde__life *l, bool own) {
  ronde__life_message m = {.sender = l->rank};
  if (l->net.datagrams < 0) return;
  pthread_mutex_lock(&l->telling);
  for (int r = 0; r < l->size; r++) {
    bool known = r == l->rank || (!own && is_here(l, r) && l->peers[r].is_near);
    if (known) m.words[m.n++] = word_of(l, r);
    if (m.n < RONDE__LIFE_WORDS && (r < l->size - 1 || m.n == 0)) continue;
    m.sequence = ++l->sequence;
    send_all(l, &m);
    m.n = 0;
  }
  pthread_mutex_unlock(&l->telling);
}

/* ---- hearing ---- */

static void refuse(ronde__life *l, ronde__life_verdict verdict, const struct sockaddr_in *from) {
  const uint8_t *at = (const uint8_t *)&from->sin_addr.s_addr;
  if (l->refused[verdict]) return;
  l->refused[verdict] = true;
  ronde__log(RONDE_LOG_WARNING, "a message from %u.%u.%u.%u port %u was refused: %s; it changes nothing", at[0], at[1],
             at[2], at[3], ntohs(from->sin_port), ronde__life_verdict_text(verdict));
}

static uint64_t limit_of(const ronde__life *l, const host *h) {
  uint64_t limit = l->o.lost_after_ns > JITTERS * h->jitter_ns ? l->o.lost_after_ns : JITTERS * h->jitter_ns;
  return limit < l->o.at_most_ns ? limit : l->o.at_most_ns;
}

/* A longer silence was a stop, and nothing that the network does. Where data came meanwhile, it is words that are late. */
static void hear_host(const ronde__life *l, host *h, uint32_t address, uint64_t now) {
  if (h->heard_ns && now - h->heard_ns < limit_of(l, h)) {
    uint64_t gap = now - h->word_ns, faded = h->jitter_ns - h->jitter_ns / JITTER_SHRINKS;
    h->jitter_ns = gap > faded ? gap : faded;
  }
  h->heard_ns = h->word_ns = now;
  atomic_store_explicit(&h->address, address, memory_order_relaxed);
}

/* A host speaks of its own ranks only. */
static void hear_word(ronde__life *l, int from_host, const ronde__life_word *word, uint64_t now) {
  peer *p = &l->peers[word->rank];
  if (host_of(l, word->rank) != from_host) return;
  if (word->state == RONDE__LIFE_LEFT) atomic_store(&p->left, true);
  if (word->doing.step >= p->doing.step) p->doing = word->doing;
  turn(p, word->state, now);
}

static void hear_datagrams(ronde__life *l, uint64_t now) {
  uint8_t data[RONDE__LIFE_BYTES + 1];
  struct sockaddr_in from;
  socklen_t size = sizeof from;
  ssize_t got;
  for (; (got = recvfrom(l->net.datagrams, data, sizeof data, MSG_DONTWAIT, (struct sockaddr *)&from, &size)) >= 0;
       size = sizeof from) {
    ronde__life_message m;
    ronde__life_verdict verdict = ronde__life_read(data, (size_t)got, l->key, l->size, &m);
    if (verdict != RONDE__LIFE_GOOD) {
      refuse(l, verdict, &from);
      continue;
    }
    peer *sender = &l->peers[m.sender];
    if (is_here(l, m.sender) || m.sequence <= sender->sequence) continue; /* its own, or come twice */
    sender->sequence = m.sequence;
    hear_host(l, &l->hosts[host_of(l, m.sender)], from.sin_addr.s_addr, now);
    for (int i = 0; i < m.n; i++) hear_word(l, host_of(l, m.sender), &m.words[i], now);
  }
}

/* ---- looking ---- */

/* Ranks of this host. */
static void look_near(ronde__life *l, uint64_t now) {
  for (int r = 0; r < l->size; r++) {
    peer *p = &l->peers[r];
    ronde__pulse *pulse = l->o.pulses ? l->o.pulses[r] : NULL;
    if (!p->is_near || r == l->rank) continue;
    if (pulse) {
      uint64_t word = atomic_load_explicit(&pulse->doing, memory_order_relaxed);
      p->doing = (ronde__doing){(ronde__activity)(word & 0xff), (int64_t)(word >> 8)};
      if (atomic_load(&pulse->left)) atomic_store(&p->left, true);
    }
    ronde__process_state seen = ronde__process_look(p->offer.process);
    if (seen == RONDE__PROCESS_GONE && p->end >= 0) {
      close(p->end);
      p->end = -1;
    }
    turn(p,
         seen == RONDE__PROCESS_GONE      ? RONDE__LIFE_GONE
         : seen == RONDE__PROCESS_STOPPED ? RONDE__LIFE_STOPPED
                                          : RONDE__LIFE_LIVES,
         now);
  }
}

static void end_probe(peer *p) {
  if (p->probe >= 0) close(p->probe);
  p->probe = -1;
}

/* A rank of a host that is not heard: its system knows more. */
static void probe(ronde__life *l, peer *p, host *h, uint64_t now) {
  ronde__life_answer answer = RONDE__ANSWER_NONE;
  if (p->probe < 0 && (!p->probed_ns || now - p->probed_ns > PROBE_TICKS * l->tick_ns)) {
    p->probed_ns = now;
    p->probe = ronde__life_probe(h->address, p->offer.place.connections, &answer);
  }
  if (p->probe >= 0) answer = ronde__life_probed(p->probe, p->hello);
  if (answer != RONDE__ANSWER_NONE && answer != RONDE__ANSWER_HOST) end_probe(p);
  if (answer == RONDE__ANSWER_HOST || answer == RONDE__ANSWER_LIVES) p->answered_ns = now;
  if (answer == RONDE__ANSWER_HOST) turn(p, RONDE__LIFE_STOPPED, now);
  if (answer == RONDE__ANSWER_LIVES) turn(p, RONDE__LIFE_LIVES, now);
  if (answer == RONDE__ANSWER_GONE) turn(p, RONDE__LIFE_GONE, now);
}

/* What else has come from a host proves as much as a word, which may stand behind it in the queue of a slow link. */
static void take_proofs(ronde__life *l, uint64_t now) {
  for (int r = 0; r < l->size; r++) {
    host *h = &l->hosts[host_of(l, r)];
    if (atomic_exchange_explicit(&l->peers[r].heard, false, memory_order_relaxed) && h->heard_ns) h->heard_ns = now;
  }
}

/* Ranks of other hosts, by the silence of these. */
static void look_far(ronde__life *l, uint64_t now) {
  for (int r = 0; r < l->size; r++) {
    peer *p = &l->peers[r];
    host *h = &l->hosts[host_of(l, r)];
    if (is_here(l, r) || !h->heard_ns || p->state == RONDE__LIFE_LEFT || p->state == RONDE__LIFE_GONE) continue;
    if (atomic_load(&p->lost)) continue;
    uint64_t silent = now - h->heard_ns;
    if (silent < limit_of(l, h) * PROBE_TICKS / TICKS) {
      end_probe(p);
      continue;
    }
    probe(l, p, h, now);
    if (silent < limit_of(l, h) || p->state == RONDE__LIFE_GONE) continue;
    if (!p->answered_ns || now - p->answered_ns >= limit_of(l, h)) turn(p, RONDE__LIFE_SILENT, now);
  }
}

/* This process did not run for a while: nobody else was silent. */
static void forgive(ronde__life *l, uint64_t ns) {
  for (int h = 0; h < l->n_hosts; h++)
    if (l->hosts[h].heard_ns) l->hosts[h].heard_ns += ns, l->hosts[h].word_ns += ns;
}

/* ---- judging ---- */

static void take_goodbyes(ronde__life *l, uint64_t now) {
  for (int r = 0; r < l->size; r++)
    if (atomic_load(&l->peers[r].left)) turn(&l->peers[r], RONDE__LIFE_LEFT, now);
}

static bool is_missing(const peer *p, uint64_t now) {
  return p->state == RONDE__LIFE_SILENT || (p->state == RONDE__LIFE_GONE && now - p->since_ns >= GONE_SURE_NS);
}

static bool is_newly_lost(const peer *p, uint64_t now) {
  return !atomic_load(&p->lost) && (is_missing(p, now) || atomic_load(&p->given_up));
}

static const char *activity_text(ronde__doing doing, char text[64]) {
  static const char *const texts[RONDE__N_ACTIVITIES] = {"starting", "training", "testing", "saving", "ending"};
  if (doing.step) snprintf(text, 64, "%s, step %" PRId64, texts[doing.activity], doing.step);
  else snprintf(text, 64, "%s", texts[doing.activity]);
  return text;
}

static uint64_t lost_since(const ronde__life *l, int rank) {
  const peer *p = &l->peers[rank];
  const host *h = &l->hosts[host_of(l, rank)];
  return p->state == RONDE__LIFE_SILENT ? h->heard_ns : p->since_ns;
}

/* "rank 1 on host b, rank 3 on host d (last seen training, step 7)": of those that are lost by now in that state; what does
 * not fit is left out. */
static int list_lost(ronde__life *l, ronde__life_state state, uint64_t now, char *list, size_t size,
                     uint64_t *since_out) {
  int n = 0;
  for (int r = 0; r < l->size; r++) {
    peer *p = &l->peers[r];
    size_t used = strlen(list);
    char doing[64];
    if (p->state != state || !is_missing(p, now) || atomic_load(&p->lost)) continue;
    atomic_store(&p->lost, true);
    uint64_t since = lost_since(l, r);
    if (!n++ || since < *since_out) *since_out = since;
    snprintf(list + used, size - used, "%srank %d on host %s (last seen %s)", used ? ", " : "", r, l->o.host_names[r],
             activity_text(p->doing, doing));
  }
  return n;
}

/* Whether the others go on without all that are lost by now. */
static bool go_on(const ronde__life *l, uint64_t now) {
  bool all = true;
  for (int r = 0; r < l->size; r++)
    all &= !is_newly_lost(&l->peers[r], now) || ronde__transport_may_lose(l->o.transport, r);
  return all;
}

static void say_loss(const ronde__life *l, int rank, uint64_t now) {
  const peer *p = &l->peers[rank];
  const char *why = p->state == RONDE__LIFE_GONE     ? RONDE_LOST_PROCESS
                    : p->state == RONDE__LIFE_SILENT ? "the host or the network to it is lost"
                                                     : "nothing was heard of it for --timeout";
  char doing[64];
  ronde__log(RONDE_LOG_WARNING, "lost %.2f s ago: rank %d on host %s (last seen %s): %s; the others go on without it",
             (double)(now - p->loss.at_ns) * 1e-9, rank, p->loss.host, activity_text(p->loss.doing, doing), why);
}

/* One after the other; of what all see, rank 0 tells, which is there. */
static void leave_out(ronde__life *l, uint64_t now) {
  bool any = false;
  for (int r = 0; r < l->size; r++) {
    peer *p = &l->peers[r];
    if (r == l->rank || !is_newly_lost(p, now)) continue;
    p->loss = (ronde__loss){.doing = p->doing, .at_ns = lost_since(l, r), .gone = p->state == RONDE__LIFE_GONE};
    snprintf(p->loss.host, sizeof p->loss.host, "%s", l->o.host_names[r]);
    if (l->rank == 0) say_loss(l, r, now);
    atomic_store(&p->lost, true);
    any = true;
  }
  if (any) l->o.lost(l->o.user);
}

/* What all that are lost have in common is said in one line. */
static void judge(ronde__life *l, uint64_t now) {
  char gone[600] = "", silent[600] = "";
  uint64_t since;
  if (atomic_load(&l->said)) return;
  if (go_on(l, now)) {
    leave_out(l, now);
    return;
  }
  if (list_lost(l, RONDE__LIFE_GONE, now, gone, sizeof gone, &since))
    ronde__fail(RONDE_E_LOST, "lost %.2f s ago: %s: " RONDE_LOST_PROCESS, (double)(now - since) * 1e-9, gone);
  else if (list_lost(l, RONDE__LIFE_SILENT, now, silent, sizeof silent, &since))
    ronde__fail(RONDE_E_LOST, "nothing heard from %s for %.2f s: the host or the network to it is lost", silent,
                (double)(now - since) * 1e-9);
  else return;
  atomic_store(&l->said, true);
  l->o.lost(l->o.user);
}

/* By the first of those that run. */
static void tell_stopped(ronde__life *l, uint64_t now) {
  uint64_t limit = l->o.lost_after_ns < STOP_SAID_NS ? l->o.lost_after_ns : STOP_SAID_NS;
  for (int r = 0; r < l->rank; r++)
    if (l->peers[r].state == RONDE__LIFE_LIVES) return;
  for (int r = 0; r < l->size; r++) {
    peer *p = &l->peers[r];
    if (p->state != RONDE__LIFE_STOPPED || p->warned || now - p->since_ns < limit) continue;
    p->warned = true;
    ronde__log(
        RONDE_LOG_WARNING,
        "rank %d on host %s is there but does not run (stopped by a signal or a debugger?): it is waited for, at "
        "most --timeout %.3g s",
        r, l->o.host_names[r], (double)l->o.at_most_ns * 1e-9);
  }
}

static void tell_unheard(ronde__life *l, uint64_t now) {
  if (l->unheard_said || l->net.datagrams < 0 || now - l->started_ns < UNHEARD_TICKS * l->tick_ns) return;
  l->unheard_said = true;
  for (int r = 0; r < l->size; r++)
    if (!is_here(l, r) && !l->hosts[host_of(l, r)].heard_ns && l->peers[r].state == RONDE__LIFE_LIVES) {
      ronde__log(RONDE_LOG_WARNING,
                 "no signs of life (UDP) come from host %s: if it is lost, that is noticed after --timeout %.3g s",
                 l->o.host_names[r], (double)l->o.at_most_ns * 1e-9);
      return;
    }
}

/* ---- the thread ---- */

/* Until then, or something has come, or a neighbour has ended: true. */
static bool doze(ronde__life *l, uint64_t until, uint64_t now) {
  nfds_t n = 0;
  const int own[] = {l->wake, l->net.datagrams, l->net.connections};
  for (size_t i = 0; i < RONDE__COUNT(own); i++)
    if (own[i] >= 0) l->files[n++] = (struct pollfd){.fd = own[i], .events = POLLIN};
  nfds_t first = n;
  for (int r = 0; r < l->size; r++)
    if (l->peers[r].end >= 0) l->files[n++] = (struct pollfd){.fd = l->peers[r].end, .events = POLLIN};
  if (poll(l->files, n, until > now ? (int)((until - now) / 1000000u) + 1 : 0) <= 0) return false;
  bool any = false;
  for (; first < n; first++) any |= l->files[first].revents != 0;
  return any;
}

static bool any_in_doubt(const ronde__life *l) {
  for (int r = 0; r < l->size; r++)
    if (l->peers[r].state == RONDE__LIFE_GONE && !atomic_load(&l->peers[r].lost)) return true;
  return false;
}

/* What this rank does, for its neighbours. */
static void beat(const ronde__life *l) {
  uint64_t doing = __atomic_load_n(&l->o.transport->doing, __ATOMIC_RELAXED);
  ronde__pulse *own = l->o.pulses ? l->o.pulses[l->rank] : NULL;
  if (own) atomic_store_explicit(&own->doing, doing, memory_order_relaxed);
}

static void look(ronde__life *l, bool near, uint64_t now) {
  if (l->net.datagrams >= 0) hear_datagrams(l, now);
  if (l->net.connections >= 0) ronde__life_greet(&l->net, l->peers[l->rank].hello);
  if (near) look_near(l, now);
  take_proofs(l, now);
  look_far(l, now);
  if (any_in_doubt(l) && l->o.listen) l->o.listen(l->o.user);
  take_goodbyes(l, now);
}

static void *watch(void *arg) {
  ronde__life *l = arg;
  uint64_t last = ronde__now_ns(), told = 0;
  ronde__log_set_rank(l->rank);
  if (tells(l)) tell(l, false); /* a host that is lost at once must have been heard */
  while (!atomic_load(&l->ends)) {
    beat(l);
    bool ended = doze(l, last + (any_in_doubt(l) ? MIN_TICK_NS : l->tick_ns), ronde__now_ns());
    uint64_t now = ronde__now_ns(), passed = now - last;
    bool due = now - told >= l->tick_ns;
    if (passed > 3 * l->tick_ns) forgive(l, passed - l->tick_ns);
    if (l->o.pass) l->o.pass(l->o.user, passed < 2 * l->tick_ns ? passed : 2 * l->tick_ns);
    last = now;
    look(l, due || ended, now);
    if (due) told = now;
    if (due && tells(l)) tell(l, false);
    judge(l, now);
    tell_stopped(l, now);
    tell_unheard(l, now);
  }
  return NULL;
}

/* ---- life ---- */

bool ronde__life_make_key(uint8_t key[RONDE__LIFE_KEY]) {
  return getrandom(key, RONDE__LIFE_KEY, 0) == RONDE__LIFE_KEY;
}

static ronde_status make_room(ronde__life *l) {
  size_t n = (size_t)l->size;
  RONDE__ALLOC(l->peers, n * sizeof *l->peers, "signs of life");
  for (int r = 0; r < l->size; r++) l->peers[r].end = l->peers[r].probe = -1;
  for (int r = 0; r < l->size; r++) l->n_hosts = (int)ronde__max(l->n_hosts, host_of(l, r) + 1);
  RONDE__ALLOC(l->hosts, (size_t)l->n_hosts * sizeof *l->hosts, "signs of life");
  RONDE__ALLOC(l->files, (n + 3) * sizeof *l->files, "signs of life");
  l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return l->wake >= 0 ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "signs of life: no event: %s", strerror(errno));
}

ronde_status ronde__life_create(const ronde__life_options *options, ronde__life **life_out) {
  ronde__life *l;
  RONDE__ALLOC(l, sizeof *l, "signs of life");
  *l = (ronde__life){.o = *options,
                     .rank = options->transport->rank,
                     .size = options->transport->size,
                     .net = {.datagrams = -1, .connections = -1},
                     .wake = -1};
  uint64_t tick = options->lost_after_ns / TICKS;
  l->tick_ns = tick > MIN_TICK_NS ? tick : MIN_TICK_NS;
  pthread_mutex_init(&l->telling, NULL);
  ronde_status status = make_room(l);
  if (status != RONDE_OK) {
    ronde__life_destroy(l);
    return status;
  }
  if (l->n_hosts > 1) ronde__life_listen(options->iface, &l->net);
  *life_out = l;
  return RONDE_OK;
}

ronde__life_offer ronde__life_offer_of(const ronde__life *l) {
  return (ronde__life_offer){ronde__process_own(), l->net.place};
}

void ronde__life_meet(ronde__life *l, const ronde__life_offer *offers, const uint8_t key[RONDE__LIFE_KEY]) {
  l->started_ns = ronde__now_ns();
  memcpy(l->key, key, RONDE__LIFE_KEY);
  for (int r = 0; r < l->size; r++) {
    peer *p = &l->peers[r];
    p->offer = offers[r];
    ronde__seal(key, RONDE__LIFE_KEY, &r, sizeof r, p->hello);
    p->since_ns = l->started_ns;
    if (!is_here(l, r) || r == l->rank) continue;
    p->end = ronde__process_open(p->offer.process);
    p->is_near = p->end >= 0 || ronde__process_ended(p->offer.process); /* it may have died since it made its offer */
  }
}

ronde_status ronde__life_start(ronde__life *l) {
  int error = pthread_create(&l->thread, NULL, watch, l);
  l->runs = error == 0;
  return l->runs ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "signs of life: cannot start a thread: %s", strerror(error));
}

bool ronde__life_any_lost(const ronde__life *l) { return atomic_load(&l->said); }
bool ronde__life_is_lost(const ronde__life *l, int rank) { return atomic_load(&l->peers[rank].lost); }

ronde__loss ronde__life_loss(const ronde__life *l, int rank) { return l->peers[rank].loss; }
void ronde__life_give_up(ronde__life *l, int rank) { atomic_store(&l->peers[rank].given_up, true); }

void ronde__life_note_heard(ronde__life *l, int rank) {
  atomic_store_explicit(&l->peers[rank].heard, true, memory_order_relaxed);
}

void ronde__life_note_left(ronde__life *l, int rank) { atomic_store(&l->peers[rank].left, true); }

void ronde__life_leave(ronde__life *l) {
  if (atomic_exchange(&l->leaves, true)) return;
  if (l->o.pulses && l->o.pulses[l->rank]) atomic_store(&l->o.pulses[l->rank]->left, true);
  for (int i = 0; i < GOODBYES; i++) tell(l, true);
}

void ronde__life_destroy(ronde__life *l) {
  if (!l) return;
  if (l->runs) {
    ronde__life_leave(l);
    atomic_store(&l->ends, true);
    if (write(l->wake, &(uint64_t){1}, sizeof(uint64_t)) < 0)
      ronde__log(RONDE_LOG_WARNING, "signs of life: %s", strerror(errno));
    pthread_join(l->thread, NULL);
  }
  for (int r = 0; l->peers && r < l->size; r++) {
    end_probe(&l->peers[r]);
    if (l->peers[r].end >= 0) close(l->peers[r].end);
  }
  ronde__life_close(&l->net);
  if (l->wake >= 0) close(l->wake);
  pthread_mutex_destroy(&l->telling);
  ronde__free(l->peers);
  ronde__free(l->hosts);
  ronde__free(l->files);
  ronde__free(l);
}
