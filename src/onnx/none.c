/* In place of all other files of this area where libprotobuf-c was not there. */
#include "onnx/onnx.h"

static ronde_status refuse(const char *path) {
  return ronde__fail(RONDE_E_USAGE, "%s: this build neither reads nor writes ONNX (no libprotobuf-c)",
                     RONDE__SHOWN(path));
}

bool ronde__onnx_supported(void) { return false; }

ronde_status ronde__onnx_open(const char *path, ronde__onnx **file_out) { return refuse(path); }
ronde_status ronde__onnx_parse(const char *name, const char *folder, const void *data, size_t bytes,
                               ronde__onnx **file_out) {
  return refuse(name);
}
ronde_status ronde__onnx_parse_case(const char *name, const void *data, size_t bytes, bool has_batch,
                                    ronde__onnx **file_out) {
  return refuse(name);
}
void ronde__onnx_close(ronde__onnx *file) {}
bool ronde__onnx_is_open(const ronde__onnx *file) { return false; }
ronde_status ronde__onnx_bind(ronde__onnx *file, const ronde__shape *inputs, int n) { return RONDE_E_USAGE; }
const char *ronde__onnx_open_dim(const ronde__onnx *file, int i, int d) { return NULL; }

const char *ronde__onnx_sha256(const ronde__onnx *file) { return ""; }
const ronde__shape *ronde__onnx_shape(const ronde__onnx *file) { return NULL; }
int64_t ronde__onnx_outputs(const ronde__onnx *file) { return 0; }
int ronde__onnx_n_inputs(const ronde__onnx *file) { return 0; }
const char *ronde__onnx_input_at(const ronde__onnx *file, int i, ronde__shape *shape_out, int64_t *vocabulary_out) {
  return "";
}
ronde_tensor *ronde__onnx_add_inputs(const ronde__onnx *file, ronde_graph *graph) { return NULL; }
const char *ronde__onnx_about(const ronde__onnx *file) { return ""; }
ronde_status ronde__onnx_check_training(const ronde__onnx *file) { return RONDE_OK; }

ronde_tensor *ronde__onnx_build(const ronde__onnx *file, ronde_graph *graph, ronde_tensor *x, int64_t outputs,
                                ronde__onnx_end end) {
  return NULL;
}
ronde_status ronde__onnx_weights(const ronde__onnx *file, ronde__safetensors **weights_out) { return RONDE_E_USAGE; }
ronde_status ronde__onnx_write(const ronde__net *net, const char *path, const ronde__file_meta *meta, int n_meta) {
  return refuse(path);
}
