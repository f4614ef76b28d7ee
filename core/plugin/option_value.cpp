#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/base/quantity.hpp"
#include "core/base/suggest.hpp"
#include "core/plugin/options.hpp"

namespace kinora::core {
namespace {

constexpr std::array<const char*, 10> type_names = {"int",  "size", "float",  "bool",    "string",
                                                    "path", "ints", "floats", "strings", "paths"};

std::string number_text(const OptionSpec& spec, double v) {
  return spec.type == OptionType::size ? format_size(static_cast<uint64_t>(std::max(v, 0.0)))
                                       : fmt::format("{}", v);
}

std::string bounds_text(const OptionSpec& s) {
  std::string out;
  if (s.min && s.max)
    out = fmt::format(" from {} to {}", number_text(s, *s.min), number_text(s, *s.max));
  else if (s.min)
    out = " of at least " + number_text(s, *s.min);
  else if (s.max)
    out = " of at most " + number_text(s, *s.max);
  if (s.above) out += (out.empty() ? " above " : ", above ") + number_text(s, *s.above);
  if (s.below) out += (s.above ? " and below " : " below ") + number_text(s, *s.below);
  return out;
}

bool in_bounds(const OptionSpec& s, double v) {
  return (!s.min || v >= *s.min) && (!s.max || v <= *s.max) && (!s.above || v > *s.above) &&
         (!s.below || v < *s.below);
}

// One item; nothing if it has the wrong type. Invalid sizes report their own error.
std::optional<json> item_of(OptionType type, const json& v) {
  switch (type) {
    case OptionType::integer:
    case OptionType::size:
      if (v.is_number_unsigned() &&
          v.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        return {};
      if (v.is_number_integer()) return v.get<int64_t>();
      if (type == OptionType::size && v.is_string()) {
        const auto size = parse_size(v.get_ref<const std::string&>());
        if (size) return *size;
      }
      return {};
    case OptionType::real:
      if (v.is_number()) return v.get<double>();
      if (v == "inf") return std::numeric_limits<double>::infinity();
      if (v == "-inf") return -std::numeric_limits<double>::infinity();
      if (v == "nan") return std::numeric_limits<double>::quiet_NaN();
      return {};
    case OptionType::boolean:
      return v.is_boolean() ? std::optional<json>(v) : std::nullopt;
    default:
      return v.is_string() ? std::optional<json>(v) : std::nullopt;
  }
}

// Infinity and NaN are meant where the default is one ("inf: none"), infinity as a bound too: it drops nothing.
bool is_meant(const OptionSpec& spec, double v) {
  const json said = portable_json(spec.default_value), given = portable_json(v);
  return (spec.is_bound && !std::isnan(v)) || said == given ||
         (said.is_array() && std::find(said.begin(), said.end(), given) != said.end());
}

// Replaces an invalid item, so that the options still have the manifest's types.
json zero_of(OptionType type) {
  if (type == OptionType::integer || type == OptionType::size) return int64_t{0};
  if (type == OptionType::real) return 0.0;
  return type == OptionType::boolean ? json(false) : json("");
}

class Check {
 public:
  Check(const OptionSpec& spec, std::string_view owner, std::vector<Problem>& problems)
      : spec_(spec), owner_(owner), problems_(problems) {}

  json item(const json& given, const std::string& path) {
    if (spec_.unit == "JSON" && given.is_object()) return given.dump();  // what a run file has as a table
    // Lists of switches are ints: published configurations write them as [false, true].
    const bool bit = spec_.type == OptionType::integers && given.is_boolean();
    auto v = item_of(item_type(spec_.type), bit ? json(given.get<bool>() ? 1 : 0) : given);
    if (!v) {
      const bool is_bad_size = item_type(spec_.type) == OptionType::size && given.is_string();
      problem(path, found_text(given) + (is_bad_size ? "; write for example \"2 GiB\"" : ""));
      return zero_of(item_type(spec_.type));
    }
    if (v->is_number_float() && !std::isfinite(v->get<double>()) && !is_meant(spec_, v->get<double>()))
      problem(path, fmt::format("{}; write a finite number", v->get<double>()));
    else if (v->is_number() && !in_bounds(spec_, v->get<double>()))
      problem(path, given.is_string() ? given.dump() : v->dump());
    if (const auto& names = spec_.choices; v->is_string() && !names.empty() &&
                                           std::find(names.begin(), names.end(), *v) == names.end())
      problem(path, found_text(*v) + did_you_mean(v->get_ref<const std::string&>(), names));
    return *v;
  }

  void problem(const std::string& path, const std::string& found) {
    problems_.push_back({path, fmt::format("option '{}' of {} takes {}, found {}", path, owner_,
                                           expected_text(spec_), found)});
  }

 private:
  const OptionSpec& spec_;
  std::string_view owner_;
  std::vector<Problem>& problems_;
};

}  // namespace

const char* type_name(OptionType type) { return type_names[static_cast<size_t>(type)]; }

bool is_list(OptionType type) { return item_type(type) != type; }

OptionType item_type(OptionType type) {
  switch (type) {
    case OptionType::integers:
      return OptionType::integer;
    case OptionType::reals:
      return OptionType::real;
    case OptionType::strings:
      return OptionType::string;
    case OptionType::paths:
      return OptionType::path;
    default:
      return type;
  }
}

std::string expected_text(const OptionSpec& spec) {
  if (spec.unit == "JSON") return is_list(spec.type) ? "a list of tables" : "a table";
  const std::string name = type_name(spec.type);
  std::string out;
  if (is_list(spec.type)) {
    out = "a list of " + name;
    const std::string bounds = bounds_text(spec);
    if (!bounds.empty()) out += ", each" + bounds;
  } else {
    out = (spec.type == OptionType::integer ? "an " : "a ") + name + bounds_text(spec);
  }
  if (!spec.choices.empty()) out += fmt::format(" among '{}'", fmt::join(spec.choices, "', '"));
  return spec.unit.empty() ? out : out + " (" + spec.unit + ")";
}

std::string found_text(const json& given) {
  const auto shown = [&] {
    std::string text = given.dump(-1, ' ', false, json::error_handler_t::replace);
    return text.size() > 60 ? text.substr(0, 57) + "..." : text;
  };
  if (given.is_string()) return "the string " + shown();
  if (given.is_boolean()) return "the bool " + shown();
  if (given.is_number_float())
    return "the float " +
           (std::isfinite(given.get<double>()) ? shown() : fmt::format("{}", given.get<double>()));
  if (given.is_number()) return "the int " + shown();
  if (given.is_array()) return fmt::format("a list of {} item{}", given.size(), given.size() == 1 ? "" : "s");
  return given.is_object() ? "a table" : "nothing";
}

json portable_json(const json& v) {
  if (v.is_number_float() && !std::isfinite(v.get<double>()))
    return std::isnan(v.get<double>()) ? "nan" : v.get<double>() > 0 ? "inf" : "-inf";
  json out = v;
  if (v.is_array()) std::transform(v.begin(), v.end(), out.begin(), portable_json);
  return out;
}

json checked_value(const OptionSpec& spec, const json& given, std::string_view owner,
                   std::vector<Problem>& problems) {
  Check check(spec, owner, problems);
  if (!is_list(spec.type)) return check.item(given, spec.name);
  if (spec.type == OptionType::reals && given.is_number())  // a lone float is a list of one
    return json::array({check.item(given, spec.name)});
  if (spec.type == OptionType::paths && given.is_string())  // and so is a lone path; an empty one is none
    return given == "" ? json::array() : json::array({given});
  if (!given.is_array()) {
    const bool is_broken = given.is_string() && given.get_ref<const std::string&>().starts_with('[');
    check.problem(spec.name,
                  found_text(given) + (is_broken ? "; it is no TOML: a shell needs it in ' '" : "; write it in [ ]"));
    return json::array();
  }
  json out = json::array();
  for (size_t i = 0; i < given.size(); ++i)
    out.push_back(check.item(given[i], fmt::format("{}[{}]", spec.name, i)));
  return out;
}

}  // namespace kinora::core
