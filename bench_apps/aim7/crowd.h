// All users of one number of users, as a template over a backend: makes them, starts them at once, waits for the last.
#pragma once

#include <fmt/format.h>
#include <sys/resource.h>

#include <deque>
#include <vector>

#include "bench_apps/aim7/records.h"
#include "bench_apps/aim7/room.h"
#include "bench_apps/common/interrupt.h"
#include "bench_apps/common/start_gate.h"

namespace heddle::bench::aim7 {

template <backend B>
class crowd {
 public:
  crowd(B& b, const aim7_options& options, const run_request& request, int64_t users, const std::string& directory)
      : b_(b), o_(options), on_host_(request.on_host()), gate_(users) {
    for (int64_t u = 0; u < users; u++)
      users_.emplace_back(b, options, on_host_, fmt::format("{}/u{}", directory, u), options.file_bytes(users),
                          shuffled(options.plan, request.seed, static_cast<uint64_t>(u)));
  }

  // The directing role.
  point play() {
    point all{.users = static_cast<int64_t>(users_.size())};
    assemble();
    const cpu_times before = process_times();
    const nanos start = b_.now();
    gate_.open();
    for (auto& role : user_roles_) role.join();
    all.elapsed = b_.now() - start;
    const cpu_times after = process_times();
    dismiss_partners();
    all.cut_short = stop_requested();
    for (user& u : users_) all.add(u.records, start);
    if (on_host_) {
      all.user_s = after.user_s - before.user_s;
      all.system_s = after.system_s - before.system_s;
      all.job_cpu_s = all.user_s + all.system_s;
    }
    return all;
  }

 private:
  struct user {
    user(B& b, const aim7_options& o, bool on_host, const std::string& prefix, int64_t bytes, std::vector<job> plan)
        : room(b, o, on_host, prefix, bytes), jobs(std::move(plan)) {}
    user_room<B> room;
    std::vector<job> jobs;
    user_records records;
  };

  struct cpu_times {
    double user_s = 0, system_s = 0;
  };
  static cpu_times process_times() {
    rusage u{};
    getrusage(RUSAGE_SELF, &u);
    const auto s = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return {s(u.ru_utime), s(u.ru_stime)};
  }

  void assemble() {
    try {
      for (size_t i = 0; i < users_.size(); i++) {
        user& u = users_[i];
        if (o_.any([](family f) { return f == family::ipc; }))
          partner_roles_.push_back(b_.spawn(fmt::format("partner{}", i), [&u] { u.room.other().serve(); }));
        user_roles_.push_back(b_.spawn(fmt::format("user{}", i), [this, &u] { live(u); }));
      }
    } catch (...) {
      gate_.call_off();
      for (auto& role : user_roles_) role.join();
      dismiss_partners();
      throw;
    }
    gate_.await_all();
  }

  void dismiss_partners() {
    for (size_t i = 0; i < partner_roles_.size(); i++) {
      users_[i].room.other().dismiss();
      partner_roles_[i].join();
    }
  }

  void live(user& u) {
    if (B::kind == backend_kind::threads) ignore_broken_pipe();
    user_records& r = u.records;
    const bool with_files = o_.any(uses_files);
    guarded(r, [&] {
      if (with_files) u.room.files().prepare();
    });
    if (!gate_.arrive()) return;
    r.began = b_.now();
    guarded(r, [&] {
      for (const job what : u.jobs) {
        if (!r.error.empty() || stop_requested()) break;
        const nanos at = b_.now();
        const uint64_t digest = u.room.run(what);
        r.note(what, b_.now() - at, digest, b_.cpu());
      }
    });
    r.ended = b_.now();
    r.burnt_ns = u.room.burnt_ns();
    r.file_operations = u.room.files().operations();
    r.direct_refused = u.room.files().direct_refused();
    if (with_files) guarded(r, [&] { u.room.files().tidy(); });
  }

  template <class F>
  static void guarded(user_records& r, F&& work) {
    try {
      work();
    } catch (const run_error& e) {
      if (r.error.empty()) r.error = e.what();
    }
  }

  B& b_;
  const aim7_options& o_;
  const bool on_host_;
  start_gate<B> gate_;
  std::deque<user> users_;  // partners of the first ones when not all could be made
  std::vector<typename B::role> user_roles_, partner_roles_;
};

}  // namespace heddle::bench::aim7
