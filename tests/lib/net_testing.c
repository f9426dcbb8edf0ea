/* Small networks, batches for them, and an interpreter of graphs by the naive references. */
#include "graph/net_testing.h"

#include "lib/window.h"

ronde_tensor *conv(const ronde_tensor *x, const char *name, int64_t out, int kernel, int stride, int padding) {
  return ronde_conv2d(
      x, name,
      &(ronde_conv2d_options){
          .out_channels = out, .kernel = {kernel, kernel}, .stride = {stride, stride}, .padding = {padding, padding}});
}

ronde_tensor *max_pool(const ronde_tensor *x, int kernel, int padding) {
  return ronde_max_pool2d(
      x, &(ronde_pool2d_options){.kernel = {kernel, kernel}, .stride = {2, 2}, .padding = {padding, padding}});
}

ronde_tensor *avg_pool(const ronde_tensor *x, int kernel) {
  return ronde_avg_pool2d(x, &(ronde_pool2d_options){.kernel = {kernel, kernel}});
}

void classify(ronde_graph *graph, const ronde_tensor *x, const char *name) {
  ronde_graph_set_output(graph, ronde_linear(ronde_flatten(x), name, 5, true));
}

void build_mlp(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_tanh(ronde_linear(x, "fc1", 67, true));
  x = ronde_sigmoid(ronde_linear(x, "fc2", 20, false));
  ronde_graph_set_output(graph, ronde_linear(x, "fc3", 5, true));
}

static void build_regression(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_linear(ronde_sigmoid(ronde_linear(x, "fc1", 12, true)), "fc2", 3, true);
  ronde_graph_set_output(graph, x);
  ronde_graph_set_loss(graph, ronde_mse_loss(x, ronde_target(graph)));
}

static void build_image_regression(ronde_graph *graph, ronde_tensor *x) {
  x = conv(ronde_tanh(conv(x, "conv1", 20, 3, 1, 1)), "conv2", 3, 3, 1, 1);
  ronde_graph_set_output(graph, x);
  ronde_graph_set_loss(graph, ronde_mse_loss(x, ronde_target(graph)));
}

static void build_flattened_regression(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_flatten(conv(x, "conv1", 20, 3, 1, 1));
  ronde_graph_set_output(graph, x);
  ronde_graph_set_loss(graph, ronde_mse_loss(x, ronde_target(graph)));
}

void build_lenet(ronde_graph *graph, ronde_tensor *x) {
  x = avg_pool(ronde_tanh(conv(x, "conv1", 6, 5, 1, 2)), 2);
  x = avg_pool(ronde_tanh(conv(x, "conv2", 16, 3, 1, 0)), 2);
  x = ronde_tanh(ronde_linear(ronde_flatten(x), "fc1", 30, true));
  ronde_graph_set_output(graph, ronde_linear(x, "fc2", 5, true));
}

static void build_first_layer(ronde_graph *graph, ronde_tensor *x) {
  x = max_pool(ronde_relu(conv(x, "conv1", 40, 3, 1, 1)), 2, 0);
  x = max_pool(ronde_relu(conv(x, "conv2", 67, 3, 1, 1)), 3, 1);
  classify(graph, x, "fc1");
}

static void build_residual(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_relu(conv(x, "conv1", 20, 3, 1, 1));
  ronde_tensor *f = conv(ronde_tanh(conv(x, "conv2", 67, 3, 1, 1)), "conv3", 20, 3, 1, 1);
  x = ronde_relu(ronde_add(x, f));
  ronde_tensor *shortcut = conv(x, "conv4", 10, 1, 2, 0);
  x = ronde_add(conv(ronde_sigmoid(conv(x, "conv5", 33, 3, 2, 1)), "conv6", 10, 3, 1, 1), shortcut);
  classify(graph, x, "fc1");
}

static void build_doubled(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_tanh(conv(x, "conv1", 10, 3, 1, 1));
  x = ronde_add(x, x);
  x = ronde_add(x, x);
  classify(graph, x, "fc1");
}

void build_dead_branch(ronde_graph *graph, ronde_tensor *x) {
  ronde_tensor *trunk = ronde_tanh(conv(x, "conv1", 10, 3, 1, 1));
  ronde_tensor *dead = conv(trunk, "dead1", 40, 3, 1, 1);
  ronde_linear(ronde_flatten(ronde_relu(dead)), "dead2", 3, true);
  classify(graph, trunk, "fc1");
}

void build_dead_taps(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_tanh(conv(ronde_tanh(conv(x, "conv1", 40, 3, 2, 1)), "conv2", 67, 3, 2, 1));
  classify(graph, ronde_tanh(conv(x, "conv3", 33, 3, 1, 1)), "fc1");
}

/* conv2 reads x as LANES, conv3 as BLOCKS, the pooling what is there; all add to one gradient. */
static void build_two_layouts(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_tanh(conv(x, "conv1", 8, 3, 1, 1));
  ronde_tensor *few = conv(x, "conv2", 6, 3, 2, 1), *many = conv(conv(x, "conv3", 40, 3, 2, 1), "conv4", 6, 1, 1, 0);
  ronde_tensor *more = conv(max_pool(x, 2, 0), "conv5", 6, 1, 1, 0),
               *again = conv(conv(x, "conv6", 35, 1, 2, 0), "conv7", 6, 1, 1, 0);
  classify(graph, ronde_add(ronde_add(few, many), ronde_add(again, more)), "fc1");
}

/* The values before the activation are read again, so it cannot be fused; nor where they are the output. */
static void build_shared_before_activation(ronde_graph *graph, ronde_tensor *x) {
  ronde_tensor *z = conv(x, "conv1", 10, 3, 1, 1);
  x = ronde_add(ronde_add(ronde_sigmoid(z), ronde_tanh(z)), z);
  z = conv(x, "conv2", 35, 3, 1, 1);
  x = ronde_add(max_pool(ronde_relu(z), 2, 0), avg_pool(z, 2));
  classify(graph, x, "fc1");
}

static void build_output_before_activation(ronde_graph *graph, ronde_tensor *x) {
  ronde_tensor *z = ronde_linear(x, "fc1", 4, true);
  ronde_graph_set_output(graph, z);
  ronde_graph_set_loss(graph, ronde_mse_loss(ronde_sigmoid(z), ronde_target(graph)));
}

static void build_stacked_activations(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_relu(ronde_tanh(ronde_sigmoid(ronde_linear(x, "fc1", 20, true))));
  ronde_graph_set_output(graph, ronde_linear(x, "fc2", 5, true));
}

/* What a function reads in backward is read by others, too, or by it alone; few and many channels; some of 0 are not 0. */
static void build_pointwise(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_upsample2d(ronde_gelu(conv(x, "conv1", 20, 3, 1, 1), false), 2, 1);
  ronde_tensor *y = conv(ronde_elu(ronde_silu(x), 0.5f), "conv2", 20, 1, 1, 0);
  y = ronde_multiply(ronde_hard_sigmoid(y, 0.2f, 0.5f), ronde_add(ronde_hard_swish(y), x));
  y = ronde_gelu(conv(ronde_upsample2d(ronde_leaky_relu(y, 0.1f), 1, 2), "conv3", 6, 3, 2, 1), true);
  classify(graph, ronde_clip(y, -0.5f, 1), "fc1");
}

static void build_flatten_lanes(ronde_graph *graph, ronde_tensor *x) {
  classify(graph, ronde_tanh(conv(x, "conv1", 3, 3, 1, 1)), "fc1");
}

static void build_flatten_blocks(ronde_graph *graph, ronde_tensor *x) {
  classify(graph, ronde_tanh(conv(x, "conv1", 67, 3, 2, 1)), "fc1");
}

static void build_flatten_input(ronde_graph *graph, ronde_tensor *x) { classify(graph, x, "fc1"); }

/* The sum of a flattened image and a vector: two splits of the same features; and the other way round. */
static void build_mixed_sum(ronde_graph *graph, ronde_tensor *x) {
  ronde_tensor *image = ronde_flatten(ronde_tanh(conv(x, "conv1", 20, 3, 2, 1))),
               *v = ronde_linear(ronde_flatten(x), "fc1", 180, true);
  ronde_tensor *sum = ronde_tanh(ronde_add(image, v)), *other = ronde_tanh(ronde_add(v, image));
  ronde_graph_set_output(graph, ronde_add(ronde_linear(sum, "fc2", 5, true), ronde_linear(other, "fc3", 5, true)));
}

/* The network's input is read by layers of both kinds, by an activation, and by a sum. */
static void build_busy_input(ronde_graph *graph, ronde_tensor *x) {
  ronde_tensor *a = conv(x, "conv1", 3, 3, 1, 1), *b = conv(conv(x, "conv2", 40, 3, 1, 1), "conv3", 3, 1, 1, 0);
  x = ronde_add(x, ronde_add(ronde_tanh(x), ronde_add(a, b)));
  classify(graph, x, "fc1");
}

void build_two_heads(ronde_graph *graph, ronde_tensor *x) {
  ronde_tensor *trunk = ronde_tanh(ronde_linear(x, "fc1", 20, true));
  ronde_tensor *a = ronde_linear(trunk, "fc2", 5, true), *b = ronde_linear(trunk, "fc3", 7, true);
  ronde_mse_loss(a, ronde_target(graph));
  ronde_graph_set_output(graph, a);
  ronde_graph_set_loss(graph, ronde_mse_loss(b, ronde_target(graph)));
}

/* Branches of an inception block come as LANES and as BLOCKS; one tensor twice; vectors, one of them a flattened image. */
static void build_concat(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_tanh(conv(x, "conv1", 10, 3, 1, 1));
  ronde_tensor *few = conv(x, "conv2", 6, 1, 1, 0), *many = conv(conv(x, "conv3", 35, 1, 1, 0), "conv4", 70, 3, 1, 1);
  x = ronde_concat((const ronde_tensor *const[]){few, ronde_relu(many), x, few}, 4);
  x = avg_pool(conv(x, "conv5", 20, 1, 1, 0), 2);
  ronde_tensor *y = ronde_flatten(x), *z = ronde_linear(y, "fc1", 7, true);
  ronde_graph_set_output(graph, ronde_linear(ronde_concat((const ronde_tensor *const[]){z, y}, 2), "fc2", 5, true));
}

static ronde_tensor *grouped(const ronde_tensor *x, const char *name, int64_t out, int kernel, int groups) {
  return ronde_conv2d(
      x, name,
      &(ronde_conv2d_options){
          .out_channels = out, .kernel = {kernel, kernel}, .padding = {kernel / 2, kernel / 2}, .groups = groups});
}

/* Depthwise separable, then in groups, then in as many groups as channels but with more channels behind them. */
static void build_groups(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_tanh(grouped(conv(x, "conv1", 36, 3, 1, 1), "conv2", 36, 3, 36));
  x = ronde_sigmoid(grouped(ronde_tanh(conv(x, "conv3", 12, 1, 1, 0)), "conv4", 18, 3, 6));
  classify(graph, ronde_tanh(grouped(x, "conv5", 36, 1, 18)), "fc1");
}

/* One layer three times, of which the first reads the network's input. */
static void build_shared(ronde_graph *graph, ronde_tensor *x) {
  ronde_graph_share(graph, "fc1");
  for (int i = 0; i < 3; i++) x = ronde_tanh(ronde_linear(x, "fc1", 20, true));
  ronde_graph_set_output(graph, ronde_linear(x, "fc2", 5, true));
}

static void build_shared_few(ronde_graph *graph, ronde_tensor *x) {
  ronde_graph_share(graph, "conv1");
  for (int i = 0; i < 3; i++) x = ronde_tanh(conv(x, "conv1", 3, 3, 1, 1));
  classify(graph, x, "fc1");
}

static void build_shared_many(ronde_graph *graph, ronde_tensor *x) {
  ronde_graph_share(graph, "conv1");
  x = conv(ronde_tanh(conv(x, "conv1", 36, 3, 1, 1)), "conv1", 36, 3, 1, 1);
  classify(graph, ronde_add(x, ronde_tanh(conv(x, "conv1", 36, 3, 1, 1))), "fc1");
}

/* Several outputs, of which one is read twice, one by nobody, and one is the network's output alone. */
static void build_split(ronde_graph *graph, ronde_tensor *x) {
  ronde_tensor *p[3], *q[2];
  ronde_cut(ronde_tanh(conv(x, "conv1", 54, 3, 1, 1)), 3, (int64_t[]){20, 14, 20}, p);
  x = ronde_multiply(p[0], ronde_subtract(p[2], ronde_sigmoid(p[0])));
  ronde_cut(ronde_linear(ronde_flatten(x), "fc1", 8, true), 2, (int64_t[]){5, 3}, q);
  ronde_graph_set_output(graph, q[1]);
  ronde_graph_set_loss(graph, ronde_cross_entropy(q[0], ronde_target(graph)));
}

/* In LANES, in BLOCKS with padded channels, of a vector; of what is read again. */
static void build_shuffled(ronde_graph *graph, ronde_tensor *x) {
  ronde_tensor *p[2];
  x = ronde_channel_shuffle(ronde_tanh(conv(x, "conv1", 6, 3, 1, 1)), 3);
  ronde_cut(ronde_add(ronde_channel_shuffle(conv(x, "conv2", 70, 3, 1, 1), 2), conv(x, "conv3", 70, 1, 1, 0)), 2,
            (int64_t[]){35, 35}, p);
  x = ronde_concat((const ronde_tensor *const[]){p[0], ronde_tanh(conv(p[1], "conv4", 35, 3, 1, 1))}, 2);
  x = ronde_linear(ronde_flatten(ronde_channel_shuffle(x, 2)), "fc1", 12, true);
  ronde_graph_set_output(graph, ronde_linear(ronde_channel_shuffle(ronde_tanh(x), 4), "fc2", 5, true));
}

/* In LANES, in BLOCKS with padded channels, in ROWS; with weights and without; what it reads is read again. */
static void build_group_norms(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_group_norm(conv(x, "conv1", 6, 3, 1, 1), "gn1", &(ronde_group_norm_options){.groups = 2});
  ronde_tensor *y = ronde_instance_norm(conv(ronde_relu(x), "conv2", 36, 3, 1, 1), "in1",
                                        &(ronde_instance_norm_options){.affine = true});
  y = ronde_group_norm(conv(ronde_tanh(ronde_add(y, conv(x, "conv3", 36, 1, 1, 0))), "conv4", 20, 3, 2, 1), "gn2",
                       &(ronde_group_norm_options){.groups = 5, .no_affine = true});
  y = ronde_group_norm(ronde_linear(ronde_flatten(y), "fc1", 12, true), "gn3",
                       &(ronde_group_norm_options){.groups = 1, .eps = 1e-3f});
  ronde_graph_set_output(graph, ronde_linear(ronde_tanh(y), "fc2", 5, true));
}

/* A decoder: the transposed convolution's input is read by itself too, and its output by a shortcut. */
static void build_transposed(ronde_graph *graph, ronde_tensor *x) {
  ronde_conv_transpose2d_options o = {
      .out_channels = 20, .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .output_padding = {0, 1}};
  ronde_tensor *few = ronde_tanh(conv(x, "conv1", 6, 3, 2, 1)), *many = conv(few, "conv2", 36, 1, 1, 0);
  x = ronde_add(ronde_conv_transpose2d(many, "up1", &o), conv(x, "conv3", 20, 1, 1, 0));
  o = (ronde_conv_transpose2d_options){.out_channels = 3, .kernel = {2, 2}, .stride = {2, 2}, .no_bias = true};
  x = ronde_concat(
      (const ronde_tensor *const[]){ronde_tanh(ronde_conv_transpose2d(few, "up2", &o)),
                                    ronde_conv_transpose2d(conv(ronde_tanh(x), "conv4", 6, 3, 2, 1), "up3", &o)},
      2);
  x = ronde_resize2d(x, &(ronde_resize2d_options){.size = {4, 9}, .linear = true});
  classify(graph, x, "fc1");
}

/* One is read first and again at the end, one at the end alone, one by nobody. */
static void build_several_inputs(ronde_graph *graph, ronde_tensor *x) {
  ronde_tensor *vector = ronde_input(graph, "vector", 1, (int64_t[]){7});
  ronde_input(graph, "unread", 2, (int64_t[]){2, 3});
  ronde_tensor *late = ronde_input(graph, "late", 1, (int64_t[]){20});
  ronde_tensor *y = ronde_flatten(max_pool(ronde_relu(conv(x, "conv1", 20, 3, 1, 1)), 2, 0));
  y = ronde_tanh(ronde_add(ronde_linear(y, "fc1", 20, true), ronde_linear(vector, "fc2", 20, true)));
  y = ronde_add(ronde_multiply(ronde_linear(y, "fc3", 20, true), late), ronde_linear(vector, "fc4", 20, false));
  classify(graph, y, "fc5");
}

const network networks[] = {
    {"mlp", 10, 0, 0, build_mlp},
    {"regression", 5, 0, 0, build_regression},
    {"image_regression", 3, 5, 4, build_image_regression},
    {"flattened_regression", 3, 5, 4, build_flattened_regression},
    {"lenet", 1, 14, 14, build_lenet},
    {"first_layer", 3, 9, 8, build_first_layer},
    {"residual", 3, 6, 6, build_residual},
    {"doubled", 3, 5, 5, build_doubled},
    {"concat", 3, 5, 6, build_concat},
    {"groups", 3, 5, 6, build_groups},
    {"dead_branch", 3, 5, 5, build_dead_branch},
    {"dead_taps", 3, 4, 4, build_dead_taps},
    {"two_layouts", 3, 6, 6, build_two_layouts},
    {"shared_before_activation", 3, 6, 6, build_shared_before_activation},
    {"output_before_activation", 6, 0, 0, build_output_before_activation},
    {"stacked_activations", 6, 0, 0, build_stacked_activations},
    {"pointwise", 3, 5, 4, build_pointwise},
    {"flatten_lanes", 2, 5, 5, build_flatten_lanes},
    {"flatten_blocks", 3, 5, 5, build_flatten_blocks},
    {"flatten_input", 3, 5, 5, build_flatten_input},
    {"mixed_sum", 3, 5, 5, build_mixed_sum},
    {"busy_input", 3, 4, 4, build_busy_input},
    {"split", 3, 5, 4, build_split},
    {"shuffled", 3, 5, 4, build_shuffled},
    {"group_norms", 3, 5, 4, build_group_norms},
    {"transposed", 3, 5, 6, build_transposed},
    {"shared", 20, 0, 0, build_shared},
    {"shared_few", 3, 5, 4, build_shared_few},
    {"shared_many", 36, 4, 4, build_shared_many},
    {"two_heads", 6, 0, 0, build_two_heads},
    {"several_inputs", 3, 5, 4, build_several_inputs},
};

static ronde_tensor *norm(const ronde_tensor *x, const char *name) { return ronde_batch_norm2d(x, name, NULL); }

void build_norm_block(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_tanh(conv(x, "conv1", 20, 3, 1, 1));
  ronde_tensor *y = ronde_relu(norm(conv(x, "conv2", 33, 3, 1, 1), "bn2"));
  classify(graph, ronde_relu(ronde_add(norm(conv(y, "conv3", 20, 3, 1, 1), "bn3"), x)), "fc1");
}

void build_norm_downsample(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_tanh(conv(x, "conv1", 20, 3, 1, 1));
  ronde_tensor *shortcut = norm(conv(x, "conv2", 40, 1, 2, 0), "bn2");
  x = norm(conv(ronde_tanh(conv(x, "conv3", 10, 3, 2, 1)), "conv4", 40, 3, 1, 1), "bn4");
  classify(graph, ronde_relu(ronde_add(x, shortcut)), "fc1");
}

void build_norm_before_shortcut(ronde_graph *graph, ronde_tensor *x) {
  ronde_tensor *y = norm(conv(x, "conv1", 20, 3, 1, 1), "bn1");
  x = ronde_add(ronde_tanh(conv(x, "conv2", 20, 3, 1, 1)), y);
  y = norm(conv(x, "conv3", 20, 3, 1, 1), "bn3");
  classify(graph, ronde_relu(ronde_add(y, conv(x, "conv4", 20, 3, 1, 1))), "fc1");
}

void build_norm_busy_shortcut(ronde_graph *graph, ronde_tensor *x) {
  ronde_tensor *s = ronde_tanh(conv(ronde_add(norm(conv(x, "conv1", 3, 3, 1, 1), "bn1"), x), "conv2", 20, 3, 1, 1));
  ronde_tensor *z = ronde_add(norm(conv(s, "conv3", 20, 3, 1, 1), "bn3"), s);
  ronde_tensor *y = ronde_add(ronde_relu(z), ronde_sigmoid(z));
  classify(graph, ronde_add(norm(conv(y, "conv4", 20, 1, 1, 0), "bn4"), ronde_add(y, s)), "fc1");
}

void build_norm_output(ronde_graph *graph, ronde_tensor *x) {
  ronde_tensor *y = conv(x, "conv1", 20, 3, 1, 1);
  x = ronde_add(norm(y, "bn1"), ronde_tanh(y));
  ronde_graph_set_output(graph, x);
  ronde_graph_set_loss(graph, ronde_mse_loss(ronde_relu(x), ronde_target(graph)));
}

void build_norm_apart(ronde_graph *graph, ronde_tensor *x) {
  x = conv(x, "conv1", 20, 3, 1, 1);
  x = ronde_relu(ronde_add(norm(x, "bn1"), x));
  ronde_tensor *y = norm(conv(x, "conv2", 20, 3, 1, 1), "bn2");
  y = norm(conv(ronde_add(ronde_add(y, y), ronde_add(x, y)), "conv3", 20, 3, 1, 1), "bn3");
  ronde_graph_set_output(graph, y);
  ronde_graph_set_loss(graph, ronde_mse_loss(ronde_add(y, x), ronde_target(graph)));
}

/* Functions of which 0 is 0 behind a normalisation, and one of which it is not; then one whose input is read again. */
void build_norm_function(ronde_graph *graph, ronde_tensor *x) {
  x = ronde_silu(norm(conv(x, "conv1", 20, 3, 1, 1), "bn1"));
  x = ronde_gelu(norm(conv(x, "conv2", 20, 3, 1, 1), "bn2"), false);
  x = ronde_hard_sigmoid(norm(conv(x, "conv3", 20, 3, 1, 1), "bn3"), 0.2f, 0.5f);
  x = norm(conv(x, "conv4", 20, 3, 1, 1), "bn4");
  x = ronde_add(x, ronde_silu(x));
  ronde_graph_set_output(graph, x);
  ronde_graph_set_loss(graph, ronde_mse_loss(ronde_silu(x), ronde_target(graph)));
}

/* What the first LSTM ends with is what the second begins with; the first one's state is also read by itself. */
static void build_lstm(ronde_graph *graph, ronde_tensor *x) {
  ronde_tensor *h, *c, *last;
  ronde_tensor *y = ronde_lstm(x, "lstm1", &(ronde_recurrent_options){.hidden = 10}, &h, &c);
  ronde_layer_norm_options over_features = {.dims = 1};
  ronde_recurrent_options second = {.hidden = 10, .hidden_0 = h, .cell_0 = c};
  y = ronde_lstm(ronde_layer_norm(y, "ln1", &over_features), "lstm2", &second, &last, NULL);
  y = ronde_linear(ronde_flatten(ronde_multiply(y, ronde_softmax(y, 0))), "fc1", 7, true);
  const ronde_tensor *const all[] = {y, last, h};
  ronde_graph_set_output(graph, ronde_linear(ronde_concat(all, 3), "fc2", 5, true));
}

/* Two layers in both directions, and what they end with; a GRU that goes on from there; the other cells. */
static void build_recurrent(ronde_graph *graph, ronde_tensor *x) {
  ronde_tensor *h, *last;
  ronde_recurrent_options both = {.hidden = 5, .layers = 2, .both_directions = true, .dropout = 0.25f};
  ronde_tensor *y = ronde_lstm(x, "encoder", &both, &h, NULL);
  both.hidden_0 = h, both.no_bias = true;
  y = ronde_add(y, ronde_gru(y, "decoder", &both, &last));
  const ronde_recurrent_options peeping = {.hidden = 4, .peepholes = true},
                                resetting = {.hidden = 3, .reset_first = true};
  y = ronde_gru(ronde_lstm(y, "peeping", &peeping, NULL, NULL), "resetting", &resetting, NULL);
  y = ronde_rnn(y, "plain", &(ronde_recurrent_options){.hidden = 5, .both_directions = true}, NULL);
  const ronde_tensor *const all[] = {ronde_flatten(y), ronde_flatten(last)};
  ronde_graph_set_output(graph, ronde_linear(ronde_concat(all, 2), "fc", 5, true));
}

const network sequence_networks[2] = {{"lstm", 6, 0, 9, build_lstm}, {"recurrent", 6, 0, 9, build_recurrent}};

ronde_tensor *input_of(ronde_graph *graph, const network *network) {
  int64_t sequence[] = {network->c, network->w}, other[] = {network->c, network->h, network->w};
  if (network->h == 0 && network->w) return ronde_input(graph, "input", 2, sequence);
  return ronde_input(graph, "input", network->h ? 3 : 1, other);
}

const network normed_networks[] = {
    {"norm_block", 3, 5, 6, build_norm_block},
    {"norm_downsample", 3, 5, 6, build_norm_downsample},
    {"norm_before_shortcut", 3, 5, 4, build_norm_before_shortcut},
    {"norm_busy_shortcut", 3, 4, 4, build_norm_busy_shortcut},
    {"norm_output", 3, 5, 4, build_norm_output},
    {"norm_apart", 3, 4, 4, build_norm_apart},
    {"norm_function", 3, 5, 4, build_norm_function},
};

ronde_graph *graph_of(const network *network) {
  ronde_graph *graph;
  assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
  network->build(graph, input_of(graph, network));
  assert_int_equal(ronde__graph_finish(graph), RONDE_OK);
  return graph;
}

void build_model(ronde_graph *graph, const ronde__model *model) {
  bool shrinks_much = strncmp(model->name, "inception", 9) == 0;
  int64_t side = shrinks_much ? 75 : strcmp(model->name, "alexnet") == 0 ? 64 : ronde__min(model->shape[1], 32);
  ronde__model_options options = {.padding_same = true, .dropout = model->dropout};
  ronde_tensor *x = ronde_input(graph, "input", 3, (int64_t[]){model->shape[0], side, side});
  ronde_graph_set_output(graph, model->build(graph, x, 10, &options));
}

static const ronde__node *loss_node(const ronde_graph *graph) {
  return &graph->nodes[graph->tensors[graph->loss]->producer];
}

int64_t elems_of(const ronde_graph *graph, int tensor) { return ronde__shape_elems(&graph->tensors[tensor]->shape); }

examples examples_make(const ronde_graph *graph, int64_t n) {
  const ronde__node *loss = loss_node(graph);
  examples e = {.x_elems = ronde__graph_input_elems(graph), .target_elems = elems_of(graph, loss->in[0])};
  random_state = 12345;
  e.x = random_floats(n * e.x_elems);
  e.targets = random_floats(n * e.target_elems);
  e.labels = malloc((size_t)n * sizeof *e.labels);
  for (int64_t i = 0; i < n; i++) e.labels[i] = (i * 7 + 3) % e.target_elems;
  bool classes = ronde__ops[loss->kind]->wants_labels;
  e.batch = (ronde__net_batch){
      .n = n, .x = e.x, .labels = classes ? e.labels : NULL, .targets = classes ? NULL : e.targets, .training = true};
  return e;
}

ronde__net_batch part_of(const examples *e, int64_t begin, int64_t n) {
  ronde__net_batch b = {.n = n, .x = e->x + begin * e->x_elems, .training = true};
  if (e->batch.labels) b.labels = e->labels + begin;
  else b.targets = e->targets + begin * e->target_elems;
  return b;
}

void examples_free(examples *e) { free(e->x), free(e->targets), free(e->labels); }

static ronde__ref_conv window_of(const ronde_graph *graph, const ronde__node *node, int64_t n) {
  const int64_t *d = graph->tensors[node->in[0]]->shape.dim;
  return window_of_attr(&node->attr, n, d[0], d[1], d[2]);
}

/* By the batch's statistics in training, else by the running ones. */
static void interpret_norm(const ronde_graph *graph, const ronde__node *node, const ronde__net_batch *batch,
                           const float *x, float *const *params, float *const *buffers, float *y) {
  const int64_t *dim = graph->tensors[node->in[0]]->shape.dim;
  int64_t c = dim[0], pixels = dim[1] * dim[2];
  const float *weight = params[node->param[0]], *bias = params[node->param[1]];
  const float *mean = buffers[node->buffer[0]], *var = buffers[node->buffer[1]];
  double *moments = malloc((size_t)(2 * c) * sizeof *moments), eps = (double)node->attr.eps;
  if (batch->training)
    ronde__ref_batch_norm_forward(batch->n, c, pixels, eps, x, weight, bias, y, moments, moments + c);
  for (int64_t i = 0; i < batch->n * c * pixels && !batch->training; i++) {
    int64_t k = i / pixels % c;
    y[i] = (float)((double)(x[i] - mean[k]) / sqrt((double)var[k] + eps) * (double)weight[k] + (double)bias[k]);
  }
  free(moments);
}

/* Without groups. */
static void interpret_conv_transpose(const ronde_graph *graph, const ronde__node *node, int64_t n, const float *x,
                                     float *const *params, float *y) {
  const int64_t *from = graph->tensors[node->in[0]]->shape.dim, *to = graph->tensors[node->out[0]]->shape.dim;
  const ronde__op_attr *a = &node->attr;
  int64_t taps = (int64_t)a->kernel[0] * a->kernel[1], pixels = to[1] * to[2];
  double *sums = calloc((size_t)(n * to[0] * pixels), sizeof *sums);
  for (int64_t i = 0; i < n * from[0] * from[1] * from[2] * to[0] * taps; i++) {
    int64_t at = i / (to[0] * taps), o = i / taps % to[0], t = i % taps, c = at / (from[1] * from[2]) % from[0];
    int64_t row = at / from[2] % from[1] * a->stride[0] + t / a->kernel[1] - a->padding[0];
    int64_t column = at % from[2] * a->stride[1] + t % a->kernel[1] - a->padding[1];
    if (row < 0 || row >= to[1] || column < 0 || column >= to[2]) continue;
    sums[((at / (from[0] * from[1] * from[2]) * to[0] + o) * to[1] + row) * to[2] + column] +=
        (double)x[at] * (double)params[node->param[0]][(c * to[0] + o) * taps + t];
  }
  for (int64_t i = 0; i < n * to[0] * pixels; i++)
    y[i] = (float)(sums[i] + (node->n_params > 1 ? (double)params[node->param[1]][i / pixels % to[0]] : 0));
  free(sums);
}

/* Linear, with half pixels. */
static void interpret_resize(const ronde_graph *graph, const ronde__node *node, int64_t n, const float *x, float *y) {
  const int64_t *from = graph->tensors[node->in[0]]->shape.dim, *to = graph->tensors[node->out[0]]->shape.dim;
  for (int64_t i = 0; i < n * elems_of(graph, node->out[0]); i++) {
    const int64_t at[] = {i / to[2] % to[1], i % to[2]};
    double sum = 0, place[2];
    for (int d = 0; d < 2; d++) {
      double scale = (double)to[1 + d] / (double)from[1 + d];
      place[d] = fmin(fmax(((double)at[d] + 0.5) / scale - 0.5, 0), (double)(from[1 + d] - 1));
    }
    for (int64_t p = 0; p < from[1] * from[2]; p++)
      sum += (double)x[i / (to[1] * to[2]) * from[1] * from[2] + p] *
             fmax(0, 1 - fabs(place[0] - (double)(p / from[2]))) * fmax(0, 1 - fabs(place[1] - (double)(p % from[2])));
    y[i] = (float)sum;
  }
}

static void interpret_group_norm(const ronde_graph *graph, const ronde__node *node, int64_t n, const float *x,
                                 float *const *params, float *y) {
  int64_t channels = graph->tensors[node->in[0]]->shape.dim[0], elems = elems_of(graph, node->in[0]);
  int64_t own = elems / node->attr.groups, pixels = elems / channels;
  for (int64_t g = 0; g < n * node->attr.groups; g++) {
    double mean = 0, variance = 0;
    for (int64_t i = g * own; i < (g + 1) * own; i++) mean += (double)x[i] / (double)own;
    for (int64_t i = g * own; i < (g + 1) * own; i++) variance += pow((double)x[i] - mean, 2) / (double)own;
    for (int64_t i = g * own; i < (g + 1) * own; i++) {
      int64_t c = i / pixels % channels;
      double z = ((double)x[i] - mean) / sqrt(variance + (double)node->attr.eps);
      y[i] = (float)(node->n_params ? z * (double)params[node->param[0]][c] + (double)params[node->param[1]][c] : z);
    }
  }
}

static void interpret_concat(const ronde_graph *graph, const ronde__node *node, int64_t n, float *const *values,
                             float *y) {
  int64_t all = elems_of(graph, node->out[0]), first = 0;
  for (int i = 0; i < node->n_inputs; first += elems_of(graph, node->in[i++]))
    for (int64_t j = 0, elems = elems_of(graph, node->in[i]); j < n * elems; j++)
      y[j / elems * all + first + j % elems] = values[node->in[i]][j];
}

static void interpret_shuffle(const ronde_graph *graph, const ronde__node *node, int64_t n, const float *x, float *y) {
  int64_t c = graph->tensors[node->in[0]]->shape.dim[0], pixels = elems_of(graph, node->in[0]) / c;
  for (int64_t i = 0; i < n * c; i++) {
    int64_t from = i % c % node->attr.groups * (c / node->attr.groups) + i % c / node->attr.groups;
    memcpy(y + i * pixels, x + (i - i % c + from) * pixels, (size_t)pixels * sizeof *y);
  }
}

static void interpret_split(const ronde_graph *graph, const ronde__node *node, int64_t n, const float *x,
                            float *const *values) {
  int64_t all = elems_of(graph, node->in[0]), first = 0;
  for (int i = 0; i < node->n_outputs; first += elems_of(graph, node->out[i++]))
    for (int64_t j = 0, elems = elems_of(graph, node->out[i]); j < n * elems; j++)
      values[node->out[i]][j] = x[j / elems * all + first + j % elems];
}

static void interpret_upsample(const ronde_graph *graph, const ronde__node *node, int64_t n, const float *x, float *y) {
  const int64_t *from = graph->tensors[node->in[0]]->shape.dim, *to = graph->tensors[node->out[0]]->shape.dim;
  for (int64_t i = 0; i < n * elems_of(graph, node->out[0]); i++) {
    int64_t row = i / to[2] % to[1] / node->attr.kernel[0], column = i % to[2] / node->attr.kernel[1];
    y[i] = x[(i / (to[1] * to[2]) * from[1] + row) * from[2] + column];
  }
}

/* Groups by a weight of one group that is 0 between them. */
static void interpret_conv(const ronde_graph *graph, const ronde__node *node, int64_t n, const float *x,
                           float *const *params, float *y) {
  ronde__ref_conv p = window_of(graph, node, n);
  int64_t groups = node->attr.groups ? node->attr.groups : 1, taps = (int64_t)p.kh * p.kw, channels = p.c / groups;
  float *w = calloc((size_t)(p.o * p.c * taps), sizeof *w);
  for (int64_t o = 0; o < p.o; o++)
    memcpy(w + (o * p.c + o / (p.o / groups) * channels) * taps, params[node->param[0]] + o * channels * taps,
           (size_t)(channels * taps) * sizeof *w);
  ronde__ref_conv_forward(&p, x, w, node->n_params > 1 ? params[node->param[1]] : NULL, y);
  free(w);
}

/* One node; y [n][elems] of its output. A loss's sum over the batch goes to *loss_out. */
static void interpret_node(const ronde_graph *graph, const ronde__node *node, const ronde__net_batch *batch,
                           float *const *values, float *const *params, float *const *buffers, float *y,
                           double *loss_out) {
  const float *x = values[node->in[0]];
  int64_t n = batch->n, elems = elems_of(graph, node->in[0]);
  ronde__ref_conv p;
  switch (node->kind) {
  case RONDE__OP_CONV2D: interpret_conv(graph, node, n, x, params, y); break;
  case RONDE__OP_LINEAR:
    ronde__ref_linear_forward(n, elems, node->attr.out_channels, x, params[node->param[0]],
                              node->n_params > 1 ? params[node->param[1]] : NULL, y);
    break;
  case RONDE__OP_MAX_POOL2D: p = window_of(graph, node, n), ronde__ref_max_pool_forward(&p, x, y); break;
  case RONDE__OP_AVG_POOL2D:
    p = window_of(graph, node, n), ronde__ref_avg_pool_forward(&p, node->attr.exclude_padding, x, y);
    break;
  case RONDE__OP_BATCH_NORM2D: interpret_norm(graph, node, batch, x, params, buffers, y); break;
  case RONDE__OP_CONV_TRANSPOSE2D: interpret_conv_transpose(graph, node, n, x, params, y); break;
  case RONDE__OP_GROUP_NORM: interpret_group_norm(graph, node, n, x, params, y); break;
  case RONDE__OP_ACTIVATION: ronde__ref_act_forward(node->attr.act, n * elems, x, y); break;
  case RONDE__OP_POINTWISE:
    for (int64_t i = 0; i < n * elems; i++) y[i] = (float)ronde__ref_pointwise(&node->attr.pointwise, (double)x[i]);
    break;
  case RONDE__OP_RESIZE2D: interpret_resize(graph, node, n, x, y); break;
  case RONDE__OP_UPSAMPLE2D: interpret_upsample(graph, node, n, x, y); break;
  case RONDE__OP_FLATTEN: memcpy(y, x, (size_t)(n * elems) * sizeof *y); break;
  case RONDE__OP_ADD:
    for (int64_t i = 0; i < n * elems; i++) y[i] = x[i] + values[node->in[1]][i];
    break;
  case RONDE__OP_MULTIPLY:
    for (int64_t i = 0; i < n * elems; i++) y[i] = x[i] * values[node->in[1]][i];
    break;
  case RONDE__OP_SUBTRACT:
    for (int64_t i = 0; i < n * elems; i++) y[i] = x[i] - values[node->in[1]][i];
    break;
  case RONDE__OP_CHANNEL_SHUFFLE: interpret_shuffle(graph, node, n, x, y); break;
  case RONDE__OP_SPLIT: interpret_split(graph, node, n, x, values); break;
  case RONDE__OP_CONCAT: interpret_concat(graph, node, n, values, y); break;
  case RONDE__OP_CROSS_ENTROPY:
    *loss_out = (double)n * ronde__ref_cross_entropy(n, elems, x, batch->labels, NULL);
    break;
  case RONDE__OP_MSE_LOSS: *loss_out = (double)n * ronde__ref_mse(n * elems, x, batch->targets, NULL); break;
  case RONDE__OP_L1_LOSS: *loss_out = (double)n * ronde__ref_l1(n * elems, x, batch->targets, NULL); break;
  case RONDE__OP_HUBER_LOSS:
    *loss_out = (double)n * ronde__ref_huber(n * elems, (double)node->attr.delta, x, batch->targets, NULL);
    break;
  case RONDE__OP_BCE_LOSS: *loss_out = (double)n * ronde__ref_bce(n * elems, x, batch->targets, NULL); break;
  default: fail_msg("no reference for %s", ronde__ops[node->kind]->name);
  }
}

double interpret(const ronde_graph *graph, const ronde__net *net, const ronde__net_batch *batch, float *output_out) {
  float **values = calloc((size_t)graph->n_tensors, sizeof *values),
        **params = calloc((size_t)graph->n_params, sizeof *params),
        **buffers = calloc((size_t)graph->n_buffers + 1, sizeof *buffers);
  double loss = NAN;
  for (int i = 0; i < graph->n_params; i++) {
    params[i] = malloc((size_t)ronde__shape_elems(&graph->params[i].shape) * sizeof(float));
    ronde__net_get(net, i, params[i]);
  }
  for (int i = 0; i < graph->n_buffers; i++) {
    buffers[i] = malloc((size_t)ronde__shape_elems(&graph->buffers[i].shape) * sizeof(float));
    if (!graph->buffers[i].is_counter) ronde__net_get_buffer(net, i, buffers[i]);
  }
  for (int i = 0; i < graph->n_tensors; i++) values[i] = calloc((size_t)(batch->n * elems_of(graph, i)), sizeof(float));
  for (int i = 0; i < graph->n_inputs; i++)
    ronde__graph_take_input(graph, i, batch->n, batch->x, values[graph->inputs[i]]);
  for (int i = 0; i < graph->n_nodes; i++) {
    const ronde__node *node = &graph->nodes[i];
    if (node->out[0] == graph->loss || !ronde__ops[node->kind]->is_loss)
      interpret_node(graph, node, batch, values, params, buffers, values[node->out[0]], &loss);
  }
  memcpy(output_out, values[graph->output], (size_t)(batch->n * elems_of(graph, graph->output)) * sizeof(float));
  for (int i = 0; i < graph->n_tensors; i++) free(values[i]);
  for (int i = 0; i < graph->n_params; i++) free(params[i]);
  for (int i = 0; i < graph->n_buffers; i++) free(buffers[i]);
  free(values), free(params), free(buffers);
  return loss;
}

int64_t calls_of(const ronde__prof *prof, const char *name) {
  int n;
  const ronde__prof_op *ops = ronde__prof_ops(prof, &n);
  int64_t calls = 0;
  for (int i = 0; i < n; i++)
    if (ops[i].phase == RONDE__PHASE_FORWARD && !strcmp(ops[i].op, name)) calls += ops[i].calls;
  return calls;
}

bool is_dead(const ronde__net *net, size_t at) {
  int n;
  const ronde__range *dead = ronde__net_dead(net, &n);
  for (int d = 0; d < n; d++)
    if (at >= dead[d].begin && at < dead[d].begin + dead[d].n) return true;
  return false;
}

void assert_gradients_near(ronde__net *x, ronde__net *wanted, const char *name, double most) {
  const float *a = ronde__net_gradients(x), *b = ronde__net_gradients(wanted);
  double error = 0, size = 0;
  for (size_t i = 0; i < ronde__net_n_elems(x); i++) {
    error += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    size += (double)b[i] * b[i];
  }
  if (!(sqrt(error) <= most * sqrt(size))) fail_msg("%s: gradients differ by %g of %g", name, sqrt(error), sqrt(size));
}

void spoil_gradients(ronde__net *net) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  for (int i = 0; i < n_params; i++)
    for (size_t j = params[i].offset; j < params[i].offset + params[i].n_packed && !params[i].frozen; j++)
      if (!is_dead(net, j)) ronde__net_gradients(net)[j] = NAN;
}
