// Options of the jobs that use tensors, apart from their code, so that a run file can be checked without
// libtorch.
#pragma once
#include "core/run/job.hpp"
#include "plugins/jobs/inference/frame_options.hpp"
#include "plugins/jobs/training/options/optimizer_options.hpp"

namespace kinora::core {

struct TrainOptions : OptimizerOptions, FrameOptions, ShotOptions {
  double text_dropout = 0.1, validation = 0;
  int64_t validation_every = 0, validation_samples = 16, sample_every = 0, samples = 2, sample_steps = 12,
          shots = 1;
  std::vector<double> validation_sigmas;
  std::vector<int64_t> condition_frames;
  double condition_sigma = 1e-4;
  std::vector<double> condition_noise;
  std::string lora, adapter, levels = "auto", batches = "packed", pipeline, expert,
                             condition_timestep = "own", error_recycling;
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
        .choices({"", "high", "low", "both"})
        .help(
            "expert of a pipeline that has two (Wan 2.2) to train, for high or low noise: on the levels of "
            "its side of the boundary. both: two jobs, NAME-high and NAME-low, which NAME means as an input. "
            "Generate jobs take an expert that no job trains from the folder");
    describe_optimizer(d);
    d.option("text_dropout", &TrainOptions::text_dropout)
        .range(0, 1)
        .help("share of samples without text, for guidance; see encode_empty of the encode job");
    d.option("batches", &TrainOptions::batches)
        .choices({"packed", "buckets"})
        .help(
            "layout of microbatches with windows of several sizes (`sizes` of the encode job): packed, "
            "samples of all sizes one after the other in a row; buckets, samples of one size, for models "
            "without packed rows");
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
    d.option("shots", &TrainOptions::shots)
        .range(1, 1000)
        .help(
            "number of consecutive clips of one video that make a sample, each with its own text, with "
            "teacher forcing; a clip's latent is cut to whole chunks; 1: a clip is a sample");
    describe_shot_rule(d);
    d.option("error_recycling", &TrainOptions::error_recycling)
        .unit("JSON")
        .help(
            "with teacher forcing, add errors of the model's earlier predictions to what it sees: a table of "
            "context, latent and noise (shares of the samples), clean (share without errors), scale, start "
            "(steps), buckets and entries; {}: LongLive 2.0's numbers; empty: none");
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
