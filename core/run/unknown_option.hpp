// Suggests what to write instead of a key that a kind of job does not have.
#pragma once
#include <string>

#include "core/run/run_file.hpp"

namespace kinora::core {

// The end of a message about the unknown option `key` of a job whose components are read: the component that
// has the option, the right name of weights, or similar names. Empty: nothing is similar.
std::string hint_for_unknown(const Registry&, const JobSpec&, const std::string& key,
                             const nlohmann::json& value);

}  // namespace kinora::core
