/* The folder of one start, in which mpirun keeps the files of its session. */
#ifndef TOOL_SESSION_H
#define TOOL_SESSION_H

#include <stdbool.h>

#define TOOL_JOINED_NAME "ronde-joined"

typedef struct tool_session {
  char path[256]; /* "": there is none, and mpirun takes its own place */
  int lock;       /* held by this process and by mpirun, as long as either lives */
} tool_session;   /* all 0: not begun */

/* Removes folders of this user whose launch and mpirun are gone, however they ended. */
void tool_session_sweep(void);
/* Makes one in $TMPDIR, else /tmp. */
void tool_session_begin(tool_session *session);
/* Notes in it that all ranks have joined, which processes that mpirun starts see by TOOL_JOINED_NAME in their $TMPDIR. */
void tool_session_note_joined(const tool_session *session);
/* In the process that becomes mpirun: from now on its temporary files go there. */
void tool_session_enter(const tool_session *session);
/* After mpirun has ended: removes it with all that is in it. */
void tool_session_end(tool_session *session);

#endif
