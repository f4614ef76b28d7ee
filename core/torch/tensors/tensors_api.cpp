#include "core/torch/tensors/tensors_api.hpp"

#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>

#include <ATen/DLConvertor.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/plugin/host.hpp"
#include "core/torch/tensors/op_values.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/abi/tensor.h"
#include "kinora/aten.hpp"
#include "kinora/whole.hpp"

namespace kinora::core {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The plugin's function and state; destroyed after both the forward call and the graph's node.
struct Holder : torch::CustomClassHolder {
  kinora_function f;
  std::vector<size_t> defined;  // indices of the inputs that are defined

  explicit Holder(const kinora_function& function) : f(detail::whole(&function)) {}
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

// One node of the autograd graph whose forward and backward are C functions.
struct PluginFunction : torch::autograd::Function<PluginFunction> {
  // A TensorList, not a vector: libtorch only searches the former for tensors with a graph.
  static variable_list forward(AutogradContext* ctx, at::TensorList in,
                               const c10::intrusive_ptr<Holder>& holder) {
    std::vector<kinora_tensor> handles(holder->f.n_in, nullptr);
    for (size_t i = 0; i < in.size(); ++i) handles[holder->defined[i]] = handle(in[i]);
    auto out = call(holder->f.forward, holder->f.state, handles, holder->f.n_out);
    for (size_t i = 0; i < out.size(); ++i)
      if (!out[i].defined())
        raise(KINORA_ERROR_INVALID, "autograd_apply: forward gave no tensor for output {}", i);
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

// kinora_tensors_api.autograd_apply, but throws exceptions. f.drop is called exactly once in any case.
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

struct Hash {
  using is_transparent = void;
  size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
};

// Cache of looked-up operators, never evicted: the dispatcher's own table takes a lock and builds names at
// every lookup.
class Operators {
 public:
  const Operator& find(const char* name, const char* overload) {
    char key[256];
    const size_t n = std::strlen(name), m = overload ? std::strlen(overload) : 0;
    if (n + m + 1 > sizeof key) raise(KINORA_ERROR_NOT_FOUND, "no operator has a name as long as '{}'", name);
    std::memcpy(key, name, n);
    key[n] = '.';
    if (m) std::memcpy(key + n + 1, overload, m);
    const std::string_view view(key, n + 1 + m);
    {
      const std::shared_lock lock(mutex_);
      if (const auto it = known_.find(view); it != known_.end()) return *it->second;
    }
    const auto handle = c10::Dispatcher::singleton().findSchema({name, overload ? overload : ""});
    if (!handle)
      raise(KINORA_ERROR_NOT_FOUND, "libtorch has no operator '{}' with overload '{}'", name,
            overload ? overload : "");
    const std::unique_lock lock(mutex_);
    auto& at = known_[std::string(view)];
    if (!at) at = std::make_unique<Operator>(*handle);
    return *at;
  }

 private:
  std::shared_mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<Operator>, Hash, std::equal_to<>> known_;
};

// kinora_tensors_api.release_value.
void release_value(kinora_value* v) {
  if (v->kind == KINORA_VALUE_TENSOR) adopt<at::Tensor>(v->t);
  if (v->kind == KINORA_VALUE_TENSORS) {
    const auto* list = static_cast<const kinora_tensor*>(v->list);
    for (uint64_t i = 0; i < v->n; ++i) adopt<at::Tensor>(list[i]);
    delete[] list;
  }
  if (v->kind == KINORA_VALUE_INTS) delete[] static_cast<const int64_t*>(v->list);
  *v = kinora_value{};
}

// [any-thread] kinora_tensors_api.call_op, but throws exceptions: kinora_value <-> the dispatcher's boxed
// values.
void call_operator(const char* name, const char* overload, const kinora_value* args, uint64_t n_args,
                   kinora_value* out, uint64_t n_out) {
  static Operators operators;
  const Operator& op = operators.find(name, overload);
  const size_t n = op.arguments.size(), returns = op.handle.schema().returns().size();
  if (n_args > n) raise(KINORA_ERROR_INVALID, "{}: {} arguments given, it has {}", op.name, n_args, n);
  if (n_out > returns)
    raise(KINORA_ERROR_INVALID, "{}: {} results asked for, it has {}", op.name, n_out, returns);
  torch::jit::Stack stack;
  stack.reserve(std::max(n, returns));
  for (size_t i = 0; i < n; ++i) stack.push_back(i < n_args ? op.argument(i, args[i]) : op.missing(i));
  op.handle.callBoxed(stack);
  uint64_t done = 0;
  try {
    for (; done < n_out; ++done) out[done] = result_of(stack[done]);
  } catch (...) {
    while (done > 0) release_value(&out[--done]);
    throw;
  }
}

const at::Tensor& tensor_of(kinora_tensor h) {
  if (!h) throw Error(KINORA_ERROR_INVALID, "a tensor is missing (null handle)");
  return *reinterpret_cast<const at::Tensor*>(h);
}

void release(kinora_tensor h) { delete reinterpret_cast<at::Tensor*>(h); }

int32_t retain(kinora_tensor h, kinora_tensor* out) {
  return torch_guard([&] { *out = give(tensor_of(h)); });
}

int32_t info(kinora_tensor h, kinora_tensor_info* out) {
  return torch_guard([&] {
    const auto& t = tensor_of(h);
    kinora_tensor_info all{.struct_size = sizeof all};
    all.dtype = static_cast<int32_t>(t.scalar_type());
    all.device_type = t.is_cuda() ? KINORA_DL_CUDA : t.is_meta() ? KINORA_NO_STORAGE : KINORA_DL_CPU;
    all.device_id = t.is_cuda() ? t.device().index() : 0;
    all.ndim = t.dim();
    all.shape = t.sizes().data();
    all.strides = t.strides().data();
    all.numel = t.numel();
    all.requires_grad = t.requires_grad();
    all.contiguous = t.is_contiguous();
    KINORA_FILL(out, &all);
  });
}

int32_t data(kinora_tensor h, void** out) {
  return torch_guard([&] {
    const auto& t = tensor_of(h);
    if (t.is_meta())
      raise(KINORA_ERROR_UNSUPPORTED, "a tensor {} on the meta device has a shape and no values",
            c10::str(t.sizes()));
    *out = t.data_ptr();
  });
}

int32_t empty(const int64_t* shape, int64_t ndim, int32_t dtype, kinora_tensor like, kinora_tensor* out) {
  return torch_guard([&] {
    const auto device = like ? tensor_of(like).device() : at::Device(at::kCPU);
    const auto options = at::TensorOptions().dtype(static_cast<at::ScalarType>(dtype)).device(device);
    *out = give(at::empty(at::IntArrayRef(shape, static_cast<size_t>(ndim)), options));
  });
}

// kinora_dl_managed has the layout of DLManagedTensorVersioned.
int32_t from_dlpack(kinora_dl_managed* managed, kinora_tensor* out) {
  return torch_guard([&] {
    if (managed->major != 1)
      raise(KINORA_ERROR_UNSUPPORTED, "a DLPack tensor of version {}.{}; only 1.x is supported",
            managed->major, managed->minor);
    *out = give(at::fromDLPackVersioned(reinterpret_cast<DLManagedTensorVersioned*>(managed)));
  });
}

int32_t to_dlpack(kinora_tensor h, kinora_dl_managed** out) {
  return torch_guard(
      [&] { *out = reinterpret_cast<kinora_dl_managed*>(at::toDLPackVersioned(tensor_of(h).detach())); });
}

int32_t call_op(const char* name, const char* overload, const kinora_value* args, uint64_t n_args,
                kinora_value* out, uint64_t n_out) {
  try {
    call_operator(name, overload, args, n_args, out, n_out);
    return KINORA_OK;
  } catch (...) {  // the name is built only on an error: this is the hot path
    return torch_guard([] { throw; }, overload && *overload ? fmt::format("{}.{}", name, overload) : name);
  }
}

int32_t autograd_apply(const kinora_function* f, const kinora_tensor* in, kinora_tensor* out) {
  return torch_guard([&] { apply_function(*f, in, out); });
}

std::vector<at::Tensor> list_of(const kinora_tensor* handles, uint64_t n) {
  std::vector<at::Tensor> out;
  for (uint64_t i = 0; handles && i < n; ++i) out.push_back(borrow<at::Tensor>(handles[i]));
  return out;
}

int32_t grad(const kinora_tensor* outputs, const kinora_tensor* grad_outputs, uint64_t n_outputs,
             const kinora_tensor* inputs, uint64_t n_inputs, kinora_tensor* out) {
  return torch_guard([&] {
    const auto made = torch::autograd::grad(list_of(outputs, n_outputs), list_of(inputs, n_inputs),
                                            list_of(grad_outputs, n_outputs), std::nullopt,
                                            /*create_graph=*/false, /*allow_unused=*/true);
    for (uint64_t i = 0; i < n_inputs; ++i) out[i] = give(made[i]);
  });
}

int32_t backward(const kinora_tensor* outputs, const kinora_tensor* grad_outputs, uint64_t n_outputs) {
  return torch_guard(
      [&] { torch::autograd::backward(list_of(outputs, n_outputs), list_of(grad_outputs, n_outputs)); });
}

int32_t set_grad_mode(int32_t on) {
  const bool before = at::GradMode::is_enabled();
  at::GradMode::set_enabled(on != 0);
  return before;
}

int32_t set_requires_grad(kinora_tensor h, int32_t on) {
  return torch_guard([&] { tensor_of(h).set_requires_grad(on != 0); });
}

}  // namespace

const kinora_tensors_api* tensors_api_table() {
  static constexpr kinora_tensors_api table{sizeof(kinora_tensors_api),
                                            0,
                                            release,
                                            retain,
                                            info,
                                            data,
                                            empty,
                                            from_dlpack,
                                            to_dlpack,
                                            call_op,
                                            release_value,
                                            autograd_apply,
                                            grad,
                                            set_grad_mode,
                                            set_requires_grad,
                                            backward};
  return &table;
}

void serve_tensors() { register_interface(KINORA_INTERFACE_TENSORS, KINORA_ABI_MINOR, tensors_api_table()); }

}  // namespace kinora::core
