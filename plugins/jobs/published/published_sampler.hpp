// Translates the scheduler of a published pipeline (scheduler_config.json) into Kinora's sampler and loss.
#pragma once
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kinora/error.hpp"

namespace kinora::core {

// Returns a member of a configuration, or `otherwise` if it is absent or null. Another type is an error.
template <class T>
inline T said_in(const nlohmann::json& config, const char* name, T otherwise) {
  const nlohmann::json value = config.value(name, nlohmann::json());
  if (value.is_null()) return otherwise;
  try {
    return value.get<T>();
  } catch (const nlohmann::json::exception&) {
    throw Error(KINORA_ERROR_DATA, fmt::format("{} = {} has the wrong type; expected one like {}", name,
                                               value.dump(), nlohmann::json(otherwise).dump()));
  }
}

// {"sampler", "loss"} of a flow-matching pipeline's scheduler, with this many steps. Throws
// kinora::Error(KINORA_ERROR_UNSUPPORTED) for a scheduler or a setting that needs another sampler.
nlohmann::json flow_sampler(const nlohmann::json& scheduler, int64_t steps);
// {"sampler", "loss", "sigma_data"} of Cosmos' scheduler, on EDM's grid. Throws the same.
nlohmann::json edm_sampler(const nlohmann::json& scheduler, int64_t steps);

}  // namespace kinora::core
