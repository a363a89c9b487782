// A TCP echo server: one fiber per connection. echo [PORT]; without one it talks to itself and ends.
#include <heddle/heddle.h>

#include <cstdio>
#include <cstdlib>

namespace io = heddle::io;

void serve(io::stream peer) {
  std::byte buffer[4096];
  std::error_code error;
  while (const size_t n = peer.read(buffer, error)) peer.write({buffer, n}, error);
}

int main(int argc, char** argv) {
  heddle::runtime rt;
  return rt.run([&] {
    io::listener door(io::endpoint::ip("127.0.0.1", static_cast<uint16_t>(argc > 1 ? std::atoi(argv[1]) : 0)));
    auto server = heddle::spawn([&] {
      for (std::error_code error; io::stream peer = door.accept(error);) heddle::spawn(serve, std::move(peer)).detach();
    });
    if (argc > 1) return server.join(), 0;
    auto self = io::stream::connect(door.endpoint());
    char answer[5];
    self.write(io::bytes_of("hello"));
    std::printf("%zu bytes came back\n", self.read_full(std::as_writable_bytes(std::span(answer))));
    return door.close(), 0;
  });
}
