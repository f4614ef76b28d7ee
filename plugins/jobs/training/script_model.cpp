#include "plugins/jobs/training/script_model.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include "core/io/byte_source.hpp"
#include "core/torch/tensors/torch_guard.hpp"

namespace kinora::core {

struct ScriptModel::State {
  std::string file;
  torch::jit::Module module;
  std::unordered_map<std::string, c10::IValue> arguments;
};

bool ScriptModel::is_one(const std::filesystem::path& path) {
  return path.extension() == ".pt" || path.extension() == ".jit";
}

ScriptModel::ScriptModel(const std::filesystem::path& file) : state_(std::make_unique<State>()) {
  if (!std::filesystem::exists(file)) throw Error(KINORA_NOT_FOUND, file.string() + " does not exist");
  or_throw(check_regular_file(file.string()));
  state_->file = file.string();
  try {
    state_->module = torch::jit::load(file.string(), at::kCPU);
    state_->module.eval();
    for (const auto& argument : state_->module.get_method("forward").function().getSchema().arguments())
      for (const auto& [name, value] :
           {std::pair{"rescale", false}, {"resize", true}, {"return_features", true}})
        if (argument.name() == name) state_->arguments[name] = value;
  } catch (const std::exception& e) {
    const auto* of_torch = dynamic_cast<const c10::Error*>(&e);
    raise(KINORA_INVALID, "{} is not a TorchScript file that libtorch can read ({}); write it with torch.jit.save",
          file.string(), (of_torch ? text_of(*of_torch) : e.what()).substr(0, 160));
  }
}

ScriptModel::~ScriptModel() = default;

at::Tensor ScriptModel::operator()(const at::Tensor& video) {
  c10::IValue out;
  try {
    out = state_->module.get_method("forward")({video}, state_->arguments);
  } catch (const std::exception& e) {
    const auto* of_torch = dynamic_cast<const c10::Error*>(&e);
    raise(KINORA_INVALID, "{}: its forward fails on a video {}: {}", state_->file, c10::str(video.sizes()),
          of_torch ? text_of(*of_torch) : e.what());
  }
  if (!out.isTensor() || out.toTensor().dim() != 2 || out.toTensor().size(0) != video.size(0))
    raise(KINORA_INVALID, "{}: its forward must return a tensor [B, D], one vector per video; it returned {}",
          state_->file, out.isTensor() ? c10::str(out.toTensor().sizes()) : out.tagKind());
  return out.toTensor();
}

}  // namespace kinora::core
