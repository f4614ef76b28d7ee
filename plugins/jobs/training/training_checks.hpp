// The parts of a check that trainings share.
#pragma once
#include <optional>

#include "core/run/job_check.hpp"
#include "core/torch/weights/lora.hpp"
#include "plugins/jobs/training/options/train_options.hpp"

namespace kinora::core {

// Checks a train job's `lora` and `adapter`; throws Error(KINORA_ERROR_INVALID).
std::optional<LoraOptions> lora_of(const TrainOptions&);
// Checks that an adapter has weights to adapt; throws Error(KINORA_ERROR_INVALID).
void require_base(const TrainOptions&);

// Checks batch, device, parallel strategies and initial weights of a training.
void check_training(JobCheck&, const OptimizerOptions&, const ComponentUse& trained);

}  // namespace kinora::core
