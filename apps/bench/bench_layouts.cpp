// Compares layouts of a sequence over ranks with the ones that they should beat: time and bytes of a
// training step.
#include <algorithm>
#include <array>
#include <chrono>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "apps/bench/bench_ranks.hpp"
#include "apps/bench/tensors.hpp"
#include "core/torch/media/streaming.hpp"
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

// Encodes a long video on every rank, and measures this rank's cost.
class Encoder {
 public:
  enum How : size_t { stretch, whole };  // each rank its part with the halo before it, or all of it

  Encoder(Runtime& runtime, const BenchRanks& ranks, int64_t latents)
      : latents_(latents),
        ranks_(ranks),
        wan_(or_throw(runtime.registry().open("tokenizer/wan"))),
        tokenizer_(wan_,
                   or_throw(Options::make(*wan_.spec, {{"base_dim", 8}, {"z_dim", 4}, {"normalise", false}})),
                   ChainOptions{}) {}

  Tensor operator()(How how) {
    const at::NoGradGuard off;
    Cost& cost = of_[how];
    cost.frames = 0;
    const FramesOf frames = [&](int64_t first, int64_t count) {
      cost.frames += count;
      return video_.narrow(2, first, count);
    };
    const auto start = std::chrono::steady_clock::now();
    const Tensor latent = how == whole ? encode_video(tokenizer_, whole_frames(), frames) : together(frames);
    cost.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    return latent;
  }
  int64_t whole_frames() const { return 4 * (latents_ - 1) + 1; }
  // Number of frames that this rank's encoder read.
  int64_t frames(How how) const { return of_[how].frames; }
  // Median without the first time, which warms up.
  double ms(How how) const { return median({of_[how].seconds.begin() + 1, of_[how].seconds.end()}) * 1e3; }

 private:
  Tensor together(const FramesOf& frames) {
    const int64_t each = latents_ / ranks_.size();
    return Group<Tensor>(&ranks_.group())
        .gather(encode_part(tokenizer_, whole_frames(), ranks_.rank() * each, each, frames), 2);
  }

  struct Cost {
    int64_t frames = 0;
    std::vector<double> seconds;
  };
  const int64_t latents_;
  const BenchRanks& ranks_;
  Component wan_;
  Tokenizer tokenizer_;
  Tensor video_ = at::rand({1, 3, whole_frames(), 32, 32}) * 2 - 1;
  std::array<Cost, 2> of_;
};

}  // namespace

json bench_spatial_temporal(Runtime& runtime, const BenchRanks& ranks, const BenchOptions& request) {
  const Tensor latent = at::ones({1, 4, 16, 24, 24});
  std::vector<std::unique_ptr<BenchStrategy>> strategies;
  std::vector<std::unique_ptr<BenchStep>> models;
  std::vector<Measured> all;
  for (const char* layout : {"hybrid", "cp", "ulysses"}) {
    strategies.push_back(
        std::make_unique<BenchStrategy>(runtime, "stdit-hybrid", json{{"layout", layout}}, ranks));
    models.push_back(std::make_unique<BenchStep>(runtime, "stdit", small_model(4), Frames{},
                                                 *strategies.back(), at::ones({1, 16, 64})));
    all.push_back({.name = layout, .threads = request.threads, .work = [step = models.back().get(), latent] {
                     (*step)(latent);
                   }});
  }
  measure(ranks, all, request.repeat);
  json out{{"ranks", ranks.size()}, {"tokens", 16 * 12 * 12}};
  for (const auto& m : all) out[m.name] = {{"ms", median(m.seconds) * 1e3}, {"bytes_sent", m.bytes}};
  out["hybrid_of_cp"] = ratio(all[0], all[1]);
  out["hybrid_of_ulysses"] = ratio(all[0], all[2]);
  return out;
}

json bench_teacher_forcing(Runtime& runtime, const BenchRanks& ranks, const BenchOptions& request) {
  const int64_t latents = request.quick ? 16 : 192;
  Encoder encoder(runtime, ranks, latents);
  const Frames rule{.streams = 2};
  const BenchStrategy balanced(runtime, "balanced-sp", {}, ranks),
      naive(runtime, "balanced-sp", {{"layout", "naive"}}, ranks);
  const Tensor text = at::ones({1, 16, 64}), given = at::ones({1, 4, latents, 4, 4});
  BenchStep paired(runtime, "dit", small_model(4), rule, balanced, text),
      in_runs(runtime, "dit", small_model(4), rule, naive, text);
  const auto train = [latents](BenchStep& model, const Tensor& latent) {
    model(at::cat({latent, latent + 0.1}, 2), latents);  // clean, then noisy
  };
  const int threads = request.threads;
  std::vector<Measured> all{
      {.name = "balanced", .threads = threads, .work = [&] { train(paired, encoder(Encoder::stretch)); }},
      {.name = "naive", .threads = threads, .work = [&] { train(in_runs, encoder(Encoder::whole)); }},
      {.name = "balanced_training",
       .threads = threads,
       .work = [&] { train(paired, given); },
       .metered = true},
      {.name = "naive_training",
       .threads = threads,
       .work = [&] { train(in_runs, given); },
       .metered = true}};
  measure(ranks, all, request.repeat);
  json out{{"ranks", ranks.size()}, {"frames", encoder.whole_frames()}, {"tokens", 2 * latents * 2 * 2}};
  for (const auto how : {Encoder::stretch, Encoder::whole})
    out[all[how].name] = {{"ms", median(all[how].seconds) * 1e3},
                          {"encoding_ms", encoder.ms(how)},
                          {"training_ms", median(all[how + 2].seconds) * 1e3},
                          {"bytes_sent", all[how].bytes},
                          {"training_most_bytes", ranks.of_all(static_cast<double>(all[how + 2].most))},
                          {"frames_encoded", ranks.of_all(static_cast<double>(encoder.frames(how)))}};
  out["balanced_of_naive"] = ratio(all[0], all[1]);
  out["training_of_naive"] = ratio(all[2], all[3]);
  return out;
}

}  // namespace kinora::core
