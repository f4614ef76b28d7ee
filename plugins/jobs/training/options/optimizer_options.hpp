// What every training job says of its optimizer, its checkpoints and what it logs.
#pragma once
#include <string>
#include <vector>

#include "plugins/jobs/training/options/paths_option.hpp"
#include "core/run/job.hpp"

namespace kinora::core {

struct OptimizerOptions {
  int64_t steps = 1000, batch = 4, accumulate = 1, warmup = 50;
  double learning_rate = 3e-4, final_rate = 0, decay_share = 0.2, weight_decay = 0.01, beta1 = 0.9,
         beta2 = 0.99, eps = 1e-8, clip_norm = 1.0, peak_flops = 0;
  std::vector<double> ema = {0.99};
  std::string schedule = "cosine", decay_shape = "1-sqrt", device = "auto";
  WeightsPaths weights;
  int64_t checkpoint_every = 100, keep = 2, keep_every = 0, log_every = 1, max_skipped = 10, threads = 0,
          shard_size = 5'000'000'000;
  bool async_checkpoints = true, tensorboard = true, decay_all = false;

  template <class O>
  static void describe_optimizer(Describe<O>& d) {
    d.option("steps", &O::steps).range(1, 1e9).help("optimizer steps of the whole job");
    d.option("batch", &O::batch).range(1, 1e6).help("samples a step, over all ranks");
    d.option("accumulate", &O::accumulate).range(1, 1e6).help("microbatches a step; batch must divide by it");
    describe_rate(d);
    d.option("weight_decay", &O::weight_decay)
        .at_least(0)
        .help("decoupled; not on biases, norms, and tables of tokens, positions and modulations");
    d.option("decay_all", &O::decay_all)
        .help("weight decay on those tables too, on all of two dimensions and more");
    d.option("beta1", &O::beta1).at_least(0).below(1).help("AdamW");
    d.option("beta2", &O::beta2).at_least(0).below(1).help("AdamW");
    d.option("eps", &O::eps).above(0).help("AdamW");
    d.option("clip_norm", &O::clip_norm)
        .at_least(0)
        .help("largest norm of the whole gradient; 0: no clipping");
    d.option("ema", &O::ema)
        .range(0, 1)
        .help(
            "decays of averaged weights, each in weights.ema-DECAY.safetensors; later jobs use the first; "
            "0: none");
    d.option("max_skipped", &O::max_skipped)
        .range(1, 1e9)
        .unit("steps")
        .help("in a row whose loss or gradient is not finite; the job then fails");
    d.option("weights", &O::weights)
        .help("file or folder to start from, or a list: later ones over earlier ones; empty: from scratch");
    describe_records(d);
    d.option("device", &O::device).how_only().help("auto: the first GPU, else the CPU; cpu, cuda, cuda:1");
    d.option("threads", &O::threads).how_only().range(0, 4096).help("of tensor operations; 0: one a core");
  }

 private:
  template <class O>
  static void describe_rate(Describe<O>& d) {
    d.option("learning_rate", &O::learning_rate).above(0).help("AdamW's, after the warm-up");
    d.option("warmup", &O::warmup).at_least(0).unit("steps").help("linear from 0");
    d.option("schedule", &O::schedule)
        .choices({"cosine", "constant", "linear", "wsd"})
        .help("after the warm-up; wsd: constant, then a fall over the last decay_share of the steps");
    d.option("final_rate", &O::final_rate).at_least(0).help("where cosine, linear and wsd end");
    d.option("decay_share", &O::decay_share).range(0, 1).help("of all steps, for wsd's fall");
    d.option("decay_shape", &O::decay_shape)
        .choices({"1-sqrt", "linear"})
        .help("of wsd's fall: 1 - sqrt(t) or 1 - t, t from 0 to 1");
  }
  template <class O>
  static void describe_records(Describe<O>& d) {
    d.option("checkpoint_every", &O::checkpoint_every).how_only()
        .range(1, 1e9)
        .unit("steps")
        .help("training resumes bit for bit; SIGUSR1 writes one at once");
    d.option("keep", &O::keep).how_only().range(1, 1e6).help("latest checkpoints that are kept");
    d.option("keep_every", &O::keep_every).how_only()
        .range(0, 1e9)
        .unit("steps")
        .help("checkpoints of multiples of it stay for ever; 0: none");
    d.option("async_checkpoints", &O::async_checkpoints).how_only().help("a thread writes them while training goes on");
    d.option("shard_size", &O::shard_size).how_only()
        .bytes()
        .at_least(1)
        .help(
            "larger weights, moments and averages are shards of at most that with an index; each is one "
            "rank's");
    d.option("log_every", &O::log_every).how_only().range(1, 1e6).unit("steps").help("lines in metrics.jsonl");
    d.option("tensorboard", &O::tensorboard).how_only().help("the same numbers as event files in tensorboard/");
    d.option("peak_flops", &O::peak_flops).how_only()
        .at_least(0)
        .unit("1/s")
        .help(
            "of one rank, what mfu is a share of; 0: measured by a matrix product in the precision of the "
            "job");
  }
};

}  // namespace kinora::core
