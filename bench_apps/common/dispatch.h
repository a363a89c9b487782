// Makes the backend a run asks for and hands it to the app.
#pragma once

#include "bench_apps/common/fiber_backend.h"
#include "bench_apps/common/thread_backend.h"

namespace heddle::bench {

// `run` is generic in the backend: one template, two instances.
template <class F>
run_result on_backend(const run_request& request, F&& run) {
  if (request.backend == backend_kind::threads) {
    thread_backend threads(request);
    return run(threads);
  }
  fiber_backend fibers(request);
  return run(fibers);
}

}  // namespace heddle::bench
