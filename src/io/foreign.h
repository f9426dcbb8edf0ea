/* Weights in the files of other systems. */
#ifndef RONDE_FOREIGN_H
#define RONDE_FOREIGN_H

#include "base/base.h"

typedef enum ronde__foreign {
  RONDE__FOREIGN_NONE,
  RONDE__FOREIGN_PYTORCH,
  RONDE__FOREIGN_KERAS,
  RONDE__FOREIGN_ONNX,
  RONDE__FOREIGN_NPZ,
  RONDE__FOREIGN_NPY,
  RONDE__FOREIGN_GGUF,
  RONDE__FOREIGN_ZIP
} ronde__foreign;

/* The kind of a file that is not safetensors, by its first bytes. Do not ask for safetensors files, some of which
 * might begin like that. */
ronde__foreign ronde__foreign_kind(const void *data, size_t bytes);
/* RONDE_E_INPUT, logging in one line what the file is and how to convert it. */
ronde_status ronde__foreign_fail(const char *path, ronde__foreign kind);

#endif
