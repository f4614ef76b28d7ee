#include "apps/studio/query_results.hpp"

#include <algorithm>

namespace kinora::studio {
namespace {

constexpr size_t kViews = 8;  // selections kept for pages whose windows are still requested

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

}  // namespace

void QueryResults::forget_earlier() {
  if (reading_ == data_.readings()) return;
  reading_ = data_.readings();
  views_.clear();
  facts_.forget();
}

QueryScope QueryResults::scope() const {
  return {data_.catalogue(), [this](const Clip& clip) { return data_.edits_of(clip); }, &searched_.found};
}

QueryScope QueryResults::scope(const Query& query) {
  forget_earlier();
  QueryScope out = scope();
  if (!query.where.empty()) out.holds = facts_.condition(query.where, data_.catalogue(), out.edits);
  return out;
}

std::string QueryResults::text(const std::string& name, size_t clip) {
  forget_earlier();
  return facts_.text(name, clip, data_.catalogue());
}

// In a search by meaning, clips without a vector are found by words and follow the others.
void QueryResults::search(const Query& query, const Ranked& ranking) {
  auto& s = searched_;
  const int64_t version = data_.version();
  const auto same = [&](const Query& q) { return q.text == query.text && q.like == query.like; };
  if (s.at == version && s.ranked == ranking && same(s.query)) return;
  const bool is_ranked = ranking && ranking->why.empty();
  if (!query.like.empty() && !is_ranked) throw Error(KINORA_ERROR_NOT_FOUND, ranking->why);
  s = {query, ranking, version, {}, "", ""};
  views_.remove_if([&](const View& view) { return view.at == version; });
  if (!query.searches()) return;
  s.by = !query.like.empty() ? "pictures" : is_ranked ? "meaning" : "words";
  if (ranking) s.why = is_ranked ? ranking->remark : ranking->why;
  std::vector<size_t> words;
  if (!query.text.empty()) words = search_words(data_.catalogue(), scope().edits, query.text);
  if (is_ranked) s.found = by_similarity(data_.catalogue(), *ranking);
  for (const size_t i : words)
    if (!is_ranked || std::isnan(s.found.similarity[i])) s.found.clips.push_back(i);
}

const QueryResults::View& QueryResults::view(const Parameters& parameters, const Query& query,
                                             const Ranked& ranking) {
  forget_earlier();
  search(query, ranking);
  Parameters by = parameters;
  for (const char* name : {"from", "count", "id", "at"}) by.erase(name);
  const int64_t at = whole_of(parameters, "at", data_.version());
  const auto find = [&](int64_t version) {
    return std::ranges::find_if(views_, [&](const View& v) { return v.at == version && v.by == by; });
  };
  auto known = find(at);
  if (known == views_.end()) known = find(data_.version());
  if (known != views_.end()) {
    views_.splice(views_.begin(), views_, known);
    return views_.front();
  }
  auto rows = select(scope(query), query);
  const auto& clips = data_.catalogue().clips;
  const int64_t videos = std::ranges::count_if(rows, [&](size_t i) { return clips[i].is_video; });
  views_.push_front({std::move(by), data_.version(), std::move(rows), videos});
  if (views_.size() > kViews) views_.pop_back();
  return views_.front();
}

size_t QueryResults::hidden_in(Query query, const View& view) {
  if (!view.rows.empty() || query.copies) return 0;
  query.copies = true;
  return select(scope(query), query).size();
}

}  // namespace kinora::studio
