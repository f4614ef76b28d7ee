#include "core/torch/weights/archives.hpp"

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/import_read.h>

#include "core/run/apply_published.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {
namespace {

NamedTensors parameters_of_script(const std::string& file) {
  NamedTensors out;
  const auto module = torch::jit::load(file, at::kCPU);
  for (const auto& p : module.named_parameters(true)) out.emplace(p.name, p.value.detach());
  return out;
}

// What is no tensor, such as a step's number, is left aside.
NamedTensors tensors_of_dict(const c10::IValue& saved) {
  NamedTensors out;
  if (!saved.isGenericDict()) return out;
  for (const auto& item : saved.toGenericDict()) {
    if (!item.key().isString()) continue;
    const std::string name = item.key().toStringRef();
    if (item.value().isTensor()) out.emplace(name, item.value().toTensor().detach());
    if ((name == "model" || name == "state_dict") && item.value().isGenericDict())
      return tensors_of_dict(item.value());
  }
  return out;
}

NamedTensors tensors_in(const std::string& file) {
  caffe2::serialize::PyTorchStreamReader reader(file);
  if (reader.hasRecord("constants.pkl")) return parameters_of_script(file);
  return tensors_of_dict(torch::jit::readArchiveAndTensors("data", "", "", std::nullopt, std::nullopt,
                                                           at::Device(at::kCPU), reader));
}

}  // namespace

bool is_archive(const std::filesystem::path& given) { return !archives_of(given).empty(); }

bool may_hold_more(const std::filesystem::path& given) {
  const auto files = archives_of(given);
  return !files.empty() && files[0].extension() == ".jit";
}

NamedTensors read_archive(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) throw Error(KINORA_NOT_FOUND, file.string() + " does not exist");
  NamedTensors out;
  try {
    out = tensors_in(file.string());
  } catch (const c10::Error& e) {
    throw Error(KINORA_INVALID,
                file.string() + " is no archive of weights that libtorch reads (" +
                    text_of(e).substr(0, 120) +
                    "); give a safetensors file, TorchScript, or what torch.save(dict(tensors), "
                    "FILE) writes: libtorch reads no OrderedDict, which a state_dict is");
  } catch (const std::exception& e) {
    throw Error(KINORA_INVALID, file.string() + " is no archive of weights: " + e.what());
  }
  if (out.empty())
    throw Error(KINORA_INVALID,
                file.string() +
                    " holds no parameters; a frozen archive keeps none by name, and of torch.save "
                    "a dict of tensors is read");
  return out;
}

NamedTensors read_archives(const std::filesystem::path& given) {
  NamedTensors all;
  for (const auto& file : archives_of(given)) all.merge(read_archive(file));
  return all;
}

}  // namespace kinora::core
