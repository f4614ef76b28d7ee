#include "core/torch/training/bench_layouts.hpp"

#include <algorithm>
#include <array>
#include <chrono>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/torch/media/streaming.hpp"
#include "core/torch/training/bench_step.hpp"
#include "kinora/aten.hpp"
#include "kinora/strategy.hpp"

namespace kinora::core {
namespace {

using at::Tensor;

json small_model(int64_t channels) {
  return {
      {"in_channels", channels}, {"out_channels", channels}, {"text_size", 64}, {"layers", 4}, {"heads", 4},
      {"head_size", 32},         {"adaln_lora", 16}};
}

}  // namespace

json bench_spatial_temporal(Runtime& runtime, const BenchRanks& ranks, const json& request) {
  const Tensor latent = at::ones({1, 4, 16, 24, 24});
  std::vector<std::unique_ptr<BenchStrategy>> strategies;
  std::vector<std::unique_ptr<BenchStep>> models;
  std::vector<Measured> all;
  for (const char* layout : {"hybrid", "cp", "ulysses"}) {
    strategies.push_back(
        std::make_unique<BenchStrategy>(runtime, "stdit-hybrid", json{{"layout", layout}}, ranks));
    models.push_back(std::make_unique<BenchStep>(runtime, "stdit", small_model(4), Frames{},
                                                 *strategies.back(), at::ones({1, 16, 64})));
    all.push_back({.name = layout,
                   .threads = request.at("threads"),
                   .work = [step = models.back().get(), latent] { (*step)(latent); }});
  }
  measure(ranks, all, request.at("repeat"));
  json out{{"ranks", ranks.size()}, {"tokens", 16 * 12 * 12}};
  for (const auto& m : all) out[m.name] = {{"ms", median(m.seconds) * 1e3}, {"bytes_sent", m.bytes}};
  out["hybrid_of_cp"] = ratio(all[0], all[1]);
  out["hybrid_of_ulysses"] = ratio(all[0], all[2]);
  return out;
}

json bench_teacher_forcing(Runtime& runtime, const BenchRanks& ranks, const json& request) {
  constexpr int64_t kLatents = 192, kFrames = 4 * (kLatents - 1) + 1;
  const Component wan = or_throw(runtime.registry().open("tokenizer/wan"));
  Network tokenizer(wan,
                    or_throw(Options::make(*wan.spec, {{"base_dim", 8}, {"z_dim", 4}, {"normalise", false}})),
                    ChainOptions{});
  const Tensor video = at::rand({1, 3, kFrames, 32, 32}) * 2 - 1;
  int64_t encoded = 0;  // frames that this rank's encoder read
  const FramesOf frames = [&](int64_t first, int64_t count) {
    encoded += count;
    return video.narrow(2, first, count);
  };
  const int64_t each = kLatents / ranks.size();
  const auto own = [&] {
    encoded = 0;
    const at::NoGradGuard off;
    return Group<Tensor>(&ranks.group())
        .gather(encode_part(tokenizer, kFrames, ranks.rank() * each, each, frames), 2);
  };
  const auto whole = [&] {
    encoded = 0;
    const at::NoGradGuard off;
    return encode_video(tokenizer, kFrames, frames);
  };
  const Frames rule{.streams = 2};
  const BenchStrategy balanced(runtime, "balanced-sp", {}, ranks),
      naive(runtime, "balanced-sp", {{"layout", "naive"}}, ranks);
  const Tensor text = at::ones({1, 16, 64});
  BenchStep paired(runtime, "dit", small_model(4), rule, balanced, text),
      in_runs(runtime, "dit", small_model(4), rule, naive, text);
  struct Encoding {
    int64_t frames = 0;  // that this rank's encoder read
    std::vector<double> seconds;
  };
  std::array<Encoding, 2> of;
  const auto encode = [&](const auto& how, Encoding& of_it) {
    const auto start = std::chrono::steady_clock::now();
    const Tensor latent = how();
    of_it.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    of_it.frames = encoded;
    return latent;
  };
  const auto train = [&](BenchStep& model, const Tensor& latent) {
    model(at::cat({latent, latent + 0.1}, 2), kLatents);  // clean, then noisy
  };
  const Tensor given = at::ones({1, 4, kLatents, 4, 4});
  const int threads = request.at("threads");
  std::vector<Measured> all{
      {.name = "balanced", .threads = threads, .work = [&] { train(paired, encode(own, of[0])); }},
      {.name = "naive", .threads = threads, .work = [&] { train(in_runs, encode(whole, of[1])); }},
      {.name = "balanced_training",
       .threads = threads,
       .work = [&] { train(paired, given); },
       .metered = true},
      {.name = "naive_training",
       .threads = threads,
       .work = [&] { train(in_runs, given); },
       .metered = true}};
  measure(ranks, all, request.at("repeat"));
  json out{{"ranks", ranks.size()}, {"frames", kFrames}, {"tokens", 2 * kLatents * 2 * 2}};
  for (size_t i = 0; i < 2; ++i)
    out[all[i].name] = {{"ms", median(all[i].seconds) * 1e3},
                        {"encoding_ms", median({of[i].seconds.begin() + 1, of[i].seconds.end()}) * 1e3},
                        {"training_ms", median(all[i + 2].seconds) * 1e3},
                        {"bytes_sent", all[i].bytes},
                        {"training_most_bytes", ranks.of_all(static_cast<double>(all[i + 2].most))},
                        {"frames_encoded", ranks.of_all(static_cast<double>(of[i].frames))}};
  out["balanced_of_naive"] = ratio(all[0], all[1]);
  out["training_of_naive"] = ratio(all[2], all[3]);
  return out;
}

}  // namespace kinora::core
