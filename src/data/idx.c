/* IDX, the format of MNIST: 0, 0, type, rank, then each dim as a big-endian u32, then the items.
 * Source: http://yann.lecun.com/exdb/mnist, "the IDX file format". */
#include "data/set.h"

#include <stdio.h>
#include <string.h>

#define TYPE_U8 8

static ronde_status idx_header_fail(const ronde__stream *stream, int64_t offset, const char *reason) {
  return ronde__fail(RONDE_E_INPUT, "%s: offset %lld: %s", ronde__stream_name(stream), (long long)offset, reason);
}

int64_t ronde__idx_data_offset(const ronde__idx *idx) { return 4 + 4 * idx->rank; }

static ronde_status idx_read_header(ronde__stream *stream, int rank, ronde__idx *idx_out) {
  uint8_t magic[4];
  RONDE_TRY(ronde__stream_rewind(stream));
  RONDE_TRY(ronde__stream_read(stream, magic, sizeof magic));
  if (magic[0] || magic[1]) return idx_header_fail(stream, 0, "not an IDX file: it must begin with two zero bytes");
  if (magic[2] != TYPE_U8)
    return ronde__fail(RONDE_E_INPUT, "%s: offset 2: IDX type 0x%02x; only unsigned bytes (0x08) are read",
                       ronde__stream_name(stream), magic[2]);
  if (magic[3] != rank)
    return ronde__fail(RONDE_E_INPUT, "%s: offset 3: IDX of rank %d; %s have rank %d", ronde__stream_name(stream),
                       magic[3], rank == 1 ? "labels" : "images", rank);
  ronde__idx idx = {.rank = rank};
  for (int d = 0; d < rank; ++d) {
    uint8_t be[4];
    RONDE_TRY(ronde__stream_read(stream, be, sizeof be));
    idx.dim[d] = (int64_t)be[0] << 24 | be[1] << 16 | be[2] << 8 | be[3];
    if (idx.dim[d] == 0)
      return idx_header_fail(stream, 4 + 4 * d, d == 0 ? "it holds no examples" : "an image side of 0");
  }
  *idx_out = idx;
  return RONDE_OK;
}

static bool idx_payload_bytes(const ronde__idx *idx, int64_t *bytes_out) {
  int64_t bytes = 1;
  for (int d = 0; d < idx->rank; ++d)
    if (__builtin_mul_overflow(bytes, idx->dim[d], &bytes)) return false;
  *bytes_out = bytes;
  return true;
}

static ronde_status idx_claim_fail(const ronde__stream *stream, const ronde__idx *idx, const char *but) {
  char claim[80];
  if (idx->rank == 1) snprintf(claim, sizeof claim, "%lld labels", (long long)idx->dim[0]);
  else
    snprintf(claim, sizeof claim, "%lld images of %lldx%lld", (long long)idx->dim[0], (long long)idx->dim[1],
             (long long)idx->dim[2]);
  return ronde__fail(RONDE_E_INPUT, "%s: offset 4: the header claims %s, %s", ronde__stream_name(stream), claim, but);
}

ronde_status ronde__idx_scan(ronde__stream *stream, int rank, ronde__idx *idx_out) {
  int64_t held, claimed;
  ronde__idx idx;
  RONDE_TRY(idx_read_header(stream, rank, &idx));
  int64_t front = ronde__idx_data_offset(&idx);
  if (!idx_payload_bytes(&idx, &claimed) || claimed > INT64_MAX - front - 1)
    return idx_claim_fail(stream, &idx, "more than can be counted");
  RONDE_TRY(ronde__stream_measure(stream, front + claimed + 1, &held));
  if (held < front + claimed) {
    char but[64];
    snprintf(but, sizeof but, "but only %lld bytes follow it", (long long)(held - front));
    return idx_claim_fail(stream, &idx, but);
  }
  if (held > front + claimed)
    return idx_header_fail(stream, front + claimed, "the file is longer than its header says");
  *idx_out = idx;
  return RONDE_OK;
}

ronde_status ronde__idx_read(ronde__stream *stream, const ronde__idx *idx, uint8_t *to) {
  ronde__idx now;
  RONDE_TRY(idx_read_header(stream, idx->rank, &now));
  if (memcmp(now.dim, idx->dim, sizeof now.dim))
    return idx_header_fail(stream, 4, "the file changed while it was in use");
  int64_t bytes;
  if (!idx_payload_bytes(idx, &bytes)) return idx_header_fail(stream, 4, "more bytes than can be counted");
  RONDE_TRY(ronde__stream_read(stream, to, bytes));
  return ronde__stream_end(stream);
}

/* ---- a set of IDX files ---------------------------------------------------------------------------------------- */

static ronde_status idx_scan_file(const char *path, int rank, ronde__idx *idx_out) {
  ronde__stream *stream;
  RONDE_TRY(ronde__stream_open(path, &stream));
  ronde_status status = ronde__idx_scan(stream, rank, idx_out);
  ronde__stream_close(stream);
  return status;
}

static ronde_status idx_read_file(const char *path, const ronde__idx *idx, uint8_t *to) {
  ronde__stream *stream;
  RONDE_TRY(ronde__stream_open(path, &stream));
  ronde_status status = ronde__idx_read(stream, idx, to);
  ronde__stream_close(stream);
  return status;
}

static ronde_status idx_scan(const ronde__set *set, ronde__facts *facts_out) {
  ronde__facts facts = {0};
  for (int split = 0; split < 2; ++split) {
    if (!set->x_path[split]) continue;
    ronde__idx images, labels;
    RONDE_TRY(idx_scan_file(set->x_path[split], 3, &images));
    RONDE_TRY(idx_scan_file(set->y_path[split], 1, &labels));
    if (images.dim[0] != labels.dim[0])
      return ronde__fail(RONDE_E_INPUT, "%s: offset 4: %lld labels, but %s holds %lld images", set->y_path[split],
                         (long long)labels.dim[0], set->x_path[split], (long long)images.dim[0]);
    const int64_t dims[3] = {1, images.dim[1], images.dim[2]};
    if (split == RONDE_SPLIT_TEST && memcmp(dims, facts.dims, sizeof dims))
      return ronde__fail(RONDE_E_INPUT, "%s: offset 8: test images of %lldx%lld, but training images of %lldx%lld",
                         set->x_path[split], (long long)dims[1], (long long)dims[2], (long long)facts.dims[1],
                         (long long)facts.dims[2]);
    memcpy(facts.dims, dims, sizeof dims);
    facts.n[split] = images.dim[0];
    facts.label_offset[split] = ronde__idx_data_offset(&labels);
    facts.label_bytes[split] = 1;
  }
  *facts_out = facts;
  return RONDE_OK;
}

static ronde_status idx_fill(const ronde__set *set, const ronde__facts *facts, ronde_split split, void *x,
                             int64_t *labels, float *targets) {
  int64_t n = facts->n[split];
  const ronde__idx images = {.rank = 3, .dim = {n, facts->dims[1], facts->dims[2]}};
  const ronde__idx label_idx = {.rank = 1, .dim = {n}};
  RONDE_TRY(idx_read_file(set->x_path[split], &images, x));
  /* Read into the front of the wider array and widened from behind. */
  RONDE_TRY(idx_read_file(set->y_path[split], &label_idx, (uint8_t *)labels));
  const uint8_t *narrow = (const uint8_t *)labels;
  for (int64_t i = n - 1; i >= 0; --i) labels[i] = narrow[i];
  return RONDE_OK;
}

const ronde__set_kind ronde__idx_kind = {idx_scan, idx_fill};
