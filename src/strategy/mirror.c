/* A shard travels as one packet: its part of each array of the optimizer, one behind the other, then its dead parameters,
 * where updates move these, which nobody else has. */
#include "strategy/mirror.h"

#include <string.h>

#include "base/ghost.h"

struct ronde__mirror {
  const ronde__worker *worker;
  const ronde__buckets *cut;
  const ronde__shard *own;
  ronde__shard before; /* of the rank before this one */
  bool with_dead;
  int rank, n_ranks, n_states;
  int *members; /* [ranks]: which worker of the run each is */
  int64_t updated_step, mirrored_step, n_updates;
  float *values;    /* [trained]: the parameters in front of the last update, */
  float *kept;      /* and the own packet */
  float *packet;    /* on its way */
  float *copies[2]; /* packets of `before`: that of the last mirrored update, at `now`, and of the one before */
  int now;
};

/* ---- packets ------------------------------------------------------------------------------------------------------ */

static size_t elems_of(const ronde__shard *shard) { return shard->at[shard->n]; }

static int first_dead(const ronde__shard *shard) { return shard->first[shard->n_parts - 1]; }

static size_t dead_elems(const ronde__mirror *m, const ronde__shard *shard) {
  return m->with_dead ? elems_of(shard) - shard->at[first_dead(shard)] : 0;
}

static size_t packet_elems(const ronde__mirror *m, const ronde__shard *shard) {
  return (size_t)m->n_states * elems_of(shard) + dead_elems(m, shard);
}

static void copy(float *to, const float *from, size_t n) {
  if (n && !ronde__is_ghost(to) && !ronde__is_ghost(from)) memcpy(to, from, n * sizeof *to);
}

static float *state_of(const ronde__mirror *m, int array) {
  const char *name;
  return ronde__optim_state(m->worker->optim, array, &name);
}

/* Where a dead piece begins in the packet. */
static size_t dead_at(const ronde__mirror *m, const ronde__shard *shard, int piece) {
  return (size_t)m->n_states * elems_of(shard) + (shard->at[piece] - shard->at[first_dead(shard)]);
}

static void pack_dead(const ronde__mirror *m, const ronde__shard *shard, float *packet) {
  const float *values = ronde__net_values(m->worker->net);
  for (int i = first_dead(shard); i < shard->n && m->with_dead; i++)
    copy(packet + dead_at(m, shard, i), values + shard->pieces[i].begin, shard->pieces[i].n);
}

/* The own shard's. */
static void pack(const ronde__mirror *m, float *packet) {
  size_t n = elems_of(m->own);
  for (int a = 0; a < m->n_states; a++) copy(packet + (size_t)a * n, state_of(m, a), n);
  pack_dead(m, m->own, packet);
}

/* Another one's, from the whole arrays; zeros before the first update. */
static void pack_from_whole(const ronde__mirror *m, const ronde__shard *shard, float *packet) {
  bool any = ronde__optim_updates(m->worker->optim) > 0;
  for (int a = 0; a < m->n_states && any; a++)
    for (int i = 0; i < shard->n; i++)
      copy(packet + (size_t)a * elems_of(shard) + shard->at[i], state_of(m, a) + shard->pieces[i].begin,
           shard->pieces[i].n);
  pack_dead(m, shard, packet);
}

static void unpack_dead(const ronde__mirror *m, const ronde__shard *shard, const float *packet) {
  float *values = ronde__net_values(m->worker->net);
  for (int i = first_dead(shard); i < shard->n && m->with_dead; i++)
    copy(values + shard->pieces[i].begin, packet + dead_at(m, shard, i), shard->pieces[i].n);
}

static void unpack_to_whole(const ronde__mirror *m, const ronde__shard *shard, const float *packet,
                            const ronde__state_array *arrays) {
  for (int a = 0; a < m->n_states; a++)
    for (int i = 0; i < shard->n; i++)
      copy(arrays[a].values + shard->pieces[i].begin, packet + (size_t)a * elems_of(shard) + shard->at[i],
           shard->pieces[i].n);
  unpack_dead(m, shard, packet);
}

/* ---- life --------------------------------------------------------------------------------------------------------- */

static ronde_status make_room(ronde__mirror *m) {
  size_t own = packet_elems(m, m->own), before = packet_elems(m, &m->before);
  const ronde__kernels *kernels = m->worker->kernels;
  RONDE__ALLOC_FLOATS(m->values, kernels, ronde__net_n_trained(m->worker->net), "--on-loss");
  RONDE__ALLOC_FLOATS(m->kept, kernels, own, "--on-loss");
  RONDE__ALLOC_FLOATS(m->packet, kernels, own, "--on-loss");
  for (int i = 0; i < 2; i++) RONDE__ALLOC_FLOATS(m->copies[i], kernels, before, "--on-loss");
  return RONDE_OK;
}

static ronde_status set_up(ronde__mirror *m) {
  const ronde__worker *worker = m->worker;
  RONDE__ALLOC(m->members, (size_t)m->n_ranks * sizeof *m->members, "--on-loss");
  memcpy(m->members, worker->members, (size_t)m->n_ranks * sizeof *m->members);
  int before = (m->rank + m->n_ranks - 1) % m->n_ranks;
  RONDE_TRY(ronde__shard_make(m->cut, worker->net, m->with_dead, before, m->n_ranks, &m->before));
  RONDE_TRY(make_room(m));
  pack_from_whole(m, &m->before, m->copies[m->now]);
  return RONDE_OK;
}

ronde_status ronde__mirror_create(const ronde__worker *worker, const ronde__buckets *cut, bool with_dead,
                                  const ronde__shard *own, ronde__mirror **mirror_out) {
  ronde__mirror *m;
  RONDE__ALLOC(m, sizeof *m, "--on-loss");
  *m = (ronde__mirror){.worker = worker,
                       .cut = cut,
                       .own = own,
                       .with_dead = with_dead,
                       .rank = worker->transport->rank,
                       .n_ranks = worker->transport->size,
                       .n_states = ronde__optim_n_states(worker->optim)};
  ronde_status status = set_up(m);
  if (status != RONDE_OK) ronde__mirror_destroy(m);
  else *mirror_out = m;
  return status;
}

void ronde__mirror_destroy(ronde__mirror *m) {
  if (!m) return;
  ronde__shard_free(&m->before);
  ronde__free(m->members);
  ronde__free(m->values);
  ronde__free(m->kept);
  ronde__free(m->packet);
  for (int i = 0; i < 2; i++) ronde__free(m->copies[i]);
  ronde__free(m);
}

/* ---- a step ------------------------------------------------------------------------------------------------------- */

void ronde__mirror_begin(ronde__mirror *m, int64_t step) {
  copy(m->values, ronde__net_values(m->worker->net), ronde__net_n_trained(m->worker->net));
  pack(m, m->kept);
  m->n_updates = ronde__optim_updates(m->worker->optim);
  m->updated_step = step;
}

ronde_status ronde__mirror_exchange(ronde__mirror *m, uint32_t tag) {
  ronde__transport *transport = m->worker->transport;
  const ronde__transport_ops *ops = transport->ops;
  int behind = (m->rank + 1) % m->n_ranks, before = (m->rank + m->n_ranks - 1) % m->n_ranks;
  size_t n_out = packet_elems(m, m->own), n_in = packet_elems(m, &m->before);
  uint32_t wire_tag = RONDE__WIRE_TAG(tag, 0);
  ronde__request requests[2] = {{NULL}};
  pack(m, m->packet);
  ronde_status status = RONDE_OK;
  if (n_in) status = ops->irecv(transport, before, wire_tag, m->copies[!m->now], n_in * sizeof(float), &requests[0]);
  if (n_out && status == RONDE_OK)
    status = ops->isend(transport, behind, wire_tag, m->packet, n_out * sizeof(float), &requests[1]);
  if (status == RONDE_OK) status = ops->wait(transport, requests, 2, transport->timeout_ns);
  if (status != RONDE_OK) {
    ops->cancel(transport, requests, 2);
    return status;
  }
  m->now = !m->now;
  m->mirrored_step = m->updated_step;
  return RONDE_OK;
}

bool ronde__mirror_has(const ronde__mirror *m, int64_t step) {
  return m->updated_step == step && m->mirrored_step == step;
}

/* ---- after a loss ------------------------------------------------------------------------------------------------- */

/* Steps that were left out lie between, and have changed nothing. */
void ronde__mirror_go_back(ronde__mirror *m, int64_t step) {
  if (m->mirrored_step > step) m->now = !m->now;
  if (m->updated_step > step) {
    size_t n = elems_of(m->own);
    copy(ronde__net_values(m->worker->net), m->values, ronde__net_n_trained(m->worker->net));
    for (int a = 0; a < m->n_states; a++) copy(state_of(m, a), m->kept + (size_t)a * n, n);
    ronde__optim_set_updates(m->worker->optim, m->n_updates);
  }
  m->updated_step = ronde__min(m->updated_step, step);
  m->mirrored_step = ronde__min(m->mirrored_step, step);
}

static int place_of(const ronde__transport *world, const int *members, int worker) {
  for (int i = 0; i < world->size; i++)
    if (members[i] == worker) return i;
  return -1;
}

static ronde_status hand_over_shard(const ronde__mirror *m, int rank, ronde__transport *world, const int *members,
                                    const ronde__shard *shard, const ronde__state_array *arrays) {
  int owner = place_of(world, members, m->members[rank]),
      root = owner >= 0 ? owner : place_of(world, members, m->members[(rank + 1) % m->n_ranks]);
  size_t n = packet_elems(m, shard);
  float *packet;
  if (n == 0) return RONDE_OK;
  if (root < 0)
    return ronde__fail(RONDE_E_LOST,
                       "rank %d is lost, and so is rank %d, which had its shard of the optimizer's state too",
                       m->members[rank], m->members[(rank + 1) % m->n_ranks]);
  RONDE__ALLOC(packet, n * sizeof *packet, "--on-loss");
  if (world->rank == root && owner >= 0) pack(m, packet);
  else if (world->rank == root) copy(packet, m->copies[m->now], n);
  ronde_status status = ronde__broadcast_tree(world, RONDE__TAG_WORLD, root, packet, n * sizeof *packet);
  if (status == RONDE_OK) unpack_to_whole(m, shard, packet, arrays);
  ronde__free(packet);
  return status;
}

ronde_status ronde__mirror_hand_over(const ronde__mirror *m, ronde__transport *world, const int *members,
                                     const ronde__state_array *arrays) {
  ronde_status status = RONDE_OK;
  for (int r = 0; r < m->n_ranks && status == RONDE_OK; r++) {
    ronde__shard shard;
    RONDE_TRY(ronde__shard_make(m->cut, m->worker->net, m->with_dead, r, m->n_ranks, &shard));
    status = hand_over_shard(m, r, world, members, &shard, arrays);
    ronde__shard_free(&shard);
  }
  return status;
}

/* The parameters; the shard in front of an update and on its way; and the mirror twice. */
size_t ronde__mirror_bytes(size_t gradients, size_t optimizer, int n_workers) {
  return gradients + 4 * optimizer / (size_t)n_workers;
}
