#include "core/torch/weights/archives.hpp"

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include "core/io/byte_source.hpp"
#include "core/run/weights.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

NamedTensors parameters_of_script(const std::string& file) {
  NamedTensors out;
  const auto module = torch::jit::load(file, at::kCPU);
  for (const auto& p : module.named_parameters(true)) out.emplace(p.name, p.value.detach());
  return out;
}

NamedTensors tensors_in(const std::string& file) {
  if (!caffe2::serialize::PyTorchStreamReader(file).hasRecord("constants.pkl"))
    throw Error(KINORA_UNSUPPORTED,
                file + " is a pickle of torch.save, which is never read; convert it once: python -c \"import torch; from "
                       "safetensors.torch import save_file; save_file({k: v.contiguous() for k, v in torch.load('" +
                    file + "', weights_only=True).items() if torch.is_tensor(v)}, 'model.safetensors')\"");
  return parameters_of_script(file);
}

}  // namespace

bool is_archive(const std::filesystem::path& given) { return !archives_of(given).empty(); }

bool may_hold_more(const std::filesystem::path& given) {
  const auto files = archives_of(given);
  return !files.empty() && files[0].extension() == ".jit";
}

NamedTensors read_archive(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) throw Error(KINORA_NOT_FOUND, file.string() + " does not exist");
  or_throw(check_regular_file(file.string()));
  NamedTensors out;
  try {
    out = tensors_in(file.string());
  } catch (const c10::Error& e) {
    throw Error(KINORA_INVALID,
                file.string() + " is not an archive that libtorch reads (" + text_of(e).substr(0, 120) +
                    "); give a safetensors file or TorchScript");
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    throw Error(KINORA_INVALID, file.string() + " is not an archive of weights: " + e.what());
  }
  if (out.empty())
    throw Error(KINORA_INVALID,
                file.string() + " holds no parameters; a frozen archive keeps none by name");
  return out;
}

NamedTensors read_archives(const std::filesystem::path& given) {
  NamedTensors all;
  for (const auto& file : archives_of(given)) all.merge(read_archive(file));
  return all;
}

}  // namespace kinora::core
