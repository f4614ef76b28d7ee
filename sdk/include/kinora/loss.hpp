// A loss in C++, see abi/loss.h.
#pragma once
#include <type_traits>

#include "kinora/abi/loss.h"
#include "kinora/named.hpp"
#include "kinora/options.hpp"

namespace kinora {

// A subclass L has: struct Options; static void describe(Describe<Options>&); explicit L(const Options&).
template <class T>
class Loss {
 public:
  static constexpr const char* kind = "loss";
  static constexpr const char* interface_id = KINORA_LOSS;
  static constexpr uint32_t mix = KINORA_MIX_ADD;  // a subclass may declare its own
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
  static T unsupported(const T&) { throw Error(KINORA_UNSUPPORTED, "this loss draws no noise"); }
};

}  // namespace kinora
