// A video's length as a bar of its shots, under the curve of scores that decided where they start.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "plugins/jobs/report/sections.hpp"
#include "plugins/jobs/report/series.hpp"
#include "plugins/jobs/report/words.hpp"

namespace kinora::core::report {
namespace {

// The drawing is stretched only horizontally: its vertical unit is a pixel of the page.
constexpr double kWidth = 1000, kCurve = 84, kHeight = 110;
constexpr size_t kColumns = 600, kMostShots = 240;

struct Bar {
  const char* end;
  double height;
};
// Outcomes differ in height as well as in colour.
constexpr Bar kBars[] = {{"kept", 16}, {"filtered", 9}, {"failed", 5}, {"none", 2}};

double bar_height(std::string_view end) {
  for (const auto& bar : kBars)
    if (end == bar.end) return bar.height;
  return 2;
}

std::string x_of(const Film& film, double frame) {
  return fmt::format("{:.2f}", kWidth * frame / static_cast<double>(film.frames));
}

void draw_scores(Html& out, const Film& film, double top, std::optional<double> threshold) {
  const auto values = peaks(film.scores, kColumns);
  std::string line;
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = kWidth * (static_cast<double>(i) + 0.5) / static_cast<double>(values.size());
    line += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x,
                        kCurve * (1 - std::clamp(values[i] / top, 0.0, 1.0)));
  }
  if (!line.empty()) out.leaf("path", {{"class", "line"}, {"d", line}});
  if (threshold)
    out.leaf("path",
             {{"class", "threshold"}, {"d", fmt::format("M0 {:.1f}H1000", kCurve * (1 - *threshold / top))}});
}

void draw_shots(Html& out, const Film& film) {
  std::string cuts;
  for (const auto& shot : film.shots) {
    if (shot.first > 0) cuts += fmt::format("M{} 0V{}", x_of(film, static_cast<double>(shot.first)), kHeight);
    const double height = bar_height(end_of(shot));
    out.leaf("rect", {{"class", end_of(shot)},
                      {"x", x_of(film, static_cast<double>(shot.first))},
                      {"y", fmt::format("{}", kHeight - height)},
                      {"width", x_of(film, static_cast<double>(shot.last - shot.first))},
                      {"height", fmt::format("{}", height)}});
  }
  out.leaf("path", {{"class", "cuts"}, {"d", cuts}});
}

void time_labels(Html& out, const Film& film) {
  const double length = film.seconds(film.frames);
  if (!(length > 0 && length < 1e9)) return;
  double step = 0.5;
  for (const double s : {1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0})
    if (length / step > 8) step = s;
  while (length / step > 8) step *= 2;
  int n = 0;
  for (double t = 0; t <= length; t += step) {
    std::string label = timecode(t);
    if (step >= 1) label.resize(label.size() - 2);
    const char* place = n == 0 ? "x first" : t > 0.97 * length ? "x last" : n % 2 ? "x odd" : "x";
    out.leaf("span", {{"class", place}, {"style", "left:" + percent(t / length)}}, label);
    ++n;
  }
}

void readings(Html& out, const Film& film) {
  for (size_t i = 0; i < std::min(film.shots.size(), kMostShots); ++i) {
    const Shot& shot = film.shots[i];
    const double frames = static_cast<double>(film.frames);
    out.leaf("i", {{"class", "band shot-band"},
                   {"style", "left:" + percent(static_cast<double>(shot.first) / frames) +
                                 ";width:" + percent(static_cast<double>(shot.last - shot.first) / frames)}});
    std::string text =
        fmt::format("Shot {} from {}: {}", i + 1, timecode(film.seconds(shot.first)), end_of(shot));
    if (shot.score) text += fmt::format(", cut at score {:.1f}", *shot.score);
    out.leaf("b", {{"class", "reading"}}, text);
  }
}

void legend(Html& out, const Film& film, std::optional<double> threshold) {
  out.in("figcaption", {}, [&] {
    if (!film.scores.empty())
      out.leaf("span", {{"class", "key key-line"}},
               "content score of each frame, at most " +
                   number(*std::max_element(film.scores.begin(), film.scores.end())));
    if (!film.scores.empty() && threshold)
      out.leaf("span", {{"class", "key key-threshold"}}, "threshold " + number(*threshold));
    for (const auto& bar : kBars) {
      const auto n = std::count_if(film.shots.begin(), film.shots.end(),
                                   [&](const Shot& s) { return std::string_view(end_of(s)) == bar.end; });
      if (n > 0)
        out.leaf(
            "span", {{"class", std::string("key key-") + bar.end}},
            counted(n, "shot") + " " + (std::string_view(bar.end) == "none" ? "without a clip" : bar.end));
    }
  });
}

}  // namespace

const char* end_of(const Shot& shot) {
  for (const char* end : {"kept", "failed", "filtered"})
    for (const Item* clip : shot.clips)
      if (clip->end == end) return end;
  return "none";
}

void write_timeline(Html& out, const Film& film, std::optional<double> threshold) {
  if (film.shots.empty()) return;
  const bool scored = !film.scores.empty();
  const double highest = scored ? *std::max_element(film.scores.begin(), film.scores.end()) : 0;
  const double top = std::max({highest, 1.25 * threshold.value_or(0), 1e-9});
  const std::string said = fmt::format("Timeline of {}: {} in {}; the highest score is {}", film.item.key,
                                       counted(static_cast<int64_t>(film.shots.size()), "shot"),
                                       timecode(film.seconds(film.frames)), number(highest));
  out.in("figure", {{"class", scored ? "timeline" : "timeline bare"}}, [&] {
    legend(out, film, threshold);
    out.in("div", {{"class", "frame"}, {"role", "img"}, {"aria-label", said}}, [&] {
      out.in("div", {{"class", "area"}}, [&] {
        const std::string box = scored ? "0 0 1000 110" : "0 94 1000 16";
        out.in("svg", {{"viewBox", box}, {"preserveAspectRatio", "none"}, {"aria-hidden", "true"}}, [&] {
          draw_shots(out, film);
          if (scored) draw_scores(out, film, top, threshold);
        });
        time_labels(out, film);
        readings(out, film);
      });
    });
  });
}

}  // namespace kinora::core::report
