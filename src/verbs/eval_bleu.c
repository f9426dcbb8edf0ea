/* An example's target stands behind the token with which all begin, up to the padding.
 * Legend: W places of either input. */
#include "verbs/eval_bleu.h"

#include "data/pairs.h"
#include "verbs/translator.h"

typedef struct bleu_run {
  const ronde__job *job;
  ronde__net *net;
  const ronde__evaluation *what;
  ronde__translator *translator;
  int64_t w, chunk;
  int64_t *ids, *labels; /* [chunk], [chunk][W] */
  int32_t *rows;         /* [chunk][2][W] */
  char *told, *wanted;   /* [W] */
  ronde__bleu sums;
} bleu_run;

static ronde_status bleu_predict(void *user, int64_t n, const int32_t *rows, float *y_out) {
  return ronde__net_predict(((bleu_run *)user)->net, n, (const float *)(const void *)rows, y_out);
}

static bool bleu_is_cancelled(void *user) {
  const ronde__evaluation *what = ((const bleu_run *)user)->what;
  return what->cancel && what->cancel(what->user);
}

static ronde_status bleu_open(bleu_run *r) {
  const ronde__translator_options options = {.job = r->job,
                                             .n_sources = r->chunk,
                                             .most = r->w - 1,
                                             .run = bleu_predict,
                                             .cancel = bleu_is_cancelled,
                                             .user = r};
  size_t n = (size_t)r->chunk, w = (size_t)r->w;
  RONDE__ALLOC(r->ids, n * sizeof *r->ids, "BLEU");
  RONDE__ALLOC(r->labels, n * w * sizeof *r->labels, "BLEU");
  RONDE__ALLOC(r->rows, n * 2 * w * sizeof *r->rows, "BLEU");
  RONDE__ALLOC(r->told, 2 * w, "BLEU");
  r->wanted = r->told + w;
  return ronde__translator_create(&options, &r->translator);
}

static void bleu_close(bleu_run *r) {
  ronde__translator_destroy(r->translator);
  ronde__free(r->ids);
  ronde__free(r->labels);
  ronde__free(r->rows);
  ronde__free(r->told);
}

static ronde_status bleu_count(bleu_run *r, int64_t i) {
  const int32_t *target = r->rows + (2 * i + 1) * r->w + 1;
  ronde__hypothesis best = ronde__translator_result(r->translator, i);
  int64_t n = 0;
  for (; n < r->w - 1 && target[n] != RONDE__PAIRS_PADDING; n++) r->wanted[n] = (char)target[n];
  for (int64_t k = 0; k < best.n; k++) r->told[k] = (char)best.tokens[k];
  return ronde__bleu_add(&r->sums, r->job->options->bleu, (ronde__bleu_text){r->told, best.n},
                         (ronde__bleu_text){r->wanted, n});
}

static ronde_status bleu_run_share(bleu_run *r) {
  const ronde__evaluation *what = r->what;
  int64_t end = ronde__shard_begin(what->n, what->rank + 1, what->n_workers);
  for (int64_t i = ronde__shard_begin(what->n, what->rank, what->n_workers), n; i < end; i += n) {
    n = ronde__min(r->chunk, end - i);
    for (int64_t j = 0; j < n; j++) r->ids[j] = what->ids ? what->ids[i + j] : i + j;
    RONDE_TRY(ronde__data_read(what->data, what->split, r->ids, n, (float *)(void *)r->rows, r->labels, NULL));
    RONDE_TRY(ronde__translator_run(r->translator, n, r->rows));
    for (int64_t j = 0; j < n; j++) RONDE_TRY(bleu_count(r, j));
  }
  return RONDE_OK;
}

ronde_status ronde__bleu_evaluate(const ronde__job *job, ronde__net *net, const ronde__evaluation *what,
                                  ronde__bleu *sums_out) {
  bleu_run r = {.job = job,
                .net = net,
                .what = what,
                .w = job->shape.dim[0],
                .chunk = ronde__max(1, what->chunk / job->options->beam)};
  ronde_status status = bleu_open(&r);
  if (status == RONDE_OK) status = bleu_run_share(&r);
  bleu_close(&r);
  if (status == RONDE_OK) *sums_out = r.sums;
  return status;
}

json_t *ronde__bleu_json(const ronde__job *job, const ronde__bleu *sums) {
  json_t *precisions = json_array();
  for (int n = 0; n < RONDE__BLEU_ORDERS; n++)
    json_array_append_new(precisions, json_real(ronde__bleu_precision(sums, n)));
  return json_pack("{s:f, s:f, s:s, s:I, s:o, s:f, s:I, s:I}", "score", ronde__bleu_score(sums), "exact",
                   ronde__bleu_exact(sums), "tokens", job->options->bleu == RONDE__BLEU_13A ? "13a" : "char", "beam",
                   (json_int_t)job->options->beam, "precisions", precisions, "brevity_penalty",
                   ronde__bleu_brevity(sums), "translation_tokens", (json_int_t)sums->n_told, "reference_tokens",
                   (json_int_t)sums->n_wanted);
}
