#include "apps/studio/studio.hpp"

#include <algorithm>
#include <charconv>

#include "apps/studio/clip_json.hpp"
#include "plugins/jobs/curation/selections.hpp"

namespace kinora::studio {
namespace {

using nlohmann::json;

constexpr int64_t kWindow = 500;  // rows per answer

// The number that a view is about: the one that it is sorted by, else the only one that it bounds; "": none.
std::string shown_column(const Catalogue& catalogue, const Query& query) {
  const std::string name =
      query.sort.empty() && query.ranges.size() == 1 ? query.ranges.begin()->first : query.sort;
  return catalogue.columns.contains(name) ? name : "";
}

}  // namespace

Studio::Studio(const std::filesystem::path& folder, const std::string& author, Meaning::Encode encode)
    : folder_(core::folder_with_clips(folder)),
      data_(curate_jobs(folder_), author),
      results_(data_),
      saved_views_(data_.jobs().front().path / core::kViewsFile),
      meaning_(folder_, data_.jobs(), std::move(encode)) {}

QueryResults::Ranked Studio::ranked(const Query& query) {
  if (!query.like.empty()) return meaning_.ask({"", query.like, query.embedding, {}, false});
  if (query.text.empty() || query.words) return nullptr;
  Question question{query.text, "", "", {}, false};
  {
    const Lock lock(mutex_);
    data_.refresh();
    for (size_t job = 0; job < data_.jobs().size(); ++job)
      for (const auto& [key, edited] : data_.journals()[job].history().edited())
        if (edited.caption) question.edited[data_.jobs()[job].name + "/" + key] = *edited.caption;
  }
  return meaning_.ask(std::move(question));
}

const QueryResults::View& Studio::view(const Parameters& parameters, const Query& query,
                                       const Ranked& ranking) {
  data_.refresh();
  return results_.view(parameters, query, ranking);
}

json Studio::clips(const Parameters& parameters) {
  const Query query = parse_query(parameters);
  const Ranked ranking = ranked(query);
  const Lock lock(mutex_);
  const QueryResults::View& all = view(parameters, query, ranking);
  const Catalogue& catalogue = data_.catalogue();
  const auto from = static_cast<size_t>(whole_of(parameters, "from", 0));
  const auto count = static_cast<size_t>(std::min(whole_of(parameters, "count", 100), kWindow));
  const std::string shows = shown_column(catalogue, query);
  json list = json::array();
  for (size_t i = from; i < all.rows.size() && i < from + count; ++i) {
    list.push_back(row_json(data_, all.rows[i], &results_.found()));
    list.back()["value"] = number_or_null(catalogue.value(shows, all.rows[i]));
  }
  const double unmatched = results_.unmatched();
  const auto& similarity = results_.found().similarity;
  const auto matching = std::isnan(unmatched) ? 0 : std::ranges::count_if(all.rows, [&](size_t i) {
    return similarity[i] > unmatched;
  });
  return {{"total", all.rows.size()},
          {"unmatched", number_or_null(unmatched)},
          {"matching", matching},
          {"videos", all.videos},
          {"hidden", results_.hidden_in(query, all)},
          {"from", from},
          {"version", all.at},
          {"by", results_.by()},
          {"why", results_.why()},
          {"shows", shows},
          {"rows", std::move(list)}};
}

json Studio::ids(const Parameters& parameters) {
  const Query query = parse_query(parameters);
  const Ranked ranking = ranked(query);
  const Lock lock(mutex_);
  const QueryResults::View& all = view(parameters, query, ranking);
  const auto size = static_cast<int64_t>(all.rows.size());
  const int64_t from = std::min(whole_of(parameters, "from", 0), size);
  const int64_t end = from + std::min(whole_of(parameters, "count", size), size - from);
  json ids = json::array();
  for (int64_t i = from; i < end; ++i)
    ids.push_back(data_.catalogue().clips[all.rows[static_cast<size_t>(i)]].id);
  return {{"version", all.at}, {"ids", std::move(ids)}};
}

json Studio::where(const Parameters& parameters) {
  const Query query = parse_query(parameters);
  const Ranked ranking = ranked(query);
  const Lock lock(mutex_);
  const QueryResults::View& all = view(parameters, query, ranking);
  const std::string where = where_of(results_.scope(query), query, all.rows);
  return {{"where", where.empty() ? "" : "where = " + json(where).dump()}};
}

json Studio::histograms(const Parameters& parameters) {
  const Query query = parse_query(parameters);
  const Ranked ranking = ranked(query);
  const Lock lock(mutex_);
  data_.refresh();
  results_.search(query, ranking);
  json out = json::array();
  for (const auto& h : studio::histograms(results_.scope(query), query)) {
    json bounds = json::array();
    for (const StageBound& bound : data_.bounds())
      if (bound.column == h.field)
        bounds.push_back({{"job", bound.select.empty() ? data_.jobs()[bound.job].name : bound.select},
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
                   {"edges", h.edges},
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
  data_.refresh();
  const Moved all =
      moved(data_.catalogue(), data_.bounds(), field, is_most, value, select,
            [&](const Clip& clip) { return data_.edits_of(clip).keep == std::optional<bool>(false); });
  const auto first = std::ranges::find_if(
      data_.bounds(), [&](const StageBound& bound) { return bound.moves_with(field, is_most, select); });
  const bool is_chosen = !select.empty() && first != data_.bounds().end();
  return {{"gone", all.gone},
          {"back", all.back},
          {"where", is_chosen ? first->condition(value) : where_of(field, is_most, value)}};
}

json Studio::colour_of(const std::string& by, size_t index) {
  const Catalogue& catalogue = data_.catalogue();
  const Clip& clip = catalogue.clips[index];
  const std::string decision = decision_of(data_.edits_of(clip));
  if (by.empty()) return decision.empty() ? outcome_of(clip) : decision;
  if (by == "video") return clip.video;
  if (catalogue.texts.contains(by)) return results_.text(by, index);
  return number_or_null(catalogue.value(by, index));
}

json Studio::map(const Parameters& parameters) {
  const Query query = parse_query(parameters);
  const Ranked ranking = ranked(query);
  const auto answer = meaning_.ask({"", "", text_of(parameters, "of"), {}, true});
  if (!answer->why.empty()) throw Error(KINORA_ERROR_NOT_FOUND, answer->why);
  const Lock lock(mutex_);
  const QueryResults::View& all = view(parameters, query, ranking);
  const Catalogue& catalogue = data_.catalogue();
  std::vector<char> is_shown(catalogue.clips.size());
  for (const size_t i : all.rows) is_shown[i] = 1;
  const std::string by = text_of(parameters, "colour");
  json ids = json::array(), x = json::array(), y = json::array(), in = json::array(), values = json::array(),
       captions = json::array();
  for (const auto& [id, place] : answer->places) {
    const auto at = catalogue.by_id.find(id);
    if (at == catalogue.by_id.end()) continue;
    ids.push_back(id), x.push_back(place[0]), y.push_back(place[1]), in.push_back(is_shown[at->second] != 0);
    values.push_back(colour_of(by, at->second));
    const Clip& clip = catalogue.clips[at->second];
    captions.push_back(*values_now(clip, data_.edits_of(clip)).caption);
  }
  return {{"ids", std::move(ids)},       {"x", std::move(x)},
          {"y", std::move(y)},           {"in", std::move(in)},
          {"values", std::move(values)}, {"captions", std::move(captions)},
          {"all", answer->all},          {"names", meaning_.offer().pictures},
          {"texts", catalogue.texts}};
}

json Studio::place(const Parameters& parameters) {
  const Query query = parse_query(parameters);
  const Ranked ranking = ranked(query);
  const Lock lock(mutex_);
  const QueryResults::View& all = view(parameters, query, ranking);
  const Catalogue& catalogue = data_.catalogue();
  const auto at = catalogue.by_id.find(text_of(parameters, "id"));
  if (at == catalogue.by_id.end()) return {{"place", -1}};
  const auto found = std::find(all.rows.begin(), all.rows.end(), at->second);
  return {{"place", found == all.rows.end() ? -1 : found - all.rows.begin()}};
}

json Studio::next(const Parameters& parameters) {
  const Query query = parse_query(parameters);
  const Ranked ranking = ranked(query);
  const Lock lock(mutex_);
  const QueryResults::View& all = view(parameters, query, ranking);
  const auto from = static_cast<size_t>(whole_of(parameters, "from", 0));
  const int64_t place = next_to_review(results_.scope(), all.rows, from);
  return {{"id", place < 0 ? "" : data_.catalogue().clips[all.rows[static_cast<size_t>(place)]].id}};
}

json Studio::clip(const Parameters& parameters) {
  const Lock lock(mutex_);
  data_.refresh();
  const std::string id = text_of(parameters, "id");
  return data_.up_to_date([&] { return detail_json(data_, data_.need(id), meaning_.offer().pictures); });
}

json Studio::shots(const Parameters& parameters) {
  const Lock lock(mutex_);
  data_.refresh();
  return data_.up_to_date([&] {
    const Catalogue& catalogue = data_.catalogue();
    const Clip& clip = data_.need(text_of(parameters, "id"));
    const std::string video = clip.video.empty() ? clip.key : clip.video;
    const Clip* line = catalogue.find(catalogue.jobs[clip.job].name + "/" + video);
    return timeline(catalogue, results_.scope().edits, clip.job, video,
                    line ? item_of(catalogue, *line) : json());
  });
}

std::string Studio::refusal() const {
  for (const auto& journal : data_.journals())
    if (std::string why = journal.refusal(); !why.empty()) return why;
  return "";
}

Media Studio::media(const std::string& id) {
  const Lock lock(mutex_);
  return media_of(data_.catalogue(), data_.need(id));
}

PictureSource Studio::picture(const std::string& id) {
  const Lock lock(mutex_);
  const Catalogue& catalogue = data_.catalogue();
  const Clip& clip = data_.need(id);
  if (clip.end == End::failed) return {};  // it was tried without success
  const auto index = static_cast<size_t>(&clip - catalogue.clips.data());
  if (auto preview = stored_file(catalogue, clip, "preview.webp"); !preview.empty())
    return {std::move(preview), 0, 0, true};
  const Media media = media_of(catalogue, clip);
  const auto whole = [&](const char* name) {
    const double value = catalogue.value(name, index);
    return std::isnan(value) || value < 0 || value > 1e15 ? int64_t{0} : static_cast<int64_t>(value);
  };
  const int64_t first = media.is_video && !clip.video.empty() ? whole("first_frame") : 0;
  const int64_t frames = media.is_video && !clip.video.empty() ? whole("end_frame") - first : whole("frames");
  return {media.path, first, std::max(frames, int64_t{0}), false};
}

}  // namespace kinora::studio
