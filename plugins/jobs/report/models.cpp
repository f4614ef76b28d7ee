// The page's sections about jobs that train models, and that generate videos with them.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "core/base/facts.hpp"
#include "plugins/jobs/report/numbers.hpp"
#include "plugins/jobs/report/page.hpp"

namespace kinora::core::report {
namespace {

constexpr int kMostPairs = 8;
constexpr size_t kColumns = 300, kMostVideos = 24;

struct Curve {
  const char* name;  // in metrics.jsonl
  const char* title;
  bool smooth;     // light points, and a line through their local means
  bool from_zero;  // for a schedule, whose peak the reader looks for
};
constexpr Curve kLoss{"loss", "Loss", true, false};
constexpr Curve kSmall[] = {{"learning_rate", "Learning rate", false, true},
                            {"gradient_norm", "Gradient norm", true, false},
                            {"critic", "Critic's loss", true, false},
                            {"critic_gradient_norm", "Critic's gradient norm", true, false},
                            {"score_distance", "Distance of the scores", true, false},
                            {"latent_mean", "Mean of the latents", true, false},
                            {"latent_std", "Deviation of the latents", true, false},
                            {"weight_norm", "Weight norm", false, false},
                            {"validation_loss", "Validation loss", false, false},
                            {"tokens_per_second", "Tokens per second", true, true},
                            {"mfu", "Model FLOPs utilisation", true, true},
                            {"l1", "L1", true, false},
                            {"mse", "MSE", true, false}};
// Measures of a video by second; page/drift.js draws them.
constexpr const char* kDrift[] = {"mean",       "spread",      "histogram",   "sharpness",
                                  "saturation", "border_jump", "latent_mean", "latent_spread"};

// Width in points of the Gaussian that smooths the line; 0: too few points to smooth.
double sigma_of(size_t points) {
  return points < 12 ? 0 : std::max(1.0, std::round(static_cast<double>(points) / 60));
}

// [[x, y], ...] with y to the digits that a drawing shows. std::stod would throw for a value next to zero.
json pairs(const std::vector<Point>& points) {
  json out = json::array();
  for (const auto& p : points) out.push_back({p.x, std::strtod(fmt::format("{:.6g}", p.y).c_str(), nullptr)});
  return out;
}

// Null: the job has no such metric.
json curve_data(const Metrics& metrics, const Curve& curve) {
  const auto values = metrics.find(curve.name);
  if (values == metrics.end()) return nullptr;
  std::vector<Point> points;
  for (const auto& [x, y] : values->second) points.push_back({x, y});
  const auto lower = [](const Point& a, const Point& b) { return a.y < b.y; };
  const auto [low, high] = std::minmax_element(points.begin(), points.end(), lower);
  const bool is_log = !curve.from_zero && low->y > 1e-280 && high->y >= 10 * low->y;
  const double sigma = curve.smooth ? sigma_of(points.size()) : 0;
  return {{"title", curve.title},
          {"scale", is_log            ? "logarithmic"
                    : curve.from_zero ? "from zero"
                                      : "automatic"},
          {"sigma", sigma},
          {"points", pairs(thinned(points, kColumns))},
          {"line", sigma > 0 ? pairs(smoothed(points, sigma, 2 * kColumns, is_log)) : json()},
          {"ends", pairs({points.front(), points.back()})}};
}

// The points of each number by second, from 1 on, with the first and the last; none for a short video.
json drift_of(const json& about) {
  const json& all = object_at(about, "drift");
  json out = json::object();
  for (const char* name : kDrift) {
    std::vector<Point> points;
    double second = 0;
    for (const double number : numbers_at(all, name))
      if (++second; std::isfinite(number)) points.push_back({second, number});
    if (points.empty()) continue;
    std::vector<Point> drawn = thinned(points, kColumns);
    if (drawn.front().x > points.front().x) drawn.insert(drawn.begin(), points.front());
    if (drawn.back().x < points.back().x) drawn.push_back(points.back());
    out[name] = pairs(drawn);
  }
  return out;
}

// The prompt of each shot, and the frame that begins it; none in a video of one prompt.
json shots_of(const json& about) {
  json out = json::array();
  if (!about.is_object()) return out;
  const auto shots = about.find("shots");
  if (shots == about.end() || !shots->is_array()) return out;
  for (const json& shot : *shots)
    if (const auto frame = number_at(shot, "frame"))
      out.push_back({{"prompt", text_at(shot, "prompt")}, {"frame", *frame}});
  return out;
}

json video_data(Pictures& pictures, const std::filesystem::path& file) {
  auto path = file;
  const auto text = read_file(path.replace_extension(".json"), 16 << 20);
  const json facts = text ? parse_facts(*text) : json();
  json out{{"prompt", text_at(facts, "prompt")}, {"sampler", text_at(facts, "sampler")}};
  for (const char* key : {"temperature", "steps", "nfe", "model_calls", "guidance", "width", "height",
                          "frames", "fps", "seconds"})
    out[key] = or_null(number_at(facts, key));
  const bool has_seed = facts.is_object() && facts.contains("seed") && facts["seed"].is_number();
  out["shots"] = shots_of(facts);
  out["drift"] = drift_of(facts);
  out["seed"] = has_seed ? facts["seed"].dump() : "";  // text: it may have more digits than a double
  out["video"] = pictures.media.mp4(file);
  out["strip"] = pictures.media.png(path.replace_extension(".png"));
  return out;
}

}  // namespace

json curves_of(const JobRecord& job) {
  const Metrics metrics = read_metrics(job);
  json out{{"loss", curve_data(metrics, kLoss)}, {"small", json::array()}};
  for (const auto& curve : kSmall)
    if (json data = curve_data(metrics, curve); !data.is_null()) out["small"].push_back(std::move(data));
  return out;
}

json ranks_of(const JobRecord& job) {
  const json& ranks = object_at(job.summary, "ranks");
  const size_t all = numbers_at(ranks, "steps").size();
  json out = json::array();
  for (size_t r = 0; all > 1 && r < all; ++r) {
    json row;
    for (const char* key : {"tokens", "loss_tokens", "encoded", "bytes_sent", "bytes_received",
                            "computing_seconds", "waiting_seconds"}) {
      const auto values = numbers_at(ranks, key);
      row[key] = r < values.size() ? values[r] : 0.0;
    }
    out.push_back(std::move(row));
  }
  return out;
}

json rounding_of(const JobRecord& job) {
  const auto rows = job.summary.find("rounding");
  json out = json::array();
  if (rows == job.summary.end() || !rows->is_array()) return out;
  for (const json& row : *rows) {
    json layer{{"layer", text_at(row, "layer")}};
    for (const char* operand : {"activations", "weights", "gradients"})
      for (const char* figure : {"sqnr", "clipped", "underflowed"})
        layer[operand][figure] = or_null(number_at(object_at(row, operand), figure));
    out.push_back(std::move(layer));
  }
  return out;
}

json pairs_of(Pictures& pictures, const JobRecord& job) {
  const auto folder = job.folder / "samples";
  json out = json::array();
  for (int i = 0; i < kMostPairs; ++i) {
    const std::string end = "_" + std::to_string(i) + ".png";
    std::error_code error;
    if (!std::filesystem::exists(folder / ("original" + end), error)) break;
    json original = pictures.media.png(folder / ("original" + end));
    out.push_back({{"original", std::move(original)},
                   {"reconstruction", pictures.media.png(folder / ("reconstruction" + end))}});
  }
  return out;
}

json videos_of(Pictures& pictures, const JobRecord& job) {
  const auto files = files_in(job.folder / "videos", ".mp4");
  const size_t shown = std::min(files.size(), kMostVideos);
  json out{{"list", json::array()}, {"more", files.size() - shown}};
  for (size_t i = 0; i < shown; ++i) out["list"].push_back(video_data(pictures, files[i]));
  return out;
}

}  // namespace kinora::core::report
