// What a worker gets of this process's environment. It parses media that anybody made, so it has no secret
// that it has no use for: neither this process's tokens and passwords, nor the keys of storages as long as
// all that it reads lies on this machine.
#pragma once
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::core {

// The entries NAME=value that a worker starts with: where programs and libraries are, languages, folders,
// settings of numeric libraries and of Kinora, and the variables that the stage's options name (those that
// end in "_env", as api_key_env). Variables of storages are set to nothing: lending them later replaces a value in
// place, which threads of a stage that read the environment then do not notice.
std::vector<std::string> worker_environment(const nlohmann::json& stage_options);

// What storages of other machines are reached with: AWS_* and proxies.
nlohmann::json storage_environment();

// Whether the text is a URI of such a storage.
bool needs_storage(std::string_view uri);

// Whether an option of the stage is one.
bool names_storage(const nlohmann::json& stage_options);

}  // namespace kinora::core
