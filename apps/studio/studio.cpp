#include "apps/studio/studio.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <set>

#include "apps/studio/catalogue.hpp"
#include "apps/studio/query.hpp"
#include "core/base/facts.hpp"
#include "plugins/jobs/curation/edits.hpp"
#include "plugins/jobs/curation/selections.hpp"

namespace kinora::studio {
namespace {

using nlohmann::json;

constexpr int64_t kWindow = 500;  // rows per answer
constexpr size_t kViews = 8;      // selections kept for pages whose windows are still requested
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

// The number that a view is about: the one that it is sorted by, else the only one that it bounds; "": none.
std::string shown_column(const Catalogue& catalogue, const Query& query) {
  const std::string name =
      query.sort.empty() && query.ranges.size() == 1 ? query.ranges.begin()->first : query.sort;
  return catalogue.columns.contains(name) ? name : "";
}

json counts_json(const Counts& counts) {
  return {{"ends", counts.ends},
          {"kept_rejected", counts.kept_rejected},
          {"rules", counts.rules},
          {"decisions", counts.decisions},
          {"tags", counts.tags}};
}

json edit_json(const Edit& edit) {
  json out{{"time", edit.time}, {"author", edit.author}, {"set", set_of(edit)}};
  if (edit.kind != core::EditKind::edit) out["step"] = edit.kind == core::EditKind::undo ? "undo" : "redo";
  return out;
}

}  // namespace

Studio::Studio(const std::filesystem::path& folder, std::string author, Meaning::Encode encode)
    : folder_(core::folder_with_clips(folder)),
      jobs_(curate_jobs(folder_)),
      saved_views_(jobs_.front().path / core::kViewsFile),
      meaning_(folder_, jobs_, std::move(encode)) {
  for (size_t job = 0; job < jobs_.size(); ++job)
    journals_.emplace_back(jobs_[job].path / core::kEditsFile, author, kept_in(catalogue_, job));
  refresh(true);
}

// Checks the disk at most every second, and a running job every five seconds or less often.
void Studio::refresh(bool at_once) {
  std::ranges::for_each(jobs_, require_folder);
  const int64_t now = milliseconds();
  const bool is_running = std::any_of(jobs_.begin(), jobs_.end(),
                                      [](const auto& job) { return source_of(job) != Source::items; });
  if (!at_once && now - looked_ < (is_running ? std::max<int64_t>(5000, kRest * reading_) : 1000)) return;
  looked_ = now;
  std::string stamp = stamp_of(jobs_);
  const bool is_new = stamp != stamp_;
  stamp_ = std::move(stamp);
  if (is_new) {
    catalogue_ = read_catalogue(jobs_);
    bounds_ = bounds_of(jobs_);
    std::ranges::move(bounds_of(catalogue_), std::back_inserter(bounds_));
    reading_ = milliseconds() - now;
    views_.clear();
    facts_.forget();
    ++version_;
  }
  for (auto& journal : journals_) version_ += core::or_throw(is_new ? journal.reread() : journal.refresh());
}

json Studio::up_to_date(const std::function<json()>& f) {
  auto out = core::catching(f);
  if (out) return std::move(*out);
  if (out.failure().code != KINORA_ERROR_IO) throw Error(out.failure().code, out.failure().message);
  refresh(true);
  return f();
}

Change Studio::edits_of(const Clip& clip) const { return journals_[clip.job].history().now(clip.key); }

Shelf Studio::shelf() const {
  return {catalogue_, [this](const Clip& clip) { return edits_of(clip); }, &searched_.found};
}

Shelf Studio::shelf(const Query& query) {
  Shelf out = shelf();
  if (!query.where.empty()) out.holds = facts_.condition(query.where, catalogue_, out.edits);
  return out;
}

const Clip& Studio::need(const std::string& id) const {
  const Clip* clip = catalogue_.find(id);
  if (clip) return *clip;
  const bool is_awaited = std::ranges::any_of(
      jobs_, [&](const auto& job) { return id.starts_with(job.name + "/") && begins_anew(job); });
  throw Error(KINORA_ERROR_NOT_FOUND,
              id + (is_awaited ? ": the job makes its clips anew, and has not made this one again yet"
                               : ": no such clip"));
}

Studio::Ranked Studio::ranked(const Query& query) {
  if (!query.like.empty()) return meaning_.ask({"", query.like, query.embedding, {}, false});
  if (query.text.empty() || query.words) return nullptr;
  Question question{query.text, "", "", {}, false};
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
  views_.remove_if([&](const View& view) { return view.at == version_; });
  if (!query.searches()) return;
  s.by = !query.like.empty() ? "pictures" : is_ranked ? "meaning" : "words";
  if (ranking) s.why = is_ranked ? ranking->remark : ranking->why;
  std::vector<size_t> words;
  if (!query.text.empty()) words = search_words(catalogue_, shelf().edits, query.text);
  if (is_ranked) s.found = by_similarity(catalogue_, *ranking);
  for (const size_t i : words)
    if (!is_ranked || std::isnan(s.found.similarity[i])) s.found.clips.push_back(i);
}

const Studio::View& Studio::view(const Parameters& parameters, const Query& query, const Ranked& ranking) {
  refresh();
  search(query, ranking);
  Parameters by = parameters;
  for (const char* name : {"from", "count", "id", "at"}) by.erase(name);
  const int64_t at = whole_of(parameters, "at", version_);
  const auto find = [&](int64_t version) {
    return std::ranges::find_if(views_, [&](const View& v) { return v.at == version && v.by == by; });
  };
  auto known = find(at);
  if (known == views_.end()) known = find(version_);
  if (known != views_.end()) {
    views_.splice(views_.begin(), views_, known);
    return views_.front();
  }
  auto rows = select(shelf(query), query);
  const int64_t films = std::ranges::count_if(rows, [&](size_t i) { return catalogue_.clips[i].is_film; });
  views_.push_front({std::move(by), version_, std::move(rows), films});
  if (views_.size() > kViews) views_.pop_back();
  return views_.front();
}

json Studio::row(size_t index, const Found* found) const {
  const Clip& clip = catalogue_.clips[index];
  const Change edits = edits_of(clip), now = values_now(clip, edits);
  json out{{"id", clip.id},
           {"key", clip.key},
           {"film", clip.film},
           {"place", catalogue_.place_of(clip)},
           {"is_film", clip.is_film},
           {"is_picture", clip.is_picture},
           {"end", outcome_of(clip)},
           {"caption", *now.caption},
           {"captioned", edits.caption && *edits.caption != clip.caption},
           {"decision", decision_of(edits)},
           {"tags", *now.tags},
           {"duration_s", number_or_null(catalogue_.value("duration_s", index))}};
  if (found && !found->similarity.empty()) out["similarity"] = number_or_null(found->similarity[index]);
  if (clip.end != End::kept) out["stage"] = clip.stage, out["reason"] = clip.reason;
  if (!std::isnan(clip.score)) out["score"] = clip.score;
  if (!clip.copy_of.empty()) out["copy_of"] = clip.copy_of;
  if (!clip.copy_rule.empty()) out["reason"] = clip.copy_rule, out["score"] = number_or_null(clip.copy_score);
  if (!clip.copy_why.empty()) out["copy_why"] = clip.copy_why;
  out["reason_now"] = edits.reason.value_or("");
  const Clip* original = catalogue_.find(jobs_[clip.job].name + "/" + clip.copy_of);
  out["copy_id"] = original && original != &clip ? original->id : "";
  out["copies"] = copies_left(clip);
  out["unstored"] = out["decision"] == "accepted" && stored_media(catalogue_, clip).path.empty();
  if (!clip.left_out.empty()) {
    out["left_out"] = json::array();
    for (const auto& [by, rule] : clip.left_out)
      out["left_out"].push_back({{"job", catalogue_.choosers[by].name}, {"rule", rule}});
  }
  if (!std::isnan(clip.bound)) out["bound"] = {{clip.is_most ? "at_most" : "at_least", clip.bound}};
  return out;
}

// The clips that would take its place if it were rejected.
std::vector<std::string> Studio::copies_left(const Clip& clip) const {
  std::vector<std::string> out = clip.copies;
  std::erase_if(out, [&](const auto& id) { return edits_of(need(id)).keep == false; });
  return out;
}

// No failed item, and no video without kept clips, can ever be packed. A filtered clip is stored once its rule is
// loosened; the decision then takes effect.
bool Studio::can_be_accepted(const Clip& clip) const {
  const bool is_lost = clip.end == End::failed || (clip.is_film && clip.end != End::kept);
  return !is_lost || !stored_media(catalogue_, clip).path.empty();
}

json Studio::reasons() const {
  constexpr size_t kLatest = 9, kMost = 50;
  struct Use {
    std::string reason;
    size_t first, last;
  };
  std::unordered_map<std::string, Use> uses;
  size_t n = 0;
  for (const auto& journal : journals_)
    for (const auto& edit : journal.history().all())
      if (edit.set.reason && !edit.set.reason->empty())
        uses.try_emplace(*edit.set.reason, Use{*edit.set.reason, ++n, 0}).first->second.last = ++n;
  std::vector<Use> all;
  for (auto& [reason, use] : uses) all.push_back(std::move(use));
  std::ranges::sort(all, std::greater(), &Use::last);
  std::sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(std::min(kLatest, all.size())),
            [](const Use& a, const Use& b) { return a.first < b.first; });
  json out = json::array();
  for (size_t i = 0; i < std::min(kMost, all.size()); ++i) out.push_back(all[i].reason);
  return out;
}

json Studio::tags(const Counts& counts) const {
  json out = json::array();
  std::set<std::string> named;
  const auto name = [&](const std::string& tag) {
    const auto count = counts.tags.find(tag);
    if (count != counts.tags.end() && named.insert(tag).second) out.push_back({tag, count->second});
  };
  for (const auto& journal : journals_)
    for (const auto& edit : journal.history().all())
      if (edit.set.tags) std::ranges::for_each(*edit.set.tags, name);
  for (const auto& [tag, count] : counts.tags) name(tag);  // the job's own
  return out;
}

json Studio::seen() const {
  json out = json::array();
  for (const auto& journal : journals_) out.push_back(journal.history().all().size());
  return out;
}

json Studio::state() {
  const Lock lock(mutex_);
  refresh();
  const Counts counts = counts_of(shelf()), films = counts_of(shelf(), Kind::film);
  json jobs = json::array(), fields = json::array(), live = json::array(), choosers = json::array(),
       anew = json::array();
  bool can_undo = false, can_redo = false;
  std::string wrong;
  for (size_t job = 0; job < jobs_.size(); ++job) {
    jobs.push_back(jobs_[job].name);
    if (json now = live_of(jobs_[job], catalogue_.usage[job]); !now.is_null()) live.push_back(std::move(now));
    if (begins_anew(jobs_[job])) anew.push_back(jobs_[job].name);
  }
  for (const auto& [name, values] : catalogue_.columns) fields.push_back(name);
  for (const auto& chooser : catalogue_.choosers) choosers.push_back(chooser.name);
  for (const auto& journal : journals_) {
    can_undo |= !journal.history().undoable(journal.author()).empty();
    can_redo |= !journal.history().redoable(journal.author()).empty();
    if (wrong.empty()) wrong = journal.wrong();
  }
  const Offer offer = meaning_.offer();
  return {
      {"title", folder_.string()},
      {"author", journals_.front().author()},
      {"jobs", std::move(jobs)},
      {"choosers", std::move(choosers)},
      {"version", version_},
      {"seen", seen()},
      {"fields", std::move(fields)},
      {"scores", catalogue_.scores},
      {"counts", counts_json(counts)},
      {"films", counts_json(films)},
      {"reasons", reasons()},
      {"tags", tags(counts)},
      {"views", saved_views_.all()},
      {"undo", can_undo},
      {"redo", can_redo},
      {"unreadable", catalogue_.unreadable},
      {"wrong", std::move(wrong)},
      {"search", {{"text", offer.text}, {"why_not_text", offer.why_not_text}, {"pictures", offer.pictures}}},
      {"live", std::move(live)},
      {"anew", std::move(anew)}};
}

json Studio::clips(const Parameters& parameters) {
  const Query query = parse_query(parameters);
  const Ranked ranking = ranked(query);
  const Lock lock(mutex_);
  const View& all = view(parameters, query, ranking);
  const auto from = static_cast<size_t>(whole_of(parameters, "from", 0));
  const auto count = static_cast<size_t>(std::min(whole_of(parameters, "count", 100), kWindow));
  const std::string shows = shown_column(catalogue_, query);
  json list = json::array();
  for (size_t i = from; i < all.rows.size() && i < from + count; ++i) {
    list.push_back(row(all.rows[i], &searched_.found));
    list.back()["value"] = number_or_null(catalogue_.value(shows, all.rows[i]));
  }
  return {{"total", all.rows.size()},
          {"films", all.films},
          {"hidden", hidden_in(query, all)},
          {"from", from},
          {"version", all.at},
          {"by", searched_.by},
          {"why", searched_.why},
          {"shows", shows},
          {"rows", std::move(list)}};
}

size_t Studio::hidden_in(Query query, const View& view) {
  if (!view.rows.empty() || query.copies) return 0;
  query.copies = true;
  return select(shelf(query), query).size();
}

json Studio::ids(const Parameters& parameters) {
  const Query query = parse_query(parameters);
  const Ranked ranking = ranked(query);
  const Lock lock(mutex_);
  const View& all = view(parameters, query, ranking);
  const auto size = static_cast<int64_t>(all.rows.size());
  const int64_t from = std::min(whole_of(parameters, "from", 0), size);
  const int64_t end = from + std::min(whole_of(parameters, "count", size), size - from);
  json ids = json::array();
  for (int64_t i = from; i < end; ++i) ids.push_back(catalogue_.clips[all.rows[static_cast<size_t>(i)]].id);
  return {{"version", all.at}, {"ids", std::move(ids)}};
}

json Studio::where(const Parameters& parameters) {
  const Query query = parse_query(parameters);
  const Ranked ranking = ranked(query);
  const Lock lock(mutex_);
  const View& all = view(parameters, query, ranking);
  const std::string where = where_of(shelf(query), query, all.rows);
  return {{"where", where.empty() ? "" : "where = " + json(where).dump()}};
}

json Studio::histograms(const Parameters& parameters) {
  const Query query = parse_query(parameters);
  const Ranked ranking = ranked(query);
  const Lock lock(mutex_);
  refresh();
  search(query, ranking);
  json out = json::array();
  for (const auto& h : studio::histograms(shelf(query), query)) {
    json bounds = json::array();
    for (const StageBound& bound : bounds_)
      if (bound.column == h.field)
        bounds.push_back({{"job", bound.select.empty() ? jobs_[bound.job].name : bound.select},
                          {"select", bound.select},
                          {"stage", bound.stage},
                          {"option", bound.option},
                          {"is_most", bound.is_most},
                          {"is_strict", bound.is_strict},
                          {"value", bound.value}});
    out.push_back({{"field", h.field},
                   {"low", h.low},
                   {"high", h.high},
                   {"whole", h.whole},
                   {"all", h.all},
                   {"shown", h.shown},
                   {"bounds", std::move(bounds)}});
  }
  return out;
}

json Studio::bound(const Parameters& parameters) {
  const std::string field = text_of(parameters, "field"), text = text_of(parameters, "value");
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    throw Error(KINORA_ERROR_INVALID, "value=" + text + ": expected a number");
  const bool is_most = text_of(parameters, "side") == "most";
  const std::string select = text_of(parameters, "select");
  const Lock lock(mutex_);
  refresh();
  const Moved all = moved(catalogue_, bounds_, field, is_most, value, select);
  const auto first = std::ranges::find_if(
      bounds_, [&](const StageBound& bound) { return bound.moves_with(field, is_most, select); });
  const bool is_chosen = !select.empty() && first != bounds_.end();
  return {{"gone", all.gone},
          {"back", all.back},
          {"where", is_chosen ? first->condition(value) : where_of(field, is_most, value)}};
}

json Studio::colour_of(const std::string& by, size_t index) {
  const Clip& clip = catalogue_.clips[index];
  const std::string decision = decision_of(edits_of(clip));
  if (by.empty()) return decision.empty() ? outcome_of(clip) : decision;
  if (by == "film") return clip.film;
  if (catalogue_.texts.contains(by)) return facts_.text(by, index, catalogue_);
  return number_or_null(catalogue_.value(by, index));
}

json Studio::map(const Parameters& parameters) {
  const Query query = parse_query(parameters);
  const Ranked ranking = ranked(query);
  const auto answer = meaning_.ask({"", "", text_of(parameters, "of"), {}, true});
  if (!answer->why.empty()) throw Error(KINORA_ERROR_NOT_FOUND, answer->why);
  const Lock lock(mutex_);
  const View& all = view(parameters, query, ranking);
  std::vector<char> is_shown(catalogue_.clips.size());
  for (const size_t i : all.rows) is_shown[i] = 1;
  const std::string by = text_of(parameters, "colour");
  json ids = json::array(), x = json::array(), y = json::array(), in = json::array(), values = json::array();
  for (const auto& [id, place] : answer->places) {
    const auto at = catalogue_.by_id.find(id);
    if (at == catalogue_.by_id.end()) continue;
    ids.push_back(id), x.push_back(place[0]), y.push_back(place[1]), in.push_back(is_shown[at->second] != 0);
    values.push_back(colour_of(by, at->second));
  }
  return {{"ids", std::move(ids)},
          {"x", std::move(x)},
          {"y", std::move(y)},
          {"in", std::move(in)},
          {"values", std::move(values)},
          {"all", answer->all},
          {"names", meaning_.offer().pictures},
          {"texts", catalogue_.texts}};
}

json Studio::place(const Parameters& parameters) {
  const Query query = parse_query(parameters);
  const Ranked ranking = ranked(query);
  const Lock lock(mutex_);
  const View& all = view(parameters, query, ranking);
  const auto at = catalogue_.by_id.find(text_of(parameters, "id"));
  if (at == catalogue_.by_id.end()) return {{"place", -1}};
  const auto found = std::find(all.rows.begin(), all.rows.end(), at->second);
  return {{"place", found == all.rows.end() ? -1 : found - all.rows.begin()}};
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
  out["acceptable"] = can_be_accepted(clip);
  const auto stored = stored_media(catalogue_, clip).path;
  out["stored"] = !stored.empty();
  std::error_code error;
  if (const auto bytes = std::filesystem::file_size(stored, error); !error) out["bytes"] = bytes;
  out["embeddings"] = json::array();
  for (const auto& name : meaning_.offer().pictures)
    if (!stored_file(catalogue_, clip, name + ".npy").empty()) out["embeddings"].push_back(name);
  return out;
}

json Studio::clip(const Parameters& parameters) {
  const Lock lock(mutex_);
  refresh();
  const std::string id = text_of(parameters, "id");
  return up_to_date([&] { return detail(need(id)); });
}

json Studio::shots(const Parameters& parameters) {
  const Lock lock(mutex_);
  refresh();
  return up_to_date([&] {
    const Clip& clip = need(text_of(parameters, "id"));
    const std::string film = clip.film.empty() ? clip.key : clip.film;
    const Clip* line = catalogue_.find(catalogue_.jobs[clip.job].name + "/" + film);
    return timeline(catalogue_, shelf().edits, clip.job, film, line ? item_of(catalogue_, *line) : json());
  });
}

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
  if (clip.end == End::failed) return {};  // it was tried without success
  const auto index = static_cast<size_t>(&clip - catalogue_.clips.data());
  const Media media = media_of(catalogue_, clip);
  if (auto preview = stored_file(catalogue_, clip, "preview.webp"); media.path.empty() && !preview.empty())
    return {std::move(preview), 0, 0, true};
  const auto whole = [&](const char* name) {
    const double value = catalogue_.value(name, index);
    return std::isnan(value) || value < 0 || value > 1e15 ? int64_t{0} : static_cast<int64_t>(value);
  };
  const int64_t first = media.is_film && !clip.film.empty() ? whole("first_frame") : 0;
  const int64_t frames = media.is_film && !clip.film.empty() ? whole("end_frame") - first : whole("frames");
  return {media.path, first, std::max(frames, int64_t{0}), false};
}

}  // namespace kinora::studio
