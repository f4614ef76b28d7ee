// stage/filter.endpoint: a vision model answers questions about a clip and decides whether to keep it.
#include <algorithm>

#include "answers.hpp"
#include "asking_stage.hpp"
#include "kinora/plugin.hpp"
#include "pictures.hpp"
#include "prompt.hpp"

namespace kinora::endpoint {
namespace {

constexpr const char* kForm =
    "\n\nAnswer with one JSON object and nothing else: {\"keep\": true or false, \"reason\": \"one "
    "sentence\", "
    "\"labels\": [\"lower-case words that name what the video shows\"]}";

const Json& verdict_schema() {
  static const Json schema{{"type", "object"},
                           {"properties",
                            {{"keep", {{"type", "boolean"}}},
                             {"reason", {{"type", "string"}}},
                             {"labels", {{"type", "array"}, {"items", {{"type", "string"}}}}}}},
                           {"required", {"keep", "reason", "labels"}},
                           {"additionalProperties", false}};
  return schema;
}

}  // namespace

class FilterEndpoint final : public AskingStage {
 public:
  struct Options : ChatOptions, PictureOptions, FilterOptions {
    Options() {
      max_tokens = 512;
      max_frames = 16;
    }
    std::string prompt =
        "These are frames of one video in their order. Should it be used to teach a model how the real world "
        "looks and moves? Reject "
        "slides, screen recordings, games, still pictures, collages and videos covered by text or graphics.";
    std::string picture_prompt =
        "Should this picture be used to teach a model how the real world looks? Reject slides, screenshots, "
        "games, "
        "collages and pictures covered by text or graphics.";
    std::vector<std::string> allow, block;
  };
  static void describe(Describe<Options>& d) {
    d.name("filter.endpoint")
        .help(
            "Asks a vision model whether to keep a clip; it answers {keep, reason, labels}, and labels "
            "may be allowed or blocked");
    d.input("frames", "[T, H, W, 3]", "uint8", "sampled RGB frames, upright");
    d.option("prompt", &Options::prompt).help("questions about the clip; the form of the answer is appended");
    d.option("picture_prompt", &Options::picture_prompt)
        .help("questions about a picture that is not a frame of a video");
    d.option("allow", &Options::allow)
        .help("allowed labels; a clip with none of them is filtered; empty: all are allowed");
    d.option("block", &Options::block).help("blocked labels; a clip with one of them is filtered");
    describe_filter(d);
    describe_pictures(d);
    describe_chat(d);
  }
  explicit FilterEndpoint(const Options& o)
      : AskingStage("filter.endpoint", o, "/chat/completions"), options_(o) {
    for (auto* list : {&options_.allow, &options_.block})
      for (auto& label : *list) label = lower_case(label);
  }

 private:
  std::optional<Drop> answer(Sample& in, Json& facts, const Run& run) override {
    const Pictures frames = frames_of(in);
    const std::string prompt = (is_picture(in) ? options_.picture_prompt : options_.prompt) + kForm;
    const auto picked = spread(static_cast<size_t>(frames.count), options_.max_frames);
    const Question question{std::string(in.key()), [&] { return body(frames, picked, prompt); },
                            guess_tokens(options_, prompt, picked.size())};
    const Chat chat = chat_of(ask(question, facts, run));
    Verdict verdict = verdict_of(object_in(chat.text));
    decide(verdict);
    facts["filter.endpoint"] = {{"keep", verdict.keep},
                                {"reason", verdict.reason},
                                {"labels", verdict.labels},
                                {"model", options_.model}};
    const double score = verdict.keep ? 1 : 0;
    note_score(facts, name(), score);
    if (verdict.keep || options_.mode == "score") return std::nullopt;
    return Drop{score};
  }

  // The lists overrule the model: first blocked labels, then labels that are not allowed.
  void decide(Verdict& verdict) const {
    const auto in_list = [&](const std::vector<std::string>& list) {
      return std::find_first_of(verdict.labels.begin(), verdict.labels.end(), list.begin(), list.end());
    };
    if (const auto blocked = in_list(options_.block); blocked != verdict.labels.end()) {
      verdict.keep = false;
      verdict.reason = "label '" + *blocked + "' is blocked; " + verdict.reason;
    } else if (!options_.allow.empty() && in_list(options_.allow) == verdict.labels.end()) {
      verdict.keep = false;
      verdict.reason = "none of its labels is allowed; " + verdict.reason;
    }
  }

  std::string body(const Pictures& frames, const std::vector<size_t>& picked,
                   const std::string& prompt) const {
    std::vector<std::string> urls;
    for (const size_t i : picked)
      urls.push_back(data_url(frames, i, options_.max_side, static_cast<int>(options_.quality)));
    Json request = chat_request(options_, prompt, urls, options_.detail);
    set_format(request, options_.form, "verdict", verdict_schema());
    return client().body(std::move(request));
  }

  Options options_;
};

}  // namespace kinora::endpoint

using kinora::endpoint::FilterEndpoint;
KINORA_COMPONENT(FilterEndpoint)
