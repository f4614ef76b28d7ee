// The entry point that libkinora_torch calls and the table that it returns (kinora/abi/cuda.h): the CUDA
// graphs and copies of graphs.hpp, memory statistics, and the kernels of kernels.hpp.
#include <vector>

#include <ATen/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#ifdef KINORA_CUDNN
#include "core/cuda/attention.hpp"
#endif
#include "core/cuda/graphs.hpp"
#include "core/cuda/kernels.hpp"
#include "core/cuda/low.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/abi/cuda.h"
#include "kinora/abi/plugin.h"
#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

c10::DeviceIndex index(int32_t device) { return static_cast<c10::DeviceIndex>(device); }
const at::Tensor& tensor(kinora_tensor h) {
  if (!h) throw Error(KINORA_ERROR_INVALID, "a tensor is missing (null handle)");
  return *reinterpret_cast<const at::Tensor*>(h);
}
std::vector<at::Tensor> tensors(const kinora_tensor* handles, uint64_t n) {
  std::vector<at::Tensor> out;
  for (uint64_t i = 0; i < n; ++i) out.push_back(tensor(handles[i]));
  return out;
}
template <class Made>
void give_all(const Made& made, kinora_tensor* out) {
  for (const auto& t : made) *out++ = give(t);
}

int32_t stream(int32_t device, void** out) {
  return torch_guard([&] { *out = c10::cuda::getCurrentCUDAStream(index(device)).stream(); });
}

int32_t memory(int32_t device, kinora_cuda_memory* out) {
  return torch_guard([&] {
    const auto known = c10::cuda::CUDACachingAllocator::getDeviceStats(index(device));
    constexpr auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const kinora_cuda_memory now{sizeof now, 0, static_cast<uint64_t>(known.allocated_bytes[all].current),
                                 static_cast<uint64_t>(known.allocated_bytes[all].peak),
                                 static_cast<uint64_t>(known.reserved_bytes[all].peak)};
    KINORA_FILL(out, &now);
  });
}

int32_t graphs_open(int32_t device, kinora_cuda_graphs** out) {
  return torch_guard([&] { *out = new kinora_cuda_graphs(index(device)); });
}
int32_t graphs_record(kinora_cuda_graphs* self, int32_t (*evaluate)(void*, kinora_tensor*), void* user,
                      int64_t* graph, kinora_tensor* out) {
  return torch_guard([&] { *out = give(self->record(evaluate, user, *graph)); });
}
int32_t graphs_replay(kinora_cuda_graphs* self, int64_t graph) {
  return torch_guard([&] { self->replay(graph); });
}
void graphs_forget(kinora_cuda_graphs* self, int64_t graph) { self->forget(graph); }
void graphs_close(kinora_cuda_graphs* self) { delete self; }

int32_t copier_open(int32_t device, kinora_cuda_copier** out) {
  return torch_guard([&] { *out = new kinora_cuda_copier(index(device)); });
}
int32_t copier_send(kinora_cuda_copier* self, const kinora_tensor* in, uint64_t n, kinora_tensor* out) {
  return torch_guard([&] { give_all(self->send(tensors(in, n)), out); });
}
int32_t copier_wait(kinora_cuda_copier* self, const kinora_tensor* sent, uint64_t n) {
  return torch_guard([&] { self->wait(tensors(sent, n)); });
}
void copier_close(kinora_cuda_copier* self) { delete self; }

int32_t modulate(kinora_tensor x, kinora_tensor scale, kinora_tensor shift, double eps, kinora_tensor* out) {
  return torch_guard([&] { give_all(modulate_on_gpu(tensor(x), tensor(scale), tensor(shift), eps), out); });
}
int32_t modulate_backward(kinora_tensor grad, kinora_tensor x, kinora_tensor scale, kinora_tensor shift,
                          kinora_tensor mean, kinora_tensor rstd, kinora_tensor* out) {
  return torch_guard([&] {
    give_all(modulate_backward_on_gpu(tensor(grad), tensor(x), tensor(scale), tensor(shift), tensor(mean),
                                      tensor(rstd)),
             out);
  });
}

// A choice of two.
bool is(uint32_t first, uint32_t choice, uint32_t reserved, const char* kernel) {
  if (choice > 1 || reserved != 0)
    raise(KINORA_ERROR_UNSUPPORTED, "{}: form {} (reserved: {}) is unknown; 0 or 1 (reserved: 0) is expected",
          kernel, choice, reserved);
  return choice == first;
}

HeadsOf heads(kinora_tensor x, kinora_tensor weight, kinora_tensor cos, kinora_tensor sin, uint32_t turn,
              uint32_t reserved) {
  const auto of = borrow<at::Tensor>;
  return {of(x), of(weight), of(cos), of(sin), is(KINORA_ROPE_HALVES, turn, reserved, "norm_rope")};
}
int32_t norm_rope(kinora_tensor x, kinora_tensor weight, kinora_tensor cos, kinora_tensor sin, uint32_t turn,
                  uint32_t reserved, double eps, kinora_tensor* out) {
  return torch_guard([&] {
    tensor(x);
    give_all(norm_rope_on_gpu(heads(x, weight, cos, sin, turn, reserved), eps), out);
  });
}
int32_t norm_rope_backward(kinora_tensor grad, kinora_tensor x, kinora_tensor weight, kinora_tensor cos,
                           kinora_tensor sin, kinora_tensor rstd, uint32_t turn, uint32_t reserved,
                           kinora_tensor grad_x, kinora_tensor* out) {
  return torch_guard([&] {
    *out = give(norm_rope_backward_on_gpu(tensor(grad), heads(x, weight, cos, sin, turn, reserved),
                                          borrow<at::Tensor>(rstd), tensor(grad_x)));
  });
}

int32_t gated(kinora_tensor x, kinora_tensor y, kinora_tensor gate, kinora_tensor* out) {
  return torch_guard([&] { *out = give(gated_on_gpu(tensor(x), tensor(y), tensor(gate))); });
}
int32_t gated_backward(kinora_tensor grad, kinora_tensor y, kinora_tensor gate, kinora_tensor* out) {
  return torch_guard([&] { give_all(gated_backward_on_gpu(tensor(grad), tensor(y), tensor(gate)), out); });
}

int32_t gelu(kinora_tensor x, kinora_tensor bias, uint32_t form, uint32_t reserved, kinora_tensor* out) {
  return torch_guard([&] {
    *out = give(gelu_on_gpu(tensor(x), tensor(bias), is(KINORA_GELU_EXACT, form, reserved, "gelu")));
  });
}
int32_t gelu_backward(kinora_tensor grad, kinora_tensor x, kinora_tensor bias, uint32_t form,
                      uint32_t reserved, kinora_tensor* out) {
  return torch_guard([&] {
    give_all(gelu_backward_on_gpu(tensor(grad), tensor(x), tensor(bias),
                                  is(KINORA_GELU_EXACT, form, reserved, "gelu")),
             out);
  });
}

int32_t capability(int32_t device, int32_t* out) {
  return torch_guard([&] {
    const auto* known = at::cuda::getDeviceProperties(index(device));
    *out = 10 * known->major + known->minor;
  });
}

int32_t merge_attention(kinora_tensor out, kinora_tensor log_sum, kinora_tensor more,
                        kinora_tensor more_log_sum) {
  return torch_guard(
      [&] { merge_attention_on_gpu(tensor(out), tensor(log_sum), tensor(more), tensor(more_log_sum)); });
}

int32_t adamw(kinora_tensor weight, kinora_tensor gradient, kinora_tensor first, kinora_tensor second,
              const kinora_cuda_adamw* numbers) {
  return torch_guard([&] {
    adamw_on_gpu(tensor(weight), tensor(gradient), tensor(first), tensor(second),
                 tensors(numbers->averages, numbers->n_averages), *numbers);
  });
}

int32_t low_amax(const kinora_cuda_low* how, kinora_tensor x, kinora_tensor amax) {
  return torch_guard([&] { low_amax_on_gpu(*how, tensor(x), tensor(amax)); });
}
int32_t low_quantize(const kinora_cuda_low* how, kinora_tensor x, kinora_tensor amax, kinora_tensor codes,
                     kinora_tensor scales, kinora_tensor global) {
  const auto of = borrow<at::Tensor>;
  return torch_guard(
      [&] { low_quantize_on_gpu(*how, tensor(x), tensor(amax), tensor(codes), of(scales), of(global)); });
}
int32_t low_dequantize(const kinora_cuda_low* how, kinora_tensor codes, kinora_tensor scales,
                       kinora_tensor global, kinora_tensor x) {
  const auto of = borrow<at::Tensor>;
  return torch_guard([&] { low_dequantize_on_gpu(*how, tensor(codes), of(scales), of(global), tensor(x)); });
}

#ifdef KINORA_CUDNN
int32_t attention_open(int32_t device, uint32_t* fp8_backward, kinora_cuda_attention** out) {
  return torch_guard([&] {
    *out = new kinora_cuda_attention(index(device));
    *fp8_backward = (*out)->has_fp8_backward() ? 1 : 0;
  });
}
int32_t attention_forward(kinora_cuda_attention* self, const kinora_cuda_heads* of, kinora_tensor* out) {
  return torch_guard([&] { give_all(self->forward(*of), out); });
}
int32_t attention_backward(kinora_cuda_attention* self, const kinora_cuda_heads* of, kinora_tensor grad,
                           kinora_tensor result, kinora_tensor sums, kinora_tensor* out) {
  return torch_guard([&] { give_all(self->backward(*of, tensor(grad), tensor(result), tensor(sums)), out); });
}
void attention_close(kinora_cuda_attention* self) { delete self; }
#else
int32_t attention_open(int32_t, uint32_t*, kinora_cuda_attention**) {
  return torch_guard([&] {
    raise(KINORA_ERROR_UNSUPPORTED,
          "libkinora_cuda was built without the headers of cuDNN and its front end");
  });
}
constexpr auto attention_forward = nullptr;
constexpr auto attention_backward = nullptr;
void attention_close(kinora_cuda_attention*) {}
#endif

constexpr kinora_cuda_api kTable{sizeof(kinora_cuda_api),
                                 0,
                                 stream,
                                 memory,
                                 graphs_open,
                                 graphs_record,
                                 graphs_replay,
                                 graphs_forget,
                                 graphs_close,
                                 copier_open,
                                 copier_send,
                                 copier_wait,
                                 copier_close,
                                 modulate,
                                 modulate_backward,
                                 norm_rope,
                                 norm_rope_backward,
                                 gated,
                                 gated_backward,
                                 gelu,
                                 gelu_backward,
                                 capability,
                                 merge_attention,
                                 adamw,
                                 low_amax,
                                 low_quantize,
                                 low_dequantize,
                                 attention_open,
                                 attention_forward,
                                 attention_backward,
                                 attention_close};

}  // namespace
}  // namespace kinora::core

extern "C" KINORA_EXPORT const kinora_cuda_api* kinora_cuda_open(const kinora_host* host) {
  kinora::g_host = host;
  return &kinora::core::kTable;
}
