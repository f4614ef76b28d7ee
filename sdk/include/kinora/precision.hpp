// A precision in C++, see abi/precision.h.
#pragma once
#include "kinora/abi/precision.h"
#include "kinora/link.hpp"
#include "kinora/options.hpp"
#include "kinora/tensor.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// In parameter() of a link that quantises the rows of a matrix in groups of `group` numbers: rejects a weight
// that tensor parallelism splits within a group, since its scales would cover other numbers than in one
// process.
inline void require_whole_groups(const kinora_param_spec& s, int64_t group) {
  if (s.role != KINORA_ROLE_ROW || s.shards <= 1 || s.ndim < 2) return;
  const int64_t whole = s.shape[1], local = whole / s.shards;
  if (local % group == 0) return;
  int64_t fits = s.shards;
  while (fits > 1 && (whole % fits || whole / fits % group)) --fits;
  throw Error(KINORA_ERROR_INVALID, std::string("parameter '") + s.name + "': groups of " +
                                        std::to_string(group) + " numbers share a scale, and a cut of " +
                                        std::to_string(whole) + " into " + std::to_string(s.shards) +
                                        " goes through one; " + std::to_string(fits) +
                                        " tensor ranks would do");
}

// A subclass P has: struct Options; static void describe(Describe<Options>&); explicit P(const Options&).
template <class T>
class Precision {
 public:
  static constexpr const char* kind = "precision";
  static constexpr const char* interface_id = KINORA_INTERFACE_PRECISION;
  virtual ~Precision() = default;
  // Null: the chain is unchanged.
  virtual const kinora_link* link() { return nullptr; }
  // KINORA_DTYPE_FLOAT32 ...: dtype of the residual stream.
  virtual int32_t dtype() const = 0;
  // codes, scales, global_scale, dequantized; undefined if the format does not have one.
  virtual std::vector<T> quantize(const T& x) = 0;

  template <class P>
  static const void* api() {
    static const kinora_precision table{
        sizeof(kinora_precision),
        0,
        [](const kinora_host*, const kinora_options* o) -> void* {
          Precision* made = nullptr;
          guard([&] { made = new P(described<P>().read(o)); });
          return made;
        },
        [](void* self) { delete of(self); },
        [](void* self, const kinora_link** out) { return guard([&] { *out = of(self)->link(); }); },
        [](void* self) {
          int32_t type = -1;
          guard([&] { type = of(self)->dtype(); });
          return type;
        },
        [](void* self, kinora_tensor x, kinora_tensor* out, uint64_t n_out) {
          return guard([&] { detail::give_all(of(self)->quantize(borrow<T>(x)), out, n_out); });
        }};
    return &table;
  }

 private:
  static Precision* of(void* self) { return static_cast<Precision*>(self); }
};

}  // namespace kinora

KINORA_SDK_END
