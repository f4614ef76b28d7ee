// A context whose every call goes straight to the first link, from some position of the chain on, that
// implements it: a link with a null slot costs nothing.
#pragma once
#include <array>
#include <vector>

#include "kinora/abi/context.h"

namespace kinora::core {

class Slots {
 public:
  // `from`: contexts of the links in chain order; the last implements everything. They must outlive this
  // object.
  explicit Slots(const std::vector<const kinora_context*>& from);
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;
  const kinora_context* context() const { return &context_; }

  static constexpr size_t count = 11;

 private:
  kinora_context context_{};
  std::array<const kinora_context*, count> owners_{};

  template <size_t I, auto Member>
  struct Slot;
  template <size_t I, auto Member>
  void resolve(const std::vector<const kinora_context*>& from);
};

}  // namespace kinora::core
