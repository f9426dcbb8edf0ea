/* For the tests of recording: a graph for each test, and the line that says what is wrong with it. */
#ifndef RONDE_BUILD_TESTING_H
#define RONDE_BUILD_TESTING_H

#include "graph/net_testing.h"

extern int n_logged; /* lines since the graph was created */

/* Of each test: *state is an empty graph. */
int graph_set_up(void **state);
int graph_tear_down(void **state);
#define TEST(name) cmocka_unit_test_setup_teardown(name, graph_set_up, graph_tear_down)

/* The graph failed with one line, and goes on failing without another; x is what the call gave. */
void check_refused(ronde_graph *graph, const ronde_tensor *x, const char *line);
/* The graph fails with this line when it is finished. */
void check_finish_refused(ronde_graph *graph, const char *line);

/* Inputs. */
ronde_tensor *image(ronde_graph *graph, int64_t c, int64_t h, int64_t w);
ronde_tensor *vector(ronde_graph *graph, int64_t n);

/* The first `rank` of a, b and c. */
void check_dims(const ronde_tensor *x, int rank, int64_t a, int64_t b, int64_t c);

#endif
