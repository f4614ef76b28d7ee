// Options of distill jobs.
#pragma once
#include "core/run/job.hpp"
#include "plugins/jobs/training/options/optimizer_options.hpp"

namespace kinora::core {

struct DistillOptions : OptimizerOptions {
  std::string method = "dmd", scores = "causal";
  int64_t every = 5, video_windows = 1, window_overlap = 0, teacher_steps = 48, pairs = 1000;
  double guidance = 4, critic_learning_rate = 4e-7, shift = 5, level_min = 0.02, level_max = 0.98;
  bool reuse_rollouts = false;
  WeightsPaths teacher_weights, critic_weights;
  std::string negative, lora, adapter;
  // Rates and limits of Self-Forcing's configuration for Wan 1.3B.
  DistillOptions() {
    learning_rate = 2e-6;
    warmup = 0;
    schedule = "constant";
    clip_norm = 10;
  }
  static void describe(Describe<DistillOptions>& d) {
    d.name("distill").help(
        "Makes a chunk-by-chunk model a few-step one, by distribution matching on its own rollouts");
    describe_optimizer(d);
    d.option("method", &O::method)
        .choices({"dmd", "ode", "consistency"})
        .help(
            "what the student learns. dmd: distribution matching on its own rollouts; ode: the ends of the "
            "teacher's Euler steps, from what it had at the levels of the sampler; consistency: what its "
            "first average estimates one Euler step of the teacher further. A dmd job may continue one of "
            "the other two, as an input");
    d.option("every", &O::every)
        .range(1, 1e6)
        .unit("steps")
        .help("interval between updates of the student; the critic is updated in each step");
    d.option("guidance", &O::guidance)
        .at_least(0)
        .help(
            "guidance of the teacher's score, none + guidance * (with - none): Self-Forcing writes 3 for "
            "this 4; 1: "
            "the text's prediction alone");
    d.option("negative", &O::negative)
        .help(
            "text away from which the teacher is guided, such as Wan's negative prompt; empty: what the "
            "encode job's encode_empty says, or zeros");
    d.option("critic_learning_rate", &O::critic_learning_rate).above(0).help("constant");
    d.option("shift", &O::shift)
        .above(0)
        .help("shift of the uniform levels at which teacher and critic are asked, one per sample");
    d.option("level_min", &O::level_min).range(0, 1).help("lower limit of those levels");
    d.option("level_max", &O::level_max).range(0, 1).help("upper limit of those levels");
    d.option("scores", &O::scores)
        .choices({"causal", "causal-noisy", "bidirectional"})
        .help(
            "what teacher and critic see. causal: each noisy chunk after the clean chunks of the student's "
            "video; causal-noisy: each noisy chunk after the noisy ones before it, as LongLive 2.0's; "
            "bidirectional: the whole noisy video at once, as Self-Forcing's, for networks trained so");
    d.option("reuse_rollouts", &O::reuse_rollouts)
        .help(
            "let the critic learn the student's videos, with other noise, in the steps that update both; "
            "saves a rollout there");
    describe_windows(d);
    describe_teacher_steps(d);
    describe_networks(d);
  }

 private:
  using O = DistillOptions;
  static void describe_windows(Describe<DistillOptions>& d) {
    d.option("video_windows", &O::video_windows)
        .range(1, 1e6)
        .help(
            "number of windows of a rollout's video, each as long as the samples' latents. Each update "
            "continues the video by a window, which it learns and scores alone; 1: each makes a whole video");
    d.option("window_overlap", &O::window_overlap)
        .range(0, 1e6)
        .unit("latent frames")
        .help(
            "number of frames before a window, whole chunks, that teacher and critic see in front of it; it "
            "is "
            "so much shorter, and the student learns its own frames alone");
  }
  static void describe_teacher_steps(Describe<DistillOptions>& d) {
    d.option("teacher_steps", &O::teacher_steps)
        .range(1, 1e5)
        .help(
            "Euler steps of the teacher from noise to a video: ode: divided among the levels of the sampler; "
            "consistency: at levels with `shift`");
    d.option("pairs", &O::pairs)
        .range(1, 1e9)
        .help(
            "ode: number of the teacher's videos, made when first needed and kept in pairs/, for steps after "
            "the last to begin again with");
  }
  static void describe_networks(Describe<DistillOptions>& d) {
    d.option("teacher_weights", &O::teacher_weights)
        .help(
            "file or folder of the teacher, a network of the student's architecture or of the slot "
            "`teacher`, or with lora its adapter; empty: the weights from which the student starts");
    d.option("critic_weights", &O::critic_weights)
        .help(
            "file or folder from which the critic starts, likewise; empty: the weights from which the "
            "student starts");
    d.option("lora", &O::lora)
        .help(
            "settings of LoRA matrices of student and critic, as of the train job, for example \"rank=128 "
            "alpha=128 targets=to_q,to_k,to_v\"; all networks then share one frozen copy of the weights. "
            "Written to adapter/, and merged to weights.safetensors");
    d.option("adapter", &O::adapter)
        .path()
        .help(
            "adapter from which the student starts, instead of lora: its rank, modules and weights are used");
  }
};

}  // namespace kinora::core
