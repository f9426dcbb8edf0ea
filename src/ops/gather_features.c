/* Between two split layers: from the rank's own features to all of them, of all examples, an all-gather; backward, what
 * each rank has of the gradient is summed where the features are, a reduce-scatter. Both values are BLOCKS [C/b][N][b],
 * so that a rank's part is contiguous. */
#include "ops/shares.h"

#include <string.h>

/* Of a rank: where its part begins, and how long it is. */
static ronde__range gather_features_part(const ronde__op_desc *desc, int rank) {
  const ronde__phys *all = &desc->out[0];
  int64_t blocks = ronde__phys_blocks(all), block = all->n * all->block;
  return (ronde__range){(size_t)(ronde__share_begin(desc->peers, blocks, rank) * block),
                        (size_t)(ronde__share_of(desc->peers, blocks, rank) * block)};
}

static size_t gather_features_work(const ronde__op_desc *desc, const void *state, bool backward) {
  return backward ? (size_t)(desc->peers->size - 1) * gather_features_part(desc, desc->peers->rank).n : 0;
}

static ronde_status gather_features_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const ronde__parcels *parcels = state;
  ronde__range own = gather_features_part(desc, desc->peers->rank);
  for (int r = 0; r < desc->peers->size; r++) {
    ronde__range part = gather_features_part(desc, r);
    parcels->to[r] = (ronde__parcel){(float *)call->in[0], own.n};
    parcels->from[r] = (ronde__parcel){call->out[0] + part.begin, part.n};
  }
  memcpy(call->out[0] + own.begin, call->in[0], own.n * sizeof(float));
  return ronde__parcels_exchange(desc, parcels, false);
}

static ronde_status gather_features_backward(const ronde__op_desc *desc, const void *state,
                                             const ronde__op_call *call) {
  const ronde__parcels *parcels = state;
  ronde__range own = gather_features_part(desc, desc->peers->rank);
  float *work = call->work, *own_dout = call->dout[0] + own.begin, *din = call->din[0];
  for (int r = 0; r < desc->peers->size; r++) {
    ronde__range part = gather_features_part(desc, r);
    if (r == desc->peers->rank) continue;
    parcels->to[r] = (ronde__parcel){call->dout[0] + part.begin, part.n};
    parcels->from[r] = (ronde__parcel){work, own.n};
    work += own.n;
  }
  RONDE_TRY(ronde__parcels_exchange(desc, parcels, true));
  if (call->accumulate_dinput[0]) desc->compute.kernels->add(din, own_dout, din, (int64_t)own.n);
  else memcpy(din, own_dout, own.n * sizeof *din);
  ronde__parcels_add(desc, parcels, din, own.n);
  return RONDE_OK;
}

static const ronde__form gather_features_form = {.prepare = ronde__parcels_prepare,
                                                 .release = ronde__parcels_release,
                                                 .work_elems = gather_features_work,
                                                 .forward = gather_features_forward,
                                                 .backward = gather_features_backward};

const ronde__op ronde__op_gather_features = {.name = "gather features",
                                             .forms = (const ronde__form *const[]){&gather_features_form, NULL}};
