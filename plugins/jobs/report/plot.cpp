#include "plugins/jobs/report/plot.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "plugins/jobs/report/axis.hpp"
#include "plugins/jobs/report/series.hpp"
#include "plugins/jobs/report/words.hpp"

namespace kinora::core::report {
namespace {

constexpr double kUnits = 1000;  // of the drawing, along each side
constexpr size_t kColumns = 300, kReadings = 72;

struct Drawing {
  Axis x, y;
  std::vector<Point> points, line;  // measured points, and the drawn line

  std::string place(const Point& p) const {
    return fmt::format("{:.1f} {:.1f}", kUnits * x.at(p.x), kUnits * (1 - y.at(p.y)));
  }
};

// Width in points of the Gaussian that smooths the line; 0: too few points to smooth.
double sigma_of(size_t points) {
  return points < 12 ? 0 : std::max(1.0, std::round(static_cast<double>(points) / 60));
}

Drawing make_drawing(const std::map<double, double>& values, const PlotOptions& options) {
  Drawing d;
  double low = values.begin()->second, high = low;
  for (const auto& [x, y] : values) {
    d.points.push_back({x, y});
    low = std::min(low, y);
    high = std::max(high, y);
  }
  d.x = make_axis(d.points.front().x, d.points.back().x, Scale::linear, options.small ? 3 : 6, false);
  d.y = make_axis(low, high, options.from_zero ? Scale::from_zero : Scale::automatic, options.small ? 3 : 5,
                  true);
  const double sigma = options.smooth ? sigma_of(d.points.size()) : 0;
  d.line = sigma > 0 ? smoothed(d.points, sigma, 2 * kColumns, d.y.log) : thinned(d.points, kColumns);
  return d;
}

void draw(Html& out, const Drawing& d, bool dots) {
  out.in("svg", {{"viewBox", "0 0 1000 1000"}, {"preserveAspectRatio", "none"}, {"aria-hidden", "true"}},
         [&] {
           std::string grid, raw, line;
           for (const auto& tick : d.y.ticks) grid += fmt::format("M0 {0:.1f}H1000", kUnits * (1 - tick.at));
           out.leaf("path", {{"class", "grid"}, {"d", grid}});
           // A stroke of length 0 with round ends stays a round dot, however the drawing is stretched.
           if (dots)
             for (const auto& p : thinned(d.points, kColumns)) raw += "M" + d.place(p) + "h0";
           if (dots) out.leaf("path", {{"class", "dots"}, {"d", raw}});
           for (const auto& p : d.line) line += (line.empty() ? "M" : "L") + d.place(p);
           out.leaf("path", {{"class", "line"}, {"d", line}});
         });
}

void labels(Html& out, const Drawing& d, const std::string& x_name) {
  for (const auto& tick : d.y.ticks)
    out.leaf("span", {{"class", "y"}, {"style", "bottom:" + percent(tick.at)}}, tick.label);
  const auto& ticks = d.x.ticks;
  for (size_t i = 0; i < ticks.size(); ++i) {
    const bool last = i + 1 == ticks.size();
    const std::string place = ticks[i].at > 0.95 ? "x last" : (ticks.size() - i) % 2 ? "x" : "x odd";
    out.leaf("span", {{"class", place}, {"style", "left:" + percent(ticks[i].at)}},
             last ? x_name + " " + ticks[i].label : ticks[i].label);
  }
}

// Upright bands over the drawing; the band under the pointer shows its reading.
void readings(Html& out, const Drawing& d, const PlotOptions& options) {
  const size_t n = std::min(d.line.size(), kReadings);
  if (n < 2) return;
  for (size_t k = 0; k < n; ++k) {
    const Point& p = d.line[k * (d.line.size() - 1) / (n - 1)];
    const double middle = d.x.at(p.x), half = 0.5 / static_cast<double>(n - 1);
    out.leaf("i", {{"class", "band"},
                   {"style", fmt::format("left:{};width:{};--y:{}", percent(middle - half), percent(2 * half),
                                         percent(1 - d.y.at(p.y)))}});
    out.leaf("b", {{"class", "reading"}},
             fmt::format("{} {}: {}", options.x, number(p.x, 15), number(p.y, 4)));
  }
}

// The text after the title in the caption.
std::string explanation(const Drawing& d, const PlotOptions& options, bool dots) {
  if (options.from_zero) {
    const auto higher = [](const Point& a, const Point& b) { return a.y < b.y; };
    return "at most " + number(std::max_element(d.points.begin(), d.points.end(), higher)->y);
  }
  std::string out = number(d.line.front().y) + " → " + number(d.line.back().y);
  if (options.small) return out;
  if (d.y.log) out += " · logarithmic scale";
  if (dots)
    out += fmt::format(" · points: measured, line: their mean (Gaussian, σ = {:.0f} points)",
                       sigma_of(d.points.size()));
  return out;
}

}  // namespace

void plot(Html& out, const std::map<double, double>& values, const PlotOptions& options) {
  if (values.empty()) return;
  const Drawing d = make_drawing(values, options);
  const bool dots = options.smooth && sigma_of(d.points.size()) > 0;
  const std::string said =
      fmt::format("{} by {}: {} at {} {}, {} at {} {}", options.title, options.x,
                  number(d.points.front().y, 4), options.x, number(d.points.front().x, 15),
                  number(d.points.back().y, 4), options.x, number(d.points.back().x, 15));
  out.in("figure", {{"class", options.small ? "plot small" : "plot"}}, [&] {
    out.in("figcaption", {}, [&] {
      out.leaf("b", {}, options.title);
      out.text(" " + explanation(d, options, dots));
    });
    out.in("div", {{"class", "frame"}, {"role", "img"}, {"aria-label", said}}, [&] {
      out.in("div", {{"class", "area"}}, [&] {
        draw(out, d, dots);
        labels(out, d, options.x);
        readings(out, d, options);
      });
    });
  });
}

}  // namespace kinora::core::report
