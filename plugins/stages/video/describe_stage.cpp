// stage/caption.describe: a plain sentence from what can be measured. It knows no objects and does not
// pretend to.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "decoder.hpp"
#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"
#include "media.hpp"
#include "scaler.hpp"

namespace kinora::video {
namespace {

constexpr int kWidth = 64, kHeight = 36;
using Picture = std::vector<uint8_t>;  // [kHeight, kWidth, 3]

struct Measured {
  double brightness = 0;  // mean of the largest channel, 0..1
  double contrast = 0;    // standard deviation of the mean channel, 0..1
  double motion = 0;      // mean absolute change of a frame a second, in levels of 0..255
  double seconds = 0;
  std::vector<std::string> colours;  // most frequent first
};

// The everyday name of a colour, by hue in degrees, saturation and value in 0..1.
const char* colour_name(double hue, double saturation, double value) {
  if (value < 0.15) return "black";
  if (saturation < 0.15) return value > 0.85 ? "white" : "grey";
  if (hue < 40 && hue >= 15 && value < 0.6) return "brown";
  constexpr std::array<std::pair<double, const char*>, 8> names{{{15, "red"},
                                                                 {40, "orange"},
                                                                 {68, "yellow"},
                                                                 {165, "green"},
                                                                 {195, "cyan"},
                                                                 {255, "blue"},
                                                                 {330, "purple"},
                                                                 {360.1, "red"}}};
  return std::find_if(names.begin(), names.end(), [&](const auto& n) { return hue < n.first; })->second;
}

const char* colour_of(const uint8_t* rgb) {
  const double r = rgb[0] / 255.0, g = rgb[1] / 255.0, b = rgb[2] / 255.0;
  const double high = std::max({r, g, b}), low = std::min({r, g, b}), range = high - low;
  double hue = 0;
  if (range > 0) hue = high == r ? (g - b) / range : high == g ? 2 + (b - r) / range : 4 + (r - g) / range;
  return colour_name(std::fmod(hue * 60 + 360, 360), high > 0 ? range / high : 0, high);
}

// Colours that cover at least an eighth of the pixels, at most two, else the most frequent one.
std::vector<std::string> dominant(const std::map<std::string, int64_t>& counts, int64_t pixels) {
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [name, n] : counts) order.emplace_back(-n, name);
  std::sort(order.begin(), order.end());
  std::vector<std::string> out;
  for (const auto& [n, name] : order)
    if (out.empty() || (out.size() < 2 && -n * 8 >= pixels)) out.push_back(name);
  return out;
}

Measured measure(Decoder& decoder) {
  ScalerOptions size;
  size.width = kWidth;
  size.height = kHeight;
  size.rotation = decoder.probe().video.rotation;
  Scaler scaler(size);
  Picture now(kWidth * kHeight * 3), before;
  Measured m;
  std::map<std::string, int64_t> colours;
  double first = 0, square = 0, sum = 0, change = 0;
  int64_t frames = 0, pixels = 0;
  while (const Frame* frame = decoder.next()) {
    scaler.bytes(*frame->picture, now.data());
    if (frames++ == 0) first = frame->seconds;
    m.seconds = frame->seconds - first;
    for (size_t i = 0; i < now.size(); i += 3) {
      const double mean = (now[i] + now[i + 1] + now[i + 2]) / 765.0;
      m.brightness += std::max({now[i], now[i + 1], now[i + 2]}) / 255.0;
      sum += mean;
      square += mean * mean;
      ++colours[colour_of(&now[i])];
      ++pixels;
    }
    for (size_t i = 0; i < before.size(); ++i) change += std::abs(now[i] - before[i]);
    before = now;
  }
  if (frames == 0) throw MediaError("no frame could be decoded");
  m.brightness /= static_cast<double>(pixels);
  m.contrast = std::sqrt(
      std::max(0.0, square / static_cast<double>(pixels) - std::pow(sum / static_cast<double>(pixels), 2)));
  m.motion = m.seconds > 0 ? change / static_cast<double>(now.size()) / m.seconds : 0;
  m.seconds += frames > 1 ? m.seconds / static_cast<double>(frames - 1) : 0;
  m.colours = dominant(colours, pixels);
  return m;
}

std::string sentence(const Measured& m) {
  const char* length = m.seconds < 2    ? "very short"
                       : m.seconds < 5  ? "short"
                       : m.seconds < 15 ? "medium-length"
                                        : "long";
  const char* light = m.brightness < 0.25   ? "dark"
                      : m.brightness < 0.45 ? "dim"
                      : m.brightness < 0.7  ? "evenly lit"
                                            : "bright";
  const char* motion = m.motion < 4    ? "almost no motion"
                       : m.motion < 25 ? "slow motion"
                       : m.motion < 80 ? "moderate motion"
                                       : "fast motion";
  std::string colours = m.colours.front();
  if (m.colours.size() > 1) colours += " and " + m.colours[1];
  return fmt::format("A {} {} video of {:.1f} seconds, mostly {}, with {} and {} contrast.", length, light,
                     m.seconds, colours, motion,
                     m.contrast < 0.12   ? "low"
                     : m.contrast < 0.24 ? "medium"
                                         : "high");
}

}  // namespace

class CaptionDescribe final : public Stage {
 public:
  struct Options {
    bool keep = true;
  };
  static void describe(Describe<Options>& d) {
    d.name("caption.describe")
        .help("Captions from measured length, light, colours and motion; it recognises no objects");
    d.option("keep", &Options::keep).help("leave a caption that is already there");
  }
  explicit CaptionDescribe(const Options& o) : options_(o) {}

  void process(Sample in, const Emit& emit, const Run&) override {
    if (!options_.keep || !in.text("txt")) {
      const Media media = open_media(in);
      auto facts = facts_of(in);
      const Measured m = media_call([&] {
        Decoder decoder(*media.source, media.name);
        Measured all = measure(decoder);
        if (const auto damage = decoder.damaged(); !damage.empty()) facts["damaged"] = damage;
        return all;
      });
      facts["measured"] = {{"brightness", m.brightness},
                           {"contrast", m.contrast},
                           {"motion", m.motion},
                           {"colours", m.colours}};
      facts["caption_by"] = "caption.describe";
      in.set("json", facts.dump());
      in.set("txt", sentence(m));
    }
    emit(std::move(in));
  }

 private:
  Options options_;
};

}  // namespace kinora::video

using kinora::video::CaptionDescribe;
KINORA_COMPONENT(CaptionDescribe)
