/* One start of a run by mpirun, and what its parts share: starting it (start.c), hearing it (hear.c), watching over it (watch.c), what it
 * leaves behind (orphans.c), and the one that may follow (prepare.c). launch.c has the whole. */
#ifndef TOOL_LAUNCH_H
#define TOOL_LAUNCH_H

#include "common.h"
#include "join.h"
#include "mark.h"
#include "session.h"

#include <sys/types.h>

#define TOOL_MPIRUN "mpirun.openmpi"
/* Behind the name of this program, where mpirun starts it in the place of ssh (agent.c), and where a shell of another host starts
 * it with the words of Open MPI's daemon, by a variable of that name. In the environment, then: what takes
 * the place of ssh, and its words; and the process that launches, with the seconds that are left once it is gone. */
#define TOOL_AGENT_WORD "--as-agent"
#define TOOL_DAEMON_WORD "--as-daemon"
#define TOOL_DAEMON "RONDE_DAEMON"
#define TOOL_AGENT "RONDE_AGENT"
#define TOOL_AGENT_ARGS "RONDE_AGENT_ARGS"
#define TOOL_AGENT_WATCH "RONDE_AGENT_WATCH"
#define TOOL_SSH "ssh"

typedef struct tool_ask {
  pid_t asking;   /* a process that asks a host while the ranks start; 0: none */
  double asked_s; /* when the last one was begun, */
  double heard_s; /* and when the host has answered; 0: ssh to it has not been started */
  bool silent;    /* it did not answer for --timeout */
} tool_ask;

typedef struct tool_stream {
  int from, to;
  char line[8192];
  size_t n;
} tool_stream;

typedef struct tool_rank {
  bool begun, ended;
  bool gone;     /* its process has ended, as mpirun or the system says, or the others go on without it */
  bool reported; /* by Open MPI's daemon there, that its process has ended */
  bool away;     /* that daemon is lost */
  pid_t pid;     /* where it runs on this host, else 0, */
  int end;       /* and then a descriptor that knows how it ended (pidfd), or -1 */
  int code;      /* once it has ended */
  bool told;     /* when another was lost: the step that the run had gone on from, and the last that has ended here */
  long long resumed_step, step;
  double stopped_s;            /* since when it is stopped, before all have joined; 0: it is not */
  char host[64];               /* where it is, by that host's own name, or is to be; "": not known */
  char listed[TOOL_MARK_NAME]; /* the same as in --hosts, perhaps an address; "": on this one */
} tool_rank;

/* How far it is with a run that does not end by itself, and why it is ended. */
typedef enum tool_stage { TOOL_RUNS, TOOL_ABORTED, TOOL_KILLED } tool_stage;
typedef enum tool_reason {
  TOOL_BY_FAILURE, /* others have ended */
  TOOL_BY_REQUEST,
  TOOL_BY_START,
  TOOL_BY_STOP,     /* mpirun is stopped, */
  TOOL_BY_RANK_STOP /* or a rank, before all have joined */
} tool_reason;

typedef struct tool_launched {
  char key[TOOL_KEY_DIGITS + 1]; /* of all marks */
  bool refused[TOOL_N_VERDICTS]; /* marks, which has been said */
  pid_t mpirun;
  tool_stream streams[2]; /* what it prints on stdout, and on stderr */
  int n_ranks, n_begun, n_ended;
  tool_rank *ranks; /* [n_ranks] */
  double grace_s, timeout_s;
  bool goes_on;  /* once all had joined others than rank 0 may be lost: how it ends is what rank 0 says */
  bool restarts; /* survivors of a loss may be saving, */
  bool joined;   /* if all had joined */
  bool trained;  /* and a step has begun */
  const tool_call *call;
  char **words;                /* owned: of the ranks' command */
  tool_hosts hosts;            /* owned; none: all ranks are here */
  struct tool_restarts *noted; /* the starts before, of which this one is told (TOOL_RESTARTS) */
  tool_session session;
  const char *out;            /* the run's folder, or NULL */
  tool_joins *joins;          /* NULL: nobody may join */
  struct tool_launched *next; /* the start that is prepared while this one is under way, or has begun; or NULL */
  bool joining;               /* hosts join by it, and the ranks have been asked to save and end for it */
  bool prepared;              /* such a one has been, for a loss */
  bool waits, ready;          /* this is such a one: it has not been let begin; its ranks wait for that, */
  int begin;                  /* and rank 0 is told by what is written here (TOOL_PREPARED); else -1 */
  char joiners[512];          /* the hosts that join by it; "": none does */
  /* Owned: what ranks say while they save for others, or wait, in the order in which it came; each line begins with where it
   * was to go. */
  char *unsaid;
  int code;              /* of the rank that knows best why it ended; -1: none has ended yet */
  bool in_block;         /* inside of what mpirun says */
  char said[16384];      /* by mpirun */
  char said_there[8192]; /* by ssh and by hosts, for the log alone */
  bool error_seen;
  char first_error[2048];               /* the one that was printed */
  char last_error[2048];                /* what every rank meets by itself is said once */
  char held[8192];                      /* errors behind the first one, until it is known which rank knows best */
  int killed_rank, killed_signal;       /* the signal: 0: none was killed; -1: it is not known by which */
  char lost_host[256];                  /* of the killed rank, or of a daemon that mpirun has lost */
  char (*daemon_hosts)[TOOL_MARK_NAME]; /* [n_daemons], by Open MPI's numbers; "": this host, or not known */
  int n_daemons;
  tool_ask *asks;                   /* [n_daemons] */
  bool trains;                      /* its ranks tell when they have joined */
  int n_silent;                     /* hosts that did not answer while the ranks started; lost_daemon's is one */
  char lost_daemon[TOOL_MARK_NAME]; /* the host whose daemon is lost behind mpirun's back, or "" */
  char failed_host[TOOL_MARK_NAME]; /* on which nothing could be started, or a rank reaches another one not, or "", */
  char failed_why[1024];            /* and the whole line on that */
  double apart_s;                   /* since when a rank does not reach another one; 0: all do */
  bool apart_at_once;               /* it has ended by that */
  bool once_more;                   /* the start before was the same, and ended by that */
  int ended_early;                  /* the rank, counted from 1, that ended before it began; 0: none */
  char block_host[200], block_what[300]; /* of mpirun's own words on a program that it could not start */
  char local[64];                        /* the host that speaks in one of its blocks */
  tool_stage stage;
  tool_reason reason;
  double begin_s, joined_s; /* when mpirun was started, and when all had joined */
  double end_by_s;          /* when the next stage begins; 0: never */
  double stopped_s;         /* since when mpirun is stopped; 0: it is not */
  double asked_s;           /* when the first request came */
  double looked_s;          /* when the ranks of this host were looked for */
  int n_passed_on;          /* requests that the ranks have been told of */
  bool abandoned;           /* nobody waits for its end, */
  bool concluded;           /* or it has been told how it ended */
  pid_t unended;            /* a process of this host that was killed and is still there, or 0 */
} tool_launched;

/* Takes what there is of a stream of mpirun's; false at its end. What cannot be believed is refused, and said once. */
bool tool_hear(tool_launched *launched, tool_stream *stream);
/* What was kept is said after all. */
void tool_say_unsaid(tool_launched *launched);
/* The first error that was kept, without what it begins with; false: there is none. */
bool tool_unsaid_error(const tool_launched *launched, char *text_out, size_t size);
/* Adds a line to a text, as far as it fits. */
void tool_add_line(char *text, size_t size, const char *line);
/* The line that says why a rank could not be started, and where; NULL: that is not known. */
const char *tool_why_not_started(tool_launched *launched);

/* To be called often; never waits. Notes a host as silent that has not answered for --timeout before all ranks have joined. */
void tool_silent_look(tool_launched *launched);
void tool_silent_end(tool_launched *launched); /* of the processes that ask */
/* The launcher itself has found that the host of a daemon is silent. */
void tool_note_silent(tool_launched *launched, int daemon);

/* Another start of the same run, of which nothing has begun, with neither hosts nor ranks; NULL: no memory. */
tool_launched *tool_launch_fresh(const tool_launched *of);
/* Starts mpirun on `hosts` with n_ranks, and `words` as the command of the ranks. */
ronde_status tool_launch_begin(tool_launched *launched);
/* When all that it has started is gone: frees it. */
void tool_launch_end(tool_launched *launched);

/* Of both starts where another is prepared: takes what they say, or will within 0.1 s; false: nothing of this one came. */
bool tool_watch_take(tool_launched *launched);
/* To be called often: looks at mpirun and the ranks, passes requests on to them, and ends them where a limit is over. */
void tool_watch_look(tool_launched *launched);
bool tool_watch_has_gone(const tool_launched *launched, int *mpirun_state_out);
/* A rank did not reach another one, and nothing else explains why they have not joined. */
bool tool_watch_is_apart(const tool_launched *launched);
/* All are at it, and nothing is to end. */
bool tool_watch_is_steady(const tool_launched *launched);
/* Asks all ranks to save and end, for hosts that join. */
void tool_watch_ask(tool_launched *launched);
/* All that are there have saved their state for hosts that join, and said so: nothing of theirs is in the way of those that follow. */
bool tool_watch_have_saved(const tool_launched *launched);
/* The same behind a loss that the others have named. */
bool tool_watch_is_settled(const tool_launched *launched);
/* Tells how it ended: RONDE_E_CANCELLED with `joining`: its state is saved for who joins. mpirun_state: 0 before it has gone. */
ronde_status tool_watch_conclude(tool_launched *launched, int mpirun_state);
/* Ends it, whatever it does, waits for that, and says nothing of it. */
void tool_watch_abandon(tool_launched *launched);

/* Ranks whose mpirun was killed by that signal may still be saving: they have been asked to end by the system (hooks.c). Waits
 * for them. */
void tool_orphans_await(const tool_launched *launched, int signal_number);
/* Kills what there is. A process in a call of the system that nothing interrupts, as where a disk does not answer, ends with that
 * call; until then it may hold the run's folder: it is waited for, but where another start has begun, and `unended` if that takes too
 * long. */
void tool_orphans_kill(tool_launched *launched);

/* Prepares the next start of a run that is under way, with the hosts that would join. What keeps it from that is said. */
void tool_prepare_joining(tool_launched *launched);
/* The same for a loss, on the hosts that are known to be left: if that turns out to be what follows. */
void tool_prepare_restart(tool_launched *launched);
/* The prepared start has ended by itself: frees it, and says why somebody does not join. */
void tool_prepare_fail(tool_launched *launched);
/* Whether it is on the hosts that the run has now, with so many ranks. */
bool tool_prepare_fits(const tool_launched *launched, int n_ranks);
/* The run has saved its state for it: lets it begin. */
void tool_prepare_let_begin(tool_launched *launched);
/* The run has ended otherwise: ends it too, if there is one. */
void tool_prepare_end(tool_launched *launched);

/* Writes a mark on stderr, with the key of the environment; false: there is none. */
bool tool_mark_send(const tool_mark *mark);

/* Whether mpirun has started this process in the place of ssh; its work then, and its exit code. */
bool tool_is_agent(int argc, char **argv);
int tool_agent(int argc, char **argv);
/* On another host, whether this process is to become Open MPI's daemon; becomes it, or the exit code. */
bool tool_is_daemon(int argc, char **argv);
int tool_daemon(char **argv);
/* mpirun and its daemons would make of SIGTERM and SIGINT the end of all ranks, two seconds later: what this process becomes
 * leaves them pending, and its ranks, in which Open MPI lets them in again, save their state. */
void tool_leave_signals(void);

#endif
