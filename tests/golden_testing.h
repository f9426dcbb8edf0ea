/* What the golden tests share: numbers by hash, golden files (tests/golden), the network under test, and comparing with
 * the bound. The error of each tensor against f64 may be at most BOUND times PyTorch's own in f32, with a floor of some
 * ulps of its norm, and twice that where both have nothing but rounding noise. */
#ifndef GOLDEN_TESTING_H
#define GOLDEN_TESTING_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "graph/graph.h"
#include "models/models.h"
#include "sanitized.h"

#define BOUND 4.0
#define FLOOR (4.0 / (1 << 24))

/* ---- numbers by hash: tests/golden/models.py has the same functions ---------------------------------------------- */

enum {
  INPUT_STREAM = 1000,
  LABEL_STREAM = 1001,
  LENGTH_STREAM = 1002,
  SOURCE_STREAM = 1003,
  SKETCH_STREAM = 2000,
  SKETCH = 64
};

/* n values in [-scale, scale). */
void fill_values(uint32_t stream, size_t n, double scale, float *x);

/* ---- one golden file --------------------------------------------------------------------------------------------- */

typedef struct golden {
  const char *name;
  json_t *json;
  int rank;
  int64_t shape[3], classes, batch, examples, example_elems;
  int64_t vocabulary; /* of tokens, in sequences whose labels differ in length; 0: values, and a label an example */
  bool decoder;       /* an example is a source and a target, each of that shape */
  bool lengths;       /* behind it is how many frames it has, and its labels are fewer than these */
  bool text;          /* behind that are as many tokens as it has labels at most */
  float *x;
  int64_t *labels, label_elems;
} golden;

const json_t *field(const json_t *object, const char *name);
double number(const json_t *object, const char *name);
int64_t whole(const json_t *object, const char *name);

void golden_open(golden *g);

void golden_close(golden *g);

/* ---- the network under test -------------------------------------------------------------------------------------- */

typedef struct machine {
  const ronde__kernels *kernels;
  ronde__gemm_impl gemm;
  int threads;
  const struct ronde__bf16 *bf16; /* NULL: f32 */
} machine;

typedef struct subject {
  ronde_graph *graph;
  ronde__pool *pool;
  ronde__net *net;
  char text[256]; /* case and machine, for messages */
} subject;

ronde_graph *make_graph(const golden *g);

int find_param(const ronde__net *net, const char *name);

/* Takes the graph. */
subject subject_create_of(const golden *g, const machine *m, ronde_graph *graph);

subject subject_create(const golden *g, const machine *m);

void subject_destroy(subject *s);

/* Forward and backward of examples [begin, end); returns the mean loss. */
double gradients(const golden *g, subject *s, int64_t begin, int64_t end);

/* ---- comparing --------------------------------------------------------------------------------------------------- */

bool within(const char *where, const char *what, double error, double peer_error, double norm, bool quiet);
/* Of n steps' losses. A scalar's rounding is a matter of luck: they share PyTorch's largest error. */
int loss_failures(const json_t *stage, const char *where, const double *losses, size_t n, bool quiet);

int tensor_failures(const json_t *stage, const char *where, const char *name, const float *x, size_t n, bool quiet);

/* How many tensors (weights, or gradients) miss their bound. */
int net_failures(const json_t *stage, const subject *s, bool gradient, bool quiet);

/* The mean over all gradients of a tensor's error, as a multiple of the peer's. */
double net_mean_error(const json_t *stage, const subject *s);

#endif
