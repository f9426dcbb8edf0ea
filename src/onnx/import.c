/* The building of a file's network: its operators, one after the other. */
#include "onnx/import.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const struct {
  const char *name;
  ronde__onnx_operator build;
} operators[] = {
#define RONDE_ONNX_OPERATOR(name, function) {name, ronde__onnx_op_##function},
#include "onnx/operators.inc"
#undef RONDE_ONNX_OPERATOR
};

ronde__onnx_operator ronde__onnx_find_operator(const Onnx__NodeProto *node) {
  bool is_own = ronde__is_empty(node->domain) || !strcmp(node->domain, "ai.onnx");
  for (size_t i = 0; i < RONDE__COUNT(operators) && is_own && node->op_type; i++)
    if (!strcmp(operators[i].name, node->op_type)) return operators[i].build;
  return NULL;
}

/* An operator may have built what stands behind it too. */
static bool is_done(const ronde__onnx_import *im, const ronde__onnx_node *node) {
  for (int i = 0; i < node->n_out; i++)
    if (node->out[i] >= 0 && im->values[node->out[i]].kind != RONDE__ONNX_NOTHING) return true;
  return false;
}

/* Of a file without a batch the output may be known from the file alone. */
static ronde_status known_as_output(ronde__onnx_import *im, ronde__onnx_value *y) {
  const ronde__onnx_known *known = y->known;
  static const int64_t one = 1;
  float *values;
  RONDE__ALLOC(values, (size_t)known->n * sizeof *values, im->file->path);
  for (int64_t i = 0; i < known->n; i++) values[i] = (float)known->values[i];
  bool has_dims = known->rank > 0;
  *y = (ronde__onnx_value){
      .kind = RONDE__ONNX_TENSOR,
      .at = RONDE__ONNX_ALIKE,
      .x = ronde_parameter(im->graph, "known", has_dims ? known->rank : 1, has_dims ? known->dim : &one, values, true)};
  ronde__free(values);
  return ronde_graph_status(im->graph);
}

static ronde_status sizes_as_output(ronde__onnx_import *im, ronde__onnx_value *y) {
  float values[RONDE__ONNX_MAX_SIZES];
  const int64_t n = y->n;
  for (int i = 0; i < y->n; i++) values[i] = (float)y->size[i];
  *y = (ronde__onnx_value){.kind = RONDE__ONNX_TENSOR,
                           .at = RONDE__ONNX_ALIKE,
                           .x = ronde_parameter(im->graph, "sizes", 1, &n, values, true)};
  return ronde_graph_status(im->graph);
}

static ronde_status build_node(ronde__onnx_import *im, const ronde__onnx_node *node) {
  bool done;
  RONDE_TRY(ronde__onnx_build_discrete(im, node, &done));
  if (!done) RONDE_TRY(ronde__onnx_build_draws(im, node, &done));
  if (!done) RONDE_TRY(ronde__onnx_build_gates(im, node, &done));
  if (!done) RONDE_TRY(ronde__onnx_build_additive(im, node, &done));
  return done || ronde__onnx_evaluate(im, node) ? RONDE_OK : node->build(im, node);
}

/* Or those of which it is a part. */
static ronde_status build_next(ronde__onnx_import *im, const ronde__onnx_node *node) {
  bool done;
  ronde__onnx_apart apart;
  RONDE_TRY(ronde__onnx_build_dot_product(im, node, &done, &apart));
  for (int i = 0; i < apart.n; i++) RONDE_TRY(build_node(im, apart.nodes[i]));
  return done ? RONDE_OK : build_node(im, node);
}

static ronde_status build_nodes(ronde__onnx_import *im) {
  for (int i = 0; i < im->file->n_nodes; i++) {
    const ronde__onnx_node *node = &im->file->nodes[i];
    if (node->build && !is_done(im, node)) RONDE_TRY(build_next(im, node));
  }
  ronde__onnx_value *y = &im->values[im->file->output];
  if (!im->file->lead && y->kind == RONDE__ONNX_SIZES && y->n > 0) RONDE_TRY(sizes_as_output(im, y));
  if (!im->file->lead && y->kind == RONDE__ONNX_KNOWN && y->known->n > 0 && y->known->rank <= RONDE_MAX_RANK)
    RONDE_TRY(known_as_output(im, y));
  if (y->kind == RONDE__ONNX_TENSOR && y->order == RONDE__ONNX_IMAGE) {
    y->x = ronde__onnx_as_in_file(y);
    y->order = RONDE__ONNX_AS_EVER;
    if (!y->x) return ronde_graph_status(im->graph);
  }
  const bool has_place = im->file->lead ? y->at == 0 || y->at == 1 : y->at == RONDE__ONNX_ALIKE;
  if (y->kind == RONDE__ONNX_TENSOR && y->order == RONDE__ONNX_AS_EVER && !y->merged && !y->transposed && has_place)
    return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT, "%s: its output %s is not an activation with the batch in front", im->file->path,
                     RONDE__SHOWN(im->file->names[im->file->output]));
}

static ronde_status check_input(const ronde__onnx *file, int i, const ronde_tensor *x) {
  ronde__shape own = {0}, wanted;
  char has[96], wants[96];
  int64_t vocabulary;
  const char *name = ronde__onnx_input_at(file, i, &wanted, &vocabulary);
  own.rank = ronde_tensor_dims(x, own.dim);
  ronde__shape_text(&own, has, sizeof has);
  ronde__shape_text(&wanted, wants, sizeof wants);
  if (!ronde__shape_equal(&own, &wanted))
    return ronde__fail(RONDE_E_USAGE, "%s: its %s is %s an example, not %s%s", file->path, RONDE__SHOWN(name), wants,
                       has, own.rank == 3 && wanted.rank == 3 ? " (--resize HxW makes images fit)" : "");
  if (!vocabulary != !x->vocabulary)
    return ronde__fail(RONDE_E_USAGE, "%s: its %s is %s, not %s", file->path, RONDE__SHOWN(name),
                       vocabulary ? "tokens" : "values", vocabulary ? "values" : "tokens");
  if (x->vocabulary > vocabulary)
    return ronde__fail(RONDE_E_USAGE, "%s: its %s knows %" PRId64 " tokens, but there are %" PRId64, file->path,
                       RONDE__SHOWN(name), vocabulary, x->vocabulary);
  return RONDE_OK;
}

/* That of the graph which input i of the file is: of its name, else at its place. NULL: there is none. */
static const ronde_tensor *find_input(const ronde__onnx *file, const ronde_graph *graph, int i) {
  for (int k = 1; k < graph->n_inputs; k++)
    if (!strcmp(graph->tensors[graph->inputs[k]]->label, file->inputs[i].name)) return graph->tensors[graph->inputs[k]];
  return i < graph->n_inputs ? graph->tensors[graph->inputs[i]] : NULL;
}

/* A number of an example that nothing looks up is a length. */
static ronde_status set_input(ronde__onnx_import *im, int i, const ronde_tensor *x) {
  const ronde__onnx_input *input = &im->file->inputs[i];
  ronde__onnx_value *value = &im->values[input->value];
  RONDE_TRY(check_input(im->file, i, x));
  *value =
      (ronde__onnx_value){.kind = input->vocabulary ? RONDE__ONNX_TOKENS : RONDE__ONNX_TENSOR, .at = input->at, .x = x};
  if (!input->integers || input->vocabulary) return RONDE_OK;
  *value = (ronde__onnx_value){
      .kind = RONDE__ONNX_LENGTHS, .x = x, .n = input->rank, .size = {1}, .least = -INFINITY, .most = INFINITY};
  return RONDE_OK;
}

static ronde_status set_inputs(ronde__onnx_import *im, const ronde_tensor *first) {
  const ronde__onnx *file = im->file;
  const ronde_tensor *inputs[RONDE_MAX_INPUTS] = {first};
  for (int i = 0; i < file->n_inputs; i++) {
    if (i > 0) inputs[i] = find_input(file, im->graph, i);
    for (int k = 0; k < i; k++)
      if (inputs[k] == inputs[i]) inputs[i] = NULL;
    if (!inputs[i])
      return ronde__fail(RONDE_E_USAGE, "%s: it reads %d inputs (%s), but the data have %d", file->path, file->n_inputs,
                         RONDE__SHOWN(file->inputs[i].name), im->graph->n_inputs);
    RONDE_TRY(set_input(im, i, inputs[i]));
  }
  return RONDE_OK;
}

/* Cuts the input of a file without a batch into those of the file. */
static ronde_status cut_input(ronde__onnx_import *im, const ronde_tensor *x) {
  const ronde__onnx *file = im->file;
  int64_t rest[RONDE_MAX_RANK];
  for (int i = 0; i < file->n_pieces; i++) {
    const ronde__onnx_piece *piece = &file->pieces[i];
    int64_t own = ronde__shape_elems(&piece->shape);
    ronde_tensor *pieces[2] = {NULL, NULL};
    ronde_tensor_dims(x, rest);
    if (i + 1 < file->n_pieces) {
      ronde_cut(x, 2, (int64_t[]){own, rest[0] - own}, pieces);
      x = pieces[1];
    }
    const ronde_tensor *y = ronde_reshape(pieces[0] ? pieces[0] : x, piece->shape.rank, piece->shape.dim);
    if (!y) return ronde_graph_status(im->graph);
    im->values[piece->value] = (ronde__onnx_value){.kind = RONDE__ONNX_TENSOR, .at = RONDE__ONNX_ALIKE, .x = y};
  }
  return RONDE_OK;
}

/* A constant of f64 is what exporters compute scales from. */
static void take_double(ronde__onnx_value *value) {
  double number;
  bool is_double = value->constant->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE;
  if (is_double && ronde__onnx_read_number(value->constant, &number))
    *value = (ronde__onnx_value){.kind = RONDE__ONNX_NUMBER, .number = number};
}

static ronde_tensor *build(const ronde__onnx *file, ronde_graph *graph, ronde_tensor *x, int64_t outputs,
                           ronde__onnx_end end, ronde__onnx *records) {
  ronde__onnx_import im = {.file = file, .graph = graph, .outputs = outputs, .end = end, .records = records};
  if (!x || (!file->lead && check_input(file, 0, x) != RONDE_OK)) return NULL;
  im.values = ronde__alloc((size_t)file->n_names * sizeof *im.values);
  if (!im.values) {
    ronde__fail(RONDE_E_MEMORY, "%s: no memory for %d values", file->path, file->n_names);
    return NULL;
  }
  for (int i = 0; i < file->n_names; i++)
    if (file->constants[i]) {
      im.values[i] = (ronde__onnx_value){.kind = RONDE__ONNX_CONSTANT,
                                         .constant = file->constants[i],
                                         .fixed = file->producer[i] >= 0 || file->is_buffer[i] || file->is_mask[i],
                                         .mask = file->is_mask[i]};
      take_double(&im.values[i]);
    }
  ronde_status status = file->lead ? set_inputs(&im, x) : cut_input(&im, x);
  if (status == RONDE_OK) status = build_nodes(&im);
  const ronde_tensor *y = status == RONDE_OK ? im.values[file->output].x : NULL;
  ronde__free(im.values);
  ronde__onnx_release_known(&im, NULL);
  ronde__onnx_release_dot_products(&im);
  ronde__onnx_release_rows(&im);
  return y ? graph->tensors[y->id] : NULL;
}

ronde_tensor *ronde__onnx_build(const ronde__onnx *file, ronde_graph *graph, ronde_tensor *x, int64_t outputs,
                                ronde__onnx_end end) {
  return build(file, graph, x, outputs, end, NULL);
}

ronde_tensor *ronde__onnx_record(ronde__onnx *file, ronde_graph *graph, ronde_tensor *x) {
  return build(file, graph, x, 0, RONDE__ONNX_CLASSES, file);
}
