// Makes the backend a run asks for and hands it to the app.
#pragma once

#include "bench_apps/common/thread_backend.h"

namespace heddle::bench {

template <class F>
run_result on_backend(const run_request& request, F&& run) {
  thread_backend threads(request);
  return run(threads);
}

}  // namespace heddle::bench
