// Small models that make videos chunk by chunk, with a cache and without, or at once, in float64 by default.
#pragma once
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>

#include "plugins/jobs/inference/plain_pipeline_testing.hpp"
#include "plugins/jobs/training/video_jobs_testing.hpp"

namespace kinora::core::inference {

inline const char* const kDit = "";
inline const char* const kDeepDit =
    "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, layers = 2, heads = 2, "
    "head_size = "
    "12, adaln_lora = 4 }";
inline const char* const kStdit =
    "model = { use = 'stdit', in_channels = 2, out_channels = 2, text_size = 12, layers = 2, heads = 2, "
    "head_size = 12, adaln_lora = 4 }";
inline const char* const kWan =
    "model = { use = 'wan', in_channels = 2, out_channels = 2, text_dim = 12, num_layers = 2, "
    "num_attention_heads = "
    "2, attention_head_dim = 12, ffn_dim = 16, freq_dim = 8 }\nloss = 'flow'";

// It decodes in a stream, one latent frame at a time; ScratchRun's own tokenizer needs the whole latent.
inline const char* const kStreaming =
    "tokenizer = { use = 'wan', base_dim = 4, z_dim = 2, dim_mult = [1, 1, 1, 1], num_res_blocks = 1, "
    "normalise = false }";

// The same with two levels, in which a latent frame is two frames.
inline const char* const kShallow =
    "tokenizer = { use = 'wan', base_dim = 4, z_dim = 2, dim_mult = [1, 1], temperal_downsample = [1], "
    "num_res_blocks = 1, normalise = false }";

struct Small {
  explicit Small(const std::string& model, int64_t steps = 3, const std::string& tokenizer = "",
                 const std::string& precision = "fp64")
      : run(prepared(
            {{"tokenizer", tokenizer}, {"dit", model}, {"film", "precision = '" + precision + "'"}})),
        sampler(component("sampler", model == kWan ? "flow-euler" : "euler", {{"steps", steps}})) {}
  Part component(const std::string& kind, const std::string& name, const json& options) const {
    ComponentUse use = *run->spec("film").component(kind);
    use.id = kind + "/" + name;
    use.options = or_throw(Options::make(*or_throw(test::runtime().registry().find(kind, use.id)), options));
    return {shared_use(use), {}};
  }
  // null: without a cache.
  PipelineSpec spec(const FrameOptions& rule, int64_t frames, const json& cache = json::object()) const {
    LatentFacts facts = PlainPipeline::latents_of_15_frames();
    facts.shape[1] = frames;
    PipelineSpec spec = PlainPipeline::spec(*run, facts);
    spec.rule = rule;
    spec.parts["sampler"] = sampler;
    spec.shots = shots;
    spec.fps = 8;
    if (!cache.is_null()) spec.parts["cache"] = component("cache", "kv", cache);
    return spec;
  }
  // The video's latent, [1, C, T, H, W].
  at::Tensor made(const FrameOptions& rule, const Request& request, int64_t frames,
                  const json& cache = json::object()) {
    Parallelism parallel(test::runtime(), PlainPipeline::plan(*run));
    Pipeline pipeline(test::runtime(), spec(rule, frames, cache), parallel);
    Session session(pipeline, request);
    if (makes_rest) session.make_rest([&](const at::Tensor&) { after_chunk(); });
    while (session.next_chunk()) {
      if (then_says) session.set_prompt(std::exchange(then_says, nullptr));
      if (after_chunk) after_chunk();
    }
    calls = session.made().model_calls;
    kept = session.made().cache_tokens;
    bytes = session.made().cache_bytes;
    text_bytes = session.made().text_bytes;
    return session.made().latent;
  }

  std::unique_ptr<test::ScratchRun> run;
  Part sampler;
  ShotRule shots;
  const char* then_says = nullptr;  // the prompt of all chunks but the first
  bool makes_rest = false;          // by make_rest(), where its thread calls after_chunk()
  std::function<void()> after_chunk;
  int64_t calls = 0, kept = 0, bytes = 0, text_bytes = 0;
};

inline FrameOptions in_chunks(int64_t chunk, int64_t window = 0, int64_t sink = 0) {
  FrameOptions out;
  out.teacher_forcing = true;
  out.chunk = chunk, out.window = window, out.sink = sink;
  return out;
}

// Options of a cache that has room for all that the rule lets a chunk of a video of `frames` latent frames see, and
// for `more` frames.
inline json with_room(const FrameOptions& rule, int64_t frames, int64_t more) {
  const int64_t seen = rule.window > 0 ? rule.sink_frames() + rule.window_frames() : frames;
  return json::object({{"capacity", seen + more}});
}

// Number of drawn settings: the slow test rollout_rounds draws more of them.
inline int64_t rounds(int64_t few) {
  const char* times = std::getenv("KINORA_TEST_ROUNDS");
  return times ? few * std::stoll(times) : few;
}

// The largest difference, relative to the largest number.
inline double apart(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

}  // namespace kinora::core::inference
