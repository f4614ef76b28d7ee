// A model's verdict on whether to keep a clip.
#pragma once
#include <string>
#include <vector>

#include "client.hpp"

namespace kinora::endpoint {

struct Verdict {
  bool keep = false;
  std::string reason;
  std::vector<std::string> labels;  // in lower case
};

// Parses {"keep": bool, "reason": str, "labels": [str]}; the last two may be absent. Throws Error(KINORA_DATA).
Verdict verdict_of(const Json& json);

// Lower-cases ASCII letters only.
std::string lower_case(std::string text);

}  // namespace kinora::endpoint
