// Entry point that libkinora_torch calls: the table of kinora/abi/cuda.h.
#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include "core/cuda/copier.hpp"
#include "core/cuda/graphs.hpp"
#include "core/cuda/kernels.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/abi/plugin.h"
#include "kinora/aten.hpp"

namespace kinora::core {
namespace {

c10::DeviceIndex index(int32_t device) { return static_cast<c10::DeviceIndex>(device); }
const at::Tensor& tensor(kinora_tensor h) {
  if (!h) throw Error(KINORA_INVALID, "a tensor is missing (null handle)");
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
    out->allocated = static_cast<uint64_t>(known.allocated_bytes[all].current);
    out->allocated_peak = static_cast<uint64_t>(known.allocated_bytes[all].peak);
    out->reserved_peak = static_cast<uint64_t>(known.reserved_bytes[all].peak);
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

HeadsOf heads(kinora_tensor x, kinora_tensor weight, kinora_tensor cos, kinora_tensor sin, uint32_t turn) {
  return {tensor(x), tensor(weight), borrow<at::Tensor>(cos), borrow<at::Tensor>(sin),
          turn == KINORA_TURN_HALVES};
}
int32_t norm_rope(kinora_tensor x, kinora_tensor weight, kinora_tensor cos, kinora_tensor sin, uint32_t turn,
                  uint32_t, double eps, kinora_tensor* out) {
  return torch_guard([&] { give_all(norm_rope_on_gpu(heads(x, weight, cos, sin, turn), eps), out); });
}
int32_t norm_rope_backward(kinora_tensor grad, kinora_tensor x, kinora_tensor weight, kinora_tensor cos,
                           kinora_tensor sin, kinora_tensor rstd, uint32_t turn, uint32_t,
                           kinora_tensor* out) {
  return torch_guard([&] {
    give_all(norm_rope_backward_on_gpu(tensor(grad), heads(x, weight, cos, sin, turn), tensor(rstd)), out);
  });
}

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
                                 norm_rope_backward};

}  // namespace
}  // namespace kinora::core

extern "C" KINORA_EXPORT const kinora_cuda_api* kinora_cuda_open(const kinora_host* host) {
  kinora::g_host = host;
  return &kinora::core::kTable;
}
