// Any bytes as PEFT's adapter_config.json next to matrices of two modules: a usable adapter, or an error that
// names the file.
#include <cmath>
#include <cstdlib>

#include <ATen/ATen.h>

#include "core/torch/weights/lora.hpp"
#include "core/torch/weights/safe_tensors.hpp"
#include "kinora/error.hpp"
#include "tests/fuzz/files.hpp"

namespace {

namespace core = kinora::core;

const kinora::fuzz::Folder& folder() {
  static const kinora::fuzz::Folder made;
  static const bool filled = [] {
    core::NamedTensors tensors;
    for (const std::string module : {"blocks.0.attn1.to_q", "blocks.1.attn1.to_out.0"}) {
      tensors["base_model.model." + core::lora_a(module)] = at::ones({2, 3});
      tensors["base_model.model." + core::lora_b(module)] = at::ones({4, 2});
    }
    core::write_tensors(made.path() / "adapter_model.safetensors", tensors);
    return true;
  }();
  static_cast<void>(filled);
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  folder().write("adapter_config.json", data, size);
  try {
    const core::Adapter adapter = core::read_adapter(folder().path());
    const auto& o = adapter.options;
    if (adapter.modules.size() != 2 || o.rank < 1 || !(o.dropout >= 0 && o.dropout < 1)) std::abort();
    for (const auto& [module, pair] : adapter.modules)
      if (!std::isfinite(pair.scale)) std::abort();
  } catch (const kinora::Error& e) {
    if (std::string(e.what()).find(folder().path().string()) == std::string::npos) std::abort();
  }
  return 0;
}
