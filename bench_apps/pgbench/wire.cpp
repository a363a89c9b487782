#include "bench_apps/pgbench/wire.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace heddle::bench::pgbench {

namespace {

constexpr size_t header_bytes = 5;

void put_big_endian(char* at, uint32_t value) {
  value = __builtin_bswap32(value);
  std::memcpy(at, &value, sizeof value);
}

uint32_t get_big_endian(const char* at) {
  uint32_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return __builtin_bswap32(value);
}

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

}  // namespace

message_writer::~message_writer() {
  put_big_endian(out_.data() + start_ + 1, static_cast<uint32_t>(out_.size() - start_ - 1));
}

message_writer& message_writer::int16(int value) {
  return byte(static_cast<char>(value >> 8)).byte(static_cast<char>(value));
}

message_writer& message_writer::int32(int64_t value) {
  char bytes[4];
  put_big_endian(bytes, static_cast<uint32_t>(value));
  out_.append(bytes, sizeof bytes);
  return *this;
}

message_writer& message_writer::decimal(int64_t value) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  int32(end - digits);
  out_.append(digits, end);
  return *this;
}

std::span<char> inbox::space(size_t bytes) {
  if (begin_ == end_) begin_ = end_ = 0;
  if (buffer_.size() - end_ < bytes) {
    std::copy(buffer_.begin() + static_cast<long>(begin_), buffer_.begin() + static_cast<long>(end_), buffer_.begin());
    end_ -= begin_;
    begin_ = 0;
    if (buffer_.size() - end_ < bytes) buffer_.resize(end_ + bytes);
  }
  return {buffer_.data() + end_, buffer_.size() - end_};
}

std::optional<message> inbox::next() {
  if (end_ - begin_ < header_bytes) return {};
  const char* at = buffer_.data() + begin_;
  const size_t size = get_big_endian(at + 1) + 1;
  if (end_ - begin_ < size) return {};
  begin_ += size;
  return message{at[0], {at + header_bytes, size - header_bytes}};
}

std::string_view body_reader::take(size_t bytes) {
  if (rest_.size() < bytes) return ok_ = false, rest_ = {}, std::string_view{};
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

std::string_view body_reader::text() {
  const size_t end = rest_.find('\0');
  if (end == std::string_view::npos) return take(rest_.size() + 1);
  const std::string_view s = take(end);
  take(1);
  return s;
}

int16_t body_reader::int16() {
  const std::string_view b = take(2);
  return b.empty() ? int16_t{0} : static_cast<int16_t>(static_cast<uint8_t>(b[0]) << 8 | static_cast<uint8_t>(b[1]));
}

int32_t body_reader::int32() {
  const std::string_view b = take(4);
  return b.empty() ? 0 : static_cast<int32_t>(get_big_endian(b.data()));
}

int64_t body_reader::decimal() {
  const int32_t size = int32();
  const std::string_view digits = take(size < 0 ? 0 : static_cast<size_t>(size));
  int64_t value = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc{}) ok_ = false;
  return value;
}

}  // namespace heddle::bench::pgbench
