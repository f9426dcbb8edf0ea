/* ONNX files that others wrote (tests/golden/make_onnx.py, with what they must give), bad ones, and networks of the public
 * calls that go out and come back. */
#include "train_testing.h"

#include "base/pool.h"
#include "job/job.h"
#include "lib/folder.h"
#include "onnx_testing.h"

#define GOLDEN RONDE_SOURCE_DIR "/tests/golden/onnx"

static int make_folder(void **state) {
  folder = test_folder_create();
  test_log_start(&lines);
  return 0;
}

/* ---- a network and its net --------------------------------------------------------------------------------------- */

static onnx_subject finish(ronde_graph *graph, bool training) {
  if (ronde__graph_finish(graph) != RONDE_OK) fail_msg("%s", lines.error);
  return onnx_subject_of(graph, training);
}

static onnx_subject subject_of_file(const ronde__onnx *file, bool training) {
  ronde_graph *graph;
  assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
  ronde_tensor *x = ronde__onnx_add_inputs(file, graph);
  ronde_graph_set_output(graph, ronde__onnx_build(file, graph, x, 0, RONDE__ONNX_CLASSES));
  onnx_subject s = finish(graph, training);
  onnx_subject_load(&s, file);
  return s;
}

/* ---- files that others wrote ------------------------------------------------------------------------------------- */

static double *numbers_of(const json_t *list, size_t *n_out) {
  double *numbers = malloc((json_array_size(list) + 1) * sizeof *numbers);
  size_t i;
  const json_t *value;
  json_array_foreach(list, i, value) numbers[i] = json_number_value(value);
  *n_out = json_array_size(list);
  return numbers;
}

/* Against the largest of them. */
static void check_close(const char *file, const char *what, const float *values, const json_t *wanted, double bound) {
  size_t n;
  double *numbers = numbers_of(wanted, &n), largest = 1e-3, error = 0;
  for (size_t i = 0; i < n; i++) {
    largest = fmax(largest, fabs(numbers[i]));
    error = fmax(error, fabs((double)values[i] - numbers[i]));
  }
  if (!(error <= bound * largest)) print_message("%s: %s: error %g, largest value %g\n", file, what, error, largest);
  assert_true(n > 0 && error <= bound * largest);
  free(numbers);
}

static bool is_listed(const json_t *names, const char *name) {
  size_t i;
  const json_t *value;
  json_array_foreach(names, i, value) if (!strcmp(json_string_value(value), name)) return true;
  return false;
}

/* Of all parameters, but constants, and buffers of PyTorch's that a file does not tell from parameters. */
static void check_gradients(const char *file, onnx_subject *s, const json_t *wanted, const json_t *buffers) {
  int n, n_others = 0;
  const ronde__net_param *params = ronde__net_params(s->net, &n);
  for (int i = 0; i < n; i++) n_others += params[i].frozen || is_listed(buffers, params[i].name);
  assert_int_equal(n - n_others, json_object_size(wanted));
  for (int i = 0; i < n; i++) {
    const json_t *one = json_object_get(wanted, params[i].name);
    if (!one && (params[i].frozen || is_listed(buffers, params[i].name))) continue;
    float *values = malloc((size_t)ronde__shape_elems(&params[i].shape) * sizeof *values);
    assert_non_null(one);
    assert_int_equal(json_array_size(one), ronde__shape_elems(&params[i].shape));
    ronde__net_get_gradient(s->net, i, values);
    check_close(file, params[i].name, values, one, 2e-4);
    free(values);
  }
}

/* Values, or numbers of tokens, of each example side by side. */
static void put_inputs(const onnx_subject *s, int64_t n, const double *numbers, float *x) {
  for (int64_t i = 0; i < n; i++)
    for (int k = 0; k < s->graph->n_inputs; k++) {
      const ronde_tensor *input = s->graph->tensors[s->graph->inputs[k]];
      for (int64_t left = ronde__shape_elems(&input->shape); left > 0; left--, x++, numbers++) {
        const int32_t token = (int32_t)*numbers;
        if (input->vocabulary) memcpy(x, &token, sizeof token);
        else *x = (float)*numbers;
      }
    }
}

/* The first dimension of each input is so large where the file leaves it open. */
static void bind(ronde__onnx *file, const json_t *places) {
  ronde__shape inputs[RONDE_MAX_INPUTS];
  int64_t vocabulary;
  assert_int_equal(ronde__onnx_is_open(file), places != NULL);
  for (int i = 0; i < ronde__onnx_n_inputs(file); i++) {
    ronde__onnx_input_at(file, i, &inputs[i], &vocabulary);
    if (places) inputs[i].dim[0] = json_integer_value(json_array_get(places, (size_t)i));
  }
  if (ronde__onnx_bind(file, inputs, ronde__onnx_n_inputs(file)) != RONDE_OK) fail_msg("%s", lines.error);
}

/* The loss and its gradients. */
static void check_step(const char *name, onnx_subject *s, int64_t n, size_t n_labels, const float *x,
                       const int64_t *labels, json_t *expected) {
  ronde__net_batch batch = {.n = n, .x = x, .labels = labels, .training = true, .step = 1};
  ronde__net_result result;
  batch.label_weight = (float)n / (float)n_labels;
  assert_int_equal(ronde__net_forward(s->net, &batch, 1.0f / (float)n, NULL, &result), RONDE_OK);
  assert_int_equal(ronde__net_backward(s->net, false, NULL), RONDE_OK);
  if (!json_object_get(expected, "loss")) return; /* of dropout, which draws other numbers */
  assert_float_equal(result.loss_sum / (double)n, real_at(expected, "loss"), 2e-6);
  check_gradients(name, s, json_object_get(expected, "gradients"), json_object_get(expected, "buffers"));
}

static void check_file(const char *name) {
  char *path = ronde__format(GOLDEN "/%s.onnx", name), *expected_name = ronde__format("%s.json", name);
  json_t *expected = json_file(GOLDEN, expected_name);
  ronde__onnx *file;
  size_t n_x, n_labels;
  assert_int_equal(ronde__onnx_open(path, &file), RONDE_OK);
  bind(file, json_object_get(expected, "places"));
  onnx_subject s = subject_of_file(file, true);
  double *numbers = numbers_of(json_object_get(expected, "x"), &n_x);
  double *classes = numbers_of(json_object_get(expected, "labels"), &n_labels);
  float *x = malloc(n_x * sizeof *x), *y = malloc(n_labels * (size_t)ronde__onnx_outputs(file) * sizeof *y);
  int64_t *labels = malloc(n_labels * sizeof *labels), n = (int64_t)n_labels / ronde__loss_labels(s.graph);
  put_inputs(&s, n, numbers, x);
  for (size_t i = 0; i < n_labels; i++) labels[i] = (int64_t)classes[i];
  assert_int_equal(ronde__net_predict(s.net, n, x, y), RONDE_OK);
  check_close(name, "outputs", y, json_object_get(expected, "outputs"), 2e-6);
  check_step(name, &s, n, n_labels, x, labels, expected);
  onnx_subject_destroy(&s);
  ronde__onnx_close(file);
  json_decref(expected);
  free(numbers);
  free(classes);
  free(x);
  free(y);
  free(labels);
  free(path);
  free(expected_name);
}

static void test_files_of_others(void **state) {
  static const char *const names[] = {"small",
                                      "residual",
                                      "branches",
                                      "windows",
                                      "pooled",
                                      "sequence",
                                      "torch-resnet",
                                      "torch-attention",
                                      "torch-windows",
                                      "recurrent",
                                      "torch-buffers",
                                      "cells",
                                      "shuffled",
                                      "torch-shuffle",
                                      "torch-encoder",
                                      "torch-causal",
                                      "torch-lstm",
                                      "torch-lstms",
                                      "torch-grus",
                                      "torch-translator",
                                      "triangles",
                                      "torch-open-encoder",
                                      "torch-open-causal",
                                      "torch-open-translator",
                                      "torch-open-gpt",
                                      "torch-open-lstms",
                                      "torch-open-series",
                                      "alike",
                                      "torch-newer-resnet",
                                      "torch-newer-gpt",
                                      "torch-newer-causal",
                                      "torch-newer-encoder",
                                      "torch-newer-series",
                                      "torch-newer-heads",
                                      "torch-newer-masked",
                                      "torch-newer-open-gpt",
                                      "torch-newer-open-heads",
                                      "torch-open-masks",
                                      "torch-newer-open-masks",
                                      "torch-newer-windows",
                                      "torch-newer-strided",
                                      "torch-newer-drops",
                                      "torch-newer-lstms",
                                      "torch-newer-grus",
                                      "torch-newer-open-lstm",
                                      "torch-later-grus",
                                      "torch-later-encoder",
                                      "torch-newer-later-lstms",
                                      "torch-newer-later-encoder",
                                      "torch-drops",
                                      "torch-series1d",
                                      "torch-newer-series1d",
                                      "torch-newer-gpt2",
                                      "torch-newer-llama",
                                      "torch-newer-bert",
                                      "torch-bert",
                                      "torch-newer-vit",
                                      "torch-newer-distilbert"};
  need_onnx();
  for (size_t i = 0; i < RONDE__COUNT(names); i++) check_file(names[i]);
}

/* A fused activation, and SiLU for a product with a sigmoid. */
static void test_products_with_a_sigmoid(void **state) {
  ronde__onnx *file;
  need_onnx();
  assert_int_equal(ronde__onnx_open(GOLDEN "/branches.onnx", &file), RONDE_OK);
  onnx_subject s = subject_of_file(file, false);
  int n_silu = 0, n_sigmoid = 0;
  for (int i = 0; i < s.graph->n_nodes; i++) {
    const ronde__node *node = &s.graph->nodes[i];
    n_silu += node->kind == RONDE__OP_POINTWISE && node->attr.pointwise.kind == RONDE__POINTWISE_SILU;
    n_sigmoid += node->kind == RONDE__OP_ACTIVATION && node->attr.act == RONDE__ACT_SIGMOID;
  }
  assert_int_equal(n_silu, 1);
  assert_int_equal(n_sigmoid, 0);
  onnx_subject_destroy(&s);
  ronde__onnx_close(file);
}

/* Those of channels, of examples, in place, and as Hugging Face makes them. */
static void test_dropouts_of_random_numbers(void **state) {
  static const struct {
    float p;
    int64_t length;
  } wanted[] = {{0.3f, 16}, {0.4f, 1}, {0.2f, 64}, {0.1f, 64}};
  static const struct {
    const char *file;
    int first;
  } files[] = {{GOLDEN "/torch-newer-drops.onnx", 0}, {GOLDEN "/torch-drops.onnx", 2}};
  need_onnx();
  for (size_t i = 0; i < RONDE__COUNT(files); i++) {
    ronde__onnx *file;
    int at = files[i].first;
    assert_int_equal(ronde__onnx_open(files[i].file, &file), RONDE_OK);
    onnx_subject s = subject_of_file(file, false);
    for (int k = 0; k < s.graph->n_nodes; k++) {
      const ronde__node *node = &s.graph->nodes[k];
      if (node->kind != RONDE__OP_DROPOUT) continue;
      assert_in_range(at, 0, RONDE__COUNT(wanted) - 1);
      assert_float_equal(node->attr.probability, wanted[at].p, 1e-6);
      assert_int_equal(ronde__max(1, node->attr.length), wanted[at].length);
      at++;
    }
    assert_int_equal(at, RONDE__COUNT(wanted));
    onnx_subject_destroy(&s);
    ronde__onnx_close(file);
  }
}

/* Three nodes are one op, unless somebody reads what is between them. */
static void test_shuffles_of_channels(void **state) {
  static const struct {
    const char *file;
    int shuffles, transposes, reshapes;
  } wanted[] = {{GOLDEN "/shuffled.onnx", 5, 3, 9}, {GOLDEN "/torch-shuffle.onnx", 2, 0, 0}};
  need_onnx();
  for (size_t i = 0; i < RONDE__COUNT(wanted); i++) {
    ronde__onnx *file;
    assert_int_equal(ronde__onnx_open(wanted[i].file, &file), RONDE_OK);
    onnx_subject s = subject_of_file(file, false);
    assert_int_equal(onnx_n_nodes_of(s.graph, RONDE__OP_CHANNEL_SHUFFLE), wanted[i].shuffles);
    assert_int_equal(onnx_n_nodes_of(s.graph, RONDE__OP_TRANSPOSE), wanted[i].transposes);
    assert_int_equal(onnx_n_nodes_of(s.graph, RONDE__OP_RESHAPE), wanted[i].reshapes);
    onnx_subject_destroy(&s);
    ronde__onnx_close(file);
  }
}

/* ---- files that are refused -------------------------------------------------------------------------------------- */

static char *bytes_of(const char *path, size_t *n_out) {
  FILE *from = fopen(path, "rb");
  char *bytes = malloc(1 << 20);
  *n_out = fread(bytes, 1, 1 << 20, from);
  fclose(from);
  return bytes;
}

/* The file of a transformer, but both of its open dimensions have one name. */
static char *write_twins(void) {
  size_t n;
  char *bytes = bytes_of(GOLDEN "/torch-open-translator.onnx", &n);
  for (char *at = bytes; (at = memmem(at, n - (size_t)(at - bytes), "places1", 7));) memcpy(at, "places0", 7);
  test_write(folder, "twins.onnx", bytes, n);
  free(bytes);
  return ronde__format("%s/twins.onnx", folder);
}

static void test_dimensions_of_one_name(void **state) {
  static const ronde__shape unlike[] = {{1, {6}}, {1, {5}}}, known[] = {{1, {6}}, {0}},
                            images[] = {{3, {1, 6, 6}}, {0}};
  need_onnx();
  char *path = write_twins();
  ronde__onnx *file;
  ronde__shape shape;
  int64_t vocabulary;
  assert_int_equal(ronde__onnx_open(path, &file), RONDE_OK);
  assert_string_equal(ronde__onnx_open_dim(file, 1, 0), "places0");
  check_failed(&lines, ronde__onnx_bind(file, unlike, 2), RONDE_E_USAGE,
               "its dimension places0 is 6 of one input and 5 of another", "");
  ronde__onnx_close(file);
  assert_int_equal(ronde__onnx_open(path, &file), RONDE_OK);
  check_failed(&lines, ronde__onnx_bind(file, images, 2), RONDE_E_USAGE, "has 1 dimensions an example, not 3", "");
  check_failed(&lines, ronde__onnx_bind(file, known, 2), RONDE_E_INPUT, "/decoder/layers.0/self_attn/Reshape_4",
               ""); /* its exporter has put 5 there */
  ronde__onnx_input_at(file, 1, &shape, &vocabulary);
  assert_int_equal(shape.dim[0], 6);
  ronde__onnx_close(file);
  free(path);
}

static void test_bad_files(void **state) {
  need_onnx();
  json_t *bad = json_file(GOLDEN, "bad.json"), *says;
  const char *name;
  assert_true(json_object_size(bad) >= 20);
  json_object_foreach(bad, name, says) {
    char *path = ronde__format(GOLDEN "/%s", name);
    ronde__onnx *file = NULL;
    ronde_status status = ronde__onnx_open(path, &file);
    if (status == RONDE_OK || lines.n_errors != 1)
      print_message("%s: status %d, %d lines\n", name, status, lines.n_errors);
    check_failed(&lines, status, status == RONDE_E_USAGE ? RONDE_E_USAGE : RONDE_E_INPUT, json_string_value(says), "");
    assert_null(file);
    free(path);
  }
  json_decref(bad);
}

/* A link inside the folder may lead out of it. */
static void test_data_behind_a_link(void **state) {
  need_onnx();
  char *link = ronde__format("%s/pooled.data", folder), *copy = ronde__format("%s/pooled.onnx", folder);
  FILE *from = fopen(GOLDEN "/pooled.onnx", "rb");
  char bytes[4096];
  size_t n = fread(bytes, 1, sizeof bytes, from);
  fclose(from);
  test_write(folder, "pooled.onnx", bytes, n);
  assert_int_equal(symlink(GOLDEN "/pooled.data", link), 0);
  ronde__onnx *file;
  check_failed(&lines, ronde__onnx_open(copy, &file), RONDE_E_INPUT, "pooled.data is outside the file's folder", "");
  free(link);
  free(copy);
}

/* ---- out and back ------------------------------------------------------------------------------------------------ */

/* Every call that ONNX can say, but what branches of the golden files has. */
static ronde_tensor *everything(ronde_graph *graph, ronde_tensor *x) {
  ronde_tensor *pieces[3];
  ronde_pool2d_options pool = {.kernel = {2, 2}, .padding = {1, 0}, .exclude_padding = true};
  x = ronde_conv2d(x, "conv1",
                   &(ronde_conv2d_options){.out_channels = 6, .kernel = {3, 3}, .groups = 3, .no_bias = true});
  x = ronde_tanh(ronde_batch_norm2d(x, "bn1", &(ronde_batch_norm2d_options){.eps = 1e-3f, .momentum = 0.03f}));
  x = ronde_dropout_dims(ronde_dropout_dims(x, 0.1f, 1), 0.05f, 0);
  x = ronde_avg_pool2d(ronde_dropout(x, 0.25f), &pool);
  ronde_cut(x, 3, (int64_t[]){1, 2, 3}, pieces);
  x = ronde_concat(
      (const ronde_tensor *[]){ronde_silu(pieces[0]), ronde_gelu(pieces[2], true), ronde_hard_swish(pieces[1])}, 3);
  x = ronde_upsample2d(ronde_max_pool2d(x, &(ronde_pool2d_options){.kernel = {3, 3}, .stride = {1, 1}}), 2, 1);
  ronde_tensor *y = ronde_subtract(ronde_multiply(x, ronde_sigmoid(ronde_tanh(x))), ronde_clip(x, -0.5f, INFINITY));
  x = ronde_add(ronde_elu(y, 0.5f), ronde_hard_sigmoid(ronde_leaky_relu(x, 0.125f), 0.25f, 0.375f));
  x = ronde_softmax(ronde_layer_norm(x, "norm", &(ronde_layer_norm_options){.dims = 2}), 0);
  x = ronde_linear(ronde_flatten(ronde_adaptive_avg_pool2d(x, 1, 1)), "fc", 12, true);
  ronde_graph_share(graph, "tied");
  x = ronde_relu(ronde_linear(x, "tied", 12, true));
  return ronde_linear(ronde_linear(x, "tied", 12, true), "input", 5, false);
}

/* Dilation, padding of one side, sizes that are rounded up. */
static ronde_tensor *windows(ronde_graph *graph, ronde_tensor *x) {
  ronde_pool2d_options up = {.kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = true};
  ronde_pool2d_options pool = {.kernel = {2, 3}, .stride = {1, 1}, .padding_more = {1, 0}, .dilation = {2, 1}};
  x = ronde_conv2d(
      x, "conv1",
      &(ronde_conv2d_options){
          .out_channels = 6, .kernel = {3, 3}, .stride = {2, 1}, .padding_more = {1, 2}, .dilation = {1, 2}});
  x = ronde_max_pool2d(ronde_avg_pool2d(ronde_tanh(x), &pool), &up);
  up = (ronde_pool2d_options){.kernel = {1, 2}, .ceil_mode = true};
  return ronde_linear(ronde_flatten(ronde_avg_pool2d(x, &up)), "fc", 5, true);
}

/* Arithmetic, reductions, moves and products. */
static ronde_tensor *tensors(ronde_graph *graph, ronde_tensor *x) {
  static const float shift[] = {0.5f, -0.25f, 2, 1};
  ronde_tensor *pieces[2], *scale = ronde_parameter(graph, "gamma", 3, (int64_t[]){4, 1, 1}, shift, false);
  x = ronde_conv2d(x, "conv1", &(ronde_conv2d_options){.out_channels = 4, .kernel = {3, 3}});
  ronde_tensor *gate = ronde_sigmoid(ronde_reduce(x, RONDE_REDUCE_MAXIMUM, 2, (int[]){1, 2}, true));
  x = ronde_add(ronde_multiply(ronde_multiply(x, gate), scale),
                ronde_parameter(graph, "fixed", 3, (int64_t[]){4, 1, 1}, shift, true));
  x = ronde_pad(x, (int64_t[]){0, 1, -1}, (int64_t[]){1, 0, 2}, RONDE_PAD_REFLECT, 0);
  x = ronde_pad(x, (int64_t[]){0, 1, 0}, (int64_t[]){0, 0, 1}, RONDE_PAD_VALUE, 0.25f);
  x = ronde_slice(x, (int64_t[]){4, 0, 1}, (int64_t[]){-1, 2, 1}, (int64_t[]){5, 4, 8});
  x = ronde_reshape(ronde_transpose(x, (int[]){1, 0, 2}), 2, (int64_t[]){10, 16});
  x = ronde_gelu(ronde_linear(x, "steps", 6, true), false);
  x = ronde_matmul(ronde_softmax(ronde_matmul(x, x, false, true), -1), x, false, false);
  ronde_cut_along(ronde_add(x, ronde_parameter(graph, "position", 2, (int64_t[]){10, 6}, NULL, false)), 1, 2,
                  (int64_t[]){2, 4}, pieces);
  x = ronde_concat_along((const ronde_tensor *[]){pieces[1], ronde_function(pieces[0], RONDE_AFFINE, 2, 0.5f)}, 2, 1);
  x = ronde_divide(x, ronde_function(ronde_function(x, RONDE_ABS, 0, 0), RONDE_AFFINE, 1, 1));
  ronde_tensor *variance = ronde_reduce(ronde_function(x, RONDE_SQUARE, 0, 0), RONDE_REDUCE_MEAN, 1, (int[]){-1}, true);
  x = ronde_minimum(ronde_function(variance, RONDE_SQRT, 0, 0), ronde_function(x, RONDE_SELU, 1.5f, 1));
  return ronde_linear(ronde_reduce(x, RONDE_REDUCE_SUM, 1, (int[]){0}, false), "fc", 5, true);
}

/* Of images, of rows, of a vector; the last by as many groups as channels, which moves nothing. */
static ronde_tensor *shuffles(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_conv2d(x, "conv1", &(ronde_conv2d_options){.out_channels = 12, .kernel = {3, 3}});
  x = ronde_conv2d(ronde_channel_shuffle(ronde_channel_shuffle(x, 3), 2), "conv2",
                   &(ronde_conv2d_options){.out_channels = 12, .kernel = {3, 3}, .groups = 2});
  x = ronde_channel_shuffle(ronde_reshape(x, 2, (int64_t[]){12, 25}), 4);
  x = ronde_channel_shuffle(ronde_linear(ronde_flatten(ronde_tanh(x)), "fc1", 6, true), 2);
  x = ronde_channel_shuffle(ronde_reshape(x, 4, (int64_t[]){6, 1, 1, 1}), 6);
  return ronde_linear(ronde_flatten(x), "fc2", 5, true);
}

/* Normalisations by groups of channels, with weights and without. */
static ronde_tensor *groups(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_conv2d(x, "conv1", &(ronde_conv2d_options){.out_channels = 8, .kernel = {3, 3}});
  x = ronde_group_norm(x, "gn", &(ronde_group_norm_options){.groups = 2, .eps = 1e-3f});
  x = ronde_relu(ronde_instance_norm(x, "in", &(ronde_instance_norm_options){.affine = true}));
  x = ronde_group_norm(ronde_instance_norm(x, "plain", NULL), "gn2",
                       &(ronde_group_norm_options){.groups = 4, .no_affine = true});
  return ronde_linear(ronde_flatten(x), "fc", 5, true);
}

/* Images that become larger. */
static ronde_tensor *enlarging(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_conv2d(x, "conv1", &(ronde_conv2d_options){.out_channels = 6, .kernel = {3, 3}, .stride = {2, 2}});
  ronde_conv_transpose2d_options o = {.out_channels = 8,
                                      .kernel = {3, 4},
                                      .stride = {2, 2},
                                      .padding = {1, 1},
                                      .padding_more = {-1, 0},
                                      .output_padding = {0, 1},
                                      .groups = 2};
  x = ronde_relu(ronde_conv_transpose2d(x, "up1", &o));
  o = (ronde_conv_transpose2d_options){.out_channels = 3, .kernel = {2, 2}, .dilation = {2, 1}, .no_bias = true};
  ronde_resize2d_options to = {.size = {5, 11}, .linear = true, .coordinates = RONDE_RESIZE_ALIGN_CORNERS};
  x = ronde_resize2d(ronde_conv_transpose2d(x, "up2", &o), &to);
  to = (ronde_resize2d_options){.size = {7, 9}, .scale = {1.5f, 0.875f}, .rounding = RONDE_RESIZE_CEIL};
  return ronde_linear(ronde_flatten(ronde_resize2d(x, &to)), "fc", 5, true);
}

static ronde_tensor *recurrent(ronde_graph *graph, ronde_tensor *x) {
  ronde_tensor *hidden, *cell;
  ronde_tensor *all = ronde_lstm(x, "lstm1", &(ronde_recurrent_options){.hidden = 4}, &hidden, &cell);
  ronde_recurrent_options second = {.hidden = 4, .no_bias = true, .hidden_0 = hidden, .cell_0 = cell};
  ronde_lstm(all, "lstm2", &second, NULL, &cell);
  return ronde_linear(cell, "fc", 5, true);
}

/* Both directions, attention to what was before, and the other normalisation. */
static ronde_tensor *sequences(ronde_graph *graph, ronde_tensor *x) {
  const ronde_recurrent_options both = {.hidden = 4, .both_directions = true}, two = {.hidden = 3, .layers = 2};
  x = ronde_lstm(ronde_gru(x, "gru1", &both, NULL), "lstm1", &both, NULL, NULL);
  x = ronde_rms_norm(ronde_gru(x, "gru2", &two, NULL), "norm", 1e-4f);
  x = ronde_lstm(x, "lstm2", &(ronde_recurrent_options){.hidden = 4, .peepholes = true, .no_bias = true, .clip = 0.5f},
                 NULL, NULL);
  x = ronde_gru(x, "gru3", &(ronde_recurrent_options){.hidden = 3, .reset_first = true, .both_directions = true}, NULL);
  x = ronde_rnn(x, "rnn1", &(ronde_recurrent_options){.hidden = 5, .layers = 2}, NULL);
  x = ronde_rnn(x, "rnn2", &(ronde_recurrent_options){.hidden = 4, .both_directions = true, .relu = true}, NULL);
  const ronde_tensor *q = ronde_linear(x, "q", 8, true), *k = ronde_linear(x, "k", 8, true);
  const ronde_tensor *y = ronde_attention(q, k, k, &(ronde_attention_options){.heads = 2, .causal = true});
  y = ronde_attention(q, y, y, &(ronde_attention_options){.heads = 4});
  return ronde_linear(ronde_flatten(y), "fc", 5, true);
}

static ronde_tensor *additive(ronde_graph *graph, ronde_tensor *x) {
  const ronde_tensor *q = ronde_linear(x, "q", 6, true), *k = ronde_linear(x, "k", 6, true);
  const ronde_tensor *first = ronde_additive_attention(q, k, "plain", NULL);
  const ronde_tensor *second =
      ronde_additive_attention(q, k, "normalised", &(ronde_additive_attention_options){.normalised = true});
  return ronde_linear(ronde_flatten(ronde_matmul(ronde_add(first, second), x, false, false)), "fc", 5, true);
}

static onnx_subject subject_of_calls(ronde_tensor *(*define)(ronde_graph *, ronde_tensor *), int rank,
                                     const int64_t *dims) {
  ronde_graph *graph;
  assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
  ronde_graph_set_output(graph, define(graph, ronde_input(graph, "input", rank, dims)));
  onnx_subject s = finish(graph, true);
  assert_int_equal(ronde__net_init(s.net, 5), RONDE_OK);
  return s;
}

/* Loss and gradients of a batch, and the outputs without training. */
static void run(onnx_subject *s, const ronde__shape *shape, float *y, double *loss_out) {
  enum { N = 5 };
  static const int64_t labels[N] = {0, 4, 2, 1, 3};
  int64_t elems = ronde__shape_elems(shape);
  float *x = malloc((size_t)(N * elems) * sizeof *x);
  for (int64_t i = 0; i < N * elems; i++) x[i] = sinf((float)i);
  ronde__net_batch batch = {.n = N, .x = x, .labels = labels, .training = true, .seed = 3, .step = 1};
  ronde__net_result result;
  assert_int_equal(ronde__net_predict(s->net, N, x, y), RONDE_OK);
  assert_int_equal(ronde__net_forward(s->net, &batch, 1.0f / N, NULL, &result), RONDE_OK);
  assert_int_equal(ronde__net_backward(s->net, false, NULL), RONDE_OK);
  *loss_out = result.loss_sum;
  free(x);
}

static void check_same_nodes(const ronde_graph *a, const ronde_graph *b) {
  for (int i = 0; i < a->n_nodes && i < b->n_nodes; i++)
    if (a->nodes[i].kind != b->nodes[i].kind)
      fail_msg("node %d is %s, then %s", i, a->nodes[i].label, b->nodes[i].label);
  assert_int_equal(a->n_nodes, b->n_nodes);
  for (int i = 0; i < a->n_nodes; i++) assert_int_equal(a->nodes[i].kind, b->nodes[i].kind);
}

/* Parameters come back under their names. */
static void check_same_names(const ronde_graph *a, const ronde_graph *b) {
  assert_int_equal(a->n_params, b->n_params);
  for (int i = 0; i < a->n_params; i++) assert_string_equal(a->params[i].name, b->params[i].name);
}

/* The file's network is the same, with the same bits in a step; what is written of it is the same file. */
static void check_round_trip(ronde_tensor *(*define)(ronde_graph *, ronde_tensor *), int rank, const int64_t *dims) {
  char *path = ronde__format("%s/a.onnx", folder), *again = ronde__format("%s/b.onnx", folder);
  const ronde__file_meta meta[] = {{"resize", "9x9"}};
  ronde__onnx *file;
  onnx_subject s = subject_of_calls(define, rank, dims);
  assert_int_equal(ronde__onnx_write(s.net, path, meta, 1), RONDE_OK);
  assert_int_equal(ronde__onnx_open(path, &file), RONDE_OK);
  onnx_subject t = subject_of_file(file, true);
  float y[2][25];
  double loss[2];
  size_t n[2];
  run(&s, ronde__onnx_shape(file), y[0], &loss[0]);
  run(&t, ronde__onnx_shape(file), y[1], &loss[1]);
  check_same_nodes(s.graph, t.graph);
  check_same_names(s.graph, t.graph);
  assert_memory_equal(y[0], y[1], sizeof y[0]);
  assert_true(loss[0] == loss[1]);
  assert_int_equal(ronde__net_n_elems(s.net), ronde__net_n_elems(t.net));
  assert_memory_equal(ronde__net_gradients(s.net), ronde__net_gradients(t.net),
                      ronde__net_n_elems(s.net) * sizeof(float));
  onnx_subject u = subject_of_file(file, false);
  assert_int_equal(ronde__onnx_write(u.net, again, meta, 1), RONDE_OK);
  char *first = bytes_of(path, &n[0]), *second = bytes_of(again, &n[1]);
  assert_int_equal(n[0], n[1]);
  assert_memory_equal(first, second, n[0]);
  onnx_subject_destroy(&s);
  onnx_subject_destroy(&t);
  onnx_subject_destroy(&u);
  ronde__onnx_close(file);
  free(first);
  free(second);
  free(path);
  free(again);
}

static void test_out_and_back(void **state) {
  need_onnx();
  check_round_trip(everything, 3, (int64_t[]){3, 9, 9});
  check_round_trip(windows, 3, (int64_t[]){3, 9, 10});
  check_round_trip(tensors, 3, (int64_t[]){3, 9, 9});
  check_round_trip(groups, 3, (int64_t[]){3, 9, 9});
  check_round_trip(shuffles, 3, (int64_t[]){3, 9, 9});
  check_round_trip(enlarging, 3, (int64_t[]){3, 9, 9});
  check_round_trip(recurrent, 2, (int64_t[]){4, 3});
  check_round_trip(sequences, 2, (int64_t[]){4, 3});
  check_round_trip(additive, 2, (int64_t[]){4, 3});
}

/* From 5x5 to 2x2 pixels, some of them twice. */
static ronde_tensor *overlapping(ronde_graph *graph, ronde_tensor *x) {
  return ronde_linear(ronde_flatten(ronde_adaptive_avg_pool2d(x, 2, 2)), "fc", 3, true);
}

static void test_what_onnx_cannot_say(void **state) {
  need_onnx();
  char *path = ronde__format("%s/a.onnx", folder);
  onnx_subject s = subject_of_calls(overlapping, 3, (int64_t[]){1, 5, 5});
  check_failed(&lines, ronde__onnx_write(s.net, path, NULL, 0), RONDE_E_USAGE, "adaptive pooling from 5x5 to 2x2", "");
  assert_false(file_exists(folder, "a.onnx"));
  onnx_subject_destroy(&s);
  free(path);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(test_files_of_others),        TEST(test_products_with_a_sigmoid), TEST(test_bad_files),
      TEST(test_dimensions_of_one_name), TEST(test_data_behind_a_link),      TEST(test_out_and_back),
      TEST(test_what_onnx_cannot_say),   TEST(test_shuffles_of_channels),    TEST(test_dropouts_of_random_numbers),
  };
#undef TEST
  return cmocka_run_group_tests(tests, NULL, NULL);
}
