/* Recordings of speech as a network reads them: for audio:DIR and for predict. */
#ifndef RONDE_AUDIO_H
#define RONDE_AUDIO_H

#include "data/log_mel.h"
#include "data/set.h"

#define RONDE__BLANK_NAME "<blank>" /* of class 0, which stands for no character */

/* The recordings and the characters below DIR. */
ronde_status ronde__audio_find(const char *dir, ronde__set *set);
/* The features of a WAV file, x [RONDE__MEL_BANDS][stride], of which the first frames are written. More frames than that are
 * counted, and nothing is written. */
ronde_status ronde__audio_features(ronde__log_mel *mel, const char *path, int64_t stride, float *x,
                                   int64_t *frames_out);

#endif
