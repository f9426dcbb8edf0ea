/* Values by chance, the same in every run. */
#ifndef RONDE_TEST_RANDOM_H
#define RONDE_TEST_RANDOM_H

#include <stdint.h>

extern uint32_t random_state; /* 1 at first; set it to draw the same again */
extern int random_bits;       /* of a value; 24 at first. With 8 they are numbers of bfloat16 */

float random_float(void);        /* in [-1, 1) */
float *random_floats(int64_t n); /* to be freed */

#endif
