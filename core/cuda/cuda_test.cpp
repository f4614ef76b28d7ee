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

TEST_F(CudaTest, GatedEqualsAten) {
  for (const auto& c : kModulate) {
    SCOPED_TRACE(c10::str(c.type, " ", c.x, " ", c.scale));
    const Tensor x = drawn(c.x, c.type), y = drawn(c.x, c.type), gate = drawn(c.scale, c.type),
                 grad = drawn(c.x, c.type);
    const auto out =
        made(1, [&](kinora_tensor* o) { return cuda_->gated(handle(x), handle(y), handle(gate), o); });
    const auto back = made(
        2, [&](kinora_tensor* o) { return cuda_->gated_backward(handle(grad), handle(y), handle(gate), o); });
    const Tensor y0 = leaf(y), gate0 = leaf(gate), out0 = exact(x) + gate0 * y0;
    out0.backward(exact(grad));
    expect_near(out[0], out0, bound(c.type), "x + gate * y");
    expect_near(back[0], y0.grad(), bound(c.type), "gradient of y");
    expect_near(back[1], gate0.grad(), 4 * bound(c.type), "gradient of gate");
  }
}

TEST_F(CudaTest, GeluEqualsAten) {
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const auto& shape : std::vector<std::vector<int64_t>>{{2, 300, 256}, {7, 30}, {20000, 8}})
      for (const uint32_t form : {KINORA_GELU_EXACT, KINORA_GELU_TANH}) {
        SCOPED_TRACE(c10::str(type, " ", shape, " ", form));
        const Tensor x = 3 * drawn(shape, type), bias = drawn({shape.back()}, type),
                     grad = drawn(shape, type);
        const auto out =
            made(1, [&](kinora_tensor* o) { return cuda_->gelu(handle(x), handle(bias), form, 0, o); });
        const auto back = made(2, [&](kinora_tensor* o) {
          return cuda_->gelu_backward(handle(grad), handle(x), handle(bias), form, 0, o);
        });
        const Tensor x0 = leaf(x), bias0 = leaf(bias);
        const Tensor y = at::gelu(x0 + bias0, form == KINORA_GELU_EXACT ? "none" : "tanh");
        y.backward(exact(grad));
        expect_near(out[0], y, bound(type), "y");
        expect_near(back[0], x0.grad(), bound(type), "gradient of x");
        expect_near(back[1], bias0.grad(), 4 * bound(type), "gradient of bias");
      }
}

// x [B, S, G, n, d]; weight undefined: no norm; cos undefined: no rotation.
Tensor turned(const Tensor& x, const Tensor& weight, const Tensor& cos, const Tensor& sin, bool halves) {
  const Tensor u = weight.defined() ? at::rms_norm(x, {x.size(4)}, weight, 1e-6) : x;
  if (!cos.defined()) return u;
  const Tensor pairs = halves ? u.unflatten(4, {2, -1}) : u.unflatten(4, {-1, 2});
  const int64_t along = halves ? 4 : 5;
  const auto for_heads = [](const Tensor& t) { return t.unsqueeze(2).unsqueeze(2); };
  const Tensor a = pairs.select(along, 0), b = pairs.select(along, 1), c = for_heads(cos), s = for_heads(sin);
  return at::stack({a * c - b * s, b * c + a * s}, along).flatten(4);
}

struct HeadsCase {
  at::ScalarType type;
  int64_t d;
  uint32_t turn;
  int64_t batch;  // of the angles; 0: no rotation
  bool weighs;
};
std::vector<HeadsCase> heads_cases() {
  std::vector<HeadsCase> out;
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const int64_t d : {2, 66, 128, 512})
      for (const uint32_t turn : {KINORA_ROPE_HALVES, KINORA_ROPE_PAIRS})
        for (const int64_t batch : {0, 1, 2})
          for (const bool weighs : {true, false}) out.push_back({type, d, turn, batch, weighs});
  return out;
}

// The queries of a projection [B, S, G, n + 2, d]: n heads of each group, read where they are; their gradient
// is written to the same part of a tensor of the projection's shape, and nothing else of it.
TEST_F(CudaTest, NormRopeEqualsAtenWithinAProjection) {
  for (const auto& c : heads_cases()) {
    SCOPED_TRACE(c10::str(c.type, " ", c.d, " ", c.turn, " ", c.batch, " ", c.weighs));
    const int64_t S = c.d < 128 ? 901 : 101;  // 901: more rows than there are partial sums
    const Tensor all = drawn({2, S, 3, 4, c.d}, c.type), x = all.narrow(3, 1, 2),
                 grad = drawn({2, S, 3, 2, c.d}, c.type), grad_all = at::full_like(all, 7);
    const Tensor weight = c.weighs ? drawn({c.d}, c.type) : Tensor(),
                 angle = c.batch ? drawn({c.batch, S, c.d / 2}, at::kDouble) : Tensor(),
                 cos = c.batch ? angle.cos().to(at::kFloat) : Tensor(),
                 sin = c.batch ? angle.sin().to(at::kFloat) : Tensor();
    const auto out = made(2, [&](kinora_tensor* o) {
      return cuda_->norm_rope(handle(x), handle(weight), handle(cos), handle(sin), c.turn, 0, 1e-6, o);
    });
    const Tensor of_x = c.weighs ? x : Tensor(), grad_x = grad_all.narrow(3, 1, 2);
    const auto back = made(1, [&](kinora_tensor* o) {
      return cuda_->norm_rope_backward(handle(grad), handle(of_x), handle(weight), handle(cos), handle(sin),
                                       handle(out[1]), c.turn, 0, handle(grad_x), o);
    });
    const Tensor x0 = leaf(x), weight0 = c.weighs ? leaf(weight) : Tensor();
    const Tensor y = turned(x0, weight0, c.batch ? exact(cos) : Tensor(), c.batch ? exact(sin) : Tensor(),
                            c.turn == KINORA_ROPE_HALVES);
    (y * exact(grad)).sum().backward();
    expect_near(out[0], y, bound(c.type), "y");
    expect_near(grad_x, x0.grad(), 4 * bound(c.type), "gradient of x");
    if (c.weighs) expect_near(back[0], weight0.grad(), 4 * bound(c.type), "gradient of weight");
    EXPECT_EQ(back[0].defined(), c.weighs);
    EXPECT_EQ(out[1].defined(), c.weighs);
    EXPECT_TRUE(grad_all.select(3, 0).eq(7).all().item<bool>());
    EXPECT_TRUE(grad_all.select(3, 3).eq(7).all().item<bool>());
  }
}

// [B, S, H, d] in the layout in which a projection of queries, keys and values side by side leaves it.
TEST_F(CudaTest, NormRopeTakesHeadsWithoutGroups) {
  const Tensor qkv = drawn({2, 301, 3, 4, 64}, at::kFloat), x = qkv.select(2, 1),
               weight = drawn({64}, at::kFloat);
  const auto out = made(2, [&](kinora_tensor* o) {
    return cuda_->norm_rope(handle(x), handle(weight), nullptr, nullptr, KINORA_ROPE_HALVES, 0, 1e-6, o);
  });
  expect_near(out[0], at::rms_norm(exact(x), {64}, exact(weight), 1e-6), bound(at::kFloat), "y");
  EXPECT_EQ(out[1].sizes(), (std::vector<int64_t>{2, 301, 4}));
}

TEST_F(CudaTest, GradientsHaveTheSameBitsEveryTime) {
  const Tensor x = drawn({3, 5000, 96}, at::kFloat), scale = drawn({1, 1, 96}, at::kFloat),
               grad = drawn({3, 5000, 96}, at::kFloat);
  const auto once = [&] {
    auto out = made(2, [&](kinora_tensor* o) {
      return cuda_->gated_backward(handle(grad), handle(x), handle(scale), o);
    });
    out.push_back(made(2, [&](kinora_tensor* o) {
      return cuda_->gelu_backward(handle(grad), handle(x), handle(scale[0][0]), KINORA_GELU_EXACT, 0, o);
    })[1]);
    return out;
  };
  const auto first = once();
  for (int again = 0; again < 3; ++again) {
    const auto now = once();
    for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(at::equal(now[i], first[i])) << i;
  }
}

TEST_F(CudaTest, RefusesOtherFormsAndDtypes) {
  const Tensor x = drawn({1, 2, 8}, at::kFloat), bias = drawn({8}, at::kFloat), half = x.to(at::kHalf);
  kinora_tensor out = nullptr;
  EXPECT_EQ(cuda_->gelu(handle(x), handle(bias), 2, 0, &out), KINORA_ERROR_UNSUPPORTED);
  EXPECT_EQ(cuda_->gelu(handle(x), handle(bias), 0, 1, &out), KINORA_ERROR_UNSUPPORTED);
  EXPECT_EQ(cuda_->gated(handle(half), handle(half), handle(half), &out), KINORA_ERROR_UNSUPPORTED);
  EXPECT_EQ(cuda_->gated(handle(x), handle(x), handle(bias), &out), KINORA_ERROR_INVALID);
  EXPECT_EQ(out, nullptr);
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
