// tokenizer/cosmos against diffusers' AutoencoderKLCosmos and NVIDIA's Cosmos-Tokenizer.
#include <fstream>

#include "core/torch/weights/published.hpp"
#include "plugins/tokenizers/cosmos/config.hpp"
#include "plugins/tokenizers/cosmos/cosmos_testing.hpp"
#include "plugins/tokenizers/cosmos/network.hpp"
#include "tests/support/worst.hpp"

namespace kinora::cosmos {
namespace {

using Case = std::tuple<const char*, at::ScalarType>;
constexpr const char* kDiffusers = "cosmos_tokenizer.safetensors";
constexpr const char* kNvidiaFile = "cosmos_tokenizer_nvidia.safetensors";

std::string case_name(const ::testing::TestParamInfo<Case>& info) {
  return std::string(std::get<0>(info.param)) + c10::toString(std::get<1>(info.param));
}
double bound(at::ScalarType dtype) { return dtype == at::kDouble ? 1e-10 : 1e-5; }
double gradient_bound(at::ScalarType dtype) { return dtype == at::kDouble ? 1e-10 : 1e-5; }

void expect_gradients(Cosmos& cosmos, const test::Oracle& oracle, at::ScalarType dtype, int64_t up_blocks) {
  const auto gradients = cosmos.gradients();
  const auto expected = oracle.under("grad.param.");
  EXPECT_GE(expected.size(), 4u);
  double scale = 0;
  for (const auto& [name, want] : expected) scale = test::worse(scale, want.abs().max().item<double>());
  for (const auto& [name, want] : expected) {
    const Tensor got = gradients.at(names(up_blocks).ours(name)).to(at::kDouble);
    // Relative to the gradient's own size, unless it is zero: a key's bias has no gradient, since softmax
    // does not depend on it. In float32 relative to the largest of all, whose rounding is in the sums over
    // all positions.
    const double own = want.abs().max().item<double>();
    const double off =
        (got - want).abs().max().item<double>() / (dtype == at::kDouble && own > 1e-12 * scale ? own : scale);
    EXPECT_LT(off, gradient_bound(dtype)) << name;
  }
}

class Diffusers : public ::testing::TestWithParam<Case> {};

TEST_P(Diffusers, EncodesDecodesAndHasTheGradients) {
  const auto [name, dtype] = GetParam();
  const test::Oracle oracle(kDiffusers, name);
  Cosmos cosmos(oracle.options, dtype);
  cosmos.fill();
  Tensor video = test::numbers("video", oracle.exact("grad.video").sizes()).to(dtype).requires_grad_();
  Tensor code = test::numbers("code", oracle.exact("latent").sizes()).to(dtype).requires_grad_();
  const Tensor latent = cosmos.encode(video), decoded = cosmos.decode(code);
  EXPECT_LT(test::difference(latent, oracle.exact("latent")), bound(dtype));
  EXPECT_LT(test::difference(decoded, oracle.exact("decoded")), bound(dtype));
  const auto weigh = [&](const Tensor& t, const char* by) {
    return (t * test::numbers(by, t.sizes()).to(dtype)).sum();
  };
  (weigh(latent, "grad.latent") + weigh(decoded, "grad.decoded")).backward();
  EXPECT_LT(test::difference(video.grad(), oracle.exact("grad.video")), gradient_bound(dtype));
  EXPECT_LT(test::difference(code.grad(), oracle.exact("grad.code")), gradient_bound(dtype));
  expect_gradients(cosmos, oracle, dtype, 0);
  // A single image.
  EXPECT_LT(test::difference(cosmos.encode(video.narrow(2, 0, 1)), oracle.exact("latent_of_one")),
            bound(dtype));
  EXPECT_LT(test::difference(cosmos.decode(code.narrow(2, 0, 1)), oracle.exact("decoded_of_one")),
            bound(dtype));
}
INSTANTIATE_TEST_SUITE_P(Cases, Diffusers,
                         ::testing::Combine(::testing::Values("a", "b", "c", "d", "e", "f"),
                                            ::testing::Values(at::kDouble, at::kFloat)),
                         case_name);

TEST(CosmosPatches, OfTwoWaveletLevelsEqualDiffusers) {
  const test::Oracle oracle(kDiffusers, "haar4");
  const Tensor video = test::numbers("haar4.video", {1, 3, 5, 4, 8});
  const Tensor padded = at::cat({video.narrow(2, 0, 1).expand({-1, -1, 3, -1, -1}), video}, 2);
  const Patcher patcher(4, "haar");
  const Tensor patches = patcher.patch(padded);
  EXPECT_LT(test::difference(patches.permute({0, 4, 1, 2, 3}), oracle.exact("patches")), 1e-14);
  EXPECT_LT(test::difference(patcher.unpatch(patches), padded), 1e-14);
}

int64_t up_blocks_of(const core::json& options) {
  return static_cast<int64_t>(options["decode_block_out_channels"].size()) - 1;
}

// NVIDIA's models also have resamplers without effect: their parameters remain unused.
void load(Cosmos& cosmos, const core::json& options, const core::NamedTensors& originals) {
  core::NamedTensors weights;
  const Renames renames = names(up_blocks_of(options));
  for (const auto& [name, t] : originals) weights[renames.ours(name)] = t;
  ASSERT_EQ(weights.size(), originals.size());
  cosmos.load(weights, {.may_ignore = [](const std::string&) { return true; }});
}

Tensor frames_of_images(const Tensor& t, bool image) { return image ? t.unsqueeze(2) : t; }

class Nvidia : public ::testing::TestWithParam<Case> {};

TEST_P(Nvidia, EncodesDecodesAndHasTheGradients) {
  const auto [name, dtype] = GetParam();
  const test::Oracle oracle(kNvidiaFile, name);
  const auto& options = oracle.options;
  const bool image = options["image"], discrete = options["formulation"] == "FSQ";
  Cosmos cosmos(options, dtype);
  core::NamedTensors originals;
  const test::Oracle keys(kNvidiaFile, std::string(name) + ".keys");
  for (const auto& [key, shape] : keys.options.items())
    originals[key] = test::oracle_weight(key, shape.get<std::vector<int64_t>>(), discrete ? 1.4 : 0.7);
  load(cosmos, options, originals);
  Tensor leaf = test::numbers("video", oracle.exact("grad.video").sizes()).to(dtype).requires_grad_();
  Tensor vectors;
  Tensor latent = cosmos.encode(frames_of_images(leaf, image), discrete ? &vectors : nullptr);
  if (discrete) {
    const Tensor codes = frames_of_images(oracle.exact("codes"), false);
    EXPECT_EQ(latent.scalar_type(), at::kInt);
    EXPECT_TRUE(at::equal(image ? latent.squeeze(1) : latent, codes));
    const Tensor same = cosmos.decode(latent), given = oracle.exact("given_codes");
    EXPECT_LT(test::difference(same, frames_of_images(oracle.exact("decoded"), image)), bound(dtype));
    EXPECT_LT(test::difference(cosmos.decode(image ? given.unsqueeze(1) : given),
                               frames_of_images(oracle.exact("decoded_codes"), image)),
              bound(dtype));
    latent = vectors;  // training decodes the vectors: the codes have no gradient
  }
  EXPECT_LT(test::difference(latent, frames_of_images(oracle.exact("latent"), image)), bound(dtype));
  const Tensor decoded = cosmos.decode(latent);
  EXPECT_LT(test::difference(decoded, frames_of_images(oracle.exact("decoded"), image)), bound(dtype));
  const Tensor weight = test::numbers("grad.decoded", oracle.exact("decoded").sizes()).to(dtype);
  (decoded * frames_of_images(weight, image)).sum().backward();
  // libtorch's AVX-512 kernels have an error of 1.26e-5 in float32 here, its AVX2 and plain ones less than
  // 1e-5.
  EXPECT_LT(test::difference(leaf.grad(), oracle.exact("grad.video")), dtype == at::kDouble ? 1e-10 : 2e-5);
  expect_gradients(cosmos, oracle, dtype, up_blocks_of(options));
}
INSTANTIATE_TEST_SUITE_P(Cases, Nvidia,
                         ::testing::Combine(::testing::Values("cv", "dv", "dv2", "ci", "di"),
                                            ::testing::Values(at::kDouble, at::kFloat)),
                         case_name);

class Jit : public ::testing::TestWithParam<Case> {};

TEST_P(Jit, ArchivesGiveTheSameTokenizer) {
  const auto [name, dtype] = GetParam();
  const test::Oracle oracle(kNvidiaFile, name);
  const auto folder = std::filesystem::path(KINORA_TEST_DATA) / "oracle";
  const auto archive = [&](const char* part) {
    return core::read_archive(folder / ("cosmos_tokenizer_" + std::string(name) + "_" + part + ".jit"));
  };
  auto originals = archive("encoder");
  for (const auto& [key, t] : archive("decoder")) originals[key] = t;
  Cosmos cosmos(oracle.options, dtype);
  load(cosmos, oracle.options, originals);
  Tensor vectors;
  const bool discrete = oracle.has("codes");
  const Tensor latent = cosmos.encode(test::numbers("video", oracle.exact("grad.video").sizes()).to(dtype),
                                      discrete ? &vectors : nullptr);
  EXPECT_LT(test::difference(discrete ? vectors : latent, oracle.exact("latent")), bound(dtype));
  EXPECT_LT(test::difference(cosmos.decode(latent), oracle.exact("decoded")), bound(dtype));
}
INSTANTIATE_TEST_SUITE_P(Cases, Jit,
                         ::testing::Combine(::testing::Values("cv", "dv2"),
                                            ::testing::Values(at::kDouble, at::kFloat)),
                         case_name);

TEST(JitWeights, OfWhatIsNoneAreRefused) {
  const auto folder = std::filesystem::path(KINORA_TEST_DATA) / "oracle";
  EXPECT_NE(test::refusal([&] { core::read_archive(folder / "absent.jit"); }).find("does not exist"),
            std::string::npos);
  EXPECT_NE(test::refusal([&] {
              core::read_archive(folder / kDiffusers);
            }).find("not an archive that libtorch reads"),
            std::string::npos);
}

// Names and shapes of NVIDIA's ten published models, complete except for resamplers without effect.
TEST(Published, LayoutsHaveTheParametersOfNvidias) {
  test::plugins();
  std::ifstream file(std::filesystem::path(KINORA_TEST_DATA) / "oracle" / "cosmos_tokenizer_keys.json");
  const auto sizes = core::json::parse(file);
  ASSERT_EQ(sizes.size(), 10u);
  for (const auto& [size, keys] : sizes.items()) {
    core::Chain chain(core::ChainOptions{}, {});
    const test::Instance<kinora_tokenizer> tokenizer("tokenizer/cosmos", core::json{{"size", size}},
                                                     chain.head());
    std::map<std::string, std::vector<int64_t>> declared, published;
    const Renames renames = names(size == "CV4x8x8" ? 2 : 3);
    for (const auto& p : chain.parameters()) declared[p.name] = p.shape;
    for (const auto& [key, shape] : keys.items()) {
      const auto name = renames.ours(key);
      EXPECT_TRUE(published.emplace(name, shape.get<std::vector<int64_t>>()).second) << name << " twice";
      EXPECT_TRUE(declared.count(name) || name.find("samplers.0.conv") != std::string::npos) << name;
    }
    for (const auto& [name, shape] : declared) EXPECT_EQ(published[name], shape) << size << " " << name;
    kinora_tokenizer_info info{.struct_size = sizeof info};
    check(tokenizer->info(tokenizer.self(), &info));
    const bool discrete = size[0] == 'D', image = size[1] == 'I';
    EXPECT_EQ(info.discrete, discrete ? 1u : 0u);
    EXPECT_EQ(info.codes, discrete ? 64000 : 0);
    EXPECT_EQ(info.channels, discrete ? 1 : 16);
    const std::string ratios =
        std::to_string(info.time) + "x" + std::to_string(info.height) + "x" + std::to_string(info.width);
    EXPECT_EQ(ratios, image ? "1x" + size.substr(2) : size.substr(2));
  }
}

TEST(Names, OfOtherLayoutsStay) {
  for (const char* name :
       {"encoder.down_blocks.0.resnets.1.conv1.conv_s.weight", "quant_conv.weight",
        "decoder.up_blocks.2.upsamplers.0.conv3.bias", "encoder.norm_out.norm.weight", "x", ""})
    EXPECT_EQ(names(3).ours(name), name);
  EXPECT_EQ(names(3).ours("decoder.up.0.attn.1.1.proj_out.conv3d.bias"),
            "decoder.up_blocks.2.temp_attentions.1.to_out.0.bias");
  EXPECT_EQ(names(3).ours("encoder.mid.attn_1.q.weight"), "encoder.mid_block.attentions.0.to_q.weight");
}

}  // namespace
}  // namespace kinora::cosmos
