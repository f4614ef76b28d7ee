#include "apps/kinora/command.hpp"

#include <iostream>
#include <set>

#include <fmt/format.h>

#include "core/base/log.hpp"
#include "core/base/paths.hpp"
#include "core/config/document.hpp"
#include "core/run/inputs.hpp"
#include "core/run/job_check.hpp"
#include "core/run/place.hpp"
#include "core/run/weights.hpp"

namespace kinora {
namespace {

// A plugin found earlier may take over what another offers, also what Kinora itself does. That may be
// intended, but never happens unnoticed. Rank 0 speaks for all.
void warn_of_taken_over(core::Runtime& runtime, const core::RunFile& run) {
  const auto place = core::place_of(core::environment);
  if (place && !place->first()) return;
  std::set<std::string> used{"storage/file"};
  for (const auto& storage : run.storages) used.insert(storage.id);
  for (const auto& job : run.jobs) {
    used.insert(job.kind->id);
    for (const auto& use : job.components) used.insert(use.id);
  }
  for (const auto& line : runtime.registry().taken_over(used)) core::log_warn("{}", line);
}

}  // namespace

// A message may quote a stranger's file, which must not control the terminal.
int complain(int code, const std::string& message) {
  std::string shown;
  for (const char c : message)
    if (const auto byte = static_cast<unsigned char>(c);
        (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f)
      shown += fmt::format("\\x{:02x}", byte);
    else
      shown += c;
  std::cerr << "kinora: " << shown << "\n";
  return code;
}

std::optional<core::RunFile> load_run(core::Runtime& runtime, const std::string& file,
                                      const std::vector<std::string>& sets, std::optional<int64_t> ranks) {
  return load_run(runtime, core::Document::read(file), file, sets, ranks);
}

std::optional<core::RunFile> load_run(core::Runtime& runtime, core::Result<core::Document> doc,
                                      const std::string& file, const std::vector<std::string>& sets,
                                      std::optional<int64_t> ranks) {
  if (!doc) {
    std::cerr << doc.failure().message << "\n";
    return std::nullopt;
  }
  std::vector<core::Diagnostic> problems;
  for (const auto& set : sets)
    if (auto status = doc->set(set); !status) problems.push_back({{}, status.failure().message});
  core::RunFile run = core::read_run(*doc, runtime.registry(), problems);
  warn_of_taken_over(runtime, run);
  core::configure_storages(runtime.io(), run, problems);
  if (ranks || !problems.empty())
    for (auto& p : core::check_jobs(runtime, run, ranks.value_or(0))) problems.push_back(std::move(p));
  for (const auto& p : problems) std::cerr << (p.at.file.empty() ? p.message : core::format(p)) << "\n";
  if (problems.empty()) return run;
  std::cerr << file << ": " << problems.size() << (problems.size() == 1 ? " error\n" : " errors\n");
  return std::nullopt;
}

SetOption parse_set(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw Error(KINORA_ERROR_INVALID, "--set " + text + ": expected NAME=VALUE");
  SetOption out{text.substr(0, equals), {}, text.substr(equals + 1)};
  auto parsed = core::Document::parse("v = " + out.text, "--set");
  out.value = parsed ? parsed->root().value("v", nlohmann::json(out.text)) : nlohmann::json(out.text);
  if (out.value.is_string()) out.text = out.value.get<std::string>();
  return out;
}

void complete_options(core::Registry& registry, const core::ComponentSpec& spec, const std::string& config,
                      const std::string& weights, nlohmann::json& options) {
  if (!config.empty())
    options = core::with_config(spec, std::move(options), config);
  else if (!weights.empty())
    options = core::with_weights(registry, spec, std::move(options), {weights});
}

nlohmann::json options_of(core::Registry& registry, const core::ComponentSpec& spec,
                          const std::vector<std::string>& sets, const std::string& weights) {
  nlohmann::json out = nlohmann::json::object();
  std::string config;
  for (const auto& set : sets) {
    const auto [name, value, text] = parse_set(set);
    if (name == "config" && !spec.option(name)) {
      config = text;
    } else {
      out[name] = value;
    }
  }
  complete_options(registry, spec, config, weights, out);
  return out;
}

}  // namespace kinora
