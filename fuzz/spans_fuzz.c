/* Files of --record-spans. What is taken has names and times within bounds. */
#include <stdlib.h>

#include "job/spans_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void silent(void *user, ronde_log_level level, const char *line) {}

static void require(bool holds) {
  if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint64_t most = 1000000000000000u;
  ronde__spans *spans;
  ronde_log_set(silent, NULL);
  if (ronde__spans_parse("spans", (const char *)data, size, &spans) != RONDE_OK) return 0;
  require(spans->model && spans->examples > 0 && spans->threads > 0 && spans->n_params > 0);
  require(spans->load_ns <= most && spans->forward_ns <= most && spans->backward_ns <= most);
  for (int i = 0; i < spans->n_params; i++)
    require(spans->params[i].name && spans->params[i].elems > 0 && spans->params[i].ready_ns <= most);
  require(ronde__spans_scale(spans, spans->forward_ns, spans->examples, 1) == spans->forward_ns);
  ronde__spans_destroy(spans);
  return 0;
}
