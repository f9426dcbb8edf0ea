/* Option text: a verb, then names and values in turn, each ending in a NUL; a byte above 127 stands for the name of an
 * option. As on a command line, the first that is refused ends it. What is accepted prints as text that is accepted
 * again and prints the same; the texts that are parsed further (data sets without files) are taken so far too. */
#include <stdlib.h>
#include <string.h>

#include "data/catalog.h"
#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
  if (!holds) abort();
}

static bool set_option(ronde_config *config, const char *verb, const char *name, const char *value) {
  ronde_option known;
  uint8_t first = (uint8_t)*name;
  if (first > 127 && ronde_config_option(verb, first - 128, &known)) name = known.name;
  if (ronde_config_set(config, name, value) != RONDE_OK) return false;
  char *text = strdup(ronde_config_get(config, name));
  require(ronde_config_set(config, name, text) == RONDE_OK);
  require(strcmp(ronde_config_get(config, name), text) == 0);
  free(text);
  return true;
}

static void find_set(const char *spec) {
  ronde__set set;
  if (!spec || strncmp(spec, "synthetic", 9) || ronde__set_find(spec, 1, &set) != RONDE_OK) return;
  for (int d = 0; d < 3; ++d) require(set.dims[d] >= 1 && set.dims[d] <= 1 << 15);
  require(set.classes >= 1 && set.classes <= RONDE__LABEL_MAX + 1 && set.n[0] >= 1 && set.n[1] >= 1);
  ronde__set_release(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const verbs[] = {"train", "eval", "predict", "init", "data"};
  static ronde_config *fresh[RONDE__COUNT(verbs)]; /* with defaults: what most of the time would go into */
  if (size < 2 || size > 512) return 0;
  char text[513];
  memcpy(text, data + 1, size - 1);
  text[size - 1] = '\0';
  ronde_config *config;
  size_t verb = data[0] % RONDE__COUNT(verbs);
  if (!fresh[verb]) require(ronde_config_create(verbs[verb], &fresh[verb]) == RONDE_OK);
  if (ronde__config_copy(fresh[verb], &config) != RONDE_OK) return 0;
  int n_set = 0;
  for (const char *name = text, *end = text + size; name < end;) {
    const char *value = name + strlen(name) + 1;
    if (value >= end) break;
    if (!set_option(config, verbs[verb], name, value)) break;
    n_set++;
    name = value + strlen(value) + 1;
  }
  find_set(ronde__config_options(config)->data);
  if (n_set > 0) {
    json_t *json = ronde__config_json(config), *given = ronde__config_given(config);
    require(json != NULL && given != NULL);
    json_decref(json);
    json_decref(given);
  }
  ronde_config_destroy(config);
  return 0;
}
