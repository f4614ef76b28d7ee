#include "plugins/jobs/report/record.hpp"
#include "core/base/facts.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

namespace kinora::core::report {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::vector<const JobRecord*> RunRecord::of_kind(std::string_view kind) const {
  std::vector<const JobRecord*> out;
  for (const auto& job : jobs)
    if (job.kind == kind) out.push_back(&job);
  return out;
}

void read_summary(JobRecord& job) {
  const auto text = read_file(job.folder / "summary.json");
  if (!text) {
    job.missing = "it has not finished: its folder has no summary.json";
    return;
  }
  json summary = parse_facts(*text);
  if (summary.is_object()) {
    job.summary = std::move(summary);
  } else {
    job.missing = "its summary.json is incomplete; delete it and run again";
  }
}

std::optional<double> number_at(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

int64_t count_at(const json& object, const char* key) {
  const double value = number_at(object, key).value_or(0);
  return std::abs(value) < 9e15 ? static_cast<int64_t>(value) : 0;
}

std::string text_at(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

const json& object_at(const json& object, const char* key) {
  static const json none = json::object();
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_object() ? *found : none;
}

std::vector<double> numbers_at(const json& object, const char* key) {
  std::vector<double> out;
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end() || !found->is_array()) return out;
  out.reserve(found->size());
  for (const auto& item : *found) out.push_back(item.is_number() ? item.get<double>() : 0.0);
  return out;
}

std::optional<std::string> read_file(const fs::path& file, uint64_t at_most) {
  std::error_code error;
  if (!fs::is_regular_file(file, error) || fs::file_size(file, error) > at_most || error) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

Lines read_lines(const fs::path& file) {
  Lines out;
  std::ifstream in(file);
  out.found = in.is_open();
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    json object = parse_facts(line);
    if (object.is_object()) {
      out.objects.push_back(std::move(object));
    } else {
      ++out.broken;
    }
  }
  return out;
}

Metrics read_metrics(const JobRecord& job) {
  Metrics out;
  for (const auto& line : read_lines(job.folder / "metrics.jsonl").objects) {
    const auto step = number_at(line, "step");
    if (!step) continue;
    for (const auto& [name, value] : line.items())
      if (value.is_number() && std::isfinite(value.get<double>())) out[name][*step] = value.get<double>();
  }
  return out;
}

std::vector<fs::path> files_in(const fs::path& folder, std::string_view extension) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == extension && at->path().filename().string().front() != '.')
      out.push_back(at->path());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace kinora::core::report
