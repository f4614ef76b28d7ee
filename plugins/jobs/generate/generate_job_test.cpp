// Tests what generate computes against the mathematics written out here.
#include <cmath>
#include <limits>
#include <set>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/digest.hpp"
#include "core/base/log.hpp"
#include "core/run/job.hpp"
#include "core/torch/apply/tools.hpp"
#include "core/torch/media/latents.hpp"
#include "core/torch/tensors/device.hpp"
#include "core/torch/tensors/noise.hpp"
#include "core/torch/weights/sharded_files.hpp"
#include "plugins/jobs/training/generating/encoders.hpp"
#include "plugins/jobs/training/media/clips.hpp"
#include "plugins/jobs/training/video_jobs_testing.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

constexpr int kSteps = 3;  // steps of ScratchRun's sampler
const std::vector<std::string> kPrompts = {"red sea", "blue"};

struct Film {
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

at::Tensor by_channel(const std::vector<double>& v) { return at::tensor(v, at::kDouble).view({-1, 1, 1, 1}); }

// The latents of video n. Karras et al. 2022, algorithm 1, around D(x; sigma) = c_skip x + c_out F, with
// guidance.
at::Tensor latent_of(const ScratchRun& run, int64_t n, const std::string& prompt, const Film& how,
                     bool blind) {
  const auto model = run.network("dit", "model", at::kDouble);
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
  at::Tensor x = sample_noise(at::empty({1, shape[0], shape[1], shape[2], shape[3]}, at::kDouble), how.seed,
                              n, "generate.noise") *
                 t[how.first];
  if (how.causal) x = x.narrow(2, 0, how.causal);
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
at::Tensor film(const ScratchRun& run, int64_t n, const std::string& prompt, const Film& how,
                bool blind = false) {
  const auto tokenizer = run.network("tokenizer", "tokenizer");
  const LatentData data(run.of("latents"));
  const at::Tensor latent = latent_of(run, n, prompt, how, blind) / 0.5 * by_channel(data.facts().scale.std) +
                            by_channel(data.facts().scale.mean);
  const at::Tensor video = tokenizer->decode(latent.to(at::kFloat))[0];
  return ((video.to(at::kDouble).clamp(-1, 1) + 1) / 2 * 255).round().to(at::kByte).permute({1, 2, 3, 0});
}

// Six of the frames, side by side, as in the lossless picture.
at::Tensor strip(const at::Tensor& frames) {
  const at::Tensor at = at::linspace(0, static_cast<double>(frames.size(0) - 1), 6).round().to(at::kLong);
  return at::cat(frames.index_select(0, at).unbind(0), 1);
}
at::Tensor picture(const fs::path& png) { return decoded(bytes_of(png), json::object())[0]; }
fs::path video(const ScratchRun& run, int64_t n, const std::string& tail) {
  return run.of("film") / "videos" / (fmt::format("{:03}", n) + tail);
}

json generated_json(const ScratchRun& run) {
  JobContext context = run.context("film");
  test::run_job(context);
  return context.summary;
}

// A run up to the cached latents, with these lines for its generate job.
std::unique_ptr<ScratchRun> ready(const std::string& lines = "") {
  auto run = prepared({{"film", lines}});
  encoded(*run);
  return run;
}

void expect_film(const ScratchRun& run, int64_t n, const std::string& prompt, const Film& how,
                 const std::string& what) {
  const at::Tensor want = strip(film(run, n, prompt, how)), got = picture(video(run, n, ".png"));
  ASSERT_EQ(got.sizes(), want.sizes());
  EXPECT_LE(worst(got, want), 1) << what << ", video " << n;
  EXPECT_GT(want.to(at::kDouble).std().item<double>(), 5) << "a grey picture would prove nothing";
  EXPECT_GT(worst(strip(film(run, n, prompt, how, true)), want), 3)
      << "a prompt without effect would prove nothing";
}

std::string generate_message(const std::string& lines) {
  const auto run = ready(lines);
  return test::refusal([&] { generated_json(*run); });
}

TEST(GenerateJob, ShowsWhatTheSamplerMadeOfThePrompt) {
  const at::NoGradGuard off;
  std::vector<std::pair<std::string, Film>> cases = {
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
    for (int64_t n = 0; n < 2; ++n) expect_film(*run, n, kPrompts[static_cast<size_t>(n)], how, lines);
  }
}

// Generates from weights whose training rounded one layer in nvfp4, and returns the log.
std::string said_of_precision(const std::string& precision) {
  const auto run = ready("prompts = ['sea']\nformat = ['latents']\nguidance = 1.0\n" + precision);
  const fs::path weights = run->of("dit") / "weights.safetensors";
  NamedTensors tensors;
  for (const auto& [name, tensor] : read_tensors(weights)) tensors[name] = tensor.clone();
  const std::string layer = "decoder.layers.0.mlp.linear_fc1.weight";
  EXPECT_TRUE(tensors.contains(layer));
  fs::remove(weights);
  write_tensors(weights, tensors,
                {{"low_weights", json::array({layer}).dump()},
                 {"low_rule", R"({"block": "16x16", "scale_rule": "static_6"})"}});
  or_throw(set_log_level("info"));
  testing::internal::CaptureStderr();
  generated_json(*run);
  const std::string said = testing::internal::GetCapturedStderr();
  or_throw(set_log_level("error"));
  return said;
}

TEST(GenerateJob, NamesThePrecisionOfTheTrainingIfItRoundsOtherwise) {
  const at::NoGradGuard off;
  const auto trained = testing::HasSubstr("is noted as nvfp4");
  EXPECT_THAT(said_of_precision("precision = { use = 'nvfp4', high = [] }\n"), testing::Not(trained));
  EXPECT_THAT(said_of_precision(""),
              testing::HasSubstr("weights.safetensors is noted as nvfp4 (1 weight low, static_6 in 16x16), "
                                 "and this job generates in fp32 (0 of them low)"));
  EXPECT_THAT(said_of_precision("precision = { use = 'nvfp4', high = ['*linear_fc1*'] }\n"),
              testing::HasSubstr("generates in nvfp4 (0 of them low, static_6 in 16x16)"));
  EXPECT_THAT(said_of_precision("precision = { use = 'nvfp4', high = [], weights = 'mse' }\n"),
              testing::HasSubstr("generates in nvfp4 (1 of them low, mse in 16x16)"));
}

// The latents of a video by the weights in the train job's folder.
at::Tensor latents_of(const ScratchRun& run) {
  fs::remove_all(run.of("film"));
  generated_json(run);
  return read_tensors(video(run, 0, ".latents.safetensors")).at("latent").clone();
}

TEST(GenerateJob, UsesTheAdapterThatWasTrained) {
  const auto run = prepared(
      {{"dit",
        "steps = 3\nbatch = 2\nwarmup = 0\nlearning_rate = 0.05\nweights = 'FOLDER/base.safetensors'\n"
        "lora = 'rank=2 targets=linear_qkv,linear_fc1'\n"},
       {"film", "prompts = ['red sea']\nformat = ['latents']\n"}});
  encoded(*run);
  const fs::path weights = run->of("dit") / "weights.safetensors", base = run->folder() / "base.safetensors";
  fs::rename(weights, base);
  JobContext context = run->context("dit");
  test::run_job(context);
  const at::Tensor adapted = latents_of(*run);
  fs::remove(weights);
  convert_weights(
      nullptr,
      {{"in", base.string()}, {"out", weights.string()}, {"merge", (run->of("dit") / "adapter").string()}});
  EXPECT_TRUE(at::equal(latents_of(*run), adapted));
  fs::copy_file(base, weights, fs::copy_options::overwrite_existing);
  EXPECT_GT(worst(latents_of(*run), adapted), 1e-3) << "an adapter without effect would prove nothing";
}

TEST(GenerateJob, OnTheCpuByNameIsTheSameAsByItself) {
  if (why_no_gpu().empty()) GTEST_SKIP() << "auto is this machine's GPU";
  const auto with = [](const std::string& device) {
    return latents_of(*ready("prompts = ['red sea']\nformat = ['latents']\n" + device));
  };
  EXPECT_TRUE(at::equal(with(""), with("device = 'cpu'\n")));
  EXPECT_THAT(generate_message("device = 'cuda'\n"), testing::HasSubstr("device 'cuda': " + why_no_gpu()));
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
      decoded(bytes_of(fs::path(KINORA_TEST_DATA) / file), {{"height", 16}, {"width", 32}})
          .narrow(0, first, frames);
  const at::Tensor clip =
      (pixels.to(at::kDouble) / 255 * 2 - 1).permute({3, 0, 1, 2}).unsqueeze(0).to(at::kFloat);
  const LatentData data(run.of("latents"));
  const at::Tensor latent = run.network("tokenizer", "tokenizer")->encode(clip).to(at::kDouble);
  return (latent - by_channel(data.facts().scale.mean)) / by_channel(data.facts().scale.std) * 0.5;
}

TEST(GenerateJob, BeginsWithTheFramesThatAreGiven) {
  const at::NoGradGuard off;
  const std::string file = std::string(KINORA_TEST_DATA) + "/bbb_A.mp4";
  const int64_t all =
      decoded(bytes_of(fs::path(KINORA_TEST_DATA) / "bbb_A.mp4"), {{"height", 16}, {"width", 32}}).size(0);
  for (const auto& [option, frames, first] : {std::tuple{"image", 1, int64_t{0}},
                                              {"condition_from = 'start'\nvideo", 5, int64_t{0}},
                                              {"video", 5, all - 5}}) {
    const auto run = ready(fmt::format("{} = '{}'\ncondition_frames = 5\nguidance = 2.0", option, file));
    generated_json(*run);
    Film how{2, ""};
    how.given = latents_of(*run, "bbb_A.mp4", frames, first);
    ASSERT_EQ(how.given.size(2), frames == 1 ? 1 : 2);
    expect_film(*run, 1, "blue", how, option);
    EXPECT_GT(worst(strip(film(*run, 1, "blue", Film{2, ""})), picture(video(*run, 1, ".png"))), 3);
  }
  const auto run = ready(
      fmt::format("image = '{}'\ncondition_frames = 5\nguidance = 2.0\ncondition_timestep = 'shared'", file));
  generated_json(*run);
  Film how{2, ""};
  how.given = latents_of(*run, "bbb_A.mp4", 1);
  const at::Tensor own = strip(film(*run, 1, "blue", how));
  how.shares_timestep = true;
  expect_film(*run, 1, "blue", how, "shared");
  EXPECT_GT(worst(own, picture(video(*run, 1, ".png"))), 1) << "the same timestep would prove nothing";
  EXPECT_THAT(generate_message("video = '" + file + "'\ncondition_frames = 9"),
              testing::HasSubstr("make a longer video"));
}

// Each chunk starts from its own noise after the finished ones: by a train job's rule, and by the job's own.
TEST(GenerateJob, MakesChunkAfterChunkWithAModelThatLearntSo) {
  const at::NoGradGuard off;
  const std::string
      film = "format = ['latents']\nprecision = 'fp64'\nguidance = 1.5\n",
      own =
          "teacher_forcing = true\nloss = 'edm'\nweights = 'FOLDER/dit/weights.safetensors'\n"
          "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 1, "
          "heads = 2, head_size = 12, adaln_lora = 4 }\n";
  for (const auto& [training, generation] : {std::pair{"teacher_forcing = true\n", film}, {"", film + own}}) {
    const auto run = prepared({{"dit", training}, {"film", generation}});
    encoded(*run);
    generated_json(*run);
    const LatentFacts facts = LatentData(run->of("latents")).facts();
    Film how;
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

// The warnings that a job logs.
std::string warnings_of(const ScratchRun& run) {
  const fs::path file = run.folder() / "log";
  {
    const auto log = or_throw(LogFile::open(file));
    const std::string before = log_level();
    or_throw(set_log_level("warn"));
    generated_json(run);
    or_throw(set_log_level(before));
  }
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

TEST(GenerateJob, SaysWhatOfItsInputsIsNotUsed) {
  const at::NoGradGuard off;
  const std::string file = std::string(KINORA_TEST_DATA) + "/bbb_A.mp4";
  std::string longer = "red";
  for (int i = 0; i < 400; ++i) longer += " sea";
  const auto run = ready(fmt::format(
      "prompts = ['{}']\nnegative = 'blue'\nguidance = 1.0\nimage = '{}'\nvideo = '{}'", longer, file, file));
  const std::string said = warnings_of(*run);
  EXPECT_THAT(said,
              testing::ContainsRegex("the prompt of video 000: [0-9]+ of its [0-9]+ tokens are cut off"));
  EXPECT_THAT(said, testing::HasSubstr("negative is not read, because guidance = 1 is none"));
  EXPECT_THAT(said, testing::HasSubstr("video is not read, because image is the first frame"));
  EXPECT_THAT(said, testing::HasSubstr("bbb_A.mp4: 11 % of the picture is cut off"));  // 16:9 in 2:1
  EXPECT_THAT(warnings_of(*ready("prompts = ['red sea']\nnegative = 'blue'\nguidance = 2.0")),
              testing::Not(testing::ContainsRegex("not read|cut off")));
}

// Noise of 32 x 32 pixels by libjpeg, without its last 120 bytes: it is decoded, with a grey part.
constexpr const char* kCutJpeg =
    "ffd8ffe000104a46494600010100000100010000ffdb004300281c1e231e19282321232d2b28303c64413c37373c7b585d49"
    "64918099968f808c8aa0b4e6c3a0aadaad8a8cc8ffcbdaeef5ffffff9bc1fffffffaffe6fdfff8ffc0000b08002000200101"
    "1100ffc4001f0000010501010101010100000000000000000102030405060708090a0bffc400b51000020103030204030505"
    "04040000017d01020300041105122131410613516107227114328191a1082342b1c11552d1f02433627282090a161718191a"
    "25262728292a3435363738393a434445464748494a535455565758595a636465666768696a737475767778797a8384858687"
    "88898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2"
    "e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9faffda0008010100003f006c8cfb809308c7aee3857e3824f63d4f6ed480e54012"
    "3028bbce1b049c67d3fce3d6950baed01d59f95287f8f39ebebd4f6fc6a4919a2e77e08009c8208c9f4cf1d7dffc201b77a9"
    "13024632c7b73c1c75c7b7e7c7594968c9656dbb540031f9671c1e39e334ff009845990b64b752c572bc75ff003c537a96c3"
    "383f772a4e57d7af6c81d39e40a6a39dd846258ae36b0246723070075c77";

// The stage that decodes it says that it is damaged.
TEST(GenerateJob, RefusesADamagedPicture) {
  const std::string hex = kCutJpeg;
  for (const char* option : {"image", "video"}) {
    const auto run = ready(fmt::format("{} = 'FOLDER/cut.jpg'\ncondition_frames = 1", option));
    std::ofstream file(run->folder() / "cut.jpg", std::ios::binary);
    for (size_t i = 0; i < hex.size(); i += 2)
      file.put(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    file.close();
    EXPECT_THAT(test::refusal([&] { generated_json(*run); }), testing::HasSubstr("cut.jpg: a damaged JPEG"))
        << option;
  }
}

TEST(GenerateJob, ChangesAVideoFromTheLevelThatItsStrengthSays) {
  const at::NoGradGuard off;
  const std::string file = std::string(KINORA_TEST_DATA) + "/bbb_A.mp4";
  const auto run = ready("video = '" + file + "'\nstrength = 0.6\nguidance = 2.0");
  generated_json(*run);
  Film how{2, ""};
  how.changed = latents_of(*run, "bbb_A.mp4", kFrames);
  how.first = 1;
  expect_film(*run, 0, "red sea", how, "strength 0.6 of 3 steps begins at step 1");
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
    Film how{2, negative};
    how.seed = seed;
    const at::Tensor want = strip(film(*run, 5 + place, prompt, how)),
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

TEST(GenerateJob, WritesEveryFormatOfTheSameVideo) {
  const at::NoGradGuard off;
  const auto run = ready("prompts = ['sea']\nformat = ['latents', 'png', 'webp', 'mp4']\npreview_every = 1");
  generated_json(*run);
  const at::Tensor latent = read_tensors(video(*run, 0, ".latents.safetensors")).at("latent");
  const at::Tensor frames = frames_of(run->network("tokenizer", "tokenizer")->decode(latent));
  ASSERT_EQ(frames.size(0), kFrames);
  for (int64_t i = 0; i < kFrames; ++i)
    EXPECT_EQ(worst(picture(video(*run, 0, fmt::format("/{:05}.png", i))), frames[i]), 0) << i;
  EXPECT_EQ(decoded(bytes_of(video(*run, 0, ".mp4")), json::object()).sizes(), frames.sizes());
  const auto webp = bytes_of(video(*run, 0, ".webp"));
  EXPECT_EQ(std::string(webp.begin() + 8, webp.begin() + 12), "WEBP");
  // A sampler that ends with an Euler step to zero returns its last estimate.
  const fs::path previews = run->of("film") / "previews" / "000";
  EXPECT_EQ(std::distance(fs::directory_iterator(previews), {}), kSteps);
  EXPECT_LE(worst(picture(previews / "step_0003.png"), frames[0]), 1);
  EXPECT_THAT(generate_message("format = ['gif']"),
              testing::HasSubstr("format 'gif' is unknown; give mp4, webp, png"));
}

TEST(GenerateJob, SaysWhatItWasMadeWith) {
  const auto run = ready("prompts = ['sea']\nformat = ['latents']");
  generated_json(*run);
  std::ifstream in(video(*run, 0, ".json"));
  const json about = json::parse(in);
  for (const auto& [slot, file] : {std::pair{"model", run->of("dit") / "weights.safetensors"},
                                   {"tokenizer", run->of("tokenizer") / "weights.safetensors"},
                                   {"text", run->folder() / "text.safetensors"}})
    EXPECT_EQ(about.at("weights").at(slot), "sha256:" + sha256_of_file(file)) << slot;
  EXPECT_EQ(about.at("weights").size(), 3U);
  const std::map<std::string, std::string> ids = {
      {"model", "model/dit"},           {"tokenizer", "tokenizer/cosmos"},
      {"text", "model/minilm"},         {"loss", "loss/edm"},
      {"sampler", "sampler/edm-heun"},  {"precision", "precision/fp32"},
      {"words", "stage/text.wordpiece"}};
  EXPECT_EQ(about.at("components").size(), ids.size());
  for (const auto& [slot, id] : ids) {
    EXPECT_EQ(about.at("components").at(slot).at("id"), id);
    EXPECT_NE(about.at("components").at(slot).at("version"), "");
  }
}

// Latents are written before the video, whose path is blocked.
TEST(GenerateJob, LeavesNothingOfAVideoThatFails) {
  const auto run = ready("format = ['latents', 'png', 'webp']\npreview_every = 1");
  fs::create_directories(video(*run, 1, ".webp"));
  EXPECT_THROW(generated_json(*run), Error);
  for (const auto& entry : fs::directory_iterator(run->of("film") / "videos"))
    EXPECT_FALSE(entry.path().filename().string().starts_with("001")) << entry.path();
  EXPECT_FALSE(fs::exists(run->of("film") / "previews" / "001"));
  EXPECT_TRUE(fs::exists(video(*run, 0, ".webp"))) << "earlier videos are kept";
}

// Killed between the second video's picture and its last file.
TEST(GenerateJob, KeepsVideosThatAreCompleteAndWritesEachLineOnce) {
  const auto run = ready();
  generated_json(*run);
  const fs::path videos = run->of("film") / "videos";
  const auto first = bytes_of(run->of("film") / "metrics.jsonl"), second = bytes_of(videos / "001.mp4");
  const auto written = fs::last_write_time(videos / "000.mp4");
  fs::remove(videos / "001.json");
  fs::remove(videos / "001.mp4");
  EXPECT_EQ(generated_json(*run).at("videos"), 2);
  EXPECT_EQ(fs::last_write_time(videos / "000.mp4"), written);
  EXPECT_EQ(bytes_of(videos / "001.mp4").size(), second.size());
  const auto lines = run->metrics("film");
  ASSERT_EQ(lines.size(), 2U);
  for (size_t n = 0; n < 2; ++n) EXPECT_EQ(lines[n].at("number"), n);
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

TEST(GenerateJob, TakesOtherWeightsForATrainedModel) {
  const auto made = [](const std::string& option, const char* file) {
    const auto run = ready("format = ['latents']\n" + option);
    auto tensors = read_tensors(run->of("dit") / "weights.safetensors");
    for (auto& [name, t] : tensors) t = 1.25 * t;
    write_tensors(run->folder() / file, tensors);
    generated_json(*run);
    return read_tensors(video(*run, 0, ".latents.safetensors")).at("latent");
  };
  EXPECT_TRUE(at::equal(made("weights = 'FOLDER/other.safetensors'", "other.safetensors"),
                        made("", "dit/weights.safetensors")));
}

TEST(GenerateJob, ReadsTheShardsOfATraining) {
  const auto run = ready("format = ['latents']\n");
  const at::Tensor want = latents_of(*run);
  const auto file = run->of("dit") / "weights.safetensors";
  write_files(run->of("dit"), {{.name = "weights.safetensors", .holdings = {held(read_tensors(file))}}}, {},
              3000);
  ASSERT_FALSE(fs::exists(file)) << "the folder must have only an index";
  EXPECT_TRUE(at::equal(latents_of(*run), want));
}

TEST(GenerateJob, RefusesOptionsThatWouldDoNothing) {
  const auto said = [](const std::string& option) -> std::string {
    const auto run = prepared({{"film", option + "\n"}});
    encoded(*run);
    JobContext context = run->context("film");
    return test::refusal([&] { test::run_job(context); });
  };
  EXPECT_THAT(said("top_k = 5"), testing::HasSubstr("top_k is for models that draw codes"));
  EXPECT_THAT(said("cache = { use = 'kv', window = 4 }"),
              testing::HasSubstr("cache is for models that draw codes"));
  EXPECT_THAT(said("temperature = 0.5"), testing::HasSubstr("temperature is for models that draw codes"));
  EXPECT_THAT(said("strength = 0.5"), testing::HasSubstr("give one in video"));
  EXPECT_THAT(said("guidance_interval = [5.0, 1.0]"), testing::HasSubstr("[5, 1] is empty"));
}

}  // namespace
}  // namespace kinora::core
