#include "apps/studio/studio.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <set>

#include "apps/studio/catalogue.hpp"
#include "apps/studio/query.hpp"
#include "core/base/facts.hpp"
#include "plugins/jobs/curation/edits.hpp"

namespace kinora::studio {
namespace {

using nlohmann::json;

constexpr int64_t kWindow = 500;  // rows per answer
constexpr int64_t kRest = 10;     // pause between reads of a running job, as a multiple of the reading time

int64_t milliseconds() {
  using namespace std::chrono;
  return duration_cast<std::chrono::milliseconds>(steady_clock::now().time_since_epoch()).count();
}

std::string text_of(const Parameters& p, const char* name) {
  const auto at = p.find(name);
  return at == p.end() ? "" : at->second;
}

int64_t whole_of(const Parameters& p, const char* name, int64_t otherwise) {
  const std::string text = text_of(p, name);
  int64_t out = otherwise;
  if (text.empty()) return out;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || out < 0)
    throw Error(KINORA_ERROR_INVALID, std::string(name) + "=" + text + ": expected an integer of at least 0");
  return out;
}

json number_or_null(double value) { return std::isnan(value) ? json() : json(value); }

// A caption without blanks and newlines at its ends.
std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// Every clip in the ranking, the nearest first; ties are in the catalogue's order.
Found by_similarity(const Catalogue& catalogue, const Ranking& ranking) {
  Found out;
  out.similarity.assign(catalogue.clips.size(), std::nan(""));
  for (size_t i = 0; i < catalogue.clips.size(); ++i) {
    const auto at = ranking.similarity.find(catalogue.clips[i].id);
    if (at == ranking.similarity.end()) continue;
    out.similarity[i] = at->second;
    out.clips.push_back(i);
  }
  std::stable_sort(out.clips.begin(), out.clips.end(),
                   [&](size_t a, size_t b) { return out.similarity[a] > out.similarity[b]; });
  return out;
}

json counts_json(const Counts& counts) {
  return {{"ends", counts.ends}, {"rules", counts.rules}, {"decisions", counts.decisions}};
}

json edit_json(const Edit& edit) {
  json out{{"time", edit.time}, {"author", edit.author}, {"set", set_of(edit)}};
  if (edit.kind != core::EditKind::edit) out["step"] = edit.kind == core::EditKind::undo ? "undo" : "redo";
  return out;
}

}  // namespace

Studio::Studio(const std::filesystem::path& folder, std::string author, Meaning::Encode encode)
    : folder_(folder), jobs_(curate_jobs(folder)), meaning_(folder, jobs_, std::move(encode)) {
  for (const auto& job : jobs_)
    journals_.emplace_back(job.path / core::kEditsFile, author, core::kept_in(job.path));
  refresh(true);
}

// Checks the disk at most every second, and a running job every five seconds or less often.
void Studio::refresh(bool at_once) {
  const int64_t now = milliseconds();
  const bool is_running = std::any_of(jobs_.begin(), jobs_.end(),
                                      [](const auto& job) { return source_of(job) != Source::items; });
  if (!at_once && now - looked_ < (is_running ? std::max<int64_t>(5000, kRest * reading_) : 1000)) return;
  looked_ = now;
  for (auto& journal : journals_) {
    const auto changed = journal.refresh();
    if (!changed) throw Error(changed.failure().code, changed.failure().message);
    version_ += *changed;
  }
  if (std::string stamp = stamp_of(jobs_); stamp != stamp_) {
    catalogue_ = read_catalogue(jobs_);
    reading_ = milliseconds() - now;
    stamp_ = std::move(stamp);
    for (auto& journal : journals_)
      if (const auto read = journal.reread(); !read) throw Error(read.failure().code, read.failure().message);
    ++version_;
  }
}

Change Studio::edits_of(const Clip& clip) const { return journals_[clip.job].history().now(clip.key); }

Shelf Studio::shelf() const {
  return {catalogue_, [this](const Clip& clip) { return edits_of(clip); }, &searched_.found};
}

const Clip& Studio::need(const std::string& id) const {
  const Clip* clip = catalogue_.find(id);
  if (!clip) throw Error(KINORA_ERROR_NOT_FOUND, id + ": no such clip");
  return *clip;
}

Studio::Ranked Studio::ranked(const Query& query) {
  if (!query.like.empty()) return meaning_.ask({"", query.like, query.embedding, {}});
  if (query.text.empty() || query.words) return nullptr;
  Question question{query.text, "", "", {}};
  {
    const Lock lock(mutex_);
    refresh();
    for (size_t job = 0; job < jobs_.size(); ++job)
      for (const auto& [key, edited] : journals_[job].history().edited())
        if (edited.caption) question.edited[jobs_[job].name + "/" + key] = *edited.caption;
  }
  return meaning_.ask(std::move(question));
}

// In a search by meaning, clips without a vector are found by words and follow the others.
void Studio::search(const Query& query, const Ranked& ranking) {
  auto& s = searched_;
  const auto same = [&](const Query& q) { return q.text == query.text && q.like == query.like; };
  if (s.at == version_ && s.ranked == ranking && same(s.query)) return;
  const bool is_ranked = ranking && ranking->why.empty();
  if (!query.like.empty() && !is_ranked) throw Error(KINORA_ERROR_NOT_FOUND, ranking->why);
  s = {query, ranking, version_, {}, "", ""};
  selected_at_ = 0;
  if (!query.searches()) return;
  s.by = !query.like.empty() ? "pictures" : is_ranked ? "meaning" : "words";
  if (ranking) s.why = ranking->why;
  std::vector<size_t> words;
  if (!query.text.empty()) words = search_words(catalogue_, shelf().edits, query.text);
  if (is_ranked) s.found = by_similarity(catalogue_, *ranking);
  for (const size_t i : words)
    if (!is_ranked || std::isnan(s.found.similarity[i])) s.found.clips.push_back(i);
}

const std::vector<size_t>& Studio::rows(const Parameters& parameters, const Query& query) {
  Parameters by = parameters;
  for (const char* name : {"from", "count", "id"}) by.erase(name);
  if (selected_at_ != version_ || by != selected_by_) {
    selected_ = select(shelf(), query);
    films_selected_ = std::count_if(selected_.begin(), selected_.end(),
                                    [&](size_t i) { return catalogue_.clips[i].is_film; });
    selected_by_ = std::move(by);
    selected_at_ = version_;
  }
  return selected_;
}

json Studio::row(size_t index, const Found* found) const {
  const Clip& clip = catalogue_.clips[index];
  const Change edits = edits_of(clip), now = values_now(clip, edits);
  json out{{"id", clip.id},
           {"key", clip.key},
           {"film", clip.film},
           {"place", catalogue_.place_of(clip)},
           {"is_film", clip.is_film},
           {"end", outcome_of(clip)},
           {"caption", *now.caption},
           {"captioned", edits.caption && *edits.caption != clip.caption},
           {"decision", decision_of(edits)},
           {"duration_s", number_or_null(catalogue_.value("duration_s", index))},
           {"scores", json::object()}};
  if (found && !found->similarity.empty()) out["similarity"] = number_or_null(found->similarity[index]);
  if (clip.end != End::kept) out["stage"] = clip.stage, out["reason"] = clip.reason;
  if (!std::isnan(clip.score)) out["score"] = clip.score;
  if (!clip.copy_of.empty()) out["copy_of"] = clip.copy_of;
  if (!clip.copy_rule.empty()) out["reason"] = clip.copy_rule, out["score"] = number_or_null(clip.copy_score);
  out["reason_now"] = edits.reason.value_or("");
  const Clip* original = catalogue_.find(jobs_[clip.job].name + "/" + clip.copy_of);
  out["copy_id"] = original && original != &clip ? original->id : "";
  out["copies"] = json::array();  // clips that would take its place
  for (const auto& id : clip.copies)
    if (std::string_view(decision_of(edits_of(need(id)))) != "rejected") out["copies"].push_back(id);
  out["unstored"] = out["decision"] == "accepted" && stored_file(catalogue_, clip, "mp4").empty();
  const auto first = catalogue_.columns.lower_bound("scores.");
  for (auto at = first; at != catalogue_.columns.end() && at->first.starts_with("scores."); ++at)
    if (!std::isnan(at->second[index])) out["scores"][at->first.substr(7)] = at->second[index];
  return out;
}

json Studio::reasons() const {
  std::set<std::string> out;
  for (const auto& journal : journals_)
    for (const auto& edit : journal.history().all())
      if (edit.set.reason && !edit.set.reason->empty() && out.size() < 50) out.insert(*edit.set.reason);
  return out;
}

json Studio::state() {
  const Lock lock(mutex_);
  refresh();
  const Counts counts = counts_of(shelf()), films = counts_of(shelf(), Kind::film);
  json jobs = json::array(), fields = json::array(), live = json::array();
  bool can_undo = false, can_redo = false;
  std::string wrong;
  for (size_t job = 0; job < jobs_.size(); ++job) {
    jobs.push_back(jobs_[job].name);
    if (json now = live_of(jobs_[job], catalogue_.usage[job]); !now.is_null()) live.push_back(std::move(now));
  }
  for (const auto& [name, values] : catalogue_.columns) fields.push_back(name);
  for (const auto& journal : journals_) {
    can_undo |= journal.history().undoable(journal.author()) != nullptr;
    can_redo |= journal.history().redoable(journal.author()) != nullptr;
    if (wrong.empty()) wrong = journal.wrong();
  }
  const Offer offer = meaning_.offer();
  return {
      {"title", folder_.string()},
      {"author", journals_.front().author()},
      {"jobs", std::move(jobs)},
      {"version", version_},
      {"fields", std::move(fields)},
      {"counts", counts_json(counts)},
      {"films", counts_json(films)},
      {"reasons", reasons()},
      {"undo", can_undo},
      {"redo", can_redo},
      {"unreadable", catalogue_.unreadable},
      {"wrong", std::move(wrong)},
      {"search", {{"text", offer.text}, {"why_not_text", offer.why_not_text}, {"pictures", offer.pictures}}},
      {"live", std::move(live)}};
}

json Studio::clips(const Parameters& parameters) {
  const Query query = parse_query(parameters);
  const Ranked ranking = ranked(query);
  const Lock lock(mutex_);
  refresh();
  search(query, ranking);
  const auto& all = rows(parameters, query);
  const auto from = static_cast<size_t>(whole_of(parameters, "from", 0));
  const auto count = static_cast<size_t>(std::min(whole_of(parameters, "count", 100), kWindow));
  json list = json::array();
  for (size_t i = from; i < all.size() && i < from + count; ++i)
    list.push_back(row(all[i], &searched_.found));
  return {{"total", all.size()}, {"films", films_selected_}, {"from", from},           {"version", version_},
          {"by", searched_.by},  {"why", searched_.why},     {"rows", std::move(list)}};
}

json Studio::histograms(const Parameters& parameters) {
  const Query query = parse_query(parameters);
  const Ranked ranking = ranked(query);
  const Lock lock(mutex_);
  refresh();
  search(query, ranking);
  json out = json::array();
  for (const auto& h : studio::histograms(shelf(), query))
    out.push_back({{"field", h.field},
                   {"low", h.low},
                   {"high", h.high},
                   {"whole", h.whole},
                   {"all", h.all},
                   {"shown", h.shown}});
  return out;
}

json Studio::place(const Parameters& parameters) {
  const Query query = parse_query(parameters);
  const Ranked ranking = ranked(query);
  const Lock lock(mutex_);
  refresh();
  search(query, ranking);
  const auto at = catalogue_.by_id.find(text_of(parameters, "id"));
  if (at == catalogue_.by_id.end()) return {{"place", -1}};
  const auto& all = rows(parameters, query);
  const auto found = std::find(all.begin(), all.end(), at->second);
  return {{"place", found == all.end() ? -1 : found - all.begin()}};
}

json Studio::detail(const Clip& clip) const {
  const auto index = static_cast<size_t>(&clip - catalogue_.clips.data());
  const json item = item_of(catalogue_, clip);
  json history = json::array();
  for (const Edit* edit : journals_[clip.job].history().of(clip.key)) history.push_back(edit_json(*edit));
  const Media media = media_of(catalogue_, clip);
  json out = row(index, nullptr);
  out["own_caption"] = clip.caption;
  out["facts"] = item.value("facts", json());
  out["damaged"] = item.value("damaged", "");
  out["at_work"] = source_of(jobs_[clip.job]) != Source::items;
  const Clip* film = catalogue_.find(catalogue_.film_of(clip));
  out["url"] = film ? film->url : "";
  out["history"] = std::move(history);
  out["version"] = version_;
  out["fps"] = number_or_null(catalogue_.value("fps", index));
  out["start_s"] = number_or_null(catalogue_.value("start_s", index));
  out["end_s"] = number_or_null(catalogue_.value("end_s", index));
  out["media"] = media.path.empty() ? "" : media.is_film ? "film" : "clip";
  out["type"] = media.type;
  out["ending"] = media.ending;
  out["stored"] = !stored_file(catalogue_, clip, "mp4").empty();
  out["embeddings"] = json::array();
  for (const auto& name : meaning_.offer().pictures)
    if (!stored_file(catalogue_, clip, name + ".npy").empty()) out["embeddings"].push_back(name);
  return out;
}

json Studio::clip(const Parameters& parameters) {
  const Lock lock(mutex_);
  refresh();
  const std::string id = text_of(parameters, "id");
  auto out = core::catching([&] { return detail(need(id)); });
  if (out) return std::move(*out);
  if (out.failure().code != KINORA_ERROR_IO) throw Error(out.failure().code, out.failure().message);
  refresh(true);  // the job has ended meanwhile, and its lines have moved
  return detail(need(id));
}

json Studio::shots(const Parameters& parameters) {
  const Lock lock(mutex_);
  refresh();
  const Clip& clip = need(text_of(parameters, "id"));
  const std::string film = clip.film.empty() ? clip.key : clip.film;
  const Clip* line = catalogue_.find(catalogue_.jobs[clip.job].name + "/" + film);
  return timeline(catalogue_, shelf().edits, clip.job, film, line ? item_of(catalogue_, *line) : json());
}

json Studio::edit(const json& request) {
  const Lock lock(mutex_);
  if (!request.is_object() || !request.contains("id") || !request["id"].is_string() ||
      !request.contains("set"))
    throw Error(KINORA_ERROR_INVALID, R"(expected {"id": KEY, "set": {"caption", "keep", "reason"}})");
  refresh(true);
  const Clip& clip = need(request["id"].get<std::string>());
  Change set = core::change_of(request["set"]);
  if (set.caption) set.caption = trimmed(*set.caption);
  if (set.reason) set.reason = trimmed(*set.reason);
  core::or_throw(
      journals_[clip.job].change(clip.key, set, own_values(clip),
                                 core::subject_of(core::object_in(item_of(catalogue_, clip), "facts"))));
  ++version_;
  return detail(clip);
}

// Undoes or redoes the author's last edit in any job, by time.
json Studio::stepped(bool back) {
  const Lock lock(mutex_);
  refresh(true);
  EditJournal* last = nullptr;
  size_t job = 0;
  std::string time;
  for (size_t i = 0; i < journals_.size(); ++i) {
    const auto& history = journals_[i].history();
    const Edit* edit =
        back ? history.undoable(journals_[i].author()) : history.redoable(journals_[i].author());
    if (!edit || (last && (back ? edit->time < time : edit->time > time))) continue;
    last = &journals_[i];
    job = i;
    time = edit->time;
  }
  if (!last)
    throw Error(KINORA_ERROR_NOT_FOUND, back ? "there is nothing to undo" : "there is nothing to redo");
  const auto own = [&](const std::string& key) {
    const Clip* clip = catalogue_.find(jobs_[job].name + "/" + key);
    return clip ? own_values(*clip) : Change{"", "", true};
  };
  const std::string key = core::or_throw(back ? last->undo(own) : last->redo());
  ++version_;
  const Clip* clip = catalogue_.find(jobs_[job].name + "/" + key);
  return clip ? detail(*clip) : json{{"id", ""}, {"key", key}};
}

json Studio::undo() { return stepped(true); }
json Studio::redo() { return stepped(false); }

std::string Studio::refusal() const {
  for (const auto& journal : journals_)
    if (std::string why = journal.refusal(); !why.empty()) return why;
  return "";
}

Media Studio::media(const std::string& id) {
  const Lock lock(mutex_);
  return media_of(catalogue_, need(id));
}

PictureSource Studio::picture(const std::string& id) {
  const Lock lock(mutex_);
  const Clip& clip = need(id);
  if (auto preview = stored_file(catalogue_, clip, "preview.webp"); !preview.empty())
    return {std::move(preview), 0, 0, true};
  if (clip.end == End::failed) return {};  // it was tried without success
  const auto index = static_cast<size_t>(&clip - catalogue_.clips.data());
  const Media media = media_of(catalogue_, clip);
  const auto whole = [&](const char* name) {
    const double value = catalogue_.value(name, index);
    return std::isnan(value) || value < 0 || value > 1e15 ? int64_t{0} : static_cast<int64_t>(value);
  };
  const int64_t first = media.is_film && !clip.film.empty() ? whole("first_frame") : 0;
  const int64_t frames = media.is_film && !clip.film.empty() ? whole("end_frame") - first : whole("frames");
  return {media.path, first, std::max(frames, int64_t{0}), false};
}

}  // namespace kinora::studio
