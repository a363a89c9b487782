// Every case runs on each rung: io_uring (where this kernel has it) and epoll with helpers.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "affinity/capabilities.h"
#include "heddle/heddle.h"
#include "runtime/base/rng.h"
#include "tests/runtime/watchdog.h"
#include "tests/seed.h"

namespace io = heddle::io;
using namespace std::chrono_literals;
using heddle_test::await_dump;
using heddle_test::rounds;
using heddle_test::watchdog;

namespace {

bool have_uring() {
  for (const auto& c : heddle::core::probe_capabilities())
    if (c.name == "io_uring") return c.available;
  return false;
}

std::vector<std::string> rungs() {
  if (have_uring()) return {"io=uring", "io=epoll"};
  MESSAGE("no io_uring here: the epoll rung only");
  return {"io=epoll"};
}

heddle::runtime_options on(const std::string& settings, size_t workers = 0) {
  return {.workers = workers, .settings = settings, .read_environment = false};
}

struct pipe_pair {
  io::descriptor out, in;  // read here, written there
  pipe_pair() {
    int fds[2];
    REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
    out = io::descriptor(fds[0]);
    in = io::descriptor(fds[1]);
  }
};

struct socket_pair {
  io::descriptor a, b;
  socket_pair() {
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    a = io::descriptor(fds[0]);
    b = io::descriptor(fds[1]);
  }
};

size_t open_descriptors() {
  size_t n = 0;
  for (int fd = 0; fd < 4096; fd++) n += ::fcntl(fd, F_GETFD) >= 0;
  return n;
}

uint64_t in_flight(const heddle::runtime& rt) {
  const auto s = rt.stats().counters;
  return s.at("io_started") - s.at("io_ended");
}

// Runs `body` in a child process that may limit itself, and returns its exit status; heddle's threads do not survive a fork,
// so the child makes its own runtime.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// As a container's profile does it: every io_uring call is answered with `error`.
bool deny_uring(int error) {
  constexpr uint32_t first = 425, last = 427;  // setup, enter, register
  sock_filter f[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                     BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, 2), BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, last, 1, 0),
                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  sock_fprog p{static_cast<unsigned short>(std::size(f)), f};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p) == 0;
}

// A connection's worth of traffic; 0 if all came back.
int echo_works(heddle::runtime& rt) {
  return rt.run([] {
    io::listener door(io::endpoint::ip("127.0.0.1", 0));
    auto server = heddle::spawn([&] {
      io::stream s = door.accept();
      std::array<std::byte, 64> b;
      while (const size_t n = s.read(b)) s.write({b.data(), n});
    });
    io::stream c = io::stream::connect(door.endpoint());
    std::array<std::byte, 6> answer;
    for (int i = 0; i < 100; i++) {
      c.write(io::bytes_of("heddle"));
      if (c.read_full(answer) != 6 || std::memcmp(answer.data(), "heddle", 6) != 0) return 1;
    }
    c.close();
    server.join();
    return 0;
  });
}

}  // namespace

TEST_CASE("io: what one end of a connection says arrives at the other") {
  for (const auto& rung : rungs())
    for (const char* idle : {"", ",idle=park"}) {
      heddle::runtime rt(on(rung + idle));
      const watchdog dog(rt);
      CHECK(echo_works(rt) == 0);
      CHECK(in_flight(rt) == 0);
    }
}

TEST_CASE("io: many connections at once, each gets its own bytes back whole") {
  for (const auto& rung : rungs()) {
    heddle::runtime rt(on(rung));
    const watchdog dog(rt);
    std::atomic<int> good{0};
    constexpr int connections = 64;
    rt.run([&] {
      io::listener door(io::endpoint::local("@heddle-test-" + std::to_string(::getpid())));
      auto server = heddle::spawn([&] {
        for (int i = 0; i < connections; i++)
          heddle::spawn([s = door.accept()]() mutable {
            std::array<std::byte, 512> b;
            while (const size_t n = s.read(b)) s.write({b.data(), n});
          }).detach();
      });
      std::vector<heddle::fiber<void>> clients;
      for (int i = 0; i < connections; i++)
        clients.push_back(heddle::spawn([&, i] {
          io::stream s = io::stream::connect(door.endpoint());
          std::vector<std::byte> out(3000 + static_cast<size_t>(i)), back(out.size());
          for (size_t k = 0; k < out.size(); k++) out[k] = static_cast<std::byte>(k * 7 + static_cast<size_t>(i));
          auto writer = heddle::spawn([&] { s.write(out); });
          good += s.read_full(back) == back.size() && back == out;
          writer.join();
        }));
      for (auto& c : clients) c.join();
      server.join();
    });
    CHECK(good == connections);
  }
}

TEST_CASE("io: files are written, read at offsets, measured and removed") {
  for (const auto& rung : rungs()) {
    heddle::runtime rt(on(rung));
    const watchdog dog(rt);
    rt.run([] {
      const std::string path = "/tmp/heddle-io-" + std::to_string(::getpid());
      std::error_code error;
      {
        io::descriptor f = io::open(path, O_RDWR | O_CREAT | O_TRUNC);
        CHECK(io::write_all(f.get(), io::bytes_of("0123456789"), {}, 0) == 10);
        io::fdatasync(f.get());
        io::fsync(f.get());
        std::array<std::byte, 8> some;
        CHECK(io::read_full(f.get(), some, {}, 6) == 4);  // the end comes first
        CHECK(std::memcmp(some.data(), "6789", 4) == 0);
      }
      CHECK(io::statx(path).stx_size == 10);
      io::unlink(path);
      io::open(path, O_RDONLY, 0, error);
      CHECK(error == std::errc::no_such_file_or_directory);
    });
  }
}

TEST_CASE("io: a datagram names its sender") {
  for (const auto& rung : rungs()) {
    heddle::runtime rt(on(rung));
    const watchdog dog(rt);
    rt.run([] {
      io::descriptor a = io::socket(AF_INET, SOCK_DGRAM), b = io::socket(AF_INET, SOCK_DGRAM);
      const io::endpoint any = io::endpoint::ip("127.0.0.1", 0);
      REQUIRE(::bind(a.get(), any.get(), any.size()) == 0);
      io::endpoint to;
      to.size() = io::endpoint::capacity();
      REQUIRE(::getsockname(a.get(), to.get(), &to.size()) == 0);
      auto sender = heddle::spawn([&] { io::send_to(b.get(), io::bytes_of("datagram"), to); });
      std::array<std::byte, 64> into;
      io::endpoint from;
      CHECK(io::recv_from(a.get(), into, from) == 8);
      CHECK(from.text().starts_with("127.0.0.1:"));
      sender.join();
    });
  }
}

TEST_CASE("io: errors come as codes or as exceptions, never as signals") {
  for (const auto& rung : rungs()) {
    heddle::runtime rt(on(rung));
    const watchdog dog(rt);
    rt.run([] {
      std::error_code error;
      std::array<std::byte, 4> b;
      io::read(9999, b, error);
      CHECK(error == std::errc::bad_file_descriptor);
      CHECK_THROWS_AS(io::read(9999, b), std::system_error);
      pipe_pair p;
      p.out = io::descriptor();  // nobody reads: SIGPIPE's case
      io::write(p.in.get(), io::bytes_of("x"), error);
      CHECK(error == std::errc::broken_pipe);
      socket_pair s;
      s.b = io::descriptor();
      io::send(s.a.get(), io::bytes_of("x"), error);
      CHECK(error == std::errc::broken_pipe);
      CHECK_THROWS_AS(io::stream::connect(io::endpoint::ip("127.0.0.1", 1)), std::system_error);
      CHECK_THROWS_AS(io::endpoint::ip("localhost", 1), std::invalid_argument);
    });
  }
}

TEST_CASE("io: a deadline ends a wait, and what is free again can be used at once") {
  for (const auto& rung : rungs()) {
    heddle::runtime rt(on(rung));
    const watchdog dog(rt);
    rt.run([] {
      pipe_pair p;
      std::error_code error;
      const auto began = std::chrono::steady_clock::now();
      {
        std::array<std::byte, 8> gone;
        CHECK(io::read(p.out.get(), gone, error, 5ms) == 0);
      }
      CHECK(error == std::errc::timed_out);
      CHECK(std::chrono::steady_clock::now() - began >= 5ms);
      io::listener door(io::endpoint::ip("127.0.0.1", 0));
      door.accept(error, 1ms);
      CHECK(error == std::errc::timed_out);
      CHECK(io::poll(p.in.get(), POLLOUT, error, 1s) == POLLOUT);
      CHECK(!error);
    });
    CHECK(in_flight(rt) == 0);
  }
}

TEST_CASE("io: a timeout that races with the completion loses no byte") {
  for (const auto& rung : rungs()) {
    heddle::runtime rt(on(rung));
    const watchdog dog(rt);
    pipe_pair p;
    constexpr int bytes = 2000;
    std::atomic<int> got{0};
    std::thread writer([&] {
      heddle::core::rng random(heddle_test::seed());
      for (int i = 0; i < bytes; i++) {
        std::this_thread::sleep_for(std::chrono::microseconds(random.below(100)));
        const auto b = static_cast<char>(i);
        CHECK(::write(p.in.get(), &b, 1) == 1);
      }
    });
    rt.run([&] {
      heddle::core::rng random(heddle_test::seed() + 1);
      while (got < bytes) {
        std::byte one[1];
        std::error_code error;
        if (io::read(p.out.get(), one, error, std::chrono::microseconds(random.below(100))) == 1) {
          CHECK(static_cast<uint8_t>(one[0]) == static_cast<uint8_t>(got));
          got++;
        } else {
          CHECK(error == std::errc::timed_out);
        }
      }
    });
    writer.join();
    CHECK(in_flight(rt) == 0);
  }
}

TEST_CASE("bug report 15: a read is called off from another worker and its buffer is free at once") {
  for (const auto& rung : rungs()) {
    heddle::runtime rt(on(rung));
    const watchdog dog(rt);
    const int all = rounds(2'000, 100'000);
    int stopped = 0;
    rt.run([&] {
      pipe_pair p;
      for (int i = 0; i < all; i++) {
        std::stop_source source;
        auto reader = heddle::spawn([&] {
          std::array<std::byte, 256> buffer;
          std::error_code error;
          io::read(p.out.get(), buffer, error, source.get_token());
          return error == std::errc::operation_canceled;
        });
        if (i % 3) heddle::this_fiber::yield();
        auto canceller = heddle::spawn([&] { source.request_stop(); });
        stopped += reader.join();
        canceller.join();
      }
    });
    CHECK(stopped == all);
    CHECK(in_flight(rt) == 0);
  }
}

TEST_CASE("io: closing a descriptor ends the waits for it") {
  for (const auto& rung : rungs()) {
    heddle::runtime rt(on(rung));
    const watchdog dog(rt);
    for (int i = 0; i < rounds(50, 2000); i++)
      rt.run([&] {
        auto p = std::make_unique<socket_pair>();
        const int fd = p->a.get();
        std::vector<heddle::fiber<bool>> readers;
        for (int k = 0; k < 4; k++)
          readers.push_back(heddle::spawn([fd] {
            std::array<std::byte, 16> b;
            std::error_code error;
            io::recv(fd, b, error);
            return error == std::errc::bad_file_descriptor;
          }));
        // All of them: a descriptor's number is free for others as soon as it is closed.
        while (in_flight(rt) < 4) heddle::this_fiber::yield();
        p->a = io::descriptor();
        for (auto& r : readers) CHECK(r.join());
      });
    CHECK(in_flight(rt) == 0);
  }
}

TEST_CASE("bug report 14: a small ring under ten thousand reads loses none") {
  if (!have_uring()) return;
  for (const char* entries : {"io=uring,ring_entries=1", "io=uring,ring_entries=8"}) {
    heddle::runtime rt(on(entries));
    const watchdog dog(rt);
    std::atomic<int> good{0};
    const int readers = rounds(2'000, 10'000);
    rt.run([&] {
      pipe_pair p;
      std::vector<heddle::fiber<void>> all;
      for (int i = 0; i < readers; i++)
        all.push_back(heddle::spawn([&] {
          std::byte b[1];
          good += io::read(p.out.get(), b) == 1;
        }));
      const std::vector<std::byte> fill(static_cast<size_t>(readers));
      heddle::this_fiber::yield();
      const auto until = std::chrono::steady_clock::now() + 5ms;
      while (std::chrono::steady_clock::now() < until) {
      }  // reaping is late
      io::write_all(p.in.get(), fill);
      for (auto& f : all) f.join();
    });
    CHECK(good == readers);
    CHECK(in_flight(rt) == 0);
  }
}

TEST_CASE("io: a storm of signals interrupts nothing") {
  struct sigaction sa{}, before{};
  sa.sa_handler = [](int) {};
  REQUIRE(::sigaction(SIGUSR1, &sa, &before) == 0);
  for (const auto& rung : rungs()) {
    heddle::runtime rt(on(rung));
    const watchdog dog(rt);
    std::atomic<bool> over{false};
    std::thread storm([&] {
      while (!over) {
        ::kill(::getpid(), SIGUSR1);
        std::this_thread::sleep_for(50us);
      }
    });
    CHECK(echo_works(rt) == 0);
    over = true;
    storm.join();
  }
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST_CASE("bug report 6: shutdown amid arriving data ends, with every fiber ended and no descriptor left") {
  const size_t before = open_descriptors();
  for (const auto& rung : rungs()) {
    heddle::core::rng random(heddle_test::seed());
    for (int i = 0; i < rounds(40, 2'500); i++) {
      std::vector<pipe_pair> pipes(8);
      heddle::runtime rt(on(rung));
      for (auto& p : pipes)
        rt.spawn([fd = p.out.get()] {
            std::byte b[16];
            while (io::read(fd, b)) {
            }
          }).detach();
      std::thread writer([&, pause = random.below(1000)] {
        std::this_thread::sleep_for(std::chrono::microseconds(pause));
        for (auto& p : pipes) CHECK(::write(p.in.get(), "x", 1) == 1);
      });
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(1000)));
      CHECK(rt.shutdown(10s).stuck.empty());
      CHECK(rt.stats().fibers_live == 0);
      writer.join();
    }
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("io: completions of a worker stuck in one fiber reach the others") {
  for (const auto& rung : rungs()) {
    heddle::runtime rt(on(rung, 2));
    if (rt.workers() < 2) return;
    const watchdog dog(rt);
    pipe_pair p;
    std::atomic<bool> over{false};
    auto reader = rt.spawn([&] {
      std::byte b[1];
      io::read(p.out.get(), b);
      over = true;
    });
    await_dump(rt, "waiting on I/O");
    // Hogs on all workers but the one that will be free: only the reader's end ends them.
    auto hog = rt.spawn([&] {
      while (!over) {
      }
    });
    std::this_thread::sleep_for(2ms);
    CHECK(::write(p.in.get(), "x", 1) == 1);
    hog.join();
    reader.join();
  }
}

TEST_CASE("io: a plain thread blocks itself, with the same limits") {
  pipe_pair p;
  std::byte b[4];
  std::error_code error;
  CHECK(io::read(p.out.get(), b, error, 2ms) == 0);
  CHECK(error == std::errc::timed_out);
  std::stop_source source;
  std::jthread stopper([&] { source.request_stop(); });
  CHECK(io::read(p.out.get(), b, error, source.get_token()) == 0);
  CHECK(error == std::errc::operation_canceled);
  CHECK(io::write(p.in.get(), io::bytes_of("abcd")) == 4);
  CHECK(io::read_full(p.out.get(), b) == 4);
}

TEST_CASE("bug report 13: where io_uring is denied, I/O goes by epoll and one line says why") {
  for (const int error : {EPERM, ENOSYS, EACCES, EINVAL}) {
    const int status = in_child([error] {
      if (!deny_uring(error)) return 9;
      std::atomic<int> lines{0}, named{0};
      heddle::runtime rt({.log =
                              [&](heddle::severity, std::string_view line) {
                                lines++;
                                named += line.find(::strerrorname_np(error)) != std::string_view::npos;
                              },
                          .read_environment = false});
      if (echo_works(rt) != 0) return 1;
      return lines == 1 && named == 1 ? 0 : 2;
    });
    CHECK(status == 0);
  }
}

TEST_CASE("io: demanded io_uring that is denied is an error, not a fallback") {
  CHECK(in_child([] {
          if (!deny_uring(EPERM)) return 9;
          heddle::runtime rt(on("io=uring"));
          return rt.run([] {
            std::error_code error;
            std::byte b[1];
            io::read(0, b, error);
            return error == std::errc::operation_not_permitted ? 0 : 1;
          });
        }) == 0);
}

TEST_CASE("io: 32 descriptors and 64 KiB of locked memory are enough") {
  CHECK(in_child([] {
          const rlimit files{32, 32}, memory{65536, 65536};
          ::setrlimit(RLIMIT_NOFILE, &files);
          ::setrlimit(RLIMIT_MEMLOCK, &memory);
          heddle::runtime rt({.log = [](heddle::severity, std::string_view) {}, .read_environment = false});
          return echo_works(rt);
        }) == 0);
}

TEST_CASE("io: a runtime without I/O makes no ring") {
  const size_t before = open_descriptors();
  heddle::runtime rt({.read_environment = false});
  rt.run([] { heddle::this_fiber::sleep_for(1ms); });
  CHECK(open_descriptors() == before);
  CHECK(rt.stats().counters.at("io_enters") == 0);
}
