// Where a user does its jobs: itself, a partner (the second task that IPC jobs talk to, so that they really wait), and files.
// A template over a backend; on a virtual machine compute jobs and file operations take the time they are said to cost,
// pipes and sockets are the in-process queue, and all the rest is the same.
#pragma once

#include <cmath>
#include <functional>
#include <span>
#include <string>

#include "bench_apps/aim7/files.h"
#include "bench_apps/aim7/jobs.h"
#include "bench_apps/aim7/kernels.h"
#include "bench_apps/aim7/options.h"
#include "bench_apps/common/backend.h"
#include "bench_apps/common/byte_channel.h"
#include "bench_apps/common/descriptor_channel.h"
#include "bench_apps/common/errors.h"

namespace heddle::bench::aim7 {

// A task that does what it is given at the same time as whoever gave it.
template <backend B>
class partner {
 public:
  void serve() {  // the task's body
    if (B::kind == backend_kind::threads) ignore_broken_pipe();
    for (;;) {
      wanted_.wait();
      if (!part_) return;
      try {
        part_();
      } catch (const run_error& e) {
        error_ = e.what();
      }
      done_.post();
    }
  }
  void dismiss() {
    part_ = nullptr;
    wanted_.post();
  }
  // Both parts at once; `give_up` is called when the own one failed, and must make the other end.
  template <class Own, class GiveUp>
  void together(std::function<void()> part, Own&& own, GiveUp&& give_up) {
    part_ = std::move(part);
    wanted_.post();
    try {
      own();
    } catch (const run_error&) {
      give_up();
      done_.wait();
      throw;
    }
    done_.wait();
    if (!error_.empty()) throw run_error(error_);
  }

 private:
  typename B::word wanted_, done_;  // order part_ and error_ between the two tasks
  std::function<void()> part_;
  std::string error_;
};

template <backend B>
class user_room {
 public:
  user_room(B& b, const aim7_options& options, bool on_host, const std::string& file_prefix, int64_t file_bytes)
      : b_(b),
        o_(options),
        on_host_(on_host),
        there_(b, queue_bytes),
        back_(b, queue_bytes),
        files_(calls(b, on_host), file_prefix, file_bytes) {}

  partner<B>& other() { return partner_; }
  user_files& files() { return files_; }
  int64_t burnt_ns() const { return burnt_ns_; }  // by compute jobs where time passes without work

  // Does all of the job and says by a digest that it was all: equal for every user of a run.
  uint64_t run(job what) {
    const job_kind& kind = kind_of(what);
    const uint64_t times = static_cast<uint64_t>(std::max(1.0, std::round(static_cast<double>(kind.times) * o_.size)));
    if (computes(kind.in) && !on_host_) return pass_time(times * kind.cpu_ns), times;
    switch (kind.in) {
      case family::arithmetic:
      case family::numeric:
      case family::memory:
        return compute(what, times);
      case family::ipc:
        return talk(what, times);
      case family::process:
        return make_tasks(times);
      case family::sleep:
        b_.sleep_for(o_.sleep_job);
        return 1;
      default:
        return use_files(what, times);
    }
  }

 private:
  static constexpr size_t message_bytes = 512, queue_bytes = 4096;
  static constexpr int64_t sync_every = 64 << 10;

  static std::unique_ptr<file_calls> calls(B& b, bool on_host) {
    if (!on_host) return std::make_unique<modelled_files<B>>(b);
    return B::kind == backend_kind::threads ? plain_files() : fiber_files();
  }

  void pass_time(uint64_t ns) {
    burnt_ns_ += static_cast<int64_t>(ns);
    b_.burn(nanos{static_cast<int64_t>(ns)});
  }

  static uint64_t compute(job what, uint64_t times) {
    static constexpr uint64_t (*kernels[])(uint64_t) = {
        add_long, add_double, multiply_long, multiply_double, divide_long, divide_double, sieve,
        sort,     solve,      transform,     strings,         blocks,      copy};
    static_assert(std::size(kernels) == static_cast<size_t>(job::copy) + 1);
    const uint64_t digest = kernels[static_cast<size_t>(what)](times);
    if (digest == 0) throw run_error(fmt::format("the job {} came to a wrong result", kind_of(what).name));
    return digest;
  }

  uint64_t talk(job what, uint64_t times) {
    switch (what) {
      case job::pipe:
      case job::stream:
        if (on_host_) {
          const auto kind = what == job::pipe ? descriptor_kind::pipe : descriptor_kind::socket;
          descriptor_channel<B> there(kind), back(kind);
          return exchange(there, back, times);
        }
        [[fallthrough]];
      case job::queue:
        return exchange(there_, back_, times);
      case job::shared:
        return take_turns(times);
      case job::signal:
        return signal_itself(times);
      default:
        return exchange_events(times);
    }
  }

  // Messages there and back; the partner adds one to each.
  template <class Channel>
  uint64_t exchange(Channel& there, Channel& back, uint64_t times) {
    const auto read_all = [](Channel& from, std::span<char> into) {
      while (!into.empty()) {
        const size_t n = from.read(into);
        if (n == 0) throw run_error("a channel ended before its messages");
        into = into.subspan(n);
      }
    };
    const auto hang_up = [&there, &back] { there.close_writing(), back.close_writing(); };
    uint64_t digest = 0;
    partner_.together(
        [&, times] {
          std::array<char, message_bytes> message;
          try {
            for (uint64_t i = 0; i < times; i++) {
              read_all(there, message);
              message[0]++;
              back.write(message);
            }
          } catch (const run_error&) {
            hang_up();
            throw;
          }
        },
        [&, times] {
          std::array<char, message_bytes> message{};
          for (uint64_t i = 0; i < times; i++) {
            there.write(message);
            read_all(back, message);
            digest++;
          }
          if (message[0] != static_cast<char>(times)) throw run_error("a message came back changed");
        },
        hang_up);
    return digest;
  }

  // A counter in shared memory under a lock, which the two may write in turn.
  uint64_t take_turns(uint64_t times) {
    count_ = 0;
    const auto half = [this, times](uint64_t parity) {
      for (uint64_t i = 0; i < times; i++) {
        std::unique_lock lock(turn_);
        while (count_ % 2 != parity) turned_.wait(lock);
        b_.touch(&count_, sizeof count_, access::write);
        count_++;
        turned_.notify_one();
      }
    };
    partner_.together([&half] { half(1); }, [&half] { half(0); }, [] {});
    return count_;
  }

  // In place of a signal to oneself: an event of one's own, posted and taken.
  uint64_t signal_itself(uint64_t times) {
    typename B::word own;
    for (uint64_t i = 0; i < times; i++) {
      own.post();
      own.wait();
    }
    return times;
  }

  uint64_t exchange_events(uint64_t times) {
    typename B::word there, back;
    partner_.together(
        [&, times] {
          for (uint64_t i = 0; i < times; i++) there.wait(), back.post();
        },
        [&, times] {
          for (uint64_t i = 0; i < times; i++) there.post(), back.wait();
        },
        [] {});
    return times;
  }

  // In place of fork and wait: fibers or kernel threads, one after the other.
  uint64_t make_tasks(uint64_t times) {
    uint64_t ended = 0;
    for (uint64_t i = 0; i < times; i++) b_.spawn("child", [&ended] { ended++; }).join();
    return ended;
  }

  uint64_t use_files(job what, uint64_t times) {
    switch (what) {
      case job::files:
        return files_.create_and_remove(times);
      case job::disk_write:
        return files_.write(0);
      case job::disk_read:
        return files_.read(0);
      case job::disk_copy:
        return files_.copy();
      case job::direct_write:
        return files_.write(O_DIRECT);
      case job::direct_read:
        return files_.read(O_DIRECT);
      case job::sync_write:
        return files_.write(0, sync_every);
      default:
        return files_.copy(sync_every);
    }
  }

  B& b_;
  const aim7_options& o_;
  const bool on_host_;
  partner<B> partner_;
  // What the two touch stays where it is for the whole run: a virtual machine knows memory by its address.
  byte_channel<B> there_, back_;
  typename B::mutex turn_;
  typename B::condition_variable turned_;
  uint64_t count_ = 0;
  user_files files_;
  int64_t burnt_ns_ = 0;
};

}  // namespace heddle::bench::aim7
