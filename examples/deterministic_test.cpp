// An embedder's test on a machine they do not own: a small server with a lock, timeouts and a queue, on 64 CPUs that are only
// described. The same seed gives the same run to the nanosecond, so a failure repeats; another seed gives another order of events.
#include <heddle/heddle.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

using namespace std::chrono_literals;

namespace {

struct request {
  int client = 0;
  int amount = 0;
  heddle::counting_semaphore<>* answered = nullptr;
};

// Workers take requests from a queue and book them; now and then one has to wait for the disk.
class server {
 public:
  explicit server(int workers) : queue_(16) {
    for (int i = 0; i < workers; i++) workers_.push_back(heddle::spawn([this] { serve(); }));
  }
  void ask(const request& r) { queue_.push(r); }
  long stop() {
    queue_.close();
    for (auto& w : workers_) w.join();
    return booked_;
  }

 private:
  void serve() {
    while (const auto r = queue_.pop()) {
      heddle::this_fiber::burn(3us);
      if (r->amount % 7 == 0) heddle::this_fiber::sleep_for(50us);
      {
        std::lock_guard guard(lock_);
        booked_ += r->amount;
      }
      r->answered->release();
    }
  }

  heddle::channel<request> queue_;
  heddle::mutex lock_;
  long booked_ = 0;
  std::vector<heddle::fiber<void>> workers_;
};

struct outcome {
  long booked = 0;
  int late = 0;  // answers that a client did not wait for
  std::chrono::nanoseconds took{0};
  uint64_t trace = 0;
};

outcome run(const char* cpus, uint64_t seed) {
  heddle::runtime rt{{.machine = heddle::machine::synthetic(cpus),
                      .seed = seed,
                      .log = [](heddle::severity, std::string_view) {},
                      .read_environment = false}};
  outcome out;
  rt.run([&out] {
    const auto began = heddle::this_fiber::now();
    server shop(48);
    std::vector<heddle::fiber<int>> clients;
    for (int c = 0; c < 200; c++)
      clients.push_back(heddle::spawn([&shop, c] {
        int late = 0;
        heddle::counting_semaphore<> answered(0);
        for (int i = 1; i <= 10; i++) {
          shop.ask({c, i, &answered});
          if (answered.try_acquire_for(40us)) continue;
          late++;
          answered.acquire();  // it comes all the same
        }
        return late;
      }));
    for (auto& c : clients) out.late += c.join();
    out.booked = shop.stop();
    out.took = heddle::this_fiber::now() - began;
  });
  out.trace = rt.stats().counters["vm_trace_hash"];
  return out;
}

void require(bool fact, const char* what) {
  std::printf("%s: %s\n", fact ? "ok" : "FAILED", what);
  if (!fact) std::exit(1);
}

}  // namespace

int main() {
  const char* laptop_does_not_have = "pack:2 [numa] core:16 pu:2";
  const outcome first = run(laptop_does_not_have, 1), again = run(laptop_does_not_have, 1);
  require(first.booked == 200 * 55, "every request was booked once");
  require(first.late > 0, "some clients lost their patience");
  require(first.late == again.late && first.took == again.took, "the same seed is the same run, to the nanosecond");
  require(first.trace == again.trace, "and the same order of every event in it");
  bool other_order = false;
  for (uint64_t seed = 2; seed < 10; seed++) {
    const outcome other = run(laptop_does_not_have, seed);
    require(other.booked == 200 * 55, "another seed books every request too");
    other_order |= other.trace != first.trace;
  }
  require(other_order, "in another order");
  require(run("core:1 pu:1", 1).took > 2 * first.took, "one CPU takes longer than 64");
  return 0;
}
