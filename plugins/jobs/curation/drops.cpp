#include "plugins/jobs/curation/drops.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/facts.hpp"
#include "core/base/log.hpp"
#include "core/base/regular_stream.hpp"
#include "core/run/run_file.hpp"
#include "kinora/abi/base.h"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// Whether all fields of `then` have the same values in `now`.
bool is_still(const nlohmann::json& then, const nlohmann::json& now) {
  return then.empty() || (now.is_object() && is_same_subject(then, now));
}

// The sibling folder that the job's summary names; empty while the job has not ended.
fs::path curated_by(const fs::path& job) {
  const std::string name = text_in(object_in_file(job / "summary.json"), "curated");
  return check_job_name(name) ? job.parent_path() / name : fs::path();
}

}  // namespace

void each_decision(const fs::path& decisions,
                   const std::function<void(const nlohmann::json&, const std::string&, const std::string&,
                                            const std::string&)>& f) {
  auto in = regular_stream(decisions);
  const std::string job = decisions.parent_path().filename().string();
  if (!in)
    throw Error(in.failure().code, fmt::format("{}; run the job '{}' again", in.failure().message, job));
  size_t number = 0;
  for (std::string text; std::getline(*in, text);) {
    ++number;
    const auto line = parse_facts(text);
    const std::string key = text_in(line, "key"), end = text_in(line, "end");
    if (key.empty() || end.empty())
      throw Error(KINORA_ERROR_DATA,
                  fmt::format("{}: line {}: no \"key\" or no \"end\"; run the job '{}' again",
                              decisions.string(), number, job));
    f(line, text, key, end);
  }
}

void apply_edits(const EditHistory& edits, std::map<std::string, Drop>& drops) {
  for (const auto& [key, edit] : edits.edited()) {
    if (!edit.keep) continue;
    if (const auto drop = drops.find(key); drop != drops.end() && !drop->second.is_final) drops.erase(drop);
    if (!*edit.keep) drops[key] = {.rule = "studio.reject", .reason = edit.reason.value_or("")};
  }
}

// Reads the file twice: of the kept clips only those that others are copies of are needed.
std::map<std::string, Drop> drops_in(const std::filesystem::path& decisions) {
  std::map<std::string, Drop> out;
  std::map<std::string, nlohmann::json> originals;
  each_decision(decisions, [&](const nlohmann::json& line, const std::string&, const std::string& key,
                               const std::string& end) {
    if (end == "kept") return;
    std::string rule = text_in(line, "rule");
    if (rule.empty()) rule = "dedup." + end;
    const Drop& drop = out[key] = {
        rule, text_in(line, "reason"), text_in(line, "of"), number_in(line, "score"), object_in(line, "clip"),
        {},   flag_in(line, "final")};
    if (!drop.of.empty()) originals.try_emplace(drop.of);
  });
  if (originals.empty()) return out;
  each_decision(decisions, [&](const nlohmann::json& line, const std::string&, const std::string& key,
                               const std::string&) {
    if (const auto at = originals.find(key); at != originals.end()) at->second = object_in(line, "clip");
  });
  for (auto& [key, drop] : out)
    if (!drop.of.empty()) drop.of_clip = originals.at(drop.of);
  return out;
}

std::map<std::string, std::string> replacements_in(const std::filesystem::path& decisions) {
  std::map<std::string, std::string> out;
  each_decision(decisions, [&](const nlohmann::json& line, const std::string&, const std::string& key,
                               const std::string&) {
    if (std::string of = text_in(line, "instead_of"); !of.empty()) out[key] = std::move(of);
  });
  return out;
}

nlohmann::json added_facts(const nlohmann::json& decision) {
  nlohmann::json out = nlohmann::json::object();
  for (const char* name : {"set", "user", "duplicate"})
    if (const auto at = decision.find(name); at != decision.end()) out[name] = *at;
  return out;
}

std::map<std::string, nlohmann::json> added_facts_in(const fs::path& decisions) {
  std::map<std::string, nlohmann::json> out;
  each_decision(decisions, [&](const nlohmann::json& line, const std::string&, const std::string& key,
                               const std::string& end) {
    if (auto added = added_facts(line); end == "kept" && !added.empty()) out[key] = std::move(added);
  });
  return out;
}

size_t take_outdated(std::map<std::string, Drop>& drops, const EditHistory::Subject& clips) {
  size_t there = 0;
  std::erase_if(drops, [&](const auto& one) {
    const auto& [key, drop] = one;
    const auto now = clips(key);
    if (is_still(drop.clip, now) &&
        is_still(drop.of_clip, drop.of.empty() ? nlohmann::json() : clips(drop.of)))
      return false;
    there += now.is_object();
    return true;
  });
  return there;
}

std::vector<Decisions> decisions_in(const fs::path& run) {
  std::vector<Decisions> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run, error)) {
    const fs::path file = entry.path() / kDecisionsFile;
    if (entry.path().filename().string().front() == '.' || !fs::is_regular_file(file, error)) continue;
    if (auto curated = curated_by(entry.path()); !curated.empty()) out.push_back({file, std::move(curated)});
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.file < b.file; });
  return out;
}

std::map<std::string, Drop> copies_by(const Decisions& decisions) {
  auto drops = catching([&] { return drops_in(decisions.file); });
  if (!drops) {
    log_info("copies are not left out: {}", drops.failure().message);
    return {};
  }
  std::erase_if(*drops, [](const auto& one) { return one.second.of.empty(); });
  if (const size_t outdated = take_outdated(*drops, kept_in(decisions.curated).of_key); outdated > 0)
    log_warn("{}: {} not left out: dedup has not run since the clips changed; run it again",
             decisions.file.parent_path().filename().string(),
             outdated == 1 ? "1 copy is" : fmt::format("{} copies are", outdated));
  return *std::move(drops);
}

std::set<std::string> copies_in(const fs::path& data) {
  std::set<std::string> out;
  const fs::path at = fs::weakly_canonical(data), job = at.parent_path();
  for (const auto& decisions : decisions_in(job.parent_path())) {
    std::error_code error;
    if (!fs::equivalent(decisions.curated, job, error)) continue;
    for (const auto& [key, drop] : copies_by(decisions)) out.insert(key);
  }
  if (out.empty()) return out;
  const EditHistory edits = read_edits(job / kEditsFile, kept_in(job));
  std::erase_if(out, [&](const std::string& key) { return edits.now(key).keep == true; });
  return out;
}

}  // namespace kinora::core
