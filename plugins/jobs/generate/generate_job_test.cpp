// Tests what generate computes against the mathematics written out here.
#include <cmath>
#include <limits>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/tensors/noise.hpp"
#include "plugins/jobs/generate/generate_job_testing.hpp"
#include "plugins/jobs/inference/encoders.hpp"
#include "plugins/jobs/latents/latents.hpp"
#include "plugins/jobs/media/clips.hpp"

namespace kinora::core::generate_job {
namespace {

struct Expected {
  double guidance = 1.5;
  std::string negative;
  double from = 0,
         to = std::numeric_limits<double>::infinity();  // noise levels between which guidance applies
  at::Tensor given;                                     // [1, C, K, h, w], normalised: the first latents
  at::Tensor changed;                                   // [1, C, T, h, w]: initial latents of the sampling
  size_t first = 0;                                     // the step at which `changed` enters
  uint64_t seed = kSeed;
  int64_t causal = 0;  // number of frames per chunk; a frame does not attend to later chunks; 0: all frames
                       // attend to each other
  bool encodes_nothing = false;  // an empty negative is text too
  bool shares_timestep = false;  // the model reads the other frames' level for given ones
};

std::vector<double> levels() {
  std::vector<double> t;
  for (int i = 0; i < kSteps; ++i)
    t.push_back(std::pow(
        std::pow(80., 1 / 7.) + i / double(kSteps - 1) * (std::pow(0.002, 1 / 7.) - std::pow(80., 1 / 7.)),
        7));
  t.push_back(0);
  return t;
}

// The latents of video n. Karras et al. 2022, algorithm 1, around D(x; sigma) = c_skip x + c_out F, with
// guidance.
at::Tensor latent_of(const ScratchRun& run, int64_t n, const std::string& prompt, const Expected& how,
                     bool blind) {
  const auto model = run.model("dit", "model", at::kDouble);
  if (how.causal) model->chain().set_frames({.chunk = 1, .causal = true});
  JobContext context = run.context("film", false);
  TextEncoder encoder(context, run.spec("latents"));
  const at::Tensor with = encoder(prompt).to(at::kDouble).unsqueeze(0) * (blind ? 0.0 : 1.0);
  const at::Tensor without = how.negative.empty() && !how.encodes_nothing
                                 ? at::zeros_like(with)
                                 : encoder(how.negative).to(at::kDouble).unsqueeze(0);
  const int64_t K = how.given.defined() ? how.given.size(2) : 0;
  const auto estimate = [&](const at::Tensor& x, double level, const at::Tensor& text) {
    at::Tensor s = at::full({1, x.size(2)}, level, at::kDouble), seen = x.clone();
    if (K > 0) s.narrow(1, 0, K).fill_(1e-4), seen.narrow(2, 0, K).copy_(how.given);
    const at::Tensor by_frame = s.view({1, 1, -1, 1, 1}), total = by_frame.square() + 0.25;
    const at::Tensor f =
        model
            ->forward({{"latent", seen / total.sqrt()},
                       {"timestep", K > 0 && !how.shares_timestep ? s.log() / 4 : s.amax(1).log() / 4},
                       {"text", text}})
            .at(0);
    at::Tensor x0 = 0.25 / total * seen + by_frame * 0.5 / total.sqrt() * f;
    if (K > 0) x0.narrow(2, 0, K).copy_(how.given);
    return x0;
  };
  const auto denoise = [&](const at::Tensor& x, double s) {
    const double g = s > how.from && s <= how.to ? how.guidance : 1;
    const at::Tensor none = estimate(x, s, without);
    return none + g * (estimate(x, s, with) - none);
  };
  const auto shape = LatentData(run.of("latents")).facts().shape;
  const auto t = levels();
  const auto drawn = [&](at::IntArrayRef size, const std::string& key) {
    return sample_noise(at::empty(size, at::kDouble), how.seed, n, "generate.noise" + key) * t[how.first];
  };
  std::vector<at::Tensor> by_frame;
  for (int64_t f = 0; f < how.causal; ++f)
    by_frame.push_back(drawn({1, shape[0], shape[2], shape[3]}, "." + std::to_string(f)));
  at::Tensor x = how.causal ? at::stack(by_frame, 2) : drawn({1, shape[0], shape[1], shape[2], shape[3]}, "");
  if (how.changed.defined()) x = x + how.changed;
  for (size_t i = how.first; i < kSteps; ++i) {
    const at::Tensor slope = (x - denoise(x, t[i])) / t[i];
    const at::Tensor next = x + (t[i + 1] - t[i]) * slope;
    x = t[i + 1] == 0 ? next
                      : x + (t[i + 1] - t[i]) * 0.5 * (slope + (next - denoise(next, t[i + 1])) / t[i + 1]);
  }
  if (K > 0) x.narrow(2, 0, K).copy_(how.given);
  return x;
}

// The video as uint8 [T, H, W, 3].
at::Tensor expected_video(const ScratchRun& run, int64_t n, const std::string& prompt, const Expected& how,
                          bool blind = false) {
  const auto tokenizer = run.tokenizer("tokenizer");
  const LatentData data(run.of("latents"));
  const at::Tensor latent = latent_of(run, n, prompt, how, blind) / 0.5 * by_channel(data.facts().scale.std) +
                            by_channel(data.facts().scale.mean);
  const at::Tensor video = tokenizer->decode(latent.to(at::kFloat))[0];
  return ((video.to(at::kDouble).clamp(-1, 1) + 1) / 2 * 255).round().to(at::kByte).permute({1, 2, 3, 0});
}

void expect_video(const ScratchRun& run, int64_t n, const std::string& prompt, const Expected& how,
                  const std::string& what) {
  const at::Tensor want = strip(expected_video(run, n, prompt, how)), got = picture(video(run, n, ".png"));
  ASSERT_EQ(got.sizes(), want.sizes());
  EXPECT_LE(worst(got, want), 1) << what << ", video " << n;
  EXPECT_GT(want.to(at::kDouble).std().item<double>(), 5) << "a grey picture would prove nothing";
  EXPECT_GT(worst(strip(expected_video(run, n, prompt, how, true)), want), 3)
      << "a prompt without effect would prove nothing";
}

TEST(GenerateJob, ShowsWhatTheSamplerMadeOfThePrompt) {
  const at::NoGradGuard off;
  std::vector<std::pair<std::string, Expected>> cases = {
      {"guidance = 1.5", {1.5, ""}},
      {"guidance = 1.0", {1, ""}},
      {"guidance = 2.0\nnegative = 'sea'", {2, "sea"}},
      {"guidance = 2.0\nnegative = 'sea blue'\nbatch_guidance = true", {2, "sea blue"}},
      {"guidance = 0.5\nguidance_convention = 'nemo'", {1.5, ""}},
      {"guidance = 4.0\nguidance_interval = [0.1, 10.0]", {4, "", 0.1, 10}},
  };
  cases.push_back({"guidance = 2.0\nencode_negative = true", {2, ""}});
  cases.back().second.encodes_nothing = true;
  for (const auto& [lines, how] : cases) {
    const auto run = ready(lines);
    EXPECT_EQ(generated_json(*run).at("videos"), 2);
    for (int64_t n = 0; n < 2; ++n) expect_video(*run, n, kPrompts[static_cast<size_t>(n)], how, lines);
  }
}

TEST(GenerateJob, CountsTheCallsOfTheModelThatGuidanceCosts) {
  const auto calls = [](const std::string& lines) {
    const auto run = ready(lines + "\nprompts = ['sea']");
    generated_json(*run);
    const json about = run->metrics("film").at(0);
    EXPECT_EQ(about.at("nfe"), 2 * kSteps - 1);
    return about.at("model_calls").get<int>();
  };
  EXPECT_EQ(calls("guidance = 1.0"), 5);
  EXPECT_EQ(calls("guidance = 2.0"), 10);
  EXPECT_EQ(calls("guidance = 2.0\nbatch_guidance = true"), 5);
  EXPECT_EQ(calls("guidance = 2.0\nguidance_interval = [0.1, 10.0]"), 7) << "of 80, 3.6 twice, 0.002 twice";
  EXPECT_EQ(calls("guidance = 2.0\nguidance_interval = [0.1, 80.0]"), 8) << "the upper end is included";
  EXPECT_EQ(calls("guidance = 2.0\nguidance_interval = [80.0, 100.0]"), 5) << "the lower end is excluded";
}

// Normalised latents of a clip's frames [first, first + frames), scaled as the job scales it.
at::Tensor latents_of(const ScratchRun& run, const std::string& file, int64_t frames, int64_t first = 0) {
  const at::Tensor pixels =
      decoded(read_bytes(fs::path(KINORA_TEST_DATA) / file), {{"height", 16}, {"width", 32}})
          .narrow(0, first, frames);
  const at::Tensor clip =
      (pixels.to(at::kDouble) / 255 * 2 - 1).permute({3, 0, 1, 2}).unsqueeze(0).to(at::kFloat);
  const LatentData data(run.of("latents"));
  const at::Tensor latent = run.tokenizer("tokenizer")->encode(clip).to(at::kDouble);
  return (latent - by_channel(data.facts().scale.mean)) / by_channel(data.facts().scale.std) * 0.5;
}

TEST(GenerateJob, BeginsWithTheFramesThatAreGiven) {
  const at::NoGradGuard off;
  const std::string file = std::string(KINORA_TEST_DATA) + "/bbb_A.mp4";
  const int64_t all =
      decoded(read_bytes(fs::path(KINORA_TEST_DATA) / "bbb_A.mp4"), {{"height", 16}, {"width", 32}}).size(0);
  for (const auto& [option, frames, first] : {std::tuple{"image", 1, int64_t{0}},
                                              {"condition_from = 'start'\nvideo", 5, int64_t{0}},
                                              {"video", 5, all - 5}}) {
    const auto run = ready(fmt::format("{} = '{}'\ncondition_frames = 5\nguidance = 2.0", option, file));
    generated_json(*run);
    Expected how{2, ""};
    how.given = latents_of(*run, "bbb_A.mp4", frames, first);
    ASSERT_EQ(how.given.size(2), frames == 1 ? 1 : 2);
    expect_video(*run, 1, "blue", how, option);
    EXPECT_GT(worst(strip(expected_video(*run, 1, "blue", Expected{2, ""})), picture(video(*run, 1, ".png"))),
              3);
  }
  const auto run = ready(
      fmt::format("image = '{}'\ncondition_frames = 5\nguidance = 2.0\ncondition_timestep = 'shared'", file));
  generated_json(*run);
  Expected how{2, ""};
  how.given = latents_of(*run, "bbb_A.mp4", 1);
  const at::Tensor own = strip(expected_video(*run, 1, "blue", how));
  how.shares_timestep = true;
  expect_video(*run, 1, "blue", how, "shared");
  EXPECT_GT(worst(own, picture(video(*run, 1, ".png"))), 1) << "the same timestep would prove nothing";
  EXPECT_THAT(generate_message("video = '" + file + "'\ncondition_frames = 9"),
              testing::HasSubstr("make a longer video"));
}

// Each chunk starts from its own noise after the finished ones: by a train job's rule, and by the job's own.
TEST(GenerateJob, MakesChunkAfterChunkWithAModelThatLearntSo) {
  const at::NoGradGuard off;
  const std::string
      generating = "format = ['latents']\nprecision = 'fp64'\nguidance = 1.5\n",
      own =
          "teacher_forcing = true\nloss = 'edm'\nweights = 'FOLDER/dit/weights.safetensors'\n"
          "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 1, "
          "heads = 2, head_size = 12, adaln_lora = 4 }\n";
  for (const auto& [training, generation] :
       {std::pair{"teacher_forcing = true\n", generating}, {"", generating + own}}) {
    const auto run = prepared({{"dit", training}, {"film", generation}});
    encoded(*run);
    generated_json(*run);
    const LatentFacts facts = LatentData(run->of("latents")).facts();
    Expected how;
    while (how.causal < facts.shape[1]) {
      ++how.causal;
      how.given = latent_of(*run, 0, kPrompts[0], how, false);
    }
    const at::Tensor got = read_tensors(video(*run, 0, ".latents.safetensors")).at("latent"),
                     want = how.given / 0.5 * by_channel(facts.scale.std) + by_channel(facts.scale.mean);
    EXPECT_LT(worst(got, want) / want.abs().max().item<double>(), 1e-6);
  }
  EXPECT_THAT(generate_message("causal = true"),
              testing::HasSubstr("causal is the train job's; leave it out"));
}

TEST(GenerateJob, ChangesAVideoFromTheLevelThatItsStrengthSays) {
  const at::NoGradGuard off;
  const std::string file = std::string(KINORA_TEST_DATA) + "/bbb_A.mp4";
  const auto run = ready("video = '" + file + "'\nstrength = 0.6\nguidance = 2.0");
  generated_json(*run);
  Expected how{2, ""};
  how.changed = latents_of(*run, "bbb_A.mp4", kFrames);
  how.first = 1;
  expect_video(*run, 0, "red sea", how, "strength 0.6 of 3 steps begins at step 1");
  EXPECT_EQ(run->metrics("film").at(0).at("steps"), 2);
  EXPECT_EQ(run->metrics("film").at(0).at("nfe"), 3);
}

TEST(GenerateJob, TakesPromptsFromAFileWithTheirOwnSettings) {
  const at::NoGradGuard off;
  const auto run =
      ready("prompts = []\nprompts_file = 'FOLDER/wishes.jsonl'\nguidance = 2.0\nseed = 8\nfirst = 5");
  std::ofstream(run->folder() / "wishes.jsonl")
      << "{\"prompt\": \"red sea\", \"negative\": \"blue\"}\n\n{\"prompt\": \"blue\", \"seed\": 21}\r\n";
  EXPECT_EQ(generated_json(*run).at("videos"), 2);
  const auto expect = [&](int64_t place, const std::string& prompt, const std::string& negative,
                          uint64_t seed) {
    Expected how{2, negative};
    how.seed = seed;
    const at::Tensor want = strip(expected_video(*run, 5 + place, prompt, how)),
                     got = picture(video(*run, place, ".png"));
    EXPECT_LE(worst(got, want), 1) << prompt;
  };
  expect(0, "red sea", "blue", 8);
  expect(1, "blue", "", 21);
  std::ofstream(run->folder() / "wishes.jsonl") << "{\"prompt\": \"red sea\", \"sead\": 3}\n";
  try {
    generated_json(*run);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("wishes.jsonl:1: unknown member 'sead'"));
  }
}

// A job with its own networks, as for published weights: latents are scaled as the tokenizer returns them.
TEST(GenerateJob, WorksWithNetworksOfItsOwn) {
  const at::NoGradGuard off;
  const std::string dit =
      "{ use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 1, heads = 2, "
      "head_size = 12, adaln_lora = 4 }";
  const std::string tokenizer =
      "{ use = 'cosmos', latent_channels = 2, encoder_block_out_channels = [4, 8, 8], "
      "decode_block_out_channels = [4, 8, 8] }";
  const auto run =
      ready("model = " + dit +
            "\nloss = 'edm'\nweights = 'FOLDER/dit/weights.safetensors'\ntokenizer = " + tokenizer +
            "\ntokenizer_weights = 'FOLDER/tokenizer/weights.safetensors'\nformat = ['latents']\nsigma_data "
            "= 0.25\nguidance = 2.0");
  generated_json(*run);
  for (int64_t n = 0; n < 2; ++n) {
    const LatentData data(run->of("latents"));
    const at::Tensor want = latent_of(*run, n, kPrompts[static_cast<size_t>(n)], {2, ""}, false);
    const at::Tensor got = read_tensors(video(*run, n, ".latents.safetensors")).at("latent");
    const at::Tensor scaled =
        want / 0.5 * by_channel(data.facts().scale.std) + by_channel(data.facts().scale.mean);
    EXPECT_LT(worst(got, scaled), 2e-3) << "an earlier encode job still decides how latents are scaled";
  }
  EXPECT_THAT(generate_message("model = " + dit + "\nloss = 'edm'"),
              testing::HasSubstr("set its weights: weights"));
  EXPECT_THAT(generate_message("model = " + dit + "\nweights = 'x'"),
              testing::HasSubstr("set the loss it was trained on"));
}

}  // namespace
}  // namespace kinora::core::generate_job
