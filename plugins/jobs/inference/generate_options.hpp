// Options of generate jobs. They are here, like those of training.hpp, so that a run file can be checked
// without libtorch.
#pragma once
#include "core/run/job.hpp"
#include "plugins/jobs/inference/frame_options.hpp"
#include "plugins/jobs/inference/paths_option.hpp"

namespace kinora::core {

struct GenerateOptions : FrameOptions, ShotOptions {
  std::vector<std::string> prompts, shots, loras, signals, format{"mp4"};
  std::string pipeline, noise, prompts_file, negative, image, last_image, video,
      guidance_convention = "diffusers", condition_timestep = "own", condition_from = "end", stream, lora,
      device = "auto";
  WeightsPaths weights, weights_2, tokenizer_weights, text_weights, image_encoder_weights;
  std::vector<double> guidance_interval;
  int64_t count = 1, first = 0, seed = -1, frames = 0, height = 0, width = 0, condition_frames = 1,
          shot_frames = 0, preview_every = 0, crf = 16, max_tokens = 32, threads = 0, top_k = 0,
          resident_experts = 2, steps = 0;
  double temperature = 1, top_p = 1, guidance = 1, condition_sigma = 1e-4, strength = 1, fps = 0,
         sigma_data = 1, guidance_2 = -1, boundary = 0;
  bool batch_guidance = false, pad_text = false, encode_negative = false, cuda_graphs = true;

  static void describe(Describe<GenerateOptions>& d) {
    d.name("generate")
        .help("Makes videos from prompts, pictures and videos with a trained or a published model");
    describe_pipeline(d);
    d.option("prompts", &O::prompts).help("prompts, one video each");
    d.option("prompts_file", &O::prompts_file)
        .path()
        .help(
            "file with one prompt per line; .jsonl: objects with prompt, negative, seed, image, video, "
            "signals, shots");
    d.option("count", &O::count).range(1, 1e6).help("number of videos per prompt");
    d.option("first", &O::first)
        .at_least(0)
        .help("number of the first video; noise is drawn from (seed, number)");
    d.option("seed", &O::seed).at_least(-1).help("seed of the noise; -1: the run's seed");
    d.option("frames", &O::frames)
        .at_least(0)
        .help("number of frames; 0: as in training; with `pipeline` the default is that of its family");
    d.option("height", &O::height)
        .at_least(0)
        .unit("pixels")
        .help("height of the videos; 0 and the default: see frames");
    d.option("width", &O::width)
        .at_least(0)
        .unit("pixels")
        .help("width of the videos; 0 and the default: see frames");
    d.option("fps", &O::fps).at_least(0).help("frame rate of the videos; 0 and the default: see frames");
    describe_guidance(d);
    describe_given(d);
    describe_rule(d);
    describe_shots(d);
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
            "folder of a published pipeline (model_index.json): supplies all networks, the sampler and the "
            "defaults of this job; the job's own options and weights override them");
    d.option("steps", &O::steps)
        .at_least(0)
        .help(
            "sampler steps in a job with `pipeline`; 0: the pipeline's default. Other jobs set steps in "
            "`sampler`");
    d.option("noise", &O::noise)
        .path()
        .help(
            "safetensors file with the initial noise: one tensor per video, named by its number 000, 001, "
            "..., each [C, T, H, W] like the latent, with deviation 1; empty: noise is drawn");
  }
  static void describe_guidance(Describe<O>& d) {
    d.option("guidance", &O::guidance)
        .at_least(0)
        .help(
            "weight of classifier-free guidance: none + guidance * (prompt - none); 1: the prompt alone, one "
            "model call per step");
    d.option("guidance_convention", &O::guidance_convention)
        .choices({"diffusers", "nemo"})
        .help("formula of guidance; nemo: prompt + guidance * (prompt - none), so 0 is the prompt alone");
    d.option("guidance_interval", &O::guidance_interval)
        .help(
            "two noise levels sigma (of x0 + sigma n): guidance applies above the first, up to the second; "
            "empty: always");
    d.option("batch_guidance", &O::batch_guidance)
        .help("compute both predictions in one call: faster, twice the memory");
    d.option("negative", &O::negative).help("prompt that guidance leads away from; empty: no text");
    d.option("encode_negative", &O::encode_negative)
        .help(
            "encode an empty `negative` like any text, as published pipelines do; otherwise it is what the "
            "encode job's encode_empty says, or zeros");
  }
  static void describe_given(Describe<O>& d) {
    d.option("signals", &O::signals)
        .help(
            "named conditions of the model, NAME=NUMBER or NAME=NUMBER,NUMBER,...: [\"fps=12\", "
            "\"camera=0.1,0,-2\"]");
    d.option("image", &O::image).path().help("picture to use as the first frame");
    d.option("last_image", &O::last_image)
        .path()
        .help(
            "picture to use as the last frame, in addition to `image`, for models that read both (Wan's "
            "FLF2V)");
    d.option("video", &O::video).path().help("video to continue (condition_frames) or to change (strength)");
    d.option("condition_frames", &O::condition_frames)
        .at_least(-1)
        .help(
            "number of frames of `video` that the result starts with, 1 + n * the tokenizer's time factor; "
            "0: none; "
            "-1, as Cosmos' folders give it: all of a video that is shorter than the result, two latent "
            "frames (9 or 5 frames) of a longer one");
    d.option("condition_from", &O::condition_from)
        .choices({"end", "start"})
        .help("end of `video` from which condition_frames are taken: its last frames, or its first ones");
    d.option("condition_sigma", &O::condition_sigma)
        .at_least(0)
        .help("noise level of given frames; 0: clean, if the loss has such a level");
    d.option("condition_timestep", &O::condition_timestep)
        .choices({"own", "shared"})
        .help(
            "timestep that the model reads for given frames. own: that of their own noise level (Cosmos "
            "Predict 2, "
            "Wan 2.2); shared: that of the other frames, and only condition_mask marks them (Cosmos Predict "
            "1)");
    d.option("strength", &O::strength)
        .above(0)
        .range(0, 1)
        .help(
            "share of the sampler's steps that change `video`; 1: all steps, only condition_frames are kept");
  }
  // Applies to a model of the job's own; for a train job's model, that job's options apply.
  static void describe_rule(Describe<O>& d) {
    describe_frames(d);
    d.option("teacher_forcing", &O::teacher_forcing)
        .help(
            "the job's own model was trained with teacher forcing: the video is made chunk by chunk, each "
            "from the finished ones; for a train job's model this and the five options above are as in "
            "training");
  }
  static void describe_shots(Describe<O>& d) {
    d.option("shots", &O::shots)
        .unit("JSON")
        .help(
            "shots of one video that is made chunk by chunk, { prompt, seconds or chunks, cut, switch }, "
            "instead of prompts");
    d.option("shot_frames", &O::shot_frames)
        .at_least(0)
        .help("frames after which a video of shots ends; 0: all");
    describe_shot_rule(d);
  }
  static void describe_codes(Describe<O>& d) {
    d.option("temperature", &O::temperature)
        .range(0, 100)
        .help("divisor of the logits of a model that predicts codes; 0: always the likeliest code");
    d.option("top_k", &O::top_k).range(0, 16777216).help("number of likeliest codes to draw from; 0: all");
    d.option("top_p", &O::top_p)
        .above(0)
        .range(0, 1)
        .help("draw from the fewest of these codes whose probabilities sum to top_p");
  }
  static void describe_results(Describe<O>& d) {
    d.option("preview_every", &O::preview_every)
        .at_least(0)
        .unit("steps")
        .help("interval between pictures of the forming first frame in previews/; 0: none");
    d.option("format", &O::format)
        .help("output formats, one or more of mp4, webp, png (one file per frame), latents (safetensors)");
    d.option("stream", &O::stream)
        .how_only()
        .help(
            "MP4 that plays while the video is made, a fragment a chunk; \"-\": standard output. At the end "
            "a file gets its index in front and its settings; for one video");
    d.option("crf", &O::crf).range(0, 51).help("H.264 quality, lower is better");
  }
  static void describe_experts(Describe<O>& d) {
    d.option("weights_2", &O::weights_2)
        .help(
            "weights of the model's second expert, for low noise; empty: those of the train job with expert "
            "= \"low\", or transformer_2 of `pipeline`, if present");
    d.option("boundary", &O::boundary)
        .range(0, 1)
        .help(
            "share of the timesteps below which the second expert denoises; 0: boundary_ratio of the "
            "pipeline's model_index.json");
    d.option("guidance_2", &O::guidance_2)
        .at_least(-1)
        .help("guidance of the second expert; -1: the same as guidance");
    d.option("resident_experts", &O::resident_experts)
        .range(1, 2)
        .help("number of experts in memory; 1: only the active one, so every video loads both in turn");
  }
  static void describe_networks(Describe<O>& d) {
    d.option("weights", &O::weights)
        .help(
            "weights of the job's own model: a safetensors file or folder, or a list whose later entries "
            "override earlier ones");
    describe_experts(d);
    d.option("loras", &O::loras)
        .unit("JSON")
        .help("LoRA adapters to load with the model, { name, file, file_2 (the second expert's), scale }");
    d.option("lora", &O::lora).help("LoRA of the videos, NAME or NAME=SCALE, one of `loras`; empty: none");
    d.option("tokenizer_weights", &O::tokenizer_weights).help("weights of the job's own tokenizer");
    d.option("text_weights", &O::text_weights).help("weights of the job's own text encoder");
    d.option("image_encoder_weights", &O::image_encoder_weights)
        .help("weights of the job's own image encoder, whose embeddings of `image` the model reads");
    d.option("max_tokens", &O::max_tokens)
        .range(2, 4096)
        .help(
            "longest prompt in tokens, for the job's own text "
            "encoder");
    d.option("pad_text", &O::pad_text)
        .help("pad prompts to max_tokens with zeros, for the job's own text encoder");
    d.option("sigma_data", &O::sigma_data)
        .above(0)
        .help("standard deviation of the latents that the job's own model was trained on");
    d.option("device", &O::device)
        .how_only()
        .help("device of all networks: auto (the first GPU, else the CPU), cpu, cuda, cuda:1");
    d.option("cuda_graphs", &O::cuda_graphs)
        .how_only()
        .help("on a GPU, record the calls of a denoising model once and replay them; requires a CUDA build");
    d.option("threads", &O::threads)
        .how_only()
        .range(0, 4096)
        .help(
            "number of threads for tensor operations; 0: one "
            "per core");
  }
};

}  // namespace kinora::core
