/* Errors between two tensors: an example's terms are summed by one thread in f64, in their order. */
#include "ops/elementwise.h"
#include "ops/gemm_list.h"
#include "ops/value_loss.h"

#include <string.h>

ronde_status ronde__value_error_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                      const char *const *in_labels, ronde__shape *out) {
  RONDE_TRY(ronde__elementwise_infer_pair(attr, label, in, in_labels, out));
  *out = (ronde__shape){1, {1}};
  if (!attr->lengths || ronde__shape_equal(&in[2], out)) return RONDE_OK;
  char text[96];
  ronde__shape_text(&in[2], text, sizeof text);
  return ronde__fail(RONDE_E_USAGE, "%s: lengths are one number an example, but %s gives %s", label, in_labels[2],
                     text);
}

void ronde__value_error_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  int64_t n = desc->in[0].n;
  for (int i = 0; i < desc->attr.n_inputs; i++) desc->in[i] = ronde__phys_of_shape(&in[i], n);
  desc->out[0] = ronde__phys_of_shape(out, n);
  desc->attr.length = ronde__shape_elems(&in[0]);
  desc->attr.step = in[0].rank ? in[0].dim[0] : 1;
}

typedef struct error_job error_job;

/* The elements of an example that are there, from the first on. */
typedef struct elements {
  int64_t n, there; /* the example, their number */
  const float *x, *t;
} elements;

struct error_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
  const ronde__value_terms *terms;
  void (*of_example)(const error_job *j, const elements *e);
};

static void each_example(void *arg, int thread, int n_threads) {
  const error_job *j = arg;
  int64_t begin, end, length = j->desc->attr.length, rows = j->desc->attr.step;
  ronde__thread_chunk(j->desc->in[0].n, thread, n_threads, &begin, &end);
  for (int64_t n = begin; n < end; n++) {
    int64_t there = length / rows * ronde__rows_there(j->desc, j->call, n, rows);
    j->of_example(j, &(elements){n, there, j->call->in[0] + n * length, j->call->in[1] + n * length});
  }
}

static void sum_terms(const error_job *j, const elements *e) {
  const ronde__op_attr *attr = &j->desc->attr;
  double sum = 0;
  for (int64_t i = 0; i < e->there; i++) sum += j->terms->term((double)e->x[i], (double)e->t[i], (double)attr->delta);
  j->call->out[0][e->n] = (float)(sum / (double)attr->length);
}

ronde_status ronde__value_error_forward(const ronde__op_desc *desc, const ronde__op_call *call,
                                        const ronde__value_terms *terms) {
  ronde__pool_run(call->pool, each_example, &(error_job){desc, call, terms, sum_terms});
  return RONDE_OK;
}

/* Both inputs may be one tensor: the second then adds to what the first has written. */
static void write_slopes(const error_job *j, const elements *e) {
  const ronde__op_attr *attr = &j->desc->attr;
  float factor = (float)((double)j->call->dout[0][e->n] / (double)attr->length);
  for (int k = 0; k < 2; k++) {
    float *d = j->call->din[k] ? j->call->din[k] + e->n * attr->length : NULL;
    if (!d) continue;
    if (!j->call->accumulate_dinput[k]) memset(d, 0, (size_t)attr->length * sizeof *d);
    for (int64_t i = 0; i < e->there; i++) d[i] += factor * j->terms->slopes[k](e->x[i], e->t[i], attr->delta);
  }
}

ronde_status ronde__value_error_backward(const ronde__op_desc *desc, const ronde__op_call *call,
                                         const ronde__value_terms *terms) {
  ronde__pool_run(call->pool, each_example, &(error_job){desc, call, terms, write_slopes});
  ronde__lengths_backward(desc, call);
  return RONDE_OK;
}
