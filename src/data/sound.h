/* Recorded sound: the samples of a WAV file, its channels averaged, at one rate. */
#ifndef RONDE_SOUND_H
#define RONDE_SOUND_H

#include "base/base.h"

#define RONDE__SOUND_RATE 16000 /* samples a second */

/* Whether this build reads WAV files. */
bool ronde__sound_supported(void);
/* name: for error lines. Errors of both: RONDE_E_INPUT, RONDE_E_USAGE where this build cannot read them.
 * How many samples ronde__sound_read gives, from the header, whose claims are checked against the bytes. */
ronde_status ronde__sound_length(const char *name, const void *data, size_t bytes, int64_t *n_out);
/* The samples, in -1..1 where the file holds integers, owned by the caller (ronde__free). */
ronde_status ronde__sound_read(const char *name, const void *data, size_t bytes, int64_t *n_out, float **samples_out);
/* A whole WAV file of at most 256 MiB, owned by the caller (ronde__free). */
ronde_status ronde__sound_load(const char *path, uint8_t **data_out, size_t *bytes_out);

#endif
