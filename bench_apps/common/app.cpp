#include "bench_apps/common/app.h"

namespace heddle::bench {

std::string_view name_of(backend_kind backend) { return backend == backend_kind::fibers ? "fibers" : "threads"; }

}  // namespace heddle::bench
