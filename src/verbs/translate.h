/* A text that a network translates. */
#ifndef RONDE_TRANSLATE_H
#define RONDE_TRANSLATE_H

#include "setup/setup.h"

/* ronde_predict of a job whose network reads tokens of a source and of its translation so far. The hook is told the tokens
 * of the translation behind a first one, with which all begin. json_out NULL: only the hook is told. */
ronde_status ronde__text_translate(ronde__job *job, char **json_out);

#endif
