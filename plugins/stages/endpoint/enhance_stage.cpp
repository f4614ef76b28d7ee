// stage/caption.enhance: rewrites captions with a language model as a second pass.
#include "answers.hpp"
#include "asking_stage.hpp"
#include "kinora/plugin.hpp"
#include "prompt.hpp"

namespace kinora::endpoint {

class CaptionEnhance final : public AskingStage {
 public:
  struct Options : ChatOptions {
    std::string prompt =
        "Rewrite this description of a video so that it is precise, fluent and complete. Keep every fact, "
        "add none, and "
        "answer with the description alone.\n\n{caption}";
    bool replace_user = false;
  };
  static void describe(Describe<Options>& d) {
    d.name("caption.enhance")
        .help(
            "Rewrites captions with a language model behind an OpenAI-compatible server; the original "
            "stays in the facts");
    d.option("prompt", &Options::prompt)
        .help(
            "instruction; {caption} is replaced by the caption, {duration_s} or {bin.aspect} by facts, "
            "{{ by a brace");
    d.option("replace_user", &Options::replace_user).help("rewrite the user's own captions as well");
    describe_chat(d);
  }
  explicit CaptionEnhance(const Options& o)
      : AskingStage("caption.enhance", o, "/chat/completions"), options_(o), prompt_(o.prompt) {}

 private:
  std::optional<Drop> answer(Sample& in, Json& facts, const Run& run) override {
    const std::string_view caption = caption_of(in, "rewrite");
    if (captioned_by_user(in, facts) && !options_.replace_user) return std::nullopt;
    const std::string prompt = prompt_.fill(caption, facts);
    const Question question{std::string(in.key()),
                            [&] { return client().body(chat_request(options_, prompt)); },
                            guess_tokens(options_, prompt, 0)};
    const Chat chat = chat_of(ask(question, facts, run));
    if (chat.cut && options_.cut == "fail")
      throw Error(
          KINORA_ERROR_DATA,
          "the rewritten caption ended at max_tokens; raise max_tokens, or accept it with cut = \"keep\"");
    Json original =
        facts.contains("caption") && facts["caption"].is_object() ? facts["caption"] : Json::object();
    original["text"] = caption;
    facts["caption"] = {{"by", name()},
                        {"model", options_.model},
                        {"prompt", options_.prompt},
                        {"original", std::move(original)}};
    in.set("txt", chat.text);
    return std::nullopt;
  }

  Options options_;
  Template prompt_;
};

}  // namespace kinora::endpoint

using kinora::endpoint::CaptionEnhance;
KINORA_COMPONENT(CaptionEnhance)
