// Options of the jobs that hold tensors. Their code is in core/torch/jobs; these are here so that a run file
// is checked without libtorch.
#pragma once
#include "core/run/job.hpp"

namespace kinora::core {

// What every training job says of its optimizer and its checkpoints.
struct OptimizerOptions {
  int64_t steps = 1000, batch = 4, accumulate = 1, warmup = 50;
  double learning_rate = 3e-4, weight_decay = 0.01, beta1 = 0.9, beta2 = 0.99, eps = 1e-8, clip_norm = 1.0,
         ema = 0.99;
  std::string schedule = "cosine", weights;
  int64_t checkpoint_every = 100, keep = 2, log_every = 1, max_skipped = 10, threads = 0;
  template <class O>
  static void describe_optimizer(Describe<O>& d) {
    d.option("steps", &O::steps).range(1, 1e9).help("optimizer steps of the whole job");
    d.option("batch", &O::batch).range(1, 1e6).help("samples a step, over all ranks");
    d.option("accumulate", &O::accumulate).range(1, 1e6).help("microbatches a step; batch must divide by it");
    d.option("learning_rate", &O::learning_rate).above(0).help("AdamW's, after the warm-up");
    d.option("warmup", &O::warmup).at_least(0).unit("steps").help("linear from 0");
    d.option("schedule", &O::schedule)
        .choices({"cosine", "constant"})
        .help("after the warm-up; cosine ends at 0");
    d.option("weight_decay", &O::weight_decay)
        .at_least(0)
        .help("decoupled; not on biases, norms and embeddings");
    d.option("beta1", &O::beta1).at_least(0).below(1).help("AdamW");
    d.option("beta2", &O::beta2).at_least(0).below(1).help("AdamW");
    d.option("eps", &O::eps).above(0).help("AdamW");
    d.option("clip_norm", &O::clip_norm)
        .at_least(0)
        .help("largest norm of the whole gradient; 0: no clipping");
    d.option("ema", &O::ema).range(0, 1).help("decay of the averaged weights that later jobs use; 0: none");
    d.option("max_skipped", &O::max_skipped)
        .range(1, 1e9)
        .unit("steps")
        .help("in a row whose loss or gradient is not finite; the job then fails");
    d.option("weights", &O::weights).path().help("safetensors file to start from; empty: from scratch");
    d.option("checkpoint_every", &O::checkpoint_every)
        .range(1, 1e9)
        .unit("steps")
        .help("training resumes bit for bit");
    d.option("keep", &O::keep).range(1, 1e6).help("checkpoints that are kept");
    d.option("log_every", &O::log_every).range(1, 1e6).unit("steps").help("lines in metrics.jsonl");
    d.option("threads", &O::threads).range(0, 4096).help("of tensor operations; 0: one a core");
  }
};

struct TrainTokenizerOptions : OptimizerOptions {
  int64_t frames = 17, every = 1, height = 64, width = 96, memory = int64_t{1} << 30;
  double l1 = 1.0, mse = 1.0;
  static void describe(Describe<TrainTokenizerOptions>& d) {
    d.name("train-tokenizer").help("Fits a video tokenizer to the clips by reconstruction");
    describe_optimizer(d);
    d.option("frames", &TrainTokenizerOptions::frames)
        .range(1, 1e4)
        .help("length of a training crop; 1 + n * the tokenizer's time factor");
    d.option("every", &TrainTokenizerOptions::every)
        .range(1, 1000)
        .help("of the film's frames; 2 halves the frame rate");
    d.option("height", &TrainTokenizerOptions::height)
        .range(8, 1e4)
        .unit("pixels")
        .help("clips are scaled to cover it and cut");
    d.option("width", &TrainTokenizerOptions::width).range(8, 1e4).unit("pixels").help("see height");
    d.option("memory", &TrainTokenizerOptions::memory)
        .bytes()
        .at_least(1 << 20)
        .help("decoded clips that are kept");
    d.option("l1", &TrainTokenizerOptions::l1).at_least(0).help("weight of the mean absolute error");
    d.option("mse", &TrainTokenizerOptions::mse).at_least(0).help("weight of the mean squared error");
  }
};

struct EncodeOptions {
  int64_t frames = 17, every = 1, height = 64, width = 96, stride = 0, max_tokens = 32, threads = 0,
          memory = int64_t{1} << 28;
  double sigma_data = 0.5;
  bool pad_text = false;
  std::string text_weights = "asset:minilm/model.safetensors";
  static void describe(Describe<EncodeOptions>& d) {
    d.name("encode").help(
        "Caches latents and text embeddings of the clips, so that training does not compute them");
    d.option("frames", &EncodeOptions::frames).range(1, 1e5).help("length of a window");
    d.option("stride", &EncodeOptions::stride)
        .at_least(0)
        .unit("frames")
        .help("from window to window; 0: as long as a window");
    d.option("every", &EncodeOptions::every)
        .range(1, 1000)
        .help("of the film's frames; 2 halves the frame rate");
    d.option("height", &EncodeOptions::height)
        .range(8, 1e4)
        .unit("pixels")
        .help("clips are scaled to cover it and cut");
    d.option("width", &EncodeOptions::width).range(8, 1e4).unit("pixels").help("see height");
    d.option("sigma_data", &EncodeOptions::sigma_data)
        .above(0)
        .help("standard deviation that latents are scaled to, by channel");
    d.option("max_tokens", &EncodeOptions::max_tokens)
        .range(2, 4096)
        .help("of a caption; longer ones are cut");
    d.option("pad_text", &EncodeOptions::pad_text)
        .help(
            "fills every caption up to max_tokens with zeros, which the model attends to, as Wan and Cosmos "
            "do");
    d.option("memory", &EncodeOptions::memory).bytes().at_least(1 << 20).help("decoded clips that are kept");
    d.option("text_weights", &EncodeOptions::text_weights).path().help("safetensors of the text encoder");
    d.option("threads", &EncodeOptions::threads).range(0, 4096).help("of tensor operations; 0: one a core");
  }
};

struct TrainOptions : OptimizerOptions {
  double text_dropout = 0.1;
  static void describe(Describe<TrainOptions>& d) {
    d.name("train").help("Trains a model on cached latents");
    describe_optimizer(d);
    d.option("text_dropout", &TrainOptions::text_dropout)
        .range(0, 1)
        .help("share of samples without text, for guidance");
  }
};

struct GenerateOptions {
  std::vector<std::string> prompts;
  int64_t frames = 0, height = 0, width = 0, count = 1, crf = 16, threads = 0;
  double guidance = 1.0, fps = 0;
  std::string negative;
  static void describe(Describe<GenerateOptions>& d) {
    d.name("generate").help("Makes videos from prompts with the trained model");
    d.option("prompts", &GenerateOptions::prompts).required().help("one video each");
    d.option("count", &GenerateOptions::count).range(1, 1e6).help("videos a prompt");
    d.option("frames", &GenerateOptions::frames).at_least(0).help("0: as in training");
    d.option("height", &GenerateOptions::height).at_least(0).unit("pixels").help("0: as in training");
    d.option("width", &GenerateOptions::width).at_least(0).unit("pixels").help("0: as in training");
    d.option("guidance", &GenerateOptions::guidance)
        .at_least(0)
        .help(
            "classifier-free: none + guidance * (prompt - none); 1: the prompt alone, one call of the model "
            "a step");
    d.option("negative", &GenerateOptions::negative).help("what guidance leads away from; empty: no text");
    d.option("fps", &GenerateOptions::fps).at_least(0).help("of the videos; 0: as in training");
    d.option("crf", &GenerateOptions::crf).range(0, 51).help("H.264 quality, lower is better");
    d.option("threads", &GenerateOptions::threads).range(0, 4096).help("of tensor operations; 0: one a core");
  }
};

}  // namespace kinora::core
