// The two values that were used last, by number: one for a reader that is ahead, one for its caller behind.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

namespace kinora::core {

// [owner-thread]
template <class T>
class LastTwo {
 public:
  // The value of `number`, from make(number) unless it is one of the two. Valid until the next call.
  template <class Make>
  const T& get(uint64_t number, const Make& make) {
    if (is_first(number)) return values_[0]->second;
    std::swap(values_[0], values_[1]);
    if (!is_first(number)) values_[0].emplace(number, make(number));
    return values_[0]->second;
  }

 private:
  bool is_first(uint64_t number) const { return values_[0] && values_[0]->first == number; }
  std::array<std::optional<std::pair<uint64_t, T>>, 2> values_;  // the one used last first
};

}  // namespace kinora::core
