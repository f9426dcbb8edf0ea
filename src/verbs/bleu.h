/* BLEU of a corpus, with one reference for each translation, as sacrebleu counts it: how many of the n-grams of the
 * translations, of 1 to 4 tokens, stand in their references too, each as often as it does there at most. Nothing is smoothed,
 * so without a match of four tokens in the whole corpus it is 0. Counts add up, in whatever order.
 * Sources: Papineni, Roukos, Ward & Zhu, "BLEU: a method for automatic evaluation of machine translation", 2002; Post, "A call
 * for clarity in reporting BLEU scores", 2018, whose sacrebleu says what tokens are. */
#ifndef RONDE_BLEU_H
#define RONDE_BLEU_H

#include "config/config.h"

enum { RONDE__BLEU_ORDERS = 4 };

typedef struct ronde__bleu {
  int64_t n_texts, n_exact;                                   /* translations, and those that are their reference */
  int64_t n_told, n_wanted;                                   /* tokens of translations, and of references */
  int64_t matched[RONDE__BLEU_ORDERS], n[RONDE__BLEU_ORDERS]; /* n-grams of translations: found, and all */
} ronde__bleu;

/* A text, in UTF-8. A byte that is none counts as a character of its own. */
typedef struct ronde__bleu_text {
  const char *at;
  int64_t n;
} ronde__bleu_text;

/* Counts a translation and its reference. tokens: RONDE__BLEU_13A splits words and punctuation as mteval-v13a.pl does,
 * RONDE__BLEU_CHAR takes each character but blanks. */
ronde_status ronde__bleu_add(ronde__bleu *sums, int tokens, ronde__bleu_text told, ronde__bleu_text wanted);
void ronde__bleu_join(ronde__bleu *sums, const ronde__bleu *others);

/* Of n-grams of n + 1 tokens, in percent; 0 where there are none. */
double ronde__bleu_precision(const ronde__bleu *sums, int n);
/* What translations that are shorter than their references lose: a factor of at most 1. */
double ronde__bleu_brevity(const ronde__bleu *sums);
/* From 0 to 100. */
double ronde__bleu_score(const ronde__bleu *sums);
/* The share of translations that are their reference byte for byte, from 0 to 1; 0 where there are none. */
double ronde__bleu_exact(const ronde__bleu *sums);

#endif
