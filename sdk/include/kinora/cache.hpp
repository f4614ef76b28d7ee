// A cache of keys and values in C++, see abi/cache.h.
#pragma once
#include "kinora/abi/cache.h"
#include "kinora/link.hpp"
#include "kinora/options.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// Size of a tensor's elements in bytes; 0 if it is undefined. A dtype that the ABI does not name counts as one
// byte: those of eight bits.
inline int64_t bytes_of(const Tensor& t) {
  if (!t.defined()) return 0;
  switch (t.dtype()) {
    case KINORA_DTYPE_FLOAT64:
    case KINORA_DTYPE_INT64:
      return 8 * t.numel();
    case KINORA_DTYPE_FLOAT32:
    case KINORA_DTYPE_INT32:
      return 4 * t.numel();
    case KINORA_DTYPE_FLOAT16:
    case KINORA_DTYPE_BFLOAT16:
      return 2 * t.numel();
    default:
      return t.numel();
  }
}

// A subclass C has: struct Options; static void describe(Describe<Options>&); C(const Options&, int64_t
// tokens), tokens as in kinora_cache.create.
class Cache {
 public:
  static constexpr const char* kind = "cache";
  static constexpr const char* interface_id = KINORA_INTERFACE_CACHE;
  virtual ~Cache() = default;
  virtual const kinora_link* link() = 0;
  // branch: KINORA_BRANCH_ALL where kinora_cache allows it.
  virtual int64_t tokens(uint32_t branch) = 0;
  virtual int64_t bytes() = 0;
  virtual void reset(uint32_t branch) = 0;
  virtual void trim(uint32_t branch, int64_t tokens) = 0;
  virtual void pin(int64_t first, int64_t count) = 0;

  template <class C>
  static const void* api() {
    static const kinora_cache table{
        sizeof(kinora_cache),
        0,
        [](const kinora_host*, const kinora_options* o, int64_t tokens) -> void* {
          Cache* made = nullptr;
          guard([&] { made = new C(described<C>().read(o), tokens); });
          return made;
        },
        [](void* self) { delete of(self); },
        [](void* self, const kinora_link** out) { return guard([&] { *out = of(self)->link(); }); },
        [](void* self, uint32_t branch, int64_t* out) {
          return guard([&] { *out = of(self)->tokens(branch); });
        },
        [](void* self, int64_t* out) { return guard([&] { *out = of(self)->bytes(); }); },
        [](void* self, uint32_t branch) { return guard([&] { of(self)->reset(branch); }); },
        [](void* self, uint32_t branch, int64_t tokens) {
          return guard([&] { of(self)->trim(branch, tokens); });
        },
        [](void* self, int64_t first, int64_t count) { return guard([&] { of(self)->pin(first, count); }); }};
    return &table;
  }

 private:
  static Cache* of(void* self) { return static_cast<Cache*>(self); }
};

}  // namespace kinora

KINORA_SDK_END
