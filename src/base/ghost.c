/* Memory without content: one stretch of addresses, of which every block begins within the first part. */
#include "base/ghost.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#define LONGEST ((size_t)64 << 30) /* of a block */
#define WINDOW ((size_t)64 << 20)  /* in which blocks begin: those of one rank mostly do not overlap */
#define PAGE ((size_t)4096)

static char *space;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic size_t next;

static void reserve(void) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void *p = mmap(NULL, WINDOW + LONGEST, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (p == MAP_FAILED) return;
  madvise(p, WINDOW + LONGEST, MADV_NOHUGEPAGE); /* only what is touched becomes memory */
  space = p;
}

void *ronde__ghost_map(size_t bytes) {
  pthread_once(&once, reserve);
  if (!space || bytes > LONGEST) return NULL;
  size_t used = (bytes + PAGE - 1) / PAGE * PAGE;
  return space + atomic_fetch_add(&next, used) % WINDOW;
}

bool ronde__is_ghost(const void *p) {
  return space && (uintptr_t)p >= (uintptr_t)space && (uintptr_t)p < (uintptr_t)space + WINDOW + LONGEST;
}
