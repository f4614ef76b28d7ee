// stage/filter.ocr: share of the picture covered by text, read by a vision model.
#include <algorithm>
#include <numeric>

#include "answers.hpp"
#include "asking_stage.hpp"
#include "kinora/plugin.hpp"
#include "pictures.hpp"
#include "prompt.hpp"

namespace kinora::endpoint {
namespace {

std::string question_text(int64_t scale) {
  return "Find all text that was laid over this picture or stands in it: titles, subtitles, captions, "
         "watermarks, logos, signs. Answer "
         "with one JSON object and nothing else: {\"regions\": [{\"text\": \"what it says\", \"box\": [left, "
         "top, right, bottom]}]}, with "
         "coordinates from 0 at the left and top to " +
         std::to_string(scale) + " at the right and bottom. Without text, regions is empty.";
}

const Json& regions_schema() {
  static const Json region{
      {"type", "object"},
      {"properties",
       {{"text", {{"type", "string"}}}, {"box", {{"type", "array"}, {"items", {{"type", "number"}}}}}}},
      {"required", {"text", "box"}},
      {"additionalProperties", false}};
  static const Json schema{{"type", "object"},
                           {"properties", {{"regions", {{"type", "array"}, {"items", region}}}}},
                           {"required", Json::array({"regions"})},
                           {"additionalProperties", false}};
  return schema;
}

}  // namespace

class FilterOcr final : public AskingStage {
 public:
  struct Options : ChatOptions, PictureOptions, FilterOptions {
    Options() { max_side = 1024; }
    int64_t every = 3, scale = 1000;
    double max_area = 0.05;
    std::string reduce = "max";
  };
  static void describe(Describe<Options>& d) {
    d.name("filter.ocr")
        .help(
            "Measures the share of the picture that text covers, read by a vision model, and drops clips "
            "with too much");
    d.score("filter.ocr", "Readable text", "of the picture");
    d.input("frames", "[T, H, W, 3]", "uint8", "sampled RGB frames, upright");
    d.option("every", &Options::every)
        .range(1, 1 << 20)
        .unit("frames")
        .help("step between frames of the tensor that are sent, one request each");
    d.option("max_area", &Options::max_area).range(0, 1).help("largest share that passes");
    d.option("reduce", &Options::reduce)
        .choices({"max", "mean", "min"})
        .help("combination of the frames' shares into the score");
    d.option("scale", &Options::scale)
        .range(1, 1 << 20)
        .help("coordinate of the right and bottom edge in the model's answers");
    describe_filter(d);
    describe_pictures(d);
    describe_chat(d);
  }
  explicit FilterOcr(const Options& o)
      : AskingStage("filter.ocr", o, "/chat/completions"), options_(o), prompt_(question_text(o.scale)) {}

 private:
  std::optional<Drop> answer(Sample& in, Json& facts, const Run& run) override {
    const Pictures frames = frames_of(in);
    const Timeline timeline = timeline_of(facts, frames.count);
    std::vector<size_t> taken;
    for (int64_t i = 0; i < frames.count; i += options_.every) taken.push_back(static_cast<size_t>(i));
    std::vector<size_t> picked;
    for (const size_t i : spread(taken.size(), options_.max_frames)) picked.push_back(taken[i]);
    const std::string key(in.key());
    const auto answers = ask_all(
        picked.size(), [&](size_t i) { return question(key, frames, picked[i]); }, facts, run);
    std::vector<double> shares;
    Json told = Json::array();
    for (size_t i = 0; i < picked.size(); ++i) {
      const TextRegions read =
          text_regions(object_in(chat_of(answers[i]).text), static_cast<double>(options_.scale));
      shares.push_back(read.share);
      Json frame{{"frame", picked[i]}, {"share", read.share}, {"texts", read.texts}};
      if (facts.contains("frames_at")) frame["at"] = timeline.at[picked[i]];
      told.push_back(std::move(frame));
    }
    const double score = reduced(shares);
    facts["ocr"] = {{"model", options_.model}, {"frames", told}};
    note_score(facts, name(), score);
    if (score <= options_.max_area || options_.mode == "score") return std::nullopt;
    note_bound(facts, name(), score, 0, options_.max_area);
    return Drop{score};
  }

  double reduced(const std::vector<double>& shares) const {
    if (options_.reduce == "max") return *std::max_element(shares.begin(), shares.end());
    if (options_.reduce == "min") return *std::min_element(shares.begin(), shares.end());
    return std::accumulate(shares.begin(), shares.end(), 0.0) / static_cast<double>(shares.size());
  }

  Question question(const std::string& key, const Pictures& frames, size_t i) const {
    return {key, [this, &frames, i] { return body(frames, i); }, guess_tokens(options_, prompt_, 1),
            ", frame " + std::to_string(i)};
  }

  std::string body(const Pictures& frames, size_t i) const {
    Json request = chat_request(options_, prompt_,
                                {data_url(frames, i, options_.max_side, static_cast<int>(options_.quality))},
                                options_.detail);
    set_format(request, options_.form, "regions", regions_schema());
    return client().body(std::move(request));
  }

  Options options_;
  std::string prompt_;
};

}  // namespace kinora::endpoint

using kinora::endpoint::FilterOcr;
KINORA_COMPONENT(FilterOcr)
