/* libxsmm's batch-reduce GEMM, compiled at run time for each shape. libxsmm is column-major: our n is its m, our B
 * its A, and so on; our transposed A is its transposed B.
 * Source: Heinecke et al., "LIBXSMM: accelerating small matrix multiplications by runtime code generation", SC 2016. */
#include "kernel/gemm_xsmm.h"

#include <libxsmm.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>

static void xsmm_call(const ronde__gemm *gemm, const void *a, const uint64_t *a_offsets, const void *b,
                      const uint64_t *b_offsets, int64_t count, float *c) {
  unsigned long long n_terms = (unsigned long long)count;
  ((libxsmm_smmfunction_reducebatch_offs)gemm->jit)(b, a, c, &n_terms, (const unsigned long long *)b_offsets,
                                                    (const unsigned long long *)a_offsets);
}

static void xsmm_run(const ronde__gemm *gemm, const void *a, const uint64_t *a_offsets, const void *b,
                     const uint64_t *b_offsets, int64_t count, float *c, ronde__ahead *ahead) {
  const ronde__gemm_shape *s = &gemm->shape;
  if (count > 0) {
    xsmm_call(gemm, a, a_offsets, b, b_offsets, count, c);
    return;
  }
  /* With a count of 0 the compiled code would still run one term. */
  for (int i = 0; i < s->m; i++) memset(c + i * s->ldc, 0, (size_t)s->n * sizeof(float));
}

enum { SUM_ELEMS = 16384 };

/* Its beta of 1 would go on from C in one chain of additions, whose error grows with the length of the whole reduction;
 * a sum of its own for each call, added at the end, keeps it at the length of the call. */
static void xsmm_run_add(const ronde__gemm *gemm, const void *a, const uint64_t *a_offsets, const void *b,
                         const uint64_t *b_offsets, int64_t count, float *c, ronde__ahead *ahead) {
  const ronde__gemm_shape *s = &gemm->shape;
  float sum[SUM_ELEMS] __attribute__((aligned(64)));
  if (count == 0) return;
  xsmm_call(gemm, a, a_offsets, b, b_offsets, count, sum);
  if (s->ldc == s->n) gemm->kernels->add(c, sum, c, (int64_t)s->m * s->n);
  else
    for (int i = 0; i < s->m; i++) gemm->kernels->add(c + i * s->ldc, sum + i * s->n, c + i * s->ldc, s->n);
}

/* Starts libxsmm silently, and for the instruction set of the table instead of the CPU's best, so that RONDE_ISA
 * holds here too. */
static int xsmm_start(const ronde__kernels *kernels) {
  int arch = 0;
  if (!strcmp(kernels->isa, "avx2")) arch = LIBXSMM_X86_AVX2;
  if (!strcmp(kernels->isa, "avx512")) arch = LIBXSMM_X86_AVX512_CORE;
  if (!arch) return 0;
  libxsmm_init();
  libxsmm_set_verbosity(0);
  libxsmm_set_target_archid(arch);
  return libxsmm_get_target_archid() == arch ? arch : 0;
}

/* libxsmm's AVX-512 code goes through columns by four vectors. Where one vector remains it sums it in as many chains
 * as m allows, so the bits of a row would depend on how the batch is cut. */
static bool chains_hang_on_m(int arch, const ronde__gemm_shape *s) {
  return arch == LIBXSMM_X86_AVX512_CORE && (s->n - 1) % 64 < 16;
}

bool ronde__gemm_xsmm_resolve(const ronde__kernels *kernels, const ronde__gemm_shape *s, ronde__gemm *gemm) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  static const ronde__kernels *compiled_for;
  static int arch;
  if (s->m <= 0 || s->n <= 0 || s->k <= 0 || s->lda > INT_MAX || s->ldb > INT_MAX || s->ldc > INT_MAX) return false;
  libxsmm_blasint lda = (libxsmm_blasint)s->ldb, ldb = (libxsmm_blasint)s->lda, ldc = (libxsmm_blasint)s->ldc;
  float alpha = 1, beta = 0;
  if (s->accumulate) {
    if ((int64_t)s->m * s->n > SUM_ELEMS) return false;
    ldc = s->n;
  }
  int flags = s->trans_a ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE, prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
  libxsmm_smmfunction_reducebatch_offs jit = NULL;
  pthread_mutex_lock(&mutex);
  if (!compiled_for) {
    compiled_for = kernels;
    arch = xsmm_start(kernels);
  }
  if (arch && compiled_for == kernels && !chains_hang_on_m(arch, s))
    jit = libxsmm_smmdispatch_reducebatch_offs(s->n, s->m, s->k, &lda, &ldb, &ldc, &alpha, &beta, &flags, &prefetch);
  pthread_mutex_unlock(&mutex);
  if (!jit) return false;
  gemm->fn = s->accumulate ? xsmm_run_add : xsmm_run;
  gemm->jit = (void (*)(void))jit;
  gemm->implementation = "xsmm";
  return true;
}
