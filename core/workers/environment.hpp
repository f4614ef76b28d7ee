// The environment variables that a worker inherits. It parses untrusted media, so it gets no secret that it
// does not need: neither this process's tokens and passwords, nor the keys of storages as long as everything
// it reads is on this machine.
#pragma once
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace kinora::core {

// The entries NAME=value that a worker starts with: locations of programs and libraries, languages, folders,
// settings of numeric libraries and of Kinora, and the variables that the stage's options name (options ending in
// "_env", such as api_key_env). Storage variables are set to empty values: lending them later then replaces a
// value in place, which is safe for threads of a stage that read the environment.
std::vector<std::string> worker_environment(const nlohmann::json& stage_options);

// Credentials for storages on other machines: AWS_* and proxies.
nlohmann::json storage_environment();

// Whether the text is a URI of such a storage.
bool needs_storage(std::string_view uri);

// Whether an option of the stage is one.
bool names_storage(const nlohmann::json& stage_options);

}  // namespace kinora::core
