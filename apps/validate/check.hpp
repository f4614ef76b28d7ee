// The checks of `kinora plugins validate`. Each runs in a process of its own (child.hpp).
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/plugin/manifest.hpp"
#include "core/plugin/options.hpp"

namespace kinora {

// The library under test, and the options of the command that all checks share.
struct Subject {
  std::filesystem::path library;
  std::string place, text;  // plugin.toml, or the same text inside the library; "": there is none
  std::optional<core::PluginSpec> plugin;  // nothing: its manifest is missing or wrong
  uint64_t seed = 0;
  std::vector<std::string> sets;               // NAME=VALUE, for every component that has the option
  std::string input;                           // a video for stages, the data of sources; "": none
  std::string at;                              // where a storage may write; "": nowhere
  std::vector<std::filesystem::path> plugins;  // folders of the plugins of this process
  std::filesystem::path recompute;             // the library of parallel/recompute; empty: it is not here
};

// A check that cannot be made, and why. Thrown by a check; no failure.
struct Skipped {
  std::string why;
};

// One component, opened in the process of one check under the host of watching_host.hpp.
struct PluginTrial {
  const Subject& subject;
  const core::ComponentSpec& spec;
  const kinora_component& component;
  std::string folder;  // an empty one, which is removed afterwards; also the working directory
  std::function<void(const std::string&)> now;  // of watching_host.hpp

  template <class Table>
  const Table& table() const {
    return *static_cast<const Table*>(component.api);
  }
  // The options of --set over the defaults. Throws Skipped if a required one is missing, Error if one is
  // wrong.
  core::Options options(core::json more = core::json::object()) const;
};

// A check throws Error for a failure (its message has the thing, the place and the remedy), or Skipped.
// It returns a note on the success, or "".
struct Check {
  const char* name;   // of --include: "exports"
  const char* kinds;  // "": one check of the library; otherwise the kinds of components that it is for
  const char* what;   // one line for --help
  bool is_gate;       // without it the checks after it have no meaning
  std::string (*of_library)(const Subject&);
  std::string (*of_component)(PluginTrial&);

  bool is_for(const core::ComponentSpec&) const;
};

// All, in the order in which they run.
std::vector<Check> all_checks();
std::span<const Check> library_checks();
std::span<const Check> component_checks();
std::span<const Check> surroundings_checks();
std::span<const Check> stage_checks();
std::span<const Check> storage_checks();
std::span<const Check> sampler_checks();
std::span<const Check> loss_checks();
std::span<const Check> optimizer_checks();
std::span<const Check> model_checks();
std::span<const Check> tokenizer_checks();
std::span<const Check> precision_checks();
std::span<const Check> score_checks();
std::span<const Check> source_checks();
std::span<const Check> cache_checks();
std::span<const Check> engine_checks();
std::span<const Check> collective_checks();
std::span<const Check> strategy_checks();

// Kinds of components whose create() is tried.
inline constexpr const char* kAnyKind =
    "stage storage sampler loss model tokenizer precision optimizer score source cache engine collective";

// Notes what the check `surroundings` compares with; call before the library is opened.
void note_surroundings();

// Reads the manifest. Runs no code of the library.
Subject subject_of(const std::filesystem::path& library);

// Opens the library under the watching host, and finds the component. Throws Error.
const kinora_component& open_watched(const Subject&, const core::ComponentSpec&);

}  // namespace kinora
