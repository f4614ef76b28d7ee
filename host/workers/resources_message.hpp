// What a stage occupies, in a message of its process.
#pragma once
#include <nlohmann/json.hpp>

#include "kinora/abi/stage.h"

namespace kinora::core {

inline nlohmann::json put_resources(const kinora_resources& r) {
  return {{"ordered", r.ordered},   {"cores", r.cores}, {"gpus", r.gpus},   {"memory", r.memory},
          {"isolated", r.isolated}, {"nvdec", r.nvdec}, {"nvenc", r.nvenc}, {"batch", r.batch}};
}

// Throws json::exception.
inline kinora_resources take_resources(const nlohmann::json& told) {
  kinora_resources out{};
  out.struct_size = sizeof out;
  out.ordered = told.at("ordered");
  out.cores = told.at("cores");
  out.gpus = told.at("gpus");
  out.memory = told.at("memory");
  out.isolated = told.at("isolated");
  out.nvdec = told.at("nvdec");
  out.nvenc = told.at("nvenc");
  out.batch = told.at("batch");
  return out;
}

}  // namespace kinora::core
