/* Values by chance, the same in every run. */
#ifndef RONDE_TEST_RANDOM_H
#define RONDE_TEST_RANDOM_H

#include <stdint.h>

extern uint32_t random_state; /* 1 at first; set it to draw the same again */

float random_float(void);        /* in [-1, 1) */
float *random_floats(int64_t n); /* to be freed */

#endif
