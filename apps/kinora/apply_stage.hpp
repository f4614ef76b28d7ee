// `kinora apply` for stages: one file in, the samples that the stage makes of it out.
#pragma once
#include "core/run/apply.hpp"

namespace kinora {

// Throws Error. request.out: a folder for the samples' fields; empty: none are written.
core::ApplyResult apply_stage(core::Runtime&, const core::ApplyRequest& request);

}  // namespace kinora
