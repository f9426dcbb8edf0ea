/* Convolution in groups whose channels are a stretch of memory: planes of LANES, of any number, or whole blocks of BLOCKS.
 * Each group is a convolution by itself, by the form that is right for it. */
#include "ops/conv.h"

typedef struct conv_groups_state {
  ronde__op_desc group; /* one group's; all are alike */
  void *state;
} conv_groups_state;

static const ronde__form *const forms[] = {RONDE__CONV_FORMS_OF_ONE_GROUP};

static void conv_groups_release(const ronde__op_desc *desc, void *opaque) {
  conv_groups_state *s = opaque;
  if (!s) return;
  if (s->group.form) s->group.form->release(&s->group, s->state);
  ronde__free(s);
}

static ronde_status conv_groups_prepare(const ronde__op_desc *desc, void **state_out) {
  int64_t groups = desc->attr.groups;
  conv_groups_state *s;
  RONDE__ALLOC(s, sizeof *s, "convolution plan");
  *s = (conv_groups_state){.group = *desc};
  s->group.attr.groups = 1;
  s->group.attr.out_channels /= groups;
  s->group.in[0].c /= groups;
  s->group.out[0].c /= groups;
  s->group.param[0].o /= groups;
  s->group.param[1].o /= groups;
  int form = 0;
  while (!forms[form]->takes(&s->group)) form++; /* one of the last two does */
  s->group.form = forms[form];
  ronde_status status = s->group.form->prepare(&s->group, &s->state);
  if (status != RONDE_OK) conv_groups_release(desc, s);
  else *state_out = s;
  return status;
}

static size_t conv_groups_work_elems(const ronde__op_desc *desc, const void *opaque, bool backward) {
  const conv_groups_state *s = opaque;
  return s->group.form->work_elems(&s->group, s->state, backward);
}

static float *past(float *x, int64_t n) { return x ? x + n : NULL; }

/* What a call means for one group. */
static ronde__op_call call_of_group(const conv_groups_state *s, const ronde__op_call *call, int64_t g) {
  int64_t in = ronde__phys_elems(&s->group.in[0]), out = ronde__phys_elems(&s->group.out[0]);
  int64_t weights = ronde__weight_elems(&s->group.param[0]), biases = s->group.param[1].o;
  ronde__op_call c = *call;
  c.listener = (ronde__gradient_listener){0}; /* the other groups' gradients are not there yet */
  c.touches = NULL;
  c.in[0] += g * in;
  c.out[0] += g * out;
  c.dout[0] = past(c.dout[0], g * out);
  c.din[0] = past(c.din[0], g * in);
  c.param[0] += g * weights;
  c.dparam[0] = past(c.dparam[0], g * weights);
  if (s->group.attr.bias) c.param[1] += g * biases;
  c.dparam[1] = past(c.dparam[1], g * biases);
  return c;
}

static ronde_status conv_groups_forward(const ronde__op_desc *desc, const void *opaque, const ronde__op_call *call) {
  const conv_groups_state *s = opaque;
  for (int64_t g = 0; g < desc->attr.groups; g++) {
    ronde__op_call c = call_of_group(s, call, g);
    RONDE_TRY(s->group.form->forward(&s->group, s->state, &c));
  }
  return RONDE_OK;
}

static ronde_status conv_groups_backward(const ronde__op_desc *desc, const void *opaque, const ronde__op_call *call) {
  const conv_groups_state *s = opaque;
  for (int64_t g = 0; g < desc->attr.groups; g++) {
    ronde__op_call c = call_of_group(s, call, g);
    RONDE_TRY(s->group.form->backward(&s->group, s->state, &c));
  }
  return RONDE_OK;
}

static const char *conv_groups_implementation(const ronde__op_desc *desc, const void *opaque) {
  const conv_groups_state *s = opaque;
  return s->group.form->implementation(&s->group, s->state);
}

static double conv_groups_executed_flops(const ronde__op_desc *desc, const void *opaque, bool backward) {
  const conv_groups_state *s = opaque;
  return desc->attr.groups * s->group.form->executed_flops(&s->group, s->state, backward);
}

static bool conv_groups_takes(const ronde__op_desc *desc) {
  return ronde__conv_n_groups(&desc->attr) > 1 && desc->param[0].form != RONDE__PANELS;
}

const ronde__form ronde__conv_groups = {
    .name = "groups",
    .takes = conv_groups_takes,
    .prepare = conv_groups_prepare,
    .release = conv_groups_release,
    .work_elems = conv_groups_work_elems,
    .forward = conv_groups_forward,
    .backward = conv_groups_backward,
    .implementation = conv_groups_implementation,
    .executed_flops = conv_groups_executed_flops,
};
