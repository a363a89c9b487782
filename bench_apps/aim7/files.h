// The file operations of aim7's jobs, in the three forms that a job need not know apart: plain calls (kernel threads), heddle/io.h
// (fibers: io_uring or helper threads, so that a worker is never blocked silently), and time that passes (a virtual machine,
// which has no files).
#pragma once

#include <fcntl.h>

#include <memory>
#include <span>
#include <string>

#include "bench_apps/common/backend.h"

namespace heddle::bench::aim7 {

// One user's; errors are run_error and name the path.
class file_calls {
 public:
  virtual ~file_calls() = default;
  virtual int open(const std::string& path, int flags) = 0;  // -1: O_DIRECT is refused there
  virtual size_t read(int fd, std::span<char> into, int64_t offset) = 0;
  virtual void write(int fd, std::span<const char> from, int64_t offset) = 0;
  virtual void sync(int fd) = 0;
  virtual void close(int fd) = 0;
  virtual void remove(const std::string& path) = 0;
  virtual bool real() const { return true; }  // what is read is what was written
};

std::unique_ptr<file_calls> plain_files();
std::unique_ptr<file_calls> fiber_files();

// What the operations take where there are none: the calls cost CPU; a transfer past the page cache and a flush wait for a device.
template <backend B>
class modelled_files final : public file_calls {
 public:
  explicit modelled_files(B& b) : b_(b) {}
  int open(const std::string&, int flags) override {
    b_.burn(change);
    return (flags & O_DIRECT) != 0 ? direct_fd : cached_fd;
  }
  size_t read(int fd, std::span<char> into, int64_t) override { return transfer(fd), into.size(); }
  void write(int fd, std::span<const char>, int64_t) override { transfer(fd); }
  void sync(int) override { b_.sleep_for(flush); }
  void close(int) override { b_.burn(call); }
  void remove(const std::string&) override { b_.burn(change); }
  bool real() const override { return false; }

 private:
  // Of the order that a server with an NVMe disk shows.
  static constexpr nanos call{500}, change{5'000}, block{1'000}, device{80'000}, flush{200'000};
  static constexpr int cached_fd = 0, direct_fd = 1;

  void transfer(int fd) {
    b_.burn(block);
    if (fd == direct_fd) b_.sleep_for(device);
  }

  B& b_;
};

// A directory of the run's own, gone with it.
class work_directory {
 public:
  explicit work_directory(const std::string& in);  // usage_error where none can be made
  ~work_directory();
  work_directory(const work_directory&) = delete;
  work_directory& operator=(const work_directory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The files of one user, and what jobs do with them. Each answers with a digest of the bytes it moved.
class user_files {
 public:
  user_files(std::unique_ptr<file_calls> calls, std::string prefix, int64_t bytes);

  void prepare();  // makes what is read later
  void tidy();

  uint64_t create_and_remove(uint64_t times);
  uint64_t write(int flags, int64_t sync_every = 0);
  uint64_t read(int flags);
  uint64_t copy(int64_t sync_every = 0);

  int64_t operations() const { return operations_; }
  int64_t direct_refused() const { return direct_refused_; }

 private:
  int open(const std::string& path, int flags);
  void close(int fd);
  uint64_t fill(const std::string& path, int flags, int64_t sync_every);
  uint64_t take(int fd, int64_t at, std::span<char> block);

  const std::unique_ptr<file_calls> calls_;
  const std::string source_, target_;
  const int64_t bytes_;
  struct freed {
    void operator()(char* p) const;
  };
  const std::unique_ptr<char, freed> block_;  // aligned, as O_DIRECT wants it
  int64_t operations_ = 0;
  int64_t direct_refused_ = 0;
};

}  // namespace heddle::bench::aim7
