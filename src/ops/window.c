/* Windows from the attributes of an op. */
#include "ops/window.h"

ronde__axis ronde__window_axis(const ronde__op_attr *attr, int d, int64_t in) {
  ronde__axis window = {.in = in,
                        .kernel = attr->kernel[d],
                        .stride = attr->stride[d],
                        .dilation = attr->dilation[d] ? attr->dilation[d] : 1,
                        .padding = attr->padding[d],
                        .end = attr->padding[d] + attr->padding_more[d]};
  return ronde__axis_make(window, attr->ceil_mode);
}

bool ronde__window_is_plain(const ronde__op_attr *attr) {
  for (int d = 0; d < 2; d++)
    if (attr->stride[d] != 1 || attr->dilation[d] > 1 || attr->padding_more[d]) return false;
  return true;
}

enum { LARGEST = 1 << 28 };

static bool is_positive(const ronde__op_attr *attr, int d) {
  return attr->kernel[d] > 0 && attr->stride[d] > 0 && attr->padding[d] >= 0 && attr->dilation[d] >= 0 &&
         (int64_t)attr->padding[d] + attr->padding_more[d] >= 0;
}

static bool is_small(const ronde__op_attr *attr, int d, int64_t in) {
  ronde__axis axis = {.kernel = attr->kernel[d], .dilation = attr->dilation[d] ? attr->dilation[d] : 1};
  int64_t padding = 2 * (int64_t)attr->padding[d] + attr->padding_more[d];
  return ronde__axis_extent(&axis) <= LARGEST && padding <= LARGEST && in <= LARGEST && attr->stride[d] <= LARGEST;
}

void ronde__window_simplify(ronde__op_attr *attr, const ronde__shape *in, bool places_matter) {
  ronde__op_attr plain = *attr;
  plain.padding_more[0] = plain.padding_more[1] = 0;
  plain.ceil_mode = false;
  for (int d = 0; d < 2; d++) {
    if (in->rank != 3 || !is_positive(attr, d) || !is_small(attr, d, in->dim[1 + d])) return;
    ronde__axis own = ronde__window_axis(attr, d, in->dim[1 + d]), other = ronde__window_axis(&plain, d, own.in);
    if (own.out != other.out || own.out < 1) return;
    int64_t last = own.out - 1;
    if (places_matter && ronde__axis_places(&own, last) != ronde__axis_places(&other, last)) return;
  }
  *attr = plain;
}

ronde_status ronde__window_check(const ronde__op_attr *attr, const char *label, const ronde__shape *in) {
  for (int d = 0; d < 2; d++) {
    if (!is_positive(attr, d))
      return ronde__fail(RONDE_E_USAGE, "%s: kernel, stride and dilation must be positive and padding not negative",
                         label);
    if (!is_small(attr, d, in->dim[1 + d]))
      return ronde__fail(RONDE_E_USAGE, "%s: a window, its padding or its input is larger than %d", label, LARGEST);
  }
  return RONDE_OK;
}
