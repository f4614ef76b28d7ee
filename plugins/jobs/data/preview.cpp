#include "plugins/jobs/data/preview.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/base/cancel.hpp"
#include "core/base/facts.hpp"
#include "core/runtime/call.hpp"
#include "plugins/jobs/data/some_samples.hpp"
#include "plugins/jobs/data/stored_text.hpp"
#include "plugins/jobs/data/webp.hpp"

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

// Discarded if the field json cannot be parsed; null without one.
json facts_of(const RandomBytes& bytes, const energon::StoredSample& sample) {
  const auto* facts = find(sample, "json");
  return facts ? json::parse(text_of(bytes, sample.key, *facts), nullptr, false) : json();
}

std::string caption_of(const RandomBytes& bytes, const energon::StoredSample& sample, const json& facts) {
  std::string caption = core::text_in(facts, "caption");
  if (const auto* txt = find(sample, "txt")) caption = text_of(bytes, sample.key, *txt);
  return shortened(std::move(caption));
}

// Shows the preview that the sample has, with the size and length that its facts give. Nothing is decoded.
bool shows_preview(const RandomBytes& bytes, const energon::StoredSample& sample, const json& facts,
                   Card& card) {
  const auto* part = find(sample, "preview.webp");
  if (!part) return false;
  const auto content = read_part(bytes, *part);
  card.preview.assign(content.begin(), content.end());
  auto shape = core::webp_preview(card.preview);
  if (!shape) return card.preview.clear(), false;
  card.still = std::move(shape->still);
  const auto side = [&](const char* name) {
    const double pixels = core::number_in(facts, name);
    return pixels > 0 && pixels < 1e6 ? static_cast<int>(pixels) : 0;
  };
  card.picture = {
      .width = side("width"), .height = side("height"), .seconds = core::number_in(facts, "duration_s")};
  return true;
}

// medium: null if the sample has none.
Picture picture_of(const RandomBytes& bytes, const energon::StoredSample& sample,
                   const energon::StoredSample::Part* medium, const MakePicture& make) {
  Picture none;
  none.reason = !medium ? "no video and no picture" : "the medium is larger than 1 GiB";
  if (!medium || medium->size > kMostMedium) return none;
  return make(sample.key, medium->name, read_part(bytes, *medium));
}

}  // namespace

std::vector<Card> cards_of(const DataFolder& folder, uint64_t limit, const MakePicture& make,
                           const OnProblem& problem) {
  std::vector<Card> out;
  core::Progress progress("preview", static_cast<int64_t>(limit), "samples");
  const auto add = [&](const Shard& shard, const RandomBytes& bytes, const energon::StoredSample& sample) {
    if (core::cancelled()) throw Error(KINORA_ERROR_CANCELLED, "interrupted");
    const json facts = facts_of(bytes, sample);
    Card card{.key = sample.key, .shard = shard.name, .caption = caption_of(bytes, sample, facts)};
    if (facts.is_discarded()) problem({shard.name, sample.key, sample.offset, not_json("json")});
    const energon::StoredSample::Part* medium = nullptr;
    for (const auto& part : sample.parts) {
      card.bytes += part.size;
      if (!medium && is_medium(part.name)) medium = &part;
    }
    if (medium) card.field = medium->name;
    if (!shows_preview(bytes, sample, facts, card)) card.picture = picture_of(bytes, sample, medium, make);
    out.push_back(std::move(card));
    progress.update(static_cast<int64_t>(out.size()));
  };
  some_samples(folder, limit, add, problem);
  return out;
}

}  // namespace kinora::data
