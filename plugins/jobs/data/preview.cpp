#include "plugins/jobs/data/preview.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/base/cancel.hpp"
#include "core/runtime/call.hpp"
#include "plugins/jobs/data/some_samples.hpp"
#include "plugins/jobs/data/stored_text.hpp"

namespace kinora::data {
namespace {

using nlohmann::json;
constexpr uint64_t kMostText = 1 << 20, kMostMedium = uint64_t{1} << 30;
constexpr size_t kMostCaption = 2000;

// Text with its start only, cut between characters of UTF-8.
std::string shortened(std::string text) {
  if (text.size() <= kMostCaption) return text;
  size_t end = kMostCaption;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

std::string text_of(const RandomBytes& bytes, const std::string& key,
                    const energon::StoredSample::Part& part) {
  const auto content = read_part(bytes, part);
  return core::as_utf8({content.begin(), content.end()}, key + "." + part.name);
}

const energon::StoredSample::Part* find(const energon::StoredSample& sample, std::string_view name) {
  for (const auto& part : sample.parts)
    if (part.name == name && part.size <= kMostText) return &part;
  return nullptr;
}

// is_json: becomes false if the field json cannot be parsed.
std::string caption_of(const RandomBytes& bytes, const energon::StoredSample& sample, bool& is_json) {
  std::string caption;
  if (const auto* facts = find(sample, "json")) {
    const json all = json::parse(text_of(bytes, sample.key, *facts), nullptr, false);
    is_json = !all.is_discarded();
    if (all.is_object() && all.contains("caption") && all["caption"].is_string())
      caption = all["caption"].get<std::string>();
  }
  if (const auto* txt = find(sample, "txt")) caption = text_of(bytes, sample.key, *txt);
  return shortened(std::move(caption));
}

}  // namespace

std::vector<Card> cards_of(const DataFolder& folder, uint64_t limit, const MakePicture& make,
                           const OnProblem& problem) {
  std::vector<Card> out;
  core::Progress progress("preview", static_cast<int64_t>(limit), "samples");
  const auto add = [&](const Shard& shard, const RandomBytes& bytes, const energon::StoredSample& sample) {
    if (core::cancelled()) throw Error(KINORA_ERROR_CANCELLED, "interrupted");
    bool is_json = true;
    Card card{
        .key = sample.key, .shard = shard.name, .bytes = 0, .caption = caption_of(bytes, sample, is_json)};
    if (!is_json) problem({shard.name, sample.key, sample.offset, not_json("json")});
    const energon::StoredSample::Part* medium = nullptr;
    for (const auto& part : sample.parts) {
      card.bytes += part.size;
      if (!medium && is_medium(part.name)) medium = &part;
    }
    if (!medium) {
      card.picture.reason = "no video and no picture";
    } else if (medium->size > kMostMedium) {
      card.picture.reason = "the medium is larger than 1 GiB";
    } else {
      card.field = medium->name;
      card.picture = make(sample.key, medium->name, read_part(bytes, *medium));
    }
    out.push_back(std::move(card));
    progress.update(static_cast<int64_t>(out.size()));
  };
  some_samples(folder, limit, add, problem);
  return out;
}

}  // namespace kinora::data
