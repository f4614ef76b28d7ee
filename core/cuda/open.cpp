// The entry point that libkinora_torch calls and the table that it returns (kinora/abi/cuda.h): CUDA graphs,
// copies to a GPU, memory statistics, and the kernels of kernels.hpp.
#include <map>
#include <memory>
#include <vector>

#include <ATen/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/cuda/CachingHostAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "core/cuda/kernels.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/abi/cuda.h"
#include "kinora/abi/plugin.h"
#include "kinora/aten.hpp"

// Copies to a GPU that run concurrently with its computation.
struct kinora_cuda_copier {
  explicit kinora_cuda_copier(c10::DeviceIndex device)
      : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)) {}

  // Freed pinned memory is reused only after the copies from it have finished, because its allocator tracks
  // the stream.
  std::vector<at::Tensor> send(const std::vector<at::Tensor>& in) {
    const c10::cuda::CUDAStreamGuard aside(stream_);
    std::vector<at::Tensor> out;
    for (const auto& tensor : in)
      out.push_back(tensor.contiguous().pin_memory().to(stream_.device(), tensor.scalar_type(),
                                                        /*non_blocking=*/true));
    done_.record(stream_);
    return out;
  }

  // Their memory belongs to this stream: it must not be given to another copy while the reader still reads.
  void wait(const std::vector<at::Tensor>& sent) {
    const auto reader = c10::cuda::getCurrentCUDAStream(stream_.device_index());
    done_.block(reader);
    for (const auto& tensor : sent)
      c10::cuda::CUDACachingAllocator::recordStream(tensor.storage().data_ptr(), reader);
  }

 private:
  c10::cuda::CUDAStream stream_;
  c10::cuda::CUDAEvent done_;
};

// CUDA graphs: functions recorded once and replayed. All graphs of one owner share a pool: they never run at
// the same time, and the results of one are read before the next runs.
struct kinora_cuda_graphs {
  using Evaluate = int32_t (*)(void* user, kinora_tensor* out);

  explicit kinora_cuda_graphs(c10::DeviceIndex device);
  at::Tensor record(Evaluate evaluate, void* user, int64_t& number);
  void replay(int64_t number);
  void forget(int64_t number) { graphs_.erase(number); }

 private:
  at::Tensor capture(at::cuda::CUDAGraph& graph, Evaluate evaluate, void* user);
  void abandon();

  c10::cuda::CUDAStream stream_;  // separate from the caller's stream
  c10::MempoolId_t pool_;
  int64_t last_ = 0;
  std::map<int64_t, std::unique_ptr<at::cuda::CUDAGraph>> graphs_;
};

namespace {

using c10::cuda::CUDAStream;

// Makes work enqueued on `later` from now on wait for the work on `first`.
void order(const CUDAStream& first, const CUDAStream& later) {
  c10::cuda::CUDAEvent event;
  event.record(first);
  event.block(later);
}

at::Tensor called(kinora_cuda_graphs::Evaluate evaluate, void* user) {
  kinora_tensor out = nullptr;
  kinora::check(evaluate(user, &out));
  return kinora::adopt<at::Tensor>(out);
}

}  // namespace

kinora_cuda_graphs::kinora_cuda_graphs(c10::DeviceIndex device)
    : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device)),
      pool_(at::cuda::graph_pool_handle()) {}

at::Tensor kinora_cuda_graphs::record(Evaluate evaluate, void* user, int64_t& number) {
  const c10::cuda::CUDAGuard device(stream_.device());
  const CUDAStream outside = c10::cuda::getCurrentCUDAStream(stream_.device_index());
  auto graph = std::make_unique<at::cuda::CUDAGraph>();
  at::Tensor out;
  order(outside, stream_);
  {
    const c10::cuda::CUDAStreamGuard aside(stream_);
    // Creates library handles and workspaces, selects algorithms, fills the context's tables.
    for (int warm_up = 0; warm_up < 2; ++warm_up) called(evaluate, user);
    out = capture(*graph, evaluate, user);
  }
  order(stream_, outside);
  number = ++last_;
  graphs_[number] = std::move(graph);
  return out;
}

// Other threads may continue to use the device: only this thread's calls are checked.
at::Tensor kinora_cuda_graphs::capture(at::cuda::CUDAGraph& graph, Evaluate evaluate, void* user) {
  stream_.synchronize();
  graph.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
  try {
    at::Tensor out = called(evaluate, user);
    graph.capture_end();
    return out;
  } catch (...) {
    abandon();
    throw;
  }
}

// Ends a capture that failed. Otherwise libtorch's allocators would continue to allocate from the pool.
void kinora_cuda_graphs::abandon() {
  cudaGraph_t left = nullptr;
  if (cudaStreamEndCapture(stream_, &left) == cudaSuccess && left) cudaGraphDestroy(left);
  cudaGetLastError();
  const auto quietly = [](auto f) {
    try {
      f();
    } catch (const c10::Error&) {  // the capture had already ended
    }
  };
  quietly([&] { c10::cuda::CUDACachingAllocator::endAllocateToPool(stream_.device_index(), pool_); });
  quietly([&] { at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(pool_); });
}

void kinora_cuda_graphs::replay(int64_t number) {
  const auto it = graphs_.find(number);
  if (it == graphs_.end()) kinora::core::raise(KINORA_ERROR_INVALID, "CUDA graph {} does not exist", number);
  it->second->replay();
}

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

HeadsOf heads(kinora_tensor x, kinora_tensor weight, kinora_tensor cos, kinora_tensor sin, uint32_t turn) {
  return {tensor(x), tensor(weight), borrow<at::Tensor>(cos), borrow<at::Tensor>(sin),
          turn == KINORA_ROPE_HALVES};
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
