/* Layers and the initializers that are their weights: the layer's parameters get the initializers' names. */
#include "onnx/import.h"

#include <stdlib.h>
#include <string.h>

/* "conv1" of "conv1.weight" or "conv1.weight_ih_l0", to be freed; else the node's name. */
static char *label_of(const ronde__onnx_node *node, const char *weight) {
  const char *dot = strrchr(weight, '.');
  if (dot && dot > weight && !strncmp(dot, ".weight", 7)) return strndup(weight, (size_t)(dot - weight));
  return ronde__strdup(ronde__onnx_node_name(node));
}

/* A file of weights keeps names that begin so for itself, and has no other text than UTF-8. */
bool ronde__onnx_is_weight_name(const char *name) {
  const unsigned char *at = (const unsigned char *)name;
  if (ronde__is_empty(name) || ronde__safetensors_reserved(name)) return false;
  while (*at) {
    int more = *at < 0x80 ? 0 : *at >= 0xc2 && *at < 0xe0 ? 1 : *at >= 0xe0 && *at < 0xf0 ? 2 : 3;
    if (more == 3 && (*at < 0xf0 || *at > 0xf4)) return false;
    unsigned char first = *at++, next = *at;
    if ((first == 0xe0 && next < 0xa0) || (first == 0xed && next > 0x9f) || (first == 0xf0 && next < 0x90) ||
        (first == 0xf4 && next > 0x8f))
      return false;
    for (; more > 0; more--)
      if ((*at++ & 0xc0) != 0x80) return false;
  }
  return true;
}

static bool has_param(const ronde_graph *graph, const char *name) {
  for (int i = 0; i < graph->n_params; i++)
    if (!strcmp(graph->params[i].name, name)) return true;
  return false;
}

ronde__shape ronde__onnx_dims_of(const ronde__onnx_import *im, const ronde__onnx_node *node, int i) {
  const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
  ronde__shape shape = {0};
  if (!value || value->kind != RONDE__ONNX_CONSTANT || value->constant->n_dims > RONDE_MAX_RANK) return shape;
  const Onnx__TensorProto *tensor = value->constant;
  if (ronde__onnx_elems(tensor) < 1) return shape;
  for (size_t d = 0; d < tensor->n_dims; d++) shape.dim[shape.rank++] = tensor->dims[d];
  if (!value->transposed) return shape;
  return (ronde__shape){2, {shape.dim[1], shape.dim[0]}};
}

ronde_status ronde__onnx_take(ronde__onnx_import *im, const ronde__onnx_node *node, int i, const char *name,
                              ronde__onnx_change change, const ronde__shape *shape, bool is_buffer,
                              ronde__onnx_layer *layer) {
  const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
  if (!value || value->kind != RONDE__ONNX_CONSTANT)
    return ronde__onnx_fail(im, node, "input %d is not an initializer, which a weight must be", i);
  const char *own = value->constant->name;
  if (!ronde__onnx_is_weight_name(own))
    return ronde__onnx_fail(im, node, "the name of input %d, %s, cannot be that of a weight", i,
                            own ? RONDE__SHOWN(own) : "which has none,");
  return ronde__onnx_take_tensor(im, node, value->constant, name, change, shape, is_buffer, layer);
}

ronde_status ronde__onnx_take_tensor(ronde__onnx_import *im, const ronde__onnx_node *node,
                                     const Onnx__TensorProto *tensor, const char *name, ronde__onnx_change change,
                                     const ronde__shape *shape, bool is_buffer, ronde__onnx_layer *layer) {
  ronde__onnx_weight *weight = &layer->weights[layer->n];
  *weight = (ronde__onnx_weight){.name = ronde__strdup(name ? name : tensor->name),
                                 .tensor = tensor,
                                 .change = change,
                                 .shape = *shape,
                                 .is_buffer = is_buffer};
  if (!weight->name) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for names", im->file->path);
  layer->n++;
  for (int k = 0; k + 1 < layer->n; k++)
    if (!strcmp(layer->weights[k].name, weight->name))
      return ronde__onnx_fail(im, node, "it reads %s twice", RONDE__SHOWN(weight->name));
  /* What two layers read is one parameter of both. */
  bool first = !layer->label;
  if (first) layer->label = label_of(node, tensor->name);
  if (!layer->label) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for names", im->file->path);
  if (has_param(im->graph, weight->name)) ronde_graph_share(im->graph, layer->label);
  return RONDE_OK;
}

ronde_status ronde__onnx_begin(ronde__onnx_import *im, ronde__onnx_layer *layer) {
  for (int i = 0; i < layer->n; i++) layer->names[i] = layer->weights[i].name;
  return ronde__graph_name_next(im->graph, layer->label, layer->names, layer->n);
}

static bool is_same(const ronde__onnx_weight *a, const ronde__onnx_weight *b) {
  return a->tensor == b->tensor && a->change == b->change && a->part == b->part && a->is_buffer == b->is_buffer &&
         ronde__shape_equal(&a->shape, &b->shape);
}

/* One more, unless it is a shared one again. */
static ronde_status note(ronde__onnx *file, const ronde__onnx_node *node, ronde__onnx_import *im,
                         const ronde__onnx_weight *weight) {
  for (int i = 0; i < file->n_weights; i++) {
    if (strcmp(file->weights[i].name, weight->name) != 0) continue;
    if (is_same(&file->weights[i], weight)) return RONDE_OK;
    return ronde__onnx_fail(im, node, "another layer uses tensor %s in another way", RONDE__SHOWN(weight->name));
  }
  int n = file->n_weights;
  ronde__onnx_weight *weights =
      (n & (n - 1)) ? file->weights : realloc(file->weights, (n ? 2 * (size_t)n : 1) * sizeof *weights);
  if (weights) file->weights = weights;
  char *name = weights ? ronde__strdup(weight->name) : NULL;
  if (!name) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for a list of weights", file->path);
  weights[n] = *weight;
  weights[n].name = name;
  file->n_weights++;
  return RONDE_OK;
}

static ronde_status check_shape(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde__onnx_weight *weight,
                                const ronde__shape *wanted) {
  char has[96], wants[96];
  if (ronde__shape_equal(&weight->shape, wanted)) return RONDE_OK;
  ronde__shape_text(&weight->shape, has, sizeof has);
  ronde__shape_text(wanted, wants, sizeof wants);
  return ronde__onnx_fail(im, node, "tensor %s is %s for the layer, which wants %s", RONDE__SHOWN(weight->name), has,
                          wants);
}

ronde_status ronde__onnx_note_layer(ronde__onnx_import *im, const ronde__onnx_node *node,
                                    const ronde__onnx_layer *layer, const ronde_tensor *y) {
  const ronde_graph *graph = im->graph;
  if (!y) return ronde_graph_status(graph);
  const ronde__node *added = &graph->nodes[y->producer];
  for (int i = 0; i < layer->n && im->records; i++) {
    const ronde__onnx_weight *weight = &layer->weights[i];
    const ronde__shape *wanted = weight->is_buffer ? &graph->buffers[added->buffer[i - added->n_params]].shape
                                                   : &graph->params[added->param[i]].shape;
    RONDE_TRY(check_shape(im, node, weight, wanted));
    RONDE_TRY(ronde__onnx_check_floats(im->file, weight->tensor));
    RONDE_TRY(note(im->records, node, im, weight));
  }
  return RONDE_OK;
}

ronde_status ronde__onnx_end_layer(ronde__onnx_import *im, const ronde__onnx_node *node, ronde__onnx_layer *layer,
                                   const ronde_tensor *y) {
  RONDE_TRY(ronde__onnx_note_layer(im, node, layer, y));
  return ronde__onnx_set(im, node, 0, y);
}

void ronde__onnx_layer_release(ronde__onnx_layer *layer) {
  for (int i = 0; i < layer->n; i++) free(layer->weights[i].name);
  free(layer->label);
}
