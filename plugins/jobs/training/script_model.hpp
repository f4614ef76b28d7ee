// A feature model in a TorchScript archive, the form in which the FVD's I3D is published.
#pragma once
#include <filesystem>
#include <memory>

#include <ATen/core/Tensor.h>

namespace kinora::core {

// forward(video [B, 3, T, H, W] in [-1, 1]) -> [B, D]. The further arguments of StyleGAN-V's I3D (arXiv
// 2112.14683) are passed by name: rescale = false, since pixels are in [-1, 1]; resize = true, to 224 x 224;
// return_features = true, not the logits.
class ScriptModel {
 public:
  // By its ending: .pt or .jit.
  static bool is_one(const std::filesystem::path&);
  // Throws Error(KINORA_INVALID) if libtorch cannot read it.
  explicit ScriptModel(const std::filesystem::path& file);
  ~ScriptModel();
  // Throws Error(KINORA_INVALID) if the script fails or returns anything else.
  at::Tensor operator()(const at::Tensor& video);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kinora::core
