#include "plugins/stages/transnetv2/network.hpp"

#include <ATen/ATen.h>

#include "kinora/error.hpp"

namespace kinora::transnetv2 {
namespace {

using at::Tensor;

constexpr int64_t kFilters = 16, kBlocks = 3, kCells = 2, kHidden = 1024, kLikeness = 128, kWindow = 101;
constexpr std::array<int64_t, 4> kDilations{1, 2, 4, 8};
constexpr double kNormEpsilon = 1e-3;

std::string cell_name(int64_t block, int64_t cell) {
  return "SDDCNN." + std::to_string(block) + ".DDCNN." + std::to_string(cell);
}

std::string shape_text(at::IntArrayRef shape) {
  std::string out = "[";
  for (const int64_t side : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(side);
  return out + "]";
}

}  // namespace

const std::map<std::string, std::vector<int64_t>>& expected_weights() {
  static const auto all = [] {
    std::map<std::string, std::vector<int64_t>> out;
    int64_t in = 3, features = 0;
    for (int64_t b = 0; b < kBlocks; ++b) {
      const int64_t filters = kFilters << b;
      for (int64_t c = 0; c < kCells; ++c, in = 4 * filters) {
        for (const int64_t dilation : kDilations) {
          const std::string conv = cell_name(b, c) + ".Conv3D_" + std::to_string(dilation) + ".layers.";
          out[conv + "0.weight"] = {2 * filters, in, 1, 3, 3};
          out[conv + "1.weight"] = {filters, 2 * filters, 3, 1, 1};
        }
        for (const char* of : {"weight", "bias", "running_mean", "running_var"})
          out[cell_name(b, c) + ".bn." + of] = {4 * filters};
      }
      features += 4 * filters;
    }
    const auto add_linear = [&](const std::string& name, int64_t outputs, int64_t inputs) {
      out[name + ".weight"] = {outputs, inputs};
      out[name + ".bias"] = {outputs};
    };
    add_linear("frame_sim_layer.projection", kLikeness, features);
    add_linear("frame_sim_layer.fc", kLikeness, kWindow);
    add_linear("color_hist_layer.fc", kLikeness, kWindow);
    add_linear("fc1", kHidden, in * 3 * 6 + 2 * kLikeness);
    add_linear("cls_layer1", 1, kHidden);
    add_linear("cls_layer2", 1, kHidden);
    return out;
  }();
  return all;
}

Network::Network(Weights weights, const std::string& source) : weights_(std::move(weights)) {
  for (const auto& [name, shape] : expected_weights()) {
    const auto found = weights_.find(name);
    if (found == weights_.end())
      throw Error(KINORA_DATA, source + ": no float32 tensor '" + name + "'; give the weights of TransNetV2");
    if (found->second.sizes() != at::IntArrayRef(shape))
      throw Error(KINORA_DATA, source + ": '" + name + "' has shape " + shape_text(found->second.sizes()) +
                                   ", expected " + shape_text(shape) + "; use the weights of TransNetV2");
  }
}

Tensor Network::linear(const std::string& name, const Tensor& x) const {
  return at::linear(x, weight(name + ".weight"), weight(name + ".bias"));
}

// Four parallel pairs of a spatial and a temporal convolution, at four dilations.
Tensor Network::cell(const std::string& name, const Tensor& x) const {
  std::vector<Tensor> parts;
  for (const int64_t dilation : kDilations) {
    const std::string conv = name + ".Conv3D_" + std::to_string(dilation) + ".layers.";
    const Tensor space = at::conv3d(x, weight(conv + "0.weight"), {}, 1, {0, 1, 1});
    parts.push_back(at::conv3d(space, weight(conv + "1.weight"), {}, 1, {dilation, 0, 0}, {dilation, 1, 1}));
  }
  const std::string norm = name + ".bn.";
  return at::batch_norm(at::cat(parts, 1), weight(norm + "weight"), weight(norm + "bias"),
                        weight(norm + "running_mean"), weight(norm + "running_var"), false, 0, kNormEpsilon,
                        false);
}

// x: [B, C, T, H, W]; the result has half the width and height.
Tensor Network::block(const std::string& name, const Tensor& x) const {
  const Tensor first = at::relu(cell(name + ".DDCNN.0", x));
  const Tensor second = at::relu(cell(name + ".DDCNN.1", first));
  return at::avg_pool3d(second + first, {1, 2, 2});
}

Tensor Network::feature_likeness(const std::vector<Tensor>& blocks) const {
  std::vector<Tensor> means;
  for (const Tensor& x : blocks) means.push_back(x.mean({3, 4}));
  const Tensor x = linear("frame_sim_layer.projection", at::cat(means, 1).transpose(1, 2));
  const Tensor unit = x / x.norm(2, {2}, true).clamp_min(1e-12);
  return at::relu(linear("frame_sim_layer.fc", likeness_around(unit)));
}

Network::Predictions Network::operator()(const Tensor& frames) const {
  Tensor x = frames.permute({0, 4, 1, 2, 3}).to(at::kFloat).contiguous() / 255.0;
  std::vector<Tensor> blocks;
  for (int64_t b = 0; b < kBlocks; ++b) blocks.push_back(x = block("SDDCNN." + std::to_string(b), x));
  const Tensor pictures = x.permute({0, 2, 3, 4, 1}).flatten(2);
  const Tensor colours = at::relu(linear("color_hist_layer.fc", likeness_around(colour_histograms(frames))));
  const Tensor hidden = at::relu(linear("fc1", at::cat({colours, feature_likeness(blocks), pictures}, 2)));
  const auto probability = [&](const char* head) { return at::sigmoid(linear(head, hidden)).squeeze(2); };
  return {probability("cls_layer1"), probability("cls_layer2")};
}

Tensor likeness_around(const Tensor& x) {
  const int64_t B = x.size(0), T = x.size(1), reach = kWindow / 2, row = T + 2 * reach;
  const Tensor padded = at::constant_pad_nd(at::bmm(x, x.transpose(1, 2)), {reach, reach}).contiguous();
  // Row t begins at column t: a view whose row stride exceeds the row length by one.
  return padded.as_strided({B, T, kWindow}, {T * row, row + 1, 1});
}

Tensor colour_histograms(const Tensor& frames) {
  constexpr int64_t kColours = 512;
  const int64_t B = frames.size(0), T = frames.size(1), pixels = frames.size(2) * frames.size(3);
  Tensor counts = at::zeros({B, T, kColours}, at::kFloat);
  const uint8_t* rgb = frames.const_data_ptr<uint8_t>();
  float* out = counts.data_ptr<float>();
  for (int64_t i = 0; i < B * T; ++i, out += kColours)
    for (int64_t p = 0; p < pixels; ++p, rgb += 3)
      ++out[(rgb[0] >> 5) << 6 | (rgb[1] >> 5) << 3 | rgb[2] >> 5];
  return counts / counts.norm(2, {2}, true).clamp_min(1e-12);
}

}  // namespace kinora::transnetv2
