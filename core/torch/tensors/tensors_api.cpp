#include "core/torch/tensors/tensors_api.hpp"

#include <ATen/DLConvertor.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/plugin/host.hpp"
#include "core/torch/tensors/autograd_node.hpp"
#include "core/torch/tensors/operators.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

const at::Tensor& tensor_of(kinora_tensor h) {
  if (!h) throw Error(KINORA_INVALID, "a tensor is missing (null handle)");
  return *reinterpret_cast<const at::Tensor*>(h);
}

void release(kinora_tensor h) { delete reinterpret_cast<at::Tensor*>(h); }

int32_t retain(kinora_tensor h, kinora_tensor* out) {
  return torch_guard([&] { *out = give(tensor_of(h)); });
}

int32_t info(kinora_tensor h, kinora_tensor_info* out) {
  return torch_guard([&] {
    const auto& t = tensor_of(h);
    out->dtype = static_cast<int32_t>(t.scalar_type());
    out->device_type = t.is_cuda() ? KINORA_DL_CUDA : KINORA_DL_CPU;
    out->device_id = t.is_cuda() ? t.device().index() : 0;
    out->ndim = t.dim();
    out->shape = t.sizes().data();
    out->strides = t.strides().data();
    out->numel = t.numel();
    out->requires_grad = t.requires_grad();
    out->contiguous = t.is_contiguous();
  });
}

int32_t data(kinora_tensor h, void** out) {
  return torch_guard([&] {
    const auto& t = tensor_of(h);
    if (t.is_meta())
      raise(KINORA_UNSUPPORTED, "a tensor {} on the meta device has a shape and no values",
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
      raise(KINORA_UNSUPPORTED, "a DLPack tensor of version {}.{}; only 1.x is supported", managed->major,
            managed->minor);
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
  return torch_guard([&] {
    torch::autograd::backward(list_of(outputs, n_outputs), list_of(grad_outputs, n_outputs));
  });
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

void serve_tensors() {
  adopt_host();
  register_interface(KINORA_TENSORS, 0, tensors_api_table());
}

}  // namespace kinora::core
