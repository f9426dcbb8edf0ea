/* Messages over MPI. Between hosts a long one travels in chunks, several under way at once, each met by its receive;
 * chunks of messages that could be taken for each other go one message after the other. */
#ifdef RONDE_HAVE_MPI

#include "comm/mpi_message.h"

#include "base/limits.h"

#include <inttypes.h>
#include <string.h>

#include "comm/mpi_call.h"
#include "comm/mpi_process.h"

ronde_status ronde__mpi_failed(int error, const char *what, int peer) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length;
  MPI_Error_string(error, text, &length);
  ronde__mpi_note_failure();
  return ronde__fail(RONDE_E_LOST, "transport mpi: %s rank %d: %s", what, peer, text);
}

/* The same of a message; of a peer without which the others go on, who watches over it says what is the matter. */
static ronde_status message_failed(const ronde__mpi_endpoint *self, const ronde__mpi_message *m, int error) {
  if (!ronde__transport_may_lose(&self->head, m->peer))
    return ronde__mpi_failed(error, m->is_send ? "sending to" : "receiving from", m->peer);
  ronde__mpi_note_failure();
  return RONDE_E_LOST;
}

ronde__mpi_message *ronde__mpi_message_take(ronde__mpi_endpoint *self, ronde__mpi_message wanted) {
  pthread_mutex_lock(&self->lock);
  ronde__mpi_message *m = self->free;
  if (m) self->free = m->next;
  pthread_mutex_unlock(&self->lock);
  if (!m) m = ronde__alloc(sizeof *m);
  if (!m) {
    ronde__fail(RONDE_E_MEMORY, "transport mpi: no memory for a message to rank %d", wanted.peer);
    return NULL;
  }
  *m = wanted;
  for (int i = 0; i < RONDE__MPI_WINDOW; i++) m->chunks[i] = MPI_REQUEST_NULL;
  return m;
}

void ronde__mpi_message_release(ronde__mpi_endpoint *self, ronde__mpi_message *m) {
  pthread_mutex_lock(&self->lock);
  m->next = self->free;
  self->free = m;
  pthread_mutex_unlock(&self->lock);
}

static ronde_status post_chunk(ronde__mpi_endpoint *self, ronde__mpi_message *m, char *data, size_t bytes,
                               MPI_Request *request) {
  int error;
  ronde__mpi_enter();
  if (!m->is_send) error = MPI_Irecv(data, (int)bytes, MPI_BYTE, m->peer, (int)m->tag, self->data, request);
  /* MPI would take all chunks at once, into memory of the receiver's: each is to be met by its receive. */
  else if (m->in_chunks) error = MPI_Issend(data, (int)bytes, MPI_BYTE, m->peer, (int)m->tag, self->data, request);
  else error = MPI_Isend(data, (int)bytes, MPI_BYTE, m->peer, (int)m->tag, self->data, request);
  ronde__mpi_leave();
  return error == MPI_SUCCESS ? RONDE_OK : message_failed(self, m, error);
}

/* Whether an earlier message of the same peer, tag and direction has chunks left to post: chunks of two messages must not
 * mix, nor may a message overtake the chunks of another. With the lock held; m may be in the list. */
static bool must_queue(const ronde__mpi_endpoint *self, const ronde__mpi_message *m) {
  const ronde__mpi_message *o = self->first;
  for (; o && o != m; o = o->next)
    if (o->peer == m->peer && o->tag == m->tag && o->is_send == m->is_send && o->n_posted < o->n_chunks) break;
  return o && o != m;
}

/* Adds m to the messages in chunks, unless it can be sent whole and at once. */
static void enlist(ronde__mpi_endpoint *self, ronde__mpi_message *m) {
  if (m->bytes <= RONDE__MPI_CHUNK_BYTES && !atomic_load_explicit(&self->n_in_chunks, memory_order_relaxed)) return;
  pthread_mutex_lock(&self->lock);
  m->in_chunks = m->bytes > RONDE__MPI_CHUNK_BYTES || must_queue(self, m);
  if (!m->in_chunks) {
    pthread_mutex_unlock(&self->lock);
    return;
  }
  m->n_chunks = ronde__max(1, ronde__ceil_div((int64_t)m->bytes, RONDE__MPI_CHUNK_BYTES));
  if (self->first) self->last->next = m;
  else self->first = m;
  self->last = m;
  atomic_fetch_add(&self->n_in_chunks, 1);
  pthread_mutex_unlock(&self->lock);
}

ronde_status ronde__mpi_message_post(ronde__transport *transport, ronde__mpi_message wanted,
                                     ronde__request *request_out) {
  ronde__mpi_endpoint *self = (ronde__mpi_endpoint *)transport;
  if (atomic_load_explicit(&self->aborted, memory_order_relaxed)) return RONDE_E_LOST;
  if (wanted.peer < 0 || wanted.peer >= transport->size)
    return ronde__fail(RONDE_E_INTERNAL, "transport mpi: there is no rank %d among %d", wanted.peer, transport->size);
  if (wanted.tag > INT32_MAX)
    return ronde__fail(RONDE_E_INTERNAL, "transport mpi: the tag %#" PRIx32 " is too large", wanted.tag);
  if (atomic_load_explicit(&self->lost[transport->rank], memory_order_relaxed)) return RONDE_E_LOST;
  if (ronde__transport_halts(transport)) return RONDE_E_LOST;
  if (atomic_load_explicit(&self->lost[wanted.peer], memory_order_relaxed)) {
    request_out->impl = NULL;
    return ronde__transport_awaits(transport, wanted.peer) ? RONDE_E_LOST : RONDE_OK;
  }
  ronde__mpi_message *m = ronde__mpi_message_take(self, wanted);
  if (!m) return RONDE_E_MEMORY;
  m->is_near = self->hosts.near && self->hosts.places[m->peer] >= 0;
  if (m->is_near) {
    m->near = (ronde__host_transfer){
        .peer = self->hosts.places[m->peer], .tag = m->tag, .is_send = m->is_send, .data = m->data, .bytes = m->bytes};
    ronde__host_post(self->hosts.near, &m->near);
  } else {
    enlist(self, m);
    ronde_status posted = m->in_chunks ? RONDE_OK : post_chunk(self, m, m->data, m->bytes, m->chunks);
    m->broken = posted == RONDE_E_LOST && ronde__transport_may_lose(transport, m->peer);
    if (!m->broken) RONDE_TRY(posted);
  }
  request_out->impl = m;
  return RONDE_OK;
}

static ronde_status wrong_length(const ronde__mpi_endpoint *self, const ronde__mpi_message *m) {
  return ronde__fail(RONDE_E_INTERNAL,
                     "the message from rank %d to rank %d with tag %#" PRIx32 " has %zu bytes, not %zu", m->peer,
                     self->head.rank, m->tag, m->came, m->bytes);
}

static void count(ronde__mpi_endpoint *self, const ronde__mpi_message *m) {
  uint64_t *bytes = m->is_send ? &self->head.bytes_sent : &self->head.bytes_received;
  __atomic_fetch_add(bytes, m->bytes, __ATOMIC_RELAXED);
  if (m->is_send) __atomic_fetch_add(&self->head.messages, 1, __ATOMIC_RELAXED);
}

static ronde_status test_near(const ronde__mpi_endpoint *self, ronde__mpi_message *m, bool *done_out) {
  *done_out = atomic_load_explicit(&m->near.done, memory_order_acquire);
  if (!*done_out) return RONDE_OK;
  m->came = m->near.came;
  if (m->near.error && ronde__transport_may_lose(&self->head, m->peer)) return RONDE_E_LOST;
  return m->near.error
             ? ronde__fail(RONDE_E_LOST, "copying a message from rank %d: %s", m->peer, strerror(m->near.error))
             : RONDE_OK;
}

/* Of a message or a chunk that has ended, with an error or without. MPI names one that is too long but not by how
 * much. */
static ronde_status chunk_ended(ronde__mpi_endpoint *self, ronde__mpi_message *m, int error, const MPI_Status *status) {
  int class = MPI_SUCCESS, n = 0;
  if (error != MPI_SUCCESS) {
    MPI_Error_class(error, &class);
    if (class == MPI_ERR_TRUNCATE)
      return ronde__fail(RONDE_E_INTERNAL,
                         "the message from rank %d to rank %d with tag %#" PRIx32 " has more than %zu bytes", m->peer,
                         self->head.rank, m->tag, m->bytes);
    return message_failed(self, m, error);
  }
  bool met = !m->is_send || m->in_chunks; /* MPI takes whatever else is sent, whether it comes on or not */
  ronde__mpi_beat_heard(&self->beat, m->peer);
  if (met && self->life) ronde__life_note_heard(self->life, m->peer);
  atomic_fetch_add_explicit(&self->n_chunks_ended, 1, memory_order_relaxed);
  if (!m->is_send) MPI_Get_count(status, MPI_BYTE, &n);
  m->came += (size_t)n;
  return RONDE_OK;
}

static ronde_status test_whole(ronde__mpi_endpoint *self, ronde__mpi_message *m, bool *done_out) {
  MPI_Status status;
  int done = 0, error;
  RONDE__IN_MPI(error = MPI_Test(m->chunks, &done, &status));
  *done_out = done || error != MPI_SUCCESS;
  return *done_out ? chunk_ended(self, m, error, &status) : RONDE_OK;
}

static ronde_status post_chunks(ronde__mpi_endpoint *self, ronde__mpi_message *m) {
  if (m->n_posted == m->n_chunks || must_queue(self, m)) return RONDE_OK;
  for (; m->n_posted < m->n_chunks && m->n_posted - m->n_done < RONDE__MPI_WINDOW; m->n_posted++) {
    size_t at = (size_t)m->n_posted * RONDE__MPI_CHUNK_BYTES;
    size_t bytes = m->bytes - at < RONDE__MPI_CHUNK_BYTES ? m->bytes - at : RONDE__MPI_CHUNK_BYTES;
    RONDE_TRY(post_chunk(self, m, m->data + at, bytes, &m->chunks[m->n_posted % RONDE__MPI_WINDOW]));
  }
  return RONDE_OK;
}

/* The oldest chunk under way of up to HEADS messages from *at on, which moves on. True where one has ended. One look
 * into the network for all of them: MPI_Test takes one for each. */
static bool test_heads(ronde__mpi_endpoint *self, ronde__mpi_message **at) {
  enum { HEADS = 64 };
  MPI_Request heads[HEADS];
  MPI_Status statuses[HEADS];
  ronde__mpi_message *owners[HEADS];
  int indices[HEADS], n = 0, n_ended = 0;
  for (; *at && n < HEADS; *at = (*at)->next) {
    ronde__mpi_message *m = *at;
    if (m->status != RONDE_OK || m->n_done == m->n_posted) continue;
    heads[n] = m->chunks[m->n_done % RONDE__MPI_WINDOW];
    owners[n++] = m;
  }
  if (!n) return false;
  bool has_errors;
  RONDE__IN_MPI(has_errors = MPI_Testsome(n, heads, &n_ended, indices, statuses) != MPI_SUCCESS);
  for (int i = 0; i < n_ended; i++) {
    ronde__mpi_message *m = owners[indices[i]];
    m->chunks[m->n_done++ % RONDE__MPI_WINDOW] = MPI_REQUEST_NULL;
    m->status = chunk_ended(self, m, has_errors ? statuses[i].MPI_ERROR : MPI_SUCCESS, &statuses[i]);
  }
  return n_ended > 0;
}

/* With the lock held. */
static void delist(ronde__mpi_endpoint *self, ronde__mpi_message *gone) {
  ronde__mpi_message *before = NULL;
  for (ronde__mpi_message *m = self->first; m && m != gone; m = m->next) before = m;
  if (before) before->next = gone->next;
  else self->first = gone->next;
  if (self->last == gone) self->last = before;
  atomic_fetch_sub(&self->n_in_chunks, 1);
}

void ronde__mpi_messages_move(ronde__mpi_endpoint *self) {
  if (!atomic_load_explicit(&self->n_in_chunks, memory_order_relaxed)) return;
  if (pthread_mutex_trylock(&self->lock)) return; /* the other thread of this rank is at it */
  for (bool ended = true; ended;) {
    ended = false;
    for (ronde__mpi_message *at = self->first; at;) ended |= test_heads(self, &at);
  }
  for (ronde__mpi_message *m = self->first, *next; m; m = next) {
    next = m->next;
    if (m->status == RONDE_OK) m->status = post_chunks(self, m);
    if (m->status == RONDE_OK && m->n_done < m->n_chunks) continue;
    delist(self, m);
    atomic_store_explicit(&m->done, true, memory_order_release);
  }
  pthread_mutex_unlock(&self->lock);
}

/* Whether it has ended. */
static ronde_status test(ronde__mpi_endpoint *self, ronde__mpi_message *m, bool *done_out) {
  if (m->is_near) return test_near(self, m, done_out);
  if (!m->in_chunks) return test_whole(self, m, done_out);
  *done_out = atomic_load_explicit(&m->done, memory_order_acquire);
  return *done_out ? m->status : RONDE_OK;
}

ronde_status ronde__mpi_message_test(ronde__mpi_endpoint *self, ronde__mpi_message *m, bool *done_out) {
  *done_out = false;
  if (m->broken) return RONDE_OK;
  ronde_status status = test(self, m, done_out);
  m->broken = status == RONDE_E_LOST && ronde__transport_may_lose(&self->head, m->peer);
  if (m->broken) *done_out = false;
  if (!*done_out) return m->broken ? RONDE_OK : status;
  RONDE_TRY(status);
  if (!m->is_send && m->came != m->bytes) return wrong_length(self, m);
  count(self, m);
  return RONDE_OK;
}

/* With MPI's part of it done, or nobody's any more. */
static bool has_landed(const ronde__mpi_endpoint *self, ronde__mpi_message *m) {
  int done = 0, error;
  RONDE__IN_MPI(error = MPI_Testall(RONDE__MPI_WINDOW, m->chunks, &done, MPI_STATUSES_IGNORE));
  return error != MPI_SUCCESS || done || atomic_load(&self->lost[m->peer]);
}

bool ronde__mpi_messages_land(ronde__mpi_endpoint *self) {
  pthread_mutex_lock(&self->lock);
  for (ronde__mpi_message **link = &self->late; *link;) {
    ronde__mpi_message *m = *link;
    if (!has_landed(self, m)) {
      link = &m->next;
      continue;
    }
    *link = m->next;
    m->next = self->free;
    self->free = m;
  }
  bool all = !self->late;
  pthread_mutex_unlock(&self->lock);
  return all;
}

void ronde__mpi_messages_free(ronde__mpi_endpoint *self) {
  ronde__mpi_message *const lists[] = {self->free, self->late};
  for (size_t i = 0; i < RONDE__COUNT(lists); i++)
    for (ronde__mpi_message *m = lists[i], *next; m; m = next) {
      next = m->next;
      ronde__free(m);
    }
}

/* A receive that no message has met is taken back; what a peer takes part in is waited for, shortly: MPI cannot take it
 * back. Nothing more is to come of one that is lost, has left, or has given up too. Past that the process is about to end; or this
 * rank goes on, and sees to it that all is over before the memory is used again. */
void ronde__mpi_message_withdraw(ronde__mpi_endpoint *self, ronde__mpi_message *m, uint64_t end_ns) {
  if (m->is_near) ronde__host_cancel(self->hosts.near, &m->near);
  if (m->in_chunks) {
    pthread_mutex_lock(&self->lock);
    if (!m->done) delist(self, m);
    pthread_mutex_unlock(&self->lock);
  }
  for (int i = 0; i < RONDE__MPI_WINDOW && !m->is_send; i++)
    if (m->chunks[i] != MPI_REQUEST_NULL) RONDE__IN_MPI(MPI_Cancel(&m->chunks[i]));
  int done = 0, error;
  bool was_over = false;
  do {
    RONDE__IN_MPI(error = MPI_Testall(RONDE__MPI_WINDOW, m->chunks, &done, MPI_STATUSES_IGNORE));
    bool over =
        atomic_load(&self->aborted) || atomic_load(&self->left_ns[m->peer]) || atomic_load(&self->lost[m->peer]);
    if (over && !was_over) end_ns = ronde__min(end_ns, ronde__now_ns() + RONDE__HALT_NS);
    was_over |= over;
  } while (error == MPI_SUCCESS && !done && ronde__now_ns() < end_ns);
  pthread_mutex_lock(&self->lock);
  bool is_late = !m->is_send && !done && error == MPI_SUCCESS;
  m->next = is_late ? self->late : self->free;
  if (is_late) self->late = m;
  else self->free = m;
  pthread_mutex_unlock(&self->lock);
}

#endif
