#include "core/torch/weights/jit_weights.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include "core/data/byte_source.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

bool is_jit(const std::filesystem::path& path) {
  return path.extension() == ".jit" || std::filesystem::exists(path / "encoder.jit");
}

NamedTensors read_jit(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    NamedTensors both = read_jit(path / "encoder.jit");
    both.merge(read_jit(path / "decoder.jit"));
    return both;
  }
  if (!std::filesystem::exists(path)) throw Error(KINORA_NOT_FOUND, path.string() + " does not exist");
  or_throw(check_regular_file(path.string()));
  NamedTensors out;
  try {
    const auto module = torch::jit::load(path.string(), at::kCPU);
    for (const auto& p : module.named_parameters(true)) out.emplace(p.name, p.value.detach());
  } catch (const c10::Error& e) {
    throw Error(KINORA_INVALID, path.string() + " is no TorchScript archive that libtorch reads (" +
                                    text_of(e).substr(0, 120) +
                                    "); give an encoder.jit, decoder.jit or a safetensors file");
  } catch (const std::exception& e) {
    throw Error(KINORA_INVALID, path.string() + " is no TorchScript archive: " + e.what());
  }
  if (out.empty())
    throw Error(KINORA_INVALID, path.string() + " holds no parameters; a frozen archive keeps none by name");
  return out;
}

}  // namespace kinora::core
