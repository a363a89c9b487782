// The two roles of hackbench as a template over a backend and a kind of channel.
//
// H1  Every receiver owns one channel; all senders of its group write to it. A sender's round is one message to each
//     receiver of the group, in order; nobody answers.
// H2  The last sender of a group to leave closes the group's channels. A receiver leaves when it has all its messages, or
//     earlier at the end of its channel: senders leave early when the run is interrupted or a channel failed.
// H3  Where a message is sure to arrive in one piece its first 8 bytes are a tag: the sender's clock before the write, or a
//     running number. Both ends add up the tags, and the sums must agree.
// H4  On a virtual machine only what is said to take time does: a write and a read burn call_cost there, beside the
//     distances of the memory they touch.
// H5  Records are private to a role until it has been joined.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench_apps/common/backend.h"
#include "bench_apps/common/descriptor_channel.h"
#include "bench_apps/common/errors.h"
#include "bench_apps/common/histogram.h"
#include "bench_apps/common/interrupt.h"
#include "bench_apps/common/start_gate.h"
#include "bench_apps/hackbench/options.h"
#include "runtime/base/atomic.h"

namespace heddle::bench::hackbench {

// What either end of a message in a chan costs on the host, clock read included (cpu_us/op is that of both ends).
inline constexpr nanos call_cost{150};

struct alignas(core::cache_line) role_records {
  int64_t messages = 0;
  int64_t blocked = 0;            // sender: writes that had to wait for room
  int64_t short_reads = 0;        // receiver: reads that brought less than the rest of a message
  int64_t torn_bytes = 0;         // receiver: of a message whose rest never came
  uint64_t tags = 0;              // H3
  histogram latency;              // receiver: tag to arrival
  std::map<int, int64_t> by_cpu;  // receiver: messages by the CPU they were read on
  nanos ended{0};
  std::string error;
};

template <backend B, class Channel>
class scenario {
 public:
  using channel_maker = std::function<std::unique_ptr<Channel>()>;

  scenario(B& on, const hackbench_options& options, bool on_host, const channel_maker& make)
      : b_(on),
        o_(options),
        on_host_(on_host),
        gate_(options.task_count()),
        senders_(static_cast<size_t>(options.groups * options.fan)),
        receivers_(senders_.size()) {
    for (int64_t g = 0; g < options.groups; g++) groups_.emplace_back(options.fan, make);
  }

  // The directing role: makes everybody, and returns when all are ready.
  void assemble() {
    try {
      for (size_t g = 0; g < groups_.size(); g++) {
        for (size_t i = 0; i < fan(); i++)
          roles_.push_back(b_.spawn(fmt::format("receiver{}", g * fan() + i), [this, g, i] { receiver_role(g, i); }));
        for (size_t i = 0; i < fan(); i++)
          roles_.push_back(b_.spawn(fmt::format("sender{}", g * fan() + i), [this, g, i] { sender_role(g, i); }));
      }
    } catch (...) {
      gate_.call_off();
      finish();
      throw;
    }
    gate_.await_all();
  }
  void begin() { gate_.open(); }
  void finish() {
    for (auto& role : roles_) role.join();
  }
  void dismantle() {
    roles_.clear();
    groups_.clear();
  }

  const std::vector<role_records>& senders() const { return senders_; }
  const std::vector<role_records>& receivers() const { return receivers_; }

 private:
  struct group {
    group(int64_t fan, const channel_maker& make) : senders_left(fan) {
      for (int64_t i = 0; i < fan; i++) channels.push_back(make());
    }
    std::vector<std::unique_ptr<Channel>> channels;  // by receiver
    core::atomic<int64_t> senders_left;
  };

  size_t fan() const { return static_cast<size_t>(o_.fan); }

  void sender_role(size_t g, size_t index) {
    if (B::kind == backend_kind::threads) ignore_broken_pipe();
    role_records& me = senders_[g * fan() + index];
    std::vector<char> message(static_cast<size_t>(o_.message_bytes), 'x');
    if (!gate_.arrive()) return;
    try {
      for (int64_t round = 0; round < o_.rounds && !stop_requested(); round++)
        for (auto& channel : groups_[g].channels) send(me, *channel, message);
    } catch (const run_error& e) {
      me.error = e.what();
    }
    if (groups_[g].senders_left.fetch_sub(1) == 1)  // H2
      for (auto& channel : groups_[g].channels) channel->close_writing();
    me.ended = b_.now();
  }

  void send(role_records& me, Channel& channel, std::vector<char>& message) {
    if (o_.tagged()) {
      const auto tag = o_.stamped() ? static_cast<uint64_t>(b_.now().count()) : static_cast<uint64_t>(me.messages + 1);
      std::memcpy(message.data(), &tag, sizeof tag);
      me.tags += tag;
    }
    take_time();
    if (channel.write(message)) me.blocked++;
    me.messages++;
  }

  void receiver_role(size_t g, size_t index) {
    role_records& me = receivers_[g * fan() + index];
    Channel& channel = *groups_[g].channels[index];
    std::vector<char> message(static_cast<size_t>(o_.message_bytes));
    if (!gate_.arrive()) return;
    try {
      while (me.messages < o_.messages_per_receiver() && receive(me, channel, message)) note(me, message);
    } catch (const run_error& e) {
      me.error = e.what();
      if constexpr (requires { channel.close_reading(); }) channel.close_reading();
    }
    me.ended = b_.now();
  }

  // False: the end, with or without the beginning of a message before it.
  bool receive(role_records& me, Channel& channel, std::span<char> message) {
    for (size_t got = 0; got < message.size();) {
      const size_t count = channel.read(message.subspan(got));
      take_time();
      if (count == 0) {
        me.torn_bytes += static_cast<int64_t>(got);
        return false;
      }
      got += count;
      if (got < message.size()) me.short_reads++;
    }
    return true;
  }

  void take_time() {
    if (!on_host_) b_.burn(call_cost);
  }

  void note(role_records& me, const std::vector<char>& message) {
    me.messages++;
    me.by_cpu[b_.cpu()]++;
    if (!o_.tagged()) return;
    uint64_t tag = 0;
    std::memcpy(&tag, message.data(), sizeof tag);
    me.tags += tag;
    if (o_.stamped()) me.latency.record(b_.now() - nanos{static_cast<int64_t>(tag)});
  }

  B& b_;
  const hackbench_options& o_;
  const bool on_host_;
  start_gate<B> gate_;
  std::deque<group> groups_;
  std::vector<role_records> senders_, receivers_;
  std::vector<typename B::role> roles_;
};

}  // namespace heddle::bench::hackbench
