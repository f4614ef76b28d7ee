// Messages of the engine about stages.
#pragma once
#include <string>

#include "stage_state.hpp"

namespace kinora::local {

constexpr const char* kNeverTold = "held by the stage and never ended; fix its finish()";

constexpr const char* kNobodyAsked = "returned KINORA_CANCELLED although the run was not asked to stop";

inline std::string of_stage(const StageState& stage, const std::string& message) {
  return "stage '" + std::string(stage.spec->name) + "': " + message;
}

inline std::string last_message(int32_t status) {
  const std::string text(view(host()->last_error(host())));
  return text.empty() ? "failed with status " + std::to_string(status) : text;
}

}  // namespace kinora::local
