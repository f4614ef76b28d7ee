// stage/caption.describe: writes a plain sentence from measured properties. It recognises no objects.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "kinora/curation.hpp"
#include "kinora/plugin.hpp"
#include "kinora/stage.hpp"
#include "media/convert.hpp"
#include "media/decoder.hpp"
#include "media/sample_media.hpp"
#include "media/scaler.hpp"

namespace kinora::video {
namespace {

constexpr int kWidth = 64, kHeight = 36;
using Picture = std::vector<uint8_t>;  // [kHeight, kWidth, 3]

struct Measured {
  double brightness = 0;  // mean of the largest channel, 0..1
  double contrast = 0;    // standard deviation of the mean channel, 0..1
  double motion = 0;      // mean absolute change per second, in levels of 0..255
  double seconds = 0;
  std::vector<std::string> colours;  // most frequent first
};

// Everyday name of a colour, from hue in degrees, saturation and value in 0..1.
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

// At most two colours that each cover at least an eighth of the pixels, else the most frequent one.
std::vector<std::string> dominant(const std::map<std::string, int64_t>& counts, int64_t pixels) {
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [name, n] : counts) order.emplace_back(-n, name);
  std::sort(order.begin(), order.end());
  std::vector<std::string> out;
  for (const auto& [n, name] : order)
    if (out.empty() || (out.size() < 2 && -n * 8 >= pixels)) out.push_back(name);
  return out;
}

// Measures a video's frames, given in order.
class Measuring {
 public:
  void add(const Picture& now, double seconds) {
    if (frames_++ == 0) first_ = seconds;
    out_.seconds = seconds - first_;
    for (size_t i = 0; i < now.size(); i += 3) {
      const double mean = (now[i] + now[i + 1] + now[i + 2]) / 765.0;
      out_.brightness += std::max({now[i], now[i + 1], now[i + 2]}) / 255.0;
      sum_ += mean;
      square_ += mean * mean;
      ++colours_[colour_of(&now[i])];
      ++pixels_;
    }
    for (size_t i = 0; i < before_.size(); ++i) change_ += std::abs(now[i] - before_[i]);
    before_ = now;
  }

  // The last frame is assumed to last as long as the average of the others.
  Measured result() const {
    if (frames_ == 0) throw MediaError("no frame could be decoded");
    Measured m = out_;
    const auto pixels = static_cast<double>(pixels_);
    m.brightness /= pixels;
    m.contrast = std::sqrt(std::max(0.0, square_ / pixels - std::pow(sum_ / pixels, 2)));
    m.motion = m.seconds > 0 ? change_ / static_cast<double>(before_.size()) / m.seconds : 0;
    m.seconds += frames_ > 1 ? m.seconds / static_cast<double>(frames_ - 1) : 0;
    m.colours = dominant(colours_, pixels_);
    return m;
  }

 private:
  Measured out_;
  Picture before_;
  std::map<std::string, int64_t> colours_;
  double first_ = 0, square_ = 0, sum_ = 0, change_ = 0;
  int64_t frames_ = 0, pixels_ = 0;
};

Measured measure(Decoder& decoder, const Run& run) {
  ScalerOptions size;
  size.width = kWidth;
  size.height = kHeight;
  size.rotation = decoder.probe().video.rotation;
  Scaler scaler(size);
  Picture now(kWidth * kHeight * 3);
  Measuring measuring;
  while (const Frame* frame = decoder.next()) {
    run.check_cancelled();
    scaler.bytes(*frame->picture, now.data());
    measuring.add(now, frame->seconds);
  }
  return measuring.result();
}

// Frames and times sampled by an earlier stage. Motion is measured between neighbouring samples, so movement
// to and fro between them is missed.
struct Sampled {
  const kinora_dl_tensor* frames = nullptr;  // uint8 [T, H, W, 3]
  std::vector<double> at;                    // seconds
};

std::optional<Sampled> sampled(const Sample& in, const nlohmann::json& facts) {
  const kinora_dl_tensor* t = in.tensor("frames");
  const auto at = facts.find("frames_at");
  if (!t || at == facts.end() || !at->is_array()) return std::nullopt;
  const bool pictures = t->device_type == KINORA_DL_CPU && t->code == KINORA_DL_UINT && t->bits == 8 &&
                        t->ndim == 4 && t->shape[3] == 3 && is_row_major(*t);
  if (!pictures || t->shape[0] < 1 || t->shape[0] != static_cast<int64_t>(at->size())) return std::nullopt;
  Sampled out{t, {}};
  for (const auto& seconds : *at) {
    if (!seconds.is_number()) return std::nullopt;
    out.at.push_back(seconds);
  }
  return out;
}

Measured measure(const Sampled& sampled, const nlohmann::json& facts) {
  const int height = static_cast<int>(sampled.frames->shape[1]),
            width = static_cast<int>(sampled.frames->shape[2]);
  ScalerOptions size;
  size.width = kWidth;
  size.height = kHeight;
  Scaler scaler(size);
  Picture now(kWidth * kHeight * 3);
  Measuring measuring;
  const auto* rgb = static_cast<const uint8_t*>(sampled.frames->data) + sampled.frames->byte_offset;
  for (const double seconds : sampled.at) {
    scaler.bytes(*picture_of_rgb(rgb, width, height), now.data());
    measuring.add(now, seconds);
    rgb += static_cast<ptrdiff_t>(height) * width * 3;
  }
  Measured out = measuring.result();
  if (facts.contains("duration_s") && facts["duration_s"].is_number()) out.seconds = facts["duration_s"];
  return out;
}

const char* light_of(const Measured& m) {
  return m.brightness < 0.25   ? "dark"
         : m.brightness < 0.45 ? "dim"
         : m.brightness < 0.7  ? "evenly lit"
                               : "bright";
}

const char* contrast_of(const Measured& m) {
  return m.contrast < 0.12 ? "low" : m.contrast < 0.24 ? "medium" : "high";
}

std::string colours_of(const Measured& m) {
  return m.colours.size() > 1 ? m.colours[0] + " and " + m.colours[1] : m.colours.front();
}

std::string sentence_of_picture(const Measured& m) {
  const std::string light = light_of(m);
  return fmt::format("{} {} picture, mostly {}, with {} contrast.", light.front() == 'e' ? "An" : "A", light,
                     colours_of(m), contrast_of(m));
}

std::string sentence(const Measured& m) {
  const std::string light = light_of(m);
  const std::string what = m.seconds < 2    ? "A very short " + light
                           : m.seconds < 5  ? "A short " + light
                           : m.seconds < 15 ? (light.front() == 'e' ? "An " : "A ") + light
                                            : "A long " + light;
  const std::string length = m.seconds == 0 ? "one frame"
                             : m.seconds < 0.05
                                 ? "less than 0.1 seconds"
                                 : fmt::format("{:.1f} seconds", std::floor(10 * m.seconds + 0.5) / 10);
  const char* motion = m.motion < 4    ? "almost no motion"
                       : m.motion < 25 ? "slow motion"
                       : m.motion < 80 ? "moderate motion"
                                       : "fast motion";
  return fmt::format("{} video of {}, mostly {}, with {} and {} contrast.", what, length, colours_of(m),
                     motion, contrast_of(m));
}

}  // namespace

class CaptionDescribe final : public Stage {
 public:
  struct Options {
    bool keep = true, replace_user = false;
  };
  static void describe(Describe<Options>& d) {
    d.name("caption.describe")
        .help("Captions a clip from its measured length, light, colours and motion; recognises no objects");
    d.option("keep", &Options::keep).help("keep a caption that is already there");
    d.option("replace_user", &Options::replace_user)
        .help("replace the user's own caption as well; without effect if keep is set");
  }
  explicit CaptionDescribe(const Options& o) : options_(o) {}
  kinora_resources resources() const override { return reads_media(); }

  void process(Sample in, const Emit& emit, const Run& run) override {
    auto facts = facts_of(in);
    if (replaces(in, facts)) {
      const Measured m = media_call([&] { return measured(in, facts, run); });
      facts["measured"] = {{"brightness", m.brightness}, {"contrast", m.contrast}, {"colours", m.colours}};
      if (!is_picture(in)) facts["measured"]["motion"] = m.motion;
      facts["caption"] = {{"by", "caption.describe"}};
      in.set("json", facts.dump());
      in.set("txt", is_picture(in) ? sentence_of_picture(m) : sentence(m));
    }
    emit(std::move(in));
  }

 private:
  // A caption without a fact that names its author is the user's.
  bool replaces(const Sample& in, const nlohmann::json& facts) const {
    if (!in.text("txt")) return true;
    if (options_.keep) return false;
    const auto caption = facts.find("caption");
    const bool by_stage = caption != facts.end() && caption->is_object() && caption->contains("by") &&
                          (*caption)["by"] != "user";
    return by_stage || options_.replace_user;
  }

  static Measured measured(const Sample& in, nlohmann::json& facts, const Run& run) {
    if (const auto frames = sampled(in, facts)) return measure(*frames, facts);
    const Media media = open_media(in);
    Decoder decoder(*media.source, media.name);
    Measured all = measure(decoder, run);
    if (const auto damage = decoder.damaged(); !damage.empty()) facts["damaged"] = damage;
    const auto length = facts.find("duration_s");  // a last picture may be longer than the others
    if (all.seconds > 0 && length != facts.end() && length->is_number() && *length > 0) all.seconds = *length;
    return all;
  }

  Options options_;
};

}  // namespace kinora::video

using kinora::video::CaptionDescribe;
KINORA_COMPONENT(CaptionDescribe)
