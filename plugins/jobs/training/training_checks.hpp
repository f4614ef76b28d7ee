// The parts of a check that trainings share.
#pragma once
#include <optional>
#include <string>

#include "core/run/job_check.hpp"
#include "core/torch/weights/lora.hpp"
#include "plugins/jobs/training/options/train_options.hpp"

namespace kinora::core {

// Reads a job's options `lora` and `adapter`, of which one is given, or none. Throws Error(KINORA_ERROR_INVALID).
std::optional<LoraOptions> lora_of(const std::string& lora, const std::string& adapter);
inline std::optional<LoraOptions> lora_of(const TrainOptions& o) { return lora_of(o.lora, o.adapter); }
// Checks that an adapter has weights to adapt; throws Error(KINORA_ERROR_INVALID).
void require_base(const TrainOptions&);

// Checks batch, device, parallel strategies and initial weights of a training.
void check_training(JobCheck&, const OptimizerOptions&, const ComponentUse& trained);

}  // namespace kinora::core
