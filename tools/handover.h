/* What the ranks of a launched run are told, so that none asks the environment of its own host. */
#ifndef TOOL_HANDOVER_H
#define TOOL_HANDOVER_H

#include "common.h"

/* The command of the ranks: the user's words, and in front of them, behind the verb, each option that was set by other
 * means (the environment, the checkpoint that --resume names). Ends with NULL. */
ronde_status tool_rank_words(const tool_call *call, char ***words_out);
void tool_rank_words_free(char **words); /* NULL is taken */

#endif
