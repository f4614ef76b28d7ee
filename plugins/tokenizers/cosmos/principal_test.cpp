#include <gmock/gmock.h>

#include "plugins/tokenizers/cosmos/cosmos_testing.hpp"

namespace kinora::cosmos {
namespace {

using ::testing::HasSubstr;

core::json options(int64_t latent_channels, const std::string& patch_type, std::vector<int64_t> widths) {
  return {{"latent_channels", latent_channels},
          {"patch_type", patch_type},
          {"patch_size", 2},
          {"encoder_block_out_channels", widths},
          {"spatial_compression_ratio", 2},
          {"decode_block_out_channels", widths},
          {"temporal_compression_ratio", 2}};
}

void fit(Cosmos& cosmos, const Tensor& video) {
  core::NamedTensors values;
  const auto take = [](void* to, const char* name, kinora_tensor value) {
    (*static_cast<core::NamedTensors*>(to))[name] = adopt<Tensor>(value);
  };
  check(cosmos->fit(cosmos.self(), &cosmos.run, cosmos.context(), handle(video), &values, take));
  core::load_values(cosmos.chain().parameters(), cosmos.chain().leaves(), values, {.allow_missing = true});
}

// Smooth in space and time, with a little noise, so that few components contain most of it.
Tensor made_video() {
  const Tensor coarse = noise({2, 3, 3, 3, 4}), smooth = at::upsample_trilinear3d(coarse, {9, 16, 24}, true);
  return smooth + 0.1 * noise({2, 3, 9, 16, 24});
}

// The best linear reconstruction of patches of 2 x 2 x 2 pixels from n numbers, by the singular vectors of
// the patches themselves. The first frame fills a patch alone.
Tensor best_linear(const Tensor& video, int64_t n) {
  const Tensor x = at::cat({video.narrow(2, 0, 1), video}, 2);
  const auto B = x.size(0), t = x.size(2) / 2, h = x.size(3) / 2, w = x.size(4) / 2;
  const Tensor rows =
      x.view({B, 3, t, 2, h, 2, w, 2}).permute({0, 2, 4, 6, 1, 3, 5, 7}).reshape({B * t * h * w, 24});
  const Tensor mean = rows.mean(0, true);
  const Tensor axes = std::get<2>(at::linalg_svd(rows - mean, false)).narrow(0, 0, n);  // [n, 24]
  const Tensor made = mean + at::matmul(at::matmul(rows - mean, axes.t()), axes);
  const Tensor pixels =
      made.view({B, t, h, w, 3, 2, 2, 2}).permute({0, 4, 1, 5, 2, 6, 3, 7}).reshape(x.sizes());
  return pixels.narrow(2, 1, video.size(2));
}

class Principal : public ::testing::TestWithParam<std::tuple<const char*, std::vector<int64_t>>> {};
TEST_P(Principal, StartIsTheBestLinearTokenizerOfTheVideo) {
  const auto& [type, widths] = GetParam();
  Cosmos cosmos(options(4, type, widths));
  const Tensor video = made_video();
  fit(cosmos, video);
  const Tensor latent = cosmos.encode(video), made = cosmos.decode(latent), want = best_linear(video, 4);
  // The constant has 100 times the power of the other numbers, so a frame of another brightness has a
  // relative error.
  EXPECT_LT(test::difference(made, want), 0.01);
  const auto error = [&](const Tensor& y) { return (y - video).square().mean().item<double>(); };
  EXPECT_LT(error(made), 1.02 * error(want));
  EXPECT_LT(error(want), 0.1 * error(at::zeros_like(video)));
  EXPECT_NEAR(latent.square().mean().item<double>(), 1, 0.05);
}
INSTANTIATE_TEST_SUITE_P(Types, Principal,
                         ::testing::Values(std::tuple("haar", std::vector<int64_t>{10, 10}),
                                           std::tuple("rearrange", std::vector<int64_t>{16, 16}),
                                           std::tuple("haar", std::vector<int64_t>{12, 16})));

TEST(PrincipalStart, IsTheSameForTheSameVideo) {
  Cosmos a(options(4, "haar", {10, 10})), b(options(4, "haar", {10, 10}));
  const Tensor video = made_video();
  fit(a, video);
  fit(b, video);
  EXPECT_TRUE(a.encode(video).equal(b.encode(video)));
}

TEST(PrincipalStart, RefusesWhatItCannotHold) {
  const auto refused = [](const core::json& o, const Tensor& video) {
    Cosmos cosmos(o);
    return test::refusal([&] { fit(cosmos, video); });
  };
  const auto fine = options(4, "haar", {10, 10});
  auto narrow = options(4, "haar", {8, 10}), deep = fine, codes = fine;
  deep["spatial_compression_ratio"] = 4;
  deep["encoder_block_out_channels"] = deep["decode_block_out_channels"] = {10, 10, 10};
  codes["formulation"] = "FSQ";
  EXPECT_THAT(refused(narrow, made_video()), HasSubstr("needs 10 channels or more in every block"));
  EXPECT_THAT(refused(deep, made_video()),
              HasSubstr("set spatial_compression_ratio and temporal_compression_ratio"));
  EXPECT_THAT(refused(codes, made_video()), HasSubstr("not of codes or images"));
  EXPECT_THAT(refused(fine, made_video().narrow(0, 0, 1).narrow(2, 0, 1).narrow(3, 0, 4).narrow(4, 0, 4)),
              HasSubstr("more patches than that, not 4 of 4 patches"));
}

}  // namespace
}  // namespace kinora::cosmos
