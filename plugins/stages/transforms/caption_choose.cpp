#include "caption_choose.hpp"

#include <numeric>

#include "drawn.hpp"
#include "kinora/curation.hpp"
#include "kinora/plugin.hpp"

namespace kinora::transforms {
namespace {

using nlohmann::json;

constexpr const char* kChoose = "caption.choose";

struct Caption {
  std::string text;
  double weight;
};

// Dots lead into objects: "llava.short".
const json* fact(const json& facts, const std::string& name) {
  const json* at = &facts;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    if (!at->is_object()) return nullptr;
    const auto found = at->find(name.substr(begin, end - begin));
    if (found == at->end()) return nullptr;
    at = &*found;
    begin = end + 1;
  }
  return at;
}

// The captions called `name`: a field, else a fact that is a text or a list of texts. None if there is neither.
std::vector<std::string> captions(const Sample& in, const std::string& name) {
  if (const auto text = in.text(name.c_str())) return {std::string(*text)};
  const json facts = json_field(in, "json");
  const json* found = fact(facts, name);
  if (!found || found->is_null()) return {};
  const json list = found->is_array() ? *found : json::array({*found});
  std::vector<std::string> out;
  for (const auto& text : list) {
    if (!text.is_string())
      throw Error(KINORA_ERROR_DATA, "sample '" + std::string(in.key()) + "': its fact " + name +
                                         " must be a text or a list of texts");
    out.push_back(text.get<std::string>());
  }
  return out;
}

}  // namespace

void CaptionChoose::describe(Describe<Options>& d) {
  d.name(kChoose)
      .help("Makes one of several captions the sample's caption, drawn anew for each slot")
      .draws();
  d.option("of", &Options::of)
      .help(
          "captions to choose from: names of fields, or of facts that are a text or a list of texts; dots "
          "lead "
          "into objects: llava.short; names that a sample lacks are left out");
  d.option("weights", &Options::weights)
      .at_least(0)
      .help(
          "relative frequency with which each of them is chosen; a list shares its weight; empty: equally "
          "often");
  d.option("dropout", &Options::dropout).range(0, 1).help("share of samples whose caption becomes empty");
}

CaptionChoose::CaptionChoose(const Options& o) : options_(o) {
  auto& weights = options_.weights;
  if (weights.empty()) weights.assign(o.of.size(), 1.0);
  if (weights.size() != o.of.size() || !(std::accumulate(weights.begin(), weights.end(), 0.0) > 0))
    throw Error(KINORA_ERROR_INVALID, "caption.choose: " + std::to_string(weights.size()) + " weights of " +
                                          std::to_string(o.of.size()) +
                                          " captions; give one for each entry of `of`, at least one above 0");
}

void CaptionChoose::process(Sample in, const Emit& emit, const Run& run) {
  std::vector<Caption> all;
  double sum = 0;
  for (size_t i = 0; i < options_.of.size(); ++i) {
    if (options_.weights[i] == 0) continue;
    const auto texts = captions(in, options_.of[i]);
    for (const auto& text : texts)
      all.push_back({text, options_.weights[i] / static_cast<double>(texts.size())});
    sum += texts.empty() ? 0 : options_.weights[i];
  }
  if (all.empty()) {
    std::string names;
    for (const auto& name : options_.of) names += (names.empty() ? "" : ", ") + name;
    throw Error(KINORA_ERROR_DATA,
                "sample '" + std::string(in.key()) + "' has none of the captions " + names);
  }
  const auto [drops, at] = drawn(in, run, kChoose);
  double left = at * sum;
  size_t chosen = 0;
  while (chosen + 1 < all.size() && left >= all[chosen].weight) left -= all[chosen++].weight;
  in.set("txt", drops < options_.dropout ? std::string_view() : std::string_view(all[chosen].text));
  emit(std::move(in));
}

}  // namespace kinora::transforms

using kinora::transforms::CaptionChoose;
KINORA_COMPONENT(CaptionChoose)
KINORA_PLUGIN(CaptionChoose, VideoCrop, VideoFlip)
