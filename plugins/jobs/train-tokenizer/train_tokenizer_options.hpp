// Options of train-tokenizer jobs.
#pragma once
#include "core/run/job.hpp"
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

}  // namespace kinora::core
