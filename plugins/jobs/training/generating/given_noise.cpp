#include "plugins/jobs/training/generating/given_noise.hpp"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "core/torch/weights/safe_tensors.hpp"

namespace kinora::core {
namespace {

const SafeTensor& noise_tensor(const Safetensors& opened, const std::filesystem::path& file, int64_t number,
                               const std::vector<int64_t>& shape) {
  const auto* found = opened.find(fmt::format("{:03}", number));
  if (!found)
    throw Error(KINORA_NOT_FOUND,
                fmt::format("{}: tensor '{:03}', the noise of video {}, is missing; the file has {} tensors, the first is '{}'", file.string(),
                            number, number, opened.names().size(), opened.names().empty() ? "" : opened.names()[0]));
  if (found->shape != shape)
    raise(KINORA_INVALID, "{}: noise '{:03}' is {}, but the latent is {} (channels, frames, rows, columns)",
          file.string(), number, fmt::format("[{}]", fmt::join(found->shape, ", ")),
          fmt::format("[{}]", fmt::join(shape, ", ")));
  return *found;
}

}  // namespace

void require_noise(const std::filesystem::path& file, int64_t number, const std::vector<int64_t>& shape) {
  noise_tensor(or_throw(Safetensors::open(file)), file, number, shape);
}

at::Tensor given_noise(const std::filesystem::path& file, int64_t number, const std::vector<int64_t>& shape) {
  const auto opened = or_throw(Safetensors::open(file));
  const at::Tensor noise =
      as_tensor(opened, noise_tensor(opened, file, number, shape)).to(at::kDouble).unsqueeze(0);
  if (!at::isfinite(noise).all().item<bool>())
    throw Error(KINORA_DATA,
                fmt::format("{}: noise '{:03}' has values that are not finite", file.string(), number));
  return noise;
}

}  // namespace kinora::core
