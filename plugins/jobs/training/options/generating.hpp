// Options of the job that makes videos; here, as training.hpp's, so that a run file is checked without
// libtorch.
#pragma once
#include "plugins/jobs/training/options/frame_options.hpp"
#include "plugins/jobs/training/options/paths_option.hpp"
#include "core/run/job.hpp"

namespace kinora::core {

struct GenerateOptions : FrameOptions {
  std::vector<std::string> prompts, signals, format{"mp4"};
  std::string pipeline, noise, prompts_file, negative, image, last_image, video,
      guidance_convention = "diffusers", condition_timestep = "own", device = "auto";
  WeightsPaths weights, weights_2, tokenizer_weights, text_weights, image_encoder_weights;
  std::vector<double> guidance_interval;
  int64_t count = 1, first = 0, seed = -1, frames = 0, height = 0, width = 0, condition_frames = 1,
          preview_every = 0, crf = 16, max_tokens = 32, threads = 0, top_k = 0, resident_experts = 2,
          steps = 0;
  double temperature = 1, top_p = 1, guidance = 1, condition_sigma = 1e-4, strength = 1, fps = 0,
         sigma_data = 1, guidance_2 = -1, boundary = 0;
  bool batch_guidance = false, pad_text = false, encode_negative = false, cuda_graphs = true;

  static void describe(Describe<GenerateOptions>& d) {
    d.name("generate")
        .help("Makes videos from prompts, pictures and videos with a trained or a published model");
    describe_pipeline(d);
    d.option("prompts", &O::prompts).help("one video each");
    d.option("prompts_file", &O::prompts_file)
        .path()
        .help("a prompt a line; .jsonl: objects with prompt, negative, seed, image, video, signals");
    d.option("count", &O::count).range(1, 1e6).help("videos a prompt");
    d.option("first", &O::first)
        .at_least(0)
        .help("number of the first video: noise is drawn by (seed, number)");
    d.option("seed", &O::seed).at_least(-1).help("-1: the run's");
    d.option("frames", &O::frames).at_least(0).help("0: as in training");
    d.option("height", &O::height).at_least(0).unit("pixels").help("0: as in training");
    d.option("width", &O::width).at_least(0).unit("pixels").help("0: as in training");
    d.option("fps", &O::fps).at_least(0).help("of the videos; 0: as in training");
    describe_guidance(d);
    describe_given(d);
    describe_rule(d);
    describe_codes(d);
    describe_results(d);
    describe_networks(d);
  }

 private:
  using O = GenerateOptions;
  static void describe_pipeline(Describe<O>& d) {
    d.option("pipeline", &O::pipeline)
        .path()
        .help(
            "folder of a published pipeline (model_index.json): all networks, the sampler and the defaults "
            "of "
            "this job; options of the job win over its own, weights are loaded over its own");
    d.option("steps", &O::steps)
        .at_least(0)
        .help("steps of the sampler in a job with `pipeline`; 0: the pipeline's. Other jobs set steps in `sampler`");
    d.option("noise", &O::noise)
        .path()
        .help(
            "safetensors file to begin with instead of drawn noise: a tensor a video by its number, 000, "
            "001, ..., each [C, T, H, W] of the latent, of deviation 1");
  }
  static void describe_guidance(Describe<O>& d) {
    d.option("guidance", &O::guidance)
        .at_least(0)
        .help(
            "classifier-free: none + guidance * (prompt - none); 1: the prompt alone, one call of the model "
            "a step");
    d.option("guidance_convention", &O::guidance_convention)
        .choices({"diffusers", "nemo"})
        .help("nemo: prompt + guidance * (prompt - none), so 0 is the prompt alone");
    d.option("guidance_interval", &O::guidance_interval)
        .help(
            "two noise levels sigma (of x0 + sigma n): guidance holds above the first, up to the second; "
            "empty: always");
    d.option("batch_guidance", &O::batch_guidance)
        .help("both predictions in one call: faster, twice the memory");
    d.option("negative", &O::negative).help("what guidance leads away from; empty: no text");
    d.option("encode_negative", &O::encode_negative)
        .help("an empty `negative` is encoded as a text is, as published pipelines do; else it is zeros");
  }
  static void describe_given(Describe<O>& d) {
    d.option("signals", &O::signals)
        .help(
            "named conditions of the model, NAME=NUMBER or NAME=NUMBER,NUMBER,...: [\"fps=12\", "
            "\"camera=0.1,0,-2\"]");
    d.option("image", &O::image).path().help("a picture that is the first frame");
    d.option("last_image", &O::last_image)
        .path()
        .help("a picture that is the last frame, in addition to `image`, for models that read both (Wan's FLF2V)");
    d.option("video", &O::video)
        .path()
        .help("a video to continue (condition_frames), or to change (strength)");
    d.option("condition_frames", &O::condition_frames)
        .at_least(0)
        .help("frames of `video` that the result begins with, 1 + n * the tokenizer's time factor; 0: none");
    d.option("condition_sigma", &O::condition_sigma)
        .at_least(0)
        .help("noise level at which given frames are shown; 0: clean, where the loss has such a level");
    d.option("condition_timestep", &O::condition_timestep)
        .choices({"own", "shared"})
        .help(
            "timestep of given frames that the model reads. own: that of their own noise level (Cosmos Predict 2, "
            "Wan 2.2); shared: that of the other frames, and condition_mask alone marks them (Cosmos Predict 1)");
    d.option("strength", &O::strength)
        .above(0)
        .range(0, 1)
        .help("share of the sampler's steps that change `video`; 1: all, only condition_frames are kept");
  }
  // Of a model of the job's own; else the train job's hold.
  static void describe_rule(Describe<O>& d) {
    describe_frames(d);
    d.option("teacher_forcing", &O::teacher_forcing)
        .help(
            "a model of its own was trained so: the video is made chunk after chunk, each from those that "
            "are done; of a train job's model this and the four above are as in training");
  }
  static void describe_codes(Describe<O>& d) {
    d.option("temperature", &O::temperature)
        .range(0, 100)
        .help("of a model that predicts codes: its logits are divided by it; 0: always the likeliest code");
    d.option("top_k", &O::top_k)
        .range(0, 16777216)
        .help("codes are drawn from so many of the likeliest ones; 0: from all");
    d.option("top_p", &O::top_p)
        .above(0)
        .range(0, 1)
        .help("and of these from the fewest whose probabilities reach it");
  }
  static void describe_results(Describe<O>& d) {
    d.option("preview_every", &O::preview_every)
        .at_least(0)
        .unit("steps")
        .help("a picture of the first frame as it forms, in previews/; 0: none");
    d.option("format", &O::format)
        .help("mp4, webp, png (one a frame), latents (safetensors); several are possible");
    d.option("crf", &O::crf).range(0, 51).help("H.264 quality, lower is better");
  }
  static void describe_experts(Describe<O>& d) {
    d.option("weights_2", &O::weights_2)
        .help(
            "of the model's second expert, for low noise; empty: transformer_2 of a pipeline's folder in "
            "`weights`, if it has one");
    d.option("boundary", &O::boundary)
        .range(0, 1)
        .help(
            "share of the timesteps below which the second expert denoises; 0: boundary_ratio of the "
            "pipeline's model_index.json");
    d.option("guidance_2", &O::guidance_2)
        .at_least(-1)
        .help("of the second expert, in place of guidance; -1: the same");
    d.option("resident_experts", &O::resident_experts)
        .range(1, 2)
        .help("1: only the one that denoises is in memory, and every video loads both");
  }
  static void describe_networks(Describe<O>& d) {
    d.option("weights", &O::weights)
        .help(
            "of a model of its own: safetensors file or folder, or a list whose later ones go over the "
            "earlier ones");
    describe_experts(d);
    d.option("tokenizer_weights", &O::tokenizer_weights).help("of a tokenizer of its own");
    d.option("text_weights", &O::text_weights).help("of a text encoder of its own");
    d.option("image_encoder_weights", &O::image_encoder_weights)
        .help("of an image encoder of its own: the model is given its embeddings of `image`");
    d.option("max_tokens", &O::max_tokens).range(2, 4096).help("of a prompt for a text encoder of its own");
    d.option("pad_text", &O::pad_text)
        .help("a prompt is filled up to max_tokens with zeros, for a text encoder of its own");
    d.option("sigma_data", &O::sigma_data)
        .above(0)
        .help("deviation of latents that a model of its own was trained on");
    d.option("device", &O::device).how_only()
        .help("of all networks; auto: the first GPU, else the CPU; cpu, cuda, cuda:1");
    d.option("cuda_graphs", &O::cuda_graphs).how_only()
        .help(
            "on a GPU, calls of a model that denoises are recorded once and replayed; needs the build for "
            "CUDA");
    d.option("threads", &O::threads).how_only().range(0, 4096).help("of tensor operations; 0: one a core");
  }
};

}  // namespace kinora::core
