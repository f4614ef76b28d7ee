#include "core/run/data_reading.hpp"

#include <filesystem>
#include <optional>

#include "core/plugin/options.hpp"

namespace kinora::core {
namespace {

ComponentSpec reading_spec() {
  ComponentSpec out;
  out.id = "input";
  const auto add = [&](const char* name, OptionType type, json value, std::optional<double> min,
                       std::optional<double> max = std::nullopt) {
    OptionSpec& option = out.options.emplace_back();
    option.name = name;
    option.type = type;
    option.default_value = std::move(value);
    option.min = min;
    option.max = max;
  };
  const DataReading defaults;
  add("memory", OptionType::size, defaults.memory, 1);
  add("readers", OptionType::integer, defaults.readers, 0, 64);
  add("cache", OptionType::path, defaults.cache, std::nullopt);
  add("cache_limit", OptionType::size, defaults.cache_limit, 1);
  add("max_failed", OptionType::integer, defaults.max_failed, 0);
  add("max_failed_share", OptionType::real, defaults.max_failed_share, 0, 1);
  add("trusted", OptionType::boolean, defaults.trusted, std::nullopt);
  return out;
}

}  // namespace

std::vector<std::string> data_reading_keys() {
  std::vector<std::string> out;
  for (const auto& option : reading_spec().options) out.push_back(option.name);
  return out;
}

DataReading read_data_reading(const Document& doc, const std::string& pointer, const nlohmann::json& table,
                              std::vector<Diagnostic>& problems) {
  const ComponentSpec spec = reading_spec();
  json given = json::object();
  for (const auto& option : spec.options)
    if (table.contains(option.name)) given[option.name] = table.at(option.name);
  std::vector<Problem> found;
  const auto base = std::filesystem::absolute(doc.name()).parent_path();
  const json values = Options::make(spec, given, found, base).values();
  DataReading out;
  out.memory = values.at("memory");
  out.readers = values.at("readers");
  out.cache = values.at("cache");
  out.cache_limit = values.at("cache_limit");
  out.max_failed = values.at("max_failed");
  out.max_failed_share = values.at("max_failed_share").get<double>();
  out.trusted = values.at("trusted");
  if (out.cache.find("://") != std::string::npos)
    found.push_back({"cache", "cache = " + out.cache + ": must be a folder of this machine"});
  for (const auto& p : found) problems.push_back({doc.value(pointer + "/" + p.path), p.message});
  return out;
}

}  // namespace kinora::core
