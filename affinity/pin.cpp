#include "affinity/pin.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace heddle::core {

namespace {

constexpr size_t word_bits = sizeof(unsigned long) * CHAR_BIT;
constexpr size_t mask_bytes_max = 1 << 20;  // eight million CPUs: whoever still answers EINVAL means something else

}  // namespace

std::error_code allow_this_thread(const std::vector<int>& os_ids) {
  std::vector<unsigned long> words;
  for (int id : os_ids) {
    if (id < 0) return std::make_error_code(std::errc::invalid_argument);
    const size_t i = static_cast<size_t>(id);
    if (i / word_bits >= words.size()) words.resize(i / word_bits + 1);
    words[i / word_bits] |= 1ul << (i % word_bits);
  }
  // The system call itself: the library's wrapper would do, but its reader below would not, and they are a pair.
  if (::syscall(SYS_sched_setaffinity, 0, words.size() * sizeof(unsigned long), words.data()) < 0)
    return {errno, std::generic_category()};
  return {};
}

std::error_code pin_this_thread(int os_id) { return allow_this_thread({os_id}); }

std::vector<int> affinity_mask(const mask_reader& read) {
  // The kernel answers EINVAL until the buffer holds all CPUs it could ever have.
  for (size_t bytes = 128; bytes <= mask_bytes_max; bytes *= 2) {
    std::vector<unsigned long> words(bytes / sizeof(unsigned long));
    const long got = read(bytes, words.data());
    if (got < 0 && errno == EINVAL) continue;
    if (got < 0) return {};
    std::vector<int> os_ids;
    for (size_t i = 0; i < static_cast<size_t>(got) * CHAR_BIT && i < words.size() * word_bits; i++)
      if (words[i / word_bits] >> (i % word_bits) & 1) os_ids.push_back(static_cast<int>(i));
    return os_ids;
  }
  return {};
}

std::vector<int> affinity_mask() {
  return affinity_mask(
      [](size_t bytes, unsigned long* words) { return ::syscall(SYS_sched_getaffinity, 0, bytes, words); });
}

}  // namespace heddle::core
