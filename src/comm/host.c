/* Seats and rings in memory that the ranks of a host share, and the copies between them (host.h says how it works). */
#include "comm/host.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* A ring of records for each ordered pair of places: one side writes, the other reads. */
enum { RECORDS = 128, PART_BYTES = 1 << 30 };

typedef enum kind { KIND_SENT, KIND_TAKEN } kind;

typedef struct record {
  uint64_t stamp, at, stamp_at, bytes; /* of a KIND_TAKEN only the stamp */
  uint32_t tag;
  uint32_t kind;
} record;

typedef struct ring {
  _Alignas(64) _Atomic uint32_t written;
  _Alignas(64) _Atomic uint32_t read;
  record records[RECORDS];
} ring;

typedef struct seat {
  _Alignas(64) ronde__event bell;
  uint64_t probe_at, probe; /* in that rank's own memory, and what is there */
  pid_t pid;
  ronde__pulse pulse;
} seat;

/* A message that came before its receive. */
typedef struct arrival {
  struct arrival *next;
  record what;
} arrival;

typedef struct transfers {
  ronde__host_transfer *first, *last;
} transfers;

typedef struct peer {
  transfers sends, receives; /* that have not met their other side */
  transfers untold;          /* sends, and receives that are complete, of which the peer is still to hear */
  arrival *first, *last;
} peer;

struct ronde__host {
  int place, n;
  uint64_t probe;
  seat *seats;          /* [n], shared */
  ring *rings;          /* [n][n], shared, behind them: from, to */
  pthread_mutex_t lock; /* guards what follows */
  peer *peers;          /* [n] */
  arrival *free;
  uint64_t n_stamps;
};

static size_t memory_bytes(int n) { return (size_t)n * sizeof(seat) + (size_t)n * (size_t)n * sizeof(ring); }

/* ---- lists ---- */

static void append(transfers *list, ronde__host_transfer *t) {
  t->next = NULL;
  if (list->first) list->last->next = t;
  else list->first = t;
  list->last = t;
}

static bool unlink_transfer(transfers *list, ronde__host_transfer *t) {
  ronde__host_transfer *before = NULL;
  for (ronde__host_transfer *i = list->first; i; before = i, i = i->next) {
    if (i != t) continue;
    if (before) before->next = t->next;
    else list->first = t->next;
    if (list->last == t) list->last = before;
    return true;
  }
  return false;
}

static bool arrival_take(ronde__host *host, peer *p, uint32_t tag, record *what_out) {
  arrival *before = NULL;
  for (arrival *a = p->first; a; before = a, a = a->next) {
    if (a->what.tag != tag) continue;
    if (before) before->next = a->next;
    else p->first = a->next;
    if (p->last == a) p->last = before;
    *what_out = a->what;
    a->next = host->free;
    host->free = a;
    return true;
  }
  return false;
}

static bool arrival_keep(ronde__host *host, peer *p, const record *what) {
  arrival *a = host->free;
  if (a) host->free = a->next;
  else a = ronde__alloc(sizeof *a);
  if (!a) return false;
  *a = (arrival){.what = *what};
  if (p->first) p->last->next = a;
  else p->first = a;
  p->last = a;
  return true;
}

/* ---- telling ---- */

static ring *ring_of(const ronde__host *host, int from, int to) { return &host->rings[from * host->n + to]; }

static bool write_record(ronde__host *host, int to, record what) {
  ring *r = ring_of(host, host->place, to);
  uint32_t written = atomic_load_explicit(&r->written, memory_order_relaxed);
  if (written - atomic_load_explicit(&r->read, memory_order_acquire) == RECORDS) return false;
  r->records[written % RECORDS] = what;
  atomic_store_explicit(&r->written, written + 1, memory_order_release);
  ronde__event_signal(&host->seats[to].bell);
  return true;
}

/* The peer hears of what is untold, as far as the ring has room. A receive is done once the peer was told. */
static void host_tell(ronde__host *host, int place) {
  peer *p = &host->peers[place];
  for (ronde__host_transfer *t; (t = p->untold.first);) {
    record what = {.kind = KIND_TAKEN, .stamp = t->from_stamp};
    if (t->is_send)
      what = (record){.kind = KIND_SENT,
                      .stamp = atomic_load_explicit(&t->stamp, memory_order_relaxed),
                      .at = (uint64_t)(uintptr_t)t->data,
                      .stamp_at = (uint64_t)(uintptr_t)&t->stamp,
                      .bytes = t->bytes,
                      .tag = t->tag};
    if (!write_record(host, place, what)) return;
    unlink_transfer(&p->untold, t);
    if (t->is_send) append(&p->sends, t);
    else atomic_store_explicit(&t->done, true, memory_order_release);
  }
}

/* ---- copying ---- */

/* The stamp is read behind the data: where it is still the send's, so were the data. False: the send was given up. */
static bool copy(const ronde__host *host, ronde__host_transfer *t) {
  uint64_t stamp = 0;
  size_t at = 0, bytes = t->came == t->bytes ? t->bytes : 0;
  do {
    size_t part = bytes - at < PART_BYTES ? bytes - at : PART_BYTES;
    struct iovec here[] = {{t->data + at, part}, {&stamp, sizeof stamp}};
    struct iovec there[] = {{(void *)(uintptr_t)(t->from + at), part},
                            {(void *)(uintptr_t)t->from_stamp_at, sizeof stamp}};
    ssize_t got = process_vm_readv(host->seats[t->peer].pid, here, 2, there, 2, 0);
    if (got < 0 && errno != EFAULT) t->error = errno;
    if (got != (ssize_t)(part + sizeof stamp)) return t->error != 0;
    at += part;
  } while (at < bytes);
  return stamp == t->from_stamp;
}

/* With the lock held, which is given up while the data move. A receive whose send was given up meets another one, or
 * none. */
static void take(ronde__host *host, ronde__host_transfer *t, const record *what) {
  peer *p = &host->peers[t->peer];
  t->came = what->bytes;
  t->from = what->at;
  t->from_stamp = what->stamp;
  t->from_stamp_at = what->stamp_at;
  t->copying = true;
  pthread_mutex_unlock(&host->lock);
  bool whole = copy(host, t);
  pthread_mutex_lock(&host->lock);
  t->copying = false;
  append(whole ? &p->untold : &p->receives, t);
  host_tell(host, t->peer);
}

static void send_ends(peer *p, uint64_t stamp) {
  for (ronde__host_transfer *t = p->sends.first; t; t = t->next) {
    if (atomic_load_explicit(&t->stamp, memory_order_relaxed) != stamp) continue;
    unlink_transfer(&p->sends, t);
    atomic_store_explicit(&t->stamp, 0, memory_order_relaxed);
    atomic_store_explicit(&t->done, true, memory_order_release);
    return;
  }
}

/* The next record from a place has been dealt with; false: there is none, or no memory for it. With the lock held. */
static bool hear_one(ronde__host *host, int place, ronde_status *status) {
  peer *p = &host->peers[place];
  ring *r = ring_of(host, place, host->place);
  uint32_t read = atomic_load_explicit(&r->read, memory_order_relaxed);
  uint32_t n = atomic_load_explicit(&r->written, memory_order_acquire) - read;
  if (n == 0) return false;
  record what = r->records[read % RECORDS];
  ronde__host_transfer *t = what.kind == KIND_SENT ? p->receives.first : NULL;
  while (t && t->tag != what.tag) t = t->next;
  if (what.kind == KIND_SENT && !t && !arrival_keep(host, p, &what)) {
    *status = ronde__fail(RONDE_E_MEMORY, "no memory for a message from another process on this host");
    return false;
  }
  atomic_store_explicit(&r->read, read + 1, memory_order_release);
  if (n == RECORDS) ronde__event_signal(&host->seats[place].bell); /* it may wait for room */
  if (what.kind == KIND_TAKEN) send_ends(p, what.stamp);
  if (!t) return true;
  unlink_transfer(&p->receives, t);
  take(host, t, &what);
  return true;
}

ronde_status ronde__host_advance(ronde__host *host) {
  ronde_status status = RONDE_OK;
  bool any = false;
  pthread_mutex_lock(&host->lock);
  for (int place = 0; place < host->n; place++) {
    if (place == host->place) continue;
    if (host->peers[place].untold.first) {
      host_tell(host, place);
      any = true;
    }
    while (hear_one(host, place, &status)) any = true;
  }
  pthread_mutex_unlock(&host->lock);
  if (any) ronde__event_signal(&host->seats[host->place].bell); /* this rank's other thread may wait for it */
  return status;
}

void ronde__host_post(ronde__host *host, ronde__host_transfer *t) {
  peer *p = &host->peers[t->peer];
  record what;
  pthread_mutex_lock(&host->lock);
  if (t->is_send) {
    atomic_store_explicit(&t->stamp, ++host->n_stamps, memory_order_relaxed);
    append(&p->untold, t);
    host_tell(host, t->peer);
  } else if (arrival_take(host, p, t->tag, &what)) {
    take(host, t, &what);
  } else {
    append(&p->receives, t);
  }
  pthread_mutex_unlock(&host->lock);
}

void ronde__host_cancel(ronde__host *host, ronde__host_transfer *t) {
  peer *p = &host->peers[t->peer];
  pthread_mutex_lock(&host->lock);
  while (t->copying) { /* by this rank's other thread, which no peer can hold up */
    pthread_mutex_unlock(&host->lock);
    sched_yield();
    pthread_mutex_lock(&host->lock);
  }
  atomic_store(&t->stamp, 0);
  if (!unlink_transfer(&p->untold, t)) unlink_transfer(t->is_send ? &p->sends : &p->receives, t);
  pthread_mutex_unlock(&host->lock);
}

ronde__event *ronde__host_bell(ronde__host *host) { return &host->seats[host->place].bell; }

void ronde__host_ring_all(ronde__host *host) {
  for (int place = 0; place < host->n; place++) ronde__event_signal(&host->seats[place].bell);
}

ronde__pulse *ronde__host_pulse(ronde__host *host, int place) { return &host->seats[place].pulse; }

/* ---- life ---- */

ronde__host_offer ronde__host_make(int n) {
  ronde__host_offer offer = {getpid(), memfd_create("ronde", MFD_CLOEXEC)};
  if (offer.file >= 0 && ftruncate(offer.file, (off_t)memory_bytes(n))) {
    close(offer.file);
    offer.file = -1;
  }
  return offer;
}

void ronde__host_withdraw(ronde__host_offer offer) {
  if (offer.file >= 0) close(offer.file);
}

static void *map(ronde__host_offer offer, size_t bytes) {
  char path[64];
  struct stat found;
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)offer.pid, offer.file);
  int file = offer.file < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return NULL;
  bool fits = !fstat(file, &found) && (size_t)found.st_size == bytes;
  void *memory = fits ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  close(file);
  return memory == MAP_FAILED ? NULL : memory;
}

ronde__host *ronde__host_join(ronde__host_offer offer, int place, int n) {
  ronde__host *host = ronde__alloc(sizeof *host);
  if (!host) return NULL;
  *host = (ronde__host){.place = place, .n = n};
  host->probe = ronde__now_ns() ^ (uint64_t)getpid() << 40;
  pthread_mutex_init(&host->lock, NULL);
  host->peers = ronde__alloc((size_t)n * sizeof *host->peers);
  host->seats = map(offer, memory_bytes(n));
  if (!host->peers || !host->seats) {
    ronde__host_destroy(host);
    return NULL;
  }
  host->rings = (ring *)(host->seats + n);
  seat *own = &host->seats[place];
  own->bell.shared = true;
  own->pid = getpid();
  own->probe = host->probe;
  own->probe_at = (uint64_t)(uintptr_t)&host->probe;
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* where Yama keeps processes from reading their siblings */
  return host;
}

bool ronde__host_reaches_all(const ronde__host *host) {
  bool all = true;
  for (int place = 0; place < host->n && all; place++) {
    const seat *other = &host->seats[place];
    uint64_t found = 0;
    struct iovec here = {&found, sizeof found}, there = {(void *)(uintptr_t)other->probe_at, sizeof found};
    all = process_vm_readv(other->pid, &here, 1, &there, 1, 0) == (ssize_t)sizeof found && found == other->probe;
  }
  return all;
}

void ronde__host_destroy(ronde__host *host) {
  if (!host) return;
  if (host->seats) munmap(host->seats, memory_bytes(host->n));
  prctl(PR_SET_PTRACER, 0, 0, 0, 0);
  for (arrival *a = host->free, *next; a; a = next) {
    next = a->next;
    ronde__free(a);
  }
  for (int place = 0; place < host->n && host->peers; place++)
    for (arrival *a = host->peers[place].first, *next; a; a = next) {
      next = a->next;
      ronde__free(a);
    }
  pthread_mutex_destroy(&host->lock);
  ronde__free(host->peers);
  ronde__free(host);
}
