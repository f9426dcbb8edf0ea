/* What starting mpirun (launch.c) and watching over it (watch.c) share. */
#ifndef TOOL_LAUNCH_H
#define TOOL_LAUNCH_H

#include "common.h"

#include <sys/types.h>

/* Marks on a line of stderr, by which a rank tells the launcher that it has begun, how far it had come when another was lost,
 * and how it has ended. */
#define TOOL_MARK "\x1eronde-"
#define TOOL_MARK_BEGIN "begin "
#define TOOL_MARK_JOINED "joined"
#define TOOL_MARK_LOST "lost "
#define TOOL_MARK_WITHOUT "without "
#define TOOL_MARK_END "end "
#define TOOL_MPIRUN "mpirun.openmpi"
/* In the environment of mpirun and of all that it starts. */
#define TOOL_LAUNCHED "RONDE_LAUNCHED"

typedef struct tool_stream {
  int from, to;
  char line[8192];
  size_t n;
} tool_stream;

typedef struct tool_rank {
  bool begun, ended;
  bool gone; /* its process has ended, as mpirun or the system says, or the others go on without it */
  pid_t pid; /* where it runs on this host, else 0, */
  int end;   /* and then a descriptor that knows how it ended (pidfd), or -1 */
  int code;  /* once it has ended */
  bool told; /* when another was lost: the step that the run had gone on from, and the last that has ended here */
  long long resumed_step, step;
  char host[64];
} tool_rank;

/* How far it is with a run that does not end by itself, and why it is ended. */
typedef enum tool_stage { TOOL_RUNS, TOOL_ABORTED, TOOL_KILLED } tool_stage;
typedef enum tool_reason {
  TOOL_BY_FAILURE, /* others have ended */
  TOOL_BY_REQUEST,
  TOOL_BY_START,
  TOOL_BY_STOP
} tool_reason;

typedef struct tool_launched {
  pid_t mpirun;
  tool_stream streams[2]; /* what it prints on stdout, and on stderr */
  int n_ranks, n_begun, n_ended;
  tool_rank *ranks; /* [n_ranks] */
  double grace_s, timeout_s;
  bool goes_on;     /* once all had joined others than rank 0 may be lost: how it ends is what rank 0 says */
  bool restarts;    /* survivors of a loss may be saving, */
  bool joined;      /* if all had joined */
  const char *out;  /* the run's folder, or NULL */
  int code;         /* of the rank that knows best why it ended; -1: none has ended yet */
  bool in_block;    /* inside of what mpirun says */
  char said[16384]; /* by mpirun */
  bool error_seen;
  char first_error[2048];         /* the one that was printed */
  char last_error[2048];          /* what every rank meets by itself is said once */
  char held[8192];                /* errors behind the first one, until it is known which rank knows best */
  int killed_rank, killed_signal; /* the signal: 0: none was killed; -1: it is not known by which */
  char lost_host[256];            /* of the killed rank, or of a daemon that mpirun has lost */
  tool_stage stage;
  tool_reason reason;
  double begin_s, end_by_s; /* end_by_s: when the next stage begins; 0: never */
  double stopped_s;         /* since when mpirun is stopped; 0: it is not */
  double asked_s;           /* when the first request came */
  double looked_s;          /* when the ranks of this host were looked for */
  int n_passed_on;          /* requests that the ranks have been told of */
} tool_launched;

/* Until mpirun and all that it has started here are gone; tells how it ended. */
ronde_status tool_watch(tool_launched *launched);

#endif
