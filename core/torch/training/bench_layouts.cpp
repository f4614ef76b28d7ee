#include "core/torch/training/bench_layouts.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "core/torch/context/network.hpp"
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

// A model behind a strategy's links, and one step of it.
class Stepping {
 public:
  Stepping(Runtime& runtime, const std::string& model, const json& options, Frames rule,
           const BenchStrategy& strategy)
      : component_(or_throw(runtime.registry().open("model/" + model))),
        network_(component_, or_throw(Options::make(*component_.spec, options)), ChainOptions{.frames = rule},
                 strategy.links()) {}
  // The loss is of frames [from, ...), which is what a rank learns from.
  void operator()(const Tensor& latent, int64_t from = 0) {
    kinora_pass pass{};
    pass.struct_size = sizeof pass;
    network_.chain().begin(pass);
    for (auto& leaf : network_.chain().leaves()) leaf.tensor.mutable_grad().reset();
    const Tensor out =
        network_.forward({{"latent", latent}, {"timestep", at::full({1}, 0.5)}, {"text", text_}}).at(0);
    out.narrow(2, from, out.size(2) - from).square().mean().backward();
  }

 private:
  Component component_;
  Network network_;
  Tensor text_ = at::ones({1, 16, 64});
};

}  // namespace

json bench_spatial_temporal(Runtime& runtime, const BenchRanks& ranks, const json& request) {
  const Tensor latent = at::ones({1, 4, 16, 24, 24});
  std::vector<std::unique_ptr<BenchStrategy>> strategies;
  std::vector<std::unique_ptr<Stepping>> models;
  std::vector<Measured> all;
  for (const char* layout : {"hybrid", "cp", "ulysses"}) {
    strategies.push_back(
        std::make_unique<BenchStrategy>(runtime, "stdit-hybrid", json{{"layout", layout}}, ranks));
    models.push_back(
        std::make_unique<Stepping>(runtime, "stdit", small_model(4), Frames{}, *strategies.back()));
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
  Stepping paired(runtime, "dit", small_model(4), rule, balanced),
      in_runs(runtime, "dit", small_model(4), rule, naive);
  std::vector<int64_t> read(2);
  const auto step = [&](Stepping& model, const Tensor& latent, int64_t& frames_read) {
    frames_read = encoded;
    model(at::cat({latent, latent + 0.1}, 2), kLatents);  // clean, then noisy
  };
  const int threads = request.at("threads");
  std::vector<Measured> all{
      {.name = "balanced", .threads = threads, .work = [&] { step(paired, own(), read[0]); }},
      {.name = "naive", .threads = threads, .work = [&] { step(in_runs, whole(), read[1]); }},
      {.name = "balanced_encoding", .threads = threads, .work = [&] { own(); }},
      {.name = "naive_encoding", .threads = threads, .work = [&] { whole(); }}};
  measure(ranks, all, request.at("repeat"));
  json out{{"ranks", ranks.size()}, {"frames", kFrames}, {"tokens", 2 * kLatents * 2 * 2}};
  for (size_t i = 0; i < 2; ++i)
    out[all[i].name] = {{"ms", median(all[i].seconds) * 1e3},
                        {"encoding_ms", median(all[i + 2].seconds) * 1e3},
                        {"bytes_sent", all[i].bytes},
                        {"frames_encoded", read[i]}};
  out["balanced_of_naive"] = ratio(all[0], all[1]);
  out["encoding_of_naive"] = ratio(all[2], all[3]);
  return out;
}

}  // namespace kinora::core
