#include "filter.hpp"

#include <algorithm>
#include <numeric>

#include <opencv2/imgproc.hpp>

namespace kinora::filters {
namespace {

// OpenCV stores rows, columns and the bytes of a row as int.
constexpr int64_t kLongestSide = 32768;

}  // namespace

using nlohmann::json;

double reduce(const std::vector<double>& values, const std::string& how) {
  if (how == "min") return *std::min_element(values.begin(), values.end());
  if (how == "max") return *std::max_element(values.begin(), values.end());
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void leave(Sample in, json facts, const Emit& emit, const std::string& rule, double score, double low,
           double high, bool always_kept) {
  const bool keep = always_kept || (score >= low && score <= high);
  if (!keep) note_bound(facts, rule, score, low, high);
  in.set("json", json_text(facts));
  if (keep) return emit(std::move(in));
  emit.drop(std::move(in), rule.c_str(), score);
}

void judge(Sample in, const Emit& emit, const std::string& rule, double score, double low, double high,
           const std::string& mode) {
  json facts = json_field(in, "json");
  note_score(facts, rule, score);
  leave(std::move(in), std::move(facts), emit, rule, score, low, high, mode == "score");
}

// The engine processes samples in parallel; OpenCV's threads within one sample would only compete with them.
Frames::Frames(const Sample& sample) : pictures_(pictures_of(sample, kLongestSide)) { cv::setNumThreads(1); }

cv::Mat Frames::rgb(int64_t i) const {
  return {height(), width(), CV_8UC3, const_cast<uint8_t*>(pictures_.frame(i))};
}

cv::Mat Frames::luma(int64_t i) const {
  cv::Mat out;
  cv::cvtColor(rgb(i), out, cv::COLOR_RGB2GRAY);
  return out;
}

}  // namespace kinora::filters
