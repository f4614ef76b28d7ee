#include "apps/studio/journal_rows.hpp"

#include <fstream>
#include <unordered_set>

#include "plugins/jobs/curation/ends.hpp"
#include "core/base/facts.hpp"
#include "core/base/status.hpp"

namespace kinora::studio {
namespace {

using core::Ends;
using core::text_in;
using nlohmann::json;

// Adds an entry's effect on earlier outcomes, and its own outcome.
void take(const json& entry, core::Journal::Place place, Ends& ends) {
  const bool whole = core::flag_in(entry, "whole");
  if (entry.contains("broke_off")) ends.break_off(whole);
  if (entry.contains("retry_failed")) ends.retry_failed(whole);
  if (const auto key = text_in(entry, "open_again"); !key.empty()) ends.open_again(key, whole);
  if (const auto key = text_in(entry, "forget"); !key.empty()) ends.forget(key);
  if (const auto key = text_in(entry, "input"); !key.empty()) ends.begin(key, text_in(entry, "identity"));
  if (!entry.contains("end")) return;
  const json& line = entry["end"];
  core::End end;
  end.key = text_in(line, "key");
  end.place = place;
  end.made = core::flag_in(entry, "made");
  end.of_made = core::flag_in(entry, "of_made");
  end.failed = text_in(line, "end") == "failed";
  // An outcome that comes too late is reported by the job itself; here it is ignored.
  (void)core::catching([&] { ends.add(std::move(end), text_in(line, "parent")); });
}

// Offsets of the entries that are still valid.
std::unordered_set<uint64_t> that_hold(Ends& ends) {
  ends.stop_waiting();
  std::unordered_set<uint64_t> out;
  for (const auto& [key, film] : ends.films())
    for (const auto& end : film.ends) out.insert(end.place.offset);
  for (const auto& end : ends.nameless()) out.insert(end.place.offset);
  return out;
}

}  // namespace

void read_journal(const JobFolder& folder, size_t job, Rows& rows) {
  constexpr int kDepth = 3;  // {"entry": {"end": {"shots": ...
  std::ifstream in(folder.path / "journal.jsonl", std::ios::binary);
  std::string line;
  Ends ends;
  for (uint64_t at = 0; std::getline(in, line) && !in.eof(); at += line.size() + 1) {
    const json parsed = Rows::parse(line, kDepth);
    const json& entry = core::object_in(parsed, "entry");
    take(entry, {at, line.size()}, ends);
    if (!parsed.is_object() || entry.contains("end"))
      rows.add(core::object_in(entry, "end"), {job, at, line.size(), true});
  }
  const auto valid = that_hold(ends);
  rows.remove(job, [&](const Clip& clip) { return !valid.contains(clip.line_at); });
}

}  // namespace kinora::studio
