// Options of encode jobs, which decide the windows that a training takes too.
#pragma once
#include "core/run/job.hpp"
#include "plugins/jobs/inference/paths_option.hpp"

namespace kinora::core {

struct EncodeOptions {
  int64_t frames = 17, every = 1, height = 64, width = 96, stride = 0, max_tokens = 32, threads = 0,
          memory = int64_t{1} << 28, scale_windows = 64, latent_cache_limit = 100'000'000'000;
  double sigma_data = 0.5;
  bool pad_text = false, encode_empty = false, first_frame = false, last_frame = false;
  std::string scale = "channel", device = "auto", pipeline, latent_cache;
  WeightsPaths text_weights{"asset:minilm/model.safetensors"}, tokenizer_weights, image_encoder_weights;
  std::vector<std::string> signals, sizes;
  static void describe(Describe<EncodeOptions>& d) {
    d.name("encode").help(
        "Turns clips into latents and text embeddings: cached, or of a table of data when training takes "
        "them");
    d.option("pipeline", &EncodeOptions::pipeline)
        .path()
        .how_only()  // as in a train-tokenizer job
        .help(
            "folder of a published pipeline: supplies the tokenizer, the text encoder and the form of "
            "latents and "
            "texts that its model was trained on");
    d.option("frames", &EncodeOptions::frames).range(1, 1e5).help("frames per window");
    d.option("stride", &EncodeOptions::stride)
        .at_least(0)
        .unit("frames")
        .help("distance between the starts of two windows; 0: the length of a window");
    d.option("every", &EncodeOptions::every)
        .range(1, 1000)
        .help("step between frames taken from the video; 2 halves the frame rate");
    d.option("height", &EncodeOptions::height)
        .range(8, 1e4)
        .unit("pixels")
        .help("height of the result; clips are scaled to cover it and cropped");
    d.option("width", &EncodeOptions::width).range(8, 1e4).unit("pixels").help("see height");
    d.option("sizes", &EncodeOptions::sizes)
        .help(
            "further sizes of windows besides frames x height x width, for example [\"1x64x64\", "
            "\"9x96x64\"], if the input "
            "is a table of data: each clip or picture gets the size that suits it, and training packs "
            "windows of all sizes into rows, or gives each microbatch one size (`batches` of the train job)");
    describe_scale(d);
    describe_conditions(d);
    describe_files(d);
    d.option("device", &EncodeOptions::device)
        .how_only()
        .help("device of tokenizer and text encoder: auto (the first GPU, else the CPU), cpu, cuda, cuda:1");
    d.option("threads", &EncodeOptions::threads)
        .how_only()
        .range(0, 4096)
        .help("number of threads for tensor operations; 0: one per core");
  }

 private:
  static void describe_scale(Describe<EncodeOptions>& d) {
    d.option("sigma_data", &EncodeOptions::sigma_data)
        .above(0)
        .help("standard deviation that each channel of the latents is scaled to");
    d.option("scale", &EncodeOptions::scale)
        .choices({"channel", "latent", "none"})
        .help(
            "how latents are scaled: each channel to deviation sigma_data, or all channels together, so that "
            "strong "
            "channels stay strong (principal components); none: multiplied by sigma_data, for tokenizers "
            "whose "
            "latents have deviation 1, as published ones do");
    d.option("scale_windows", &EncodeOptions::scale_windows)
        .range(1, 1e9)
        .help(
            "windows over which the scale is measured if the input is a table of data, whose windows are "
            "encoded when training takes them");
  }
  static void describe_conditions(Describe<EncodeOptions>& d) {
    d.option("max_tokens", &EncodeOptions::max_tokens)
        .range(2, 4096)
        .help("longest caption in tokens; longer ones are cut");
    d.option("pad_text", &EncodeOptions::pad_text)
        .help("pad every caption to max_tokens with zeros that the model attends to, as Wan and Cosmos do");
    d.option("encode_empty", &EncodeOptions::encode_empty)
        .help(
            "what stands for no text (text_dropout of the train job, an empty `negative` of generate jobs): "
            "the "
            "encoding of an empty text, as published pipelines have it, written to empty_text.safetensors; "
            "otherwise zeros");
    d.option("first_frame", &EncodeOptions::first_frame)
        .help(
            "also cache each window's first frame followed by grey frames, with its mask, as `condition`: "
            "Wan's image "
            "to video reads it in addition to the latent");
    d.option("last_frame", &EncodeOptions::last_frame)
        .help(
            "with first_frame: the condition ends with the window's last frame, and `image` also embeds that "
            "frame (Wan's FLF2V)");
  }
  static void describe_files(Describe<EncodeOptions>& d) {
    d.option("memory", &EncodeOptions::memory)
        .how_only()
        .bytes()
        .at_least(1 << 20)
        .help("most memory of decoded clips that are kept");
    d.option("latent_cache", &EncodeOptions::latent_cache)
        .how_only()
        .path()
        .help(
            "folder of this machine that keeps the latents of windows if the input is a table of data, by "
            "the "
            "tokenizer's weights, the clip and the place of the window; empty: none");
    d.option("latent_cache_limit", &EncodeOptions::latent_cache_limit)
        .how_only()
        .bytes()
        .at_least(1)
        .help("size of that folder; the least recently used latents are removed");
    d.option("tokenizer_weights", &EncodeOptions::tokenizer_weights)
        .help(
            "weights of the job's own tokenizer: a file, a diffusers folder or a folder with encoder.jit and "
            "decoder.jit");
    d.option("text_weights", &EncodeOptions::text_weights).help("safetensors of the text encoder");
    d.option("image_encoder_weights", &EncodeOptions::image_encoder_weights)
        .help("weights of `image_encoder`: a file or a folder");
    d.option("signals", &EncodeOptions::signals)
        .help(
            "numbers or lists of numbers in each clip's JSON to cache by name, for example [\"fps\", "
            "\"camera\"]; "
            "clips that lack one are left out and counted");
  }
};

}  // namespace kinora::core
