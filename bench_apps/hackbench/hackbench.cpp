// Directs a run of the roles (roles.h) over the transport that was asked for, and makes the result of it.
#include "bench_apps/hackbench/hackbench.h"

#include <fmt/format.h>

#include "bench_apps/common/byte_channel.h"
#include "bench_apps/common/dispatch.h"
#include "bench_apps/hackbench/options.h"
#include "bench_apps/hackbench/report.h"
#include "bench_apps/hackbench/roles.h"

namespace heddle::bench {
namespace {

using namespace hackbench;

// As the original: from the moment all may run until the last one has been joined.
template <backend B, class Channel>
void direct(B& b, scenario<B, Channel>& roles, totals& all) {
  const nanos made = b.now();
  roles.assemble();
  const nanos began = b.now();
  roles.begin();
  roles.finish();
  const nanos ended = b.now();
  all.cut_short = stop_requested();
  roles.dismantle();
  all.creation = began - made;
  all.run = ended - began;
  all.teardown = b.now() - ended;
}

template <class Channel, backend B>
run_result run_over(B& b, const hackbench_options& options, bool on_host,
                    const typename scenario<B, Channel>::channel_maker& make) {
  scenario<B, Channel> roles(b, options, on_host, make);
  totals all;
  b.run([&] { direct(b, roles, all); });
  for (const auto& r : roles.senders()) all.add_sender(r);
  for (const auto& r : roles.receivers()) all.add_receiver(r);
  run_result result = make_result(options, all);
  b.describe(result);
  check_result(options, all, result);
  return result;
}

template <backend B>
run_result run_on(B& b, const hackbench_options& options, bool on_host) {
  if (options.chan())
    return run_over<byte_channel<B>>(b, options, on_host, [&] {
      return std::make_unique<byte_channel<B>>(b, static_cast<size_t>(options.capacity_bytes));
    });
  const auto kind = options.transport == "pipe" ? descriptor_kind::pipe : descriptor_kind::socket;
  need_descriptors(2 * options.groups * options.fan, "-g");
  return run_over<descriptor_channel<B>>(b, options, on_host,
                                         [&] { return std::make_unique<descriptor_channel<B>>(kind); });
}

class hackbench_program final : public app {
 public:
  void declare(arguments& args) override { options_.declare(args); }
  void check() override { options_.check(); }
  void check_request(const run_request& request) const override {
    if (!request.on_host() && !options_.chan())
      throw usage_error(fmt::format("--transport: '{}' is not chan, all that runs on a virtual machine ({})",
                                    options_.transport, request.machine));
    if (request.warmup.count() > 0)
      throw usage_error("--warmup: hackbench has none, it times a fixed number of messages from the first to the last");
  }
  ordered_json options() const override { return options_.json(); }
  nanos run_length() const override { return nanos{0}; }
  run_result run(const run_request& request) override {
    check_request(request);
    return on_backend(request, [&](auto& b) { return run_on(b, options_, request.on_host()); });
  }
  std::string original(const run_result& result) const override { return original_layout(options_, result); }
  std::string_view primary_metric() const override { return "time_s"; }

 private:
  hackbench_options options_;
};

}  // namespace

std::unique_ptr<app> make_hackbench() { return std::make_unique<hackbench_program>(); }

}  // namespace heddle::bench
