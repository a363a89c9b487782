// What a command wrote to one of the standard streams, which go to a file meanwhile.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

namespace heddle::bench {

class captured {
 public:
  explicit captured(FILE* stream) : stream_(stream), file_(std::tmpfile()) {
    std::fflush(stream_);
    before_ = ::dup(::fileno(stream_));
    ::dup2(::fileno(file_), ::fileno(stream_));
  }
  std::string end() {
    std::fflush(stream_);
    ::dup2(before_, ::fileno(stream_));
    ::close(before_);
    std::string text(static_cast<size_t>(std::ftell(file_)), '\0');
    std::rewind(file_);
    text.resize(std::fread(text.data(), 1, text.size(), file_));
    std::fclose(file_);
    return text;
  }

 private:
  FILE* stream_;
  FILE* file_;
  int before_;
};

}  // namespace heddle::bench
