#include "shots/transnetv2.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "media/byte_source.hpp"

namespace kinora::video::transnetv2 {
namespace {

constexpr int64_t kFilters = 16, kBlocks = 3, kCells = 2, kHidden = 1024, kLikeness = 128, kReach = 50,
                  kAround = 2 * kReach + 1, kColours = 512;
constexpr std::array<int64_t, 4> kDilations{1, 2, 4, 8};
constexpr int64_t kLongest = 8;  // the cells' delay, in frames
constexpr double kNormEpsilon = 1e-3;

std::string cell_name(int64_t block, int64_t cell) {
  return "SDDCNN." + std::to_string(block) + ".DDCNN." + std::to_string(cell);
}

std::string conv_name(const std::string& cell, int64_t dilation, int64_t layer) {
  return cell + ".Conv3D_" + std::to_string(dilation) + ".layers." + std::to_string(layer) + ".weight";
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (const int64_t side : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(side);
  return out + "]";
}

void check_weights(const Weights& weights, const std::string& source) {
  for (const auto& [name, shape] : expected_weights()) {
    const auto found = weights.find(name);
    if (found == weights.end())
      throw MediaError(source + ": no float32 tensor '" + name + "'; give the weights of TransNet V2");
    if (found->second.shape != shape)
      throw MediaError(source + ": '" + name + "' has shape " + shape_text(found->second.shape) +
                       ", expected " + shape_text(shape) + "; use the weights of TransNet V2");
  }
}

// A convolution's [N, K, taps] as [N, taps, K].
std::vector<float> taps_first(const std::vector<float>& weight, int64_t outputs, int64_t depth,
                              int64_t taps) {
  std::vector<float> out(weight.size());
  for (int64_t n = 0; n < outputs; ++n)
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t t = 0; t < taps; ++t)
        out[static_cast<size_t>((n * taps + t) * depth + k)] =
            weight[static_cast<size_t>((n * depth + k) * taps + t)];
  return out;
}

Layer linear(const Weights& w, const std::string& name) {
  const Weight& weight = w.at(name + ".weight");
  const TapShape shape{1, weight.shape[1], weight.shape[0]};
  return {shape, pack_taps(shape, weight.values.data()), w.at(name + ".bias").values};
}

Network::Head head(const Weights& w, const std::string& name) {
  return {w.at(name + ".weight").values, w.at(name + ".bias").values[0]};
}

// Multiplies the batch normalisation of 4 F channels into the temporal convolution of channels [from, from +
// F), without bias of its own.
Layer temporal(const Weights& w, const std::string& cell, int64_t dilation, int64_t filters, int64_t from) {
  const auto norm = [&](const char* what, int64_t channel) {
    return static_cast<double>(w.at(cell + ".bn." + what).values[static_cast<size_t>(from + channel)]);
  };
  const TapShape shape{3, 2 * filters, filters};
  auto matrix = taps_first(w.at(conv_name(cell, dilation, 1)).values, filters, 2 * filters, 3);
  std::vector<float> bias;
  const int64_t inner = 6 * filters;
  for (int64_t n = 0; n < filters; ++n) {
    const double scale = norm("weight", n) / std::sqrt(norm("running_var", n) + kNormEpsilon);
    bias.push_back(static_cast<float>(norm("bias", n) - norm("running_mean", n) * scale));
    for (int64_t i = n * inner; i < (n + 1) * inner; ++i)
      matrix[static_cast<size_t>(i)] =
          static_cast<float>(static_cast<double>(matrix[static_cast<size_t>(i)]) * scale);
  }
  return {shape, pack_taps(shape, matrix.data()), std::move(bias)};
}

CellWeights cell_of(const Weights& w, int64_t block, int64_t cell, int64_t inputs) {
  const std::string name = cell_name(block, cell);
  CellWeights out{kHeight >> block, kWidth >> block, inputs, kFilters << block, {}, {}};
  std::vector<float> space;
  for (size_t d = 0; d < kDilations.size(); ++d) {
    const auto one = taps_first(w.at(conv_name(name, kDilations[d], 0)).values, 2 * out.filters, inputs, 9);
    space.insert(space.end(), one.begin(), one.end());
    out.time.push_back(temporal(w, name, kDilations[d], out.filters, static_cast<int64_t>(d) * out.filters));
  }
  out.space.shape = {9, inputs, 8 * out.filters};
  out.space.packed = pack_taps(out.space.shape, space.data());
  return out;
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
          out[conv_name(cell_name(b, c), dilation, 0)] = {2 * filters, in, 1, 3, 3};
          out[conv_name(cell_name(b, c), dilation, 1)] = {filters, 2 * filters, 3, 1, 1};
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
    add_linear("frame_sim_layer.fc", kLikeness, kAround);
    add_linear("color_hist_layer.fc", kLikeness, kAround);
    add_linear("fc1", kHidden, in * 3 * 6 + 2 * kLikeness);
    add_linear("cls_layer1", 1, kHidden);
    add_linear("cls_layer2", 1, kHidden);
    return out;
  }();
  return all;
}

Network::Network(const Weights& w, const std::string& source) {
  check_weights(w, source);
  int64_t inputs = 3;
  for (int64_t b = 0; b < kBlocks; ++b)
    for (int64_t c = 0; c < kCells; ++c, inputs = 4 * (kFilters << b))
      cells.push_back(cell_of(w, b, c, inputs));
  projection = linear(w, "frame_sim_layer.projection");
  likeness = linear(w, "frame_sim_layer.fc");
  colours = linear(w, "color_hist_layer.fc");
  hidden = linear(w, "fc1");
  change = head(w, "cls_layer1");
  part = head(w, "cls_layer2");
}

namespace {

// A frame [H, W, C] with a border of zeros, one pixel wide: a pixel's neighbours are at fixed distances.
struct Bordered {
  int64_t height, width, channels;
  int64_t row() const { return (width + 2) * channels; }
  int64_t size() const { return (height + 2) * row(); }
  int64_t at(int64_t y, int64_t x) const { return (y + 1) * row() + (x + 1) * channels; }
  // Pixels from the first to the last inner one, with the border's pixels between them.
  int64_t pixels() const { return (height - 1) * (width + 2) + width; }
};

}  // namespace

// One cell in time: takes a frame, gives the frame kLongest before it.
class Sequence::Cell {
 public:
  explicit Cell(const CellWeights& weights)
      : w_(weights),
        in_{weights.height, weights.width, weights.inputs},
        out_{weights.height, weights.width, 4 * weights.filters},
        depth_(8 * weights.filters),
        zeros_(static_cast<size_t>(in_.pixels() * depth_)),
        result_(static_cast<size_t>(out_.size())) {}

  const Bordered& out() const { return out_; }

  // frame: bordered; null after the end. Returns the bordered result, valid until the next call; null if it is
  // of no frame.
  const std::vector<float>* push(const float* frame) {
    auto& space = space_[static_cast<size_t>(pushed_ % kRing)];
    space.resize(zeros_.size());
    if (frame) {
      std::array<const float*, 9> taps{};
      for (int64_t i = 0; i < 9; ++i) taps[static_cast<size_t>(i)] = frame + in_.at(i / 3 - 1, i % 3 - 1);
      tap_product(w_.space.shape, {taps.data(), in_.pixels(), in_.channels}, w_.space.packed.data(), nullptr,
                  false, space.data(), depth_);
      frames_ = ++pushed_;
    } else {
      ++pushed_;
    }
    const int64_t t = pushed_ - 1 - kLongest;
    if (t < 0 || t >= frames_) return nullptr;
    for (size_t d = 0; d < kDilations.size(); ++d) along_time(t, d);
    clear_border();
    return &result_;
  }

 private:
  static constexpr int64_t kRing = 2 * kLongest + 1;

  const float* space_at(int64_t t) const {
    return t < 0 || t >= frames_ ? zeros_.data() : space_[static_cast<size_t>(t % kRing)].data();
  }
  void along_time(int64_t t, size_t d) {
    const int64_t from = static_cast<int64_t>(d) * 2 * w_.filters, to = static_cast<int64_t>(d) * w_.filters;
    const float* const taps[] = {space_at(t - kDilations[d]) + from, space_at(t) + from,
                                 space_at(t + kDilations[d]) + from};
    tap_product(w_.time[d].shape, {taps, in_.pixels(), depth_}, w_.time[d].packed.data(),
                w_.time[d].bias.data(), true, result_.data() + out_.at(0, 0) + to, out_.channels);
  }
  void clear_border() {
    for (int64_t y = 0; y + 1 < out_.height; ++y)
      std::fill_n(result_.begin() + out_.at(y, out_.width), 2 * out_.channels, 0.0F);
  }

  const CellWeights& w_;
  Bordered in_, out_;
  int64_t depth_;  // channels of the spatial convolutions
  std::array<std::vector<float>, kRing> space_;
  std::vector<float> zeros_, result_;
  int64_t pushed_ = 0, frames_ = 0;
};

// Vectors of norm 1, one a frame, and each one's products with those up to kReach before and after it.
class Sequence::Around {
 public:
  void push(std::vector<float> x) {
    const double squares = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
    const auto scale = static_cast<float>(1.0 / std::max(std::sqrt(squares), 1e-12));
    for (float& v : x) v *= scale;
    known_.push_back(std::move(x));
    if (static_cast<int64_t>(known_.size()) > 2 * (kAround + kBatch)) {
      known_.pop_front();
      ++first_;
    }
  }
  int64_t count() const { return first_ + static_cast<int64_t>(known_.size()); }
  // out: [101]; 0 for frames that do not exist.
  void of(int64_t t, float* out) const {
    const auto& x = known_[static_cast<size_t>(t - first_)];
    for (int64_t i = 0; i < kAround; ++i) {
      const int64_t other = t + i - kReach;
      out[i] = 0;
      if (other < first_ || other >= count()) continue;
      out[i] =
          std::inner_product(x.begin(), x.end(), known_[static_cast<size_t>(other - first_)].begin(), 0.0F);
    }
  }

 private:
  std::deque<std::vector<float>> known_;
  int64_t first_ = 0;
};

Sequence::Sequence(const Network& network)
    : network_(network),
      first_(kBlocks),
      means_(kBlocks),
      features_(std::make_unique<Around>()),
      histograms_(std::make_unique<Around>()) {
  for (const CellWeights& weights : network.cells) cells_.push_back(std::make_unique<Cell>(weights));
}

Sequence::~Sequence() = default;

namespace {

std::vector<float> histogram(const uint8_t* rgb) {
  std::vector<float> out(kColours);
  for (const uint8_t* end = rgb + kFrameBytes; rgb != end; rgb += 3)
    ++out[static_cast<size_t>((rgb[0] >> 5) << 6 | (rgb[1] >> 5) << 3 | rgb[2] >> 5)];
  return out;
}

std::vector<float> rows_of(const Layer& layer, const std::vector<float>& in, int64_t rows) {
  std::vector<float> out(static_cast<size_t>(rows * layer.shape.outputs));
  const float* const taps[] = {in.data()};
  tap_product(layer.shape, {taps, rows, layer.shape.depth}, layer.packed.data(), layer.bias.data(), true,
              out.data(), layer.shape.outputs);
  return out;
}

float probability(const Network::Head& head, const float* hidden) {
  const double x = std::inner_product(head.weight.begin(), head.weight.end(), hidden, double{head.bias});
  return static_cast<float>(1.0 / (1.0 + std::exp(-x)));
}

}  // namespace

void Sequence::push(const uint8_t* rgb) {
  histograms_->push(histogram(rgb));
  const Bordered shape{kHeight, kWidth, 3};
  std::vector<float> frame(static_cast<size_t>(shape.size()));
  for (int64_t y = 0; y < kHeight; ++y)
    std::transform(rgb + y * kWidth * 3, rgb + (y + 1) * kWidth * 3, frame.begin() + shape.at(y, 0),
                   [](uint8_t v) { return static_cast<float>(v) / 255.0F; });
  into(0, frame.data());
  answer(false);
}

void Sequence::finish() {
  for (size_t cell = 0; cell < cells_.size(); ++cell)
    for (int64_t i = 0; i < kLongest; ++i) into(cell, nullptr);
  answer(true);
}

void Sequence::into(size_t cell, const float* frame) {
  const std::vector<float>* out = cells_[cell]->push(frame);
  if (!out) return;
  const size_t block = cell / kCells;
  if (cell % kCells != 0) return pool(block, out->data());
  first_[block].push_back(*out);
  into(cell + 1, out->data());
}

// Adds the two cells' results, halves width and height by averages, and gives the next block its frame.
void Sequence::pool(size_t block, const float* second) {
  const Bordered from = cells_[block * kCells]->out(), to{from.height / 2, from.width / 2, from.channels};
  const std::vector<float> first = std::move(first_[block].front());
  first_[block].pop_front();
  std::vector<float> frame(static_cast<size_t>(to.size())), mean(static_cast<size_t>(to.channels));
  const float share = 1.0F / static_cast<float>(to.height * to.width);
  for (int64_t y = 0; y < to.height; ++y)
    for (int64_t x = 0; x < to.width; ++x)
      for (int64_t c = 0; c < to.channels; ++c) {
        float sum = 0;
        for (const int64_t at : {from.at(2 * y, 2 * x) + c, from.at(2 * y + 1, 2 * x) + c})
          sum += first[static_cast<size_t>(at)] + second[at] +
                 first[static_cast<size_t>(at + from.channels)] + second[at + from.channels];
        frame[static_cast<size_t>(to.at(y, x) + c)] = sum / 4;
        mean[static_cast<size_t>(c)] += sum / 4 * share;
      }
  means_[block].push_back(std::move(mean));
  if (block + 1 < kBlocks) return into((block + 1) * kCells, frame.data());
  std::vector<float> picture;
  for (int64_t y = 0; y < to.height; ++y)
    picture.insert(picture.end(), frame.begin() + to.at(y, 0), frame.begin() + to.at(y, to.width));
  pictures_.push_back(std::move(picture));
  std::vector<float> all;
  for (auto& means : means_) {
    all.insert(all.end(), means.front().begin(), means.front().end());
    means.pop_front();
  }
  std::vector<float> projected(static_cast<size_t>(kLikeness));
  const float* const taps[] = {all.data()};
  tap_product(network_.projection.shape, {taps, 1, network_.projection.shape.depth},
              network_.projection.packed.data(), network_.projection.bias.data(), false, projected.data(),
              kLikeness);
  features_->push(std::move(projected));
}

// Computes the last layers of the frames whose surroundings are known: all, or in whole batches.
void Sequence::answer(bool all) {
  const auto done = static_cast<int64_t>(change_.size());
  const int64_t ready = features_->count() - done - (all ? 0 : kReach);
  if (ready <= 0 || (!all && ready < kBatch)) return;
  std::vector<float> by_features(static_cast<size_t>(ready * kAround)), by_colours = by_features;
  for (int64_t i = 0; i < ready; ++i) {
    features_->of(done + i, by_features.data() + i * kAround);
    histograms_->of(done + i, by_colours.data() + i * kAround);
  }
  const auto colours = rows_of(network_.colours, by_colours, ready),
             likeness = rows_of(network_.likeness, by_features, ready);
  std::vector<float> joined;
  for (int64_t i = 0; i < ready; ++i) {
    for (const auto* from : {&colours, &likeness})
      joined.insert(joined.end(), from->begin() + i * kLikeness, from->begin() + (i + 1) * kLikeness);
    joined.insert(joined.end(), pictures_.front().begin(), pictures_.front().end());
    pictures_.pop_front();
  }
  const auto hidden = rows_of(network_.hidden, joined, ready);
  for (int64_t i = 0; i < ready; ++i) {
    change_.push_back(probability(network_.change, hidden.data() + i * kHidden));
    part_.push_back(probability(network_.part, hidden.data() + i * kHidden));
  }
}

}  // namespace kinora::video::transnetv2
