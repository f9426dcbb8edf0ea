/* The list of built-in networks, by name and by number. */
#include "models/models.h"

#include <string.h>

#define RONDE_MODEL(name) extern const ronde__model ronde__model_##name;
#include "models/models.inc"
#undef RONDE_MODEL

static const ronde__model *const models[] = {
#define RONDE_MODEL(name) &ronde__model_##name,
#include "models/models.inc"
#undef RONDE_MODEL
};

const ronde__model *ronde__model_at(int i) { return i >= 0 && (size_t)i < RONDE__COUNT(models) ? models[i] : NULL; }

const ronde__model *ronde__model_find(const char *name) {
  size_t n = strcspn(name, ":");
  for (size_t i = 0; i < RONDE__COUNT(models); i++) {
    const ronde__model *model = models[i];
    if (strlen(model->name) == n && !strncmp(model->name, name, n) && (!name[n] || model->has_sizes)) return model;
  }
  return NULL;
}

const char *ronde__model_sizes(const char *name) {
  const char *colon = strchr(name, ':');
  return colon ? colon + 1 : NULL;
}
