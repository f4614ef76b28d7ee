#include "apps/serve/metrics.hpp"

#include <fmt/format.h>

namespace kinora::serve {
namespace {

std::string line_of(const std::string& name, const std::string& labels, const std::string& value) {
  return "kinora_serve_" + name + (labels.empty() ? "" : "{" + labels + "}") + " " + value + "\n";
}

}  // namespace

std::string Metrics::label(const std::string& name, const std::string& value) {
  std::string out = name + "=\"";
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? "\\n" : std::string(1, c);
  }
  return out + "\"";
}

void Metrics::count(const std::string& name, const std::string& labels) {
  const std::scoped_lock lock(mutex_);
  ++counts_[name][labels];
}

void Metrics::observe(const std::string& name, double seconds) {
  const std::scoped_lock lock(mutex_);
  Seen& of = seen_[name];
  for (size_t i = 0; i < kBounds.size(); ++i) of.within[i] += seconds <= kBounds[i];
  ++of.count;
  of.sum += seconds;
}

std::string Metrics::text() const {
  const std::scoped_lock lock(mutex_);
  std::string out;
  for (const auto& [name, of] : counts_) {
    out += fmt::format("# TYPE kinora_serve_{} counter\n", name);
    for (const auto& [labels, value] : of) out += line_of(name, labels, std::to_string(value));
  }
  for (const auto& [name, of] : seen_) {
    out += fmt::format("# TYPE kinora_serve_{} histogram\n", name);
    for (size_t i = 0; i < kBounds.size(); ++i)
      out += line_of(name + "_bucket", fmt::format("le=\"{}\"", kBounds[i]), std::to_string(of.within[i]));
    out += line_of(name + "_bucket", "le=\"+Inf\"", std::to_string(of.count));
    out += line_of(name + "_sum", "", fmt::format("{}", of.sum));
    out += line_of(name + "_count", "", std::to_string(of.count));
  }
  return out;
}

}  // namespace kinora::serve
