/* Chooses the instruction set and the GEMM, once, at run time. */
#include "kernel/bf16.h"
#include "kernel/gemm_xsmm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const ronde__kernels ronde__kernels_sse2, ronde__kernels_avx2, ronde__kernels_avx512, ronde__kernels_neon;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const ronde__kernels *available[4];

/* The features of x86-64-v3 and -v4, for which the sets are compiled. */
#define HAS __builtin_cpu_supports
#define HAS_V3 (HAS("avx2") && HAS("fma") && HAS("bmi") && HAS("bmi2") && HAS("popcnt"))
#define HAS_V4 (HAS_V3 && HAS("avx512f") && HAS("avx512bw") && HAS("avx512cd") && HAS("avx512dq") && HAS("avx512vl"))

static void dispatch_detect(void) {
  int n = 0;
#ifdef RONDE_HAVE_SIMD_sse2
  __builtin_cpu_init();
#endif
#ifdef RONDE_HAVE_SIMD_avx512
  if (HAS_V4) available[n++] = &ronde__kernels_avx512;
#endif
#ifdef RONDE_HAVE_SIMD_avx2
  if (HAS_V3) available[n++] = &ronde__kernels_avx2;
#endif
#ifdef RONDE_HAVE_SIMD_sse2
  available[n++] = &ronde__kernels_sse2;
#endif
#ifdef RONDE_HAVE_SIMD_neon
  available[n++] = &ronde__kernels_neon;
#endif
}

const ronde__kernels *ronde__kernels_available(int i) {
  pthread_once(&once, dispatch_detect);
  return i >= 0 && (size_t)i < RONDE__COUNT(available) ? available[i] : NULL;
}

ronde_status ronde__kernels_get(const ronde__kernels **kernels_out) {
  const char *wanted = getenv("RONDE_ISA");
  char names[96] = "";
  const ronde__kernels *kernels;
  const ronde__bf16 *bf16;
  for (int i = 0; wanted && (bf16 = ronde__bf16_available(i)); i++) {
    if (!strcmp(bf16->name, wanted)) wanted = NULL; /* f32 by the best set */
    else snprintf(names + strlen(names), sizeof names - strlen(names), "%s, ", bf16->name);
  }
  for (int i = 0; (kernels = ronde__kernels_available(i)); i++) {
    if (!wanted || !*wanted || !strcmp(kernels->isa, wanted)) {
      *kernels_out = kernels;
      return RONDE_OK;
    }
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", kernels->isa);
  }
  return ronde__fail(RONDE_E_USAGE, "RONDE_ISA=%s is not available: this build on this machine has %s",
                     RONDE__SHOWN(wanted), names);
}

static const char *tile_name(const ronde__kernels *kernels) {
  static const char *const names[] = {"tile-sse2", "tile-avx2", "tile-avx512", "tile-neon"};
  for (size_t i = 0; i < RONDE__COUNT(names); i++)
    if (!strcmp(names[i] + strlen("tile-"), kernels->isa)) return names[i];
  return "tile";
}

#ifdef RONDE_HAVE_XSMM
/* Shapes at which libxsmm's kernels are slower than the tile, as measured in alternated runs. With AVX2 on Zen 4
 * (GFLOP/s, tile and libxsmm): n 8: 65 and 26; n 16: 85 to 89 and 69 to 72; n 48: 89 and 81; n 37: 68 and 45; ldb 1024:
 * 76 and 32; at n 24, 32, 64, 96 and other ldb libxsmm is 3 to 10 % faster, and more where count * k is below 30. With
 * AVX-512 on Zen 5 the tile is faster where n is no multiple of 16 (lenet5's second convolution backward: 1.10). */
static bool tile_is_faster(const ronde__kernels *kernels, const ronde__gemm_shape *shape) {
  if (shape->n % kernels->vector) return true;
  return !strcmp(kernels->isa, "avx2") && (shape->n < 24 || shape->n == 48 || shape->ldb % 1024 == 0);
}
#endif

enum { LONG_SUM = 1024 };

/* libxsmm's AVX2 code takes two vectors of columns at a time through all terms of a call, and the rows of B, ldb floats apart,
 * push each other out of the first cache where they span more than that; so do those of A, transposed. The tile cuts long sums
 * itself. With AVX2 on Zen 3, 64 columns (GFLOP/s, in calls of 512 and of 64 or 128): 256 rows 69 to 76 and 80 to 86, 42 rows
 * 64 and 73; transposed, sums of 256 and of 64: 58 to 61 and 73 to 84. With AVX-512 a call takes whole rows of 64 columns.
 * Longer rows, as recurrent layers have them, were not measured. */
static int longest_sum(const ronde__gemm *gemm) {
  enum { FIRST_CACHE = (32 << 10) / sizeof(float), MEASURED = 64 };
  const ronde__gemm_shape *s = &gemm->shape;
  if (!gemm->jit || strcmp(gemm->kernels->isa, "avx2") || s->ldb > MEASURED) return LONG_SUM;
  return (int)ronde__max(1, FIRST_CACHE / (s->ldb + (s->trans_a ? s->lda : 0)));
}

ronde__gemm ronde__gemm_resolve(const ronde__compute *compute, const ronde__gemm_shape *shape) {
  const ronde__kernels *kernels = compute->kernels;
  if (shape->operands != RONDE__OF_F32)
    return (ronde__gemm){.shape = *shape,
                         .fn = compute->bf16->gemm,
                         .kernels = kernels,
                         .implementation = compute->bf16->name,
                         .most = LONG_SUM};
  ronde__gemm gemm = {
      .shape = *shape, .fn = kernels->gemm_tile, .kernels = kernels, .implementation = tile_name(kernels)};
#ifdef RONDE_HAVE_XSMM
  if (compute->gemm == RONDE__GEMM_XSMM && !tile_is_faster(kernels, shape))
    ronde__gemm_xsmm_resolve(kernels, shape, &gemm);
#endif
  gemm.most = longest_sum(&gemm);
  return gemm;
}

/* With AVX-512 and whole panels of four vectors. The tile fetches: without, either implementation takes 1.1 times as long where
 * 256 rows meet weights from memory, and more beside an update (Intel Xeon; docs/notebook/linear.md). It adds to C as it
 * stores, where libxsmm's sums go through a buffer: attention's backward pass, with terms of 64, takes 0.92 of the time. */
ronde__gemm ronde__gemm_resolve_tile(const ronde__compute *compute, const ronde__gemm_shape *shape) {
  ronde__compute own = *compute;
  if (!strcmp(own.kernels->isa, "avx512") && shape->n % (4 * own.kernels->vector) == 0) own.gemm = RONDE__GEMM_TILE;
  return ronde__gemm_resolve(&own, shape);
}

const char *ronde__gemm_name(ronde__gemm_impl impl) { return impl == RONDE__GEMM_XSMM ? "xsmm" : "tile"; }

ronde_status ronde__gemm_default(const ronde__kernels *kernels, ronde__gemm_impl *impl_out) {
#ifdef RONDE_HAVE_XSMM
  const bool built_in = true;
#else
  const bool built_in = false;
#endif
  const char *wanted = getenv("RONDE_GEMM");
  if (!wanted || !*wanted) {
    bool pays = built_in && (!strcmp(kernels->isa, "avx2") || !strcmp(kernels->isa, "avx512"));
    *impl_out = pays ? RONDE__GEMM_XSMM : RONDE__GEMM_TILE;
  } else if (!strcmp(wanted, "tile")) {
    *impl_out = RONDE__GEMM_TILE;
  } else if (!strcmp(wanted, "xsmm") && built_in) {
    *impl_out = RONDE__GEMM_XSMM;
  } else {
    return ronde__fail(RONDE_E_USAGE, "RONDE_GEMM=%s is not available: this build has %s", RONDE__SHOWN(wanted),
                       built_in ? "xsmm, tile" : "tile");
  }
  return RONDE_OK;
}
