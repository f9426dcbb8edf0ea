/* In front of a split layer: from the rank's own examples to those of all ranks, an all-gather; backward, what each rank
 * has of the gradient is summed where the examples are, a reduce-scatter.
 * Legend: N examples of all ranks, n those of this one; the value as [outer][N][inner] (shares.h). */
#include "ops/shares.h"

/* The place of a rank's parcel in scratch that has those of all other ranks behind one another. */
static size_t gather_examples_elems(const ronde__op_desc *desc, int64_t n_examples) {
  ronde__rows rows = ronde__rows_of(&desc->in[0]);
  return (size_t)(rows.outer * rows.inner * n_examples);
}

static int64_t gather_examples_own(const ronde__op_desc *desc) {
  return ronde__share_of(desc->peers, desc->out[0].n, desc->peers->rank);
}

static size_t gather_examples_work(const ronde__op_desc *desc, const void *state, bool backward) {
  int64_t all = desc->out[0].n, own = gather_examples_own(desc);
  return gather_examples_elems(desc, all - own + (backward ? (desc->peers->size - 1) * own : 0));
}

static ronde_status gather_examples_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const ronde__parcels *parcels = state;
  const ronde__peers *peers = desc->peers;
  int64_t all = desc->out[0].n, own = gather_examples_own(desc);
  float *work = call->work;
  for (int r = 0; r < peers->size; r++) {
    if (r == peers->rank) continue;
    parcels->to[r] = (ronde__parcel){(float *)call->in[0], gather_examples_elems(desc, own)};
    parcels->from[r] = (ronde__parcel){work, gather_examples_elems(desc, ronde__share_of(peers, all, r))};
    work += parcels->from[r].n;
  }
  RONDE_TRY(ronde__parcels_exchange(desc, parcels, false));
  for (int r = 0; r < peers->size; r++) {
    int64_t n = ronde__share_of(peers, all, r);
    const float *from = r == peers->rank ? call->in[0] : parcels->from[r].at;
    ronde__row_copy copy = {from, call->out[0], n, 0, all, ronde__share_begin(peers, all, r), n};
    ronde__rows_copy(desc, ronde__rows_of(&desc->in[0]), &copy, false);
  }
  return RONDE_OK;
}

static ronde_status gather_examples_backward(const ronde__op_desc *desc, const void *state,
                                             const ronde__op_call *call) {
  const ronde__parcels *parcels = state;
  const ronde__peers *peers = desc->peers;
  int64_t all = desc->out[0].n, own = gather_examples_own(desc);
  ronde__rows rows = ronde__rows_of(&desc->in[0]);
  float *work = call->work;
  for (int r = 0; r < peers->size; r++) {
    int64_t n = ronde__share_of(peers, all, r);
    if (r == peers->rank) continue;
    parcels->to[r] = (ronde__parcel){work, gather_examples_elems(desc, n)};
    parcels->from[r] = (ronde__parcel){work + parcels->to[r].n, gather_examples_elems(desc, own)};
    ronde__row_copy copy = {call->dout[0], work, all, ronde__share_begin(peers, all, r), n, 0, n};
    ronde__rows_copy(desc, rows, &copy, false);
    work += parcels->to[r].n + parcels->from[r].n;
  }
  RONDE_TRY(ronde__parcels_exchange(desc, parcels, true));
  ronde__row_copy copy = {call->dout[0], call->din[0], all, ronde__share_begin(peers, all, peers->rank), own, 0, own};
  ronde__rows_copy(desc, rows, &copy, call->accumulate_dinput[0]);
  ronde__parcels_add(desc, parcels, call->din[0], gather_examples_elems(desc, own));
  return RONDE_OK;
}

static const ronde__form gather_examples_form = {.prepare = ronde__parcels_prepare,
                                                 .release = ronde__parcels_release,
                                                 .work_elems = gather_examples_work,
                                                 .forward = gather_examples_forward,
                                                 .backward = gather_examples_backward};

const ronde__op ronde__op_gather_examples = {.name = "gather examples",
                                             .forms = (const ronde__form *const[]){&gather_examples_form, NULL}};
