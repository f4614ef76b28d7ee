// A loss in C++, see abi/loss.h; and for losses of the stable tier, noise levels (one per sample or one per
// frame) applied to latents.
#pragma once
#include <string>
#include <type_traits>
#include <vector>

#include "kinora/abi/loss.h"
#include "kinora/options.hpp"
#include "kinora/tensor.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// A subclass L has: struct Options; static void describe(Describe<Options>&); explicit L(const Options&).
template <class T>
class Loss {
 public:
  static constexpr const char* kind = "loss";
  static constexpr const char* interface_id = KINORA_INTERFACE_LOSS;
  static constexpr uint32_t mix = KINORA_MIX_VARIANCE_EXPLODING;  // a subclass may declare its own
  struct Input {
    T latent, timestep;
  };
  virtual ~Loss() = default;
  virtual T level(const T& uniform) { return unsupported(uniform); }
  virtual T noisy(const T& latent, const T& noise, const T& sigma) = 0;
  virtual Input input(const T& x, const T& sigma) = 0;
  virtual T estimate(const T& x, const T& sigma, const T& output) = 0;
  // The manifest's outputs, in its order; the first is `loss` [B].
  virtual std::vector<T> evaluate(const Named<T>& in) = 0;

  template <class L>
  static const void* api() {
    using H = kinora_tensor;
    static const kinora_loss table{
        sizeof(kinora_loss),
        L::mix,
        [](const kinora_host*, const kinora_options* o) -> void* {
          Loss* made = nullptr;
          guard([&] { made = new L(described<L>().read(o)); });
          return made;
        },
        [](void* self) { delete of(self); },
        level_of<L>(),
        [](void* self, H latent, H noise, H sigma, H* x) {
          return guard(
              [&] { *x = give(of(self)->noisy(borrow<T>(latent), borrow<T>(noise), borrow<T>(sigma))); });
        },
        [](void* self, H x, H sigma, H* latent, H* timestep) {
          return guard([&] {
            auto in = of(self)->input(borrow<T>(x), borrow<T>(sigma));
            *latent = give(std::move(in.latent));
            *timestep = give(std::move(in.timestep));
          });
        },
        [](void* self, H x, H sigma, H output, H* x0) {
          return guard(
              [&] { *x0 = give(of(self)->estimate(borrow<T>(x), borrow<T>(sigma), borrow<T>(output))); });
        },
        [](void* self, const kinora_named* in, uint64_t n_in, H* out, uint64_t n_out) {
          return guard([&] { detail::give_all(of(self)->evaluate(Named<T>(in, n_in)), out, n_out); });
        }};
    return &table;
  }

 private:
  // Null for a loss that does not override it, so that the host knows that it works without noise.
  template <class L>
  static auto level_of() -> decltype(kinora_loss::level) {
    if constexpr (std::is_same_v<decltype(&L::level), decltype(&Loss::level)>) return nullptr;
    return [](void* self, kinora_tensor u, kinora_tensor* out) {
      return guard([&] { *out = give(of(self)->level(borrow<T>(u))); });
    };
  }
  static Loss* of(void* self) { return static_cast<Loss*>(self); }
  static T unsupported(const T&) { throw Error(KINORA_ERROR_UNSUPPORTED, "this loss draws no noise"); }
};

// The dtype for elementwise statistics of x: its own, at least float32.
inline Tensor wide(const Tensor& x) {
  return x.dtype() == KINORA_DTYPE_FLOAT64 ? x : x.to(KINORA_DTYPE_FLOAT32);
}

// On x's device, in x's dtype.
inline Tensor as(const Tensor& t, const Tensor& x) { return op("aten::to", "other", {t, x}); }

// s [B], or [B, T] for one per frame, shaped to scale x [B, C, T, ...]; in x's dtype and on its device.
// Throws Error(KINORA_ERROR_INVALID) with both shapes; `name` is the name of s in the message.
inline Tensor spread(const Tensor& s, const Tensor& x, const char* name = "sigma") {
  const auto from = s.sizes(), to = x.sizes();
  const bool per_frame = from.size() == 2;
  const bool fits = per_frame ? to.size() > 2 && from[0] == to[0] && from[1] == to[2]
                              : from.size() == 1 && !to.empty() && from[0] == to[0];
  if (!fits) {
    const auto text = [](const std::vector<int64_t>& shape) {
      std::string out;
      for (int64_t n : shape) out += (out.empty() ? "" : ", ") + std::to_string(n);
      return "[" + out + "]";
    };
    throw Error(KINORA_ERROR_INVALID,
                std::string(name) + " " + text(from) +
                    " must be [B], or [B, T] for one per frame, for a latent [B, C, T, ...]; the latent is " +
                    text(to));
  }
  std::vector<int64_t> shape(to.size(), 1);
  shape[0] = from[0];
  if (per_frame) shape[2] = from[1];
  return as(s.reshape(shape), x);
}

// All dimensions of x [B, ...] but the first, for a sample's mean.
inline std::vector<int64_t> of_sample(const Tensor& x) {
  std::vector<int64_t> out;
  for (int64_t d = 1; d < x.dim(); ++d) out.push_back(d);
  return out;
}

}  // namespace kinora

KINORA_SDK_END
