// Options of stages that run a set of detectors in one decode.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kinora/stage.hpp"
#include "shots/shot_finder.hpp"

namespace kinora::video {

// Names of detectors, for messages.
constexpr const char* kDetectorNames = "content, adaptive, histogram, hash, threshold, transnetv2, fixed";

struct DetectorSet {
  std::vector<std::string> detectors{"content", "adaptive"};
  std::string transnetv2_weights;
  std::string decide = "any", content_filter = "merge", threshold_fade = "floor";
  int64_t tolerance = 0, shot_min_length = 15, adaptive_window = 2, histogram_bins = 128, hash_size = 8,
          hash_lowpass = 2;
  double content_threshold = 27.0, adaptive_threshold = 3.0, adaptive_min_content = 15.0,
         histogram_threshold = 0.2, hash_threshold = 0.35, threshold_threshold = 12.0,
         threshold_fade_bias = 0.0, transnetv2_threshold = 0.5, fixed_stride = 10.0;
  bool threshold_final_cut = false;
};

// min_length: name of the option for the shortest shot.
template <class Options>
void describe_detectors(Describe<Options>& d, const char* min_length) {
  d.option("detectors", &DetectorSet::detectors).help("names of detectors: " + std::string(kDetectorNames));
  d.option("decide", &DetectorSet::decide)
      .help("rule that selects cuts: any, all, or the name of one detector");
  d.option("tolerance", &DetectorSet::tolerance)
      .range(0, 1000)
      .unit("frames")
      .help(
          "distance up to which any and all treat cuts as one, placed where the detector listed first puts "
          "it");
  d.option(min_length, &DetectorSet::shot_min_length)
      .at_least(0)
      .unit("frames")
      .help("shortest shot of the detectors of PySceneDetect");
  d.option("content_threshold", &DetectorSet::content_threshold)
      .range(0, 255)
      .help("threshold of shots.content");
  d.option("content_filter", &DetectorSet::content_filter)
      .choices({"merge", "suppress"})
      .help("filter of shots.content");
  d.option("adaptive_threshold", &DetectorSet::adaptive_threshold)
      .range(0, 255)
      .help("threshold of shots.adaptive");
  d.option("adaptive_window", &DetectorSet::adaptive_window)
      .range(1, 1000)
      .unit("frames")
      .help("window of shots.adaptive");
  d.option("adaptive_min_content", &DetectorSet::adaptive_min_content)
      .range(0, 255)
      .help("min_content of shots.adaptive");
  d.option("histogram_threshold", &DetectorSet::histogram_threshold)
      .range(0, 1)
      .help("threshold of shots.histogram");
  d.option("histogram_bins", &DetectorSet::histogram_bins).range(2, 256).help("bins of shots.histogram");
  d.option("hash_threshold", &DetectorSet::hash_threshold).range(0, 1).help("threshold of shots.hash");
  d.option("hash_size", &DetectorSet::hash_size).range(2, 64).help("size of shots.hash");
  d.option("hash_lowpass", &DetectorSet::hash_lowpass).range(1, 8).help("lowpass of shots.hash");
  d.option("threshold_threshold", &DetectorSet::threshold_threshold)
      .range(0, 255)
      .help("threshold of shots.threshold");
  d.option("threshold_fade_bias", &DetectorSet::threshold_fade_bias)
      .range(-1, 1)
      .help("fade_bias of shots.threshold");
  d.option("threshold_final_cut", &DetectorSet::threshold_final_cut).help("final_cut of shots.threshold");
  d.option("threshold_fade", &DetectorSet::threshold_fade)
      .choices({"floor", "ceiling"})
      .help("fade of shots.threshold");
  d.option("transnetv2_threshold", &DetectorSet::transnetv2_threshold)
      .range(0, 1)
      .help("threshold of shots.transnetv2");
  d.option("transnetv2_weights", &DetectorSet::transnetv2_weights)
      .path()
      .help("weights of shots.transnetv2; empty: the asset transnetv2/transnetv2.safetensors");
  d.option("fixed_stride", &DetectorSet::fixed_stride).above(0).unit("s").help("stride of shots.fixed");
}

inline DetectorOptions detector_of(const DetectorSet& o, const std::string& name) {
  DetectorOptions out;
  out.name = name;
  out.min_length = o.shot_min_length;
  out.filter = o.content_filter;
  out.window = o.adaptive_window;
  out.min_content = o.adaptive_min_content;
  out.bins = o.histogram_bins;
  out.size = o.hash_size;
  out.lowpass = o.hash_lowpass;
  out.fade_bias = o.threshold_fade_bias;
  out.final_cut = o.threshold_final_cut;
  out.fade = o.threshold_fade;
  out.stride = o.fixed_stride;
  out.threshold = name == "content"      ? o.content_threshold
                  : name == "adaptive"   ? o.adaptive_threshold
                  : name == "histogram"  ? o.histogram_threshold
                  : name == "hash"       ? o.hash_threshold
                  : name == "transnetv2" ? o.transnetv2_threshold
                                         : o.threshold_threshold;
  return out;
}

// Builds a plan. Error(KINORA_ERROR_INVALID) for an invalid set.
inline ShotsPlan plan_of(const DetectorSet& o) {
  const auto known = [&](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const auto refuse = [](const std::string& what) { throw Error(KINORA_ERROR_INVALID, what); };
  if (o.detectors.empty()) refuse(std::string("detectors is empty; name one of ") + kDetectorNames);
  ShotsPlan out;
  for (const auto& name : o.detectors) {
    if (!known(detector_names(), name))
      refuse("detectors: there is no '" + name + "'; the names are " + kDetectorNames);
    if (std::count(o.detectors.begin(), o.detectors.end(), name) > 1)
      refuse("detectors: '" + name + "' is listed twice; remove one");
    out.detectors.push_back(detector_of(o, name));
  }
  if (o.decide != "any" && o.decide != "all" && !known(o.detectors, o.decide))
    refuse("decide = '" + o.decide + "' is not among detectors; give any, all or one of them");
  if (known(o.detectors, "hash") && o.hash_size * o.hash_lowpass % 2 != 0)
    refuse("hash_size times hash_lowpass is odd; make one of them even");
  out.weights = o.transnetv2_weights;
  out.decide = o.decide;
  out.tolerance = o.tolerance;
  return out;
}

}  // namespace kinora::video
