/* The limits of the command line, in one place; those of the library are in src/base/limits.h. The table in
 * docs/clusters.md has both, with what each is for. */
#ifndef TOOL_LIMITS_H
#define TOOL_LIMITS_H

enum {
  /* Signals that come closer together are one request: a batch system signals all processes of a job, and timeout(1) its
   * child and then the group of it. */
  TOOL_ONE_REQUEST_MS = 200,
  /* Beyond --grace, so that a rank that is not done by then ends by itself, and says so, before it is ended. */
  TOOL_GRACE_MARGIN_S = 5,
  /* Between the second request and the end by force. */
  TOOL_AT_ONCE_S = 2,
  /* For the others to end, and mpirun with them, once a rank has ended with an error. */
  TOOL_LAST_WORDS_S = 10,
  /* The same once the survivors have named all that have not ended: nobody else is waited for. */
  TOOL_NAMED_MS = 200,
  /* And for mpirun to end everything then: */
  TOOL_NAMED_ABORT_MS = 500,
  /* For mpirun to end everything after it was told to; what is left then is killed. What has been killed has at least so long. */
  TOOL_ABORT_S = 8,
  /* For all ranks to join by another way, once one has not reached another. */
  TOOL_APART_S = 3,
  /* How often it is looked whether the ranks of this host are still there. */
  TOOL_LOOK_S = 1,
  /* What mpirun needs to be allowed as a file, of its memory that ranks share. */
  TOOL_FILE_BYTES = 5 << 20,
  /* For a host to answer the doctor by ssh. */
  TOOL_REACH_S = 20,
  /* How many times --timeout every rank has to start, from the first ssh on; */
  TOOL_START_TIMES = 5,
  /* the last rank to end, after the first one has, */
  TOOL_END_TIMES = 60,
  /* and a host to answer, where a run is to be started again and too few are left. */
  TOOL_AWAY_TIMES = 5
};

#endif
