// Tests what a generate job writes and says, and what an interrupted or failed one leaves.
#include <fstream>
#include <sstream>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/digest.hpp"
#include "core/base/log.hpp"
#include "plugins/jobs/generate/generate_job_testing.hpp"
#include "plugins/jobs/inference/rollout_testing.hpp"

namespace kinora::core::generate_job {
namespace {

// The lines of a job's log of this level.
std::string warnings_of(const ScratchRun& run, const char* level = "warn") {
  const fs::path file = run.folder() / "log";
  {
    const auto log = or_throw(LogFile::open(file));
    const std::string before = log_level();
    or_throw(set_log_level(level));
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
              testing::Not(testing::ContainsRegex("not read|cut off|trained on")));
  EXPECT_THAT(
      warnings_of(*ready("prompts = ['red sea']\nfps = 12.0")),
      testing::HasSubstr(
          "was trained on 3 frames per second and the result has 12, so what it shows moves 4 times"));
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

TEST(GenerateJob, WritesEveryFormatOfTheSameVideo) {
  const at::NoGradGuard off;
  const auto run = ready("prompts = ['sea']\nformat = ['latents', 'png', 'webp', 'mp4']\npreview_every = 1");
  generated_json(*run);
  const at::Tensor latent = read_tensors(video(*run, 0, ".latents.safetensors")).at("latent");
  const at::Tensor frames = frames_of(run->tokenizer("tokenizer")->decode(latent));
  ASSERT_EQ(frames.size(0), kFrames);
  for (int64_t i = 0; i < kFrames; ++i)
    EXPECT_EQ(worst(picture(video(*run, 0, fmt::format("/{:05}.png", i))), frames[i]), 0) << i;
  EXPECT_EQ(decoded(read_bytes(video(*run, 0, ".mp4")), json::object()).sizes(), frames.sizes());
  const auto webp = read_bytes(video(*run, 0, ".webp"));
  EXPECT_EQ(std::string(webp.begin() + 8, webp.begin() + 12), "WEBP");
  // A sampler that ends with an Euler step to zero returns its last estimate.
  const fs::path previews = run->of("film") / "previews" / "000";
  EXPECT_EQ(std::distance(fs::directory_iterator(previews), {}), kSteps);
  EXPECT_LE(worst(picture(previews / "step_0003.png"), frames[0]), 1);
  EXPECT_THAT(generate_message("format = ['gif']"),
              testing::HasSubstr("format 'gif' is unknown; give mp4, webp, png"));
}

// Its frames go to the files as they are decoded.
TEST(GenerateJob, WritesEveryFormatOfAVideoInChunks) {
  const at::NoGradGuard off;
  const auto run = prepared({{"tokenizer", inference::kStreaming},
                             {"dit", "teacher_forcing = true\nchunk = 1"},
                             {"film", "prompts = ['sea']\nformat = ['latents', 'png', 'webp', 'mp4']"}});
  encoded(*run);
  generated_json(*run);
  const at::Tensor latent = read_tensors(video(*run, 0, ".latents.safetensors")).at("latent");
  const at::Tensor frames = frames_of(run->tokenizer("tokenizer")->decode(latent));
  ASSERT_EQ(frames.size(0), kFrames);
  for (int64_t i = 0; i < kFrames; ++i)
    EXPECT_LE(worst(picture(video(*run, 0, fmt::format("/{:05}.png", i))), frames[i]), 1) << i;
  EXPECT_LE(worst(picture(video(*run, 0, ".png")), strip(frames)), 1);
  const auto mp4 = read_bytes(video(*run, 0, ".mp4"));
  EXPECT_EQ(decoded(mp4, json::object()).sizes(), frames.sizes());
  const std::string text(mp4.begin(), mp4.end());
  EXPECT_THAT(text, testing::HasSubstr("\"model_calls\":")) << "what is known in the end alone";
  EXPECT_LT(text.find("moov"), text.find("mdat"));
  const json about = json::parse(std::ifstream(video(*run, 0, ".json")));
  EXPECT_EQ(about.at("frames"), kFrames);
  EXPECT_EQ(about.at("files"), json({"000.latents.safetensors", "000", "000.webp", "000.mp4", "000.png"}));
  for (const auto& entry : fs::directory_iterator(run->of("film") / "videos"))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
}

// Each chunk has as many steps as the one before it, and each video its folder.
TEST(GenerateJob, KeepsThePreviewsOfEachChunkOfEachVideo) {
  const at::NoGradGuard off;
  const auto run = prepared({{"tokenizer", inference::kStreaming},
                             {"dit", "teacher_forcing = true\nchunk = 1"},
                             {"film", "format = ['latents']\npreview_every = 3"}});
  encoded(*run);
  generated_json(*run);
  for (const int64_t number : {0, 1}) {
    const at::Tensor latent = read_tensors(video(*run, number, ".latents.safetensors")).at("latent");
    const fs::path previews = run->of("film") / "previews" / fmt::format("{:03}", number);
    EXPECT_EQ(std::distance(fs::directory_iterator(previews), {}), latent.size(2));
    for (int64_t chunk = 0; chunk < latent.size(2); ++chunk) {
      const at::Tensor frame = frames_of(run->tokenizer("tokenizer")->decode(latent.narrow(2, chunk, 1)))[0];
      EXPECT_LE(worst(picture(previews / fmt::format("chunk_{:04}_step_0003.png", chunk)), frame), 1)
          << number << " " << chunk;
    }
  }
}

TEST(GenerateJob, TellsItsSpeeds) {
  const auto run = ready("prompts = ['sea']\nformat = ['latents']");
  EXPECT_THAT(warnings_of(*run, "info"),
              testing::ContainsRegex("film: 9 frames of 32 x 16, 3 steps, precision/[^;]+; frames a second: "
                                     "denoise [0-9.e+]+, decode [0-9.e+]+, end to end [0-9.e+]+"));
  const json speeds = run->metrics("film").at(0).at("frames_per_second");
  EXPECT_GT(speeds.at("end_to_end"), 0);
  EXPECT_LT(speeds.at("end_to_end"), std::min(speeds.at("denoise"), speeds.at("decode")));
}

// Nine frames at three a second, and a latent frame for two: chunks begin with frames 1, 3, 5 and 7.
TEST(GenerateJob, TellsTheDriftOfAVideoOfThreeSeconds) {
  const at::NoGradGuard off;
  const auto run = prepared({{"tokenizer", inference::kShallow},
                             {"dit", "teacher_forcing = true\nchunk = 1"},
                             {"film", "prompts = ['sea']\nformat = ['latents', 'png']"}});
  encoded(*run);
  generated_json(*run);
  std::vector<at::Tensor> pictures;
  for (int64_t i = 0; i < kFrames; ++i)
    pictures.push_back(picture(video(*run, 0, fmt::format("/{:05}.png", i))).to(at::kDouble) / 255);
  const at::Tensor frames = at::stack(pictures), latent = read_tensors(video(*run, 0, ".latents.safetensors"))
                                                              .at("latent")[0]
                                                              .to(at::kDouble)
                                                              .flatten(2);
  const auto change = [&](int64_t t) { return (frames[t] - frames[t - 1]).abs().mean().item<double>(); };
  const double jumps[] = {change(1) - change(2), (change(3) + change(5)) / 2 - change(4),
                          change(7) - (change(6) + change(8)) / 2};
  const std::vector<std::pair<int64_t, int64_t>> latents{{0, 2}, {2, 2}, {4, 1}};  // first and count
  const json drift = json::parse(std::ifstream(video(*run, 0, ".json"))).at("drift");
  const auto expect = [&](const char* name, int64_t k, double want) {
    ASSERT_EQ(drift.at(name).size(), 3U) << name;
    EXPECT_NEAR(drift.at(name).at(static_cast<size_t>(k)).get<double>(), want, 1e-6) << name << k;
  };
  const auto apart = [](const at::Tensor& a, const at::Tensor& b) {
    return (a - b).abs().mean().item<double>();
  };
  const auto deviation = [](const at::Tensor& x, const std::vector<int64_t>& dims) {
    return (x - x.mean(dims, true)).square().mean(dims).sqrt();
  };
  const std::vector<int64_t> pixels{0, 1, 2};
  for (int64_t k = 0; k < 3; ++k) {
    const auto second = [&](int64_t s) { return frames.narrow(0, 3 * s, 3); };
    const auto of_latents = [&](int64_t s) {
      const auto [first, count] = latents.at(static_cast<size_t>(s));
      return latent.narrow(1, first, count).flatten(1);
    };
    expect("mean", k, apart(second(k).mean(pixels), second(0).mean(pixels)));
    expect("spread", k, apart(deviation(second(k), pixels), deviation(second(0), pixels)));
    expect("saturation", k, (second(k).amax(-1) - second(k).amin(-1)).mean().item<double>());
    expect("border_jump", k, jumps[k]);
    expect("latent_mean", k, apart(of_latents(k).mean({1}), of_latents(0).mean({1})));
    expect("latent_spread", k, apart(deviation(of_latents(k), {1}), deviation(of_latents(0), {1})));
  }
  EXPECT_GT(drift.at("mean").at(2), 0) << "the video changes";
}

TEST(GenerateJob, CutsTheEndOfShotsAndSaysWhere) {
  const auto run = prepared({{"dit", "teacher_forcing = true\nchunk = 1"},
                             {"film",
                              "format = ['png']\nprompts = []\nshot_frames = 2\nshots = [{ prompt = 'sea', "
                              "chunks = 2 }, { prompt = 'red', chunks = 2 }]"}});
  encoded(*run);
  generated_json(*run);
  const json about = json::parse(std::ifstream(video(*run, 0, ".json")));
  EXPECT_EQ(about.at("frames"), 2);
  EXPECT_EQ(about.at("shots").size(), 1U) << "the other one does not begin";
  EXPECT_EQ(about.at("options").at("shot_frames"), 2) << "so that --from ends there too";
}

// Chunks of a latent frame, the first, and of two: they begin with frames 0, 1 and 5. Shots begin with frames 0, 1, 3
// and 5, of which 3 is a cut.
TEST(GenerateJob, TellsTheJumpsAtBordersOfChunksWhichCutsAreNot) {
  struct Case {
    const char *dit, *film;
    std::set<int64_t> borders, cuts;
  };
  for (const auto& [dit, film, borders, cuts] :
       {Case{"chunk = 2\nfirst_chunk = 1", "prompts = ['sea']", {1, 5}, {}},
        Case{"chunk = 1",
             "prompts = []\nshots = [{ prompt = 'sea', chunks = 1 }, { prompt = 'red', chunks = 1, cut = "
             "false }, "
             "{ prompt = 'blue', chunks = 1 }, { prompt = 'blue', chunks = 2, cut = false }]",
             {1, 5, 7},
             {3}}}) {
    const auto run = prepared({{"tokenizer", inference::kShallow},
                               {"dit", std::string("teacher_forcing = true\n") + dit},
                               {"film", std::string("format = ['png']\n") + film}});
    encoded(*run);
    generated_json(*run);
    const json found = json::parse(std::ifstream(video(*run, 0, ".json"))).at("drift").at("border_jump");
    ASSERT_EQ(found.size(), 3U) << film;
    const auto frame = [&](int64_t t) {
      return picture(video(*run, 0, fmt::format("/{:05}.png", t))).to(at::kDouble) / 255;
    };
    for (int64_t second = 0; second < 3; ++second) {
      double sums[2] = {0, 0}, counts[2] = {0, 0};
      for (int64_t t = std::max<int64_t>(3 * second, 1); t < 3 * second + 3; ++t) {
        if (cuts.contains(t)) continue;
        const size_t of = borders.contains(t) ? 1 : 0;
        sums[of] += (frame(t) - frame(t - 1)).abs().mean().item<double>();
        ++counts[of];
      }
      const bool has_both = counts[0] > 0 && counts[1] > 0;
      EXPECT_NEAR(found.at(static_cast<size_t>(second)).get<double>(),
                  has_both ? sums[1] / counts[1] - sums[0] / counts[0] : 0, 1e-6)
          << film << ", second " << second;
    }
    EXPECT_NE(found.at(1), 0) << film;
  }
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
  const auto first = read_bytes(run->of("film") / "metrics.jsonl"), second = read_bytes(videos / "001.mp4");
  const auto written = fs::last_write_time(videos / "000.mp4");
  fs::remove(videos / "001.json");
  fs::remove(videos / "001.mp4");
  EXPECT_EQ(generated_json(*run).at("videos"), 2);
  EXPECT_EQ(fs::last_write_time(videos / "000.mp4"), written);
  EXPECT_EQ(read_bytes(videos / "001.mp4").size(), second.size());
  const auto lines = run->metrics("film");
  ASSERT_EQ(lines.size(), 2U);
  for (size_t n = 0; n < 2; ++n) EXPECT_EQ(lines[n].at("number"), n);
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
}  // namespace kinora::core::generate_job
