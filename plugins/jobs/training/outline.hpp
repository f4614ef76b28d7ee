// The outline of a train job's model (core/runtime/model_outline.hpp).
#pragma once
#include "core/runtime/model_outline.hpp"

namespace kinora::core {

ModelOutline outline_model(const JobView& train, const std::optional<LatentSize>& latent);

}  // namespace kinora::core
