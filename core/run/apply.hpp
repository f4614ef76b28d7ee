// Applies one component to one input, to examine it or to compare it with another implementation.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/plugin/options.hpp"
#include "core/runtime/runtime.hpp"

namespace kinora::core {

struct ApplyRequest {
  std::string id;                // "stage/shots.content"
  std::string input;             // for a stage: a file
  std::filesystem::path inputs;  // for other kinds: safetensors with the interface's argument names
  std::filesystem::path out;     // for a stage: a folder; for other kinds: a safetensors file
  std::string method;            // "encode", "decode", "gradient" ...
  std::string weights;           // safetensors, file or folder, with the component's parameters; empty: as initialised
  std::string config;            // JSON whose members are options that `options` overrides; empty: config.json of
                                 // the weights' folder, if it has one
  json options = json::object();
  int64_t seed = 0;
};

struct ApplyResult {
  json result;          // what --json prints
  std::string problem;  // why the result is incomplete (a damaged video); empty if it is complete
};

// The component's options, checked; all problems in one failure. Keys that apply handles itself are left out.
Options apply_options(Runtime&, const ApplyRequest&);

}  // namespace kinora::core
