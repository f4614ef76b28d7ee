#include "core/plugin/manifest.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include "core/option_value.hpp"
#include "core/plugin/kinds.hpp"
#include "core/plugin/toml_reader.hpp"
#include "core/suggest.hpp"

namespace kinora::core {
namespace {

constexpr const char* name_letters = "abcdefghijklmnopqrstuvwxyz0123456789-_.";

// Names become file names, ids and TOML keys.
bool is_name(std::string_view s) {
  return !s.empty() && s.size() <= 64 && s[0] != '.' && s[0] != '-' && s.find_first_not_of(name_letters) == s.npos;
}

bool parse_version(std::string_view text, uint32_t& major, uint32_t& minor) {
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return false;
  const auto second = std::from_chars(first.ptr + 1, end, minor);
  return second.ec == std::errc() && second.ptr == end;
}

bool has_text(const toml::table& table, const char* key) {
  const auto* node = table.get(key);
  return node && node->is_string();
}

std::optional<json> to_json(const toml::node& node) {
  if (const auto* v = node.as_integer()) return v->get();
  if (const auto* v = node.as_floating_point()) return v->get();
  if (const auto* v = node.as_boolean()) return v->get();
  if (const auto* v = node.as_string()) return v->get();
  const auto* list = node.as_array();
  if (!list) return {};
  json out = json::array();
  for (const auto& item : *list) {
    auto v = to_json(item);
    if (!v) return {};
    out.push_back(std::move(*v));
  }
  return out;
}

class Parser {
 public:
  explicit Parser(std::string_view file) : errors_(file) {}

  // hosted: the plugin's part; without it a text of components only, of kinds that are not a plugin's.
  Result<PluginSpec> parse(std::string_view text, std::string_view file, bool hosted) {
    PluginSpec out;
    hosted_ = hosted;
    try {
      const toml::table root = toml::parse(text, file);
      document(root, out);
    } catch (const toml::parse_error& e) {
      errors_.add_text(e.source().begin, e.description());
    }
    if (errors_.empty()) return out;
    return Failure{KINORA_INVALID, errors_.text()};
  }

 private:
  void document(const toml::table& root, PluginSpec& out) {
    TomlTable top(root, "the manifest", errors_);
    if (const auto* p = hosted_ ? top.table("plugin") : nullptr) {
      plugin(*p, out);
    } else if (hosted_) {
      top.missing("plugin");
    }
    const auto* list = top.node("component");
    if (list && !list->is_array_of_tables()) errors_.add(list->source(), "components are written as [[component]]");
    if (!list) top.missing("component");
    std::set<std::string> seen;
    for (size_t i = 0; list && list->is_array_of_tables() && i < list->as_array()->size(); ++i) {
      const auto& table = *list->as_array()->get(i)->as_table();
      auto c = component(table);
      if (!seen.insert(c.id).second) errors_.add(table.source(), "component '{}' is listed twice", c.id);
      out.components.push_back(std::move(c));
    }
    finish(top);
  }

  void plugin(const toml::table& table, PluginSpec& out) {
    TomlTable t(table, "[plugin]", errors_);
    out.name = t.text("name", true);
    if (has_text(table, "name") && !is_name(out.name)) bad_name(t.place("name"), "plugin", out.name);
    out.version = t.text("version", true);
    const std::string abi = t.text("abi", true);
    if (has_text(table, "abi") && !parse_version(abi, out.abi_major, out.abi_minor))
      errors_.add(t.place("abi"), "abi '{}' must be \"MAJOR.MINOR\", for example \"1.0\"", abi);
    newer_ = out.abi_major != KINORA_ABI_MAJOR || out.abi_minor > KINORA_ABI_MINOR;
    const std::string tier = t.text("tier", true);
    if (has_text(table, "tier") && tier != "stable" && tier != "pinned")
      errors_.add(t.place("tier"), "unknown tier '{}'; tiers: stable, pinned", tier);
    out.tier = tier == "pinned" ? Tier::pinned : Tier::stable;
    pinned(t, out);
    finish(t);
  }

  void pinned(TomlTable& t, PluginSpec& out) {
    const bool must = out.tier == Tier::pinned;
    const std::string torch = t.text("torch", must);
    out.cxx_abi = t.text("cxx_abi", must);
    out.cuda = t.text("cuda");
    if (!must && !(torch + out.cxx_abi + out.cuda).empty())
      errors_.add(t.place("tier"), "torch, cxx_abi and cuda belong to tier \"pinned\"");
    if (!torch.empty() && (!torch.starts_with("==") || torch.size() < 3))
      errors_.add(t.place("torch"), "torch '{}' must be one exact version, for example \"==2.11.0\"", torch);
    out.torch = torch.starts_with("==") ? torch.substr(2) : torch;
  }

  ComponentSpec component(const toml::table& table) {
    ComponentSpec out;
    TomlTable t(table, "[[component]]", errors_);
    out.id = t.text("id", true);
    out.help = t.text("help");
    const auto slash = std::min(out.id.find('/'), out.id.size());
    out.kind = out.id.substr(0, slash);
    out.name = out.id.substr(std::min(slash + 1, out.id.size()));
    if (has_text(table, "id")) {
      if (!is_name(out.name)) bad_name(t.place("id"), "component", out.id);
      check_kind(t, out);
    }
    out.inputs = tensors(t, "input", out.id);
    out.outputs = tensors(t, "output", out.id);
    if (const auto* options = t.table("option"))
      for (const auto& [key, node] : in_file_order(*options)) option(*key, *node, out);
    finish(t);
    return out;
  }

  void check_kind(const TomlTable& t, const ComponentSpec& c) {
    if (newer_ || !hosted_ || find_kind(c.kind)) return;
    std::vector<std::string> names;
    for (const auto& k : kinds()) names.emplace_back(k.name);
    const std::string rest = did_you_mean(c.kind, names);
    errors_.add(t.place("id"), "unknown kind '{}' of component '{}'{}", c.kind, c.id,
                rest.empty() ? fmt::format("; kinds: {}", fmt::join(names, ", ")) : rest);
  }

  std::vector<TensorSpec> tensors(TomlTable& from, const char* way, const std::string& owner) {
    std::vector<TensorSpec> out;
    const auto* table = from.table(way);
    if (!table) return out;
    for (const auto& [key, node] : in_file_order(*table)) {
      const std::string name(key->str());
      const auto* fields = node->as_table();
      if (!fields) {
        errors_.add(node->source(), "{} '{}' of {} must be a table {{ shape, dtype, help }}", way, name, owner);
        continue;
      }
      TomlTable t(*fields, fmt::format("{} '{}' of {}", way, name, owner), errors_);
      out.push_back({name, t.text("shape", true), t.text("dtype", true), t.text("help")});
      finish(t);
    }
    return out;
  }

  void option(const toml::key& key, const toml::node& node, ComponentSpec& to) {
    OptionSpec out;
    out.name = std::string(key.str());
    const std::string what = fmt::format("option '{}' of {}", out.name, to.id);
    const auto* table = node.as_table();
    if (!table) return errors_.add(node.source(), "{} must be a table {{ type, default, ... }}", what);
    if (!is_name(out.name)) bad_name(key.source(), "option", out.name);
    TomlTable t(*table, what, errors_);
    const bool typed = option_type(t, out);
    out.min = number(t, "min");
    out.max = number(t, "max");
    out.above = number(t, "above");
    out.below = number(t, "below");
    out.unit = t.text("unit");
    out.help = t.text("help");
    out.choices = t.texts("choices");
    out.required = t.truth("required");
    const auto* value = t.node("default");
    if (!value) {
      t.missing("default");
    } else if (typed) {
      default_of(*value, out, to.id);
    }
    finish(t);
    to.options.push_back(std::move(out));
  }

  bool option_type(TomlTable& t, OptionSpec& out) {
    const std::string type = t.text("type", true);
    std::vector<std::string> names;
    for (int i = 0; i <= static_cast<int>(OptionType::strings); ++i) {
      names.emplace_back(type_name(static_cast<OptionType>(i)));
      if (names.back() == type) {
        out.type = static_cast<OptionType>(i);
        return true;
      }
    }
    if (!type.empty())
      errors_.add(t.place("type"), "unknown option type '{}'{}; types: {}", type, did_you_mean(type, names), fmt::join(names, ", "));
    return false;
  }

  std::optional<double> number(TomlTable& t, const char* key) {
    const auto* n = t.node(key);
    if (!n) return {};
    if (const auto* v = n->as_integer()) return static_cast<double>(v->get());
    if (const auto* v = n->as_floating_point()) return v->get();
    errors_.add(n->source(), "'{}' must be a number", key);
    return {};
  }

  void default_of(const toml::node& node, OptionSpec& out, const std::string& owner) {
    const auto given = to_json(node);
    if (!given) return errors_.add(node.source(), "a default is a number, a string, a bool or a list of them");
    std::vector<Problem> problems;
    out.default_value = checked_value(out, *given, owner, problems);
    // The default of a required option is only an example; it may be empty.
    if (out.required) return;
    for (const auto& p : problems) errors_.add(node.source(), "default: {}", p.message);
  }

  void bad_name(const toml::source_region& place, const char* what, const std::string& name) {
    errors_.add(place, "'{}' is no name of {} {}; use a-z, 0-9, '-', '_' and '.'{}", name, what[0] == 'o' ? "an" : "a", what,
                what[0] == 'c' ? ", after KIND/" : "");
  }

  // A manifest for a newer host may say what this one does not know; the version check refuses it with a better message.
  void finish(TomlTable& t) {
    if (!newer_) t.finish();
  }

  TomlErrors errors_;
  bool newer_ = false, hosted_ = true;
};

}  // namespace

Result<PluginSpec> parse_manifest(std::string_view text, std::string_view file) { return Parser(file).parse(text, file, true); }

Result<ComponentSpec> parse_component(std::string_view text, std::string_view file) {
  auto parsed = Parser(file).parse(text, file, false);
  if (!parsed) return parsed.failure();
  if (parsed->components.size() != 1) return fail(KINORA_INVALID, "{}:1:1: {} components, expected one", file, parsed->components.size());
  return std::move(parsed->components[0]);
}

const OptionSpec* ComponentSpec::option(std::string_view wanted) const {
  const auto it = std::find_if(options.begin(), options.end(), [&](const auto& o) { return o.name == wanted; });
  return it == options.end() ? nullptr : &*it;
}

const ComponentSpec* PluginSpec::component(std::string_view wanted) const {
  const auto it = std::find_if(components.begin(), components.end(), [&](const auto& c) { return c.id == wanted; });
  return it == components.end() ? nullptr : &*it;
}

}  // namespace kinora::core
