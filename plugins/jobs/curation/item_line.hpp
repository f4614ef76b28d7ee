// The line of items.jsonl about one outcome.
#pragma once
#include <nlohmann/json.hpp>

#include "plugins/jobs/curation/record.hpp"
#include "kinora/abi/engine.h"
#include "kinora/sample.hpp"

namespace kinora::core {

// Members: key, end ("kept", "filtered", "failed"), consumed; stage, reason and score where it ended early,
// and the status of a failure ("data", "io", ...: the ABI's codes in words); facts, shots, caption and
// damage; for a made sample `parent`, the key of the input that it was made of, or `parents`, those of several.
// url: the input's; empty for a made sample.
json item_line(const Sample& sample, const kinora_outcome& outcome, const Lineage& lineage, const std::string& url);

// The line of an input that no stage has seen. rule: the rule that filtered it; empty: it failed with
// `reason`.
json unread_line(const Input& input, const std::string& rule, const std::string& reason,
                 int32_t status = KINORA_DATA);

}  // namespace kinora::core
