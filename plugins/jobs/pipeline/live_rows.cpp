#include "plugins/jobs/pipeline/live_rows.hpp"

#include <algorithm>
#include <cmath>
#include <regex>

#include <fmt/format.h>

#include "core/base/facts.hpp"
#include "core/base/terminal.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

constexpr double kWindow = 10;  // seconds
constexpr double kIdle = 0.05;  // share of a stage's workers below which it has nothing to do
constexpr const char *kSlow = "\033[33m", *kFaint = "\033[2m", *kWrong = "\033[31m", *kEnd = "\033[0m";

struct Row {
  std::string name;
  double share, queue;
  std::string text;
};

// "a, b and 3 more", as many as fit.
std::string listed(const std::vector<std::string>& names, size_t columns) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string next = (i == 0 ? "" : ", ") + names[i];
    const size_t rest = names.size() - i - 1;
    if (i > 0 && out.size() + next.size() + (rest > 0 ? sizeof " and 1000 more" - 1 : 0) > columns)
      return fmt::format("{} and {} more", out, rest + 1);
    out += next;
  }
  return out;
}

// Inputs that have begun, and wait before the stage that makes several samples of one, or before those ahead of it.
size_t waiting_in(const json& stages) {
  double out = 0;
  for (const json& stage : stages) {
    out += std::max(0.0, number_in(stage, "queue"));
    if (number_in(stage, "out") > number_in(stage, "in")) break;
  }
  return static_cast<size_t>(out);
}

// "  at work: a, 5 s of 19 s; 15 waiting"
std::string inputs_row(std::vector<std::string> names, size_t waiting, size_t columns) {
  constexpr std::string_view kAtWork = "  at work: ";
  waiting = std::min(waiting, names.size() - 1);
  names.resize(names.size() - waiting);
  const std::string more = waiting > 0 ? fmt::format("; {} waiting", waiting) : "";
  return fmt::format("{}{}{}", kAtWork,
                     listed(names, columns - std::min(columns, kAtWork.size() + more.size())), more);
}

std::string with_failures_in(const char* colour, const std::string& outcomes) {
  static const std::regex failures("[0-9]+( [a-z]+)? failed");
  return std::regex_replace(outcomes, failures, fmt::format("{}$&{}", colour, kEnd));
}

double workers_of(const json& stage) { return std::max(1.0, number_in(stage, "workers")); }

double share_of(const json& stage) { return std::min(1.0, number_in(stage, "busy") / workers_of(stage)); }

// As the rows show it.
double percent_of(const json& stage) { return std::round(100 * share_of(stage)); }

Row row_of(const json& stage, size_t width) {
  const double queue = number_in(stage, "queue"), share = share_of(stage),
               failed = number_in(stage, "failed");
  const std::string busy_of =
      fmt::format("{:.0f}/{:.0f}", number_in(stage, "workers"), number_in(stage, "limit"));
  std::string text =
      fmt::format("{:<{}} busy {:>3.0f}% of the time {:>5} workers {:>5.1f}/s", text_in(stage, "name"), width,
                  percent_of(stage), busy_of, number_in(stage, "rate"));
  if (queue > 0) text += fmt::format("  {:.0f} wait", queue);
  if (failed > 0) text += fmt::format("  {:.0f} failed", failed);
  return {text_in(stage, "name"), share, queue, std::move(text)};
}

// "" where there is enough of it, and something else limits the run.
std::string memory_of(const json& figures) {
  constexpr double kFew = 0.1;
  const json& memory = object_in(figures, "memory");
  const double used = number_in(memory, "used") / (1 << 20), most = number_in(memory, "bound") / (1 << 20);
  const std::string bound = text_in(figures, "bound");
  if (bound == "source") return "  reading the inputs limits the run";
  if (bound != "memory" && used <= kFew * most) return "";
  return fmt::format("  {:.0f}{} MiB of samples{}", used, most > 0 ? fmt::format(" of {:.0f}", most) : "",
                     bound == "memory" ? "; they limit the run" : "");
}

}  // namespace

void RecentRates::smooth(json& figures) {
  if (!figures.is_object() || !figures.contains("stages")) return;
  json& stages = figures["stages"];
  Report now{number_in(figures, "seconds"), {}, {}};
  for (const json& stage : stages) {
    const std::string name = text_in(stage, "name");
    now.taken[name] = number_in(stage, "in"), now.share[name] = share_of(stage);
  }
  while (reports_.size() > 1 && now.seconds - reports_.front().seconds > kWindow) reports_.pop_front();
  if (!reports_.empty() && now.seconds > reports_.front().seconds) {
    reports_.push_back(now);
    const Report& first = reports_.front();  // what it says is of the time before
    for (json& stage : stages) {
      const std::string name = text_in(stage, "name");
      const auto before = first.taken.find(name);
      const double taken = before == first.taken.end() ? 0 : before->second;
      stage["rate"] = (now.taken[name] - taken) / (now.seconds - first.seconds);
      double share = 0;
      for (size_t i = 1; i < reports_.size(); ++i) share += reports_[i].share[name];
      stage["busy"] = workers_of(stage) * share / static_cast<double>(reports_.size() - 1);
    }
  } else {
    reports_.push_back(std::move(now));
  }
  auto bound = std::ranges::find(stages, text_in(figures, "bound"),
                                 [](const json& stage) { return text_in(stage, "name"); });
  if (bound == stages.end()) return;
  for (auto stage = stages.begin(); stage != stages.end(); ++stage)
    if (percent_of(*stage) > percent_of(*bound)) bound = stage;
  figures["bound"] = text_in(*bound, "name");
}

std::string outcomes_text(int64_t kept, int64_t filtered, int64_t failed, const std::string& unit) {
  std::string out;
  for (const auto& [count, how] : {std::pair{kept, "kept"}, {filtered, "filtered"}, {failed, "failed"}}) {
    if (count == 0) continue;
    const std::string what =
        !out.empty() || unit.empty() ? "" : " " + (count == 1 ? unit.substr(0, unit.size() - 1) : unit);
    out += fmt::format("{}{}{} {}", out.empty() ? "" : ", ", count, what, how);
  }
  return out;
}

std::vector<std::string> live_rows(const json& figures, const std::string& outcomes,
                                   const std::vector<std::string>& at_work, size_t columns,
                                   bool has_colours) {
  const auto in = [&](const char* colour, const std::string& text) {
    return fitted(has_colours ? colour + text + kEnd : text, columns);
  };
  std::vector<std::string> out, idle;
  if (!outcomes.empty())
    out.push_back(fitted("  " + (has_colours ? with_failures_in(kWrong, outcomes) : outcomes), columns));
  constexpr std::string_view kIdleRow = "  idle: ";
  std::vector<Row> rows;
  size_t width = 0;
  const json none = json::array();
  const json& stages = figures.contains("stages") ? figures["stages"] : none;
  if (!at_work.empty()) out.push_back(fitted(inputs_row(at_work, waiting_in(stages), columns), columns));
  for (const json& stage : stages) width = std::max(width, text_in(stage, "name").size());
  const std::string bound = text_in(figures, "bound");
  for (const json& stage : stages) {
    Row row = row_of(stage, width);
    if (row.name == bound || row.share >= kIdle || row.queue > 0)
      rows.push_back(std::move(row));
    else
      idle.push_back(std::move(row.name));
  }
  std::ranges::stable_sort(rows, [&](const Row& a, const Row& b) {
    return std::pair(a.name == bound, a.share) > std::pair(b.name == bound, b.share);
  });
  for (const Row& row : rows)
    out.push_back(row.name == bound ? in(kSlow, "> " + row.text + "  slowest")
                                    : fitted("  " + row.text, columns));
  if (!idle.empty())
    out.push_back(in(kFaint, std::string(kIdleRow) + listed(idle, columns - kIdleRow.size())));
  if (const std::string memory = memory_of(figures); !memory.empty()) out.push_back(fitted(memory, columns));
  return out;
}

}  // namespace kinora::core
