// Options of the jobs that use tensors, apart from their code, so that a run file can be checked without
// libtorch.
#pragma once
#include "core/run/job.hpp"
#include "plugins/jobs/training/options/frame_options.hpp"
#include "plugins/jobs/training/options/optimizer_options.hpp"

namespace kinora::core {

struct TrainTokenizerOptions : OptimizerOptions {
  int64_t frames = 17, every = 1, height = 64, width = 96, memory = int64_t{1} << 30;
  double l1 = 1.0, mse = 1.0, kl = 0, perceptual_weight = 1, critic_weight = 0.8, critic_learning_rate = 1e-4,
         image_share = 0, validation = 0;
  int64_t critic_start = 0;
  bool partial = false;
  std::string last_layer, start = "random", pipeline;
  WeightsPaths features_weights;
  static void describe(Describe<TrainTokenizerOptions>& d) {
    d.name("train-tokenizer").help("Fits a video tokenizer to the clips by reconstruction");
    describe_optimizer(d);
    // It supplies other options, which count for the identity: a folder has more parts than a job reads.
    d.option("pipeline", &O::pipeline)
        .path()
        .how_only()
        .help("folder of a published pipeline whose tokenizer and weights the training starts from");
    d.option("frames", &TrainTokenizerOptions::frames)
        .range(1, 1e4)
        .help("frames per training crop; 1 + n * the tokenizer's time factor");
    d.option("every", &TrainTokenizerOptions::every)
        .range(1, 1000)
        .help("step between frames taken from the video; 2 halves the frame rate");
    d.option("height", &TrainTokenizerOptions::height)
        .range(8, 1e4)
        .unit("pixels")
        .help("height of the result; clips are scaled to cover it and cropped");
    d.option("width", &TrainTokenizerOptions::width).range(8, 1e4).unit("pixels").help("see height");
    d.option("memory", &TrainTokenizerOptions::memory)
        .how_only()
        .bytes()
        .at_least(1 << 20)
        .help("most memory of decoded clips that are kept");
    d.option("l1", &TrainTokenizerOptions::l1).at_least(0).help("weight of the mean absolute error");
    d.option("mse", &TrainTokenizerOptions::mse).at_least(0).help("weight of the mean squared error");
    describe_tuning(d);
  }

 private:
  using O = TrainTokenizerOptions;
  static void describe_tuning(Describe<O>& d) {
    d.option("start", &O::start)
        .choices({"random", "principal"})
        .help(
            "initial weights without `weights`: random numbers, or the best linear tokenizer of these clips, "
            "their "
            "principal components");
    d.option("partial", &O::partial)
        .help("initialise the tensors of `weights` that do not fit at random; weights.txt lists them");
    d.option("kl", &O::kl)
        .at_least(0)
        .help(
            "weight of the divergence from a standard normal, summed over a latent; above 0, latents are "
            "sampled");
    d.option("perceptual_weight", &O::perceptual_weight)
        .at_least(0)
        .help("weight of the loss in `perceptual`");
    d.option("critic_weight", &O::critic_weight)
        .at_least(0)
        .help(
            "weight of the adversarial loss, multiplied by the ratio of gradients at last_layer in each "
            "microbatch");
    d.option("critic_start", &O::critic_start)
        .at_least(0)
        .unit("steps")
        .help("number of steps before the critic acts");
    d.option("critic_learning_rate", &O::critic_learning_rate).above(0).help("constant");
    d.option("last_layer", &O::last_layer)
        .help("name of the decoder's last layer; empty: the last parameter with conv_out in its name");
    d.option("features_weights", &O::features_weights)
        .help(
            "weights of the model in `features`: a file or a folder; without `features`, a TorchScript file "
            "(.pt) "
            "that is the model itself, such as I3D: video [B, 3, T, H, W] in [-1, 1] -> [B, D]");
    d.option("image_share", &O::image_share)
        .range(0, 1)
        .help("share of microbatches whose samples are single frames");
    d.option("validation", &O::validation)
        .at_least(0)
        .below(1)
        .help("share of clips held out of training, by a hash of their keys, and evaluated; 0: none");
  }
};

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

struct TrainOptions : OptimizerOptions, FrameOptions {
  double text_dropout = 0.1, validation = 0;
  int64_t validation_every = 0, validation_samples = 16, sample_every = 0, samples = 2, sample_steps = 12;
  std::vector<double> validation_sigmas;
  std::vector<int64_t> condition_frames;
  double condition_sigma = 1e-4;
  std::vector<double> condition_noise;
  std::string lora, adapter, levels = "auto", batches = "packed", pipeline, expert,
                             condition_timestep = "own";
  bool prefetch = true;
  bool are_buckets() const { return batches == "buckets"; }
  static void describe(Describe<TrainOptions>& d) {
    d.name("train").help("Trains a model on the latents of an encode job");
    d.option("pipeline", &TrainOptions::pipeline)
        .path()
        .help(
            "folder of a published pipeline whose model and weights the training starts from, with its loss, "
            "shift and given frames; give the encode job the same folder");
    d.option("expert", &TrainOptions::expert)
        .choices({"", "high", "low"})
        .help(
            "expert of a pipeline that has two (Wan 2.2) to train, for high or low noise: on the levels of "
            "its "
            "side of the boundary. Generate jobs take the other from a second train job, or from the folder");
    describe_optimizer(d);
    d.option("text_dropout", &TrainOptions::text_dropout)
        .range(0, 1)
        .help("share of samples without text, for guidance; see encode_empty of the encode job");
    d.option("batches", &TrainOptions::batches)
        .choices({"packed", "buckets"})
        .help(
            "how microbatches hold windows of several sizes (`sizes` of the encode job): packed, samples of "
            "all "
            "sizes one after the other in a row; buckets, samples of one size, for models without packed "
            "rows");
    describe_given(d);
    describe_rule(d);
    d.option("lora", &TrainOptions::lora)
        .help(
            "settings of LoRA matrices to train on frozen weights, for example \"rank=16 alpha=32 "
            "dropout=0.1 "
            "targets=to_q,to_k,to_v rslora\", or pattern=REGEX for targets; written to adapter/ (PEFT's "
            "files), and "
            "merged to weights.safetensors");
    d.option("adapter", &TrainOptions::adapter)
        .path()
        .help(
            "adapter to start from, a PEFT folder or another program's LoRA file, instead of lora: its rank, "
            "dropout, modules and weights are used");
    d.option("prefetch", &TrainOptions::prefetch)
        .how_only()
        .help("copy the next batch to the GPU while it computes; requires a CUDA build");
    describe_validation(d);
    describe_pictures(d);
  }

 private:
  static void describe_validation(Describe<TrainOptions>& d) {
    d.option("validation", &TrainOptions::validation)
        .at_least(0)
        .below(1)
        .help(
            "share of clips held out of training, by a hash of their keys; 0: none, and validation uses "
            "training "
            "samples");
    d.option("validation_every", &TrainOptions::validation_every)
        .how_only()
        .range(0, 1e9)
        .unit("steps")
        .help(
            "interval between validations: the loss of the first averaged weights, or else of the weights, "
            "at "
            "validation_sigmas; 0: never");
    d.option("validation_samples", &TrainOptions::validation_samples)
        .how_only()
        .range(1, 1e6)
        .help("number of samples per validation");
    d.option("validation_sigmas", &TrainOptions::validation_sigmas)
        .how_only()
        .at_least(0)
        .help(
            "noise levels in the units of the loss, whose mean loss is validation_loss; empty: 0.1, 0.5 and "
            "2, or "
            "their equivalents for a loss that blends, 1/11, 1/3 and 2/3");
  }
  static void describe_pictures(Describe<TrainOptions>& d) {
    d.option("sample_every", &TrainOptions::sample_every)
        .how_only()
        .range(0, 1e9)
        .unit("steps")
        .help(
            "interval between pictures of samples in samples/ and TensorBoard, drawn with the first averaged "
            "weights "
            "from the same noise each time; 0: never");
    d.option("samples", &TrainOptions::samples)
        .how_only()
        .range(1, 1e3)
        .help(
            "number of samples per picture, with the texts and given frames of the first validation samples");
    d.option("sample_steps", &TrainOptions::sample_steps)
        .how_only()
        .range(1, 1e4)
        .help("steps of the default sampler of the loss, used if the job names none in `sampler`");
  }
  static void describe_rule(Describe<TrainOptions>& d) {
    describe_frames(d);
    d.option("teacher_forcing", &TrainOptions::teacher_forcing)
        .help(
            "let a noisy chunk attend to itself and to clean copies of earlier chunks: the model reads every "
            "latent "
            "twice, clean and noisy, and learns the noisy half; parallel = [\"balanced-sp\"] divides this "
            "work");
    d.option("levels", &TrainOptions::levels)
        .choices({"auto", "sample", "chunk", "frame"})
        .help(
            "unit with its own independently drawn noise level; auto: chunk with teacher forcing, else "
            "sample");
  }
  static void describe_given(Describe<TrainOptions>& d) {
    d.option("condition_frames", &TrainOptions::condition_frames)
        .at_least(0)
        .help(
            "numbers of leading latent frames that are given and not learned, one drawn per sample, for "
            "image to "
            "video and continuations: [0, 1, 2]; empty: no given frames");
    d.option("condition_sigma", &TrainOptions::condition_sigma)
        .at_least(0)
        .help(
            "noise level of given frames, like condition_sigma of generate jobs; also of clean frames if the "
            "loss has "
            "no level 0");
    d.option("condition_timestep", &TrainOptions::condition_timestep)
        .choices({"own", "shared"})
        .help("timestep that the model reads for given frames, like condition_timestep of generate jobs");
    d.option("condition_noise", &TrainOptions::condition_noise)
        .help(
            "mean and deviation of ln sigma of the noise added to given frames, which the model reads "
            "instead of "
            "condition_sigma: [-3, 2] is Cosmos-Predict 1's; empty: given frames are clean");
  }
};

}  // namespace kinora::core
