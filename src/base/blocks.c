/* A best-fit allocator over large mapped areas: free pieces stand in order of address, and neighbours are joined. */
#include "base/blocks.h"

enum { ALIGNMENT = 64, MIN_SPLIT = 1024 };
#define SEGMENT ((size_t)16 << 20)

/* In front of its memory. */
typedef struct block {
  size_t bytes;                  /* behind this header */
  struct block *before, *after;  /* neighbours in a segment */
  struct block *previous, *next; /* of those that are free */
  bool is_free;
} block;

enum { HEADER = 64 };
_Static_assert(sizeof(block) <= HEADER, "the header keeps the alignment of what follows it");

typedef struct segment {
  struct segment *next;
  void *pages;
  size_t bytes;
} segment;

struct ronde__blocks {
  segment *segments;
  block *free;
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
  for (segment *s = blocks->segments, *next; s; s = next) {
    next = s->next;
    ronde__pages_unmap(s->pages, s->bytes);
    ronde__free(s);
  }
  ronde__free(blocks);
}

static void block_link(ronde__blocks *blocks, block *b) {
  b->is_free = true;
  b->previous = NULL;
  b->next = blocks->free;
  if (b->next) b->next->previous = b;
  blocks->free = b;
}

static void block_unlink(ronde__blocks *blocks, block *b) {
  b->is_free = false;
  if (b->previous) b->previous->next = b->next;
  else blocks->free = b->next;
  if (b->next) b->next->previous = b->previous;
}

static block *add_segment(ronde__blocks *blocks, size_t bytes) {
  segment *s = ronde__alloc(sizeof *s);
  if (!s) return NULL;
  *s = (segment){.next = blocks->segments, .bytes = bytes + HEADER > SEGMENT ? bytes + HEADER : SEGMENT};
  s->pages = ronde__pages_map(s->bytes);
  if (!s->pages) {
    ronde__free(s);
    return NULL;
  }
  blocks->segments = s;
  blocks->mapped += s->bytes;
  block *b = s->pages;
  *b = (block){.bytes = s->bytes - HEADER};
  block_link(blocks, b);
  return b;
}

/* Best fit leaves the long pieces whole. */
static block *smallest_that_fits(const ronde__blocks *blocks, size_t bytes) {
  block *best = NULL;
  for (block *b = blocks->free; b; b = b->next)
    if (b->bytes >= bytes && (!best || b->bytes < best->bytes)) best = b;
  return best;
}

static void block_split(ronde__blocks *blocks, block *b, size_t bytes) {
  if (b->bytes < bytes + HEADER + MIN_SPLIT) return;
  block *rest = (block *)((char *)b + HEADER + bytes);
  *rest = (block){.bytes = b->bytes - bytes - HEADER, .before = b, .after = b->after};
  if (rest->after) rest->after->before = rest;
  b->after = rest;
  b->bytes = bytes;
  block_link(blocks, rest);
}

void *ronde__blocks_take(ronde__blocks *blocks, size_t bytes) {
  if (bytes > SIZE_MAX / 2) return NULL;
  bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  block *b = smallest_that_fits(blocks, bytes);
  if (!b) b = add_segment(blocks, bytes);
  if (!b) return NULL;
  block_unlink(blocks, b);
  block_split(blocks, b, bytes);
  return (char *)b + HEADER;
}

static void block_join_after(block *b) {
  b->bytes += HEADER + b->after->bytes;
  b->after = b->after->after;
  if (b->after) b->after->before = b;
}

void ronde__blocks_give(ronde__blocks *blocks, void *p) {
  if (!p) return;
  block *b = (block *)((char *)p - HEADER);
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
