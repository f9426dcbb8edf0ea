/* The tags of all messages between ranks: what is under way at the same time between the same two ranks must differ. A
 * tag is one of these, or of a strategy, as RONDE__WIRE_TAG makes it with the phases of a collective. */
#ifndef RONDE_TAGS_H
#define RONDE_TAGS_H

enum {
  RONDE__TAG_PROBE_WORD, /* where clocks and links are measured: words there and back, */
  RONDE__TAG_PROBE_DATA, /* and data */
  /* Set-up, in the order of a run. */
  RONDE__TAG_ROOMS,    /* how much memory each process may have */
  RONDE__TAG_CARDS,    /* what each process has: build, kernels, options, data */
  RONDE__TAG_WHY,      /* why they do not fit together */
  RONDE__TAG_START,    /* rank 0's checkpoint */
  RONDE__TAG_CHOICES,  /* rank 0's --choices */
  RONDE__TAG_COMPLETE, /* whether the run was over before it began */
  RONDE__TAG_READY,    /* every rank is set up */
  /* Training. */
  RONDE__TAG_EPOCH,    /* what the workers learn from each other at the end of an epoch, and of the run */
  RONDE__TAG_SENTINEL, /* checksums of the weights */
  RONDE__TAG_FACTS,    /* what a rank tells of itself at the end, */
  RONDE__TAG_ROWS,     /* of its per-op table, */
  RONDE__TAG_TRACE,    /* and of its trace */
  RONDE__TAG_PARTS,    /* the state of a network that ranks have in parts */
  RONDE__TAG_LINKS,    /* the doctor's: what each rank has measured */
  RONDE__TAG_WORLD,    /* who is left after a loss, and the state that they go on from */

  /* From here to the next: the strategy's, which numbers them itself; one strategy runs at a time. */
  RONDE__TAG_STRATEGY = 0x100,
  RONDE__TAG_SPLIT = 0x7ffffd,  /* of layers that are split, beside a strategy's own exchanges, */
  RONDE__TAG_SHARED = 0x7ffffe, /* and what synchronised ops share */
};

/* 24 bits of tag, 8 of phase. */
#define RONDE__WIRE_TAG(tag, phase) ((uint32_t)(tag) << 8 | (uint32_t)(phase))

/* The same within one world of several that follow each other, numbered from 1 (collective.h): 6 bits of its number, 21 of
 * the tag, 4 of the phase. What all use without a world has tags below RONDE__TAG_STRATEGY, which are below these. */
enum { RONDE__MAX_WORLDS = 63 };
#define RONDE__WORLD_TAG(world, wire) \
  ((uint32_t)(world) << 25 | ((uint32_t)(wire) >> 8 & 0x1fffff) << 4 | ((uint32_t)(wire)&0xf))

#endif
