// The line of items.jsonl about one end.
#pragma once
#include <nlohmann/json.hpp>

#include "plugins/jobs/curation/inputs.hpp"
#include "kinora/abi/engine.h"
#include "kinora/sample.hpp"

namespace kinora::core {

// key, end ("kept", "filtered", "failed"), consumed; stage, reason and score where it ended early, of a
// failure its status
// ("data", "io", ...: the ABI's codes in words); facts, shots, caption, what is damaged; of a made sample the
// `parent` that its facts name, or its key as a branch's copy. url: of the input; empty for a made sample.
json item_line(const Sample& sample, const kinora_outcome& outcome, const std::string& url);

// Of an input that no stage has seen. rule: why it is filtered; empty: it failed with `reason`.
json unread_line(const Input& input, const std::string& rule, const std::string& reason,
                 int32_t status = KINORA_DATA);

}  // namespace kinora::core
