/* What a label weighs where examples have several, not all of which count. */
#include "data/labels.h"

ronde_status ronde__labels_count(const char *name, int64_t n, int64_t n_labels, const int64_t *labels,
                                 int32_t **counted_out) {
  int32_t *counted;
  bool all = true;
  RONDE__ALLOC(counted, (size_t)n * sizeof *counted, name);
  for (int64_t i = 0; i < n * n_labels; ++i) {
    counted[i / n_labels] += labels[i] >= 0;
    all = all && labels[i] >= 0;
  }
  if (all) ronde__free(counted);
  else *counted_out = counted;
  return RONDE_OK;
}

float ronde__data_label_weight(const ronde__data *data, ronde_split split, const int64_t *ids, int64_t n) {
  const int32_t *counted = data->counted[split];
  int64_t sum = 0;
  if (!counted) return 1 / (float)ronde__max(1, data->source.label_elems);
  for (int64_t i = 0; i < n; ++i) sum += counted[ids ? ids[i] : i];
  return sum ? (float)((double)n / (double)sum) : 1;
}

ronde_status ronde__sampler_label_weight(const ronde__sampler *sampler, const ronde__data *data, int64_t epoch,
                                         int64_t index, int64_t n, ronde__epoch_ids *ids, float *weight_out) {
  int64_t all = ronde__sampler_epoch_examples(sampler), batch = ronde__sampler_batch(sampler), first = index * batch;
  const int64_t *of_step = NULL;
  if (data->counted[RONDE_SPLIT_TRAIN]) {
    if (!ids->ids) RONDE__ALLOC(ids->ids, (size_t)all * sizeof *ids->ids, "labels of a step");
    if (ids->epoch != epoch) RONDE_TRY(ronde__sampler_epoch(sampler, epoch, ids->ids));
    ids->epoch = epoch;
    of_step = ids->ids + first;
  }
  *weight_out = ronde__data_label_weight(data, RONDE_SPLIT_TRAIN, of_step, ronde__min(n * batch, all - first));
  return RONDE_OK;
}
