// Messages of the engine about stages.
#pragma once
#include <string>

#include "stage_state.hpp"

namespace kinora::local {

constexpr const char* kNeverTold = "kept back by the stage, which never told its end; mend its finish()";

constexpr const char* kNobodyAsked = "says that it was cancelled, and nobody asked it to stop";

inline std::string of_stage(const StageState& stage, const std::string& message) {
  return "stage '" + std::string(stage.spec->name) + "': " + message;
}

inline std::string last_message(int32_t status) {
  const std::string text(view(host()->last_error(host())));
  return text.empty() ? "failed with status " + std::to_string(status) : text;
}

}  // namespace kinora::local
