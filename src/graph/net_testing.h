/* Networks for the tests of plan and execution, each for one way in which graphs are awkward, and an interpreter: the
 * recorded graph node by node through the naive references, with none of the plan's layouts, fusions or memory. */
#ifndef RONDE_NET_TESTING_H
#define RONDE_NET_TESTING_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "kernel/ref.h"
#include "models/models.h"
#include "lib/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- networks ---- */

typedef struct network {
  const char *name;
  int64_t c, h, w; /* h 0: a vector of c; a sequence of c steps where w is not 0 */
  void (*build)(ronde_graph *graph, ronde_tensor *x);
} network;

ronde_tensor *conv(const ronde_tensor *x, const char *name, int64_t out, int kernel, int stride, int padding);

ronde_tensor *max_pool(const ronde_tensor *x, int kernel, int padding);

ronde_tensor *avg_pool(const ronde_tensor *x, int kernel);

void classify(ronde_graph *graph, const ronde_tensor *x, const char *name);

void build_mlp(ronde_graph *graph, ronde_tensor *x);

void build_lenet(ronde_graph *graph, ronde_tensor *x);

void build_dead_branch(ronde_graph *graph, ronde_tensor *x);

/* Of 4x4: conv2 comes from 2x2, and four of its nine taps meet the input; conv3 from 1x1, and one does. */
void build_dead_taps(ronde_graph *graph, ronde_tensor *x);

/* A loss beside the output, of other values; and a second loss that nobody asked for, of another shape. */
void build_two_heads(ronde_graph *graph, ronde_tensor *x);

extern const network networks[31];

/* ---- networks with batch normalisation: examples are no longer independent of each other ---- */

/* A shortcut that is the block's input, and one with a convolution and a normalisation of its own. */
void build_norm_block(ronde_graph *graph, ronde_tensor *x);

void build_norm_downsample(ronde_graph *graph, ronde_tensor *x);

/* The other operand comes after the normalisation; and stands first. */
void build_norm_before_shortcut(ronde_graph *graph, ronde_tensor *x);

/* The shortcut and the sum before its ReLU are read again, before and behind; the network's input is a shortcut. */
void build_norm_busy_shortcut(ronde_graph *graph, ronde_tensor *x);

/* The sum is the output. */
void build_norm_output(ronde_graph *graph, ronde_tensor *x);

/* Sums that stay apart: what is normalised is added too; the normalised is read twice, or is the output. */
void build_norm_apart(ronde_graph *graph, ronde_tensor *x);
void build_norm_function(ronde_graph *graph, ronde_tensor *x);

extern const network normed_networks[7];

/* Networks of sequences, for which there is no interpreter. */
extern const network sequence_networks[2];

ronde_tensor *input_of(ronde_graph *graph, const network *network);
ronde_graph *graph_of(const network *network);
/* A built-in network for small images. */
void build_model(ronde_graph *graph, const ronde__model *model);

/* ---- batches ---- */

int64_t elems_of(const ronde_graph *graph, int tensor);

/* Inputs, labels and values; whichever the loss wants is in the batch. */
typedef struct examples {
  ronde__net_batch batch;
  int64_t x_elems, target_elems;
  float *x, *targets;
  int64_t *labels;
} examples;

examples examples_make(const ronde_graph *graph, int64_t n);

/* The examples [begin, begin + n) of e. */
ronde__net_batch part_of(const examples *e, int64_t begin, int64_t n);

void examples_free(examples *e);

/* ---- the interpreter ---- */

/* The loss summed over the batch, and the output [n][elems]. */
double interpret(const ronde_graph *graph, const ronde__net *net, const ronde__net_batch *batch, float *output_out);

/* How often an op of this name ran forward. */
int64_t calls_of(const ronde__prof *prof, const char *name);

bool is_dead(const ronde__net *net, size_t at);

/* All gradients of x differ from those wanted by at most that share of their size, in the sum of squares. */
void assert_gradients_near(ronde__net *x, ronde__net *wanted, const char *name, double most);

/* Garbage where kept gradients are to be overwritten. */
void spoil_gradients(ronde__net *net);

#endif
