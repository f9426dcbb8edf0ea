/* Opening an ONNX file: its names become numbers, what its output does not need is left aside, and its network is built
 * once, so that whatever is wrong is found before anything else happens; of a file with open dimensions, when they have sizes. */
#include "io/file.h"
#include "onnx/import.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Operators' meanings are known up to the second. Old ones differ in what is an attribute and what an input. */
enum { OLDEST_OPSET = 7, NEWEST_OPSET = 28 };
enum { MAX_NODES = 1 << 16 };

/* ---- nodes ---- */

static ronde_status list_nodes(ronde__onnx *file) {
  const Onnx__GraphProto *graph = file->model->graph;
  size_t n = 0;
  if (graph->n_node > MAX_NODES)
    return ronde__fail(RONDE_E_INPUT, "%s: it has more than %d nodes", file->path, MAX_NODES);
  for (size_t i = 0; i < graph->n_node; i++) n += graph->node[i]->n_input + graph->node[i]->n_output;
  RONDE__ALLOC(file->nodes, graph->n_node * sizeof *file->nodes, file->path);
  RONDE__ALLOC(file->operands, n * sizeof *file->operands, file->path);
  int *at = file->operands;
  for (; file->n_nodes < (int)graph->n_node; file->n_nodes++) {
    const Onnx__NodeProto *proto = graph->node[file->n_nodes];
    ronde__onnx_node *node = &file->nodes[file->n_nodes];
    *node = (ronde__onnx_node){proto, NULL, at, (int)proto->n_input, at + proto->n_input, (int)proto->n_output, false};
    for (int k = 0; k < node->n_in; k++) *at++ = ronde__onnx_find_name(file, proto->input[k]);
    for (int k = 0; k < node->n_out; k++) *at++ = ronde__onnx_find_name(file, proto->output[k]);
  }
  return RONDE_OK;
}

static ronde_status twice(const ronde__onnx *file, int value) {
  return ronde__fail(RONDE_E_INPUT, "%s: %s is there twice", file->path, RONDE__SHOWN(file->names[value]));
}

static bool is_input(const ronde__onnx *file, int value) {
  for (int i = 0; i < file->n_pieces; i++)
    if (file->pieces[i].value == value) return true;
  for (int i = 0; i < file->n_inputs; i++)
    if (file->inputs[i].value == value) return true;
  return false;
}

/* The tensor of a node Constant is as good as an initializer; it is called like the node's output. */
static ronde_status take_constant(ronde__onnx *file, const ronde__onnx_node *node) {
  const Onnx__AttributeProto *value = ronde__onnx_attr(node, "value");
  bool is_constant = ronde__onnx_find_operator(node->proto) == ronde__onnx_op_constant;
  if (!is_constant || !value || !value->t || node->n_out != 1 || node->out[0] < 0) return RONDE_OK;
  char *name = ronde__strdup(file->names[node->out[0]]);
  if (!name) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for a name", file->path);
  free(value->t->name);
  value->t->name = name;
  file->constants[node->out[0]] = value->t;
  return RONDE_OK;
}

/* PyTorch's newer exporter notes what an initializer was; its older one does not. */
static void find_buffers(ronde__onnx *file) {
  static const char kind[] = "pkg.torch.export.graph_signature.InputSpec.kind";
  const Onnx__GraphProto *graph = file->model->graph;
  for (size_t i = 0; i < graph->n_value_info; i++) {
    const Onnx__ValueInfoProto *info = graph->value_info[i];
    int value = ronde__onnx_find_name(file, info->name);
    for (size_t k = 0; k < info->n_metadata_props && value >= 0; k++) {
      const Onnx__StringStringEntryProto *entry = info->metadata_props[k];
      bool is_kind = entry->key && entry->value && !strcmp(entry->key, kind);
      if (is_kind && (!strcmp(entry->value, "BUFFER") || !strcmp(entry->value, "CONSTANT_TENSOR")))
        file->is_buffer[value] = true;
    }
  }
}

static ronde_status list_constants(ronde__onnx *file) {
  const Onnx__GraphProto *graph = file->model->graph;
  for (size_t i = 0; i < graph->n_initializer; i++) {
    int value = ronde__onnx_find_name(file, graph->initializer[i]->name);
    if (value < 0) continue;
    if (file->constants[value]) return twice(file, value);
    file->constants[value] = graph->initializer[i];
  }
  for (int i = 0; i < file->n_nodes; i++) {
    const ronde__onnx_node *node = &file->nodes[i];
    for (int k = 0; k < node->n_out; k++) {
      int value = node->out[k];
      if (value < 0) continue;
      if (file->constants[value] || file->producer[value] >= 0 || is_input(file, value)) return twice(file, value);
      file->producer[value] = i;
    }
    RONDE_TRY(take_constant(file, node));
  }
  return RONDE_OK;
}

/* ---- what the output needs ---- */

/* From the output on, what is read. */
static void find_needed(ronde__onnx *file) {
  file->n_readers[file->output] = 1;
  for (int i = file->n_nodes - 1; i >= 0; i--) {
    ronde__onnx_node *node = &file->nodes[i];
    for (int k = 0; k < node->n_out; k++) node->needed |= node->out[k] >= 0 && file->n_readers[node->out[k]] > 0;
    if (!node->needed) continue;
    node->build = ronde__onnx_find_operator(node->proto);
    for (int k = 0; k < node->n_in; k++)
      if (node->in[k] >= 0 && file->n_readers[node->in[k]]++ == 0) file->reader[node->in[k]] = i;
  }
}

static const char *domain_of(const ronde__onnx_node *node) { return node->proto->domain ? node->proto->domain : ""; }
static const char *type_of(const ronde__onnx_node *node) { return node->proto->op_type ? node->proto->op_type : ""; }

static bool is_told(const ronde__onnx_node *const *told, int n, const ronde__onnx_node *node) {
  for (int i = 0; i < n; i++)
    if (!strcmp(type_of(told[i]), type_of(node)) && !strcmp(domain_of(told[i]), domain_of(node))) return true;
  return false;
}

/* All operators that there are not, each with its first node. */
static ronde_status check_operators(const ronde__onnx *file) {
  enum { MAX_TOLD = 24 };
  const ronde__onnx_node *told[MAX_TOLD];
  char text[MAX_TOLD * 3 * RONDE__SHOWN_BYTES] = "";
  size_t used = 0;
  int n = 0;
  for (int i = 0; i < file->n_nodes && n < MAX_TOLD; i++) {
    const ronde__onnx_node *node = &file->nodes[i];
    if (!node->needed || node->build || is_told(told, n, node)) continue;
    const char *domain = RONDE__SHOWN(domain_of(node));
    used +=
        (size_t)snprintf(text + used, sizeof text - used, "%s%s%s%s (node %s)", n ? ", " : "", domain,
                         *domain ? "." : "", RONDE__SHOWN(type_of(node)), RONDE__SHOWN(ronde__onnx_node_name(node)));
    told[n++] = node;
  }
  if (n == 0) return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT, "%s: not supported: %s", file->path, text);
}

/* Whether what a node reads is computed in front of it. */
static ronde_status check_order(const ronde__onnx *file) {
  for (int i = 0; i < file->n_nodes; i++) {
    const ronde__onnx_node *node = &file->nodes[i];
    for (int k = 0; k < node->n_in && node->build; k++) {
      int value = node->in[k];
      bool known = value < 0 || is_input(file, value) || file->constants[value] ||
                   (file->producer[value] >= 0 && file->producer[value] < i);
      if (!known)
        return ronde__fail(RONDE_E_INPUT, "%s: node %s reads %s, which nothing in front of it computes", file->path,
                           RONDE__SHOWN(ronde__onnx_node_name(node)), RONDE__SHOWN(file->names[value]));
    }
  }
  return RONDE_OK;
}

/* The linear layer whose output is the network's, but for a softmax or the like. */
static int find_head(const ronde__onnx *file) {
  for (int value = file->output;;) {
    int i = file->producer[value];
    if (i < 0 || file->n_readers[value] != 1) return -1;
    const ronde__onnx_node *node = &file->nodes[i];
    if (node->build == ronde__onnx_op_gemm || node->build == ronde__onnx_op_matmul) return i;
    bool passes = node->build == ronde__onnx_op_softmax || node->build == ronde__onnx_op_log_softmax ||
                  node->build == ronde__onnx_op_sigmoid || node->build == ronde__onnx_op_identity;
    int from = passes && node->n_in ? node->in[0] : -1;
    for (int k = 0; k < 2 && node->build == ronde__onnx_op_add && node->n_in == 2; k++)
      if (node->in[1 - k] >= 0 && file->constants[node->in[1 - k]]) from = node->in[k]; /* a bias */
    if (from < 0) return -1;
    value = from;
  }
}

/* ---- the whole ---- */

static ronde_status read_opset(ronde__onnx *file) {
  for (size_t i = 0; i < file->model->n_opset_import; i++) {
    const Onnx__OperatorSetIdProto *set = file->model->opset_import[i];
    if (ronde__is_empty(set->domain) || !strcmp(set->domain, "ai.onnx")) file->opset = set->version;
  }
  if (file->opset >= OLDEST_OPSET && file->opset <= NEWEST_OPSET) return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT, "%s: its opset is %" PRId64 "; %d to %d are supported", file->path, file->opset,
                     OLDEST_OPSET, NEWEST_OPSET);
}

/* Builds the network on a graph of its own. */
static ronde_status try_network(ronde__onnx *file) {
  ronde_graph *graph;
  RONDE_TRY(ronde_graph_create(&graph));
  const ronde_tensor *y = ronde__onnx_record(file, graph, ronde__onnx_add_inputs(file, graph));
  ronde_status status = ronde_graph_status(graph);
  if (!y && status == RONDE_OK) status = RONDE_E_INPUT;   /* who found it has said it */
  if (y) file->outputs = y->shape.dim[y->shape.rank - 1]; /* of sequences, at each step */
  if (y && file->n_weights == 0 && file->needs_weights)
    status = ronde__fail(RONDE_E_INPUT, "%s: the network has no weights", file->path);
  ronde_graph_destroy(graph);
  return status;
}

static ronde_status prepare(ronde__onnx *file) {
  const Onnx__ModelProto *model = file->model;
  if (!model->graph) return ronde__fail(RONDE_E_INPUT, "%s: it is no ONNX file, or has no graph", file->path);
  if (model->graph->n_sparse_initializer)
    return ronde__fail(RONDE_E_INPUT, "%s: sparse initializers are not supported", file->path);
  RONDE_TRY(read_opset(file));
  RONDE_TRY(ronde__onnx_list_names(file));
  RONDE_TRY(list_nodes(file));
  RONDE_TRY(ronde__onnx_find_ends(file));
  RONDE_TRY(list_constants(file));
  find_buffers(file);
  find_needed(file);
  RONDE_TRY(check_operators(file));
  RONDE_TRY(ronde__onnx_find_masks(file));
  RONDE_TRY(check_order(file));
  RONDE_TRY(ronde__onnx_find_vocabularies(file));
  file->head = find_head(file);
  bool known = !ronde__is_empty(model->producer_name);
  file->about =
      ronde__format("ONNX file by %s%s%s, opset %" PRId64, known ? RONDE__SHOWN(model->producer_name) : "?",
                    ronde__is_empty(model->producer_version) ? "" : " ",
                    ronde__is_empty(model->producer_version) ? "" : RONDE__SHOWN(model->producer_version), file->opset);
  return file->about ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "%s: no memory for its description", file->path);
}

/* What lies beside the file, behind what is in it, as the layers read it. */
static ronde_status hash(ronde__onnx *file) {
  ronde_status status = RONDE_OK;
  for (int i = 0; i < file->n_weights && status == RONDE_OK; i++) {
    const Onnx__TensorProto *tensor = file->weights[i].tensor;
    if (tensor->data_location != ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) continue;
    size_t size = (size_t)ronde__onnx_elems(tensor) * sizeof(float);
    float *values = ronde__alloc(size);
    status = values ? ronde__onnx_read_floats(file, tensor, values)
                    : ronde__fail(RONDE_E_MEMORY, "%s: no memory for %zu bytes", file->path, size);
    if (status == RONDE_OK) ronde__sha256_update(&file->sha, values, size);
    ronde__free(values);
  }
  return status == RONDE_OK ? ronde__sha256_final(&file->sha, file->sha256) : status;
}

ronde_status ronde__onnx_settle(ronde__onnx *file) {
  RONDE_TRY(try_network(file));
  ronde__shape_text(&file->shape, file->shape_text, sizeof file->shape_text);
  snprintf(file->outputs_text, sizeof file->outputs_text, "%" PRId64, file->outputs);
  return hash(file);
}

static ronde_status parse(const char *name, const char *folder, const void *data, size_t bytes, int lead,
                          bool needs_weights, ronde__onnx **file_out) {
  ronde__onnx *file;
  RONDE__ALLOC(file, sizeof *file, name);
  *file = (ronde__onnx){.path = ronde__strdup(name),
                        .folder = ronde__strdup(folder),
                        .output = -1,
                        .head = -1,
                        .lead = lead,
                        .needs_weights = needs_weights};
  ronde_status status = file->path && file->folder ? ronde__onnx_unpack(name, data, bytes, &file->model)
                                                   : ronde__fail(RONDE_E_MEMORY, "%s: no memory for its name", name);
  if (status == RONDE_OK) status = prepare(file);
  if (status == RONDE_OK) status = ronde__sha256_init(&file->sha);
  if (status == RONDE_OK) ronde__sha256_update(&file->sha, data, bytes);
  if (status == RONDE_OK && !file->is_open) status = ronde__onnx_settle(file);
  if (status == RONDE_OK) *file_out = file;
  else ronde__onnx_close(file);
  return status;
}

ronde_status ronde__onnx_parse(const char *name, const char *folder, const void *data, size_t bytes,
                               ronde__onnx **file_out) {
  return parse(name, folder, data, bytes, 1, true, file_out);
}

ronde_status ronde__onnx_parse_case(const char *name, const void *data, size_t bytes, bool has_batch,
                                    ronde__onnx **file_out) {
  return parse(name, ".", data, bytes, has_batch, false, file_out);
}

static ronde_status read_file(const char *path, const char *folder, ronde__onnx **file_out) {
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat info;
  if (fd < 0) return ronde__fail(RONDE_E_INPUT, "%s: cannot read: %s", path, strerror(errno));
  bool is_file = !fstat(fd, &info) && S_ISREG(info.st_mode) && info.st_size > 0;
  size_t bytes = is_file ? (size_t)info.st_size : 0;
  void *data = is_file ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
  close(fd);
  if (data == MAP_FAILED) return ronde__fail(RONDE_E_INPUT, "%s: cannot read: it is empty, or no file", path);
  ronde_status status = ronde__onnx_parse(path, folder, data, bytes, file_out);
  munmap(data, bytes);
  return status;
}

ronde_status ronde__onnx_open(const char *path, ronde__onnx **file_out) {
  char *folder = ronde__folder_of(path);
  if (!folder) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for its name", path);
  ronde_status status = read_file(path, folder, file_out);
  free(folder);
  return status;
}

void ronde__onnx_close(ronde__onnx *file) {
  if (!file) return;
  if (file->sha.context) (void)ronde__sha256_final(&file->sha, NULL);
  for (int i = 0; i < file->n_weights; i++) free(file->weights[i].name);
  free(file->weights);
  for (int i = 0; i < file->n_made; i++) onnx__tensor_proto__free_unpacked(file->made[i], NULL);
  free(file->made);
  ronde__free(file->pieces);
  ronde__free(file->names);
  ronde__free(file->constants);
  ronde__free(file->is_buffer);
  ronde__free(file->is_mask);
  ronde__free(file->n_readers);
  ronde__free(file->reader);
  ronde__free(file->producer);
  ronde__free(file->nodes);
  ronde__free(file->operands);
  if (file->model) onnx__model_proto__free_unpacked(file->model, NULL);
  free(file->path);
  free(file->folder);
  free(file->about);
  ronde__free(file);
}

bool ronde__onnx_supported(void) { return true; }
const char *ronde__onnx_sha256(const ronde__onnx *file) { return file->sha256; }
const ronde__shape *ronde__onnx_shape(const ronde__onnx *file) { return &file->shape; }
int64_t ronde__onnx_outputs(const ronde__onnx *file) { return file->outputs; }
const char *ronde__onnx_about(const ronde__onnx *file) { return file->about; }

/* PyTorch's older exporter names weights that it has computed by the operator that reads them; the newer one notes at a
 * node which rules have changed it. */
static bool is_folded(const ronde__onnx *file, const ronde__onnx_node *node) {
  static const char computed[] = "onnx::Conv_", rules[] = "pkg.onnxscript.rewriter.rule_name";
  if (node->build != ronde__onnx_op_conv) return false;
  if (node->n_in > 1 && node->in[1] >= 0 && !strncmp(file->names[node->in[1]], computed, sizeof computed - 1))
    return true;
  for (size_t i = 0; i < node->proto->n_metadata_props; i++) {
    const Onnx__StringStringEntryProto *entry = node->proto->metadata_props[i];
    bool has = entry->key && entry->value && !strcmp(entry->key, rules);
    if (has && strstr(entry->value, "FuseBatchNorm")) return true;
  }
  return false;
}

ronde_status ronde__onnx_check_training(const ronde__onnx *file) {
  for (int i = 0; i < file->n_nodes; i++)
    if (is_folded(file, &file->nodes[i]))
      return ronde__fail(
          RONDE_E_INPUT,
          "%s: an export for inference: node %s is a convolution that a batch normalisation was made part "
          "of; export it for training, in Python: torch.onnx.export(model.train(), x, \"net.onnx\", "
          "dynamo=False, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, "
          "input_names=[\"input\"], dynamic_axes={\"input\": {0: \"batch\"}})",
          file->path, RONDE__SHOWN(ronde__onnx_node_name(&file->nodes[i])));
  return RONDE_OK;
}
