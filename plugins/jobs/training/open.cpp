// Makes this library a plugin that core can open for its tools.
#include "core/runtime/runtime.hpp"
#include "core/torch/tensors/torch_guard.hpp"
#include "kinora/abi/plugin.h"
#include "plugins/jobs/training/caption_vectors.hpp"
#include "plugins/jobs/training/check_parallel.hpp"
#include "plugins/jobs/training/outline.hpp"

extern "C" KINORA_EXPORT void kinora_training_open(const kinora_host*) {
  using namespace kinora::core;
  register_tool("check_parallel", plain<check_parallel, Runtime, const json>);
  register_outline(plain<outline_model, const JobView, const std::optional<LatentSize>>);
  register_tool("embed_texts", plain<embed_texts, Runtime, const json>);
}
