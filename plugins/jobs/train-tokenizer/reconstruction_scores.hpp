// The scores of a tokenizer's reconstructions: components of the kind score (kinora/abi/score.h).
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/run/job.hpp"
#include "core/torch/network/score_instance.hpp"

namespace kinora::core {

// Scores read `prediction` and `target`, the reconstruction and the original [B, 3, T, H, W] in [-1, 1]; with a
// feature model also `real` and `made` [B, D], the features of original and reconstruction.
class ReconstructionScores {
 public:
  // The scores in the job's slot `scores`; without any: psnr, ssim and, with a feature model, frechet. Throws
  // Error(KINORA_ERROR_INVALID) for a score of other inputs, for two that give one number, and for a feature
  // model that no score reads.
  ReconstructionScores(const JobView&, bool has_features);

  // of_features: the scores that read features, otherwise the others. Given tensors that they do not read are
  // ignored.
  void update(bool of_features, const NamedTensors& in);
  // [owner-thread] Collective over the group, whose ranks have seen the samples in the order of the ranks.
  // Numbers by name; a score without a number for these samples is left out, which is logged.
  std::map<std::string, double> numbers(const kinora_group&) const;

 private:
  struct Part {
    Component component;
    Options options;
    bool of_features;
    std::unique_ptr<ScoreInstance> score;
  };
  void add(const Component&, const Options&, bool has_features);
  std::string job_;
  std::vector<Part> parts_;
};

}  // namespace kinora::core
