// libkinora_cuda on a GPU: its kernels compared with ATen in float64 on the CPU, and its memory statistics.
// The training library's uses of its graphs and copies are tested in tests/cuda/training_test.cpp.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/torch/tensors/device.hpp"
#include "kinora/aten.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

using at::Tensor;

class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!why_no_gpu().empty()) GTEST_SKIP() << why_no_gpu();
    cuda_ = cuda_library(device_);
    if (!cuda_) GTEST_SKIP() << why_no_cuda_library();
    at::manual_seed(1);
  }
  Tensor drawn(at::IntArrayRef shape, at::ScalarType type) const {
    return at::randn(shape, at::kDouble).to(device_, type);
  }
  // Calls f(handles of results).
  template <class F>
  static std::vector<Tensor> made(size_t n, F f) {
    std::vector<kinora_tensor> out(n, nullptr);
    check(f(out.data()));
    std::vector<Tensor> all;
    for (auto* h : out) all.push_back(adopt<Tensor>(h));
    return all;
  }
  at::Device device_{at::kCUDA, 0};
  const kinora_cuda_api* cuda_ = nullptr;
};

Tensor exact(const Tensor& x) { return x.detach().to(at::kCPU, at::kDouble); }
Tensor leaf(const Tensor& x) { return exact(x).clone().set_requires_grad(true); }
double bound(at::ScalarType type) { return type == at::kFloat ? 2e-6 : 1e-2; }
void expect_near(const Tensor& got, const Tensor& want, double bound, const char* name) {
  const double largest = std::max(want.abs().max().item<double>(), 1e-12);
  EXPECT_LT((exact(got) - exact(want)).abs().max().item<double>() / largest, bound) << name;
}

struct Case {
  at::ScalarType type;
  std::vector<int64_t> x, scale;
};
const std::vector<Case> kModulate = {
    {at::kFloat, {2, 37, 256}, {2, 1, 256}},    {at::kFloat, {2, 37, 256}, {1, 37, 256}},
    {at::kFloat, {3, 5, 7}, {3, 5, 7}},         {at::kBFloat16, {2, 300, 1152}, {1, 1, 1152}},
    {at::kBFloat16, {2, 5000, 64}, {2, 1, 64}}, {at::kBFloat16, {1, 3, 30}, {1, 3, 30}},
};

TEST_F(CudaTest, ModulateEqualsAten) {
  for (const auto& c : kModulate) {
    SCOPED_TRACE(c10::str(c.type, " ", c.x, " ", c.scale));
    const Tensor x = drawn(c.x, c.type) + 3, scale = drawn(c.scale, c.type), shift = drawn(c.scale, c.type),
                 grad = drawn(c.x, c.type);
    const auto out = made(3, [&](kinora_tensor* o) {
      return cuda_->modulate(handle(x), handle(scale), handle(shift), 1e-6, o);
    });
    const auto back = made(3, [&](kinora_tensor* o) {
      return cuda_->modulate_backward(handle(grad), handle(x), handle(scale), handle(shift), handle(out[1]),
                                      handle(out[2]), o);
    });
    const Tensor x0 = leaf(x), scale0 = leaf(scale), shift0 = leaf(shift);
    const Tensor y = at::layer_norm(x0, {c.x.back()}, {}, {}, 1e-6) * (1 + scale0) + shift0;
    y.backward(exact(grad));
    expect_near(out[0], y, bound(c.type), "y");
    expect_near(back[0], x0.grad(), 4 * bound(c.type), "gradient of x");
    expect_near(back[1], scale0.grad(), 4 * bound(c.type), "gradient of scale");
    expect_near(back[2], shift0.grad(), 4 * bound(c.type), "gradient of shift");
  }
}

Tensor turned(const Tensor& x, const Tensor& weight, const Tensor& cos, const Tensor& sin, bool halves) {
  const Tensor u = at::rms_norm(x, {x.size(3)}, weight, 1e-6);
  if (!cos.defined()) return u;
  const Tensor pairs = halves ? u.unflatten(3, {2, -1}) : u.unflatten(3, {-1, 2});
  const int64_t along = halves ? 3 : 4;
  const Tensor a = pairs.select(along, 0), b = pairs.select(along, 1), c = cos.unsqueeze(2),
               s = sin.unsqueeze(2);
  return at::stack({a * c - b * s, b * c + a * s}, along).flatten(3);
}

// Queries in the layout in which the projection of queries, keys and values leaves them.
TEST_F(CudaTest, NormRopeEqualsAten) {
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const int64_t d : {2, 66, 128, 512})
      for (const uint32_t turn : {KINORA_ROPE_HALVES, KINORA_ROPE_PAIRS})
        for (const int64_t batch : {0, 1, 2}) {  // batch size of the angles; 0: no rotation
          SCOPED_TRACE(c10::str(type, " ", d, " ", turn, " ", batch));
          const Tensor qkv = drawn({2, 301, 3, 4, d}, type), x = qkv.select(2, 1), weight = drawn({d}, type),
                       grad = drawn({2, 301, 4, d}, type);
          const Tensor angle = batch ? drawn({batch, 301, d / 2}, at::kDouble) : Tensor();
          const Tensor cos = batch ? angle.cos().to(at::kFloat) : Tensor(),
                       sin = batch ? angle.sin().to(at::kFloat) : Tensor();
          const auto out = made(2, [&](kinora_tensor* o) {
            return cuda_->norm_rope(handle(x), handle(weight), handle(cos), handle(sin), turn, 0, 1e-6, o);
          });
          const auto back = made(2, [&](kinora_tensor* o) {
            return cuda_->norm_rope_backward(handle(grad), handle(x), handle(weight), handle(cos),
                                             handle(sin), handle(out[1]), turn, 0, o);
          });
          const Tensor x0 = leaf(x), weight0 = leaf(weight);
          const Tensor y = turned(x0, weight0, batch ? exact(cos) : Tensor(), batch ? exact(sin) : Tensor(),
                                  turn == KINORA_ROPE_HALVES);
          y.backward(exact(grad));
          expect_near(out[0], y, bound(type), "y");
          expect_near(back[0], x0.grad(), 4 * bound(type), "gradient of x");
          expect_near(back[1], weight0.grad(), 4 * bound(type), "gradient of weight");
        }
}

TEST_F(CudaTest, MemoryCountsTensors) {
  const auto now = [&] {
    kinora_cuda_memory m{.struct_size = sizeof m};
    check(cuda_->memory(0, &m));
    return m;
  };
  const uint64_t before = now().allocated;
  const Tensor held = at::empty({1 << 20}, at::TensorOptions(at::kFloat).device(device_));
  EXPECT_GE(now().allocated, before + (4 << 20));
  EXPECT_GE(now().allocated_peak, now().allocated);
  EXPECT_GE(now().reserved_peak, now().allocated_peak);
}

}  // namespace
}  // namespace kinora::core
