// Results of the two kinds of training: curves, ranks, and pictures for the tokenizer.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "plugins/jobs/report/sections.hpp"
#include "plugins/jobs/report/series.hpp"

namespace kinora::core::report {
namespace {

constexpr int kMostPairs = 8;
constexpr size_t kColumns = 300;

struct Curve {
  const char* name;  // in metrics.jsonl
  const char* title;
  bool smooth;     // light points, and a line through their local means
  bool from_zero;  // for a schedule, whose peak the reader looks for
};
constexpr Curve kLoss{"loss", "Loss", true, false};
constexpr Curve kSmall[] = {{"learning_rate", "Learning rate", false, true},
                            {"gradient_norm", "Gradient norm", true, false},
                            {"weight_norm", "Weight norm", false, false},
                            {"validation_loss", "Validation loss", false, false},
                            {"tokens_per_second", "Tokens per second", true, true},
                            {"mfu", "Model FLOPs utilisation", true, true},
                            {"l1", "L1", true, false},
                            {"mse", "MSE", true, false}};

// Width in points of the Gaussian that smooths the line; 0: too few points to smooth.
double sigma_of(size_t points) {
  return points < 12 ? 0 : std::max(1.0, std::round(static_cast<double>(points) / 60));
}

// [[x, y], ...] with y to the digits that a drawing shows.
json pairs(const std::vector<Point>& points) {
  json out = json::array();
  for (const auto& p : points) out.push_back({p.x, std::stod(fmt::format("{:.6g}", p.y))});
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
          {"scale", is_log ? "logarithmic" : curve.from_zero ? "from zero" : "automatic"},
          {"sigma", sigma},
          {"points", pairs(thinned(points, kColumns))},
          {"line", sigma > 0 ? pairs(smoothed(points, sigma, 2 * kColumns, is_log)) : json()},
          {"ends", pairs({points.front(), points.back()})}};
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
    for (const char* key : {"tokens", "loss_tokens", "encoded", "bytes_sent", "bytes_received", "computing_seconds",
                            "waiting_seconds"}) {
      const auto values = numbers_at(ranks, key);
      row[key] = r < values.size() ? values[r] : 0.0;
    }
    out.push_back(std::move(row));
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

}  // namespace kinora::core::report
