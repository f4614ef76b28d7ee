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

constexpr const char* kVideo = "film";  // the default of sets_by: videos that were not cut do not have it

std::string line_text(const json& line) { return line.dump(-1, ' ', false, json::error_handler_t::replace); }

// The value of a fact as a text; empty if the clip does not have it.
std::string fact_text(const json& facts, const std::string& key, const std::string& name) {
  if (name == "key") return key;
  const json* fact = find_fact(facts, name);
  if (!fact || fact->is_null()) return "";
  return fact->is_string() ? fact->get<std::string>() : line_text(*fact);
}

// The value as a part of bin_text(): texts with a comma or like a part of another kind are in quotes.
std::string bin_part(const json& facts, const std::string& key, const std::string& name) {
  const auto quoted_if = [](bool is_odd, const std::string& text) { return is_odd ? line_text(text) : text; };
  const std::string none = "no " + quoted_if(name.find_first_of(",\"") != name.npos, name);
  const std::string value = fact_text(facts, key, name);
  if (value.empty()) return none;
  const json* fact = name == "key" ? nullptr : find_fact(facts, name);
  const bool is_text = !fact || fact->is_string();
  return quoted_if(is_text && (value == none || value.find_first_of(",\"[{") != value.npos), value);
}

// "sea, 16_9"; "no label, 16_9" for a clip without the fact; "\"sea, sky\", 16_9" for a text with a comma.
std::string bin_text(const json& facts, const std::string& key, const std::vector<std::string>& per) {
  std::string out;
  for (const auto& name : per) out += (out.empty() ? "" : ", ") + bin_part(facts, key, name);
  return out;
}

std::vector<std::string> without_key(std::vector<std::string> names) {
  std::erase_if(names, [](const std::string& name) { return name.empty() || name == "key"; });
  return names;
}

std::vector<FactsSeen> nothing_seen(const Choice& choice) {
  return {{"join_key", choice.tables.empty() ? std::vector<std::string>() : without_key({choice.join_key})},
          FactsSeen(choice.where),
          {"per", without_key(choice.per)},
          {"sets_by", choice.sets_by == kVideo ? std::vector<std::string>() : without_key({choice.sets_by})}};
}

}  // namespace

// The candidates that one thread has read from a part of items.jsonl.
struct CandidateReader::Part {
  std::vector<Candidate> clips;
  std::vector<Joined> joined;
  std::vector<FactsSeen> seen;
};

CandidateReader::CandidateReader(Choice choice)
    : choice_(std::move(choice)),
      edits_(read_edits(choice_.curated / kEditsFile, kept_in(choice_.curated))),
      steps_{"studio.reject"},
      named_columns_(named_columns()),
      joined_(choice_.tables.size()),
      seen_(nothing_seen(choice_)) {
  names_sets_ = choice_.where.reads("set");
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
  for (size_t i = 0; i < part.joined.size(); ++i) {
    joined_[i].clips += part.joined[i].clips;
    joined_[i].rows.merge(part.joined[i].rows);
  }
  for (size_t i = 0; i < part.seen.size(); ++i) seen_[i].add(part.seen[i]);
}

// Tables come before the conditions on their columns.
void CandidateReader::require_all_seen() const {
  seen_.front().require();
  for (size_t i = 0; i < joined_.size(); ++i)
    if (const UserTable& table = choice_.tables[i]; joined_[i].clips == 0 && table.size() > 0)
      throw Error(
          KINORA_ERROR_INVALID,
          fmt::format(
              "join: {}: none of its {} rows is about a clip: its column '{}', in the first row '{}', must "
              "have the values of the clips' fact '{}'; set join_key",
              table.name(), table.size(), choice_.join_key, table.first_key_without({}), choice_.join_key));
  for (const auto& seen : seen_) seen.require();
}

std::vector<CandidateReader::NamedColumn> CandidateReader::named_columns() const {
  std::vector<NamedColumn> out;
  for (const auto& table : choice_.tables)
    for (const auto& column : table.columns()) {
      if (choice_.where.reads(column)) out.push_back({"where", column, table.name()});
      if (std::find(choice_.per.begin(), choice_.per.end(), column) != choice_.per.end())
        out.push_back({"per", column, table.name()});
      if (choice_.sets_by == column && column != kVideo) out.push_back({"sets_by", column, table.name()});
    }
  return out;
}

// Throws if a short name may mean a fact of the clip, which comes first, or a column. facts: before the
// tables are joined.
void CandidateReader::refuse_ambiguous(const json& facts) const {
  for (const auto& [option, name, table] : named_columns_) {
    const json* own = find_fact(facts, name);
    if (!own || own == find_fact(facts, "user." + name)) continue;  // user.NAME is the column's place
    const auto written = [is_where = option == "where"](const std::string& fact) {
      return is_where ? fact_in_expression(fact) : fact;
    };
    std::string full;
    for (const char* place : kFactPlaces)
      if (full.empty() && find_fact(facts, place + name) == own) full = place + name;
    throw Error(
        KINORA_ERROR_INVALID,
        fmt::format(
            "{}: '{}' is a fact of the clips{} and a column of {}; write {} for the column, and {}", option,
            name, full.empty() ? "" : ", " + full + ",", table, written("user." + name),
            full.empty() ? "rename the column if you mean the fact" : written(full) + " for the fact"));
  }
}

// Adds the columns of the user's tables as facts; of two with one name the later counts.
void CandidateReader::join(json& line, json& facts, const std::string& key, Part& part) const {
  if (choice_.tables.empty()) return;
  const std::string value = fact_text(facts, key, choice_.join_key);
  for (size_t i = 0; i < choice_.tables.size(); ++i) {
    const UserTable::Row* row = choice_.tables[i].row(value);
    if (!row) continue;
    ++part.joined[i].clips;
    part.joined[i].rows.insert(row);
    for (json* to : {&line, &facts}) {
      json& user = (*to)["user"];
      if (!user.is_object()) user = json::object();
      user.update(row->values);
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
  refuse_ambiguous(facts);
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
    clip.share = hash_share("set " + choice_.name + " " + (together.empty() ? clip.key : together));
  }
  clip.line = line_text(line);
  clip.line.pop_back();
}

}  // namespace kinora::core
