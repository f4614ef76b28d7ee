// A model exported by PyTorch: a TorchScript archive, or an AOTInductor package (.pt2), which is machine code.
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace kinora::exported {

class Model {
 public:
  // Error(KINORA_INVALID), which names the file and how to write it, if libtorch cannot read it. A package that
  // other users may write is refused, because it is code.
  static std::unique_ptr<Model> open(const std::filesystem::path& file, at::Device device);
  virtual ~Model() = default;
  // Returns output number `output` of the model, float32 on the CPU. One thread at a time. Error(KINORA_DATA)
  // with libtorch's text.
  at::Tensor operator()(const at::Tensor& input, int64_t output);

 protected:
  virtual std::vector<at::Tensor> forward(const at::Tensor& input) = 0;
  std::string file_;
};

// Parses "auto" (the first GPU that libtorch finds, else the CPU), "cpu", "cuda" or "cuda:1".
at::Device device_of(const std::string& name);

// Sets the number of threads of tensor operations started by this thread. The last bits of results depend on it.
void use_threads(int64_t threads);

}  // namespace kinora::exported
