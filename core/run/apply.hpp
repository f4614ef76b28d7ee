// One component, alone, on one input: how anyone looks at a component, and how it is compared with another
// implementation.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/plugin/options.hpp"
#include "core/runtime/runtime.hpp"

namespace kinora::core {

struct ApplyRequest {
  std::string id;                // "stage/shots.content"
  std::string input;             // of a stage: a file
  std::filesystem::path inputs;  // of the others: safetensors with the interface's argument names
  std::filesystem::path out;     // of a stage: a folder; of the others: a safetensors file
  std::string method;            // "encode", "decode", "gradient" ...
  std::string weights;           // safetensors, file or folder, with the component's parameters; empty: as initialised
  std::string config;            // JSON whose members are options, below those of `options`; empty: a folder of
                                 // weights' own config.json, if it has one
  json options = json::object();
  int64_t seed = 0;
};

struct ApplyResult {
  json result;          // what --json prints
  std::string problem;  // why the result is not whole (a damaged film); empty if it is
};

// Options of the component, checked; all problems in one failure. Keys that apply understands itself are not
// among them.
Options apply_options(Runtime&, const ApplyRequest&);

ApplyResult apply_stage(Runtime&, const ApplyRequest&);

}  // namespace kinora::core
