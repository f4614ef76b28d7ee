// A model in C++, see abi/model.h. T is kinora::Tensor (stable tier) or at::Tensor (pinned).
#pragma once
#include "kinora/abi/model.h"
#include "kinora/context.hpp"
#include "kinora/options.hpp"
#include "kinora/renames.hpp"
#include "kinora/tensor.hpp"

KINORA_SDK_BEGIN

namespace kinora {

// A subclass M has: struct Options; static void describe(Describe<Options>&); M(const Options&, const
// Context<T>&), which declares the parameters.
template <class T>
class Model {
 public:
  static constexpr const char* kind = "model";
  static constexpr const char* interface_id = KINORA_INTERFACE_MODEL;
  static constexpr uint32_t sees = KINORA_SEES_ALL;  // a subclass may declare its own
  virtual ~Model() = default;
  // The manifest's outputs, in its order.
  virtual std::vector<T> forward(const Context<T>& ctx, const Named<T>& in) = 0;
  // Embedding and head included.
  virtual int64_t blocks() const = 0;

  template <class M>
  static const void* api() {
    static const kinora_model table{
        sizeof(kinora_model),
        M::sees,
        [](const kinora_host*, const kinora_options* o, const kinora_context* c) -> void* {
          Model* made = nullptr;
          guard([&] { made = new M(described<M>().read(o), Context<T>(c)); });
          return made;
        },
        [](void* self) { delete static_cast<Model*>(self); },
        [](void* self, const kinora_context* c, const kinora_named* in, uint64_t n_in, kinora_tensor* out,
           uint64_t n_out) {
          return guard([&] {
            detail::give_all(static_cast<Model*>(self)->forward(Context<T>(c), Named<T>(in, n_in)), out,
                             n_out);
          });
        },
        [](void* self) {
          int64_t n = -1;
          guard([&] { n = static_cast<Model*>(self)->blocks(); });
          return n;
        },
        detail::layout_of<M>};
    return &table;
  }
};

}  // namespace kinora

KINORA_SDK_END
