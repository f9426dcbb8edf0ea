/* A byte-pair vocabulary: the 256 bytes, and tokens that are made of two others by merges, in an order. A text is cut into words; within
 * a word the earliest merge that fits is done until none fits. Files are as GPT-2's merges.txt: a line for each merge with
 * its two tokens, a blank between them, in which a byte that is no visible character of Latin-1 is written as one from U+0100
 * on. Tokens are numbered as in GPT-2's vocab.json: visible bytes, the other bytes, then what merges make, each text once.
 * A word is a run of letters, of digits, or of other visible characters, with a blank in front of it where there is one, or a
 * run of white space. All bytes beyond ASCII are letters, and no word is longer than 256 bytes: this is GPT-2's rule without
 * Unicode's tables and without English contractions.
 * Sources: Sennrich, Haddow & Birch, "Neural machine translation of rare words with subword units", 2016; Radford et al.,
 * "Language models are unsupervised multitask learners", 2019 (bytes, and the file). */
#ifndef RONDE_BPE_H
#define RONDE_BPE_H

#include "data/stream.h"

enum { RONDE__BPE_BYTES = 256, RONDE__BPE_WORD = 256 };

typedef struct ronde__bpe ronde__bpe;

/* Reads a vocabulary. Errors: RONDE_E_INPUT with the line. */
ronde_status ronde__bpe_read(ronde__stream *stream, ronde__bpe **bpe_out);
/* Learns one of `size` tokens, or fewer where no pair is left that occurs twice: the pair that occurs most often is merged, of several
 * the one with the lowest numbers. Cost: for each merge, a pass over the pairs and the distinct words. */
ronde_status ronde__bpe_learn(const char *text, int64_t n, int64_t size, ronde__bpe **bpe_out);
void ronde__bpe_destroy(ronde__bpe *bpe); /* NULL is taken */

int64_t ronde__bpe_size(const ronde__bpe *bpe);
/* The bytes of a token. */
const char *ronde__bpe_token(const ronde__bpe *bpe, int64_t token, int64_t *n_out);
/* As a file has it, to be freed; NULL: no memory. */
char *ronde__bpe_text(const ronde__bpe *bpe);
/* tokens_out has room for n; how many there are. */
int64_t ronde__bpe_encode(const ronde__bpe *bpe, const char *text, int64_t n, int32_t *tokens_out);

/* ---- in making ---- */

/* Without merges. */
ronde_status ronde__bpe_create(ronde__bpe **bpe_out);
/* The bytes of the word with which a text begins. */
int64_t ronde__bpe_word(const char *text, int64_t n);
/* The token of a byte. */
int32_t ronde__bpe_byte(const ronde__bpe *bpe, char byte);
/* The token that two others make by a merge that there is; -1: by none. */
int32_t ronde__bpe_made(const ronde__bpe *bpe, int32_t left, int32_t right);
/* One more merge, and the token that it makes. Errors: RONDE_E_MEMORY; RONDE_E_INPUT, for the reason *why_out, of which no
 * line is logged. */
ronde_status ronde__bpe_merge(ronde__bpe *bpe, int32_t left, int32_t right, int32_t *made_out, const char **why_out);

#endif
