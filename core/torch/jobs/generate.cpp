// kind = "generate"
#include <chrono>
#include <fstream>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "core/io/atomic_file.hpp"
#include "core/jobs/training.hpp"
#include "core/log.hpp"
#include "core/run/cancel.hpp"
#include "core/torch/clips.hpp"
#include "core/torch/instances.hpp"
#include "core/torch/jobs/jobs.hpp"
#include "core/torch/latents.hpp"
#include "core/torch/mix.hpp"
#include "core/torch/network.hpp"
#include "core/torch/noise.hpp"
#include "core/torch/parallelism.hpp"
#include "core/torch/text_encoder.hpp"

namespace kinora::core {
namespace {

class Generator {
 public:
  Generator(JobContext& context, const GenerateOptions& o)
      : context_(context),
        options_(o),
        train_(context.need_upstream("train")),
        encode_(context.need_upstream("encode")),
        tokenizer_job_(context.need_upstream("train-tokenizer")),
        facts_(LatentData(context.folder_of(encode_)).facts()),
        precision_(context),
        loss_(context.open(*train_.component("loss")), train_.component("loss")->options),
        sampler_(context.open_slot("sampler"), context.spec().component("sampler")->options),
        model_(context.open(*train_.component("model")), train_.component("model")->options,
               {.dtype = precision_.parameter_dtype()}, precision_.links()),
        tokenizer_(context.open(*tokenizer_job_.component("tokenizer")),
                   tokenizer_job_.component("tokenizer")->options, {}),
        text_(context, encode_) {
    model_.load(context.folder_of(train_) / "weights.safetensors");
    tokenizer_.load(context.folder_of(tokenizer_job_) / "weights.safetensors");
    std::filesystem::create_directories(context.folder() / "videos");
  }

  // Whether video n is complete from before an interruption; its line of the metrics is then written again.
  bool keep(int64_t n) {
    const auto base = base_of(n);
    std::ifstream in(base.string() + ".json");
    const auto about = json::parse(in, nullptr, false);  // written last
    if (!about.is_object() || !std::filesystem::exists(base.string() + ".mp4") ||
        !std::filesystem::exists(base.string() + ".png"))
      return false;
    context_.metrics().line(about);
    return true;
  }

  // Video number n of the job.
  void make(int64_t n, const std::string& prompt, Progress& progress) {
    const auto start = std::chrono::steady_clock::now();
    const at::Tensor text = text_(prompt).unsqueeze(0);
    const at::Tensor none =
        options_.negative.empty() ? at::zeros_like(text) : text_(options_.negative).unsqueeze(0);
    FunctionDenoiser denoiser([&](const at::Tensor& x, const at::Tensor& sigma) {
      const Mixed in = remixed({x, sigma}, sampler_.mix(), loss_.mix());
      return guided(in.x, in.sigma, text, none);
    });
    const auto shape = latent_shape();
    const at::Tensor like = at::empty({1, shape[0], shape[1], shape[2], shape[3]}, at::kDouble);
    const uint64_t seed = static_cast<uint64_t>(context_.run().seed);
    const at::Tensor noise = sample_noise(like, seed, n, "generate.noise");
    const at::Tensor latent = sampler_.sample(denoiser.abi(), noise, context_.call(&progress, n));
    const at::Tensor video = tokenizer_.decode(facts_.scale.denormalise(latent.to(at::kFloat)));
    json about{{"prompt", prompt},
               {"negative", options_.negative},
               {"seed", seed},
               {"number", n},
               {"guidance", options_.guidance},
               {"sampler", context_.spec().component("sampler")->id},
               {"sampler_options", context_.spec().component("sampler")->options.values()},
               {"steps", sampler_.levels().size() - 1},
               {"nfe", denoiser.calls()},
               {"fps", fps()},
               {"frames", video.size(2)},
               {"height", video.size(3)},
               {"width", video.size(4)}};
    store(n, frames_of(video), about, start);
  }

 private:
  // D(x; sigma) with classifier-free guidance: none + g (text - none). One call of the model when g is 0
  // or 1.
  at::Tensor guided(const at::Tensor& x, const at::Tensor& sigma, const at::Tensor& text,
                    const at::Tensor& none) {
    const double g = options_.guidance;
    if (g == 0) return estimate(x, sigma, none, 0);
    const at::Tensor with = estimate(x, sigma, text, 0);
    if (g == 1) return with;
    const at::Tensor without = estimate(x, sigma, none, 1);
    return without + g * (with - without);
  }

  at::Tensor estimate(const at::Tensor& x, const at::Tensor& sigma, const at::Tensor& text, uint32_t branch) {
    const at::Tensor x32 = x.to(precision_.dtype());
    const auto in = loss_.input(x32, sigma);
    const at::Tensor mask = at::ones({text.size(0), text.size(1)}, at::kBool);
    kinora_pass pass{};
    pass.struct_size = sizeof pass;
    pass.no_grad = 1;
    pass.branch = branch;
    pass.seed = static_cast<uint64_t>(context_.run().seed);
    model_.chain().begin(pass);
    const at::Tensor output = model_
                                  .forward({{"latent", in.latent.to(precision_.dtype())},
                                            {"timestep", in.timestep},
                                            {"text", text},
                                            {"text_mask", mask}})
                                  .at(0);
    return loss_.estimate(x32, sigma, output).to(at::kDouble);
  }

  // [C, T, H, W]: as in training, or from the size that is asked for.
  std::vector<int64_t> latent_shape() {
    auto shape = facts_.shape;
    const auto info = tokenizer_.info();
    const auto scaled = [&](int64_t asked, int64_t factor, const char* name) {
      if (asked % factor)
        throw Error(KINORA_INVALID, std::string(name) + " = " + std::to_string(asked) +
                                        " must be a multiple of " + std::to_string(factor));
      return asked / factor;
    };
    if (options_.frames > 0) shape[1] = 1 + scaled(options_.frames - 1, info.time, "frames - 1");
    if (options_.height > 0) shape[2] = scaled(options_.height, info.height, "height");
    if (options_.width > 0) shape[3] = scaled(options_.width, info.width, "width");
    return shape;
  }

  std::filesystem::path base_of(int64_t n) const {
    return context_.folder() / "videos" / fmt::format("{:03}", n);
  }

  double fps() const { return options_.fps > 0 ? options_.fps : facts_.fps; }

  void store(int64_t n, const at::Tensor& frames, json about, std::chrono::steady_clock::time_point start) {
    const auto base = base_of(n);
    Sample sample("video");
    set_frames(sample, frames);
    sample.set("comment", about.dump());
    const OneStage write(context_.runtime(), "video.write",
                         json{{"format", "mp4"}, {"fps", fps()}, {"crf", options_.crf}});
    const Sample made = write(sample);
    const auto bytes = *made.bytes("mp4");
    about["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    or_throw(write_file_atomically(base.string() + ".mp4",
                                   {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    write_strip(context_, frames, 6, base.string() + ".png");
    or_throw(write_file_atomically(base.string() + ".json", about.dump(2) + "\n"));
    context_.metrics().line(about);
  }

  JobContext& context_;
  GenerateOptions options_;
  const JobSpec& train_;
  const JobSpec& encode_;
  const JobSpec& tokenizer_job_;
  LatentFacts facts_;
  Parallelism precision_;
  LossInstance loss_;
  SamplerInstance sampler_;
  Network model_, tokenizer_;
  TextEncoder text_;
};

}  // namespace

void run_generate(JobContext& context) {
  const auto options = context.options<GenerateOptions>();
  if (options.prompts.empty())
    throw Error(KINORA_INVALID, "job '" + context.spec().name + "': prompts is empty; give one text a video");
  use_threads(options.threads);
  const at::NoGradGuard off;
  Generator generator(context, options);
  context.metrics().clear();
  int64_t n = 0, kept = 0;
  for (const auto& prompt : options.prompts)
    for (int64_t i = 0; i < options.count; ++i, ++n) {
      if (generator.keep(n)) {
        ++kept;
        continue;
      }
      Progress progress(context.spec().name, 0, "steps");
      generator.make(n, prompt, progress);
    }
  if (kept > 0) log_info("{}: {} of {} videos were complete", context.spec().name, kept, n);
  context.summary.update({{"videos", n}});
}

}  // namespace kinora::core
