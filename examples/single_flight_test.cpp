// An embedder's own code and its test. single_flight lets one fiber load a key while all others who want it wait: the
// usual guard before a slow database. The test pins down what such code must promise, on a runtime that touches nothing
// of the process: no environment, no standard error, no signal handler.
#include <heddle/heddle.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

using namespace std::chrono_literals;

namespace {

class single_flight {
 public:
  using loader = std::function<std::string(const std::string& key)>;
  explicit single_flight(loader load) : load_(std::move(load)) {}

  std::string get(const std::string& key) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !loading_.contains(key); });
    if (auto found = values_.find(key); found != values_.end()) return found->second;
    loading_.insert(key);
    lock.unlock();
    try {
      std::string value = load_(key);  // may sleep, wait or do I/O: only this fiber is held up
      lock.lock();
      values_[key] = std::move(value);
    } catch (...) {
      lock.lock();
      finish(key);  // the next one who waits tries again
      throw;
    }
    finish(key);
    return values_[key];
  }

 private:
  void finish(const std::string& key) {
    loading_.erase(key);
    changed_.notify_all();
  }

  loader load_;
  heddle::mutex mutex_;
  heddle::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::set<std::string> loading_;
};

void require(bool fact, const char* what) {
  std::printf("%s: %s\n", fact ? "ok" : "FAILED", what);
  if (!fact) std::exit(1);
}

}  // namespace

int main() {
  std::vector<std::string> lines;
  heddle::runtime rt{{.workers = 2,
                      .seed = 7,
                      .log = [&](heddle::severity, std::string_view line) { lines.emplace_back(line); },
                      .read_environment = false,
                      .handle_stack_overflow = false}};

  // Plain variables: nobody loads the same key at the same time, which is the very promise under test.
  int loads = 0, failures_left = 1;
  single_flight cache([&](const std::string& key) {
    loads++;
    heddle::this_fiber::sleep_for(5ms);
    if (failures_left-- > 0) throw std::runtime_error("the database is down");
    return "value of " + key;
  });

  std::vector<heddle::fiber<std::string>> readers;
  for (int i = 0; i < 100; i++) readers.push_back(rt.spawn([&] { return cache.get("answer"); }));
  int same = 0, failed = 0;
  for (auto& reader : readers) {
    try {
      same += reader.join() == "value of answer";
    } catch (const std::runtime_error&) {
      failed++;
    }
  }
  require(failed == 1, "the load that failed is seen by the one fiber that did it");
  require(same == 99, "all others read the same value");
  require(loads == 2, "it was loaded once more and never again");
  require(cache.get("answer") == "value of answer", "a plain thread reads it too");
  require(lines.empty(), "the runtime had nothing to complain about");
  return 0;
}
