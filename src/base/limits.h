/* How long the library waits for what may never come, in one place; the limits of the command line are in
 * tools/limits.h. The table in docs/clusters.md has both, with what each is for. All times by a clock that stands still
 * while the process does. */
#ifndef RONDE_LIMITS_H
#define RONDE_LIMITS_H

/* A process of which nothing was heard for so long is lost: --timeout. One that lives is heard of, whatever it does. */
#define RONDE__LOST_AFTER_S 60
/* In times of that: for all ranks to come together at the start, where nothing can be heard of them yet; */
#define RONDE__START_TIMES 10
/* and for a message from a rank that lives. Loading, an evaluation or a slow disk may take long; for ever is an error. */
#define RONDE__STALL_TIMES 60
/* What a rank has sent before it left may still be on the way. */
#define RONDE__UNDER_WAY_NS 200000000u
/* Transfers that live peers take part in end within this when they are given up. */
#define RONDE__CANCEL_NS 1000000000u
/* MPI_Finalize waits for all ranks: after a loss no longer than this. */
#define RONDE__FINALIZE_S 2

#endif
