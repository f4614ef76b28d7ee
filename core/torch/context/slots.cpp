#include "core/torch/context/slots.hpp"

#include <cstring>

#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

template <size_t I, class... A, int32_t (*kinora_context::*Member)(void*, A...)>
struct Slots::Slot<I, Member> {
  static int32_t call(void* self, A... a) {
    const auto* owner = static_cast<const Slots*>(self)->owners_[I];
    return (owner->*Member)(owner->self, a...);
  }
};

template <size_t I, auto Member>
void Slots::resolve(const std::vector<const kinora_context*>& from) {
  constexpr size_t end =
      offsetof(kinora_context, parameter) + (I + 1) * sizeof(void*);  // slots are contiguous
  for (const auto* c : from) {
    if (c->struct_size < end || !(c->*Member)) continue;
    owners_[I] = c;
    context_.*Member = Slot<I, Member>::call;
    return;
  }
  raise(KINORA_INVALID, "no link of the chain implements slot {} of the context", I);
}

Slots::Slots(const std::vector<const kinora_context*>& from) {
  context_.struct_size = sizeof context_;
  context_.self = this;
  resolve<0, &kinora_context::parameter>(from);
  resolve<1, &kinora_context::value>(from);
  resolve<2, &kinora_context::linear>(from);
  resolve<3, &kinora_context::attention>(from);
  resolve<4, &kinora_context::total>(from);
  resolve<5, &kinora_context::block>(from);
  resolve<6, &kinora_context::sequence>(from);
  resolve<7, &kinora_context::leave>(from);
  resolve<8, &kinora_context::table>(from);
  resolve<9, &kinora_context::reshard>(from);
  resolve<10, &kinora_context::noise>(from);
}

}  // namespace kinora::core
