// A link of a precision or cache in a chain, whose handles are counted in both directions: what the chain gives
// to the link, and what the link gives to the chain.
#pragma once
#include <optional>

#include "apps/validate/counted_context.hpp"
#include "kinora/abi/link.h"
#include "kinora/tensor.hpp"

namespace kinora {

class TrialLink : private CountedContext {
 public:
  // of: must outlive this object, and this object the chain.
  explicit TrialLink(const kinora_link* of);
  const kinora_link* link() const { return &link_; }

 private:
  static TrialLink& from(void* self) { return static_cast<TrialLink&>(*static_cast<CountedContext*>(self)); }
  int32_t bind(const kinora_chain* chain);
  // Calls a function of the link, if it has it.
  template <class Slot, class... A>
  int32_t call(Slot slot, A... a) const {
    return slot ? slot(of_.context->self, a...) : KINORA_OK;
  }

  const kinora_link of_;
  kinora_link link_{};
  const kinora_chain* outer_ = nullptr;
  std::optional<CountedContext> next_, head_;
  kinora_chain chain_{};  // what the link sees
};

// Requires that each call of a bound link refuses a struct with an unknown bit of `needs`. x: any tensor.
void require_needs_refused(const kinora_link* link, const Tensor& x);

}  // namespace kinora
