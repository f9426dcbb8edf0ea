/* What an update changes, as it was: a worker that must not go on in the middle of one goes back. */
#ifndef RONDE_UNDO_H
#define RONDE_UNDO_H

#include "strategy/strategy.h"

typedef struct ronde__undo ronde__undo;

/* Room for the worker's trained parameters, its optimizer's state and the first n_arrays of its own arrays; pages are taken
 * as they are written. The worker must outlive it. RONDE_E_MEMORY. */
ronde_status ronde__undo_create(const ronde__worker *worker, int n_arrays, ronde__undo **undo_out);
void ronde__undo_destroy(ronde__undo *undo); /* NULL is taken */
/* In front of ronde__optim_begin, or between two steps: the number of the optimizer's updates; */
void ronde__undo_begin(ronde__undo *undo);
/* then these elements, as often as wanted; */
void ronde__undo_keep(ronde__undo *undo, size_t begin, size_t end);
/* and back: elements that were kept, and the number. */
void ronde__undo_restore(const ronde__undo *undo, size_t begin, size_t end);
/* Of a worker, given the bytes of all gradients and of the optimizer's state for them. */
size_t ronde__undo_bytes(size_t gradients, size_t optimizer, int n_arrays);

#endif
