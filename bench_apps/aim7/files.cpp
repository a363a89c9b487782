#include "bench_apps/aim7/files.h"

#include <fmt/format.h>
#include <heddle/io.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>

#include "bench_apps/common/errors.h"

namespace heddle::bench::aim7 {
namespace {

constexpr int64_t cached_block = 1024, direct_block = 4096;
constexpr mode_t file_mode = 0600;

[[noreturn]] void failed(std::string_view what, const std::string& path, int error) {
  throw run_error(fmt::format("{} of '{}': {}", what, path, std::strerror(error)));
}

bool direct_refusal(int flags, int error) { return (flags & O_DIRECT) != 0 && error == EINVAL; }

class plain final : public file_calls {
 public:
  int open(const std::string& path, int flags) override {
    const int fd = ::open(path.c_str(), flags | O_CLOEXEC, file_mode);
    if (fd < 0 && !direct_refusal(flags, errno)) failed("open", path, errno);
    return fd;
  }
  size_t read(int fd, std::span<char> into, int64_t offset) override {
    const ssize_t n = ::pread(fd, into.data(), into.size(), offset);
    if (n < 0) failed("read", "a file", errno);
    return static_cast<size_t>(n);
  }
  void write(int fd, std::span<const char> from, int64_t offset) override {
    const ssize_t n = ::pwrite(fd, from.data(), from.size(), offset);
    if (n != static_cast<ssize_t>(from.size())) failed("write", "a file", n < 0 ? errno : ENOSPC);
  }
  void sync(int fd) override {
    if (::fdatasync(fd) != 0) failed("fdatasync", "a file", errno);
  }
  void close(int fd) override { ::close(fd); }
  void remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) failed("unlink", path, errno);
  }
};

class by_runtime final : public file_calls {
 public:
  int open(const std::string& path, int flags) override {
    std::error_code error;
    io::descriptor fd = io::open(path, flags | O_CLOEXEC, file_mode, error);
    if (error && !direct_refusal(flags, error.value())) failed("open", path, error.value());
    return fd.release();
  }
  size_t read(int fd, std::span<char> into, int64_t offset) override {
    std::error_code error;
    const size_t n = io::read(fd, std::as_writable_bytes(into), error, {}, offset);
    if (error) failed("read", "a file", error.value());
    return n;
  }
  void write(int fd, std::span<const char> from, int64_t offset) override {
    std::error_code error;
    io::write_all(fd, std::as_bytes(from), error, {}, offset);
    if (error) failed("write", "a file", error.value());
  }
  void sync(int fd) override {
    std::error_code error;
    io::fdatasync(fd, error);
    if (error) failed("fdatasync", "a file", error.value());
  }
  void close(int fd) override {
    std::error_code error;
    io::close(fd, error);
  }
  void remove(const std::string& path) override {
    std::error_code error;
    io::unlink(path, error);
    if (error) failed("unlink", path, error.value());
  }
};

}  // namespace

std::unique_ptr<file_calls> plain_files() { return std::make_unique<plain>(); }
std::unique_ptr<file_calls> fiber_files() { return std::make_unique<by_runtime>(); }

work_directory::work_directory(const std::string& in) : path_(in + "/heddle-aim7-XXXXXX") {
  if (::mkdtemp(path_.data()) == nullptr)
    throw usage_error(fmt::format("--dir: '{}' is not a directory that can be written: {}", in, std::strerror(errno)));
}

work_directory::~work_directory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void user_files::freed::operator()(char* p) const { std::free(p); }

user_files::user_files(std::unique_ptr<file_calls> calls, std::string prefix, int64_t bytes)
    : calls_(std::move(calls)),
      source_(prefix + ".source"),
      target_(prefix + ".target"),
      bytes_(bytes),
      block_(static_cast<char*>(std::aligned_alloc(direct_block, direct_block))) {
  if (!block_) throw std::bad_alloc();
  std::memset(block_.get(), 'x', direct_block);
}

void user_files::prepare() { fill(source_, O_RDWR | O_CREAT | O_EXCL, 0); }

void user_files::tidy() { calls_->remove(source_); }

uint64_t user_files::create_and_remove(uint64_t times) {
  for (uint64_t i = 0; i < times; i++) {
    close(open(target_, O_RDWR | O_CREAT | O_EXCL));
    calls_->remove(target_);
    operations_++;
  }
  return times;
}

uint64_t user_files::write(int flags, int64_t sync_every) {
  const uint64_t digest = fill(target_, O_RDWR | O_CREAT | O_EXCL | flags, sync_every);
  calls_->remove(target_);
  operations_++;
  return digest;
}

uint64_t user_files::read(int flags) {
  const int fd = open(source_, O_RDONLY | flags);
  const int64_t step = (flags & O_DIRECT) != 0 ? direct_block : cached_block;
  uint64_t digest = 0;
  for (int64_t at = 0; at < bytes_; at += step) digest += take(fd, at, {block_.get(), static_cast<size_t>(step)});
  close(fd);
  return digest;
}

uint64_t user_files::copy(int64_t sync_every) {
  const int from = open(source_, O_RDONLY), to = open(target_, O_RDWR | O_CREAT | O_EXCL);
  const std::span<char> block(block_.get(), cached_block);
  uint64_t digest = 0;
  for (int64_t at = 0; at < bytes_; at += cached_block) {
    digest += take(from, at, block);
    calls_->write(to, block, at);
    operations_++;
    if (sync_every > 0 && (at + cached_block) % sync_every == 0) calls_->sync(to), operations_++;
  }
  close(from);
  close(to);
  calls_->remove(target_);
  operations_++;
  return digest;
}

int user_files::open(const std::string& path, int flags) {
  operations_++;
  if (const int fd = calls_->open(path, flags); fd >= 0) return fd;
  direct_refused_++;  // a file system without it: through the page cache, and said so at the end
  return calls_->open(path, flags & ~O_DIRECT);
}

void user_files::close(int fd) {
  operations_++;
  calls_->close(fd);
}

// A block's first bytes are its place in the file, which take() looks for.
uint64_t user_files::fill(const std::string& path, int flags, int64_t sync_every) {
  const int fd = open(path, flags);
  const int64_t step = (flags & O_DIRECT) != 0 ? direct_block : cached_block;
  const std::span<char> block(block_.get(), static_cast<size_t>(step));
  uint64_t digest = 0;
  for (int64_t at = 0; at < bytes_; at += step) {
    for (int64_t part = at; part < at + step; part += cached_block)
      std::memcpy(block.data() + (part - at), &part, sizeof part);
    calls_->write(fd, block, at);
    operations_++;
    digest += static_cast<uint64_t>(step);
    if (sync_every > 0 && (at + step) % sync_every == 0) calls_->sync(fd), operations_++;
  }
  close(fd);
  return digest;
}

uint64_t user_files::take(int fd, int64_t at, std::span<char> block) {
  operations_++;
  const size_t n = calls_->read(fd, block, at);
  int64_t place = at;
  if (calls_->real()) std::memcpy(&place, block.data(), sizeof place);
  if (n != block.size() || place != at)
    throw run_error(fmt::format("a file holds something else at {} than was written there", at));
  return n;
}

}  // namespace heddle::bench::aim7
