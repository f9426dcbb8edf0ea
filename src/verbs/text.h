/* A text that a network continues, token by token. */
#ifndef RONDE_TEXT_H
#define RONDE_TEXT_H

#include "setup/setup.h"

/* ronde_predict of a job whose network reads tokens. json_out NULL: only the hook is told. */
ronde_status ronde__text_continue(ronde__job *job, char **json_out);

#endif
