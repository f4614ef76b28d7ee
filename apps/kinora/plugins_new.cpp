// kinora plugins new: a folder with a plugin that builds, from the SDK's templates.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <boost/program_options.hpp>

#include "apps/kinora/command.hpp"
#include "core/base/paths.hpp"
#include "core/base/suggest.hpp"
#include "core/build_info.hpp"
#include "core/io/atomic_file.hpp"
#include "core/plugin/kinds.hpp"

namespace kinora {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;
using Words = std::vector<std::pair<std::string, std::string>>;  // placeholder and replacement

const std::vector<std::string> kTiers{"stable", "pinned"}, kLanguages{"c++", "c"};

// The SDK; empty if it is not installed. A build tree has a link to the source's.
fs::path sdk_folder() {
  std::error_code none;
  const fs::path folder = core::executable_folder() / "../share/kinora/sdk";
  return fs::is_directory(folder / "template/kinds", none) ? fs::canonical(folder) : fs::path();
}

// "flow-match.euler" -> "FlowMatchEuler".
std::string class_name(const std::string& name) {
  std::string out;
  bool begin = true;
  for (const char c : name) {
    const bool letter = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (letter) out += begin ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    begin = !letter;
  }
  return out;
}

// True if the name works as a folder, a library, an id and a class.
bool is_plugin_name(const std::string& name) {
  constexpr const char* letters = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
  return !name.empty() && name.size() <= 64 && name[0] >= 'a' && name[0] <= 'z' &&
         name.find_first_not_of(letters) == name.npos;
}

// Replaces in one pass, so that replacements are not replaced again.
std::string filled(const std::string& text, const Words& words) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const auto word = std::find_if(words.begin(), words.end(), [&](const auto& w) {
      return text.compare(at, w.first.size(), w.first) == 0;
    });
    out += word == words.end() ? text.substr(at, 1) : word->second;
    at += word == words.end() ? 1 : word->first.size();
  }
  return out;
}

std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(KINORA_ERROR_IO, file.string() + ": cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

// The conda recipe; it differs with the tier, and with what the kind's checks need.
// packages: that it is built with, ", fmt".
std::string recipe(const fs::path& from, const std::string& kind, const std::string& name,
                   const std::string& tier, const std::string& packages = "") {
  const bool host = tier == "host", source = kind == "source";
  return filled(contents(from / "recipe.yaml.in"),
                {{"@NAME@", name},
                 {"@BEFORE@", source ? "echo line > lines.txt && " : ""},
                 {"@ASKS@", source              ? " --input lines.txt"
                            : kind == "storage" ? " --at here"
                                                : ""},
                 {"@EXACT@", host ? " ==" KINORA_VERSION : ""},
                 {"@HOST@", host ? ", fmt, nlohmann_json" : packages},
                 {"@TORCH_ROOT@", tier == "pinned" ? " -DKINORA_TORCH_ROOT=$PREFIX" : ""}});
}

// Name and text of every file in the new folder.
Words stage_files(const fs::path& from, const std::string& name) {
  const Words words{{"brightness", name}, {"Brightness", class_name(name)}};
  Words out;
  for (const char* file :
       {"CMakeLists.txt", "README.md", "plugin.toml", "brightness.cpp", "brightness_test.cpp"})
    out.emplace_back(filled(file, words), filled(contents(from / file), words));
  out.emplace_back("recipe.yaml", recipe(from / "kinds", "stage", name, "stable", ", nlohmann_json"));
  return out;
}

// The lines of plugin.toml that set the tier.
std::string tier_lines(const std::string& tier) {
  if (tier == "host") return "tier = \"host\"\nkinora = \"==" KINORA_VERSION "\"\n";
  return tier == "pinned" ? "tier = \"pinned\"\ntorch = \"==" KINORA_TORCH_VERSION "\"\ncxx_abi = \"1\"\n"
                          : "tier = \"stable\"\n";
}

// The header that says what the functions of a kind promise.
std::string header_of(const std::string& kind) {
  return kind == "job" ? "core/run/job.hpp" : "kinora/abi/" + kind + ".h";
}

struct Wanted {
  std::vector<std::string> words;  // KIND NAME [DIR]
  std::string tier, lang;
  bool is_tier_given = false;
};

Words kind_files(const fs::path& from, const Wanted& wanted) {
  const std::string &kind = wanted.words[0], &name = wanted.words[1], &tier = wanted.tier;
  const Words words{{"@NAME@", name},
                    {"@CLASS@", class_name(name)},
                    {"@KIND@", kind},
                    {"@TIER_LINES@", tier_lines(tier)},
                    {"@TIER@", tier},
                    {"@TORCH@", KINORA_TORCH_VERSION},
                    {"@HEADER@", header_of(kind)}};
  const auto text = [&](const std::string& file) { return filled(contents(from / (file + ".in")), words); };
  // Files of one kind, in addition to the files that all kinds have.
  const auto more = [&](const std::string& file) {
    return fs::exists(from / (file + ".in")) ? text(file) : "";
  };
  if (wanted.lang == "c")
    return {{"CMakeLists.txt", text("CMakeLists.c.txt")},
            {"README.md", text("README.md")},
            {"plugin.toml", text("plugin.toml") + text(kind + ".c.toml")},
            {name + ".c", text(kind + ".c")},
            {name + "_test.c", text(kind + "_test.c")},
            {"recipe.yaml", recipe(from, kind, name, tier)}};
  const std::string of_tier = tier == "pinned" ? ".pinned" : "";
  return {{"CMakeLists.txt", text("CMakeLists.txt")},
          {"README.md", text("README" + of_tier + ".md") + more(kind + ".md")},
          {"plugin.toml", text("plugin.toml") + text(kind + of_tier + ".toml")},
          {name + ".cpp", text(kind + of_tier + ".cpp")},
          {name + "_test.py", text("test.py") + text(kind + ".test.py")},
          {"recipe.yaml", recipe(from, kind, name, tier)}};
}

Wanted parse(const Arguments& arguments) {
  Flags known = new_flags();
  known.add_options()("word", po::value<std::vector<std::string>>()->default_value({}, ""));
  po::positional_options_description positional;
  positional.add("word", -1);
  po::variables_map values;
  po::store(po::command_line_parser(arguments).options(known).positional(positional).run(), values);
  return {values["word"].as<std::vector<std::string>>(), values["tier"].as<std::string>(),
          values["lang"].as<std::string>(), !values["tier"].defaulted()};
}

std::string list_of(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

// The mistake in the command line; "" if there is none.
std::string mistake(const Wanted& wanted) {
  std::vector<std::string> kinds;
  for (const auto& k : core::kinds())
    if (k.name != std::string_view("service")) kinds.emplace_back(k.name);
  const auto& [words, tier, lang, is_tier_given] = wanted;
  if (words.size() < 2 || words.size() > 3)
    return "plugins new needs KIND NAME [DIR] [--tier stable|pinned] [--lang c++|c]; kinds: " +
           list_of(kinds);
  const std::string &kind = words[0], &name = words[1];
  if (std::ranges::find(kinds, kind) == kinds.end()) {
    // kinora/strategy.hpp is the C++ header of the kind parallel.
    const std::string hint = core::did_you_mean(kind == "strategy" ? "parallel" : kind, kinds);
    return fmt::format("unknown kind '{}'{} kinds: {}", kind, hint.empty() ? ";" : hint, list_of(kinds));
  }
  if (!is_plugin_name(name))
    return fmt::format("'{}' is not a plugin name; begin with a-z, then use a-z, 0-9, '-', '_' and '.'",
                       name);
  if (kind == "job" && is_tier_given)
    return fmt::format("--tier {}: a kind of job is of tier host, built for one Kinora; leave --tier out",
                       tier);
  if (std::ranges::find(kTiers, tier) == kTiers.end())
    return fmt::format("--tier {}: the tiers are {}", tier, fmt::join(kTiers, " and "));
  if (tier == "pinned" && kind != "model")
    return fmt::format(
        "the pinned tier has a template for models only, not for kind '{}'; begin with the stable tier, then "
        "see share/kinora/sdk/README.md",
        kind);
  if (std::ranges::find(kLanguages, lang) == kLanguages.end())
    return fmt::format("--lang {}: the languages are {}", lang, fmt::join(kLanguages, " and "));
  if (lang == "c" && kind != "stage")
    return fmt::format(
        "there is a template in C for stages only, not for kind '{}'; leave --lang out, or read {}", kind,
        header_of(kind));
  return "";
}

}  // namespace

Flags new_flags() {
  const auto text = [](const std::vector<std::string>& words) {
    return po::value<std::string>()->default_value(words[0])->value_name(one_of(words));
  };
  Flags out;
  out.add_options()("tier", text(kTiers), "")("lang", text(kLanguages), "");
  return out;
}

int plugins_new(core::Runtime&, const Arguments& arguments) {
  Wanted wanted = parse(arguments);
  if (const std::string wrong = mistake(wanted); !wrong.empty()) return complain(kUsage, wrong);
  const auto& words = wanted.words;
  const std::string &kind = words[0], &name = words[1];
  if (kind == "job") wanted.tier = "host";

  const fs::path to = words.size() > 2 ? words[2] : name;
  std::error_code none;
  if (fs::exists(to, none) && !(fs::is_directory(to, none) && fs::is_empty(to, none)))
    return complain(kUsage, to.string() + " exists already; give another folder: kinora plugins new " + kind +
                                " " + name + " DIR");
  const fs::path sdk = sdk_folder();
  if (sdk.empty())
    return complain(
        kFailed,
        fmt::format("no templates in {}; install Kinora with its SDK (share/kinora/sdk)",
                    (core::executable_folder() / "../share/kinora/sdk").lexically_normal().string()));

  const Words files = kind == "stage" && wanted.lang == "c++" ? stage_files(sdk / "template", name)
                                                              : kind_files(sdk / "template/kinds", wanted);
  fs::create_directories(to);
  for (const auto& [file, text] : files) {
    const auto written = core::write_file_atomically(to / file, text);
    if (!written) return complain(kFailed, written.failure().message);
    std::cout << (to / file).string() << "\n";
  }
  std::cout << fmt::format(
      "\nnext:\n  cmake -S {0} -B {0}/build -DCMAKE_PREFIX_PATH={1} -DCMAKE_BUILD_TYPE=Release && cmake "
      "--build {0}/build\n"
      "  kinora --plugins {0}/build/lib/kinora/plugins plugins inspect {2}/{3}\n",
      to.string(), sdk.string(), kind, name);
  return kDone;
}

}  // namespace kinora
