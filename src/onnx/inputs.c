/* What a file's network reads, and its output. An input of floats is values. One of integers that a table is looked up by is
 * tokens, numbers below the table's rows; one that nothing looks up has one number an example, how long a sequence is. */
#include "onnx/import.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* What an open dimension is called, "" if it has no name; NULL: it has a size. */
static const char *open_name(const Onnx__TensorShapeProto__Dimension *dim) {
  if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE) return NULL;
  bool named = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && dim->dim_param;
  return named ? dim->dim_param : "";
}

static ronde_status check_dim(const ronde__onnx *file, const char *input, const Onnx__TensorShapeProto__Dimension *dim,
                              size_t d) {
  if (open_name(dim))
    return ronde__fail(RONDE_E_INPUT, "%s: dimension %zu of its input %s is open, but no batch is in front of it",
                       file->path, d, RONDE__SHOWN(input));
  if (dim->dim_value < 1)
    return ronde__fail(RONDE_E_INPUT, "%s: dimension %zu of its input %s is %" PRId64, file->path, d,
                       RONDE__SHOWN(input), dim->dim_value);
  return RONDE_OK;
}

/* Whether a dimension is open, and called the batch. */
static bool is_called_batch(const Onnx__TensorShapeProto__Dimension *dim) {
  const char *name = open_name(dim);
  return name && (!strncasecmp(name, "batch", 5) || !strcmp(name, "N"));
}

/* The dimension that is the batch: the second one, as PyTorch's recurrent layers have it, where it alone is called so; else the first. */
static int find_batch(const Onnx__TensorShapeProto *shape) {
  return shape->n_dim >= 2 && is_called_batch(shape->dim[1]) && !is_called_batch(shape->dim[0]);
}

/* Dimension d in the file, which is not the batch. */
static ronde_status read_dim(ronde__onnx *file, ronde__onnx_input *input, const Onnx__TensorShapeProto *shape,
                             size_t d) {
  const char *open = open_name(shape->dim[d]), *batch = open_name(shape->dim[input->at]);
  if (!open) RONDE_TRY(check_dim(file, input->name, shape->dim[d], d));
  if (open && *open && batch && !strcmp(open, batch))
    return ronde__fail(RONDE_E_INPUT, "%s: dimension %zu of its input %s, %s, is the batch a second time", file->path,
                       d, RONDE__SHOWN(input->name), RONDE__SHOWN(open));
  file->is_open |= open != NULL;
  input->open[input->shape.rank] = open;
  input->shape.dim[input->shape.rank++] = open ? 0 : shape->dim[d]->dim_value;
  return RONDE_OK;
}

/* Names of inputs beside the first one go into files of weights, between : and , */
static ronde_status check_name(const ronde__onnx *file, int i) {
  const char *name = file->inputs[i].name;
  for (int k = 0; k < i; k++)
    if (!strcmp(file->inputs[k].name, name))
      return ronde__fail(RONDE_E_INPUT, "%s: it has two inputs %s", file->path, RONDE__SHOWN(name));
  if (strlen(name) < RONDE__ONNX_INPUT_BYTES && !strpbrk(name, ":,") && ronde__onnx_is_weight_name(name))
    return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT, "%s: an input beside the first one cannot be called %s", file->path,
                     RONDE__SHOWN(name));
}

static ronde_status read_input(ronde__onnx *file, const Onnx__ValueInfoProto *from) {
  bool is_tensor = from->type && from->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  const Onnx__TypeProto__Tensor *type = is_tensor ? from->type->tensor_type : NULL;
  const Onnx__TensorShapeProto *shape = type ? type->shape : NULL;
  const int element = type ? type->elem_type : 0;
  ronde__onnx_input *input = &file->inputs[file->n_inputs];
  *input = (ronde__onnx_input){.name = from->name, .value = ronde__onnx_find_name(file, from->name)};
  input->integers = element == ONNX__TENSOR_PROTO__DATA_TYPE__INT32 || element == ONNX__TENSOR_PROTO__DATA_TYPE__INT64;
  bool fits = shape && (input->integers || element == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT) && shape->n_dim <= 5 &&
              shape->n_dim >= (input->integers ? 1 : 2);
  if (!fits)
    return ronde__fail(
        RONDE_E_INPUT,
        "%s: its input %s is not a tensor of f32, int32 or int64 with a batch and 1 to 4 dimensions more", file->path,
        RONDE__SHOWN(from->name));
  input->at = find_batch(shape);
  const Onnx__TensorShapeProto__Dimension *batch = shape->dim[input->at];
  if (file->n_inputs == 0 && batch->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE)
    file->batch = ronde__max(0, batch->dim_value);
  for (size_t d = 0; d < shape->n_dim; d++)
    if ((int)d != input->at) RONDE_TRY(read_dim(file, input, shape, d));
  input->rank = input->shape.rank;
  if (input->rank == 0) input->shape = (ronde__shape){1, {1}};
  file->n_inputs++;
  return RONDE_OK;
}

static bool is_initializer_of(const Onnx__GraphProto *graph, const char *name) {
  for (size_t k = 0; k < graph->n_initializer; k++)
    if (graph->initializer[k]->name && !strcmp(graph->initializer[k]->name, name)) return true;
  return false;
}

/* One more input of a file without a batch: a part of Ronde's. */
static ronde_status add_piece(ronde__onnx *file, const Onnx__ValueInfoProto *input) {
  bool is_tensor = input->type && input->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  const Onnx__TypeProto__Tensor *type = is_tensor ? input->type->tensor_type : NULL;
  const Onnx__TensorShapeProto *shape = type ? type->shape : NULL;
  const char *name = RONDE__SHOWN(input->name);
  if (!shape || type->elem_type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT || shape->n_dim > RONDE_MAX_RANK)
    return ronde__fail(RONDE_E_INPUT, "%s: its input %s is not a tensor of f32 with up to %d dimensions", file->path,
                       name, RONDE_MAX_RANK);
  ronde__onnx_piece *piece = &file->pieces[file->n_pieces++];
  *piece = (ronde__onnx_piece){.value = ronde__onnx_find_name(file, input->name)};
  for (size_t d = 0; d < shape->n_dim; d++) {
    RONDE_TRY(check_dim(file, input->name, shape->dim[d], d));
    piece->shape.dim[piece->shape.rank++] = shape->dim[d]->dim_value;
  }
  if (shape->n_dim == 0) piece->shape = (ronde__shape){1, {1}};
  if (__builtin_add_overflow(file->shape.dim[0], ronde__shape_elems(&piece->shape), &file->shape.dim[0]) ||
      file->shape.dim[0] > INT32_MAX)
    return ronde__fail(RONDE_E_INPUT, "%s: its inputs are too large", file->path);
  return RONDE_OK;
}

static ronde_status find_output(ronde__onnx *file) {
  const Onnx__GraphProto *graph = file->model->graph;
  if (graph->n_output != 1 || ronde__is_empty(graph->output[0]->name))
    return ronde__fail(RONDE_E_INPUT, "%s: it has %zu outputs, but a network has one", file->path, graph->n_output);
  file->output = ronde__onnx_find_name(file, graph->output[0]->name);
  return RONDE_OK;
}

/* Of a file without a batch: all inputs; of no input at all, one number that nobody reads. */
static ronde_status find_pieces(ronde__onnx *file) {
  const Onnx__GraphProto *graph = file->model->graph;
  RONDE__ALLOC(file->pieces, (graph->n_input + 1) * sizeof *file->pieces, file->path);
  file->shape.rank = 1;
  for (size_t i = 0; i < graph->n_input; i++) {
    if (ronde__is_empty(graph->input[i]->name))
      return ronde__fail(RONDE_E_INPUT, "%s: an input has no name", file->path);
    if (!is_initializer_of(graph, graph->input[i]->name)) RONDE_TRY(add_piece(file, graph->input[i]));
  }
  if (file->n_pieces == 0) file->shape.dim[0] = 1;
  return find_output(file);
}

/* What Ronde's own files call their first input is the first one, wherever it stands. */
static void put_first(ronde__onnx *file) {
  for (int i = 1; i < file->n_inputs; i++) {
    const ronde__onnx_input input = file->inputs[i];
    if (strcmp(input.name, RONDE__ONNX_FIRST_INPUT) != 0) continue;
    memmove(file->inputs + 1, file->inputs, (size_t)i * sizeof input);
    file->inputs[0] = input;
  }
}

/* Files of old list initializers among the inputs. */
ronde_status ronde__onnx_find_ends(ronde__onnx *file) {
  const Onnx__GraphProto *graph = file->model->graph;
  if (!file->lead) return find_pieces(file);
  for (size_t i = 0; i < graph->n_input; i++) {
    const char *name = graph->input[i]->name;
    if (ronde__is_empty(name)) return ronde__fail(RONDE_E_INPUT, "%s: an input has no name", file->path);
    if (is_initializer_of(graph, name)) continue;
    if (file->n_inputs == RONDE_MAX_INPUTS)
      return ronde__fail(RONDE_E_INPUT, "%s: it has more than %d inputs (%s)", file->path, RONDE_MAX_INPUTS,
                         RONDE__SHOWN(name));
    RONDE_TRY(read_input(file, graph->input[i]));
  }
  if (file->n_inputs == 0) return ronde__fail(RONDE_E_INPUT, "%s: it has no input", file->path);
  put_first(file);
  for (int i = 1; i < file->n_inputs; i++) RONDE_TRY(check_name(file, i));
  file->shape = file->inputs[0].shape;
  return find_output(file);
}

/* ---- tokens ---- */

/* What holds the numbers of an input, or nothing else but them. */
static void follow(const ronde__onnx *file, int i, bool *holds) {
  holds[file->inputs[i].value] = true;
  for (int k = 0; k < file->n_nodes; k++) {
    const ronde__onnx_node *node = &file->nodes[k];
    bool passes = node->build == ronde__onnx_op_identity || node->build == ronde__onnx_op_cast ||
                  node->build == ronde__onnx_op_reshape;
    if (passes && node->n_in && node->in[0] >= 0 && holds[node->in[0]] && node->n_out && node->out[0] >= 0)
      holds[node->out[0]] = true;
  }
}

/* The rows of the smallest table that the input's numbers look up; 0: they look up none. */
static int64_t rows_of(const ronde__onnx *file, const bool *holds) {
  int64_t rows = 0;
  for (int k = 0; k < file->n_nodes; k++) {
    const ronde__onnx_node *node = &file->nodes[k];
    if (node->build != ronde__onnx_op_gather || node->n_in < 2 || node->in[0] < 0 || node->in[1] < 0) continue;
    const Onnx__TensorProto *table = holds[node->in[1]] ? file->constants[node->in[0]] : NULL;
    if (table && table->n_dims == 2 && table->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT && table->dims[0] > 0)
      rows = rows ? ronde__min(rows, table->dims[0]) : table->dims[0];
  }
  return rows;
}

static ronde_status find_vocabulary(const ronde__onnx *file, ronde__onnx_input *input, const bool *holds) {
  input->vocabulary = rows_of(file, holds);
  if (input->vocabulary > INT32_MAX)
    return ronde__fail(RONDE_E_INPUT, "%s: its input %s has a table of %" PRId64 " rows, which is too many", file->path,
                       RONDE__SHOWN(input->name), input->vocabulary);
  if (input->vocabulary || (input->rank <= 1 && input->shape.dim[0] == 1)) return RONDE_OK;
  return ronde__fail(
      RONDE_E_INPUT,
      "%s: its input %s holds integers by which no Gather looks up an initializer [tokens, features], and "
      "which are not one length an example",
      file->path, RONDE__SHOWN(input->name));
}

ronde_status ronde__onnx_find_vocabularies(ronde__onnx *file) {
  for (int i = 0; i < file->n_inputs; i++) {
    bool *holds;
    if (!file->inputs[i].integers) continue;
    RONDE__ALLOC(holds, (size_t)file->n_names * sizeof *holds, file->path);
    follow(file, i, holds);
    ronde_status status = find_vocabulary(file, &file->inputs[i], holds);
    ronde__free(holds);
    RONDE_TRY(status);
  }
  return RONDE_OK;
}

/* ---- for graphs ---- */

int ronde__onnx_n_inputs(const ronde__onnx *file) { return file->lead ? file->n_inputs : 1; }

const char *ronde__onnx_input_at(const ronde__onnx *file, int i, ronde__shape *shape_out, int64_t *vocabulary_out) {
  *shape_out = file->lead ? file->inputs[i].shape : file->shape;
  *vocabulary_out = file->lead ? file->inputs[i].vocabulary : 0;
  return i == 0 ? RONDE__ONNX_FIRST_INPUT : file->inputs[i].name;
}

void ronde__onnx_fit(const ronde__onnx *file, ronde__shape *shape) {
  const ronde__shape *wanted = file->lead ? &file->inputs[0].shape : &file->shape;
  ronde__shape fit = *shape;
  while (fit.rank > wanted->rank && fit.dim[0] == 1) {
    memmove(fit.dim, fit.dim + 1, (size_t)--fit.rank * sizeof *fit.dim);
    fit.dim[fit.rank] = 0;
  }
  bool is_plane = fit.rank < shape->rank, is_row = wanted->rank == 1 && wanted->dim[0] == ronde__shape_elems(shape);
  if (is_plane && is_row) fit = *wanted;
  while (fit.rank < wanted->rank && wanted->dim[wanted->rank - fit.rank - 1] == 1) {
    memmove(fit.dim + 1, fit.dim, (size_t)fit.rank++ * sizeof *fit.dim);
    fit.dim[0] = 1;
  }
  if (fit.rank == wanted->rank) *shape = fit;
}

ronde_tensor *ronde__onnx_add_inputs(const ronde__onnx *file, ronde_graph *graph) {
  ronde_tensor *first = NULL;
  for (int i = 0; i < ronde__onnx_n_inputs(file); i++) {
    ronde__shape shape;
    int64_t vocabulary;
    const char *name = ronde__onnx_input_at(file, i, &shape, &vocabulary);
    ronde_tensor *x = vocabulary ? ronde_input_tokens(graph, name, shape.rank, shape.dim, vocabulary)
                                 : ronde_input(graph, name, shape.rank, shape.dim);
    if (i == 0) first = x;
  }
  return ronde_graph_status(graph) == RONDE_OK ? first : NULL;
}
