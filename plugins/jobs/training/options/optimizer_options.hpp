// Options of every training job for its optimizer, its checkpoints and its logs.
#pragma once
#include <string>
#include <vector>

#include "core/run/job.hpp"
#include "plugins/jobs/inference/paths_option.hpp"

namespace kinora::core {

struct OptimizerOptions {
  int64_t steps = 1000, batch = 4, accumulate = 1, warmup = 50;
  double learning_rate = 3e-4, final_rate = 0, decay_share = 0.2, weight_decay = 0.01, clip_norm = 1.0,
         peak_flops = 0;
  std::vector<double> ema = {0.99};
  std::string schedule = "cosine", decay_shape = "1-sqrt", device = "auto";
  WeightsPaths weights;
  int64_t checkpoint_every = 100, keep = 2, keep_every = 0, log_every = 1, max_skipped = 10, threads = 0,
          shard_size = 5'000'000'000;
  bool async_checkpoints = true, tensorboard = true, decay_all = false;

  template <class O>
  static void describe_optimizer(Describe<O>& d) {
    d.option("steps", &O::steps).range(1, 1e9).help("optimizer steps of the whole job");
    d.option("batch", &O::batch).range(1, 1e6).help("samples per step, over all ranks");
    d.option("accumulate", &O::accumulate).range(1, 1e6).help("microbatches per step; must divide batch");
    describe_rate(d);
    d.option("weight_decay", &O::weight_decay)
        .at_least(0)
        .help(
            "decoupled weight decay; not applied to biases, norms, and tables of tokens, positions and "
            "modulations");
    d.option("decay_all", &O::decay_all)
        .help(
            "apply weight decay to those tables too, that is to all parameters with two or more dimensions");
    d.option("clip_norm", &O::clip_norm)
        .at_least(0)
        .help("largest norm of the whole gradient; 0: no clipping");
    d.option("ema", &O::ema)
        .range(0, 1)
        .help(
            "decays of averaged weights, each stored in weights.ema-DECAY.safetensors; later jobs use the "
            "first; 0: "
            "none");
    d.option("max_skipped", &O::max_skipped)
        .range(1, 1e9)
        .unit("steps")
        .help(
            "number of successive steps with a loss or gradient that is not finite after which the job "
            "fails");
    d.option("weights", &O::weights)
        .help(
            "file or folder to start from, or a list whose later entries override earlier ones; empty: from "
            "scratch");
    describe_records(d);
    d.option("device", &O::device)
        .how_only()
        .help(
            "device for tensor operations: auto (the first GPU, else the CPU), "
            "cpu, cuda, cuda:1");
    d.option("threads", &O::threads)
        .how_only()
        .range(0, 4096)
        .help(
            "number of threads for tensor operations; 0: one "
            "per core");
  }

 private:
  template <class O>
  static void describe_rate(Describe<O>& d) {
    d.option("learning_rate", &O::learning_rate).above(0).help("learning rate after the warm-up");
    d.option("warmup", &O::warmup).at_least(0).unit("steps").help("length of the linear warm-up from 0");
    d.option("schedule", &O::schedule)
        .choices({"cosine", "constant", "linear", "wsd"})
        .help(
            "learning rate schedule after the warm-up; wsd: constant, then a decay over the last decay_share "
            "of the "
            "steps");
    d.option("final_rate", &O::final_rate)
        .at_least(0)
        .help("learning rate at the end of cosine, linear and wsd");
    d.option("decay_share", &O::decay_share).range(0, 1).help("share of all steps for wsd's decay");
    d.option("decay_shape", &O::decay_shape)
        .choices({"1-sqrt", "linear"})
        .help("shape of wsd's decay: 1 - sqrt(t) or 1 - t, t from 0 to 1");
  }
  template <class O>
  static void describe_records(Describe<O>& d) {
    d.option("checkpoint_every", &O::checkpoint_every)
        .how_only()
        .range(1, 1e9)
        .unit("steps")
        .help(
            "interval between checkpoints, from which training resumes bit for bit; SIGUSR1 writes one at "
            "once");
    d.option("keep", &O::keep).how_only().range(1, 1e6).help("number of latest checkpoints to keep");
    d.option("keep_every", &O::keep_every)
        .how_only()
        .range(0, 1e9)
        .unit("steps")
        .help("interval of the checkpoints that are kept for good; 0: none");
    d.option("async_checkpoints", &O::async_checkpoints)
        .how_only()
        .help("write checkpoints in a thread while training continues");
    d.option("shard_size", &O::shard_size)
        .how_only()
        .bytes()
        .at_least(1)
        .help(
            "maximum file size of weights, moments and averages; larger ones are split into shards with an "
            "index, "
            "each written by one rank");
    d.option("log_every", &O::log_every)
        .how_only()
        .range(1, 1e6)
        .unit("steps")
        .help("interval between lines of metrics.jsonl");
    d.option("tensorboard", &O::tensorboard)
        .how_only()
        .help("write the same metrics as event files in tensorboard/");
    d.option("peak_flops", &O::peak_flops)
        .how_only()
        .at_least(0)
        .unit("1/s")
        .help(
            "peak speed of one rank, the reference of mfu; 0: measured by a matrix product in the precision "
            "of the "
            "job");
  }
};

}  // namespace kinora::core
