/* Which implementation of bfloat16 there is. */
#include "kernel/bf16.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#ifdef RONDE_HAVE_BF16
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

extern const ronde__bf16 ronde__bf16_amx, ronde__bf16_avx512;

/* Linux gives the state of the tiles to a process that asks for it; threads that begin later have it too.
 * Source: Linux, Documentation/arch/x86/xstate.rst. */
static bool may_use_tiles(void) {
  enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
  return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

/* CPUID leaf 7: subleaf 0 has AMX-BF16 and AMX-TILE in EDX, subleaf 1 AVX512_BF16 in EAX. */
static void detect(const ronde__bf16 *available[]) {
  unsigned a, b, c, d, a1, b1, c1, d1;
  int n = 0;
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx512bw") || !__get_cpuid_count(7, 0, &a, &b, &c, &d) ||
      !__get_cpuid_count(7, 1, &a1, &b1, &c1, &d1) || !(a1 >> 5 & 1))
    return;
  if ((d >> 22 & 1) && (d >> 24 & 1) && may_use_tiles()) available[n++] = &ronde__bf16_amx;
  available[n++] = &ronde__bf16_avx512;
}
#else
static void detect(const ronde__bf16 *available[]) {}
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const ronde__bf16 *available[2];

static void detect_once(void) { detect(available); }

const ronde__bf16 *ronde__bf16_available(int i) {
  pthread_once(&once, detect_once);
  return i >= 0 && (size_t)i < RONDE__COUNT(available) ? available[i] : NULL;
}

/* Zen 4 and Zen 5 issue vdpbf16ps as often as a multiply-add, which makes its peak twice that of f32; the Intel CPU that
 * was measured half as often. */
bool ronde__bf16_pays(const ronde__bf16 *bf16) {
#ifdef RONDE_HAVE_BF16
  return bf16->is_tiles || __builtin_cpu_is("amd");
#else
  return bf16->is_tiles;
#endif
}

const ronde__bf16 *ronde__bf16_get(const ronde__kernels *kernels) {
  const char *wanted = getenv("RONDE_ISA");
  if (strcmp(kernels->isa, "avx512") != 0) return NULL;
  if (!wanted || !*wanted) return ronde__bf16_available(0);
  for (int i = 0; ronde__bf16_available(i); i++)
    if (!strcmp(ronde__bf16_available(i)->name, wanted)) return ronde__bf16_available(i);
  return NULL;
}

const char *ronde__bf16_name(const ronde__bf16 *bf16) { return bf16 ? bf16->name : "none"; }
