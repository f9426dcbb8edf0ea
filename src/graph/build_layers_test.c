/* Layers as they are recorded: shapes, parameters, FLOPs, and the message of every call that cannot be. */
#include "graph/build_testing.h"

static void kernel_larger_than_the_input(void **state) {
  ronde_tensor *x = conv(image(*state, 3, 8, 8), "conv1", 4, 5, 1, 0);
  check_refused(*state, conv(x, "conv2", 4, 7, 1, 1),
                "conv2: the 7x7 kernel is larger than its input: conv1 gives 4x4x4, with padding 1x1");
}

static void window_larger_than_the_input(void **state) {
  ronde_tensor *x = conv(image(*state, 3, 8, 8), "conv1", 4, 7, 1, 0);
  check_refused(*state, ronde_max_pool2d(x, &(ronde_pool2d_options){.kernel = {3, 3}}),
                "max_pool_2: the 3x3 window is larger than its input: conv1 gives 4x2x2");
}

/* Over its rows, as PyTorch's: a vector is what flatten gives. */
static void linear_on_an_image(void **state) {
  ronde_tensor *x = ronde_linear(conv(image(*state, 3, 8, 8), "conv1", 4, 7, 1, 0), "fc1", 10, true);
  int64_t dims[RONDE_MAX_RANK];
  assert_int_equal(ronde_tensor_dims(x, dims), 3);
  assert_int_equal(dims[0] * 10000 + dims[1] * 100 + dims[2], 40210);
}

static void convolution_on_a_vector(void **state) {
  ronde_tensor *x = ronde_linear(vector(*state, 5), "fc1", 3, true);
  check_refused(*state, conv(x, "conv1", 4, 3, 1, 0), "conv1: a convolution takes CxHxW, but fc1 gives 3");
}

static void groups_that_do_not_divide(void **state) {
  ronde_conv2d_options o = {.out_channels = 9, .kernel = {3, 3}, .groups = 3};
  check_refused(*state, ronde_conv2d(image(*state, 4, 8, 8), "conv1", &o),
                "conv1: 3 groups do not divide both its input, 4x8x8 of input, and its 9 output channels");
}

static void groups_that_do_not_divide_the_output(void **state) {
  ronde_conv2d_options o = {.out_channels = 10, .kernel = {3, 3}, .groups = 3};
  check_refused(*state, ronde_conv2d(image(*state, 6, 8, 8), "conv1", &o),
                "conv1: 3 groups do not divide both its input, 6x8x8 of input, and its 10 output channels");
}

static void a_negative_number_of_groups(void **state) {
  ronde_conv2d_options o = {.out_channels = 10, .kernel = {3, 3}, .groups = -1};
  check_refused(*state, ronde_conv2d(image(*state, 6, 8, 8), "conv1", &o),
                "conv1: -1 groups do not divide both its input, 6x8x8 of input, and its 10 output channels");
}

/* PyTorch's count: 2 x 12 x 8 x 8 outputs x 2 channels x 9 taps; weights [12][2][3][3] and 12 biases. */
static void groups_count_their_own_channels(void **state) {
  ronde_graph *graph = *state;
  ronde_conv2d_options o = {.out_channels = 12, .kernel = {3, 3}, .padding = {1, 1}, .groups = 3};
  assert_non_null(ronde_conv2d(image(graph, 6, 8, 8), "conv1", &o));
  assert_int_equal(ronde_graph_forward_flops(graph), 2 * 12 * 64 * 2 * 9);
  assert_int_equal(ronde_graph_parameters(graph), 12 * 2 * 9 + 12);
}

static void pooling_on_a_vector(void **state) {
  check_refused(*state, ronde_avg_pool2d(vector(*state, 5), &(ronde_pool2d_options){.kernel = {2, 2}}),
                "avg_pool_1: pooling takes CxHxW, but input gives 5");
}

static void constants_of_activations(void **state) {
  ronde_tensor *x = image(*state, 3, 8, 8);
  check_dims(ronde_clip(ronde_clip(ronde_elu(x, 1), -INFINITY, 0), 2, 2), 3, 3, 8, 8);
  check_refused(*state, ronde_clip(x, 6, 0), "pointwise_4: the lower bound 6 is not at most the upper bound 0");
}

static void constants_are_finite(void **state) {
  check_refused(*state, ronde_leaky_relu(vector(*state, 5), NAN), "pointwise_1: its constants must be finite");
}

static void upsampling(void **state) {
  ronde_tensor *x = image(*state, 3, 4, 5);
  check_dims(ronde_upsample2d(x, 2, 3), 3, 3, 8, 15);
  check_refused(*state, ronde_upsample2d(ronde_flatten(x), 2, 2),
                "upsample_3: upsampling takes CxHxW, but flatten_2 gives 60");
}

static void transposed_convolutions(void **state) {
  ronde_conv_transpose2d_options o = {.out_channels = 4, .kernel = {3, 3}, .stride = {2, 3}, .padding = {1, 0}};
  o.output_padding[0] = 1;
  ronde_tensor *x = image(*state, 6, 4, 5);
  check_dims(ronde_conv_transpose2d(x, "up1", &o), 3, 4, 8, 15);
  assert_int_equal(ronde_graph_parameters(*state), 6 * 4 * 9 + 4);
  o.output_padding[0] = 2;
  check_refused(*state, ronde_conv_transpose2d(x, "up2", &o),
                "up2: output_padding 2 must be from 0 to below stride or dilation, 2");
}

static void transposed_convolution_of_nothing(void **state) {
  check_refused(
      *state,
      ronde_conv_transpose2d(image(*state, 6, 1, 5), "up1",
                             &(ronde_conv_transpose2d_options){.out_channels = 4, .kernel = {2, 2}, .padding = {1, 0}}),
      "up1: input gives 6x1x5, of which a transposed convolution makes 0 pixels a column");
}

static void resizing(void **state) {
  ronde_tensor *x = image(*state, 3, 4, 5);
  check_dims(ronde_resize2d(x, &(ronde_resize2d_options){.size = {7, 2}}), 3, 3, 7, 2);
  check_refused(*state, ronde_resize2d(x, &(ronde_resize2d_options){.size = {7}}),
                "resize_2: input gives 3x4x5, which cannot be resized to 7x0");
}

static void resizing_by_a_negative_scale(void **state) {
  check_refused(*state,
                ronde_resize2d(image(*state, 3, 4, 5), &(ronde_resize2d_options){.size = {7, 2}, .scale = {-1}}),
                "resize_1: a scale must be above 0, not -1");
}

static void group_norms(void **state) {
  ronde_tensor *x = image(*state, 6, 4, 5), *y = ronde_group_norm(x, "gn", &(ronde_group_norm_options){.groups = 3});
  y = ronde_instance_norm(ronde_instance_norm(y, "plain", NULL), "in", &(ronde_instance_norm_options){.affine = true});
  check_dims(y, 3, 6, 4, 5);
  assert_int_equal(ronde_graph_parameters(*state), 4 * 6);
  check_refused(*state, ronde_group_norm(x, "gn4", &(ronde_group_norm_options){.groups = 4}),
                "gn4: 4 groups do not divide the channels of input, which gives 6x4x5");
}

static void channel_shuffles(void **state) {
  ronde_tensor *x = image(*state, 6, 4, 5);
  check_dims(ronde_channel_shuffle(ronde_channel_shuffle(x, 3), 6), 3, 6, 4, 5);
  check_refused(*state, ronde_channel_shuffle(x, 4),
                "channel_shuffle_3: 4 groups do not divide the channels of input, which gives 6x4x5");
}

static void channel_shuffle_by_no_groups(void **state) {
  check_refused(*state, ronde_channel_shuffle(image(*state, 6, 4, 5), 0),
                "channel_shuffle_1: 0 groups do not divide the channels of input, which gives 6x4x5");
}

static void group_norm_of_single_values(void **state) {
  check_refused(*state, ronde_instance_norm(ronde_adaptive_avg_pool2d(image(*state, 6, 4, 5), 1, 1), "in", NULL),
                "in: 6 groups of adaptive_avg_pool_1, which gives 6x1x1, have a single value each, and no variance");
}

static void upsampling_by_zero(void **state) {
  check_refused(*state, ronde_upsample2d(image(*state, 3, 4, 5), 2, 0),
                "upsample_1: the factors of height and width must be at least 1, not 2 and 0");
}

static void upsampling_by_too_much(void **state) {
  check_refused(*state, ronde_upsample2d(image(*state, 3, 4, 5), 1, 2147483647),
                "upsample_1: input gives 3x4x5, which is too large to be upsampled 2147483647 times");
}

static void sum_of_different_shapes(void **state) {
  ronde_tensor *x = image(*state, 3, 8, 8), *a = conv(x, "conv1", 4, 3, 1, 1), *b = conv(x, "conv2", 4, 3, 2, 1);
  check_refused(
      *state, ronde_add(a, b),
      "broadcast_sum_3: conv1 gives 4x8x8, but conv2 gives 4x4x4: dimensions must be equal, or 1 in one of them");
}

static void concat_of_different_sizes(void **state) {
  ronde_tensor *x = image(*state, 3, 8, 8), *a = conv(x, "conv1", 4, 3, 1, 1), *b = conv(x, "conv2", 4, 3, 2, 1);
  check_refused(*state, ronde_concat((const ronde_tensor *const[]){a, x, b}, 3),
                "concat_3: conv1 gives 4x8x8 and conv2 gives 4x4x4: they may differ only in dimension 0");
}

static void concat_of_an_image_and_a_vector(void **state) {
  ronde_tensor *x = image(*state, 3, 1, 1);
  check_refused(*state, ronde_concat((const ronde_tensor *const[]){x, ronde_flatten(x)}, 2),
                "concat_2: input gives 3x1x1 and flatten_1 gives 3: they may differ only in dimension 0");
}

static void concat_of_one(void **state) {
  ronde_tensor *x = image(*state, 3, 1, 1);
  check_refused(*state, ronde_concat((const ronde_tensor *const[]){x}, 1),
                "input: 2 to 4 tensors can be concatenated, not 1");
}

static void concat_of_five(void **state) {
  ronde_tensor *x = image(*state, 3, 1, 1);
  check_refused(*state, ronde_concat((const ronde_tensor *const[]){x, x, x, x, x}, 5),
                "input: 2 to 4 tensors can be concatenated, not 5");
}

static void cross_entropy_of_an_image(void **state) {
  ronde_tensor *x = conv(image(*state, 3, 8, 8), "conv1", 4, 3, 1, 1);
  check_refused(
      *state, ronde_cross_entropy(x, ronde_target(*state)),
      "cross_entropy_2: the cross entropy takes a vector of logits, or a sequence of these, but conv1 gives 4x8x8");
}

static void heads_that_do_not_divide_the_features(void **state) {
  const int64_t steps[] = {5};
  ronde_tensor *x = ronde_embedding(ronde_input_tokens(*state, "text", 1, steps, 30), "wte", 12, 0);
  check_refused(*state, ronde_self_attention(x, &(ronde_attention_options){.heads = 3}),
                "attention_2: 3 heads cannot share 4 features");
}

static void parameters_that_are_drawn_from_nothing(void **state) {
  const int64_t one[] = {5};
  vector(*state, 5);
  check_refused(*state, ronde_parameter_drawn(*state, "scale", 1, one, 0), "scale: its deviation must be above 0");
}

static void recurrent_layers_of_other_sizes(void **state) {
  static const int64_t sequence[] = {9, 4}, one[] = {5};
  ronde_tensor *x = ronde_input(*state, "x", 2, sequence);
  ronde_tensor *h = ronde_parameter(*state, "h", 1, one, NULL, false);
  ronde_recurrent_options o = {.hidden = 5, .layers = 2, .both_directions = true, .hidden_0 = h, .cell_0 = h};
  check_refused(*state, ronde_lstm(x, "rnn", &o, NULL, NULL),
                "rnn: its first states are 4x5, one row a layer and direction, but h has another shape");
}

static void a_gru_has_no_cells(void **state) {
  static const int64_t sequence[] = {9, 4}, one[] = {5};
  ronde_tensor *x = ronde_input(*state, "x", 2, sequence);
  ronde_tensor *h = ronde_parameter(*state, "h", 1, one, NULL, false);
  check_refused(*state, ronde_gru(x, "rnn", &(ronde_recurrent_options){.hidden = 5, .hidden_0 = h, .cell_0 = h}, NULL),
                "rnn: a GRU or an RNN has no cells: cell_0 is of an LSTM");
}

static void an_rnn_has_no_peepholes(void **state) {
  static const int64_t sequence[] = {9, 4};
  ronde_tensor *x = ronde_input(*state, "x", 2, sequence);
  check_refused(*state, ronde_rnn(x, "rnn", &(ronde_recurrent_options){.hidden = 5, .peepholes = true}, NULL),
                "rnn: peepholes are of an LSTM, reset_first is of a GRU, relu of an RNN");
}

static void lengths_of_an_lstm_of_other_sizes(void **state) {
  static const int64_t sequence[] = {9, 4}, two[] = {2};
  ronde_tensor *x = ronde_input(*state, "x", 2, sequence);
  ronde_recurrent_options o = {.hidden = 5, .lengths = ronde_parameter(*state, "lengths", 1, two, NULL, false)};
  check_refused(*state, ronde_lstm(x, "rnn", &o, NULL, NULL),
                "rnn: lengths are one number an example, but lengths gives 2");
}

static void a_ctc_loss_with_a_blank_beyond_its_classes(void **state) {
  static const int64_t sequence[] = {9, 4};
  ronde_tensor *x = ronde_input(*state, "x", 2, sequence);
  ronde_ctc_options o = {.labels = 3, .blank = 4};
  check_refused(*state, ronde_ctc_loss(x, ronde_target(*state), &o),
                "ctc_loss_1: blank is 4, but x gives the logits of 4 classes");
}

static void attention_of_other_sizes(void **state) {
  const int64_t steps[] = {5}, one[] = {4};
  ronde_tensor *x = ronde_embedding(ronde_input_tokens(*state, "text", 1, steps, 30), "wte", 12, 0);
  ronde_tensor *lengths = ronde_parameter(*state, "lengths", 1, one, NULL, false);
  check_refused(*state, ronde_attention(x, x, x, &(ronde_attention_options){.heads = 3, .lengths = lengths}),
                "attention_3: lengths are one number an example, but lengths gives 4");
}

static void additive_attention_of_other_sizes(void **state) {
  static const int64_t sequence[] = {9, 4}, narrow[] = {9, 3};
  ronde_tensor *x = ronde_input(*state, "x", 2, sequence);
  ronde_tensor *keys = ronde_parameter(*state, "keys", 2, narrow, NULL, false);
  check_refused(*state, ronde_additive_attention(x, keys, "attn", NULL),
                "attn: queries [T,U] and keys [S,U] are needed, but keys gives 9x3");
}

static void lengths_of_additive_attention_of_other_sizes(void **state) {
  static const int64_t sequence[] = {9, 4}, two[] = {2};
  ronde_tensor *x = ronde_input(*state, "x", 2, sequence);
  ronde_additive_attention_options o = {.lengths = ronde_parameter(*state, "lengths", 1, two, NULL, false)};
  check_refused(*state, ronde_additive_attention(x, x, "attn", &o),
                "attn: lengths are one number an example, but lengths gives 2");
}

static void location_attention_of_other_sizes(void **state) {
  static const int64_t sequence[] = {9, 4}, rows[] = {8, 3};
  ronde_tensor *x = ronde_input(*state, "x", 2, sequence);
  const ronde_location_attention_options o = {.hidden = 3, .width = 2, .filters = 1, .kernel = 3};
  ronde_tensor *memory = ronde_reshape(ronde_parameter(*state, "rows", 2, rows, NULL, false), 3, (int64_t[]){2, 4, 3});
  check_refused(*state, ronde_location_attention(x, memory, "decoder", &o, NULL, NULL),
                "decoder: a sequence [T,P], a memory [S,E] and keys [S,A] are needed, but reshape_2 gives 2x4x3");
}

static void location_attention_of_no_size(void **state) {
  static const int64_t sequence[] = {9, 4};
  ronde_tensor *x = ronde_input(*state, "x", 2, sequence);
  ronde_location_attention_options o = {.hidden = 3, .width = 2, .filters = 1, .kernel = 4};
  check_refused(*state, ronde_location_attention(x, x, "decoder", &o, NULL, NULL),
                "decoder: hidden and filters must be positive, and the kernel odd");
}

static void lengths_of_location_attention_of_other_sizes(void **state) {
  static const int64_t sequence[] = {9, 4}, two[] = {2};
  ronde_tensor *x = ronde_input(*state, "x", 2, sequence);
  ronde_location_attention_options o = {.hidden = 3, .width = 2, .filters = 1, .kernel = 3};
  o.lengths = ronde_parameter(*state, "lengths", 1, two, NULL, false);
  check_refused(*state, ronde_location_attention(x, x, "decoder", &o, NULL, NULL),
                "decoder: lengths are one number an example, but lengths gives 2");
}

static void errors_between_other_shapes(void **state) {
  static const int64_t sequence[] = {9, 4}, narrow[] = {9, 3};
  ronde_tensor *x = ronde_input(*state, "x", 2, sequence);
  check_refused(*state, ronde_squared_error(x, ronde_parameter(*state, "y", 2, narrow, NULL, false), NULL),
                "squared_error_2: x gives 9x4, but y gives 9x3");
}

static void lengths_of_errors_of_other_sizes(void **state) {
  static const int64_t sequence[] = {9, 4};
  ronde_tensor *x = ronde_input(*state, "x", 2, sequence);
  check_refused(*state, ronde_bce_error(x, x, x), "bce_error_1: lengths are one number an example, but x gives 9x4");
}

static void a_mean_of_several_values(void **state) {
  static const int64_t sequence[] = {9, 4};
  check_refused(*state, ronde_mean_loss(ronde_input(*state, "x", 2, sequence)),
                "mean_loss_1: a loss is one number an example, but x gives 9x4");
}

static void a_cell_of_two_layers(void **state) {
  static const int64_t sequence[] = {9, 4};
  const ronde_recurrent_options o = {.hidden = 3, .layers = 2, .of_cell = true};
  check_refused(*state, ronde_lstm(ronde_input(*state, "x", 2, sequence), "lstm", &o, NULL, NULL),
                "lstm: a cell is one layer in one direction");
}

static void windows_that_make_no_sense(void **state) {
  static const ronde_pool2d_options options[] = {
      {.kernel = {0, 2}},
      {.kernel = {2, 2}, .stride = {-1, 1}},
      {.kernel = {2, 2}, .padding = {2, 0}},
      {.kernel = {2, 2}, .padding = {0, -1}},
      {.kernel = {2, 2}, .padding_more = {-1, 0}},
      {.kernel = {2, 2}, .dilation = {1, -2}},
      {.kernel = {2, 2}, .dilation = {8, 1}},
      {.kernel = {3, 3}, .dilation = {1 << 30, 1}},
  };
  static const char bad[] = "max_pool_1: kernel, stride and dilation must be positive and padding not negative";
  static const char *const wanted[] = {
      bad,
      bad,
      "max_pool_1: a window of 2x2 meets nothing but padding: input gives 3x8x8",
      bad,
      bad,
      bad,
      "max_pool_1: the 2x2 window is larger than its input: input gives 3x8x8",
      "max_pool_1: a window, its padding or its input is larger than 268435456",
  };
  for (size_t i = 0; i < RONDE__COUNT(options); i++) {
    ronde_graph *graph;
    assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
    n_logged = 0;
    check_refused(graph, ronde_max_pool2d(image(graph, 3, 8, 8), &options[i]), wanted[i]);
    ronde_graph_destroy(graph);
  }
}

/* Padding that no window reaches is not there; what an average counts stays. */
static void windows_are_plain_where_they_can_be(void **state) {
  ronde_graph *graph = *state;
  ronde_pool2d_options pool = {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .padding_more = {-1, -1}};
  ronde_conv2d_options conv = {.out_channels = 4, .kernel = {3, 3}, .stride = {2, 2}, .padding_more = {1, 1}};
  const ronde_tensor *x = image(graph, 3, 7, 7);
  ronde_conv2d(x, "conv1", &conv);
  conv.kernel[0] = 2;
  ronde_conv2d(x, "conv2", &conv);
  ronde_max_pool2d(x, &pool);
  pool.ceil_mode = true;
  ronde_max_pool2d(x, &pool);
  ronde_avg_pool2d(x, &pool);
  static const bool plain[] = {true, false, false, true, false};
  assert_int_equal(graph->n_nodes, RONDE__COUNT(plain));
  for (int i = 0; i < graph->n_nodes; i++) {
    const ronde__op_attr *a = &graph->nodes[i].attr;
    assert_int_equal(!a->padding_more[0] && !a->padding_more[1] && !a->ceil_mode, plain[i]);
  }
}

static void window_with_too_many_places(void **state) {
  check_refused(*state, ronde_max_pool2d(image(*state, 3, 32, 32), &(ronde_pool2d_options){.kernel = {17, 16}}),
                "max_pool_1: a window of 17x16 has more than 256 positions, the most that are supported");
}

static void convolution_that_makes_no_sense(void **state) {
  check_refused(*state, conv(image(*state, 3, 8, 8), "conv1", 0, 3, 1, 0), "conv1: out_channels must be positive");
}

static void linear_without_outputs(void **state) {
  check_refused(*state, ronde_linear(vector(*state, 5), "fc1", 0, true), "fc1: out_features must be positive");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(kernel_larger_than_the_input),
      TEST(window_larger_than_the_input),
      TEST(linear_on_an_image),
      TEST(convolution_on_a_vector),
      TEST(groups_that_do_not_divide),
      TEST(groups_that_do_not_divide_the_output),
      TEST(a_negative_number_of_groups),
      TEST(groups_count_their_own_channels),
      TEST(pooling_on_a_vector),
      TEST(constants_of_activations),
      TEST(constants_are_finite),
      TEST(upsampling),
      TEST(transposed_convolutions),
      TEST(transposed_convolution_of_nothing),
      TEST(resizing),
      TEST(resizing_by_a_negative_scale),
      TEST(group_norms),
      TEST(channel_shuffles),
      TEST(channel_shuffle_by_no_groups),
      TEST(group_norm_of_single_values),
      TEST(upsampling_by_zero),
      TEST(upsampling_by_too_much),
      TEST(sum_of_different_shapes),
      TEST(concat_of_different_sizes),
      TEST(concat_of_an_image_and_a_vector),
      TEST(concat_of_one),
      TEST(concat_of_five),
      TEST(cross_entropy_of_an_image),
      TEST(heads_that_do_not_divide_the_features),
      TEST(attention_of_other_sizes),
      TEST(additive_attention_of_other_sizes),
      TEST(lengths_of_additive_attention_of_other_sizes),
      TEST(location_attention_of_other_sizes),
      TEST(location_attention_of_no_size),
      TEST(lengths_of_location_attention_of_other_sizes),
      TEST(errors_between_other_shapes),
      TEST(lengths_of_errors_of_other_sizes),
      TEST(a_mean_of_several_values),
      TEST(a_cell_of_two_layers),
      TEST(parameters_that_are_drawn_from_nothing),
      TEST(recurrent_layers_of_other_sizes),
      TEST(a_gru_has_no_cells),
      TEST(an_rnn_has_no_peepholes),
      TEST(lengths_of_an_lstm_of_other_sizes),
      TEST(a_ctc_loss_with_a_blank_beyond_its_classes),
      TEST(windows_that_make_no_sense),
      TEST(windows_are_plain_where_they_can_be),
      TEST(window_with_too_many_places),
      TEST(convolution_that_makes_no_sense),
      TEST(linear_without_outputs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
