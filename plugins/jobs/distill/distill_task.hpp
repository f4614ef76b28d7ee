// Every way of distilling has a student that learns, a teacher that does not, and the data. With LoRA the two,
// and the critic of distribution matching, have one frozen base in common, and each has an adapter.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "plugins/jobs/distill/detach_clean_link.hpp"
#include "plugins/jobs/distill/distill_options.hpp"
#include "plugins/jobs/distill/earlier_keys_link.hpp"
#include "plugins/jobs/distill/rollout_cache_link.hpp"
#include "plugins/jobs/distill/self_forcing.hpp"
#include "plugins/jobs/inference/parts.hpp"
#include "plugins/jobs/training/options/train_options.hpp"
#include "plugins/jobs/training/trainer.hpp"
#include "plugins/jobs/windows/samples.hpp"

namespace kinora::core {

// The sampler that mixes fresh noise in between two steps. Rollouts draw that noise for themselves, by video and frame.
inline constexpr const char* kFreshNoise = "sampler/flow-renoise";

// The options of the train job whose model a job distills, which say how it makes a video.
TrainOptions options_of_student(const JobView& distill);
// The weights from which all networks begin: `weights`, or those of the job that this one continues, or the train
// job's.
WeightsPaths base_of(const JobView& distill);

// [owner-thread]
class DistillTask : public TrainingTask {
 public:
  // Trains the student, and writes it and the job's summary.
  void run();

 protected:
  DistillTask(JobContext&, const DistillOptions&);

  // The inputs of samples with their text and without. Their latent may be replaced by a video of its shape.
  struct Batch {
    NamedTensors with, none;
    void set_latent(const at::Tensor& x) { with["latent"] = none["latent"] = x; }
  };
  Batch batch(const std::vector<LatentData::Item>& items) const;
  // Samples [first, first + count) of all that are ever drawn.
  Batch drawn(int64_t first, int64_t count) const;

  // A teacher or critic. own: its weights, or with LoRA its adapter; empty: the base's. trained: it learns, so that its
  // adapter must not begin as zeros.
  std::unique_ptr<Model> another(std::vector<const kinora_link*> links, const WeightsPaths& own,
                                 bool trained);
  Objective objective_of(Model& network, const ComponentUse& use, const Frames& rule);
  // The frames that teacher and critic see.
  Frames scores_rule() const {
    if (options_.scores == "bidirectional") return {};
    return options_.scores == "causal" ? training_rule(train_) : generating_rule(train_);
  }
  // Makes videos with a network whose chain has the rollouts' link.
  SelfForcing forcing_of(Model& network);

  // A network's estimate of the clean sample, without gradients, as noisy_estimate() has it. Its chain then begins
  // its pass of before again: a forward with gradients comes after it, and its backward next.
  at::Tensor score(Model& network, const Objective& objective, const NamedTensors& batch,
                   const at::Tensor& noisy, const at::Tensor& levels);
  // The teacher's, with guidance.
  at::Tensor guided_score(const Batch& in, const at::Tensor& noisy, const at::Tensor& levels);
  // The student's, with its graph.
  at::Tensor student_estimate(const NamedTensors& batch, const at::Tensor& noisy, const at::Tensor& levels);

  at::Tensor on_device(const at::Tensor& t) const { return t.to(device_, parallel_.parameter_dtype()); }
  void begin_step(int64_t step) override { step_ = step; }
  // Another network that the training changes, with the student's usual settings; null: none.
  virtual std::unique_ptr<Trained> critic(const Trained::How&) { return nullptr; }

  JobContext& context_;
  const DistillOptions options_;
  const TrainOptions train_;  // of the student's training
  at::Device device_;
  uint64_t seed_;
  Parallelism parallel_;
  TrainingSamples data_;
  Part part_;  // the student's, with the weights from which it starts
  const WeightsPaths base_;
  std::optional<LoraOptions> lora_;
  Component model_;
  LossInstance flow_;
  at::Tensor no_text_;
  SamplerInstance sampler_;
  Options cache_options_;
  CacheInstance cache_;
  DetachCleanLink detached_;
  RolloutCacheLink rollouts_{cache_.link()};
  EarlierKeysLink earlier_;
  std::unique_ptr<Model> student_, teacher_;
  Objective objective_;  // the student's; its batches are those of all networks
  Objective teacher_objective_;
  Trained* trained_ = nullptr;  // the student's, while it runs
  int64_t step_ = 0;            // the current one

 private:
  std::unique_ptr<Model> made(const ComponentUse& use, const Frames& rule,
                              std::vector<const kinora_link*> links, std::optional<LoraOptions> lora,
                              bool blank) const;
  // The teacher's component: its own, or the student's.
  const ComponentUse& teacher_use() const;
  std::unique_ptr<Model> teacher();
  std::vector<const kinora_link*> student_links();
  std::vector<const kinora_link*> teacher_links();
};

}  // namespace kinora::core
