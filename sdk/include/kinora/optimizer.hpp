// An optimizer in C++, see abi/optimizer.h.
#pragma once
#include <type_traits>
#include <vector>

#include "kinora/abi/optimizer.h"
#include "kinora/options.hpp"
#include "kinora/tensor.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// kinora_update with the SDK's tensors; T shares the caller's storage, which in-place operations change.
template <class T>
struct Update {
  struct Average {
    T values;
    double share;
  };
  int64_t step;
  double learning_rate, weight_decay, gradient_factor;
  T weight, gradient;
  std::vector<T> states;
  std::vector<Average> averages;
};

// A subclass O has: struct Options; static void describe(Describe<Options>&); explicit O(const Options&).
template <class T>
class Optimizer {
 public:
  static constexpr const char* kind = "optimizer";
  static constexpr const char* interface_id = KINORA_INTERFACE_OPTIMIZER;
  struct Plan {
    uint32_t states = 0;  // the first of the manifest's outputs
    bool whole = false;
  };
  virtual ~Optimizer() = default;
  virtual Plan plan(const kinora_param_spec&) = 0;
  virtual void update(const Update<T>&) = 0;
  // Overridden by optimizers whose plans say `whole`.
  virtual T direction(const kinora_param_spec&, const T&) {
    throw Error(KINORA_ERROR_UNSUPPORTED, "this optimizer needs no whole parameter");
  }

  template <class O>
  static const void* api() {
    static const kinora_optimizer table{
        sizeof(kinora_optimizer),
        0,
        [](const kinora_host*, const kinora_options* o) -> void* {
          Optimizer* made = nullptr;
          guard([&] { made = new O(described<O>().read(o)); });
          return made;
        },
        [](void* self) { delete of(self); },
        [](void* self, const kinora_param_spec* spec, kinora_update_plan* out) {
          return guard([&] {
            const Plan plan = of(self)->plan(*spec);
            const kinora_update_plan filled{sizeof filled, plan.states, plan.whole ? 1u : 0u, 0};
            KINORA_FILL(out, &filled);
          });
        },
        [](void* self, const kinora_update* update) {
          return guard([&] { of(self)->update(converted(*update)); });
        },
        direction_of<O>()};
    return &table;
  }

 private:
  static Update<T> converted(const kinora_update& u) {
    Update<T> out{u.step,
                  u.learning_rate,
                  u.weight_decay,
                  u.gradient_factor,
                  borrow<T>(u.weight),
                  borrow<T>(u.gradient),
                  {},
                  {}};
    for (uint32_t i = 0; i < u.n_states; ++i) out.states.push_back(borrow<T>(u.states[i]));
    for (uint64_t i = 0; i < u.n_averages; ++i)
      out.averages.push_back({borrow<T>(u.averages[i].values), u.averages[i].share});
    return out;
  }
  // Null for an optimizer that does not override it.
  template <class O>
  static auto direction_of() -> decltype(kinora_optimizer::direction) {
    if constexpr (std::is_same_v<decltype(&O::direction), decltype(&Optimizer::direction)>) return nullptr;
    return [](void* self, const kinora_param_spec* spec, kinora_tensor in, kinora_tensor* out) {
      return guard([&] { *out = give(of(self)->direction(*spec, borrow<T>(in))); });
    };
  }
  static Optimizer* of(void* self) { return static_cast<Optimizer*>(self); }
};

}  // namespace kinora

KINORA_SDK_END
