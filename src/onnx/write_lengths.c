/* How long sequences are, in ONNX. A graph has lengths as values [N,1] of f32, which an op rounds, to the even one of two,
 * and bounds by what it has; the nodes for one tensor are shared by all who read it. Where an example has no key at all,
 * ONNX leaves open what a softmax gives, so the first key is seen then, and the result multiplied by zero. */
#include "onnx/writer.h"

/* The last place that holds no padding, from 1 on; 0: there is none. */
void ronde__onnx_write_lengths(ronde__onnx_writer *w, const ronde__node *node) {
  static const float none = 0;
  static const int64_t axis = 1;
  const char *x = w->names[node->in[0]], *y = ronde__onnx_out_name(w, node, 0);
  const int64_t t = ronde__onnx_shape_in(w, node)->dim[0];
  float *numbers = ronde__onnx_room(w, (size_t)t * sizeof *numbers);
  if (!y || !numbers) return;
  for (int64_t i = 0; i < t; i++) numbers[i] = (float)(i + 1);
  const char *padding = ronde__onnx_text(w, "%s.padding", y), *places = ronde__onnx_text(w, "%s.places", y);
  Onnx__NodeProto *is = ronde__onnx_add_step(w, "Equal", x, padding);
  ronde__onnx_add_input(w, is, ronde__onnx_add_token(w, (int32_t)node->attr.begin[0]));
  Onnx__NodeProto *choose = ronde__onnx_add_step(w, "Where", padding, places);
  ronde__onnx_add_input(w, choose, ronde__onnx_add_floats(w, 0, 1, &none));
  ronde__onnx_add_input(w, choose, ronde__onnx_add_floats(w, 1, t, numbers));
  Onnx__NodeProto *last = ronde__onnx_add(w, "ReduceMax", node->label, y);
  ronde__onnx_add_input(w, last, places);
  ronde__onnx_add_input(w, last, ronde__onnx_add_sizes(w, 1, &axis));
  ronde__onnx_need_opset(w, 18); /* axes are an input */
}

/* The node's last input as a whole number, still f32 [N,1]. */
static const char *whole_of(ronde__onnx_writer *w, const ronde__node *node) {
  const char *lengths = w->names[node->in[node->n_inputs - 1]], *whole = ronde__onnx_text(w, "%s.whole", lengths);
  if (whole && !ronde__onnx_is_given(w, whole)) ronde__onnx_add_step(w, "Round", lengths, whole);
  return whole;
}

static void add_bounds(ronde__onnx_writer *w, const char *from, float most, const char *to) {
  static const float least = 0;
  Onnx__NodeProto *clip = ronde__onnx_add_step(w, "Clip", from, to);
  ronde__onnx_add_input(w, clip, ronde__onnx_add_floats(w, 0, 1, &least));
  ronde__onnx_add_input(w, clip, ronde__onnx_add_floats(w, 0, 1, &most));
}

const char *ronde__onnx_steps_of(ronde__onnx_writer *w, const ronde__node *node, int64_t most) {
  const char *whole = whole_of(w, node), *steps = ronde__onnx_text(w, "%s.steps%lld", whole, (long long)most);
  if (!steps || ronde__onnx_is_given(w, steps)) return steps;
  const char *bounded = ronde__onnx_text(w, "%s.bounded", steps), *list = ronde__onnx_text(w, "%s.list", steps);
  add_bounds(w, whole, (float)most, bounded);
  ronde__onnx_add_axis(w, "Squeeze", 1, bounded, list);
  ronde__onnx_add_int(w, ronde__onnx_add_step(w, "Cast", list, steps), "to", ONNX__TENSOR_PROTO__DATA_TYPE__INT32);
  return steps;
}

const char *ronde__onnx_seen_of(ronde__onnx_writer *w, const ronde__node *node, int64_t s) {
  static const float one = 1;
  const char *whole = whole_of(w, node), *seen = ronde__onnx_text(w, "%s.seen%lld", whole, (long long)s);
  if (!seen || ronde__onnx_is_given(w, seen)) return seen;
  float *places = ronde__onnx_room(w, (size_t)s * sizeof *places);
  for (int64_t i = 0; i < s && places; i++) places[i] = (float)i;
  const char *some = ronde__onnx_text(w, "%s.some", seen);
  Onnx__NodeProto *most = ronde__onnx_add_step(w, "Max", whole, some);
  ronde__onnx_add_input(w, most, ronde__onnx_add_floats(w, 0, 1, &one));
  if (!places) return NULL;
  Onnx__NodeProto *less = ronde__onnx_add_step(w, "Less", ronde__onnx_add_floats(w, 1, s, places), seen);
  ronde__onnx_add_input(w, less, some);
  return seen;
}

const char *ronde__onnx_any_of(ronde__onnx_writer *w, const ronde__node *node) {
  const char *whole = whole_of(w, node), *any = ronde__onnx_text(w, "%s.any", whole);
  if (!any || ronde__onnx_is_given(w, any)) return any;
  const char *bounded = ronde__onnx_text(w, "%s.bounded", any);
  add_bounds(w, whole, 1, bounded);
  ronde__onnx_add_axis(w, "Unsqueeze", 2, bounded, any);
  return any;
}
