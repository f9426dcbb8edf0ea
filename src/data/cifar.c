/* CIFAR-10 and CIFAR-100, the "binary version": records of labels and planes. Source:
 * https://www.cs.toronto.edu/~kriz/cifar.html. */
#include "data/set.h"

#define SIDE 32
#define PIXELS (3 * SIDE * SIDE)

ronde_status ronde__cifar_scan(ronde__stream *stream, int label_bytes, int64_t *n_out) {
  int64_t bytes, record = label_bytes + PIXELS;
  RONDE_TRY(ronde__stream_measure(stream, INT64_MAX, &bytes));
  if (bytes == 0)
    return ronde__fail(RONDE_E_INPUT, "%s: offset 0: the file holds no examples", ronde__stream_name(stream));
  if (bytes % record)
    return ronde__fail(RONDE_E_INPUT, "%s: offset %lld: %lld bytes are not a whole number of records of %lld bytes",
                       ronde__stream_name(stream), (long long)(bytes / record * record), (long long)bytes,
                       (long long)record);
  *n_out = bytes / record;
  return RONDE_OK;
}

ronde_status ronde__cifar_read(ronde__stream *stream, int label_bytes, int classes, int64_t n, uint8_t *x,
                               int64_t *labels) {
  for (int64_t i = 0; i < n; ++i) {
    uint8_t label[2] = {0};
    RONDE_TRY(ronde__stream_read(stream, label, label_bytes));
    labels[i] = label[label_bytes - 1];
    if (labels[i] >= classes)
      return ronde__fail(RONDE_E_INPUT, "%s: offset %lld: label %lld of record %lld is beyond the %d classes (0..%d)",
                         ronde__stream_name(stream), (long long)(ronde__stream_offset(stream) - 1),
                         (long long)labels[i], (long long)i, classes, classes - 1);
    RONDE_TRY(ronde__stream_read(stream, x + i * PIXELS, PIXELS));
  }
  return ronde__stream_end(stream);
}

/* ---- a set of them ---------------------------------------------------------------------------------------------- */

static ronde_status cifar_scan_file(const char *path, int label_bytes, int64_t *n_out) {
  ronde__stream *stream;
  RONDE_TRY(ronde__stream_open(path, &stream));
  ronde_status status = ronde__cifar_scan(stream, label_bytes, n_out);
  ronde__stream_close(stream);
  return status;
}

static ronde_status cifar_scan(const ronde__set *set, int label_bytes, ronde__facts *facts_out) {
  ronde__facts facts = {.dims = {3, SIDE, SIDE}};
  for (int split = 0; split < 2; ++split)
    for (int64_t i = 0; i < set->files[split].n; ++i) {
      int64_t n;
      RONDE_TRY(cifar_scan_file(set->files[split].path[i], label_bytes, &n));
      facts.n[split] += n;
    }
  *facts_out = facts;
  return RONDE_OK;
}

/* At most `room` records, which is how many the set had when it was scanned. */
static ronde_status cifar_fill_file(const char *path, int label_bytes, int classes, int64_t room, uint8_t *x,
                                    int64_t *labels, int64_t *n_out) {
  ronde__stream *stream;
  RONDE_TRY(ronde__stream_open(path, &stream));
  ronde_status status = ronde__cifar_scan(stream, label_bytes, n_out);
  if (status == RONDE_OK && *n_out > room)
    status = ronde__fail(RONDE_E_INPUT, "%s: offset 0: the file changed while it was in use", path);
  if (status == RONDE_OK) status = ronde__cifar_read(stream, label_bytes, classes, *n_out, x, labels);
  ronde__stream_close(stream);
  return status;
}

static ronde_status cifar_fill(const ronde__set *set, int label_bytes, int classes, int64_t n, ronde_split split,
                               uint8_t *x, int64_t *labels) {
  const ronde__files *files = &set->files[split];
  int64_t done = 0, now;
  for (int64_t i = 0; i < files->n; ++i, done += now)
    RONDE_TRY(cifar_fill_file(files->path[i], label_bytes, classes, n - done, x + done * PIXELS, labels + done, &now));
  if (done < n)
    return ronde__fail(RONDE_E_INPUT, "%s: offset 0: the file changed while it was in use", files->path[files->n - 1]);
  return RONDE_OK;
}

static ronde_status cifar10_scan(const ronde__set *set, ronde__facts *facts_out) {
  return cifar_scan(set, 1, facts_out);
}

static ronde_status cifar10_fill(const ronde__set *set, const ronde__facts *facts, ronde_split split, void *x,
                                 int64_t *labels, float *targets) {
  return cifar_fill(set, 1, 10, facts->n[split], split, x, labels);
}

static ronde_status cifar100_scan(const ronde__set *set, ronde__facts *facts_out) {
  return cifar_scan(set, 2, facts_out);
}

static ronde_status cifar100_fill(const ronde__set *set, const ronde__facts *facts, ronde_split split, void *x,
                                  int64_t *labels, float *targets) {
  return cifar_fill(set, 2, 100, facts->n[split], split, x, labels);
}

const ronde__set_kind ronde__cifar10_kind = {cifar10_scan, cifar10_fill};
const ronde__set_kind ronde__cifar100_kind = {cifar100_scan, cifar100_fill};
