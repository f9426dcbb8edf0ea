/* A net: its flat arrays laid out once, and what executes its passes behind one interface (executor.h). */
#include "graph/executor.h"
#include "graph/plan.h"

#include "base/rng.h"

#include <math.h>
#include <string.h>

struct ronde__net {
  const ronde_graph *graph;
  ronde__net_options options;
  ronde__net_param *params;
  int n_params;
  size_t n_elems, n_trained;
  float *values, *gradients;
  ronde__net_buffer *buffers;
  int n_buffers;
  float *buffer_values;
  size_t n_buffer_elems;
  const ronde__executor *executor;
  void *execution; /* the executor's */
  ronde__pass *pass;
  size_t partial_elems;
  ronde__range *dead; /* [n_dead] */
  int n_dead;
  ronde__row_set *rows; /* [n_params]: of tables that are tracked; bits NULL: it is none */
  bool *touched;        /* [n_params]: its gradient has a contribution of this backward */
};

struct ronde__pass {
  ronde__net *net;
  void *execution; /* the executor's */
};

enum { PARAM_ALIGNMENT = 16 };

static void place_params(ronde__net *net, const ronde__plan *plan, const ronde__weight_layout *layouts, bool frozen) {
  net->n_params = plan->n_params;
  for (int i = 0; i < net->n_params; i++) {
    const ronde__param *p = &net->graph->params[plan->param_of[i]];
    if (p->frozen != frozen) continue;
    int64_t elems = ronde__weight_elems(&layouts[i]);
    net->params[i] = (ronde__net_param){.name = p->name,
                                        .index = plan->param_of[i],
                                        .shape = p->shape,
                                        .layout = layouts[i],
                                        .offset = net->n_elems,
                                        .n_elems = (size_t)ronde__round_up(elems, PARAM_ALIGNMENT),
                                        .n_packed = (size_t)elems,
                                        .frozen = frozen};
    net->n_elems += net->params[i].n_elems;
    if (!frozen) net->n_trained = net->n_elems;
  }
}

static void place_buffers(ronde__net *net, const ronde__plan *plan, const ronde__weight_layout *layouts) {
  net->n_buffers = plan->n_buffers;
  for (int i = 0; i < net->n_buffers; i++) {
    const ronde__buffer *b = &net->graph->buffers[plan->buffer_of[i]];
    net->buffers[i] = (ronde__net_buffer){.name = b->name,
                                          .index = plan->buffer_of[i],
                                          .shape = b->shape,
                                          .layout = layouts[i],
                                          .offset = net->n_buffer_elems,
                                          .is_counter = b->is_counter};
    if (!b->is_counter)
      net->n_buffer_elems += (size_t)ronde__round_up(ronde__weight_elems(&layouts[i]), PARAM_ALIGNMENT);
  }
}

static void mark_split(ronde__net *net) {
  const ronde__split *split = &net->options.split;
  for (int i = 0; i < net->graph->n_nodes && split->peers; i++)
    for (int j = 0; j < net->graph->nodes[i].n_params && split->nodes[i]; j++)
      for (int k = 0; k < net->n_params; k++)
        net->params[k].split |= net->params[k].index == net->graph->nodes[i].param[j] && !net->params[k].frozen;
}

/* All of its steps give rows, which lie one behind the other: where a linear layer shares a table, they do not. */
static bool is_table(const ronde__plan *plan, const ronde__net_param *p, int param) {
  bool any = false, gives = !p->frozen && p->layout.form == RONDE__PLAIN;
  for (int i = 0; i < plan->n_steps && gives; i++)
    for (int j = 0; j < plan->steps[i].desc.n_params; j++) {
      if (plan->steps[i].param[j] != param) continue;
      any = true;
      gives &= j == 0 && plan->steps[i].op->gives_rows;
    }
  return any && gives;
}

/* Layouts do not depend on the batch size: a plan for one example shows them. */
static ronde_status place_state(ronde__net *net) {
  const ronde_graph *graph = net->graph;
  ronde__weight_layout *layouts;
  ronde__plan_options options = {.n = 1,
                                 .training = net->options.training,
                                 .compute = net->options.compute,
                                 .threads = 1,
                                 .stage = net->options.stage};
  ronde__plan *plan;
  RONDE__ALLOC(layouts, (size_t)(graph->n_params + graph->n_buffers) * sizeof *layouts, "network");
  ronde_status status = ronde__plan_create(graph, &options, &plan);
  if (status == RONDE_OK) {
    ronde__plan_weight_layouts(plan, graph, layouts);
    ronde__plan_buffer_layouts(plan, graph, layouts + graph->n_params);
    place_params(net, plan, layouts, false);
    place_params(net, plan, layouts, true);
    mark_split(net);
    for (int i = 0; i < net->n_params; i++) net->params[i].is_table = is_table(plan, &net->params[i], i);
    place_buffers(net, plan, layouts + graph->n_params);
    for (int i = 0; i < plan->n_steps; i++) {
      size_t elems = ronde__plan_step_partial_elems(&plan->steps[i]);
      if (elems > net->partial_elems) net->partial_elems = elems;
    }
    if (!net->options.define) status = ronde__plan_dead_taps(plan, net->params, &net->dead, &net->n_dead);
    ronde__plan_destroy(plan);
  }
  ronde__free(layouts);
  return status;
}

/* Logical values: padding stays 0. */
static void set_initial_buffers(ronde__net *net) {
  for (int i = 0; i < net->n_buffers; i++) {
    const ronde__net_buffer *b = &net->buffers[i];
    for (int64_t j = 0; j < ronde__shape_elems(&b->shape) && !b->is_counter; j++)
      net->buffer_values[b->offset + (size_t)ronde__weight_index(&b->layout, j, 0, 0)] =
          net->graph->buffers[b->index].initial;
  }
}

static ronde_status net_allocate(ronde__net *net) {
  RONDE__ALLOC(net->params, (size_t)net->graph->n_params * sizeof *net->params, "network");
  RONDE__ALLOC(net->touched, (size_t)net->graph->n_params * sizeof *net->touched, "network");
  RONDE__ALLOC(net->rows, (size_t)net->graph->n_params * sizeof *net->rows, "network");
  RONDE__ALLOC(net->buffers, (size_t)net->graph->n_buffers * sizeof *net->buffers, "network");
  RONDE_TRY(place_state(net));
  if (net->options.shares) {
    net->values = net->options.shares->values;
    net->buffer_values = net->options.shares->buffer_values;
    return RONDE_OK;
  }
  RONDE__ALLOC(net->buffer_values, net->n_buffer_elems * sizeof(float), "network");
  set_initial_buffers(net);
  size_t bytes = net->n_elems * sizeof(float);
  const ronde__kernels *kernels = net->options.replay ? &ronde__kernels_none : net->options.compute.kernels;
  net->values = ronde__floats_map(kernels, net->n_elems);
  bool keeps_gradients = net->options.training && !net->options.transient_gradients;
  if (keeps_gradients) net->gradients = ronde__floats_map(kernels, net->n_trained);
  if (!net->values || (keeps_gradients && !net->gradients))
    return ronde__fail(RONDE_E_MEMORY, "network: no memory for %zu bytes of parameters", bytes);
  return RONDE_OK;
}

void ronde__net_destroy(ronde__net *net) {
  if (!net) return;
  ronde__pass_destroy(net->pass);
  net->executor->destroy(net->execution);
  if (!net->options.shares) ronde__pages_unmap(net->values, net->n_elems * sizeof(float));
  ronde__pages_unmap(net->gradients, net->n_trained * sizeof(float));
  for (int i = 0; i < net->n_params; i++) ronde__free(net->rows[i].bits);
  ronde__free(net->rows);
  ronde__free(net->touched);
  ronde__free(net->dead);
  ronde__free(net->params);
  ronde__free(net->buffers);
  if (!net->options.shares) ronde__free(net->buffer_values);
  ronde__free(net);
}

const ronde_graph *ronde__net_graph(const ronde__net *net) { return net->graph; }

const ronde__net_param *ronde__net_params(const ronde__net *net, int *n_out) {
  *n_out = net->n_params;
  return net->params;
}

size_t ronde__net_n_elems(const ronde__net *net) { return net->n_elems; }
size_t ronde__net_n_trained(const ronde__net *net) { return net->n_trained; }
float *ronde__net_values(ronde__net *net) { return net->values; }
float *ronde__net_gradients(ronde__net *net) { return net->gradients; }

const ronde__range *ronde__net_dead(const ronde__net *net, int *n_out) {
  *n_out = net->n_dead;
  return net->dead;
}

void ronde__net_get(const ronde__net *net, int param, float *logical_out) {
  ronde__weight_unpack(&net->params[param].layout, net->values + net->params[param].offset, logical_out);
}

void ronde__net_set(ronde__net *net, int param, const float *logical) {
  ronde__weight_pack(&net->params[param].layout, logical, net->values + net->params[param].offset);
}

void ronde__net_get_gradient(const ronde__net *net, int param, float *logical_out) {
  ronde__weight_unpack(&net->params[param].layout, net->gradients + net->params[param].offset, logical_out);
}

ronde__net_buffer *ronde__net_buffers(ronde__net *net, int *n_out) {
  *n_out = net->n_buffers;
  return net->buffers;
}

float *ronde__net_buffer_values(ronde__net *net, size_t *n_elems_out) {
  *n_elems_out = net->n_buffer_elems;
  return net->buffer_values;
}

void ronde__net_get_buffer(const ronde__net *net, int buffer, float *logical_out) {
  ronde__weight_unpack(&net->buffers[buffer].layout, net->buffer_values + net->buffers[buffer].offset, logical_out);
}

void ronde__net_set_buffer(ronde__net *net, int buffer, const float *logical) {
  ronde__weight_pack(&net->buffers[buffer].layout, logical, net->buffer_values + net->buffers[buffer].offset);
}

int64_t ronde__net_slice_elems(const ronde__net *net) {
  int64_t longest = 1;
  for (int i = 0; i < net->n_params; i++)
    longest = ronde__max(longest, ronde__weight_slice_elems(&net->params[i].layout));
  for (int i = 0; i < net->n_buffers; i++)
    longest = ronde__max(longest, ronde__weight_slice_elems(&net->buffers[i].layout));
  return longest;
}

/* ---- rows that were met ---- */

static ronde_status track_table(ronde__net *net, int param) {
  const ronde__net_param *p = &net->params[param];
  ronde__row_set *rows = &net->rows[param];
  if (rows->bits) {
    if (net->gradients) memset(net->gradients + p->offset, 0, p->n_packed * sizeof *net->gradients);
    ronde__row_set_clear(rows);
    return RONDE_OK;
  }
  return ronde__row_set_make(p->layout.o, p->layout.i, rows);
}

ronde_status ronde__net_track_rows(ronde__net *net) {
  for (int i = 0; i < net->n_params && !net->options.replay; i++)
    if (net->params[i].is_table) RONDE_TRY(track_table(net, i));
  return RONDE_OK;
}

ronde__row_set *ronde__net_rows(const ronde__net *net, int param) {
  return net->rows[param].bits ? &net->rows[param] : NULL;
}

/* A new gradient begins: none of its rows is met. */
static void forget_rows(ronde__net *net, int param) {
  ronde__row_set *rows = &net->rows[param];
  float *gradient = net->gradients ? net->gradients + net->params[param].offset : NULL;
  for (int64_t row = 0, next; row < rows->n && gradient; row = next) {
    next = ronde__row_set_run(rows, row, rows->n);
    size_t bytes = (size_t)((next - row) * rows->elems) * sizeof *gradient;
    if (ronde__row_set_has(rows, row)) memset(gradient + row * rows->elems, 0, bytes);
  }
  ronde__row_set_clear(rows);
}

void ronde__net_clear_gradients(ronde__net *net) {
  for (int i = 0; i < net->n_params; i++) {
    const ronde__net_param *p = &net->params[i];
    if (ronde__net_rows(net, i)) forget_rows(net, i);
    else if (!p->frozen) memset(net->gradients + p->offset, 0, p->n_elems * sizeof *net->gradients);
  }
}

static float initial_value(const ronde__param *param, ronde__rng *rng) {
  switch (param->init) {
  case RONDE_INIT_NORMAL: return ronde__rng_normal(rng) * param->bound;
  case RONDE_INIT_CONSTANT: return param->bound;
  default: return (2 * ronde__rng_uniform(rng) - 1) * param->bound;
  }
}

typedef struct drawing {
  const ronde__param *param;
  const ronde__weight_layout *layout;
  ronde__rng rng;
  float *values, *slices; /* a slice for each thread */
} drawing;

/* Slices in turn: the same values however many threads draw them. */
static void draw_part(void *arg, int thread, int n_threads) {
  const drawing *d = arg;
  int64_t slice = ronde__weight_slice_elems(d->layout), n = ronde__shape_elems(&d->param->shape);
  float *logical = d->slices + thread * slice;
  for (int64_t first = thread * slice; first < n; first += n_threads * slice) {
    ronde__rng rng = d->rng;
    ronde__rng_skip(&rng, (uint64_t)first * (d->param->init == RONDE_INIT_NORMAL ? 2 : 1));
    for (int64_t i = 0; i < ronde__min(slice, n - first); i++)
      logical[i] = d->param->values ? d->param->values[first + i] : initial_value(d->param, &rng);
    ronde__weight_pack_slice(d->layout, first, logical, d->values);
  }
}

ronde_status ronde__net_init(ronde__net *net, uint64_t seed) {
  int64_t n = ronde__net_slice_elems(net) * ronde__pool_threads(net->options.pool);
  float *slices;
  RONDE__ALLOC(slices, (size_t)n * sizeof *slices, "initial weights");
  for (int i = 0; i < net->n_params; i++) {
    const ronde__net_param *p = &net->params[i];
    ronde__rng rng = ronde__rng_make(seed, RONDE__STREAM_INIT | (uint32_t)p->index);
    drawing d = {&net->graph->params[p->index], &p->layout, rng, net->values + p->offset, slices};
    ronde__pool_run(net->options.pool, draw_part, &d);
  }
  ronde__free(slices);
  return RONDE_OK;
}

ronde_status ronde__net_open(const ronde_graph *graph, const ronde__net_options *options,
                             const ronde__executor *executor, ronde__net **net_out) {
  ronde__net *net;
  RONDE__ALLOC(net, sizeof *net, "network");
  *net = (ronde__net){.graph = graph, .options = *options, .executor = executor};
  ronde_status status = net_allocate(net);
  if (status == RONDE_OK) status = executor->create(net, options, &net->execution);
  if (status == RONDE_OK) status = ronde__pass_create(net, &net->pass);
  if (status != RONDE_OK) ronde__net_destroy(net);
  else *net_out = net;
  return status;
}

/* ---- passes ---- */

ronde_status ronde__pass_create(ronde__net *net, ronde__pass **pass_out) {
  ronde__pass *pass;
  RONDE__ALLOC(pass, sizeof *pass, "pass");
  pass->net = net;
  ronde_status status = net->executor->pass_create(net->execution, &pass->execution);
  if (status != RONDE_OK) ronde__free(pass);
  else *pass_out = pass;
  return status;
}

ronde__pass *ronde__net_pass(ronde__net *net) { return net->pass; }

void ronde__pass_destroy(ronde__pass *pass) {
  if (!pass) return;
  pass->net->executor->pass_destroy(pass->execution);
  ronde__free(pass);
}

ronde_status ronde__pass_prepare(ronde__pass *pass, int64_t n) {
  return pass->net->executor->prepare(pass->execution, n, 0);
}

ronde_status ronde__pass_expect(ronde__pass *pass, int64_t n, bool *any_out) {
  const ronde__executor *executor = pass->net->executor;
  *any_out = false;
  return executor->expect ? executor->expect(pass->execution, n, any_out) : RONDE_OK;
}

ronde_status ronde__net_prepare_split(ronde__net *net, int64_t n_all) {
  const ronde__peers *peers = net->options.split.peers;
  int64_t n =
      ronde__shard_begin(n_all, peers->rank + 1, peers->size) - ronde__shard_begin(n_all, peers->rank, peers->size);
  return net->executor->prepare(net->pass->execution, n, n_all);
}

ronde_status ronde__pass_forward(ronde__pass *pass, const ronde__net_batch *batch, float loss_scale,
                                 const ronde__net_hooks *hooks, ronde__net_result *result_out) {
  return pass->net->executor->forward(pass->execution, batch, loss_scale, hooks, result_out);
}

static void tell_gradient(const ronde__net *net, int param, const float *data, const ronde__net_hooks *hooks) {
  const ronde__net_param *p = &net->params[param];
  if (hooks && hooks->gradient)
    hooks->gradient(hooks->user, &(ronde__gradient){param, p->offset, p->offset + p->n_packed, data, false, false,
                                                    ronde__net_rows(net, param)});
}

void ronde__net_tell_gradient(const ronde__net *net, int param, const ronde__net_hooks *hooks) {
  tell_gradient(net, param, net->gradients + net->params[param].offset, hooks);
}

/* Parameters that this pass did not reach: their gradient is zero, and final. */
static void finish_gradients(const ronde__pass *pass, bool accumulate, const ronde__net_hooks *hooks) {
  const ronde__net *net = pass->net;
  for (int i = net->n_params - 1; i >= 0; i--) {
    const ronde__net_param *p = &net->params[i];
    if (net->touched[i] || p->frozen) continue;
    float *data = net->gradients ? net->gradients + p->offset : net->executor->gradient(pass->execution, i);
    if (!accumulate && !ronde__net_rows(net, i)) memset(data, 0, p->n_packed * sizeof *data);
    tell_gradient(net, i, data, hooks);
  }
}

ronde_status ronde__pass_backward(ronde__pass *pass, bool accumulate, const ronde__net_hooks *hooks) {
  ronde__net *net = pass->net;
  memset(net->touched, 0, (size_t)net->n_params * sizeof *net->touched);
  for (int i = 0; i < net->n_params && !accumulate; i++)
    if (ronde__net_rows(net, i)) forget_rows(net, i);
  RONDE_TRY(net->executor->backward(pass->execution, accumulate, hooks, net->touched));
  finish_gradients(pass, accumulate, hooks);
  return RONDE_OK;
}

ronde_status ronde__net_prepare(ronde__net *net, int64_t n) { return ronde__pass_prepare(net->pass, n); }

ronde_status ronde__net_forward(ronde__net *net, const ronde__net_batch *batch, float loss_scale,
                                const ronde__net_hooks *hooks, ronde__net_result *result_out) {
  return ronde__pass_forward(net->pass, batch, loss_scale, hooks, result_out);
}

ronde_status ronde__net_backward(ronde__net *net, bool accumulate, const ronde__net_hooks *hooks) {
  return ronde__pass_backward(net->pass, accumulate, hooks);
}

ronde_status ronde__net_pass_empty(ronde__net *net, bool backward, const ronde__net_hooks *hooks) {
  return net->partial_elems ? net->executor->pass_empty(net->pass->execution, backward, hooks) : RONDE_OK;
}

size_t ronde__net_partial_elems(const ronde__net *net) { return net->partial_elems; }

ronde_status ronde__net_predict(ronde__net *net, int64_t n, const float *x, float *y_out) {
  return net->executor->predict(net->pass->execution, n, x, y_out);
}

ronde__net_memory ronde__net_memory_use(const ronde__net *net) {
  size_t bytes = net->n_elems * sizeof(float);
  return (ronde__net_memory){bytes, net->gradients ? net->n_trained * sizeof(float) : 0,
                             net->executor->arena_bytes(net->execution)};
}

double ronde__net_executed_flops(const ronde__net *net, int64_t n) {
  return net->executor->executed_flops(net->execution, n);
}
