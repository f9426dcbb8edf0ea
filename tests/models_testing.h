/* What tests of all built-in networks share. */
#ifndef MODELS_TESTING_H
#define MODELS_TESTING_H

#include <stdio.h>

#include "models/models.h"

/* NAME-tiny: what the large network of that NAME does, in sizes that tests can run; NULL: it has none. */
static inline const ronde__model *tiny_form_of(const ronde__model *model) {
  char name[64];
  snprintf(name, sizeof name, "%s-tiny", model->name);
  return ronde__model_find(name);
}

#endif
