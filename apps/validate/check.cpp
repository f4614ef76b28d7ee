// The checks of a library against its manifest and against this host, and kinora plugins manifest.
#include "apps/validate/check.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <sstream>

#include <boost/program_options.hpp>
#include <fmt/ranges.h>

#include "apps/validate/validate.hpp"
#include "core/base/paths.hpp"
#include "core/base/regular_file.hpp"
#include "core/io/atomic_file.hpp"
#include "core/plugin/elf.hpp"
#include "core/plugin/library.hpp"
#include "core/plugin/registry.hpp"

namespace kinora {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

const std::vector<std::string> kTiers{"stable", "pinned", "host"};

std::optional<std::string> manifest_text(const fs::path& path) {
  auto text = core::read_regular_file(path);
  return text ? std::optional(*std::move(text)) : std::nullopt;
}

size_t different_line(const std::string& a, const std::string& b) {
  const auto at = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  return 1 + static_cast<size_t>(std::count(a.begin(), at, '\n'));
}

std::string line_of(const std::string& text, size_t number) {
  std::istringstream in(text);
  std::string line;
  for (size_t i = 0; i < number; ++i)
    if (!std::getline(in, line)) return "(nothing)";
  return line;
}

// "FILE:LINE:1: expected ..., found ...; build ..." if two texts differ, else "". library:
// libNAME.so.
std::string difference(const std::string& file, const std::string& found, const std::string& expected,
                       const fs::path& library) {
  if (found == expected) return "";
  const size_t line = different_line(found, expected);
  const std::string stem = library.stem().string();
  return fmt::format("{}:{}:1: expected `{}`, found `{}`; build the target {}.manifest, then the plugin",
                     file, line, line_of(expected, line), line_of(found, line),
                     stem.starts_with("lib") ? stem.substr(3) : stem);
}

// Problems of which a scan only warns, or for which it disables a component, are errors for a plugin's author.
core::Result<core::PluginSpec> parse_strictly(const std::string& text, const std::string& file) {
  auto parsed = core::parse_manifest(text, file);
  if (!parsed) return parsed;
  std::string wrong;
  const auto line = [&](const std::string& one) { wrong += (wrong.empty() ? "" : "\n") + one; };
  for (const auto& warning : parsed->warnings) line(warning);
  for (const auto& component : parsed->components)
    if (!component.unusable.empty()) line(component.unusable);
  if (!wrong.empty()) return core::fail(KINORA_ERROR_INVALID, "{}", wrong);
  return parsed;
}

// Throws the failure of a status.
void require(const core::Status& status) {
  if (!status) throw Error(status.failure().code, status.failure().message);
}
void require_none(const std::string& problem) {
  if (!problem.empty()) throw Error(KINORA_ERROR_INVALID, problem);
}

std::string check_owner(const Subject& s) {
  require_none(core::why_untrusted(s.library));
  return "";
}

std::string check_elf(const Subject& s) {
  core::or_throw(core::read_embedded_manifest(s.library));
  return "";
}

// Another symbol could bind code of the host or of another plugin to this library, or the other way round.
std::string check_exports(const Subject& s) {
  auto names = core::or_throw(core::read_exports(s.library));
  std::erase(names, KINORA_PLUGIN_ENTRY);
  std::sort(names.begin(), names.end());
  if (names.empty()) return "";
  const auto end = names.begin() + static_cast<ptrdiff_t>(std::min<size_t>(3, names.size()));
  throw Error(
      KINORA_ERROR_INVALID,
      fmt::format("it also exports {} more ({}{}); link it with -Wl,--version-script=plugin.map of the "
                  "SDK's cmake folder, as kinora_add_plugin does; in C, -fvisibility=hidden is enough",
                  names.size(), fmt::join(names.begin(), end, ", "), names.size() > 3 ? ", ..." : ""));
}

// kinora/abi/plugin.h reserves these first words of a stage's name.
constexpr std::string_view kFamilies[] = {"caption", "clip",  "dedup", "embed", "filter",
                                          "shard",   "shots", "text",  "video"};

// Whether another plugin of this process has the component: a plugin may take over one that exists.
bool is_offered(const Subject& s, const std::string& id) {
  return std::any_of(s.plugins.begin(), s.plugins.end(), [&](const fs::path& folder) {
    std::error_code none;
    if (fs::equivalent(folder, s.library.parent_path(), none)) return false;
    const auto plugin =
        core::parse_manifest(manifest_text(folder / "plugin.toml").value_or(""), "plugin.toml");
    return plugin && plugin->component(id);
  });
}

void require_free_names(const Subject& s, const core::PluginSpec& plugin) {
  std::error_code none;
  if (fs::equivalent(core::search_folders({}).back().path, s.library.parent_path().parent_path(), none))
    return;
  for (const auto& c : plugin.components) {
    const std::string family = c.name.substr(0, c.name.find('.'));
    if (c.kind == "stage" && std::ranges::find(kFamilies, family) != std::end(kFamilies) &&
        !is_offered(s, c.id))
      throw Error(
          KINORA_ERROR_INVALID,
          fmt::format("{}: Kinora reserves the first word '{}' of a stage's name; call it vendor.name", c.id,
                      family));
  }
}

std::string check_manifest(const Subject& s) {
  if (s.text.empty())
    throw Error(KINORA_ERROR_NOT_FOUND,
                "no plugin.toml next to it or inside it; build it with kinora_add_plugin");
  const auto embedded = core::or_throw(core::read_embedded_manifest(s.library));
  if (embedded) require_none(difference(s.place, s.text, *embedded, s.library));
  const core::PluginSpec spec = core::or_throw(parse_strictly(s.text, s.place));
  const std::string name = "lib" + spec.name + ".so", found = s.library.filename().string();
  if (name != found)
    throw Error(KINORA_ERROR_INVALID,
                "its file must be called " + name + ", found " + found + "; rename the file or the plugin");
  require_free_names(s, spec);
  return "";
}

const core::PluginSpec& spec_of(const Subject& s) {
  if (!s.plugin) throw Skipped{"its manifest cannot be read; see the check 'manifest'"};
  return *s.plugin;
}

std::string check_host(const Subject& s) {
  require(core::check_compatible(spec_of(s), core::host_facts()));
  return "";
}

std::string check_needs(const Subject& s) {
  require(core::check_needed(s.library, spec_of(s).tier, core::host_facts()));
  return "";
}

std::string check_libtorch(const Subject& s) {
  if (spec_of(s).tier != core::Tier::pinned) throw Skipped{"a plugin of this tier does not need it to open"};
  require(core::ensure_torch());
  return "";
}

const kinora_plugin* opened(const Subject& s) {
  if (spec_of(s).tier != core::Tier::stable) {
    const auto torch = core::ensure_torch();
    if (spec_of(s).tier == core::Tier::pinned) require(torch);  // a job may do without
  }
  return core::or_throw(core::open_library(s.library));
}

std::string check_opens(const Subject& s) {
  opened(s);
  return "";
}

std::string check_tables(const Subject& s) {
  require(core::check_opened(*opened(s), spec_of(s)));
  return "";
}

std::string check_current(const Subject& s) {
  const auto& p = spec_of(s);
  const auto current = core::generate_manifest(opened(s), {p.tier, p.torch, p.cxx_abi, p.cuda, p.kinora});
  if (!current) throw Skipped{"its manifest is written by hand"};
  require_none(difference(s.place, s.text, *current, s.library));
  return "";
}

po::variables_map parse(const Arguments& arguments, po::options_description known) {
  known.add_options()("file", po::value<std::string>()->required(), "");
  po::positional_options_description words;
  words.add("file", 1);
  po::variables_map values;
  po::store(po::command_line_parser(arguments).options(known).positional(words).run(), values);
  if (values.count("file") == 0)
    throw Error(KINORA_ERROR_INVALID, "plugins manifest needs a FILE.so; see kinora plugins --help");
  return values;
}

core::Result<std::string> current_manifest(const fs::path& library, const std::string& tier,
                                           const std::string& cuda) {
  core::TierFields fields;
  const auto& host = core::host_facts();
  if (tier == "host") fields = {.tier = core::Tier::host, .kinora = host.kinora};
  if (tier == "pinned") fields = {core::Tier::pinned, host.torch, host.cxx_abi, cuda};
  if (tier != "stable") {
    // The libraries that the plugin needs must be loaded before the plugin.
    if (const auto torch = core::ensure_torch(); !torch) return torch.failure();
  }
  const auto opened = core::open_library(library);
  if (!opened) return opened.failure();
  if (const auto shape = core::check_shape(**opened, library.filename().string()); !shape)
    return shape.failure();
  return core::generate_manifest(*opened, fields);
}

}  // namespace

Subject subject_of(const fs::path& library) {
  Subject out{.library = library};
  const fs::path beside = library.parent_path() / "plugin.toml";
  const auto text = manifest_text(beside);
  const auto embedded = core::read_embedded_manifest(library);
  if (text) {
    out.text = *text;
    out.place = beside.string();
  } else if (embedded && *embedded) {
    out.text = **embedded;
    out.place = library.string() + "(.kinora.manifest)";
  }
  if (auto parsed = core::parse_manifest(out.text, out.place); !out.text.empty() && parsed)
    out.plugin = *std::move(parsed);
  return out;
}

std::span<const Check> library_checks() {
  static const Check all[] = {
      {"owner", "", "only its owner can change the library and its folders", false, check_owner, nullptr},
      {"elf", "", "it is a library for this machine", true, check_elf, nullptr},
      {"exports", "", "it exports its entry alone", false, check_exports, nullptr},
      {"manifest", "", "plugin.toml is valid, and the same as inside the library", true, check_manifest,
       nullptr},
      {"host", "", "it fits this host: ABI, libtorch, CUDA", true, check_host, nullptr},
      {"needs", "", "the libraries that it needs are here", true, check_needs, nullptr},
      {"libtorch", "", "libtorch can be loaded, if it needs it", true, check_libtorch, nullptr},
      {"opens", "", "it opens with all symbols bound (RTLD_NOW), and its entry returns", true, check_opens,
       nullptr},
      {"tables", "", "its tables are what the manifest says: ids, interfaces, sizes, functions", true,
       check_tables, nullptr},
      {"current", "", "its describe() functions write this very manifest", false, check_current, nullptr}};
  return all;
}

Flags manifest_flags() {
  const auto file = [] { return po::value<std::string>()->value_name("FILE"); };
  Flags out;
  out.add_options()("tier", po::value<std::string>()->default_value(kTiers[0])->value_name(one_of(kTiers)),
                    "")("cuda", po::value<std::string>()->default_value("")->value_name("VERSION"), "")(
      "out", file(), "")("check", file(), "");
  return out;
}

int plugins_manifest(core::Runtime&, const Arguments& arguments) {
  const auto values = parse(arguments, manifest_flags());
  const auto tier = values["tier"].as<std::string>();
  if (std::ranges::find(kTiers, tier) == kTiers.end())
    return complain(kUsage, fmt::format("unknown tier '{}'; tiers: {}", tier, fmt::join(kTiers, ", ")));
  const auto text = current_manifest(fs::absolute(values["file"].as<std::string>()), tier,
                                     values["cuda"].as<std::string>());
  if (!text) return complain(kFailed, text.failure().message);
  const auto library = values["file"].as<std::string>();
  if (const auto parsed = parse_strictly(*text, "plugin.toml"); !parsed)
    return complain(kFailed, library + ": the manifest that its describe() functions write is wrong: " +
                                 parsed.failure().message);
  if (values.count("check")) {
    const auto file = values["check"].as<std::string>();
    const auto found = manifest_text(file);
    if (!found) return complain(kFailed, file + ": cannot be read");
    const auto different = difference(file, *found, *text, library);
    return different.empty() ? kDone : complain(kFailed, different);
  }
  if (!values.count("out")) {
    std::cout << *text;
    return kDone;
  }
  // The build reads this file, so it must never see half of it.
  const auto written = core::write_file_atomically(fs::absolute(values["out"].as<std::string>()), *text);
  return written ? kDone : complain(kFailed, written.failure().message);
}

}  // namespace kinora
