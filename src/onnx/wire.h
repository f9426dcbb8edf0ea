/* The bytes of an ONNX file, as protobuf-c's structs. */
#ifndef RONDE_ONNX_WIRE_H
#define RONDE_ONNX_WIRE_H

#include "base/base.h"

#include <onnx.pb-c.h>

/* RONDE_E_INPUT where the bytes are no such message, are nested too deeply, or would take far more memory than the file
 * has bytes. Nothing of the result points into data. Released by onnx__model_proto__free_unpacked. */
ronde_status ronde__onnx_unpack(const char *path, const void *data, size_t bytes, Onnx__ModelProto **model_out);

#endif
