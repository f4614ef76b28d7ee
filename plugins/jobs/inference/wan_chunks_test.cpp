// Videos made chunk by chunk on a cache of keys and values, against diffusers' Wan with masked attention over all
// frames (tests/oracle/make_wan_chunks_fixtures.py).
#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kinora/abi/model.h"
#include "plugins/jobs/inference/rollout_testing.hpp"
#include "tests/support/oracle.hpp"

namespace kinora::core::inference::wan_chunks {
namespace {

constexpr const char* kFile = "wan_chunks.safetensors";

// {"num_layers": 2, "in_channels": 2} to a line of a run file.
std::string model_line(const json& options) {
  std::string out = "model = { use = 'wan'";
  for (const auto& [name, value] : options.items()) out += fmt::format(", {} = {}", name, value.dump());
  return out + " }\nloss = 'flow'";
}

std::string tokenizer_line(int64_t channels) {
  return fmt::format(
      "tokenizer = {{ use = 'cosmos', latent_channels = {}, encoder_block_out_channels = [4, 8, 8], "
      "decode_block_out_channels = [4, 8, 8] }}",
      channels);
}

// A T5 whose layers add nothing: what it makes of a token are signs, times the weight of the last norm. Words are so
// large that the norm's epsilon is lost, and a power of two, so that float32 has the very numbers of the fixture.
void set_text(PipelineSpec& out, const std::filesystem::path& file) {
  const json options{{"vocab_size", 7}, {"d_model", 12},   {"d_kv", 6},
                     {"d_ff", 8},       {"num_layers", 1}, {"num_heads", 2}};
  test::OnChain<kinora_model> t5("model/t5", options, at::kFloat);
  NamedTensors weights;
  for (const auto& p : t5.chain().parameters()) weights[p.name] = at::zeros(p.shape);
  weights.at("shared.weight") = (test::numbers("text.words", {7, 12}).sign() * 0x1p20).to(at::kFloat);
  weights.at("encoder.final_layer_norm.weight") = test::numbers("text.norm", {12}).to(at::kFloat);
  write_tensors(file, weights);
  out.text->text = "model/t5";
  out.text->text_options =
      or_throw(Options::make(*or_throw(test::runtime().registry().find("model", "model/t5")), options));
  out.text->weights = {file};
}

class WanChunks : public testing::TestWithParam<int> {
 protected:
  const std::string name = std::to_string(GetParam());
  const test::Oracle oracle{kFile, name};
  const json about = oracle.options;
  const int64_t channels = about["options"]["in_channels"].get<int64_t>();
  Small small{model_line(about["options"]), 1, tokenizer_line(channels)};

  int64_t number(const char* of) const { return about[of].get<int64_t>(); }
  std::string text(const char* of) const { return about[of].get<std::string>(); }
  std::filesystem::path file(const char* of) const { return small.run->folder() / of; }

  PipelineSpec spec(at::ScalarType dtype, const json& cache) {
    small.sampler =
        small.component("sampler", "flow-euler",
                        {{"steps", number("steps")}, {"shift", about["shift"]}, {"convention", "uniform"}});
    small.shots = shot_rule({text("pin"), number("jump")});
    FrameOptions rule = in_chunks(number("chunk"), number("window"), number("sink"));
    rule.first_chunk = number("first_chunk");
    PipelineSpec out = small.spec(rule, number("frames"), cache);
    if (dtype == at::kFloat) out.parts["precision"] = small.component("precision", "fp32", json::object());
    const auto size = static_cast<size_t>(channels);
    out.latents.scale = {std::vector<double>(size, 0), std::vector<double>(size, 1), 1};
    out.latents.shape[0] = channels;
    set_text(out, file("words.safetensors"));
    test::OnChain<kinora_model> wan("model/wan", about["options"], at::kDouble);
    NamedTensors weights;
    for (const auto& p : wan.chain().parameters()) weights[p.name] = test::oracle_weight(p.name, p.shape);
    write_tensors(file("wan.safetensors"), weights);
    out.parts["model"].weights = {file("wan.safetensors")};
    return out;
  }
  Request request() const {
    const at::Tensor noise = test::numbers(name + ".noise", {channels, number("frames"), 2, 4});
    write_tensors(file("noise.safetensors"), {{"000", noise}});
    Request out{.prompt = text("prompt"), .negative = text("negative"), .noise = file("noise.safetensors")};
    out.guidance[0].scale = about["scale"].get<double>();
    out.guidance[0].batched = about["batched"].get<bool>();
    for (const json& shot : about["shots"]) out.shots.push_back(shot.dump());
    return out;
  }
  double apart_from_diffusers(at::ScalarType dtype, const json& cache) {
    Parallelism parallel(test::runtime(), PlainPipeline::plan(*small.run));
    Pipeline pipeline(test::runtime(), spec(dtype, cache), parallel);
    Session session(pipeline, request());
    while (session.next_chunk()) {
    }
    const at::Tensor& latent = session.made().latent;  // float32, whatever the model computes in
    return test::difference(latent, oracle("latent", latent.scalar_type()));
  }
  // Without a cache, all chunks have the prompt of now and see what the training's rule lets them.
  bool can_go_without_cache() const {
    return about["cache"].empty() && std::ranges::all_of(about["shots"], [&](const json& shot) {
             return shot["prompt"] == about["prompt"];
           });
  }
};

TEST_P(WanChunks, OnTheCacheAreThoseOfDiffusersWithAMask) {
  const at::NoGradGuard off;
  EXPECT_LT(apart_from_diffusers(at::kDouble, about["cache"]), 1e-12) << about;
  EXPECT_LT(apart_from_diffusers(at::kFloat, about["cache"]), 1e-5) << about;
  if (!can_go_without_cache()) return;
  EXPECT_LT(apart_from_diffusers(at::kDouble, nullptr), 1e-12) << "without a cache " << about;
}

INSTANTIATE_TEST_SUITE_P(Of, WanChunks, testing::Range(0, 20));

}  // namespace
}  // namespace kinora::core::inference::wan_chunks
