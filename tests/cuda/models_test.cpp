// A block of model/dit and of model/wan on a GPU, with the fused kernels of libkinora_cuda and without them.
// Plugins find the kernels once the library is open, so what is computed before that is without them. No
// other test may be in this program: it would open the library.
#include <set>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include "core/torch/tensors/device.hpp"
#include "kinora/abi/model.h"
#include "tests/support/oracle.hpp"
#include "tests/support/worst.hpp"

namespace kinora {
namespace {

using at::Tensor;
using core::NamedTensors;

const at::Device kGpu{at::kCUDA, 0};

struct Example {
  const char *name, *id;
  core::json options;
  int64_t channels, text;  // of the latent and of the text
  std::vector<int64_t> levels;
};

// A level per frame gives every token a row of its own.
std::vector<Example> examples() {
  const core::json dit = {{"in_channels", 4}, {"out_channels", 4}, {"layers", 1},     {"heads", 4},
                          {"head_size", 64},  {"text_size", 48},   {"adaln_lora", 16}};
  core::json grouped = dit;
  grouped["kv_heads"] = 2;
  const core::json wan = {{"num_attention_heads", 2}, {"attention_head_dim", 64}, {"in_channels", 4},
                          {"out_channels", 4},        {"text_dim", 48},           {"freq_dim", 32},
                          {"ffn_dim", 256},           {"num_layers", 1}};
  return {{"dit", "model/dit", dit, 4, 48, {2}},
          {"grouped", "model/dit", grouped, 4, 48, {2}},
          {"dit_frames", "model/dit", dit, 4, 48, {2, 3}},
          {"wan", "model/wan", wan, 4, 48, {2}},
          {"wan_frames", "model/wan", wan, 4, 48, {2, 3}}};
}

// The nodes of fused kernels in the graph behind t, by class.
std::set<std::string> kernels_behind(const Tensor& t) {
  std::set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> todo{t.grad_fn().get()};
  std::set<std::string> found;
  while (!todo.empty()) {
    auto* node = todo.back();
    todo.pop_back();
    if (!node || !seen.insert(node).second) continue;
    const std::string name = node->name();
    for (const char* kernel : {"Modulate", "Gated", "NormRope"})
      if (name.find("kinora::gpu::") != std::string::npos && name.find(kernel) != std::string::npos)
        found.insert(kernel);
    for (const auto& edge : node->next_edges()) todo.push_back(edge.function.get());
  }
  return found;
}

struct Outcome {
  NamedTensors tensors;  // output and gradients
  std::set<std::string> kernels;
};

// All numbers are those of `rounded`, whatever the dtype of the computation.
Outcome outcome(const Example& e, at::ScalarType dtype, at::ScalarType rounded) {
  test::OnChain<kinora_model> model(e.id, e.options, dtype, {}, kGpu);
  const auto here = [&](const std::string& name, at::IntArrayRef shape) {
    return test::numbers(e.name + ("." + name), shape).to(rounded).to(kGpu, dtype);
  };
  NamedTensors weights;
  for (const auto& p : model.chain().parameters())
    weights[p.name] = test::oracle_weight(p.name, p.shape).to(rounded).to(at::kDouble);
  model.load(weights);
  const int64_t T = 3, H = 8, W = 12;
  NamedTensors in = {{"latent", here("latent", {2, e.channels, T, H, W}).set_requires_grad(true)},
                     {"text", here("text", {2, 5, e.text}).set_requires_grad(true)},
                     {"timestep", here("timestep", e.levels)}};
  const Tensor output = model.forward(in)[0];
  Outcome out;
  out.kernels = kernels_behind(output);
  output.backward(here("grad_output", output.sizes()));
  out.tensors["output"] = output.detach();
  for (const char* name : {"latent", "text"}) out.tensors["grad." + std::string(name)] = in[name].grad();
  for (const auto& leaf : model.chain().leaves())
    if (leaf.tensor.grad().defined()) out.tensors["grad.param." + leaf.name] = leaf.tensor.grad();
  for (auto& [name, t] : out.tensors) t = t.to(at::kCPU, at::kDouble);
  return out;
}

// The largest difference of one tensor, relative to its largest number; gradients that are almost zero
// because their terms cancel count relative to a thousandth of the largest gradient.
double apart(const Outcome& got, const Outcome& want) {
  double largest = 0, most = got.tensors.size() == want.tensors.size() ? 0 : 1e9;
  for (const auto& [name, t] : want.tensors) largest = test::worse(largest, t.abs().max().item<double>());
  for (const auto& [name, t] : want.tensors) {
    const double size = std::max(t.abs().max().item<double>(), 1e-3 * largest);
    most = test::worse(most, (got.tensors.at(name) - t).abs().max().item<double>() / size);
  }
  return most;
}

class CudaModels : public testing::Test {
 protected:
  // Computes everything without the kernels, then opens the library.
  static void SetUpTestSuite() {
    if (!core::why_no_gpu().empty()) return;
    at::globalContext().setAllowTF32CuBLAS(false);
    at::globalContext().setAllowTF32CuDNN(false);
    for (const auto& e : examples()) {
      before().push_back(outcome(e, at::kFloat, at::kFloat));
      before().push_back(outcome(e, at::kBFloat16, at::kBFloat16));
    }
    core::cuda_library(kGpu);
  }
  static void TearDownTestSuite() { before().clear(); }
  void SetUp() override {
    if (!core::why_no_gpu().empty()) GTEST_SKIP() << core::why_no_gpu();
    if (!core::why_no_cuda_library().empty()) GTEST_SKIP() << core::why_no_cuda_library();
  }
  // Two per example: float32, bfloat16.
  static std::vector<Outcome>& before() {
    static std::vector<Outcome> all;
    return all;
  }
};

TEST_F(CudaModels, TheKernelsAreUsedWhereTheyExist) {
  const std::set<std::string> all = {"Gated", "Modulate", "NormRope"};
  for (const auto& plain : before()) EXPECT_TRUE(plain.kernels.empty());
  for (const auto& e : examples())
    for (const auto dtype : {at::kFloat, at::kBFloat16})
      EXPECT_EQ(outcome(e, dtype, dtype).kernels, all) << e.name << " " << dtype;
}

TEST_F(CudaModels, AreTheSameInFloat32) {
  for (size_t i = 0; i < examples().size(); ++i) {
    const auto e = examples()[i];
    const double off = apart(outcome(e, at::kFloat, at::kFloat), before().at(2 * i));
    EXPECT_LT(off, 2e-5) << e.name;
    std::printf("          %s: worst relative difference %.2g\n", e.name, off);
  }
}

// Both round to 8 bits, at different places: neither may be further from float64 than the other by much.
TEST_F(CudaModels, AreAsExactInBfloat16) {
  for (size_t i = 0; i < examples().size(); ++i) {
    const auto e = examples()[i];
    const auto exact = outcome(e, at::kDouble, at::kBFloat16);
    const double fused = apart(outcome(e, at::kBFloat16, at::kBFloat16), exact),
                 plain = apart(before().at(2 * i + 1), exact);
    EXPECT_LT(fused, 2 * plain) << e.name;
    std::printf("          %s: error %.2g with the kernels, %.2g without\n", e.name, fused, plain);
  }
}

}  // namespace
}  // namespace kinora
