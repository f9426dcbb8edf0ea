/* How long the library waits for others before it gives up, in one place. The limits of the command line are in
 * tools/limits.h; the table in docs/clusters.md has both. All times are by a clock that stands still while the process
 * does. */
#ifndef RONDE_LIMITS_H
#define RONDE_LIMITS_H

/* --timeout: a process that was silent for so long is lost. A living one sends signs of life, whatever it does. */
#define RONDE__LOST_AFTER_S 60
/* Multiples of that: for all ranks to meet at the start, where they send no signs of life yet; */
#define RONDE__START_TIMES 10
/* and for a message from a living rank. Loading, an evaluation or a slow disk may take long, but not for ever. */
#define RONDE__STALL_TIMES 60
/* What a rank sent before it left may still be on its way. */
#define RONDE__UNDER_WAY_NS 200000000u
/* Transfers with living peers end within this once they are given up. */
#define RONDE__CANCEL_NS 1000000000u
/* The same where ranks go on after a loss, and with a peer that is lost, or has given up too: what was sent and nobody will take
 * is not waited for any longer. */
#define RONDE__HALT_NS 100000000u
/* No call of Open MPI waits for a peer; one that has not come back within this after a loss, or within --timeout else, never
 * will. */
#define RONDE__STUCK_NS 5000000000u
/* A rank that hears of a loss from others finds it itself within this, where its own signs of life tell it too. */
#define RONDE__CLAIM_NS 1500000000u
/* MPI_Finalize waits for all ranks; after a loss for no longer than this. */
#define RONDE__FINALIZE_S 2

#endif
