#include "plugins/losses/perceptual/distance.hpp"

#include <algorithm>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "kinora/aten.hpp"
#include "kinora/error.hpp"
#include "kinora/io.hpp"

namespace kinora::perceptual {
namespace {

using nlohmann::json;
constexpr uint64_t kLongestHeader = 100'000'000;  // limit of the format

[[noreturn]] void refuse(const std::string& uri, const std::string& why) {
  throw Error(KINORA_ERROR_INVALID, uri + " is not a safetensors file: " + why);
}

void read_exactly(const Reader& file, const std::string& uri, uint64_t at, void* to, uint64_t size) {
  if (file.read(at, to, size) != size) refuse(uri, "it ends before byte " + std::to_string(at + size));
}

at::Tensor read_tensor(const Reader& file, const std::string& uri, uint64_t data, const json& entry) {
  const auto dtype = entry.at("dtype").get<std::string>();
  if (dtype != "F32" && dtype != "F64") return {};
  const auto shape = entry.at("shape").get<std::vector<int64_t>>();
  const auto range = entry.at("data_offsets").get<std::vector<uint64_t>>();
  const uint64_t room = static_cast<uint64_t>(file.size()) - data, size = dtype == "F32" ? 4 : 8;
  uint64_t bytes = size;
  for (const int64_t n : shape) {
    if (n < 0 || (n > 0 && bytes > room / static_cast<uint64_t>(n)))
      refuse(uri, "a tensor is larger than the file");
    bytes *= static_cast<uint64_t>(n);
  }
  if (range.size() != 2 || range[0] > room || range[1] > room || range[1] - range[0] != bytes)
    refuse(uri, "a tensor's range is outside the file");
  at::Tensor out = at::empty(shape, size == 4 ? at::kFloat : at::kDouble);
  read_exactly(file, uri, data + range[0], out.data_ptr(), bytes);
  return out;
}

// The float32 and float64 tensors of a safetensors file by name; others are ignored. Throws kinora::Error if
// it is not a safetensors file.
std::map<std::string, at::Tensor> read_weights(const std::string& uri) {
  const Reader file(uri);
  uint64_t length = 0;
  read_exactly(file, uri, 0, &length, sizeof length);
  if (length > kLongestHeader || length + 8 > static_cast<uint64_t>(file.size()))
    refuse(uri, "its header would have " + std::to_string(length) + " bytes");
  std::string text(length, '\0');
  read_exactly(file, uri, 8, text.data(), length);
  std::map<std::string, at::Tensor> out;
  try {
    const json header = json::parse(text);
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const at::Tensor t = read_tensor(file, uri, 8 + length, entry);
      if (t.defined()) out[name] = t;
    }
  } catch (const json::exception& e) {
    refuse(uri, e.what());
  }
  return out;
}

using at::Tensor;
constexpr int64_t kTogether = 32;  // frames that the network processes at a time

std::string lin(size_t i) { return "lin" + std::to_string(i) + ".model.1.weight"; }

void check_video(const char* name, const Tensor& x) {
  if (x.dim() != 5 || x.size(1) != 3 || !x.is_floating_point())
    throw Error(KINORA_ERROR_INVALID, "lpips: " + std::string(name) +
                                          " must be a floating-point tensor [B, 3, T, H, W], found " +
                                          c10::str(x.scalar_type(), x.sizes()));
}

// [B, 3, T, H, W] -> [B * T, 3, H, W], from [-1, 1] to the mean and deviation of ImageNet.
Tensor images(const Tensor& video) {
  const Tensor x = video.transpose(1, 2).flatten(0, 1);
  const auto channel = [&](int64_t i, double shift, double scale) {
    return (x.select(1, i) - shift) / scale;
  };
  return at::stack({channel(0, -.030, .458), channel(1, -.088, .448), channel(2, -.188, .450)}, 1);
}

// At a pixel without any activation the gradient of the norm is 0, where that of a square root is undefined.
Tensor unit(const Tensor& x) { return x / (at::linalg_vector_norm(x, 2, at::IntArrayRef{1}, true) + 1e-10); }

}  // namespace

LpipsDistance::LpipsDistance(const LpipsOptions& o) : trunk_(trunk_of(o.net)) {
  if (o.weights.empty())
    throw Error(KINORA_ERROR_INVALID,
                "lpips needs `weights`: a safetensors file of the lpips package's state_dict()");
  const auto found = read_weights(o.weights);
  auto shapes = parameters_of(trunk_);
  for (size_t i = 0; i < trunk_.channels.size(); ++i) shapes[lin(i)] = {1, trunk_.channels[i], 1, 1};
  for (const auto& [name, shape] : shapes) {
    const auto it = found.find(name);
    if (it == found.end())
      throw Error(KINORA_ERROR_INVALID, o.weights + " has no float tensor '" + name + "', which net = \"" +
                                            o.net + "\" needs; save lpips.LPIPS(net=\"" + o.net +
                                            "\").state_dict()");
    if (it->second.sizes() != at::IntArrayRef(shape))
      throw Error(KINORA_ERROR_INVALID, o.weights + ": '" + name + "' is " + c10::str(it->second.sizes()) +
                                            ", net = \"" + o.net + "\" has " +
                                            c10::str(at::IntArrayRef(shape)));
    weights_[name] = it->second;
  }
}

const LpipsDistance::Weights& LpipsDistance::like(const Tensor& x) {
  auto& made = converted_[c10::str(x.options().dtype(), x.device())];
  if (made.empty())
    for (const auto& [name, t] : weights_) made[name] = t.to(x.options());
  return made;
}

Tensor LpipsDistance::operator()(const Tensor& prediction, const Tensor& target, const Run* run) {
  check_video("prediction", prediction);
  check_video("target", target);
  if (prediction.sizes() != target.sizes())
    throw Error(KINORA_ERROR_INVALID, "lpips: prediction is " + c10::str(prediction.sizes()) + ", target " +
                                          c10::str(target.sizes()));
  const auto wide = at::promote_types(prediction.scalar_type(), at::kFloat);
  const Tensor a = images(prediction.to(wide)), b = images(target.to(wide));
  const Weights& w = like(a);
  std::vector<Tensor> distances;
  for (int64_t at = 0; at < a.size(0); at += kTogether) {
    if (run) run->check_cancelled();
    const int64_t n = std::min(kTogether, a.size(0) - at);
    const auto of_a = features(trunk_, w, a.narrow(0, at, n)), of_b = features(trunk_, w, b.narrow(0, at, n));
    Tensor sum;
    for (size_t i = 0; i < of_a.size(); ++i) {
      const Tensor d = at::conv2d((unit(of_a[i]) - unit(of_b[i])).square(), w.at(lin(i))).mean({1, 2, 3});
      sum = sum.defined() ? sum + d : d;
    }
    distances.push_back(sum);
  }
  return at::cat(distances).view({prediction.size(0), prediction.size(2)}).mean(1);
}

}  // namespace kinora::perceptual
