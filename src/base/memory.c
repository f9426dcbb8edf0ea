/* Memory: zeroed and aligned blocks, large maps on huge pages, and texts that the caller owns. */
#include "base/base.h"
#include "base/ghost.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGNMENT 64
#define HUGE_PAGE ((size_t)2 << 20)
#define PAGE 4096

void *ronde__alloc(size_t bytes) {
  void *p = NULL;
  bool large = bytes >= HUGE_PAGE;
  if (posix_memalign(&p, large ? HUGE_PAGE : ALIGNMENT, bytes ? bytes : 1)) return NULL;
  if (large) madvise(p, bytes / PAGE * PAGE, MADV_HUGEPAGE);
  return memset(p, 0, bytes ? bytes : 1);
}

void ronde__free(void *p) {
  if (!ronde__is_ghost(p)) free(p);
}

void *ronde__pages_map(size_t bytes) {
  if (bytes == 0) bytes = 1;
  if (bytes < HUGE_PAGE) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
  }
  /* Map more than needed and give the unaligned ends back. */
  char *raw = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return NULL;
  size_t head = (HUGE_PAGE - (uintptr_t)raw % HUGE_PAGE) % HUGE_PAGE;
  size_t used = (size_t)ronde__round_up((int64_t)bytes, PAGE);
  if (head) munmap(raw, head);
  munmap(raw + head + used, HUGE_PAGE - head - (used - bytes) / PAGE * PAGE);
  madvise(raw + head, used, MADV_HUGEPAGE);
  return raw + head;
}

void ronde__pages_unmap(void *p, size_t bytes) {
  if (p && !ronde__is_ghost(p)) munmap(p, bytes ? bytes : 1);
}

char *ronde__strdup(const char *text) { return text ? strdup(text) : NULL; }

char *ronde__format(const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *text = NULL;
  if (vasprintf(&text, format, args) < 0) text = NULL;
  va_end(args);
  return text;
}
