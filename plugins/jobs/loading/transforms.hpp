// Stages that change a sample on its way from a shard into training.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/run/run_file.hpp"
#include "core/runtime/call.hpp"
#include "plugins/jobs/loading/lost_samples.hpp"
#include "plugins/jobs/loading/stage_chain.hpp"

namespace kinora::core {

// [owner-thread] A sample passes them also after the run was asked to stop, since a training step may need it; but a
// stage that then does not end (NeededCall) is stopped: Error(KINORA_ERROR_CANCELLED).
class Transforms {
 public:
  // stages: as of StageChain; an empty list changes nothing. seed: the run's. trusts_media: of Isolation. Throws
  // Error(KINORA_ERROR_INVALID) for an unknown stage or option.
  Transforms(Registry&, const json& stages, uint64_t seed, bool trusts_media);
  Transforms(const Transforms&) = delete;
  Transforms& operator=(const Transforms&) = delete;

  // The first sample that leaves the stages; nothing, with the reason in `unused`, if none does. In the stages the
  // sample has the field `slot`, decimal digits, from which those that are random draw their numbers.
  std::optional<Sample> operator()(Sample sample, uint64_t slot, Unused& unused);

 private:
  static Transforms& of(void* self) { return *static_cast<Transforms*>(self); }
  kinora_emit sink();

  std::optional<Sample> made_;
  Unused unused_;
  NeededCall call_;
  kinora_run run_;
  kinora_emit to_;
  std::optional<StageChain> chain_;
};

// The transforms of a job in the order of its list, as lists for Transforms. All from the first one on that
// reads the tensor `frames` are for the decoded window, those before it for the sample as it is stored.
struct TransformLists {
  json of_samples = json::array(), of_windows = json::array();
};
TransformLists transform_lists(const Registry&, const std::vector<const ComponentUse*>& transforms);

}  // namespace kinora::core
