/* The all-reduce that the transport brings itself: MPI's. */
#include "comm/collective.h"

static const char *mpi_native_refuses(const ronde__transport *transport) {
  return transport->ops->allreduce ? NULL : "only --transport mpi has this collective";
}

static size_t mpi_native_scratch(const ronde__transport *transport, size_t n) { return 0; }

static ronde_status mpi_native_allreduce(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag,
                                         float *x, size_t n, float *scratch) {
  return transport->ops->allreduce(transport, x, n, transport->timeout_ns);
}

const ronde__allreduce ronde__allreduce_mpi = {"mpi", mpi_native_scratch, mpi_native_allreduce, mpi_native_refuses,
                                               NULL};
