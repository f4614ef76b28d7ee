#include "apps/studio/live.hpp"

#include <chrono>
#include <fstream>

#include "core/base/facts.hpp"

namespace kinora::studio {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kLargest = 4 << 20;

json object_in(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error || size > kLargest) return {};
  std::ifstream in(path, std::ios::binary);
  json value = core::parse_facts(std::string(std::istreambuf_iterator<char>(in), {}));
  return value.is_object() ? std::move(value) : json();
}

}  // namespace

json live_of(const JobFolder& job, const json& usage) {
  json figures = object_in(job.path / "live.json"), summary = object_in(job.path / "summary.json");
  if (figures.is_null() && summary.is_null()) return {};
  std::error_code error;
  const auto written = fs::last_write_time(job.path / "live.json", error);
  const auto age = std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count();
  return {
      {"job", job.name},
      {"done", !summary.is_null() && core::text_in(summary, "status") != "failed"},
      {"age_s", error ? json() : json(age)},
      {"failure", core::text_in(object_in(job.path.parent_path() / ("." + job.name + ".failed")), "message")},
      {"usage", summary.is_null() ? usage : core::object_in(summary, "usage")},
      {"figures", std::move(figures)},
      {"summary", std::move(summary)}};
}

}  // namespace kinora::studio
