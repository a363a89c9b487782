// An app as a command: parses its options, runs every case as often as asked, prints and writes what came out.
#pragma once

#include "bench_apps/common/command.h"
#include "bench_apps/common/common_options.h"

namespace heddle::bench {

int run_app(const app_kind& kind, const invocation& typed);

// The request of run number `index`; for compare, which makes its own plan of runs.
run_request make_request(const common_options& options, backend_kind backend, const calibration* work, int64_t index);

// What exit status a document ends with: 0, 1 for a failed run, 128 + signal for an interrupted one.
int status_of(const result_document& document);

}  // namespace heddle::bench
