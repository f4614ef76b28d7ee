// B samples of G rows, S queries, L keys, H heads, d width of a head.
#include "core/cuda/attention.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cudnn/Handle.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/aten.hpp"

namespace fe = cudnn_frontend;
using at::Tensor;
using kinora::borrow;
using kinora::core::raise;

namespace {

constexpr int64_t kStreams = 8;

struct Heads {
  Tensor q, k, v, numbers;
  int64_t B, G, S, L, H, d;

  explicit Heads(const kinora_cuda_heads& of)
      : q(borrow<Tensor>(of.q)),
        k(borrow<Tensor>(of.k)),
        v(borrow<Tensor>(of.v)),
        numbers(borrow<Tensor>(of.numbers)),
        G(of.groups) {
    if (!q.defined() || q.dim() != 4 || G < 1 || q.size(0) % G != 0)
      raise(KINORA_ERROR_INVALID, "attention: q is not [samples * {}, S, heads, d]", G);
    B = q.size(0) / G, S = q.size(1), H = q.size(2), d = q.size(3);
    require(k, "k", {q.size(0), k.defined() && k.dim() == 4 ? k.size(1) : 0, H, d}, q.scalar_type());
    L = k.size(1);
    require(v, "v", k.sizes(), q.scalar_type());
  }
  void require_fp8() const {
    require(q, "q", q.sizes(), at::kFloat8_e4m3fn);
    require(numbers, "numbers", {B * H, KINORA_FP8_NUMBERS, 4}, at::kFloat);
  }
  void require(const Tensor& t, const char* name, at::IntArrayRef shape, at::ScalarType type) const {
    if (!t.defined() || t.sizes() != shape || t.scalar_type() != type || t.device() != q.device() ||
        !t.is_contiguous())
      raise(KINORA_ERROR_INVALID, "attention: {} is not {} {}, contiguous on {}", name, c10::str(type),
            c10::str(shape), c10::str(q.device()));
  }
  // To multiples of 4, as cuDNN's tensors begin at multiples of 16 bytes.
  int64_t sums_of_a_head() const { return (G * S + 3) / 4 * 4; }
  kinora::core::AttentionSizes of_a_head() const { return {G, 1, H, S, L, d}; }
  Tensor room(const Tensor& like, at::ScalarType type) const {
    return at::empty(like.sizes(), like.options().dtype(type));
  }
  // Head i of all samples' [G, rows, H, d], and its numbers.
  void* head(const Tensor& x, int64_t i) const {
    return static_cast<char*>(x.data_ptr()) + x.element_size() * d * (i / H * G * x.size(1) * H + i % H);
  }
  void add_numbers(std::unordered_map<int64_t, void*>& to, int64_t i,
                   std::initializer_list<uint32_t> which) const {
    for (const uint32_t n : which)
      to[kinora::core::kNumbers + n] = numbers.data_ptr<float>() + 4 * (i * KINORA_FP8_NUMBERS + n);
  }
};

}  // namespace

kinora_cuda_attention::kinora_cuda_attention(c10::DeviceIndex device) : device_(device) {
  const auto* known = at::cuda::getDeviceProperties(device);
  capability_ = 10 * known->major + known->minor;
  if (capability_ < 90)
    raise(KINORA_ERROR_UNSUPPORTED, "the GPU, {}, is of before Hopper",
          static_cast<const char*>(known->name));
  for (int64_t i = 0; i < kStreams; ++i)
    streams_.push_back(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device));
}

const kinora_cuda_attention::Plan& kinora_cuda_attention::plan(Pass pass, const Sizes& n, double given) {
  const auto scale = static_cast<float>(given);
  Plan& out = plans_[{pass, n, scale}];
  if (!out.graph && out.why_not.empty()) {
    auto graph = kinora::core::AttentionGraph::of(pass, n, scale, /*rounds_out=*/!has_fp8_backward());
    fe::error_t status = graph->build(at::native::getCudnnHandle(), {fe::HeurMode_t::A});
    if (status.is_good()) status = graph->get_workspace_size(out.room);
    if (status.is_good())
      out.graph = std::move(graph);
    else
      out.why_not = "cuDNN " + fe::detail::get_backend_version_string() + ": " + status.get_message();
  }
  if (!out.graph) raise(KINORA_ERROR_UNSUPPORTED, "{}", out.why_not);
  return out;
}

void kinora_cuda_attention::run(const Plan& plan, int64_t calls,
                                const std::function<Pointers(int64_t)>& pointers) {
  const auto here = c10::cuda::getCurrentCUDAStream(device_);
  const int64_t lanes = std::min(calls, kStreams);
  const Tensor room = at::empty({lanes, std::max<int64_t>((plan.room + 255) / 256 * 256, 1)},
                                at::device({at::kCUDA, device_}).dtype(at::kByte));
  c10::cuda::CUDAEvent ready;
  ready.record(here);
  for (int64_t i = 0; i < lanes; ++i) ready.block(streams_[i]);
  fe::error_t status;
  for (int64_t i = 0; i < calls && status.is_good(); ++i) {
    const c10::cuda::CUDAStreamGuard aside(streams_[i % lanes]);
    auto all = pointers(i);
    status = plan.graph->execute(at::native::getCudnnHandle(), all, room[i % lanes].data_ptr());
  }
  for (int64_t i = 0; i < lanes; ++i) {
    c10::cuda::CUDAEvent done;
    done.record(streams_[i]);
    done.block(here);
  }
  if (status.is_bad()) raise(KINORA_ERROR_FAILED, "attention by cuDNN: {}", status.get_message());
}

std::array<Tensor, 2> kinora_cuda_attention::forward(const kinora_cuda_heads& of) {
  using namespace kinora::core;
  const c10::cuda::CUDAGuard device(device_);
  const std::lock_guard<std::mutex> lock(mutex_);
  const Heads x(of);
  x.require_fp8();
  const Plan& forward = plan(Pass::forward, x.of_a_head(), of.scale);
  if (of.gradient && has_fp8_backward()) plan(Pass::backward, x.of_a_head(), of.scale);
  if (of.gradient && !has_fp8_backward())
    plan(Pass::bf16_backward, {x.B * x.G, x.H, x.H, x.S, x.L, x.d}, of.scale);
  const Tensor out = x.room(x.q, has_fp8_backward() ? at::kBFloat16 : at::kFloat8_e4m3fn),
               sums = at::empty({x.B * x.H, x.sums_of_a_head()}, x.q.options().dtype(at::kFloat));
  run(forward, x.B * x.H, [&](int64_t i) {
    Pointers to{{kQ, x.head(x.q, i)},
                {kK, x.head(x.k, i)},
                {kV, x.head(x.v, i)},
                {kOut, x.head(out, i)},
                {kSums, sums.data_ptr<float>() + i * x.sums_of_a_head()}};
    x.add_numbers(to, i,
                  {KINORA_FP8_Q, KINORA_FP8_K, KINORA_FP8_V, KINORA_FP8_P, KINORA_FP8_TO_P, KINORA_FP8_TO_OUT,
                   KINORA_FP8_AMAX, KINORA_FP8_AMAX + 1});
    return to;
  });
  return {out, sums};
}

std::array<Tensor, 3> kinora_cuda_attention::backward(const kinora_cuda_heads& of, const Tensor& grad,
                                                      const Tensor& out, const Tensor& sums) {
  using namespace kinora::core;
  const c10::cuda::CUDAGuard device(device_);
  const std::lock_guard<std::mutex> lock(mutex_);
  const Heads x(of);
  const bool fp8 = has_fp8_backward();
  fp8 ? x.require_fp8() : x.require(x.q, "q", x.q.sizes(), at::kBFloat16);
  x.require(grad, "grad", x.q.sizes(), fp8 ? at::kFloat8_e5m2 : at::kBFloat16);
  x.require(out, "result", x.q.sizes(), at::kBFloat16);
  x.require(sums, "sums", {x.B * x.H, x.sums_of_a_head()}, at::kFloat);
  const auto like = [&](const Tensor& t) { return x.room(t, at::kBFloat16); };
  const std::array<Tensor, 3> grads{like(x.q), like(x.k), like(x.v)};
  const auto pointers = [&](int64_t i, float* its_sums) {
    return Pointers{
        {kQ, x.head(x.q, i)},          {kK, x.head(x.k, i)},          {kV, x.head(x.v, i)},
        {kOut, x.head(out, i)},        {kGrad, x.head(grad, i)},      {kSums, its_sums},
        {kGradQ, x.head(grads[0], i)}, {kGradK, x.head(grads[1], i)}, {kGradV, x.head(grads[2], i)}};
  };
  if (!fp8) {  // all heads at once
    const Tensor in_rows =
        sums.narrow(1, 0, x.G * x.S).reshape({x.B, x.H, x.G, x.S}).transpose(1, 2).contiguous();
    run(plan(Pass::bf16_backward, {x.B * x.G, x.H, x.H, x.S, x.L, x.d}, of.scale), 1,
        [&](int64_t) { return pointers(0, in_rows.data_ptr<float>()); });
    return grads;
  }
  run(plan(Pass::backward, x.of_a_head(), of.scale), x.B * x.H, [&](int64_t i) {
    Pointers to = pointers(i, sums.data_ptr<float>() + i * x.sums_of_a_head());
    x.add_numbers(to, i,
                  {KINORA_FP8_Q, KINORA_FP8_K, KINORA_FP8_V, KINORA_FP8_P, KINORA_FP8_TO_P, KINORA_FP8_GRAD,
                   KINORA_FP8_S, KINORA_FP8_TO_S, KINORA_FP8_ONE, KINORA_FP8_AMAX, KINORA_FP8_AMAX + 1,
                   KINORA_FP8_AMAX + 2, KINORA_FP8_AMAX + 3});
    return to;
  });
  return grads;
}
