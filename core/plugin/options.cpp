#include "core/plugin/options.hpp"

#include <cctype>

#include "core/base/paths.hpp"
#include "core/base/suggest.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

bool has_scheme(std::string_view text) {
  const auto at = text.find("://");
  if (at == 0 || at == std::string_view::npos) return false;
  for (const char c : text.substr(0, at))
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '+' && c != '-' && c != '.') return false;
  return true;
}

// An empty path stays empty: it means "none".
Result<std::string> absolute_path(const std::string& text, const fs::path& base) {
  if (text.empty()) return text;
  if (text.starts_with("asset:")) {
    auto found = find_asset(std::string_view(text).substr(6));
    if (!found) return found.failure();
    return found->string();
  }
  if (has_scheme(text)) return text;
  const std::string home = environment("HOME");
  if (text.starts_with("~/") && !home.empty())
    return (fs::path(home) / text.substr(2)).lexically_normal().string();
  std::error_code error;
  const fs::path folder = base.empty() ? fs::current_path(error) : fs::absolute(base, error);
  return (folder / text).lexically_normal().string();
}

Options::Value stored(OptionType type, const json& v) {
  const bool list = is_list(type);
  const auto items = [&]<class E>(E) { return list ? v.get<std::vector<E>>() : std::vector<E>{v.get<E>()}; };
  switch (item_type(type)) {
    case OptionType::integer:
    case OptionType::size:
      return {list, items(int64_t{})};
    case OptionType::boolean:
      return {list, std::vector<int64_t>{v.get<bool>() ? 1 : 0}};
    case OptionType::real:
      return {list, items(double{})};
    default:
      return {list, items(std::string{})};
  }
}

void find_unknown(const ComponentSpec& spec, const json& given, std::vector<Problem>& problems) {
  std::vector<std::string> names;
  for (const auto& o : spec.options) names.push_back(o.name);
  for (const auto& [name, value] : given.items()) {
    if (spec.option(name)) continue;
    const std::string rest = names.empty() ? "; it has none" : did_you_mean_or_list(name, names, "it has");
    problems.push_back({name, fmt::format("unknown option '{}' of {}{}", name, spec.id, rest)});
  }
}

json value_of(const ComponentSpec& spec, const OptionSpec& option, const json& given,
              std::vector<Problem>& problems) {
  const auto it = given.find(option.name);
  if (it != given.end()) return checked_value(option, *it, spec.id, problems);
  if (option.required) {
    problems.push_back(
        {option.name, fmt::format("option '{}' of {} is required: {}{}{}", option.name, spec.id,
                                  expected_text(option), option.help.empty() ? "" : ", ", option.help)});
  }
  return option.default_value;
}

}  // namespace

Options Options::make(const ComponentSpec& spec, const json& given, std::vector<Problem>& problems,
                      const fs::path& base) {
  const json table = given.is_object() ? given : json::object();
  if (!given.is_object() && !given.is_null())
    problems.push_back({"", fmt::format("options of {} are a table, found {}", spec.id, found_text(given))});
  find_unknown(spec, table, problems);
  Options out;
  for (const auto& option : spec.options) {
    json v = value_of(spec, option, table, problems);
    // An example of a required option need not exist.
    const bool example = option.required && !table.contains(option.name);
    if (item_type(option.type) == OptionType::path && !example)
      for (json& item : v) {  // a lone path is one item
        auto path = absolute_path(item.get<std::string>(), base);
        if (path) {
          item = *path;
          if (!path->empty()) out.paths_.push_back(*path);
        } else {
          problems.push_back({option.name, fmt::format("option '{}' of {}: {}", option.name, spec.id,
                                                       path.failure().message)});
        }
      }
    out.values_[option.name] = portable_json(v);
    out.items_.emplace(option.name, stored(option.type, v));
  }
  out.canonical_ = out.values_.dump(-1, ' ', false, json::error_handler_t::replace);
  return out;
}

Result<Options> Options::make(const ComponentSpec& spec, const json& given, const fs::path& base) {
  std::vector<Problem> problems;
  Options out = make(spec, given, problems, base);
  if (problems.empty()) return out;
  std::string text;
  for (const auto& p : problems) text += (text.empty() ? "" : "\n") + p.message;
  return Failure{KINORA_ERROR_INVALID, std::move(text)};
}

const Options::Value* Options::find(std::string_view name) const {
  const auto it = items_.find(name);
  return it == items_.end() ? nullptr : &it->second;
}

// kinora.options/1: the view of Options that plugins get.
namespace {

const Options& of(const kinora_options* o) { return *reinterpret_cast<const Options*>(o); }

const Options::Value& need(const kinora_options* o, const char* name) {
  const auto* value = of(o).find(name);
  if (!value)
    throw Error(KINORA_ERROR_NOT_FOUND,
                fmt::format("no option '{}' in the manifest; plugin.toml is not current: "
                            "build the target NAME.manifest, then build again",
                            name));
  return *value;
}

template <class E>
const E& item(const kinora_options* o, const char* name, int64_t index, const char* type) {
  const auto& value = need(o, name);
  const auto* items = std::get_if<std::vector<E>>(&value.items);
  if (!items)
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("option '{}' is not a {} in the manifest; plugin.toml is not "
                            "current: build the target NAME.manifest, then build again",
                            name, type));
  if (index < 0 || static_cast<uint64_t>(index) >= items->size())
    throw Error(KINORA_ERROR_INVALID, fmt::format("option '{}': item {} of {}", name, index, items->size()));
  return (*items)[static_cast<size_t>(index)];
}

int32_t count(const kinora_options* o, const char* name, int64_t* out) {
  return guard([&] {
    *out = std::visit([](const auto& v) { return static_cast<int64_t>(v.size()); }, need(o, name).items);
  });
}
int32_t get_int(const kinora_options* o, const char* name, int64_t index, int64_t* out) {
  return guard([&] { *out = item<int64_t>(o, name, index, "int"); });
}
int32_t get_float(const kinora_options* o, const char* name, int64_t index, double* out) {
  return guard([&] { *out = item<double>(o, name, index, "float"); });
}
int32_t get_string(const kinora_options* o, const char* name, int64_t index, kinora_str* out) {
  return guard([&] { *out = str(item<std::string>(o, name, index, "string")); });
}
int32_t all(const kinora_options* o, kinora_str* out) {
  return guard([&] { *out = str(of(o).canonical()); });
}

}  // namespace

const kinora_options_api& options_table() {
  static const kinora_options_api table{
      sizeof(kinora_options_api), 0, count, get_int, get_float, get_string, all};
  return table;
}

}  // namespace kinora::core
