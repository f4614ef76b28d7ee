#include "classic.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

#include "kinora/curation.hpp"
#include "kinora/npy.hpp"
#include "kinora/plugin.hpp"
#include "shrink.hpp"

namespace kinora::embed {
namespace {

// A position between two bins.
struct Between {
  size_t low;
  double above;  // share of the bin after `low`
};

Between between(double position, int bins) {
  const double low = std::clamp(std::floor(position), 0.0, bins - 2.0);
  return {static_cast<size_t>(low), std::clamp(position - low, 0.0, 1.0)};
}

size_t cell_of(size_t y, size_t x) {
  constexpr size_t edge = kSide / kCells;
  return y / edge * kCells + x / edge;
}

void append(std::vector<float>& out, const std::vector<double>& histogram, double share) {
  const double sum = std::accumulate(histogram.begin(), histogram.end(), 0.0);
  for (const double v : histogram)
    out.push_back(sum > 0 ? static_cast<float>(std::sqrt(share * v / sum)) : 0.0F);
}

}  // namespace

void Classic::add(const uint8_t* rgb, int64_t height, int64_t width) {
  const auto small = shrink(rgb, height, width, kSide);
  light_before_ = std::move(light_);
  light_ = brightness(small);
  add_colours(small);
  add_gradients();
  if (!light_before_.empty()) add_motion();
}

void Classic::add_colours(const std::vector<double>& rgb) {
  for (size_t i = 0; i < rgb.size(); i += 3) {
    std::array<Between, 3> at{};
    for (size_t c = 0; c < 3; ++c) at[c] = between(rgb[i + c] / 255 * (kColours - 1), kColours);
    for (size_t corner = 0; corner < 8; ++corner) {
      double weight = 1;
      size_t bin = 0;
      for (size_t c = 0; c < 3; ++c) {
        const size_t up = corner >> c & 1;
        weight *= up ? at[c].above : 1 - at[c].above;
        bin = bin * kColours + at[c].low + up;
      }
      colour_[bin] += weight;
    }
  }
}

// Central differences with a replicated border.
void Classic::add_gradients() {
  const auto light = [&](size_t y, size_t x) { return light_[y * kSide + x]; };
  for (size_t y = 0; y < kSide; ++y)
    for (size_t x = 0; x < kSide; ++x) {
      const size_t up = y ? y - 1 : 0, down = std::min<size_t>(y + 1, kSide - 1), left = x ? x - 1 : 0,
                   right = std::min<size_t>(x + 1, kSide - 1);
      const double dx = (light(y, right) - light(y, left)) / 2, dy = (light(down, x) - light(up, x)) / 2;
      double* bins = &gradient_[cell_of(y, x) * (kOrientations + 1)];
      bins[kOrientations] += kFlatLevels;
      const double magnitude = std::sqrt(dx * dx + dy * dy);
      if (magnitude == 0) continue;
      double turn = std::atan2(dy, dx) / std::numbers::pi * kOrientations;  // half a turn is kOrientations
      if (turn < 0) turn += kOrientations;
      const double low = std::floor(turn);
      const size_t bin = static_cast<size_t>(low) % kOrientations;
      bins[bin] += magnitude * (1 - (turn - low));
      bins[(bin + 1) % kOrientations] += magnitude * (turn - low);
    }
}

void Classic::add_motion() {
  for (size_t y = 0; y < kSide; ++y)
    for (size_t x = 0; x < kSide; ++x) {
      const double change = std::abs(light_[y * kSide + x] - light_before_[y * kSide + x]);
      const Between at = between(std::log2(1 + change), kChanges);
      double* bins = &motion_[cell_of(y, x) * kChanges];
      bins[at.low] += 1 - at.above;
      bins[at.low + 1] += at.above;
    }
}

std::vector<float> Classic::vector() const {
  std::vector<float> out;
  if (light_.empty()) return std::vector<float>(kClassicSize);
  auto motion = motion_;
  if (light_before_.empty())
    for (size_t cell = 0; cell < kCells * kCells; ++cell) motion[cell * kChanges] = 1;
  const double sum = shares_.colour + shares_.gradient + shares_.motion;
  append(out, colour_, shares_.colour / sum);
  append(out, gradient_, shares_.gradient / sum);
  append(out, motion, shares_.motion / sum);
  return out;
}

void EmbedClassic::describe(Describe<Options>& d) {
  d.name("embed.classic")
      .help(
          "Embeds frames without weights: histograms of colour, gradients and motion, 488 numbers of norm 1");
  d.input("frames", "[T, H, W, 3]", "uint8",
          "sampled RGB frames, upright; for a video with shots.json, fact frames_at is required too");
  d.option("name", &Options::name)
      .help("output field NAME.npy; for a video with shots.json shots.NAME.npy, one row per shot");
  d.option("colour", &Options::colour).at_least(0).help("share of the cosine that colours decide");
  d.option("gradient", &Options::gradient)
      .at_least(0)
      .help("share of the cosine that edges and textures decide");
  d.option("motion", &Options::motion)
      .at_least(0)
      .help(
          "share of the cosine that changes between frames decide; 0 compares single frames only, as "
          "shots.merge requires");
}

EmbedClassic::EmbedClassic(const Options& o) : options_(o), shares_{o.colour, o.gradient, o.motion} {
  if (o.colour + o.gradient + o.motion <= 0)
    throw Error(KINORA_ERROR_INVALID, "embed.classic: one of colour, gradient and motion must be above 0");
  if (o.name.empty() || o.name.find_first_of("/.") != std::string::npos)
    throw Error(KINORA_ERROR_INVALID,
                "embed.classic: name must be a word without dots and slashes, such as \"classic\"");
}

void EmbedClassic::process(Sample in, const Emit& emit, const Run& run) {
  const Pictures pictures = pictures_of(in);
  const bool video = in.text("shots.json").has_value();
  std::vector<size_t> shot(static_cast<size_t>(pictures.count), 0);
  size_t shots = 1;
  if (video) {
    const auto starts = shot_starts(in, json_field(in, "shots.json"));
    shots = starts.size() + 1;
    shot = shots_of_frames(in, starts, pictures.count);
  }
  std::vector<Classic> each(shots, Classic(shares_));
  for (int64_t i = 0; i < pictures.count; ++i) {
    run.check_cancelled();
    each[shot[static_cast<size_t>(i)]].add(pictures.frame(i), pictures.height, pictures.width);
  }
  std::vector<float> all;
  for (const Classic& one : each) {
    const auto vector = one.vector();
    all.insert(all.end(), vector.begin(), vector.end());
  }
  if (video) {
    in.set(("shots." + options_.name + ".npy").c_str(),
           to_npy(all, {static_cast<int64_t>(shots), kClassicSize}));
  } else {
    in.set((options_.name + ".npy").c_str(), to_npy(all, {kClassicSize}));
    auto facts = json_field(in, "json");
    note_embedding(facts, options_.name, "embed.classic", kClassicSize, kClassicEps);
    in.set("json", json_text(facts));
  }
  emit(std::move(in));
}

}  // namespace kinora::embed

using kinora::embed::EmbedClassic;
KINORA_COMPONENT(EmbedClassic)
KINORA_PLUGIN(EmbedClassic, ShotsMerge, ClipSignature)
