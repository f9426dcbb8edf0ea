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
  for (size_t i = 0; i < RONDE__COUNT(models); i++)
    if (strcmp(models[i]->name, name) == 0) return models[i];
  return NULL;
}
