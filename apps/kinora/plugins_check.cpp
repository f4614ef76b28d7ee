// The checks of a library against its manifest and against this host, and kinora plugins manifest.
#include "apps/kinora/plugins_check.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include <boost/program_options.hpp>

#include "apps/kinora/command.hpp"
#include "core/base/paths.hpp"
#include "core/io/atomic_file.hpp"
#include "core/plugin/elf.hpp"
#include "core/plugin/library.hpp"

namespace kinora {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

std::optional<std::string> manifest_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return {};
  return std::string(std::istreambuf_iterator<char>(in), {});
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

// What a scan only warns of, or disables one component for, is an error for who builds the plugin.
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

class Validation {
 public:
  Validation(fs::path library, const std::function<void(const std::string&)>& begins,
             const std::function<void(const Check&)>& ends)
      : library_(std::move(library)), begins_(begins), ends_(ends) {}

  void run() {
    if (!file() || !manifest()) return;
    begins_("libtorch can be loaded");
    if (spec_.tier != core::Tier::stable && !add("libtorch can be loaded", core::ensure_torch())) return;
    begins_("it opens");
    const auto opened = core::open_library(library_);
    if (!add("it opens", opened ? core::Status() : opened.failure())) return;
    begins_("it is what its manifest says");
    if (!add("it is what its manifest says", core::check_opened(**opened, spec_))) return;
    begins_("its manifest is current");
    const auto current =
        core::generate_manifest(*opened, {spec_.tier, spec_.torch, spec_.cxx_abi, spec_.cuda, spec_.kinora});
    // A manifest written by hand has nothing to be compared with.
    if (current) add("its manifest is current", difference(place_, text_, *current, library_));
  }

 private:
  bool add(const char* what, const core::Status& status) {
    return add(what, status ? "" : status.failure().message);
  }
  bool add(const char* what, const std::string& why) {
    ends_({what, why.empty(), why});
    return why.empty();
  }

  bool file() {
    if (!add("only its owner can change it", core::why_untrusted(library_))) return false;
    auto read = core::read_embedded_manifest(library_);
    if (!add("it is a library for this machine", read ? core::Status() : read.failure())) return false;
    embedded_ = *read;
    exports();
    return true;
  }

  // Another symbol could bind code of the host or of another plugin to this library, or the other way round.
  void exports() {
    auto names = core::read_exports(library_);
    std::string why = names ? "" : names.failure().message;
    if (names) {
      std::erase(*names, KINORA_PLUGIN_ENTRY);
      std::sort(names->begin(), names->end());
    }
    if (names && !names->empty())
      why = fmt::format(
          "it also exports {} more ({}{}); link it with -Wl,--version-script=plugin.map of the SDK's cmake "
          "folder, as kinora_add_plugin does; in C, -fvisibility=hidden is enough",
          names->size(),
          fmt::join(names->begin(),
                    names->begin() + static_cast<ptrdiff_t>(std::min<size_t>(3, names->size())), ", "),
          names->size() > 3 ? ", ..." : "");
    add("it exports its entry alone", why);
  }

  bool manifest() {
    const fs::path beside = library_.parent_path() / "plugin.toml";
    const auto text = manifest_text(beside);
    if (!text && !embedded_)
      return add("it has a manifest",
                 "no plugin.toml next to it or inside it; build it with kinora_add_plugin");
    text_ = text ? *text : *embedded_;
    place_ = text ? beside.string() : library_.string() + "(.kinora.manifest)";
    if (text && embedded_ &&
        !add("plugin.toml equals the embedded one", difference(place_, *text, *embedded_, library_)))
      return false;
    auto parsed = parse_strictly(text_, place_);
    if (!add("its manifest is valid", parsed ? core::Status() : parsed.failure())) return false;
    spec_ = *std::move(parsed);
    const std::string name = "lib" + spec_.name + ".so", found = library_.filename().string();
    if (!add(
            "its file has the plugin's name",
            name == found ? "" : "expected " + name + ", found " + found + "; rename the file or the plugin"))
      return false;
    return add("it fits this host", core::check_compatible(spec_, core::host_facts())) &&
           add("the libraries that it needs are here",
               core::check_needed(library_, spec_.tier, core::host_facts()));
  }

  fs::path library_;
  std::optional<std::string> embedded_;
  std::string text_, place_;
  core::PluginSpec spec_;
  const std::function<void(const std::string&)>& begins_;
  const std::function<void(const Check&)>& ends_;
};

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

void check_plugin(const fs::path& library, const std::function<void(const std::string&)>& begins,
                  const std::function<void(const Check&)>& ends) {
  Validation(library, begins, ends).run();
}

int plugins_manifest(core::Runtime&, const Arguments& arguments) {
  po::options_description known;
  known.add_options()("tier", po::value<std::string>()->default_value("stable"), "")(
      "cuda", po::value<std::string>()->default_value(""), "")("out", po::value<std::string>(), "")(
      "check", po::value<std::string>(), "");
  const auto values = parse(arguments, known);
  const auto tier = values["tier"].as<std::string>();
  if (tier != "stable" && tier != "pinned" && tier != "host")
    return complain(kUsage, "unknown tier '" + tier + "'; tiers: stable, pinned, host");
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
