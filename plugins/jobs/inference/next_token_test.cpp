// Codes drawn one by one with a KV cache, against a loop that runs the whole model for every token.
#include "plugins/jobs/inference/next_token.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/run/job.hpp"
#include "core/torch/tensors/noise.hpp"
#include "plugins/jobs/inference/encoders.hpp"
#include "plugins/jobs/latents/latents.hpp"
#include "plugins/jobs/training/video_jobs_testing.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/windowed.hpp"

namespace kinora::core {
namespace {

using testing::HasSubstr;
constexpr int64_t kT = 3, kRows = 2, kCols = 4, kN = kT * kRows * kCols;  // codes of ScratchRun's clips
constexpr int64_t kVocabulary = 12;  // of the tokenizer; the model has two more codes
const char* const kTokenizer =
    "tokenizer = { use = 'cosmos', formulation = 'FSQ', levels = [4, 3], embedding_dim = 2, latent_channels "
    "= "
    "2, encoder_block_out_channels = [4, 8, 8], decode_block_out_channels = [4, 8, 8] }";
const char* const kTokenModel =
    "model = { use = 'ar', vocab_size = 14, n_layers = 2, dim = 24, n_heads = 4, n_kv_heads = 2, head_dim = "
    "6, "
    "ffn_hidden_size = 16, insert_cross_attn = true, context_dim = 12 }\nloss = 'next-token'";

struct Draw {
  double guidance = 1, temperature = 1, top_p = 1;
  int64_t top_k = 0;
  std::string negative;
  at::Tensor given;  // [1, t, h, w]
  uint64_t seed = kSeed;
  const kinora_link* mask = nullptr;  // of the whole model's attention
};

// Draws from a table of probabilities, likeliest first.
int64_t drawn(const at::Tensor& logits, const Draw& how, double u) {
  std::vector<int64_t> order(static_cast<size_t>(logits.size(0)));
  std::iota(order.begin(), order.end(), 0);
  const auto* l = logits.const_data_ptr<double>();
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return l[a] > l[b]; });
  if (how.temperature == 0) return order[0];
  if (how.top_k > 0) order.resize(static_cast<size_t>(how.top_k));
  std::vector<double> p;
  for (const int64_t code : order) p.push_back(std::exp(l[code] / how.temperature));
  const double all = std::accumulate(p.begin(), p.end(), 0.0);
  size_t kept = 0;
  double sum = 0;
  while (kept < p.size() && sum / all < how.top_p) sum += p[kept++];
  double passed = 0;
  for (size_t i = 0; i < kept; ++i)
    if ((passed += p[i]) > u * sum) return order[i];
  return order[kept - 1];
}

// Draws every code after a forward over all of them; unknown ones are zeros.
at::Tensor codes_of(const ScratchRun& run, int64_t n, const std::string& prompt, const Draw& how) {
  const auto model = run.model("dit", "model", at::kDouble,
                               how.mask ? std::vector{how.mask} : std::vector<const kinora_link*>());
  JobContext context = run.context("film", false);
  TextEncoder encoder(context, run.spec("latents"));
  const at::Tensor with = encoder(prompt).to(at::kDouble).unsqueeze(0);
  const at::Tensor none =
      how.negative.empty() ? at::zeros_like(with) : encoder(how.negative).to(at::kDouble).unsqueeze(0);
  at::Tensor codes = at::zeros({1, kT, kRows, kCols}, at::kLong), flat = codes.view({kN});
  const int64_t first = how.given.defined() ? how.given.numel() : 0;
  if (first > 0) flat.narrow(0, 0, first).copy_(how.given.flatten());
  const at::Tensor u = sample_uniform({1, kN}, how.seed, n, "generate.codes");
  for (int64_t i = first; i < kN; ++i) {
    const auto logits = [&](const at::Tensor& text) {
      return model->forward({{"codes", codes}, {"text", text}}).at(0)[0][i].narrow(0, 0, kVocabulary);
    };
    const at::Tensor b = logits(none), guided = b + how.guidance * (logits(with) - b);
    flat[i] = drawn(guided.contiguous(), how, u[0][i].item<double>());
  }
  return codes;
}

std::unique_ptr<ScratchRun> ready_tokens(const std::string& lines, const std::string& format = "'latents'") {
  auto run = prepared({{"tokenizer", kTokenizer},
                       {"dit", kTokenModel},
                       {"film", "precision = 'fp64'\nformat = [" + format + "]\n" + lines}});
  encoded(*run);
  return run;
}
void generate_tokens(const ScratchRun& run) {
  JobContext context = run.context("film");
  test::run_job(context);
}
at::Tensor codes_in(const ScratchRun& run, int64_t n) {
  return read_tensors(run.of("film") / "videos" / fmt::format("{:03}.latents.safetensors", n)).at("codes");
}
std::string tokens_message(const std::string& lines) {
  const auto run = ready_tokens(lines);
  return test::refusal([&] { generate_tokens(*run); });
}

TEST(NextTokenJob, DrawsTheCodesOfAPlainLoopWithoutACache) {
  const at::NoGradGuard off;
  const std::vector<std::pair<std::string, Draw>> cases = {
      {"temperature = 0.0", {.temperature = 0}},
      {"", {}},
      {"seed = 8\ntemperature = 0.5\ntop_k = 5", {.temperature = 0.5, .top_k = 5, .seed = 8}},
      {"temperature = 2.0\ntop_p = 0.7", {.temperature = 2, .top_p = 0.7}},
      {"guidance = 3.0\ntop_k = 8\ntop_p = 0.9", {.guidance = 3, .top_p = 0.9, .top_k = 8}},
      {"guidance = 3.0\nbatch_guidance = true", {.guidance = 3}},
      {"guidance = 0.0\nnegative = 'sea'", {.guidance = 0, .negative = "sea"}},
      {"guidance = 4.0\nnegative = 'sea blue'\nbatch_guidance = true",
       {.guidance = 4, .negative = "sea blue"}},
      {"guidance = 4.0\nnegative = 'sea blue'", {.guidance = 4, .negative = "sea blue"}},
  };
  std::vector<at::Tensor> all;
  for (const auto& [lines, how] : cases) {
    const auto run = ready_tokens(lines);
    generate_tokens(*run);
    for (const int64_t n : {0, 1}) {
      const at::Tensor got = codes_in(*run, n);
      EXPECT_TRUE(at::equal(got, codes_of(*run, n, n == 0 ? "red sea" : "blue", how)))
          << lines << ", video " << n << "\n"
          << got;
      all.push_back(got);
    }
  }
  EXPECT_GT(std::get<0>(at::_unique(all[2])).numel(), 4) << "codes that are all the same would prove nothing";
  EXPECT_FALSE(at::equal(all[2], all[3])) << "number";
  EXPECT_FALSE(at::equal(all[2], all[4])) << "seed, temperature";
  EXPECT_FALSE(at::equal(all[2], all[10])) << "guidance";
  EXPECT_FALSE(at::equal(all[10], all[14])) << "negative prompt";
}

TEST(NextTokenJob, ContinuesTheFirstCodesOfAPictureOrVideo) {
  const at::NoGradGuard off;
  const std::string file = std::string(KINORA_TEST_DATA) + "/bbb_A.mp4";
  for (const auto& [option, frames] : {std::pair{"image", 1}, {"video", 5}}) {
    const auto run =
        ready_tokens(fmt::format("{} = '{}'\ncondition_frames = 5\nguidance = 2.0", option, file));
    generate_tokens(*run);
    const at::Tensor whole = decoded(read_bytes(file), {{"height", 16}, {"width", 32}}),
                     pixels = frames == 1 ? whole.narrow(0, 0, 1) : whole.narrow(0, whole.size(0) - 5, 5);
    const at::Tensor clip =
        (pixels.to(at::kDouble) / 255 * 2 - 1).permute({3, 0, 1, 2}).unsqueeze(0).to(at::kFloat);
    Draw how{.guidance = 2};
    how.given = run->tokenizer("tokenizer")->encode(clip).to(at::kLong);
    const int64_t first = how.given.size(1);
    ASSERT_EQ(first, frames == 1 ? 1 : 2);
    const at::Tensor got = codes_in(*run, 1);
    EXPECT_TRUE(at::equal(got, codes_of(*run, 1, "blue", how))) << option;
    EXPECT_TRUE(at::equal(got.narrow(1, 0, first), how.given)) << option;
    EXPECT_FALSE(at::equal(got, codes_of(*run, 1, "blue", {.guidance = 2}))) << option;
    const json about = run->metrics("film").at(1);
    EXPECT_EQ(about.at("steps"), kN - first * kRows * kCols);
    EXPECT_EQ(about.at("model_calls"), 2 * (kN - first * kRows * kCols)) << "given codes cost one forward";
  }
  EXPECT_THAT(tokens_message("video = '" + file + "'\ncondition_frames = 9"),
              HasSubstr("make a longer video"));
}

int64_t tokens_bytes(const json& about) {
  return about.at("cache_bytes").get<int64_t>() - about.at("cache_text_bytes").get<int64_t>();
}

// The vector before the first code and the given codes stay visible, whatever the window.
TEST(NextTokenJob, DrawsTheCodesOfAMaskedLoopWithAWindow) {
  const at::NoGradGuard off;
  const std::string file = std::string(KINORA_TEST_DATA) + "/bbb_A.mp4";
  constexpr int64_t kWindow = 5;
  for (const int64_t given : {int64_t{0}, kRows * kCols}) {
    const auto run = ready_tokens(
        fmt::format("cache = {{ use = 'kv', window = {} }}\nguidance = 2.0\nprompts = ['sea', 'red']\n{}",
                    kWindow, given ? "image = '" + file + "'" : ""));
    generate_tokens(*run);
    test::WindowedAttention mask(given + 1, kWindow);
    Draw how{.guidance = 2, .mask = mask.get()};
    const at::Tensor first = codes_in(*run, 0);
    if (given) how.given = first.narrow(1, 0, 1);
    for (const auto& [n, prompt] : {std::pair{0, "sea"}, {1, "red"}})
      EXPECT_TRUE(at::equal(codes_in(*run, n), codes_of(*run, n, prompt, how)))
          << prompt << ", given " << given;
    for (const json& about : run->metrics("film")) {
      EXPECT_EQ(about.at("cache_tokens"), given + 1 + kWindow);
      EXPECT_EQ(about.at("cache_options").at("window"), kWindow);
      const int64_t rows = tokens_bytes(about) / (2 * 2 * 2 * 2 * 6 * 8);
      EXPECT_LE(rows, (given + 1 + kWindow) * 5 / 4 + 1) << "branches, layers, k and v, heads, d, float64";
    }
  }
}

TEST(NextTokenJob, AWindowOfTheWholeVideoIsNone) {
  const at::NoGradGuard off;
  const auto whole = ready_tokens("top_k = 5"),
             window = ready_tokens("top_k = 5\ncache = { use = 'kv', window = 24 }");
  for (const auto* run : {whole.get(), window.get()}) generate_tokens(*run);
  for (const int64_t n : {0, 1}) EXPECT_TRUE(at::equal(codes_in(*whole, n), codes_in(*window, n))) << n;
  EXPECT_EQ(whole->metrics("film").at(0).at("cache_tokens"), kN);
}

TEST(NextTokenJob, LeavesTheVideoOfItsCodesAndSaysWhatItCost) {
  const at::NoGradGuard off;
  const auto run = ready_tokens("prompts = ['sea']\nguidance = 2.0", "'latents', 'png', 'mp4'");
  generate_tokens(*run);
  const fs::path videos = run->of("film") / "videos";
  const at::Tensor frames = frames_of(run->tokenizer("tokenizer")->decode(codes_in(*run, 0)));
  ASSERT_EQ(frames.size(0), kFrames);
  for (int64_t i = 0; i < kFrames; ++i)
    EXPECT_EQ(
        worst(decoded(read_bytes(videos / fmt::format("000/{:05}.png", i)), json::object())[0], frames[i]), 0)
        << i;
  EXPECT_EQ(decoded(read_bytes(videos / "000.mp4"), json::object()).sizes(), frames.sizes());
  const json about = run->metrics("film").at(0);
  EXPECT_EQ(about.at("nfe"), kN);
  EXPECT_EQ(about.at("model_calls"), 2 * kN);
  EXPECT_EQ(about.at("temperature"), 1);
  EXPECT_FALSE(about.contains("sampler"));
  EXPECT_EQ(about.at("cache_tokens"), kN);
  EXPECT_EQ(tokens_bytes(about), 2 * 2 * 2 * kN * 2 * 6 * 8)
      << "dimensions: branches, layers, k and v, tokens, heads, d, float64";
}

TEST(NextTokenJob, RefusesWhatIsOfNoise) {
  EXPECT_THAT(tokens_message("strength = 0.5"), HasSubstr("strength is for models that denoise"));
  EXPECT_THAT(tokens_message("guidance_interval = [0.1, 1.0]"), HasSubstr("guidance_interval is for models"));
  EXPECT_THAT(tokens_message("preview_every = 1"), HasSubstr("preview_every is for models"));
}

TEST(TokenSampling, DrawsEachCodeAsOftenAsItsProbabilitySays) {
  at::manual_seed(5);
  const at::Tensor logits = at::randn({9}, at::kDouble);
  for (const auto& [how, want] :
       {std::pair{TokenSampling{}, at::softmax(logits, 0)},
        {TokenSampling{.temperature = 0.5}, at::softmax(2 * logits, 0)},
        {TokenSampling{.top_k = 3},
         at::softmax(logits.masked_fill(logits < std::get<0>(logits.topk(3))[2], -INFINITY), 0)}}) {
    std::vector<int64_t> counts(9, 0);
    constexpr int kDraws = 20000;
    for (int i = 0; i < kDraws; ++i)
      ++counts[static_cast<size_t>(draw_token(logits, how, (i + 0.5) / kDraws))];
    for (size_t v = 0; v < 9; ++v)
      EXPECT_NEAR(static_cast<double>(counts[v]) / kDraws, want[static_cast<int64_t>(v)].item<double>(),
                  1.01 / kDraws)
          << v;
  }
}

TEST(TokenSampling, NucleusIsTheFewestCodesThatReachIt) {
  const at::Tensor logits = at::tensor({0.1, 0.5, 0.15, 0.25}, at::kDouble).log();
  const auto last = [&](double top_p) { return draw_token(logits, {.top_p = top_p}, 1 - 1e-12); };
  EXPECT_EQ(last(0.01), 1);
  EXPECT_EQ(last(0.49), 1);
  EXPECT_EQ(last(0.51), 3);
  EXPECT_EQ(last(0.76), 2);
  EXPECT_EQ(last(0.91), 0);
  EXPECT_EQ(last(1), 0);
  EXPECT_EQ(draw_token(at::zeros({4}), {.top_p = 0.5}, 1 - 1e-12), 1) << "two of four reach a half";
  for (const int64_t code : {0, 1, 2, 3})  // code c of four is drawn for u in [c / 4, (c + 1) / 4)
    EXPECT_EQ(draw_token(at::zeros({4}), {}, static_cast<double>(code) / 4), code);
  EXPECT_EQ(draw_token(at::zeros({4}), {.temperature = 0}, 0.9), 0) << "the lowest of equals";
  EXPECT_EQ(draw_token(logits, {.temperature = 1e-300}, 0.9), 1);
  EXPECT_THROW(draw_token(at::full({3}, NAN), {}, 0.5), Error);
}

}  // namespace
}  // namespace kinora::core
