// A context that passes every call on to another one and counts the handles in the results.
#pragma once
#include "apps/validate/watching_host.hpp"
#include "kinora/abi/context.h"

namespace kinora {

class CountedContext {
 public:
  // of: must outlive this object. sign: 1 if the plugin receives the results, -1 if it gives them. A slot that
  // `of` lacks is null.
  CountedContext(const kinora_context* of, int64_t sign) : of_(of), sign_(sign) {
    table_.struct_size = sizeof table_;
    table_.self = this;
    pass<&kinora_context::parameter, 0>();
    pass<&kinora_context::value>();
    pass<&kinora_context::linear>();
    pass<&kinora_context::attention>();
    pass<&kinora_context::all_reduce>();
    pass<&kinora_context::block, 0>();  // its results were made in the block's function
    pass<&kinora_context::sequence>();
    pass<&kinora_context::gather>();
    pass<&kinora_context::table>();
    pass<&kinora_context::reshard>();
    pass<&kinora_context::noise>();
    pass<&kinora_context::lookup>();
    pass<&kinora_context::share>();
    pass<&kinora_context::place>();
    if (of->get_interface)
      table_.get_interface = [](void* self, const char* id, uint32_t minor) {
        const auto* c = static_cast<const CountedContext*>(self)->of_;
        return c->get_interface(c->self, id, minor);
      };
  }
  CountedContext(const CountedContext&) = delete;
  CountedContext& operator=(const CountedContext&) = delete;
  const kinora_context* context() const { return &table_; }

 protected:
  const kinora_context* const of_;
  kinora_context table_{};

 private:
  template <auto Slot, int64_t N>
  struct Call;
  template <class... A, int32_t (*kinora_context::*Slot)(void*, A...), int64_t N>
  struct Call<Slot, N> {
    static int32_t call(void* self, A... a) {
      const auto* c = static_cast<const CountedContext*>(self);
      const int32_t status = (c->of_->*Slot)(c->of_->self, a...);
      if (status == KINORA_OK) watch().tensors += N * c->sign_;
      return status;
    }
  };
  // N: handles in the result.
  template <auto Slot, int64_t N = 1>
  void pass() {
    if (of_->*Slot) table_.*Slot = Call<Slot, N>::call;
  }
  const int64_t sign_;
};

}  // namespace kinora
