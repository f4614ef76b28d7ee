// LoRAs of a pipeline's model: a video with one is that of the weights into which diffusers and PEFT merged it, and
// a video without one is as if there were none.
#include "plugins/jobs/inference/loras.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/digest.hpp"
#include "core/run/job.hpp"
#include "host/weights/weights.hpp"
#include "plugins/jobs/inference/requests.hpp"
#include "plugins/jobs/inference/session.hpp"
#include "plugins/jobs/training/video_jobs_testing.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/oracle_folders.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core::generate_loras {
namespace {

using testing::HasSubstr;

// A generate job of a folder, with its pipeline loaded once.
struct Opened {
  explicit Opened(RunFile of)
      : run(std::move(of)),
        context(test::runtime(), run, run.jobs.at(0), false),
        options(context.options<GenerateOptions>()),
        parallel(context),
        pipeline(test::runtime(), inference::pipeline_spec(context, options), parallel) {}

  at::Tensor latent(const std::string& lora = "") {
    const at::NoGradGuard off;
    Request request = requests(context, options).front();
    request.lora = lora_use(lora, pipeline.spec().loras);
    inference::Session session(pipeline, request);
    while (session.next_chunk()) {
    }
    return session.made().latent.clone();
  }

  RunFile run;
  JobContext context;
  GenerateOptions options;
  Parallelism parallel;
  inference::Pipeline pipeline;
};

class GenerateLoras : public test::OracleFolders {
 protected:
  // The folder of layers, a later one over earlier ones.
  fs::path folder_of(const std::vector<std::string>& layers) const {
    fs::path folder = scratch_ / "pipeline";
    for (const auto& layer : layers)
      fs::copy(oracle(layer), folder, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    return folder;
  }
  RunFile read(const fs::path& folder, const std::string& more) const {
    const auto text = fmt::format(
        "[run]\nout = '{}'\nseed = 3\n[[job]]\nname = 'film'\nkind = 'generate'\npipeline = '{}'\n"
        "prompts = ['red sea']\nsteps = 2\nframes = 5\nheight = 32\nwidth = 32\nformat = ['latents']\n{}",
        scratch_.string(), folder.string(), more);
    std::vector<Diagnostic> problems;
    RunFile run = read_run(or_throw(Document::parse(text, (scratch_ / "run.toml").string())),
                           test::runtime().registry(), with_weights, problems);
    for (const auto& p : problems) ADD_FAILURE() << format(p);
    return run;
  }
  static std::string adapter(const std::string& name) {
    return oracle("adapters/" + name + (name == "peft" ? "" : ".safetensors")).string();
  }
  static std::string lora(const std::string& name, const std::string& file, const std::string& more = "") {
    return fmt::format("{{ name = '{}', file = '{}'{} }}", name, file, more);
  }
  // The differences that diffusers or PEFT added to the weights, by diffusers' names.
  static NamedTensors added(const std::string& name) {
    const NamedTensors base = weights_of(oracle("wan_t2v/transformer"));
    NamedTensors out;
    for (const auto& [parameter, merged] : read_tensors(oracle("adapters/merged.safetensors")))
      if (parameter.starts_with(name + "."))
        out[parameter.substr(name.size() + 1)] =
            merged.to(at::kDouble) - base.at(parameter.substr(name.size() + 1)).to(at::kDouble);
    EXPECT_FALSE(out.empty()) << name;
    return out;
  }
  static NamedTensors weights_of(const fs::path& folder) {
    return read_tensors(folder / "diffusion_pytorch_model.safetensors");
  }
  // Another folder, of these weights and `scale` times the differences.
  std::string changed(const fs::path& folder, const NamedTensors& by, double scale, const char* name) const {
    NamedTensors out;
    for (const auto& [parameter, value] : weights_of(folder)) out[parameter] = value.clone();
    for (const auto& [parameter, difference] : by)
      out.at(parameter) = (out.at(parameter).to(at::kDouble) + scale * difference).to(at::kFloat);
    fs::create_directories(scratch_ / name);
    fs::copy_file(folder / "config.json", scratch_ / name / "config.json",
                  fs::copy_options::overwrite_existing);
    write_tensors(scratch_ / name / "diffusion_pytorch_model.safetensors", out);
    return (scratch_ / name).string();
  }
};

TEST_F(GenerateLoras, AreWhatOtherProgramsMergeAndLeaveNothingBehind) {
  const fs::path folder = folder_of({"wan_t2v"});
  const std::vector<std::string> names{"diffusers", "peft", "comfyui", "musubi"};
  std::string list;
  for (const auto& name : names)
    list += lora(name, adapter(name), name == "musubi" ? ", scale = 0.5" : "") + ",";
  Opened with(read(folder, "loras = [" + list + "]\n"));
  const at::Tensor plain = Opened(read(folder, "")).latent();
  EXPECT_TRUE(at::equal(with.latent(), plain)) << "adapters that are not used";
  for (const auto& [use, name, scale] :
       std::vector<std::tuple<std::string, std::string, double>>{{"diffusers", "diffusers", 1},
                                                                 {"peft", "peft", 1},
                                                                 {"comfyui=-0.5", "comfyui", -0.5},
                                                                 {"musubi", "musubi", 0.5},
                                                                 {"musubi=1", "musubi", 1}}) {
    SCOPED_TRACE(use);
    const std::string file = changed(folder / "transformer", added(name), scale, "merged");
    const at::Tensor want = Opened(read(folder, "weights = '" + file + "'\n")).latent();
    EXPECT_GT(test::difference(want, plain), 1e-3) << "an adapter without effect would prove nothing";
    EXPECT_LT(test::difference(with.latent(use), want), 1e-5);
    EXPECT_TRUE(at::equal(with.latent(), plain));
  }
}

TEST_F(GenerateLoras, MayHoldWholeDifferencesAndConvolutions) {
  const fs::path folder = folder_of({"wan_t2v"});
  at::manual_seed(4);
  const auto drawn = [](at::IntArrayRef shape) { return at::randn(shape, at::kFloat) / 4; };
  const at::Tensor a = drawn({2, 2, 1, 2, 2}), b = drawn({12, 2, 1, 1, 1});
  const NamedTensors differences{{"blocks.0.attn1.to_q.bias", drawn({12})},
                                 {"blocks.1.norm2.weight", drawn({12})},
                                 {"blocks.0.ffn.net.2.weight", drawn({12, 24})}};
  write_tensors(scratch_ / "lora.safetensors",
                {{"transformer.blocks.0.attn1.to_q.diff_b", differences.at("blocks.0.attn1.to_q.bias")},
                 {"transformer.blocks.1.norm2.diff", differences.at("blocks.1.norm2.weight")},
                 {"transformer.blocks.0.ffn.net.2.diff", differences.at("blocks.0.ffn.net.2.weight")},
                 {"transformer.patch_embedding.lora_A.weight", a},
                 {"transformer.patch_embedding.lora_B.weight", b}});
  NamedTensors all = differences;
  all["patch_embedding.weight"] = at::einsum("or,rcthw->octhw", {b.flatten(1), a});
  Opened with(read(folder, "loras = [" + lora("whole", (scratch_ / "lora.safetensors").string()) + "," +
                               lora("other", adapter("peft")) + "]\n"));
  const at::Tensor plain = with.latent();
  for (const double scale : {1.0, -0.5}) {
    const std::string file = changed(folder / "transformer", all, scale, "merged");
    const at::Tensor want = Opened(read(folder, "weights = '" + file + "'\n")).latent();
    EXPECT_GT(test::difference(want, plain), 1e-3);
    EXPECT_LT(test::difference(with.latent(fmt::format("whole={}", scale)), want), 1e-5);
  }
  const at::Tensor other = with.latent("other");
  EXPECT_TRUE(at::equal(with.latent(), plain));
  EXPECT_TRUE(at::equal(with.latent("other"), other));
}

TEST_F(GenerateLoras, OfTwoExpertsAreInOneFileOrInTwo) {
  const fs::path folder = folder_of({"wan_t2v", "wan_a14b_t2v"});
  NamedTensors both;
  for (const auto& [name, t] : read_tensors(adapter("comfyui"))) {
    const std::string rest = name.substr(std::string("diffusion_model.").size());
    both["high_noise_model." + rest] = t;
    if (!rest.ends_with("alpha")) both["low_noise_model." + rest] = t * 0.5;  // B A is a quarter
    if (rest.ends_with("alpha")) both["low_noise_model." + rest] = t;
  }
  write_tensors(scratch_ / "both.safetensors", both);
  Opened with(read(folder, "loras = [" + lora("both", (scratch_ / "both.safetensors").string()) + "," +
                               lora("two", adapter("diffusers"), ", file_2 = '" + adapter("peft") + "'") +
                               "]\n"));
  const at::Tensor plain = Opened(read(folder, "")).latent();
  const auto merged = [&](const NamedTensors& high, const NamedTensors& low, double scale_of_low) {
    const std::string first = changed(folder / "transformer", high, 1, "high"),
                      second = changed(folder / "transformer_2", low, scale_of_low, "low");
    return Opened(read(folder, "weights = '" + first + "'\nweights_2 = '" + second + "'\n")).latent();
  };
  EXPECT_LT(test::difference(with.latent("both"), merged(added("comfyui"), added("comfyui"), 0.25)), 1e-5);
  EXPECT_LT(test::difference(with.latent("two"), merged(added("diffusers"), added("peft"), 1)), 1e-5);
  EXPECT_GT(test::difference(with.latent("two"), with.latent("both")), 1e-3);
  EXPECT_TRUE(at::equal(with.latent(), plain));
  EXPECT_THAT(test::refusal([&] {
                Opened(read(folder, "resident_experts = 1\nloras = [" + lora("a", adapter("peft")) + "]\n"));
              }),
              HasSubstr("loras need both experts in memory"));
}

TEST_F(GenerateLoras, AreNamedInTheVideosSettings) {
  const fs::path folder = folder_of({"wan_t2v"});
  const RunFile run =
      read(folder, "loras = [" + lora("toon", adapter("diffusers")) + "]\nlora = 'toon=0.5'\n");
  JobContext context(test::runtime(), run, run.jobs.at(0), true);
  test::run_job(context);
  std::ifstream in(scratch_ / "film" / "videos" / "000.json");
  const json about = json::parse(in);
  EXPECT_EQ(about.at("options").at("lora"), "toon=0.5");
  EXPECT_EQ(about.at("weights").at("lora"), "sha256:" + sha256_of_file(adapter("diffusers")));
  const at::Tensor made =
      read_tensors(scratch_ / "film" / "videos" / "000.latents.safetensors").at("latent").clone();
  EXPECT_TRUE(at::equal(made, Opened(run).latent("toon=0.5")));
}

TEST_F(GenerateLoras, ThatFitNoModelAreRefused) {
  const fs::path folder = folder_of({"wan_t2v"}), file = scratch_ / "other.safetensors";
  const auto refused = [&](const std::string& module, int64_t in) {
    write_tensors(file, {{"transformer." + module + ".lora_A.weight", at::ones({2, in})},
                         {"transformer." + module + ".lora_B.weight", at::ones({12, 2})}});
    return test::refusal([&] { Opened(read(folder, "loras = [" + lora("a", file.string()) + "]\n")); });
  };
  EXPECT_EQ(refused("blocks.0.attn1.to_q", 12), "nothing was refused");
  EXPECT_THAT(refused("blocks.0.attn1.to_z", 12), HasSubstr("is not a parameter of model/wan"));
  EXPECT_THAT(refused("blocks.2.attn1.to_q", 12), HasSubstr("is not a parameter of model/wan"));
  EXPECT_THAT(refused("blocks.0.attn1.to_q", 10), HasSubstr("has another shape than model/wan has here"));
}

TEST(LoraOptionsOfVideos, AreNamesAndFiles) {
  const auto files = lora_files({R"({"name": "toon", "file": "a/toon.safetensors", "scale": 0.5})",
                                 R"({"name": "two", "file": "/high", "file_2": "low"})"},
                                "/run");
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].file, "/run/a/toon.safetensors");
  EXPECT_EQ(files[1].file, "/high");
  EXPECT_EQ(files[1].file_2, "/run/low");
  for (const auto& [text, name, scale] : std::vector<std::tuple<std::string, std::string, double>>{
           {"toon", "toon", 0.5}, {"toon=-2", "toon", -2}, {"two", "two", 1}, {"", "", 1}}) {
    const LoraUse use = lora_use(text, files);
    EXPECT_EQ(use.name, name);
    EXPECT_EQ(use.scale, scale);
    const LoraUse again = lora_use(text_of(use), files);
    EXPECT_EQ(again.name, name);
    EXPECT_EQ(again.scale, scale);
  }
  EXPECT_THAT(test::refusal([&] { lora_use("ton", files); }),
              testing::AllOf(HasSubstr("lora: unknown LoRA 'ton'"), HasSubstr("there are toon, two")));
  EXPECT_THAT(test::refusal([] { lora_use("toon", {}); }), HasSubstr("this model has none (loras)"));
  for (const char* text : {"toon=", "toon=x", "toon=nan", "toon=1 "})
    EXPECT_THAT(test::refusal([&] { lora_use(text, files); }), HasSubstr("expected NAME or NAME=SCALE"));
  for (const char* text :
       {"3", "{", R"({"name": "a"})", R"({"file": "a"})", R"({"name": "a=1", "file": "a"})",
        R"({"name": "a", "file": 3})", R"({"name": "a", "file": "a", "scale": "1"})",
        R"({"name": "a", "file": "a", "alpha": 1})"})
    EXPECT_THAT(test::refusal([&] { lora_files({text}, ""); }), HasSubstr("file = \"toon.safetensors\""))
        << text;
  EXPECT_THAT(test::refusal([] {
                lora_files({R"({"name": "a", "file": "a"})", R"({"name": "a", "file": "b"})"}, "");
              }),
              HasSubstr("two are called 'a'"));
}

}  // namespace
}  // namespace kinora::core::generate_loras
