// Messages between client and server, in the shape of PostgreSQL's protocol: a type byte, a big-endian length that counts
// itself, a body. Everything crosses as bytes and is parsed on arrival; nobody hands a pointer over.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::bench::pgbench {

// From the client.
inline constexpr char startup_message = 'S';  // user and database
inline constexpr char query_message = 'Q';    // SQL text
inline constexpr char parse_message = 'P';    // name, SQL text
inline constexpr char bind_message = 'B';     // name, parameters as text
inline constexpr char execute_message = 'E';
inline constexpr char sync_message = 'Y';
inline constexpr char terminate_message = 'X';
// From the server.
inline constexpr char authentication_ok = 'R';
inline constexpr char parse_complete = '1';
inline constexpr char bind_complete = '2';
inline constexpr char row_description = 'T';
inline constexpr char data_row = 'D';
inline constexpr char command_complete = 'C';
inline constexpr char error_response = 'e';
inline constexpr char ready_for_query = 'Z';

struct message {
  char type = 0;
  std::string_view body;  // points into the receiver's buffer
};

// Appends one message; the body is what is put in while the object lives.
class message_writer {
 public:
  message_writer(std::string& out, char type) : out_(out), start_(out.size()) { out_.append({type, 0, 0, 0, 0}); }
  message_writer(const message_writer&) = delete;
  message_writer& operator=(const message_writer&) = delete;
  ~message_writer();

  message_writer& text(std::string_view s) { return out_.append(s).push_back('\0'), *this; }
  message_writer& byte(char c) { return out_.push_back(c), *this; }
  message_writer& int16(int value);
  message_writer& int32(int64_t value);
  message_writer& decimal(int64_t value);  // a length and digits, as values travel

  std::string& buffer() { return out_; }  // for what formats itself into a body

 private:
  std::string& out_;
  size_t start_;
};

// What arrived so far; hands out whole messages.
class inbox {
 public:
  // Room for bytes to come, at least `bytes`; arrived() says how many did.
  std::span<char> space(size_t bytes);
  void arrived(size_t bytes) { end_ += bytes; }
  // The next message, if all of it is there; valid until the next call of space().
  std::optional<message> next();

 private:
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

// Takes a body apart; anything missing reads as empty or 0 and clears ok().
class body_reader {
 public:
  explicit body_reader(std::string_view body) : rest_(body) {}
  std::string_view text();
  int16_t int16();
  int32_t int32();
  int64_t decimal();
  bool ok() const { return ok_; }

 private:
  std::string_view take(size_t bytes);
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace heddle::bench::pgbench
