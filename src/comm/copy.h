/* Copying for another core to read. */
#ifndef RONDE_COPY_H
#define RONDE_COPY_H

#include <stddef.h>

/* As memcpy, and long copies past the caches: the lines of `to` often lie in another core's cache, and fetching each
 * before it is written costs more than the copy. Complete for any thread that synchronises with the caller
 * afterwards. */
void ronde__copy_past_cache(void *to, const void *from, size_t bytes);

#endif
