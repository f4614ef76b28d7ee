#include "core/plugin/manifest.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "core/plugin/host.hpp"
#include "core/plugin/library.hpp"
#include "core/plugin/manifest_reader.hpp"
#include "kinora/options.hpp"

namespace kinora::core {
namespace {

bool parse_version(std::string_view text, uint32_t& major, uint32_t& minor) {
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return false;
  const auto second = std::from_chars(first.ptr + 1, end, minor);
  return second.ec == std::errc() && second.ptr == end;
}

class Parser {
 public:
  explicit Parser(std::string_view file) : errors_(file) {}

  Result<PluginSpec> parse(std::string_view text, std::string_view file) {
    PluginSpec out;
    try {
      const toml::table root = toml::parse(text, file);
      document(root, out);
    } catch (const toml::parse_error& e) {
      errors_.add_text(e.source().begin, e.description());
    }
    const bool is_good = !errors_.has_errors();
    out.warnings = errors_.lines();
    if (is_good) return out;
    return fail(KINORA_ERROR_INVALID, "{}", fmt::join(out.warnings, "\n"));
  }

 private:
  void document(const toml::table& root, PluginSpec& out) {
    TomlTable top(root, "the manifest", errors_);
    const auto* head = top.table("plugin");
    if (head && !is_known_format(*head)) return;
    if (head)
      plugin(*head, out);
    else
      top.missing("plugin");
    const auto* list = top.node("component");
    if (list && !list->is_array_of_tables())
      errors_.add(list->source(), "components are written as [[component]]");
    if (!list) top.missing("component");
    std::set<std::string> seen;
    for (size_t i = 0; list && list->is_array_of_tables() && i < list->as_array()->size(); ++i) {
      const auto& table = *list->as_array()->get(i)->as_table();
      auto c = read_component(table, {errors_, !newer_, out.tier});
      if (!seen.insert(c.id).second) errors_.add(table.source(), "component '{}' is listed twice", c.id);
      out.components.push_back(std::move(c));
    }
    if (!newer_) top.finish();
  }

  // Another format may mean something else by the same words, so nothing more is read of it.
  bool is_known_format(const toml::table& plugin) {
    const auto* format = plugin.get("manifest");
    if (!format || format->value_exact<int64_t>() == kManifestFormat) return true;
    errors_.add(format->source(),
                "'manifest' of [plugin] must be {}, the only format that this Kinora reads; "
                "another one needs a newer Kinora",
                kManifestFormat);
    return false;
  }

  void plugin(const toml::table& table, PluginSpec& out) {
    TomlTable t(table, "[plugin]", errors_);
    t.node("manifest");
    out.name = t.text("name", true);
    if (has_text(table, "name") && !is_name(out.name))
      errors_.add(t.place("name"), "'{}' is not a valid plugin name; {}", out.name, name_rule);
    out.version = t.text("version", true);
    const std::string abi = t.text("abi", true);
    if (has_text(table, "abi") && !parse_version(abi, out.abi_major, out.abi_minor))
      errors_.add(t.place("abi"), "abi '{}' must be \"MAJOR.MINOR\", for example \"1.0\"", abi);
    newer_ = out.abi_major != KINORA_ABI_MAJOR || out.abi_minor > KINORA_ABI_MINOR;
    const std::string tier = t.text("tier", true);
    if (has_text(table, "tier") && tier != "stable" && tier != "pinned" && tier != "host")
      errors_.add(t.place("tier"), "unknown tier '{}'; tiers: stable, pinned, host", tier);
    out.tier = tier == "pinned" ? Tier::pinned : tier == "host" ? Tier::host : Tier::stable;
    pinned(t, out);
    out.kinora = exact(t, "kinora", out.tier == Tier::host);
    if (out.tier != Tier::host && !out.kinora.empty())
      errors_.add(t.place("tier"), "only tier \"host\" has the key kinora");
    if (!newer_) t.finish();
  }

  void pinned(TomlTable& t, PluginSpec& out) {
    const bool must = out.tier == Tier::pinned;
    out.torch = exact(t, "torch", must);
    out.cxx_abi = t.text("cxx_abi", must);
    out.cuda = t.text("cuda");
    if (!must && !(out.torch + out.cxx_abi + out.cuda).empty())
      errors_.add(t.place("tier"), "torch, cxx_abi and cuda belong to tier \"pinned\"");
  }

  // "==2.11.0" without the "==".
  std::string exact(TomlTable& t, const char* key, bool must) {
    const std::string text = t.text(key, must);
    if (!text.empty() && (!text.starts_with("==") || text.size() < 3))
      errors_.add(t.place(key), "{} '{}' must be one exact version, for example \"==2.11.0\"", key, text);
    return text.starts_with("==") ? text.substr(2) : text;
  }

  TomlErrors errors_;
  // A manifest for a newer host may contain what this one does not know; the version check rejects it with a
  // better message.
  bool newer_ = false;
};

}  // namespace

Result<PluginSpec> parse_manifest(std::string_view text, std::string_view file) {
  return Parser(file).parse(text, file);
}

const char* tier_name(Tier tier) {
  return tier == Tier::pinned ? "pinned" : tier == Tier::host ? "host" : "stable";
}

bool no_bound(const json& value) { return value.is_number() && std::abs(value.get<double>()) >= 1e300; }

std::vector<std::vector<std::string>> TensorSpec::shapes() const {
  std::vector<std::vector<std::string>> out;
  const std::string_view text = shape;
  for (size_t begin = text.find('['); begin != text.npos;) {
    const size_t end = text.find(']', begin);
    if (end == text.npos) break;
    auto& axes = out.emplace_back();
    std::string axis;
    for (const char c : text.substr(begin + 1, end - begin - 1)) {
      if (c == ',')
        axes.push_back(std::exchange(axis, {}));
      else if (c != ' ' || !axis.empty())
        axis += c;
    }
    if (!axis.empty() || !axes.empty()) axes.push_back(axis);
    begin = text.find('[', end);
  }
  return out;
}

bool TensorSpec::is_in_use(const json& options) const {
  if (when.empty()) return true;
  const json given = options.value(when, json());
  if (!when_value.empty()) return given == when_value;
  if (given.is_number()) return given != 0;
  if (given.is_boolean()) return given.get<bool>();
  return given.is_string() && !given.get_ref<const std::string&>().empty();
}

const OptionSpec* ComponentSpec::option(std::string_view wanted) const {
  const auto it =
      std::find_if(options.begin(), options.end(), [&](const auto& o) { return o.name == wanted; });
  return it == options.end() ? nullptr : &*it;
}

bool ComponentSpec::is_spread() const {
  return std::any_of(slots.begin(), slots.end(), [](const Slot& s) { return s.name == "parallel"; });
}

const ComponentSpec* PluginSpec::component(std::string_view wanted) const {
  const auto it =
      std::find_if(components.begin(), components.end(), [&](const auto& c) { return c.id == wanted; });
  return it == components.end() ? nullptr : &*it;
}

Result<std::string> generate_manifest(const kinora_plugin* plugin, const TierFields& tier) {
  // Quotes like the SDK, so that every line of the file follows one rule.
  const auto quoted = [](const char* s) { return detail::toml_string(s); };
  std::string out = fmt::format("[plugin]\nmanifest = {}\n", kManifestFormat);
  const auto line = [&](const char* key, const std::string& value) {
    out += fmt::format("{} = {}\n", key, quoted(value.c_str()));
  };
  line("name", plugin->name);
  line("version", plugin->version);
  line("abi", fmt::format("{}.{}", plugin->abi_major, plugin->abi_minor));
  line("tier", tier_name(tier.tier));
  if (tier.tier == Tier::pinned) {
    line("torch", "==" + tier.torch);
    line("cxx_abi", tier.cxx_abi);
    if (!tier.cuda.empty()) line("cuda", tier.cuda);
  }
  if (tier.tier == Tier::host) line("kinora", "==" + tier.kinora);
  const kinora_sink sink{&out, [](void* to, const void* data, uint64_t size) {
                           static_cast<std::string*>(to)->append(static_cast<const char*>(data), size);
                         }};
  for (uint32_t i = 0; i < plugin->n_components; ++i) {
    const auto& c = component_at(*plugin, i);
    if (!c.describe) {
      return fail(KINORA_ERROR_UNSUPPORTED,
                  "{}: component {} describes nothing; its plugin.toml is written by hand", plugin->name,
                  c.id);
    }
    out += '\n';
    const auto status = from_abi(c.describe(&sink), std::string(c.id) + ": describe");
    if (!status) return status.failure();
  }
  return out;
}

}  // namespace kinora::core
