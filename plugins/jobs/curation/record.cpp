#include "plugins/jobs/curation/record.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/base/counted.hpp"
#include "core/base/facts.hpp"
#include "plugins/jobs/curation/store.hpp"
#include "core/base/log.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
constexpr int kVersion = 1;

json header(const std::string& base) {
  return {{"journal", "curate"}, {"version", kVersion}, {"base", base}};
}
// whole: videos are finished or redone as a whole; for readers that do not know the job.
json broke_off(bool whole) { return {{"broke_off", true}, {"whole", whole}}; }
json open_entry(const std::string& key, bool whole) { return {{"open_again", key}, {"whole", whole}}; }
json retry_entry(int64_t number, bool whole) { return {{"retry_failed", number}, {"whole", whole}}; }

}  // namespace

Record::Record(const fs::path& folder, const std::vector<Input>& inputs, const Options& options)
    : data_(folder / "data"), inputs_(inputs), options_(options) {
  for (const auto& input : inputs_)
    if (input.is_unseen()) unseen_keys_.insert(input.key);
  replay(folder / "journal.jsonl");
  for (const auto& input : inputs_) {
    const auto* known = ends_.film(input.key);
    ended_before_ += known && known->ended;
    if (!known) continue;
    for (const auto& end : known->ends) {
      clips_before_ += end.made;
      if (!end.files.empty()) kept_.insert(end.key);
    }
  }
  if (!options_.looks) remove_strangers();
  for (auto& [key, film] : ends_.films())
    for (auto& end : film.ends) end.files = json();  // only the start of the run needs them
}

void Record::replay(const fs::path& file) {
  const std::string other = "it was made with other options";
  bool is_ours = true;
  const auto each = [&](const json& entry, Journal::Place place) {
    if (entry.contains("journal")) {
      is_ours = entry == header(options_.base);
      header_base_ = text_in(entry, "base");
    }
    if (is_ours) take(entry, place);
  };
  journal_ = std::make_unique<Journal>(file, each, options_.looks);
  if (header_base_.empty()) return start_over("");
  if (!is_ours) return start_over(other);
  if (!ends_.nameless().empty())
    return start_over("it has samples that do not name their source video (fact \"film\")");
  ends_.break_off(!options_.per_clip);
  note(broke_off(!options_.per_clip), false);
  keep_current();
  if (options_.retries <= retries_) return;
  retried_ = ends_.retry_failed(!options_.per_clip);
  note(retry_entry(options_.retries, !options_.per_clip), true);
}

void Record::note(const json& entry, bool durable) {
  if (!options_.looks) journal_->append(entry, durable);
}

void Record::take(const json& entry, Journal::Place place) {
  if (entry.contains("broke_off")) ends_.break_off(!options_.per_clip);
  if (const auto number = entry.find("retry_failed"); number != entry.end()) {
    retries_ = number->is_number_integer() ? number->get<int64_t>() : 0;
    ends_.retry_failed(!options_.per_clip);
  }
  if (const auto key = text_in(entry, "open_again"); !key.empty()) ends_.open_again(key, !options_.per_clip);
  if (const auto key = text_in(entry, "forget"); !key.empty()) ends_.forget(key);
  if (const auto key = text_in(entry, "input"); !key.empty())
    ends_.begin(key, text_in(entry, "identity")).content = text_in(entry, "sha256");
  if (!entry.contains("end")) return;
  const json& line = entry["end"];
  End end{text_in(line, "key"), place, flag_in(entry, "made"), text_in(line, "end") == "failed", true,
          flag_in(entry, "of_made"), object_in(entry, "files")};
  const std::string copied = text_in(line, "of"), key = end.key, parent = text_in(line, "parent");
  // Too late to be relied on, so the whole video is redone.
  if (const std::string film = ends_.ended_before(key, parent); end.made && !end.failed && !film.empty()) return ends_.forget(film);
  const bool is_own = !end.made;
  ends_.add(std::move(end), parent);
  auto* film = ends_.film(key);
  if (film && !copied.empty()) film->duplicate_of = copied;
  if (film && is_own) film->unseen = flag_in(entry, "unseen");
}

void Record::start_over(const std::string& why) {
  if (!why.empty()) log_warn("{}: the existing results cannot be used: {}; the job reruns from scratch", data_.parent_path().string(), why);
  ends_ = {};
  if (!options_.looks) journal_->clear();
  note(header(options_.base), true);
  if (options_.retries > 0) note(retry_entry(options_.retries, !options_.per_clip), true);
}

// Voids videos that are no longer inputs, that have changed, or whose stored files were modified.
void Record::keep_current() {
  std::unordered_set<std::string> current, named;
  for (const auto& input : inputs_) {
    named.insert(input.key);
    const auto* known = ends_.film(input.key);
    if (!known || known->identity != identity_of(input) || !files_are_there(*known)) continue;
    current.insert(input.key);
    if (known->ended && known->unseen && !input.is_unseen()) {  // it is available again
      ends_.open_again(input.key, !options_.per_clip);
      note(open_entry(input.key, !options_.per_clip), true);
    }
  }
  std::vector<std::string> gone;
  for (const auto& [key, film] : ends_.films())
    if (!current.count(key)) gone.push_back(key);
  std::sort(gone.begin(), gone.end());
  require_listed(gone);
  for (const auto& key : gone) {
    Void& why = named.count(key) ? changed_ : gone_;
    ++why.films;
    for (const auto& end : ends_.film(key)->ends) why.clips += end.made && !end.files.empty();
    ends_.forget(key);
    note({{"forget", key}}, false);
  }
}

// If such a folder cannot be listed (a missing disk or permission), its videos are not known to be gone.
void Record::require_listed(const std::vector<std::string>& gone) const {
  std::set<std::string> urls;
  for (const auto& key : gone)
    for (const auto& end : ends_.film(key)->ends)
      if (!end.made) urls.insert(text_in(object_in(journal_->read(end.place), "end"), "url"));
  for (const auto& input : inputs_) {
    if (input.error.empty()) continue;
    const std::string folder = input.url + (input.url.ends_with('/') ? "" : "/");
    int64_t below = 0;
    for (auto url = urls.lower_bound(folder); url != urls.end() && url->starts_with(folder); ++url) ++below;
    if (below > 0)
      throw Error(KINORA_INVALID,
                  fmt::format("{}; {} below it, so the job does not run and the results are kept: fix it, or remove it from the input",
                              input.error, counted(below, "earlier video is", "earlier videos are")));
  }
}

std::string Record::identity_of(const Input& input) const {
  const auto* known = ends_.film(input.key);
  const bool is_known = known && input.is_unseen() && known->identity.starts_with(input.named() + "-");
  return is_known ? known->identity : input.identity();
}

bool Record::files_are_there(const Ends::Film& film) const {
  return std::all_of(film.ends.begin(), film.ends.end(),
                     [&](const End& end) { return are_stored(data_, end.files); });
}

void Record::remove_files(const Ends::Film& film) const {
  for (const auto& end : film.ends) {
    const json entry = journal_->read(end.place);
    for (const auto& [name, size] : object_in(entry, "files").items()) fs::remove(data_ / name);
  }
}

void Record::remove_strangers() const {
  std::unordered_set<std::string> known;
  for (const auto& input : inputs_)
    if (const auto* film = ends_.film(input.key))
      for (const auto& end : film->ends)
        for (const auto& [name, size] : end.files.items()) known.insert(name);
  remove_all_but(data_, known);
}

json Record::input_entry(const Input& input, const Ends::Film& film) const {
  return {{"input", input.key}, {"url", input.url}, {"identity", film.identity}, {"sha256", film.content}};
}

const Ends::Film& Record::film(const Input& input) const {
  static const Ends::Film none;
  const auto* known = ends_.film(input.key);
  return known ? *known : none;
}

void Record::begin(const Input& input) {
  const std::lock_guard lock(mutex_);
  if (ends_.film(input.key)) return;
  journal_->append(input_entry(input, ends_.begin(input.key, identity_of(input))), false);
}

bool Record::has_ended(const Input& input) const {
  const std::lock_guard lock(mutex_);
  return film(input).ended;
}

std::vector<std::string> Record::ended_of(const Input& input) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const auto& end : film(input).ends)
    if (end.made) out.push_back(end.key);
  std::sort(out.begin(), out.end());
  return out;
}

std::string Record::content(const Input& input) const {
  const std::lock_guard lock(mutex_);
  return film(input).content;
}

void Record::set_content(const Input& input, const std::string& sha256) {
  const std::lock_guard lock(mutex_);
  auto& film = ends_.begin(input.key, identity_of(input));
  film.content = sha256;
  journal_->append(input_entry(input, film), false);
}

std::string Record::duplicate_of(const Input& input) const {
  const std::lock_guard lock(mutex_);
  return film(input).duplicate_of;
}

void Record::forget(const Input& input) {
  const std::lock_guard lock(mutex_);
  auto* known = ends_.film(input.key);
  if (!known) return;
  const std::string content = known->content;
  journal_->append({{"forget", input.key}}, true);
  remove_files(*known);
  for (const auto& end : known->ends) kept_.erase(end.key);
  ends_.forget(input.key);
  auto& film = ends_.begin(input.key, identity_of(input));
  film.content = content;
  journal_->append(input_entry(input, film), false);
}

bool Record::knows(const std::string& key, bool made) const {
  const std::lock_guard lock(mutex_);
  const End* end = made ? ends_.made(key) : nullptr;
  return end && end->earlier;
}

void Record::claim(const std::string& key) {
  const std::lock_guard lock(mutex_);
  if (!kept_.insert(key).second)
    throw Error(KINORA_DATA, "two kept samples are called '" + key +
                                 "', and the second would overwrite the first; rename an input, or fix the "
                                 "stage that names it");
}

std::string Record::too_late(const json& line) const {
  const std::lock_guard lock(mutex_);
  const std::string key = text_in(line, "key"), film = ends_.ended_before(key, text_in(line, "parent"));
  return film.empty() ? "" : fmt::format("the outcome of '{}' came after that of '{}', its source; a stage must emit "
                                         "what it makes from a sample while it holds the sample", key, film);
}

void Record::end(const json& line, int32_t made, const json& files) {
  const std::lock_guard lock(mutex_);
  json entry{{"end", line}, {"made", made != 0}};
  if (made > 1) entry["of_made"] = true;
  if (made == 0 && text_in(line, "end") == "failed" && unseen_keys_.contains(text_in(line, "key"))) entry["unseen"] = true;
  if (!files.empty()) entry["files"] = files;
  const bool durable = made == 0 || !files.empty();
  const Journal::Place place = journal_->append(entry, durable);
  const std::string key = text_in(line, "key"), copied = text_in(line, "of");
  ends_.add({key, place, made != 0, text_in(line, "end") == "failed", false, made > 1}, text_in(line, "parent"));
  if (auto* film = ends_.film(key); film && !copied.empty()) film->duplicate_of = copied;
}

void Record::check_all_ended() const {
  std::vector<std::string> lost;
  for (const auto& input : inputs_)
    if (!film(input).ended) lost.push_back(input.key);
  if (lost.empty()) return;
  const size_t shown = std::min<size_t>(lost.size(), 5);
  throw Error(KINORA_FAILED,
              fmt::format("the engine lost {} of {} inputs ({}{}): they have no outcome; please report this as a bug",
                          lost.size(), inputs_.size(), fmt::join(lost.begin(), lost.begin() + shown, ", "),
                          lost.size() > shown ? ", ..." : ""));
}

// Entries of the outcomes of inputs or of made samples, by key; equal keys, which several stages may have
// ended, by text.
std::vector<json> Record::ordered(std::vector<End> ends, bool made) const {
  std::erase_if(ends, [&](const End& end) { return end.made != made; });
  std::stable_sort(ends.begin(), ends.end(), [](const End& a, const End& b) { return a.key < b.key; });
  std::vector<json> out;
  out.reserve(ends.size());
  size_t first = 0;  // of those with the last key
  for (size_t i = 0; i < ends.size(); ++i) {
    if (ends[i].key != ends[first].key) first = i;
    out.push_back(journal_->read(ends[i].place));
    if (first < i) std::sort(out.begin() + static_cast<ptrdiff_t>(first), out.end());
  }
  return out;
}

void Record::each(const std::function<void(const json&, bool, const json&)>& f) {
  const std::lock_guard lock(mutex_);
  ends_.stop_waiting();
  check_all_ended();
  const auto tell = [&](const std::vector<json>& entries) {
    for (const auto& entry : entries) f(entry.at("end"), flag_in(entry, "made"), object_in(entry, "files"));
  };
  for (const auto& input : inputs_)
    for (const bool made : {false, true}) tell(ordered(film(input).ends, made));
  tell(ordered(ends_.nameless(), true));
}

void Record::settle() {
  const std::lock_guard lock(mutex_);
  journal_->rewrite([&](const std::function<void(const json&)>& write) {
    write(header(options_.base));
    if (options_.retries > 0) write(retry_entry(options_.retries, !options_.per_clip));
    for (const auto& input : inputs_) {
      write(input_entry(input, film(input)));
      for (const bool made : {true, false})  // the video's own outcome says that no more follow
        for (const auto& entry : ordered(film(input).ends, made)) write(entry);
    }
    for (const auto& entry : ordered(ends_.nameless(), true)) write(entry);
  });
}

}  // namespace kinora::core
