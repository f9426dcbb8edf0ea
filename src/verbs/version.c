/* ronde_version_json: the version, what was built in, and what this machine makes of it. */
#include "base/json.h"
#include "kernel/bf16.h"

static json_t *build_features(void) {
  bool xsmm = false, png = false, jpeg = false, curl = false, mpi = false, onnx = false, audio = false;
#ifdef RONDE_HAVE_XSMM
  xsmm = true;
#endif
#ifdef RONDE_HAVE_PNG
  png = true;
#endif
#ifdef RONDE_HAVE_JPEG
  jpeg = true;
#endif
#ifdef RONDE_HAVE_AUDIO
  audio = true;
#endif
#ifdef RONDE_HAVE_CURL
  curl = true;
#endif
#ifdef RONDE_HAVE_MPI
  mpi = true;
#endif
#ifdef RONDE_HAVE_ONNX
  onnx = true;
#endif
  return json_pack("{s:b, s:b, s:b, s:b, s:b, s:b, s:b}", "libxsmm", xsmm, "png", png, "curl", curl, "jpeg", jpeg,
                   "mpi", mpi, "onnx", onnx, "audio", audio);
}

ronde_status ronde_version_json(char **json_out) {
  const ronde__kernels *kernels;
  ronde__gemm_impl gemm;
  RONDE_TRY(ronde__kernels_get(&kernels));
  RONDE_TRY(ronde__gemm_default(kernels, &gemm));
  json_t *isas = json_array(), *gemms = json_array();
  for (int i = 0; ronde__kernels_available(i); i++)
    json_array_append_new(isas, json_string(ronde__kernels_available(i)->isa));
  if (gemm == RONDE__GEMM_XSMM) json_array_append_new(gemms, json_string("xsmm"));
  json_array_append_new(gemms, json_string("tile"));
  json_t *bf16s = json_array();
  for (int i = 0; ronde__bf16_available(i); i++)
    json_array_append_new(bf16s, json_string(ronde__bf16_available(i)->name));
  json_t *version = json_pack("{s:s, s:s, s:o, s:s, s:o, s:o, s:s, s:o}", "version", ronde_version(), "git",
                              ronde__git(), "features", build_features(), "isa", kernels->isa, "isas", isas, "gemm",
                              gemms, "bf16", ronde__bf16_name(ronde__bf16_get(kernels)), "bf16s", bf16s);
  return ronde__json_give(version, "version", json_out);
}
