#include "plugins/jobs/select/candidates.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/facts.hpp"
#include "kinora/error.hpp"
#include "plugins/jobs/curation/drops.hpp"
#include "plugins/jobs/curation/kept_clips.hpp"
#include "plugins/jobs/loading/held_out.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

constexpr const char* kFilm = "film";  // the default of sets_by: videos that were not cut do not have it

std::string line_text(const json& line) { return line.dump(-1, ' ', false, json::error_handler_t::replace); }

// The value of a fact as a text; empty if the clip does not have it.
std::string fact_text(const json& facts, const std::string& key, const std::string& name) {
  if (name == "key") return key;
  const json* fact = find_fact(facts, name);
  if (!fact || fact->is_null()) return "";
  return fact->is_string() ? fact->get<std::string>() : line_text(*fact);
}

// "sea, 16_9"
std::string bin_text(const json& facts, const std::string& key, const std::vector<std::string>& per) {
  std::string out;
  for (const auto& name : per) {
    const std::string value = fact_text(facts, key, name);
    out += (out.empty() ? "" : ", ") + (value.empty() ? "no " + name : value);
  }
  return out;
}

std::vector<std::string> without_key(std::vector<std::string> names) {
  std::erase_if(names, [](const std::string& name) { return name.empty() || name == "key"; });
  return names;
}

std::vector<FactsSeen> nothing_seen(const Choice& choice) {
  return {{"where", choice.where.facts()},
          {"per", without_key(choice.per)},
          {"sets_by", choice.sets_by == kFilm ? std::vector<std::string>() : without_key({choice.sets_by})},
          {"join_key", choice.tables.empty() ? std::vector<std::string>() : without_key({choice.join_key})}};
}

}  // namespace

// What one thread has read of a part of items.jsonl.
struct CandidateReader::Part {
  std::vector<Candidate> clips;
  std::vector<size_t> joined;
  std::vector<FactsSeen> seen;
};

CandidateReader::CandidateReader(Choice choice)
    : choice_(std::move(choice)),
      edits_(read_edits(choice_.curated / kEditsFile, kept_in(choice_.curated))),
      steps_{"studio.reject"},
      joined_(choice_.tables.size()),
      seen_(nothing_seen(choice_)) {
  const auto names = choice_.where.facts();
  names_sets_ = std::find(names.begin(), names.end(), "set") != names.end();
  steps_.insert(steps_.end(), choice_.where.rules().begin(), choice_.where.rules().end());
  if (!choice_.decisions.empty())
    each_decision(choice_.decisions, [&](const json&, const std::string& text, const std::string& key,
                                         const std::string&) { before_[key] = text; });
}

std::vector<Candidate> CandidateReader::read() {
  std::vector<Candidate> out;
  each_kept_clip<Part>(
      choice_.curated, choice_.threads, [&](json item, Part& part) { look(std::move(item), part); },
      [&](Part part) { take(std::move(part), out); });
  if (std::any_of(out.begin(), out.end(), [](const Candidate& c) { return c.removed_by != kCameNotIn; }))
    require_all_seen();
  return out;
}

void CandidateReader::take(Part part, std::vector<Candidate>& out) {
  std::move(part.clips.begin(), part.clips.end(), std::back_inserter(out));
  for (size_t i = 0; i < part.joined.size(); ++i) joined_[i] += part.joined[i];
  for (size_t i = 0; i < part.seen.size(); ++i) seen_[i].add(part.seen[i]);
}

void CandidateReader::require_all_seen() const {
  for (const auto& seen : seen_) seen.require();
  for (size_t i = 0; i < joined_.size(); ++i)
    if (joined_[i] == 0 && choice_.tables[i].size() > 0)
      throw Error(
          KINORA_ERROR_INVALID,
          fmt::format("join: {}: none of its {} rows is about a clip: its column '{}' must have the values "
                      "of the clips' fact '{}'; set join_key",
                      choice_.tables[i].name(), choice_.tables[i].size(), choice_.join_key,
                      choice_.join_key));
}

// Adds the columns of the user's tables as facts; of two with one name the later counts.
void CandidateReader::join(json& line, json& facts, const std::string& key, Part& part) const {
  if (choice_.tables.empty()) return;
  const std::string value = fact_text(facts, key, choice_.join_key);
  for (size_t i = 0; i < choice_.tables.size(); ++i) {
    const json* row = choice_.tables[i].row(value);
    if (!row) continue;
    ++part.joined[i];
    for (json* to : {&line, &facts}) {
      json& user = (*to)["user"];
      if (!user.is_object()) user = json::object();
      user.update(*row);
    }
  }
}

// Takes over what an earlier job has decided about the clip. False: it has left the clip out.
bool CandidateReader::continue_from(const std::string& before, Candidate& clip, json& line, json& facts) {
  const json known = parse_facts(before);
  if (text_in(known, "end") != "kept" && (flag_in(known, "final") || !clip.is_accepted)) {
    clip.line = before;
    clip.removed_by = kCameNotIn;
    return false;
  }
  if (const auto of = text_in(known, "instead_of"); !of.empty()) line["instead_of"] = of;
  const json added = added_facts(known);
  line.update(added);
  facts.merge_patch(added);
  return true;
}

void CandidateReader::look(json item, Part& part) const {
  if (part.seen.empty()) part.joined.resize(joined_.size()), part.seen = nothing_seen(choice_);
  Candidate& clip = part.clips.emplace_back();
  clip.key = text_in(item, "key");
  const Edited edit = edits_.now(clip.key);
  clip.is_accepted = edit.keep == true;
  json line{{"key", clip.key}}, facts = json::object();
  if (json& own = item["facts"]; own.is_object()) facts = std::move(own);
  if (edit.tags) facts["tags"] = *edit.tags;
  if (json subject = subject_of(facts); !subject.empty()) line["clip"] = std::move(subject);
  if (const auto before = before_.find(clip.key);
      before != before_.end() && !continue_from(before->second, clip, line, facts))
    return;
  join(line, facts, clip.key, part);
  if (edit.tags) facts["tags"] = *edit.tags;
  for (auto& seen : part.seen) seen.add(facts);
  if (edit.keep == false)
    clip.removed_by = 0;
  else if (const auto removed = choice_.where.removed_by(facts, clip.key);
           removed && (names_sets_ || !clip.is_accepted))
    clip.removed_by = static_cast<int>(*removed) + 1;
  clip.bin = bin_text(facts, clip.key, choice_.per);
  if (const std::string by = choice_.sets_by; !by.empty()) {
    line.erase("set");  // an earlier job's
    const std::string together = fact_text(facts, clip.key, by);
    clip.share = hash_share("set " + (together.empty() ? clip.key : together));
  }
  clip.line = line_text(line);
  clip.line.pop_back();
}

}  // namespace kinora::core
