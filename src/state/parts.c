/* The conversation of ranks that have a part of the state each. */
#include "state/parts.h"

#include <stdlib.h>
#include <string.h>

/* What is asked, and in front of the data what is answered: how many elements. */
typedef struct question {
  int32_t asks; /* 0: nobody asks any more */
  ronde__part part;
  int64_t first;
} question;

struct ronde__parts {
  ronde__parts_options options;
  int *param_at, *buffer_at;       /* in the net, by their index in the graph; -1: another rank has it */
  int *param_owner, *buffer_owner; /* [of the graph]: ranks of the first replica */
  float *slice;                    /* [the longest of any rank] */
};

static uint32_t tag_of(void) { return RONDE__WIRE_TAG(RONDE__TAG_PARTS, 0); }

/* ---- what the rank has ---- */

static void find_own(ronde__parts *p) {
  const ronde_graph *graph = ronde__net_graph(p->options.net);
  int n_params, n_buffers;
  const ronde__net_param *params = ronde__net_params(p->options.net, &n_params);
  const ronde__net_buffer *buffers = ronde__net_buffers(p->options.net, &n_buffers);
  for (int i = 0; i < graph->n_params; i++) p->param_at[i] = -1;
  for (int i = 0; i < graph->n_buffers; i++) p->buffer_at[i] = -1;
  for (int i = 0; i < n_params; i++) p->param_at[params[i].index] = i;
  for (int i = 0; i < n_buffers; i++) p->buffer_at[buffers[i].index] = i;
}

/* Where it begins; *layout_out is set but of a counter. */
static void *find(const ronde__parts *p, ronde__part part, const ronde__weight_layout **layout_out) {
  ronde__net *net = p->options.net;
  int n;
  size_t n_elems;
  if (part.kind == RONDE__PART_PARAM || part.kind == RONDE__PART_ARRAY) {
    const ronde__net_param *param = &ronde__net_params(net, &n)[p->param_at[part.index]];
    *layout_out = &param->layout;
    return (part.kind == RONDE__PART_PARAM ? ronde__net_values(net) : p->options.arrays[part.array].values) +
           param->offset;
  }
  ronde__net_buffer *buffer = &ronde__net_buffers(net, &n)[p->buffer_at[part.index]];
  *layout_out = &buffer->layout;
  return part.kind == RONDE__PART_COUNTER ? (void *)&buffer->count
                                          : ronde__net_buffer_values(net, &n_elems) + buffer->offset;
}

static void read_own(const ronde__parts *p, ronde__part part, int64_t first, const void **data_out, int64_t *n_out) {
  const ronde__weight_layout *layout;
  const void *at = find(p, part, &layout);
  *data_out = part.kind == RONDE__PART_COUNTER ? at : p->slice;
  *n_out = part.kind == RONDE__PART_COUNTER ? 1 : ronde__weight_unpack_slice(layout, at, first, p->slice);
}

static size_t bytes_of(ronde__part part, int64_t n) {
  return (size_t)n * (part.kind == RONDE__PART_COUNTER ? sizeof(int64_t) : sizeof(float));
}

/* ---- reading: rank 0 asks ---- */

static int owner_of(const ronde__parts *p, ronde__part part) {
  bool is_param = part.kind == RONDE__PART_PARAM || part.kind == RONDE__PART_ARRAY;
  return is_param ? p->param_owner[part.index] : p->buffer_owner[part.index];
}

ronde_status ronde__parts_fetch(ronde__parts *p, ronde__part part, int64_t first, const void **data_out,
                                int64_t *n_out) {
  ronde__transport *transport = p->options.transport;
  int owner = owner_of(p, part);
  question q = {1, part, first};
  int64_t n;
  if (owner == transport->rank) {
    read_own(p, part, first, data_out, n_out);
    return RONDE_OK;
  }
  RONDE_TRY(ronde__transport_send(transport, owner, tag_of(), &q, sizeof q));
  RONDE_TRY(ronde__transport_receive(transport, owner, tag_of(), &n, sizeof n));
  RONDE_TRY(ronde__transport_receive(transport, owner, tag_of(), p->slice, bytes_of(part, n)));
  *data_out = p->slice;
  *n_out = n;
  return RONDE_OK;
}

ronde_status ronde__parts_end(ronde__parts *p) {
  question q = {0};
  for (int r = 1; r < p->options.transport->size; r++)
    RONDE_TRY(ronde__transport_send(p->options.transport, r, tag_of(), &q, sizeof q));
  return RONDE_OK;
}

ronde_status ronde__parts_serve(ronde__parts *p) {
  ronde__transport *transport = p->options.transport;
  for (;;) {
    question q;
    const void *data;
    int64_t n;
    RONDE_TRY(ronde__transport_receive(transport, 0, tag_of(), &q, sizeof q));
    if (!q.asks) return RONDE_OK;
    read_own(p, q.part, q.first, &data, &n);
    RONDE_TRY(ronde__transport_send(transport, 0, tag_of(), &n, sizeof n));
    RONDE_TRY(ronde__transport_send(transport, 0, tag_of(), data, bytes_of(q.part, n)));
  }
}

/* ---- spreading: the others ask ---- */

/* NULL: the file has none. */
static const ronde__file_tensor *find_in_file(const ronde__parts *p, const ronde__safetensors *file, ronde__part part) {
  const ronde_graph *graph = ronde__net_graph(p->options.net);
  bool is_buffer = part.kind == RONDE__PART_BUFFER || part.kind == RONDE__PART_COUNTER;
  const char *own = is_buffer ? graph->buffers[part.index].name : graph->params[part.index].name;
  if (part.kind != RONDE__PART_ARRAY) return ronde__safetensors_find(file, own);
  char *name = ronde__format(RONDE__RESERVED "%s.%s", p->options.arrays[part.array].name, own);
  const ronde__file_tensor *tensor = name ? ronde__safetensors_find(file, name) : NULL;
  free(name);
  return tensor;
}

static ronde_status answer_all(const ronde__parts *p, const ronde__safetensors *file, int rank) {
  ronde__transport *transport = p->options.transport;
  for (;;) {
    question q;
    RONDE_TRY(ronde__transport_receive(transport, rank, tag_of(), &q, sizeof q));
    if (!q.asks) return RONDE_OK;
    const ronde__file_tensor *tensor = find_in_file(p, file, q.part);
    int64_t n = tensor ? ronde__shape_elems(&tensor->shape) : 0;
    RONDE_TRY(ronde__transport_send(transport, rank, tag_of(), &n, sizeof n));
    if (n) RONDE_TRY(ronde__transport_send(transport, rank, tag_of(), tensor->data, bytes_of(q.part, n)));
  }
}

/* logical: room for the tensor. */
static ronde_status take(const ronde__parts *p, ronde__part part, float *logical) {
  ronde__transport *transport = p->options.transport;
  const ronde__weight_layout *layout;
  void *own = find(p, part, &layout);
  question q = {1, part, 0};
  int64_t n;
  RONDE_TRY(ronde__transport_send(transport, 0, tag_of(), &q, sizeof q));
  RONDE_TRY(ronde__transport_receive(transport, 0, tag_of(), &n, sizeof n));
  if (n == 0) return RONDE_OK;
  void *into = part.kind == RONDE__PART_COUNTER ? own : logical;
  RONDE_TRY(ronde__transport_receive(transport, 0, tag_of(), into, bytes_of(part, n)));
  if (into != own) ronde__weight_pack(layout, logical, own);
  return RONDE_OK;
}

static ronde_status take_all(const ronde__parts *p, float *logical) {
  int n_params, n_buffers;
  const ronde__net_param *params = ronde__net_params(p->options.net, &n_params);
  const ronde__net_buffer *buffers = ronde__net_buffers(p->options.net, &n_buffers);
  for (int i = 0; i < n_params; i++) {
    RONDE_TRY(take(p, (ronde__part){RONDE__PART_PARAM, params[i].index, 0}, logical));
    for (int a = 0; a < p->options.n_arrays && !params[i].frozen; a++)
      RONDE_TRY(take(p, (ronde__part){RONDE__PART_ARRAY, params[i].index, a}, logical));
  }
  for (int i = 0; i < n_buffers; i++)
    RONDE_TRY(take(p,
                   (ronde__part){buffers[i].is_counter ? RONDE__PART_COUNTER : RONDE__PART_BUFFER, buffers[i].index, 0},
                   logical));
  question q = {0};
  return ronde__transport_send(p->options.transport, 0, tag_of(), &q, sizeof q);
}

static int64_t longest_tensor(const ronde__parts *p) {
  const ronde_graph *graph = ronde__net_graph(p->options.net);
  int64_t longest = 1;
  for (int i = 0; i < graph->n_params; i++)
    if (p->param_at[i] >= 0) longest = ronde__max(longest, ronde__shape_elems(&graph->params[i].shape));
  for (int i = 0; i < graph->n_buffers; i++)
    if (p->buffer_at[i] >= 0) longest = ronde__max(longest, ronde__shape_elems(&graph->buffers[i].shape));
  return longest;
}

ronde_status ronde__parts_spread(ronde__parts *p, const ronde__safetensors *file) {
  ronde__transport *transport = p->options.transport;
  if (transport->rank == 0) {
    for (int r = 1; r < transport->size; r++) RONDE_TRY(answer_all(p, file, r));
    return RONDE_OK;
  }
  float *logical;
  RONDE__ALLOC(logical, (size_t)longest_tensor(p) * sizeof *logical, "checkpoint");
  ronde_status status = take_all(p, logical);
  ronde__free(logical);
  return status;
}

/* ---- creation ---- */

/* Who has what: lists [ranks][params, then buffers] of 0 and 1; and the longest slice. */
static ronde_status find_owners(ronde__parts *p, int64_t *longest_out) {
  const ronde_graph *graph = ronde__net_graph(p->options.net);
  ronde__transport *transport = p->options.transport;
  size_t n = (size_t)(graph->n_params + graph->n_buffers), stride = n + sizeof(int64_t);
  int64_t own = ronde__net_slice_elems(p->options.net), longest = 1;
  uint8_t *lists;
  RONDE__ALLOC(lists, (size_t)transport->size * stride, "stages");
  uint8_t *list = lists + (size_t)transport->rank * stride;
  for (int i = 0; i < graph->n_params; i++) list[i] = p->param_at[i] >= 0;
  for (int i = 0; i < graph->n_buffers; i++) list[graph->n_params + i] = p->buffer_at[i] >= 0;
  memcpy(list + n, &own, sizeof own);
  ronde_status status = ronde__allgather(transport, RONDE__TAG_PARTS, lists, stride);
  for (int r = 0; r < p->options.n && status == RONDE_OK; r++) {
    list = lists + (size_t)r * stride;
    for (int i = 0; i < graph->n_params; i++)
      if (list[i]) p->param_owner[i] = r;
    for (int i = 0; i < graph->n_buffers; i++)
      if (list[graph->n_params + i]) p->buffer_owner[i] = r;
    memcpy(&own, list + n, sizeof own);
    longest = ronde__max(longest, own);
  }
  ronde__free(lists);
  *longest_out = longest;
  return status;
}

static ronde_status set_up(ronde__parts *p) {
  const ronde_graph *graph = ronde__net_graph(p->options.net);
  int64_t longest = 1;
  RONDE__ALLOC(p->param_at, (size_t)graph->n_params * sizeof *p->param_at, "stages");
  RONDE__ALLOC(p->param_owner, (size_t)graph->n_params * sizeof *p->param_owner, "stages");
  RONDE__ALLOC(p->buffer_at, (size_t)graph->n_buffers * sizeof *p->buffer_at, "stages");
  RONDE__ALLOC(p->buffer_owner, (size_t)graph->n_buffers * sizeof *p->buffer_owner, "stages");
  find_own(p);
  RONDE_TRY(find_owners(p, &longest));
  RONDE__ALLOC(p->slice, (size_t)longest * sizeof *p->slice, "stages");
  return RONDE_OK;
}

ronde_status ronde__parts_create(const ronde__parts_options *options, ronde__parts **parts_out) {
  ronde__parts *p;
  RONDE__ALLOC(p, sizeof *p, "stages");
  p->options = *options;
  ronde_status status = set_up(p);
  if (status != RONDE_OK) ronde__parts_destroy(p);
  else *parts_out = p;
  return status;
}

void ronde__parts_destroy(ronde__parts *p) {
  if (!p) return;
  ronde__free(p->param_at);
  ronde__free(p->param_owner);
  ronde__free(p->buffer_at);
  ronde__free(p->buffer_owner);
  ronde__free(p->slice);
  ronde__free(p);
}
