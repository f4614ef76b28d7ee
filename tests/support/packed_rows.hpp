// Several videos in one row: a denoiser gives the same result for each as for the video alone.
#pragma once
#include <array>
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "kinora/abi/model.h"
#include "tests/support/oracle.hpp"
#include "tests/support/worst.hpp"

namespace kinora::test {

struct PackedCase {
  // Owner of an input's `channels` (0: none): each pixel of the latent, each video, each row of conditions
  // or each of `length` tokens.
  enum class Of { pixels, video, rows, tokens };
  struct Given {
    const char* name;
    Of of;
    int64_t channels, length = 0;
  };
  enum class Rows { videos, frames, tokens };

  const char *name, *id;
  core::json options;
  std::array<int64_t, 3> patch;
  Rows rows;
  std::vector<Given> given;
};
inline void PrintTo(const PackedCase& c, std::ostream* to) { *to << c.id << " " << c.name; }

class PackedRow : public ::testing::TestWithParam<PackedCase> {
 protected:
  using Tensor = at::Tensor;
  using Of = PackedCase::Of;

  void SetUp() override {
    at::manual_seed(7);
    std::vector<Tensor> sizes;
    for (size_t i = 0; i < kSizes.size(); ++i) {
      core::NamedTensors in;
      for (const auto& g : GetParam().given) in[g.name] = made(g, i);
      alone_.push_back(in);
      sizes.push_back(at::tensor({kSizes[i][0], kSizes[i][1], kSizes[i][2]}, at::kLong));
    }
    for (const auto& g : GetParam().given) {
      std::vector<Tensor> all;
      const bool by_row = g.of == Of::rows && GetParam().rows != PackedCase::Rows::videos;
      for (auto& in : alone_) {
        const Tensor& t = in.at(g.name);
        all.push_back(g.of == Of::pixels ? t.flatten(2) : by_row ? t[0] : t);
      }
      row_[g.name] = at::cat(all, g.of == Of::pixels ? 2 : 0);
    }
    row_["sizes"] = at::stack(sizes);
  }

  void expect_equal(const std::vector<std::vector<const kinora_link*>>& chains) {
    const Result want = evaluated(false, {});
    EXPECT_GT(want.gradients.size(), 20u);
    for (const auto& links : chains) {
      const Result got = evaluated(true, links);
      double worst = difference(got.output, want.output);
      EXPECT_EQ(got.gradients.size(), want.gradients.size());
      for (const auto& [name, g] : want.gradients) {
        ASSERT_TRUE(got.gradients.count(name)) << name;
        if (g.abs().max().item<double>() == 0) {
          EXPECT_EQ(got.gradients.at(name).abs().max().item<double>(), 0) << name;
          continue;
        }
        worst = test::worse(worst, difference(got.gradients.at(name), g));
      }
      EXPECT_LT(worst, 1e-12);
      std::printf("          %s: worst relative difference %.2g\n", GetParam().name, worst);
    }
  }

 private:
  // Latents' T, H, W, and the number of visible tokens of its text if there is a mask (none: unconditional).
  static constexpr std::array<std::array<int64_t, 3>, 3> kSizes = {{{4, 4, 6}, {2, 2, 4}, {2, 6, 2}}};
  static constexpr std::array<int64_t, 3> kSeen = {5, 2, 0};

  static Tensor leaf(std::vector<int64_t> shape, int64_t channels) {
    if (channels > 0) shape.push_back(channels);
    return at::randn(shape, at::kDouble).requires_grad_();
  }
  static Tensor made(const PackedCase::Given& g, size_t i) {
    const std::string name = g.name;
    const auto [T, H, W] = kSizes[i];
    const auto& [pt, ph, pw] = GetParam().patch;
    if (name == "text_mask") return at::arange(g.length).unsqueeze(0) < kSeen[i];
    if (name == "fps") return at::rand({1}, at::kDouble) * 20 + 10;
    if (name == "padding_mask") return (at::randn({1, 1, 8, 8}) > 0).to(at::kDouble);
    if (g.of == Of::pixels) return leaf({1, g.channels, T, H, W}, 0);
    if (g.of == Of::tokens) return leaf({1, g.length}, g.channels);
    const auto rows = g.of == Of::video ? PackedCase::Rows::videos : GetParam().rows;
    if (rows == PackedCase::Rows::videos) return leaf({1}, g.channels);
    const auto F = T / pt;
    return leaf({1, rows == PackedCase::Rows::frames ? F : F * (H / ph) * (W / pw)}, g.channels);
  }

  // The output of all videos, [1, C, N], and the gradients of its sum weighted by `weight`, for inputs and
  // parameters.
  struct Result {
    Tensor output;
    std::map<std::string, Tensor> gradients;
  };
  Result evaluated(bool packed, std::vector<const kinora_link*> links) const {
    OnChain<kinora_model> model(GetParam().id, GetParam().options, at::kDouble, std::move(links));
    at::manual_seed(9);
    model.randomise();
    std::vector<Tensor> parts, leaves;
    std::vector<std::string> names;
    for (const auto& in : alone_)
      if (!packed) parts.push_back(model.forward(in)[0].flatten(2));
    Result out{packed ? model.forward(row_)[0] : at::cat(parts, 2), {}};
    for (size_t i = 0; i < alone_.size(); ++i)
      for (const auto& [name, t] : alone_[i])
        if (t.requires_grad()) names.push_back(name + std::to_string(i)), leaves.push_back(t);
    for (const auto& l : model.chain().leaves())
      if (l.tensor.requires_grad()) names.push_back(l.name), leaves.push_back(l.tensor);
    const Tensor weight = numbers("packed", out.output.sizes());
    const auto grads =
        torch::autograd::grad({(out.output * weight).sum()}, leaves, {}, {}, false, /*allow_unused=*/true);
    for (size_t i = 0; i < grads.size(); ++i)
      if (grads[i].defined()) out.gradients[names[i]] = grads[i];
    return out;
  }

  std::vector<core::NamedTensors> alone_;
  core::NamedTensors row_;
};

inline std::string packed_case_name(const ::testing::TestParamInfo<PackedCase>& info) {
  return std::string(info.param.id).substr(6) + "_" + info.param.name;
}

}  // namespace kinora::test
