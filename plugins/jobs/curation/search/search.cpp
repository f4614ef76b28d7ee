#include "plugins/jobs/curation/search/search.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/runtime/runtime.hpp"
#include "core/sample/sample.hpp"
#include "host/stages/one_stage.hpp"
#include "kinora/npy.hpp"
#include "plugins/jobs/curation/drops.hpp"

namespace kinora::core {
namespace {

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return sum;
}

}  // namespace

// a . b / (|a| |b|), in float64; 0 for a vector of zeros, which is near to nothing.
std::vector<double> cosines(const Embedded& among, std::span<const float> query) {
  if (static_cast<int64_t>(query.size()) != among.size)
    throw Error(KINORA_ERROR_INVALID,
                fmt::format("the query has {} numbers, the clips have {}; they come from different models",
                            query.size(), among.size));
  const double length = std::sqrt(dot(query, query));
  std::vector<double> out;
  out.reserve(among.clips.size());
  for (size_t i = 0; i < among.clips.size(); ++i) {
    const double lengths = length * std::sqrt(dot(among.row(i), among.row(i)));
    out.push_back(lengths > 0 ? dot(among.row(i), query) / lengths : 0);
  }
  return out;
}

std::vector<Hit> nearest(const Embedded& among, std::span<const float> query, size_t count, int64_t except) {
  const std::vector<double> score = cosines(among, query);
  std::vector<size_t> order(among.clips.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (except >= 0) order.erase(order.begin() + except);
  const auto end = order.begin() + static_cast<int64_t>(std::min(count, order.size()));
  // Equal scores are ordered by key, so that the same search prints the same lines.
  std::partial_sort(order.begin(), end, order.end(), [&](size_t a, size_t b) {
    return score[a] != score[b] ? score[a] > score[b] : among.clips[a].key < among.clips[b].key;
  });
  std::vector<Hit> out;
  for (auto at = order.begin(); at != end; ++at) out.push_back({among.clips[*at], score[*at]});
  return out;
}

std::vector<float> video_query(Runtime& runtime, const std::filesystem::path& file) {
  Sample sample(key_of_name(file.stem().string()));
  sample.set("url", std::filesystem::absolute(file).string());
  const Sample probed = OneStage(runtime, "video.probe", json::object())(sample);
  const double fps = json::parse(*probed.text("json")).value("fps", 0.0);
  const auto stride = std::max<int64_t>(1, std::llround(fps / 2));
  const Sample read = OneStage(runtime, "video.read", {{"stride", stride}, {"height", 128}})(probed);
  const Sample embedded = OneStage(runtime, "embed.classic", json::object())(read);
  return read_npy(embedded.need("classic.npy"), file.string()).values;
}

int64_t row_of(const Embedded& among, const std::string& key) {
  const auto at =
      std::find_if(among.clips.begin(), among.clips.end(), [&](const ClipRef& c) { return c.key == key; });
  return at == among.clips.end() ? -1 : at - among.clips.begin();
}

namespace {

// data: the job's folder data/, next to edits.jsonl.
std::set<std::string> rejected_in(const std::filesystem::path& data) {
  const auto job = std::filesystem::weakly_canonical(data).parent_path();
  std::set<std::string> out;
  const EditHistory edits = read_edits(job / kEditsFile, kept_in(job));
  for (const auto& [key, edit] : edits.edited())
    if (edit.keep == false) out.insert(key);
  return out;
}

}  // namespace

Standing Standings::of(const ClipRef& clip) {
  auto known = folders_.find(clip.folder);
  if (known == folders_.end())
    known = folders_.emplace(clip.folder, Folder{copies_in(clip.folder), rejected_in(clip.folder)}).first;
  const Folder& folder = known->second;
  return folder.rejected.contains(clip.key) ? Standing::rejected
         : folder.copies.contains(clip.key) ? Standing::copy
                                            : Standing::used;
}

Embedded those(Embedded all, const std::function<bool(const ClipRef&)>& is_wanted) {
  Embedded out;
  out.size = all.size;
  out.encoder = std::move(all.encoder);
  for (size_t i = 0; i < all.clips.size(); ++i) {
    if (!is_wanted(all.clips[i])) continue;
    const auto row = all.row(i);
    out.vectors.insert(out.vectors.end(), row.begin(), row.end());
    out.clips.push_back(std::move(all.clips[i]));
  }
  return out;
}

namespace {

// A number below `limit` with at least two decimals, and as many as show that it is below.
std::string text_below(double number, double limit) {
  std::string text;
  for (int decimals = 2; decimals <= 17; ++decimals) {
    text = fmt::format("{:.{}f}", number, decimals);
    if (std::stod(text) < limit) break;
  }
  return text;
}

}  // namespace

// MiniLM's cosines of captions with unrelated texts stay below 0.2, those with matching ones begin at 0.4.
// Other encoders have other scales.
std::string nothing_matches(const Embedded& captions, double best) {
  constexpr double kMatch = 0.3;
  if (captions.encoder.value("text", "") != "model/minilm" || best >= kMatch) return "";
  return fmt::format(
      "no caption matches this text: the highest score is {}, and captions that match have {} or more",
      text_below(best, kMatch), kMatch);
}

}  // namespace kinora::core
