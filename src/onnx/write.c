/* A net as an ONNX file: the nodes that its output needs, from inputs with an open batch on. */
#include "onnx/writer.h"

#include "io/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { OPSET = 17 };

#define MAX_BYTES ((size_t)INT32_MAX) /* of a message, for all readers of protocol buffers */

/* ---- names ---- */

/* Whether a parameter or buffer is called so. */
static bool is_taken(const ronde_graph *graph, const char *name) {
  for (int i = 0; i < graph->n_params; i++)
    if (!strcmp(graph->params[i].name, name)) return true;
  for (int i = 0; i < graph->n_buffers; i++)
    if (!strcmp(graph->buffers[i].name, name)) return true;
  return false;
}

static const char *name_end(ronde__onnx_writer *w, const char *name) {
  return ronde__onnx_text(w, "%s%s", is_taken(w->graph, name) ? RONDE__RESERVED : "", name);
}

/* No weight has a name that begins like those of activations. */
static void name_tensors(ronde__onnx_writer *w) {
  const ronde_graph *graph = w->graph;
  for (int i = 0; i < graph->n_tensors; i++)
    w->names[i] = i == graph->output ? name_end(w, "output")
                                     : ronde__onnx_text(w, RONDE__RESERVED "%d.%s", i, graph->tensors[i]->label);
  for (int i = 0; i < graph->n_inputs; i++)
    w->names[graph->inputs[i]] = name_end(w, graph->tensors[graph->inputs[i]]->label);
}

static bool is_needed(const ronde__onnx_writer *w, const ronde__node *node) {
  for (int i = 0; i < node->n_outputs; i++)
    if (w->needed[node->out[i]]) return true;
  return false;
}

static void find_needed(ronde__onnx_writer *w) {
  const ronde_graph *graph = w->graph;
  w->needed[graph->output] = true;
  for (int i = graph->n_nodes - 1; i >= 0; i--)
    for (int k = 0; k < graph->nodes[i].n_inputs && is_needed(w, &graph->nodes[i]); k++)
      w->needed[graph->nodes[i].in[k]] = true;
}

/* ---- the parts of the file ---- */

/* A description of a tensor: f32, or the numbers of tokens; an open batch, then its dims. */
static Onnx__ValueInfoProto *describe(ronde__onnx_writer *w, int tensor) {
  const ronde__shape *shape = &w->graph->tensors[tensor]->shape;
  size_t n = (size_t)shape->rank + 1;
  struct parts {
    Onnx__ValueInfoProto info;
    Onnx__TypeProto type;
    Onnx__TypeProto__Tensor of;
    Onnx__TensorShapeProto shape;
  } *p = ronde__onnx_room(w, sizeof *p);
  Onnx__TensorShapeProto__Dimension *dims = ronde__onnx_room(w, n * sizeof *dims);
  Onnx__TensorShapeProto__Dimension **list = ronde__onnx_room(w, n * sizeof *list);
  char *batch = ronde__onnx_text(w, "batch");
  if (!p || !dims || !list || !batch) return NULL;
  onnx__value_info_proto__init(&p->info);
  onnx__type_proto__init(&p->type);
  onnx__type_proto__tensor__init(&p->of);
  onnx__tensor_shape_proto__init(&p->shape);
  for (size_t d = 0; d < n; d++) {
    onnx__tensor_shape_proto__dimension__init(&dims[d]);
    dims[d].value_case = d == 0 ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM
                                : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    if (d == 0) dims[d].dim_param = batch;
    else dims[d].dim_value = shape->dim[d - 1];
    list[d] = &dims[d];
  }
  p->shape.n_dim = n;
  p->shape.dim = list;
  p->of.has_elem_type = true;
  p->of.elem_type = w->graph->tensors[tensor]->vocabulary ? ONNX__TENSOR_PROTO__DATA_TYPE__INT32
                                                          : ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
  p->of.shape = &p->shape;
  p->type.value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  p->type.tensor_type = &p->of;
  p->info.name = (char *)w->names[tensor];
  p->info.type = &p->type;
  return &p->info;
}

static Onnx__ValueInfoProto **describe_all(ronde__onnx_writer *w, const int *tensors, int n) {
  Onnx__ValueInfoProto **list = ronde__onnx_room(w, (size_t)n * sizeof *list);
  for (int i = 0; i < n && list; i++) list[i] = describe(w, tensors[i]);
  return list;
}

static void write_graph(ronde__onnx_writer *w) {
  const ronde_graph *graph = w->graph;
  name_tensors(w);
  find_needed(w);
  onnx__graph_proto__init(&w->file);
  w->file.name = ronde__onnx_text(w, "ronde");
  for (int i = 0; i < graph->n_nodes && w->status == RONDE_OK; i++)
    if (is_needed(w, &graph->nodes[i])) ronde__onnx_write_node(w, &graph->nodes[i]);
  w->file.n_input = (size_t)graph->n_inputs;
  w->file.n_output = 1;
  w->file.input = describe_all(w, graph->inputs, graph->n_inputs);
  w->file.output = describe_all(w, &graph->output, 1);
}

static Onnx__StringStringEntryProto **write_meta(ronde__onnx_writer *w, const ronde__file_meta *meta, int n) {
  Onnx__StringStringEntryProto *entries = ronde__onnx_room(w, (size_t)n * sizeof *entries);
  Onnx__StringStringEntryProto **list = ronde__onnx_room(w, (size_t)n * sizeof *list);
  for (int i = 0; i < n && entries && list; i++) {
    onnx__string_string_entry_proto__init(&entries[i]);
    entries[i].key = (char *)meta[i].key;
    entries[i].value = (char *)meta[i].value;
    list[i] = &entries[i];
  }
  return list;
}

static ronde_status write_model(ronde__onnx_writer *w, const ronde__file_meta *meta, int n_meta) {
  Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
  Onnx__OperatorSetIdProto set = ONNX__OPERATOR_SET_ID_PROTO__INIT, *sets = &set;
  set.domain = "";
  set.has_version = true;
  set.version = w->opset;
  model.has_ir_version = true;
  model.ir_version = w->opset > 22 ? 11 : w->opset > 20 ? 10 : w->opset > OPSET ? 9 : 8; /* which the opset came with */
  model.n_opset_import = 1;
  model.opset_import = &sets;
  model.producer_name = "ronde";
  model.producer_version = (char *)ronde_version();
  model.graph = &w->file;
  model.metadata_props = write_meta(w, meta, n_meta);
  model.n_metadata_props = (size_t)n_meta;
  RONDE_TRY(w->status);
  size_t bytes = onnx__model_proto__get_packed_size(&model);
  if (bytes > MAX_BYTES)
    return ronde__fail(RONDE_E_USAGE, "%s: the network takes %zu bytes, more than an ONNX file can have", w->path,
                       bytes);
  uint8_t *data;
  RONDE__ALLOC(data, bytes, w->path);
  onnx__model_proto__pack(&model, data);
  ronde_status status = ronde__file_replace(w->path, data, bytes);
  ronde__free(data);
  return status;
}

ronde_status ronde__onnx_write(const ronde__net *net, const char *path, const ronde__file_meta *meta, int n_meta) {
  const ronde_graph *graph = ronde__net_graph(net);
  ronde__onnx_writer w = {.path = path, .net = net, .graph = graph, .opset = OPSET};
  if (ronde_graph_parameters(graph) > (int64_t)(MAX_BYTES / sizeof(float)))
    return ronde__fail(RONDE_E_USAGE, "%s: the network has %" PRId64 " parameters, more than an ONNX file can have",
                       path, ronde_graph_parameters(graph));
  w.names = ronde__onnx_room(&w, (size_t)graph->n_tensors * sizeof *w.names);
  w.needed = ronde__onnx_room(&w, (size_t)graph->n_tensors * sizeof *w.needed);
  w.written = ronde__onnx_room(&w, (size_t)graph->n_params * sizeof *w.written);
  if (w.status == RONDE_OK) write_graph(&w);
  ronde_status status = write_model(&w, meta, n_meta);
  ronde__onnx_release(&w);
  return status;
}
