#include "bench_apps/hackbench/options.h"

#include <fmt/format.h>

#include <climits>

#include "bench_apps/common/errors.h"

namespace heddle::bench {

void hackbench_options::declare(arguments& args) {
  args.group("hackbench");
  args.count("-g,--groups", groups, tasks, "groups");
  args.count("-f,--fds", fan, {1, 100'000}, "senders of a group, and as many receivers with a channel each");
  args.count("-l,--loops", rounds, loops, "messages from each sender to each receiver");
  args.size("-s,--datasize", message_bytes, {1, 1 << 24}, "bytes of a message");
  args.choice("--transport", transport, {"chan", "pipe", "socket"},
              "chan: queues inside the process, any machine; pipe, socket: descriptors, on the host");
  args.flag("-p,--pipe", pipe_flag, "as --transport pipe");
  args.size("--capacity", capacity_bytes, {1, 1 << 30}, "chan: bytes that a channel holds before its writers wait");
  args.flag("--no-stamps", no_stamps, "read no clock per message: no latency, and some 45 ns less");
  args.flag("-T,--threads", threads_flag, "accepted: tasks are never processes here; --backend says what they are");
}

void hackbench_options::check() {
  if (pipe_flag) transport = "pipe";
  if (task_count() > tasks.max)
    throw usage_error(fmt::format("-g: '{}' is not a number of groups that times 2 x {} tasks (-f) stays within {}",
                                  groups, fan, tasks.max));
  if (chan() && message_bytes > capacity_bytes)
    throw usage_error(fmt::format("-s: '{}' is not a message that fits a channel of {} bytes (--capacity)",
                                  message_bytes, capacity_bytes));
}

bool hackbench_options::tagged() const {
  return message_bytes >= static_cast<int64_t>(sizeof(uint64_t)) && (chan() || message_bytes <= PIPE_BUF);
}

nlohmann::ordered_json hackbench_options::json() const {
  nlohmann::ordered_json out = {
      {"-g", groups}, {"-f", fan}, {"-l", rounds}, {"-s", message_bytes}, {"--transport", transport}};
  if (chan()) out["--capacity"] = capacity_bytes;
  if (no_stamps) out["--no-stamps"] = true;
  return out;
}

}  // namespace heddle::bench
