#include "plugins/stages/transnetv2/network.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include "kinora/error.hpp"
#include "kinora/io.hpp"

namespace kinora::transnetv2 {
namespace {

constexpr uint64_t kLargestFile = uint64_t{1} << 30, kLargestHeader = uint64_t{16} << 20;

[[noreturn]] void refuse(const std::string& uri, const std::string& what) {
  throw Error(KINORA_ERROR_DATA,
              uri + ": " + what + "; run packaging/dev.sh setup to create the weights of TransNetV2 again");
}

std::vector<uint8_t> read_file(const std::string& uri) {
  Reader reader(uri);
  const auto size = static_cast<uint64_t>(reader.size());
  if (size < 8 || size > kLargestFile) refuse(uri, "not a safetensors file of these weights");
  std::vector<uint8_t> bytes(size);
  for (uint64_t done = 0; done < size;) {
    const auto n = static_cast<uint64_t>(reader.read(done, bytes.data() + done, size - done));
    if (n == 0) refuse(uri, "ends early");
    done += n;
  }
  return bytes;
}

at::Tensor tensor_of(const std::string& uri, const std::string& name, const nlohmann::json& entry,
                     const uint8_t* data, uint64_t data_size) {
  const auto shape = entry.at("shape").get<std::vector<int64_t>>();
  const auto range = entry.at("data_offsets").get<std::vector<uint64_t>>();
  uint64_t wanted = sizeof(float);
  for (const int64_t side : shape) {
    if (side < 0 || static_cast<uint64_t>(side) > kLargestFile || wanted > kLargestFile)
      refuse(uri, "'" + name + "' is too large");
    wanted *= static_cast<uint64_t>(side);
  }
  if (range.size() != 2 || range[0] > range[1] || range[1] > data_size || range[1] - range[0] != wanted)
    refuse(uri, "the bytes of '" + name + "' do not fit its shape");
  at::Tensor out = at::empty(shape, at::kFloat);
  std::memcpy(out.data_ptr(), data + range[0], wanted);
  return out;
}

}  // namespace

Weights read_safetensors(const std::string& uri) {
  const std::vector<uint8_t> bytes = read_file(uri);
  uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  if (header_size > kLargestHeader || header_size > bytes.size() - 8) refuse(uri, "its header is cut off");
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + 8;
  const auto header = nlohmann::json::parse(text, text + header_size, nullptr, false);
  if (!header.is_object()) refuse(uri, "its header is not a JSON object");
  Weights out;
  try {
    for (const auto& [name, entry] : header.items())
      if (name != "__metadata__" && entry.at("dtype") == "F32")
        out[name] =
            tensor_of(uri, name, entry, bytes.data() + 8 + header_size, bytes.size() - 8 - header_size);
  } catch (const nlohmann::json::exception& e) {
    refuse(uri, std::string("its header is wrong: ") + e.what());
  }
  return out;
}

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
      throw Error(KINORA_ERROR_DATA,
                  source + ": no float32 tensor '" + name + "'; give the weights of TransNetV2");
    if (found->second.sizes() != at::IntArrayRef(shape))
      throw Error(KINORA_ERROR_DATA, source + ": '" + name + "' has shape " +
                                         shape_text(found->second.sizes()) + ", expected " +
                                         shape_text(shape) + "; use the weights of TransNetV2");
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

namespace {

constexpr int64_t kFrames = 100, kStep = 50, kEdge = 25;

// Returns `count` windows from number `first` on: [count, 100, 27, 48, 3].
at::Tensor windows(const at::Tensor& thumbnails, int64_t first, int64_t count) {
  std::vector<int64_t> frames;
  for (int64_t w = first; w < first + count; ++w)
    for (int64_t i = 0; i < kFrames; ++i)
      frames.push_back(std::clamp<int64_t>(w * kStep + i - kEdge, 0, thumbnails.size(0) - 1));
  const auto at = at::tensor(frames, at::kLong);
  return thumbnails.index_select(0, at).view({count, kFrames, thumbnails.size(1), thumbnails.size(2), 3});
}

void append_middle(std::vector<float>& to, const at::Tensor& batch, size_t length) {
  const at::Tensor middle = batch.narrow(1, kEdge, kStep).contiguous();
  const float* from = middle.const_data_ptr<float>();
  to.insert(to.end(), from, from + std::min(static_cast<size_t>(middle.numel()), length - to.size()));
}

}  // namespace

FilmPredictions predict(const Ask& network, const at::Tensor& thumbnails, int64_t batch,
                        const std::function<void()>& before_batch) {
  const int64_t frames = thumbnails.size(0), all = (frames + kStep - 1) / kStep;
  FilmPredictions out;
  for (int64_t first = 0; first < all; first += batch) {
    before_batch();
    const auto answers = network(windows(thumbnails, first, std::min(batch, all - first)));
    append_middle(out.change, answers.change, static_cast<size_t>(frames));
    append_middle(out.part, answers.part, static_cast<size_t>(frames));
  }
  return out;
}

std::vector<int64_t> cuts_of(const std::vector<float>& change, double threshold) {
  std::vector<int64_t> cuts;
  for (size_t i = 1; i < change.size(); ++i)
    if (static_cast<double>(change[i - 1]) > threshold && static_cast<double>(change[i]) <= threshold)
      cuts.push_back(static_cast<int64_t>(i));
  return cuts;
}

}  // namespace kinora::transnetv2
