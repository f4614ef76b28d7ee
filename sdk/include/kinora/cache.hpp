// A cache of keys and values in C++, see abi/cache.h.
#pragma once
#include <map>
#include <string>

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
// tokens), tokens as in kinora_cache.create. Arguments are those of kinora_cache.
class Cache {
 public:
  static constexpr const char* kind = "cache";
  static constexpr const char* interface_id = KINORA_INTERFACE_CACHE;
  using Saved = std::map<std::string, Tensor>;
  virtual ~Cache() = default;
  virtual const kinora_link* link() = 0;
  // branch: KINORA_BRANCH_ALL where kinora_cache allows it.
  virtual int64_t tokens(uint64_t session, uint32_t branch) = 0;
  virtual int64_t bytes(uint64_t session) = 0;
  virtual void reset(uint64_t session, uint32_t branch) = 0;
  virtual void trim(uint64_t session, uint32_t branch, int64_t tokens) = 0;
  virtual void pin(uint64_t session, int64_t first, int64_t count) = 0;
  virtual void unpin(uint64_t session, int64_t first, int64_t count) = 0;
  virtual void copy(uint64_t from, uint64_t to) {
    if (from != to) restore(to, save(from));
  }
  virtual Saved save(uint64_t /*session*/) { throw Error(KINORA_ERROR_UNSUPPORTED, kStays); }
  virtual void restore(uint64_t /*session*/, const Saved&) { throw Error(KINORA_ERROR_UNSUPPORTED, kStays); }

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
        [](void* self, uint64_t session, uint32_t branch, int64_t* out) {
          return guard([&] { *out = of(self)->tokens(session, branch); });
        },
        [](void* self, uint64_t session, int64_t* out) {
          return guard([&] { *out = of(self)->bytes(session); });
        },
        [](void* self, uint64_t session, uint32_t branch) {
          return guard([&] { of(self)->reset(session, branch); });
        },
        [](void* self, uint64_t session, uint32_t branch, int64_t tokens) {
          return guard([&] { of(self)->trim(session, branch, tokens); });
        },
        [](void* self, uint64_t session, int64_t first, int64_t count) {
          return guard([&] { of(self)->pin(session, first, count); });
        },
        [](void* self, uint64_t session, int64_t first, int64_t count) {
          return guard([&] { of(self)->unpin(session, first, count); });
        },
        [](void* self, uint64_t from, uint64_t to) { return guard([&] { of(self)->copy(from, to); }); },
        [](void* self, uint64_t session, void* to, int32_t (*take)(void*, const kinora_named*)) {
          return guard([&] {
            for (const auto& [name, tensor] : of(self)->save(session)) {
              const kinora_named one{name.c_str(), tensor.get()};
              check(take(to, &one));
            }
          });
        },
        [](void* self, uint64_t session, const kinora_named* in, uint64_t n_in) {
          return guard([&] {
            Saved saved;
            for (uint64_t i = 0; i < n_in; ++i) saved[in[i].name] = Tensor::borrow(in[i].tensor);
            of(self)->restore(session, saved);
          });
        }};
    return &table;
  }

 private:
  static constexpr const char* kStays = "this cache neither copies nor saves its sessions";
  static Cache* of(void* self) { return static_cast<Cache*>(self); }
};

}  // namespace kinora

KINORA_SDK_END
