// Videos made chunk by chunk on a cache of keys and values, against diffusers' Wan with masked attention over all
// frames (tests/oracle/make_wan_chunks_fixtures.py).
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

class WanChunks : public testing::TestWithParam<const char*> {
 protected:
  const test::Oracle oracle{kFile, GetParam()};
  Small small{model_line(oracle.options["options"])};

  int64_t number(const char* name) const { return oracle.options[name].get<int64_t>(); }
  std::filesystem::path file(const char* name) const { return small.run->folder() / name; }

  PipelineSpec spec(at::ScalarType dtype, const json& cache) {
    small.sampler = small.component(
        "sampler", "flow-euler",
        {{"steps", number("steps")}, {"shift", oracle.options["shift"]}, {"convention", "uniform"}});
    PipelineSpec out =
        small.spec(in_chunks(number("chunk"), number("window"), number("sink")), number("frames"), cache);
    if (dtype == at::kFloat) out.parts["precision"] = small.component("precision", "fp32", json::object());
    out.latents.scale = {{0, 0}, {1, 1}, 1};
    out.text.reset();
    for (const char* slot : {"text", "words"}) out.parts.erase(slot);
    test::OnChain<kinora_model> wan("model/wan", oracle.options["options"], at::kDouble);
    NamedTensors weights;
    for (const auto& p : wan.chain().parameters()) weights[p.name] = test::oracle_weight(p.name, p.shape);
    write_tensors(file("wan.safetensors"), weights);
    out.parts["model"].weights = {file("wan.safetensors")};
    return out;
  }
  double apart_from_diffusers(at::ScalarType dtype, const json& cache) {
    const at::Tensor noise = test::numbers(std::string(GetParam()) + ".noise", {2, number("frames"), 2, 4});
    write_tensors(file("noise.safetensors"), {{"000", noise}});
    Parallelism parallel(test::runtime(), PlainPipeline::plan(*small.run));
    Pipeline pipeline(test::runtime(), spec(dtype, cache), parallel);
    Session session(pipeline, {.noise = file("noise.safetensors")});
    while (session.next_chunk()) {
    }
    return test::difference(session.made().latent, oracle.exact("latent"));
  }
};

TEST_P(WanChunks, OnTheCacheAreThoseOfDiffusersWithAMask) {
  const at::NoGradGuard off;
  EXPECT_LT(apart_from_diffusers(at::kDouble, json::object()), 1e-12);
  EXPECT_LT(apart_from_diffusers(at::kDouble, nullptr), 1e-12) << "without a cache";
  EXPECT_LT(apart_from_diffusers(at::kFloat, json::object()), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Of, WanChunks, testing::Values("wan21", "wan21_window", "wan22", "wan22_end"));

}  // namespace
}  // namespace kinora::core::inference::wan_chunks
