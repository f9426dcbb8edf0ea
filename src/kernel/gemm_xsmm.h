/* The doorway to libxsmm; only where the build has it (RONDE_HAVE_XSMM). */
#ifndef RONDE_GEMM_XSMM_H
#define RONDE_GEMM_XSMM_H

#include "kernel/kernel.h"

/* Fills in gemm's fn, jit and implementation; false, and gemm untouched, where libxsmm has no kernel for the shape.
 * libxsmm compiles for one instruction set in a process: that of the first table asked for; others get false.
 * Thread-safe. */
bool ronde__gemm_xsmm_resolve(const ronde__kernels *kernels, const ronde__gemm_shape *shape, ronde__gemm *gemm);

#endif
