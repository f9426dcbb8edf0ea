/* A sign of life between hosts, as it travels: what the ranks of one host are, in a datagram that only this job can have
 * made. All numbers are little endian:
 *   "RNDL", version u8, 3 zeros, sender u32, n u32, sequence u64, then n times { rank u32, state u8, activity u8, 2 zeros,
 *   step u64 }, then the first 16 bytes of HMAC-SHA-256 over what stands in front, by the job's key.
 * What is received is not trusted: whatever the bytes, a parse ends in one of the verdicts, and only
 * RONDE__LIFE_GOOD sets the message. */
#ifndef RONDE_LIFE_WIRE_H
#define RONDE_LIFE_WIRE_H

#include "base/base.h"
#include "comm/seal.h"
#include "comm/transport.h"

enum {
  RONDE__LIFE_KEY = 32,
  RONDE__LIFE_WORDS = 64, /* at most, in a datagram that fits one packet of Ethernet */
  RONDE__LIFE_HEAD = 24,
  RONDE__LIFE_WORD = 16,
  RONDE__LIFE_MAC = RONDE__SEAL_BYTES,
  RONDE__LIFE_BYTES = RONDE__LIFE_HEAD + RONDE__LIFE_WORDS * RONDE__LIFE_WORD + RONDE__LIFE_MAC
};

typedef enum ronde__life_state {
  RONDE__LIFE_LIVES,
  RONDE__LIFE_STOPPED, /* its process is there, but does not run */
  RONDE__LIFE_LEFT,    /* it has ended, and said so */
  RONDE__LIFE_GONE,    /* its process has ended without a word */
  RONDE__LIFE_SILENT,  /* its host is not heard any more. Not sent: nobody knows it of a neighbour */
  RONDE__N_LIFE_STATES
} ronde__life_state;

typedef struct ronde__life_word {
  int rank;
  ronde__life_state state;
  ronde__doing doing; /* last known */
} ronde__life_word;

typedef struct ronde__life_message {
  int sender;
  uint64_t sequence; /* grows with each message of a sender */
  int n;
  ronde__life_word words[RONDE__LIFE_WORDS];
} ronde__life_message;

typedef enum ronde__life_verdict {
  RONDE__LIFE_GOOD,
  RONDE__LIFE_FOREIGN,   /* not of this kind */
  RONDE__LIFE_VERSION,   /* of another version of Ronde */
  RONDE__LIFE_TRUNCATED, /* shorter or longer than it says */
  RONDE__LIFE_KEYLESS,   /* of another job, or changed on its way */
  RONDE__LIFE_NONSENSE,  /* ranks or states that there are not */
  RONDE__N_LIFE_VERDICTS
} ronde__life_verdict;

/* What is wrong with it, for a line: "it has another job's key". */
const char *ronde__life_verdict_text(ronde__life_verdict verdict);

/* data_out [RONDE__LIFE_BYTES]; the number of bytes, or 0 where libcrypto fails. */
size_t ronde__life_write(const ronde__life_message *message, const uint8_t key[RONDE__LIFE_KEY], uint8_t *data_out);
ronde__life_verdict ronde__life_read(const uint8_t *data, size_t bytes, const uint8_t key[RONDE__LIFE_KEY], int n_ranks,
                                     ronde__life_message *message_out);

#endif
