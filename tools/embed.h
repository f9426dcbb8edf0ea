/* Files that the program carries inside. */
#ifndef TOOL_EMBED_H
#define TOOL_EMBED_H

#include <stdbool.h>
#include <stddef.h>

/* The file of this path in the source tree; its text lives as long as the program. bytes: without the zero behind it. */
bool tool_embedded(const char *path, const char **text_out, size_t *bytes_out);

#endif
