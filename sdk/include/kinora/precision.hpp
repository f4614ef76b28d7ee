// A precision in C++, see abi/precision.h.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "kinora/abi/precision.h"
#include "kinora/link.hpp"
#include "kinora/options.hpp"
#include "kinora/tensor.hpp"

KINORA_SDK_BEGIN

namespace kinora {

namespace detail {

// Whether a cut of the weight into `ranks` goes through no group; see require_whole_groups().
inline bool has_whole_groups(const kinora_param_spec& s, int64_t group, bool outputs_too, int64_t ranks) {
  const bool row = s.role == KINORA_ROLE_ROW, column = s.role == KINORA_ROLE_COLUMN && outputs_too;
  if ((!row && !column) || s.shards <= 1 || s.ndim < 2 || ranks <= 1) return true;
  const int64_t whole = s.shape[row ? 1 : 0], parts = s.n_parts > 1 ? s.n_parts : 1;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t part = s.n_parts > 1 && s.parts ? s.parts[i] : whole / parts;
    if (part % ranks || part / ranks % group) return false;
  }
  return true;
}

}  // namespace detail

// For a link that quantises the rows of matrices in groups of `group` numbers: rejects weights that tensor
// parallelism splits within a group, since their scales would cover other numbers than in one process. The
// error names the largest divisor of the ranks that suits all these weights: what the strategy divides by the
// ranks, such as heads, it can divide by their divisors too.
// outputs_too: groups are also along the outputs (square blocks, the gradient of the result), so the cut of a
// COLUMN weight counts as well.
// weights: what parameter() was given. A spec borrows its name, shape and parts for that call alone, so a link
// that calls this in declared() keeps copies of them.
inline void require_whole_groups(const std::vector<kinora_param_spec>& weights, int64_t group,
                                 bool outputs_too = false) {
  for (const auto& s : weights) {
    if (detail::has_whole_groups(s, group, outputs_too, s.shards)) continue;
    const auto suits_all = [&](int64_t ranks) {
      return s.shards % ranks == 0 && std::all_of(weights.begin(), weights.end(), [&](const auto& w) {
               return detail::has_whole_groups(w, group, outputs_too, ranks);
             });
    };
    int64_t most = s.shards;
    while (!suits_all(most)) --most;
    throw Error(KINORA_ERROR_INVALID,
                std::string("parameter '") + s.name + "': groups of " + std::to_string(group) +
                    " numbers share a scale, and a cut of " +
                    std::to_string(s.shape[s.role == KINORA_ROLE_ROW ? 1 : 0]) + " into " +
                    std::to_string(s.shards) + " goes through one; " +
                    (most > 1 ? std::to_string(most) + " tensor ranks would do"
                              : "only 1 tensor rank would do; use another strategy, such as fsdp, or leave "
                                "the layer in more bits"));
  }
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
  // Tokens in a row that share a scale.
  virtual int64_t token_block() const { return 1; }
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
        },
        [](void* self) {
          int64_t tokens = 1;
          guard([&] { tokens = of(self)->token_block(); });
          return tokens;
        }};
    return &table;
  }

 private:
  static Precision* of(void* self) { return static_cast<Precision*>(self); }
};

}  // namespace kinora

KINORA_SDK_END
