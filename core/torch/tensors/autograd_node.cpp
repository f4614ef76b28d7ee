#include "core/torch/tensors/autograd_node.hpp"

#include <memory>

#include <torch/csrc/autograd/custom_function.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The plugin's function and state; destroyed after both the forward call and the graph's node.
struct Holder : torch::CustomClassHolder {
  kinora_function f;
  std::vector<size_t> defined;  // indices of the inputs that are defined

  explicit Holder(const kinora_function& function) : f(function) {}
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() override {
    if (f.drop) f.drop(f.state);
  }
};

// Takes ownership of a C callback's outputs even if it fails half-way, so that none leaks.
variable_list call(int32_t (*fn)(void*, const kinora_tensor*, kinora_tensor*), void* state,
                   const std::vector<kinora_tensor>& in, size_t n_out) {
  std::vector<kinora_tensor> out(n_out, nullptr);
  const int32_t status = fn(state, in.data(), out.data());
  if (status != KINORA_OK) check_or_stop(status);  // outputs are untouched after an error
  variable_list made;
  for (auto* h : out) made.push_back(adopt<at::Tensor>(h));
  return made;
}

struct PluginFunction : torch::autograd::Function<PluginFunction> {
  // A TensorList, not a vector: libtorch only searches the former for tensors with a graph.
  static variable_list forward(AutogradContext* ctx, at::TensorList in,
                               const c10::intrusive_ptr<Holder>& holder) {
    std::vector<kinora_tensor> handles(holder->f.n_in, nullptr);
    for (size_t i = 0; i < in.size(); ++i) handles[holder->defined[i]] = handle(in[i]);
    auto out = call(holder->f.forward, holder->f.state, handles, holder->f.n_out);
    for (size_t i = 0; i < out.size(); ++i)
      if (!out[i].defined()) raise(KINORA_INVALID, "autograd_apply: forward gave no tensor for output {}", i);
    ctx->saved_data["holder"] = c10::IValue::make_capsule(holder);
    return out;
  }

  // grads: zeros for a result that did not contribute to the outcome (filled in by the node).
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto capsule = ctx->saved_data["holder"].toCapsule();
    const auto& holder = static_cast<const Holder&>(*capsule);
    const at::AutoGradMode off(false);  // restored if the plugin leaves it on
    std::vector<kinora_tensor> handles;
    handles.reserve(grads.size());
    for (const auto& g : grads) handles.push_back(handle(g));
    const auto all = call(holder.f.backward, holder.f.state, handles, holder.f.n_in);
    variable_list out;
    for (const size_t i : holder.defined) out.push_back(all[i]);
    out.emplace_back();  // for the holder
    return out;
  }
};

}  // namespace

void apply_function(const kinora_function& f, const kinora_tensor* in, kinora_tensor* out) {
  auto holder = c10::make_intrusive<Holder>(f);
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < f.n_in; ++i) {
    if (!in[i]) continue;
    holder->defined.push_back(i);
    tensors.push_back(borrow<at::Tensor>(in[i]));
  }
  auto made = PluginFunction::apply(at::TensorList(tensors), std::move(holder));
  for (size_t i = 0; i < f.n_out; ++i) out[i] = give(std::move(made[i]));
}

}  // namespace kinora::core
