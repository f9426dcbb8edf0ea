/* A best-fit allocator over large mapped areas. Free blocks are listed in order of address, and neighbours are
 * joined. */
#include "base/blocks.h"

enum { ALIGNMENT = 64, MIN_SPLIT = 1024 };
#define SEGMENT ((size_t)16 << 20)

/* The header that lies in front of each block's memory. */
typedef struct mem_block {
  size_t bytes;                      /* behind this header */
  struct mem_block *before, *after;  /* neighbours in a segment */
  struct mem_block *previous, *next; /* of those that are free */
  bool is_free;
} mem_block;

enum { HEADER = 64 };
_Static_assert(sizeof(mem_block) <= HEADER, "the header keeps the alignment of what follows it");

typedef struct mem_segment {
  struct mem_segment *next;
  void *pages;
  size_t bytes;
} mem_segment;

struct ronde__blocks {
  mem_segment *segments;
  mem_block *free;
  size_t mapped;
};

ronde_status ronde__blocks_create(ronde__blocks **blocks_out) {
  ronde__blocks *blocks;
  RONDE__ALLOC(blocks, sizeof *blocks, "memory of activations");
  *blocks_out = blocks;
  return RONDE_OK;
}

void ronde__blocks_destroy(ronde__blocks *blocks) {
  if (!blocks) return;
  for (mem_segment *s = blocks->segments, *next; s; s = next) {
    next = s->next;
    ronde__pages_unmap(s->pages, s->bytes);
    ronde__free(s);
  }
  ronde__free(blocks);
}

static void block_link(ronde__blocks *blocks, mem_block *b) {
  b->is_free = true;
  b->previous = NULL;
  b->next = blocks->free;
  if (b->next) b->next->previous = b;
  blocks->free = b;
}

static void block_unlink(ronde__blocks *blocks, mem_block *b) {
  b->is_free = false;
  if (b->previous) b->previous->next = b->next;
  else blocks->free = b->next;
  if (b->next) b->next->previous = b->previous;
}

static mem_block *add_segment(ronde__blocks *blocks, size_t bytes) {
  mem_segment *s = ronde__alloc(sizeof *s);
  if (!s) return NULL;
  *s = (mem_segment){.next = blocks->segments, .bytes = bytes + HEADER > SEGMENT ? bytes + HEADER : SEGMENT};
  s->pages = ronde__pages_map(s->bytes);
  if (!s->pages) {
    ronde__free(s);
    return NULL;
  }
  blocks->segments = s;
  blocks->mapped += s->bytes;
  mem_block *b = s->pages;
  *b = (mem_block){.bytes = s->bytes - HEADER};
  block_link(blocks, b);
  return b;
}

/* Best fit keeps the long blocks whole. */
static mem_block *smallest_that_fits(const ronde__blocks *blocks, size_t bytes) {
  mem_block *best = NULL;
  for (mem_block *b = blocks->free; b; b = b->next)
    if (b->bytes >= bytes && (!best || b->bytes < best->bytes)) best = b;
  return best;
}

static void block_split(ronde__blocks *blocks, mem_block *b, size_t bytes) {
  if (b->bytes < bytes + HEADER + MIN_SPLIT) return;
  mem_block *rest = (mem_block *)((char *)b + HEADER + bytes);
  *rest = (mem_block){.bytes = b->bytes - bytes - HEADER, .before = b, .after = b->after};
  if (rest->after) rest->after->before = rest;
  b->after = rest;
  b->bytes = bytes;
  block_link(blocks, rest);
}

void *ronde__blocks_take(ronde__blocks *blocks, size_t bytes) {
  if (bytes > SIZE_MAX / 2) return NULL;
  bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  mem_block *b = smallest_that_fits(blocks, bytes);
  if (!b) b = add_segment(blocks, bytes);
  if (!b) return NULL;
  block_unlink(blocks, b);
  block_split(blocks, b, bytes);
  return (char *)b + HEADER;
}

static void block_join_after(mem_block *b) {
  b->bytes += HEADER + b->after->bytes;
  b->after = b->after->after;
  if (b->after) b->after->before = b;
}

void ronde__blocks_give(ronde__blocks *blocks, void *p) {
  if (!p) return;
  mem_block *b = (mem_block *)((char *)p - HEADER);
  if (b->after && b->after->is_free) {
    block_unlink(blocks, b->after);
    block_join_after(b);
  }
  if (b->before && b->before->is_free) {
    b = b->before;
    block_unlink(blocks, b);
    block_join_after(b);
  }
  block_link(blocks, b);
}

size_t ronde__blocks_mapped(const ronde__blocks *blocks) { return blocks->mapped; }
