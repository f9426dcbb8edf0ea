/* Marks: lines of stderr by which ranks, and what takes the place of ssh, tell the launcher how it stands. They go over mpirun's
 * connections, so each carries the seal of the launch (ronde_seal): only this job's can be believed. On one line:
 *   0x1e "ronde-" VERSION " " SEAL " " KIND " " NUMBER " " A " " B " " NAME [" " TEXT]
 * The seal is on what stands behind it. What is read is not trusted: whatever the line, it ends in one of the verdicts, and
 * only TOOL_MARK_GOOD sets the mark. */
#ifndef TOOL_MARK_H
#define TOOL_MARK_H

#include <stdbool.h>
#include <stddef.h>

#define TOOL_MARK "\x1eronde-"
#define TOOL_MARKS "3" /* the version of them */
/* In the environment of mpirun and of all that it starts: the key of the launch, in hexadecimal. */
#define TOOL_LAUNCHED "RONDE_LAUNCHED"

enum { TOOL_KEY_DIGITS = 64, TOOL_MARK_BYTES = 1024, TOOL_MARK_NAME = 256 };

typedef enum tool_mark_kind {
  TOOL_MARK_BEGIN,   /* of rank `number`: a is its process, name its host */
  TOOL_MARK_JOINED,  /* all ranks have, */
  TOOL_MARK_READY,   /* and, of a start that was prepared, wait until it may begin */
  TOOL_MARK_TRAINS,  /* the first step has begun */
  TOOL_MARK_LOST,    /* another was lost; a: the step that the run had gone on from, b: the last that has ended here */
  TOOL_MARK_WITHOUT, /* the others go on without rank `number` */
  TOOL_MARK_END,     /* of rank `number`, with code a */
  TOOL_MARK_ASKED,   /* host `name` is asked to start daemon `number`, */
  TOOL_MARK_SAID,    /* says `text` meanwhile, */
  TOOL_MARK_UNREACHED, /* and it has come to nothing, for the reason `text` */
  TOOL_N_MARKS
} tool_mark_kind;

typedef struct tool_mark {
  tool_mark_kind kind;
  int number; /* from 0 */
  long long a, b;
  char name[TOOL_MARK_NAME], text[512];
} tool_mark;

typedef enum tool_verdict {
  TOOL_MARK_GOOD,
  TOOL_MARK_VERSION,   /* of another version of Ronde */
  TOOL_MARK_TRUNCATED, /* shorter than a mark is */
  TOOL_MARK_KEYLESS,   /* of another launch, or changed on its way */
  TOOL_MARK_NONSENSE,  /* no mark, although it has this launch's seal */
  TOOL_N_VERDICTS
} tool_verdict;

/* What is wrong with it, for a line. */
const char *tool_verdict_text(tool_verdict verdict);
/* The line, without its end; an empty name is written as "-", and control characters as blanks. False: it does not fit, or
 * libcrypto fails. */
bool tool_mark_write(const char *key, const tool_mark *mark, char line_out[TOOL_MARK_BYTES]);
/* text: what stands behind TOOL_MARK. */
tool_verdict tool_mark_read(const char *key, const char *text, tool_mark *mark_out);

/* The one line that the launcher tells a rank, by mpirun's connections too: that a start which was prepared begins, and what
 * run.json's `restarts` is to be: SEAL " begin " RESTARTS. Without its end, to be freed; NULL: no memory, or libcrypto fails. */
char *tool_begin_write(const char *key, const char *restarts);
/* The restarts, within the line; NULL: it is not such a line, or not of this launch. */
const char *tool_begin_read(const char *key, const char *line);

#endif
